//! What the server's catalog holds, as far as a user asks for it: tables with their columns,
//! indexes, procedures. Read with `@SystemCatalog`, whole, and again after a schema change.

use crate::session::{Failure, Session, text};
use ferrite_value::{ColumnType, OwnedValue, SqlType, decimal};
use ferrite_wire::OwnedTable;

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub column_type: ColumnType,
    pub nullable: bool,
    /// As the catalog writes it: texts in quotes.
    pub default: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableKind {
    Table,
    View,
    Stream,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub kind: TableKind,
    pub columns: Vec<Column>,
    /// A view that is computed when it is read: it has no rows of its own.
    pub computed: bool,
    /// Position of the partitioning column; None for replicated tables and for views that do not
    /// have it.
    pub partition_column: Option<usize>,
    /// Whether rows live on one partition each.
    pub partitioned: bool,
    /// Names, in key order; empty without a primary key.
    pub primary_key: Vec<String>,
}

impl Table {
    pub fn column_index(&self, name: &str) -> Option<usize> {
        let exact = self.columns.iter().position(|column| column.name == name);
        exact.or_else(|| self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name)))
    }
}

#[derive(Clone, Debug)]
pub struct Index {
    pub name: String,
    pub table: String,
    pub columns: Vec<String>,
    pub unique: bool,
}

#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: String,
    pub type_name: String,
    pub is_partitioning: bool,
}

#[derive(Clone, Debug)]
pub struct Procedure {
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub single_partition: bool,
    pub read_only: bool,
}

impl Procedure {
    /// One of those that every table has: `T.insert` and its like.
    pub fn is_default(&self) -> bool {
        self.name.contains('.')
    }
}

#[derive(Clone, Debug, Default)]
pub struct Names {
    pub tables: Vec<Table>,
    pub indexes: Vec<Index>,
    pub procedures: Vec<Procedure>,
}

/// Procedures of the server itself, for completion: the catalog does not list them.
pub const SYSTEM_PROCEDURES: &[&str] = &[
    "@AdHoc",
    "@Cancel",
    "@Explain",
    "@ExplainJSON",
    "@ExplainProc",
    "@ExplainView",
    "@GetPartitionKeys",
    "@Pause",
    "@Ping",
    "@QueryStats",
    "@Quiesce",
    "@Resume",
    "@Statistics",
    "@SwapTables",
    "@SystemCatalog",
    "@SystemInformation",
    "@UpdateClasses",
];

impl Names {
    pub fn read(session: &mut Session) -> Result<Names, Failure> {
        let mut catalog = |selector: &str| -> Result<Rows, Failure> {
            let mut response = session.ask("@SystemCatalog", &[text(selector)])?;
            Ok(Rows(if response.tables.is_empty() { None } else { Some(response.tables.swap_remove(0)) }))
        };
        let tables = catalog("TABLES")?.iter().map(|row| table(&row)).collect();
        let procedures = catalog("PROCEDURES")?.iter().map(|row| procedure(&row)).collect();
        let mut names = Names { tables, procedures, ..Names::default() };
        names.read_columns(&catalog("COLUMNS")?);
        names.read_keys(&catalog("PRIMARYKEYS")?);
        names.read_indexes(&catalog("INDEXINFO")?);
        names.read_parameters(&catalog("PROCEDURECOLUMNS")?);
        Ok(names)
    }

    fn read_columns(&mut self, rows: &Rows) {
        let mut columns: Vec<Row<'_>> = rows.iter().collect();
        columns.sort_by_key(|row| row.integer("ORDINAL_POSITION").unwrap_or(0));
        for row in columns {
            let table = row.text("TABLE_NAME");
            let Some(table) = self.tables.iter_mut().find(|other| other.name == table) else { continue };
            if row.text("REMARKS") == "PARTITION_COLUMN" {
                table.partition_column = Some(table.columns.len());
            }
            table.columns.push(Column {
                name: row.text("COLUMN_NAME").to_owned(),
                column_type: column_type(
                    row.text("TYPE_NAME"),
                    row.integer("COLUMN_SIZE"),
                    row.integer("DECIMAL_DIGITS"),
                ),
                nullable: row.text("IS_NULLABLE") != "NO",
                default: row.optional_text("COLUMN_DEF").map(str::to_owned),
            });
        }
    }

    fn read_keys(&mut self, rows: &Rows) {
        let mut keys: Vec<Row<'_>> = rows.iter().collect();
        keys.sort_by_key(|row| row.integer("KEY_SEQ").unwrap_or(0));
        for row in keys {
            let table = row.text("TABLE_NAME");
            if let Some(table) = self.tables.iter_mut().find(|other| other.name == table) {
                table.primary_key.push(row.text("COLUMN_NAME").to_owned());
            }
        }
    }

    fn read_indexes(&mut self, rows: &Rows) {
        for row in rows.iter() {
            let table = row.text("TABLE_NAME");
            let name = row.text("INDEX_NAME");
            let column = row.text("COLUMN_NAME").to_owned();
            match self.indexes.iter_mut().find(|index| index.name == name && index.table == table) {
                Some(index) => index.columns.push(column),
                None => self.indexes.push(Index {
                    name: name.to_owned(),
                    table: table.to_owned(),
                    columns: vec![column],
                    unique: row.integer("NON_UNIQUE") == Some(0),
                }),
            }
        }
    }

    fn read_parameters(&mut self, rows: &Rows) {
        let mut parameters: Vec<Row<'_>> = rows.iter().collect();
        parameters.sort_by_key(|row| row.integer("ORDINAL_POSITION"));
        for row in parameters {
            let name = row.text("PROCEDURE_NAME");
            if let Some(procedure) = self.procedures.iter_mut().find(|other| other.name == name) {
                procedure.parameters.push(Parameter {
                    name: row.text("COLUMN_NAME").to_owned(),
                    type_name: row.text("TYPE_NAME").to_owned(),
                    is_partitioning: row.text("REMARKS").contains("PARTITION_PARAMETER"),
                });
            }
        }
    }

    /// By its name as the catalog has it, or else without regard to case.
    pub fn table(&self, name: &str) -> Option<&Table> {
        let exact = self.tables.iter().find(|table| table.name == name);
        exact.or_else(|| self.tables.iter().find(|table| table.name.eq_ignore_ascii_case(name)))
    }

    pub fn procedure(&self, name: &str) -> Option<&Procedure> {
        let exact = self.procedures.iter().find(|procedure| procedure.name == name);
        exact.or_else(|| self.procedures.iter().find(|procedure| procedure.name.eq_ignore_ascii_case(name)))
    }

    /// Every name that a statement could mean.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let tables = self.tables.iter().map(|table| table.name.as_str());
        let columns = self.tables.iter().flat_map(|table| table.columns.iter().map(|column| column.name.as_str()));
        let procedures = self.procedures.iter().map(|procedure| procedure.name.as_str());
        tables.chain(columns).chain(procedures)
    }
}

/// Without its columns.
fn table(row: &Row<'_>) -> Table {
    let kind = match row.text("TABLE_TYPE") {
        "VIEW" => TableKind::View,
        "EXPORT" | "STREAM" => TableKind::Stream,
        _ => TableKind::Table,
    };
    Table {
        name: row.text("TABLE_NAME").to_owned(),
        kind,
        columns: Vec::new(),
        // One that is kept up names the table that it follows.
        computed: kind == TableKind::View && !row.text("REMARKS").contains("\"sourceTable\""),
        partition_column: None,
        partitioned: row.text("REMARKS").contains("\"partitionColumn\""),
        primary_key: Vec::new(),
    }
}

/// Without its parameters.
fn procedure(row: &Row<'_>) -> Procedure {
    let remarks = row.text("REMARKS");
    Procedure {
        name: row.text("PROCEDURE_NAME").to_owned(),
        parameters: Vec::new(),
        single_partition: remarks.contains("\"singlePartition\":true"),
        read_only: remarks.contains("\"readOnly\":true"),
    }
}

/// From the words of `@SystemCatalog COLUMNS`, which do not say whether a VARCHAR's size counts
/// bytes: the server checks. `digits`: behind the point, of DECIMAL.
fn column_type(name: &str, size: Option<i64>, digits: Option<i64>) -> ColumnType {
    let sql_type = SqlType::ALL.into_iter().find(|candidate| candidate.name() == name).unwrap_or(SqlType::Varchar);
    if let (SqlType::Decimal, Some(size), Some(digits)) = (sql_type, size, digits)
        && (size, digits) != (i64::from(decimal::PRECISION), i64::from(decimal::SCALE))
    {
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        return ColumnType::decimal(number(size), number(digits));
    }
    let length = size.and_then(|size| u32::try_from(size).ok()).filter(|_| sql_type.is_variable_length()).unwrap_or(0);
    ColumnType { sql_type, length, in_bytes: false }
}

/// A result table by column names.
struct Rows(Option<OwnedTable>);

impl Rows {
    fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.0.iter().flat_map(|table| table.rows.iter().map(move |cells| Row { table, cells }))
    }
}

#[derive(Clone, Copy)]
struct Row<'t> {
    table: &'t OwnedTable,
    cells: &'t [OwnedValue],
}

impl<'t> Row<'t> {
    fn value(&self, name: &str) -> Option<&'t OwnedValue> {
        self.cells.get(self.table.column_index(name)?)
    }

    fn optional_text(&self, name: &str) -> Option<&'t str> {
        match self.value(name)? {
            OwnedValue::Text(text) => Some(text),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> &'t str {
        self.optional_text(name).unwrap_or_default()
    }

    fn integer(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            OwnedValue::Integer(integer) => Some(*integer),
            _ => None,
        }
    }
}
