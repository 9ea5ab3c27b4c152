//! The snapshot thread: when a snapshot is wanted, for which caller, how fast it may be written,
//! and what became of the last ones.
//!
//! Owns the decision and the pace; the steps are `ferrite_partition::snapshots`. One snapshot at a
//! time: all callers that ask while one is being written get the next. Where the node hosts several
//! groups, each has snapshots of its own, and the one whose last is the oldest comes first. A
//! caller asks for one of a group, and hears of no other.

use crate::last_snapshot::LastSnapshot;
use crate::message::{SaveCallback, SnapshotJob};
use crate::mode::Mode;
use crate::options::SnapshotSettings;
use crate::routes::Routes;
use crate::work::Work;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use ferrite_base::{GroupId, Position, limits, memory};
use ferrite_group::{EntryBuffer, NotCommitted};
use ferrite_io::{Clock, Yielding, lower_priority};
use ferrite_log::LogStatistics;
use ferrite_member::{CopySide, SnapshotRequest};
use ferrite_notice::Notice;
use ferrite_partition::commit::{Completion, Parties};
use ferrite_partition::contents::ContentCut;
use ferrite_partition::coordinator::{Job, TakenSnapshot};
use ferrite_partition::copy_cut::{CopyCut, CutStep};
use ferrite_partition::record;
use ferrite_partition::snapshots::{SaveError, Saved, Snapshots};
use ferrite_partition::unlogged::{self, Unlogged};
use ferrite_system::saved::{Attempt, SnapshotStatus};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Between two looks at how far the log has grown.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks whether a copy's is ready to be written.
const CUT_LOOK_EVERY: Duration = Duration::from_millis(5);
/// After a failure nothing is tried again, unless a caller asks, for this long.
const AFTER_FAILURE: Duration = Duration::from_secs(60);
/// Longest sleep to keep to a rate, so that a stopping server is not held up.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// While calls are in flight, and no rate is set, a thread rests this many times as long as it
/// works: what a snapshot takes from them in all is the same, but none of their seconds loses much.
const REST_PER_WORK: u32 = 2;
/// Snapshots that are remembered for statistics.
const REMEMBERED: usize = 16;

thread_local! {
    /// When the thread began to write or read its present block.
    static RESTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

impl SnapshotSettings {
    /// `newer`: whether there are entries since the last one. The log grows by snapshots, too.
    fn wants_one(&self, log_grown: u64, since: Duration, newer: impl Fn() -> bool) -> bool {
        let by_size = self.log_bytes.is_some_and(|bytes| log_grown >= bytes.max(memory::bytes_used() as u64));
        let by_time = self.interval.is_some_and(|interval| since >= interval && newer());
        by_size || by_time
    }
}

/// The last snapshot, or the start.
struct Last {
    /// What the log had written then.
    written: u64,
    /// And what recovery had read of it.
    before: u64,
    /// The last entry then; none: entries have come since.
    entry: Option<Position>,
    at: Instant,
    /// Nothing is tried before this, unless a caller asks.
    quiet_until: Instant,
}

/// What the thread uses of one group.
pub struct GroupSnapshots {
    pub snapshots: Snapshots,
    /// The group's last entry.
    pub last_entry: Box<dyn Fn() -> Position + Send>,
    /// Of a node that may have a copy.
    pub copy: Option<Arc<CopySide>>,
}

pub struct SnapshotThread {
    /// At least one.
    pub groups: Vec<GroupSnapshots>,
    pub inbox: Receiver<SnapshotJob>,
    pub routes: Arc<Routes>,
    pub mode: Arc<Mode>,
    /// Whether calls of the group are executed here.
    pub serves: Box<dyn Fn(GroupId) -> bool + Send>,
    pub work: Arc<Work>,
    pub log: Arc<LogStatistics>,
    pub status: Arc<SnapshotStatus>,
    pub clock: Arc<dyn Clock>,
    pub settings: SnapshotSettings,
    /// Bytes of log that recovery read: those since the last snapshot.
    pub log_bytes_before: u64,
    /// It read entries in them.
    pub entries_before: bool,
    pub without_log: Option<SnapshotsOnly>,
}

/// What is known of each group, in the order of the thread's.
type AllLast = Vec<Last>;

/// Callers, each with the group of which it wants one.
type SaveCallers = Vec<(GroupId, SaveCallback)>;

/// What a copy is about to take, of which group, and what the log had written when it began.
struct Cut {
    group: usize,
    under_way: CopyCut,
    written: u64,
}

/// The server stops.
struct Stopped;

/// Durability memory: what no snapshot shows is nowhere on the disk.
pub struct SnapshotsOnly {
    pub unlogged: Arc<Unlogged>,
    pub last: Arc<LastSnapshot>,
    /// The database's directory.
    pub dir: PathBuf,
}

impl SnapshotThread {
    pub fn run(mut self) {
        let now = Instant::now();
        let of_group = |own: &GroupSnapshots| Last {
            written: 0,
            before: self.log_bytes_before,
            entry: (!self.entries_before).then(|| (own.last_entry)()),
            at: now,
            quiet_until: now,
        };
        let mut last: AllLast = self.groups.iter().map(of_group).collect();
        let mut cut: Option<Cut> = None;
        loop {
            let mut asked: SaveCallers = Vec::new();
            let mut due = None;
            match self.inbox.recv_timeout(if cut.is_some() { CUT_LOOK_EVERY } else { LOOK_EVERY }) {
                Ok(SnapshotJob::Save(group, told)) => asked.push((group, told)),
                Ok(SnapshotJob::Stop) | Err(RecvTimeoutError::Disconnected) => return self.end(&mut last, asked),
                Ok(SnapshotJob::OfCluster(_, SnapshotRequest::Hash(cut))) => {
                    // Refused only where the server stops.
                    let _ = self.hash(*cut);
                    continue;
                }
                Ok(SnapshotJob::OfCluster(group, request)) => {
                    // What comes takes the place of what the copy is about to take.
                    cut = None;
                    self.for_others(group, request);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(under_way) = cut.take() {
                        match self.go_on_with(under_way, &mut last) {
                            Ok(still) => cut = still,
                            Err(Stopped) => return,
                        }
                        continue;
                    }
                    let Some(group) = self.due(&last) else { continue };
                    if !(self.serves)(self.id(group)) {
                        cut = self.begin_cut(group);
                        continue;
                    }
                    due = Some(group);
                }
            }
            cut = None;
            while let Ok(job) = self.inbox.try_recv() {
                match job {
                    SnapshotJob::Save(group, told) => asked.push((group, told)),
                    SnapshotJob::Stop => return self.end(&mut last, asked),
                    SnapshotJob::OfCluster(group, request) => self.for_others(group, request),
                }
            }
            let outcome = match due {
                Some(group) if asked.is_empty() => self.save_next(group, 0, &mut last).map(drop),
                _ => self.save_asked(asked, &mut last),
            };
            if outcome.is_err() {
                return;
            }
        }
    }

    fn id(&self, group: usize) -> GroupId {
        self.groups[group].snapshots.group()
    }

    /// One of each group that a caller has named. Where its calls are not executed here, its
    /// coordinator gives none.
    fn save_asked(&mut self, mut asked: SaveCallers, last: &mut AllLast) -> Result<(), Stopped> {
        while let Some((id, _)) = asked.first() {
            let id = *id;
            let outcome = match (0..self.groups.len()).find(|group| self.id(*group) == id) {
                Some(group) => self.save_next(group, asked.len(), last)?,
                None => Err(SaveError::NotCommitted(NotCommitted::Deposed)),
            };
            let (of_this, others) = asked.into_iter().partition(|(group, _)| *group == id);
            asked = others;
            answer_callers(of_this, &outcome);
        }
        Ok(())
    }

    /// `waiting` calls in flight ask for it or for others.
    fn save_next(
        &mut self,
        group: usize,
        waiting: usize,
        last: &mut AllLast,
    ) -> Result<Result<Saved, SaveError>, Stopped> {
        let written = self.log.written_bytes.load(Relaxed);
        let number = self.groups[group].snapshots.next_number();
        let outcome = self.save(group, number, waiting);
        if self.conclude(&outcome, &mut last[group], written) { Ok(outcome) } else { Err(Stopped) }
    }

    /// The next step of what a copy is about to take. None: it is over.
    fn go_on_with(&mut self, mut cut: Cut, last: &mut AllLast) -> Result<Option<Cut>, Stopped> {
        let goes_on = self.groups[cut.group].copy.as_ref().is_some_and(|copy| copy.intake().is_some());
        match cut.under_way.step(&*self.clock) {
            CutStep::Waiting if goes_on => return Ok(Some(cut)),
            CutStep::Done(taken) => {
                let outcome = self.write(cut.group, *taken, 0);
                if !self.conclude(&outcome, &mut last[cut.group], cut.written) {
                    return Err(Stopped);
                }
            }
            // Looked at again: it leads now, or has another node's snapshot.
            CutStep::Waiting | CutStep::Ended => last[cut.group].quiet_until = Instant::now() + LOOK_EVERY,
        }
        Ok(None)
    }

    /// The server ends, and nothing is changed any more. With durability memory, what no snapshot
    /// shows gets one: then there is one group.
    fn end(&mut self, last: &mut AllLast, mut asked: SaveCallers) {
        let Some(SnapshotsOnly { unlogged, last: last_snapshot, dir }) = &self.without_log else { return };
        let last_snapshot = Arc::clone(last_snapshot);
        let dir = dir.clone();
        last_snapshot.begin();
        let written = self.log.written_bytes.load(Relaxed);
        let saved = unlogged.has_changed().then(|| {
            let number = self.groups[0].snapshots.next_number();
            self.save(0, number, 0)
        });
        while let Ok(job) = self.inbox.try_recv() {
            if let SnapshotJob::Save(group, told) = job {
                asked.push((group, told));
            }
        }
        let complete = match &saved {
            Some(outcome) => self.conclude(outcome, &mut last[0], written) && outcome.is_ok(),
            None => true,
        };
        if let Some(outcome) = &saved {
            answer_callers(asked, outcome);
        }
        if complete && let Err(error) = unlogged::end_run(&**self.groups[0].snapshots.files().disk(), &dir) {
            ferrite_io::notify(Notice::MemoryRunNotEnded { reason: error.to_string() });
        }
        last_snapshot.end(complete);
    }

    /// What becomes of one, for the next and for the operator; `written`: what the log had written.
    /// False: the server stops.
    fn conclude(&self, outcome: &Result<Saved, SaveError>, last: &mut Last, written: u64) -> bool {
        match outcome {
            Ok(saved) => {
                *last = Last { written, before: 0, at: Instant::now(), entry: Some(saved.end), ..*last };
                ferrite_io::notify(saved.notice());
                if let Some(reason) = saved.not_cut.clone() {
                    ferrite_io::notify(Notice::OldFilesNotRemoved { snapshot: saved.snapshot, reason });
                }
            }
            Err(SaveError::Stopped) => return false,
            Err(error) => {
                if let Some(SnapshotsOnly { unlogged, .. }) = &self.without_log {
                    unlogged.note();
                }
                last.quiet_until = Instant::now() + AFTER_FAILURE;
                ferrite_io::notify(Notice::SnapshotFailed { reason: error.to_string() });
            }
        }
        true
    }

    /// The group whose last one is the oldest of those of which one is due.
    fn due(&self, last: &AllLast) -> Option<usize> {
        let due = (0..self.groups.len()).filter(|group| self.is_due(*group, &last[*group]));
        due.min_by_key(|group| (last[*group].written, last[*group].at))
    }

    /// Whether one is due, and this node is there to take it.
    fn is_due(&self, group: usize, last: &Last) -> bool {
        let own = &self.groups[group];
        let grown = last.before + self.log.written_bytes.load(Relaxed) - last.written;
        let is_copy = || own.copy.as_ref().is_some_and(|copy| copy.intake().is_some());
        let may = (self.serves)(self.id(group)) || is_copy();
        let newer = || match &self.without_log {
            None => last.entry != Some((own.last_entry)()),
            Some(SnapshotsOnly { unlogged, .. }) => unlogged.has_changed(),
        };
        may && Instant::now() >= last.quiet_until && self.settings.wants_one(grown, last.at.elapsed(), newer)
    }

    /// A copy begins to take one.
    fn begin_cut(&mut self, group: usize) -> Option<Cut> {
        let own = &mut self.groups[group];
        let copy = own.copy.as_ref()?;
        let intake = copy.intake()?;
        let written = self.log.written_bytes.load(Relaxed);
        let under_way = CopyCut::begin(own.snapshots.next_number(), &copy.group, &intake)?;
        Some(Cut { group, under_way, written })
    }

    /// What transfers to and from other nodes need.
    fn for_others(&mut self, id: GroupId, request: SnapshotRequest) {
        let Some(group) = (0..self.groups.len()).find(|group| self.id(*group) == id) else { return };
        match request {
            SnapshotRequest::SaveFor(above, told) => {
                let number = self.groups[group].snapshots.next_number_above(above);
                let outcome = self.save(group, number, 0);
                if outcome.is_ok() {
                    self.groups[group].snapshots.hold_too(number);
                }
                told(outcome.map(|saved| saved.snapshot).map_err(|error| error.to_string()));
            }
            SnapshotRequest::Hold(held) => self.groups[group].snapshots.hold(held),
            SnapshotRequest::TakeIn(mut piece) => {
                while let Some(wait) = piece(&mut self.groups[group].snapshots) {
                    if self.status.stop.load(Relaxed) {
                        return;
                    }
                    std::thread::sleep(wait);
                }
            }
            SnapshotRequest::Hash(cut) => drop(self.hash(*cut)),
        }
    }

    /// `waiting` calls in flight ask for it.
    fn save(&mut self, group: usize, snapshot: u64, waiting: usize) -> Result<Saved, SaveError> {
        let (to, taken) = bounded(1);
        let table = self.routes.table();
        let place = table.place_of(self.id(group)).expect("the cluster has the group");
        table
            .to_coordinator(place, Job::Checkpoint { snapshot, to })
            .expect("the coordinator outlives the snapshot thread");
        drop(table);
        // A coordinator that does not lead gives no answer.
        let taken = taken.recv().map_err(|_| SaveError::NotCommitted(NotCommitted::Deposed))?;
        self.write(group, taken, waiting)
    }

    fn write(&mut self, group: usize, taken: TakenSnapshot, waiting: usize) -> Result<Saved, SaveError> {
        let begun_ms = self.clock.wall_micros() / 1_000;
        let snapshot = taken.snapshot;
        self.status.bytes_done.store(0, Relaxed);
        self.status.running_group.store(self.id(group).0, Relaxed);
        self.status.running.store(snapshot, Relaxed);
        let pacer = Pacer::new(self, waiting, self.settings.bytes_per_second);
        let threads = self.settings.threads.max(1);
        let mut outcome = self.groups[group].snapshots.save(taken, threads, &|bytes| pacer.pace(bytes));
        self.status.running.store(0, Relaxed);
        if let Ok(saved) = &mut outcome {
            self.say_contents(group, saved);
        }
        let attempt = Attempt {
            group: self.id(group),
            snapshot,
            begun_ms,
            ended_ms: self.clock.wall_micros() / 1_000,
            outcome: outcome.as_ref().map(Saved::clone).map_err(SaveError::to_string),
        };
        let mut attempts = self.status.attempts.lock().expect("no panic with the attempts");
        attempts.push_back(attempt);
        if attempts.len() > REMEMBERED {
            attempts.pop_front();
        }
        outcome
    }

    /// Tells the copies what a leader's tables held. What that writes is nothing new.
    fn say_contents(&self, group: usize, saved: &mut Saved) {
        let (Some(hashes), Some(copy)) = (saved.contents.take(), &self.groups[group].copy) else { return };
        let mut records = EntryBuffer::default();
        record::write_content_hashes(records.records(), &hashes);
        let said = copy.group.append(records, Completion { parties: Parties::Several(Vec::new()), buffers: None });
        if let Some(said) = said.filter(|said| said.position.0 == saved.end.0 + 1) {
            saved.end = said.position;
        }
    }

    /// What a copy's tables held where its leader has marked the stream.
    fn hash(&self, cut: ContentCut) -> Result<(), SaveError> {
        let pacer = Pacer::new(self, 0, None);
        std::thread::scope(|scope| {
            let hash = || {
                lower_priority(Yielding::Some);
                cut.hash(|_| pacer.pace(0))
            };
            scope.spawn(hash).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Answers the callers that asked for it.
fn answer_callers(asked: SaveCallers, outcome: &Result<Saved, SaveError>) {
    let failed = outcome.as_ref().err().map(SaveError::to_string).unwrap_or_default();
    for (_, told) in asked {
        told(outcome.as_ref().map_err(|_| failed.as_str()));
    }
}

/// Keeps a thread that writes or reads all data out of the way of others. Called from several
/// threads.
struct Pacer {
    mode: Arc<Mode>,
    work: Arc<Work>,
    log: Arc<LogStatistics>,
    status: Arc<SnapshotStatus>,
    /// Calls in flight that wait for this.
    waiting: usize,
    rate: Option<u64>,
    begun: Instant,
    /// What is written gives more room than it takes.
    frees_room: bool,
    /// What the log had written when a copy was last looked at.
    seen: AtomicU64,
}

impl Pacer {
    fn new(thread: &SnapshotThread, waiting: usize, rate: Option<u64>) -> Pacer {
        Pacer {
            mode: Arc::clone(&thread.mode),
            work: Arc::clone(&thread.work),
            log: Arc::clone(&thread.log),
            status: Arc::clone(&thread.status),
            waiting,
            rate,
            begun: Instant::now(),
            frees_room: leaves_room(thread.mode.disk_free(), memory::bytes_used() as u64),
            seen: AtomicU64::new(thread.log.written_bytes.load(Relaxed)),
        }
    }

    fn is_busy(&self) -> bool {
        let written = self.log.written_bytes.load(Relaxed);
        // A copy's log has the fsyncs that the leader's callers wait for.
        let copies = !self.mode.serves() && self.seen.swap(written, Relaxed) != written;
        copies || self.work.outstanding().calls > self.waiting
    }

    /// Called after a block of this many bytes.
    fn pace(&self, bytes: u64) -> Result<(), SaveError> {
        let done = self.status.bytes_done.fetch_add(bytes, Relaxed) + bytes;
        let worked = RESTED.get().map_or(Duration::ZERO, |rested| rested.elapsed());
        let until = goes_on(self.rate, done, self.begun.elapsed(), worked, self.is_busy());
        loop {
            if self.status.stop.load(Relaxed) {
                return Err(SaveError::Stopped);
            }
            if let Some((free, reserve)) = self.mode.reserve_is_half_gone()
                && !(self.frees_room && free >= limits::LOG_SEGMENT_BYTES)
            {
                return Err(SaveError::NoRoom { free, reserve });
            }
            match until.saturating_sub(self.begun.elapsed()) {
                Duration::ZERO => break,
                early => std::thread::sleep(early.min(SLEEP_MAX)),
            }
        }
        RESTED.set(Some(Instant::now()));
        Ok(())
    }
}

/// Whether data of that size can be written where so much is free, and the log still has what it
/// needs when no more writes are taken: the segment that it prepares. Then a snapshot may take from
/// the log's half of the reserve, since it gives the log's old segments back.
fn leaves_room(free: u64, data: u64) -> bool {
    free.saturating_sub(data) >= limits::LOG_SEGMENT_BYTES
}

/// When a thread continues that has worked this long on its last block, as time since the snapshot
/// was begun, of which `done` bytes are there.
fn goes_on(rate: Option<u64>, done: u64, now: Duration, worked: Duration, busy: bool) -> Duration {
    match rate {
        Some(rate) => Duration::from_secs_f64(done as f64 / rate as f64),
        // What a stopped disk took does not count as work.
        None if busy => now + worked.min(SLEEP_MAX) * REST_PER_WORK,
        None => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_beside_a_segment_of_the_log_may_be_written() {
        assert!(leaves_room(limits::LOG_SEGMENT_BYTES + 5_000, 5_000));
        assert!(!leaves_room(limits::LOG_SEGMENT_BYTES + 5_000, 5_001) && !leaves_room(5_000, 5_001));
    }

    #[test]
    fn a_rate_is_kept_and_without_one_calls_get_their_time() {
        let (ms, now) = (Duration::from_millis, Duration::from_secs(2));
        assert_eq!(goes_on(Some(1_000_000), 3_000_000, now, ms(5), true), Duration::from_secs(3));
        assert!(goes_on(Some(1_000_000), 1_000_000, now, ms(5), true) < now, "it is late: no rest");
        assert_eq!(goes_on(None, 1, now, ms(5), false), now);
        assert_eq!(goes_on(None, 1, now, ms(5), true), now + ms(10));
        assert_eq!(goes_on(None, 1, now, ms(5_000), true), now + 2 * SLEEP_MAX);
    }
}
