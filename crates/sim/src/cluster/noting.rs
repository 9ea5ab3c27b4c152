//! Between a group and its node: writes down what the group says before it goes on.

use crate::cluster::invariants::committed;
use crate::cluster::ledger::Ledger;
use ferrite_base::{GroupId, NodeId};
use ferrite_cluster::{Cause, Host};
use ferrite_group::{GroupEvent, GroupHost, SharedEntry, Urgency};
use ferrite_partition::waker::WakingSender;
use ferrite_replica::group::Member;
use std::sync::Arc;

pub struct Noting {
    pub host: Arc<Host>,
    pub here: Member,
    pub ledger: Ledger,
    pub causes: WakingSender<Cause>,
    /// The copy is to read so many positions from its log, as where many wait already, one run of
    /// them in so many.
    pub from_log: (u64, u64),
}

impl GroupHost for Noting {
    fn send(&self, to: NodeId, urgency: Urgency, message: Vec<u8>) {
        self.host.send(to, urgency, message);
    }

    fn committed(&self, group: GroupId, entries: Vec<SharedEntry>) {
        self.ledger.with(|book| {
            for entry in &entries {
                committed::note(book, group, self.here, entry.header.mark);
            }
        });
        match entries.last().map(|last| last.header.mark.position) {
            Some(last) if (last.0 / self.from_log.0).is_multiple_of(self.from_log.1) => {
                // A node that has ended does nothing more.
                let _ = self.causes.send(Cause::CommittedUpTo(group, last));
            }
            _ => self.host.committed(group, entries),
        }
    }

    fn has_lease(&self) -> bool {
        self.host.has_lease()
    }

    fn may_lead(&self) -> bool {
        self.host.may_lead()
    }

    fn event(&self, group: GroupId, event: GroupEvent) {
        if let GroupEvent::Deposed(place) = &event {
            self.ledger.with(|book| committed::note(book, group, self.here, place.end));
        }
        self.host.event(group, event);
    }
}
