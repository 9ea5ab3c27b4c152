//! `ferrite bench adhoc`: statements as text with other literals each time, on one row by its key.

use crate::calls::Calls;
use crate::error::{BenchError, BenchResult, Doing};
use crate::generator::{Intended, LoadOutcome, Workload, failure_outcome};
use crate::options::AdHocOptions;
use crate::progress::with_progress;
use crate::random::FastRandom;
use crate::random::seed_or_random;
use crate::report::{LoadReport, grouped};
use crate::results::keep;
use crate::run::measure;
use crate::session::{Environment, Session};
use ferrite_client::Prepared;
use ferrite_client::event_loop::Response;
use ferrite_value::Value;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

const DDL: &str = "
DROP TABLE item IF EXISTS;
CREATE TABLE item (
  id BIGINT NOT NULL,
  name VARCHAR(32) NOT NULL,
  amount BIGINT NOT NULL,
  PRIMARY KEY (id)
);
PARTITION TABLE item ON COLUMN id;
";

pub fn run_adhoc(environment: &Environment, options: &AdHocOptions) -> BenchResult<LoadReport> {
    let session = Session::open(environment, &options.target)?;
    prepare(&session, options.rows)?;
    let seed = seed_or_random(options.seed);
    let make = |thread: usize| AdHocLoad::new(options.rows, options.writes, seed.wrapping_add(1 + thread as u64));
    let (result, mut report) = measure("adhoc", environment, &session, &options.load, make)?;
    let total = session.query_number("SELECT SUM(amount) FROM item")?;
    session.close()?;

    let mut tally = AdHocTally::default();
    result.workloads.iter().for_each(|load| tally.merge(&load.tally));
    report.details = vec![("selects".to_string(), tally.reads), ("updates".to_string(), tally.writes)];
    let findings = findings(&tally, options.rows, total);
    if !findings.is_empty() {
        return Err(BenchError::Wrong(findings));
    }
    if report.transactions == 0 {
        let why = report.first_failure.as_deref().unwrap_or("no call was answered");
        return Err(BenchError::Load(format!("not one call succeeded in the measured time: {why}")));
    }
    report.validated.push(format!(
        "{} selects found the row they named, {} updates are in the sum",
        grouped(tally.reads),
        grouped(tally.writes)
    ));
    ferrite_io::out!("{}", report.text());
    keep(options.load.json.as_deref(), "adhoc", &report)?;
    Ok(report)
}

/// The table anew, with all of its rows.
pub(crate) fn prepare(session: &Session, rows: u32) -> BenchResult<()> {
    session.run_statements(DDL)?;
    with_progress("writing the rows", || fill(session, rows))
}

/// What is wrong, given the sum of all amounts afterwards.
pub(crate) fn findings(tally: &AdHocTally, rows: u32, total: i64) -> Vec<String> {
    let mut findings = Vec::new();
    if tally.wrong_answers > 0 {
        findings.push(format!("{} answers were not the row that was asked for", tally.wrong_answers));
    }
    // Each row begins with its number as amount, and each update adds one.
    let expected = u64::from(rows) * (u64::from(rows) - 1) / 2 + tally.writes;
    if i64::try_from(expected) != Ok(total) {
        findings.push(format!("the amounts sum up to {total}, {expected} is what was written"));
    }
    findings
}

/// Writes every row once, pipelined.
fn fill(session: &Session, rows: u32) -> BenchResult<()> {
    let procedure = Prepared::new("ITEM.insert").expect("the name of the procedure is short");
    let failure = Arc::new(Mutex::new(None));
    for id in 0..i64::from(rows) {
        let failure = Arc::clone(&failure);
        let callback = move |result: Result<_, _>| {
            if let Err(error) = result {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        };
        let parameters = (id, format!("item {id}"), id);
        session.client().call_with_callback(&procedure, parameters, callback).doing("writing the rows")?;
    }
    session.client().drain();
    match failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error).doing("writing the rows"),
        None => Ok(()),
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AdHocTally {
    reads: u64,
    writes: u64,
    wrong_answers: u64,
}

impl AdHocTally {
    pub fn merge(&mut self, other: &AdHocTally) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.wrong_answers += other.wrong_answers;
    }
}

pub(crate) struct AdHocLoad {
    procedure: Prepared,
    random: FastRandom,
    rows: u32,
    /// Updates, of 2^32 calls.
    write_share: u64,
    text: String,
    pub tally: AdHocTally,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum AdHocNote {
    Select(u32),
    Update,
}

impl AdHocLoad {
    /// `writes` are calls in a hundred.
    pub fn new(rows: u32, writes: f64, seed: u64) -> AdHocLoad {
        AdHocLoad {
            procedure: Prepared::new("@AdHoc").expect("the name of the procedure is short"),
            random: FastRandom::new(seed),
            rows,
            write_share: (writes / 100.0 * 4_294_967_296.0) as u64,
            text: String::new(),
            tally: AdHocTally::default(),
        }
    }
}

impl Workload for AdHocLoad {
    type Note = AdHocNote;

    #[inline]
    fn call(&mut self, calls: &mut Calls<'_, AdHocNote>, call: Intended) {
        let id = self.random.below(self.rows);
        self.text.clear();
        let note = if self.random.next_u64() >> 32 < self.write_share {
            let _ = write!(self.text, "UPDATE item SET amount = amount + 1 WHERE id = {id}");
            AdHocNote::Update
        } else {
            let _ = write!(self.text, "SELECT id, name, amount FROM item WHERE id = {id}");
            AdHocNote::Select(id)
        };
        let written = calls.call(&self.procedure, &(self.text.as_str(),), call.with(note));
        debug_assert!(written.is_ok(), "a short text fits into a frame");
    }

    #[inline]
    fn completed(&mut self, note: AdHocNote, response: &Response<'_>) -> LoadOutcome {
        if !response.is_success() {
            return failure_outcome(response);
        }
        match note {
            AdHocNote::Select(id) => {
                let found = response.tables().next().and_then(Result::ok).and_then(|table| {
                    let row = table.rows().next()?.ok()?;
                    Some((table.row_count(), row.get(0).ok()??))
                });
                if matches!(found, Some((1, Value::Integer(key))) if key == i64::from(id)) {
                    self.tally.reads += 1;
                    return LoadOutcome::Succeeded { payload_bytes: 0 };
                }
            }
            AdHocNote::Update if response.scalar() == Some(1) => {
                self.tally.writes += 1;
                return LoadOutcome::Succeeded { payload_bytes: 0 };
            }
            AdHocNote::Update => {}
        }
        self.tally.wrong_answers += 1;
        LoadOutcome::Failed
    }

    fn lost(&mut self, _note: AdHocNote) {}
}
