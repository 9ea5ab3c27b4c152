//! The coordinator's side of lots: transactions over groups, of which this group has a part
//! (docs/decisions/0121, 0124).
//!
//! The agent (`ferrite_multi::Agent`) says what is to be done, and this carries it out: holding is
//! borrowing, a part is an entry of the group's stream, stepping back is the undo that a cluster's
//! stores keep of what is not committed.
//!
//! Invariants:
//! - While stores are held, nothing else borrows any: other jobs wait, in their order.
//! - The gates of partitions that are held hear nothing of the part before the lot is committed;
//!   then the entry that says so tells them.
//! - What was held goes back either as it was, or with what the lot has changed and the record of
//!   that in the stream.
//! - [`Leading::committed`] is what the committed stream says, no more and no less: records count
//!   there when their entries are committed.
//! - Where parts are in doubt when the leader begins, no partition has its store until they are
//!   decided, and what counts of them is in the stores.

use super::lending::{Lending, StorePosition};
use super::lot_change::is_change;
use super::lot_cut::KeptCut;
use super::lot_hold::{Hold, Leading, LongDoubt, UnsettledStores};
use super::{Coordinator, lot_work, receive};
use crate::answer::{AnswerBatch, Mailbox};
use crate::apply;
use crate::commit::{Completion, LotEvent, Parties};
use crate::event::{Job, Loan, Unsettled};
use crate::gate::Gate;
use crate::lots::{LotLedger, LotLinks, LotWork};
use crate::record;
use crossbeam_channel::{Receiver, Sender, after, unbounded};
use ferrite_base::{Epoch, GroupId, PartitionId, Sequence, planted};
use ferrite_group::EntryBuffer;
use ferrite_multi::{Agent, AgentEffect, Applied, LotId, Outcome, Record, ToAgent};
use ferrite_notice::Notice;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks whether a part that is in doubt has to ask others.
const DOUBT_TICK_NANOS: u64 = 50_000_000;
/// The same where only outcomes are remembered.
const MEMORY_TICK_NANOS: u64 = 1_000_000_000;
/// The operator hears of a part that has been in doubt for so long.
const LONG_DOUBT_NANOS: u64 = 10_000_000_000;

/// Of a coordinator whose group may take part in lots.
pub(super) struct LotSide {
    pub links: Arc<dyn LotLinks>,
    /// None: this node has a copy.
    pub leading: Option<Box<Leading>>,
    /// What came while stores were held, and waits until they are not.
    pub deferred: VecDeque<Job>,
    /// For a backup of all groups.
    pub kept_cut: Option<Box<KeptCut>>,
}

/// Hears when what a lot has shown may be told.
struct ShownLot {
    lot: LotId,
    to: Sender<LotEvent>,
}

impl Mailbox for ShownLot {
    fn deliver(&self, _: AnswerBatch) {
        let _ = self.to.send(LotEvent::Shown(self.lot));
    }
}

impl Leading {
    /// Whether the operator is to hear that an outcome is not known, or is again.
    fn note_doubt(&mut self, group: GroupId, now: u64) {
        let oldest = self.agent.in_doubt().next();
        let Some(doubt) = self.in_doubt.as_mut().filter(|doubt| Some(doubt.lot) == oldest) else {
            let before = self.in_doubt.take().filter(|doubt| doubt.is_noted);
            self.in_doubt = oldest.map(|lot| LongDoubt { lot, since: now, is_noted: false });
            return before.into_iter().for_each(|doubt| {
                ferrite_io::notify(Notice::LotDecided { group, seconds: (now - doubt.since) / 1_000_000_000 });
            });
        };
        if !doubt.is_noted && now - doubt.since >= LONG_DOUBT_NANOS {
            doubt.is_noted = true;
            let unheard: Vec<String> = self.agent.unheard(doubt.lot).map(|group| format!("group {group}")).collect();
            let missing = if unheard.is_empty() { "its own members".to_owned() } else { unheard.join(", ") };
            let seconds = (now - doubt.since) / 1_000_000_000;
            ferrite_io::notify(Notice::LotUndecided { group, seconds, missing });
        }
    }
}

impl LotSide {
    pub fn new(links: Arc<dyn LotLinks>) -> LotSide {
        LotSide { links, leading: None, deferred: VecDeque::new(), kept_cut: None }
    }

    /// Stores are held, or not there yet: only what concerns lots is done.
    pub fn is_busy(&self) -> bool {
        self.leading.as_ref().is_some_and(|leading| leading.hold.is_some() || leading.awaits_stores())
    }

    /// What the stream says with all that was appended.
    pub fn ledger(&self) -> LotLedger {
        let Some(leading) = &self.leading else { return LotLedger::default() };
        let mut ledger = leading.committed.clone();
        for record in &leading.appended {
            ledger.apply(record.clone()).expect("what was appended continues the stream");
        }
        ledger
    }

    pub fn events(&self) -> Option<&Receiver<LotEvent>> {
        self.leading.as_ref().map(|leading| &leading.events.1)
    }

    pub fn tick_at(&self) -> Option<u64> {
        let agent = self.leading.as_ref().and_then(|leading| leading.tick_at);
        let cut = self.kept_cut.as_ref().map(|kept| kept.dropped_at());
        agent.into_iter().chain(cut).min()
    }
}

/// Whether a job is done while stores are held.
pub(super) fn concerns_lots(job: &Job) -> bool {
    matches!(job, Job::Lot(_) | Job::SequencerLost(_) | Job::Report(_) | Job::Follow { .. } | Job::Stop)
}

impl Coordinator {
    /// The leader begins. `unsettled`: something is in doubt in its stream.
    pub(super) fn lead_lots(&mut self, epoch: Option<Epoch>, ledger: LotLedger, unsettled: Option<Unsettled>) {
        let Some(side) = &mut self.lots else {
            return assert!(unsettled.is_none(), "what takes part in lots has a way to others");
        };
        assert!(self.steps_back, "a group of several keeps undo");
        let epoch = epoch.expect("a leader of a cluster appends in the name of an epoch");
        let unsettled = unsettled.map(|Unsettled { loans, back }| {
            let all = back.iter().map(|_| receive(&mut self.others, &loans).expect("a partition lends its store"));
            let mut loans: Vec<Loan> = all.collect();
            loans.sort_by_key(|loan| loan.partition);
            assert!(loans.iter().map(|loan| loan.partition).eq(self.of.ids()), "each partition lends its store");
            UnsettledStores { loans, back }
        });
        side.leading = Some(Box::new(Leading {
            agent: Agent::new(self.of.group(), epoch, &ledger),
            epoch,
            committed: ledger,
            appended: VecDeque::new(),
            hold: None,
            settling: None,
            adopting: None,
            unsettled,
            waiting: VecDeque::new(),
            failed: None,
            events: unbounded(),
            tick_at: None,
            in_doubt: None,
        }));
        self.with_agent(|agent, now| agent.tick(now));
    }

    /// The leader is one no more: stores go back as they were before parts that are not committed.
    /// What the committed stream says of lots.
    pub(super) fn end_lots(&mut self) -> LotLedger {
        self.note_lot_events();
        self.drop_cut();
        let Some(mut leading) = self.lots.as_mut().and_then(|side| side.leading.take()) else {
            return LotLedger::default();
        };
        for hold in leading.hold.take().into_iter().chain(leading.adopting.take()) {
            self.undo(hold);
        }
        if let Some(UnsettledStores { loans, back }) = leading.unsettled.take() {
            give_back_loans(loans, &back);
        }
        leading.committed
    }

    pub(super) fn lot_message(&mut self, message: ToAgent) {
        self.with_agent(|agent, now| agent.receive(message, now));
    }

    pub(super) fn sequencer_lost(&mut self, epoch: Epoch) {
        self.with_agent(|agent, now| agent.sequencer_lost(epoch, now));
    }

    /// What has become of appends and of what was shown.
    pub(super) fn note_lot_events(&mut self) {
        while let Some(Ok(event)) = self.lots.as_ref().and_then(LotSide::events).map(Receiver::try_recv) {
            self.lot_event(event);
        }
    }

    pub(super) fn lot_event(&mut self, event: LotEvent) {
        let Some(mut leading) = self.lots.as_mut().and_then(|side| side.leading.take()) else { return };
        match event {
            LotEvent::Appended(Ok(())) => self.lot_committed(&mut leading),
            // Another leader says what becomes of it.
            LotEvent::Appended(Err(_)) => drop(leading.appended.pop_front()),
            // What a node showed that was deposed since may be lost.
            LotEvent::Shown(_) if self.refusal().is_some() => {}
            LotEvent::Shown(lot) => self.lot_shown(&mut leading, lot),
        }
        self.carry_out(&mut leading);
        self.lots.as_mut().expect("it is here").leading = Some(leading);
    }

    /// All that a lot has seen, or its stores show, is committed.
    fn lot_shown(&mut self, leading: &mut Leading, lot: LotId) {
        if let Some(settling) = leading.settling.take_if(|settling| settling.lot == lot) {
            self.make_change(leading, *settling);
        } else if let Some((_, result)) = leading.failed.take_if(|(failed, _)| *failed == lot) {
            leading.agent.ran(lot, false, result, self.clock.monotonic_nanos());
        } else {
            leading.agent.confirmed(lot);
        }
    }

    /// Lets the agent look after what it does not know, where it is time.
    pub(super) fn tick_lots(&mut self) -> bool {
        let Some(at) = self.lots.as_ref().and_then(LotSide::tick_at) else { return false };
        if self.clock.monotonic_nanos() < at {
            return false;
        }
        self.drop_old_cut();
        self.with_agent(|agent, now| agent.tick(now));
        true
    }

    /// For a caller with many parties on one thread: does what is next that is no job, if there is
    /// anything; whether there was.
    pub(super) fn step_lots(&mut self) -> bool {
        let event = self.lots.as_ref().and_then(LotSide::events).and_then(|events| events.try_recv().ok());
        match event {
            Some(event) => {
                self.lot_event(event);
                true
            }
            None => self.tick_lots(),
        }
    }

    pub(super) fn can_step_lots(&self) -> bool {
        let Some(side) = &self.lots else { return false };
        let is_due = side.tick_at().is_some_and(|at| at <= self.clock.monotonic_nanos());
        is_due || side.events().is_some_and(|events| !events.is_empty()) || !side.is_busy() && !side.deferred.is_empty()
    }

    /// Does all that is no job.
    pub(super) fn go_on_with_lots(&mut self) {
        while self.step_lots() {}
    }

    /// Waits for the next job, and does meanwhile what is none.
    pub(super) fn next_with_lots(&mut self) -> Option<Job> {
        loop {
            let side = self.lots.as_ref().expect("it is here");
            let events = side.events().cloned().unwrap_or_else(crossbeam_channel::never);
            let due = match side.tick_at() {
                Some(at) => after(Duration::from_nanos(at.saturating_sub(self.clock.monotonic_nanos()))),
                None => crossbeam_channel::never(),
            };
            crossbeam_channel::select! {
                recv(self.inbox) -> job => return job.ok(),
                recv(events) -> event => event.into_iter().for_each(|event| self.lot_event(event)),
                recv(due) -> _ => {}
            }
            self.go_on_with_lots();
            // What has waited for the stores comes first.
            if let Some(job) = self.at_hand() {
                return Some(job);
            }
        }
    }

    fn with_agent(&mut self, act: impl FnOnce(&mut Agent, u64)) {
        let Some(mut leading) = self.lots.as_mut().and_then(|side| side.leading.take()) else { return };
        let now = self.clock.monotonic_nanos();
        leading.tick_at = leading.tick_at.filter(|at| *at > now);
        act(&mut leading.agent, now);
        self.carry_out(&mut leading);
        self.lots.as_mut().expect("it is here").leading = Some(leading);
    }

    fn carry_out(&mut self, leading: &mut Leading) {
        loop {
            let effects = leading.agent.effects();
            if effects.is_empty() && !self.settle_lots(leading) {
                break;
            }
            for effect in effects {
                self.carry_out_one(leading, effect);
            }
        }
        leading.note_doubt(self.of.group(), self.clock.monotonic_nanos());
        let within = match leading.agent.in_doubt().next() {
            Some(_) => Some(DOUBT_TICK_NANOS),
            None => (!leading.committed.outcomes().is_empty()).then_some(MEMORY_TICK_NANOS),
        };
        let next = within.map(|nanos| self.clock.monotonic_nanos() + nanos);
        leading.tick_at = leading.tick_at.into_iter().chain(next).min().filter(|_| next.is_some());
    }

    fn carry_out_one(&mut self, leading: &mut Leading, effect: AgentEffect) {
        let links = Arc::clone(&self.lots.as_ref().expect("it is here").links);
        match effect {
            AgentEffect::Hold { lot, partitions } if leading.awaits_stores() => {
                leading.waiting.push_back((lot, partitions));
            }
            AgentEffect::Hold { lot, partitions } => self.hold_for(leading, lot, &partitions),
            AgentEffect::Run { lot, work } => self.run_work(leading, lot, LotWork::decode(&work).ok()),
            AgentEffect::Prepare { lot, settled, participants } => {
                let hold = leading.hold.as_mut().filter(|hold| hold.lot == lot).expect("what is prepared is held");
                let redo = std::mem::take(&mut hold.redo);
                let gates = if planted!(GatesToldEarly) { self.gates_of_hold(leading, lot) } else { Vec::new() };
                self.append_lot(leading, Record::Prepared { lot, settled, participants, redo }, gates);
            }
            AgentEffect::Append(record) => {
                let gates = self.gates_of(leading, &record);
                self.append_lot(leading, record.map(|()| Vec::new()), gates);
            }
            AgentEffect::Commit { lot } => {
                let hold = leading.hold.take().filter(|hold| hold.lot == lot).expect("what counts is held");
                match &hold.change {
                    Some(_) if planted!(ChangeAdoptedEarly) => self.adopt_change_of_lot(hold),
                    Some(_) => leading.adopting = Some(hold),
                    None => self.give_back(hold.borrowed),
                }
            }
            AgentEffect::StepBack { lot } => {
                let hold = leading.hold.take().filter(|hold| hold.lot == lot).expect("what is undone is held");
                self.undo(hold);
            }
            AgentEffect::Release { lot } => {
                let hold = leading.hold.take().filter(|hold| hold.lot == lot).expect("what is let go is held");
                // Nothing of it was prepared: what it has changed never counts.
                self.undo(hold);
                self.when_shown(leading, lot);
            }
            AgentEffect::ToSequencer(message) => links.to_sequencer(self.of.group(), leading.epoch, message),
            AgentEffect::ToAgent { group, message } => links.to_agent(self.of.group(), group, message),
        }
    }

    /// `work`: None where it cannot be read.
    fn run_work(&mut self, leading: &mut Leading, lot: LotId, work: Option<LotWork>) {
        if let Some(LotWork { calls, time_micros, .. }) = &work
            && let [call] = &calls[..]
            && is_change(call)
        {
            return self.begin_change_of_lot(leading, lot, call, *time_micros);
        }
        let mut hold = leading.hold.take().filter(|hold| hold.lot == lot).expect("what runs is held");
        let result = work.map_or_else(lot_work::malformed, |work| self.run_lot(&mut hold, &work));
        leading.hold = Some(hold);
        if result.is_success() {
            leading.agent.ran(lot, true, result.encode(), self.clock.monotonic_nanos());
        } else {
            leading.failed = Some((lot, result.encode()));
            self.when_shown(leading, lot);
        }
    }

    fn hold_for(&mut self, leading: &mut Leading, lot: LotId, partitions: &[PartitionId]) {
        assert!(leading.hold.is_none(), "one lot at a time is held");
        let mut wanted = vec![false; self.partitions.len()];
        // The work fails where one is of another group, since it is not held.
        partitions.iter().filter_map(|partition| self.of.place_of(*partition)).for_each(|place| wanted[place] = true);
        let borrowed = self.borrow(&wanted);
        let before = borrowed.iter().map(|lent| lent.as_ref().map(|(_, position)| position.sequence)).collect();
        if leading.agent.held(lot) {
            leading.hold = Some(Hold { lot, borrowed, before, redo: Vec::new(), change: None });
        } else {
            self.give_back(borrowed);
        }
    }

    /// A planted fault: the stores take other calls while the lot holds them.
    fn lend_early(&mut self, hold: &mut Hold) {
        let nothing = hold.borrowed.iter().map(|_| None).collect();
        self.give_back(std::mem::replace(&mut hold.borrowed, nothing));
    }

    /// Stores go back as they were before the hold.
    fn undo(&mut self, mut hold: Hold) {
        hold.step_back();
        self.give_back(hold.borrowed);
    }

    /// The gates that hear of what counts with that record.
    fn gates_of(&self, leading: &Leading, record: &Record<()>) -> Vec<(Arc<Gate>, Sequence)> {
        let Record::Decided { lot, outcome: Outcome::Committed, .. } = record else { return Vec::new() };
        if planted!(GatesToldEarly) {
            return Vec::new();
        }
        self.gates_of_hold(leading, *lot)
    }

    fn gates_of_hold(&self, leading: &Leading, lot: LotId) -> Vec<(Arc<Gate>, Sequence)> {
        let Some(hold) = leading.hold.as_ref().filter(|hold| hold.lot == lot) else { return Vec::new() };
        let positions = hold.borrowed.iter().flatten().map(|(_, position)| position);
        let is_changed = |position: &&StorePosition| Some(position.sequence) > hold.before[position.place];
        let gate_of = |position: &StorePosition| {
            let gate = Arc::clone(&self.partitions[position.place].gate);
            gate.appended(position.sequence);
            (gate, position.sequence)
        };
        positions.filter(is_changed).map(gate_of).collect()
    }

    fn append_lot(&mut self, leading: &mut Leading, record: Record<Vec<u8>>, gates: Vec<(Arc<Gate>, Sequence)>) {
        let mut entry = EntryBuffer::default();
        record::write_lot(entry.records(), &record);
        leading.appended.push_back(record);
        let parties = Parties::Lot(gates, leading.events.0.clone());
        self.log.append(entry, Completion { parties, buffers: None });
    }

    /// Word comes when all that the stores show is committed, and this node led when they showed
    /// it.
    pub(super) fn when_shown(&mut self, leading: &Leading, lot: LotId) {
        self.ticket = Sequence(self.ticket.0 + 1);
        let mut nothing: Lending = self.lending(Vec::new());
        self.outlet().append(self.ticket, &mut nothing, &mut []);
        self.gate.hold(Arc::new(ShownLot { lot, to: leading.events.0.clone() }), AnswerBatch::default());
    }

    /// The first of the records that were appended is committed.
    fn lot_committed(&mut self, leading: &mut Leading) {
        let record = leading.appended.pop_front().expect("what is committed was appended");
        let applied = leading.committed.apply(record.clone()).expect("the stream continues");
        if let (Applied::Committed(part), Some(unsettled)) = (applied, &mut leading.unsettled) {
            self.make_part(unsettled, &part.redo);
        }
        if let (Record::Prepared { lot, .. }, Some(hold)) = (&record, &mut leading.hold)
            && hold.lot == *lot
        {
            if planted!(UndoForgotten) {
                for (store, _) in hold.borrowed.iter_mut().flatten() {
                    store.retain_undo(false);
                    store.retain_undo(true);
                }
            }
            if planted!(PartLentEarly) {
                self.lend_early(hold);
            }
        }
        if let Record::Decided { lot, .. } = &record
            && let Some(hold) = leading.adopting.take_if(|hold| hold.lot == *lot)
        {
            self.adopt_change_of_lot(hold);
            self.hold_for_waiting(leading);
        }
        match record {
            Record::Prepared { lot, .. } => leading.agent.prepared(lot),
            Record::Decided { lot, .. } => leading.agent.decided(lot),
            Record::Refused { lot, .. } => leading.agent.refused(lot),
            Record::Ordered { epoch, .. } => leading.agent.ordered(epoch),
            Record::Settled { .. } => {}
        }
    }

    /// Makes the changes of an earlier leader's part, which counts. They are committed.
    fn make_part(&mut self, unsettled: &mut UnsettledStores, mut redo: &[u8]) {
        while let Some(record) = record::next_record(&mut redo).expect("replay has read it") {
            let parts = match record {
                record::Record::Multi { parts, .. } => parts,
                record::Record::Schema { version, time, text } => {
                    self.make_change_of_part(unsettled, version, time, text);
                    continue;
                }
                _ => panic!("a part has transactions, or a schema change"),
            };
            for part in parts {
                let place = self.place(part.partition);
                let loan = &mut unsettled.loans[place];
                assert_eq!(part.sequence.0, loan.sequence.0 + 1, "a part continues its partition's history");
                loan.store.retain_undo(false);
                apply::one(&mut loan.store, part.partition, part.sequence, part.changes)
                    .unwrap_or_else(|error| panic!("what the group has committed cannot be made here: {error}"));
                loan.store.retain_undo(true);
                loan.sequence = part.sequence;
                let gate = &self.partitions[place].gate;
                gate.appended(part.sequence);
                gate.committed(part.sequence);
            }
        }
    }

    /// Partitions take calls as soon as nothing of earlier leaders is in doubt, and what counts is
    /// committed and made. Whether that has come now.
    fn settle_lots(&mut self, leading: &mut Leading) -> bool {
        let is_decided = leading.agent.is_settled() && leading.committed.in_doubt().is_empty();
        let Some(UnsettledStores { loans, back }) = leading.unsettled.take_if(|_| is_decided) else { return false };
        give_back_loans(loans, &back);
        self.hold_for_waiting(leading);
        true
    }

    fn hold_for_waiting(&mut self, leading: &mut Leading) {
        for (lot, partitions) in std::mem::take(&mut leading.waiting) {
            self.hold_for(leading, lot, &partitions);
        }
    }
}

fn give_back_loans(loans: Vec<Loan>, back: &[Sender<Loan>]) {
    for (loan, back) in loans.into_iter().zip(back) {
        assert!(loan.store.is_committed(), "a store goes back between two transactions");
        back.send(loan).unwrap_or_else(|_| panic!("a partition waits for its store"));
    }
}
