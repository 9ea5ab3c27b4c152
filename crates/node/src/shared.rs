//! What all threads of a node can see.

use crate::collect::Baselines;
use crate::mailbox::NetworkMailbox;
use crate::plan_cache::PlanCache;
use crate::snapshots::SnapshotJob;
use crate::system::SystemJob;
use crate::work::Work;
use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use ferrite_base::{ErrorKind, Settings, UserError, UserResult, limits};
use ferrite_io::Disk;
use ferrite_log::LogStatistics;
use ferrite_partition::RowCounts;
use ferrite_partition::cancel::{Cancel, Cancellations};
use ferrite_partition::coordinator::Job;
use ferrite_partition::long_read::LongReadLine;
use ferrite_partition::recovery::Summary;
use ferrite_partition::{Compiled, Event};
use ferrite_system::saved::SnapshotStatus;
use ferrite_system::{Identity, Sources};
use ferrite_value::ring::Ring;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

pub struct Shared {
    /// The catalog in force. Network threads look once a turn.
    pub compiled: ArcSwap<Compiled>,
    pub partitions: Vec<Sender<Event>>,
    pub coordinator: Sender<Job>,
    pub system: Sender<SystemJob>,
    pub plan_cache: PlanCache,
    pub expiry: Sender<crate::expiry::Notice>,
    pub expired: ferrite_system::expired::Figures,
    pub task_thread: Sender<crate::tasks::Notice>,
    pub tasks: ferrite_system::task_figures::Figures,
    pub compounds: crate::compound::Compounds,
    pub long_reads: LongReadLine,
    pub cancellations: Arc<Cancellations>,
    pub connections: Connections,
    pub work: Work,
    /// How many rows the tables had not long ago, for the planner.
    pub row_counts: Arc<RowCounts>,
    pub network: OnceLock<Vec<Arc<NetworkMailbox>>>,
    pub ring: Arc<Ring>,
    pub identity: Identity,
    pub log: Arc<LogStatistics>,
    pub recovery: Summary,
    pub snapshots: Sender<SnapshotJob>,
    pub snapshot_status: Arc<SnapshotStatus>,
    pub disk: Arc<dyn Disk>,
    pub backup: crate::backup::Turn,
    pub started: Instant,
    pub mode: Mode,
    pub settings: Settings,
    /// Stops the server; set by whoever runs it.
    pub shutdown: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// What statistics were answered before.
    pub baselines: Mutex<Baselines>,
}

/// Which calls are taken. System procedures always are.
#[derive(Default)]
pub struct Mode {
    /// One of the states below, and perhaps [`DISK_LOW`].
    state: AtomicU8,
    /// Free bytes of the disk and how many of them are the reserve, when that was looked at last.
    free: AtomicU64,
    reserve: AtomicU64,
}

const RUNNING: u8 = 0;
const PAUSED: u8 = 1;
const STOPPING: u8 = 2;
const STATES: u8 = 3;
/// The disk has less room than its reserve: writes are refused, in whatever state.
const DISK_LOW: u8 = 4;

impl Mode {
    fn set(&self, state: u8) {
        let kept = |before: u8| Some(before & !STATES | state);
        self.state.fetch_update(Relaxed, Relaxed, kept).expect("there is always a next state");
    }

    pub fn run(&self) {
        self.set(RUNNING);
    }

    /// Writes are refused from now on. A call that is being routed at this moment may still get
    /// through.
    pub fn pause(&self) {
        self.set(PAUSED);
    }

    /// All calls are refused from now on.
    pub fn stop(&self) {
        self.set(STOPPING);
    }

    pub fn is_running(&self) -> bool {
        self.state.load(Relaxed) & STATES == RUNNING
    }

    /// Says how much room the disk has. Whether that has changed anything.
    pub fn disk_has(&self, free: u64, reserve: u64) -> bool {
        self.free.store(free, Relaxed);
        self.reserve.store(reserve, Relaxed);
        let before = if free < reserve {
            self.state.fetch_or(DISK_LOW, Relaxed)
        } else {
            self.state.fetch_and(!DISK_LOW, Relaxed)
        };
        (before & DISK_LOW != 0) != (free < reserve)
    }

    /// Free bytes and the reserve, where less than half of it is free.
    pub fn reserve_is_half_gone(&self) -> Option<(u64, u64)> {
        let (free, reserve) = (self.free.load(Relaxed), self.reserve.load(Relaxed));
        (free < reserve / 2).then_some((free, reserve))
    }

    /// Free bytes of the disk, when that was looked at last.
    pub fn disk_free(&self) -> u64 {
        self.free.load(Relaxed)
    }

    pub fn is_disk_low(&self) -> bool {
        self.state.load(Relaxed) & DISK_LOW != 0
    }

    /// Whether a program may run now. A connection to the administration port may write while the
    /// server is paused.
    #[inline]
    pub fn admit(&self, read_only: bool, admin: bool) -> UserResult<()> {
        match self.state.load(Relaxed) {
            RUNNING => Ok(()),
            mode => self.admit_by(mode, read_only, admin),
        }
    }

    #[cold]
    fn admit_by(&self, mode: u8, read_only: bool, admin: bool) -> UserResult<()> {
        let text = match mode & STATES {
            STOPPING => "Server is shutting down.",
            _ if read_only => return Ok(()),
            PAUSED if !admin => "Server is paused and is available in read-only mode - please try again later.",
            _ if mode & DISK_LOW != 0 => return Err(self.disk_low()),
            _ => return Ok(()),
        };
        Err(UserError::new(ErrorKind::Unavailable, "57P03", text))
    }

    fn disk_low(&self) -> UserError {
        let text = "the disk of the redo log has less room than its reserve: writes are refused";
        UserError::new(ErrorKind::Unavailable, "53100", text)
            .with_detail(format!(
                "{} bytes are free, the reserve is {} bytes (--disk-reserve)",
                self.free.load(Relaxed),
                self.reserve.load(Relaxed)
            ))
            .with_hint("free disk space: writes are taken again as soon as there is room, and reads go on meanwhile")
    }
}

/// What a connection may do, and how many there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimits {
    /// All network threads together; usually [`limits::CONNECTIONS_MAX`].
    pub connections_max: usize,
    /// Within this a login must arrive.
    pub login_time_max: Duration,
    /// Within this a frame that was begun must arrive, unless it is large.
    pub frame_time_max: Duration,
    /// A connection that reads nothing for so long is closed.
    pub unread_time_max: Duration,
    /// And one with so many bytes of answers that it has not read.
    pub unread_bytes_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            connections_max: limits::CONNECTIONS_MAX,
            login_time_max: Duration::from_secs(limits::LOGIN_SECONDS_MAX),
            frame_time_max: Duration::from_secs(limits::FRAME_SECONDS_MAX),
            unread_time_max: Duration::from_secs(limits::CONNECTION_UNREAD_SECONDS_MAX),
            unread_bytes_max: limits::CONNECTION_ANSWER_BYTES_MAX,
        }
    }
}

/// Between two lines about refused connections.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The connections of all network threads.
pub struct Connections {
    pub limits: ConnectionLimits,
    open: AtomicUsize,
    /// How many there ever were.
    numbered: AtomicU64,
    /// When the last line about refused ones was written.
    told: Mutex<Option<Instant>>,
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Connections {
        Connections { limits, open: AtomicUsize::new(0), numbered: AtomicU64::new(0), told: Mutex::new(None) }
    }

    /// One more, if there is room; it will be [`Connections::closed`]. Some of the administrators'
    /// are taken beyond the limit.
    pub fn opened(&self, admin: bool) -> bool {
        let reserved = if admin { limits::ADMIN_CONNECTIONS_RESERVED } else { 0 };
        let most = self.limits.connections_max.saturating_add(reserved);
        let taken = self.open.fetch_update(Relaxed, Relaxed, |open| (open < most).then_some(open + 1)).is_ok();
        if !taken {
            self.tell();
        }
        taken
    }

    fn tell(&self) {
        let mut told = self.told.lock().expect("nobody panics with it");
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            *told = Some(Instant::now());
            ferrite_io::errln!(
                "ferrite: {} connections are open, as many as may be (--limit connections, and ulimit -n): more are refused",
                self.open.load(Relaxed)
            );
        }
    }

    pub fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    /// A number that no other connection of this node has, from 1.
    pub fn next_number(&self) -> u64 {
        self.numbered.fetch_add(1, Relaxed) + 1
    }
}

impl Shared {
    /// What the system tables are made of.
    pub fn sources(&self) -> Sources<'_> {
        Sources {
            identity: &self.identity,
            settings: &self.settings,
            compiled: self.compiled.load_full(),
            ring: &self.ring,
            partitions: self.partition_count(),
            started: self.started,
            running: self.mode.is_running(),
            log: &self.log,
            disk: &*self.disk,
            recovery: &self.recovery,
            snapshot_status: &self.snapshot_status,
            backups: self.backup.attempts(),
            expired: &self.expired,
            tasks: &self.tasks,
            compounds: &self.compounds.figures,
            long_reads: self.long_reads.now(),
            plans: self.plan_cache.statistics(),
        }
    }

    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// Calls of a connection are not wanted any more.
    pub fn cancel(&self, connection: u64, cancel: Cancel) {
        self.cancellations.add(connection, cancel);
        self.long_reads.drop_cancelled();
    }

    /// Makes a new catalog version the one that calls are routed with, and tells subscribers.
    pub fn publish(&self, compiled: Arc<Compiled>) {
        self.compiled.store(compiled);
        self.plan_cache.clear();
        // Gone only when the server stops.
        let _ = self.expiry.send(crate::expiry::Notice::CatalogChanged);
        let _ = self.task_thread.send(crate::tasks::Notice::CatalogChanged);
        for mailbox in self.network.get().into_iter().flatten() {
            mailbox.send(crate::mailbox::Mail::CatalogChanged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_disk_refuses_writes_in_whatever_state() {
        let mode = Mode::default();
        let code = |read_only| mode.admit(read_only, false).err().map(|error| error.code().to_owned());
        let is = |reads: Option<&str>, writes: Option<&str>| {
            assert_eq!((code(true).as_deref(), code(false).as_deref()), (reads, writes));
        };
        is(None, None);
        assert!(!mode.disk_has(100, 100), "at the mark there is room");
        assert_eq!(mode.reserve_is_half_gone(), None);
        assert!(mode.disk_has(99, 100) && !mode.disk_has(98, 100));
        is(None, Some("53100"));
        assert!(mode.is_running() && mode.is_disk_low());
        let error = mode.admit(false, false).expect_err("refused").to_string();
        assert!(error.contains("98 bytes are free") && error.contains("--disk-reserve"), "{error}");
        mode.pause();
        is(None, Some("57P03"));
        mode.run();
        // What is resumed is not the disk.
        is(None, Some("53100"));
        mode.stop();
        is(Some("57P03"), Some("57P03"));
        assert!(mode.disk_has(100, 100));
        mode.disk_has(50, 100);
        assert_eq!(mode.reserve_is_half_gone(), None);
        mode.disk_has(49, 100);
        assert_eq!(mode.reserve_is_half_gone(), Some((49, 100)));
        mode.disk_has(100, 100);
        mode.run();
        is(None, None);
    }
}
