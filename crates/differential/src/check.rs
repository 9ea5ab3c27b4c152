//! The oracles: what must be equal, and what is known to differ.
//!
//! A case is a schema, changes, and queries at the end. It runs on our database with 1 and with 7
//! partitions, on a *bare* copy with 7 (rows only: no key, index or view, partitioned otherwise),
//! and on PostgreSQL if there is one. All must answer alike, in every [`Way`] to run a query, and
//! with literals given as parameters of this type or that; the parts of a condition (true, false,
//! unknown) must add up to the whole; and after every change the stores must be consistent.
//!
//! Errors must occur in all or in none. What is tolerated, and why:
//! - an error of data in a *hazardous* statement (see `functions`): which row is met first is open
//!   in SQL;
//! - a statement that one side gives up for a limit of time or memory;
//! - an error of data in ours alone, where a view over the changed table has a hazardous
//!   expression: ours keeps the view's rows and computes it for the change, theirs when the view is
//!   read;
//! - what PostgreSQL does not support (its class 0A: FULL JOIN without an equality that it can
//!   merge or hash).

use crate::answer::{Answer, EngineResult, Failure};
use crate::datum::{Datum, Dialect, Type};
use crate::engine::{Engine, Way};
use crate::functions;
use crate::generate::query::{has_aggregate, has_window};
use crate::postgres::Postgres;
use crate::print;
use crate::schema::{Layout, Schema};
use crate::tree::{Body, Change, Expr, Query};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Debug)]
pub struct Case {
    pub schema: Schema,
    pub changes: Vec<Change>,
    pub query: Option<Query>,
}

#[derive(Clone, Debug)]
pub struct Finding {
    /// Which comparison failed.
    pub oracle: String,
    pub statement: String,
    /// The same for PostgreSQL, where it took part.
    pub theirs: Option<String>,
    pub expected: String,
    pub found: String,
}

/// What happened so far.
#[derive(Default, Debug)]
pub struct Counts {
    pub schemas: u64,
    pub changes: u64,
    pub queries: u64,
    /// Executions of queries in some way and place.
    pub runs: u64,
    pub compared_with_theirs: u64,
    pub errors_in_all: u64,
    /// Statements with parameters anywhere that were compared with the same with literals.
    pub with_parameters: u64,
    /// Those among them that compare parameters with parameters only, which is an error by intent.
    pub undecided: u64,
    pub tolerated: u64,
    /// Statements that ours refuses, by message.
    pub refused: BTreeMap<String, (u64, String)>,
    /// Statements that theirs refuses, by message.
    pub refused_by_them: BTreeMap<String, (u64, String)>,
}

pub struct Databases<'p> {
    one: Engine,
    seven: Engine,
    bare: Engine,
    theirs: Option<&'p mut Postgres>,
    wild: bool,
    /// Tables whose views have hazardous expressions.
    watched: BTreeSet<String>,
}

impl Case {
    /// Runs all of it from the beginning; the first finding.
    pub fn run(&self, theirs: Option<&mut Postgres>) -> Option<Finding> {
        let mut counts = Counts::default();
        let mut databases = match Databases::open(&self.schema, theirs) {
            Ok(databases) => databases,
            Err(finding) => return Some(finding),
        };
        for change in &self.changes {
            if let Some(finding) = databases.change(change, &mut counts) {
                return Some(finding);
            }
        }
        let query = self.query.as_ref()?;
        if let Err(finding) = databases.level(&self.schema) {
            return Some(finding);
        }
        databases.query(query, 1, &mut counts)
    }
}

/// Takes out of the schema what ours refuses. Returns the refusals.
pub fn settle(schema: &mut Schema) -> Vec<String> {
    let mut refusals = Vec::new();
    let mut accepted = |schema: &Schema| {
        let mut engine = Engine::new(1);
        schema.ours(Layout::Whole).iter().all(|text| {
            let result = engine.define(text);
            if let Err(failure) = &result {
                refusals.push(format!("{failure} | {text}"));
            }
            result.is_ok()
        })
    };
    let wanted = std::mem::take(&mut schema.tables);
    let views = std::mem::take(&mut schema.views);
    for mut table in wanted {
        let indexes = std::mem::take(&mut table.indexes);
        schema.tables.push(table);
        if !accepted(schema) {
            schema.tables.pop();
            continue;
        }
        for index in indexes {
            schema.tables.last_mut().expect("just pushed").indexes.push(index);
            if !accepted(schema) {
                schema.tables.last_mut().expect("just pushed").indexes.pop();
            }
        }
    }
    for view in views {
        schema.views.push(view);
        if !accepted(schema) {
            schema.views.pop();
        }
    }
    refusals
}

impl<'p> Databases<'p> {
    pub fn open(schema: &Schema, mut theirs: Option<&'p mut Postgres>) -> Result<Databases<'p>, Finding> {
        let mut one = Engine::new(1);
        let mut seven = Engine::new(7);
        let mut bare = Engine::new(7);
        let whole = schema.ours(Layout::Whole);
        for text in &whole {
            for engine in [&mut one, &mut seven] {
                guarded(|| engine.define(text)).map_err(|failure| Finding::alone("schema", text, &failure))?;
            }
        }
        for text in &schema.ours(Layout::Bare) {
            guarded(|| bare.define(text)).map_err(|failure| Finding::alone("schema, bare", text, &failure))?;
        }
        if let Some(postgres) = theirs.as_deref_mut() {
            postgres.start_over();
            for text in &schema.theirs() {
                postgres.run(text, &[]).map_err(|failure| Finding::alone("schema, PostgreSQL", text, &failure))?;
            }
        }
        let hazardous_views = schema.views.iter().filter(|view| view.query.any(&is_hazardous));
        let watched = hazardous_views.flat_map(|view| view.query.tables()).collect();
        Ok(Databases { one, seven, bare, theirs, wild: schema.wild, watched })
    }

    /// Makes a change everywhere but in the bare copy, and compares.
    pub fn change(&mut self, change: &Change, counts: &mut Counts) -> Option<Finding> {
        counts.changes += 1;
        let text = print::change(change, Dialect::Ours);
        let hazardous = self.wild || change.any(&is_hazardous);
        let one = guarded(|| self.one.run(&text, Way::Plain));
        // By the text, so that a case does the same again.
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let (given, values) = match hasher.finish() % 3 {
            0 => print::change_given(change, hasher.finish()),
            1 => print::change_given_anywhere(change, hasher.finish()),
            _ => (String::new(), Vec::new()),
        };
        let is_given = !values.is_empty() && !self.is_undecided(&given, values.len(), counts);
        let (oracle, text) = if is_given {
            ("change, 7 partitions, literals as parameters", format!("{text} -- as {given} with {values:?}"))
        } else {
            ("change, 7 partitions", text)
        };
        let seven = guarded(|| match is_given {
            true => self.seven.run_given(&given, &values),
            false => self.seven.run(&text, Way::AsRouted),
        });
        let compared = Compared { oracle, text: &text, theirs: None, ordered: false, hazardous };
        if let Some(finding) = compared.ours(&one, &seven, counts) {
            return Some(finding);
        }
        if one.is_ok() != seven.is_ok() {
            // Tolerated, but the databases are not alike any more.
            return Some(Finding::stop());
        }
        if let Some(finding) = self.inconsistency(&text) {
            return Some(finding);
        }
        self.change_theirs(change, &text, &one, hazardous, counts)
    }

    /// What is wrong within one of ours.
    fn inconsistency(&self, text: &str) -> Option<Finding> {
        for engine in [&self.one, &self.seven] {
            let verified = catch_unwind(AssertUnwindSafe(|| engine.verify()));
            let problem = verified.unwrap_or_else(|_| Err(last_panic()));
            if let Err(problem) = problem {
                let failure = Failure { code: "verify".to_owned(), message: problem };
                return Some(Finding::alone("consistency", text, &failure));
            }
        }
        None
    }

    /// The same change in PostgreSQL; `one`: what ours made of it.
    fn change_theirs(
        &mut self,
        change: &Change,
        text: &str,
        one: &EngineResult,
        hazardous: bool,
        counts: &mut Counts,
    ) -> Option<Finding> {
        let postgres = self.theirs.as_deref_mut()?;
        let their_text = print::change(change, Dialect::Theirs);
        let theirs = postgres.run(&their_text, &[]);
        let table = change.table();
        // Their views are computed when they are read, so only an error of ours can come from one.
        let hazardous = hazardous || (one.is_err() && self.watched.contains(table));
        if let Err(failure) = one
            && failure.is_refusal()
        {
            let entry = counts.refused.entry(failure.reason()).or_insert((0, text.to_owned()));
            entry.0 += 1;
            return theirs.is_ok().then(Finding::stop);
        }
        let undone = one.is_ok() != theirs.is_ok() && hazardous;
        let compared =
            Compared { oracle: "change, PostgreSQL", text, theirs: Some(&their_text), ordered: false, hazardous };
        if let Some(finding) = compared.with_theirs(one, &theirs, counts) {
            return Some(finding);
        }
        if undone || one.is_ok() != theirs.is_ok() {
            return Some(Finding::stop());
        }
        if one.is_err() {
            return None;
        }
        let content = format!("SELECT * FROM {table}");
        let ours = guarded(|| self.one.run(&content, Way::Plain));
        let types = ours.as_ref().map(|answer| answer.types.clone()).unwrap_or_default();
        let theirs = postgres.run(&content, &types);
        let compared = Compared {
            oracle: "content after a change, PostgreSQL",
            text,
            theirs: Some(&their_text),
            ordered: false,
            hazardous: false,
        };
        compared.with_theirs(&ours, &theirs, counts)
    }

    /// Gives the bare copy the rows that the others have.
    pub fn level(&mut self, schema: &Schema) -> Result<(), Finding> {
        for change in self.content(schema) {
            let text = print::change(&Change::Truncate { table: change.table().to_owned() }, Dialect::Ours);
            let emptied = guarded(|| self.bare.run(&text, Way::Plain));
            emptied.map_err(|failure| Finding::alone("bare copy", &text, &failure))?;
            let Change::Insert { rows, .. } = &change else { continue };
            if rows.is_empty() {
                continue;
            }
            let text = print::change(&change, Dialect::Ours);
            let filled = guarded(|| self.bare.run(&text, Way::Plain));
            filled.map_err(|failure| Finding::alone("bare copy", &text, &failure))?;
        }
        Ok(())
    }

    /// All rows, as INSERT statements.
    pub fn content(&mut self, schema: &Schema) -> Vec<Change> {
        let mut changes = Vec::new();
        for table in &schema.tables {
            let answer = guarded(|| self.one.run(&format!("SELECT * FROM {}", table.name), Way::Plain));
            let Ok(answer) = answer else { continue };
            let columns = table.columns.iter().map(|column| column.name.clone()).collect();
            let rows = answer
                .rows
                .iter()
                .map(|row| {
                    let cells = row.iter().zip(&table.columns);
                    cells.map(|(cell, column)| Expr::Literal(Datum::of_cell(cell.as_deref(), column.ty))).collect()
                })
                .collect();
            changes.push(Change::Insert { table: table.name.clone(), columns, rows });
        }
        changes
    }

    pub fn query(&mut self, query: &Query, seed: u64, counts: &mut Counts) -> Option<Finding> {
        counts.queries += 1;
        let text = print::query(query, Dialect::Ours);
        let ordered = !query.order.is_empty();
        let hazardous = self.wild || query.any(&is_hazardous);
        let base = guarded(|| self.one.run(&text, Way::Plain));
        counts.runs += 1;
        if let Err(failure) = &base
            && failure.is_refusal()
        {
            let entry = counts.refused.entry(failure.reason()).or_insert((0, text.clone()));
            entry.0 += 1;
        }
        let ways = [
            ("7 partitions", Way::AsRouted),
            ("7 partitions, row counts made up", Way::WithStatistics(seed)),
            ("7 partitions, on snapshots", Way::OnSnapshot),
            ("7 partitions, literals parameterized", Way::Parameterized),
        ];
        for (oracle, way) in ways {
            let other = guarded(|| self.seven.run(&text, way));
            counts.runs += 1;
            let compared = Compared { oracle, text: &text, theirs: None, ordered, hazardous };
            if let Some(finding) = compared.ours(&base, &other, counts) {
                return Some(finding);
            }
        }
        let (given, values) = print::query_given(query, seed);
        if !values.is_empty() {
            let other = guarded(|| self.seven.run_given(&given, &values));
            counts.runs += 1;
            let text = format!("{text} -- as {given} with {values:?}");
            let oracle = "7 partitions, literals as parameters";
            let compared = Compared { oracle, text: &text, theirs: None, ordered, hazardous };
            if let Some(finding) = compared.ours(&base, &other, counts) {
                return Some(finding);
            }
        }
        if let Some(finding) = self.parameters_anywhere(query, &base, hazardous, seed, counts) {
            return Some(finding);
        }
        if !reads_view(query) {
            let other = guarded(|| self.bare.run(&text, Way::Plain));
            counts.runs += 1;
            let compared =
                Compared { oracle: "no indexes, partitioned otherwise", text: &text, theirs: None, ordered, hazardous };
            // What depends on a key depends on nothing where there is none.
            let keyless = matches!(&other, Err(failure) if failure.message.contains("is neither grouped by nor"));
            if !keyless && let Some(finding) = compared.ours(&base, &other, counts) {
                return Some(finding);
            }
        }
        if let Some(finding) = self.three_parts(query, &base, hazardous, counts) {
            return Some(finding);
        }
        let postgres = self.theirs.as_deref_mut()?;
        if base.as_ref().is_err_and(|failure| failure.is_refusal()) {
            return None;
        }
        let their_text = print::query(query, Dialect::Theirs);
        let types = base.as_ref().map(|answer| answer.types.clone()).unwrap_or_default();
        let theirs = postgres.run(&their_text, &types);
        counts.compared_with_theirs += 1;
        let compared = Compared { oracle: "PostgreSQL", text: &text, theirs: Some(&their_text), ordered, hazardous };
        compared.with_theirs(&base, &theirs, counts)
    }

    /// With literals anywhere as parameters, ad hoc and as a procedure: the same rows, of the same
    /// types.
    fn parameters_anywhere(
        &mut self,
        query: &Query,
        base: &EngineResult,
        hazardous: bool,
        seed: u64,
        counts: &mut Counts,
    ) -> Option<Finding> {
        let (given, values) = print::query_given_anywhere(query, seed);
        if values.is_empty() || self.is_undecided(&given, values.len(), counts) {
            return None;
        }
        let text = format!("{} -- as {given} with {values:?}", print::query(query, Dialect::Ours));
        let ordered = !query.order.is_empty();
        for (oracle, is_procedure) in
            [("parameters anywhere, ad hoc", false), ("parameters anywhere, in a procedure", true)]
        {
            let other = guarded(|| match is_procedure {
                true => self.seven.run_procedure(&given, &values),
                false => self.seven.run_given(&given, &values),
            });
            counts.runs += 1;
            let compared = Compared { oracle, text: &text, theirs: None, ordered, hazardous };
            if let Some(finding) = compared.ours(base, &other, counts) {
                return Some(finding);
            }
            if let (Ok(expected), Ok(found)) = (base, &other)
                && !found.has_types_of(expected)
            {
                let failure = Failure {
                    code: "types".to_owned(),
                    message: format!("{:?}, not {:?}", found.types, expected.types),
                };
                return Some(Finding::alone(oracle, &text, &failure));
            }
        }
        None
    }

    /// Whether nothing says the type of some parameter of the statement, which is then refused.
    fn is_undecided(&self, given: &str, values: usize, counts: &mut Counts) -> bool {
        let undecided = self.one.refusal(given, values).is_some_and(|code| code == "42P18");
        counts.with_parameters += u64::from(!undecided);
        counts.undecided += u64::from(undecided);
        undecided
    }

    /// Rows for which a condition is true, false and unknown are together all rows.
    fn three_parts(
        &mut self,
        query: &Query,
        base: &EngineResult,
        hazardous: bool,
        counts: &mut Counts,
    ) -> Option<Finding> {
        let select = query.select()?;
        let condition = select.condition.as_ref()?;
        let grouped = !select.group.is_empty() || select.having.is_some();
        if base.is_err()
            || hazardous
            || grouped
            || select.distinct
            || query.distinct_on > 0
            || query.limit.is_some()
            || query.offset.is_some()
            || select.items.iter().any(|item| has_aggregate(item) || has_window(item))
        {
            return None;
        }
        let with = |condition: Option<Expr>| {
            let mut query = query.clone();
            let Body::Select(select) = &mut query.body else { unreachable!("it is one SELECT") };
            select.condition = condition;
            query.order.clear();
            print::query(&query, Dialect::Ours)
        };
        let apply = |template: &str| {
            let function = functions::condition(template);
            Expr::Apply { function, arguments: vec![condition.clone()], ty: Type::Boolean }
        };
        let whole = with(None);
        let parts = [with(Some(condition.clone())), with(Some(apply("(NOT {0})"))), with(Some(apply("({0} IS NULL)")))];
        let expected = guarded(|| self.seven.run(&whole, Way::AsRouted));
        let mut sum = Answer::default();
        let mut found = Ok(());
        for part in &parts {
            match guarded(|| self.seven.run(part, Way::AsRouted)) {
                Ok(mut answer) => sum.rows.append(&mut answer.rows),
                Err(failure) => found = Err(failure),
            }
        }
        counts.runs += 4;
        let text = parts.join("\n-- and\n");
        let compared = Compared { oracle: "three parts", text: &text, theirs: None, ordered: false, hazardous };
        compared.ours(&expected, &found.map(|()| sum), counts)
    }
}

struct Compared<'c> {
    oracle: &'c str,
    text: &'c str,
    theirs: Option<&'c str>,
    ordered: bool,
    hazardous: bool,
}

impl Compared<'_> {
    fn finding(&self, expected: &EngineResult, found: &EngineResult) -> Option<Finding> {
        let shown = |outcome: &EngineResult| match outcome {
            Ok(answer) => answer.to_string(),
            Err(failure) => failure.to_string(),
        };
        Some(Finding {
            oracle: self.oracle.to_owned(),
            statement: self.text.to_owned(),
            theirs: self.theirs.map(str::to_owned),
            expected: shown(expected),
            found: shown(found),
        })
    }

    /// Two outcomes of ours.
    fn ours(&self, expected: &EngineResult, found: &EngineResult, counts: &mut Counts) -> Option<Finding> {
        for outcome in [expected, found] {
            if let Err(failure) = outcome
                && failure.is_fault()
            {
                return self.finding(expected, found);
            }
        }
        match (expected, found) {
            (Ok(left), Ok(right)) => {
                let same = left.modified == right.modified && left.same_rows(right, self.ordered);
                if same { None } else { self.finding(expected, found) }
            }
            (Err(left), Err(right)) if left.is_refusal() == right.is_refusal() => {
                counts.errors_in_all += 1;
                None
            }
            (Err(failure), _) | (_, Err(failure)) => self.one_sided(failure, expected, found, counts),
        }
    }

    fn with_theirs(&self, ours: &EngineResult, theirs: &EngineResult, counts: &mut Counts) -> Option<Finding> {
        if let Err(failure) = theirs
            && failure.is_refusal()
        {
            let entry = counts.refused_by_them.entry(failure.reason());
            entry.or_insert((0, self.theirs.unwrap_or_default().to_owned())).0 += 1;
            return None;
        }
        self.ours(ours, theirs, counts)
    }

    fn one_sided(
        &self,
        failure: &Failure,
        expected: &EngineResult,
        found: &EngineResult,
        counts: &mut Counts,
    ) -> Option<Finding> {
        if failure.is_of_limits() || (failure.is_of_data() && self.hazardous) {
            counts.tolerated += 1;
            return None;
        }
        self.finding(expected, found)
    }
}

impl Finding {
    fn alone(oracle: &str, statement: &str, failure: &Failure) -> Finding {
        Finding {
            oracle: oracle.to_owned(),
            statement: statement.to_owned(),
            theirs: None,
            expected: "success".to_owned(),
            found: failure.to_string(),
        }
    }

    /// Nothing is wrong, but the databases differ from here on for a reason that is tolerated.
    fn stop() -> Finding {
        Finding {
            oracle: String::new(),
            statement: String::new(),
            theirs: None,
            expected: String::new(),
            found: String::new(),
        }
    }

    pub fn is_stop(&self) -> bool {
        self.oracle.is_empty()
    }
}

fn is_hazardous(expr: &Expr) -> bool {
    matches!(expr, Expr::Apply { function, .. } if function.hazardous)
}

/// Views are not in the bare copy.
fn reads_view(query: &Query) -> bool {
    print::query(query, Dialect::Ours).split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        word.strip_prefix(['m', 'v'])
            .is_some_and(|number| number.len() == 1 && number.chars().all(|c| c.is_ascii_digit()))
    })
}

/// A panic is an outcome too.
fn guarded<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(Failure { code: Failure::PANIC.to_owned(), message: last_panic() }))
}

thread_local! {
    static LAST_PANIC: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}

/// From here on panics are kept, not printed: the oracles report them.
pub fn keep_panics() {
    std::panic::set_hook(Box::new(|panic| LAST_PANIC.with(|last| *last.borrow_mut() = panic.to_string())));
}

fn last_panic() -> String {
    LAST_PANIC.with(|last| last.borrow().clone())
}
