//! Schema changes, already bound: names resolved, expressions typed.

use crate::objects::{Column, IndexKind, Procedure, View};
use ferrite_base::{IndexId, TableId};
use ferrite_expr::Expr;

/// One DDL statement, bound. Names are as they will be stored.
#[derive(Clone, Debug)]
pub enum Change {
    CreateTable {
        name: String,
        columns: Vec<Column>,
        /// Primary key and unique constraints; `primary_key` is the position of one of them.
        indexes: Vec<NewIndex>,
        primary_key: Option<usize>,
        checks: Vec<(String, Expr)>,
        /// CREATE STREAM, with its partitioning column if it names one.
        stream: bool,
        partition_column: Option<u16>,
    },
    /// DROP TABLE / VIEW / STREAM. `cascade` takes along the views over it and the procedures partitioned on it.
    DropTable {
        name: String,
        if_exists: bool,
        cascade: bool,
        /// The statement said VIEW (or STREAM): the object must be one.
        kind: crate::TableKind,
    },
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
    CreateRole {
        name: String,
        permissions: Vec<String>,
    },
    /// The two trade their rows.
    SwapTables {
        one: String,
        other: String,
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
    /// Name of the constraint that makes the index, if it was given one. An index with neither a name nor a constraint's name
    /// is taken to come from an unnamed constraint, and gets both made up.
    pub constraint: Option<String>,
}

/// What the stores must do to follow a change; looked up in the new catalog by id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Make the table's storage; for a view, fill it from its source.
    CreateTable(TableId),
    DropTable(TableId),
    /// Build the index from the rows; may fail when it is unique and they are not.
    CreateIndex(TableId, IndexId),
    DropIndex(TableId, IndexId),
    /// The table's columns are as before but its partitioning changed; it must be empty.
    Repartition(TableId),
    /// Only the definition changed (dependent views added or dropped).
    Refresh(TableId),
}
