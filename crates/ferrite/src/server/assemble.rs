//! From the command line to what the node is started with: files are read here, and settings
//! checked, before anything is touched.

use super::options::{ADMIN_PORT, AdminListen, CLIENT_PORT, MigratingRows, Options, cores, quarter_of_the_cores};
use super::process::java_exits;
use ferrite_base::Settings;
use ferrite_io::{Disk, RealDisk, VolatileDisk};
use ferrite_member::ClusterOptions;
use ferrite_node::{ConnectionLimits, Durability, MEMORY_INTERVAL, ServerOptions, SnapshotSettings};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// # Errors
/// A file cannot be read, a limit cannot be set, or there is no database and none is wanted.
pub(super) fn server_options(options: Options, ends: &Arc<AtomicBool>) -> Result<ServerOptions, String> {
    let transfer_rate = options.transfer_rate * 1_000_000;
    let reads_by_barrier = options.reads_by_barrier;
    let schema = read_schema(&options)?;
    let classes = read_classes(&options)?;
    let settings = settings(&options)?;
    let snapshots = snapshots(&options);
    let admin_listen = admin_listen(&options);
    let connection_limits = connection_limits(&settings);
    let disk: Arc<dyn Disk> = match options.unsynced_writes_are_lost {
        None => Arc::new(RealDisk),
        Some(seed) => Arc::new(VolatileDisk::new(Arc::new(RealDisk), seed)),
    };
    let cluster = ClusterOptions { transfer_rate, reads_by_barrier, ..options.member.cluster(ends) };
    let wants_new = options.new || schema.is_some() || !classes.is_empty() || !cluster.hosts.is_empty();
    if !wants_new && !ferrite_member::has_database(&disk, &options.dir) {
        return Err(no_database(&options.dir));
    }
    let query_time_max = Duration::from_secs(options.query_timeout);
    let java_options = options.java_options.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned);
    let runtime = ferrite_java::runtime(java_options.collect(), query_time_max, java_exits);
    Ok(ServerOptions {
        dir: options.dir,
        listen: options.listen,
        admin_listen,
        trust_clients: options.trust_clients,
        backup_dir: options.backup_dir,
        drop_migrating: matches!(options.migrating_rows, MigratingRows::Drop),
        connection_limits,
        partitions: options.partitions,
        durability: options.durability,
        decimal_scale: options.decimal_scale,
        classes,
        schema,
        memory_ahead_bytes: (options.memory_ahead as usize) << 20,
        network_threads: options.network_threads.map_or_else(quarter_of_the_cores, |count| count as usize),
        snapshots,
        recovery_threads: options.recovery_threads.map_or_else(cores, |count| count as usize),
        long_query_threads: options.long_query_threads.map_or_else(quarter_of_the_cores, |count| count as usize),
        disk,
        query_time_max,
        settings,
        runtime,
        cluster,
    })
}

fn read_schema(options: &Options) -> Result<Option<String>, String> {
    let Some(path) = &options.schema else { return Ok(None) };
    let schema = std::fs::read_to_string(path);
    schema.map(Some).map_err(|error| format!("--schema: {}", ferrite_shell::source::cannot_read(path, &error)))
}

fn read_classes(options: &Options) -> Result<Vec<Vec<u8>>, String> {
    let mut classes = Vec::new();
    for path in &options.classes {
        // A wrong one should be named, before anything is done.
        let unreadable = |error| format!("--classes: {}", ferrite_shell::source::cannot_read(path, &error));
        let jar = std::fs::read(path).map_err(unreadable)?;
        let loaded = ferrite_catalog::Classes::default().with_jar(&jar);
        loaded.map_err(|error| format!("{}: {error}", path.display()))?;
        classes.push(jar);
    }
    Ok(classes)
}

fn settings(options: &Options) -> Result<Settings, String> {
    let mut settings = Settings {
        memory_bytes: options.memory_limit.bytes(),
        disk_reserve_bytes: options.disk_reserve,
        ..Settings::default()
    };
    for (name, value) in &options.limit {
        settings.set(name, value).map_err(|problem| format!("--limit {name}={value}: {problem}"))?;
    }
    Ok(settings)
}

fn connection_limits(settings: &Settings) -> ConnectionLimits {
    ConnectionLimits {
        connections_max: settings.connections,
        login_time_max: Duration::from_secs(settings.login_seconds),
        frame_time_max: Duration::from_secs(settings.frame_seconds),
        unread_time_max: Duration::from_secs(settings.connection_unread_seconds),
        unread_bytes_max: settings.connection_answer_bytes,
    }
}

fn snapshots(options: &Options) -> SnapshotSettings {
    SnapshotSettings {
        threads: options.snapshot_threads as usize,
        bytes_per_second: options.snapshot_rate.map(|megabytes| megabytes * 1_000_000),
        log_bytes: Some(options.snapshot_log << 20).filter(|bytes| *bytes > 0),
        interval: snapshot_interval(options.snapshot_interval, options.durability),
    }
}

/// Between two snapshots. None: the time does not decide.
fn snapshot_interval(seconds: Option<u64>, durability: Durability) -> Option<Duration> {
    let chosen = seconds.map(Duration::from_secs);
    let default = (durability == Durability::Memory).then_some(MEMORY_INTERVAL);
    chosen.or(default).filter(|interval| !interval.is_zero())
}

fn admin_listen(options: &Options) -> Option<SocketAddr> {
    match options.admin_listen {
        Some(AdminListen::At(address)) => Some(address),
        Some(AdminListen::Nowhere) => None,
        None => (options.listen.port() == CLIENT_PORT).then(|| (Ipv4Addr::LOCALHOST, ADMIN_PORT).into()),
    }
}

/// A directory of which nothing says that a database is to be created there.
fn no_database(dir: &Path) -> String {
    format!(
        "{} has no database. If it had one, check --dir, and that its volume is mounted. To create a new database there, \
         add --new; to start a node of a cluster, give the command with --cluster",
        dir.display()
    )
}
