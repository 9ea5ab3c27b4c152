//! From disk to stores: the newest whole snapshot, then the log from there
//! (docs/format/snapshot.md, "Reading"). Runs no statement and no procedure.

use crate::commit::{self, Completion, DatabaseLog};
use crate::compiled::Compiled;
use crate::damage::{self, LogDamage};
use crate::judge::Judge;
use crate::progress::{ProgressListener, ProgressReporter, RecoveryProgress};
use crate::record::{self, Genesis};
use crate::replay::{Missing, ObservedReplay, Replay};
use crate::schema::SchemaHistory;
pub use crate::snapshot_base::Loaded;
use crate::snapshot_base::{kept_snapshots, load_newest, refuse_without_log};
use crate::snapshots::{self, Snapshots};
pub use crate::start_error::StartError;
use crate::thread::RECORD_EPOCH;
use crate::unlogged::{self, MemoryRuns, Unlogged, unless_full};
use ferrite_base::{Epoch, Incarnation, NodeId, Sequence, limits};
use ferrite_group::{
    Begin, FIRST_GROUP, Found as FoundStream, GroupAppender, GroupHost, GroupPlace, Identity, Replayed, Replication,
    message,
};
use ferrite_io::{Clock, Disk, Random};
use ferrite_log::{DatabaseId, Durability, LogError, LogOptions, OpenError, Recovery};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::{GroupConfiguration, Member, Timing};
use ferrite_snapshot::{Files, Found, SnapshotError};
use ferrite_table::Store;
use ferrite_value::Value;
use ferrite_value::text::to_text_string;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Ids begin with 1.
const NOBODY: NodeId = NodeId(0);

/// Everything that a node runs on.
pub struct Recovered {
    pub genesis: Genesis,
    pub stores: Vec<Store>,
    /// Last sequence number of each partition.
    pub sequences: Vec<Sequence>,
    pub compiled: Arc<Compiled>,
    /// How the catalog came about.
    pub history: SchemaHistory,
    pub log: DatabaseLog,
    /// The way into the log.
    pub group: GroupAppender<Completion>,
    pub identity: Identity,
    /// For the snapshots to come.
    pub snapshots: Snapshots,
    /// With durability memory: where all that changes the stores notes it, in place of the log.
    pub unlogged: Option<Arc<Unlogged>>,
    pub summary: Summary,
}

/// What recovery found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub created: bool,
    /// It had no schema, and was given its first one at this start.
    pub begun: bool,
    pub transactions: u64,
    /// Rows inserted, changed or deleted by these transactions.
    pub row_changes: u64,
    pub schema_changes: u64,
    pub log_bytes: u64,
    /// First and last segment that was read.
    pub log_segments: (u64, u64),
    /// All of it, reading snapshots and log and building indexes.
    pub duration: Duration,
    /// Of the log alone.
    pub replay_duration: Duration,
    /// The log ended in good order.
    pub clean: bool,
    /// Bytes at the end of the log that were no whole write, and were cut off.
    pub torn_bytes: u64,
    /// Files that keep what was cut at the operator's word.
    pub quarantined: Vec<PathBuf>,
    pub snapshot: Option<Loaded>,
    /// A server ran here with durability memory and did not stop in an orderly way: the database is
    /// as of this time, microseconds since 1970, and what was acknowledged after it is gone.
    pub without_redo: Option<i64>,
    /// Snapshots that could not be used, newest first, and why.
    pub damaged: Vec<(u64, String)>,
    /// Threads that loaded and replayed.
    pub threads: usize,
}

impl Summary {
    /// What operators are told where the server before ran without redo and was not stopped.
    pub fn loss_without_redo(&self) -> Option<String> {
        self.without_redo.map(|time| {
            format!(
                "the server that ran here before, with --durability memory, did not stop in an orderly way. The database is as \
                 of {} UTC; what was acknowledged after that is lost, as this durability allows",
                to_text_string(&Value::Timestamp(time))
            )
        })
    }
}

/// How to recover.
pub struct Options<'r> {
    pub log: LogOptions,
    /// What a new database gets and what an old one must have, if given.
    pub partitions: Option<u32>,
    pub partitions_default: u32,
    /// Threads that load and replay, for as many partitions at a time; none: the calling one does
    /// it all.
    pub threads: usize,
    /// Receives what the operator should see while it runs.
    pub report: &'r ProgressListener,
    /// Where others look at it.
    pub progress: &'r RecoveryProgress,
    /// Loads the procedures in other languages.
    pub runtime: &'r RuntimeHandle,
}

/// [`open_with`] without a listener, on the calling thread if the log has no threads either.
pub fn open(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    random: &mut dyn Random,
    dir: &Path,
    options: LogOptions,
    partitions: Option<u32>,
    partitions_default: u32,
) -> Result<Recovered, StartError> {
    let threads = if options.own_threads { default_threads() } else { 0 };
    let progress = RecoveryProgress::default();
    let report = &|_| {};
    let runtime = &RuntimeHandle::default();
    let options =
        Options { log: options, partitions, partitions_default, threads, report, progress: &progress, runtime };
    open_with(disk, clock, random, dir, options)
}

/// As many as there are cores.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Opens or makes the database in `dir`, of a node without others.
pub fn open_with(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    random: &mut dyn Random,
    dir: &Path,
    options: Options<'_>,
) -> Result<Recovered, StartError> {
    let accept_loss = options.log.accept_loss.is_some();
    let mut opened = Opened::read(disk, clock, dir, &options).map_err(alone)?;
    if let Some(Missing { snapshot, .. }) = opened.replay.missing.filter(|_| !accept_loss) {
        return Err(StartError::NoRedoBefore { snapshot });
    }
    let created = opened.replay.state.is_none();
    let stream = opened.take_stream();
    let begun = stream.is_some();
    let is_known = opened.known.is_some();
    let mut identity = opened.known.take().unwrap_or_else(Identity::alone);
    // Where the file is gone, the log may know of later starts.
    if let Some(leader) = stream.as_ref().map(|stream| stream.configuration().leader)
        && leader.node == identity.node
    {
        identity.incarnation = identity.incarnation.max(leader.incarnation);
    }
    identity.incarnation = Incarnation(identity.incarnation.0 + 1);
    let place = match stream {
        Some(stream) if !is_known && stream.configuration().members().len() > 1 => return Err(StartError::NoIdentity),
        Some(stream) => stream.place().ok_or(StartError::Uncommitted { entries: stream.pending() })?,
        None => before_the_first(created, member(&identity)),
    };
    let appender = opened.log.appender();
    let clock = Arc::clone(&opened.clock);
    let group = GroupAppender::alone(FIRST_GROUP, member(&identity), place, appender, clock);
    opened.resume(&group);
    if created {
        opened.make(&group, random, &options)?;
    }
    opened.begin_with_snapshot(&group, begun)?;
    // The node's identity is written before the first entry that names it.
    identity.write(&*opened.disk, dir).map_err(StartError::Identity)?;
    // Where a part of the log was given up, its positions belong to another epoch from now on: an
    // epoch has one entry at each.
    if !begun || accept_loss {
        let configuration = GroupConfiguration::alone(Epoch(group.end().epoch.0 + 1), member(&identity));
        commit::wait(&opened.log, |completion| group.start_epoch(configuration, completion))?;
    }
    opened.memory_runs.note_base(&*opened.disk, dir, &opened.replay)?;
    let disk = Arc::clone(&opened.disk);
    let clock = Arc::clone(&opened.clock);
    let recovered = opened.finish(&options, group, identity, created)?;
    if recovered.unlogged.is_some() {
        unless_full(unlogged::begin_run(&*disk, dir, clock.wall_micros()))?;
    }
    Ok(recovered)
}

/// No other node has what a node without a cluster cannot read.
fn alone(error: StartError) -> StartError {
    match error {
        StartError::Installed { snapshot } => StartError::NoRedoBefore { snapshot },
        other => other,
    }
}

/// How a node of a cluster opens its database.
pub struct AsMember {
    pub host: Arc<dyn GroupHost>,
    pub timing: Timing,
    /// Whether the log has everything that was acknowledged: not where the machine stopped and the
    /// mode is not `sync`.
    pub intact: bool,
    /// As [`Begin::snapshots`].
    pub snapshots: bool,
}

/// What a node of a cluster has in its directory: a copy, in no role yet.
pub struct RecoveredMember {
    /// What is known to be committed.
    pub recovered: Recovered,
    /// After the last entry that the stores show.
    pub place: GroupPlace,
    pub replication: Arc<Replication<Completion>>,
}

/// Opens the database of a node of a cluster, whose directory says which node it is. Entries that
/// are not known to be committed are left to the group. Afterwards the incarnation is durable.
pub fn open_member(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    random: &mut dyn Random,
    dir: &Path,
    options: Options<'_>,
    as_member: AsMember,
) -> Result<RecoveredMember, StartError> {
    assert!(options.log.durability != Durability::Memory, "other members need the redo");
    // What a node of a cluster has lost it gets from the others.
    let options = Options { log: LogOptions { accept_loss: None, ..options.log }, ..options };
    let mut opened = Opened::read(disk, clock, dir, &options)?;
    let created = opened.replay.state.is_none();
    let stream = opened.take_stream();
    let mut identity = opened.known.take().ok_or(StartError::NoIdentity)?;
    identity.incarnation = Incarnation(identity.incarnation.0 + 1);
    identity.write(&*opened.disk, dir).map_err(StartError::Identity)?;
    let here = member(&identity);
    let found = match stream {
        Some(stream) => stream.into_found(),
        None => {
            // A crash may have left no more than the record that says which database this is.
            let applied = before_the_first(created || opened.is_empty(), here);
            let history = applied.history.clone();
            let end = applied.end;
            FoundStream { applied, history, end, uncommitted: Vec::new() }
        }
    };
    let place = found.applied.clone();
    let promised = identity.promised.get(&FIRST_GROUP).copied().unwrap_or_default();
    let AsMember { host, timing, intact, snapshots } = as_member;
    let begin = Begin {
        id: FIRST_GROUP,
        here,
        promised,
        intact,
        timing,
        snapshots,
        message_bytes_max: message::MESSAGE_BYTES_MAX,
        window_bytes_max: limits::UNCOMMITTED_BYTES_MAX,
    };
    let appender = opened.log.appender();
    let clock = Arc::clone(&opened.clock);
    let replication = Replication::of_cluster(begin, found, appender, clock, host);
    let group = GroupAppender::new(Arc::clone(&replication));
    opened.resume(&group);
    if created {
        opened.make(&group, random, &options)?;
    }
    let recovered = opened.finish(&options, group, identity, created)?;
    Ok(RecoveredMember { recovered, place, replication })
}

/// Reads what a node of a cluster has, and adds no entry to it: only the others know what of it is
/// committed. With [`LogOptions::accept_loss`] what cannot be read is cut.
pub(crate) fn summarize(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: &Path,
    options: &Options<'_>,
) -> Result<Summary, StartError> {
    let mut opened = Opened::read(disk, clock, dir, options)?;
    if opened.replay.begins_with.is_some()
        && let Some(stream) = opened.take_stream()
    {
        let here = opened.known.as_ref().ok_or(StartError::NoIdentity)?;
        let group = opened.appender(stream, member(here));
        opened.begin_with_snapshot(&group, true)?;
    }
    let summary = match opened.replay.state.take() {
        Some(mut state) => {
            let stores = state.take_stores()?;
            opened.summary(options, false, &stores, &state.judge)
        }
        None => Summary { threads: options.threads, ..Summary::default() },
    };
    opened.log.close().map_err(StartError::LogFailed)?;
    Ok(summary)
}

/// Turns what a node of a cluster has into a single server's database: every entry counts from now
/// on, also those of which only the other members know whether they do. The caller sets the node's
/// identity, and that it is in no cluster. Done again, it only begins one more epoch.
pub(crate) fn leave_others(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: &Path,
    options: &Options<'_>,
) -> Result<(), StartError> {
    let mut opened = Opened::read(disk, clock, dir, options)?;
    let stream = opened.take_stream();
    let known = opened.known.take();
    let (Some(stream), Some(identity)) = (stream, known) else {
        return Err(StartError::NoDatabase(dir.to_path_buf()));
    };
    let group = opened.appender(stream, member(&identity));
    let highest = identity.promised.values().copied().fold(group.place().configuration.epoch, Epoch::max);
    opened.resume(&group);
    let configuration = GroupConfiguration::alone(Epoch(highest.0 + 1), member(&identity));
    commit::wait(&opened.log, |completion| group.start_epoch(configuration, completion))?;
    opened.log.close().map_err(StartError::LogFailed)
}

fn member(identity: &Identity) -> Member {
    Member { node: identity.node, incarnation: identity.incarnation }
}

/// What an earlier release has written counts as another epoch: a stream that has not got it cannot
/// be made equal by entries alone.
fn before_the_first(created: bool, here: Member) -> GroupPlace {
    GroupPlace::before_the_first(if created { Epoch(0) } else { RECORD_EPOCH }, here)
}

/// A directory whose snapshot and log were read.
struct Opened {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    files: Files,
    found: Found,
    known: Option<Identity>,
    replay: Replay,
    damaged: Vec<(u64, String)>,
    loaded: Option<Loaded>,
    log: DatabaseLog,
    read: Recovery,
    first_segment: u64,
    begin: u64,
    replaying: u64,
    memory_runs: MemoryRuns,
}

fn snapshot_failed(error: ferrite_io::DiskError) -> StartError {
    StartError::Snapshot(SnapshotError::Disk(error))
}

/// Why the log was not read to its end.
fn not_opened(error: OpenError<StartError>, replay: &Replay, disk: &dyn Disk) -> StartError {
    match error {
        OpenError::Log(LogError::Rot { path, position, missing, certain, detail }) => {
            let reached = replay.state.as_ref().map(|state| state.judge.sequences.clone()).unwrap_or_default();
            let stake = damage::at_stake(disk, &path, position, &reached);
            StartError::Rot(Box::new(LogDamage { path, position, missing, certain, detail, stake, reached }))
        }
        OpenError::Log(error) => StartError::Log(error),
        OpenError::Replay {
            error:
                error @ (StartError::Replay { .. }
                | StartError::Checkpoint { .. }
                | StartError::Behind { .. }
                | StartError::CameBack { .. }),
            ..
        } => error,
        OpenError::Replay { path, position, error } => StartError::Replay { path, position, reason: Box::new(error) },
    }
}

impl Opened {
    fn read(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        options: &Options<'_>,
    ) -> Result<Opened, StartError> {
        let begin = clock.monotonic_nanos();
        let lock = DatabaseLog::lock(&*disk, dir).map_err(StartError::Log)?;
        let files = Files::new(Arc::clone(&disk), &dir.join(snapshots::DIRECTORY));
        files.create_dir().map_err(snapshot_failed)?;
        let found = files.find().map_err(snapshot_failed)?;
        let progress = ProgressReporter::new(Arc::clone(&clock), options.report, options.progress);
        let accept_loss = options.log.accept_loss.is_some();
        let known = Identity::read(&*disk, dir).map_err(StartError::Identity)?;
        let is_alone = known.as_ref().is_some_and(|identity| identity.cluster == [0; 16]);
        let here = match &known {
            // Its log may be from an earlier cluster, whose ids were other nodes'. What it kept
            // alone counts when it leads again.
            Some(_) if !is_alone => NOBODY,
            Some(identity) => identity.node,
            None => ferrite_group::FIRST_NODE,
        };
        let mut replay = Replay { threads: options.threads, here, accept_loss, ..Replay::default() };
        let mut damaged = Vec::new();
        let base = load_newest(&files, &found, options.threads, &progress, &mut damaged)?;
        let loaded = base.as_ref().map(|base| base.loaded);
        if base.is_none() && (is_alone || !found.snapshots.is_empty()) {
            refuse_without_log(&*disk, dir)?;
        }
        let mut log_options = options.log.clone();
        if let Some(base) = base {
            base.begin(&mut log_options, &mut replay)?;
        }
        log_options.numbers = Some(ferrite_group::numbers);
        let first_segment = log_options.from.map_or(1, |from| from.segment);
        let replaying = clock.monotonic_nanos();
        // A directory that cannot be read is found below.
        progress.begin("log", ferrite_log::bytes_on_disk(&*disk, dir, first_segment).unwrap_or(0));
        let visitor = ObservedReplay { replay: &mut replay, progress: &progress };
        let opened = DatabaseLog::open_locked(Arc::clone(&disk), Arc::clone(&clock), dir, log_options, lock, visitor);
        let (log, read) = opened.map_err(|error| not_opened(error, &replay, &*disk))?;
        let memory_runs = MemoryRuns::read(&*disk, dir)?;
        memory_runs.miss_no_base(&replay, &found)?;
        Ok(Opened {
            disk,
            clock,
            dir: dir.to_path_buf(),
            files,
            found,
            known,
            replay,
            damaged,
            loaded,
            log,
            read,
            first_segment,
            begin,
            replaying,
            memory_runs,
        })
    }

    /// A snapshot of another node, or of a run without redo, was noted and never counted: the
    /// earlier state continues, and a record of that comes before anything follows in the log.
    fn resume(&self, group: &GroupAppender<Completion>) {
        if let Some(first) = self.replay.superseded.first() {
            let mut payload = Vec::new();
            record::write_installed(&mut payload, 0, *first, &[], &[]);
            let (tell, _) = crossbeam_channel::bounded(1);
            group.append_own(payload, Completion { parties: commit::Parties::Asking(tell), buffers: None });
        }
    }

    /// The snapshot is all there is: what was cut has the log's way to it, which must come to what
    /// the snapshot shows all the same. `begun`: the group's stream has.
    fn begin_with_snapshot(&self, group: &GroupAppender<Completion>, begun: bool) -> Result<(), StartError> {
        let (Some(snapshot), Some(state)) = (self.replay.begins_with, &self.replay.state) else { return Ok(()) };
        let places: Vec<_> = state.judge.sequences.iter().map(|sequence| (RECORD_EPOCH, *sequence)).collect();
        let groups: &[_] = if begun { &[(FIRST_GROUP, group.end())] } else { &[] };
        let mut payload = Vec::new();
        record::write_checkpoint(&mut payload, snapshot, state.judge.catalog.version.0, &places, groups);
        Ok(commit::wait(&self.log, |completion| group.append_own(payload, completion))?)
    }

    /// Adds to what is here as a node without others does, for which all that is here counts.
    fn appender(&self, stream: Replayed, here: Member) -> GroupAppender<Completion> {
        let FoundStream { applied, history, end, .. } = stream.into_found();
        // Whatever other members there were: it asks none.
        let configuration = GroupConfiguration::alone(applied.configuration.epoch.max(end.epoch), here);
        let place = GroupPlace { end, history, configuration, ..applied };
        GroupAppender::alone(FIRST_GROUP, here, place, self.log.appender(), Arc::clone(&self.clock))
    }

    fn take_stream(&mut self) -> Option<Replayed> {
        self.replay.state.as_mut().and_then(|state| state.judge.stream.take())
    }

    /// Nothing was ever done in this database.
    fn is_empty(&self) -> bool {
        self.replay.state.as_ref().is_none_or(|state| {
            let Judge { sequences, catalog, .. } = &state.judge;
            catalog.version.0 == 0 && sequences.iter().all(|sequence| sequence.0 == 0)
        })
    }

    /// Says in the log which database this is.
    fn make(
        &mut self,
        group: &GroupAppender<Completion>,
        random: &mut dyn Random,
        options: &Options<'_>,
    ) -> Result<(), StartError> {
        let genesis = Genesis {
            partitions: options.partitions.unwrap_or(options.partitions_default),
            created_ms: (self.clock.wall_micros() / 1_000) as u64,
            database_id: DatabaseId::random(random).0,
        };
        self.replay.threads = 0;
        self.replay.genesis(genesis)?;
        let mut payload = Vec::new();
        record::write_genesis(&mut payload, &genesis);
        Ok(commit::wait(&self.log, |completion| group.append_own(payload, completion))?)
    }

    fn summary(&mut self, options: &Options<'_>, created: bool, stores: &[Store], judge: &Judge) -> Summary {
        let end = self.clock.monotonic_nanos();
        Summary {
            created,
            begun: false,
            transactions: judge.transactions,
            row_changes: stores.iter().map(Store::replayed).sum(),
            schema_changes: judge.schema_changes,
            log_bytes: self.read.payload_bytes,
            log_segments: (self.first_segment, self.first_segment + self.read.segments - 1),
            duration: Duration::from_nanos(end - self.begin),
            replay_duration: Duration::from_nanos(end - self.replaying),
            clean: self.read.clean,
            torn_bytes: self.read.torn.as_ref().map_or(0, |tail| tail.bytes),
            quarantined: std::mem::take(&mut self.read.quarantined),
            snapshot: self.loaded,
            without_redo: self
                .memory_runs
                .unfinished
                .map(|began| began.max(self.loaded.map_or(0, |loaded| loaded.taken))),
            damaged: std::mem::take(&mut self.damaged),
            threads: options.threads,
        }
    }

    fn finish(
        self,
        options: &Options<'_>,
        group: GroupAppender<Completion>,
        identity: Identity,
        created: bool,
    ) -> Result<Recovered, StartError> {
        let mut opened = self;
        let mut state = opened.replay.state.take().expect("a genesis record was found or just written");
        let genesis = state.genesis;
        if let Some(asked) = options.partitions
            && asked != genesis.partitions
        {
            return Err(StartError::Partitions { asked, stored: genesis.partitions });
        }
        let mut stores = state.take_stores()?;
        let unlogged = (options.log.durability == Durability::Memory).then(Arc::<Unlogged>::default);
        if unlogged.is_some() {
            stores.iter_mut().for_each(Store::keep_no_redo);
        }
        let summary = opened.summary(options, created, &stores, &state.judge);
        let Opened { disk, clock, dir, files, found, replay, loaded, log, .. } = opened;
        let Judge { sequences, catalog, history, .. } = state.judge;
        let mut catalog = Arc::unwrap_or_clone(catalog);
        if catalog.version.0 == 0 {
            // Nothing was specified yet.
            catalog.decimals = Default::default();
            catalog.values = Default::default();
        }
        let compiled = Compiled::recovered(Arc::new(catalog), options.runtime).map_err(StartError::Compile)?;
        for store in &mut stores {
            store.set_catalog(Arc::clone(&compiled.catalog));
        }
        files.remove_leftovers(&found).map_err(snapshot_failed)?;
        let next = found.next.max(replay.last_checkpoint + 1);
        let kept = kept_snapshots(&files, &found, loaded.map(|loaded| loaded.snapshot));
        let snapshots = Snapshots::new(disk, clock, &dir, Arc::clone(log.index()), genesis, kept, next);
        let snapshots = if unlogged.is_some() { snapshots.without_log() } else { snapshots };
        Ok(Recovered {
            genesis,
            sequences,
            history,
            summary,
            compiled: Arc::new(compiled),
            unlogged,
            snapshots,
            log,
            group,
            identity,
            stores,
        })
    }
}
