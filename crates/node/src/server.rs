//! A node from start to stop: recovery, threads, listener, and the order in which they end.

use crate::backup;
use crate::collect;
use crate::compound::{self, Compounds, Worker};
pub use crate::connections::ConnectionLimits;
use crate::connections::Connections;
use crate::expiry::{self, Expiry};
use crate::listen::{connections_max, listen_on};
use crate::mailbox::{Mail, NetworkMailbox};
use crate::message::{SnapshotJob, SystemJob};
use crate::network::{self, Listeners, NetworkThread};
use crate::plan_cache::PlanCache;
use crate::privilege;
use crate::publish::Publisher;
use crate::routes::Routes;
use crate::shared::Shared;
use crate::snapshots::{SnapshotSettings, SnapshotThread};
use crate::space::{self, SpaceWatch};
use crate::status_listener;
use crate::stop::{self, Insist, Insistence, Stopped, Threads};
use crate::system::System;
use crate::tasks::{self, Tasks};
use crate::work::Work;
use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, unbounded};
use ferrite_backup::request::Place;
use ferrite_base::{CallLimits, Settings, limits, memory};
use ferrite_catalog::DecimalScale;
use ferrite_io::{Clock, Disk, SystemClock, SystemRandom, Yielding, lower_priority};
use ferrite_log::{Durability, LogFailed, LogOptions};
use ferrite_partition::RowCounts;
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::coordinator::{Borrower, Coordinator, Job};
use ferrite_partition::gate::{Gate, SharedFailure};
use ferrite_partition::long_read::{self, Home, LongReads};
use ferrite_partition::recovery::{self, StartError, Summary};
use ferrite_partition::thread::{Partition, Start};
use ferrite_partition::worker_pool::Helpers;
use ferrite_partition::{Event, RecoveryProgress, first_start};
use ferrite_plan::external::RuntimeHandle;
use ferrite_system::Identity;
use ferrite_system::plans::PlanCacheStatistics;
use ferrite_value::ring::Ring;
use mio::{Poll, Waker};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What clients are told that they are connected to.
const VERSION: &str = concat!("14.0.", env!("CARGO_PKG_VERSION_PATCH"));
const BUILD: &str = concat!("14.0.", env!("CARGO_PKG_VERSION_PATCH"), "_ferritedb-", env!("CARGO_PKG_VERSION"));

/// Java frames, deep expressions and recursive plans all live on a partition's stack.
const PARTITION_STACK_BYTES: usize = 8 * 1024 * 1024;

/// Within this the stages of compound procedures that still run when the server stops must end.
const WORKERS_END_WITHIN: Duration = Duration::from_secs(limits::COMPOUND_STOP_SECONDS_MAX);

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
}

#[derive(Debug)]
pub enum ServerError {
    Start(StartError),
    Listen(SocketAddr, io::Error),
    Schema(String),
    Backups(PathBuf, String),
    DecimalScale(String),
    Threads(io::Error),
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
            ServerError::Threads(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for ServerError {}

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

/// A running node. Dropping it without [`Server::stop`] leaves its threads running.
pub struct Server {
    shared: Arc<Shared>,
    log: DatabaseLog,
    threads: Threads,
    insistence: Insistence,
}

pub(crate) struct CompoundThreads {
    watch: JoinHandle<()>,
    workers: usize,
    /// Disconnected when all workers have ended.
    ended: Receiver<()>,
}

impl CompoundThreads {
    fn start(shared: &Arc<Shared>, inboxes: compound::Inboxes) -> Result<CompoundThreads, ServerError> {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let (alive, ended) = bounded::<()>(0);
        for number in 0..workers {
            let worker = Worker { shared: Arc::clone(shared), work: inboxes.work.clone() };
            let alive = alive.clone();
            spawn(&format!("compound-{number}"), move || {
                let _alive = alive;
                worker.run();
            })?;
        }
        let watched = Arc::clone(shared);
        let watch = spawn("compound-watch", move || watched.compounds.watch(&inboxes.watch))?;
        Ok(CompoundThreads { watch, workers, ended })
    }

    /// A worker whose stage does not end is left behind: its call was answered, and what it does
    /// ends with the process.
    pub(crate) fn stop(self, shared: &Shared) {
        shared.compounds.stop(self.workers);
        join([self.watch]);
        if self.ended.recv_timeout(WORKERS_END_WITHIN) == Err(RecvTimeoutError::Timeout) {
            ferrite_io::errln!("ferrite: a stage of a compound procedure does not end, and is left behind");
        }
    }
}

/// The thread that touches page memory before it is needed.
pub(crate) struct PagePreallocator {
    stop: Arc<AtomicBool>,
    /// Until it is joined.
    thread: Option<JoinHandle<()>>,
}

impl PagePreallocator {
    fn start(extents: usize) -> Result<PagePreallocator, ServerError> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = spawn("memory", move || {
            lower_priority(Yielding::Most);
            memory::keep_ahead(extents, limits::EXTENTS_AHEAD, &told);
        })?;
        Ok(PagePreallocator { stop, thread: Some(thread) })
    }
}

/// So that a start that fails leaves no thread behind.
impl Drop for PagePreallocator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        memory::wake_preallocator();
        join(self.thread.take());
    }
}

impl Server {
    /// Recovers the database, runs the schema file if it is new, and takes connections.
    pub fn start(options: ServerOptions) -> Result<Server, ServerError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        // The port first: a second server on the same port should not wait for recovery to hear of
        // it.
        let (listener, listen) = listen_on(options.listen)?;
        let backups = backup_place(&options)?;
        let mut admin = options.admin_listen.map(listen_on).transpose()?;
        let admin_listen = admin.as_ref().map(|(_, address)| *address);
        let memory = PagePreallocator::start(options.memory_ahead_bytes / memory::EXTENT_BYTES)?;
        let disk = Arc::new(space::metered(Arc::clone(&options.disk), options.settings.disk_reserve_bytes));
        let progress = RecoveryProgress::default();
        let recover = || {
            let look_interval = options.settings.log_look_interval;
            let log = LogOptions { durability: options.durability, look_interval, ..LogOptions::default() };
            let how = recovery::Options {
                log,
                partitions: options.partitions,
                partitions_default: default_partitions(),
                threads: options.recovery_threads,
                report: &|line| ferrite_io::errln!("ferrite: {line}"),
                progress: &progress,
                runtime: &options.runtime,
            };
            let (disk, clock) = (Arc::clone(&disk) as Arc<dyn Disk>, Arc::clone(&clock));
            recovery::open_with(disk, clock, &mut SystemRandom, &options.dir, how)
        };
        let recovered = match &mut admin {
            Some((listener, _)) => status_listener::open_during(listener, &progress, &*clock, BUILD, recover),
            None => recover(),
        };
        let mut recovered = recovered.map_err(ServerError::Start)?;
        first_start::choose_decimal_scale(&mut recovered, options.decimal_scale)
            .map_err(|error| ServerError::DecimalScale(error.to_string()))?;
        let given = options.schema.is_some() || !options.classes.is_empty();
        if given && recovered.compiled.catalog.version.0 == 0 {
            let (jars, text) = (&options.classes, options.schema.as_deref().unwrap_or_default());
            let warnings = first_start::at_first_start(&mut recovered, jars, text, &options.settings.sql, &*clock)
                .map_err(|error| ServerError::Schema(error.to_string()))?;
            warnings.iter().for_each(|warning| ferrite_io::errln!("ferrite: warning: {warning}"));
        }

        // What was acknowledged once is taken up whatever it needs; the limit is for what comes
        // now.
        memory::set_limit(options.settings.memory_bytes);
        for store in &mut recovered.stores {
            store.set_transaction_bytes_max(options.settings.transaction_bytes);
        }
        let limits = CallLimits::new(options.query_time_max, &options.settings);
        let (coordinator, jobs) = unbounded::<Job>();
        let (system, system_jobs) = unbounded::<SystemJob>();
        let (snapshots, snapshot_jobs) = unbounded::<SnapshotJob>();
        let notices = expiry::notices();
        let task_notices = tasks::notices();
        let (compounds, compound_inboxes) = Compounds::new(&options.settings, Arc::clone(&clock));
        let inboxes: Vec<_> = recovered.stores.iter().map(|_| unbounded::<Event>()).collect();
        let (long_reads, reads) =
            LongReads::new(options.long_query_threads.max(1), Home::Coordinator(coordinator.clone()));
        let ends = network_ends(options.network_threads)?;
        let shared = Arc::new(Shared {
            compiled: Arc::new(ArcSwap::new(Arc::clone(&recovered.compiled))),
            routes: Arc::new(Routes::new(
                Ring::new_default(recovered.genesis.partitions),
                inboxes.iter().map(|(sender, _)| sender.clone()).collect(),
                coordinator.clone(),
            )),
            system,
            plan_cache: Arc::new(PlanCache::default()),
            expiry: notices.0.clone(),
            expired: Default::default(),
            task_thread: task_notices.0.clone(),
            tasks: Default::default(),
            compounds: Arc::new(compounds),
            long_reads: long_reads.line(),
            cancellations: Arc::clone(long_reads.cancellations()),
            connections: Arc::new(Connections::new(ConnectionLimits {
                connections_max: connections_max(options.connection_limits.connections_max, options.network_threads),
                ..options.connection_limits
            })),
            work: Arc::new(Work::new(&options.settings)),
            row_counts: Arc::new(RowCounts::new(recovered.stores.len())),
            network: ends.iter().map(|end| Arc::clone(&end.mailbox)).collect(),
            identity: Arc::new(identity(listen, admin_listen, backups, &recovered.genesis, &options)),
            log: Arc::clone(recovered.log.statistics()),
            recovery: Arc::new(recovered.summary.clone()),
            snapshots,
            snapshot_status: Arc::default(),
            disk: Arc::clone(&disk) as Arc<dyn Disk>,
            backup: Default::default(),
            started: Instant::now(),
            mode: Default::default(),
            settings: options.settings,
            shutdown: OnceLock::new(),
            baselines: Default::default(),
        });

        let failure = SharedFailure::default();
        let log_failure = Arc::clone(&failure);
        let latched = Arc::clone(&failure);
        recovered.log.on_failure(move |reason| latched.set(reason.clone()));
        let mut borrowers = Vec::new();
        let mut partitions = Vec::new();
        let starts = recovered.stores.into_iter().zip(recovered.sequences).zip(inboxes).enumerate();
        for (id, ((store, sequence), (sender, inbox))) in starts {
            let gate = Gate::new(sequence, Arc::clone(&failure));
            let long_reads = long_reads.at(Home::Partition(sender.clone()));
            borrowers.push(Borrower::new(sender, Arc::clone(&gate)));
            let id = ferrite_base::PartitionId(id as u32);
            let compiled = Arc::clone(&recovered.compiled);
            let counts = Arc::clone(&shared.row_counts);
            let start = Start { id, store, compiled, sequence, limits, counts, long_reads };
            let partition = Partition::new(start, inbox, gate, recovered.group.clone(), Arc::clone(&clock));
            partitions.push(spawn(&format!("partition-{id}"), move || partition.run())?);
        }
        let gate = Gate::new(ferrite_base::Sequence(0), failure);
        let publisher = Publisher {
            compiled: Arc::clone(&shared.compiled),
            plan_cache: Arc::clone(&shared.plan_cache),
            expiry: shared.expiry.clone(),
            tasks: shared.task_thread.clone(),
            network: Arc::clone(&shared.network),
        };
        let multi = Coordinator::new(
            jobs,
            borrowers,
            Arc::clone(&recovered.compiled),
            Box::new(move |compiled| publisher.publish(compiled)),
            gate,
            recovered.group.clone(),
            Arc::clone(&clock),
            limits,
            long_reads,
        )
        .with_history(recovered.history);
        let coordinator = spawn("coordinator", move || multi.run())?;
        let snapshots = SnapshotThread {
            snapshots: recovered.snapshots,
            inbox: snapshot_jobs,
            routes: Arc::clone(&shared.routes),
            mode: Arc::clone(&shared.mode),
            work: Arc::clone(&shared.work),
            log: Arc::clone(&shared.log),
            status: Arc::clone(&shared.snapshot_status),
            clock: Arc::clone(&clock),
            settings: options.snapshots,
            log_bytes_before: recovered.summary.log_bytes,
        };
        let snapshots = spawn("snapshot", move || snapshots.run())?;
        let handles = expiry::Handles {
            compiled: Arc::clone(&shared.compiled),
            routes: Arc::clone(&shared.routes),
            mode: Arc::clone(&shared.mode),
            figures: Arc::clone(&shared.expired),
            clock: Arc::clone(&clock),
            drop_migrating: options.drop_migrating,
        };
        let expiry = Expiry::new(handles, notices);
        let expiry = spawn("expiry", move || expiry.run())?;
        let mut reports = Vec::new();
        // A lone report may take as many cores again as reports have threads.
        let helpers = Arc::new(Helpers::new(options.long_query_threads.max(1), PARTITION_STACK_BYTES));
        for number in 0..options.long_query_threads.max(1) {
            let (reads, helpers) = (reads.clone(), Arc::clone(&helpers));
            reports.push(spawn(&format!("long-query-{number}"), move || {
                lower_priority(Yielding::Some);
                long_read::serve(&reads, limits, helpers);
            })?);
        }
        let systems = System { shared: Arc::clone(&shared), inbox: system_jobs };
        let system = spawn("system", move || systems.run())?;
        let watch = Arc::new(SpaceWatch {
            mode: Arc::clone(&shared.mode),
            disk: Arc::clone(&options.disk),
            dirs: vec![options.dir.clone()],
            reserve: options.settings.disk_reserve_bytes,
            log_failure,
            failed: Mutex::new(false),
        });
        watch.look();
        // Weak: the disk outlives the server where somebody holds a file of it.
        let looks = Arc::downgrade(&watch);
        disk.tell(move || {
            if let Some(watch) = looks.upgrade() {
                watch.look();
            }
        });
        let handles = tasks::Handles {
            compiled: Arc::clone(&shared.compiled),
            mode: Arc::clone(&shared.mode),
            system: shared.system.clone(),
            figures: Arc::clone(&shared.tasks),
            clock: Arc::clone(&clock),
            partition_count: shared.partition_count(),
        };
        let tasks = Tasks::new(handles, task_notices);
        let tasks = spawn("tasks", move || tasks.run())?;
        let compounds = CompoundThreads::start(&shared, compound_inboxes)?;
        let (told, stop) = bounded(0);
        let space = (told, spawn("space", move || watch.run(&stop))?);
        collect::begin(&shared);
        let network =
            start_network(&shared, Listeners { clients: listener, admin: admin.map(|(listener, _)| listener) }, ends)?;
        let log = recovered.log;
        backup::drop_leftovers(&shared);
        Ok(Server {
            shared,
            log,
            threads: Threads {
                network,
                system,
                expiry,
                tasks,
                compounds,
                snapshots,
                coordinator,
                partitions,
                reports,
                memory,
                space,
            },
            insistence: Insistence::default(),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.shared.identity.listen
    }

    /// The administration port, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.shared.identity.admin_listen
    }

    pub fn partition_count(&self) -> usize {
        self.shared.partition_count()
    }

    /// How the plans of ad hoc statements are used.
    pub fn plan_cache(&self) -> PlanCacheStatistics {
        self.shared.plan_cache.statistics()
    }

    /// Says what `@Shutdown` does: ask whoever runs this server to stop it. Without, `@Shutdown` is
    /// refused.
    pub fn on_shutdown(&self, stop: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.shutdown.set(Box::new(stop));
    }

    pub fn recovery(&self) -> &Summary {
        &self.shared.recovery
    }

    /// Whoever has this may say, now or later, that [`Server::stop`] shall not wait for calls.
    pub fn insist(&self) -> Insist {
        self.insistence.handle()
    }

    /// Answers what was taken, makes everything durable, ends. What takes longer than the settings
    /// allow is interrupted, and what waits is not executed.
    pub fn stop(self) -> Result<Stopped, LogFailed> {
        stop::stop(self.shared, self.log, self.threads, self.insistence)
    }
}

pub(crate) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("a thread that panics ends the process");
    }
}

/// Threads of a node stand or fall together: state after a panic cannot be trusted, and the log has
/// all that was promised.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ServerError> {
    struct AbortOnPanic;
    impl Drop for AbortOnPanic {
        fn drop(&mut self) {
            if thread::panicking() {
                ferrite_io::errln!(
                    "ferrite: internal error (see above); shutting down. Acknowledged transactions are in the log."
                );
                ferrite_io::stdio::flush(ferrite_io::stdio::LAST_LINES_TIME);
                std::process::abort();
            }
        }
    }
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(PARTITION_STACK_BYTES)
        .spawn(move || {
            let _guard = AbortOnPanic;
            body();
        })
        .map_err(ServerError::Threads)
}

/// What a network thread is woken by and told through, made before there are threads.
struct NetworkEnd {
    poll: Poll,
    mailbox: Arc<NetworkMailbox>,
    mail: Receiver<Mail>,
}

fn network_ends(count: usize) -> Result<Vec<NetworkEnd>, ServerError> {
    let end = |_| {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), network::WAKER)?;
        let (mailbox, mail) = NetworkMailbox::new(waker);
        Ok(NetworkEnd { poll, mailbox, mail })
    };
    (0..count.max(1)).map(end).collect::<io::Result<_>>().map_err(ServerError::Threads)
}

fn start_network(
    shared: &Arc<Shared>,
    listeners: Listeners,
    ends: Vec<NetworkEnd>,
) -> Result<Vec<JoinHandle<()>>, ServerError> {
    let mut listeners = Some(listeners);
    let mut threads = Vec::new();
    for (number, NetworkEnd { poll, mailbox, mail }) in ends.into_iter().enumerate() {
        let thread = NetworkThread::new(poll, listeners.take(), mail, mailbox, Arc::clone(shared))
            .map_err(ServerError::Threads)?;
        threads.push(spawn(&format!("network-{number}"), move || thread.run())?);
    }
    Ok(threads)
}

/// About three quarters of the cores, at least one.
pub fn default_partitions() -> u32 {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores * 3 / 4).max(1) as u32
}

/// Where backups may be, as an absolute path: the working directory may go.
fn backup_place(options: &ServerOptions) -> Result<Place, ServerError> {
    let mut place = Place { own: options.dir.clone(), root: None };
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

fn identity(
    listen: SocketAddr,
    admin_listen: Option<SocketAddr>,
    backups: Place,
    genesis: &ferrite_partition::record::Genesis,
    options: &ServerOptions,
) -> Identity {
    Identity {
        host_id: 0,
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        listen,
        admin_listen,
        clients_trusted: privilege::clients_are_trusted(listen.ip(), options.trust_clients),
        drop_migrating: options.drop_migrating,
        backups,
        cluster_start_ms: genesis.created_ms as i64,
        leader_address: match listen.ip() {
            std::net::IpAddr::V4(address) if !address.is_unspecified() => address.octets(),
            _ => [127, 0, 0, 1],
        },
        build: BUILD.to_owned(),
        version: VERSION,
        dir: options.dir.clone(),
        durability: match options.durability {
            Durability::Sync => "sync".to_owned(),
            Durability::Interval(interval) => format!("interval={}", interval.as_millis()),
            Durability::None => "none".to_owned(),
        },
        query_time_max: options.query_time_max,
    }
}
