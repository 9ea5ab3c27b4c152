//! The options of `ferrite server`, as the command line has them. Their comments are its `--help`.

use crate::address;
use crate::cluster_options::MemberOptions;
use clap::Args;
use ferrite_base::Settings;
use ferrite_base::limits::{MEMORY_BYTES_MIN, MEMORY_PERCENT_DEFAULT, QUERY_TIME_MAX};
use ferrite_node::{DecimalScale, Durability};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub struct Options {
    /// Directory of the database; created if missing.
    #[arg(long, value_name = "DATA")]
    pub(super) dir: PathBuf,
    /// Create a database if the directory has none. Without this option, --schema, --classes or
    /// --cluster, such a directory is refused, because its volume might not be mounted.
    #[arg(long, conflicts_with_all = ["cluster", "kfactor", "join", "cluster_as", "partitions_per_node", "rack"])]
    pub(super) new: bool,
    /// Address (or host name) and port on which to accept clients.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:21212", value_parser = address::listen)]
    pub(super) listen: SocketAddr,
    /// Address and port for administrators. Only this port accepts pause, resume and shutdown, and
    /// writes while the server is paused. `none`: every port accepts them [default:
    /// 127.0.0.1:21211, or none if --listen names a port other than 21212].
    #[arg(long, value_name = "ADDRESS:PORT|none", value_parser = admin_listen)]
    pub(super) admin_listen: Option<AdminListen>,
    /// Let every client load classes (that is, run code with the server's rights), name directories
    /// for backups and stop the server. If only this machine can reach --listen, every client can
    /// do so anyway. If other machines can reach it, only the administration port accepts these
    /// requests, unless this option is given.
    #[arg(long)]
    pub(super) trust_clients: bool,
    /// Directory for all backups, created if missing; callers name directories inside it
    /// [default: callers may name any directory on this machine except the database's].
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) backup_dir: Option<PathBuf>,
    /// What happens to expired rows (USING TTL) in tables with MIGRATE TO. There is no export, so
    /// they are either kept or dropped.
    #[arg(long, value_enum, value_name = "keep|drop", default_value = "keep")]
    pub(super) migrating_rows: MigratingRows,
    /// Partitions of a new database [default: 75% of the cores, at least 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), conflicts_with = "partitions_per_node")]
    pub(super) partitions: Option<u32>,
    /// When a transaction is acknowledged: `sync` (after fsync), `interval=MS` (after the write;
    /// fsync follows within MS milliseconds), `none` (the operating system decides when to write),
    /// or `memory` (at once: there is no redo log, and a crash loses what was acknowledged since
    /// the newest snapshot; an orderly stop takes one and loses nothing; not in a cluster).
    #[arg(long, value_name = "sync|interval=MS|none|memory", default_value = "sync", value_parser = durability)]
    pub(super) durability: Durability,
    /// How a new database treats the precision and scale of DECIMAL(p, s): `declared` (values are
    /// rounded and must fit) or `ignored`, as in VoltDB [default: declared]. An existing database
    /// keeps its setting.
    #[arg(long, value_name = "declared|ignored", value_parser = decimal_scale)]
    pub(super) decimal_scale: Option<DecimalScale>,
    /// Jar with Java classes to load into a new database, before the schema and in the same
    /// transaction. May be repeated.
    #[arg(long, value_name = "JAR")]
    pub(super) classes: Vec<PathBuf>,
    /// DDL to run in a new database.
    #[arg(long, value_name = "FILE")]
    pub(super) schema: Option<PathBuf>,
    /// Seconds that one call may run before it is interrupted and rolled back.
    #[arg(long, value_name = "SECONDS", default_value_t = QUERY_TIME_MAX.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) query_timeout: u64,
    /// Megabytes of memory to reserve for rows at start. If the first use of memory is slow, as on
    /// most virtual machines, this keeps latency steady until the data outgrow it.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 16, value_parser = clap::value_parser!(u64).range(0..=1_048_576))]
    pub(super) memory_ahead: u64,
    /// Memory that the server may use: bytes (such as 500M or 16G), or a percentage of the
    /// machine's or control group's memory (80%). Shortly before the limit, new rows are refused;
    /// deletions and queries continue.
    #[arg(long, value_name = "BYTES|PERCENT", default_value_t = Memory::default(), value_parser = memory)]
    pub(super) memory_limit: Memory,
    /// Refuse writes while less disk space than this is free (bytes, such as 500M or 2G). 0: never.
    #[arg(long, value_name = "BYTES", default_value = DISK_RESERVE, value_parser = size)]
    pub(super) disk_reserve: u64,
    /// Change a limit named in docs/limits.md, such as temporary-bytes=500M. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub(super) limit: Vec<(String, String)>,
    /// Threads for long-running queries: up to this many queries run beside the transactions
    /// [default: a quarter of the cores, at least 1].
    #[arg(long, alias = "report-threads", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) long_query_threads: Option<u32>,
    /// Options for the JVM that runs Java procedures, separated by spaces, such as
    /// "-Xmx2g -XX:+UseG1GC". The JVM starts when the first Java procedure is loaded.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub(super) java_options: Option<String>,
    /// Threads that read and write sockets [default: a quarter of the cores, at least 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) network_threads: Option<u32>,
    /// Threads that write snapshots, one file each. They yield to all other threads.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) snapshot_threads: u32,
    /// Maximum rate at which snapshots are written, in megabytes per second [default: a third of
    /// the disk's speed while calls run, otherwise unlimited].
    #[arg(long, value_name = "MEGABYTES", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) snapshot_rate: Option<u64>,
    /// Take a snapshot after this many megabytes of redo log, but not before the log is as large as
    /// the data. In a cluster, each node measures its own log. 0: never.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub(super) snapshot_log: u64,
    /// Take a snapshot after this many seconds if anything was written. 0: never [default: 60 with
    /// --durability memory, otherwise 0].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=31_536_000))]
    pub(super) snapshot_interval: Option<u64>,
    /// Threads that load the newest snapshot and replay the redo log at start [default: the number
    /// of cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) recovery_threads: Option<u32>,
    #[command(flatten)]
    pub(super) member: MemberOptions,
    /// Maximum rate at which snapshots are sent to other nodes of the cluster, in megabytes per
    /// second.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) transfer_rate: u64,
    /// For tests of crashes: what was not fsynced dies with the process. The number decides which
    /// parts of it survive.
    #[arg(long, value_name = "SEED", hide = true)]
    pub(super) unsynced_writes_are_lost: Option<u64>,
    /// Before each read is answered, confirm leadership with the other members instead of relying
    /// on a lease. Use this on virtual machines that are suspended or moved while they run: their
    /// clocks stop meanwhile, so that a leader that was replaced could answer reads with old data
    /// for up to two seconds.
    #[arg(long)]
    pub(super) reads_by_barrier: bool,
}

/// `DISK_RESERVE_BYTES` in the notation of the option.
const DISK_RESERVE: &str = "256M";

#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum MigratingRows {
    Keep,
    Drop,
}

#[derive(Clone, Copy)]
pub(super) enum AdminListen {
    Nowhere,
    At(SocketAddr),
}

fn admin_listen(text: &str) -> Result<AdminListen, String> {
    match text {
        "none" => Ok(AdminListen::Nowhere),
        _ => address::listen(text).map(AdminListen::At).map_err(|error| format!("{error}; or none")),
    }
}

/// The ports of the original server. They go together: with another client port, the administration
/// port is chosen by the user.
pub(super) const CLIENT_PORT: u16 = 21_212;
pub(super) const ADMIN_PORT: u16 = 21_211;

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => Ok(Durability::Sync),
        "none" => Ok(Durability::None),
        "memory" => Ok(Durability::Memory),
        _ => text
            .strip_prefix("interval=")
            .and_then(|number| number.parse::<u64>().ok())
            .filter(|milliseconds| (1..=60_000).contains(milliseconds))
            .map(|milliseconds| Durability::Interval(Duration::from_millis(milliseconds)))
            .ok_or_else(|| "expected sync, none, memory or interval=MS (1 to 60000 milliseconds)".to_owned()),
    }
}

fn decimal_scale(text: &str) -> Result<DecimalScale, String> {
    DecimalScale::from_name(text).ok_or_else(|| "expected declared or ignored".to_owned())
}

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What `--memory-limit` says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Memory {
    Bytes(usize),
    Percent(usize),
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::Percent(MEMORY_PERCENT_DEFAULT)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Bytes(bytes) => write!(f, "{bytes}"),
            Memory::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Memory {
    /// None: the machine does not say what it has.
    pub(super) fn bytes(self) -> Option<usize> {
        match self {
            Memory::Bytes(bytes) => Some(bytes),
            Memory::Percent(percent) => {
                ferrite_io::memory_bytes().map(|all| (all as u128 * percent as u128 / 100) as usize)
            }
        }
    }
}

fn memory(text: &str) -> Result<Memory, String> {
    let said = || format!("expected at least {MEMORY_BYTES_MIN} bytes (such as 16G), or 1% to 100%");
    if let Some(number) = text.strip_suffix('%') {
        let percent = number.parse().ok().filter(|percent| (1..=100).contains(percent)).ok_or_else(said)?;
        return Ok(Memory::Percent(percent));
    }
    let bytes = ferrite_base::settings::bytes(text).ok_or_else(said)?;
    usize::try_from(bytes).ok().filter(|bytes| *bytes >= MEMORY_BYTES_MIN).map(Memory::Bytes).ok_or_else(said)
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("expected NAME=VALUE, where NAME is one of: {}", Settings::names().join(", ")))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn size(text: &str) -> Result<u64, String> {
    ferrite_base::settings::bytes(text)
        .ok_or_else(|| "expected a number of bytes, such as 1073741824, 500M or 2G".to_owned())
}

pub(super) fn quarter_of_the_cores() -> usize {
    (cores() / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::{DISK_RESERVE, size};
    use ferrite_base::limits::DISK_RESERVE_BYTES;

    #[test]
    fn the_reserve_in_the_help_is_the_limit() {
        assert_eq!(size(DISK_RESERVE), Ok(DISK_RESERVE_BYTES));
    }
}
