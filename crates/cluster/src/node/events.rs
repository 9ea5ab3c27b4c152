//! What a node does about each cause of work. A cause of a group that has left comes late, and is
//! dropped.
//!
//! Promises that a seal is answered only once its promise is durable, and that the promises of all
//! groups that are sealed together are made durable together: a node's death seals several.

use super::Node;
use crate::cause::Cause;
use crate::group_replica::GroupReplica;
use crate::membership;
use ferrite_base::{Epoch, GroupId, NodeId, Position};
use ferrite_group::GroupEvent;
use ferrite_meta::Ask;
use ferrite_notice::Notice;
use ferrite_partition::{CopyFault, ReplayError};

/// What groups have asked to be promised, and is not durable yet.
#[derive(Default)]
pub(super) struct Promising {
    asked: Vec<(GroupId, Epoch)>,
    /// Causes that had come by the time of the first: others' promises may be among them.
    before: usize,
}

impl Node {
    pub(super) fn handle(&mut self, cause: Cause) {
        if self.ended {
            return;
        }
        match cause {
            Cause::Committed(id, entries) => {
                if let Some(replica) = self.replicas.get_mut(&id) {
                    replica.committed(&entries);
                }
            }
            Cause::CommittedUpTo(id, position) => {
                if let Some(replica) = self.replicas.get_mut(&id) {
                    replica.committed_up_to(position);
                }
            }
            Cause::Event(id, event) => self.event(id, event),
            Cause::Fault(id, fault) => self.fault(id, &fault),
            Cause::Metadata { index, state, leader } => self.metadata_changed(index, state, leader),
            Cause::Lease { index, until } => self.leased(index, until),
            Cause::Lost(node) => self.groups.disconnected(node),
        }
    }

    fn event(&mut self, id: GroupId, event: GroupEvent) {
        let Some(replica) = self.replicas.get_mut(&id) else { return };
        match event {
            GroupEvent::Opened => replica.opened(),
            GroupEvent::Deposed(place) => {
                replica.deposed(place);
                self.stands_still.remove(&id);
            }
            GroupEvent::StandsStill(stands_still) => self.stands_still(id, stands_still),
            GroupEvent::Confirmed(_) => unreachable!("the host passes it on"),
            GroupEvent::Promise(epoch) => self.promise(id, epoch),
            GroupEvent::Sealed(sealed) => self.effects.ask(Ask::Sealed { group: id, sealed }),
            GroupEvent::Propose(proposal) => {
                let parent = replica.group.end();
                let from = self.here();
                self.effects.ask(Ask::Propose { group: id, from, proposal, parent });
            }
            GroupEvent::AskMetadata(_) => self.wants_news = true,
            GroupEvent::Diverged(node) if node == self.identity.node => {
                self.made_anew(id, "its entries are not the leader's");
            }
            GroupEvent::Diverged(node) => {
                self.effects.notice(Notice::CopyDiverged { group: id, node });
            }
            GroupEvent::Differs(node, entry) => {
                self.effects.notice(Notice::CopyDiffers { group: id, node, entry });
            }
            GroupEvent::Replaced => replica.replacing(&mut *self.effects),
            GroupEvent::NeedsSnapshot(node) => self.needs_snapshot(id, node),
            GroupEvent::TooLarge { to, position } => self.too_large(id, to, position),
            GroupEvent::FromLog(wanted) => self.effects.send_from_log(id, wanted),
            GroupEvent::LogFailed(failure) => {
                let others = self.replicas.iter().filter(|(other, _)| **other != id);
                others.for_each(|(_, other)| other.group.log_has_failed(failure.clone()));
                // The log has told the operator the reason and the remedy.
                self.effects.notice(Notice::TakesNoPart { group: id });
                self.goodbye();
            }
        }
    }

    fn promise(&mut self, id: GroupId, epoch: Epoch) {
        let promised = self.identity.promised.entry(id).or_default();
        *promised = epoch.max(*promised);
        if self.promising.asked.is_empty() {
            self.promising.before = self.inbox.len();
        }
        self.promising.asked.push((id, epoch));
    }

    /// To be called after each step: makes the promises durable that groups have asked for, once
    /// all have that could have, with one write. Returns whether it did.
    pub(super) fn keep_promises(&mut self) -> bool {
        let Promising { asked, before } = &mut self.promising;
        if asked.is_empty() {
            return false;
        }
        if asked.len() < self.replicas.len() && *before > 0 && !self.inbox.is_empty() {
            *before -= 1;
            return false;
        }
        let asked = std::mem::take(asked);
        let kept = self.effects.keep(&self.identity);
        for (group, epoch) in asked {
            let Some(replica) = self.replicas.get(&group) else { continue };
            match &kept {
                Ok(()) => replica.group.promised(epoch),
                // The seal is not answered. A later one may be.
                Err(error) => self.effects.notice(Notice::PromiseFailed { group, epoch, reason: error.to_string() }),
            }
        }
        true
    }

    fn fault(&mut self, id: GroupId, fault: &CopyFault) {
        let Some(replica) = self.replicas.get(&id).filter(|replica| replica.has_failed()) else { return };
        if let ReplayError::Contents { .. } = fault.reason {
            replica.group.differs(fault.entry);
        }
        self.made_anew(id, &fault.to_string());
    }

    /// The lease of a node that does not ask for one ends, and so does its lead.
    fn stands_still(&mut self, id: GroupId, stands_still: bool) {
        if stands_still {
            self.stands_still.insert(id);
            self.effects.notice(Notice::LogStalled { group: id });
        } else if self.stands_still.remove(&id) {
            self.effects.notice(Notice::LogMoves);
        }
    }

    /// A node that is no longer followed gets none.
    fn needs_snapshot(&mut self, id: GroupId, node: NodeId) {
        let process = self.known.1.nodes().get(&node).map(|known| membership::process(node, known));
        let follows = |replica: &GroupReplica| process.is_some_and(|process| replica.group.follows(process));
        if self.replicas.get(&id).is_some_and(follows) {
            self.effects.needs_snapshot(id, node);
        }
    }

    /// An entry cannot be sent; this is reported once.
    fn too_large(&mut self, id: GroupId, to: NodeId, position: Position) {
        if self.too_large.replace((id, to, position)) != Some((id, to, position)) {
            self.effects.notice(Notice::EntryTooLarge { group: id, entry: position, node: to });
        }
        self.effects.needs_snapshot(id, to);
    }

    pub(super) fn made_anew(&mut self, id: GroupId, reason: &str) {
        // The group repeats this until the process ends.
        if !self.replicas.get_mut(&id).is_some_and(GroupReplica::broken) {
            return;
        }
        self.effects.notice(Notice::CopyUnusable { group: id, reason: reason.to_owned() });
        let alone = self.kept_here_alone(id);
        self.effects.make_anew(id, reason, alone);
    }
}
