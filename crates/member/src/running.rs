//! The threads of a node of a cluster, and what the server's owner asks of them.

use crate::clients::Clients;
use crate::directory::Unsynced;
use crate::drain::Drain;
use crate::effects::{DataEffects, ServerEffects, StopProcess};
use crate::error::MemberError;
use crate::figures::{AllFigures, OwnFigures};
use crate::hand_overs::HandOvers;
use crate::health::{Healths, OwnVote};
use crate::hosted::{Hosted, HostedGroup, RestOfData, Transferring, of_group};
use crate::join::{self, Joined};
use crate::links::{self, Links, hosts_of};
use crate::loss::Losses;
use crate::lots::{self, LotHub};
use crate::membership_report::MembershipReport;
use crate::metadata::MetadataThread;
use crate::node::NodeThread;
use crate::node_status::{NodeStatus, StatusSnapshot};
use crate::notices::Notices;
use crate::open::Member;
use crate::orders::Order;
use crate::pausing::Pauses;
use crate::peer_dispatcher::{DataInboxes, Message, MetadataNotice, PeerHandlers, SupplierNotice};
use crate::procedures::Procedures;
use crate::quorum_report::QuorumReport;
use crate::reachability::Reachability;
use crate::remove::Removals;
use crate::snapshot_request::SnapshotRequests;
use crate::status::Handle;
use crate::supply::SupplierThread;
use crate::tolerance::waits_for;
use crate::topology::Topology;
use crate::transfer::TransferThread;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use ferrite_base::limits::{JOINS_MAX, METADATA_MESSAGES_MAX};
use ferrite_cluster::{Cause, Groups, Lease, Metadata, Node, Parties, Start};
use ferrite_group::{FIRST_GROUP, Identity, IdentityFile};
use ferrite_io::threads::{ThreadError, Threads, spawn};
use ferrite_io::{Clock, Disk, Random, SystemRandom};
use ferrite_log::SegmentIndex;
use ferrite_meta::founding::Acquainted;
use ferrite_meta::{Controller, Node as Registration, State};
use ferrite_notice::Notice;
use ferrite_partition::applier::CopyStart;
use ferrite_partition::cancel::Cancellations;
use ferrite_partition::waker::{WakingSender, channel_to, waking_channel};
use ferrite_plan::external::RuntimeHandle;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two checks whether the start was given up.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After this the operator hears which nodes the start waits for. Where all start again, it takes
/// three seconds until the lease of an earlier process must have ended.
const SAY_AFTER: Duration = Duration::from_secs(5);

/// What the cluster's threads use of the rest of the node.
pub struct Uses {
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    pub node_status: Arc<NodeStatus>,
    pub stop: StopProcess,
    pub figures: OwnFigures,
}

/// The same of a node that keeps data.
pub struct DataUses {
    pub clients: Arc<dyn Clients>,
    /// Procedures or functions of the catalog in force cannot run on this node: where another can
    /// lead, it does not.
    pub unable: Arc<AtomicBool>,
    pub topology: Arc<Topology>,
    pub drain: Box<dyn Drain>,
    pub cancellations: Arc<Cancellations>,
    pub snapshots: SnapshotRequests,
    pub log_index: Arc<SegmentIndex>,
    pub runtime: RuntimeHandle,
    pub transaction_bytes_max: usize,
    /// Bytes a second at which snapshots are sent to other nodes, those of all groups together.
    pub transfer_rate: u64,
    pub identity: Identity,
    /// In the order of the member's streams.
    pub groups: Vec<HostedGroup>,
    /// Where a cluster has several groups.
    pub lots: Option<Arc<LotHub>>,
}

/// A node of a cluster that runs.
pub struct Running {
    node_status: Arc<NodeStatus>,
    unsynced: Arc<Unsynced>,
    whole: Arc<AtomicBool>,
    orders: WakingSender<Order>,
    links: Links,
    healths: Arc<Healths>,
    figures: Arc<AllFigures>,
    begun: Instant,
    before: Arc<State>,
}

impl Running {
    /// What calls about the cluster use.
    pub fn handle(&self) -> Handle {
        let orders = self.orders.clone();
        let links = self.links.clone();
        let node_status = Arc::clone(&self.node_status);
        let healths = Arc::clone(&self.healths);
        let figures = Arc::clone(&self.figures);
        let before = Arc::clone(&self.before);
        Handle { orders, node_status, links, healths, figures, begun: self.begun, before }
    }

    /// The way to the node's thread.
    pub fn orders(&self) -> &WakingSender<Order> {
        &self.orders
    }

    pub fn node_status(&self) -> &Arc<NodeStatus> {
        &self.node_status
    }

    /// Why this process has to end, if it has.
    pub fn ended(&self) -> Option<String> {
        self.node_status.seen().ended.clone()
    }

    /// The same process may continue from an empty copy.
    pub fn begins_anew(&self) -> bool {
        self.node_status.seen().begins_anew
    }

    /// This process is about to end: the others hear that at once.
    pub fn ends(&self) {
        // Its thread has ended only with the process.
        let _ = self.orders.send(Order::Ends);
    }

    /// The log was closed in good order.
    pub fn closed(&self) {
        if let Err(error) = self.unsynced.closed(self.whole.load(Ordering::Relaxed)) {
            ferrite_io::notify(Notice::MarkNotWritten { reason: error.to_string() });
        }
    }

    /// Waits until this node takes part and a node leads that may report it, and prints which nodes
    /// it waits for.
    pub fn takes_part(&self, ends: &AtomicBool) -> Result<(), MemberError> {
        self.wait_until(ends, |seen| seen.registered && seen.leader().is_some())
    }

    /// Waits until this node takes part.
    pub fn is_registered(&self, ends: &AtomicBool) -> Result<(), MemberError> {
        self.wait_until(ends, |seen| seen.registered)
    }

    fn wait_until(&self, ends: &AtomicBool, holds: impl Fn(&StatusSnapshot) -> bool) -> Result<(), MemberError> {
        let mut waited = Duration::ZERO;
        let mut said = false;
        while !self.node_status.wait(LOOK_EVERY, |seen| seen.ended.is_some() || holds(seen)) {
            if ends.load(Ordering::Acquire) {
                return Err(MemberError::Ended);
            }
            waited += LOOK_EVERY;
            if waited >= SAY_AFTER && !std::mem::replace(&mut said, true) {
                ferrite_io::notify(self.awaits());
            }
        }
        self.node_status.seen().why_it_ends().map_or(Ok(()), Err)
    }

    /// The nodes it waits for, in words.
    pub fn waits_for(&self) -> String {
        self.awaits().to_string()
    }

    fn awaits(&self) -> Notice {
        let seen = self.node_status.seen();
        let here = self.node_status.here();
        let reachability = Reachability::now(&seen.state, here, &self.links, &self.healths);
        let others = hosts_of(&seen.state, here).into_iter().filter(|(node, _)| *node != here);
        let names: Vec<String> = others.map(|(node, host)| format!("node {node} ({host})")).collect();
        match seen.registered {
            true => {
                let group = seen.state.groups().get(&FIRST_GROUP);
                let nodes = group.and_then(|group| waits_for(group, &reachability)).unwrap_or_default();
                Notice::WaitsForLeader { nodes }
            }
            false => Notice::WaitsForMajority { nodes: names },
        }
    }
}

/// Begins the threads of a node that keeps data, which ends before the connections do.
pub fn start(threads: &mut Threads, member: Member, uses: Uses, data: DataUses) -> Result<Running, MemberError> {
    let Member { joined, streams, host, causes, lease } = member;
    let rest = RestOfData {
        disk: &uses.disk,
        dir: &joined.dir,
        here: joined.node,
        database: joined.database,
        log_index: &data.log_index,
        runtime: &data.runtime,
        transaction_bytes_max: data.transaction_bytes_max,
        // All may send at the same time.
        transfer_rate: data.transfer_rate / streams.len().max(1) as u64,
    };
    let mut hosted = Hosted::default();
    assert_eq!(data.groups.len(), streams.len(), "each group that is hosted has its stream");
    for (own, stream) in data.groups.into_iter().zip(streams) {
        stream.replication.is_limited_by(Arc::clone(&data.unable));
        host.set_gates(BTreeMap::from([(stream.replication.id(), own.gates.clone())]));
        hosted.add(own, stream, &rest).map_err(MemberError::Cluster)?;
    }
    let Hosted { groups, parties, copies, suppliers, transferring } = hosted;
    let (supplier, supplier_inbox) = unbounded();
    let inboxes = DataInboxes { transfers: Transferring::ways(&transferring), supplier };
    let procedures = Procedures::new(Arc::clone(&data.clients), data.topology);
    let effects = DataEffects {
        inboxes: inboxes.clone(),
        clients: data.clients,
        appliers: Arc::default(),
        copies,
        snapshots: Arc::clone(&data.snapshots),
        transfer_rate: data.transfer_rate,
        drain: data.drain,
        cancellations: data.cancellations,
    };
    let links = joined.links.clone();
    let clock = Arc::clone(&uses.clock);
    let ends = Arc::new(Ends { node_status: Arc::clone(&uses.node_status), stop: Arc::clone(&uses.stop) });
    let parts = NodeParts {
        identity: data.identity,
        parties,
        groups: Groups::new(groups),
        causes,
        lease,
        effects: Some(effects),
        unable: Some(data.unable),
        procedures: Some(procedures),
    };
    let dispatcher = Arc::clone(&joined.dispatcher);
    let running = start_with(threads, joined, uses, parts, |threads, orders| {
        let thread = |transferring: Transferring| {
            let ends = Arc::clone(&ends);
            let fail = Box::new(move |reason: &str| ends.end(reason));
            transferring.thread(&data.snapshots, orders, &links, &clock, fail)
        };
        let transfers = transferring.into_iter().map(thread).collect();
        let supplier = SupplierThread {
            suppliers,
            inbox: supplier_inbox,
            links: links.clone(),
            transfers: inboxes.transfers.clone(),
            clock: Arc::clone(&clock),
            notices: Notices::default(),
        };
        start_suppliers(threads, inboxes, supplier, transfers)
    })?;
    if let Some(hub) = data.lots {
        lots::take_part(&dispatcher, &running.links, &running.before, hub);
    }
    Ok(running)
}

/// Begins the threads that bring other nodes what they lack.
fn start_suppliers(
    threads: &mut Threads,
    inboxes: DataInboxes,
    supplier: SupplierThread,
    transfers: Vec<TransferThread>,
) -> Result<(), ThreadError> {
    threads.ended_by(move || {
        let _ = inboxes.supplier.send(SupplierNotice::Stop);
        inboxes.transfers.stop();
    });
    threads.spawn("supplier", move || supplier.run())?;
    for transfer in transfers {
        let name = of_group("transfer", transfer.group());
        threads.spawn(&name, move || transfer.run())?;
    }
    Ok(())
}

/// Begins the threads of a node without data.
pub fn start_witness(
    threads: &mut Threads,
    joined: Joined,
    uses: Uses,
    identity: Identity,
) -> Result<Running, ThreadError> {
    let parts = NodeParts {
        identity,
        parties: BTreeMap::new(),
        groups: Groups::new([]),
        causes: waking_channel(),
        lease: Lease::new(Arc::clone(&uses.clock)),
        effects: None,
        unable: None,
        procedures: None,
    };
    start_with(threads, joined, uses, parts, |_, _| Ok(()))
}

struct NodeParts {
    identity: Identity,
    parties: BTreeMap<ferrite_base::GroupId, (Parties, CopyStart)>,
    groups: Groups,
    causes: (WakingSender<Cause>, Receiver<Cause>),
    lease: Lease,
    effects: Option<DataEffects>,
    unable: Option<Arc<AtomicBool>>,
    procedures: Option<Arc<Procedures>>,
}

/// The owner that ends this process.
struct Ends {
    node_status: Arc<NodeStatus>,
    stop: StopProcess,
}

impl Ends {
    fn end(&self, reason: &str) {
        let mut is_news = false;
        self.node_status.change(|seen| {
            is_news = seen.ended.is_none();
            seen.ended.get_or_insert_with(|| reason.to_owned());
        });
        // A second request has nothing left to wait for.
        if is_news {
            ferrite_io::notify(Notice::NodeEnds { reason: reason.to_owned() });
            (self.stop)();
        }
    }
}

/// Looks up the names of the others that it is sent, and records who they are. A name that is not
/// found takes a while, so nothing waits for the end of this thread.
fn spawn_names(joined: &Joined, disk: &Arc<dyn Disk>) -> Result<Sender<(u64, Arc<State>)>, ThreadError> {
    let (names, told) = unbounded();
    let node = joined.node;
    let hosts = hosts_of(&joined.state, node);
    let peers = joined.links.peers().clone();
    let founders = Arc::clone(&joined.founders);
    let disk = Arc::clone(disk);
    let dir = joined.dir.clone();
    let learn = move |index, state: &State| {
        let known = Acquainted { node, index, state: state.clone() };
        if let Err(error) = founders.learn(&*disk, &dir, known) {
            ferrite_io::notify(Notice::NodesNotRecorded { reason: error.to_string() });
        }
    };
    spawn("names", move || links::look_up(&peers, (node, hosts), &told, learn))?;
    Ok(names)
}

/// `between`: threads that end after the node's and before the metadata's.
fn start_with(
    threads: &mut Threads,
    mut joined: Joined,
    uses: Uses,
    parts: NodeParts,
    between: impl FnOnce(&mut Threads, &WakingSender<Order>) -> Result<(), ThreadError>,
) -> Result<Running, ThreadError> {
    let NodeParts { identity, parties, groups, causes: (causes, inbox), lease, effects, unable, procedures } = parts;
    let (metadata, metadata_inbox) = unbounded();
    let (metadata_messages, metadata_arrivals) = bounded::<Message>(METADATA_MESSAGES_MAX);
    let (joins, joins_inbox) = bounded(JOINS_MAX);
    let names = spawn_names(&joined, &uses.disk)?;
    let (orders, orders_inbox) = channel_to(causes.waker());
    let controller = joined.voter.take().map(|voter| Controller::new(joined.node, voter));
    let voters = joined.state.voters().iter().copied().collect();
    let here = joined.node;
    let disk = Arc::clone(&uses.disk);
    let dir = joined.dir.clone();
    let forgotten_disk = Arc::clone(&disk);
    let forgotten_dir = dir.clone();
    let forget_vote = Box::new(move || join::forget_vote(&*forgotten_disk, &forgotten_dir));
    let votes = controller.is_some();
    let open_vote = Box::new(move || {
        let voter = join::open_voter(here, &disk, &dir)?;
        Ok(voter.map(|voter| Controller::new(here, voter)))
    });
    let vote = Arc::<OwnVote>::default();
    vote.rests(controller.as_ref().is_some_and(Controller::votes));
    let thread = MetadataThread {
        metadata: Metadata::new(joined.node, voters, controller, SystemRandom.next_u64()),
        inbox: metadata_inbox,
        messages: metadata_arrivals,
        joins: joins_inbox,
        causes: causes.clone(),
        links: joined.links.clone(),
        names,
        clock: Arc::clone(&uses.clock),
        notices: Notices::default(),
        forget_vote,
        open_vote,
        // A fault of the disk may have been in the way of it.
        vote_again: (!votes).then_some(0),
        vote: Arc::clone(&vote),
        next_probe: 0,
    };
    let stop = metadata.clone();
    threads.ended_by(move || drop(stop.send(MetadataNotice::Stop)));
    threads.spawn("metadata", move || thread.run())?;
    between(threads, &orders)?;
    let unsynced = Arc::clone(&joined.unsynced);
    let whole = Arc::new(AtomicBool::new(joined.intact));
    let healths = Arc::<Healths>::default();
    let figures = Arc::<AllFigures>::default();
    let handlers = PeerHandlers {
        healths: Arc::clone(&healths),
        figures: Arc::clone(&figures),
        procedures: procedures.clone(),
        groups: groups.clone(),
        causes: causes.clone(),
        metadata: metadata.clone(),
        metadata_messages,
        orders: orders.clone(),
        joins,
        node_status: Arc::clone(&uses.node_status),
        data: effects.as_ref().map(|effects| effects.inboxes.clone()),
    };
    let appliers = effects.as_ref().map(|effects| Arc::clone(&effects.appliers)).unwrap_or_default();
    let hand_overs = Arc::<HandOvers>::default();
    let effects = ServerEffects {
        disk: uses.disk,
        dir: joined.dir,
        identity: IdentityFile::default(),
        metadata: metadata.clone(),
        data: effects,
        node_status: Arc::clone(&uses.node_status),
        unsynced: Arc::clone(&unsynced),
        hand_overs: Arc::clone(&hand_overs),
        stop: uses.stop,
    };
    let registration: Registration = joined.registration;
    let start = Start { identity, registration, parties, groups: groups.clone(), lease };
    let node = Node::new(start, &causes, inbox, Box::new(effects));
    let thread = NodeThread {
        node,
        orders: orders_inbox,
        waker: Arc::clone(causes.waker()),
        node_status: Arc::clone(&uses.node_status),
        groups,
        appliers,
        unsynced: Arc::clone(&unsynced),
        hand_overs,
        losses: Losses::default(),
        removals: Removals::default(),
        pauses: Pauses::default(),
        keepers: MembershipReport::default(),
        quorum: QuorumReport::default(),
        metadata: metadata.clone(),
        whole: Arc::clone(&whole),
        clock: uses.clock,
        links: joined.links.clone(),
        healths: Arc::clone(&healths),
        figures: Arc::clone(&figures),
        own_figures: uses.figures,
        vote,
        ends: false,
        giving_way: BTreeMap::new(),
        unable,
        procedures,
        notices: Notices::default(),
        next_look: 0,
    };
    let goodbye = orders.clone();
    threads.ended_by(move || drop(goodbye.send(Order::Goodbye)));
    threads.spawn("cluster", move || thread.run())?;
    joined.dispatcher.open(handlers);
    let node_status = uses.node_status;
    let links = joined.links;
    let begun = Instant::now();
    Ok(Running { node_status, unsynced, whole, orders, links, healths, figures, begun, before: Arc::new(joined.state) })
}
