//! A directory whose snapshots and log were read: what the kinds of starts have in common.

use super::{Options, RecoveredGroup, RecoveredNode, Summary};
use crate::commit::{self, Completion, DatabaseLog};
use crate::compiled::Compiled;
use crate::damage::{self, LogDamage};
use crate::log_needs::LogNeeds;
use crate::progress::ProgressReporter;
use crate::record::{self, Genesis};
use crate::replay::{GroupReplay, ObservedReplay, Replay};
use crate::snapshot_base::{Loaded, kept_snapshots, load_newest, refuse_without_log};
use crate::snapshots::{self, Snapshots};
use crate::start_error::StartError;
use crate::thread::RECORD_EPOCH;
use crate::unlogged::{MemoryRuns, Unlogged};
use ferrite_base::{GroupId, GroupMap, NodeId};
use ferrite_group::{FIRST_GROUP, Found as FoundStream, GroupAppender, GroupPlace, Identity, Replayed};
use ferrite_io::{Clock, Disk, Random};
use ferrite_log::{DatabaseId, Durability, LogError, LogPosition, OpenError, Recovery};
use ferrite_replica::group::{GroupConfiguration, Mark, Member};
use ferrite_snapshot::{Files, Found, SnapshotError, own_name};
use ferrite_table::Store;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Ids begin with 1.
const NOBODY: NodeId = NodeId(0);

pub(super) struct Opened {
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    dir: PathBuf,
    pub known: Option<Identity>,
    pub replay: Replay,
    /// Of the groups of the replay, in their order.
    bases: Vec<SnapshotsOnDisk>,
    damaged: Vec<(u64, String)>,
    pub log: DatabaseLog,
    read: Recovery,
    first_segment: u64,
    begin: u64,
    replaying: u64,
    memory_runs: MemoryRuns,
}

/// A group's directory of snapshots, and the one that it begins with.
struct SnapshotsOnDisk {
    files: Files,
    found: Found,
    loaded: Option<Loaded>,
}

impl SnapshotsOnDisk {
    /// Makes the directory where there is none.
    fn open(disk: &Arc<dyn Disk>, dir: &Path, group: GroupId) -> Result<SnapshotsOnDisk, StartError> {
        let files = Files::new(Arc::clone(disk), &snapshots::directory(dir, group));
        files.create_dir().map_err(snapshot_failed)?;
        let found = files.find().map_err(snapshot_failed)?;
        Ok(SnapshotsOnDisk { files, found, loaded: None })
    }
}

fn snapshot_failed(error: ferrite_io::DiskError) -> StartError {
    StartError::Snapshot(SnapshotError::Disk(error))
}

/// Why the log was not read to its end.
fn not_opened(error: OpenError<StartError>, replay: &Replay, disk: &dyn Disk) -> StartError {
    match error {
        OpenError::Log(LogError::Rot { path, position, missing, certain, detail }) => {
            let states = replay.groups.iter().filter_map(|group| group.state.as_ref());
            let reached: Vec<_> =
                states.flat_map(|state| state.of.ids().zip(state.judge.sequences.iter().copied())).collect();
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

/// The node of whose streams all is committed that it kept alone.
fn alone_here(known: Option<&Identity>) -> NodeId {
    match known {
        // Its log may be from an earlier cluster, whose ids were other nodes'. What it kept alone
        // counts when it leads again.
        Some(identity) if identity.cluster != [0; 16] => NOBODY,
        Some(identity) => identity.node,
        None => ferrite_group::FIRST_NODE,
    }
}

/// The groups whose data the directory has. A new one of a node without others gets all of them.
fn hosted(known: Option<&Identity>, groups: Option<&GroupMap>) -> BTreeSet<GroupId> {
    match known {
        Some(identity) => identity.hosted.clone(),
        None => (0..groups.map_or(1, GroupMap::groups)).map(GroupId).collect(),
    }
}

impl Opened {
    pub fn read(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        options: &Options<'_>,
    ) -> Result<Opened, StartError> {
        let begin = clock.monotonic_nanos();
        let lock = DatabaseLog::lock(&*disk, dir).map_err(StartError::Log)?;
        let progress = ProgressReporter::new(Arc::clone(&clock), options.report, options.progress);
        // Those of other groups are in there.
        let mut first = Some(SnapshotsOnDisk::open(&disk, dir, FIRST_GROUP)?);
        let known = Identity::read(&*disk, dir).map_err(StartError::Identity)?;
        let is_alone = known.as_ref().is_some_and(|identity| identity.cluster == [0; 16]);
        let here = alone_here(known.as_ref());
        let hosted = hosted(known.as_ref(), options.groups.as_ref());
        let mut replay = Replay::new(hosted, here, options.threads, options.log.accept_loss.is_some());
        let mut damaged = Vec::new();
        let mut bases = Vec::new();
        // Where the log is read from for each group. None: from its beginning.
        let mut places: Vec<Option<LogPosition>> = Vec::new();
        let mut log_options = options.log.clone();
        for number in 0..replay.groups.len() {
            let mut own = match (replay.groups[number].id, first.take()) {
                (FIRST_GROUP, Some(first)) => first,
                (other, _) => SnapshotsOnDisk::open(&disk, dir, other)?,
            };
            let base = load_newest(&own.files, &own.found, options.threads, &progress, &mut damaged)?;
            own.loaded = base.as_ref().map(|base| base.loaded);
            if base.is_none() && (is_alone || !own.found.snapshots.is_empty()) {
                refuse_without_log(&*disk, dir)?;
            }
            if let Some(base) = &base {
                log_options.database = Some(DatabaseId(base.manifest.database));
            }
            places.push(base.map(|base| base.begin(&mut replay, number)).transpose()?);
            bases.push(own);
        }
        log_options.from = first_place(&places);
        log_options.numbers = Some(ferrite_group::numbers);
        let first_segment = log_options.from.map_or(1, |from| from.segment);
        let replaying = clock.monotonic_nanos();
        // A directory that cannot be read is found below.
        progress.begin("log", ferrite_log::bytes_on_disk(&*disk, dir, first_segment).unwrap_or(0));
        let visitor = ObservedReplay { replay: &mut replay, progress: &progress };
        let opened = DatabaseLog::open_locked(Arc::clone(&disk), Arc::clone(&clock), dir, log_options, lock, visitor);
        let (log, read) = opened.map_err(|error| not_opened(error, &replay, &*disk))?;
        let memory_runs = MemoryRuns::read(&*disk, dir)?;
        for (group, base) in replay.groups.iter().zip(&bases) {
            memory_runs.miss_no_base(group, &base.found, replay.accept_loss)?;
        }
        let dir = dir.to_path_buf();
        Ok(Opened {
            disk,
            clock,
            dir,
            known,
            replay,
            bases,
            damaged,
            log,
            read,
            first_segment,
            begin,
            replaying,
            memory_runs,
        })
    }

    /// There is no database yet.
    pub fn is_new(&self) -> bool {
        self.replay.groups.iter().all(|group| group.state.is_none())
    }

    pub fn is_first_group_alone(&self) -> bool {
        self.replay.hosted().eq([FIRST_GROUP])
    }

    /// A snapshot of another node, or of a run without redo, was noted and never counted: the
    /// earlier state continues, and a record of that comes before anything follows in the log.
    pub fn resume(&self, appenders: &[GroupAppender<Completion>]) {
        for (group, appender) in self.replay.groups.iter().zip(appenders) {
            let Some(first) = group.superseded.first() else { continue };
            // Of the first group, as before there were others.
            let named = (group.id != FIRST_GROUP).then_some((group.id, Mark::ORIGIN));
            let mut payload = Vec::new();
            record::write_installed(&mut payload, 0, *first, &[], named.as_slice());
            let (tell, _) = crossbeam_channel::bounded(1);
            appender.append_own(payload, Completion { parties: commit::Parties::Asking(tell), buffers: None });
        }
    }

    /// `begun`: which streams have.
    pub fn begin_with_snapshots(
        &self,
        appenders: &[GroupAppender<Completion>],
        begun: &[bool],
    ) -> Result<(), StartError> {
        let mut groups = appenders.iter().zip(begun).enumerate();
        groups.try_for_each(|(number, (appender, begun))| self.begin_with_snapshot(number, appender, *begun))
    }

    /// The snapshot is all there is: what was cut has the log's way to it, which must come to what
    /// the snapshot shows all the same. `begun`: the group's stream has.
    pub fn begin_with_snapshot(
        &self,
        number: usize,
        appender: &GroupAppender<Completion>,
        begun: bool,
    ) -> Result<(), StartError> {
        let group = &self.replay.groups[number];
        let (Some(snapshot), Some(state)) = (group.begins_with, &group.state) else { return Ok(()) };
        let places: Vec<_> = state.judge.sequences.iter().map(|sequence| (RECORD_EPOCH, *sequence)).collect();
        let named = (begun || group.id != FIRST_GROUP).then(|| (group.id, appender.end()));
        let mut payload = Vec::new();
        let version = state.judge.catalog.version.0;
        record::write_checkpoint(&mut payload, snapshot, version, &places, named.as_slice());
        if !group.is_before_base() {
            return Ok(commit::wait(&self.log, |completion| appender.append_own(payload, completion))?);
        }
        let mark = Arc::new(OnceLock::new());
        let place = Arc::clone(&mark);
        commit::wait(&self.log, |completion| _ = appender.append_checkpoint(|_| payload, mark, completion))?;
        let place = place.get().expect("told before the append completes");
        self.begins_at(number, snapshot, place)
    }

    /// The log continues there from a group's snapshot, wherever it did before it was cut.
    fn begins_at(&self, number: usize, snapshot: u64, place: &LogPosition) -> Result<(), StartError> {
        let files = &self.bases[number].files;
        let name = own_name(snapshot);
        let mut manifest = files.manifest(&name).map_err(StartError::Snapshot)?;
        let log = snapshots::log_place(place);
        if manifest.log != log {
            manifest.log = log;
            files.commit(&name, &manifest).map_err(StartError::Snapshot)?;
        }
        Ok(())
    }

    /// Adds to what is here as a node without others does, for which all that is here counts.
    pub fn appender(&self, number: usize, stream: Replayed, here: Member) -> GroupAppender<Completion> {
        let FoundStream { applied, history, end, .. } = stream.into_found();
        // Whatever other members there were: it asks none.
        let configuration = GroupConfiguration::alone(applied.configuration.epoch.max(end.epoch), here);
        let place = GroupPlace { end, history, configuration, ..applied };
        let id = self.replay.groups[number].id;
        GroupAppender::alone(id, here, place, self.log.appender(), Arc::clone(&self.clock))
    }

    /// Of each group; None: it has not begun.
    pub fn take_streams(&mut self) -> Vec<Option<Replayed>> {
        let states = self.replay.groups.iter_mut().map(|group| group.state.as_mut());
        states.map(|state| state.and_then(|state| state.judge.stream.take())).collect()
    }

    /// Says in the log which database this is.
    pub fn make(
        &mut self,
        appenders: &[GroupAppender<Completion>],
        random: &mut dyn Random,
        options: &Options<'_>,
    ) -> Result<(), StartError> {
        let groups = options.groups.clone().unwrap_or_else(|| GroupMap::single(options.partitions_default));
        let created_ms = (self.clock.wall_micros() / 1_000) as u64;
        let genesis = Genesis { groups, created_ms, database_id: DatabaseId::random(random).0 };
        self.replay.threads = 0;
        self.replay.genesis(genesis.clone())?;
        let mut payload = Vec::new();
        record::write_genesis(&mut payload, &genesis);
        let first = appenders.first().expect("a node hosts groups");
        Ok(commit::wait(&self.log, |completion| first.append_own(payload, completion))?)
    }

    pub fn note_memory_base(&self, dir: &Path) -> Result<(), StartError> {
        let mut groups = self.replay.groups.iter();
        groups.try_for_each(|group| self.memory_runs.note_base(&*self.disk, dir, group))
    }

    /// Ends the replay.
    pub fn summary_of_all(&mut self, options: &Options<'_>) -> Result<Summary, StartError> {
        let mut stores = Vec::new();
        for state in self.replay.groups.iter_mut().filter_map(|group| group.state.as_mut()) {
            stores.extend(state.take_stores()?);
        }
        if self.is_new() {
            return Ok(Summary { threads: options.threads, loaded: self.loaded(), ..Summary::default() });
        }
        Ok(self.summary(options, false, &stores))
    }

    /// The snapshot that each group began with.
    fn loaded(&self) -> Vec<(GroupId, u64)> {
        self.replay.groups.iter().map(|group| (group.id, group.loaded)).collect()
    }

    /// `stores`: of all groups.
    fn summary(&mut self, options: &Options<'_>, created: bool, stores: &[Store]) -> Summary {
        let end = self.clock.monotonic_nanos();
        let snapshot = self.bases.iter().filter_map(|base| base.loaded).reduce(Loaded::and);
        let states = self.replay.groups.iter().filter_map(|group| group.state.as_ref());
        Summary {
            created,
            begun: false,
            transactions: states.clone().map(|state| state.judge.transactions).sum(),
            row_changes: stores.iter().map(Store::replayed).sum(),
            schema_changes: states.map(|state| state.judge.schema_changes).sum(),
            log_bytes: self.read.payload_bytes,
            log_segments: (self.first_segment, self.first_segment + self.read.segments - 1),
            duration: Duration::from_nanos(end - self.begin),
            replay_duration: Duration::from_nanos(end - self.replaying),
            clean: self.read.clean,
            torn_bytes: self.read.torn.as_ref().map_or(0, |tail| tail.bytes),
            quarantined: std::mem::take(&mut self.read.quarantined),
            snapshot,
            loaded: self.loaded(),
            without_redo: self.memory_runs.unfinished.map(|began| began.max(snapshot.map_or(0, |loaded| loaded.taken))),
            damaged: std::mem::take(&mut self.damaged),
            threads: options.threads,
        }
    }

    pub fn finish(
        mut self,
        options: &Options<'_>,
        appenders: Vec<GroupAppender<Completion>>,
        identity: Identity,
        created: bool,
    ) -> Result<RecoveredNode, StartError> {
        let first = self.replay.groups.first().and_then(|group| group.state.as_ref());
        let genesis = first.expect("a genesis record was found or just written").genesis.clone();
        if let Some(asked) = &options.groups {
            refuse_others(asked, &genesis.groups)?;
        }
        let mut stores = Vec::new();
        for state in self.replay.groups.iter_mut().filter_map(|group| group.state.as_mut()) {
            stores.extend(state.take_stores()?);
        }
        let unlogged = (options.log.durability == Durability::Memory).then(Arc::<Unlogged>::default);
        if unlogged.is_some() {
            stores.iter_mut().for_each(Store::keep_no_redo);
        }
        let summary = self.summary(options, created, &stores);
        let needs = LogNeeds::new(Arc::clone(self.log.index()));
        let mut stores = stores.into_iter();
        let mut groups = Vec::new();
        let replayed = std::mem::take(&mut self.replay.groups).into_iter().zip(std::mem::take(&mut self.bases));
        for ((group, base), appender) in replayed.zip(appenders) {
            let own = stores.by_ref().take(group.partitions()).collect();
            let mut recovered = self.finish_group(options, group, base, own, appender, &needs)?;
            if unlogged.is_some() {
                recovered.snapshots = recovered.snapshots.without_log();
            }
            groups.push(recovered);
        }
        Ok(RecoveredNode { genesis, log: self.log, identity, unlogged, summary, groups })
    }

    fn finish_group(
        &self,
        options: &Options<'_>,
        replayed: GroupReplay,
        base: SnapshotsOnDisk,
        mut stores: Vec<Store>,
        group: GroupAppender<Completion>,
        needs: &Arc<LogNeeds>,
    ) -> Result<RecoveredGroup, StartError> {
        let state = replayed.state.expect("a group has a state when the log was read");
        let mut catalog = Arc::unwrap_or_clone(state.judge.catalog);
        if catalog.version.0 == 0 {
            // Nothing was specified yet.
            catalog.decimals = Default::default();
            catalog.values = Default::default();
        }
        let compiled = Compiled::recovered(Arc::new(catalog), options.runtime).map_err(StartError::Compile)?;
        for store in &mut stores {
            store.set_catalog(Arc::clone(&compiled.catalog));
        }
        let SnapshotsOnDisk { files, found, loaded } = base;
        files.remove_leftovers(&found).map_err(snapshot_failed)?;
        let next = found.next.max(replayed.last_checkpoint + 1);
        let kept = kept_snapshots(&files, &found, loaded.map(|loaded| loaded.snapshot));
        let disk = Arc::clone(&self.disk);
        let clock = Arc::clone(&self.clock);
        let partitions = state.of;
        let of = partitions.clone();
        let snapshots = Snapshots::new(disk, clock, &self.dir, Arc::clone(needs), state.genesis, of, kept, next);
        Ok(RecoveredGroup {
            partitions,
            sequences: state.judge.sequences,
            history: state.judge.history,
            lots: state.judge.lots,
            compiled: Arc::new(compiled),
            stores,
            group,
            snapshots,
        })
    }
}

/// The first place that a group needs. None: one of them needs the log from its beginning.
fn first_place(places: &[Option<LogPosition>]) -> Option<LogPosition> {
    let all: Option<Vec<LogPosition>> = places.iter().copied().collect();
    all?.into_iter().min_by_key(|place| (place.segment, place.position))
}

/// The database must have the partitions and groups that were asked for.
fn refuse_others(asked: &GroupMap, stored: &GroupMap) -> Result<(), StartError> {
    if asked.partitions() != stored.partitions() {
        return Err(StartError::Partitions { asked: asked.partitions(), stored: stored.partitions() });
    }
    if asked != stored {
        return Err(StartError::Groups { asked: asked.groups(), stored: stored.groups() });
    }
    Ok(())
}
