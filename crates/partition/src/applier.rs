//! A copy's side of a group: takes committed entries, in order, as they are in the log, and has the
//! partitions' threads apply them.
//!
//! It decides with recovery's code whether an entry continues the copy (`judge.rs`), and the
//! partitions make the changes with recovery's code (`apply.rs`); nothing is executed. Each
//! partition gets its changes in order; a schema change and a snapshot borrow all stores after what
//! came earlier, as the coordinator does. Every wait is a state, so that one thread can run many
//! parties.
//!
//! Invariant: what is applied is a beginning of the stream, and the applied position says which. An
//! entry that does not fit ends the copy, loudly; it is never left out.

mod holding;
mod intake;

pub use intake::Intake;

use crate::compiled::Compiled;
use crate::contents::{Checking, ContentCut};
use crate::delivery::{Arrival, CopyFault, CopySnapshot, Delivery, Parcel, Promoted};
use crate::event::{Event, Job, Loan, Unsettled};
use crate::inboxes::GroupInboxes;
use crate::judge::{Change, Judge, ReplayError};
use crate::lots::LotLedger;
use crate::own_log::{Found, OwnLog};
use crate::record::{self, Part};
use crate::schema::{Planned, SchemaHistory};
use crate::waker::waking_channel;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{NodeId, PartitionId, Position, Sequence, limits, planted};
use ferrite_catalog::Catalog;
use ferrite_group::{CatchUpError, Entry, GroupAppender, GroupPlace, Replayed};
use ferrite_replica::group::Mark;
use holding::{Holding, Purpose};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Changes gathered for a partition before they are handed over, where there are this many.
const PARCEL_BYTES: usize = 256 * 1024;
/// Between two looks whether the log has what is to be read there.
const LOOK_AT_LOG_EVERY: Duration = Duration::from_millis(5);

/// The state of a copy when its applier begins.
pub struct CopyStart {
    pub here: NodeId,
    /// After the last entry that the stores show.
    pub place: GroupPlace,
    /// By the partition's place in its group.
    pub sequences: Vec<Sequence>,
    pub compiled: Arc<Compiled>,
    pub history: SchemaHistory,
    /// What the stream has said of lots.
    pub lots: LotLedger,
}

impl Promoted {
    /// Makes the partitions and the coordinator of a node leaders, which append to `log`: it
    /// continues after `place`, and has the start of the leader's epoch. Where the group may have
    /// other members, they keep undo, and their reads ask for rounds, until [`SteppingBack`] ends
    /// it.
    ///
    /// [`SteppingBack`]: crate::SteppingBack
    pub fn lead(
        self,
        log: &GroupAppender<crate::commit::Completion>,
        partitions: &[Sender<Event>],
        jobs: &Sender<Job>,
    ) {
        let Promoted { place, compiled, history, lots, .. } = self;
        let log = log.since(place.end.epoch);
        let time = place.time.max(log.numbers_behind());
        // Each before whatever the coordinator asks of it.
        for partition in partitions {
            let event = Event::Lead { log: log.clone(), time };
            partition.send(event).expect("partitions outlive their role");
        }
        // And before any call.
        let is_unsettled = !lots.in_doubt().is_empty() && !planted!(LeadsInDoubt);
        let unsettled = is_unsettled.then(|| unsettled(partitions));
        let job = Job::Lead { log, time, compiled, history, lots, unsettled };
        jobs.send(job).unwrap_or_else(|_| panic!("the coordinator outlives its role"));
    }
}

/// Has all partitions lend their stores until what is in doubt is settled.
fn unsettled(partitions: &[Sender<Event>]) -> Unsettled {
    let (to, loans) = unbounded();
    let lend = |partition: &Sender<Event>| {
        let (back, comes_back) = unbounded();
        let event = Event::Lend { to: to.clone(), back: comes_back };
        partition.send(event).expect("partitions outlive their role");
        back
    };
    Unsettled { loans, back: partitions.iter().map(lend).collect() }
}

/// What an applier reports.
pub struct CopyEvents {
    /// A new catalog version.
    pub publish: Box<dyn Fn(Arc<Compiled>) + Send>,
    /// What a mark of the leader's wants hashed, beside everything else.
    pub contents: Box<dyn Fn(ContentCut) + Send>,
    /// The copy's end.
    pub fault: Box<dyn Fn(&CopyFault) + Send>,
}

pub struct Applier {
    inbox: Receiver<Delivery>,
    intake: Intake,
    lanes: Vec<Lane>,
    judge: Judge,
    compiled: Arc<Compiled>,
    events: CopyEvents,
    /// What came and was not begun.
    waiting: VecDeque<Delivery>,
    reading: Option<Reading>,
    /// The node's own log, and whether it is read at the moment.
    log: Option<OwnLog>,
    reads_log: bool,
    /// Snapshots are wanted, from that entry on.
    cut: Option<(Position, Sender<CopySnapshot>)>,
    /// What the tables held where the leader marked the stream last.
    checking: Option<Checking>,
    /// Everything up to there was handed to the partitions.
    dealt: Position,
    loans: (Sender<Loan>, Receiver<Loan>),
    holding: Option<Holding>,
    /// It takes nothing any more.
    ended: bool,
}

/// The way to one partition.
struct Lane {
    inbox: Sender<Event>,
    /// The way back for its store.
    back: (Sender<Loan>, Receiver<Loan>),
    gathered: Option<Parcel>,
    /// The first entries of parcels that are not yet applied.
    unapplied: VecDeque<Position>,
}

/// Entries that are being dealt out.
struct Reading {
    bytes: Arc<Arrival>,
    /// Where the next entry begins.
    next: usize,
    entry: Position,
    /// The current entry's records that are left.
    records: Range<usize>,
}

impl Applier {
    /// `inboxes`: of the group's partitions, which are where `start` says.
    pub fn new(start: CopyStart, inboxes: GroupInboxes, events: CopyEvents) -> (Applier, Intake) {
        let CopyStart { here, place, sequences, compiled, history, lots } = start;
        assert_eq!(inboxes.senders().len(), sequences.len(), "a sequence number per partition");
        let (sender, inbox) = waking_channel();
        let dealt = place.end.position;
        let intake = Intake {
            sender,
            held: Arc::default(),
            from_log: Arc::default(),
            applied: Arc::new(AtomicU64::new(dealt.0)),
            compared: Arc::default(),
            ended: Arc::default(),
        };
        // What a new database would say of itself is the stream's to say.
        let catalog = match compiled.catalog.version.0 {
            0 => Arc::new(Catalog::before_history()),
            _ => Arc::clone(&compiled.catalog),
        };
        let lane = |inbox| Lane { inbox, back: unbounded(), gathered: None, unapplied: VecDeque::new() };
        let applier = Applier {
            inbox,
            intake: intake.clone(),
            lanes: inboxes.senders().iter().cloned().map(lane).collect(),
            judge: Judge::new(
                here,
                inboxes.of().clone(),
                Some(Replayed::behind(here, place)),
                sequences,
                catalog,
                history,
            )
            .with_lots(lots),
            compiled,
            events,
            waiting: VecDeque::new(),
            reading: None,
            log: None,
            reads_log: false,
            cut: None,
            checking: None,
            dealt,
            loans: unbounded(),
            holding: None,
            ended: false,
        };
        (applier, intake)
    }

    /// What it is not given it reads there.
    pub fn with_log(mut self, log: OwnLog) -> Applier {
        self.log = Some(log);
        self
    }

    /// The way to it.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Runs until it is told to stop, the copy is promoted, or it cannot continue.
    pub fn run(mut self) {
        while !self.ended {
            if self.holding.is_some() {
                let loan = self.loans.1.recv().expect("a partition lends its store when asked");
                self.lent(loan);
            } else if !self.deal() {
                let Ok(delivery) = self.inbox.try_recv() else {
                    // No message reports that the log has more.
                    let time_max = self.reads_log.then_some(LOOK_AT_LOG_EVERY);
                    self.intake.sender.waker().wait(time_max, || !self.inbox.is_empty());
                    continue;
                };
                self.handle(delivery);
            }
        }
    }

    /// `run` for a caller with many parties on one thread: does what is next, if it can be done
    /// now; whether it did anything.
    pub fn step(&mut self) -> bool {
        if self.ended {
            return false;
        }
        if self.holding.is_some() {
            let Ok(loan) = self.loans.1.try_recv() else { return false };
            self.lent(loan);
            return true;
        }
        match self.inbox.try_recv() {
            Ok(delivery) => self.handle(delivery),
            Err(_) => return self.deal(),
        }
        true
    }

    /// Whether [`Applier::step`] would do anything.
    pub fn can_step(&self) -> bool {
        match &self.holding {
            _ if self.ended => false,
            Some(_) => !self.loans.1.is_empty(),
            None => !self.inbox.is_empty() || self.can_deal(),
        }
    }

    fn handle(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Applied { partition, outcome } => self.applied(partition, outcome),
            Delivery::Snapshot { from, to } => self.cut = Some((from, to)),
            Delivery::Contents(own) => {
                self.compare(|checking| (checking.mark == (own.epoch, own.position)).then(|| checking.own = Some(own)))
            }
            Delivery::Stop => self.end(),
            other => self.waiting.push_back(other),
        }
    }

    /// A partition has applied a parcel. An entry is applied when all parts of it are.
    fn applied(&mut self, partition: PartitionId, outcome: Result<(), CopyFault>) {
        let lane = &mut self.lanes[self.judge.place(partition)];
        lane.unapplied.pop_front().expect("what is applied was sent");
        match outcome {
            Ok(()) => self.publish_applied(),
            Err(fault) => self.fail(fault),
        }
    }

    fn publish_applied(&self) {
        let first = self.lanes.iter().filter_map(Lane::first_unapplied).min();
        let applied = first.map_or(self.dealt, |first| Position(first.0 - 1).min(self.dealt));
        self.intake.applied.store(applied.0, Ordering::Release);
    }

    fn fail(&mut self, fault: CopyFault) {
        if !self.ended {
            self.end();
            (self.events.fault)(&fault);
        }
    }

    fn end(&mut self) {
        self.ended = true;
        // The waiting caller hears that it does not come.
        self.cut = None;
        self.intake.ended.store(true, Ordering::Release);
    }

    /// Deals out what waits, until something is in the way; whether it did anything.
    fn deal(&mut self) -> bool {
        let mut worked = false;
        while self.can_deal() {
            worked = true;
            if self.cut_is_due() {
                let (_, to) = self.cut.take().expect("seen just now");
                self.hold(Purpose::Snapshot(to));
                continue;
            }
            let dealt = match self.reading.take() {
                Some(reading) => self.deal_one(reading),
                None if self.reads_log => self.read_log(),
                None => {
                    self.begin();
                    Ok(())
                }
            };
            if let Err((entry, reason)) = dealt {
                self.fail(CopyFault { entry, reason });
            }
        }
        worked
    }

    fn can_deal(&self) -> bool {
        let unapplied = || self.lanes.iter().any(|lane| lane.first_unapplied().is_some());
        let waits = match self.waiting.front() {
            _ if self.reads_log => self.reading.is_none() && !self.can_read_log(),
            None => self.reading.is_none(),
            // A leader begins when all is applied.
            Some(Delivery::Promote(_)) => self.reading.is_none() && unapplied(),
            Some(_) => false,
        };
        !self.ended && self.holding.is_none() && (!waits || self.cut_is_due())
    }

    /// All that is wanted was dealt out, and no entry in part.
    fn cut_is_due(&self) -> bool {
        let whole = |reading: &Reading| reading.records.is_empty() && reading.entry == self.dealt;
        self.cut.as_ref().is_some_and(|(from, _)| self.dealt >= *from) && self.reading.as_ref().is_none_or(whole)
    }

    /// Begins what came next.
    fn begin(&mut self) {
        match self.waiting.pop_front() {
            Some(Delivery::Entries(bytes)) => {
                self.reading = Some(Reading { bytes, next: 0, entry: self.dealt, records: 0..0 });
            }
            Some(Delivery::FromLog) => self.reads_log = true,
            Some(Delivery::Promote(to)) => {
                self.end();
                // The caller may have given up waiting.
                let _ = to.send(self.promoted());
            }
            None
            | Some(Delivery::Applied { .. } | Delivery::Snapshot { .. } | Delivery::Contents(_) | Delivery::Stop) => {
                unreachable!("taken as they come")
            }
        }
    }

    /// Whether the next entry is there and there is room for it, or all were read.
    fn can_read_log(&self) -> bool {
        let all = Position(self.intake.from_log.load(Ordering::Acquire)) <= self.dealt;
        let held = self.intake.held.load(Ordering::Relaxed);
        let has_room = held == 0 || held + limits::CATCH_UP_READ_BYTES <= limits::COPY_ENTRIES_BYTES_MAX;
        all || has_room && self.log.as_ref().is_none_or(|log| log.reaches_beyond(self.dealt))
    }

    /// Continues with what is in the log, up to where it is committed.
    fn read_log(&mut self) -> Result<(), (Position, ReplayError)> {
        let behind = self.place().end;
        let up_to = self.intake.from_log.load(Ordering::Acquire);
        assert_eq!(behind.position, self.dealt, "what was read is dealt out before more is read");
        let log = self.log.as_mut().expect("a copy that is not given its entries has a log");
        if up_to <= self.dealt.0 {
            // There may be more by now.
            let from_log = &self.intake.from_log;
            self.reads_log = from_log.compare_exchange(up_to, 0, Ordering::AcqRel, Ordering::Acquire).is_err();
            if !self.reads_log {
                log.end();
            }
            return Ok(());
        }
        let failed = |error: CatchUpError| (Position(behind.position.0 + 1), ReplayError::Log(error.to_string()));
        if let Found::Entries(bytes) = log.read(behind, Position(up_to)).map_err(failed)? {
            self.intake.held.fetch_add(bytes.len(), Ordering::Relaxed);
            let bytes = Arc::new(Arrival { bytes, held: Arc::clone(&self.intake.held) });
            self.reading = Some(Reading { bytes, next: 0, entry: self.dealt, records: 0..0 });
        }
        Ok(())
    }

    fn place(&self) -> GroupPlace {
        let place = self.judge.stream.as_ref().and_then(Replayed::place);
        place.expect("everything that a copy was given is committed")
    }

    fn promoted(&self) -> Promoted {
        Promoted {
            place: self.place(),
            sequences: self.judge.sequences.clone(),
            compiled: Arc::clone(&self.compiled),
            history: self.judge.history.clone(),
            lots: self.judge.lots.clone(),
        }
    }

    /// The next record, or the next entry.
    fn deal_one(&mut self, mut reading: Reading) -> Result<(), (Position, ReplayError)> {
        let bytes = Arc::clone(&reading.bytes);
        if reading.records.is_empty() {
            self.dealt = reading.entry;
            if self.cut_is_due() {
                self.reading = Some(reading);
                return Ok(());
            }
            let mut rest = &bytes[reading.next..];
            let failed = |error| (Position(reading.entry.0 + 1), error);
            let Some(entry) = Entry::take_first(&mut rest).map_err(|error| failed(error.into()))? else {
                self.send_all();
                self.publish_applied();
                return Ok(());
            };
            reading.next = bytes.len() - rest.len();
            reading.records = match self.judge.committed(&entry).map_err(failed)? {
                true => reading.next - entry.body.len()..reading.next,
                false => 0..0,
            };
            reading.entry = entry.header.mark.position;
            self.reading = Some(reading);
            return Ok(());
        }
        let entry = reading.entry;
        let mut rest = &bytes[reading.records.clone()];
        let failed = |error| (entry, error);
        let record = record::next_record(&mut rest).map_err(|error| failed(error.into()))?;
        let record = record.expect("there is one where bytes are left");
        reading.records.start = reading.records.end - rest.len();
        self.reading = Some(reading);
        match self.judge.record(record).map_err(failed)? {
            Change::Batch { partition, first, count, transactions } => {
                self.gather(&bytes, entry, partition, first, Some(count), transactions);
            }
            Change::Multi(parts) => {
                for Part { partition, sequence, changes, .. } in parts {
                    self.gather(&bytes, entry, partition, sequence, None, changes);
                }
            }
            // One at a time: the next is for copies that are done with this one.
            Change::ContentMark if self.checking.as_ref().is_none_or(|checking| checking.own.is_some()) => {
                let Mark { epoch, position, .. } = self.place().end;
                self.hold(Purpose::Contents((epoch, position)));
            }
            Change::ContentMark | Change::Lot => {}
            // One that could not make the change could not lead: it says so before that counts.
            Change::Foreseen(planned) => drop(self.compile(&planned).map_err(failed)?),
            Change::Committed(redo) => self.gather_part(entry, redo).map_err(failed)?,
            Change::ContentHashes(said) => self
                .compare(|checking| (checking.mark == (said.epoch, said.position)).then(|| checking.said = Some(said))),
            Change::Schema { planned, time } => self.change_schema(planned, time).map_err(failed)?,
        }
        Ok(())
    }

    fn compile(&self, planned: &Planned) -> Result<Compiled, ReplayError> {
        let version = planned.catalog.version.0;
        self.compiled.accepted(Arc::clone(&planned.catalog)).map_err(|error| ReplayError::Schema { version, error })
    }

    fn change_schema(&mut self, planned: Planned, time: i64) -> Result<(), ReplayError> {
        // While partitions still apply what came before.
        let compiled = Arc::new(self.compile(&planned)?);
        self.hold(Purpose::Schema { planned, time, compiled });
        Ok(())
    }

    fn gather(
        &mut self,
        bytes: &Arc<Arrival>,
        entry: Position,
        partition: PartitionId,
        first: Sequence,
        count: Option<u32>,
        changes: &[u8],
    ) {
        let lane = &mut self.lanes[self.judge.place(partition)];
        let sender = &self.intake.sender;
        let parcel = lane.gathered.get_or_insert_with(|| Parcel::new(Arc::clone(bytes), sender.clone()));
        parcel.add(entry, first, count, changes);
        if parcel.len() >= PARCEL_BYTES {
            lane.send();
        }
    }

    /// The transactions of a lot that counts from this entry on, or its schema change. They came
    /// earlier, with another.
    fn gather_part(&mut self, entry: Position, redo: Vec<u8>) -> Result<(), ReplayError> {
        self.send_all();
        self.intake.held.fetch_add(redo.len(), Ordering::Relaxed);
        let bytes = Arc::new(Arrival { bytes: redo, held: Arc::clone(&self.intake.held) });
        let mut rest = &bytes[..];
        while let Some(record) = record::next_record(&mut rest)? {
            let parts = match self.judge.record(record)? {
                Change::Multi(parts) => parts,
                Change::Schema { planned, time } => return self.change_schema(planned, time),
                _ => panic!("a part has transactions, or a schema change"),
            };
            for Part { partition, sequence, changes, .. } in parts {
                self.gather(&bytes, entry, partition, sequence, None, changes);
            }
        }
        self.send_all();
        Ok(())
    }

    /// Hands over what is gathered, all of it of one arrival.
    fn send_all(&mut self) {
        self.lanes.iter_mut().for_each(Lane::send);
    }
}

impl Lane {
    fn send(&mut self) {
        let Some(parcel) = self.gathered.take() else { return };
        self.unapplied.push_back(parcel.first_entry().expect("what is gathered has changes"));
        self.inbox.send(Event::Apply(parcel)).expect("partitions outlive their applier");
    }

    fn first_unapplied(&self) -> Option<Position> {
        let gathered = || self.gathered.as_ref().and_then(Parcel::first_entry);
        self.unapplied.front().copied().or_else(gathered)
    }
}
