//! Ports and directories, recovery, and what a new database begins with.

use crate::listen::listen_on;
use crate::options::{ServerError, ServerOptions};
use crate::privilege;
use crate::status_listener::{self, Meanwhile, Ports};
use ferrite_backup::request::BackupDirectories;
use ferrite_base::checksum::crc32c;
use ferrite_base::{GroupMap, Settings, memory};
use ferrite_io::{Clock, Disk, MeteredDisk, SystemRandom};
use ferrite_log::LogOptions;
use ferrite_member::{About, Member, MemberError, Running, Waits, cluster_name, release};
use ferrite_meta::founding::{Manner, Partitions};
use ferrite_notice::Notice;
use ferrite_partition::recovery::{self, RecoveredNode};
use ferrite_partition::{RecoveryProgress, first_start};
use ferrite_system::Identity;
use mio::net::TcpListener;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

/// The version that clients see when they connect.
const VERSION: &str = concat!("14.0.", env!("CARGO_PKG_VERSION_PATCH"));
const BUILD: &str = concat!("14.0.", env!("CARGO_PKG_VERSION_PATCH"), "_ferritedb-", env!("CARGO_PKG_VERSION"));

/// Ports, taken and served by [`status_listener`] at first, and where backups go.
pub(super) struct Doors {
    pub(super) clients: TcpListener,
    pub(super) listen: SocketAddr,
    pub(super) admin: Option<(TcpListener, SocketAddr)>,
    pub(super) backups: BackupDirectories,
}

impl Doors {
    fn ports(&mut self) -> Ports<'_> {
        Ports { clients: &mut self.clients, admin: self.admin.as_mut().map(|(listener, _)| listener) }
    }
}

pub(super) fn open_doors(options: &ServerOptions) -> Result<Doors, ServerError> {
    let ends = &*options.cluster.ends;
    let (clients, listen) = listen_on(options.listen, ends)?;
    let backups = backup_place(options)?;
    let admin = options.admin_listen.map(|address| listen_on(address, ends)).transpose()?;
    Ok(Doors { clients, listen, admin, backups })
}

/// Where backups may be, as an absolute path: the working directory may go.
pub(super) fn backup_place(options: &ServerOptions) -> Result<BackupDirectories, ServerError> {
    let mut place = BackupDirectories { own: options.dir.clone(), root: None };
    if let Some(dir) = &options.backup_dir {
        let failed = |reason: String| ServerError::Backups(dir.clone(), reason);
        let root = std::path::absolute(dir).map_err(|error| failed(error.to_string()))?;
        if place.is_own(&root) {
            return Err(failed("it lies within the database's own directory".to_owned()));
        }
        std::fs::create_dir_all(&root).map_err(|error| failed(error.to_string()))?;
        place.root = Some(root);
    }
    Ok(place)
}

/// Reads snapshot and log; a client that connects meanwhile hears how far that is.
pub(super) fn recover(
    options: &ServerOptions,
    doors: &mut Doors,
    disk: &Arc<MeteredDisk>,
    clock: &Arc<dyn Clock>,
) -> Result<(RecoveredNode, Option<Member>), ServerError> {
    release::check(&**disk, &options.dir)?;
    let progress = RecoveryProgress::default();
    let waits = Waits::default();
    let clients = [Some(doors.listen), doors.admin.as_ref().map(|(_, address)| *address)];
    let how = || recovery::Options {
        log: LogOptions {
            durability: options.durability,
            look_interval: options.settings.log_look_interval,
            ..LogOptions::default()
        },
        groups: options.partitions.map(GroupMap::single),
        partitions_default: default_partitions(),
        threads: options.recovery_threads,
        report: &ferrite_io::notify,
        progress: &progress,
        runtime: &options.runtime,
    };
    let on = || (Arc::clone(disk) as Arc<dyn Disk>, Arc::clone(clock));
    let look = || {
        let (disk, clock) = on();
        ferrite_member::examine_database(disk, clock, &options.dir, how())
    };
    let begins = || {
        let jars = &options.classes;
        let text = options.schema.as_deref().unwrap_or_default();
        first_start::check(options.decimal_scale, jars, text, &options.settings.sql, &options.runtime)
            .map_err(|error| MemberError::Cluster(ServerError::Schema(error.to_string()).to_string()))
    };
    let about = About {
        disk: Arc::clone(disk) as Arc<dyn Disk>,
        dir: &options.dir,
        kind: ferrite_meta::Kind::Data,
        durability: options.durability,
        partitions: options.partitions.map_or_else(|| Partitions::Suggested(default_partitions()), Partitions::Said),
        clients: clients.into_iter().flatten().collect(),
        manner: Some(manner(options)),
        waits: &waits,
        look: Some(&look),
        begins: Some(&begins),
    };
    let recover = || -> Result<(RecoveredNode, Option<Member>), ServerError> {
        let (disk, clock) = on();
        match ferrite_member::join(&options.cluster, &about)? {
            Some(joined) => {
                let (recovered, member) = ferrite_member::open(joined, disk, clock, how(), &options.cluster)?;
                Ok((recovered, Some(member)))
            }
            None => recovery::open_with(disk, clock, &mut SystemRandom, &options.dir, how())
                .map_err(ServerError::Start)
                .and_then(|node| Ok((of_one_group(node, &options.dir)?, None))),
        }
    };
    let awaits = || waits.describe();
    let meanwhile = Meanwhile::Recovers(&progress, &**clock, &awaits);
    let recovered = status_listener::open_during(doors.ports(), meanwhile, BUILD, recover)?;
    // The log's lock is held, and nothing but what names its own format was written so far.
    let groups = &recovered.0.genesis.groups;
    release::note(&**disk, &options.dir, groups)?;
    Ok(recovered)
}

/// Waits until the node takes part in its cluster, which may take for ever; operators see why.
pub(super) fn wait_for_others(running: &Running, doors: &mut Doors, ends: &AtomicBool) -> Result<(), ServerError> {
    let handle = running.handle();
    let status = || handle.status();
    let waits_for = || running.waits_for();
    let meanwhile = Meanwhile::Waits(&status, &waits_for);
    status_listener::open_during(doors.ports(), meanwhile, BUILD, || running.is_registered(ends))?;
    Ok(())
}

/// A new database gets what it is begun with: the meaning of DECIMAL, classes, a schema.
pub(super) fn begin_if_new(
    recovered: RecoveredNode,
    options: &ServerOptions,
    clock: &dyn Clock,
) -> Result<RecoveredNode, ServerError> {
    let mut recovered = recovered.only_group();
    first_start::choose_decimal_scale(&mut recovered, options.decimal_scale)
        .map_err(|error| ServerError::DecimalScale(error.to_string()))?;
    let given = options.schema.is_some() || !options.classes.is_empty();
    if given && recovered.compiled.catalog.version.0 == 0 {
        let jars = &options.classes;
        let text = options.schema.as_deref().unwrap_or_default();
        let warnings = first_start::at_first_start(&mut recovered, jars, text, &options.settings.sql, clock)
            .map_err(|error| ServerError::Schema(error.to_string()))?;
        warnings.into_iter().for_each(|warning| ferrite_io::notify(Notice::SchemaWarning { warning }));
        recovered.summary.begun = true;
    }
    Ok(recovered.into())
}

/// A single server's database is one group, with all partitions.
fn of_one_group(node: RecoveredNode, dir: &Path) -> Result<RecoveredNode, ServerError> {
    match node.genesis.groups.groups() {
        1 => Ok(node),
        groups => Err(MemberError::Cluster(format!(
            "the database in {} has its partitions in {groups} groups, which only the nodes of its cluster can open: start it              with --cluster, or restore a backup into a new database",
            dir.display()
        ))
        .into()),
    }
}

/// What should be the same on all nodes with data.
fn manner(options: &ServerOptions) -> Manner {
    let schema = options.schema.as_ref();
    let classes = &options.classes;
    let jars: Vec<u32> = classes.iter().map(|jar| crc32c(jar)).collect();
    let jars: Vec<u8> = jars.iter().flat_map(|checksum| checksum.to_le_bytes()).collect();
    Manner {
        durability: options.durability.to_string(),
        schema: schema.map(|text| crc32c(text.as_bytes())),
        classes: (!classes.is_empty()).then(|| crc32c(&jars)),
        decimal_scale: options.decimal_scale.map(|scale| crc32c(scale.name().as_bytes())),
    }
}

/// About three quarters of the cores, at least one.
pub(super) fn default_partitions() -> u32 {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores * 3 / 4).max(1) as u32
}

pub(super) fn identity(
    options: &ServerOptions,
    doors: &Doors,
    recovered: &RecoveredNode,
    member: Option<&Member>,
) -> Identity {
    let named = member.and_then(|member| cluster_name(&member.joined.state));
    let listen = doors.listen;
    let admin_listen = doors.admin.as_ref().map(|(_, address)| *address);
    Identity {
        host_id: member.map_or(0, |member| ferrite_member::host_id(member.joined.node)),
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        listen,
        admin_listen,
        clients_trusted: privilege::clients_are_trusted(listen.ip(), options.trust_clients),
        drop_migrating: options.drop_migrating,
        backups: doors.backups.clone(),
        cluster_start_ms: named.map_or(recovered.genesis.created_ms as i64, |(time, _)| time),
        leader_address: match (named, listen.ip()) {
            (Some((_, address)), _) => address,
            (None, std::net::IpAddr::V4(address)) if !address.is_unspecified() => address.octets(),
            _ => [127, 0, 0, 1],
        },
        build: BUILD.to_owned(),
        version: VERSION,
        dir: options.dir.clone(),
        durability: options.durability.to_string(),
        query_time_max: options.query_time_max,
    }
}

/// What was acknowledged once is taken up whatever it needs; the limits are for what comes now.
pub(super) fn limit_memory(settings: &Settings, recovered: &mut RecoveredNode) {
    memory::set_limit(settings.memory_bytes);
    for store in recovered.groups.iter_mut().flat_map(|group| &mut group.stores) {
        store.set_transaction_bytes_max(settings.transaction_bytes);
    }
}
