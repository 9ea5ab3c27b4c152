//! Programs: what the binder and planner produce and `exec` runs. Ids and typed expressions only,
//! no names to look up.
//!
//! Everything that can be called is a [`Program`]: a stored procedure, a default procedure, an ad
//! hoc batch. Slots (places for the row a source is at), registers (variables) and subqueries are
//! numbered through the whole program.

use crate::external::{ExternalRoutine, RoutineBody};
use crate::statement_text::StatementText;
use crate::variants::Variants;
use ferrite_base::{IndexId, TableId};
use ferrite_expr::{Aggregate, CompareOperator, Expr};
use ferrite_value::{ColumnType, SqlType};

/// Something that can be called, compiled against one catalog version.
#[derive(Clone, Debug)]
pub struct Program {
    /// As declared; for ad hoc statements `@AdHoc`.
    pub name: String,
    pub parameters: Vec<Parameter>,
    /// Types of the variables; text and bytes assigned to one are checked against it.
    pub registers: Vec<Register>,
    /// How many slots the program's sources use.
    pub slots: u16,
    pub subqueries: Vec<Subquery>,
    /// Tables of WITH that are used more than once: each is computed once per execution of its
    /// statement.
    pub common_tables: Vec<Query>,
    pub body: Vec<Step>,
    pub read_only: bool,
    /// For programs that may take long: how to run on a snapshot of the stores.
    pub snapshot_plan: SnapshotPlan,
    pub routing: Routing,
    /// The statements' texts in order, for EXPLAIN and statistics; `Step::Execute.statement`
    /// indexes it.
    pub statements: Vec<StatementText>,
    /// The body is written in another language; then `body` is empty.
    pub external: Option<std::sync::Arc<ExternalRoutine>>,
    /// For values of other types than `parameters` say; None where there can be none.
    pub variants: Option<std::sync::Arc<Variants>>,
}

/// How a program can run on a snapshot, which has the rows but no indexes.
#[derive(Clone, Debug, Default)]
pub enum SnapshotPlan {
    /// Not at all: it changes something, or it reads no table from end to end and so will not take
    /// long.
    #[default]
    None,
    /// As it is: it uses no index.
    Same,
    /// So: the same program, compiled without indexes.
    Other(std::sync::Arc<Program>),
}

impl Program {
    /// Whether a program outside of transactions runs in stages of its own, instead of with
    /// futures.
    pub fn is_compound(&self) -> bool {
        self.external.as_ref().is_some_and(|external| matches!(external.body, RoutineBody::Compound(_)))
    }

    /// It may turn out, when it runs, to be better run on a snapshot.
    pub fn may_take_long(&self) -> bool {
        !matches!(self.snapshot_plan, SnapshotPlan::None)
    }
}

#[derive(Clone, Debug)]
pub struct Parameter {
    /// Declared name, or None for `?`.
    pub name: Option<String>,
    pub column_type: ColumnType,
    /// `IN ?`: an array of `column_type`.
    pub array: bool,
    /// A whole table, or with `array` several; only bodies in other languages have such. Its
    /// `column_type` says nothing.
    pub table: bool,
}

#[derive(Clone, Debug)]
pub struct Register {
    pub name: String,
    pub column_type: ColumnType,
}

/// Where a call of the program runs.
#[derive(Clone, PartialEq, Debug)]
pub enum Routing {
    /// On the partition that owns this parameter's value.
    Parameter { index: u16, sql_type: SqlType },
    /// On the partition that owns this constant (an ad hoc statement with a literal key).
    Constant { value: Expr, sql_type: SqlType },
    /// On the partitions that own these values (constants and parameters), as one transaction: each
    /// use of a partitioned table is fixed to one of them.
    Several { keys: Vec<(Expr, SqlType)> },
    /// On any one partition: reads only replicated tables, or no table at all.
    Any,
    /// A directed procedure: on the partition the caller names.
    Directed,
    /// On all of them, as one transaction.
    All,
    /// A procedure outside of transactions, compound or not: on none. The procedures that it calls
    /// are routed by themselves.
    Compound,
}

/// One step of a body.
#[derive(Clone, Debug)]
pub enum Step {
    /// Runs a statement. With `emit` its result (rows, or the count of modified rows) is one of the
    /// call's result tables.
    Execute {
        statement: u16,
        plan: Plan,
        emit: bool,
    },
    /// EXPLAIN ANALYZE: runs the statement, whose sources are [`Input::Measured`], and answers
    /// `lines` with what was measured instead of its result.
    Analyze {
        statement: u16,
        plan: Plan,
        columns: Vec<OutputColumn>,
        lines: Vec<PlanLine>,
    },
    /// SELECT ... INTO: no row leaves the variables as they are, a second row is an error.
    Fetch {
        statement: u16,
        query: Query,
        into: Vec<u16>,
    },
    Assign {
        register: u16,
        value: Expr,
    },
    If {
        branches: Vec<(Expr, Vec<Step>)>,
        otherwise: Vec<Step>,
    },
    /// Condition first. `label` identifies the loop for Leave and Iterate.
    While {
        label: u16,
        condition: Expr,
        body: Vec<Step>,
    },
    /// Runs `body` for each row of the query as it stood before the first iteration; columns go to
    /// `into`.
    For {
        label: u16,
        statement: u16,
        query: Query,
        into: Vec<u16>,
        body: Vec<Step>,
    },
    /// A labelled BEGIN ... END that LEAVE may end.
    Block {
        label: u16,
        body: Vec<Step>,
    },
    Leave {
        label: u16,
    },
    Iterate {
        label: u16,
    },
    /// Ends the program.
    Return(ReturnValue),
    /// Ends the program with an abort by its own wish.
    Signal {
        state: String,
        message: Expr,
    },
}

/// A line of an explained plan.
#[derive(Clone, Debug)]
pub struct PlanLine {
    pub text: String,
    /// The source that it is about.
    pub slot: Option<u16>,
}

#[derive(Clone, Debug)]
pub enum ReturnValue {
    Nothing,
    /// A number: the client gets a table of one unnamed BIGINT column and one row.
    Status(Expr),
    /// One result table per query.
    Tables(Vec<(u16, Query)>),
}

#[derive(Clone, Debug)]
pub enum Plan {
    Query(Query),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
    Truncate { table: TableId },
}

/// A query: a body, then order, offset and limit over its output rows.
#[derive(Clone, Debug)]
pub struct Query {
    pub body: QueryBody,
    /// The visible columns. A body may produce more (hidden ones, for ORDER BY), always after the
    /// visible ones.
    pub columns: Vec<OutputColumn>,
    pub order_by: Vec<SortKey>,
    /// The access path already delivers rows in `order_by`; no sort is needed.
    pub presorted: bool,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// The view whose query it is, to be told by EXPLAIN.
    pub view: Option<Box<str>>,
}

impl Query {
    /// The body alone, without order or limit.
    pub fn of(body: QueryBody, columns: Vec<OutputColumn>) -> Query {
        Query { body, columns, order_by: Vec::new(), presorted: false, limit: None, offset: None, view: None }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    pub name: String,
    pub sql_type: SqlType,
}

/// NULL sorts lowest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SortKey {
    /// Position in the body's output row, hidden columns included.
    pub column: u16,
    pub descending: bool,
}

#[derive(Clone, Debug)]
pub enum QueryBody {
    Select(Box<Select>),
    SetOperation {
        operator: SetOperator,
        all: bool,
        left: Box<Query>,
        right: Box<Query>,
    },
    Values(Vec<Vec<Expr>>),
    /// GENERATE_SERIES: numbers or timestamps from `start` to `stop`, both included, `step` apart
    /// (microseconds). A NULL makes no row.
    Series {
        start: Expr,
        stop: Expr,
        step: Expr,
    },
    /// WITH RECURSIVE: the rows of `first`, then those that `step` makes of the rows of the round
    /// before, until a round brings none. Without `all` only rows that no round brought before.
    Recursive {
        /// The slot at which [`Input::Working`] finds the rows of the round before.
        working: u16,
        all: bool,
        first: Box<Query>,
        step: Box<Query>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOperator {
    Union,
    Intersect,
    Except,
}

/// A SELECT block. Sources are nested loops in this order; each row of the last that passes
/// `filter` is a result row, or goes to `aggregation`.
#[derive(Clone, Debug)]
pub struct Select {
    pub sources: Vec<Source>,
    /// What is left of WHERE when every source has its row (most conjuncts stand at the earliest
    /// source they can).
    pub filter: Option<Expr>,
    pub aggregation: Option<Aggregation>,
    pub windowing: Option<Box<Windowing>>,
    pub distinct: bool,
    /// Output row: the visible columns, then hidden ones. After an aggregation they refer to its
    /// slot.
    pub output: Vec<Expr>,
}

#[derive(Clone, Debug)]
pub struct Source {
    /// Which slot its row is bound to.
    pub slot: u16,
    pub input: Input,
    pub join: JoinKind,
    /// ON of an outer join (for inner joins it is part of `filter`).
    pub on: Option<Expr>,
    /// WHERE conjuncts that can be decided once this source is bound; applied after the join.
    pub filter: Option<Expr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinKind {
    Inner,
    /// LEFT OUTER: the rows before it are kept, with NULLs here.
    Left,
    /// FULL OUTER: besides, rows of this source that nothing matched, with NULLs before. Only as
    /// the second of two sources.
    Full,
}

#[derive(Clone, Debug)]
pub enum Input {
    Table {
        table: TableId,
        access: Access,
    },
    /// A derived table; run once unless it refers to earlier slots (`correlated`).
    Derived {
        query: Box<Query>,
        correlated: bool,
    },
    /// A table of WITH that is used several times: a number of [`Program::common_tables`].
    Common {
        table: u16,
    },
    /// In the step of a recursion: the rows of the round before.
    Working {
        slot: u16,
    },
    /// SELECT without FROM: one row without columns.
    One,
    /// Rows found through a hash table over the input, for equalities that no index serves.
    Hashed(Box<Hashed>),
    /// The input, with what it delivers counted and timed (EXPLAIN ANALYZE).
    Measured(Box<Input>),
}

/// A hash join: the input's rows that pass `filter`, found by their keys. Neither input, filter nor
/// built keys refer to other slots, so the table is built once per execution of the statement; and
/// only when it is asked a second time, for one question is answered as fast by reading the input.
#[derive(Clone, Debug)]
pub struct Hashed {
    pub input: Input,
    pub filter: Option<Expr>,
    /// Over the input's slot.
    pub built: Vec<Expr>,
    /// Over earlier slots, one for each of `built`. A NULL finds nothing.
    pub probed: Vec<Expr>,
}

/// How rows of a table are found. Key expressions refer to earlier slots, parameters, registers,
/// constants.
#[derive(Clone, Debug)]
pub enum Access {
    Scan,
    /// Equality on all keys of an index (unique or not, hash or ordered). A NULL key finds nothing.
    Lookup {
        index: IndexId,
        keys: Vec<Expr>,
    },
    /// A stretch of an ordered index: equality on a prefix of its keys, then optional bounds on the
    /// next key.
    Range {
        index: IndexId,
        equal: Vec<Expr>,
        lower: Option<Bound>,
        upper: Option<Bound>,
        descending: bool,
    },
    /// Several lookups, one for each value of a list: of whole keys, or in an ordered index of the
    /// first ones. Listed values that are equal count once, NULL finds nothing.
    Lookups {
        index: IndexId,
        before: Vec<Expr>,
        list: KeyList,
        after: Vec<Expr>,
    },
    /// Of a stretch of an ordered index, in each store, only the first row (`greatest`: the last)
    /// whose key after `equal` is not NULL: what MIN and MAX need.
    Extreme {
        index: IndexId,
        equal: Vec<Expr>,
        lower: Option<Bound>,
        upper: Option<Bound>,
        greatest: bool,
    },
}

/// The values of an IN that an index looks up.
#[derive(Clone, Debug)]
pub enum KeyList {
    Values(Vec<Expr>),
    /// An array parameter.
    Array(Expr),
    /// What a subquery answers that refers to nothing outside. The conditions that led here are
    /// still tested on what is found, so that all rows may be read instead when it answers much.
    Subquery(u16),
}

#[derive(Clone, Debug)]
pub struct Bound {
    pub value: Expr,
    pub inclusive: bool,
    /// A NULL is not a bound, where otherwise nothing compares with it.
    pub open_if_null: bool,
}

/// Grouping. Its result row, bound to `slot`, is the group keys, with `sets` the number of the
/// row's set, then the aggregates.
#[derive(Clone, Debug)]
pub struct Aggregation {
    pub slot: u16,
    /// Empty: one group, there even if no row came.
    pub group_by: Vec<Expr>,
    /// GROUPING SETS, ROLLUP, CUBE: bit by bit which of the keys count in a set; in it the others
    /// are NULL. Every row goes to one group of each set. Empty: one set of all keys.
    pub sets: Vec<u64>,
    pub aggregates: Vec<Aggregate>,
    pub having: Option<Expr>,
}

/// Window functions: all rows are collected, then each function is computed over its windows. The
/// results, in the order of [`WindowFunction::output`], are bound to `slot`; the rows stay bound to
/// the slots they came in.
#[derive(Clone, Debug)]
pub struct Windowing {
    pub slot: u16,
    /// The slots of the rows: the sources', or that of the aggregation.
    pub kept: Vec<u16>,
    pub windows: Vec<Window>,
}

/// One OVER (PARTITION BY ... ORDER BY ...), with the functions over it.
#[derive(Clone, Debug)]
pub struct Window {
    pub partition_by: Vec<Expr>,
    /// Expressions, and whether descending.
    pub order_by: Vec<(Expr, bool)>,
    pub functions: Vec<WindowFunction>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WindowFunction {
    pub kind: WindowKind,
    /// Of an aggregate none or one; of the others as in SQL.
    pub arguments: Vec<Expr>,
    pub frame: WindowFrame,
    /// Place among the results.
    pub output: u16,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WindowKind {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    /// Its own argument is empty: the value comes from `arguments`.
    Aggregate(Aggregate),
}

#[derive(Clone, Debug, PartialEq)]
pub struct WindowFrame {
    pub unit: FrameUnit,
    pub start: FrameBound,
    pub end: FrameBound,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameUnit {
    Rows,
    /// Bounds are at rows whose ORDER BY values are equal. Offsets are distances of the value of
    /// the one ORDER BY, of its kind (of a TIMESTAMP microseconds, of a DATE days).
    Range,
    /// Offsets count groups of rows whose ORDER BY values are equal.
    Groups,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FrameBound {
    UnboundedPreceding,
    /// An expression without columns.
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

#[derive(Clone, Debug)]
pub struct Insert {
    pub table: TableId,
    pub source: InsertSource,
    /// For each column of the table, its value; over the source query's row where there is one
    /// (bound to `slot`).
    pub row: Vec<Expr>,
    /// UPSERT: when the primary key is there, set `assigned` columns instead.
    pub upsert: bool,
    /// Columns that the statement names, in table positions.
    pub assigned: Vec<u16>,
    /// Slot for the source query's row.
    pub slot: u16,
    pub returning: Option<Box<Returning>>,
}

/// RETURNING: a row of the answer for each changed row, instead of their number.
#[derive(Clone, Debug)]
pub struct Returning {
    /// Where the changed row is bound: as it is after INSERT and UPDATE, as it was before DELETE.
    pub slot: u16,
    pub columns: Vec<OutputColumn>,
    pub output: Vec<Expr>,
}

#[derive(Clone, Debug)]
pub enum InsertSource {
    /// VALUES: one row (`Insert.row`); further rows stand here, each as wide as the table.
    Values {
        more: Vec<Vec<Expr>>,
    },
    Query(Box<Query>),
}

#[derive(Clone, Debug)]
pub struct Update {
    pub table: TableId,
    pub slot: u16,
    pub access: Access,
    pub filter: Option<Expr>,
    /// FROM: a row is updated if this block has a row for it, with the values of the first.
    pub joined: Option<Box<Select>>,
    pub assignments: Vec<(u16, Expr)>,
    pub returning: Option<Box<Returning>>,
}

#[derive(Clone, Debug)]
pub struct Delete {
    pub table: TableId,
    pub slot: u16,
    pub access: Access,
    pub filter: Option<Expr>,
    /// ORDER BY over expressions of `slot`, with LIMIT and OFFSET.
    pub order_by: Vec<(Expr, bool)>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// USING: a row is deleted if this block has a row for it.
    pub joined: Option<Box<Select>>,
    pub returning: Option<Box<Returning>>,
    /// MIGRATE FROM: nothing can be deleted, for no row can be given away; a row to migrate is an
    /// error.
    pub migrate: bool,
}

#[derive(Clone, Debug)]
pub struct Subquery {
    pub kind: SubqueryKind,
    pub query: Query,
    /// Refers to slots outside itself, so must run for each outer row; otherwise once per execution
    /// of its statement.
    pub correlated: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubqueryKind {
    /// NULL when it has no row, an error when it has two.
    Scalar,
    Exists,
    /// `operand operator ANY (query)`; IN is Equal ANY.
    Any(CompareOperator),
    /// `operand operator ALL (query)`; NOT IN is NotEqual ALL.
    All(CompareOperator),
    /// Whether one of the query's rows equals the operand, which has the values of a row together
    /// if these are several. The query refers to nothing outside. With `unknown` a comparison with
    /// NULL leaves the answer open, as IN of rows has it; without, NULL equals nothing: an EXISTS
    /// whose equalities with outer rows have become the operand.
    Among {
        unknown: bool,
    },
}
