//! The sequencer: orders lots, has them held, run and prepared, and decides.
//!
//! All of it is soft: a sequencer that is lost leaves lots that the agents end by themselves, and
//! the next one has a higher epoch. One lot at a time is held; what is decided settles meanwhile.
//!
//! A lot is committed when all participants have voted for it. It is aborted only where one of them
//! has no part of it for certain: it has said no, it was never asked to prepare and never will be,
//! or its stream has refused. A participant that was asked and does not answer is neither: whoever
//! leads its group then is asked whether there is a part.

mod waits;

pub use waits::PartWaits;

use crate::lot::Outcome;
use crate::lot_id::LotId;
use crate::message::{Begin, Resolution, ToAgent, ToSequencer};
use crate::settled::Settled;
use ferrite_base::{Epoch, GroupId, PartitionId, limits, planted};
use std::collections::{BTreeMap, BTreeSet};

/// Whoever leads a group is asked again after that whether there is a part.
const AGAIN_NANOS: u64 = 200_000_000;

/// A group's part of a lot that is to begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LotPart {
    pub group: GroupId,
    pub partitions: Vec<PartitionId>,
    pub work: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SequencerEffect {
    Send {
        group: GroupId,
        message: ToAgent,
    },
    /// A part has run.
    Ran {
        lot: LotId,
        group: GroupId,
        ok: bool,
        result: Vec<u8>,
    },
    /// Final: calls may be answered.
    Decided {
        lot: LotId,
        outcome: Outcome,
    },
    /// What a lot has decided is in the streams of all its groups that are led by those who ran it
    /// ([`Sequencer::awaits`]).
    Settled {
        lot: LotId,
    },
    /// A lot that was released saw nothing that could be lost: it may be answered. Not fresh: it
    /// may have, and is to be run again.
    Read {
        lot: LotId,
        is_fresh: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vote {
    /// It was never asked.
    NotAsked,
    Asked,
    Yes,
    /// It has no part, for certain.
    No,
}

#[derive(Debug)]
struct Participant {
    /// What was sent has come or will come, for all that is known.
    is_reached: bool,
    runs: bool,
    vote: Vote,
    is_fresh: bool,
    is_settled: bool,
    ask_from: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LotPhase {
    Running,
    Preparing,
    /// Changes nothing: released.
    Reading,
    Decided(Outcome),
}

#[derive(Debug)]
struct Lot {
    parties: BTreeMap<GroupId, Participant>,
    phase: LotPhase,
    /// The caller is to hear when it is settled.
    is_awaited: bool,
}

impl Lot {
    fn is_settled(&self) -> bool {
        self.parties.values().all(|party| party.is_settled || !party.is_reached)
    }
}

/// A group, as the sequencer knows it.
#[derive(Default, Debug)]
struct Led {
    /// In which it is led by somebody who can be reached.
    epoch: Option<Epoch>,
    /// Lots of earlier sequencers that are in doubt there; None: it has not said yet.
    in_doubt: Option<Vec<LotId>>,
    /// What its leader has heard of what is settled.
    heard: Settled,
}

#[derive(Debug)]
pub struct Sequencer {
    epoch: Epoch,
    last: u64,
    settled: Settled,
    lots: BTreeMap<LotId, Lot>,
    /// The one whose partitions are held.
    active: Option<LotId>,
    groups: BTreeMap<GroupId, Led>,
    /// Who has not heard of this sequencer yet, of those that are led.
    unordered: BTreeSet<GroupId>,
    effects: Vec<SequencerEffect>,
}

impl Sequencer {
    /// Of a cluster with these groups, in that epoch of the first.
    pub fn new(epoch: Epoch, groups: impl IntoIterator<Item = GroupId>) -> Sequencer {
        Sequencer {
            epoch,
            last: 0,
            settled: Settled::default(),
            lots: BTreeMap::new(),
            active: None,
            groups: groups.into_iter().map(|group| (group, Led::default())).collect(),
            unordered: BTreeSet::new(),
            effects: Vec::new(),
        }
    }

    pub fn effects(&mut self) -> Vec<SequencerEffect> {
        std::mem::take(&mut self.effects)
    }

    /// No partition is held, all groups that are led have heard of this sequencer, and not too many
    /// lots wait for groups that are not.
    pub fn can_begin(&self) -> bool {
        self.active.is_none() && self.unordered.is_empty() && self.lots.len() < limits::LOTS_OPEN_MAX
    }

    /// Nothing is under way, and all that are led have heard what is settled.
    pub fn rests(&self) -> bool {
        let has_heard = |led: &Led| led.epoch.is_none() || led.heard == self.settled;
        self.lots.is_empty() && self.unordered.is_empty() && self.groups.values().all(has_heard)
    }

    /// Somebody who can be reached leads the group in that epoch.
    pub fn led(&mut self, group: GroupId, epoch: Epoch) {
        let Some(led) = self.groups.get_mut(&group) else { return };
        if led.epoch.is_none_or(|known| known < epoch) {
            if led.epoch.is_some() {
                self.lost(group);
            }
            self.groups.entry(group).and_modify(|led| {
                led.epoch = Some(epoch);
                led.heard = Settled::default();
            });
            self.unordered.insert(group);
            let message = ToAgent::NewOrder { epoch: self.epoch };
            self.effects.push(SequencerEffect::Send { group, message });
            // Outcomes that the one before may not have heard.
            let decided = self.lots.iter().filter_map(|(lot, of)| match (of.phase, of.parties.get(&group)) {
                (LotPhase::Decided(outcome), Some(party)) if !party.is_settled => Some((*lot, outcome)),
                _ => None,
            });
            for (lot, outcome) in decided.collect::<Vec<_>>() {
                self.effects.push(SequencerEffect::Send { group, message: ToAgent::Decide { lot, outcome } });
            }
        }
    }

    /// Its leader cannot be reached, or is not leader any more: what was on its way is lost.
    pub fn lost(&mut self, group: GroupId) {
        let Some(led) = self.groups.get_mut(&group) else { return };
        led.epoch = None;
        self.unordered.remove(&group);
        let lots: Vec<LotId> = self.lots.keys().copied().collect();
        for lot in lots {
            let Some(of) = self.lots.get_mut(&lot) else { continue };
            let phase = of.phase;
            let Some(party) = of.parties.get_mut(&group) else { continue };
            party.is_reached = false;
            party.ask_from = 0;
            match (phase, party.vote) {
                // What it held ends with it.
                (LotPhase::Running, Vote::NotAsked) => self.decide(lot, Outcome::Aborted),
                (LotPhase::Preparing, Vote::Asked) if planted!(AbortAfterPrepare) => {
                    self.decide(lot, Outcome::Aborted);
                }
                (LotPhase::Reading, _) if !party.is_fresh => self.end_read(lot, false),
                _ => {}
            }
        }
        self.report_settled();
    }

    /// Begins a lot; whether all its groups are led. `rides`: each part is prepared as soon as it
    /// has run.
    ///
    /// # Panics
    /// If a lot is held ([`Sequencer::can_begin`]).
    pub fn begin(&mut self, parts: Vec<LotPart>, rides: bool) -> Option<LotId> {
        assert!(self.can_begin(), "one lot at a time is held");
        let epochs: Option<BTreeMap<GroupId, Epoch>> =
            parts.iter().map(|part| Some((part.group, self.groups.get(&part.group)?.epoch?))).collect();
        let epochs = epochs?;
        assert!(epochs.len() == parts.len() && !parts.is_empty(), "a group has one part");
        self.last += 1;
        let lot = LotId { epoch: self.epoch, number: self.last };
        let participants: Vec<GroupId> = epochs.keys().copied().collect();
        let party = || Participant {
            is_reached: true,
            runs: true,
            vote: if rides { Vote::Asked } else { Vote::NotAsked },
            is_fresh: false,
            is_settled: false,
            ask_from: u64::MAX,
        };
        let parties = epochs.keys().map(|group| (*group, party())).collect();
        let phase = if rides { LotPhase::Preparing } else { LotPhase::Running };
        self.lots.insert(lot, Lot { parties, phase, is_awaited: false });
        self.active = Some(lot);
        for LotPart { group, partitions, work } in parts {
            self.say_what_is_settled(group);
            let prepare = rides.then(|| participants.clone());
            let begin = Begin { lot, epoch: epochs[&group], partitions, work, prepare };
            self.effects.push(SequencerEffect::Send { group, message: ToAgent::Begin(begin) });
        }
        Some(lot)
    }

    /// [`SequencerEffect::Settled`] comes for the lot, which was decided. False: it is settled.
    ///
    /// A group that has lost its leader is not waited for: the next one settles its part before it
    /// serves.
    pub fn awaits(&mut self, lot: LotId) -> bool {
        let Some(of) = self.lots.get_mut(&lot).filter(|of| !of.is_settled()) else { return false };
        of.is_awaited = true;
        true
    }

    fn report_settled(&mut self) {
        for (lot, of) in self.lots.iter_mut().filter(|(_, of)| of.is_awaited && of.is_settled()) {
            of.is_awaited = false;
            self.effects.push(SequencerEffect::Settled { lot: *lot });
        }
    }

    fn say_what_is_settled(&mut self, group: GroupId) {
        let Some(led) = self.groups.get_mut(&group) else { return };
        if led.epoch.is_some() && led.heard != self.settled {
            led.heard = self.settled.clone();
            self.effects.push(SequencerEffect::Send { group, message: ToAgent::Settled(self.settled.clone()) });
        }
    }

    /// Whether all parts of the lot that is held have run, and more can be run or prepared.
    pub fn has_run(&self, lot: LotId) -> bool {
        self.lots
            .get(&lot)
            .is_some_and(|of| of.phase == LotPhase::Running && of.parties.values().all(|party| !party.runs))
    }

    /// More of a part, in the same hold. False: the lot is over.
    pub fn run(&mut self, lot: LotId, group: GroupId, work: Vec<u8>) -> bool {
        let Some(of) = self.lots.get_mut(&lot).filter(|of| of.phase == LotPhase::Running) else { return false };
        let Some(party) = of.parties.get_mut(&group) else { return false };
        assert!(!party.runs, "one thing at a time is run");
        party.runs = true;
        self.effects.push(SequencerEffect::Send { group, message: ToAgent::Run { lot, work } });
        true
    }

    /// All that was to run has run: the parts are prepared. False: the lot is over.
    pub fn prepare(&mut self, lot: LotId) -> bool {
        if !self.has_run(lot) {
            return false;
        }
        let of = self.lots.get_mut(&lot).expect("it has run");
        of.phase = LotPhase::Preparing;
        let participants: Vec<GroupId> = of.parties.keys().copied().collect();
        for (group, party) in &mut of.parties {
            party.vote = Vote::Asked;
            let message = ToAgent::Prepare { lot, participants: participants.clone() };
            self.effects.push(SequencerEffect::Send { group: *group, message });
        }
        true
    }

    /// It has run, and is to change nothing: the parts are released. False: the lot is over.
    pub fn release(&mut self, lot: LotId) -> bool {
        if !self.has_run(lot) {
            return false;
        }
        let of = self.lots.get_mut(&lot).expect("it has run");
        of.phase = LotPhase::Reading;
        for group in of.parties.keys() {
            self.effects.push(SequencerEffect::Send { group: *group, message: ToAgent::Release { lot } });
        }
        let was_early = planted!(ReleasedSeparately) && of.parties.values().all(|party| party.is_fresh);
        self.active = None;
        if was_early {
            self.end_read(lot, true);
        }
        true
    }

    /// Ends a lot that nobody was asked to prepare. False: that is too late.
    pub fn abandon(&mut self, lot: LotId) -> bool {
        let is_running = self.lots.get(&lot).is_some_and(|of| of.phase == LotPhase::Running);
        let late = planted!(AbortAfterPrepare) && self.lots.get(&lot).is_some_and(|of| of.phase == LotPhase::Preparing);
        if is_running || late {
            self.decide(lot, Outcome::Aborted);
        }
        is_running || late
    }

    /// From the leader of the group in that epoch.
    pub fn receive(&mut self, group: GroupId, epoch: Epoch, message: ToSequencer) {
        if self.groups.get(&group).and_then(|led| led.epoch) != Some(epoch) {
            return;
        }
        match message {
            ToSequencer::Ordered { epoch, in_doubt } => {
                if epoch == self.epoch {
                    self.unordered.remove(&group);
                    self.groups.entry(group).and_modify(|led| led.in_doubt = Some(in_doubt));
                    self.settle();
                }
            }
            ToSequencer::Done { lot, ok, result } => {
                if let Some(party) = self.party(lot, group) {
                    party.runs = false;
                    self.effects.push(SequencerEffect::Ran { lot, group, ok, result });
                }
            }
            ToSequencer::Vote { lot, yes } => self.count(lot, group, if yes { Vote::Yes } else { Vote::No }),
            ToSequencer::Verdict { lot, verdict } => {
                let vote = if verdict == Resolution::Aborted { Vote::No } else { Vote::Yes };
                self.count(lot, group, vote);
            }
            ToSequencer::Fresh { lot } => {
                let Some(of) = self.lots.get_mut(&lot) else { return };
                if of.phase == LotPhase::Reading || planted!(ReleasedSeparately) {
                    of.parties.entry(group).and_modify(|party| party.is_fresh = true);
                }
                if of.phase != LotPhase::Reading {
                    return;
                }
                if of.parties.values().all(|party| party.is_fresh) || planted!(FreshOfOne) {
                    self.end_read(lot, true);
                }
            }
            ToSequencer::Settled { lot } => {
                if let Some(party) = self.party(lot, group) {
                    party.is_settled = true;
                }
                self.settle();
            }
        }
    }

    fn party(&mut self, lot: LotId, group: GroupId) -> Option<&mut Participant> {
        self.lots.get_mut(&lot)?.parties.get_mut(&group)
    }

    fn count(&mut self, lot: LotId, group: GroupId, vote: Vote) {
        let Some(of) = self.lots.get_mut(&lot) else { return };
        let Some(party) = of.parties.get_mut(&group) else { return };
        match (of.phase, party.vote) {
            // It has let go of its partitions before it was asked.
            (LotPhase::Running, _) if vote == Vote::No => {
                party.vote = Vote::No;
                self.decide(lot, Outcome::Aborted);
            }
            (LotPhase::Reading, _) if vote == Vote::No => self.end_read(lot, false),
            (LotPhase::Preparing, Vote::Asked) => {
                party.vote = vote;
                let all = of.parties.values().all(|party| party.vote == Vote::Yes);
                if vote == Vote::No {
                    self.decide(lot, Outcome::Aborted);
                } else if all || planted!(AnswerAfterOneVote) {
                    self.decide(lot, Outcome::Committed);
                }
            }
            _ => {}
        }
    }

    fn decide(&mut self, lot: LotId, outcome: Outcome) {
        let of = self.lots.get_mut(&lot).expect("it is under way");
        of.phase = LotPhase::Decided(outcome);
        for (group, party) in &mut of.parties {
            // Who has no part settles nothing.
            party.is_settled = matches!(party.vote, Vote::No | Vote::NotAsked);
            // Whoever leads the group then hears of it, in `led`, where nobody does now.
            let is_led = self.groups.get(group).is_some_and(|led| led.epoch.is_some());
            if is_led && party.vote != Vote::No {
                self.effects.push(SequencerEffect::Send { group: *group, message: ToAgent::Decide { lot, outcome } });
            }
        }
        if self.active == Some(lot) {
            self.active = None;
        }
        self.effects.push(SequencerEffect::Decided { lot, outcome });
        self.settle();
    }

    fn end_read(&mut self, lot: LotId, is_fresh: bool) {
        self.lots.remove(&lot);
        self.effects.push(SequencerEffect::Read { lot, is_fresh });
        self.settle();
    }

    /// Forgets what is settled everywhere, in order.
    fn settle(&mut self) {
        self.report_settled();
        self.lots.retain(|_, of| {
            !(matches!(of.phase, LotPhase::Decided(_)) && of.parties.values().all(|party| party.is_settled))
        });
        let number = (1..=self.last).rev().find(|number| {
            planted!(ForgottenEarly) || !self.lots.contains_key(&LotId { epoch: self.epoch, number: *number })
        });
        let mut now =
            Settled { numbers: number.map(|number| (self.epoch, number)).into_iter().collect(), ..Settled::default() };
        now.open = self.lots.keys().copied().filter(|lot| Some(lot.number) < number).collect();
        // Of earlier sequencers, what no group has in doubt, when all have said it: from then on
        // nobody prepares any more of it.
        if let Some(in_doubt) = self.groups.values().map(|led| led.in_doubt.as_deref()).collect::<Option<Vec<_>>>() {
            now.earlier = self.epoch;
            now.open.extend(in_doubt.into_iter().flatten());
        }
        if planted!(ForgottenEarly) {
            now.open.clear();
        }
        self.settled = now;
    }

    /// Asks for what is missing, and says what is settled when there is no other occasion.
    pub fn tick(&mut self, now: u64) {
        for (lot, of) in &mut self.lots {
            for (group, party) in &mut of.parties {
                let is_led = self.groups.get(group).is_some_and(|led| led.epoch.is_some());
                let is_asked = of.phase == LotPhase::Preparing && party.vote == Vote::Asked;
                if party.is_reached || !is_led || party.ask_from > now || !is_asked {
                    continue;
                }
                party.ask_from = now + AGAIN_NANOS;
                let message = ToAgent::Resolve { lot: *lot, asks: None };
                self.effects.push(SequencerEffect::Send { group: *group, message });
            }
        }
        if self.active.is_none() {
            let groups: Vec<GroupId> = self.groups.keys().copied().collect();
            groups.into_iter().for_each(|group| self.say_what_is_settled(group));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: GroupId = GroupId(0);
    const OTHER: GroupId = GroupId(1);

    fn part(group: GroupId) -> LotPart {
        LotPart { group, partitions: vec![PartitionId(group.0)], work: Vec::new() }
    }

    /// Of two groups that are led and obey.
    fn opened() -> Sequencer {
        let mut sequencer = Sequencer::new(Epoch(5), [ONE, OTHER]);
        for group in [ONE, OTHER] {
            sequencer.led(group, Epoch(7));
            assert!(!sequencer.can_begin(), "it has not obeyed yet");
            sequencer.receive(group, Epoch(7), ToSequencer::Ordered { epoch: Epoch(5), in_doubt: Vec::new() });
        }
        assert!(sequencer.can_begin());
        sequencer
    }

    #[test]
    fn so_many_lots_are_open_and_not_one_more() {
        let mut sequencer = opened();
        for _ in 0..limits::LOTS_OPEN_MAX {
            assert!(sequencer.can_begin());
            let lot = sequencer.begin(vec![part(ONE), part(OTHER)], true).expect("both are led");
            sequencer.receive(ONE, Epoch(7), ToSequencer::Vote { lot, yes: true });
            sequencer.receive(OTHER, Epoch(7), ToSequencer::Vote { lot, yes: true });
            sequencer.receive(OTHER, Epoch(7), ToSequencer::Settled { lot });
        }
        assert!(!sequencer.can_begin(), "the first group has settled none");
        let first = LotId { epoch: Epoch(5), number: 1 };
        sequencer.receive(ONE, Epoch(7), ToSequencer::Settled { lot: first });
        assert!(sequencer.can_begin());
    }

    #[test]
    fn a_group_that_is_behind_with_the_parts_of_lots_that_others_have_failed_is_named() {
        let mut sequencer = opened();
        for round in 0..waits::PARTS_AHEAD_MAX {
            assert!(sequencer.behind().is_empty(), "{round} parts wait for it");
            let lot = sequencer.begin(vec![part(ONE), part(OTHER)], true).expect("both are led");
            sequencer.receive(ONE, Epoch(7), ToSequencer::Done { lot, ok: false, result: Vec::new() });
            sequencer.receive(ONE, Epoch(7), ToSequencer::Vote { lot, yes: false });
        }
        assert_eq!(sequencer.behind(), BTreeSet::from([OTHER]));
        sequencer.receive(OTHER, Epoch(7), ToSequencer::Settled { lot: LotId { epoch: Epoch(5), number: 1 } });
        assert!(sequencer.behind().is_empty());
    }

    #[test]
    fn a_lot_that_waits_for_a_lost_group_keeps_no_other_from_being_forgotten() {
        let mut sequencer = opened();
        let lots: Vec<LotId> = (0..3)
            .map(|round| {
                let lot = sequencer.begin(vec![part(ONE), part(OTHER)], true).expect("both are led");
                for group in [ONE, OTHER] {
                    sequencer.receive(group, Epoch(7), ToSequencer::Vote { lot, yes: true });
                }
                sequencer.receive(ONE, Epoch(7), ToSequencer::Settled { lot });
                if round != 1 {
                    sequencer.receive(OTHER, Epoch(7), ToSequencer::Settled { lot });
                }
                lot
            })
            .collect();
        let covered: Vec<bool> = lots.iter().map(|lot| sequencer.settled.covers(*lot)).collect();
        assert_eq!(covered, [true, false, true]);
    }

    #[test]
    fn a_participant_that_was_asked_and_is_silent_is_asked_again_and_never_given_up() {
        let mut sequencer = opened();
        let lot = sequencer.begin(vec![part(ONE), part(OTHER)], true).expect("both are led");
        sequencer.receive(ONE, Epoch(7), ToSequencer::Vote { lot, yes: true });
        sequencer.lost(OTHER);
        assert!(!sequencer.abandon(lot), "it may have prepared");
        sequencer.led(OTHER, Epoch(8));
        sequencer.effects();
        sequencer.tick(0);
        let asked = SequencerEffect::Send { group: OTHER, message: ToAgent::Resolve { lot, asks: None } };
        assert_eq!(sequencer.effects(), [asked]);
        sequencer.receive(OTHER, Epoch(8), ToSequencer::Verdict { lot, verdict: Resolution::Prepared });
        let decided = SequencerEffect::Decided { lot, outcome: Outcome::Committed };
        assert!(sequencer.effects().contains(&decided));
    }

    #[test]
    fn a_group_that_is_lost_before_it_was_asked_aborts_the_lot() {
        let mut sequencer = opened();
        let lot = sequencer.begin(vec![part(ONE), part(OTHER)], false).expect("both are led");
        sequencer.lost(OTHER);
        assert!(sequencer.effects().contains(&SequencerEffect::Decided { lot, outcome: Outcome::Aborted }));
        assert!(sequencer.begin(vec![part(ONE), part(OTHER)], false).is_none(), "nobody leads one of them");
        assert!(sequencer.begin(vec![part(ONE)], false).is_some(), "the other may go on");
    }
}
