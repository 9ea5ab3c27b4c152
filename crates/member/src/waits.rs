//! What a start waits for while the node has no cluster yet, for its operator.

use crate::founding::Founders;
use crate::status::{Asked, before_there_is_a_cluster};
use ferrite_system::result::SystemTable;
use std::sync::{Arc, Mutex};

/// Of one start.
#[derive(Default)]
pub struct Waits(Mutex<Option<Arc<Founders>>>);

impl Waits {
    /// It asks the others from now on; None: no more.
    pub fn set(&self, founders: Option<Arc<Founders>>) {
        *self.0.lock().expect("no panic with what is waited for") = founders;
    }

    /// As `ferrite admin status` shows it, and in words; None: it does not wait for others.
    pub fn describe(&self) -> Option<(Vec<SystemTable>, String)> {
        let founders = self.0.lock().expect("no panic with what is waited for").clone()?;
        let kfactor = founders.own().plan.kfactor;
        if let Some((hosts, reason)) = founders.asks_to_join() {
            let known: Vec<Asked> = hosts.into_iter().map(|host| Asked { host, ..Asked::default() }).collect();
            return Some((before_there_is_a_cluster(&known, kfactor, &reason), reason));
        }
        let awaits = founders.awaits();
        let asked = |(number, place): (u32, ferrite_meta::founding::Place)| Asked {
            number: Some(number),
            host: place.host,
            kind: place.declaration.as_ref().map(|declaration| declaration.kind),
            clients: place.declaration.and_then(|one| one.addresses.get(1).cloned()).unwrap_or_default(),
        };
        let known: Vec<Asked> = (1..).zip(awaits.places).map(asked).collect();
        Some((before_there_is_a_cluster(&known, kfactor, &awaits.reason), awaits.reason))
    }
}
