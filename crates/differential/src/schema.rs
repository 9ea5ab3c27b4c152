//! Random schemas: tables, keys, indexes and views, printed for each database.
//!
//! Columns of the same name have the same type in all tables, so that USING and set operations find
//! partners. In theirs every integer is BIGINT and every text TEXT, with CHECKs for the ranges and
//! lengths that ours has by type.

use crate::datum::{Datum, Dialect, Type};
use crate::print;
use crate::random::Random;
use crate::tree::Query;
use std::fmt::Write;

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub ty: Type,
    /// As ours declares it.
    pub declared: &'static str,
    pub not_null: bool,
    pub default: Option<Datum>,
}

#[derive(Clone, Debug)]
pub struct Index {
    pub name: String,
    pub unique: bool,
    pub hash: bool,
    /// Column names, or expressions that both databases write alike.
    pub keys: Vec<String>,
    pub predicate: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// Empty for a table without one.
    pub primary_key: Vec<String>,
    pub check: Option<&'static str>,
    pub indexes: Vec<Index>,
    /// None: replicated.
    pub partition_column: Option<String>,
}

/// In ours materialized, or computed when it is read; always the latter in theirs.
#[derive(Clone, Debug)]
pub struct View {
    pub name: String,
    pub query: Query,
    pub columns: Vec<(String, Type)>,
    /// How large the numbers of its columns can be; none for sums over whatever the tables have.
    pub bounds: Option<Vec<f64>>,
}

#[derive(Clone, Debug)]
pub struct Schema {
    pub tables: Vec<Table>,
    pub views: Vec<View>,
    /// Values at the ends of their types are among the data, so no expression is free of hazards.
    pub wild: bool,
}

/// Which of our databases the schema is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// With everything.
    Whole,
    /// The rows only, distributed by other columns: no index, key or view.
    Bare,
}

const POOL: [(&str, Type, &[&str]); 11] = [
    ("k", Type::Integer, &["INTEGER", "BIGINT", "SMALLINT"]),
    ("a", Type::Integer, &["INTEGER", "BIGINT", "SMALLINT"]),
    ("b", Type::Integer, &["BIGINT", "INTEGER"]),
    ("x", Type::Integer, &["BIGINT"]),
    ("f", Type::Float, &["FLOAT"]),
    ("d", Type::Decimal, &["DECIMAL"]),
    ("s", Type::Text, &["VARCHAR(400)", "VARCHAR(120)", "VARCHAR(60)"]),
    ("v", Type::Bytes, &["VARBINARY(100)"]),
    ("t", Type::Timestamp, &["TIMESTAMP"]),
    ("e", Type::Date, &["DATE"]),
    ("o", Type::Boolean, &["BOOLEAN"]),
];
const INDEX_EXPRESSIONS: [(&str, &[&str]); 8] = [
    ("ABS(a)", &["a"]),
    ("(a + b)", &["a", "b"]),
    ("UPPER(s)", &["s"]),
    ("LOWER(s)", &["s"]),
    ("SUBSTRING(s, 1, 2)", &["s"]),
    ("COALESCE(a, b)", &["a", "b"]),
    ("(s || 'x')", &["s"]),
    ("CASE WHEN a > 2 THEN b ELSE a END", &["a", "b"]),
];
const PREDICATES: [(&str, &[&str]); 6] = [
    ("a IS NOT NULL", &["a"]),
    ("a > 2", &["a"]),
    ("b < 5", &["b"]),
    ("s = 'ab'", &["s"]),
    ("a IS NULL", &["a"]),
    ("a > 0 AND b IS NOT NULL", &["a", "b"]),
];
const CHECKS: [(&str, &[&str]); 3] =
    [("a <> 1000", &["a"]), ("b > -900 OR a IS NULL", &["a", "b"]), ("s <> 'never'", &["s"])];

impl Schema {
    pub fn random(random: &mut Random) -> Schema {
        let wild = random.chance(15);
        let count = 2 + random.below(3);
        let tables = (0..count).map(|number| Table::random(random, number)).collect();
        Schema { tables, views: Vec::new(), wild }
    }

    pub fn table(&self, name: &str) -> &Table {
        self.tables.iter().find(|table| table.name == name).expect("a table of the schema")
    }

    /// Statements for ours. A refused one must be refused by all our databases, and then leaves no
    /// trace.
    pub fn ours(&self, layout: Layout) -> Vec<String> {
        let mut statements = Vec::new();
        for table in &self.tables {
            table.ours(layout, &mut statements);
        }
        if layout == Layout::Whole {
            statements.extend(self.views.iter().map(|view| view.create(Dialect::Ours)));
        }
        statements
    }

    pub fn theirs(&self) -> Vec<String> {
        let mut statements = Vec::new();
        for table in &self.tables {
            table.theirs(&mut statements);
        }
        statements.extend(self.views.iter().map(|view| view.create(Dialect::Theirs)));
        statements
    }
}

impl View {
    pub fn create(&self, dialect: Dialect) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        format!("CREATE VIEW {} ({}) AS {}", self.name, names.join(", "), print::query(&self.query, dialect))
    }
}

/// `has`: whether the table has these columns.
fn random_index(
    random: &mut Random,
    name: String,
    keyable: &[String],
    has: &impl Fn(&[&str]) -> bool,
    partition_column: Option<&String>,
) -> Index {
    let mut keys: Vec<String> = Vec::new();
    for _ in 0..1 + random.below(2) {
        let (expression, needed) = *random.pick(&INDEX_EXPRESSIONS);
        let key = if random.chance(25) && has(needed) { expression.to_owned() } else { random.pick(keyable).clone() };
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let unique = random.chance(20);
    if let Some(column) = partition_column.filter(|_| unique)
        && !keys.contains(column)
    {
        keys.push(column.clone());
    }
    let (predicate, needed) = *random.pick(&PREDICATES);
    let predicate = (random.chance(25) && has(needed)).then_some(predicate);
    Index { name, unique, hash: random.chance(20), keys, predicate }
}

impl Table {
    fn random(random: &mut Random, number: usize) -> Table {
        let mut columns = Vec::new();
        for (name, ty, declared) in POOL {
            let share = if matches!(name, "k" | "a" | "b" | "s") { 85 } else { 35 };
            if !random.chance(share) {
                continue;
            }
            let not_null = random.chance(if name == "k" { 60 } else { 22 });
            let default = random.chance(15).then(|| Datum::random(random, ty, false));
            columns.push(Column {
                name: name.to_owned(),
                ty,
                declared: random.pick::<&str>(declared),
                not_null,
                default,
            });
        }
        if columns.len() < 2 {
            return Table::random(random, number);
        }
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let has = |needed: &[&str]| needed.iter().all(|column| names.iter().any(|name| name == column));
        let keyable: Vec<String> =
            columns.iter().filter(|column| column.ty != Type::Boolean).map(|column| column.name.clone()).collect();
        let mut primary_key = Vec::new();
        if random.chance(70) && !keyable.is_empty() {
            primary_key = match random.below(4) {
                0 if keyable.len() > 1 => {
                    let first = random.below(keyable.len() - 1);
                    vec![keyable[first + 1].clone(), keyable[first].clone()]
                }
                1 => vec![random.pick(&keyable).clone()],
                _ => vec![keyable[0].clone()],
            };
            for column in &mut columns {
                column.not_null |= primary_key.contains(&column.name);
            }
        }
        let partition_column = if random.chance(65) {
            let candidates: Vec<&Column> = columns
                .iter()
                .filter(|column| {
                    matches!(column.ty, Type::Integer | Type::Text | Type::Bytes)
                        && (primary_key.is_empty() || primary_key.contains(&column.name))
                })
                .collect();
            (!candidates.is_empty()).then(|| random.pick(&candidates).name.clone())
        } else {
            None
        };
        // A partitioning column is never NULL.
        for column in &mut columns {
            column.not_null |= partition_column.as_ref() == Some(&column.name);
        }
        let indexes = (0..random.below(4)).map(|index| {
            let name = format!("i{number}_{index}");
            random_index(random, name, &keyable, &has, partition_column.as_ref())
        });
        let indexes = indexes.collect();
        let (check, needed) = *random.pick(&CHECKS);
        let check = (random.chance(20) && has(needed)).then_some(check);
        Table { name: format!("t{number}"), columns, primary_key, check, indexes, partition_column }
    }

    pub fn column(&self, name: &str) -> &Column {
        self.columns.iter().find(|column| column.name == name).expect("a column of the table")
    }

    /// Columns that a unique index or key depends on: a change of theirs may meet duplicates in one
    /// order of rows and none in another.
    pub fn is_in_unique_key(&self, column: &str) -> bool {
        let mentions = |text: &str| text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == column);
        self.primary_key.iter().any(|key| key == column)
            || self
                .indexes
                .iter()
                .filter(|index| index.unique)
                .any(|index| index.keys.iter().any(|key| mentions(key)) || index.predicate.is_some_and(mentions))
    }

    fn ours(&self, layout: Layout, statements: &mut Vec<String>) {
        let whole = layout == Layout::Whole;
        let mut parts: Vec<String> = Vec::new();
        for column in &self.columns {
            let mut part = format!("{} {}", column.name, column.declared);
            if let Some(default) = column.default.as_ref().filter(|_| whole) {
                let mut text = String::new();
                default.print(Dialect::Ours, &mut text);
                let text = text.trim_start_matches('(').trim_end_matches(')');
                write!(part, " DEFAULT {text}").expect("a string");
            }
            if column.not_null {
                part.push_str(" NOT NULL");
            }
            parts.push(part);
        }
        if whole && !self.primary_key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", self.primary_key.join(", ")));
        }
        if let Some(check) = self.check.filter(|_| whole) {
            parts.push(format!("CHECK ({check})"));
        }
        statements.push(format!("CREATE TABLE {} ({})", self.name, parts.join(", ")));
        let column = if whole { self.partition_column.as_ref() } else { self.other_partition_column() };
        if let Some(column) = column {
            statements.push(format!("PARTITION TABLE {} ON COLUMN {column}", self.name));
        }
        for index in self.indexes.iter().filter(|_| whole) {
            let unique = if index.unique { "UNIQUE " } else { "" };
            let using = if index.hash { " USING HASH" } else { "" };
            let predicate = index.predicate.map(|text| format!(" WHERE {text}")).unwrap_or_default();
            let keys = index.keys.join(", ");
            statements.push(format!("CREATE {unique}INDEX {} ON {}{using} ({keys}){predicate}", index.name, self.name));
        }
    }

    /// Partitioned otherwise than by the schema: what is replicated there is partitioned, and the
    /// other way round.
    fn other_partition_column(&self) -> Option<&String> {
        let candidate = |column: &&Column| column.not_null && matches!(column.ty, Type::Integer | Type::Text);
        match self.partition_column {
            Some(_) => None,
            None => self.columns.iter().rev().find(candidate).map(|column| &column.name),
        }
    }

    fn theirs(&self, statements: &mut Vec<String>) {
        let mut parts: Vec<String> = Vec::new();
        for column in &self.columns {
            let mut part = format!("{} {}", column.name, column.ty.theirs());
            if let Some(default) = &column.default {
                part.push_str(" DEFAULT ");
                default.print(Dialect::Theirs, &mut part);
            }
            if column.not_null {
                part.push_str(" NOT NULL");
            }
            let name = &column.name;
            let range = |greatest: i64| format!(" CHECK ({name} BETWEEN -{greatest} AND {greatest})");
            let length = |function: &str| {
                let digits: String = column.declared.chars().filter(char::is_ascii_digit).collect();
                format!(" CHECK ({function}({name}) <= {digits})")
            };
            part.push_str(&match column.declared {
                "SMALLINT" => range(i64::from(i16::MAX)),
                "INTEGER" => range(i64::from(i32::MAX)),
                "BIGINT" => range(i64::MAX),
                text if text.starts_with("VARCHAR") => length("CHAR_LENGTH"),
                text if text.starts_with("VARBINARY") => length("OCTET_LENGTH"),
                _ => String::new(),
            });
            parts.push(part);
        }
        if !self.primary_key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", self.primary_key.join(", ")));
        }
        if let Some(check) = self.check {
            parts.push(format!("CHECK ({check})"));
        }
        statements.push(format!("CREATE TABLE {} ({})", self.name, parts.join(", ")));
        // Indexes that are not unique mean nothing. In a unique one NULL equals NULL in ours.
        for index in self.indexes.iter().filter(|index| index.unique) {
            let keys: Vec<String> = index.keys.iter().map(|key| format!("({key})")).collect();
            let predicate = index.predicate.map(|text| format!(" WHERE {text}")).unwrap_or_default();
            let keys = keys.join(", ");
            statements.push(format!(
                "CREATE UNIQUE INDEX {} ON {} ({keys}) NULLS NOT DISTINCT{predicate}",
                index.name, self.name
            ));
        }
    }
}
