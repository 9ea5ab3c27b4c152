//! A leader that hands over in good order (docs/replication.md, section 7): calls that come wait,
//! those that were taken are answered, and then another member leads.
//!
//! ```text
//! awaiting --(a node could lead)--> holding --(drained)--> proposing
//! proposing --(deposed: another leads)--> over
//! ```
//!
//! Each step has a time limit, after which this node leads on. Promises that a group is asked to
//! hand over only when nothing is executed any more, so that no call has an unknown outcome; and
//! that an ending node stays while no other node could lead, as long as one is on the way to that
//! and there is time: a member that was just added cannot lead (decision 0046). Other nodes that
//! end are neither handed over to nor waited for (decision 0101). A member that cannot run all
//! procedures replaces one that can only if that one ends and no other member that does not end can
//! run them (decision 0102).

use crate::cause::NodeEffects;
use crate::group_replica::GroupReplica;
use crate::handing::{HandingOver, NotHandedOver, Step};
use crate::membership;
use ferrite_base::{NodeId, planted};
use ferrite_group::{Among, CannotHandOver, Successor};
use ferrite_meta::State;

/// How long to wait for calls that were taken, while others wait.
const DRAIN_NANOS: u64 = 1_000_000_000;
/// How long to wait for a copy that still has something to apply, before calls wait; and while they
/// do.
const APPLY_NANOS: u64 = 300_000_000;
const APPLY_LAST_NANOS: u64 = 80_000_000;
/// How long to wait for the metadata.
const DECIDE_NANOS: u64 = 3_000_000_000;
/// The same for a node that ends. Another leader is then chosen once it has said goodbye.
const LEAVE_NANOS: u64 = 500_000_000;
/// How long a node that ends waits once more for a node that could lead, when its clients are gone.
const LEAVE_PATIENCE_NANOS: u64 = 1_500_000_000;
/// A node that runs, as far as the metadata knows, follows and has answered by then, or is not
/// waited for.
const FOLLOW_NANOS: u64 = 2_000_000_000;
/// The same if no other node runs: one may have started, and the news is on its way.
const NEWS_NANOS: u64 = 300_000_000;

impl GroupReplica {
    /// Begins to hand over. `patience`: how long a node that ends waits for a node that could lead,
    /// in nanoseconds; otherwise the node that is to lead has a copy.
    pub fn hand_over(
        &mut self,
        to: Option<NodeId>,
        patience: Option<u64>,
        state: &State,
        effects: &mut dyn NodeEffects,
    ) -> Result<(), NotHandedOver> {
        if self.handing.is_some() {
            return Err(NotHandedOver::UnderWay);
        }
        if !self.serves() {
            return Err(NotHandedOver::Cannot(CannotHandOver::NotLeading));
        }
        match self.group.may_hand_over(to) {
            Err(CannotHandOver::Alone)
                if patience.is_some() && membership::has_others(state, self.here, &self.ending) => {}
            // What is impossible is not waited for.
            possible => possible.map_err(NotHandedOver::Cannot)?,
        }
        let ends = patience.is_some();
        let patience = patience.unwrap_or(DECIDE_NANOS);
        self.handing = Some(HandingOver::begin(to, patience, ends, false));
        self.hand_on(state, effects);
        Ok(())
    }

    /// The same for a node that ends and of which no caller wants anything any more.
    pub fn leave(&mut self, state: &State, effects: &mut dyn NodeEffects) {
        if self.handing.take().is_some() {
            self.end_hand_over(Err(NotHandedOver::UnderWay), effects);
        }
        if self.group.is_leading() {
            self.handing = Some(HandingOver::begin(None, LEAVE_PATIENCE_NANOS, true, true));
            self.hand_on(state, effects);
        }
    }

    /// Whether it waits for a node that could lead, and so asks for news of one.
    pub fn awaits_successor(&self) -> bool {
        self.handing.is_some_and(|handing| handing.step == Step::Awaiting)
    }

    pub fn is_handing_over(&self) -> bool {
        self.handing.is_some()
    }

    /// Proceeds, if it can; returns whether it did. `state`: the metadata as far as it is known.
    pub fn hand_on(&mut self, state: &State, effects: &mut dyn NodeEffects) -> bool {
        let Some(handing) = self.handing else { return false };
        if !self.serves() {
            // The partitions of a leader that was just chosen are not there yet.
            if handing.leaves && handing.step == Step::Awaiting && self.group.is_leading() {
                return false;
            }
            self.handing = None;
            if !handing.leaves {
                let next = membership::leader(state, self.group.id()).filter(|next| *next != self.here);
                self.end_hand_over(next.ok_or(NotHandedOver::Replaced), effects);
            }
            return true;
        }
        let mut handing = handing;
        if handing.step == Step::Awaiting {
            match self.group.successor(handing.to) {
                Successor::Ready => {}
                Successor::Unable { comes: false, .. } if handing.ends => handing.among = Among::All,
                Successor::Unable { .. } if handing.among == Among::All => {}
                _ => return false,
            }
        }
        match handing.step {
            Step::Awaiting if !handing.leaves => {
                effects.hold(self.group.id(), true);
                self.handing = Some(HandingOver { step: Step::Holding, since: None, ..handing });
                true
            }
            Step::Holding if !effects.is_drained(self.group.id()) && !planted!(UndrainedHandOver) => false,
            Step::Awaiting | Step::Holding => {
                match self.group.hand_over(handing.to, handing.among) {
                    Ok(()) => self.handing = Some(HandingOver { step: Step::Proposing, since: None, ..handing }),
                    Err(reason) => self.gives_up(NotHandedOver::Cannot(reason), effects),
                }
                true
            }
            Step::Proposing => false,
        }
    }

    /// Ends what takes too long.
    pub fn advance_hand_over(&mut self, now: u64, state: &State, effects: &mut dyn NodeEffects) {
        let Some(handing) = &mut self.handing else { return };
        let waited = now.saturating_sub(*handing.since.get_or_insert(now));
        let successor = self.group.successor(handing.to);
        // The nodes that could have led end, too, as they have said since calls began to wait.
        let is_vain = handing.step != Step::Awaiting
            && handing.to.is_none()
            && !self.group.has_proposed_another()
            && self.group.is_left_alone();
        let unable = match successor {
            Successor::Unable { node, .. } if handing.among == Among::Able => Some(node),
            _ => None,
        };
        let cannot = |node| NotHandedOver::Cannot(CannotHandOver::Unable(node));
        let (most, reason) = match handing.step {
            _ if is_vain => (0, NotHandedOver::Cannot(CannotHandOver::Alone)),
            Step::Awaiting => {
                let followed = handing.followed.get_or_insert(now);
                if successor != Successor::Nobody {
                    *followed = now;
                }
                let kept = state.groups().get(&self.group.id());
                let runs = kept.is_some_and(|kept| membership::others_keep(kept, state, self.here, &self.ending));
                let comes = runs && now.saturating_sub(*followed) < FOLLOW_NANOS;
                let news = if membership::has_others(state, self.here, &self.ending) { NEWS_NANOS } else { 0 };
                let news = news.min(handing.patience);
                match successor {
                    Successor::Applying { node, behind } => {
                        let applying = now.saturating_sub(*handing.applying.get_or_insert(now));
                        let ends = !handing.ends && applying >= APPLY_NANOS;
                        (if ends { 0 } else { handing.patience }, NotHandedOver::Applying { node, behind })
                    }
                    Successor::Unable { node, .. } => (if handing.ends { handing.patience } else { 0 }, cannot(node)),
                    _ if runs => (if comes { handing.patience } else { news }, NotHandedOver::NoSuccessor),
                    _ => (news, NotHandedOver::Cannot(CannotHandOver::Alone)),
                }
            }
            Step::Holding if self.group.is_unanswered(DRAIN_NANOS / 2) => (DRAIN_NANOS, NotHandedOver::Unanswered),
            Step::Holding => (DRAIN_NANOS, NotHandedOver::Busy),
            Step::Proposing
                if let Some(node) = unable
                    && !self.group.has_proposed_another() =>
            {
                (0, cannot(node))
            }
            Step::Proposing if handing.leaves => (LEAVE_NANOS, NotHandedOver::Undecided),
            // Calls wait: not for what a copy has to apply.
            Step::Proposing if !self.group.has_proposed_another() && waited >= APPLY_LAST_NANOS => {
                let (node, behind) = self.group.least_behind(handing.to).unwrap_or((self.here, 0));
                let reason = NotHandedOver::Applying { node, behind };
                (if behind > 0 { APPLY_LAST_NANOS } else { DECIDE_NANOS }, reason)
            }
            Step::Proposing => (DECIDE_NANOS, NotHandedOver::Undecided),
        };
        if waited < most {
            return;
        }
        self.ends_step(reason, waited, unable.is_some(), effects);
    }

    /// The step has taken as long as it may.
    fn ends_step(&mut self, reason: NotHandedOver, waited: u64, is_unable: bool, effects: &mut dyn NodeEffects) {
        let Some(handing) = self.handing else { return };
        let is_open = match handing.step {
            Step::Awaiting => true,
            Step::Holding => false,
            Step::Proposing => !self.group.has_proposed_another(),
        };
        let is_behind = handing.step == Step::Proposing && matches!(reason, NotHandedOver::Applying { .. });
        if handing.ends && is_open && is_unable {
            self.takes_any(effects);
        } else if handing.ends && is_open && is_behind && handing.patience > waited {
            // The copy that was to lead fell behind when calls waited already. They are executed
            // here until it has applied what there is.
            self.group.keep_lead();
            effects.hold(self.group.id(), false);
            self.handing = Some(HandingOver::begin(handing.to, handing.patience - waited, true, handing.leaves));
        } else {
            self.gives_up(reason, effects);
        }
    }

    /// For a node that ends: a leader that cannot run everything is better than none.
    fn takes_any(&mut self, effects: &mut dyn NodeEffects) {
        let Some(handing) = &mut self.handing else { return };
        handing.among = Among::All;
        if handing.step == Step::Proposing
            && let Err(reason) = self.group.hand_over(handing.to, Among::All)
        {
            self.gives_up(NotHandedOver::Cannot(reason), effects);
        }
    }

    /// It leads on, unless the node ends: then it says goodbye.
    fn gives_up(&mut self, reason: NotHandedOver, effects: &mut dyn NodeEffects) {
        let Some(handing) = self.handing.take() else { return };
        if !handing.leaves {
            if handing.step == Step::Proposing {
                self.group.keep_lead();
            }
            self.end_hand_over(Err(reason), effects);
        }
    }

    fn end_hand_over(&mut self, outcome: Result<NodeId, NotHandedOver>, effects: &mut dyn NodeEffects) {
        if !planted!(HeldForEver) {
            effects.hold(self.group.id(), false);
        }
        effects.handed_over(self.group.id(), outcome);
    }
}
