//! A copy's own snapshot, up to where its files can be written (docs/decisions/0061).
//!
//! A copy's log is ahead of its tables: it has entries that are not committed, and committed ones
//! that are not applied. So a record in the log cannot divide it into what the snapshot shows and
//! what it does not show. Instead:
//!
//! | step | why |
//! |---|---|
//! | a record in the log notes where the stream ends there: entry *e* | the log from the record on has everything after *e* |
//! | it waits until *e* is committed | so *e* stays in the stream |
//! | the applier takes snapshots of all stores, when they show *e* or more: everything up to entry *p* | *p* is committed, and not before *e* |
//! | it waits until the log has *p* | a snapshot is never newer than the log |
//! | `Snapshots::save`, with the record's place and *p* | replay from the record skips what is up to *p* |
//!
//! The last wait is for a node that is not a member: others commit what it applies, and its log's
//! thread may not have written that yet when the files are there.
//!
//! Each wait is a state. Whatever changes the node's part meanwhile ends it: the copy is promoted,
//! or another node's snapshot takes the place of what is here. Then there is a record more in the
//! log, and nothing else.

use crate::applier::Intake;
use crate::commit::{Completion, Parties};
use crate::delivery::{CopySnapshot, Delivery};
use crate::event::TakenSnapshot;
use crate::record;
use crate::thread::RECORD_EPOCH;
use crossbeam_channel::{Receiver, TryRecvError, bounded};
use ferrite_base::{Position, planted};
use ferrite_group::{Checkpointed, NotCommitted, Replication};
use ferrite_io::Clock;
use ferrite_log::LogPosition;
use std::sync::{Arc, OnceLock};

/// The outcome of a step.
pub enum CutStep {
    /// Call again later.
    Waiting,
    /// Nothing is waited for any more: [`Snapshots::save`](crate::snapshots::Snapshots::save).
    Done(Box<TakenSnapshot>),
    /// The node's part has changed, or its log has failed.
    Ended,
}

/// A snapshot that a copy is about to take.
pub struct CopyCut {
    group: Arc<Replication<Completion>>,
    intake: Intake,
    snapshot: u64,
    /// Of the record, once it is written.
    place: Arc<OnceLock<LogPosition>>,
    state: State,
}

enum State {
    /// Everything up to there is to be committed.
    Noted(Position, Receiver<Result<(), NotCommitted>>),
    Cutting(Receiver<CopySnapshot>),
    Writing(Box<CopySnapshot>),
    Over,
}

impl CopyCut {
    /// `intake`: of the copy's applier. None: it is not a copy at the moment.
    pub fn begin(snapshot: u64, group: &Arc<Replication<Completion>>, intake: &Intake) -> Option<CopyCut> {
        if intake.has_ended() {
            return None;
        }
        let (tell, told) = bounded(1);
        let place = Arc::new(OnceLock::new());
        let completion = Completion { parties: Parties::Asking(tell), buffers: None };
        let id = group.id();
        let write = |end| {
            let mut payload = Vec::new();
            record::write_copy_checkpoint(&mut payload, snapshot, &[(id, end)]);
            payload
        };
        let end = group.note(write, Arc::clone(&place), completion)?;
        let group = Arc::clone(group);
        let intake = intake.clone();
        Some(CopyCut { group, intake, snapshot, place, state: State::Noted(end.position, told) })
    }

    /// It waits for other nodes, perhaps for ever: what its log has is not known to be committed.
    pub fn waits_for_commit(&self) -> bool {
        matches!(self.state, State::Noted(..))
    }

    /// What it waits for, for display.
    pub fn waits_for(&self) -> &'static str {
        match self.state {
            State::Noted(..) => "the commit of what its log has",
            State::Cutting(_) => "its partitions",
            State::Writing(_) => "its log",
            State::Over => "nothing",
        }
    }

    pub fn step(&mut self, clock: &dyn Clock) -> CutStep {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Noted(from, told) => match told.try_recv() {
                Ok(Ok(())) => {
                    let from = if planted!(CutBeforeRecord) { Position(0) } else { from };
                    let (to, cut) = bounded(1);
                    self.intake.send(Delivery::Snapshot { from, to });
                    self.wait(State::Cutting(cut))
                }
                Err(TryRecvError::Empty) if !self.intake.has_ended() => self.wait(State::Noted(from, told)),
                _ => CutStep::Ended,
            },
            State::Cutting(cut) => match cut.try_recv() {
                Ok(snapshot) => self.wait(State::Writing(Box::new(snapshot))),
                Err(TryRecvError::Empty) if !self.intake.has_ended() => self.wait(State::Cutting(cut)),
                Err(_) => CutStep::Ended,
            },
            State::Writing(snapshot) => match self.group.has_durable(snapshot.place.end) {
                Some(false) if !planted!(CutAheadOfLog) => self.wait(State::Writing(snapshot)),
                Some(_) => CutStep::Done(Box::new(self.taken_snapshot(*snapshot, clock))),
                None => CutStep::Ended,
            },
            State::Over => CutStep::Ended,
        }
    }

    fn wait(&mut self, state: State) -> CutStep {
        self.state = state;
        CutStep::Waiting
    }

    fn taken_snapshot(&self, cut: CopySnapshot, clock: &dyn Clock) -> TakenSnapshot {
        let CopySnapshot { place, stores, sequences, catalog, history, lots } = cut;
        let (tell, logged) = bounded(1);
        let _ = tell.send(Ok(()));
        TakenSnapshot {
            snapshot: self.snapshot,
            stores,
            places: sequences.into_iter().map(|sequence| (RECORD_EPOCH, sequence)).collect(),
            groups: vec![Checkpointed { group: self.group.id(), place }],
            contents: None,
            catalog,
            history,
            lots,
            time: clock.wall_micros(),
            mark: Arc::clone(&self.place),
            logged,
        }
    }
}
