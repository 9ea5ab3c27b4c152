//! Calls of several groups on their way through the sequencer, where this node leads the first
//! group (docs/decisions/0125-sequencer-of-a-node.md). Calls wait in a queue, become lots, and are
//! answered when their lot is decided.
//!
//! A state machine without threads: it is told what happened and what time it is, and says what is
//! to be sent. Invariants: a call is in exactly one place, the queue, a lot, or among those that
//! are to be looked up again, and gets one answer; an answer that shows data leaves only when all
//! that it shows is committed; two calls that share a group keep their order; a lot only reads, or
//! all of it is prepared; what was decided by what one connection said goes that way only.

mod overdue;

use crate::forward::Behind;
use crate::lots::call::GroupsCall;
use crate::lots::directory::{Leader, LeaderChange};
use crate::lots::live::{LiveLot, LotWay, WaitingCall};
use ferrite_base::limits::{LENDING_CALLS_MAX, LOT_BYTES_MAX, LOT_QUEUE_BYTES_MAX, LOT_QUEUE_CALLS_MAX, LOT_WAIT};
use ferrite_base::{Epoch, GroupId, GroupMap, NodeId, UserError};
use ferrite_group::FIRST_GROUP;
use ferrite_multi::{LotId, Outcome, Sequencer, SequencerEffect, ToAgent, ToSequencer};
use ferrite_partition::cancel::Cancellations;
use ferrite_partition::lots::{FailureVerdict, LotFailure, LotResult};
use ferrite_system::lots::LotCounts;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// After a lot that was aborted without a failure of a call, none is begun for so long.
const PAUSE_NANOS: u64 = 5_000_000;

/// A message to an agent.
#[derive(Debug)]
pub struct LotSend {
    pub group: GroupId,
    /// The way that the sequencer knows.
    pub leader: Leader,
    /// Of the sequencer.
    pub order: Epoch,
    pub message: ToAgent,
}

/// The time, in all of its forms.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub nanos: u64,
    /// Of the wall, since 1970.
    pub micros: i64,
    /// What transactions show.
    pub shown: i64,
}

/// While this node leads the first group.
struct Reign {
    epoch: Epoch,
    sequencer: Sequencer,
    lots: BTreeMap<LotId, LiveLot>,
    /// Those that count, and are answered when all groups have what they have changed.
    settling: BTreeMap<LotId, LiveLot>,
}

pub struct Sequencing {
    here: NodeId,
    map: GroupMap,
    leaders: BTreeMap<GroupId, Leader>,
    /// Groups that are handed over.
    held: BTreeSet<GroupId>,
    waiting: VecDeque<WaitingCall>,
    waiting_bytes: usize,
    /// They were divided by another catalog than a group's.
    stale: Vec<GroupsCall>,
    reign: Option<Reign>,
    /// No lot is begun before.
    begins_from: u64,
    sends: Vec<LotSend>,
    /// When it was told last that time has passed.
    ticked: u64,
    cancellations: Arc<Cancellations>,
    counts: LotCounts,
    /// This process ends.
    ends: bool,
}

impl Sequencing {
    pub fn new(here: NodeId, map: GroupMap, cancellations: Arc<Cancellations>) -> Sequencing {
        Sequencing {
            here,
            map,
            leaders: BTreeMap::new(),
            held: BTreeSet::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            stale: Vec::new(),
            reign: None,
            begins_from: 0,
            sends: Vec::new(),
            ticked: 0,
            cancellations,
            counts: LotCounts::default(),
            ends: false,
        }
    }

    /// What is to be sent, in this order.
    pub fn sends(&mut self) -> Vec<LotSend> {
        std::mem::take(&mut self.sends)
    }

    /// What became of calls and lots up to now.
    pub fn counts(&self) -> LotCounts {
        let lots = || self.reign.iter().flat_map(|reign| reign.lots.values());
        let open_nanos = lots().map(|live| self.ticked.saturating_sub(live.began)).max().unwrap_or(0);
        let waiting = self.waiting.len() as u64;
        LotCounts { waiting, open: lots().count() as u64, open_millis: open_nanos / 1_000_000, ..self.counts }
    }

    /// Nothing waits, and nothing is under way.
    pub fn rests(&self) -> bool {
        let is_done = |reign: &Reign| reign.lots.is_empty() && reign.settling.is_empty() && reign.sequencer.rests();
        self.waiting.is_empty() && self.stale.is_empty() && self.reign.as_ref().is_none_or(is_done)
    }

    /// Takes a call, or refuses it.
    pub fn call(&mut self, call: GroupsCall, now: Moment) {
        if self.reign.is_none() {
            return call.refuse(&not_sequencer());
        }
        let bytes = call.bytes();
        if self.waiting.len() >= LOT_QUEUE_CALLS_MAX || self.waiting_bytes + bytes > LOT_QUEUE_BYTES_MAX {
            return call.refuse(&queue_full());
        }
        self.waiting_bytes += bytes;
        let parts = call.parts(&self.map);
        assert!(parts.len() > 1, "a call of one group goes to its coordinator");
        let way = if call.is_alone() { LotWay::Alone } else { LotWay::Any };
        self.waiting.push_back(WaitingCall { call, parts, came: now.nanos, way, begun: 0 });
    }

    /// Done when the calls that are here are answered, or have been looked up again.
    pub fn behind(&mut self, mark: &Arc<Behind>) {
        let lots = self.reign.iter_mut().flat_map(|reign| reign.lots.values_mut().chain(reign.settling.values_mut()));
        let of_lots = lots.flat_map(|live| &mut live.calls);
        let calls = self.waiting.iter_mut().chain(of_lots).map(|of| &mut of.call).chain(&mut self.stale);
        calls.for_each(|call| call.behind.push(Arc::clone(mark)));
    }

    /// Another leader, or none.
    pub fn change(&mut self, change: LeaderChange, now: Moment) {
        // What was decided before goes the way of before.
        self.carry_out(now);
        match change {
            LeaderChange::Lost(group, leader) => {
                self.leaders.remove(&group);
                self.held.remove(&group);
                match &mut self.reign {
                    Some(_) if group == FIRST_GROUP && leader.node == self.here => self.end_reign(),
                    Some(reign) => reign.sequencer.lost(group),
                    None => {}
                }
            }
            LeaderChange::Led(group, leader) => {
                self.leaders.insert(group, leader);
                if group == FIRST_GROUP && leader.node == self.here {
                    if !self.ends {
                        self.begin_reign(leader.epoch);
                    }
                } else if let Some(reign) = &mut self.reign {
                    reign.sequencer.led(group, leader.epoch);
                }
            }
            LeaderChange::Holds(group, true) => drop(self.held.insert(group)),
            LeaderChange::Holds(group, false) => drop(self.held.remove(&group)),
        }
    }

    fn begin_reign(&mut self, epoch: Epoch) {
        assert!(self.reign.is_none(), "the first group is lost before it is led anew");
        let mut sequencer = Sequencer::new(epoch, (0..self.map.groups()).map(GroupId));
        self.leaders.iter().for_each(|(group, leader)| sequencer.led(*group, leader.epoch));
        self.reign = Some(Reign { epoch, sequencer, lots: BTreeMap::new(), settling: BTreeMap::new() });
    }

    /// This process ends: it orders nothing any more, whatever it is told.
    pub fn end(&mut self) {
        self.ends = true;
        self.end_reign();
    }

    /// Another node orders lots from now on. What was begun is decided without this one.
    fn end_reign(&mut self) {
        let Some(reign) = self.reign.take() else { return };
        // They count, whatever comes.
        reign.settling.into_values().for_each(|live| self.answer(live));
        for live in reign.lots.into_values() {
            let unknown =
                UserError::maybe_committed("another node leads the first group, which orders such transactions");
            if !live.is_read {
                self.counts.unknown += live.calls.len() as u64;
            }
            let error = if live.is_read { not_sequencer() } else { unknown };
            live.calls.iter().for_each(|of| of.call.refuse(&error));
        }
        self.waiting.drain(..).for_each(|of| of.call.refuse(&not_sequencer()));
        self.stale.drain(..).for_each(|call| call.refuse(&not_sequencer()));
        self.waiting_bytes = 0;
        self.sends.clear();
    }

    /// From the agent of the group that leads in that epoch.
    pub fn receive(&mut self, group: GroupId, epoch: Epoch, message: ToSequencer) {
        if let Some(reign) = &mut self.reign {
            reign.sequencer.receive(group, epoch, message);
        }
    }

    /// Time has passed: what has waited for too long is refused, and stale calls are looked up
    /// again.
    pub fn tick(&mut self, now: Moment) {
        self.ticked = now.nanos;
        if let Some(reign) = &mut self.reign {
            reign.sequencer.tick(now.nanos);
        }
        for call in std::mem::take(&mut self.stale) {
            let waited = now.micros.saturating_sub(call.reply.sent_micros);
            match waited > LOT_WAIT.as_micros() as i64 {
                true => call.refuse(&UserError::not_started("the schema is being changed").with_hint("call again")),
                false => (call.again)(),
            }
        }
        self.refuse_overdue(now);
    }

    /// Does all that follows from what it was told: carries on with lots, and begins new ones.
    pub fn advance(&mut self, now: Moment) {
        loop {
            self.carry_out(now);
            if !self.begin(now) {
                break;
            }
        }
    }

    fn carry_out(&mut self, now: Moment) {
        while let Some(reign) = &mut self.reign {
            let effects = reign.sequencer.effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.carry_out_one(effect, now);
            }
        }
    }

    fn carry_out_one(&mut self, effect: SequencerEffect, now: Moment) {
        let Some(reign) = &mut self.reign else { return };
        match effect {
            SequencerEffect::Send { group, message } => {
                let leader = self.leaders[&group];
                self.sends.push(LotSend { group, leader, order: reign.epoch, message });
            }
            SequencerEffect::Ran { lot, group, result, .. } => {
                let Some(live) = reign.lots.get_mut(&lot) else { return };
                live.ran(group, LotResult::decode(&result).ok());
                if live.rides() || !live.has_run() {
                    return;
                }
                match live.has_succeeded() {
                    false => reign.sequencer.abandon(lot),
                    // Nothing of it counts if it cannot be answered.
                    true if live.is_read || !live.make_outcome() => reign.sequencer.release(lot),
                    true => reign.sequencer.prepare(lot),
                };
            }
            SequencerEffect::Decided { lot, outcome: Outcome::Committed } => {
                let Some(live) = reign.lots.remove(&lot) else { return };
                self.counts.committed += 1;
                if live.is_answered_settled() && reign.sequencer.awaits(lot) {
                    reign.settling.insert(lot, live);
                } else {
                    self.answer(live);
                }
            }
            SequencerEffect::Settled { lot } => {
                let live = reign.settling.remove(&lot).expect("what was awaited is settled once");
                self.answer(live);
            }
            SequencerEffect::Decided { lot, outcome: Outcome::Aborted } => {
                let Some(live) = reign.lots.remove(&lot) else { return };
                self.counts.aborted += 1;
                self.begin_again(live, now);
            }
            SequencerEffect::Read { lot, is_fresh } => {
                let Some(live) = reign.lots.remove(&lot) else { return };
                match is_fresh {
                    true => {
                        self.counts.read += u64::from(live.is_read);
                        self.counts.aborted += u64::from(!live.is_read);
                        self.answer(live);
                    }
                    false => {
                        self.counts.aborted += 1;
                        self.begin_again(live, now);
                    }
                }
            }
        }
    }

    /// All that the lot shows is committed.
    fn answer(&mut self, live: LiveLot) {
        if let Some(outcome) = live.outcome {
            let call = &live.calls[0].call;
            return match outcome {
                Ok(response) => call.respond(response),
                Err(error) => {
                    self.counts.failed += 1;
                    call.refuse(&error);
                }
            };
        }
        for (place, of) in live.calls.iter().enumerate() {
            match live.answers(place) {
                Some(answers) => of.call.succeed(&answers),
                None => {
                    self.counts.unknown += 1;
                    of.call.refuse(&UserError::maybe_committed("a group's connection was lost"));
                }
            }
        }
    }

    /// Nothing of the lot took place. Calls that failed leave it: a group says so when what they
    /// saw is committed (docs/decisions/0124). The others begin again, before all that came later.
    fn begin_again(&mut self, live: LiveLot, now: Moment) {
        let mut failures = live.failures();
        if live.is_disputed_change() {
            failures.values_mut().for_each(|(group, failure)| self.name_refuser(*group, failure));
        }
        let is_lost = failures.is_empty();
        if is_lost {
            self.begins_from = now.nanos + PAUSE_NANOS;
        }
        let mut again = Vec::new();
        for (place, waiting) in live.calls.into_iter().enumerate() {
            match failures.get(&place) {
                None => again.push(WaitingCall { begun: waiting.begun + u32::from(is_lost), ..waiting }),
                Some((_, failure)) => match failure.verdict {
                    FailureVerdict::Fails => {
                        self.counts.failed += 1;
                        waiting.call.fail(failure);
                    }
                    FailureVerdict::LookUp => {
                        self.counts.stale += 1;
                        self.stale.push(waiting.call);
                    }
                    FailureVerdict::First => again.push(WaitingCall { way: waiting.way.max(LotWay::First), ..waiting }),
                    FailureVerdict::Alone => again.push(WaitingCall { way: LotWay::Alone, ..waiting }),
                },
            }
        }
        again.into_iter().rev().for_each(|waiting| self.put_in_front(waiting));
    }

    /// Not all groups have refused: which one did is for the operator to know.
    #[cold]
    fn name_refuser(&self, group: GroupId, failure: &mut LotFailure) {
        let by = self.leaders.get(&group).map_or_else(String::new, |leader| format!(" (node {})", leader.node));
        failure.text = format!("group {group}{by} cannot make the change: {}", failure.text);
    }

    fn put_in_front(&mut self, waiting: WaitingCall) {
        self.waiting_bytes += waiting.call.bytes();
        self.waiting.push_front(waiting);
    }

    /// Begins a lot, if one may begin. False: none.
    fn begin(&mut self, now: Moment) -> bool {
        let Some(reign) = &self.reign else { return false };
        if !reign.sequencer.can_begin() || now.nanos < self.begins_from {
            return false;
        }
        let Some(live) = self.next_calls(now) else { return false };
        let rides = live.rides();
        let parts = live.parts(now.shown);
        self.counts.begun += 1;
        let reign = self.reign.as_mut().expect("it was there");
        let lot = reign.sequencer.begin(parts, rides).expect("groups of a lot are led");
        assert!(reign.lots.insert(lot, live).is_none(), "a lot begins once");
        true
    }

    /// The calls that have waited longest, as many as one lot serves.
    fn next_calls(&mut self, now: Moment) -> Option<LiveLot> {
        let mut chosen: Vec<WaitingCall> = Vec::new();
        let mut passed_over = VecDeque::new();
        let mut blocked = self.reign.as_ref().map(|reign| reign.sequencer.behind()).unwrap_or_default();
        let mut bytes = 0;
        while let Some(next) = self.waiting.pop_front() {
            if self.cancellations.covers(next.call.reply.call()) {
                self.waiting_bytes -= next.call.bytes();
                next.call.refuse(&self.cancellations.error());
                continue;
            }
            let may_begin = next.parts.keys().all(|group| self.may_begin(*group) && !blocked.contains(group));
            if !may_begin {
                // Calls of the same groups stay behind it.
                blocked.extend(next.parts.keys().copied());
                passed_over.push_back(next);
                continue;
            }
            let size = next.call.bytes();
            let is_other = chosen.first().is_some_and(|first| first.call.is_read != next.call.is_read);
            let is_first = next.way != LotWay::Any || bytes + size > LOT_BYTES_MAX;
            let is_full = chosen.len() == LENDING_CALLS_MAX || chosen.first().is_some_and(|of| of.way == LotWay::Alone);
            if is_other || is_full || (is_first && !chosen.is_empty()) {
                self.waiting.push_front(next);
                break;
            }
            bytes += size;
            self.waiting_bytes -= size;
            chosen.push(next);
        }
        while let Some(over) = passed_over.pop_back() {
            self.waiting.push_front(over);
        }
        if chosen.is_empty() {
            return None;
        }
        self.counts.calls += chosen.len() as u64;
        Some(LiveLot::new(chosen, now.nanos))
    }

    /// A group that another node hands over comes to rest only if nothing more is begun with it.
    /// This node's own calls must be answered before it hands over: they go on.
    fn may_begin(&self, group: GroupId) -> bool {
        let leader = self.leaders.get(&group);
        leader.is_some_and(|leader| leader.node == self.here || !self.held.contains(&group))
    }
}

#[cold]
fn not_sequencer() -> UserError {
    UserError::not_started("another node leads the first group, which orders transactions over several groups")
        .with_hint("call again")
}

#[cold]
fn queue_full() -> UserError {
    UserError::not_started("limit of waiting calls over several groups reached").with_hint("call again")
}
