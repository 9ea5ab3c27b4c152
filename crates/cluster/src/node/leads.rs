//! Leads that a node gives up: those of a node that is cut off, and those that go back to the node
//! that their place names first.

use super::Node;
use crate::group_replica::GroupReplica;
use ferrite_group::Successor;
use ferrite_meta::CUT_OFF_NANOS;
use ferrite_notice::Notice;
use std::sync::Arc;

/// A leader that has had no lease for [`CUT_OFF_NANOS`], and has not heard from a member for
/// longer, is cut off: the others could have chosen another leader by now, so its callers wait in
/// vain.
const UNANSWERED_NANOS: u64 = 5_000_000_000;

impl Node {
    /// Calls of clients that reach this node, and no other, are answered, and they go elsewhere.
    pub(super) fn resign_where_cut_off(&mut self) {
        let since = self.lease.until().max(self.registered_at);
        if !self.registered || self.leaves {
            return;
        }
        for (id, replica) in &self.replicas {
            // One that has just been chosen has time to ask for a lease.
            let since = since.max(replica.led_since.map_or(0, |(_, since)| since));
            if self.now.saturating_sub(since) < CUT_OFF_NANOS {
                continue;
            }
            let is_dispensable = replica.group.is_dispensable();
            if (is_dispensable || replica.group.is_unanswered(UNANSWERED_NANOS))
                && let Some(epoch) = replica.group.resign()
            {
                self.resigned.insert(*id, epoch);
                self.effects.gave_up(*id, epoch);
                self.effects.notice(Notice::CutOff { group: *id, dispensable: is_dispensable });
            }
        }
    }

    /// A group that this node leads for another goes back to it: one at a time.
    pub(super) fn return_leads(&mut self) {
        let busy = self.leaves || self.hands_over || self.replicas.values().any(GroupReplica::is_handing_over);
        if busy || !self.registered {
            return;
        }
        let state = Arc::clone(&self.known.1);
        let here = self.identity.node;
        let now = self.now;
        let ending = &self.ending;
        let returns = self.replicas.iter_mut().find_map(|(id, replica)| {
            let to = replica.lead_return.to(state.groups().get(id)?, &state, here)?;
            let is_complete = replica.serves() && replica.group.successor(Some(to)) == Successor::Ready;
            let may = is_complete && !ending.contains(&to) && replica.lead_return.tries(now);
            may.then_some((*id, to))
        });
        if let Some((id, to)) = returns {
            self.hand_over(id, Some(to), None);
        }
    }

    /// Whether a group that this node leads is to go back to another, once that has everything.
    pub(super) fn returns_lead(&self) -> bool {
        let groups = self.known.1.groups();
        self.replicas.iter().any(|(id, replica)| {
            let to = |group| replica.lead_return.to(group, &self.known.1, self.identity.node);
            groups.get(id).and_then(to).is_some()
        })
    }
}
