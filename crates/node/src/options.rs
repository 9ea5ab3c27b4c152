//! What a node is started with, and why a start fails.

use crate::connections::ConnectionLimits;
use ferrite_base::Settings;
use ferrite_catalog::DecimalScale;
use ferrite_io::Disk;
use ferrite_io::threads::ThreadError;
use ferrite_log::Durability;
use ferrite_member::{ClusterOptions, MemberError};
use ferrite_partition::recovery::StartError;
use ferrite_plan::external::RuntimeHandle;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub struct ServerOptions {
    pub dir: PathBuf,
    pub listen: SocketAddr,
    /// Where administrators connect. None: every connection may do what they may.
    pub admin_listen: Option<SocketAddr>,
    /// Every client may do what runs code and touches files, wherever it comes from.
    pub trust_clients: bool,
    /// The directory that all backups lie in; created if missing. None: callers name any.
    pub backup_dir: Option<PathBuf>,
    /// Rows that are to be migrated are dropped when their time is up; otherwise they are kept.
    pub drop_migrating: bool,
    pub connection_limits: ConnectionLimits,
    /// None: what the directory has, or the default for a new one.
    pub partitions: Option<u32>,
    pub durability: Durability,
    /// What DECIMAL(p, s) means in a new database. None: what the directory has, or the default for
    /// a new one.
    pub decimal_scale: Option<DecimalScale>,
    /// Jars to load when the database is new, before the schema.
    pub classes: Vec<Vec<u8>>,
    /// DDL to run when the database is new.
    pub schema: Option<String>,
    pub network_threads: usize,
    /// Page memory to touch at start, before it is needed; a little is touched ahead at all times.
    pub memory_ahead_bytes: usize,
    /// Where the redo log lives.
    pub disk: Arc<dyn Disk>,
    /// How long one call may execute; usually [`ferrite_base::limits::QUERY_TIME_MAX`].
    pub query_time_max: Duration,
    /// Threads for queries that take long, at least one.
    pub long_query_threads: usize,
    /// When snapshots are written to disk, and how.
    pub snapshots: SnapshotSettings,
    /// Threads that load and replay at start.
    pub recovery_threads: usize,
    /// The limits in force.
    pub settings: Settings,
    /// Loads procedures and functions in other languages.
    pub runtime: RuntimeHandle,
    /// The node's cluster, if its directory does not name it.
    pub cluster: ClusterOptions,
}

/// When snapshots are taken by themselves, and how they are written.
#[derive(Clone, Debug)]
pub struct SnapshotSettings {
    /// Files written, or read back, at a time.
    pub threads: usize,
    /// None: as fast as the disk, and a third as fast while calls are in flight.
    pub bytes_per_second: Option<u64>,
    /// Bytes of log since the last snapshot at which one is taken, if the data in memory are not
    /// more. None: never.
    pub log_bytes: Option<u64>,
    /// Time since the last one after which one is taken, if anything was written. None: never.
    pub interval: Option<Duration>,
}

/// The interval with durability memory, unless another is set.
pub const MEMORY_INTERVAL: Duration = Duration::from_secs(60);

impl Default for SnapshotSettings {
    fn default() -> Self {
        SnapshotSettings { threads: 2, bytes_per_second: None, log_bytes: Some(1 << 30), interval: None }
    }
}

#[derive(Debug)]
pub enum ServerError {
    Start(StartError),
    Listen(SocketAddr, io::Error),
    Schema(String),
    Backups(PathBuf, String),
    DecimalScale(String),
    Thread(ThreadError),
    /// As one of a cluster, or before it was clear that it is none.
    Member(MemberError),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Start(error) => error.fmt(f),
            ServerError::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}; {}", listen_advice(error))
            }
            ServerError::Schema(text) => write!(f, "the new database could not be given its schema: {text}"),
            ServerError::Backups(dir, reason) => {
                write!(f, "backups cannot go to {} (--backup-dir): {reason}", dir.display())
            }
            ServerError::DecimalScale(text) => f.write_str(text),
            ServerError::Thread(error) => error.fmt(f),
            ServerError::Member(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServerError {}

impl From<MemberError> for ServerError {
    fn from(error: MemberError) -> ServerError {
        ServerError::Member(error)
    }
}

impl From<ThreadError> for ServerError {
    fn from(error: ThreadError) -> ServerError {
        ServerError::Thread(error)
    }
}

fn listen_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program uses this port: stop it, or choose other ports with --listen and --admin-listen"
        }
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address: see --listen and --admin-listen",
        io::ErrorKind::PermissionDenied => "choose a port above 1023 with --listen or --admin-listen",
        _ => "see --listen and --admin-listen",
    }
}
