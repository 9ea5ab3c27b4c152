//! What a thread that executes counts about its work: plain numbers of its own, reported on
//! request.
//!
//! Invocations, aborts and failures are exact. Times and sizes are samples: the first call of each
//! procedure and one in [`SAMPLE_EVERY`] after it, because reading the clock twice costs a tenth of
//! a short call.

use crate::compiled::Compiled;
use ferrite_base::{PartitionId, ProcedureId};
use ferrite_plan::Program;
pub use ferrite_table::{IndexMemory, TableMemory};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// One call in this many is timed and measured. A power of two.
pub const SAMPLE_EVERY: u64 = 32;
const _: () = assert!(SAMPLE_EVERY.is_power_of_two());

/// The name under which ad hoc statements are counted.
pub const AD_HOC: &str = "@AdHoc";

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallOutcome {
    Committed,
    /// By the procedure's own wish.
    Aborted,
    /// By any other error.
    RolledBack,
}

/// Least, most and sum of what was sampled.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Spread {
    pub min: u64,
    pub max: u64,
    pub total: u64,
}

impl Spread {
    /// `first`: nothing was added before.
    fn add(&mut self, value: u64, first: bool) {
        self.min = if first { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.total += value;
    }
}

/// About one procedure on one partition, since the server started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ProcedureCounters {
    pub invocations: u64,
    /// Ended by the procedure's own wish.
    pub aborts: u64,
    /// Ended by any other error.
    pub failures: u64,
    /// How many of the invocations the three below are about.
    pub sampled: u64,
    pub nanoseconds: Spread,
    pub result_bytes: Spread,
    pub parameter_bytes: Spread,
}

impl ProcedureCounters {
    /// Adds what another thread, or the same one under an earlier schema, has counted.
    pub fn merge(&mut self, other: &ProcedureCounters) {
        let spreads = [
            (&mut self.nanoseconds, &other.nanoseconds),
            (&mut self.result_bytes, &other.result_bytes),
            (&mut self.parameter_bytes, &other.parameter_bytes),
        ];
        for (mine, others) in spreads {
            mine.min = match (self.sampled, other.sampled) {
                (0, _) => others.min,
                (_, 0) => mine.min,
                _ => mine.min.min(others.min),
            };
            mine.max = mine.max.max(others.max);
            mine.total += others.total;
        }
        self.invocations += other.invocations;
        self.aborts += other.aborts;
        self.failures += other.failures;
        self.sampled += other.sampled;
    }

    /// What has been counted since `earlier`. The least and the most stay those since the start.
    pub fn since(&self, earlier: &ProcedureCounters) -> ProcedureCounters {
        let total = |now: &Spread, then: &Spread| Spread { total: now.total - then.total, ..*now };
        ProcedureCounters {
            invocations: self.invocations - earlier.invocations,
            aborts: self.aborts - earlier.aborts,
            failures: self.failures - earlier.failures,
            sampled: self.sampled - earlier.sampled,
            nanoseconds: total(&self.nanoseconds, &earlier.nanoseconds),
            result_bytes: total(&self.result_bytes, &earlier.result_bytes),
            parameter_bytes: total(&self.parameter_bytes, &earlier.parameter_bytes),
        }
    }

    /// Counts a call that begins, and reads the clock if it is to be sampled.
    #[inline]
    fn begin(&mut self) -> Option<Instant> {
        let sampled = self.invocations.is_multiple_of(SAMPLE_EVERY);
        self.invocations += 1;
        sampled.then(Instant::now)
    }

    #[inline]
    fn end(&mut self, outcome: CallOutcome, began: Option<Instant>, parameter_bytes: usize, result_bytes: usize) {
        match outcome {
            CallOutcome::Committed => {}
            CallOutcome::Aborted => self.aborts += 1,
            CallOutcome::RolledBack => self.failures += 1,
        }
        if let Some(began) = began {
            self.sample(began.elapsed(), parameter_bytes, result_bytes);
        }
    }

    /// Counts a call that has ended, and measures it, whatever its number.
    pub fn timed(&mut self, outcome: CallOutcome, took: Duration, parameter_bytes: usize, result_bytes: usize) {
        self.invocations += 1;
        self.end(outcome, None, parameter_bytes, result_bytes);
        self.sample(took, parameter_bytes, result_bytes);
    }

    #[cold]
    fn sample(&mut self, took: Duration, parameter_bytes: usize, result_bytes: usize) {
        let first = self.sampled == 0;
        self.nanoseconds.add(took.as_nanos() as u64, first);
        self.result_bytes.add(result_bytes as u64, first);
        self.parameter_bytes.add(parameter_bytes as u64, first);
        self.sampled += 1;
    }
}

/// Times in which a thread had nothing to do, in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub struct Idle {
    pub count: u64,
    pub spread: Spread,
    pub squares: f64,
}

impl Idle {
    pub fn add(&mut self, waited: Duration) {
        let nanoseconds = waited.as_nanos() as u64;
        self.spread.add(nanoseconds, self.count == 0);
        self.squares += (nanoseconds as f64).powi(2);
        self.count += 1;
    }

    /// As [`ProcedureCounters::since`].
    pub fn since(&self, earlier: &Idle) -> Idle {
        let spread = Spread { total: self.spread.total - earlier.spread.total, ..self.spread };
        Idle { count: self.count - earlier.count, spread, squares: self.squares - earlier.squares }
    }
}

/// What came through a thread's inbox.
#[derive(Clone, Copy, Default, Debug)]
pub struct Queue {
    /// Events taken; a batch of calls is one.
    pub polls: u64,
    /// How long batches of calls lay there, in microseconds.
    pub wait_total: u64,
    pub wait_max: u64,
    /// Batches that the waits are about.
    pub waits: u64,
}

impl Queue {
    pub fn waited(&mut self, microseconds: u64) {
        self.wait_total += microseconds;
        self.wait_max = self.wait_max.max(microseconds);
        self.waits += 1;
    }

    /// As [`ProcedureCounters::since`].
    pub fn since(&self, earlier: &Queue) -> Queue {
        Queue {
            polls: self.polls - earlier.polls,
            wait_total: self.wait_total - earlier.wait_total,
            wait_max: self.wait_max,
            waits: self.waits - earlier.waits,
        }
    }
}

/// One thread's counters. Procedures are counted by their number in the catalog in force; those of
/// earlier catalogs by name.
#[derive(Default)]
pub struct Counters {
    by_id: Vec<ProcedureCounters>,
    by_name: BTreeMap<String, ProcedureCounters>,
    ad_hoc: ProcedureCounters,
    pub idle: Idle,
    pub queue: Queue,
}

/// A call that is being counted.
#[derive(Clone, Copy)]
pub struct Counted {
    procedure: Option<ProcedureId>,
    began: Option<Instant>,
}

impl Counters {
    #[inline]
    pub fn begin(&mut self, procedure: ProcedureId) -> Counted {
        if self.by_id.len() <= procedure.index() {
            self.grow(procedure);
        }
        Counted { procedure: Some(procedure), began: self.by_id[procedure.index()].begin() }
    }

    #[cold]
    fn grow(&mut self, procedure: ProcedureId) {
        self.by_id.resize(procedure.index() + 1, ProcedureCounters::default());
    }

    /// For a call that brings its own program: an ad hoc statement, or a procedure that was looked
    /// up elsewhere.
    pub fn begin_program(&mut self, program: &Program, compiled: &Compiled) -> Counted {
        let known = if program.name == AD_HOC { None } else { compiled.find(&program.name) };
        match known {
            Some(procedure) => self.begin(procedure),
            None => self.begin_ad_hoc(),
        }
    }

    /// For an ad hoc statement.
    #[inline]
    pub fn begin_ad_hoc(&mut self) -> Counted {
        Counted { procedure: None, began: self.ad_hoc.begin() }
    }

    /// A call that was begun has ended, with an answer of this many bytes; or, without an outcome,
    /// it will be made once more and be counted then.
    #[inline]
    pub fn end(&mut self, counted: Counted, outcome: Option<CallOutcome>, parameter_bytes: usize, result_bytes: usize) {
        let counters = match counted.procedure {
            Some(procedure) => &mut self.by_id[procedure.index()],
            None => &mut self.ad_hoc,
        };
        match outcome {
            Some(outcome) => counters.end(outcome, counted.began, parameter_bytes, result_bytes),
            None => counters.invocations -= 1,
        }
    }

    /// Numbers mean other procedures from now on.
    pub fn catalog_changes(&mut self, before: &Compiled) {
        for (name, counters) in named(&self.by_id, before) {
            self.by_name.entry(name.to_owned()).or_default().merge(counters);
        }
        self.by_id.clear();
    }

    /// All that was counted, by name.
    pub fn procedures(&self, compiled: &Compiled) -> BTreeMap<String, ProcedureCounters> {
        let mut all = self.by_name.clone();
        for (name, counters) in named(&self.by_id, compiled) {
            all.entry(name.to_owned()).or_default().merge(counters);
        }
        if self.ad_hoc.invocations > 0 {
            all.insert(AD_HOC.to_owned(), self.ad_hoc);
        }
        all
    }
}

fn named<'c>(
    by_id: &'c [ProcedureCounters],
    compiled: &'c Compiled,
) -> impl Iterator<Item = (&'c str, &'c ProcedureCounters)> {
    let called = by_id.iter().enumerate().filter(|(_, counters)| counters.invocations > 0);
    called.map(|(id, counters)| (compiled.program(ProcedureId(id as u32)).name.as_str(), counters))
}

/// What a partition, or the coordinator, reports about itself.
#[derive(Clone, Debug, Default)]
pub struct ThreadReport {
    /// None: the coordinator.
    pub partition: Option<PartitionId>,
    pub procedures: BTreeMap<String, ProcedureCounters>,
    pub idle: Idle,
    pub queue: Queue,
    /// Events that wait.
    pub queue_depth: usize,
    /// Empty for the coordinator, which has no rows.
    pub tables: Vec<TableMemory>,
    /// Snapshots of this store that a thread reads.
    pub snapshots: usize,
    /// Bytes of pages that are kept for them only.
    pub snapshot_bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_catalog::Catalog;
    use std::sync::Arc;

    #[test]
    fn calls_are_counted_exactly_and_measured_now_and_then() {
        let mut counters = ProcedureCounters::default();
        for call in 0..2 * SAMPLE_EVERY + 1 {
            let began = counters.begin();
            assert_eq!(began.is_some(), call % SAMPLE_EVERY == 0);
            let outcome = match call {
                3 => CallOutcome::Aborted,
                5 | 7 => CallOutcome::RolledBack,
                _ => CallOutcome::Committed,
            };
            counters.end(outcome, began, 10 + call as usize, 100);
        }
        assert_eq!((counters.invocations, counters.sampled), (2 * SAMPLE_EVERY + 1, 3));
        assert_eq!((counters.aborts, counters.failures), (1, 2));
        let sizes = counters.parameter_bytes;
        assert_eq!((sizes.min, sizes.max, sizes.total), (10, 10 + 2 * SAMPLE_EVERY, 30 + 3 * SAMPLE_EVERY));
        assert_eq!(counters.result_bytes, Spread { min: 100, max: 100, total: 300 });
    }

    #[test]
    fn counters_of_threads_add_up_and_intervals_are_differences() {
        let sampled = |values: &[u64]| {
            let mut counters = ProcedureCounters::default();
            for value in values {
                counters.invocations += 1;
                counters.sample(Duration::from_nanos(*value), 1, 2);
            }
            counters
        };
        let mut sum = ProcedureCounters::default();
        sum.merge(&sampled(&[5, 9]));
        let before = sum;
        sum.merge(&ProcedureCounters::default());
        sum.merge(&sampled(&[3]));
        assert_eq!(sum.nanoseconds, Spread { min: 3, max: 9, total: 17 });
        let later = sum.since(&before);
        assert_eq!((later.invocations, later.sampled, later.nanoseconds.total), (1, 1, 3));
    }

    #[test]
    fn ad_hoc_statements_are_counted_over_schema_changes_and_once_each() {
        let empty = Compiled::new(Arc::new(Catalog::default()), &Default::default()).unwrap();
        let mut counters = Counters::default();
        let counted = counters.begin_ad_hoc();
        counters.end(counted, Some(CallOutcome::Committed), 4, 70);
        let recalled = counters.begin_ad_hoc();
        counters.end(recalled, None, 4, 0);
        counters.catalog_changes(&empty);
        assert_eq!(counters.procedures(&empty)[AD_HOC].invocations, 1);
    }
}
