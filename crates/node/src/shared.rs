//! What all threads of a node can see.

use crate::collect::Baselines;
use crate::connections::Connections;
use crate::mailbox::NetworkMailbox;
use crate::message::{ExpiryNotice, SnapshotJob, SystemJob, TaskNotice};
use crate::mode::Mode;
use crate::plan_cache::PlanCache;
use crate::routes::Routes;
use crate::work::Work;
use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use ferrite_base::Settings;
use ferrite_io::Disk;
use ferrite_log::LogStatistics;
use ferrite_partition::Compiled;
use ferrite_partition::RowCounts;
use ferrite_partition::cancel::{Cancel, Cancellations};
use ferrite_partition::long_read::LongReadLine;
use ferrite_partition::recovery::Summary;
use ferrite_system::saved::SnapshotStatus;
use ferrite_system::{Identity, Sources};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

pub struct Shared {
    /// The catalog in force. Network threads look once a turn.
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub routes: Arc<Routes>,
    pub system: Sender<SystemJob>,
    pub plan_cache: Arc<PlanCache>,
    pub expiry: Sender<ExpiryNotice>,
    pub expired: Arc<ferrite_system::expired::Figures>,
    pub task_thread: Sender<TaskNotice>,
    pub tasks: Arc<ferrite_system::task_figures::Figures>,
    pub compounds: Arc<crate::compound::Compounds>,
    pub long_reads: LongReadLine,
    pub cancellations: Arc<Cancellations>,
    pub connections: Arc<Connections>,
    pub work: Arc<Work>,
    /// How many rows the tables had not long ago, for the planner.
    pub row_counts: Arc<RowCounts>,
    pub network: Arc<[Arc<NetworkMailbox>]>,
    pub identity: Arc<Identity>,
    pub log: Arc<LogStatistics>,
    pub recovery: Arc<Summary>,
    pub snapshots: Sender<SnapshotJob>,
    pub snapshot_status: Arc<SnapshotStatus>,
    pub disk: Arc<dyn Disk>,
    pub backup: crate::backup::Turn,
    pub started: Instant,
    pub mode: Arc<Mode>,
    pub settings: Settings,
    /// Stops the server; set by whoever runs it.
    pub shutdown: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// What statistics were answered before.
    pub baselines: Mutex<Baselines>,
}

impl Shared {
    /// What the system tables are made of.
    pub fn sources(&self) -> Sources<'_> {
        Sources {
            identity: &self.identity,
            settings: &self.settings,
            compiled: self.compiled.load_full(),
            ring: &self.routes.ring,
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
        self.routes.partition_count()
    }

    /// Calls of a connection are not wanted any more.
    pub fn cancel(&self, connection: u64, cancel: Cancel) {
        self.cancellations.add(connection, cancel);
        self.long_reads.drop_cancelled();
    }
}
