//! Random data changes and views.
//!
//! What SQL leaves open is not asked for: an UPDATE does not touch columns of unique keys, since
//! whether it meets a duplicate on its way may depend on the order of rows; an UPSERT has no key
//! twice.

use super::query::table_columns;
use super::{Generator, Scope, bound};
use crate::datum::{Datum, Type};
use crate::functions::{self, Aggregate};
use crate::schema::{Column, Table, View};
use crate::tree::{AggregateCall, Body, Change, Direction, Expr, From, JoinKind, On, Query, Select};

impl Generator<'_> {
    /// Rows for a table, as it is filled at first.
    pub fn rows(&mut self, table: &Table, count: usize) -> Change {
        let columns: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
        let rows = (0..count).map(|_| table.columns.iter().map(|column| self.value(column)).collect()).collect();
        Change::Insert { table: table.name.clone(), columns, rows }
    }

    fn value(&mut self, column: &Column) -> Expr {
        if !column.not_null && self.random.chance(15) {
            return Expr::Literal(Datum::Null(column.ty));
        }
        loop {
            let datum = Datum::random(self.random, column.ty, self.schema.wild);
            let fits = match (&datum, column.declared) {
                (Datum::Integer(x), "SMALLINT") => x.abs() <= i64::from(i16::MAX),
                (Datum::Integer(x), "INTEGER") => x.abs() <= i64::from(i32::MAX),
                (Datum::Text(x), "VARCHAR(60)") => x.len() <= 60,
                _ => true,
            };
            // Now and then one that does not fit, which must be refused by all.
            if fits || self.random.chance(2) {
                // More keys than other values, so that tables with keys of integers have rows.
                return match datum {
                    Datum::Integer(_) if column.name == "k" && self.random.chance(80) => {
                        Expr::Literal(Datum::Integer(self.random.between(-5, 40)))
                    }
                    datum => Expr::Literal(datum),
                };
            }
        }
    }

    pub fn change(&mut self) -> Change {
        let table = self.random.pick(&self.schema.tables).clone();
        match self.random.below(20) {
            0..=5 => {
                let count = 1 + self.random.below(4);
                self.insert(&table, count)
            }
            6..=7 => self.insert_select(&table),
            8..=11 if !table.primary_key.is_empty() => self.upsert(&table),
            8..=15 => self.update(&table),
            16 if self.random.chance(20) => Change::Truncate { table: table.name },
            _ => {
                let scope = row_scope(&table, self.schema.wild);
                // Most take few rows, so that something is left.
                let condition = self.condition(&scope, 1);
                let few = self.condition(&scope, 1);
                let function = functions::condition("({0} AND {1})");
                let condition = Expr::Apply { function, arguments: vec![condition, few], ty: Type::Boolean };
                Change::Delete { table: table.name, condition: Some(condition) }
            }
        }
    }

    fn insert(&mut self, table: &Table, count: usize) -> Change {
        let Change::Insert { table: name, mut columns, mut rows } = self.rows(table, count) else {
            unreachable!("rows are inserted")
        };
        // A column left out gets its default.
        if columns.len() > 2 && self.random.chance(30) {
            let left_out = self.random.below(columns.len());
            columns.remove(left_out);
            rows.iter_mut().for_each(|row| drop(row.remove(left_out)));
        }
        Change::Insert { table: name, columns, rows }
    }

    fn insert_select(&mut self, table: &Table) -> Change {
        let types: Vec<Type> = table.columns.iter().map(|column| column.ty).collect();
        let mut query = self.query_of(&types, Vec::new());
        // What is read is cut short, or tables would double.
        query.order = (1..=types.len()).map(|column| (column, Direction::Up)).collect();
        query.limit = Some(4);
        let columns = table.columns.iter().map(|column| column.name.clone()).collect();
        self.keep_small(&mut query.body, table);
        Change::InsertSelect { table: table.name.clone(), columns, query }
    }

    /// Values of columns stay as small as generated expressions trust them to be.
    fn keep_small(&mut self, body: &mut Body, table: &Table) {
        match body {
            Body::Select(select) => {
                for (item, column) in select.items.iter_mut().zip(&table.columns) {
                    if !self.schema.wild && bound(item) > Datum::bound_of(column.ty) {
                        *item = self.value(column);
                    }
                }
            }
            Body::Set { left, right, .. } => {
                self.keep_small(left, table);
                self.keep_small(right, table);
            }
        }
    }

    fn upsert(&mut self, table: &Table) -> Change {
        let count = 1 + self.random.below(3);
        let Change::Insert { table: name, mut columns, rows } = self.rows(table, count) else {
            unreachable!("rows are inserted")
        };
        let mut kept: Vec<Vec<Expr>> = Vec::new();
        let places: Vec<usize> = table
            .primary_key
            .iter()
            .map(|key| columns.iter().position(|name| name == key).expect("a column"))
            .collect();
        let key = |row: &[Expr]| -> String { places.iter().map(|place| format!("{:?};", row[*place])).collect() };
        for row in rows {
            if !kept.iter().any(|other| key(other) == key(&row)) {
                kept.push(row);
            }
        }
        // What is left out keeps its value, or has its default in a new row; NOT NULL without one,
        // that is refused.
        if self.random.chance(50) {
            for place in (0..columns.len()).rev().filter(|place| !places.contains(place)) {
                if self.random.chance(if table.columns[place].not_null { 15 } else { 50 }) {
                    columns.remove(place);
                    kept.iter_mut().for_each(|row| drop(row.remove(place)));
                }
            }
        }
        Change::Upsert { table: name, key: table.primary_key.clone(), columns, rows: kept }
    }

    /// One row at most is given another value, of a unique key too: what it meets is there before
    /// and after.
    fn update_one(&mut self, table: &Table) -> Option<Change> {
        let free: Vec<&Column> =
            table.columns.iter().filter(|column| table.partition_column.as_ref() != Some(&column.name)).collect();
        if free.is_empty() || table.primary_key.is_empty() {
            return None;
        }
        let column = *self.random.pick(&free);
        let set = vec![(column.name.clone(), self.value(column))];
        let row = table_columns(table, &table.name, self.schema.wild);
        let mut condition: Option<Expr> = None;
        for key in &table.primary_key {
            let place = table.columns.iter().position(|column| column.name == *key)?;
            let arguments = vec![row[place].clone(), self.value(&table.columns[place])];
            let equal = Expr::Apply { function: functions::condition("({0} = {1})"), arguments, ty: Type::Boolean };
            condition = Some(match condition {
                None => equal,
                Some(before) => {
                    let function = functions::condition("({0} AND {1})");
                    Expr::Apply { function, arguments: vec![before, equal], ty: Type::Boolean }
                }
            });
        }
        Some(Change::Update { table: table.name.clone(), set, condition })
    }

    fn update(&mut self, table: &Table) -> Change {
        if self.random.chance(25)
            && let Some(change) = self.update_one(table)
        {
            return change;
        }
        let scope = row_scope(table, self.schema.wild);
        let free: Vec<&Column> = table
            .columns
            .iter()
            .filter(|column| {
                !table.is_in_unique_key(&column.name) && table.partition_column.as_ref() != Some(&column.name)
            })
            .collect();
        if free.is_empty() {
            return self.insert(table, 1);
        }
        let mut set = Vec::new();
        for _ in 0..1 + self.random.below(2) {
            let column = *self.random.pick(&free);
            if set.iter().any(|(name, _)| *name == column.name) {
                continue;
            }
            let mut value = self.expr(column.ty, &scope, 2);
            if !self.schema.wild && bound(&value) > Datum::bound_of(column.ty) {
                value = self.value(column);
            }
            set.push((column.name.clone(), value));
        }
        let condition = self.random.chance(85).then(|| self.condition(&scope, 1));
        Change::Update { table: table.name.clone(), set, condition }
    }

    /// A view such as ours keeps up: grouped, with COUNT(*), SUM, MIN and MAX, over one table or a
    /// join of two.
    pub fn view(&mut self, number: usize) -> View {
        let table = self.random.pick(&self.schema.tables).clone();
        let alias = self.alias();
        let mut scope = Scope { leaves: table_columns(&table, &alias, self.schema.wild), ..Scope::default() };
        let mut from = From::Table { name: table.name.clone(), alias };
        if self.random.chance(45) {
            from = self.joined_in_view(&table, from, &mut scope);
        }
        let mut group: Vec<Expr> = Vec::new();
        for _ in 0..1 + self.random.below(2) {
            let expr = if self.random.chance(75) {
                self.random.pick(&scope.leaves).clone()
            } else {
                let ty = self.random.pick(&scope.leaves).type_of();
                self.without_subqueries(|generator| generator.expr(ty, &scope, 1))
            };
            if expr.any(&|part| matches!(part, Expr::Column { .. })) {
                group.push(expr);
            }
        }
        let mut items = group.clone();
        items.push(call(&functions::AGGREGATES[0], None, Type::Integer));
        let kept = |function: &&Aggregate| {
            ["SUM(", "MIN(", "MAX(", "COUNT({d}"].iter().any(|name| function.ours.starts_with(name))
        };
        let candidates: Vec<&'static Aggregate> = functions::AGGREGATES.iter().filter(kept).collect();
        for _ in 0..self.random.below(4) {
            let function = *self.random.pick(&candidates);
            let ty = match function.argument {
                Some(functions::Kind::Of(ty)) => ty,
                _ => self.type_in(&scope),
            };
            let leaves: Vec<Expr> = scope.leaves.iter().filter(|leaf| leaf.type_of() == ty).cloned().collect();
            if leaves.is_empty() {
                continue;
            }
            let argument = self.random.pick(&leaves).clone();
            let result = match function.result {
                functions::Kind::Of(result) => result,
                _ => ty,
            };
            items.push(call(function, Some(Box::new(argument)), result));
        }
        let condition =
            self.random.chance(35).then(|| self.without_subqueries(|generator| generator.condition(&scope, 1)));
        let columns: Vec<(String, Type)> = items
            .iter()
            .enumerate()
            .map(|(number, item)| (format!("{}{number}", if number < group.len() { "g" } else { "m" }), item.type_of()))
            .collect();
        let body = Body::Select(Select { items, from: Some(from), condition, group, ..Select::default() });
        View { name: format!("m{number}"), query: Query { body, ..Query::default() }, columns, bounds: None }
    }

    /// The view's table with another one, joined on their partitioning columns where both have one:
    /// else ours refuses it.
    fn joined_in_view(&mut self, table: &Table, from: From, scope: &mut Scope) -> From {
        let others: Vec<&Table> = self.schema.tables.iter().filter(|other| other.name != table.name).collect();
        if others.is_empty() {
            return from;
        }
        let other = *self.random.pick(&others);
        let alias = self.alias();
        let leaves = table_columns(other, &alias, self.schema.wild);
        let keys = (&table.partition_column, &other.partition_column);
        let may_meet = |one: &Expr, two: &Expr| match (one, two, keys) {
            (Expr::Column { name: one, .. }, Expr::Column { name: two, .. }, (Some(first), Some(second))) => {
                one == first && two == second
            }
            _ => true,
        };
        let mut pairs = Vec::new();
        for one in &scope.leaves {
            for two in leaves.iter().filter(|two| two.type_of() == one.type_of() && may_meet(one, two)) {
                pairs.push(vec![one.clone(), two.clone()]);
            }
        }
        if pairs.is_empty() {
            return from;
        }
        let arguments = self.random.pick(&pairs).clone();
        let on = Expr::Apply { function: &functions::CONDITIONS[0], arguments, ty: Type::Boolean };
        scope.leaves.extend(leaves);
        let right = From::Table { name: other.name.clone(), alias };
        From::Join { kind: JoinKind::Inner, left: Box::new(from), right: Box::new(right), on: On::Condition(on) }
    }
}

fn call(function: &'static Aggregate, argument: Option<Box<Expr>>, ty: Type) -> Expr {
    Expr::Aggregate(AggregateCall { function, distinct: false, argument, filter: None, window: None, ty })
}

/// The row that is changed, its columns named by the table.
fn row_scope(table: &Table, wild: bool) -> Scope {
    Scope { leaves: table_columns(table, &table.name, wild), ..Scope::default() }
}
