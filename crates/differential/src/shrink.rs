//! Makes a failing case small: takes away rows, schema objects, clauses and parts of expressions
//! for as long as the same comparison still fails.

use crate::check::{Case, Finding};
use crate::datum::{Datum, Type};
use crate::postgres::Postgres;
use crate::tree::{AggregateCall, Body, Change, Expr, From, JoinKind, On, Query, Select};
use std::time::{Duration, Instant};

pub fn shrink(mut case: Case, finding: Finding, mut theirs: Option<&mut Postgres>, time: Duration) -> (Case, Finding) {
    let end = Instant::now() + time;
    let oracle = finding.oracle.clone();
    let mut best = finding;
    if !oracle.contains("PostgreSQL") {
        theirs = None;
    }
    'again: loop {
        for smaller in smaller_cases(&case) {
            if Instant::now() > end {
                break 'again;
            }
            if let Some(finding) = smaller.run(theirs.as_deref_mut()).filter(|finding| finding.oracle == oracle)
                && same_kind(&finding, &best)
            {
                (case, best) = (smaller, finding);
                continue 'again;
            }
        }
        break;
    }
    (case, best)
}

/// A wrong answer does not become an error on the way.
fn same_kind(left: &Finding, right: &Finding) -> bool {
    let kind = |text: &str| text.starts_with("error").then(|| text.get(..12).unwrap_or(text).to_owned());
    kind(&left.expected) == kind(&right.expected) && kind(&left.found) == kind(&right.found)
}

/// The case with one thing less, in the order of how much that takes away.
fn smaller_cases(case: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut with = |change: &dyn Fn(&mut Case)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        cases.push(smaller);
    };
    for number in 0..case.changes.len() {
        with(&|case| drop(case.changes.remove(number)));
    }
    for number in 0..case.schema.views.len() {
        with(&|case| drop(case.schema.views.remove(number)));
    }
    for number in 0..case.schema.tables.len() {
        with(&|case| {
            let table = case.schema.tables.remove(number);
            case.changes.retain(|change| change.table() != table.name);
        });
        for index in 0..case.schema.tables[number].indexes.len() {
            with(&|case| drop(case.schema.tables[number].indexes.remove(index)));
        }
    }
    if let Some(query) = &case.query {
        for smaller in smaller_queries(query) {
            with(&|case| case.query = Some(smaller.clone()));
        }
    }
    for (number, change) in case.changes.iter().enumerate() {
        for smaller in smaller_changes(change) {
            with(&|case| case.changes[number] = smaller.clone());
        }
    }
    for (number, table) in case.schema.tables.iter().enumerate() {
        with(&|case| case.schema.tables[number].check = None);
        if table.partition_column.is_some() {
            with(&|case| case.schema.tables[number].partition_column = None);
        }
        if !table.primary_key.is_empty() {
            with(&|case| case.schema.tables[number].primary_key.clear());
        }
        for column in 0..table.columns.len() {
            with(&|case| {
                let name = case.schema.tables[number].columns.remove(column).name;
                for change in &mut case.changes {
                    without_column(change, &case.schema.tables[number].name, &name);
                }
            });
        }
    }
    cases.retain(|smaller| size(smaller) < size(case));
    cases
}

/// Guards against going in circles.
fn size(case: &Case) -> usize {
    format!("{case:?}").len()
}

fn without_column(change: &mut Change, table: &str, name: &str) {
    if change.table() != table {
        return;
    }
    if let Change::Insert { columns, rows, .. } | Change::Upsert { columns, rows, .. } = change
        && let Some(place) = columns.iter().position(|column| column == name)
    {
        columns.remove(place);
        rows.iter_mut().for_each(|row| drop(row.remove(place)));
    }
}

fn smaller_changes(change: &Change) -> Vec<Change> {
    let mut smaller = Vec::new();
    match change {
        Change::Insert { rows, .. } | Change::Upsert { rows, .. } => {
            let half = rows.len() / 2;
            let ranges = [(0, half), (half, rows.len())];
            let singles = (0..rows.len()).map(|row| (row, row + 1));
            for (from, to) in ranges.into_iter().chain(singles) {
                if to > from && to - from < rows.len() {
                    let mut less = change.clone();
                    if let Change::Insert { rows, .. } | Change::Upsert { rows, .. } = &mut less {
                        rows.drain(from..to);
                    }
                    smaller.push(less);
                }
            }
        }
        Change::InsertSelect { table, columns, query } => {
            for query in smaller_queries(query) {
                smaller.push(Change::InsertSelect { table: table.clone(), columns: columns.clone(), query });
            }
        }
        Change::Update { table, set, condition } => {
            for number in 0..set.len() {
                if set.len() > 1 {
                    let mut set = set.clone();
                    set.remove(number);
                    smaller.push(Change::Update { table: table.clone(), set, condition: condition.clone() });
                }
                for expr in smaller_exprs(&set[number].1) {
                    let mut set = set.clone();
                    set[number].1 = expr;
                    smaller.push(Change::Update { table: table.clone(), set, condition: condition.clone() });
                }
            }
            for condition in smaller_option(condition) {
                smaller.push(Change::Update { table: table.clone(), set: set.clone(), condition });
            }
        }
        Change::Delete { table, condition } => {
            for condition in smaller_option(condition) {
                smaller.push(Change::Delete { table: table.clone(), condition });
            }
        }
        Change::Truncate { .. } => {}
    }
    smaller
}

fn smaller_option(expr: &Option<Expr>) -> Vec<Option<Expr>> {
    let Some(expr) = expr else { return Vec::new() };
    let mut smaller = vec![None];
    smaller.extend(smaller_exprs(expr).into_iter().map(Some));
    smaller
}

fn smaller_queries(query: &Query) -> Vec<Query> {
    let mut smaller = Vec::new();
    for number in 0..query.with.len() {
        let mut less = query.clone();
        less.with.remove(number);
        smaller.push(less);
        for inner in smaller_queries(&query.with[number].query) {
            let mut less = query.clone();
            less.with[number].query = inner;
            smaller.push(less);
        }
    }
    if query.distinct_on > 0 {
        smaller.push(Query { distinct_on: 0, ..query.clone() });
    }
    if query.limit.is_some() || query.offset.is_some() {
        smaller.push(Query { limit: None, offset: None, ..query.clone() });
        smaller.push(Query { offset: None, ..query.clone() });
    }
    if !query.order.is_empty() && query.limit.is_none() {
        smaller.push(Query { order: Vec::new(), distinct_on: 0, ..query.clone() });
    }
    for body in smaller_bodies(&query.body) {
        let mut less = Query { body, ..query.clone() };
        if let Some(select) = less.select() {
            let columns = select.items.len();
            less.order.retain(|(column, _)| *column <= columns);
        }
        smaller.push(less);
    }
    smaller
}

fn smaller_bodies(body: &Body) -> Vec<Body> {
    match body {
        Body::Select(select) => smaller_selects(select).into_iter().map(Body::Select).collect(),
        Body::Set { operator, left, right } => {
            let mut smaller = vec![(**left).clone(), (**right).clone()];
            for left in smaller_bodies(left) {
                smaller.push(Body::Set { operator, left: Box::new(left), right: right.clone() });
            }
            for right in smaller_bodies(right) {
                smaller.push(Body::Set { operator, left: left.clone(), right: Box::new(right) });
            }
            smaller
        }
    }
}

fn smaller_selects(select: &Select) -> Vec<Select> {
    let mut smaller = Vec::new();
    for from in select.from.iter().flat_map(smaller_froms) {
        smaller.push(Select { from: Some(from), ..select.clone() });
    }
    if select.distinct {
        smaller.push(Select { distinct: false, ..select.clone() });
    }
    for condition in smaller_option(&select.condition) {
        smaller.push(Select { condition, ..select.clone() });
    }
    for having in smaller_option(&select.having) {
        smaller.push(Select { having, ..select.clone() });
    }
    for number in 0..select.group.len() {
        let mut less = select.clone();
        less.group.remove(number);
        smaller.push(less);
        for expr in smaller_exprs(&select.group[number]) {
            let old = format!("{:?}", select.group[number]);
            let mut less = select.clone();
            less.group[number] = expr.clone();
            // An item that shows what is grouped by goes along.
            for item in less.items.iter_mut().filter(|item| format!("{item:?}") == old) {
                *item = expr.clone();
            }
            smaller.push(less);
        }
    }
    for number in 0..select.items.len() {
        if select.items.len() > 1 {
            let mut less = select.clone();
            less.items.remove(number);
            smaller.push(less);
        }
        for expr in smaller_exprs(&select.items[number]) {
            let mut less = select.clone();
            less.items[number] = expr;
            smaller.push(less);
        }
    }
    smaller
}

fn smaller_froms(from: &From) -> Vec<From> {
    match from {
        From::Table { .. } => Vec::new(),
        From::Values { rows, alias } if rows.len() > 1 => {
            (0..rows.len()).map(|row| From::Values { rows: vec![rows[row].clone()], alias: alias.clone() }).collect()
        }
        From::Values { .. } => Vec::new(),
        From::Derived { query, alias } => smaller_queries(query)
            .into_iter()
            .map(|query| From::Derived { query: Box::new(query), alias: alias.clone() })
            .collect(),
        From::Join { kind, left, right, on } => {
            let mut smaller = vec![(**left).clone(), (**right).clone()];
            let join = |kind: JoinKind, left: &From, right: &From, on: On| From::Join {
                kind,
                left: Box::new(left.clone()),
                right: Box::new(right.clone()),
                on,
            };
            for left in smaller_froms(left) {
                smaller.push(join(*kind, &left, right, on.clone()));
            }
            for right in smaller_froms(right) {
                smaller.push(join(*kind, left, &right, on.clone()));
            }
            if let On::Condition(condition) = on {
                for condition in smaller_exprs(condition) {
                    smaller.push(join(*kind, left, right, On::Condition(condition)));
                }
                if *kind == JoinKind::Inner {
                    smaller.push(join(JoinKind::Cross, left, right, On::Nothing));
                }
            }
            smaller
        }
    }
}

fn simplest(ty: Type) -> Expr {
    Expr::Literal(match ty {
        Type::Integer => Datum::Integer(1),
        Type::Float => Datum::Float(8),
        Type::Decimal => Datum::Decimal("1".to_owned()),
        Type::Text => Datum::Text("a".to_owned()),
        Type::Bytes => Datum::Bytes(Vec::new()),
        Type::Timestamp => Datum::Timestamp("2000-01-01 00:00:00".to_owned()),
        Type::Date => Datum::Date("2000-01-01".to_owned()),
        Type::Boolean => Datum::Boolean(true),
    })
}

fn smaller_exprs(expr: &Expr) -> Vec<Expr> {
    let ty = expr.type_of();
    let mut smaller: Vec<Expr> = expr.parts().into_iter().filter(|part| part.type_of() == ty).cloned().collect();
    if !matches!(expr, Expr::Literal(_)) {
        smaller.push(simplest(ty));
        smaller.push(Expr::Literal(Datum::Null(ty)));
    }
    match expr {
        Expr::Column { .. } | Expr::Literal(_) => {}
        Expr::Apply { function, arguments, ty } => {
            for number in 0..arguments.len() {
                for argument in smaller_exprs(&arguments[number]) {
                    let mut arguments = arguments.clone();
                    arguments[number] = argument;
                    smaller.push(Expr::Apply { function, arguments, ty: *ty });
                }
            }
        }
        Expr::Scalar { query, ty } => {
            for query in smaller_queries(query) {
                // Without its limit it may answer more rows.
                if query.limit.is_some() || query.select().is_some_and(|select| select.group.is_empty()) {
                    smaller.push(Expr::Scalar { query: Box::new(query), ty: *ty });
                }
            }
        }
        Expr::Exists { negated, query } => {
            for query in smaller_queries(query) {
                smaller.push(Expr::Exists { negated: *negated, query: Box::new(query) });
            }
        }
        Expr::In { negated, left, query } => {
            for query in smaller_queries(query) {
                smaller.push(Expr::In { negated: *negated, left: left.clone(), query: Box::new(query) });
            }
            for number in 0..left.len() {
                for part in smaller_exprs(&left[number]) {
                    let mut left = left.clone();
                    left[number] = part;
                    smaller.push(Expr::In { negated: *negated, left, query: query.clone() });
                }
            }
        }
        Expr::Quantified { left, comparison, all, query } => {
            for query in smaller_queries(query) {
                let query = Box::new(query);
                smaller.push(Expr::Quantified { left: left.clone(), comparison, all: *all, query });
            }
            for left in smaller_exprs(left) {
                let left = Box::new(left);
                smaller.push(Expr::Quantified { left, comparison, all: *all, query: query.clone() });
            }
        }
        Expr::Aggregate(call) => smaller.extend(smaller_calls(call).into_iter().map(Expr::Aggregate)),
    }
    smaller
}

fn smaller_calls(call: &AggregateCall) -> Vec<AggregateCall> {
    let mut smaller = Vec::new();
    if call.filter.is_some() {
        let mut less = call.clone();
        less.filter = None;
        smaller.push(less);
    }
    for argument in call.argument.iter().flat_map(|argument| smaller_exprs(argument)) {
        let mut less = call.clone();
        less.argument = Some(Box::new(argument));
        smaller.push(less);
    }
    for filter in call.filter.iter().flat_map(|filter| smaller_exprs(filter)) {
        let mut less = call.clone();
        less.filter = Some(Box::new(filter));
        smaller.push(less);
    }
    if let Some(window) = &call.window {
        for number in 0..window.partition.len() {
            let mut less = call.clone();
            less.window.as_mut().expect("it has one").partition.remove(number);
            smaller.push(less);
        }
        if window.frame.is_some() {
            let mut less = call.clone();
            less.window.as_mut().expect("it has one").frame = None;
            smaller.push(less);
        }
    }
    smaller
}
