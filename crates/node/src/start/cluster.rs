//! What a node has besides where it is one of a cluster: the threads of its part in it, and what
//! these use of the rest of the node.

use crate::backup::Backups;
use crate::drain::Drain;
use crate::first_schema::{FirstSchema, Place};
use crate::forward_executor::{self, ForwardExecutor};
use crate::mailbox::Mail;
use crate::message::SnapshotJob;
use crate::mode::Mode;
use crate::options::{ServerError, ServerOptions};
use crate::routes::GroupWays;
use crate::start::lots::start_sequencer;
use crate::start::parts::Parts;
use crate::submit::Submit;
use crossbeam_channel::{Receiver, Sender, bounded};
use ferrite_base::{NodeId, memory};
use ferrite_group::FIRST_GROUP;
use ferrite_io::threads::{ThreadError, Threads};
use ferrite_io::{Clock, Disk, MeteredDisk, SystemClock};
use ferrite_member::forward::{self, Forward, ForwardThread};
use ferrite_member::lots::SequencerNotice;
use ferrite_member::{
    Calls, Clients, CopySide, DataUses, Figures, HostedGroup, Member, MemberError, NodeStatus, OwnFigures, Room,
    Running, StatusSnapshot, Uses,
};
use ferrite_partition::gate::Gate;
use ferrite_partition::recovery::RecoveredNode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Passes calls on to the leader, takes those of other nodes, and orders those of several groups.
/// Ends when no thread is left that answers.
pub(super) fn start_forward(
    threads: &mut Threads,
    parts: &Parts,
    member: &Member,
    (inbox, sequencer): (forward::Inbox, Option<Receiver<SequencerNotice>>),
    submit: &Arc<Submit>,
    clock: &Arc<dyn Clock>,
) -> Result<(), ThreadError> {
    let forward = Arc::new(parts.forward.clone().expect("a member passes calls on"));
    let uses = forward_executor::Uses {
        submit: Arc::clone(submit),
        work: Arc::clone(&parts.work),
        connections: Arc::clone(&parts.connections),
        cancelling: Arc::clone(&parts.cancelling),
        mailboxes: Arc::clone(&parts.network),
    };
    let executor = ForwardExecutor::new(uses, Forward::clone(&forward));
    let links = Arc::new(member.joined.links.clone());
    let table = parts.routes.kept_table();
    let thread = ForwardThread::new(inbox, links, executor, Arc::clone(&parts.forwarding), table.hosted_groups());
    member.joined.dispatcher.take_calls(Arc::clone(&forward) as Arc<dyn Calls>);
    threads.ended_by(move || forward.stop());
    threads.spawn("forward", move || thread.run())?;
    match parts.lots.clone().zip(sequencer) {
        Some(ways) => start_sequencer(threads, member, ways, &parts.cancelling.list, &parts.lot_figures, clock),
        None => Ok(()),
    }
}

/// What the start has made so far, of which the cluster's threads use something.
pub(super) struct RestOfNode<'a> {
    pub(super) options: &'a ServerOptions,
    pub(super) parts: &'a Parts,
    pub(super) recovered: &'a RecoveredNode,
    pub(super) backups: &'a Arc<Backups>,
    pub(super) disk: &'a Arc<MeteredDisk>,
    pub(super) clock: &'a Arc<dyn Clock>,
}

/// The threads of a node's part in its cluster.
pub(super) fn start_cluster(
    threads: &mut Threads,
    member: Member,
    copies: &[Arc<CopySide>],
    gates: Vec<Vec<Arc<Gate>>>,
    rest: &RestOfNode<'_>,
) -> Result<Running, MemberError> {
    let RestOfNode { options, parts, recovered, backups, disk, clock } = *rest;
    parts.topology.leads_by(parts.identity.host_id, member.lease.clone());
    let shutdown = Arc::clone(&parts.shutdown);
    let uses = Uses {
        disk: Arc::clone(disk) as Arc<dyn Disk>,
        clock: Arc::clone(clock),
        node_status: Arc::new(node_status(parts, &member)),
        stop: Arc::new(move || shutdown.ask()),
        figures: own_figures(parts, backups),
    };
    let snapshots = parts.snapshots.clone();
    let forward = parts.forward.clone().expect("a member passes calls on");
    let mode = Arc::clone(&parts.mode);
    let drain = Drain::new(Arc::clone(&parts.network), forward, Arc::clone(&parts.routes), mode, parts.system.clone());
    let data = DataUses {
        clients: Arc::clone(&parts.schemas) as Arc<dyn Clients>,
        unable: Arc::clone(&parts.unable),
        topology: Arc::clone(&parts.topology),
        drain: Box::new(drain),
        cancellations: Arc::clone(&parts.cancelling.list),
        snapshots: Arc::new(move |group, request| drop(snapshots.send(SnapshotJob::OfCluster(group, request)))),
        log_index: Arc::clone(recovered.log.index()),
        runtime: options.runtime.clone(),
        transaction_bytes_max: options.settings.transaction_bytes,
        transfer_rate: options.cluster.transfer_rate,
        identity: recovered.identity.clone(),
        groups: hosted_groups(rest, copies, gates),
        lots: parts.lots.as_ref().map(|ways| Arc::clone(&ways.hub)),
    };
    ferrite_member::start(threads, member, uses, data)
}

/// What the cluster's threads use of each group that the node hosts.
fn hosted_groups(rest: &RestOfNode<'_>, copies: &[Arc<CopySide>], gates: Vec<Vec<Arc<Gate>>>) -> Vec<HostedGroup> {
    let table = rest.parts.routes.table();
    let groups = rest.recovered.groups.iter().zip(copies).zip(gates);
    let hosted = groups.map(|((own, copy), gates)| {
        let ways = table.ways_of(own.partitions.group()).cloned();
        let GroupWays { partitions, coordinator } = ways.expect("a group that was recovered is hosted");
        HostedGroup {
            partitions,
            coordinator,
            gates,
            copy: Arc::clone(copy),
            files: own.snapshots.files().clone(),
            sequences: own.sequences.clone(),
            compiled: Arc::clone(&own.compiled),
            history: own.history.clone(),
            lots: own.lots.clone(),
        }
    });
    hosted.collect()
}

/// The node's role in its cluster, and which of its parts hear of a change before others see it.
fn node_status(parts: &Parts, member: &Member) -> NodeStatus {
    let here = member.joined.node;
    let mode = Arc::clone(&parts.mode);
    let forward = parts.forward.clone().expect("a member passes calls on");
    let topology = Arc::clone(&parts.topology);
    let network = Arc::clone(&parts.network);
    let lots = parts.lots.as_ref().map(|lots| Arc::clone(&lots.hub));
    let told = move |seen: &StatusSnapshot| {
        set_mode(&mode, seen, here);
        lots.iter().for_each(|lots| lots.learn(seen));
        for group in seen.state.groups().keys() {
            let (leadership, epoch) = forward::leadership(seen, here, *group);
            forward.lead(*group, leadership, epoch);
        }
        if ferrite_member::hosts(seen).is_some_and(|hosts| topology.learn(hosts)) {
            network.iter().for_each(|mailbox| mailbox.send(Mail::TopologyChanged));
        }
    };
    let mode = Arc::clone(&parts.mode);
    let room = move || match () {
        () if mode.is_disk_low() => Room::None,
        () if mode.is_disk_nearly_low() => Room::Little,
        () => Room::Enough,
    };
    NodeStatus::new(here, member.lease.clone(), Box::new(room), Box::new(told))
}

/// Which calls a node takes follows from its role.
fn set_mode(mode: &Mode, seen: &StatusSnapshot, here: NodeId) {
    mode.hand_over(seen.hands_over_any());
    // Before it may lead.
    mode.pause_by(seen.state.settings().map_or(0, |settings| settings.revision), seen.paused);
    match seen.serves_any() {
        true => mode.serve(),
        false => mode.follow(seen.advice(here), seen.is_member(here)),
    }
}

/// What a node tells the others of itself.
fn own_figures(parts: &Parts, backups: &Arc<Backups>) -> OwnFigures {
    let mode = Arc::clone(&parts.mode);
    let identity = Arc::clone(&parts.identity);
    let recovery = Arc::clone(&parts.recovery);
    let snapshots = Arc::clone(&parts.snapshot_status);
    let backups = Arc::clone(backups);
    let began = Instant::now();
    Box::new(move || {
        let now = SystemClock.wall_micros();
        let age = |micros: i64| u64::try_from(now - micros).unwrap_or(0) / 1_000_000;
        let taken = snapshots.newest().map(|saved| saved.taken);
        Figures {
            uptime_seconds: began.elapsed().as_secs(),
            memory_bytes: memory::used() as u64,
            data_bytes: memory::bytes_used() as u64,
            disk_free_bytes: mode.disk_free(),
            snapshot_age_seconds: taken.or(recovery.snapshot.map(|found| found.taken)).map(age),
            backup_age_seconds: backups.last_complete_ms().map(|ended| age(ended * 1_000)),
            durability: identity.durability.clone(),
            end: Default::default(),
            behind: Vec::new(),
        }
    })
}

/// The first leader gives a new database its schema: that of the first group, which the others
/// follow.
pub(super) fn give_first_schema(
    threads: &mut Threads,
    first: FirstSchema,
    running: &Running,
    parts: &Parts,
    ends: &AtomicBool,
) -> Result<(), ServerError> {
    let Some(group) = parts.routes.table().ways_of(FIRST_GROUP).cloned() else { return Ok(()) };
    let place = Place {
        node_status: Arc::clone(running.node_status()),
        schemas: Arc::clone(&parts.schemas),
        follow: parts.follow.clone(),
        coordinator: group.coordinator,
    };
    if first.begin(&place, ends)? {
        let (told, stop) = bounded(0);
        threads.ended_by(move || drop::<Sender<()>>(told));
        threads.spawn("first-schema", move || first.go_on(&place, &stop))?;
    }
    Ok(())
}
