//! One group on a node: which role its partitions have, and what is still to be done to them, one
//! after the other. Each wait is a state.
//!
//! ```text
//! Copy --(opened)--> Rising --(all applied)--> Leader
//!      <--(all stepped back)-- Falling <--(deposed)--
//! ```
//!
//! The group is ahead of its partitions: it may have been deposed again before they lead. Its
//! events are handled in order.

use crate::GroupHandle;
use crate::cause::{Cause, NodeEffects};
use crate::failover_phase::FailoverPhase;
use crate::handing::HandingOver;
use crate::lead_return::LeadReturn;
use crate::membership::Offers;
use crate::seal_answer::SealAnswer;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::limits::COPY_ENTRIES_BYTES_MAX;
use ferrite_base::{Epoch, NodeId, Position, planted};
use ferrite_group::{GroupAppender, GroupPlace, SharedEntry};
use ferrite_meta::Phase;
use ferrite_partition::OwnLog;
use ferrite_partition::applier::{Applier, CopyEvents, CopyStart, Intake};
use ferrite_partition::coordinator::Job;
use ferrite_partition::waker::WakingSender;
use ferrite_partition::{Delivery, GroupInboxes, Promoted, SteppedBack, SteppingBack};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Entries are handed to the copy in pieces of about this many bytes.
const PIECE_BYTES: usize = 256 * 1024;

/// The ways to the parties that run a group's transactions here. They begin as copies.
pub struct Parties {
    pub partitions: GroupInboxes,
    pub coordinator: Sender<Job>,
    /// Where the group's entries are.
    pub log: OwnLog,
}

/// What the group has asked for and is not done yet.
enum Todo {
    /// Committed entries up to this one.
    Apply(Vec<u8>, Position),
    /// The same, but only the position is kept: the entries are in the log.
    ApplyUpTo(Position),
    Lead,
    Follow(Box<GroupPlace>),
}

enum Role {
    Copy(Intake),
    /// The copy applies what is left, and ends with what a leader needs.
    Rising(Receiver<Promoted>, Intake),
    Leader,
    /// The partitions step back to what is committed, which is this place.
    Falling(SteppingBack, Box<GroupPlace>),
    /// A snapshot of another node takes the place of what is here.
    Replacing,
    /// This copy is unusable.
    Broken,
}

pub(crate) struct GroupReplica {
    pub group: GroupHandle,
    pub here: NodeId,
    parties: Parties,
    role: Role,
    todo: VecDeque<Todo>,
    /// Bytes of entries in it.
    todo_bytes: usize,
    /// The place of the partitions, which have another node's snapshot, until the group has
    /// reported it.
    replaced: Option<CopyStart>,
    causes: WakingSender<Cause>,
    /// Which of the nodes that may become members were offered to this leader.
    pub offers: Offers,
    /// Whether another is to lead again.
    pub lead_return: LeadReturn,
    pub seal_answer: SealAnswer,
    /// While it hands over.
    pub handing: Option<HandingOver>,
    /// Nodes that are not handed over to: their processes end.
    pub ending: BTreeSet<NodeId>,
    /// The last epoch that it was chosen to lead, and since when it knows.
    pub led_since: Option<(Epoch, u64)>,
    /// The last accepted loss that this process has heard of.
    loss: Option<Epoch>,
    /// Why this copy is put aside: the others have lost what it has.
    lost: Option<Lost>,
}

struct Lost {
    reason: String,
    /// The rest of the node knows the metadata that it follows from.
    is_known: bool,
}

impl GroupReplica {
    /// A copy at the place that `start` gives.
    pub fn new(
        group: GroupHandle,
        parties: Parties,
        start: CopyStart,
        causes: WakingSender<Cause>,
        effects: &mut dyn NodeEffects,
    ) -> GroupReplica {
        let here = start.here;
        let mut replica = GroupReplica {
            group,
            here,
            parties,
            role: Role::Broken,
            todo: VecDeque::new(),
            todo_bytes: 0,
            replaced: None,
            causes,
            offers: Offers::default(),
            lead_return: LeadReturn::default(),
            seal_answer: SealAnswer::default(),
            handing: None,
            ending: BTreeSet::new(),
            led_since: None,
            loss: None,
            lost: None,
        };
        replica.begin_to_copy(start, effects);
        replica
    }

    /// This node leads in that epoch, as the metadata says.
    pub fn leads_in(&mut self, epoch: Epoch, now: u64) {
        if self.led_since.is_none_or(|(known, _)| known < epoch) {
            self.led_since = Some((epoch, now));
        }
    }

    /// Whether another node leads by an accepted loss, and this copy ends before that. Acknowledged
    /// entries may be nowhere else: none of it is cut or replaced after this. Call this before the
    /// group gets the configuration: until then it follows no leader.
    pub fn was_lost(&mut self, known: &ferrite_meta::Group) -> bool {
        if let (Phase::Active, Some((epoch, leader))) = (known.phase, known.loss)
            && self.loss.replace(epoch) != Some(epoch)
        {
            let end = self.group.end();
            if leader != self.here && end.position > Position(0) && end.epoch < epoch {
                let reason = format!(
                    "node {leader} has led since epoch {epoch} without what others had, and this copy, which ends at entry {} of \
                     epoch {}, may have some of it",
                    end.position, end.epoch
                );
                self.lost = Some(Lost { reason, is_known: false });
                // If it still leads an earlier epoch, its callers hear that.
                self.group.resign();
            }
        }
        self.lost.is_some()
    }

    /// Whether this copy has entries and is not to be put aside.
    pub fn has_entries(&self) -> bool {
        self.lost.is_none() && self.group.end().position > Position(0)
    }

    /// To be asked at each tick.
    pub fn is_put_aside(&mut self) -> Option<String> {
        let lost = self.lost.as_mut()?;
        std::mem::replace(&mut lost.is_known, true).then(|| lost.reason.clone())
    }

    fn begin_to_copy(&mut self, start: CopyStart, effects: &mut dyn NodeEffects) {
        let id = self.group.id();
        let causes = self.causes.clone();
        let fault = move |fault: &ferrite_partition::CopyFault| {
            // If the node has ended, this does not matter.
            let _ = causes.send(Cause::Fault(id, fault.clone()));
        };
        let publish = effects.publisher(id);
        let contents = effects.hasher(id);
        let events = CopyEvents { publish, contents, fault: Box::new(fault) };
        let (applier, intake) = Applier::new(start, self.parties.partitions.clone(), events);
        self.group.is_applied_by(intake.progress());
        effects.run(id, applier.with_log(self.parties.log.again()));
        self.role = Role::Copy(intake);
    }

    pub fn committed(&mut self, entries: &[SharedEntry]) {
        for SharedEntry { bytes, header } in entries {
            let position = header.mark.position;
            if self.todo_bytes > 0 && self.todo_bytes + bytes.len() > COPY_ENTRIES_BYTES_MAX {
                self.committed_up_to(position);
                continue;
            }
            match self.todo.back_mut() {
                Some(Todo::ApplyUpTo(last)) => {
                    *last = position;
                    continue;
                }
                Some(Todo::Apply(piece, last)) if piece.len() < PIECE_BYTES => {
                    piece.extend_from_slice(bytes);
                    *last = position;
                }
                _ => self.todo.push_back(Todo::Apply(bytes.to_vec(), position)),
            }
            self.todo_bytes += bytes.len();
        }
    }

    /// Further entries are committed, up to there; they are in the log or on their way to it.
    pub fn committed_up_to(&mut self, position: Position) {
        match self.todo.back_mut() {
            Some(Todo::ApplyUpTo(_)) if planted!(LogStopsShort) => {}
            Some(Todo::ApplyUpTo(last)) => *last = position,
            _ => self.todo.push_back(Todo::ApplyUpTo(position)),
        }
    }

    fn forget(&mut self) {
        self.todo.clear();
        self.todo_bytes = 0;
    }

    pub fn opened(&mut self) {
        self.todo.push_back(Todo::Lead);
    }

    pub fn deposed(&mut self, place: Box<GroupPlace>) {
        // One that never opened has executed nothing.
        let leads = match self.todo.iter().rev().find(|todo| !matches!(todo, Todo::Apply(..) | Todo::ApplyUpTo(_))) {
            Some(Todo::Lead) => true,
            Some(_) => false,
            None => matches!(self.role, Role::Rising(..) | Role::Leader),
        };
        if leads {
            self.todo.push_back(Todo::Follow(place));
        }
    }

    /// The group continues after another node's snapshot; what it then reports is kept until
    /// [`GroupReplica::replaced`].
    ///
    /// # Panics
    /// If this is not a copy: its partitions would get stores while they have their own.
    pub fn replacing(&mut self, effects: &mut dyn NodeEffects) {
        let is_copy = matches!(self.role, Role::Copy(_) | Role::Replacing | Role::Broken);
        assert!(is_copy, "only a copy takes another node's snapshot");
        self.role = Role::Replacing;
        self.forget();
        if let Some(start) = self.replaced.take() {
            self.replaced(start, effects);
        }
    }

    /// The partitions have the snapshot's stores.
    pub fn replaced(&mut self, start: CopyStart, effects: &mut dyn NodeEffects) {
        if !matches!(self.role, Role::Replacing) {
            // What the group reported earlier is not taken yet.
            self.replaced = Some(start);
            return;
        }
        effects.publisher(self.group.id())(Arc::clone(&start.compiled));
        self.begin_to_copy(start, effects);
    }

    /// For a leader whose tables have not caught up yet: how many entries they lack.
    pub fn lacks_before_it_leads(&self) -> Option<u64> {
        match &self.role {
            Role::Rising(_, intake) => Some(self.group.commit().0.saturating_sub(intake.applied().0)),
            _ => None,
        }
    }

    /// Of a group that this node was chosen to lead: the epoch, and how far it has come.
    pub fn phase(&self) -> Option<(Epoch, FailoverPhase)> {
        let (epoch, _) = self.led_since.filter(|_| self.group.is_leading())?;
        let phase = match self.role {
            Role::Leader => FailoverPhase::Serve,
            _ if self.group.is_open() => FailoverPhase::Apply,
            _ => FailoverPhase::Open,
        };
        Some((epoch, phase))
    }

    /// The way to the copy's applier, if this is a copy.
    pub fn intake(&self) -> Option<&Intake> {
        match &self.role {
            Role::Copy(intake) => Some(intake),
            _ => None,
        }
    }

    pub fn is_copy(&self) -> bool {
        matches!(self.role, Role::Copy(_) | Role::Replacing)
    }

    /// Whether a fault that an applier reported concerns this copy, not one that another node's
    /// snapshot replaces, whose log is removed under an applier that has yet to end.
    pub fn has_failed(&self) -> bool {
        match &self.role {
            Role::Copy(intake) => intake.has_ended(),
            Role::Rising(..) => true,
            Role::Replacing | Role::Leader | Role::Falling(..) | Role::Broken => false,
        }
    }

    /// This copy is unusable. False: that was known.
    pub fn broken(&mut self) -> bool {
        let before = std::mem::replace(&mut self.role, Role::Broken);
        self.forget();
        if let Role::Copy(intake) = &before {
            intake.send(Delivery::Stop);
        }
        !matches!(before, Role::Broken)
    }

    /// Ends the copy of a group that leaves this node. False: it is none, or is about to lead.
    pub fn ends(&mut self) -> bool {
        let is_copy = matches!(self.role, Role::Copy(_) | Role::Replacing | Role::Broken);
        let rises = self.todo.iter().any(|todo| matches!(todo, Todo::Lead));
        if is_copy && !rises {
            self.broken();
        }
        is_copy && !rises
    }

    /// Its partitions take calls, and nothing has come that ends that.
    pub fn serves(&self) -> bool {
        matches!(self.role, Role::Leader) && self.todo.is_empty()
    }

    /// Whether something waits for a party, which does not say when it is done.
    pub fn waits(&self) -> bool {
        self.handing.is_some() || !self.todo.is_empty() || matches!(self.role, Role::Rising(..) | Role::Falling(..))
    }

    /// Does what can be done now; returns whether there was anything.
    pub fn move_on(&mut self, effects: &mut dyn NodeEffects) -> bool {
        let mut moved = false;
        while self.move_one(effects) {
            moved = true;
        }
        moved
    }

    fn move_one(&mut self, effects: &mut dyn NodeEffects) -> bool {
        match &mut self.role {
            Role::Replacing => false,
            Role::Broken => {
                self.forget();
                false
            }
            Role::Copy(intake) => match self.todo.pop_front() {
                None => false,
                Some(Todo::Apply(bytes, last)) => {
                    self.todo_bytes -= bytes.len();
                    // If others are to be applied first, these are not kept until then.
                    if intake.entries(bytes).is_err() {
                        intake.up_to(last);
                    }
                    true
                }
                Some(Todo::ApplyUpTo(last)) => {
                    intake.up_to(last);
                    true
                }
                Some(Todo::Lead) => {
                    let (to, promoted) = unbounded();
                    intake.send(Delivery::Promote(to));
                    self.role = Role::Rising(promoted, intake.clone());
                    true
                }
                Some(Todo::Follow(_)) => unreachable!("a copy is not deposed"),
            },
            Role::Rising(promoted, _) => {
                let Ok(promoted) = promoted.try_recv() else { return false };
                let log = GroupAppender::new(Arc::clone(&self.group));
                // The copy has reached the start of the leader's epoch; the group may be further.
                let epoch = promoted.place.end.epoch;
                promoted.lead(&log, self.parties.partitions.senders(), &self.parties.coordinator);
                self.role = Role::Leader;
                effects.serves(self.group.id(), Some(epoch));
                true
            }
            Role::Leader => match self.todo.pop_front() {
                None => false,
                Some(Todo::Follow(place)) => {
                    effects.serves(self.group.id(), None);
                    let stepping = SteppingBack::begin(&self.parties.coordinator, self.parties.partitions.of().len());
                    self.role = Role::Falling(stepping, place);
                    true
                }
                Some(Todo::Apply(..) | Todo::ApplyUpTo(_) | Todo::Lead) => {
                    unreachable!("a leader is deposed before it is told of others")
                }
            },
            Role::Falling(stepping, place) => {
                let Some(SteppedBack { sequences, compiled, history, lots }) = stepping.try_end() else { return false };
                let place = (**place).clone();
                self.begin_to_copy(CopyStart { here: self.here, place, sequences, compiled, history, lots }, effects);
                true
            }
        }
    }
}
