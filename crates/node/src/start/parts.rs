//! What the threads are handed, made before the first of them.

use crate::administration::Shutdown;
use crate::backup::Backups;
use crate::cancelling::{Cancelling, Elsewhere};
use crate::collect::Collector;
use crate::compound::{self, Compounds};
use crate::connections::{ConnectionLimits, Connections};
use crate::group_schemas::GroupSchemas;
use crate::groups_calls::GroupsCalls;
use crate::listen::connections_max;
use crate::mailbox::{Mail, NetworkMailbox};
use crate::message::{ExpiryNotice, SnapshotJob, SystemJob, TaskNotice};
use crate::mode::Mode;
use crate::network;
use crate::options::ServerOptions;
use crate::plan_cache::PlanCache;
use crate::publish::{Publisher, lacks_java};
use crate::routes::{GroupWays, Routes};
use crate::schema_follow::{FollowNotice, SchemaFollow};
use crate::start::lots::{LotWays, connect_lots};
use crate::start::opening::{Doors, identity};
use crate::submit::Submit;
use crate::work::Work;
use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::Settings;
use ferrite_io::threads::ThreadError;
use ferrite_io::{Clock, Disk, MeteredDisk};
use ferrite_log::LogStatistics;
use ferrite_member::forward::{self, Forward};
use ferrite_member::lots::SequencerNotice;
use ferrite_member::{Member, Topology, peer_connections_max};
use ferrite_partition::assemble::{PartitionEnds, partition_ends};
use ferrite_partition::coordinator::Job;
use ferrite_partition::long_read::{Home, LongRead, LongReads};
use ferrite_partition::recovery::{RecoveredGroup, RecoveredNode, Summary};
use ferrite_partition::{Compiled, GroupInboxes, RowCounts};
use ferrite_system::hosts::Hosts;
use ferrite_system::lots::LotFigures;
use ferrite_system::processor::ProcessorUse;
use ferrite_system::saved::SnapshotStatus;
use ferrite_system::{Identity, expired, forwarding, task_figures};
use mio::{Poll, Waker};
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// What the threads have in common. Each is handed what it uses; this itself ends with the start.
pub(super) struct Parts {
    pub(super) identity: Arc<Identity>,
    pub(super) topology: Arc<Topology>,
    pub(super) settings: Settings,
    pub(super) started: Instant,
    /// The catalog in force.
    pub(super) compiled: Arc<ArcSwap<Compiled>>,
    /// Procedures of it cannot run here.
    pub(super) unable: Arc<AtomicBool>,
    /// Those of the groups, from which it follows.
    pub(super) schemas: Arc<GroupSchemas>,
    pub(super) routes: Arc<Routes>,
    pub(super) mode: Arc<Mode>,
    pub(super) work: Arc<Work>,
    pub(super) connections: Arc<Connections>,
    pub(super) cancelling: Arc<Cancelling>,
    pub(super) compounds: Arc<Compounds>,
    pub(super) plan_cache: Arc<PlanCache>,
    pub(super) row_counts: Arc<RowCounts>,
    pub(super) network: Arc<[Arc<NetworkMailbox>]>,
    /// None: a node without others.
    pub(super) forward: Option<Forward>,
    /// None: there is one group.
    pub(super) follow: Option<Arc<SchemaFollow>>,
    /// None: there is one group.
    pub(super) lots: Option<LotWays>,
    pub(super) system: Sender<SystemJob>,
    pub(super) snapshots: Sender<SnapshotJob>,
    pub(super) expiry: Sender<ExpiryNotice>,
    pub(super) tasks: Sender<TaskNotice>,
    pub(super) log: Arc<LogStatistics>,
    pub(super) recovery: Arc<Summary>,
    pub(super) snapshot_status: Arc<SnapshotStatus>,
    pub(super) expired: Arc<expired::Figures>,
    pub(super) forwarding: Arc<forwarding::Figures>,
    pub(super) lot_figures: Arc<LotFigures>,
    pub(super) task_figures: Arc<task_figures::Figures>,
    pub(super) shutdown: Arc<Shutdown>,
}

/// The threads' ends of what [`Parts`] has the other ends of.
pub(super) struct Inboxes {
    pub(super) executors: ExecutorEnds,
    pub(super) system: Receiver<SystemJob>,
    pub(super) snapshots: Receiver<SnapshotJob>,
    pub(super) expiry: Receiver<ExpiryNotice>,
    pub(super) tasks: Receiver<TaskNotice>,
    pub(super) compounds: compound::Inboxes,
    /// The second is of the thread that orders calls of several groups, where there are several.
    pub(super) forward: (forward::Inbox, Option<Receiver<SequencerNotice>>),
    /// None: there is one group.
    pub(super) follow: Option<Receiver<FollowNotice>>,
    pub(super) network: Vec<NetworkEnd>,
}

/// Of the groups' partitions and coordinators, and long reads. They send to each other, too.
pub(super) struct ExecutorEnds {
    /// In the order of the recovered groups.
    pub(super) groups: Vec<GroupEnds>,
    pub(super) long_reads: LongReads,
    pub(super) reads: Receiver<LongRead>,
}

/// Of one group.
pub(super) struct GroupEnds {
    pub(super) partitions: Vec<PartitionEnds>,
    pub(super) coordinator: Sender<Job>,
    pub(super) jobs: Receiver<Job>,
}

impl GroupEnds {
    fn new(group: &RecoveredGroup) -> GroupEnds {
        let (coordinator, jobs) = unbounded();
        GroupEnds { partitions: partition_ends(group.stores.len()), coordinator, jobs }
    }

    fn ways(&self, group: &RecoveredGroup) -> GroupWays {
        let senders = self.partitions.iter().map(|(sender, _)| sender.clone()).collect();
        let partitions = GroupInboxes::new(group.partitions.clone(), senders);
        GroupWays { partitions, coordinator: self.coordinator.clone() }
    }
}

/// What wakes a network thread and brings its messages, created before any threads.
pub(super) struct NetworkEnd {
    pub(super) poll: Poll,
    pub(super) mailbox: Arc<NetworkMailbox>,
    pub(super) mail: Receiver<Mail>,
}

pub(super) fn network_ends(count: usize) -> Result<Vec<NetworkEnd>, ThreadError> {
    let end = |_| {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), network::WAKER)?;
        let (mailbox, mail) = NetworkMailbox::new(waker);
        Ok(NetworkEnd { poll, mailbox, mail })
    };
    (0..count.max(1)).map(end).collect::<io::Result<_>>().map_err(ThreadError)
}

/// Makes what the threads are handed, before the first of them.
pub(super) fn connect(
    options: &ServerOptions,
    doors: &Doors,
    recovered: &RecoveredNode,
    clock: &Arc<dyn Clock>,
    member: Option<&Member>,
) -> Result<(Parts, Inboxes), ThreadError> {
    let (forward, forward_inbox) = forward::connect();
    let forward = member.map(|_| forward);
    let (system, system_inbox) = unbounded();
    let (snapshots, snapshot_inbox) = unbounded();
    let (expiry, expiry_inbox) = unbounded();
    let (tasks, task_inbox) = unbounded();
    let (compounds, compound_inboxes) = Compounds::new(&options.settings, Arc::clone(clock));
    let groups: Vec<GroupEnds> = recovered.groups.iter().map(GroupEnds::new).collect();
    let home = Home::Coordinator(groups.first().expect("a node hosts groups").coordinator.clone());
    let (long_reads, reads) = LongReads::new(options.long_query_threads.max(1), home);
    let network = network_ends(options.network_threads)?;
    let identity = identity(options, doors, recovered, member);
    let ways = recovered.groups.iter().zip(&groups).map(|(group, ends)| ends.ways(group));
    let routes = Arc::new(Routes::with(&recovered.genesis.groups, ways));
    let (lots, sequencer) = connect_lots(member, &routes).unzip();
    let (follow, follow_inbox) = lots.is_some().then(SchemaFollow::connect).unzip();
    let publisher = publisher(recovered, &network, expiry.clone(), tasks.clone());
    let parts = Parts {
        topology: Arc::new(Topology::new(Hosts::alone(identity.host_id))),
        identity: Arc::new(identity),
        settings: options.settings,
        started: Instant::now(),
        compiled: Arc::clone(&publisher.compiled),
        unable: Arc::clone(&publisher.unable),
        routes,
        lots,
        follow,
        mode: Arc::default(),
        work: Arc::new(Work::new(&options.settings)),
        connections: Arc::new(Connections::new(connection_limits(options, member.is_some()))),
        cancelling: Arc::new(cancelling(&long_reads, forward.clone())),
        compounds: Arc::new(compounds),
        plan_cache: Arc::clone(&publisher.plan_cache),
        row_counts: Arc::new(row_counts(recovered)),
        forward,
        network: Arc::clone(&publisher.network),
        schemas: Arc::new(group_schemas(recovered, publisher)),
        system,
        snapshots,
        expiry,
        tasks,
        log: Arc::clone(recovered.log.statistics()),
        recovery: Arc::new(recovered.summary.clone()),
        snapshot_status: Arc::default(),
        expired: Arc::default(),
        forwarding: Arc::default(),
        lot_figures: Arc::default(),
        task_figures: Arc::default(),
        shutdown: Arc::default(),
    };
    let inboxes = Inboxes {
        executors: ExecutorEnds { groups, long_reads, reads },
        system: system_inbox,
        snapshots: snapshot_inbox,
        expiry: expiry_inbox,
        tasks: task_inbox,
        compounds: compound_inboxes,
        forward: (forward_inbox, sequencer),
        follow: follow_inbox,
        network,
    };
    Ok((parts, inboxes))
}

/// Where calls that are not wanted any more are listed.
fn cancelling(long_reads: &LongReads, forward: Option<Forward>) -> Cancelling {
    let elsewhere =
        forward.map(|forward| -> Elsewhere { Box::new(move |connection, cancel| forward.cancel(connection, cancel)) });
    Cancelling { list: Arc::clone(long_reads.cancellations().all()), long_reads: long_reads.line(), elsewhere }
}

fn connection_limits(options: &ServerOptions, is_member: bool) -> ConnectionLimits {
    let peers = if is_member { peer_connections_max() } else { 0 };
    let wanted = options.connection_limits.connections_max;
    ConnectionLimits {
        connections_max: connections_max(wanted, options.network_threads, peers),
        ..options.connection_limits
    }
}

/// What adopts a new version of the schema.
fn publisher(
    recovered: &RecoveredNode,
    network: &[NetworkEnd],
    expiry: Sender<ExpiryNotice>,
    tasks: Sender<TaskNotice>,
) -> Publisher {
    Publisher {
        compiled: Arc::new(ArcSwap::new(Arc::clone(recovered.compiled()))),
        plan_cache: Arc::default(),
        expiry,
        tasks,
        network: network.iter().map(|end| Arc::clone(&end.mailbox)).collect(),
        unable: Arc::new(AtomicBool::new(lacks_java(recovered.compiled()))),
    }
}

fn group_schemas(recovered: &RecoveredNode, publisher: Publisher) -> GroupSchemas {
    let versions = recovered.groups.iter().map(|group| (group.partitions.group(), Arc::clone(&group.compiled)));
    GroupSchemas::new(publisher, versions.collect())
}

/// Of the cluster's partitions, as far as they are here.
fn row_counts(recovered: &RecoveredNode) -> RowCounts {
    let here = recovered.groups.iter().map(|group| group.partitions.len()).sum();
    RowCounts::of_some(recovered.genesis.partitions() as usize, here)
}

impl Parts {
    pub(super) fn submit(&self, query_time_max: Duration) -> Arc<Submit> {
        Arc::new(Submit {
            compiled: Arc::clone(&self.compiled),
            schemas: Arc::clone(&self.schemas),
            mode: Arc::clone(&self.mode),
            routes: Arc::clone(&self.routes),
            system: self.system.clone(),
            compounds: Arc::clone(&self.compounds),
            query_time_max,
            gates: OnceLock::new(),
            forward: self.forward.clone(),
            elsewhere: Arc::default(),
            groups_calls: GroupsCalls::new(self.lots.as_ref().map(|lots| lots.sequencer.clone())),
        })
    }

    pub(super) fn collector(&self, backups: &Arc<Backups>, disk: &Arc<MeteredDisk>) -> Collector {
        Collector {
            identity: Arc::clone(&self.identity),
            topology: Arc::clone(&self.topology),
            settings: self.settings,
            compiled: Arc::clone(&self.compiled),
            routes: Arc::clone(&self.routes),
            network: Arc::clone(&self.network),
            mode: Arc::clone(&self.mode),
            started: self.started,
            processor: ProcessorUse::new(self.started),
            log: Arc::clone(&self.log),
            disk: Arc::clone(disk) as Arc<dyn Disk>,
            recovery: Arc::clone(&self.recovery),
            snapshots: Arc::clone(&self.snapshot_status),
            backups: Arc::clone(backups),
            expired: Arc::clone(&self.expired),
            forwarding: Arc::clone(&self.forwarding),
            lots: Arc::clone(&self.lot_figures),
            tasks: Arc::clone(&self.task_figures),
            compounds: Arc::clone(&self.compounds),
            long_reads: self.cancelling.long_reads.clone(),
            plan_cache: Arc::clone(&self.plan_cache),
            baselines: Mutex::default(),
        }
    }
}
