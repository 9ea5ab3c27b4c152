//! Schemas made by hand, random numbers that can be repeated.
#![allow(dead_code, reason = "each test file uses its part")]

use ferrite_base::{IndexId, PartitionId, TableId};
use ferrite_catalog::{Catalog, Change, Column, Effect, IndexKind, NewIndex, View, ViewOutput};
use ferrite_expr::{Aggregate, AggregateKind, CompareOperator, Expr};
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use ferrite_value::{ColumnType, SqlType};
use std::sync::Arc;

pub fn store() -> Store {
    Store::new(PartitionId(0), Arc::new(Ring::new_default(1)))
}

pub fn column(name: &str, sql_type: SqlType, length: u32, nullable: bool) -> Column {
    let column_type = ColumnType { sql_type, length, in_bytes: false };
    Column { name: name.to_owned(), column_type, nullable, default: None, default_text: None }
}

/// A schema made change by change through the catalog, as DDL makes it.
#[derive(Default)]
pub struct Schema {
    pub catalog: Catalog,
}

impl Schema {
    pub fn change(&mut self, change: Change) -> Vec<Effect> {
        let (catalog, effects) = self.catalog.apply(&change).unwrap();
        self.catalog = catalog;
        effects
    }

    pub fn id(&self, name: &str) -> TableId {
        self.catalog.table_named(name).unwrap().id
    }

    pub fn table(&mut self, name: &str, columns: Vec<Column>, indexes: Vec<NewIndex>) -> Vec<Effect> {
        self.change(Change::CreateTable {
            name: name.to_owned(),
            columns,
            indexes,
            primary_key: None,
            checks: Vec::new(),
            stream: false,
            partition_column: None,
        })
    }

    /// A view that shows its groups and then its aggregates.
    pub fn view(&mut self, name: &str, source: &str, groups: &[u16], aggregates: Vec<Aggregate>) -> Vec<Effect> {
        self.filtered_view(name, source, groups, aggregates, None)
    }

    pub fn filtered_view(
        &mut self,
        name: &str,
        source: &str,
        group_by: &[u16],
        aggregates: Vec<Aggregate>,
        filter: Option<Expr>,
    ) -> Vec<Effect> {
        let source = self.catalog.table_named(source).unwrap();
        let mut columns: Vec<Column> = group_by.iter().map(|column| source.columns[*column as usize].clone()).collect();
        for (i, aggregate) in aggregates.iter().enumerate() {
            let mut result = match (aggregate.kind, &aggregate.argument) {
                (AggregateKind::Min | AggregateKind::Max, Some(Expr::Column { column, .. })) => {
                    source.columns[*column as usize].clone()
                }
                (AggregateKind::Sum, _) if !aggregate.argument_type.is_integer() => {
                    column("", aggregate.argument_type, 0, true)
                }
                _ => column("", SqlType::Bigint, 0, true),
            };
            result.name = format!("A{i}");
            columns.push(result);
        }
        let groups = (0..group_by.len() as u16).map(ViewOutput::Group);
        let view = View {
            source: source.id,
            joins: Vec::new(),
            filter,
            group_by: group_by.iter().map(|column| Expr::column(0, *column)).collect(),
            outputs: groups.chain((0..aggregates.len() as u16).map(ViewOutput::Aggregate)).collect(),
            aggregates,
            text: String::new(),
        };
        self.change(Change::CreateView { name: name.to_owned(), columns, view })
    }

    /// A store that has the schema as it is now.
    pub fn store(&self) -> Store {
        let mut tables: Vec<_> = self.catalog.tables.values().collect();
        // Views come after their sources.
        tables.sort_by_key(|table| table.id);
        let effects: Vec<Effect> = tables.iter().map(|table| Effect::CreateTable(table.id)).collect();
        let mut store = store();
        store.apply_effects(Arc::new(self.catalog.clone()), &effects).unwrap();
        store
    }
}

pub fn index(name: &str, keys: &[u16], unique: bool, kind: IndexKind) -> NewIndex {
    NewIndex {
        name: Some(name.to_owned()),
        keys: keys.iter().map(|column| Expr::column(0, *column)).collect(),
        unique,
        assume_unique: false,
        kind,
        predicate: None,
        constraint: None,
        text: Default::default(),
    }
}

pub fn index_id(store: &Store, table: TableId, name: &str) -> IndexId {
    store.table(table).definition().indexes.iter().find(|index| index.name == name).unwrap().id
}

pub fn aggregate(kind: AggregateKind, argument: Option<(u16, SqlType)>) -> Aggregate {
    Aggregate {
        kind,
        distinct: false,
        argument: argument.map(|(column, _)| Expr::column(0, column)),
        argument_type: argument.map_or(SqlType::Bigint, |(_, sql_type)| sql_type),
        result_type: SqlType::Bigint,
        user: None,
    }
}

pub fn compare(operator: CompareOperator, left: Expr, right: Expr) -> Expr {
    Expr::Compare { operator, left: Box::new(left), right: Box::new(right) }
}

/// All rows of a table as text, with their ids.
pub fn contents(store: &Store, table: TableId) -> Vec<String> {
    let table = store.table(table);
    let width = table.definition().columns.len() as u16;
    table
        .scan()
        .map(|row| {
            let values: Vec<_> = (0..width).map(|column| format!("{:?}", table.row(row).column(column))).collect();
            format!("{row}: {}", values.join(", "))
        })
        .collect()
}

/// The same without ids, sorted: views' rows may lie in other slots.
pub fn sorted_contents(store: &Store, table: TableId) -> Vec<String> {
    let mut rows: Vec<String> =
        contents(store, table).into_iter().map(|row| row.split_once(": ").unwrap().1.to_owned()).collect();
    rows.sort();
    rows
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

pub fn voter() -> Schema {
    let mut schema = Schema::default();
    schema.table(
        "VOTES",
        vec![
            column("PHONE_NUMBER", SqlType::Bigint, 0, false),
            column("STATE", SqlType::Varchar, 2, false),
            column("CONTESTANT_NUMBER", SqlType::Integer, 0, false),
        ],
        Vec::new(),
    );
    let count = || vec![aggregate(AggregateKind::CountRows, None)];
    schema.view("V_VOTES_BY_PHONE_NUMBER", "VOTES", &[0], count());
    schema.view("V_VOTES_BY_CONTESTANT_NUMBER_STATE", "VOTES", &[2, 1], count());
    schema
}
