//! Between a group and its node: writes down what the group says before it goes on.

use crate::cluster::invariants::committed;
use crate::cluster::ledger::Ledger;
use ferrite_base::{GroupId, NodeId};
use ferrite_cluster::Host;
use ferrite_group::{GroupEvent, GroupHost, SharedEntry, Urgency};
use ferrite_replica::group::Member;
use std::sync::Arc;

pub struct Noting {
    pub host: Arc<Host>,
    pub here: Member,
    pub ledger: Ledger,
}

impl GroupHost for Noting {
    fn send(&self, to: NodeId, urgency: Urgency, message: Vec<u8>) {
        self.host.send(to, urgency, message);
    }

    fn committed(&self, group: GroupId, entries: Vec<SharedEntry>) {
        self.ledger.with(|book| {
            for entry in &entries {
                committed::note(book, self.here, entry.header.mark);
            }
        });
        self.host.committed(group, entries);
    }

    fn has_lease(&self) -> bool {
        self.host.has_lease()
    }

    fn event(&self, group: GroupId, event: GroupEvent) {
        if let GroupEvent::Deposed(place) = &event {
            self.ledger.with(|book| committed::note(book, self.here, place.end));
        }
        self.host.event(group, event);
    }
}
