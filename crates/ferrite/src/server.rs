//! `ferrite server`.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use crate::address;
use crate::anew;
use crate::cluster_options::MemberOptions;
use clap::Args;
use ferrite_base::Settings;
use ferrite_base::limits::{
    ADDRESS_SPACE_BYTES_MIN, DISK_RESERVE_BYTES, MEMORY_BYTES_MIN, MEMORY_PERCENT_DEFAULT, QUERY_TIME_MAX,
};
use ferrite_io::{Disk, RealDisk, VolatileDisk, stdio};
use ferrite_node::privilege;
use ferrite_node::{
    ClusterOptions, ConnectionLimits, DecimalScale, Durability, Server, ServerError, ServerOptions, SnapshotSettings,
    Stopped,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXCPU};
use signal_hook::iterator::Signals;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Args)]
pub struct Options {
    /// Directory of the database; created if missing.
    #[arg(long, value_name = "DATA")]
    dir: PathBuf,
    /// Create a database if the directory has none. Without this option, --schema, --classes or
    /// --cluster, such a directory is refused: its volume may not be mounted.
    #[arg(long, conflicts_with = "cluster")]
    new: bool,
    /// Address, or name of the machine, and port to listen on.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:21212", value_parser = address::listen)]
    listen: SocketAddr,
    /// Address and port for administrators. Only this port accepts pause, resume and shutdown, and
    /// writes while the server is paused. `none`: every port accepts them [default:
    /// 127.0.0.1:21211, or none if --listen names a port other than 21212].
    #[arg(long, value_name = "ADDRESS:PORT|none", value_parser = admin_listen)]
    admin_listen: Option<AdminListen>,
    /// Let every client load classes (that is, run code with the server's rights), name directories
    /// for backups and stop the server. Clients may do so anyway while --listen is reachable from
    /// this machine only. If other machines can reach it, only the administration port accepts
    /// these requests, unless this option is given.
    #[arg(long)]
    trust_clients: bool,
    /// The directory for all backups, created if missing; callers name directories inside it
    /// [default: callers may name any directory on this machine except the database's].
    #[arg(long, value_name = "DIRECTORY")]
    backup_dir: Option<PathBuf>,
    /// What happens to expired rows (USING TTL) in tables with MIGRATE TO. There is no export, so
    /// they are either kept or dropped.
    #[arg(long, value_enum, value_name = "keep|drop", default_value = "keep")]
    migrating_rows: MigratingRows,
    /// Partitions of a new database [default: 75 % of the cores, at least 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    partitions: Option<u32>,
    /// When a transaction is acknowledged: `sync` (after fsync), `interval=MS` (after the write;
    /// fsync follows within MS milliseconds), `none` (the operating system decides when to write).
    #[arg(long, value_name = "sync|interval=MS|none", default_value = "sync", value_parser = durability)]
    durability: Durability,
    /// How a new database treats the precision and scale of DECIMAL(p, s): `declared` (values are
    /// rounded and must fit) or `ignored`, as in VoltDB [default: declared]. An existing database
    /// keeps its setting.
    #[arg(long, value_name = "declared|ignored", value_parser = decimal_scale)]
    decimal_scale: Option<DecimalScale>,
    /// Jar with Java classes to load into a new database, before the schema and in the same
    /// transaction. May be repeated.
    #[arg(long, value_name = "JAR")]
    classes: Vec<PathBuf>,
    /// DDL to run in a new database.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Seconds that one call may run before it is interrupted and rolled back.
    #[arg(long, value_name = "SECONDS", default_value_t = QUERY_TIME_MAX.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400))]
    query_timeout: u64,
    /// Megabytes of memory for rows to reserve at start. Where first use of memory is slow (most
    /// virtual machines), this keeps latency even until the data outgrow it.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 16, value_parser = clap::value_parser!(u64).range(0..=1_048_576))]
    memory_ahead: u64,
    /// Memory that the server may use: bytes (such as 500M or 16G), or a percentage of the
    /// machine's or control group's memory (80%). Shortly before the limit new rows are refused;
    /// deletions and queries continue.
    #[arg(long, value_name = "BYTES|PERCENT", default_value_t = Memory::default(), value_parser = memory)]
    memory_limit: Memory,
    /// Refuse writes while less disk space than this is free (bytes, such as 500M or 2G). 0: never.
    #[arg(long, value_name = "BYTES", default_value_t = DISK_RESERVE_BYTES, value_parser = size)]
    disk_reserve: u64,
    /// Change a limit named in docs/limits.md, such as temporary-bytes=500M. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    limit: Vec<(String, String)>,
    /// Threads for long-running queries: up to this many run beside the transactions [default: a
    /// quarter of the cores, at least 1].
    #[arg(long, alias = "report-threads", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    long_query_threads: Option<u32>,
    /// Options for the JVM that runs Java procedures, separated by spaces, such as
    /// "-Xmx2g -XX:+UseG1GC". The JVM starts when the first Java procedure is loaded.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    java_options: Option<String>,
    /// Threads that read and write sockets [default: a quarter of the cores, at least 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    network_threads: Option<u32>,
    /// Threads that write snapshots, one file each. They yield to all other threads.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    snapshot_threads: u32,
    /// Megabytes per second at which snapshots are written [default: unlimited; a third of the
    /// disk's speed while calls run].
    #[arg(long, value_name = "MEGABYTES", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    snapshot_rate: Option<u64>,
    /// Take a snapshot after this many megabytes of redo log, but not before the log is as large as
    /// the data; every node of a cluster by its own log. 0: never.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    snapshot_log: u64,
    /// Take a snapshot after this many seconds if anything was written. 0: never.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=31_536_000))]
    snapshot_interval: u64,
    /// Threads that load the newest snapshot and replay the redo log at start [default: the number
    /// of cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    recovery_threads: Option<u32>,
    #[command(flatten)]
    member: MemberOptions,
    /// Megabytes per second at which everything is sent to a node of the cluster that has too
    /// little.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    transfer_rate: u64,
    /// For tests of crashes: what was not fsynced dies with the process. The number decides which
    /// parts of it survive.
    #[arg(long, value_name = "SEED", hide = true)]
    unsynced_writes_are_lost: Option<u64>,
    /// A leader asks the other members before it answers reads, instead of relying on clocks that
    /// go on. For virtual machines that are suspended or moved while they run: their clocks stand
    /// still meanwhile, and a node could answer an old read for up to two seconds.
    #[arg(long)]
    reads_by_barrier: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum MigratingRows {
    Keep,
    Drop,
}

#[derive(Clone, Copy)]
enum AdminListen {
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
const CLIENT_PORT: u16 = 21_212;
const ADMIN_PORT: u16 = 21_211;

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => Ok(Durability::Sync),
        "none" => Ok(Durability::None),
        _ => text
            .strip_prefix("interval=")
            .and_then(|number| number.parse::<u64>().ok())
            .filter(|milliseconds| (1..=60_000).contains(milliseconds))
            .map(|milliseconds| Durability::Interval(Duration::from_millis(milliseconds)))
            .ok_or_else(|| "expected sync, none or interval=MS (1 to 60000 milliseconds)".to_owned()),
    }
}

fn decimal_scale(text: &str) -> Result<DecimalScale, String> {
    DecimalScale::from_name(text).ok_or_else(|| "expected declared or ignored".to_owned())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What `--memory-limit` says.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Memory {
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
    fn bytes(self) -> Option<usize> {
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

fn quarter_of_the_cores() -> usize {
    (cores() / 4).max(1)
}

/// Whatever ends the server, its last lines get out, if somebody takes them.
struct LastLines;

/// The process ends because the server wants to.
static ENDS: AtomicBool = AtomicBool::new(false);
/// A signal is waited for.
static READY: AtomicBool = AtomicBool::new(false);
/// It was code in Java that asked for the end.
static JAVA_EXITS: AtomicBool = AtomicBool::new(false);

/// Somebody has called `exit` who is not us: `Runtime.halt`, a library of Java code's, a JVM that
/// cannot go on.
extern "C" fn exited() {
    if !ENDS.load(Ordering::Relaxed) {
        ferrite_io::errln!(
            "ferrite: Java code, or the JVM, has ended the process. Acknowledged transactions are in the log."
        );
        stdio::flush(stdio::LAST_LINES_TIME);
    }
}

/// What `System.exit` does.
fn java_exits() {
    JAVA_EXITS.store(true, Ordering::Relaxed);
    if READY.load(Ordering::Acquire) {
        let _ = signal_hook::low_level::raise(SIGTERM);
        return;
    }
    // The thread that starts the server may be the one that waits for the exit.
    stdio::flush(stdio::LAST_LINES_TIME);
    signal_hook::low_level::exit(1);
}

impl Drop for LastLines {
    fn drop(&mut self) {
        ENDS.store(true, Ordering::Relaxed);
        stdio::flush(stdio::LAST_LINES_TIME);
    }
}

/// A panic may be the last that is heard of the process, so it is waited for, but not long: the
/// call in which it came may go on.
fn report_panic(words: fmt::Arguments<'_>) {
    stdio::ERROR.line(words);
    stdio::flush(stdio::LAST_LINES_TIME / 10);
}

pub fn run(options: Options) -> ExitCode {
    let started = stdio::start();
    let _last_lines = LastLines;
    ferrite_base::fault::report_panics(report_panic);
    if let Err(error) = started {
        return fail(&format!("cannot start a thread: {error}"));
    }
    if let Some(problem) = ferrite_io::address_space_bytes().and_then(too_few_addresses) {
        return fail(&problem);
    }
    // Signals are blocked from here on in every thread, and taken by this one.
    // At its limit of time on the processor the process has a second left.
    let mut ends = vec![SIGTERM, SIGINT, SIGXCPU];
    // The end of a terminal session is an orderly end too; whoever has it ignored (nohup) wants the
    // server to outlive the session.
    if !is_ignored(SIGHUP) {
        ends.push(SIGHUP);
    }
    let mut signals = match Signals::new(ends) {
        Ok(signals) => signals,
        Err(error) => return fail(&format!("cannot watch for signals: {error}")),
    };
    let (told, signalled) = std::sync::mpsc::channel();
    let unused = unused_when_old(&options);
    let ends = Arc::new(AtomicBool::new(false));
    let transfer_rate = options.transfer_rate * 1_000_000;
    let reads_by_barrier = options.reads_by_barrier;
    let cluster = ClusterOptions { transfer_rate, reads_by_barrier, ..options.member.cluster(&ends) };
    let listening = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            // A start may wait for other nodes for ever.
            ends.store(true, Ordering::Release);
            let _ = told.send(());
        }
    });
    if let Err(error) = listening {
        return fail(&format!("cannot start a thread: {error}"));
    }
    ferrite_io::ignore_harmless_signals();
    ferrite_io::at_exit(exited);
    ferrite_io::raise_descriptors();
    if let Err(error) = crate::allocator::give_back() {
        return fail(&format!("cannot start a thread: {error}"));
    }
    let schema = match options.schema.as_ref().map(std::fs::read_to_string).transpose() {
        Ok(schema) => schema,
        Err(error) => {
            let path = options.schema.as_ref().expect("there was a path to read");
            return fail(&format!("--schema: {}", ferrite_shell::source::cannot_read(path, &error)));
        }
    };
    let mut classes = Vec::new();
    for path in &options.classes {
        // A wrong one should be named, before anything is done.
        let jar = match std::fs::read(path) {
            Ok(jar) => jar,
            Err(error) => return fail(&format!("--classes: {}", ferrite_shell::source::cannot_read(path, &error))),
        };
        if let Err(error) = ferrite_catalog::Classes::default().with_jar(&jar) {
            return fail(&format!("{}: {error}", path.display()));
        }
        classes.push(jar);
    }
    let mut settings = Settings {
        memory_bytes: options.memory_limit.bytes(),
        disk_reserve_bytes: options.disk_reserve,
        ..Settings::default()
    };
    for (name, value) in &options.limit {
        if let Err(problem) = settings.set(name, value) {
            return fail(&format!("--limit {name}={value}: {problem}"));
        }
    }
    let disk: Arc<dyn Disk> = match options.unsynced_writes_are_lost {
        None => Arc::new(RealDisk),
        Some(seed) => Arc::new(VolatileDisk::new(Arc::new(RealDisk), seed)),
    };
    let wants_new = options.new || schema.is_some() || !classes.is_empty() || !cluster.hosts.is_empty();
    if !wants_new && !ferrite_node::has_database(&disk, &options.dir) {
        return fail(&no_database(&options.dir));
    }
    let durability = options.durability;
    let query_time_max = Duration::from_secs(options.query_timeout);
    let java_options = options.java_options.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned);
    let runtime = ferrite_java::runtime(java_options.collect(), query_time_max, java_exits);
    let admin_listen = match options.admin_listen {
        Some(AdminListen::At(address)) => Some(address),
        Some(AdminListen::Nowhere) => None,
        None => (options.listen.port() == CLIENT_PORT).then(|| (Ipv4Addr::LOCALHOST, ADMIN_PORT).into()),
    };
    let dir = options.dir.clone();
    let started = Server::start(ServerOptions {
        dir: options.dir,
        listen: options.listen,
        admin_listen,
        trust_clients: options.trust_clients,
        backup_dir: options.backup_dir,
        drop_migrating: matches!(options.migrating_rows, MigratingRows::Drop),
        connection_limits: ConnectionLimits {
            connections_max: settings.connections,
            login_time_max: Duration::from_secs(settings.login_seconds),
            frame_time_max: Duration::from_secs(settings.frame_seconds),
            unread_time_max: Duration::from_secs(settings.connection_unread_seconds),
            unread_bytes_max: settings.connection_answer_bytes,
        },
        partitions: options.partitions,
        durability,
        decimal_scale: options.decimal_scale,
        classes,
        schema,
        memory_ahead_bytes: (options.memory_ahead as usize) << 20,
        network_threads: options.network_threads.map_or_else(quarter_of_the_cores, |count| count as usize),
        snapshots: SnapshotSettings {
            threads: options.snapshot_threads as usize,
            bytes_per_second: options.snapshot_rate.map(|megabytes| megabytes * 1_000_000),
            log_bytes: Some(options.snapshot_log << 20).filter(|bytes| *bytes > 0),
            interval: Some(Duration::from_secs(options.snapshot_interval)).filter(|interval| !interval.is_zero()),
        },
        recovery_threads: options.recovery_threads.map_or_else(cores, |count| count as usize),
        long_query_threads: options.long_query_threads.map_or_else(quarter_of_the_cores, |count| count as usize),
        disk,
        query_time_max,
        settings,
        runtime,
        cluster,
    });
    let server = match started {
        Ok(server) => server,
        // What has ended it was said.
        Err(ServerError::CopyGivenUp(_)) => return anew::begin(),
        Err(ended @ ServerError::Ended) => {
            ferrite_io::errln!("ferrite: {ended}");
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&error.to_string()),
    };
    let recovery = server.recovery();
    if recovery.created && server.node().is_none() {
        ferrite_io::errln!("ferrite: {} had no database: created a new one", dir.display());
    }
    if !recovery.created {
        if let Some(unused) = unused.filter(|_| !recovery.begun) {
            ferrite_io::errln!("ferrite: {} holds a database already, so {unused}", dir.display());
        }
        if let Some(loaded) = &recovery.snapshot {
            let seconds = loaded.duration.as_secs_f64();
            ferrite_io::errln!(
                "ferrite: snapshot {}: {} rows and {:.1} MB loaded in {seconds:.3} s ({:.0} MB/s)",
                loaded.snapshot,
                loaded.rows,
                loaded.bytes as f64 / 1e6,
                loaded.bytes as f64 / 1e6 / seconds.max(1e-9)
            );
        }
        let seconds = recovery.replay_duration.as_secs_f64();
        let (first, last) = recovery.log_segments;
        ferrite_io::errln!(
            "ferrite: recovered {} transactions ({} row changes) and {} schema changes from {:.1} MB of log, segments {first} to {last}, \
             in {seconds:.3} s ({:.0} row changes/s per thread, {} threads); {:.3} s in all",
            recovery.transactions,
            recovery.row_changes,
            recovery.schema_changes,
            recovery.log_bytes as f64 / 1e6,
            recovery.row_changes as f64
                / seconds.max(1e-9)
                / recovery.threads.clamp(1, server.partition_count()) as f64,
            recovery.threads.clamp(1, server.partition_count()),
            recovery.duration.as_secs_f64()
        );
        for (snapshot, why) in &recovery.damaged {
            ferrite_io::errln!(
                "ferrite: snapshot {snapshot} is damaged and was left as it is; used an older snapshot and more of the log: {why}"
            );
        }
    }
    if recovery.torn_bytes > 0 {
        ferrite_io::errln!(
            "ferrite: cut off {} bytes of an incomplete write at the end of the redo log. A crash leaves such a write. It was not \
             acknowledged, unless the server ran with durability interval or none; everything known to be durable was recovered",
            recovery.torn_bytes
        );
    } else if !recovery.clean {
        ferrite_io::errln!(
            "ferrite: the previous server did not shut down cleanly; everything known to be durable was recovered"
        );
    }
    if !ferrite_base::memory::takes_rows() {
        ferrite_io::errln!(
            "ferrite: the data take {} bytes, all that --memory-limit allows: new rows are refused until some are deleted",
            ferrite_base::memory::used()
        );
    }
    for line in privilege::notices(server.address(), server.admin_address(), options.trust_clients) {
        ferrite_io::errln!("ferrite: {line}");
    }
    // @Shutdown ends the process the same way.
    server.on_shutdown(|| {
        let _ = signal_hook::low_level::raise(SIGTERM);
    });
    let partitions = server.partition_count();
    let plural = if partitions == 1 { "" } else { "s" };
    let node = server.node().map_or_else(String::new, |node| format!(", node {node}"));
    let admin = server.admin_address().map_or_else(String::new, |address| format!(", administration on {address}"));
    ferrite_io::outln!(
        "ferrite ready on {} ({partitions} partition{plural}, durability {durability}{node}{admin})",
        server.address()
    );
    READY.store(true, Ordering::Release);
    let _ = signalled.recv();
    let insist = server.insist();
    let insisted = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&insisted);
    let listening = std::thread::Builder::new().name("insistence".to_owned()).spawn(move || {
        signalled.iter().for_each(|()| {
            heard.store(true, Ordering::SeqCst);
            insist.insist();
        });
    });
    if let Err(error) = listening {
        ferrite_io::errln!("ferrite: a second signal will not be heard: {error}");
    }
    let must_end = server.must_end();
    let begins_anew = server.begins_anew();
    match server.stop() {
        // Somebody else may want its end as well.
        Ok(_) if begins_anew && !insisted.load(Ordering::SeqCst) => anew::begin(),
        Ok(Stopped::Wholly) if must_end.is_some() || JAVA_EXITS.load(Ordering::Relaxed) => ExitCode::FAILURE,
        Ok(Stopped::Wholly) => ExitCode::SUCCESS,
        // Not by way of main: what is done there at the end (the JVM's, too) would meet threads
        // that still run.
        Ok(Stopped::LeavingThreads) => {
            stdio::flush(stdio::LAST_LINES_TIME);
            signal_hook::low_level::exit(i32::from(JAVA_EXITS.load(Ordering::Relaxed)))
        }
        Err(failure) => fail(&format!("stopped, but could not close the log: {failure}")),
    }
}

/// Without addresses an allocation fails, which nobody can answer: the process would end, now or
/// under load.
fn too_few_addresses(bytes: usize) -> Option<String> {
    let least = ADDRESS_SPACE_BYTES_MIN + MEMORY_BYTES_MIN;
    (bytes < least).then(|| {
        format!(
            "the process may use {bytes} bytes of addresses (ulimit -v or -d), and needs {least} for little data: \
             raise that limit, and bound the memory by --memory-limit or a control group"
        )
    })
}

/// Whether this process was started with the signal ignored.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

/// What is for a new database, where there was one.
fn unused_when_old(options: &Options) -> Option<String> {
    let schema = options.schema.as_ref().map(|_| "--schema");
    let classes = (!options.classes.is_empty()).then_some("--classes");
    let given: Vec<&str> = schema.into_iter().chain(classes).collect();
    let verb = if given.len() == 1 { "was" } else { "were" };
    if given.is_empty() {
        let leave = "--new was not needed: leave it out of scripts and unit files, or a volume that is not mounted \
                     becomes a new database";
        return options.new.then(|| leave.to_owned());
    }
    Some(format!(
        "{} {verb} not used. For a new database give another --dir; to change this one use `ferrite sql -f FILE`",
        given.join(" and ")
    ))
}

/// A directory of which nothing says that a database is to be created there.
fn no_database(dir: &Path) -> String {
    format!(
        "{} has no database. If it had one, check --dir, and that its volume is mounted. To create a new database there, \
         add --new; to start a node of a cluster, give the command with --cluster",
        dir.display()
    )
}

fn fail(message: &str) -> ExitCode {
    ferrite_io::errln!("ferrite: {message}");
    ExitCode::FAILURE
}
