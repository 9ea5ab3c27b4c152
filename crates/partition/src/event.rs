//! What can make a partition work: one closed list.

use crate::answer::{AnswerBatch, MailboxHandle};
use crate::cancel::CallId;
use crate::compiled::Compiled;
use crate::coordinator::Loan;
use crate::counters::Report;
use crate::long_read::Turn;
use crossbeam_channel::{Receiver, Sender};
use ferrite_base::{PartitionId, UserError};
use ferrite_plan::Program;
use ferrite_wire::response;
use std::sync::Arc;
use std::time::Duration;

/// Every cause of work for a partition thread.
pub enum Event {
    /// Calls of single-partition procedures from a network thread.
    Calls(CallBatch),
    /// One call of a program that is not in the catalog: an ad hoc statement.
    Program(Box<ProgramCall>),
    /// The coordinator wants the store for a transaction over several partitions. The partition sends it to `to` and stands
    /// still until it comes back through `back`.
    Lend { to: Sender<Loan>, back: Receiver<Loan> },
    /// Somebody wants to know what was counted here.
    Report(Sender<Report>),
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
    /// When the batch was sent, in microseconds since 1970; never less than for what the same network thread sent before.
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
    /// Where the call's frame body stands in the batch's bytes, for [`CachedCalls::recompile`].
    pub body_start: u32,
    pub body_end: u32,
}

/// Sends an ad hoc call, given its frame body, to where it is compiled as it is written: a plan for many texts may fail in other words
/// than the text's own.
pub type Recompile = Arc<dyn Fn(Reply, &[u8]) + Send + Sync>;

impl CallBatch {
    /// The call's parameter set.
    #[inline]
    pub fn parameters(&self, call: &CallHeader) -> &[u8] {
        &self.bytes[call.parameters_start as usize..call.parameters_end as usize]
    }
}

#[derive(Clone, Copy, Debug)]
pub struct CallHeader {
    pub connection: u64,
    pub handle: i64,
    pub procedure: ferrite_base::ProcedureId,
    /// Where the call's parameter set stands in the batch's bytes.
    pub parameters_start: u32,
    pub parameters_end: u32,
    /// The caller put the partition key in front of the declared parameters (a directed call): drop the first.
    pub drop_first_parameter: bool,
}

/// Procedure numbers from here on are positions in [`CachedCalls::calls`].
const CACHED_FROM: u32 = 1 << 31;

impl CallHeader {
    /// The call, which is one of `batch`.
    #[inline]
    pub fn id(&self, batch: &CallBatch) -> CallId {
        CallId { connection: self.connection, handle: self.handle, sent_micros: batch.sent_micros }
    }

    /// The procedure number for the cached call at `position` of its batch.
    pub fn cached_procedure(position: usize) -> ferrite_base::ProcedureId {
        ferrite_base::ProcedureId(CACHED_FROM + position as u32)
    }

    /// The position among the batch's cached calls, if it is one.
    #[inline]
    pub fn cached(&self) -> Option<usize> {
        self.procedure.0.checked_sub(CACHED_FROM).map(|position| position as usize)
    }
}

/// Where a single answer goes.
#[derive(Clone)]
pub struct Reply {
    pub mailbox: MailboxHandle,
    pub connection: u64,
    pub handle: i64,
    /// When the call was taken, in microseconds since 1970; never less than for calls that the same network thread took before.
    pub sent_micros: i64,
}

impl Reply {
    pub fn call(&self) -> CallId {
        CallId { connection: self.connection, handle: self.handle, sent_micros: self.sent_micros }
    }

    /// Answers a call that was not executed. Such an answer tells of no data, so it waits for nothing.
    pub fn refuse(&self, error: &UserError) {
        let mut answers = AnswerBatch::default();
        response::write_error(&mut answers.bytes, self.handle, error);
        answers.finish_answer(self.connection);
        self.mailbox.deliver(answers);
    }
}

/// Whose stores a transaction of the coordinator needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hold {
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
    pub hold: Hold,
    /// The parameters are an encoded table: the program is run for each of its rows.
    pub load: bool,
    /// Compiles and sends the call again when the schema changed in between.
    pub retry: Option<Retry>,
    /// The program is one for many texts. Where it fails, the text is compiled as it is written and its failure answered.
    pub recompile: Option<Box<dyn FnOnce() + Send>>,
    /// How long it may execute, in place of what all calls may.
    pub time_max: Option<Duration>,
    /// It has waited for a thread for long reads, and one is free now.
    pub turn: Option<Turn>,
}

/// Sends a call back to where it was compiled, given the catalog now in force.
pub type Retry = Box<dyn FnOnce(Arc<Compiled>) + Send>;
