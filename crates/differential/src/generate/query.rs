//! Random queries: what they read, how it is joined, grouped, ordered and cut.
//!
//! What SQL leaves open is not asked for: a LIMIT has an ORDER BY of all columns, a window function
//! that sees single rows an ORDER BY that tells them apart.

use super::{Generator, Scope, bound};
use crate::datum::{Datum, Type};
use crate::functions::{self, Kind};
use crate::schema::{Column, Table, View};
use crate::tree::{AggregateCall, Body, Common, Direction, Expr, From, JoinKind, On, Query, Select};

/// A source of rows, with the expressions for its columns.
struct Source {
    from: From,
    columns: Vec<Expr>,
    /// Columns that tell its rows apart; empty if none do.
    key: Vec<Expr>,
}

impl Generator<'_> {
    /// A query as a statement of its own.
    pub fn statement(&mut self) -> Query {
        let mut with = Vec::new();
        if self.random.chance(18) {
            for _ in 0..1 + self.random.below(2) {
                with.push(self.common_table());
            }
        }
        let types = self.types(4);
        let mut query = self.query_of(&types, Vec::new());
        if let Body::Select(select) = &mut query.body
            && query.order.is_empty()
            && !select.distinct
            && select.from.is_some()
            && self.random.chance(15)
        {
            self.add_inexact(select);
        }
        query.with = with;
        query
    }

    fn types(&mut self, most: usize) -> Vec<Type> {
        (0..1 + self.random.below(most)).map(|_| *self.random.pick(&Type::ALL)).collect()
    }

    /// A column that nothing is compared with, ordered by or grouped by.
    fn add_inexact(&mut self, select: &mut Select) {
        if !select.group.is_empty() || select.having.is_some() || select.items.iter().any(has_aggregate) {
            return;
        }
        let is_column = |item: &&Expr| matches!(item, Expr::Column { .. });
        let scope = Scope { leaves: select.items.iter().filter(is_column).cloned().collect(), ..Scope::default() };
        if self.random.chance(70) {
            let function = self.random.pick(functions::INEXACT);
            let mut arguments = Vec::new();
            for kind in function.arguments {
                let Kind::Of(ty) = kind else { unreachable!("they are of numbers") };
                arguments.push(self.expr(*ty, &scope, 0));
            }
            select.items.push(Expr::Apply { function, arguments, ty: Type::Float });
        } else if !scope.leaves.is_empty() {
            let function = self.random.pick(functions::INEXACT_AGGREGATES);
            let argument = function.argument.map(|_| Box::new(self.expr(Type::Float, &scope, 0)));
            let window = Some(self.window(&scope, function.place));
            let call = AggregateCall { function, distinct: false, argument, filter: None, window, ty: Type::Float };
            select.items.push(Expr::Aggregate(call));
        }
    }

    fn common_table(&mut self) -> Common {
        let name = format!("w{}", self.common.len() + 1);
        let (common, columns) = if self.random.chance(20) {
            let items = vec![Expr::Literal(Datum::Integer(self.random.between(0, 3)))];
            let body = Body::Select(Select { items, ..Select::default() });
            let query = Query { body, ..Query::default() };
            (Common { name, query, recursive_to: Some(self.random.between(0, 9)) }, vec![(Type::Integer, 10.0)])
        } else {
            let types = self.types(3);
            self.nesting += 1;
            let query = self.query_of(&types, Vec::new());
            self.nesting -= 1;
            let columns = columns_of(&query.body);
            (Common { name, query, recursive_to: None }, columns)
        };
        self.common.push((common.clone(), columns));
        common
    }

    /// A view of any query, which may be one of other views. None where reading it could be an
    /// error.
    pub fn plain_view(&mut self, number: usize) -> Option<View> {
        let types = self.types(3);
        self.nesting += 1;
        let query = self.query_of(&types, Vec::new());
        self.nesting -= 1;
        if query.any(&|part| matches!(part, Expr::Apply { function, .. } if function.hazardous)) {
            return None;
        }
        let (types, bounds): (Vec<Type>, Vec<f64>) = columns_of(&query.body).into_iter().unzip();
        let columns = types.into_iter().enumerate().map(|(number, ty)| (format!("p{number}"), ty)).collect();
        Some(View { name: format!("v{number}"), query, columns, bounds: Some(bounds) })
    }

    /// A query with columns of these types, that may refer to `outer`.
    pub fn query_of(&mut self, types: &[Type], outer: Vec<Expr>) -> Query {
        let body = if self.nesting < 2 && self.random.chance(10) {
            self.set_operation(types, &outer)
        } else {
            Body::Select(self.select(types, &outer))
        };
        let mut query = Query { body, ..Query::default() };
        if self.random.chance(25) {
            self.order_all(&mut query, types.len());
            // With all columns in the order, which row is the first of its kind is told.
            if matches!(&query.body, Body::Select(select) if !select.distinct) && self.random.chance(20) {
                query.distinct_on = 1 + self.random.below(types.len());
            }
            if self.random.chance(60) {
                query.limit = Some(self.random.below(8) as u64);
            }
            if self.random.chance(25) {
                query.offset = Some(self.random.below(4) as u64);
            }
        }
        query
    }

    fn order_all(&mut self, query: &mut Query, columns: usize) {
        use Direction::{Down, DownNullsFirst, Up, UpNullsLast};
        let directions = [Up, Up, Up, Down, Down, UpNullsLast, DownNullsFirst];
        let mut order: Vec<(usize, Direction)> =
            (1..=columns).map(|column| (column, *self.random.pick(&directions))).collect();
        order.rotate_left(self.random.below(columns));
        query.order = order;
    }

    fn set_operation(&mut self, types: &[Type], outer: &[Expr]) -> Body {
        let operator = *self.random.pick(&["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]);
        self.nesting += 1;
        let left = Box::new(Body::Select(self.select(types, outer)));
        let right = if self.random.chance(15) {
            self.set_operation(types, outer)
        } else {
            Body::Select(self.select(types, outer))
        };
        self.nesting -= 1;
        Body::Set { operator, left, right: Box::new(right) }
    }

    /// A query of one column that answers one row at most.
    pub fn single_row_query(&mut self, ty: Type, outer: Vec<Expr>) -> Option<Query> {
        if self.random.chance(50) {
            let body = Body::Select(self.select(&[ty], &outer));
            let mut query = Query { body, limit: Some(1), ..Query::default() };
            self.order_all(&mut query, 1);
            return Some(query);
        }
        let source = self.source(&outer);
        let inner = Scope { leaves: source.columns, ..Scope::default() };
        let rows = Scope { outer, ..inner.clone() };
        let condition = self.random.chance(60).then(|| self.condition(&rows, 1));
        let items = vec![self.aggregate_call(ty, &inner)?];
        let body = Body::Select(Select { items, from: Some(source.from), condition, ..Select::default() });
        Some(Query { body, ..Query::default() })
    }

    fn select(&mut self, types: &[Type], outer: &[Expr]) -> Select {
        if self.random.chance(3) {
            let scope = Scope { outer: outer.to_vec(), ..Scope::default() };
            let items = types.iter().map(|ty| self.expr(*ty, &scope, 1)).collect();
            return Select { items, ..Select::default() };
        }
        let source = self.source(outer);
        let rows = Scope {
            leaves: source.columns,
            outer: outer.to_vec(),
            key: source.key,
            windows: self.random.chance(25),
            aggregated: None,
        };
        let conditions = Scope { windows: false, ..rows.clone() };
        let condition = self.random.chance(65).then(|| {
            let depth = 1 + self.random.below(3);
            self.condition(&conditions, depth)
        });
        let from = Some(source.from);
        if self.random.chance(30) {
            return self.grouped(types, from, condition, conditions);
        }
        let mut items: Vec<Expr> = Vec::new();
        for ty in types {
            let depth = if self.random.chance(60) { 0 } else { 2 };
            items.push(self.expr(*ty, &rows, depth));
        }
        Select { distinct: self.random.chance(12), items, from, condition, ..Select::default() }
    }

    fn grouped(&mut self, types: &[Type], from: Option<From>, condition: Option<Expr>, rows: Scope) -> Select {
        let mut group: Vec<Expr> = Vec::new();
        for _ in 0..self.random.below(3) {
            let expr = if self.random.chance(70) {
                self.random.pick(&rows.leaves).clone()
            } else {
                let ty = self.type_in(&rows);
                self.without_subqueries(|generator| generator.expr(ty, &rows, 1))
            };
            // A constant would be the number of a column; an outer column alone is a constant too.
            if expr.any(&|part| matches!(part, Expr::Column { .. })) {
                group.push(expr);
            }
        }
        // What depends on the tables' keys need not be grouped by.
        let mut leaves = group.clone();
        if !rows.key.is_empty() && from.as_ref().is_some_and(is_plain) && self.random.chance(25) {
            group.extend(rows.key.iter().cloned());
            leaves.clone_from(&group);
            let qualified = |column: &&Expr| matches!(column, Expr::Column { qualifier: Some(_), .. });
            leaves.extend(rows.leaves.iter().filter(qualified).cloned());
        }
        let outer = rows.outer.clone();
        let aggregated = Scope { outer: Vec::new(), windows: false, ..rows };
        let scope = Scope {
            leaves,
            outer,
            aggregated: Some(Box::new(aggregated)),
            windows: self.random.chance(15),
            // Groups are told apart by what they are grouped by.
            key: group.clone(),
        };
        let mut items: Vec<Expr> = Vec::new();
        for ty in types {
            let depth = if self.random.chance(70) { 0 } else { 2 };
            items.push(self.expr(*ty, &scope, depth));
        }
        let plain = Scope { windows: false, ..scope };
        // Without GROUP BY and without an aggregate it would not be grouped at all.
        if group.is_empty() && !items.iter().any(has_aggregate) {
            let inner = plain.aggregated.expect("it is grouped");
            items =
                types.iter().map(|ty| self.aggregate_call(*ty, &inner).unwrap_or_else(|| self.literal(*ty))).collect();
            return Select { items, from, condition, ..Select::default() };
        }
        let having = self.random.chance(25).then(|| self.condition(&plain, 1));
        Select { distinct: self.random.chance(5), items, from, condition, group, having }
    }

    /// What a query reads: one to three sources, joined.
    fn source(&mut self, outer: &[Expr]) -> Source {
        let count = match self.random.below(10) {
            0..=4 => 1,
            5..=8 => 2,
            _ => 3,
        };
        let mut source = self.single_source();
        for _ in 1..count {
            let next = self.single_source();
            source = self.join(source, next, outer);
        }
        source
    }

    fn single_source(&mut self) -> Source {
        let alias = self.alias();
        if !self.common.is_empty() && self.random.chance(25) {
            let (common, columns) = self.random.pick(&self.common).clone();
            return derived(From::Table { name: common.name, alias: alias.clone() }, &alias, &columns);
        }
        if self.nesting < 2 && self.random.chance(12) {
            let types = self.types(3);
            self.nesting += 1;
            let query = self.query_of(&types, Vec::new());
            self.nesting -= 1;
            let columns = columns_of(&query.body);
            return derived(From::Derived { query: Box::new(query), alias: alias.clone() }, &alias, &columns);
        }
        if self.random.chance(5) {
            return self.values(alias);
        }
        if !self.schema.views.is_empty() && self.random.chance(12) {
            let View { name, columns, bounds, .. } = self.random.pick(&self.schema.views).clone();
            let wild = self.schema.wild;
            let column = |(number, (name, ty)): (usize, (String, Type))| {
                let bound = match &bounds {
                    Some(bounds) => bounds[number],
                    None if wild => f64::INFINITY,
                    None => 1e4 * Datum::bound_of(ty).max(1.0),
                };
                Expr::Column { qualifier: Some(alias.clone()), name, ty, bound }
            };
            let columns = columns.into_iter().enumerate().map(column).collect();
            return Source { from: From::Table { name, alias }, columns, key: Vec::new() };
        }
        let table = self.random.pick(&self.schema.tables).clone();
        let columns = table_columns(&table, &alias, self.schema.wild);
        let is_key = |column: &&Expr| matches!(column, Expr::Column { name, .. } if table.primary_key.contains(name));
        let key = columns.iter().filter(is_key).cloned().collect();
        Source { from: From::Table { name: table.name, alias }, columns, key }
    }

    fn values(&mut self, alias: String) -> Source {
        let types = self.types(3);
        let scope = Scope::default();
        let mut rows: Vec<Vec<Expr>> = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let mut row = Vec::new();
            for ty in &types {
                let depth = usize::from(self.random.chance(20));
                row.push(self.without_subqueries(|generator| generator.expr(*ty, &scope, depth)));
            }
            rows.push(row);
        }
        let widest =
            |(column, ty): (usize, &Type)| (*ty, rows.iter().map(|row| bound(&row[column])).fold(0.0, f64::max));
        let columns: Vec<(Type, f64)> = types.iter().enumerate().map(widest).collect();
        derived(From::Values { rows, alias: alias.clone() }, &alias, &columns)
    }

    fn join(&mut self, left: Source, right: Source, outer: &[Expr]) -> Source {
        let kind = *self.random.pick(&[
            JoinKind::Comma,
            JoinKind::Cross,
            JoinKind::Inner,
            JoinKind::Inner,
            JoinKind::Inner,
            JoinKind::Left,
            JoinKind::Left,
            JoinKind::Right,
            JoinKind::Full,
        ]);
        let common = common_names(&left.columns, &right.columns);
        // A name without its table must be the name of one column only.
        let is_clear = |column: &&Expr| match column {
            Expr::Column { qualifier: None, name, .. } => !right.columns.iter().any(|other| is_named(other, name)),
            _ => true,
        };
        let mut columns: Vec<Expr> = left.columns.iter().filter(is_clear).chain(&right.columns).cloned().collect();
        let mut key = Vec::new();
        if !left.key.is_empty() && !right.key.is_empty() {
            key.extend(left.key.iter().chain(&right.key).cloned());
        }
        let on = match kind {
            JoinKind::Comma | JoinKind::Cross => On::Nothing,
            _ if !common.is_empty() && self.random.chance(25) => {
                let using = self.random.some(&common, 1);
                if matches!((&left.from, &right.from), (From::Table { .. }, From::Table { .. })) {
                    for name in &using {
                        if let Some(Expr::Column { ty, bound, .. }) =
                            columns.iter().find(|column| is_named(column, name)).cloned()
                        {
                            columns.push(Expr::Column { qualifier: None, name: name.clone(), ty, bound });
                        }
                    }
                }
                On::Using(using)
            }
            _ => On::Condition(self.join_condition(&left, &right, kind, outer)),
        };
        // A comma binds looser than JOIN: what stands before it could not be seen in this ON.
        let mut before = left.from;
        if let From::Join { kind: comma @ JoinKind::Comma, .. } = &mut before {
            *comma = JoinKind::Cross;
        }
        let from = From::Join { kind, left: Box::new(before), right: Box::new(right.from), on };
        Source { from, columns, key }
    }

    fn join_condition(&mut self, left: &Source, right: &Source, kind: JoinKind, outer: &[Expr]) -> Expr {
        let mut pairs = Vec::new();
        let qualified = |column: &&Expr| matches!(column, Expr::Column { qualifier: Some(_), .. });
        for one in left.columns.iter().filter(qualified) {
            for other in right.columns.iter().filter(|other| other.type_of() == one.type_of()) {
                pairs.push(vec![one.clone(), other.clone()]);
            }
        }
        let leaves = left.columns.iter().chain(&right.columns).filter(qualified).cloned().collect();
        let scope = Scope { leaves, outer: outer.to_vec(), ..Scope::default() };
        if pairs.is_empty() {
            return Expr::Literal(Datum::Boolean(true));
        }
        let function = &functions::CONDITIONS[0];
        // Theirs joins FULL by equalities of the two sides only.
        let full = kind == JoinKind::Full;
        if !full && self.random.chance(15) {
            return self.condition(&scope, 1);
        }
        let arguments = self.random.pick(&pairs).clone();
        let condition = Expr::Apply { function, arguments, ty: Type::Boolean };
        if !self.random.chance(20) {
            return condition;
        }
        let more = if full {
            Expr::Apply { function, arguments: self.random.pick(&pairs).clone(), ty: Type::Boolean }
        } else {
            self.condition(&scope, 1)
        };
        Expr::Apply {
            function: functions::condition("({0} AND {1})"),
            arguments: vec![condition, more],
            ty: Type::Boolean,
        }
    }
}

/// Tables that are joined without an outer join on the right: those that are looked at each by
/// itself.
fn is_plain(from: &From) -> bool {
    match from {
        From::Table { .. } => true,
        From::Derived { .. } | From::Values { .. } => false,
        From::Join { kind, left, right, .. } => {
            !matches!(kind, JoinKind::Right | JoinKind::Full) && is_plain(left) && matches!(**right, From::Table { .. })
        }
    }
}

fn is_named(column: &Expr, wanted: &str) -> bool {
    matches!(column, Expr::Column { name, .. } if name == wanted)
}

/// Names that stand for one column on either side, of the same type.
fn common_names(left: &[Expr], right: &[Expr]) -> Vec<String> {
    let only = |columns: &[Expr], name: &str| {
        let mut found = columns.iter().filter(|column| is_named(column, name));
        let ty = found.next()?.type_of();
        found.next().is_none().then_some(ty)
    };
    let names = left.iter().filter_map(|column| match column {
        Expr::Column { name, .. } => Some(name.clone()),
        _ => None,
    });
    names.filter(|name| only(left, name).is_some() && only(left, name) == only(right, name)).collect()
}

pub fn table_columns(table: &Table, qualifier: &str, wild: bool) -> Vec<Expr> {
    let of = |column: &Column| Expr::Column {
        qualifier: Some(qualifier.to_owned()),
        name: column.name.clone(),
        ty: column.ty,
        bound: if wild { f64::INFINITY } else { Datum::bound_of(column.ty) },
    };
    table.columns.iter().map(of).collect()
}

fn derived(from: From, alias: &str, columns: &[(Type, f64)]) -> Source {
    let column = |(number, (ty, bound)): (usize, &(Type, f64))| Expr::Column {
        qualifier: Some(alias.to_owned()),
        name: format!("c{}", number + 1),
        ty: *ty,
        bound: *bound,
    };
    Source { from, columns: columns.iter().enumerate().map(column).collect(), key: Vec::new() }
}

/// Types of the output columns, and how large their numbers can be.
fn columns_of(body: &Body) -> Vec<(Type, f64)> {
    match body {
        Body::Select(select) => select.items.iter().map(|item| (item.type_of(), bound(item))).collect(),
        Body::Set { left, right, .. } => {
            let pairs = columns_of(left).into_iter().zip(columns_of(right));
            pairs.map(|((ty, left), (_, right))| (ty, left.max(right))).collect()
        }
    }
}

/// It has an aggregate over a group, not over a window.
pub fn has_aggregate(expr: &Expr) -> bool {
    matches!(expr, Expr::Aggregate(call) if call.window.is_none())
        || expr.parts().iter().any(|part| has_aggregate(part))
}

pub fn has_window(expr: &Expr) -> bool {
    matches!(expr, Expr::Aggregate(call) if call.window.is_some()) || expr.parts().iter().any(|part| has_window(part))
}
