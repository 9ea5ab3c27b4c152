//! Trees as SQL text, in either dialect.

use crate::datum::{Datum, Dialect, Type};
use crate::random::Random;
use crate::tree::{AggregateCall, Body, Change, Direction, Expr, From, JoinKind, On, Query, Select};
use ferrite_value::OwnedValue;
use std::fmt::Write;

pub fn query(query: &Query, dialect: Dialect) -> String {
    let mut printer = Printer::new(dialect);
    printer.query(query);
    printer.out
}

/// Ours, with literals that are compared in WHERE and ON given as parameters, by their values.
pub fn query_given(query: &Query, seed: u64) -> (String, Vec<OwnedValue>) {
    given(seed, Places::Beside, |printer| printer.query(query))
}

/// Ours, with literals that are compared in WHERE and ON, and those that are stored, given as
/// parameters.
pub fn change_given(change: &Change, seed: u64) -> (String, Vec<OwnedValue>) {
    given(seed, Places::Beside, |printer| printer.change(change))
}

/// Ours, with literals anywhere given as parameters, each by a value of its own type.
pub fn query_given_anywhere(query: &Query, seed: u64) -> (String, Vec<OwnedValue>) {
    let places = if query.any(&takes_dates_apart) { Places::AnyButDates } else { Places::Any };
    given(seed, places, |printer| printer.query(query))
}

/// [`query_given_anywhere`] of a change.
pub fn change_given_anywhere(change: &Change, seed: u64) -> (String, Vec<OwnedValue>) {
    let places = if change.any(&takes_dates_apart) { Places::AnyButDates } else { Places::Any };
    given(seed, places, |printer| printer.change(change))
}

/// The result has another type for a DATE than for what a parameter is taken for there: a number
/// beside a number, a TIMESTAMP as a time.
fn takes_dates_apart(expr: &Expr) -> bool {
    let names = ["({0} - 7)", "DATEADD(DAY, 30, {0})"];
    matches!(expr, Expr::Apply { function, .. } if names.contains(&function.ours))
}

/// Whether values of the call are compared with each other.
fn compares_values(ours: &str) -> bool {
    let signs = ["{0} = ", "{0} <", "{0} >", "{0} IS ", "BETWEEN", "IN (", "({0}, {1}) ", "NULLIF({0}, {1})"];
    let others = ["GREATEST", "LEAST", "(CASE {0} WHEN", "DECODE({0}, {1}"];
    signs.iter().chain(&others).any(|part| ours.contains(part))
}

fn given(seed: u64, places: Places, print: impl FnOnce(&mut Printer)) -> (String, Vec<OwnedValue>) {
    let given = Given { places, random: Random::new(seed), values: Vec::new() };
    let mut printer = Printer { given: Some(given), ..Printer::new(Dialect::Ours) };
    print(&mut printer);
    (printer.out, printer.given.map(|given| given.values).unwrap_or_default())
}

pub fn expression(expr: &Expr, dialect: Dialect) -> String {
    let mut printer = Printer::new(dialect);
    printer.expr(expr);
    printer.out
}

/// For theirs, UPSERT is MERGE.
pub fn change(change: &Change, dialect: Dialect) -> String {
    let mut printer = Printer::new(dialect);
    printer.change(change);
    printer.out
}

struct Printer {
    dialect: Dialect,
    out: String,
    /// Where literals may be given as parameters.
    given: Option<Given>,
    /// What is printed stands in WHERE or ON: elsewhere a text may have to be the same in two
    /// places.
    in_condition: bool,
    /// What the blocks around are grouped by, as it is written: it must be written so everywhere.
    groups: Vec<String>,
}

/// Which literals may be parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    /// Those beside something else that tells the type: values of other types are given, too.
    Beside,
    Any,
    AnyButDates,
}

/// The parameters so far.
struct Given {
    places: Places,
    random: Random,
    values: Vec<OwnedValue>,
}

impl Printer {
    fn new(dialect: Dialect) -> Printer {
        Printer { dialect, out: String::new(), given: None, in_condition: false, groups: Vec::new() }
    }

    /// A literal beside something of type `beside`, which tells a parameter's type: as a parameter,
    /// if there may be any.
    fn literal(&mut self, datum: &Datum, beside: Type) {
        if let Some(given) = &mut self.given
            && given.places == Places::Beside
            && given.random.chance(80)
        {
            // What CAST cuts off must not decide where the call goes.
            let cut = if beside == Type::Integer && given.random.chance(15) {
                datum.with_decimals(&mut given.random)
            } else {
                None
            };
            self.text(if cut.is_some() { "CAST(? AS BIGINT)" } else { "?" });
            let given = self.given.as_mut().expect("it is there");
            let value = cut.unwrap_or_else(|| datum.given(&mut given.random, beside));
            given.values.push(value);
            return;
        }
        self.literal_anywhere(datum);
    }

    /// A literal that stands anywhere.
    fn literal_anywhere(&mut self, datum: &Datum) {
        if let Some(given) = &mut self.given
            && given.places != Places::Beside
            && !(given.places == Places::AnyButDates && datum.type_of() == Type::Date)
            && given.random.chance(70)
        {
            given.values.push(datum.own());
            self.text("?");
        } else {
            datum.print(self.dialect, &mut self.out);
        }
    }

    /// A number of rows, or what a recursion counts to.
    fn number(&mut self, number: i64) {
        self.literal_anywhere(&Datum::Integer(number));
    }

    /// As it is written, where parameters may stand elsewhere.
    fn without_parameters(&mut self, print: impl FnOnce(&mut Printer)) {
        let given = self.given.take();
        print(self);
        self.given = given;
    }

    fn stored(&mut self, expr: &Expr) {
        match expr {
            Expr::Literal(datum) => self.literal(datum, datum.type_of()),
            expr => self.expr(expr),
        }
    }

    fn as_condition(&mut self, is_condition: bool, print: impl FnOnce(&mut Printer)) {
        let before = std::mem::replace(&mut self.in_condition, is_condition);
        print(self);
        self.in_condition = before;
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Printer, &T)) {
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                self.text(", ");
            }
            each(self, item);
        }
    }

    fn query(&mut self, query: &Query) {
        let recursive = query.with.iter().any(|common| common.recursive_to.is_some());
        for (number, common) in query.with.iter().enumerate() {
            self.text(match number {
                0 if recursive => "WITH RECURSIVE ",
                0 => "WITH ",
                _ => ", ",
            });
            self.text(&common.name);
            if common.recursive_to.is_some() {
                self.text(" (c1)");
            }
            self.text(" AS (");
            self.query(&common.query);
            if let Some(last) = common.recursive_to {
                let name = &common.name;
                write!(self.out, " UNION SELECT {name}.c1 + 1 FROM {name} WHERE {name}.c1 < ").expect("a string");
                self.number(last);
            }
            self.text(")");
        }
        if !query.with.is_empty() {
            self.text(" ");
        }
        match &query.body {
            Body::Select(select) => self.select(select, query),
            body => self.body(body),
        }
        for (number, (column, direction)) in query.order.iter().enumerate() {
            self.text(if number == 0 { " ORDER BY " } else { ", " });
            write!(self.out, "{column}").expect("a string");
            self.direction(*direction);
        }
        if let Some(limit) = query.limit {
            self.text(" LIMIT ");
            self.number(limit as i64);
        }
        if let Some(offset) = query.offset {
            self.text(" OFFSET ");
            self.number(offset as i64);
        }
    }

    /// NULL sorts lowest in ours, highest in theirs.
    fn direction(&mut self, direction: Direction) {
        self.text(match (self.dialect, direction) {
            (Dialect::Ours, Direction::Up) => "",
            (Dialect::Ours, Direction::Down) => " DESC",
            (Dialect::Theirs, Direction::Up) => " NULLS FIRST",
            (Dialect::Theirs, Direction::Down) => " DESC NULLS LAST",
            (_, Direction::UpNullsLast) => " NULLS LAST",
            (_, Direction::DownNullsFirst) => " DESC NULLS FIRST",
        });
    }

    fn body(&mut self, body: &Body) {
        match body {
            Body::Select(select) => self.select(select, &Query::default()),
            Body::Set { operator, left, right } => {
                // Ours takes no parenthesis right behind ANY and ALL but that of the whole query.
                let bare = matches!(**left, Body::Select(_));
                self.text(if bare { "" } else { "(" });
                self.body(left);
                self.text(if bare { " " } else { ") " });
                write!(self.out, "{operator} (").expect("a string");
                self.body(right);
                self.text(")");
            }
        }
    }

    fn select(&mut self, select: &Select, query: &Query) {
        let outer = self.groups.len();
        self.groups.extend(select.group.iter().map(|group| expression(group, self.dialect)));
        self.as_condition(false, |printer| printer.select_clauses(select, query));
        self.groups.truncate(outer);
    }

    fn select_clauses(&mut self, select: &Select, query: &Query) {
        self.text(if select.distinct { "SELECT DISTINCT " } else { "SELECT " });
        if query.distinct_on > 0 && !query.order.is_empty() {
            self.text("DISTINCT ON (");
            self.list(&query.order[..query.distinct_on.min(query.order.len())], |printer, (column, _)| {
                write!(printer.out, "{column}").expect("a string");
            });
            self.text(") ");
        }
        for (number, item) in select.items.iter().enumerate() {
            if number > 0 {
                self.text(", ");
            }
            self.expr(item);
            write!(self.out, " AS c{}", number + 1).expect("a string");
        }
        if let Some(from) = &select.from {
            self.text(" FROM ");
            self.from(from);
        }
        if let Some(condition) = &select.condition {
            self.text(" WHERE ");
            self.as_condition(true, |printer| printer.expr(condition));
        }
        if !select.group.is_empty() {
            self.text(" GROUP BY ");
            self.without_parameters(|printer| printer.list(&select.group, Printer::expr));
        }
        if let Some(having) = &select.having {
            self.text(" HAVING ");
            self.expr(having);
        }
    }

    fn from(&mut self, from: &From) {
        match from {
            From::Table { name, alias } if name == alias => self.text(name),
            From::Table { name, alias } => write!(self.out, "{name} AS {alias}").expect("a string"),
            From::Derived { query, alias } => {
                self.text("(");
                self.query(query);
                write!(self.out, ") AS {alias}").expect("a string");
            }
            From::Values { rows, alias } => {
                self.text("(VALUES ");
                self.list(rows, |printer, row| {
                    printer.text("(");
                    printer.list(row, Printer::expr);
                    printer.text(")");
                });
                let width = rows.first().map_or(0, Vec::len);
                let names: Vec<String> = (1..=width).map(|number| format!("c{number}")).collect();
                write!(self.out, ") AS {alias} ({})", names.join(", ")).expect("a string");
            }
            From::Join { kind, left, right, on } => {
                self.from(left);
                self.text(match kind {
                    JoinKind::Comma => ", ",
                    JoinKind::Cross => " CROSS JOIN ",
                    JoinKind::Inner => " JOIN ",
                    JoinKind::Left => " LEFT JOIN ",
                    JoinKind::Right => " RIGHT JOIN ",
                    JoinKind::Full => " FULL JOIN ",
                });
                let nested = matches!(**right, From::Join { .. });
                self.text(if nested { "(" } else { "" });
                self.from(right);
                self.text(if nested { ")" } else { "" });
                match on {
                    On::Nothing => {}
                    On::Condition(condition) => {
                        self.text(" ON ");
                        self.as_condition(true, |printer| printer.expr(condition));
                    }
                    On::Using(columns) => write!(self.out, " USING ({})", columns.join(", ")).expect("a string"),
                }
            }
        }
    }

    fn nested(&mut self, query: &Query) {
        self.text("(");
        self.query(query);
        self.text(")");
    }

    fn expr(&mut self, expr: &Expr) {
        if self.given.is_some() && !self.groups.is_empty() && self.groups.contains(&expression(expr, self.dialect)) {
            self.without_parameters(|printer| printer.part(expr));
        } else {
            self.part(expr);
        }
    }

    fn part(&mut self, expr: &Expr) {
        match expr {
            Expr::Column { qualifier: Some(qualifier), name, .. } => {
                write!(self.out, "{qualifier}.{name}").expect("a string");
            }
            Expr::Column { name, .. } => self.text(name),
            Expr::Literal(datum) => self.literal_anywhere(datum),
            Expr::Apply { function, arguments, .. } => {
                let template = if self.dialect == Dialect::Ours { function.ours } else { function.theirs };
                // One argument at least must tell the type.
                let parameters = self.in_condition && function.compares();
                let parameters = parameters && !matches!(arguments[0], Expr::Literal(_));
                // Mostly; where parameters only are compared, the statement is refused.
                let first_says = compares_values(function.ours)
                    && !arguments.iter().any(|argument| argument.any(&|part| matches!(part, Expr::Column { .. })))
                    && self.given.as_mut().is_some_and(|given| given.random.chance(90));
                let says =
                    |hole: u8| first_says && (hole == b'0' || hole == b'1' && function.ours.contains("{0}, {1})"));
                self.template(template, |printer, hole| match &arguments[usize::from(hole - b'0')] {
                    argument if says(hole) => printer.without_parameters(|printer| printer.expr(argument)),
                    Expr::Literal(datum) if parameters => printer.literal(datum, arguments[0].type_of()),
                    argument => printer.expr(argument),
                });
            }
            Expr::Scalar { query, .. } => self.nested(query),
            Expr::Exists { negated, query } => {
                self.text(if *negated { "(NOT EXISTS " } else { "(EXISTS " });
                self.nested(query);
                self.text(")");
            }
            Expr::In { negated, left, query } => {
                self.text(if left.len() > 1 { "((" } else { "(" });
                self.list(left, Printer::expr);
                self.text(if left.len() > 1 { ")" } else { "" });
                self.text(if *negated { " NOT IN " } else { " IN " });
                self.nested(query);
                self.text(")");
            }
            Expr::Quantified { left, comparison, all, query } => {
                self.text("(");
                self.expr(left);
                write!(self.out, " {comparison} {} ", if *all { "ALL" } else { "ANY" }).expect("a string");
                self.nested(query);
                self.text(")");
            }
            Expr::Aggregate(call) => self.aggregate(call),
        }
    }

    fn aggregate(&mut self, call: &AggregateCall) {
        let template = if self.dialect == Dialect::Ours { call.function.ours } else { call.function.theirs };
        self.template(template, |printer, hole| match hole {
            b'd' => printer.text(if call.distinct { "DISTINCT " } else { "" }),
            b's' => printer.suffix(call),
            _ => printer.expr(call.argument.as_ref().expect("an argument")),
        });
    }

    /// FILTER and OVER.
    fn suffix(&mut self, call: &AggregateCall) {
        if let Some(filter) = &call.filter {
            self.text(" FILTER (WHERE ");
            self.expr(filter);
            self.text(")");
        }
        let Some(window) = &call.window else { return };
        self.text(" OVER (");
        if !window.partition.is_empty() {
            self.text("PARTITION BY ");
            self.list(&window.partition, Printer::expr);
        }
        for (number, (expr, direction)) in window.order.iter().enumerate() {
            self.text(if number == 0 { " ORDER BY " } else { ", " });
            self.expr(expr);
            self.direction(*direction);
        }
        if let Some(frame) = window.frame {
            write!(self.out, " {frame}").expect("a string");
        }
        self.text(")");
    }

    /// A text with holes `{x}`.
    fn template(&mut self, template: &str, mut fill: impl FnMut(&mut Printer, u8)) {
        let mut rest = template;
        while let Some(at) = rest.find('{') {
            self.text(&rest[..at]);
            fill(self, rest.as_bytes()[at + 1]);
            rest = &rest[at + 3..];
        }
        self.text(rest);
    }

    fn rows(&mut self, rows: &[Vec<Expr>]) {
        self.text(" VALUES ");
        self.list(rows, |printer, row| {
            printer.text("(");
            printer.list(row, Printer::stored);
            printer.text(")");
        });
    }

    /// What UPSERT means, in theirs: INSERT ... ON CONFLICT would refuse a row that leaves out a
    /// NOT NULL column, though it is there.
    fn merge(&mut self, table: &str, key: &[String], columns: &[String], rows: &[Vec<Expr>]) {
        write!(self.out, "MERGE INTO {table} USING (").expect("a string");
        self.rows(rows);
        let each = |columns: &[String], template: &dyn Fn(&str) -> String, between: &str| {
            columns.iter().map(|column| template(column)).collect::<Vec<String>>().join(between)
        };
        let on = each(key, &|column| format!("{table}.{column} = given.{column}"), " AND ");
        let names = columns.join(", ");
        let set = each(columns, &|column| format!("{column} = given.{column}"), ", ");
        let values = each(columns, &|column| format!("given.{column}"), ", ");
        write!(
            self.out,
            ") AS given ({names}) ON {on} WHEN MATCHED THEN UPDATE SET {set} WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        )
        .expect("a string");
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Insert { table, columns, rows } => {
                write!(self.out, "INSERT INTO {table} ({})", columns.join(", ")).expect("a string");
                self.rows(rows);
            }
            Change::InsertSelect { table, columns, query } => {
                write!(self.out, "INSERT INTO {table} ({}) ", columns.join(", ")).expect("a string");
                self.query(query);
            }
            Change::Upsert { table, key, columns, rows } if self.dialect == Dialect::Theirs => {
                self.merge(table, key, columns, rows);
            }
            Change::Upsert { table, columns, rows, .. } => {
                write!(self.out, "UPSERT INTO {table} ({})", columns.join(", ")).expect("a string");
                self.rows(rows);
            }
            Change::Update { table, set, condition } => {
                write!(self.out, "UPDATE {table} SET ").expect("a string");
                self.list(set, |printer, (column, expr)| {
                    write!(printer.out, "{column} = ").expect("a string");
                    printer.stored(expr);
                });
                self.condition(condition);
            }
            Change::Delete { table, condition } => {
                write!(self.out, "DELETE FROM {table}").expect("a string");
                self.condition(condition);
            }
            // Theirs counts no rows for TRUNCATE.
            Change::Truncate { table } if self.dialect == Dialect::Theirs => {
                write!(self.out, "DELETE FROM {table}").expect("a string");
            }
            Change::Truncate { table } => write!(self.out, "TRUNCATE TABLE {table}").expect("a string"),
        }
    }

    fn condition(&mut self, condition: &Option<Expr>) {
        if let Some(condition) = condition {
            self.text(" WHERE ");
            self.as_condition(true, |printer| printer.expr(condition));
        }
    }
}
