//! Procedures whose body is written in another language: what such a body and this side of the
//! fence know of each other.
//!
//! Owns the traits. Knows no language: whoever implements them is handed on as a [`RuntimeHandle`]
//! by the program that is started. Everything that such a body asks of its transaction goes through
//! [`Host`]. A [`Compound`] body has no transaction: it says which procedures to call, and is told
//! their answers.

use crate::program::{Parameter, Program};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::Classes;
use ferrite_expr::{Code, UserFunction};
use ferrite_value::Value;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

/// The body of a program, and the statements that it may run.
#[derive(Clone, Debug)]
pub struct ExternalRoutine {
    pub body: RoutineBody,
    pub statements: Vec<Arc<Program>>,
    /// Whether it may run SQL that it makes up.
    pub texts: Texts,
    /// Its class could not be loaded when the database was recovered: every call is answered with
    /// this.
    pub broken: Option<UserError>,
}

/// Statements that a body makes up while it runs, and how far they reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Texts {
    None,
    /// As far as its own partition.
    OnePartition,
    All,
}

#[derive(Clone, Debug)]
pub enum RoutineBody {
    /// Runs in a transaction.
    Transaction(Arc<dyn Body>),
    /// Runs outside of transactions and calls procedures, each of which is one.
    Compound(Arc<dyn Compound>),
    /// The same, but not in stages, and so declared without COMPOUND.
    NonTransactional(Arc<dyn Compound>),
}

/// A compiled body, called by many threads.
pub trait Body: fmt::Debug + Send + Sync {
    /// Runs the procedure. `parameters` are of the types that its description says. After an error
    /// the caller undoes what was changed.
    fn call(&self, host: &mut dyn Host, parameters: &[Value<'_>]) -> UserResult<()>;
}

/// In the place of a statement's number in a batch: its text follows.
pub const TEXT: u16 = u16::MAX;

/// The transaction that a body runs in.
pub trait Host {
    /// Microseconds since 1970, the same for the whole transaction.
    fn transaction_time(&self) -> i64;

    /// No other transaction has it.
    fn unique_id(&self) -> i64;

    /// The partition that it runs on; None: on all.
    fn partition(&self) -> Option<u32>;

    /// Runs a batch of statements: u32 how many, then for each u16 its number, u32 length and the
    /// parameter set as clients encode it, all big-endian. For the number [`TEXT`] a length and a
    /// statement's own text stand in front of the parameters' length; no text is the one before it.
    /// Appends a result table for each, as clients get them. After an error none of the batch has
    /// happened.
    fn execute(&mut self, batch: &[u8], tables: &mut Vec<u8>) -> UserResult<()>;

    /// What the caller gets: tables with their lengths in front, one after the other.
    fn answer(&mut self, tables: &[u8]) -> UserResult<()>;

    /// The procedure's own status, and its words for it.
    fn status(&mut self, code: i8, text: Option<&str>);
}

/// A compiled body that runs outside of transactions, called by many threads.
pub trait Compound: fmt::Debug + Send + Sync {
    /// Begins a call: makes what it consists of, but runs none of its stages. `parameters` are of
    /// the types that its description says. `calls_max` calls may go on at a time. The waker is for
    /// calls that rest.
    fn begin(&self, parameters: &[Value<'_>], calls_max: usize, waker: &Waker) -> UserResult<Box<dyn Stages>>;
}

/// One call of such a body. Its stages run one after the other, each perhaps on another thread.
pub trait Stages: Send {
    /// Runs the next stage, with the answers that have come since the last, in the order of their
    /// calls. After an error, and after its end, it is not called again.
    fn next(&mut self, answers: &[Answer]) -> UserResult<Stage>;
}

/// What has come of a call that a stage has queued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The call's number, counted from 0 for the first that its caller has queued.
    pub call: u64,
    /// As clients get it, without the frame's length.
    pub body: Vec<u8>,
    /// How long it was waited for.
    pub nanos: u64,
}

/// What a stage wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// These calls, perhaps none, and the next stage when all are answered.
    Calls(Vec<QueuedCall>),
    /// These calls, perhaps none, and the next stage when any call is answered, or its waker was
    /// called since this stage has begun.
    Rests(Vec<QueuedCall>),
    End(Ended),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuedCall {
    pub procedure: String,
    /// The partition that it is sent to, if its parameters do not say.
    pub partition: Option<i32>,
    /// As clients encode a parameter set.
    pub parameters: Vec<u8>,
}

/// What another call was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnsweredAs {
    pub status: i8,
    pub text: String,
    /// The SQLSTATE. Empty in a success, and where the code that runs has made the response itself.
    pub code: String,
}

/// How a compound call has ended, without an error.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ended {
    /// It ends as a call that it has made.
    pub answered: Option<AnsweredAs>,
    /// The procedure's own status, if it set one, and its words for it.
    pub status: Option<i8>,
    pub text: Option<String>,
    /// Tables with their lengths in front, one after the other.
    pub tables: Vec<u8>,
}

/// What a class says of the procedure that it is.
#[derive(Clone, Debug)]
pub struct Description {
    pub parameters: Vec<Parameter>,
    /// The fields that hold statements, and their texts.
    pub statements: Vec<(String, String)>,
    /// An annotation of old: `TABLE.COLUMN: parameter`.
    pub partition_info: Option<String>,
    /// It may run SQL that it makes up.
    pub texts: bool,
    pub body: RoutineBody,
}

/// The classes of one catalog version, loaded.
pub trait Library: Send + Sync {
    fn describe(&self, class: &str) -> UserResult<Description>;

    /// The code of a function whose class and types the catalog has read.
    fn function(&self, function: &UserFunction) -> UserResult<Arc<dyn Code>>;
}

pub trait Runtime: Send + Sync {
    /// Loads the classes. The same classes again may give the same library again.
    fn load(&self, classes: &Classes) -> UserResult<Arc<dyn Library>>;
}

/// Who runs bodies in other languages, handed to whoever compiles. By default nobody does.
#[derive(Clone, Default)]
pub struct RuntimeHandle(Option<Arc<dyn Runtime>>);

impl RuntimeHandle {
    pub fn new(runtime: impl Runtime + 'static) -> RuntimeHandle {
        RuntimeHandle(Some(Arc::new(runtime)))
    }

    /// Loads classes.
    pub fn load(&self, classes: &Classes) -> UserResult<Arc<dyn Library>> {
        let runtime = self.0.as_ref().ok_or_else(|| {
            UserError::not_supported("procedures FROM CLASS in this program").with_hint("ferrite server runs them")
        })?;
        runtime.load(classes)
    }
}

/// The body of a procedure that could not be loaded.
#[derive(Debug)]
pub struct Broken;

impl Body for Broken {
    fn call(&self, _: &mut dyn Host, _: &[Value<'_>]) -> UserResult<()> {
        Err(UserError::internal("a procedure that could not be loaded was run"))
    }
}
