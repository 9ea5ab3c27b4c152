//! Work off the commit path, on a thread of its own: making the next segment, making full ones
//! durable, writing down how far the log reaches.
//!
//! The thread sleeps when there is nothing to do. Without it (`LogOptions::prepare_ahead` off) the
//! caller does the work in place; in a log without threads of its own, step by step.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ferrite_io::{Disk, DiskError, DiskFile, DiskResult, Yielding, lower_priority};

use crate::begun::{BegunFile, KnownEnd};
use crate::segment::{Blank, prepare_segment, segment_path};

/// Between two looks at how far the log has come.
const PAUSE: Duration = Duration::from_micros(500);
const PAUSES_MAX: u32 = 10;

enum Job {
    Prepare {
        number: u64,
    },
    /// fsync a full segment, all of whose blocks up to `through` then are durable.
    Retire {
        file: Arc<dyn DiskFile>,
        through: u64,
    },
    /// Write down what [`Shared::end`] says, if nobody has done so yet.
    NoteEnd,
    /// Let the operating system have the memory back in which it keeps a full segment that is
    /// durable.
    Forget {
        file: Arc<dyn DiskFile>,
    },
}

struct Shared {
    /// Somebody waits for the segment: fill without pauses.
    urgent: AtomicBool,
    /// Bytes of the current segment in use.
    used: AtomicU64,
    durable_through: AtomicU64,
    /// How far the log reaches, and where that is to be written down.
    end: Mutex<Option<(Arc<BegunFile>, KnownEnd)>>,
}

impl Shared {
    fn end(&self) -> MutexGuard<'_, Option<(Arc<BegunFile>, KnownEnd)>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down how far the log reaches, if that was asked for.
    fn note_end(&self) -> DiskResult<()> {
        let asked = self.end().take();
        asked.map_or(Ok(()), |(begun, end)| begun.write(end))
    }
}

/// Whether work is done ahead of need, and by whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ahead {
    Never,
    Thread,
    /// Whoever calls [`Preparer::step`].
    Steps,
}

struct Helper {
    jobs: Option<Sender<Job>>,
    prepared: Receiver<(u64, DiskResult<()>)>,
    failures: Receiver<DiskError>,
    hands: Hands,
}

enum Hands {
    Thread(Option<JoinHandle<()>>),
    Steps(Worker, Receiver<Job>),
}

pub(crate) struct Preparer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_bytes: u64,
    blank: Blank,
    shared: Arc<Shared>,
    helper: Option<Helper>,
    /// The segment that the thread makes, or has made.
    requested: Option<u64>,
    /// A segment that an earlier run of the server left unused.
    found: Option<u64>,
}

impl Preparer {
    pub fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        segment_bytes: u64,
        blank: Blank,
        ahead: Ahead,
        found: Option<u64>,
    ) -> DiskResult<Self> {
        let shared = Arc::new(Shared {
            // In steps nobody else needs the disk meanwhile.
            urgent: AtomicBool::new(ahead == Ahead::Steps),
            used: AtomicU64::new(0),
            durable_through: AtomicU64::new(0),
            end: Mutex::new(None),
        });
        let helper = (ahead != Ahead::Never)
            .then(|| {
                let (jobs, job_receiver) = channel();
                let (prepared_sender, prepared) = channel();
                let (failure_sender, failures) = channel();
                let worker = Worker {
                    disk: disk.clone(),
                    dir: dir.clone(),
                    segment_bytes,
                    blank,
                    shared: shared.clone(),
                    prepared: prepared_sender,
                    failures: failure_sender,
                    failed: false,
                };
                if ahead == Ahead::Steps {
                    let hands = Hands::Steps(worker, job_receiver);
                    return Ok(Helper { jobs: Some(jobs), prepared, failures, hands });
                }
                std::thread::Builder::new()
                    .name("log-prepare".to_owned())
                    .spawn(move || {
                        lower_priority(Yielding::Some);
                        worker.run(job_receiver)
                    })
                    .map(|thread| Hands::Thread(Some(thread)))
                    .map(|hands| Helper { jobs: Some(jobs), prepared, failures, hands })
                    .map_err(|error| DiskError::new("start a thread for", &dir, error))
            })
            .transpose()?;
        Ok(Preparer { disk, dir, segment_bytes, blank, shared, helper, requested: None, found })
    }

    /// Has the segment made, if nobody is at it yet. Does not wait. `used` says how far the one
    /// before it is filled: the thread goes twice as fast as that goes on.
    pub fn request(&mut self, number: u64, used: u64) {
        self.shared.used.store(used, Ordering::Relaxed);
        if let Some(helper) = &self.helper
            && self.requested != Some(number)
            && self.found != Some(number)
        {
            self.requested = Some(number);
            helper.send(Job::Prepare { number });
        }
    }

    /// Answers when the segment is there.
    pub fn wait(&mut self, number: u64) -> DiskResult<()> {
        if self.found == Some(number) {
            return Ok(());
        }
        let Some(helper) = &mut self.helper else {
            return prepare_segment(&*self.disk, &self.dir, number, self.segment_bytes, self.blank, &mut |_| {});
        };
        let early = match self.requested {
            Some(requested) if requested == number => helper.prepared.try_recv().ok(),
            _ => None,
        };
        if let Some((_, Ok(()))) = early {
            return Ok(());
        }
        self.shared.urgent.store(true, Ordering::Relaxed);
        // What failed ahead of need may have been mended since: no block was in that file, so
        // trying again is harmless.
        if early.is_some() || self.requested != Some(number) {
            self.requested = Some(number);
            helper.send(Job::Prepare { number });
        }
        while helper.step() {}
        let made = match helper.hands {
            Hands::Thread(_) => helper.prepared.recv().ok(),
            // Who waits is who would have made it: when a step was unwound in the middle, nobody
            // will.
            Hands::Steps(..) => helper.prepared.try_recv().ok(),
        };
        let result = match made {
            Some((_, result)) => result,
            None => {
                let ended = std::io::Error::other("the thread that prepared it has ended");
                Err(DiskError::new("prepare", &segment_path(&self.dir, number), ended))
            }
        };
        self.shared.urgent.store(matches!(helper.hands, Hands::Steps(..)), Ordering::Relaxed);
        result
    }

    /// Has a full segment made durable. Does not wait, unless there is no thread for it.
    pub fn retire(&mut self, file: Arc<dyn DiskFile>, through: u64) -> DiskResult<()> {
        match &self.helper {
            Some(helper) => helper.send(Job::Retire { file, through }),
            None => {
                file.sync_data()?;
                self.shared.durable_through.store(through, Ordering::Release);
                file.forget();
            }
        }
        Ok(())
    }

    /// Has it written down how far the log reaches. Does not wait, unless there is no thread for
    /// it. A failure is told by [`Preparer::retired_through`].
    pub fn note_end(&mut self, begun: &Arc<BegunFile>, end: KnownEnd) -> DiskResult<()> {
        let Some(helper) = &self.helper else { return begun.write(end) };
        *self.shared.end() = Some((Arc::clone(begun), end));
        helper.send(Job::NoteEnd);
        Ok(())
    }

    /// Nobody reads a segment that is full and durable before the next start, and then past the
    /// page cache. Its memory serves the next one, which spares the system to look for fresh memory
    /// all the time: on a virtual machine that takes long.
    pub fn forget(&self, file: Arc<dyn DiskFile>) {
        match &self.helper {
            Some(helper) => helper.send(Job::Forget { file }),
            None => file.forget(),
        }
    }

    /// The block up to which retired segments have become durable; the first error, if one could
    /// not be.
    pub fn retired_through(&self) -> DiskResult<u64> {
        if let Some(helper) = &self.helper
            && let Ok(error) = helper.failures.try_recv()
        {
            return Err(error);
        }
        Ok(self.shared.durable_through.load(Ordering::Acquire))
    }

    /// Does one job where that is the caller's work; whether there was one.
    pub fn step(&mut self) -> bool {
        self.helper.as_mut().is_some_and(Helper::step)
    }

    /// Waits until all that was retired is durable, and ends the thread. What is still asked for is
    /// done in place.
    pub fn finish(&mut self) -> DiskResult<()> {
        self.shared.urgent.store(true, Ordering::Relaxed);
        let Some(mut helper) = self.helper.take() else { return Ok(()) };
        helper.end();
        helper.failures.try_recv().map_or(Ok(()), Err)
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        // Only after a failure is there still a thread, and then its errors add nothing.
        let _ = self.finish();
    }
}

impl Helper {
    fn send(&self, job: Job) {
        // A thread that has ended is noticed by whoever waits for its answer.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }

    fn step(&mut self) -> bool {
        let Hands::Steps(worker, jobs) = &mut self.hands else { return false };
        let job = jobs.try_recv();
        job.is_ok_and(|job| {
            worker.run_job(job);
            true
        })
    }

    fn end(&mut self) {
        self.jobs = None;
        while self.step() {}
        if let Hands::Thread(thread) = &mut self.hands
            && let Some(thread) = thread.take()
        {
            let _ = thread.join();
        }
    }
}

struct Worker {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_bytes: u64,
    blank: Blank,
    shared: Arc<Shared>,
    prepared: Sender<(u64, DiskResult<()>)>,
    failures: Sender<DiskError>,
    /// A full segment could not be made durable, or the log's end not be written down.
    failed: bool,
}

impl Worker {
    fn run(mut self, jobs: Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            self.run_job(job);
        }
    }

    fn run_job(&mut self, job: Job) {
        match job {
            Job::Prepare { number } => {
                let from = self.shared.used.load(Ordering::Relaxed);
                let mut failure = None;
                let mut pace = |filled| {
                    self.pause_while_ahead(from, filled);
                    // Making a segment takes its time, and how far the log reaches is not to wait
                    // for it.
                    failure = self.shared.note_end().err().or(failure.take());
                };
                let result = prepare_segment(&*self.disk, &self.dir, number, self.segment_bytes, self.blank, &mut pace);
                if let Some(error) = failure {
                    self.failed = true;
                    let _ = self.failures.send(error);
                }
                // Nobody waits for it any more where the writer has ended, and then there are no
                // more jobs.
                let _ = self.prepared.send((number, result));
            }
            Job::Forget { file } => file.forget(),
            // After the first failure nothing later may count as durable.
            Job::Retire { .. } if self.failed => {}
            Job::Retire { file, through } => match file.sync_data_in_pieces() {
                Ok(()) => {
                    self.shared.durable_through.store(through, Ordering::Release);
                    file.forget();
                }
                Err(error) => {
                    self.failed = true;
                    let _ = self.failures.send(error);
                }
            },
            Job::NoteEnd => self.note_end(),
        }
    }

    fn note_end(&mut self) {
        if let Err(error) = self.shared.note_end() {
            self.failed = true;
            let _ = self.failures.send(error);
        }
    }

    /// Leaves the disk to commits while there is time: waits as long as more than twice the bytes
    /// used since the beginning are filled, but not for ever, so that an idle log gets its next
    /// segment too.
    fn pause_while_ahead(&self, used_from: u64, filled: u64) {
        for _ in 0..PAUSES_MAX {
            let used = self.shared.used.load(Ordering::Relaxed).saturating_sub(used_from);
            if filled <= used.saturating_mul(2) || self.shared.urgent.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}
