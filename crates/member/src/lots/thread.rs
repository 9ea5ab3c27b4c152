//! The thread of the sequencer: takes what calls, agents and leaders bring, and sends what follows.

use crate::lots::hub::{LotHub, SequencerNotice};
use crate::lots::sequencing::{Moment, Sequencing};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use ferrite_group::{FIRST_GROUP, GroupAppender};
use ferrite_io::Clock;
use ferrite_partition::recovery::MemberStream;
use ferrite_system::lots::LotFigures;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at what has waited for long, while anything does.
const TICK: Duration = Duration::from_millis(10);
/// And where nothing does.
const REST: Duration = Duration::from_secs(1);
/// Taken in one turn before lots are begun.
const NOTICES_PER_TURN: usize = 1_024;

/// What transactions show as NOW when the wall's clock says that, in microseconds: as those of the
/// first group show it (docs/decisions/0076-now.md).
pub type LotTime = Box<dyn Fn(i64) -> i64 + Send>;

/// A node that does not host the first group orders nothing.
pub fn lot_time(streams: &[MemberStream]) -> LotTime {
    let first = streams.iter().map(|stream| &stream.replication).find(|replication| replication.id() == FIRST_GROUP);
    match first.map(|replication| GroupAppender::new(Arc::clone(replication))) {
        Some(first) => Box::new(move |wall| first.transaction_time(wall)),
        None => Box::new(|wall| wall),
    }
}

pub struct SequencerThread {
    inbox: Receiver<SequencerNotice>,
    hub: Arc<LotHub>,
    sequencing: Sequencing,
    clock: Arc<dyn Clock>,
    time: LotTime,
    figures: Arc<LotFigures>,
    /// By the clock's nanoseconds.
    next_tick: u64,
}

impl SequencerThread {
    pub fn new(
        inbox: Receiver<SequencerNotice>,
        hub: Arc<LotHub>,
        sequencing: Sequencing,
        clock: Arc<dyn Clock>,
        time: LotTime,
        figures: Arc<LotFigures>,
    ) -> SequencerThread {
        SequencerThread { inbox, hub, sequencing, clock, time, figures, next_tick: 0 }
    }

    /// Runs until it is told to stop.
    pub fn run(mut self) {
        loop {
            let timeout = if self.sequencing.rests() { REST } else { TICK };
            let first = match self.inbox.recv_timeout(timeout) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if self.turn(first) {
                break;
            }
        }
        // Each call that has come gets its answer.
        while !self.inbox.is_empty() {
            self.turn(None);
        }
    }

    /// Whether [`SequencerThread::step`] has anything to do.
    pub fn can_step(&self) -> bool {
        !self.inbox.is_empty() || (!self.sequencing.rests() && self.clock.monotonic_nanos() >= self.next_tick)
    }

    /// Nothing waits, and nothing is under way.
    pub fn rests(&self) -> bool {
        self.inbox.is_empty() && self.sequencing.rests()
    }

    /// One turn of `run`, for a caller with many parties on one thread.
    pub fn step(&mut self) {
        self.turn(None);
    }

    /// Takes what has come; true: it was told to stop.
    fn turn(&mut self, first: Option<SequencerNotice>) -> bool {
        let now = self.now();
        let mut read = 0;
        let mut ends = false;
        let more = self.inbox.clone();
        for notice in first.into_iter().chain(more.try_iter().take(NOTICES_PER_TURN)) {
            ends |= self.handle(notice, now, &mut read);
        }
        self.hub.has_read(read);
        if now.nanos >= self.next_tick {
            self.next_tick = now.nanos + TICK.as_nanos() as u64;
            self.sequencing.tick(now);
        }
        self.sequencing.advance(now);
        self.sequencing.sends().into_iter().for_each(|send| self.hub.to_agent_of(send));
        self.figures.set(self.sequencing.counts());
        ends
    }

    /// True: it was the last.
    fn handle(&mut self, notice: SequencerNotice, now: Moment, read: &mut usize) -> bool {
        match notice {
            SequencerNotice::Change(change) => self.sequencing.change(change, now),
            SequencerNotice::FromAgent { group, epoch, message, bytes } => {
                *read += bytes;
                self.sequencing.receive(group, epoch, message);
                // Lots that are decided free their partitions for the next ones.
                self.sequencing.advance(now);
            }
            SequencerNotice::Call(call) => self.sequencing.call(*call, now),
            SequencerNotice::Behind(mark) => self.sequencing.behind(&mark),
            SequencerNotice::Stop => {
                self.sequencing.end();
                return true;
            }
        }
        false
    }

    fn now(&self) -> Moment {
        let micros = self.clock.wall_micros();
        Moment { nanos: self.clock.monotonic_nanos(), micros, shown: (self.time)(micros) }
    }
}
