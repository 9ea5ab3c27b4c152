//! The groups that a node hosts, put together for the cluster's threads: each with its parties, its
//! supplier and its thread of transfers.
//!
//! Everything here is of one group; what the node has once is [`RestOfData`].

use crate::copy_side::CopySide;
use crate::links::Links;
use crate::notices::Notices;
use crate::orders::Order;
use crate::peer_dispatcher::{Message, TransferNotice, TransferWays, Transfers};
use crate::snapshot_request::SnapshotRequests;
use crate::transfer::{Into, TransferThread};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use ferrite_base::limits::TRANSFER_MESSAGES_MAX;
use ferrite_base::{GroupId, NodeId, Sequence};
use ferrite_cluster::{GroupHandle, Parties};
use ferrite_group::{FIRST_GROUP, Supplier};
use ferrite_io::{Clock, Disk};
use ferrite_log::{DatabaseId, SegmentIndex};
use ferrite_partition::applier::CopyStart;
use ferrite_partition::commit::Completion;
use ferrite_partition::coordinator::Job;
use ferrite_partition::gate::Gate;
use ferrite_partition::lots::LotLedger;
use ferrite_partition::recovery::MemberStream;
use ferrite_partition::schema::SchemaHistory;
use ferrite_partition::waker::WakingSender;
use ferrite_partition::{Compiled, GroupInboxes, OwnLog};
use ferrite_plan::external::RuntimeHandle;
use ferrite_snapshot::Files;
use ferrite_snapshot::transfer::{Sending, Sink};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where another node's snapshot is stored, in the directory of the node.
const INCOMING: &str = "incoming";

/// What the cluster's threads use of one group that the node hosts.
pub struct HostedGroup {
    pub partitions: GroupInboxes,
    pub coordinator: Sender<Job>,
    /// Of the partitions, and the coordinator's last.
    pub gates: Vec<Arc<Gate>>,
    pub copy: Arc<CopySide>,
    /// The node's own snapshots.
    pub files: Files,
    pub sequences: Vec<Sequence>,
    pub compiled: Arc<Compiled>,
    pub history: SchemaHistory,
    pub lots: LotLedger,
}

/// What the groups of a node have in common.
pub(crate) struct RestOfData<'n> {
    pub disk: &'n Arc<dyn Disk>,
    pub dir: &'n Path,
    pub here: NodeId,
    pub database: DatabaseId,
    pub log_index: &'n Arc<SegmentIndex>,
    pub runtime: &'n RuntimeHandle,
    pub transaction_bytes_max: usize,
    /// Of one group.
    pub transfer_rate: u64,
}

#[derive(Default)]
pub(crate) struct Hosted {
    pub groups: Vec<GroupHandle>,
    pub parties: BTreeMap<GroupId, (Parties, CopyStart)>,
    pub copies: BTreeMap<GroupId, Arc<CopySide>>,
    pub suppliers: BTreeMap<GroupId, Supplier<Completion>>,
    pub transferring: Vec<Transferring>,
}

/// A thread of transfers, before the node's thread to which it turns.
pub(crate) struct Transferring {
    ways: TransferWays,
    notices: Receiver<TransferNotice>,
    messages: Receiver<Message>,
    sending: Sending,
    sink: Sink,
    into: Into,
    copy: Arc<CopySide>,
}

/// The name of a thread of which each group has one. The first group's is as it was before there
/// were others.
pub fn of_group(name: &str, group: GroupId) -> String {
    if group == FIRST_GROUP { name.to_owned() } else { format!("{name}-{group}") }
}

impl Hosted {
    /// # Panics
    /// If the stream is another group's.
    pub fn add(&mut self, own: HostedGroup, stream: MemberStream, rest: &RestOfData<'_>) -> Result<(), String> {
        let MemberStream { place, replication } = stream;
        let id = replication.id();
        assert_eq!(own.partitions.of().group(), id, "a group has the stream of its own");
        let HostedGroup { partitions, coordinator, copy, files, sequences, compiled, history, lots, .. } = own;
        let sink = sink(rest, id, &files)?;
        let (notices, notices_inbox) = unbounded();
        let (messages, arrivals) = bounded(TRANSFER_MESSAGES_MAX);
        self.transferring.push(Transferring {
            ways: TransferWays { notices, messages },
            notices: notices_inbox,
            messages: arrivals,
            sending: Sending::new(files, rest.here, rest.transfer_rate),
            sink,
            into: Into {
                here: rest.here,
                group: Arc::clone(&replication),
                partitions: partitions.clone(),
                runtime: rest.runtime.clone(),
                transaction_bytes_max: rest.transaction_bytes_max,
            },
            copy: Arc::clone(&copy),
        });
        let log = OwnLog::new(Arc::clone(&replication), Arc::clone(rest.log_index));
        let start = CopyStart { here: rest.here, place, sequences, compiled, history, lots };
        self.parties.insert(id, (Parties { partitions, coordinator, log }, start));
        self.copies.insert(id, copy);
        self.suppliers.insert(id, Supplier::new(Arc::clone(&replication), Arc::clone(rest.log_index)));
        self.groups.push(replication);
        Ok(())
    }
}

impl Transferring {
    /// The ways to all of them.
    pub fn ways(all: &[Transferring]) -> Transfers {
        Transfers::new(all.iter().map(|one| (one.into.group.id(), one.ways.clone())).collect())
    }

    pub fn thread(
        self,
        snapshots: &SnapshotRequests,
        orders: &WakingSender<Order>,
        links: &Links,
        clock: &Arc<dyn Clock>,
        fail: Box<dyn Fn(&str) + Send>,
    ) -> TransferThread {
        TransferThread {
            inbox: self.notices,
            messages: self.messages,
            own: self.ways.notices,
            sending: self.sending,
            sink: self.sink,
            into: self.into,
            snapshots: Arc::clone(snapshots),
            orders: orders.clone(),
            links: links.clone(),
            copy: self.copy,
            clock: Arc::clone(clock),
            fail,
            notices: Notices::default(),
            not_taken: None,
        }
    }
}

/// Where another node's snapshot of the group is stored: those of other groups than the first lie
/// within the first one's directory, as their own snapshots do.
fn incoming(dir: &Path, group: GroupId) -> PathBuf {
    let first = dir.join(INCOMING);
    if group == FIRST_GROUP { first } else { first.join(format!("group-{group}")) }
}

/// Continues with what an earlier process has left of another node's snapshot.
fn sink(rest: &RestOfData<'_>, group: GroupId, own: &Files) -> Result<Sink, String> {
    let newest = own.find().map_err(|error| error.to_string())?.snapshots.last().copied().unwrap_or(0);
    let files = Files::new(Arc::clone(rest.disk), &incoming(rest.dir, group));
    let opened = Sink::open(files, rest.database.0).and_then(|sink| sink.above(newest));
    opened.map_err(|error| error.to_string())
}
