//! Schema changes, already bound: names resolved, expressions typed.

use crate::objects::{Check, Column, DecimalScale, Export, IndexKind, IndexText, Procedure, TimeToLive, View};
use crate::task::{OnError, Task};
use ferrite_base::{IndexId, TableId};
use ferrite_expr::Expr;
use ferrite_value::ColumnType;
use std::sync::Arc;

/// One DDL statement, bound. Names are as they will be stored.
#[derive(Clone, Debug)]
pub enum Change {
    CreateTable {
        name: String,
        columns: Vec<Column>,
        /// Primary key and unique constraints; `primary_key` is the position of one of them.
        indexes: Vec<NewIndex>,
        primary_key: Option<usize>,
        checks: Vec<Check>,
        /// CREATE STREAM, with its partitioning column if it names one.
        stream: bool,
        partition_column: Option<u16>,
    },
    /// DROP TABLE / VIEW / STREAM. `cascade` takes along the views over it and the procedures
    /// partitioned on it.
    DropTable {
        name: String,
        if_exists: bool,
        cascade: bool,
        /// The statement said VIEW (or STREAM): the object must be one.
        kind: crate::TableKind,
    },
    /// One action of ALTER TABLE or ALTER STREAM.
    AlterTable {
        table: String,
        action: TableAction,
    },
    RenameTable {
        table: String,
        to: String,
        /// What the statement says that it is.
        kind: crate::TableKind,
    },
    RenameIndex {
        name: String,
        to: String,
    },
    RenameProcedure {
        name: String,
        to: String,
    },
    /// One after the other, all or none. None at all: nothing is changed.
    Several(Vec<Change>),
    SetDecimalScale(DecimalScale),
    PartitionTable {
        table: String,
        column: String,
    },
    ReplicateTable {
        table: String,
    },
    CreateIndex {
        table: String,
        index: NewIndex,
    },
    DropIndex {
        name: String,
        if_exists: bool,
    },
    CreateView {
        name: String,
        columns: Vec<Column>,
        view: View,
    },
    CreatePlainView {
        view: crate::PlainView,
    },
    CreateProcedure {
        procedure: Procedure,
    },
    /// The older PARTITION PROCEDURE p ON TABLE t COLUMN c PARAMETER n.
    PartitionProcedure {
        name: String,
        partitioning: crate::ProcedurePartitioning,
    },
    DropProcedure {
        name: String,
        if_exists: bool,
    },
    /// Java classes: the jar's are added, in the place of those with their names.
    LoadClasses {
        jar: Arc<[u8]>,
    },
    /// Those that the patterns mean, see [`crate::Classes::without`].
    RemoveClasses {
        patterns: Vec<String>,
    },
    /// FROM METHOD; without a method an aggregate FROM CLASS.
    CreateFunction {
        name: String,
        class: String,
        method: Option<String>,
    },
    DropFunction {
        name: String,
        /// DROP AGGREGATE FUNCTION; None: the statement did not say.
        aggregate: Option<bool>,
        if_exists: bool,
    },
    CreateTask {
        task: Task,
    },
    AlterTask {
        name: String,
        action: TaskAction,
    },
    DropTask {
        name: String,
        if_exists: bool,
    },
    CreateRole {
        name: String,
        permissions: Vec<String>,
    },
    /// The two trade their rows.
    SwapTables {
        one: String,
        other: String,
    },
    /// The table, which must be empty, gets a copy of the other one's rows: the last step of a
    /// restore.
    FillTable {
        table: String,
        from: String,
    },
    DropRole {
        name: String,
        if_exists: bool,
    },
}

#[derive(Clone, Debug)]
pub struct NewIndex {
    /// None: named after the constraint, or made up as the original does (`VOLTDB_AUTOGEN_...`).
    pub name: Option<String>,
    pub keys: Vec<Expr>,
    pub unique: bool,
    pub assume_unique: bool,
    pub kind: IndexKind,
    pub predicate: Option<Expr>,
    /// Name of the constraint that makes the index, if it was given one. An index with neither a
    /// name nor a constraint's name is taken to come from an unnamed constraint, and gets both made
    /// up.
    pub constraint: Option<String>,
    pub text: IndexText,
}

/// What ALTER TABLE can do to a table.
#[derive(Clone, Debug)]
pub enum TableAction {
    AddColumn {
        column: Column,
        /// The column before which it goes; None: last.
        before: Option<String>,
    },
    DropColumn {
        name: String,
        if_exists: bool,
        /// Takes along indexes, views and checks that use the column.
        cascade: bool,
    },
    /// The default, converted, comes along.
    SetType {
        column: String,
        to: ColumnType,
        default: Option<Expr>,
        default_text: Option<String>,
    },
    SetDefault {
        column: String,
        default: Option<Expr>,
        default_text: Option<String>,
    },
    SetNullable {
        column: String,
        nullable: bool,
    },
    AddKey {
        index: NewIndex,
        primary_key: bool,
    },
    AddCheck(Check),
    DropConstraint {
        name: String,
        if_exists: bool,
    },
    DropPrimaryKey,
    RenameColumn {
        column: String,
        to: String,
    },
    /// None: rows live for ever.
    SetTimeToLive(Option<TimeToLive>),
    SetExport(Option<Export>),
}

/// What ALTER TASK can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskAction {
    Enable,
    Disable,
    OnError(OnError),
}

/// What the stores must do to follow a change; looked up in the new catalog by id.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Make the table's storage; for a view, fill it from its source.
    CreateTable(TableId),
    DropTable(TableId),
    /// Build the index from the rows; may fail when it is unique and they are not.
    CreateIndex(TableId, IndexId),
    DropIndex(TableId, IndexId),
    /// The table's columns are as before but its partitioning changed: its rows move.
    Repartition(TableId),
    /// The table's rows get other columns. Its indexes are made anew, and so is its partitioning.
    Rebuild(Arc<Rebuild>),
    /// The first table, which must be empty, gets a copy of the second one's rows.
    Fill(TableId, TableId),
    /// A table that the view reads was rebuilt: its plan and its rows are made anew.
    Refill(TableId),
    /// Every row must meet the table's checks.
    Validate(TableId),
    /// Only the definition changed (dependent views added or dropped).
    Refresh(TableId),
}

/// How the rows of a table become those of its next version.
#[derive(Clone, PartialEq, Debug)]
pub struct Rebuild {
    pub table: TableId,
    pub columns: Vec<RebuiltColumn>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RebuiltColumn {
    pub from: ColumnSource,
    /// Types that the value is converted to, one after the other.
    pub through: Vec<ColumnType>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ColumnSource {
    /// The column at this position before.
    Column(u16),
    /// A constant or NOW; None is NULL.
    Value(Option<Expr>),
}

impl RebuiltColumn {
    pub fn same(column: u16) -> RebuiltColumn {
        RebuiltColumn { from: ColumnSource::Column(column), through: Vec::new() }
    }
}

impl Rebuild {
    /// All columns stay.
    pub fn same(table: TableId, columns: usize) -> Rebuild {
        Rebuild { table, columns: (0..columns as u16).map(RebuiltColumn::same).collect() }
    }

    /// `self`, then `next`.
    pub fn then(&self, next: &Rebuild) -> Rebuild {
        let column = |after: &RebuiltColumn| match after.from {
            ColumnSource::Column(position) => {
                let mut column = self.columns[position as usize].clone();
                column.through.extend_from_slice(&after.through);
                column
            }
            ColumnSource::Value(_) => after.clone(),
        };
        Rebuild { table: self.table, columns: next.columns.iter().map(column).collect() }
    }
}
