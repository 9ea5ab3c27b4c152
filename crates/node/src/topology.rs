//! What is known here of the cluster's nodes: one value, replaced as a whole, never by an earlier
//! one. A leaf: the cluster writes it, whoever tells clients reads it.

use arc_swap::{ArcSwap, ArcSwapOption};
use ferrite_system::hosts::Hosts;
use std::sync::{Arc, Mutex};

pub struct Topology {
    hosts: ArcSwap<Hosts>,
    /// As the leader said them to this node while that had no copy.
    procedures: ArcSwapOption<ToldProcedures>,
    /// Held while it is replaced.
    replacing: Mutex<()>,
}

/// What subscribers are told of the procedures.
pub struct ToldProcedures {
    /// Of the catalog.
    pub version: u64,
    /// A whole message.
    pub push: Vec<u8>,
}

impl Topology {
    pub fn new(hosts: Hosts) -> Topology {
        let (hosts, procedures) = (ArcSwap::from_pointee(hosts), ArcSwapOption::empty());
        Topology { hosts, procedures, replacing: Mutex::default() }
    }

    pub fn hosts(&self) -> Arc<Hosts> {
        self.hosts.load_full()
    }

    pub fn procedures(&self) -> Option<Arc<ToldProcedures>> {
        self.procedures.load_full()
    }

    /// True: clients are to be told.
    pub fn learn_procedures(&self, version: u64, push: &[u8]) -> bool {
        let _held = self.replacing.lock().expect("nobody panics with it");
        let is_news = self.procedures().is_none_or(|told| told.version != version || told.push != push);
        if is_news {
            self.procedures.store(Some(Arc::new(ToldProcedures { version, push: push.to_vec() })));
        }
        is_news
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
        assert!(topology.procedures().is_none());
        assert!(topology.learn_procedures(7, b"seven") && !topology.learn_procedures(7, b"seven"));
        assert!(topology.learn_procedures(7, b"another's seven") && topology.learn_procedures(6, b"six"));
        assert_eq!(topology.procedures().unwrap().push, b"six");
    }
}
