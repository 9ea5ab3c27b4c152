//! What all threads of a node can see.

use crate::mailbox::NetworkMailbox;
use crate::plan_cache::PlanCache;
use crate::snapshots::{SnapshotJob, SnapshotStatus};
use crate::statistics::Baselines;
use crate::system::SystemJob;
use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_log::LogStatistics;
use ferrite_partition::RowCounts;
use ferrite_partition::coordinator::Job;
use ferrite_partition::long_read::LongReadFigures;
use ferrite_partition::recovery::Summary;
use ferrite_partition::{Compiled, Event};
use ferrite_value::ring::Ring;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

pub struct Shared {
    /// The catalog in force. Network threads look once a turn.
    pub compiled: ArcSwap<Compiled>,
    pub partitions: Vec<Sender<Event>>,
    pub coordinator: Sender<Job>,
    pub system: Sender<SystemJob>,
    pub plan_cache: PlanCache,
    pub expiry: Sender<crate::expiry::Notice>,
    pub expired: crate::expiry::Figures,
    pub long_reads: LongReadFigures,
    /// How many rows the tables had not long ago, for the planner.
    pub row_counts: Arc<RowCounts>,
    pub network: OnceLock<Vec<Arc<NetworkMailbox>>>,
    pub ring: Arc<Ring>,
    pub identity: Identity,
    pub log: Arc<LogStatistics>,
    pub recovery: Summary,
    pub snapshots: Sender<SnapshotJob>,
    pub snapshot_status: Arc<SnapshotStatus>,
    pub started: Instant,
    pub mode: Mode,
    /// Stops the server; set by whoever runs it.
    pub shutdown: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// What statistics were answered before.
    pub baselines: Mutex<Baselines>,
}

/// Which calls are taken. System procedures always are.
#[derive(Default)]
pub struct Mode(AtomicU8);

const RUNNING: u8 = 0;
const PAUSED: u8 = 1;
const STOPPING: u8 = 2;

impl Mode {
    pub fn run(&self) {
        self.0.store(RUNNING, Relaxed);
    }

    /// Writes are refused from now on. A call that is being routed at this moment may still get through.
    pub fn pause(&self) {
        self.0.store(PAUSED, Relaxed);
    }

    /// All calls are refused from now on.
    pub fn stop(&self) {
        self.0.store(STOPPING, Relaxed);
    }

    pub fn is_running(&self) -> bool {
        self.0.load(Relaxed) == RUNNING
    }

    /// Whether a program may run now.
    #[inline]
    pub fn admit(&self, read_only: bool) -> UserResult<()> {
        match self.0.load(Relaxed) {
            RUNNING => Ok(()),
            PAUSED if read_only => Ok(()),
            mode => Err(refused(mode)),
        }
    }
}

#[cold]
fn refused(mode: u8) -> UserError {
    let text = match mode {
        STOPPING => "Server is shutting down.",
        _ => "Server is paused and is available in read-only mode - please try again later.",
    };
    UserError::new(ErrorKind::Unavailable, "57P03", text)
}

/// What this node says of itself.
pub struct Identity {
    pub host_id: i32,
    pub host_name: String,
    pub listen: SocketAddr,
    /// Milliseconds since 1970; with the address below it names the cluster (wire-protocol 2.2).
    pub cluster_start_ms: i64,
    pub leader_address: [u8; 4],
    pub build: String,
    pub version: &'static str,
    pub dir: PathBuf,
    pub durability: String,
}

impl Shared {
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// Makes a new catalog version the one that calls are routed with, and tells subscribers.
    pub fn publish(&self, compiled: Arc<Compiled>) {
        self.compiled.store(compiled);
        self.plan_cache.clear();
        // Gone only when the server stops.
        let _ = self.expiry.send(crate::expiry::Notice::CatalogChanged);
        for mailbox in self.network.get().into_iter().flatten() {
            mailbox.send(crate::mailbox::Mail::CatalogChanged);
        }
    }
}
