//! What all nodes together have said that can never be otherwise again.

use crate::invariants::Violation;
use ferrite_base::{Epoch, NodeId, Position};
use ferrite_group::Identity;
use ferrite_replica::group::{Mark, Member};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Default)]
pub struct Book {
    /// What any node has called committed.
    pub committed: BTreeMap<Position, Mark>,
    /// Who has opened in each epoch.
    pub opened: BTreeMap<Epoch, Member>,
    /// What each node has made durable of itself.
    pub identities: BTreeMap<NodeId, Identity>,
    pub violation: Option<Violation>,
}

/// Clones are the same.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

impl Ledger {
    pub fn with<T>(&self, body: impl FnOnce(&mut Book) -> T) -> T {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
