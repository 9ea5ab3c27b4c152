//! What is known here of the cluster's nodes: one value, replaced as a whole, never by an earlier
//! one. A leaf: the cluster writes it, the threads that tell clients read it.
//!
//! Promises that a client never hears that this node leads after its lease has ended: a process
//! that stood still knows nothing yet of the node that leads since (docs/replication.md, section
//! 8).

use arc_swap::{ArcSwap, ArcSwapOption};
use ferrite_cluster::Lease;
use ferrite_system::hosts::Hosts;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

pub struct Topology {
    hosts: ArcSwap<Hosts>,
    /// This node among them, and the lease by which it leads. None: a server without others.
    lead: OnceLock<(i32, Lease)>,
    /// A client did not hear that this node leads, although that was the last that is known.
    withheld: AtomicBool,
    /// As the leader sent them to this node while that had no copy.
    procedures: ArcSwapOption<ToldProcedures>,
    /// Held while it is replaced.
    replacing: Mutex<()>,
}

/// What subscribers hear of the procedures.
pub struct ToldProcedures {
    /// Of the catalog.
    pub version: u64,
    /// A whole message.
    pub push: Vec<u8>,
}

impl Topology {
    pub fn new(hosts: Hosts) -> Topology {
        let hosts = ArcSwap::from_pointee(hosts);
        let procedures = ArcSwapOption::empty();
        let lead = OnceLock::new();
        let withheld = AtomicBool::new(false);
        Topology { hosts, lead, withheld, procedures, replacing: Mutex::default() }
    }

    /// This node of a cluster leads only while that lease holds.
    ///
    /// # Panics
    /// When called twice.
    pub fn leads_by(&self, here: i32, lease: Lease) {
        assert!(self.lead.set((here, lease)).is_ok(), "a node has one lease");
    }

    /// As of now.
    pub fn hosts(&self) -> Arc<Hosts> {
        let hosts = self.hosts.load_full();
        let leads = |here: i32| hosts.groups.iter().any(|group| group.leader == Some(here));
        let Some((here, lease)) = self.lead.get().filter(|(here, _)| leads(*here)) else { return hosts };
        if lease.holds() {
            return hosts;
        }
        self.withheld.store(true, Ordering::SeqCst);
        // Where it was granted again before that was noted, no other thread looks at it any more.
        if lease.holds() {
            return hosts;
        }
        let mut without = Hosts::clone(&hosts);
        without.groups.iter_mut().for_each(|group| group.leader = group.leader.filter(|leader| leader != here));
        Arc::new(without)
    }

    /// To be called after each grant of the lease. True: clients heard that no node leads, and are
    /// to be informed again.
    pub fn leads_again(&self) -> bool {
        let withheld = self.withheld.load(Ordering::SeqCst);
        let holds = || self.lead.get().is_some_and(|(_, lease)| lease.holds());
        withheld && holds() && self.withheld.swap(false, Ordering::SeqCst)
    }

    pub fn procedures(&self) -> Option<Arc<ToldProcedures>> {
        self.procedures.load_full()
    }

    /// True: clients are to be informed.
    pub fn learn_procedures(&self, version: u64, push: &[u8]) -> bool {
        let _held = self.replacing.lock().expect("nobody panics with it");
        let is_news = self.procedures().is_none_or(|told| told.version != version || told.push != push);
        if is_news {
            self.procedures.store(Some(Arc::new(ToldProcedures { version, push: push.to_vec() })));
        }
        is_news
    }

    /// Takes what was learned. True: clients are to be informed.
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
    use ferrite_io::Clock;
    use ferrite_io::simulated::SimulatedClock;
    use ferrite_system::hosts::GroupHosts;
    use std::time::Duration;

    fn of(leader: i32, epoch: u64) -> Hosts {
        Hosts { groups: vec![GroupHosts { keep: vec![1], leader: Some(leader), epoch }], ..Hosts::alone(1) }
    }

    #[test]
    fn what_is_earlier_is_not_learned_and_the_same_is_no_news() {
        let topology = Topology::new(of(1, 3));
        assert!(topology.learn(of(2, 4)) && !topology.learn(of(2, 4)) && !topology.learn(of(1, 3)));
        assert_eq!(*topology.hosts(), of(2, 4));
        assert!(topology.procedures().is_none());
        assert!(topology.learn_procedures(7, b"seven") && !topology.learn_procedures(7, b"seven"));
        assert!(topology.learn_procedures(7, b"another's seven") && topology.learn_procedures(6, b"six"));
        assert_eq!(topology.procedures().unwrap().push, b"six");
    }

    #[test]
    fn a_lease_that_has_ended_ends_what_clients_are_told_of_the_lead() {
        const SECOND: Duration = Duration::from_secs(1);
        let clock = SimulatedClock::default();
        let lease = Lease::new(Arc::new(clock.clone()));
        let topology = Topology::new(of(1, 3));
        let leader = || topology.hosts().groups[0].leader;
        assert_eq!(leader(), Some(1), "a server without others needs no lease");
        topology.leads_by(1, lease.clone());
        assert_eq!(leader(), None, "none was granted yet");
        assert!(!topology.leads_again());
        lease.extend(clock.boottime_nanos() + SECOND.as_nanos() as u64);
        assert!(topology.leads_again() && !topology.leads_again(), "those that were told otherwise hear of it, once");
        assert_eq!(leader(), Some(1));
        // The process stands still meanwhile.
        clock.advance(SECOND);
        assert_eq!(leader(), None, "another may lead");
        // The second group is led by another node, and so is the first one later.
        let mut both = of(1, 3);
        both.groups.push(GroupHosts { keep: vec![1, 2], leader: Some(2), epoch: 7 });
        assert!(topology.learn(both));
        assert_eq!(topology.hosts().groups.iter().map(|group| group.leader).collect::<Vec<_>>(), [None, Some(2)]);
        assert!(topology.learn(of(2, 4)));
        assert_eq!(leader(), Some(2), "what another node leads needs no lease of this one");
    }
}
