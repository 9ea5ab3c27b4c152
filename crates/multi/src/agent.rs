//! A group's agent, where the group is led: holds partitions for lots, prepares its part, and finds
//! out how a lot ended whose sequencer is lost.
//!
//! An agent lives as long as its node leads the group. The next one is made of the stream's ledger:
//! all that an agent must not forget is a record. Until [`Agent::is_settled`], the group's
//! partitions take no calls, for a part that is in doubt may count.

use crate::ledger::{InDoubt, Ledger};
use crate::lot::{Outcome, Record};
use crate::lot_id::LotId;
use crate::message::{Begin, Resolution, ToAgent, ToSequencer};
use crate::settled::Settled;
use ferrite_base::{Epoch, GroupId, PartitionId, planted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A part that is prepared waits so long for the sequencer before it asks the other participants.
const PATIENCE_NANOS: u64 = 1_000_000_000;
/// And asks again after that.
const AGAIN_NANOS: u64 = 200_000_000;

/// What the caller is to do, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentEffect {
    /// Borrow these partitions' stores, then say [`Agent::held`].
    Hold {
        lot: LotId,
        partitions: Vec<PartitionId>,
    },
    /// Run this on them, then say [`Agent::ran`].
    Run {
        lot: LotId,
        work: Vec<u8>,
    },
    /// Append the part with what it changed, and keep the undo; [`Agent::prepared`] when it is
    /// committed. Nothing that was executed since may leave a gate before [`AgentEffect::Commit`].
    Prepare {
        lot: LotId,
        settled: Settled,
        participants: Vec<GroupId>,
    },
    /// Append it, then say when it is committed: [`Agent::decided`], [`Agent::refused`] or
    /// [`Agent::ordered`].
    Append(Record<()>),
    /// The part counts: drop the undo, tell the gates, and let go.
    Commit {
        lot: LotId,
    },
    /// Step back to before the hold, and let go.
    StepBack {
        lot: LotId,
    },
    /// Step back, and let go; [`Agent::confirmed`] when all that was seen is committed.
    Release {
        lot: LotId,
    },
    ToSequencer(ToSequencer),
    /// To the agent of another group, wherever that is led.
    ToAgent {
        group: GroupId,
        message: ToAgent,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HoldState {
    Holding,
    Running,
    Ran,
}

/// The lot for which partitions are held and nothing is prepared.
struct Active {
    begin: Begin,
    state: HoldState,
}

/// A part whose outcome is not known.
struct Doubt {
    participants: Vec<GroupId>,
    /// The record is committed. Until then nobody hears of it.
    is_committed: bool,
    /// By an earlier leader: no partition is held for it here.
    is_inherited: bool,
    /// Ask the others from then on.
    ask_from: u64,
    prepared_by: BTreeSet<GroupId>,
    /// Who has asked before it was committed.
    asked_by: Vec<Option<GroupId>>,
}

pub struct Agent {
    group: GroupId,
    epoch: Epoch,
    /// With all records that were appended, committed or not.
    ledger: Ledger<()>,
    /// The highest of the sequencers heard of. Its word counts when the stream has its record.
    order: Epoch,
    active: Option<Active>,
    queue: VecDeque<Begin>,
    doubts: BTreeMap<LotId, Doubt>,
    /// Refusals that are not committed yet, and who waits for each.
    refusing: BTreeMap<LotId, Vec<Option<GroupId>>>,
    /// Lots whose outcome is appended and not committed yet.
    deciding: BTreeSet<LotId>,
    /// What is known to be settled everywhere.
    settled: Settled,
    /// The sequencer is to hear when nothing of earlier ones is in doubt.
    owes_order: bool,
    /// The record of the order is committed.
    is_ordered: bool,
    effects: Vec<AgentEffect>,
}

impl Agent {
    /// For a group that this node begins to lead in that epoch, with what its stream says.
    pub fn new<R>(group: GroupId, epoch: Epoch, ledger: &Ledger<R>) -> Agent {
        let doubt = |part: &InDoubt<R>| Doubt {
            participants: part.participants.clone(),
            // What a new leader has counts, as soon as its epoch is open.
            is_committed: true,
            is_inherited: true,
            ask_from: 0,
            prepared_by: BTreeSet::from([group]),
            asked_by: Vec::new(),
        };
        let empty = |part: &InDoubt<R>| InDoubt { participants: part.participants.clone(), redo: () };
        let in_doubt = ledger.in_doubt().iter().map(|(lot, part)| (*lot, empty(part))).collect();
        let outcomes = ledger.outcomes().clone();
        Agent {
            group,
            epoch,
            ledger: Ledger::restore(ledger.order(), ledger.settled().clone(), in_doubt, outcomes)
                .expect("it is the ledger of a stream"),
            order: ledger.order(),
            active: None,
            queue: VecDeque::new(),
            doubts: ledger.in_doubt().iter().map(|(lot, part)| (*lot, doubt(part))).collect(),
            refusing: BTreeMap::new(),
            deciding: BTreeSet::new(),
            settled: ledger.settled().clone(),
            owes_order: false,
            is_ordered: true,
            effects: Vec::new(),
        }
    }

    pub fn effects(&mut self) -> Vec<AgentEffect> {
        std::mem::take(&mut self.effects)
    }

    /// Nothing that an earlier leader has prepared is in doubt any more: partitions may take calls.
    pub fn is_settled(&self) -> bool {
        planted!(LeadsInDoubt) || !self.doubts.values().any(|doubt| doubt.is_inherited)
    }

    /// No lot concerns the group now.
    pub fn is_idle(&self) -> bool {
        self.active.is_none() && self.queue.is_empty() && self.doubts.is_empty() && self.deciding.is_empty()
    }

    /// Of the lots in doubt here, for operators.
    pub fn in_doubt(&self) -> impl Iterator<Item = LotId> {
        self.doubts.keys().copied()
    }

    /// The groups that are not known to have a part of the lot, which is in doubt here.
    pub fn unheard(&self, lot: LotId) -> impl Iterator<Item = GroupId> {
        let doubt = self.doubts.get(&lot).into_iter();
        doubt.flat_map(|doubt| doubt.participants.iter().filter(|group| !doubt.prepared_by.contains(group))).copied()
    }

    pub fn receive(&mut self, message: ToAgent, now: u64) {
        match message {
            ToAgent::Begin(begin) => self.begin(begin),
            ToAgent::Run { lot, work } => {
                if self.stands(lot, HoldState::Ran) {
                    self.set(HoldState::Running);
                    self.effects.push(AgentEffect::Run { lot, work });
                }
            }
            ToAgent::Prepare { lot, participants } => {
                let is_late = planted!(PreparedAfterRefusal) && !self.doubts.contains_key(&lot);
                if self.stands(lot, HoldState::Ran) || is_late {
                    self.prepare(lot, participants, now);
                } else {
                    self.vote(lot, false);
                }
            }
            ToAgent::Decide { lot, outcome } => self.decided_elsewhere(lot, outcome),
            ToAgent::Release { lot } => {
                if self.stands(lot, HoldState::Ran) {
                    self.active = None;
                    self.effects.push(AgentEffect::Release { lot });
                    self.next();
                }
            }
            ToAgent::NewOrder { epoch } => {
                if epoch >= self.order {
                    self.obey(epoch, now);
                    self.owes_order = true;
                    self.report_order();
                }
            }
            ToAgent::Settled(settled) => self.learn_settled(&settled),
            ToAgent::Resolve { lot, asks } => self.resolve(lot, asks),
            ToAgent::Verdict { lot, of, verdict } => self.judge(lot, of, verdict),
        }
    }

    fn begin(&mut self, begin: Begin) {
        let lot = begin.lot;
        // Of a sequencer that was replaced, or for an earlier leader of the group.
        let is_old = lot.epoch != self.order && !planted!(OldOrder);
        let is_late = is_old || self.settled.covers(lot) || begin.epoch != self.epoch;
        if is_late || self.ledger.knows(lot) {
            return self.vote(lot, false);
        }
        self.queue.push_back(begin);
        self.next();
    }

    /// What earlier sequencers have begun and nobody has prepared ends here.
    fn obey(&mut self, epoch: Epoch, now: u64) {
        if epoch <= self.order {
            return;
        }
        self.order = epoch;
        let record = Record::Ordered { epoch, settled: self.settled.clone() };
        self.ledger.apply(record.clone()).expect("it is a later one");
        self.effects.push(AgentEffect::Append(record));
        self.is_ordered = false;
        self.give_up(|lot| lot.epoch < epoch, now);
    }

    /// The sequencer of that epoch cannot be reached any more: what it says of its lots does not
    /// come, and nothing was prepared of those that it has yet to ask for.
    pub fn sequencer_lost(&mut self, epoch: Epoch, now: u64) {
        self.give_up(|lot| lot.epoch == epoch, now);
    }

    /// The record of that order is committed in the stream.
    pub fn ordered(&mut self, epoch: Epoch) {
        self.is_ordered |= epoch == self.order;
        self.report_order();
    }

    fn give_up(&mut self, of: impl Fn(LotId) -> bool, now: u64) {
        self.queue.retain(|begin| !of(begin.lot));
        if let Some(lot) = self.active.as_ref().map(|active| active.begin.lot).filter(|lot| of(*lot)) {
            self.step_back(lot);
        }
        for (_, doubt) in self.doubts.iter_mut().filter(|(lot, _)| of(**lot)) {
            doubt.ask_from = doubt.ask_from.min(now);
        }
        self.next();
    }

    fn stands(&self, lot: LotId, at: HoldState) -> bool {
        self.active.as_ref().is_some_and(|active| active.begin.lot == lot && active.state == at)
    }

    fn set(&mut self, state: HoldState) {
        self.active.as_mut().expect("a lot is active").state = state;
    }

    /// Holds for the lot that has waited longest, where nothing stands in its way.
    fn next(&mut self) {
        if self.active.is_some() || self.doubts.values().any(|doubt| doubt.is_inherited) {
            return;
        }
        // A part that is in doubt has its partitions.
        if !self.doubts.is_empty() {
            return;
        }
        if let Some(begin) = self.queue.pop_front() {
            let lot = begin.lot;
            self.effects.push(AgentEffect::Hold { lot, partitions: begin.partitions.clone() });
            self.active = Some(Active { begin, state: HoldState::Holding });
        }
    }

    /// The stores were borrowed. False: the lot is over, and they are to be returned.
    pub fn held(&mut self, lot: LotId) -> bool {
        if !self.stands(lot, HoldState::Holding) {
            return false;
        }
        self.set(HoldState::Running);
        let work = self.active.as_mut().map(|active| std::mem::take(&mut active.begin.work)).unwrap_or_default();
        self.effects.push(AgentEffect::Run { lot, work });
        true
    }

    pub fn ran(&mut self, lot: LotId, ok: bool, result: Vec<u8>, now: u64) {
        if !self.stands(lot, HoldState::Running) {
            return;
        }
        self.set(HoldState::Ran);
        let participants = self.active.as_mut().and_then(|active| active.begin.prepare.take());
        self.effects.push(AgentEffect::ToSequencer(ToSequencer::Done { lot, ok, result }));
        match participants {
            Some(participants) if ok => self.prepare(lot, participants, now),
            Some(_) => {
                self.step_back(lot);
                self.vote(lot, false);
                self.next();
            }
            None if ok && planted!(ReleasedSeparately) => {
                self.active = None;
                self.effects.push(AgentEffect::Release { lot });
                self.next();
            }
            None => {}
        }
    }

    fn prepare(&mut self, lot: LotId, participants: Vec<GroupId>, now: u64) {
        let settled = self.settled.clone();
        let record = Record::Prepared { lot, settled: settled.clone(), participants: participants.clone(), redo: () };
        match self.ledger.apply(record) {
            Ok(_) => {}
            Err(_) if planted!(PreparedAfterRefusal) => {}
            Err(error) => panic!("lot {lot} is prepared: {error}"),
        }
        self.active = None;
        self.effects.push(AgentEffect::Prepare { lot, settled, participants: participants.clone() });
        let doubt = Doubt {
            participants,
            is_committed: false,
            is_inherited: false,
            ask_from: now + PATIENCE_NANOS,
            prepared_by: BTreeSet::from([self.group]),
            asked_by: Vec::new(),
        };
        self.doubts.insert(lot, doubt);
        if planted!(VoteBeforeCommit) {
            self.vote(lot, true);
        }
    }

    /// The part is committed in the stream.
    pub fn prepared(&mut self, lot: LotId) {
        let Some(doubt) = self.doubts.get_mut(&lot) else { return };
        assert!(!doubt.is_committed, "lot {lot} is prepared once");
        doubt.is_committed = true;
        let asked_by = std::mem::take(&mut doubt.asked_by);
        self.vote(lot, true);
        for asks in asked_by {
            self.answer(lot, asks, Resolution::Prepared);
        }
    }

    fn decided_elsewhere(&mut self, lot: LotId, outcome: Outcome) {
        if let Some(doubt) = self.doubts.get(&lot) {
            assert!(
                outcome == Outcome::Aborted || doubt.is_committed || planted!(VoteBeforeCommit),
                "lot {lot} is committed only by parts that are"
            );
            return self.decide(lot, outcome);
        }
        if self.active.as_ref().is_some_and(|active| active.begin.lot == lot) {
            assert!(outcome == Outcome::Aborted, "lot {lot} is committed without the part of {}", self.group);
            self.step_back(lot);
        }
        self.queue.retain(|begin| begin.lot != lot);
        self.next();
        if !self.deciding.contains(&lot) {
            self.effects.push(AgentEffect::ToSequencer(ToSequencer::Settled { lot }));
        }
    }

    fn decide(&mut self, lot: LotId, outcome: Outcome) {
        let doubt = self.doubts.remove(&lot).expect("it is in doubt");
        let record = Record::Decided { lot, settled: self.settled.clone(), outcome };
        self.ledger.apply(record.clone()).expect("a part that was prepared is decided");
        self.effects.push(AgentEffect::Append(record));
        self.deciding.insert(lot);
        if !doubt.is_inherited {
            self.effects.push(match outcome {
                Outcome::Committed => AgentEffect::Commit { lot },
                Outcome::Aborted => AgentEffect::StepBack { lot },
            });
        }
        let verdict = match outcome {
            Outcome::Committed => Resolution::Committed,
            Outcome::Aborted => Resolution::Aborted,
        };
        for asks in doubt.asked_by {
            self.answer(lot, asks, verdict);
        }
        self.next();
    }

    /// The outcome is committed in the stream.
    pub fn decided(&mut self, lot: LotId) {
        assert!(self.deciding.remove(&lot), "lot {lot} was decided");
        self.effects.push(AgentEffect::ToSequencer(ToSequencer::Settled { lot }));
        self.report_order();
    }

    /// Nothing was prepared for it: undo, and let go.
    fn step_back(&mut self, lot: LotId) {
        let active = self.active.take().expect("it is active");
        assert!(active.begin.lot == lot);
        // While the stores are on their way, `held` returns them.
        if active.state != HoldState::Holding {
            self.effects.push(AgentEffect::StepBack { lot });
        }
    }

    fn vote(&mut self, lot: LotId, yes: bool) {
        self.effects.push(AgentEffect::ToSequencer(ToSequencer::Vote { lot, yes }));
    }

    /// Somebody does not know how the lot ends. If there is no part of it here, there never will
    /// be: that is a record, so that whoever leads next answers the same.
    fn resolve(&mut self, lot: LotId, asks: Option<GroupId>) {
        if let Some(doubt) = self.doubts.get_mut(&lot) {
            if doubt.is_committed {
                self.answer(lot, asks, Resolution::Prepared);
            } else {
                doubt.asked_by.push(asks);
            }
            return;
        }
        if let Some(waiting) = self.refusing.get_mut(&lot) {
            return waiting.push(asks);
        }
        match self.ledger.outcomes().get(&lot) {
            Some(Outcome::Committed) => return self.answer(lot, asks, Resolution::Committed),
            Some(Outcome::Aborted) => return self.answer(lot, asks, Resolution::Aborted),
            // How the lot ended is forgotten, and the question is an old one, unless the group that
            // asks has lost the outcome by an accepted loss.
            None if self.settled.covers(lot) => {
                let settled = ToAgent::Settled(self.settled.clone());
                let told = asks.map(|group| AgentEffect::ToAgent { group, message: settled });
                return self.effects.extend(told);
            }
            None => {}
        }
        let waiting = self.queue.len();
        self.queue.retain(|begin| begin.lot != lot);
        let is_active = self.active.as_ref().is_some_and(|active| active.begin.lot == lot);
        if is_active {
            self.step_back(lot);
        }
        // The sequencer waits for this part, and has not lost it for all that it knows.
        if is_active || self.queue.len() < waiting {
            self.vote(lot, false);
        }
        if planted!(RefusedWithoutRecord) {
            self.next();
            return self.answer(lot, asks, Resolution::Aborted);
        }
        let record = Record::Refused { lot, settled: self.settled.clone() };
        self.ledger.apply(record.clone()).expect("nothing is known of it");
        self.effects.push(AgentEffect::Append(record));
        self.refusing.insert(lot, vec![asks]);
        self.next();
    }

    /// The refusal is committed in the stream.
    pub fn refused(&mut self, lot: LotId) {
        for asks in self.refusing.remove(&lot).unwrap_or_default() {
            self.answer(lot, asks, Resolution::Aborted);
        }
    }

    /// A part that is in doubt here, and settled everywhere else, is of a stream that has lost the
    /// outcome: its end was given up by an accepted loss. No group remembers the outcome. The part
    /// counts, as nearly all do that are prepared.
    fn learn_settled(&mut self, settled: &Settled) {
        self.settled.merge(settled);
        let is_lost = |(lot, doubt): &(&LotId, &Doubt)| doubt.is_inherited && self.settled.covers(**lot);
        let lost: Vec<LotId> = self.doubts.iter().filter(is_lost).map(|(lot, _)| *lot).collect();
        for lot in lost {
            // Until this stream has an outcome again.
            self.settled.open.insert(lot);
            self.decide(lot, Outcome::Committed);
        }
    }

    fn answer(&mut self, lot: LotId, asks: Option<GroupId>, verdict: Resolution) {
        self.effects.push(match asks {
            Some(group) => AgentEffect::ToAgent { group, message: ToAgent::Verdict { lot, of: self.group, verdict } },
            None => AgentEffect::ToSequencer(ToSequencer::Verdict { lot, verdict }),
        });
    }

    fn judge(&mut self, lot: LotId, of: GroupId, verdict: Resolution) {
        let Some(doubt) = self.doubts.get_mut(&lot).filter(|doubt| doubt.is_committed) else { return };
        match verdict {
            Resolution::Aborted => self.decide(lot, Outcome::Aborted),
            Resolution::Committed => self.decide(lot, Outcome::Committed),
            Resolution::Prepared => {
                doubt.prepared_by.insert(of);
                if doubt.participants.iter().all(|group| doubt.prepared_by.contains(group)) {
                    self.decide(lot, Outcome::Committed);
                }
            }
        }
    }

    /// Asks the other participants of what has been in doubt for long, and forgets what is settled
    /// where nothing else does.
    pub fn tick(&mut self, now: u64) {
        let group = self.group;
        for (lot, doubt) in &mut self.doubts {
            if !doubt.is_committed || doubt.ask_from > now {
                continue;
            }
            doubt.ask_from = now + AGAIN_NANOS;
            let others = doubt.participants.iter().filter(|other| !doubt.prepared_by.contains(other));
            for other in others {
                let message = ToAgent::Resolve { lot: *lot, asks: Some(group) };
                self.effects.push(AgentEffect::ToAgent { group: *other, message });
            }
        }
        // A lot that only this group takes part in has nobody to ask.
        let alone = |doubt: &Doubt| doubt.is_committed && doubt.is_inherited && doubt.participants == [group];
        let own: Vec<LotId> = self.doubts.iter().filter(|(_, doubt)| alone(doubt)).map(|(lot, _)| *lot).collect();
        for lot in own {
            self.decide(lot, Outcome::Committed);
        }
        let may_forget = self.is_idle() && self.refusing.is_empty();
        if may_forget && self.ledger.outcomes().keys().any(|lot| self.settled.covers(*lot)) {
            let record = Record::Settled { settled: self.settled.clone() };
            self.ledger.apply(record.clone()).expect("nothing is in doubt");
            self.effects.push(AgentEffect::Append(record));
        }
    }

    /// All that a lot saw that was released is committed.
    pub fn confirmed(&mut self, lot: LotId) {
        self.effects.push(AgentEffect::ToSequencer(ToSequencer::Fresh { lot }));
    }

    fn report_order(&mut self) {
        if !self.owes_order || !self.is_ordered {
            return;
        }
        let epoch = self.order;
        let is_earlier = |lot: &LotId| lot.epoch < epoch;
        let in_doubt: Vec<LotId> = self.doubts.keys().chain(&self.deciding).copied().filter(is_earlier).collect();
        self.owes_order = !in_doubt.is_empty();
        self.effects.push(AgentEffect::ToSequencer(ToSequencer::Ordered { epoch, in_doubt }));
    }
}
