//! What the system tables are made of.

use crate::compound_figures::Figures as CompoundFigures;
use crate::expired::Figures as ExpiredFigures;
use crate::forwarding::Figures as ForwardingFigures;
use crate::hosts::Hosts;
use crate::identity::Identity;
use crate::lots::LotFigures;
use crate::plans::PlanCacheStatistics;
use crate::processor::ProcessorUse;
use crate::saved::{BackupAttempt, SnapshotStatus};
use crate::task_figures::Figures as TaskFigures;
use crate::traffic::NetworkReport;
use ferrite_base::Settings;
use ferrite_io::Disk;
use ferrite_log::LogStatistics;
use ferrite_partition::Compiled;
use ferrite_partition::counters::ThreadReport;
use ferrite_partition::long_read::LineFigures;
use ferrite_partition::recovery::Summary;
use ferrite_value::ring::Ring;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A node, as its parts are seen by whoever asks about it.
pub struct Sources<'n> {
    pub identity: &'n Identity,
    /// The cluster's nodes, as they are known here.
    pub hosts: Arc<Hosts>,
    pub settings: &'n Settings,
    /// In force at the moment.
    pub compiled: Arc<Compiled>,
    pub ring: &'n Ring,
    pub partitions: usize,
    pub started: Instant,
    pub processor: &'n ProcessorUse,
    /// Neither paused nor stopping.
    pub running: bool,
    /// All copies that are to be there are.
    pub safe: bool,
    pub log: &'n LogStatistics,
    pub disk: &'n dyn Disk,
    pub recovery: &'n Summary,
    pub snapshot_status: &'n SnapshotStatus,
    pub backups: Vec<BackupAttempt>,
    pub expired: &'n ExpiredFigures,
    pub forwarding: &'n ForwardingFigures,
    pub lots: &'n LotFigures,
    pub tasks: &'n TaskFigures,
    pub compounds: &'n CompoundFigures,
    pub long_reads: LineFigures,
    pub plans: PlanCacheStatistics,
}

/// Figures, and the time that they are about.
pub struct Collected<R> {
    pub reports: R,
    pub elapsed: Duration,
}

/// Asks the threads for what they have counted; with `interval`, since the last such question with
/// the same selector.
pub trait Collect {
    /// The partitions' reports in order, the coordinator's behind them.
    fn partitions(&self, selector: &str, interval: bool) -> Collected<Vec<ThreadReport>>;
    /// All network threads' figures as one.
    fn network(&self, selector: &str, interval: bool) -> Collected<NetworkReport>;
}
