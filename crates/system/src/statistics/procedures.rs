//! Figures about procedures: by partition, and added up.

use super::{BASE, PROCEDURE, SITE, TIME, base, count, empty, now_ms, small};
use crate::result::{Cell, Columns, SystemTable, cells};
use crate::sources::Collected;
use crate::sources::Sources;
use crate::topology::MULTI_PARTITION;
use ferrite_partition::counters::{ProcedureCounters, Spread, ThreadReport};
use ferrite_value::SqlType::{Bigint, Integer, Tinyint, Varchar};
use std::collections::BTreeMap;

const PARTITION: &Columns = &[("PARTITION_ID", Integer)];
const STATEMENT: &Columns = &[("STATEMENT", Varchar)];
const FIGURES: &Columns = &[
    ("INVOCATIONS", Bigint),
    ("TIMED_INVOCATIONS", Bigint),
    ("MIN_EXECUTION_TIME", Bigint),
    ("MAX_EXECUTION_TIME", Bigint),
    ("AVG_EXECUTION_TIME", Bigint),
    ("MIN_RESULT_SIZE", Integer),
    ("MAX_RESULT_SIZE", Integer),
    ("AVG_RESULT_SIZE", Integer),
    ("MIN_PARAMETER_SET_SIZE", Integer),
    ("MAX_PARAMETER_SET_SIZE", Integer),
    ("AVG_PARAMETER_SET_SIZE", Integer),
    ("ABORTS", Bigint),
    ("FAILURES", Bigint),
];
const KIND: &Columns = &[("TRANSACTIONAL", Tinyint), ("COMPOUND", Tinyint)];

/// The original server's word for a procedure's statements taken together.
const ALL_STATEMENTS: &str = "<ALL>";

type Reports = Collected<Vec<ThreadReport>>;

pub fn procedures(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    let mut table = empty(&[BASE, SITE, PARTITION, PROCEDURE, FIGURES, KIND]);
    each(sources, collected, |begin, name, counters| {
        let kind = cells![1, 0];
        table.row(begin.into_iter().chain([name.into()]).chain(figures(counters)).chain(kind));
    });
    // On no partition.
    for (name, compound) in sources.compounds.all() {
        let begin = base(sources).into_iter().chain(cells![-1, -1, name]);
        table.row(begin.chain(figures(&compound.counters)).chain(cells![0, i64::from(compound.compound)]));
    }
    table
}

/// The table among those of MANAGEMENT, which has the columns of both.
pub fn managed(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    let mut table = empty(&[BASE, SITE, PARTITION, PROCEDURE, STATEMENT, FIGURES, KIND]);
    each(sources, collected, |begin, name, counters| {
        let kind = cells![1, 0];
        table.row(begin.into_iter().chain(cells![name, ALL_STATEMENTS]).chain(figures(counters)).chain(kind));
    });
    table
}

/// Statements are not timed one by one: a clock read for each would cost more than most of them.
pub fn detail(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    let mut table = empty(&[BASE, SITE, PARTITION, PROCEDURE, STATEMENT, FIGURES]);
    each(sources, collected, |begin, name, counters| {
        table.row(begin.into_iter().chain(cells![name, ALL_STATEMENTS]).chain(figures(counters)));
    });
    table
}

fn each(sources: &Sources<'_>, collected: &Reports, mut row: impl FnMut(Vec<Cell>, &str, &ProcedureCounters)) {
    for report in &collected.reports {
        let (site, partition) = match report.partition {
            Some(id) => (id.0 as i32, id.0 as i32),
            None => (sources.partitions as i32, MULTI_PARTITION),
        };
        for (name, counters) in &report.procedures {
            let begin = base(sources).into_iter().chain(cells![site, partition]).collect();
            row(begin, name, counters);
        }
    }
}

fn figures(counters: &ProcedureCounters) -> [Cell; 13] {
    let times = &counters.nanoseconds;
    let results = &counters.result_bytes;
    let parameters = &counters.parameter_bytes;
    let sampled = counters.sampled;
    cells![
        count(counters.invocations),
        count(sampled),
        count(times.min),
        count(times.max),
        count(average(times, sampled)),
        small(results.min),
        small(results.max),
        small(average(results, sampled)),
        small(parameters.min),
        small(parameters.max),
        small(average(parameters, sampled)),
        count(counters.aborts),
        count(counters.failures)
    ]
}

fn average(spread: &Spread, sampled: u64) -> u64 {
    spread.total.checked_div(sampled).unwrap_or(0)
}

/// Procedures with the counters of all partitions added up, and their share in percent of what
/// `weight` measures, the largest first.
fn weighted(
    collected: &Reports,
    weight: impl Fn(&ProcedureCounters) -> &Spread,
) -> Vec<(String, ProcedureCounters, i64)> {
    let mut sums: BTreeMap<String, ProcedureCounters> = BTreeMap::new();
    for (name, counters) in collected.reports.iter().flat_map(|report| &report.procedures) {
        sums.entry(name.clone()).or_default().merge(counters);
    }
    let share = |counters: &ProcedureCounters| average(weight(counters), counters.sampled) * counters.invocations;
    let all: u64 = sums.values().map(share).sum::<u64>().max(1);
    let mut rows: Vec<_> = sums
        .into_iter()
        .map(|(name, counters)| {
            let percent = (100.0 * share(&counters) as f64 / all as f64).round() as i64;
            (name, counters, percent)
        })
        .collect();
    rows.sort_by_key(|(_, counters, _)| std::cmp::Reverse(share(counters)));
    rows
}

pub fn profile(collected: &Reports) -> SystemTable {
    const COLUMNS: &Columns = &[
        ("WEIGHTED_PERC", Bigint),
        ("INVOCATIONS", Bigint),
        ("AVG", Bigint),
        ("MIN", Bigint),
        ("MAX", Bigint),
        ("ABORTS", Bigint),
        ("FAILURES", Bigint),
    ];
    let mut table = empty(&[TIME, PROCEDURE, COLUMNS]);
    for (name, counters, percent) in weighted(collected, |counters| &counters.nanoseconds) {
        let times = &counters.nanoseconds;
        table.row(cells![
            now_ms(),
            name,
            percent,
            count(counters.invocations),
            count(average(times, counters.sampled)),
            count(times.min),
            count(times.max),
            count(counters.aborts),
            count(counters.failures)
        ]);
    }
    table
}

pub fn input(collected: &Reports) -> SystemTable {
    const COLUMNS: &Columns = &[
        ("WEIGHTED_PERC", Bigint),
        ("INVOCATIONS", Bigint),
        ("MIN_PARAMETER_SET_SIZE", Bigint),
        ("MAX_PARAMETER_SET_SIZE", Bigint),
        ("AVG_PARAMETER_SET_SIZE", Bigint),
        ("TOTAL_PARAMETER_SET_SIZE_MB", Bigint),
    ];
    sizes(COLUMNS, collected, |counters| &counters.parameter_bytes)
}

pub fn output(collected: &Reports) -> SystemTable {
    const COLUMNS: &Columns = &[
        ("WEIGHTED_PERC", Bigint),
        ("INVOCATIONS", Bigint),
        ("MIN_RESULT_SIZE", Bigint),
        ("MAX_RESULT_SIZE", Bigint),
        ("AVG_RESULT_SIZE", Bigint),
        ("TOTAL_RESULT_SIZE_MB", Bigint),
    ];
    sizes(COLUMNS, collected, |counters| &counters.result_bytes)
}

fn sizes(columns: &Columns, collected: &Reports, size: impl Fn(&ProcedureCounters) -> &Spread) -> SystemTable {
    let mut table = empty(&[TIME, PROCEDURE, columns]);
    for (name, counters, percent) in weighted(collected, &size) {
        let bytes = size(&counters);
        let average = average(bytes, counters.sampled);
        table.row(cells![
            now_ms(),
            name,
            percent,
            count(counters.invocations),
            count(bytes.min),
            count(bytes.max),
            count(average),
            count(average * counters.invocations / 1_000_000)
        ]);
    }
    table
}
