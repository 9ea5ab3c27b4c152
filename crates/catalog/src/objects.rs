//! The objects of a schema.

use crate::task::Task;
use ferrite_base::{CatalogVersion, IndexId, TableId, UserError, earlier};
use ferrite_expr::{Aggregate, Expr, UserFunction};
use ferrite_value::ColumnType;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// One version of the schema, made by [`Catalog::apply`] from the one before. Names are as stored:
/// upper case unless they were quoted.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub version: CatalogVersion,
    /// What DECIMAL(p, s) means in this database.
    pub decimals: DecimalScale,
    /// How what is defined next computes.
    pub values: FunctionValues,
    /// By name; views and streams too.
    pub tables: BTreeMap<String, Arc<Table>>,
    /// By upper-cased name, for lookups that ignore case; the object keeps the name as declared.
    pub procedures: BTreeMap<String, Arc<Procedure>>,
    /// By name in lower case: permissions as wire-protocol 12.11 names them, in lower case, implied
    /// ones included. Without the built-in roles; [`Catalog::permissions_of`] knows them too.
    pub roles: BTreeMap<String, Vec<String>>,
    /// Views that are computed when they are read, by name. No table has the name of one.
    pub plain_views: BTreeMap<String, Arc<PlainView>>,
    /// What Java procedures are made of.
    pub classes: crate::Classes,
    /// User-defined functions, by name.
    pub functions: BTreeMap<String, Arc<UserFunction>>,
    /// By name.
    pub tasks: BTreeMap<String, Arc<Task>>,
    pub next_table_id: u32,
    pub next_index_id: u32,
    /// The values of `tables` by id, for the lookups of running plans.
    by_id: Vec<Option<Arc<Table>>>,
    /// In a catalog without indexes, what the tables' keys are still: see [`Catalog::keys_of`].
    keys: BTreeMap<TableId, Vec<Vec<u16>>>,
}

/// Which values some functions have in what is defined (docs/decisions/0024): a history begins with
/// the earlier ones, and has today's from the first change on that says so. What was defined before
/// keeps its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FunctionValues {
    #[default]
    Current,
    /// Today's, but of literals with more digits than DECIMAL has only those of DECIMAL
    /// (docs/decisions/0072).
    RoundedLiterals,
    /// Those of databases that were made before there was a choice.
    Earlier,
}

impl FunctionValues {
    /// Runs `body` with these values.
    pub fn hold<T>(self, body: impl FnOnce() -> T) -> T {
        match self {
            FunctionValues::Current => body(),
            FunctionValues::RoundedLiterals => earlier::with_rounded_literals(body),
            FunctionValues::Earlier => earlier::with(body),
        }
    }
}

/// What precision and scale of DECIMAL(p, s) do. A property of the database, set by the first
/// change of its schema: the texts of its views and procedures mean what they meant when they were
/// written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DecimalScale {
    /// Values are rounded to the scale, and must fit the precision.
    #[default]
    Declared,
    /// Nothing, as in the original and in databases that were made before there was a choice.
    Ignored,
}

impl DecimalScale {
    /// As `SET DECIMAL_SCALE` and the server's option write it, in upper case.
    pub fn name(self) -> &'static str {
        match self {
            DecimalScale::Declared => "DECLARED",
            DecimalScale::Ignored => "IGNORED",
        }
    }

    pub fn from_name(name: &str) -> Option<DecimalScale> {
        [DecimalScale::Declared, DecimalScale::Ignored].into_iter().find(|one| one.name().eq_ignore_ascii_case(name))
    }
}

/// A view that is no more than its query: whoever reads it runs that. The stores do not know it.
#[derive(Clone, Debug)]
pub struct PlainView {
    pub name: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// The query, with columns in place of each `*`.
    pub text: String,
    /// Tables and views that it reads, also through other views.
    pub reads: BTreeSet<String>,
    pub parsed: Parsed,
}

/// What whoever knows SQL has made of a text, to be spared making it again.
#[derive(Clone)]
pub struct Parsed(Arc<dyn Any + Send + Sync + UnwindSafe + RefUnwindSafe>);

impl Parsed {
    pub fn new<T: Any + Send + Sync + UnwindSafe + RefUnwindSafe>(parsed: T) -> Parsed {
        Parsed(Arc::new(parsed))
    }

    pub fn get<T: Any>(&self) -> Option<&T> {
        let parsed: &dyn Any = &*self.0;
        parsed.downcast_ref()
    }
}

/// It follows from the text.
impl fmt::Debug for Parsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Parsed")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableKind {
    Table,
    View,
    Stream,
}

/// A table, a materialized view or a stream.
#[derive(Clone, Debug)]
pub struct Table {
    pub id: TableId,
    pub name: String,
    pub kind: TableKind,
    pub columns: Vec<Column>,
    /// None: replicated, every partition has all rows. A view is partitioned like its source table
    /// when it is grouped by the partitioning column (this names the view's column); a view of a
    /// partitioned table that is not has `partitioned_without_column` set: each partition keeps its
    /// part of each group, and queries add them up.
    pub partition_column: Option<u16>,
    /// Only for views, see `partition_column`.
    pub partitioned_without_column: bool,
    pub indexes: Vec<Index>,
    /// Which of `indexes` is the primary key.
    pub primary_key: Option<IndexId>,
    pub checks: Vec<Check>,
    pub time_to_live: Option<TimeToLive>,
    /// EXPORT TO or MIGRATE TO, kept for tools; nothing is sent.
    pub export: Option<Export>,
    /// Set when `kind` is View.
    pub view: Option<View>,
    /// Views that must be kept up when this table changes.
    pub dependent_views: Vec<TableId>,
}

impl Table {
    /// Rows are spread over the partitions (and not copied to each).
    pub fn is_partitioned(&self) -> bool {
        self.partition_column.is_some() || self.partitioned_without_column
    }

    pub fn column_named(&self, name: &str) -> Option<u16> {
        self.columns.iter().position(|column| column.name == name).map(|position| position as u16)
    }

    pub fn index(&self, id: IndexId) -> Option<&Index> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// Columns that tell all rows apart and are never NULL: a list for each key.
    fn keys(&self) -> Vec<Vec<u16>> {
        let never_null = |columns: &Vec<u16>| columns.iter().all(|column| !self.columns[usize::from(*column)].nullable);
        let whole = |index: &&Index| index.unique && !index.assume_unique && index.predicate.is_none();
        self.indexes.iter().filter(whole).filter_map(Index::key_columns).filter(never_null).collect()
    }

    pub fn primary_key_index(&self) -> Option<&Index> {
        self.primary_key.and_then(|id| self.index(id))
    }
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub column_type: ColumnType,
    pub nullable: bool,
    /// Constant or NOW, already of the column's type; None means NULL.
    pub default: Option<Expr>,
    /// As `@SystemCatalog COLUMNS` shows it: text in single quotes, numbers plain.
    pub default_text: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    Ordered,
    Hash,
}

#[derive(Clone, Debug)]
pub struct Index {
    pub id: IndexId,
    pub name: String,
    /// Key expressions over slot 0, most often plain columns.
    pub keys: Vec<Expr>,
    pub unique: bool,
    /// Unique only within each partition, by the user's word.
    pub assume_unique: bool,
    pub kind: IndexKind,
    /// Partial index: only rows for which this is true.
    pub predicate: Option<Expr>,
    /// The name of the constraint that made this index (PRIMARY KEY, UNIQUE), if one did.
    pub constraint: Option<String>,
    pub text: IndexText,
}

/// How an index was written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct IndexText {
    /// A text for each key; empty where all keys are plain columns, whose names say it all.
    pub keys: Vec<String>,
    pub predicate: Option<String>,
}

/// A condition that every row meets, or at least does not fail.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    pub name: String,
    /// Over slot 0.
    pub condition: Expr,
    /// As written.
    pub text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeUnit {
    Seconds,
    Minutes,
    Hours,
    Days,
}

impl TimeUnit {
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "SECONDS",
            TimeUnit::Minutes => "MINUTES",
            TimeUnit::Hours => "HOURS",
            TimeUnit::Days => "DAYS",
        }
    }

    pub fn micros(self) -> i64 {
        1_000_000
            * match self {
                TimeUnit::Seconds => 1,
                TimeUnit::Minutes => 60,
                TimeUnit::Hours => 3_600,
                TimeUnit::Days => 86_400,
            }
    }
}

/// USING TTL: rows are deleted some time after the moment that a column of theirs names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeToLive {
    pub value: u32,
    pub unit: TimeUnit,
    /// A TIMESTAMP, or an integer that counts `unit` since 1970.
    pub column: u16,
    /// Rows that one transaction deletes at most.
    pub batch_size: u32,
    /// Rounds of deletion per second.
    pub max_frequency: u32,
}

impl TimeToLive {
    pub const BATCH_SIZE_DEFAULT: u32 = 1_000;
    pub const MAX_FREQUENCY_DEFAULT: u32 = 1;

    /// Rows whose column is at most this have expired at `now` (microseconds since 1970).
    pub fn cutoff(&self, now: i64, column_is_timestamp: bool) -> i64 {
        let unit = self.unit.micros();
        if column_is_timestamp {
            now.saturating_sub(unit.saturating_mul(i64::from(self.value)))
        } else {
            (now / unit).saturating_sub(i64::from(self.value))
        }
    }
}

/// Where changes or expired rows were to go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// MIGRATE, not EXPORT.
    pub migrate: bool,
    /// To a topic, not a target.
    pub topic: bool,
    /// The target's or topic's name.
    pub to: String,
    /// INSERT, DELETE, UPDATE, UPDATE_OLD, UPDATE_NEW.
    pub triggers: Vec<String>,
    /// WITH KEY (...) of a topic.
    pub key: Vec<String>,
    /// WITH VALUE (...) of a topic.
    pub value: Vec<String>,
}

/// Roles that every database has, with their permissions.
pub const BUILT_IN_ROLES: [(&str, &[&str]); 2] = [
    ("administrator", &["admin", "defaultproc", "defaultprocread", "sql", "sqlread", "allproc", "compoundproc"]),
    ("user", &["defaultproc", "defaultprocread", "sql", "sqlread", "allproc"]),
];

/// Name of the index that a view has over its groups; every view's has this name.
pub const VIEW_KEY_INDEX: &str = "MATVIEW_PK_INDEX";
/// Name of its constraint.
pub const VIEW_KEY_CONSTRAINT: &str = "MATVIEW_PK_CONSTRAINT";

impl Index {
    /// The index over a view's groups, which the view brings along.
    pub fn is_view_key(&self) -> bool {
        self.constraint.as_deref() == Some(VIEW_KEY_CONSTRAINT)
    }

    /// Its name, no other of its table's having it: a view may have a declared index that is named
    /// as the one over its groups.
    pub fn distinct_name(&self) -> &str {
        if self.name == VIEW_KEY_INDEX && !self.is_view_key() { "MATVIEW_PK_INDEX, declared" } else { &self.name }
    }

    /// Whether one of the keys is this column itself.
    pub fn has_key_column(&self, wanted: u16) -> bool {
        self.keys.iter().any(|key| matches!(key, Expr::Column { slot: 0, column } if *column == wanted))
    }

    /// The key's columns when every key expression is a plain column.
    pub fn key_columns(&self) -> Option<Vec<u16>> {
        self.keys
            .iter()
            .map(|key| match key {
                Expr::Column { slot: 0, column } => Some(*column),
                _ => None,
            })
            .collect()
    }
}

/// What a materialized view computes. The view's own columns are: the group keys and aggregates in
/// declared order, as `outputs` says, then hidden columns that are not in `Table::columns`: `table`
/// adds what it needs (a row count).
#[derive(Clone, Debug)]
pub struct View {
    pub source: TableId,
    /// Replicated tables joined to the source, bound to slots 1.., each with its join condition.
    pub joins: Vec<(TableId, Option<Expr>)>,
    pub filter: Option<Expr>,
    pub group_by: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
    /// For each visible column of the view, where it comes from.
    pub outputs: Vec<ViewOutput>,
    /// The defining SELECT as the user wrote it.
    pub text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViewOutput {
    /// Position in `group_by`.
    Group(u16),
    /// Position in `aggregates`.
    Aggregate(u16),
}

/// A stored procedure as declared. `sql` compiles it to a program; default procedures (TABLE.insert
/// ...) are made by `sql` from the tables and are not listed here.
#[derive(Clone, Debug)]
pub struct Procedure {
    pub name: String,
    /// Declared parameters of an SQL/PSM procedure; None where they are the `?` of its statements.
    pub parameters: Option<Vec<(String, ColumnType)>>,
    pub partitioning: Option<ProcedurePartitioning>,
    /// Called for one partition by destination, not by key.
    pub directed: bool,
    /// Runs outside of transactions, in stages that call other procedures. Its body is a class.
    pub compound: bool,
    /// Body as written: one statement, or `BEGIN ... END`. Empty where a class is the body.
    pub body: String,
    /// FROM CLASS: the Java class, among the loaded ones.
    pub class: Option<String>,
    pub allow_roles: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcedurePartitioning {
    pub table: TableId,
    pub column: u16,
    /// Which parameter carries the partitioning value, from 0.
    pub parameter: u16,
}

impl Catalog {
    /// What a history begins with. One that does not say otherwise is from the time when precision
    /// and scale were ignored, and some functions had other values.
    pub fn before_history() -> Catalog {
        Catalog { decimals: DecimalScale::Ignored, values: FunctionValues::Earlier, ..Catalog::default() }
    }

    #[inline]
    pub fn table(&self, id: TableId) -> Option<&Arc<Table>> {
        self.by_id.get(id.index())?.as_ref()
    }

    /// What a role may do, the built-in ones included. None when there is no such role.
    pub fn permissions_of(&self, role: &str) -> Option<Vec<&str>> {
        let role = role.to_lowercase();
        if let Some((_, permissions)) = BUILT_IN_ROLES.iter().find(|(name, _)| *name == role) {
            return Some(permissions.to_vec());
        }
        self.roles.get(&role).map(|permissions| permissions.iter().map(String::as_str).collect())
    }

    /// The table that has this index, and the index. The indexes that views have for their groups
    /// share one name and are not found.
    pub fn index_named(&self, name: &str) -> Option<(&Arc<Table>, &Index)> {
        self.tables.values().find_map(|table| {
            let index = table.indexes.iter().find(|index| index.name == name && !index.is_view_key())?;
            Some((table, index))
        })
    }

    /// Adds a table, or replaces the one with its id and name.
    pub(crate) fn put_table(&mut self, table: Table) {
        let table = Arc::new(table);
        let position = table.id.index();
        if self.by_id.len() <= position {
            self.by_id.resize(position + 1, None);
        }
        self.by_id[position] = Some(Arc::clone(&table));
        self.tables.insert(table.name.clone(), table);
    }

    /// Room for all table ids that were given out, whether their tables are there still or not.
    pub(crate) fn reserve_ids(&mut self) {
        self.by_id.resize(self.next_table_id as usize, None);
    }

    pub(crate) fn take_table(&mut self, id: TableId) -> Option<Arc<Table>> {
        let table = self.by_id.get_mut(id.index())?.take()?;
        self.tables.remove(&table.name);
        Some(table)
    }

    /// The same schema, but that these tables have no indexes: what plans for a snapshot are
    /// compiled against.
    pub fn without_indexes(&self, tables: &[TableId]) -> Catalog {
        let mut catalog = self.clone();
        for table in tables.iter().filter_map(|id| self.table(*id)) {
            catalog.keys.insert(table.id, table.keys());
            catalog.put_table(Table { indexes: Vec::new(), primary_key: None, ..Table::clone(table) });
        }
        catalog
    }

    /// The keys of a table, of which no two rows have the same and none is NULL, whether or not
    /// there are indexes to find them by.
    pub fn keys_of(&self, table: &Table) -> Vec<Vec<u16>> {
        self.keys.get(&table.id).cloned().unwrap_or_else(|| table.keys())
    }

    pub fn table_named(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.get(name)
    }

    /// There is no table of this name; maybe a view that is computed when it is read.
    #[cold]
    pub fn no_table(&self, name: &str) -> UserError {
        if !self.plain_views.contains_key(name) {
            return UserError::unknown_table(name).in_ddl();
        }
        UserError::ddl("42809", format!("{name} is a view that is computed when it is read"))
            .with_hint("it has no rows of its own; to change what it shows, drop it and create it again")
    }

    /// Whether a table, stream or view has the name.
    pub fn is_taken(&self, name: &str) -> bool {
        self.tables.contains_key(name) || self.plain_views.contains_key(name)
    }

    /// The views over a table, by name.
    pub fn views_of(&self, table: &Table) -> Vec<&Arc<Table>> {
        table.dependent_views.iter().filter_map(|id| self.table(*id)).collect()
    }

    pub fn procedure_named(&self, name: &str) -> Option<&Arc<Procedure>> {
        self.procedures.get(&name.to_uppercase())
    }
}
