//! A run: scenarios from consecutive seeds, each a schema with data, changes and queries.

use crate::check::{Case, Counts, Databases, Finding, settle};
use crate::datum::Dialect;
use crate::generate::Generator;
use crate::postgres::Postgres;
use crate::print;
use crate::random::Random;
use crate::schema::{Layout, Schema};
use crate::shrink::shrink;
use crate::tree::{Change, Query};
use std::fmt::Write;
use std::time::Duration;

/// Changes between two rounds of queries, and queries in a round.
const CHANGES: usize = 12;
const QUERIES: usize = 40;
const ROUNDS: usize = 3;

/// What went wrong with a seed, made small.
pub struct DifferenceReport {
    pub seed: u64,
    pub case: Case,
    pub finding: Finding,
}

/// All of a seed. Everything it does depends on the seed alone, and on whether there is a
/// PostgreSQL only in what is compared.
pub fn scenario(
    seed: u64,
    mut theirs: Option<&mut Postgres>,
    counts: &mut Counts,
    shrink_time: Duration,
) -> Option<DifferenceReport> {
    let mut random = Random::new(seed);
    let mut schema = Schema::random(&mut random);
    let view_count = random.below(3);
    for number in 0..view_count {
        let mut fork = random.fork();
        let view = Generator::new(&mut fork, &schema).view(number);
        schema.views.push(view);
    }
    for number in 0..random.below(3) {
        let mut fork = random.fork();
        let view = Generator::new(&mut fork, &schema).plain_view(number);
        schema.views.extend(view);
    }
    for refusal in settle(&mut schema) {
        let (message, text) = refusal.split_once(" | ").unwrap_or((&refusal, ""));
        counts.refused.entry(message.to_owned()).or_insert((0, text.to_owned())).0 += 1;
    }
    if schema.tables.is_empty() {
        return None;
    }
    counts.schemas += 1;
    let mut history: Vec<Change> = Vec::new();
    let found = play(&schema, &mut random, theirs.as_deref_mut(), counts, &mut history);
    let (query, content, finding) = found?;
    if finding.is_stop() {
        return None;
    }
    // The rows as they are make a shorter story than how they came to be, if they suffice for it.
    let whole = Case { schema: schema.clone(), changes: history, query: query.clone() };
    let short = content.map(|changes| Case { changes, ..whole.clone() });
    let repeats = |case: &Case, theirs: Option<&mut Postgres>| {
        case.run(theirs).is_some_and(|again| again.oracle == finding.oracle)
    };
    let case = match short {
        Some(short) if repeats(&short, theirs.as_deref_mut()) => short,
        _ => whole,
    };
    let (case, finding) = shrink(case, finding, theirs, shrink_time);
    Some(DifferenceReport { seed, case, finding })
}

type Found = (Option<Query>, Option<Vec<Change>>, Finding);

/// Runs the statements of a seed up to the first finding.
fn play(
    schema: &Schema,
    random: &mut Random,
    theirs: Option<&mut Postgres>,
    counts: &mut Counts,
    history: &mut Vec<Change>,
) -> Option<Found> {
    let mut databases = match Databases::open(schema, theirs) {
        Ok(databases) => databases,
        Err(finding) => return Some((None, None, finding)),
    };
    let mut changes: Vec<Change> = Vec::new();
    for table in &schema.tables {
        let count = *random.pick(&[0, 1, 4, 12, 30]);
        for _ in 0..count {
            let mut fork = random.fork();
            changes.push(Generator::new(&mut fork, schema).rows(table, 1));
        }
    }
    for round in 0..ROUNDS {
        if round > 0 {
            for _ in 0..random.below(CHANGES) {
                let mut fork = random.fork();
                changes.push(Generator::new(&mut fork, schema).change());
            }
        }
        for change in changes.drain(..) {
            history.push(change.clone());
            if let Some(finding) = databases.change(&change, counts) {
                return Some((None, None, finding));
            }
        }
        if let Err(finding) = databases.level(schema) {
            return Some((None, None, finding));
        }
        for _ in 0..QUERIES {
            let mut fork = random.fork();
            let query = Generator::new(&mut fork, schema).statement();
            if let Some(finding) = databases.query(&query, random.next_u64(), counts) {
                let content = databases.content(schema);
                return Some((Some(query), Some(content), finding));
            }
        }
    }
    None
}

impl DifferenceReport {
    /// The story, as SQL for ours with remarks; what differed stands at its end.
    pub fn story(&self) -> String {
        let mut out = String::new();
        let finding = &self.finding;
        writeln!(out, "-- seed {}: {}", self.seed, finding.oracle).expect("a string");
        for text in self.case.schema.ours(Layout::Whole) {
            writeln!(out, "{text};").expect("a string");
        }
        for change in &self.case.changes {
            if !matches!(change, Change::Insert { rows, .. } if rows.is_empty()) {
                writeln!(out, "{};", print::change(change, Dialect::Ours)).expect("a string");
            }
        }
        writeln!(out, "{};", finding.statement).expect("a string");
        if let Some(theirs) = &finding.theirs {
            writeln!(out, "-- in PostgreSQL: {theirs}").expect("a string");
        }
        for (name, text) in [("expected", &finding.expected), ("found", &finding.found)] {
            writeln!(out, "-- {name}: {}", text.replace('\n', "\n--")).expect("a string");
        }
        out
    }
}
