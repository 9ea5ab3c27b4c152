//! EXPLAIN: plans in words, and why a statement touches all partitions.

mod access;
mod expression;

use crate::planner::estimate::{NoStatistics, Statistics, access_rows};
use expression::Names;
use ferrite_catalog::Catalog;
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::{
    Access, Delete, Input, Insert, InsertSource, JoinKind, Plan, PlanLine, Program, Query, QueryBody, ReturnValue,
    Routing, Select, SetOperator, Source, Step, Subquery, SubqueryKind, Update,
};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// The program's statements with their plans as indented text. The first line of each says where it
/// runs.
pub fn explain(program: &Program, catalog: &Catalog) -> Vec<(String, String)> {
    explain_with(program, catalog, &NoStatistics)
}

/// The plan of a program's first statement by lines, with the sources that they are about.
pub(crate) fn explain_lines(program: &Program, catalog: &Catalog, statistics: &dyn Statistics) -> Vec<PlanLine> {
    let mut writer = Writer::new(program, catalog, statistics);
    if let Some(Step::Execute { plan, .. }) = program.body.first() {
        writer.plan(plan);
        writer.common_tables();
    }
    let first = writer.routing(Some(0));
    let first = first.lines().map(|line| PlanLine { text: line.to_owned(), slot: None });
    let mut slots: HashMap<usize, u16> = HashMap::new();
    for (place, slot) in &writer.slots {
        slots.entry(*place).or_insert(*slot);
    }
    let rest = writer.out.lines().enumerate();
    let rest = rest.map(|(number, line)| PlanLine { text: line.to_owned(), slot: slots.get(&number).copied() });
    first.chain(rest).collect()
}

/// [`explain`], with the rows that each source is thought to have as far as `statistics` knows of
/// its table.
pub fn explain_with(program: &Program, catalog: &Catalog, statistics: &dyn Statistics) -> Vec<(String, String)> {
    let mut explained: Vec<(String, String)> =
        program.statements.iter().map(|statement| (statement.text.clone(), String::new())).collect();
    let mut writer = Writer::new(program, catalog, statistics);
    let mut loose = String::new();
    writer.steps(&program.body, &mut explained, &mut loose);
    // Queries in conditions and assignments belong to no statement of their own.
    if !loose.is_empty() {
        let text = "conditions and assignments".to_owned();
        explained.push((text, format!("{}{loose}", writer.routing(None))));
    }
    explained
}

struct Writer<'p> {
    program: &'p Program,
    catalog: &'p Catalog,
    names: Names<'p>,
    out: String,
    /// Tables of WITH that the statement being written reads.
    common_tables: Vec<u16>,
    statistics: &'p dyn Statistics,
    /// Lines of `out` that are about a source, and its slot.
    slots: Vec<(usize, u16)>,
    /// The slots of those lines.
    known_slots: HashSet<u16>,
    /// Lines of `out`.
    lines: usize,
}

impl<'p> Writer<'p> {
    fn new(program: &'p Program, catalog: &'p Catalog, statistics: &'p dyn Statistics) -> Writer<'p> {
        let names = Names::of(program, catalog);
        Writer {
            program,
            catalog,
            names,
            out: String::new(),
            common_tables: Vec::new(),
            statistics,
            slots: Vec::new(),
            known_slots: HashSet::new(),
            lines: 0,
        }
    }

    fn steps(&mut self, steps: &'p [Step], explained: &mut [(String, String)], loose: &mut String) {
        for step in steps {
            match step {
                Step::Execute { statement, plan, .. } => {
                    self.plan(plan);
                    self.store(*statement, explained);
                }
                Step::Analyze { statement, plan, .. } => {
                    self.plan(plan);
                    self.store(*statement, explained);
                }
                Step::Fetch { statement, query, .. } => {
                    self.query(query, 0);
                    self.store(*statement, explained);
                }
                Step::Assign { value, .. } => self.loose_subqueries(value, loose),
                Step::If { branches, otherwise } => {
                    for (condition, body) in branches {
                        self.loose_subqueries(condition, loose);
                        self.steps(body, explained, loose);
                    }
                    self.steps(otherwise, explained, loose);
                }
                Step::While { condition, body, .. } => {
                    self.loose_subqueries(condition, loose);
                    self.steps(body, explained, loose);
                }
                Step::For { statement, query, body, .. } => {
                    self.query(query, 0);
                    self.store(*statement, explained);
                    self.steps(body, explained, loose);
                }
                Step::Block { body, .. } => self.steps(body, explained, loose),
                Step::Leave { .. } | Step::Iterate { .. } | Step::Return(ReturnValue::Nothing) => {}
                Step::Return(ReturnValue::Status(value)) => self.loose_subqueries(value, loose),
                Step::Return(ReturnValue::Tables(tables)) => {
                    for (statement, query) in tables {
                        self.query(query, 0);
                        self.store(*statement, explained);
                    }
                }
                Step::Signal { message, .. } => self.loose_subqueries(message, loose),
            }
        }
    }

    /// The tables of WITH that the statement reads, after it.
    fn common_tables(&mut self) {
        let mut next = 0;
        while let Some(table) = self.common_tables.get(next).copied() {
            next += 1;
            self.line(0, &format!("common table {table}, computed once"));
            let program: &'p Program = self.program;
            if let Some(query) = program.common_tables.get(usize::from(table)) {
                self.query(query, 1);
            }
        }
        self.common_tables.clear();
    }

    /// What has been written is the plan of this statement.
    fn store(&mut self, statement: u16, explained: &mut [(String, String)]) {
        self.common_tables();
        let plan = std::mem::take(&mut self.out);
        self.lines = 0;
        let routing = self.routing(Some(statement));
        if let Some((_, text)) = explained.get_mut(usize::from(statement)) {
            *text = routing + &plan;
        }
    }

    fn loose_subqueries(&mut self, expr: &'p Expr, loose: &mut String) {
        self.subqueries_of(expr, 0);
        loose.push_str(&std::mem::take(&mut self.out));
        self.lines = 0;
    }

    fn routing(&self, statement: Option<u16>) -> String {
        let reason = statement
            .and_then(|statement| self.program.statements.get(usize::from(statement)))
            .and_then(|statement| statement.multi_partition_reason.as_deref());
        let reason = reason.map(|reason| reason.replacen("; hint: ", "\nhint: ", 1));
        match &self.program.routing {
            Routing::Parameter { index, .. } => {
                format!("single-partition, by parameter {}\n", self.names.expr(&Expr::Parameter(*index)))
            }
            Routing::Constant { value, .. } => format!("single-partition, by {}\n", self.names.expr(value)),
            Routing::Any => "single-partition, on any: only replicated tables are read\n".to_owned(),
            Routing::Directed => "single-partition, on the one that the caller names\n".to_owned(),
            Routing::Compound => "on no partition: it calls other procedures\n".to_owned(),
            Routing::Several { keys } => {
                let keys: Vec<String> = keys.iter().map(|(key, _)| self.names.expr(key)).collect();
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                format!("multi-partition, only those that own {}{reason}\n", keys.join(", "))
            }
            Routing::All => match reason {
                Some(reason) => format!("multi-partition: {reason}\n"),
                None => "multi-partition\n".to_owned(),
            },
        }
    }

    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.out, "{:indent$}{text}", "", indent = depth * 2);
        self.lines += 1 + text.matches('\n').count();
    }

    /// A line about a source. The first one of a source is what its measures are shown at.
    fn line_of(&mut self, slot: u16, depth: usize, text: &str) {
        if self.known_slots.insert(slot) {
            self.slots.push((self.lines, slot));
        }
        self.line(depth, text);
    }

    /// How many rows the access path is thought to find.
    fn about(&self, table: ferrite_base::TableId, access: &Access) -> String {
        let (Some(rows), Some(table)) = (self.statistics.rows(table), self.catalog.table(table)) else {
            return String::new();
        };
        let everywhere = matches!(self.program.routing, Routing::All | Routing::Several { .. });
        let spread = if table.is_partitioned() && !everywhere { self.statistics.partitions().max(1) } else { 1 };
        match access_rows(self.statistics, table, access, rows as f64 / spread as f64).round() {
            1.0 => " (about 1 row)".to_owned(),
            found => format!(" (about {found} rows)"),
        }
    }

    fn plan(&mut self, plan: &'p Plan) {
        match plan {
            Plan::Query(query) => self.query(query, 0),
            Plan::Insert(insert) => self.insert(insert),
            Plan::Update(update) => self.update(update),
            Plan::Delete(delete) => self.delete(delete),
            Plan::Truncate { table } => {
                let name = self.names.table(*table);
                self.line(0, &format!("truncate {name}"));
            }
        }
    }

    fn insert(&mut self, insert: &'p Insert) {
        let table = self.names.table(insert.table);
        let verb = if insert.upsert { "upsert" } else { "insert" };
        match &insert.source {
            InsertSource::Values { more } => {
                let count = more.len() + 1;
                let rows = if count == 1 { String::new() } else { format!(", {count} rows") };
                self.line(0, &format!("{verb} into {table}{rows}"));
            }
            InsertSource::Query(query) => {
                self.line(0, &format!("{verb} into {table} from"));
                self.query(query, 1);
            }
        }
        insert.row.iter().for_each(|expr| self.subqueries_of(expr, 1));
    }

    fn update(&mut self, update: &'p Update) {
        let columns: Vec<String> =
            update.assignments.iter().map(|(column, _)| self.names.column(update.slot, *column)).collect();
        let table = self.names.table(update.table);
        self.line(0, &format!("update {table} set {}", columns.join(", ")));
        self.access(update.table, &update.access, update.filter.as_ref(), "", 1);
        self.joined(update.joined.as_deref());
        update.assignments.iter().for_each(|(_, expr)| self.subqueries_of(expr, 1));
    }

    fn delete(&mut self, delete: &'p Delete) {
        let table = self.names.table(delete.table);
        let verb = if delete.migrate { "migrate" } else { "delete" };
        self.line(0, &format!("{verb} from {table}"));
        let mut depth = 1;
        if !delete.order_by.is_empty() {
            let keys: Vec<String> = delete
                .order_by
                .iter()
                .map(|(expr, descending)| format!("{}{}", self.names.expr(expr), direction(*descending)))
                .collect();
            let rows = self.row_counts(delete.limit.as_ref(), delete.offset.as_ref());
            self.line(1, &format!("sort by {}{rows}", keys.join(", ")));
            depth = 2;
        }
        self.access(delete.table, &delete.access, delete.filter.as_ref(), "", depth);
        self.joined(delete.joined.as_deref());
    }

    /// What an UPDATE or DELETE joins with.
    fn joined(&mut self, joined: Option<&'p Select>) {
        if let Some(joined) = joined {
            self.line(1, "for each row the first of");
            self.select(joined, 2);
        }
    }

    fn row_counts(&self, limit: Option<&Expr>, offset: Option<&Expr>) -> String {
        let mut text = String::new();
        if let Some(offset) = offset {
            let _ = write!(text, ", offset {}", self.names.expr(offset));
        }
        if let Some(limit) = limit {
            let _ = write!(text, ", limit {}", self.names.expr(limit));
        }
        text
    }

    fn query(&mut self, query: &'p Query, depth: usize) {
        let mut depth = depth;
        let rows = self.row_counts(query.limit.as_ref(), query.offset.as_ref());
        if !query.order_by.is_empty() {
            let keys: Vec<String> = query
                .order_by
                .iter()
                .map(|key| {
                    let name = match (&query.body, query.columns.get(usize::from(key.column))) {
                        (_, Some(column)) => column.name.clone(),
                        (QueryBody::Select(select), None) => self.names.expr(&select.output[usize::from(key.column)]),
                        _ => format!("column {}", key.column + 1),
                    };
                    name + direction(key.descending)
                })
                .collect();
            let how = if query.presorted { "in index order of" } else { "sort by" };
            self.line(depth, &format!("{how} {}{rows}", keys.join(", ")));
            depth += 1;
        } else if !rows.is_empty() {
            self.line(depth, rows.trim_start_matches(", "));
            depth += 1;
        }
        match &query.body {
            QueryBody::Select(select) => self.select(select, depth),
            QueryBody::SetOperation { operator, all, left, right } => {
                let name = match operator {
                    SetOperator::Union => "union",
                    SetOperator::Intersect => "intersect",
                    SetOperator::Except => "except",
                };
                self.line(depth, &format!("{name}{}", if *all { " all" } else { "" }));
                self.query(left, depth + 1);
                self.query(right, depth + 1);
            }
            QueryBody::Values(rows) => self.line(depth, &format!("values, {} rows", rows.len())),
            QueryBody::Series { start, stop, step } => {
                let [start, stop, step] = [start, stop, step].map(|expr| self.names.expr(expr));
                self.line(depth, &format!("series from {start} to {stop} by {step}"));
            }
            QueryBody::Recursive { all, first, step, .. } => {
                self.line(depth, if *all { "recursive union all" } else { "recursive union" });
                self.query(first, depth + 1);
                self.line(depth, "then for the rows of each round");
                self.query(step, depth + 1);
            }
        }
    }

    fn select(&mut self, select: &'p Select, depth: usize) {
        let mut depth = depth;
        if select.distinct {
            self.line(depth, "distinct");
            depth += 1;
        }
        for window in select.windowing.iter().flat_map(|windowing| &windowing.windows) {
            let text = self.names.window(window);
            self.line(depth, &text);
        }
        depth += usize::from(select.windowing.is_some());
        if let Some(aggregation) = &select.aggregation {
            let keys: Vec<String> = aggregation.group_by.iter().map(|expr| self.names.expr(expr)).collect();
            let aggregates: Vec<String> =
                aggregation.aggregates.iter().map(|aggregate| self.names.aggregate(aggregate)).collect();
            let mut line = "aggregate".to_owned();
            if !aggregates.is_empty() {
                let _ = write!(line, " {}", aggregates.join(", "));
            }
            if !keys.is_empty() {
                let _ = write!(line, " by {}", keys.join(", "));
            }
            if !aggregation.sets.is_empty() {
                let set = |set: &u64| {
                    let chosen = keys.iter().enumerate().filter(|(place, _)| *set >> place & 1 == 1);
                    format!("({})", chosen.map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(", "))
                };
                let sets: Vec<String> = aggregation.sets.iter().map(set).collect();
                let _ = write!(line, " in sets {}", sets.join(", "));
            }
            if let Some(having) = &aggregation.having {
                let _ = write!(line, " having {}", self.names.expr(having));
            }
            self.line(depth, &line);
            depth += 1;
        }
        for source in &select.sources {
            self.source(source, depth);
        }
        if let Some(filter) = &select.filter {
            let filter = self.names.expr(filter);
            self.line(depth, &format!("where {filter}"));
        }
        for source in &select.sources {
            self.subqueries_of_input(&source.input, depth);
            source.on.iter().chain(&source.filter).for_each(|expr| self.subqueries_of(expr, depth));
        }
        select.filter.iter().chain(&select.output).for_each(|expr| self.subqueries_of(expr, depth));
        if let Some(aggregation) = &select.aggregation {
            aggregation.having.iter().for_each(|expr| self.subqueries_of(expr, depth));
        }
    }

    fn source(&mut self, source: &'p Source, depth: usize) {
        let join = match source.join {
            JoinKind::Inner => String::new(),
            JoinKind::Left | JoinKind::Full => {
                let kind = if source.join == JoinKind::Left { "left join " } else { "full join " };
                kind.to_owned()
            }
        };
        let on = source.on.as_ref().map(|on| format!(" on {}", self.names.expr(on))).unwrap_or_default();
        let filter = self.filter_text(source.filter.as_ref());
        self.input(source.slot, &source.input, &join, &format!("{on}{filter}"), depth);
    }

    /// `conditions`: what is tested on the rows that the input delivers.
    fn input(&mut self, slot: u16, input: &'p Input, join: &str, conditions: &str, depth: usize) {
        match input {
            Input::Table { table, access } => {
                let line = self.names.access(*table, access, &self.names.slot(slot));
                let about = self.about(*table, access);
                self.line_of(slot, depth, &format!("{join}{line}{about}{conditions}"));
            }
            Input::Derived { query, correlated } => {
                let again = if *correlated { " for each row" } else { "" };
                let name = match &query.view {
                    Some(view) => format!("view {view}"),
                    None => format!("derived table {}", self.names.slot(slot)),
                };
                self.line_of(slot, depth, &format!("{join}{name}{again}{conditions}"));
                self.query(query, depth + 1);
            }
            Input::Common { table } => {
                self.line_of(slot, depth, &format!("{join}common table {table}{conditions}"));
                if !self.common_tables.contains(table) {
                    self.common_tables.push(*table);
                }
            }
            Input::Working { .. } => self.line(depth, &format!("{join}rows of the last round{conditions}")),
            Input::One => self.line(depth, &format!("one row{conditions}")),
            Input::Hashed(hashed) => {
                let pairs = hashed.built.iter().zip(&hashed.probed);
                let keys: Vec<String> = pairs
                    .map(|(built, probed)| format!("{} = {}", self.names.expr(built), self.names.expr(probed)))
                    .collect();
                let join = if join.is_empty() { "join " } else { join };
                self.line_of(slot, depth, &format!("hash {join}on {}{conditions}", keys.join(", ")));
                let filter = self.filter_text(hashed.filter.as_ref());
                self.input(slot, &hashed.input, "", &filter, depth + 1);
            }
            Input::Measured(input) => self.input(slot, input, join, conditions, depth),
        }
    }

    fn filter_text(&self, filter: Option<&Expr>) -> String {
        filter.map(|filter| format!(" where {}", self.names.expr(filter))).unwrap_or_default()
    }

    fn access(
        &mut self,
        table: ferrite_base::TableId,
        access: &Access,
        filter: Option<&'p Expr>,
        join: &str,
        depth: usize,
    ) {
        let name = self.names.table(table);
        let line = self.names.access(table, access, &name);
        let where_ = self.filter_text(filter);
        let about = self.about(table, access);
        self.line(depth, &format!("{join}{line}{about}{where_}"));
        self.subqueries_of_access(access, depth);
        filter.iter().for_each(|expr| self.subqueries_of(expr, depth));
    }

    fn subqueries_of_input(&mut self, input: &Input, depth: usize) {
        match input {
            Input::Table { access, .. } => self.subqueries_of_access(access, depth),
            Input::Hashed(hashed) => self.subqueries_of_input(&hashed.input, depth),
            Input::Measured(input) => self.subqueries_of_input(input, depth),
            _ => {}
        }
    }

    fn subqueries_of_access(&mut self, access: &Access, depth: usize) {
        let mut exprs = Vec::new();
        ferrite_plan::walk::for_each_access_expr(access, &mut |expr| exprs.push(expr.clone()));
        exprs.iter().for_each(|expr| self.subqueries_of(expr, depth));
    }

    /// The plans of the subqueries in an expression.
    fn subqueries_of(&mut self, expr: &Expr, depth: usize) {
        let negated = match expr {
            Expr::Not(operand) => operand.as_ref(),
            _ => &Expr::Constant(ferrite_value::OwnedValue::Null),
        };
        match (expr, negated) {
            (Expr::Subquery { subquery, .. }, _) => self.subquery(*subquery, false, depth),
            (_, Expr::Subquery { subquery, operand }) => {
                self.subquery(*subquery, true, depth);
                operand.iter().for_each(|operand| self.subqueries_of(operand, depth));
                return;
            }
            _ => {}
        }
        expr.for_each_operand(|operand| self.subqueries_of(operand, depth));
    }

    fn subquery(&mut self, number: u16, negated: bool, depth: usize) {
        let program: &'p Program = self.program;
        let Some(Subquery { kind, query, correlated }) = program.subqueries.get(usize::from(number)) else { return };
        let join = if negated { ", hash anti-join" } else { ", hash semi-join" };
        let (kind, join) = match kind {
            SubqueryKind::Scalar => ("scalar", ""),
            SubqueryKind::Exists => ("exists", ""),
            SubqueryKind::Any(CompareOperator::Equal) => ("any", join),
            SubqueryKind::Any(_) => ("any", ""),
            SubqueryKind::All(CompareOperator::NotEqual) => ("all", ", hash anti-join"),
            SubqueryKind::All(_) => ("all", ""),
            SubqueryKind::Among { unknown: true } => ("any", join),
            SubqueryKind::Among { unknown: false } => ("exists", join),
        };
        let how = if *correlated { " for each row" } else { join };
        self.line(depth, &format!("subquery {number}, {kind}{how}"));
        self.query(query, depth + 1);
    }
}

fn direction(descending: bool) -> &'static str {
    if descending { " descending" } else { "" }
}
