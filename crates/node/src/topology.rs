//! What is known here of the cluster's nodes: one value, replaced as a whole, never by an earlier
//! one. A leaf: the cluster writes it, whoever tells clients reads it.

use arc_swap::ArcSwap;
use ferrite_system::hosts::Hosts;
use std::sync::{Arc, Mutex};

pub struct Topology {
    hosts: ArcSwap<Hosts>,
    /// Held while it is replaced.
    replacing: Mutex<()>,
}

impl Topology {
    pub fn new(hosts: Hosts) -> Topology {
        Topology { hosts: ArcSwap::from_pointee(hosts), replacing: Mutex::default() }
    }

    pub fn hosts(&self) -> Arc<Hosts> {
        self.hosts.load_full()
    }

    /// Takes what was learned. True: clients are to be told.
    pub fn learn(&self, hosts: Hosts) -> bool {
        let _held = self.replacing.lock().expect("nobody panics with it");
        let newer = hosts.replaces(&self.hosts.load());
        if newer {
            self.hosts.store(Arc::new(hosts));
        }
        newer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_earlier_is_not_learned_and_the_same_is_no_news() {
        let of = |leader, epoch| Hosts { leader: Some(leader), epoch, ..Hosts::alone(1) };
        let topology = Topology::new(of(1, 3));
        assert!(topology.learn(of(2, 4)) && !topology.learn(of(2, 4)) && !topology.learn(of(1, 3)));
        assert_eq!(*topology.hosts(), of(2, 4));
    }
}
