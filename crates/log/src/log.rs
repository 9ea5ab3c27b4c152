//! The log as others see it, and the thread behind it: take all that waits, write it as one, make
//! it durable, tell.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ferrite_base::planted;
use ferrite_io::{Clock, Disk, DiskError, DiskLock, DiskResult, PatientDisk};

use crate::durability::Durability;
use crate::error::{LogError, LogFailed, OpenError};
use crate::format::LogPosition;
use crate::inbox::{Append, Drained, Inbox};
use crate::index::SegmentIndex;
use crate::opened::Recovery;
use crate::options::LogOptions;
use crate::payload::Payload;
use crate::recovery::{self, Visitor};
use crate::statistics::LogStatistics;
use crate::writer::Writer;

/// Receives the outcome of one append or barrier.
pub trait Completion: Sized + Send + 'static {
    /// Called by the log thread, in the order of the appends, once the append and all before it are
    /// durable as the log's [`Durability`] says; or with the error that ended the log, after which
    /// nothing is known about this append. `payload` is given back, emptied, for the next batch;
    /// one that is shared is let go, and this has no memory.
    /// Must not block, nor append to a full queue: everyone waits behind it.
    ///
    /// Where the log is closed already, `append` itself calls it, on the caller's thread.
    fn complete(self, payload: Vec<u8>, outcome: Result<(), LogFailed>);

    /// The same for all appends that one write has made durable, in their order.
    fn complete_all(all: impl Iterator<Item = (Self, Vec<u8>)>, outcome: &Result<(), LogFailed>) {
        all.for_each(|(completion, payload)| completion.complete(payload, outcome.clone()));
    }
}

/// An open log. Appends go through [`Appender`]s.
///
/// Dropping it is like [`Log::close`], with the outcome ignored.
pub struct Log<C: Completion> {
    inbox: Arc<Inbox<C>>,
    statistics: Arc<LogStatistics>,
    failure: Arc<Latch>,
    hands: Hands<C>,
    disk: Arc<PatientDisk>,
    index: Arc<SegmentIndex>,
    /// Given back last, when nobody touches the files any more.
    _lock: Box<dyn DiskLock>,
}

/// Who does the log's work.
enum Hands<C: Completion> {
    Thread(Option<JoinHandle<()>>),
    /// The callers of [`Log::step`].
    Callers(Box<Mutex<Worker<C>>>),
}

/// Hears of the end of the log.
type Listener = Box<dyn Fn(&LogFailed) + Send + Sync>;

/// Why the log ended, once it has, and who is to hear of it at once.
#[derive(Default)]
struct Latch {
    failure: OnceLock<LogFailed>,
    listener: OnceLock<Listener>,
}

impl Latch {
    fn get(&self) -> Option<&LogFailed> {
        self.failure.get()
    }

    /// The first failure is final; the listener hears of no other.
    fn fail(&self, reason: LogFailed) -> LogFailed {
        if self.failure.set(reason).is_ok() {
            self.notify_listener();
        }
        self.get().expect("it has failed").clone()
    }

    fn notify_listener(&self) {
        if let (Some(listener), Some(failure)) = (self.listener.get(), self.get()) {
            listener(failure);
        }
    }
}

/// A way into the log; clone one for each source.
pub struct Appender<C> {
    inbox: Arc<Inbox<C>>,
}

impl<C> Clone for Appender<C> {
    fn clone(&self) -> Self {
        Appender { inbox: self.inbox.clone() }
    }
}

impl<C: Completion> Appender<C> {
    /// Hands over `payload`, which will be replayed whole or not at all. Waits only if too much is
    /// queued already. Empty, it is a barrier: written nowhere, completed when all before it is.
    pub fn append(&self, payload: impl Into<Payload>, completion: C) {
        self.put(Append { payload: payload.into(), mark: None, completion });
    }

    /// The same without waiting and without completing, for callers who hold a lock that a
    /// completion takes; they have waited before, with [`Appender::wait_for_room`]. Where the log
    /// is closed, gives the completion back.
    pub fn append_now(&self, payload: impl Into<Payload>, completion: C) -> Result<(), (C, LogFailed)> {
        self.put_now(Append { payload: payload.into(), mark: None, completion })
    }

    /// Waits while too much is queued.
    pub fn wait_for_room(&self) {
        self.inbox.wait_for_room();
    }

    /// Whether [`Appender::wait_for_room`] would wait.
    pub fn is_full(&self) -> bool {
        self.inbox.is_full()
    }

    /// The same, in a block that begins with it, whose place is in `mark` when the append
    /// completes. The payload must not be empty.
    /// Neither waits nor completes, like [`Appender::append_now`].
    pub fn append_marked(
        &self,
        payload: Vec<u8>,
        mark: Arc<OnceLock<LogPosition>>,
        completion: C,
    ) -> Result<(), (C, LogFailed)> {
        assert!(!payload.is_empty(), "a barrier has no place");
        self.put_now(Append { payload: payload.into(), mark: Some(mark), completion })
    }

    fn put(&self, append: Append<C>) {
        if let Err((append, reason)) = self.inbox.put(append) {
            append.finish(Err(reason));
        }
    }

    fn put_now(&self, append: Append<C>) -> Result<(), (C, LogFailed)> {
        self.inbox.put_now(append).map_err(|(append, reason)| (append.completion, reason))
    }

    /// Completes when everything appended before is durable, and writes nothing.
    pub fn barrier(&self, completion: C) {
        self.append(Vec::new(), completion);
    }
}

impl<C: Completion> Append<C> {
    fn finish(self, outcome: Result<(), LogFailed>) {
        let Append { payload, completion, .. } = self;
        completion.complete(payload.into_emptied(), outcome);
    }
}

impl<C: Completion> Log<C> {
    /// Makes the directory if need be, and locks it against other processes.
    pub fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>, LogError> {
        disk.create_dir(dir)?;
        disk.lock(&dir.join("LOCK")).map_err(LogError::Locked)
    }

    /// Opens the log in `dir`, made if need be, and locks it against other processes. Gives the
    /// payloads of all that it holds, and where each begins, to `visit`, in the order of writing
    /// (several appends may come in one piece, one append never in several), then starts the log
    /// thread.
    pub fn open<E>(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        options: LogOptions,
        visit: impl Visitor<E>,
    ) -> Result<(Self, Recovery), OpenError<E>> {
        options.check()?;
        let lock = Self::lock(&*disk, dir)?;
        Self::open_locked(disk, clock, dir, options, lock, visit)
    }

    /// The same with the lock taken before.
    pub fn open_locked<E>(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        options: LogOptions,
        lock: Box<dyn DiskLock>,
        visit: impl Visitor<E>,
    ) -> Result<(Self, Recovery), OpenError<E>> {
        options.check()?;
        let statistics = Arc::new(LogStatistics::default());
        let (tail, recovery) = recovery::recover(&*disk, dir, &options, visit)?;
        let index = Arc::new(SegmentIndex::new(
            Arc::clone(&disk),
            dir,
            recovery.database,
            options.durability,
            options.numbers,
            tail.indexed.clone(),
        ));
        // A log that has begun waits for file descriptors: a segment that cannot be made yet has
        // lost nothing.
        let disk = Arc::new(PatientDisk::new(disk, ferrite_io::notify));
        let writer =
            Writer::open(Arc::clone(&disk) as Arc<dyn Disk>, dir, &options, statistics.clone(), index.clone(), tail)
                .map_err(LogError::Disk)?;
        let inbox = Arc::new(Inbox::new(options.queue_bytes_max, statistics.clone()));
        let failure = Arc::new(Latch::default());
        let looked = clock.monotonic_nanos();
        let worker = Worker {
            writer,
            clock,
            durability: options.durability,
            inbox: inbox.clone(),
            statistics: statistics.clone(),
            failure: failure.clone(),
            batch: Vec::new(),
            written: None,
            unsynced_since: None,
            look_interval: options.look_interval.as_nanos().try_into().unwrap_or(u64::MAX),
            looked,
            noted: true,
        };
        let hands = if options.own_threads {
            let thread = std::thread::Builder::new()
                .name("log".to_owned())
                .spawn(move || worker.run())
                .map_err(|error| LogError::Disk(DiskError::new("start the log thread for", dir, error)))?;
            Hands::Thread(Some(thread))
        } else {
            Hands::Callers(Box::new(Mutex::new(worker)))
        };
        Ok((Log { inbox, statistics, failure, hands, disk, index, _lock: lock }, recovery))
    }

    pub fn appender(&self) -> Appender<C> {
        Appender { inbox: self.inbox.clone() }
    }

    /// For those who read what is written, and whoever removes what nobody needs.
    pub fn index(&self) -> &Arc<SegmentIndex> {
        &self.index
    }

    /// Where the log has no threads of its own: does what waits to be written, or what is due, and
    /// answers whether there was anything. Otherwise nothing.
    pub fn step(&self) -> bool {
        self.by_caller(Worker::step)
    }

    /// Half of [`Log::step`]: what waits is written, or what was written is made durable and told.
    /// What others append in between waits for the next round, as it does while the log's thread is
    /// in an fsync.
    pub fn half_step(&self) -> bool {
        self.by_caller(Worker::half_step)
    }

    /// The same for what is done ahead of need: the next segment, and full ones that are to become
    /// durable.
    pub fn step_ahead(&self) -> bool {
        self.by_caller(|worker| worker.writer.step_ahead())
    }

    fn by_caller(&self, work: impl FnOnce(&mut Worker<C>) -> bool) -> bool {
        match &self.hands {
            Hands::Thread(_) => false,
            Hands::Callers(worker) => work(&mut worker.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Whether appends wait to be written or, behind half a step, to be made durable.
    pub fn has_work(&self) -> bool {
        let between =
            |worker: &Mutex<Worker<C>>| worker.lock().unwrap_or_else(PoisonError::into_inner).written.is_some();
        self.inbox.has_items() || matches!(&self.hands, Hands::Callers(worker) if between(worker))
    }

    pub fn statistics(&self) -> &Arc<LogStatistics> {
        &self.statistics
    }

    /// Says who is to hear at once that the log has failed, on the log's thread, if nobody waits
    /// for an append too: an fsync that is done by the clock has no other witness. Said once,
    /// early; it may be called for a failure from before, and twice.
    pub fn on_failure(&self, listener: impl Fn(&LogFailed) + Send + Sync + 'static) {
        assert!(self.failure.listener.set(Box::new(listener)).is_ok(), "there is one listener");
        self.failure.notify_listener();
    }

    /// Why the log stopped, if it did.
    pub fn failure(&self) -> Option<LogFailed> {
        self.failure.get().cloned()
    }

    /// Completes all that is queued, makes everything durable whatever the mode, marks the end as
    /// clean, ends the thread. Appends that come later complete with an error.
    pub fn close(mut self) -> Result<(), LogFailed> {
        self.end();
        self.failure().map_or(Ok(()), Err)
    }

    fn end(&mut self) {
        self.inbox.close(LogFailed::closed());
        self.disk.hurry();
        match &mut self.hands {
            Hands::Thread(thread) => {
                if let Some(thread) = thread.take() {
                    // A panic was reported where it happened, and latched by `Abandon`.
                    let _ = thread.join();
                }
            }
            // A worker that was unwound may have left half a batch: nothing is written behind that.
            Hands::Callers(worker) if worker.is_poisoned() => {
                let reason = self.failure.fail(LogFailed::thread_ended());
                for append in self.inbox.abandon(reason.clone()) {
                    append.finish(Err(reason.clone()));
                }
            }
            Hands::Callers(worker) => {
                let worker = worker.get_mut().unwrap_or_else(PoisonError::into_inner);
                while worker.step() {}
                worker.end();
            }
        }
    }
}

impl<C: Completion> Drop for Log<C> {
    fn drop(&mut self) {
        self.end();
    }
}

struct Worker<C: Completion> {
    writer: Writer,
    clock: Arc<dyn Clock>,
    durability: Durability,
    inbox: Arc<Inbox<C>>,
    statistics: Arc<LogStatistics>,
    failure: Arc<Latch>,
    /// What is being written; empty between two rounds.
    batch: Vec<Append<C>>,
    /// Since when the batch is written, and not yet made durable.
    written: Option<u64>,
    /// With `Interval`: when the oldest write that was not fsynced yet took place, in monotonic
    /// nanoseconds.
    unsynced_since: Option<u64>,
    /// Between two looks whether the log's files are in place, in nanoseconds; and when the last
    /// one was, in monotonic ones.
    look_interval: u64,
    looked: u64,
    /// How far the log reaches is written down, or on its way there.
    noted: bool,
}

/// Leaves nobody waiting if the thread ends by a panic.
struct Abandon<C: Completion> {
    inbox: Arc<Inbox<C>>,
    failure: Arc<Latch>,
}

impl<C: Completion> Drop for Abandon<C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = self.failure.fail(LogFailed::thread_ended());
            for append in self.inbox.abandon(reason.clone()) {
                append.finish(Err(reason.clone()));
            }
        }
    }
}

impl<C: Completion> Worker<C> {
    fn run(mut self) {
        let _abandon = Abandon { inbox: self.inbox.clone(), failure: self.failure.clone() };
        loop {
            // With nothing to fsync it still wakes up once more, to say how far the log reaches.
            let timeout = self.time_to_sync().or((!self.noted).then_some(Duration::from_nanos(self.look_interval)));
            match self.inbox.drain(&mut self.batch, timeout) {
                Drained::Some => self.commit_batch(),
                Drained::TimedOut => {
                    self.look_when_idle();
                }
                Drained::Closed => break,
            }
            self.sync_if_due();
        }
        self.end();
    }

    /// The first half of a round that does not wait, or the second one; whether there was anything
    /// to do.
    fn half_step(&mut self) -> bool {
        if self.written.is_some() || !matches!(self.inbox.drain(&mut self.batch, Some(Duration::ZERO)), Drained::Some) {
            return self.step();
        }
        self.write_batch();
        true
    }

    /// One round of `run` that does not wait; whether there was anything to do.
    fn step(&mut self) -> bool {
        if let Some(begin) = self.written.take() {
            self.complete_batch(Ok(begin));
            self.sync_if_due();
            return true;
        }
        let drained = matches!(self.inbox.drain(&mut self.batch, Some(Duration::ZERO)), Drained::Some);
        if drained {
            self.commit_batch();
        }
        let looked = !drained && self.look_when_idle();
        self.sync_if_due() || drained || looked
    }

    fn commit_batch(&mut self) {
        self.write_batch();
        if let Some(begin) = self.written.take() {
            self.complete_batch(Ok(begin));
        }
    }

    /// Writes the batch. One that cannot be written is completed.
    fn write_batch(&mut self) {
        let begin = self.clock.monotonic_nanos();
        let batch = std::mem::take(&mut self.batch);
        let payloads = || batch.iter().map(|append| (append.payload.as_slice(), append.mark.as_ref()));
        let is_empty = batch.iter().all(|append| append.payload.is_empty());
        let written = self.guarded(|worker| if is_empty { Ok(()) } else { worker.writer.write(payloads()) });
        self.batch = batch;
        match written {
            Ok(()) => self.written = Some(begin),
            Err(failure) => self.complete_batch(Err(failure)),
        }
    }

    /// Makes what was written durable, where that is asked, and tells whoever waits.
    fn complete_batch(&mut self, written: Result<u64, LogFailed>) {
        let mut batch = std::mem::take(&mut self.batch);
        let outcome = written.and_then(|begin| self.make_durable(&batch, begin));
        self.finish(&mut batch, outcome);
        self.batch = batch;
    }

    fn sync_if_due(&mut self) -> bool {
        let due = self.time_to_sync() == Some(Duration::ZERO);
        if due {
            self.unsynced_since = None;
            let _ = self.guarded(|worker| worker.timed_sync());
        }
        due
    }

    fn end(&mut self) {
        let _ = self.guarded(|worker| worker.writer.finish());
    }

    /// Time until the next fsync is due; `None` when nothing waits for one.
    fn time_to_sync(&self) -> Option<Duration> {
        let Durability::Interval(interval) = self.durability else { return None };
        if planted!(AnswerBeforeFsync) {
            return None;
        }
        let waited = self.clock.monotonic_nanos().saturating_sub(self.unsynced_since?);
        Some(interval.saturating_sub(Duration::from_nanos(waited)))
    }

    /// Makes the batch durable where that is asked. It has been written, since `begin`.
    fn make_durable(&mut self, batch: &[Append<C>], begin: u64) -> Result<(), LogFailed> {
        if batch.iter().all(|append| append.payload.is_empty()) {
            return self.guarded(|_| Ok(()));
        }
        self.guarded(|worker| {
            match worker.durability {
                Durability::Sync if planted!(AnswerBeforeFsync) => {}
                Durability::Sync | Durability::Memory => {
                    worker.writer.sync()?;
                    worker.record_fsync(begin);
                }
                Durability::Interval(_) => {
                    worker.unsynced_since.get_or_insert(begin);
                }
                Durability::None => {}
            }
            Ok(())
        })?;
        self.noted = self.durability == Durability::None;
        // Before anything is acknowledged: so nothing is, longer than that after the files have
        // gone.
        self.look_if_due(begin)?;
        self.writer.completed();
        Ok(())
    }

    /// Looks whether the log's files are still in place, and has it written down how far the log
    /// reaches, if the last time is long ago.
    fn look_if_due(&mut self, now: u64) -> Result<(), LogFailed> {
        if now.saturating_sub(self.looked) < self.look_interval {
            return Ok(());
        }
        self.looked = now;
        if let Some(file) = self.writer.out_of_place() {
            self.statistics.failed.store(true, Relaxed);
            return Err(self.failure.fail(LogFailed::out_of_place(&file)));
        }
        self.noted |= self.guarded(|worker| worker.writer.note_end())?;
        Ok(())
    }

    /// The same with nothing to write; whether that has come to anything. A failure is told by the
    /// next append, and to whoever listens.
    fn look_when_idle(&mut self) -> bool {
        if self.noted || self.failure.get().is_some() {
            return false;
        }
        self.look_if_due(self.clock.monotonic_nanos()).is_err() || self.noted
    }

    fn timed_sync(&mut self) -> DiskResult<()> {
        let begin = self.clock.monotonic_nanos();
        self.writer.sync()?;
        self.record_fsync(begin);
        Ok(())
    }

    fn record_fsync(&self, begin: u64) {
        self.statistics.fsyncs.record(Duration::from_nanos(self.clock.monotonic_nanos().saturating_sub(begin)));
    }

    /// Runs a disk operation, unless one failed before: the first error is final.
    fn guarded<T>(&mut self, operation: impl FnOnce(&mut Self) -> DiskResult<T>) -> Result<T, LogFailed> {
        if let Some(failure) = self.failure.get().filter(|_| !planted!(LogWritesOn)) {
            return Err(failure.clone());
        }
        operation(self).map_err(|error| {
            self.unsynced_since = None;
            self.statistics.failed.store(true, Relaxed);
            self.failure.fail(LogFailed::from_disk(&error, self.durability))
        })
    }

    fn finish(&self, batch: &mut Vec<Append<C>>, outcome: Result<(), LogFailed>) {
        if outcome.is_ok() {
            self.statistics.appends.fetch_add(batch.len() as u64, Relaxed);
        }
        self.statistics.queue_depth.fetch_sub(batch.len(), Relaxed);
        let bytes = batch.iter().map(|append| append.payload.len()).sum();
        self.statistics.queue_bytes.fetch_sub(bytes, Relaxed);
        let all = batch.drain(..).map(|append| (append.completion, append.payload.into_emptied()));
        C::complete_all(all, &outcome);
    }
}
