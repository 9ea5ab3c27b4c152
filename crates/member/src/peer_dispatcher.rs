//! What comes in at the cluster's port: questions of nodes that are founding, and messages of this
//! cluster's nodes, each for its receiver. Runs on the connections' threads, so nothing here waits.
//!
//! Promises that queues which peers fill are bounded: what there is no room for is lost, as on a
//! broken line, or is not read until there is.

use crate::figures::{AllFigures, Figures};
use crate::founding::Founders;
use crate::group_health;
use crate::health::{Health, Healths};
use crate::lots::LotHub;
use crate::node_status::NodeStatus;
use crate::notices::Notices;
use crate::orders::Order;
use crate::procedures::Procedures;
use crate::transfer_message;
use crossbeam_channel::Sender;
use ferrite_base::{GroupId, Incarnation, NodeId};
use ferrite_cluster::{Cause, Groups, MessageKind};
use ferrite_meta::founding::{Joins, Looks};
use ferrite_notice::Notice;
use ferrite_partition::applier::CopyStart;
use ferrite_partition::waker::WakingSender;
use ferrite_peer::{Handler, Lane, Room};
use ferrite_replica::group::Member;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// For the metadata's thread.
pub enum MetadataNotice {
    /// What this node asks the voters.
    Ask(ferrite_meta::Ask),
    Lost(NodeId),
    Stop,
}

/// For the thread of a group's transfers.
pub enum TransferNotice {
    /// The node follows, and needs a snapshot of what this leader has.
    Wanted(NodeId),
    /// The node no longer follows: others have become members.
    Unwanted(NodeId),
    /// This node no longer leads.
    Deposed,
    /// The snapshot that was asked for is there, or why not.
    Taken(Result<u64, String>),
    /// Another node's snapshot is this node's own, or what became of it.
    Installed(Installed),
    Stop,
}

/// The outcome of another node's snapshot.
pub enum Installed {
    Done(Box<CopyStart>),
    /// Nothing has changed, and the files are of no use.
    GivenUp(String),
    /// The same: this node has snapshots of its own up to that number.
    Number(u64),
    /// The node must end.
    Failed(String),
}

/// What came from a node's process, by which node.
pub type Message = (NodeId, Vec<u8>);

/// For the thread that reads the log for others.
pub enum SupplierNotice {
    Wanted(GroupId, ferrite_group::FromLog),
    Lost(NodeId),
    Stop,
}

/// Takes calls of clients that are connected to other nodes, and the answers to those that were
/// sent there. Must be quick. False: nothing more is read from that lane until
/// [`ferrite_peer::Peers::resume`].
pub trait Calls: Send + Sync + 'static {
    fn calls(&self, node: NodeId, incarnation: Incarnation, message: &[u8]) -> bool;
    fn answers(&self, node: NodeId, message: &[u8]) -> bool;
    /// What was sent to the node, or came from it, may be lost.
    fn lost(&self, node: NodeId);
}

/// The receivers of messages. Set once this node knows which node it is.
pub struct PeerHandlers {
    pub groups: Groups,
    pub causes: WakingSender<Cause>,
    pub metadata: Sender<MetadataNotice>,
    pub metadata_messages: Sender<Message>,
    pub orders: WakingSender<Order>,
    pub healths: Arc<Healths>,
    pub figures: Arc<AllFigures>,
    /// None: a witness.
    pub procedures: Option<Arc<Procedures>>,
    /// What nodes without an id ask the voters.
    pub joins: Sender<Joins>,
    /// What this node knows of the cluster.
    pub node_status: Arc<NodeStatus>,
    /// None: a witness.
    pub data: Option<DataInboxes>,
}

#[derive(Clone)]
pub struct DataInboxes {
    pub transfers: Transfers,
    pub supplier: Sender<SupplierNotice>,
}

/// The ways to the threads of transfers, one for each group that the node hosts.
#[derive(Clone)]
pub struct Transfers(Arc<BTreeMap<GroupId, TransferWays>>);

#[derive(Clone)]
pub struct TransferWays {
    pub notices: Sender<TransferNotice>,
    pub messages: Sender<Message>,
}

impl Transfers {
    pub fn new(ways: BTreeMap<GroupId, TransferWays>) -> Transfers {
        Transfers(Arc::new(ways))
    }

    /// A thread that has ended does not mind.
    pub fn send(&self, group: GroupId, notice: TransferNotice) {
        let _ = self.0.get(&group).map(|ways| ways.notices.send(notice));
    }

    pub fn stop(&self) {
        self.0.values().for_each(|ways| drop(ways.notices.send(TransferNotice::Stop)));
    }

    /// Another node's message, which is lost where there is no room or no such group.
    fn deliver(&self, from: NodeId, body: &[u8]) -> Result<(), String> {
        let (group, message) = transfer_message::untag(body)?;
        if let Some(ways) = self.0.get(&group) {
            drop(ways.messages.try_send((from, message.to_vec())));
        }
        Ok(())
    }
}

pub struct PeerDispatcher {
    founders: Arc<Founders>,
    handlers: OnceLock<PeerHandlers>,
    calls: OnceLock<Arc<dyn Calls>>,
    lots: OnceLock<Arc<LotHub>>,
    notices: Notices,
}

impl PeerDispatcher {
    pub fn new(founders: Arc<Founders>) -> PeerDispatcher {
        let notices = Notices::default();
        PeerDispatcher { founders, handlers: OnceLock::new(), calls: OnceLock::new(), lots: OnceLock::new(), notices }
    }

    /// Starts to take messages.
    ///
    /// # Panics
    /// When called twice.
    pub fn open(&self, handlers: PeerHandlers) {
        assert!(self.handlers.set(handlers).is_ok(), "the dispatcher is opened once");
    }

    /// Starts to take calls, and answers. A witness takes none.
    ///
    /// # Panics
    /// When called twice.
    pub fn take_calls(&self, calls: Arc<dyn Calls>) {
        assert!(self.calls.set(calls).is_ok(), "calls are taken by one");
    }

    /// Starts to take messages about transactions over groups, where a cluster has several.
    ///
    /// # Panics
    /// When called twice, or before messages are taken: what a node says first on a connection, it
    /// does not say again.
    pub fn take_lots(&self, lots: Arc<LotHub>) {
        assert!(self.handlers.get().is_some(), "the messages of a connection are taken from its first one on");
        assert!(self.lots.set(lots).is_ok(), "lots have one hub");
    }

    /// A node without an id asks to be taken in. It looks for its id in what it is shown, and asks
    /// again until it is there.
    fn joins(&self, joins: Joins) -> Option<Vec<u8>> {
        let handlers = self.handlers.get()?;
        let seen = handlers.node_status.seen();
        let cluster = seen.state.settings()?.cluster;
        if joins.cluster.is_some_and(|wanted| wanted != cluster) {
            self.notices.say(Notice::JoinsOtherCluster);
            return None;
        }
        if seen.state.joined_with(joins.key).is_none() {
            let _ = handlers.joins.try_send(joins);
        }
        self.founders.show(seen.index, &seen.state)
    }

    /// A node of the cluster starts and asks what has become of it: it may throw its copy away for
    /// that.
    fn show_state(&self, looks: &Looks) -> Option<Vec<u8>> {
        let seen = self.handlers.get()?.node_status.seen();
        if seen.tells_of(looks.cluster) { self.founders.show(seen.index, &seen.state) } else { None }
    }

    fn dispatch(&self, handlers: &PeerHandlers, from: Member, lane: Lane, message: &[u8]) -> Result<Room, String> {
        let (message_kind, body) = MessageKind::decode(message).map_err(|error| error.to_string())?;
        // One that waits for room would hold up unrelated ones.
        if !belongs_on(message_kind, lane) {
            return Err(format!(
                "a message of kind {} came on the lane of something else ({lane:?})",
                message_kind as u8
            ));
        }
        match message_kind {
            MessageKind::Group => handlers.groups.dispatch(from, body).map_err(|error| error.to_string())?,
            // The sender repeats it.
            MessageKind::Metadata => drop(handlers.metadata_messages.try_send((from.node, body.to_vec()))),
            MessageKind::Transfer => {
                if let Some(data) = &handlers.data {
                    data.transfers.deliver(from.node, body)?;
                }
            }
            MessageKind::Health => {
                let health = Health::decode(body).ok_or("its health cannot be read")?;
                handlers.healths.said(from, health, group_health::decode(body), Instant::now());
            }
            MessageKind::Figures => {
                // Those of another release are not shown.
                if let Some(figures) = Figures::decode(body) {
                    handlers.figures.said(from.node, figures, Instant::now());
                }
            }
            MessageKind::ProceduresAsked => {
                if handlers.procedures.as_ref().is_some_and(|procedures| procedures.asked(from.node, body)) {
                    // A node that has ended does not mind.
                    let _ = handlers.orders.send(Order::AnswerProcedures);
                }
            }
            MessageKind::Procedures => handlers.procedures.iter().for_each(|procedures| procedures.learn(body)),
            MessageKind::Lots => {
                // Not yet: the connection is opened anew then.
                let Some(lots) = self.lots.get() else { return Ok(Room::More) };
                let has_room = lots.deliver(from.node, body).map_err(|error| format!("{error:?}"))?;
                return Ok(if has_room { Room::More } else { Room::Wait });
            }
            MessageKind::Calls | MessageKind::Answers => {
                let calls = self.calls.get().ok_or("calls of other nodes' clients are not taken here")?;
                let has_room = match message_kind {
                    MessageKind::Calls => calls.calls(from.node, from.incarnation, body),
                    _ => calls.answers(from.node, body),
                };
                return Ok(if has_room { Room::More } else { Room::Wait });
            }
        }
        Ok(Room::More)
    }
}

fn belongs_on(message_kind: MessageKind, lane: Lane) -> bool {
    match message_kind {
        MessageKind::Group => matches!(lane, Lane::Control | Lane::Entries),
        MessageKind::Metadata | MessageKind::Health | MessageKind::Figures | MessageKind::ProceduresAsked => {
            lane == Lane::Control
        }
        MessageKind::Transfer => lane == Lane::Transfer,
        MessageKind::Lots => lane == Lane::Lots,
        MessageKind::Calls | MessageKind::Answers | MessageKind::Procedures => lane == Lane::Calls,
    }
}

impl Handler for PeerDispatcher {
    fn connected(&self, node: NodeId, _: Incarnation, lane: Lane) {
        if let Some(lots) = self.lots.get().filter(|_| lane == Lane::Lots) {
            lots.opened(node);
        }
        if let Some(handlers) = self.handlers.get().filter(|_| lane == Lane::Control) {
            // A node that has ended does not mind.
            let _ = handlers.orders.send(Order::SayHealth);
        }
    }

    fn deliver(&self, node: NodeId, incarnation: Incarnation, lane: Lane, message: Vec<u8>) -> Room {
        let Some(handlers) = self.handlers.get() else { return Room::More };
        self.dispatch(handlers, Member { node, incarnation }, lane, &message).unwrap_or_else(|error| {
            self.notices.say(Notice::PeerMessageUnusable { node, reason: error });
            Room::More
        })
    }

    fn lost(&self, node: NodeId, lane: Lane) {
        let Some(handlers) = self.handlers.get() else { return };
        match lane {
            // A node that has ended does not mind.
            Lane::Control => {
                let _ = handlers.causes.send(Cause::Lost(node));
                let _ = handlers.metadata.send(MetadataNotice::Lost(node));
            }
            Lane::Entries => {
                let _ = handlers.causes.send(Cause::Lost(node));
                if let Some(data) = &handlers.data {
                    let _ = data.supplier.send(SupplierNotice::Lost(node));
                }
            }
            Lane::Calls => {
                if let Some(calls) = self.calls.get() {
                    calls.lost(node);
                }
            }
            Lane::Lots => self.lots.get().into_iter().for_each(|lots| lots.lost(node)),
            Lane::Transfer => {}
        }
    }

    fn inquired(&self, question: Vec<u8>) -> Option<Vec<u8>> {
        if let Some(looks) = Looks::decode(&question) {
            return self.show_state(&looks);
        }
        let Some(joins) = Joins::decode(&question) else { return self.founders.answer(&question) };
        match joins {
            Ok(joins) => self.joins(joins),
            Err(error) => {
                self.notices.say(Notice::QuestionUnreadable { reason: error.to_string() });
                None
            }
        }
    }

    fn notice(&self, notice: Notice) {
        self.notices.say(notice);
    }
}
