//! What can make a partition or the coordinator work: a closed list each, and what these events
//! carry.

use crate::answer::{AnswerBatch, MailboxHandle};
use crate::call_header::CallHeader;
use crate::cancel::CallId;
use crate::commit::Completion;
use crate::compiled::Compiled;
use crate::counters::ThreadReport;
use crate::delivery::Parcel;
use crate::lots::LotLedger;
use crate::schema::SchemaHistory;
use crossbeam_channel::{Receiver, Sender};
use ferrite_base::{Epoch, PartitionId, Position, Sequence, SqlLimits, UserError};
use ferrite_catalog::Catalog;
use ferrite_group::{Checkpointed, GroupAppender, NotCommitted};
use ferrite_log::LogPosition;
use ferrite_multi::ToAgent;
use ferrite_plan::Program;
use ferrite_snapshot::SchemaChange;
use ferrite_table::Store;
use ferrite_wire::response;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Every cause of work for a partition thread.
pub enum Event {
    /// Calls of single-partition procedures from a network thread.
    Calls(CallBatch),
    /// One call of a program that is not in the catalog: an ad hoc statement.
    Program(Box<ProgramCall>),
    /// The coordinator wants the store for a transaction over several partitions. The partition
    /// sends it to `to` and stops until it comes back through `back`.
    Lend { to: Sender<Loan>, back: Receiver<Loan> },
    /// Committed changes of the leader's, for a copy.
    Apply(Parcel),
    /// A copy's store of another node's snapshot, in the place of the one that it has.
    Replace(Box<Loan>),
    /// A copy becomes the leader: it appends to `log` from now on. `time`: of the stream's entries,
    /// the highest.
    Lead { log: GroupAppender<Completion>, time: i64 },
    /// A leader steps back to what is committed and becomes a copy, and reports where it is. The
    /// coordinator sends it, when it lends nothing any more.
    Follow(Sender<(PartitionId, Sequence)>),
    /// Asks for what was counted here.
    Report(Sender<ThreadReport>),
    /// There may be work besides calls.
    Wake,
    /// Finish what is held and end.
    Stop,
}

/// Calls for one partition, taken from one network thread's sockets in one go.
pub struct CallBatch {
    /// The catalog version that the calls were routed with.
    pub compiled: Arc<Compiled>,
    pub mailbox: MailboxHandle,
    pub calls: Vec<CallHeader>,
    /// The calls' parameter sets, as they came.
    pub bytes: Vec<u8>,
    /// An empty buffer for the answers.
    pub answers: Vec<u8>,
    /// What the calls mean whose procedure is a [`CallHeader::cached`] one.
    pub cached: Option<Box<CachedCalls>>,
    /// When the batch was sent, in microseconds since 1970; never less than for what the same
    /// network thread sent before.
    pub sent_micros: i64,
}

/// Calls of ad hoc statements whose plans were at hand.
pub struct CachedCalls {
    pub calls: Vec<CachedCall>,
    /// Takes a call that has to be compiled as it is written.
    pub recompile: Recompile,
}

pub struct CachedCall {
    pub program: Arc<Program>,
    /// Each call of the program is short, see [`Compiled::is_short`].
    pub is_short: bool,
    /// Where the call's frame body begins in the batch's bytes, for [`CachedCalls::recompile`].
    pub body_start: u32,
    pub body_end: u32,
}

/// Sends an ad hoc call, given its frame body, to where it is compiled as it is written: a plan for
/// many texts may fail in other words than the text's own.
pub type Recompile = Arc<dyn Fn(Reply, &[u8]) + Send + Sync>;

impl CallBatch {
    /// The call's parameter set.
    #[inline]
    pub fn parameters(&self, call: &CallHeader) -> &[u8] {
        &self.bytes[call.parameters_start as usize..call.parameters_end as usize]
    }
}

/// Where a single answer goes.
#[derive(Clone)]
pub struct Reply {
    pub mailbox: MailboxHandle,
    pub connection: u64,
    pub handle: i64,
    /// When the call was taken, in microseconds since 1970; never less than for calls that the same
    /// network thread took before.
    pub sent_micros: i64,
}

impl Reply {
    pub fn call(&self) -> CallId {
        CallId { connection: self.connection, handle: self.handle, sent_micros: self.sent_micros }
    }

    /// Answers a call that was not executed. Such an answer reveals no data, so it waits for
    /// nothing.
    pub fn refuse(&self, error: &UserError) {
        let mut answers = AnswerBatch::default();
        response::write_error(&mut answers.bytes, self.handle, error);
        answers.finish_answer(self.connection);
        self.mailbox.deliver(answers);
    }
}

/// The partitions whose stores a transaction of the coordinator needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreSet {
    All,
    /// In ascending order.
    Only(Box<[PartitionId]>),
}

/// A call that brings its own program, or that runs on all partitions.
pub struct ProgramCall {
    pub program: Arc<Program>,
    /// The catalog version that the program was compiled against.
    pub compiled: Arc<Compiled>,
    /// Parameter set as it came; for ad hoc statements without the statement text.
    pub parameters: Vec<u8>,
    pub reply: Reply,
    /// For the coordinator.
    pub stores: StoreSet,
    /// The parameters are an encoded table: the program is run for each of its rows.
    pub load: bool,
    /// Compiles and sends the call again when the schema changed in between.
    pub retry: Option<Retry>,
    /// The program is one for many texts. Where it fails, the text is compiled as it is written and
    /// its failure answered.
    pub recompile: Option<Box<dyn FnOnce() + Send>>,
    /// How long it may execute, in place of what all calls may.
    pub time_max: Option<Duration>,
    /// It has waited for a thread for long reads, and one is free now.
    pub turn: Option<Turn>,
}

/// Sends a call back to where it was compiled, given the catalog now in force.
pub type Retry = Box<dyn FnOnce(Arc<Compiled>) + Send>;

/// Leave to run on a thread for long reads. It passes to the next in line when it is dropped.
pub struct Turn {
    /// Its end passes the turn on.
    _held: Box<dyn Send>,
}

impl Turn {
    pub(crate) fn new(held: impl Send + 'static) -> Turn {
        Turn { _held: Box::new(held) }
    }
}

/// A store on its way between its partition and the coordinator.
pub struct Loan {
    pub partition: PartitionId,
    pub store: Store,
    /// Of the last transaction that changed the store.
    pub sequence: Sequence,
    pub compiled: Arc<Compiled>,
}

/// Every cause of work for the coordinator.
pub enum Job {
    Calls(Vec<ProgramCall>),
    /// DDL statements of one transaction.
    Schema {
        text: String,
        /// Of clients; [`SqlLimits::CEILING`] for what the server makes itself.
        limits: SqlLimits,
        /// How long it may take; None for what the server makes itself.
        time_max: Option<Duration>,
        reply: Reply,
    },
    /// The change that leads to this version of the schema, if the group has made it.
    SchemaChange {
        version: u64,
        to: Sender<Option<Arc<SchemaChange>>>,
    },
    /// The change that leads to this version, if the group has made it, and the version that the
    /// group has: the answer's text and number, as [`followed`](crate::coordinator::followed) reads
    /// it.
    TellChange {
        version: u64,
        reply: Reply,
    },
    /// A change that another group has made, and that this one makes in its turn: as it was logged.
    /// Answered with what [`followed`](crate::coordinator::followed) reads.
    FollowSchema {
        version: u64,
        text: String,
        reply: Reply,
    },
    /// Answers when all that came before is executed and durable.
    Quiesce(Reply),
    /// Asks for what was counted here.
    Report(Sender<ThreadReport>),
    /// A snapshot of this number is to be written to disk.
    Checkpoint {
        snapshot: u64,
        to: Sender<TakenSnapshot>,
    },
    /// What the group has taken for the lot of that name, for a backup of all groups.
    GiveCut {
        name: String,
        to: Sender<GroupCut>,
    },
    /// A copy becomes the leader, as its partitions did just now.
    Lead {
        log: GroupAppender<Completion>,
        time: i64,
        compiled: Arc<Compiled>,
        history: SchemaHistory,
        lots: LotLedger,
        /// Where parts of lots are in doubt: the partitions have lent their stores until that is
        /// settled, and have taken no calls.
        unsettled: Option<Unsettled>,
    },
    /// A leader becomes a copy, as do its partitions after it; reports what is committed beside the
    /// rows.
    Follow {
        to: Sender<CommittedState>,
        partitions: Sender<(PartitionId, Sequence)>,
    },
    /// For the group's agent. A coordinator without one drops it: its group takes part in no lots.
    Lot(ToAgent),
    /// The sequencer of that epoch cannot be reached any more.
    SequencerLost(Epoch),
    Stop,
}

/// The stores of a group that begins to be led while parts of lots are in doubt in it.
pub struct Unsettled {
    /// Where they arrive, one from each partition.
    pub loans: Receiver<Loan>,
    /// By the partition's place in its group: the ways back.
    pub back: Vec<Sender<Loan>>,
}

/// What is committed in a group beside its rows.
pub struct CommittedState {
    pub compiled: Arc<Compiled>,
    pub history: SchemaHistory,
    /// What the stream says of lots.
    pub lots: LotLedger,
}

/// The number under which a backup is taken. Snapshots of the database have higher ones.
pub const BACKUP: u64 = 0;

/// All that a snapshot on disk shows, as it was at one place in the log.
pub struct TakenSnapshot {
    pub snapshot: u64,
    /// By partition.
    pub stores: Vec<Store>,
    pub places: Vec<(Epoch, Sequence)>,
    /// What the streams had come to.
    pub groups: Vec<Checkpointed>,
    /// The entry before, which is a mark: what the tables hold is to be hashed.
    pub contents: Option<(Epoch, Position)>,
    pub catalog: Arc<Catalog>,
    pub history: SchemaHistory,
    /// What the stream has said of lots.
    pub lots: LotLedger,
    /// Microseconds since 1970.
    pub time: i64,
    /// Where the checkpoint record is, once that is known to be written. With durability memory, a
    /// backup has none.
    pub mark: Arc<OnceLock<LogPosition>>,
    pub logged: Receiver<Result<(), NotCommitted>>,
}

/// What a group shows at the moment of a lot; committed if the lot has succeeded.
pub struct GroupCut {
    /// In the order of the stores.
    pub partitions: Vec<PartitionId>,
    pub stores: Vec<Store>,
    pub places: Vec<(Epoch, Sequence)>,
    pub catalog: Arc<Catalog>,
    pub history: SchemaHistory,
    /// The same in all groups, in microseconds since 1970.
    pub time: i64,
}

/// Waits until what was taken is durable here, and committed; or why it will not be.
pub fn wait_until_committed(logged: &Receiver<Result<(), NotCommitted>>) -> Result<(), String> {
    match logged.recv() {
        Ok(outcome) => outcome.map_err(|reason| reason.to_string()),
        Err(_) => Err("the server is stopping".to_owned()),
    }
}
