//! What parsing yields: statements, still with names.

use ferrite_catalog::{Change, Export, TableAction, TimeUnit};
use ferrite_value::ColumnType;
use sqlparser::ast;
use sqlparser::tokenizer::Location;

/// One statement of a batch, parsed but not bound.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(crate) text: String,
    /// Where it begins in what the caller sent.
    pub(crate) start: Location,
    pub(crate) body: Body,
}

impl Statement {
    /// The statement as written, without the `;`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What errors show in place of what was parsed.
    pub fn set_text(&mut self, text: &str) {
        text.clone_into(&mut self.text);
    }

    /// SELECT and its like, and no change.
    pub fn is_query(&self) -> bool {
        matches!(&self.body, Body::Sql(sql) if matches!(sql.kind, SqlKind::Query(_)))
    }

    /// A schema change, to be bound with `bind_ddl`; others go to `compile_adhoc`.
    pub fn is_ddl(&self) -> bool {
        matches!(self.body, Body::Ddl(_))
    }

    /// A schema change that loads or removes classes.
    pub fn changes_classes(&self) -> bool {
        let Body::Ddl(ddl) = &self.body else { return false };
        matches!(**ddl, Ddl::Change(Change::LoadClasses { .. } | Change::RemoveClasses { .. }))
    }

    /// For EXPLAIN the statement that it is about, and whether it is to be run.
    pub(crate) fn explained(&self) -> Option<(&Statement, bool)> {
        match &self.body {
            Body::Sql(sql) => match &sql.kind {
                SqlKind::Explain { analyze, explained } => Some((explained, *analyze)),
                _ => None,
            },
            Body::Ddl(_) => None,
        }
    }

    /// How many `?` the statement has.
    pub fn parameters(&self) -> usize {
        match &self.body {
            Body::Ddl(_) => 0,
            Body::Sql(sql) => usize::from(sql.placeholders),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Ddl(Box<Ddl>),
    Sql(Box<SqlStatement>),
}

/// A query or data change.
#[derive(Clone, Debug)]
pub(crate) struct SqlStatement {
    pub kind: SqlKind,
    /// Number of `?` in it.
    pub placeholders: u16,
}

#[derive(Clone, Debug)]
pub(crate) enum SqlKind {
    Query(Box<ast::Query>),
    Insert {
        insert: Box<ast::Insert>,
        upsert: bool,
    },
    Update(Box<ast::Update>),
    /// `migrate`: MIGRATE FROM.
    Delete {
        delete: Box<ast::Delete>,
        offset: Option<Box<ast::Expr>>,
        migrate: bool,
    },
    Truncate {
        table: String,
    },
    Explain {
        analyze: bool,
        explained: Box<Statement>,
    },
}

/// An expression and the text it was written as.
#[derive(Clone, Debug)]
pub(crate) struct WrittenExpr {
    pub expr: ast::Expr,
    pub text: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Ddl {
    CreateTable(CreateTable),
    AlterTable {
        table: String,
        stream: bool,
        if_exists: bool,
        actions: Vec<AlterAction>,
    },
    /// DR TABLE, and SET DR; None: all tables.
    Replication {
        table: Option<String>,
    },
    CreateIndex {
        table: String,
        index: Box<IndexDefinition>,
        if_not_exists: bool,
    },
    CreateView(CreateView),
    CreateProcedure(CreateProcedure),
    PartitionProcedure {
        name: String,
        partitioning: PartitionClause,
    },
    /// `user`: AS USER.
    CreateTask {
        task: ferrite_catalog::Task,
        user: Option<String>,
    },
    /// Names and nothing to bind: the change itself. A procedure is named as the statement does.
    Change(Change),
}

#[derive(Clone, Debug)]
pub(crate) struct CreateView {
    pub name: String,
    pub columns: Option<Vec<String>>,
    pub query: Box<ast::Query>,
    pub text: String,
    pub export: Option<Export>,
    pub time_to_live: Option<TimeToLiveClause>,
    /// CREATE MATERIALIZED VIEW: it must be one that is kept up as rows change.
    pub materialized: bool,
    pub if_not_exists: bool,
}

/// One action of ALTER TABLE.
#[derive(Clone, Debug)]
pub(crate) enum AlterAction {
    /// A column with its constraints, or a constraint: what would stand between the parentheses of
    /// CREATE TABLE.
    Add {
        parts: Box<CreateTable>,
        before: Option<String>,
        if_not_exists: bool,
    },
    SetType {
        column: String,
        to: ColumnType,
    },
    /// None: DROP DEFAULT.
    SetDefault {
        column: String,
        default: Option<Box<WrittenExpr>>,
    },
    RenameTable {
        to: String,
    },
    SetTimeToLive(Option<TimeToLiveClause>),
    /// Names and nothing to bind: the action itself.
    Action(TableAction),
    /// What old schemas have and nobody needs any more.
    Nothing,
}

#[derive(Clone, Debug)]
pub(crate) struct TimeToLiveClause {
    pub value: u32,
    pub unit: TimeUnit,
    pub column: String,
    pub batch_size: u32,
    pub max_frequency: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct CreateTable {
    pub name: String,
    pub columns: Vec<ColumnDefinition>,
    pub constraints: Vec<ConstraintDefinition>,
    pub checks: Vec<(Option<String>, WrittenExpr)>,
    pub foreign_keys: usize,
    pub stream: bool,
    pub partition_column: Option<String>,
    pub time_to_live: Option<TimeToLiveClause>,
    pub export: Option<Export>,
    pub if_not_exists: bool,
    /// LIMIT PARTITION ROWS, which newer releases of the original do not have either.
    pub limits_rows: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ColumnDefinition {
    pub name: String,
    pub column_type: ColumnType,
    pub not_null: bool,
    pub default: Option<WrittenExpr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConstraintKind {
    PrimaryKey,
    Unique,
    AssumeUnique,
}

#[derive(Clone, Debug)]
pub(crate) struct ConstraintDefinition {
    pub name: Option<String>,
    pub kind: ConstraintKind,
    pub keys: Vec<WrittenExpr>,
    pub hash: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct IndexDefinition {
    pub name: String,
    pub unique: bool,
    pub assume_unique: bool,
    pub hash: bool,
    pub keys: Vec<WrittenExpr>,
    pub predicate: Option<WrittenExpr>,
}

#[derive(Clone, Debug)]
pub(crate) struct CreateProcedure {
    pub or_replace: bool,
    pub name: String,
    pub parameters: Option<Vec<(String, ColumnType)>>,
    pub partitioning: Option<PartitionClause>,
    /// PARTITION ON ... AND ON ...
    pub second_partitioning: Option<PartitionClause>,
    pub directed: bool,
    pub compound: bool,
    pub allow_roles: Vec<String>,
    pub body: String,
    /// Where the body begins in what the caller sent.
    pub body_start: Location,
    /// FROM CLASS.
    pub class: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct PartitionClause {
    pub table: String,
    pub column: String,
    pub parameter: u16,
}
