//! From disk to stores: each group's newest whole snapshot, then the log from the first of them
//! (docs/format/snapshot.md, "Reading"). Runs no statement and no procedure.
//!
//! A node's log and identity are opened once, and each group that it hosts is recovered from them.

mod opened;
mod summary;

pub use summary::Summary;

use crate::commit::{self, Completion, DatabaseLog};
use crate::compiled::Compiled;
use crate::lots::LotLedger;
use crate::progress::{ProgressListener, RecoveryProgress};
use crate::record::Genesis;
use crate::replay::Missing;
use crate::schema::SchemaHistory;
pub use crate::snapshot_base::Loaded;
use crate::snapshots::Snapshots;
pub use crate::start_error::StartError;
use crate::thread::RECORD_EPOCH;
use crate::unlogged::{self, Unlogged, unless_full};
use ferrite_base::{Epoch, GroupId, GroupMap, GroupPartitions, Incarnation, Sequence, limits};
use ferrite_group::{
    Begin, FIRST_GROUP, Found as FoundStream, GroupAppender, GroupHost, GroupPlace, Identity, Replayed, Replication,
    message,
};
use ferrite_io::{Clock, Disk, Random};
use ferrite_log::{Durability, LogOptions};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::{GroupConfiguration, Member, Timing};
use ferrite_table::Store;
use opened::Opened;
use std::path::Path;
use std::sync::Arc;

/// Everything that a node runs on: what it has once, and its groups.
pub struct RecoveredNode {
    pub genesis: Genesis,
    pub log: DatabaseLog,
    pub identity: Identity,
    /// With durability memory: where all that changes the stores notes it, in place of the log.
    pub unlogged: Option<Arc<Unlogged>>,
    pub summary: Summary,
    /// Those that are hosted, ascending, at least one.
    pub groups: Vec<RecoveredGroup>,
}

/// What a node has of one group.
pub struct RecoveredGroup {
    pub partitions: GroupPartitions,
    pub stores: Vec<Store>,
    /// Last sequence number of each partition.
    pub sequences: Vec<Sequence>,
    pub compiled: Arc<Compiled>,
    /// How the catalog came about.
    pub history: SchemaHistory,
    /// What the stream has said of lots.
    pub lots: LotLedger,
    /// The way into the log.
    pub group: GroupAppender<Completion>,
    /// For the snapshots to come.
    pub snapshots: Snapshots,
}

/// A node and its only group, for callers that know no others.
pub struct Recovered {
    pub genesis: Genesis,
    pub partitions: GroupPartitions,
    pub stores: Vec<Store>,
    /// Last sequence number of each partition.
    pub sequences: Vec<Sequence>,
    pub compiled: Arc<Compiled>,
    /// How the catalog came about.
    pub history: SchemaHistory,
    /// What the stream has said of lots.
    pub lots: LotLedger,
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

impl RecoveredNode {
    /// The latest version of the schema that a group here has.
    pub fn compiled(&self) -> &Arc<Compiled> {
        let all = self.groups.iter().map(|group| &group.compiled);
        all.max_by_key(|compiled| compiled.catalog.version).expect("a node hosts groups")
    }

    /// # Panics
    /// If the node hosts other groups than the first.
    pub fn only_group(self) -> Recovered {
        let RecoveredNode { genesis, log, identity, unlogged, summary, mut groups } = self;
        let Some(first) = groups.pop().filter(|_| groups.is_empty()) else { panic!("a node hosts one group here") };
        let RecoveredGroup { partitions, stores, sequences, compiled, history, lots, group, snapshots } = first;
        assert_eq!(partitions.group(), FIRST_GROUP, "the only group is the first");
        Recovered {
            genesis,
            partitions,
            stores,
            sequences,
            compiled,
            history,
            lots,
            log,
            group,
            identity,
            snapshots,
            unlogged,
            summary,
        }
    }
}

impl From<Recovered> for RecoveredNode {
    fn from(only: Recovered) -> RecoveredNode {
        let Recovered { genesis, log, identity, unlogged, summary, .. } = only;
        let Recovered { partitions, stores, sequences, compiled, history, lots, group, snapshots, .. } = only;
        let first = RecoveredGroup { partitions, stores, sequences, compiled, history, lots, group, snapshots };
        RecoveredNode { genesis, log, identity, unlogged, summary, groups: vec![first] }
    }
}

/// How to recover.
pub struct Options<'r> {
    pub log: LogOptions,
    /// What a new database gets and what an old one must have, if given.
    pub groups: Option<GroupMap>,
    /// Of a new database of one group.
    pub partitions_default: u32,
    /// Threads that load and replay, for as many partitions of a group at a time; none: the calling
    /// one does it all.
    pub threads: usize,
    /// Receives what the operator should see while it runs.
    pub report: &'r ProgressListener,
    /// Where others look at it.
    pub progress: &'r RecoveryProgress,
    /// Loads the procedures in other languages.
    pub runtime: &'r RuntimeHandle,
}

/// [`open_with`] without a listener and with one group, on the calling thread if the log has no
/// threads either.
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
    let groups = partitions.map(GroupMap::single);
    let options = Options { log: options, groups, partitions_default, threads, report, progress: &progress, runtime };
    open_with(disk, clock, random, dir, options).map(RecoveredNode::only_group)
}

/// As many as there are cores.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Opens or makes the database in `dir`, of a node without others. A new one hosts all groups.
pub fn open_with(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    random: &mut dyn Random,
    dir: &Path,
    options: Options<'_>,
) -> Result<RecoveredNode, StartError> {
    let accept_loss = options.log.accept_loss.is_some();
    let mut opened = Opened::read(disk, clock, dir, &options).map_err(alone)?;
    let is_memory = options.log.durability == Durability::Memory;
    assert!(!is_memory || opened.is_first_group_alone(), "what no log has is one group's");
    let missing = opened.replay.groups.iter().find_map(|group| group.missing);
    if let Some(Missing { snapshot, .. }) = missing.filter(|_| !accept_loss) {
        return Err(StartError::NoRedoBefore { snapshot });
    }
    let created = opened.is_new();
    let streams = opened.take_streams();
    let is_known = opened.known.is_some();
    if !is_known && !opened.replay.hosts_all() {
        return Err(StartError::NoIdentity);
    }
    let mut identity = opened.known.take().unwrap_or_else(Identity::alone);
    identity.hosted.extend(opened.replay.hosted());
    // Where the file is gone, the log may know of later starts.
    for leader in streams.iter().flatten().map(|stream| stream.configuration().leader) {
        if leader.node == identity.node {
            identity.incarnation = identity.incarnation.max(leader.incarnation);
        }
    }
    identity.incarnation = Incarnation(identity.incarnation.0 + 1);
    let here = member(&identity);
    let begun: Vec<bool> = streams.iter().map(Option::is_some).collect();
    let appender = |(stream, id): (Option<Replayed>, GroupId)| {
        let place = match stream {
            Some(stream) if !is_known && stream.configuration().members().len() > 1 => {
                return Err(StartError::NoIdentity);
            }
            Some(stream) => stream.place().ok_or(StartError::Uncommitted { entries: stream.pending() })?,
            None => before_the_first(created, here),
        };
        Ok(GroupAppender::alone(id, here, place, opened.log.appender(), Arc::clone(&opened.clock)))
    };
    let groups: Vec<_> = streams.into_iter().zip(opened.replay.hosted()).map(appender).collect::<Result<_, _>>()?;
    opened.resume(&groups);
    if created {
        opened.make(&groups, random, &options)?;
    }
    opened.begin_with_snapshots(&groups, &begun)?;
    // The node's identity is written before the first entry that names it.
    identity.write(&*opened.disk, dir).map_err(StartError::Identity)?;
    // Where a part of the log was given up, its positions belong to another epoch from now on: an
    // epoch has one entry at each.
    for (group, begun) in groups.iter().zip(begun) {
        if !begun || accept_loss {
            let configuration = GroupConfiguration::alone(Epoch(group.end().epoch.0 + 1), here);
            commit::wait(&opened.log, |completion| group.start_epoch(configuration, completion))?;
        }
    }
    opened.note_memory_base(dir)?;
    let disk = Arc::clone(&opened.disk);
    let clock = Arc::clone(&opened.clock);
    let recovered = opened.finish(&options, groups, identity, created)?;
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
    /// Of all groups.
    pub host: Arc<dyn GroupHost>,
    pub timing: Timing,
    /// Whether the log has everything that was acknowledged: not where the machine stopped and the
    /// mode is not `sync`.
    pub intact: bool,
    /// As [`Begin::snapshots`].
    pub snapshots: bool,
}

/// What a node of a cluster has in its directory: copies, in no role yet.
pub struct RecoveredMembers {
    /// What is known to be committed.
    pub node: RecoveredNode,
    /// Of the node's groups, in their order.
    pub streams: Vec<MemberStream>,
}

/// A group as a node of a cluster keeps it.
pub struct MemberStream {
    /// After the last entry that the stores show.
    pub place: GroupPlace,
    pub replication: Arc<Replication<Completion>>,
}

/// The same of a node with one group.
pub struct RecoveredMember {
    /// What is known to be committed.
    pub recovered: Recovered,
    /// After the last entry that the stores show.
    pub place: GroupPlace,
    pub replication: Arc<Replication<Completion>>,
}

impl RecoveredMembers {
    /// # Panics
    /// If the node hosts other groups than the first.
    pub fn only_group(self) -> RecoveredMember {
        let RecoveredMembers { node, mut streams } = self;
        let recovered = node.only_group();
        let MemberStream { place, replication } = streams.pop().expect("a group has its stream");
        RecoveredMember { recovered, place, replication }
    }
}

/// Opens the database of a node of a cluster, whose directory says which node it is and which
/// groups it hosts. Entries that are not known to be committed are left to their groups. Afterwards
/// the incarnation is durable.
pub fn open_member(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    random: &mut dyn Random,
    dir: &Path,
    options: Options<'_>,
    as_member: AsMember,
) -> Result<RecoveredMembers, StartError> {
    assert!(options.log.durability != Durability::Memory, "other members need the redo");
    // What a node of a cluster has lost it gets from the others.
    let options = Options { log: LogOptions { accept_loss: None, ..options.log }, ..options };
    let mut opened = Opened::read(disk, clock, dir, &options)?;
    let created = opened.is_new();
    let found = opened.take_streams();
    let mut identity = opened.known.take().ok_or(StartError::NoIdentity)?;
    identity.incarnation = Incarnation(identity.incarnation.0 + 1);
    identity.write(&*opened.disk, dir).map_err(StartError::Identity)?;
    let here = member(&identity);
    let mut streams = Vec::new();
    for (stream, group) in found.into_iter().zip(&opened.replay.groups) {
        let found = match stream {
            Some(stream) => stream.into_found(),
            None => {
                // A crash may have left no more than the record that says which database this is.
                let applied = before_the_first(created || group.is_empty(), here);
                let history = applied.history.clone();
                let end = applied.end;
                FoundStream { applied, history, end, uncommitted: Vec::new() }
            }
        };
        let begin = Begin {
            id: group.id,
            here,
            promised: identity.promised.get(&group.id).copied().unwrap_or_default(),
            intact: as_member.intact,
            timing: as_member.timing,
            snapshots: as_member.snapshots,
            message_bytes_max: message::MESSAGE_BYTES_MAX,
            window_bytes_max: limits::UNCOMMITTED_BYTES_MAX,
        };
        let place = found.applied.clone();
        let appender = opened.log.appender();
        let host = Arc::clone(&as_member.host);
        let replication = Replication::of_cluster(begin, found, appender, Arc::clone(&opened.clock), host);
        streams.push(MemberStream { place, replication });
    }
    let groups: Vec<_> = streams.iter().map(|stream| GroupAppender::new(Arc::clone(&stream.replication))).collect();
    opened.resume(&groups);
    if created {
        opened.make(&groups, random, &options)?;
    }
    let node = opened.finish(&options, groups, identity, created)?;
    Ok(RecoveredMembers { node, streams })
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
    let streams = opened.take_streams();
    for (number, stream) in streams.into_iter().enumerate() {
        if opened.replay.groups[number].begins_with.is_some()
            && let Some(stream) = stream
        {
            let here = opened.known.as_ref().ok_or(StartError::NoIdentity)?;
            let group = opened.appender(number, stream, member(here));
            opened.begin_with_snapshot(number, &group, true)?;
        }
    }
    let summary = opened.summary_of_all(options)?;
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
    let streams = opened.take_streams();
    let known = opened.known.take();
    let Some(identity) = known.filter(|_| streams.iter().all(Option::is_some)) else {
        return Err(StartError::NoDatabase(dir.to_path_buf()));
    };
    let here = member(&identity);
    let streams = streams.into_iter().flatten().enumerate();
    let groups: Vec<_> = streams.map(|(number, stream)| opened.appender(number, stream, here)).collect();
    opened.resume(&groups);
    for group in groups {
        let promised = identity.promised.get(&group.id()).copied().unwrap_or_default();
        let highest = promised.max(group.place().configuration.epoch);
        let configuration = GroupConfiguration::alone(Epoch(highest.0 + 1), here);
        commit::wait(&opened.log, |completion| group.start_epoch(configuration, completion))?;
    }
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
