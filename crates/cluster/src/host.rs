//! A group's surroundings on a node: what it sends leaves at once, and so do reads that it
//! confirms; everything else becomes a cause of work.

use crate::cause::{Cause, CommittedEntries};
use crate::lease::Lease;
use ferrite_base::{GroupId, NodeId, planted};
use ferrite_group::{GroupEvent, GroupHost, SharedEntry, Urgency};
use ferrite_io::Clock;
use ferrite_partition::gate::Gate;
use ferrite_partition::waker::WakingSender;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, RwLock};

const NO_PANIC: &str = "no panic with the gates";

/// The way to other nodes. Takes a message, or loses it; never waits.
pub trait Transport: Send + Sync {
    fn send(&self, to: NodeId, urgency: Urgency, message: Vec<u8>);
}

pub struct Host {
    causes: WakingSender<Cause>,
    transport: Arc<dyn Transport>,
    /// For reads; and the one that says until when this node may lead.
    lease: Lease,
    lead: Lease,
    /// Bytes of committed entries among the causes.
    held: Arc<AtomicUsize>,
    /// The gates of each group's partitions and coordinator.
    gates: RwLock<BTreeMap<GroupId, Vec<Arc<Gate>>>>,
}

impl Host {
    /// `lease`: the one that the node extends.
    pub fn new(causes: WakingSender<Cause>, transport: Arc<dyn Transport>, lease: Lease) -> Host {
        Host { causes, transport, lead: lease.clone(), lease, held: Arc::default(), gates: RwLock::default() }
    }

    /// Reads wait for the other members, whatever the lease says.
    pub fn with_reads_by_barrier(mut self, clock: Arc<dyn Clock>) -> Host {
        // Nothing extends it.
        self.lease = Lease::new(clock);
        self
    }

    /// Where the answers of each group's partitions and coordinator wait. They exist later than the
    /// groups, and earlier than anything can wait in them.
    ///
    /// # Panics
    /// When those of a group are named twice.
    pub fn set_gates(&self, gates: BTreeMap<GroupId, Vec<Arc<Gate>>>) {
        let mut known = self.gates.write().expect(NO_PANIC);
        for (group, gates) in gates {
            assert!(known.insert(group, gates).is_none(), "the gates of a group are named once");
        }
    }

    /// The group has left the node.
    pub fn remove_gates(&self, group: GroupId) {
        self.gates.write().expect(NO_PANIC).remove(&group);
    }

    /// Reads that waited for a round leave at once, as writes do when the gates learn of their
    /// commit: what an earlier leadership's round has shown is true, and each leadership counts
    /// anew.
    fn confirmed(&self, group: GroupId, round: u64) {
        let gates = self.gates.read().expect(NO_PANIC);
        gates.get(&group).into_iter().flatten().for_each(|gate| gate.confirmed(round));
    }

    /// A node that has ended does nothing more.
    fn cause(&self, cause: Cause) {
        let _ = self.causes.send(cause);
    }
}

impl GroupHost for Host {
    fn send(&self, to: NodeId, urgency: Urgency, message: Vec<u8>) {
        self.transport.send(to, urgency, message);
    }

    fn committed(&self, group: GroupId, entries: Vec<SharedEntry>) {
        let Some(last) = entries.last().map(|entry| entry.header.mark.position) else { return };
        self.cause(match CommittedEntries::new(entries, &self.held) {
            Some(entries) => Cause::Committed(group, entries),
            None => Cause::CommittedUpTo(group, last),
        });
    }

    fn event(&self, group: GroupId, event: GroupEvent) {
        match event {
            GroupEvent::Confirmed(round) => self.confirmed(group, round),
            event => self.cause(Cause::Event(group, event)),
        }
    }

    fn has_lease(&self) -> bool {
        planted!(LeaseForEver) || self.lease.holds()
    }

    fn may_lead(&self) -> bool {
        self.lead.may_lead()
    }
}
