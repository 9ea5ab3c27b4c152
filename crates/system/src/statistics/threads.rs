//! Figures about the threads that execute, about long reads, and about the plan cache.

use super::{BASE, SITE, base, count, empty, one_row, small};
use crate::result::{Cell, Columns, SystemTable, cells};
use crate::sources::Collected;
use crate::sources::Sources;
use ferrite_partition::counters::ThreadReport;
use ferrite_value::OwnedValue;
use ferrite_value::SqlType::{Bigint, Float, Integer};

type Reports = Collected<Vec<ThreadReport>>;

fn site(sources: &Sources<'_>, report: &ThreadReport) -> i32 {
    report.partition.map_or(sources.partitions as i32, |id| id.0 as i32)
}

/// The least and the most in nanoseconds, average and deviation in microseconds, as the original
/// server has them.
pub fn idle(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    const COLUMNS: &Columns =
        &[("COUNT", Bigint), ("PERCENT", Float), ("AVG", Bigint), ("MIN", Bigint), ("MAX", Bigint), ("STDDEV", Bigint)];
    let mut table = empty(&[BASE, SITE, COLUMNS]);
    for report in &collected.reports {
        let idle = &report.idle;
        let times = idle.count.max(1) as f64;
        let average = idle.spread.total as f64 / times;
        let deviation = (idle.squares / times - average * average).max(0.0).sqrt();
        let percent = 100.0 * idle.spread.total as f64 / collected.elapsed.as_nanos().max(1) as f64;
        let row = [
            site(sources, report).into(),
            count(idle.count).into(),
            Cell::from(OwnedValue::Float(percent.min(100.0))),
            ((average / 1000.0) as i64).into(),
            count(idle.spread.min).into(),
            count(idle.spread.max).into(),
            ((deviation / 1000.0) as i64).into(),
        ];
        table.row(base(sources).into_iter().chain(row));
    }
    table
}

pub fn queue(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    const COLUMNS: &Columns =
        &[("CURRENT_DEPTH", Integer), ("POLL_COUNT", Bigint), ("AVG_WAIT", Bigint), ("MAX_WAIT", Bigint)];
    let mut table = empty(&[BASE, SITE, COLUMNS]);
    for report in &collected.reports {
        let queue = &report.queue;
        let average = queue.wait_total.checked_div(queue.waits).unwrap_or(0);
        let row = cells![
            site(sources, report),
            small(report.queue_depth as u64),
            count(queue.polls),
            count(average),
            count(queue.wait_max)
        ];
        table.row(base(sources).into_iter().chain(row));
    }
    table
}

/// The threads for queries that take long, and who waits for one. Ours.
pub fn long_reads(sources: &Sources<'_>) -> SystemTable {
    let line = sources.long_reads;
    one_row(
        sources,
        &[
            ("THREADS", Integer),
            ("RUNNING", Integer),
            ("WAITING", Integer),
            ("WAITING_MAX", Integer),
            ("INVOCATIONS", Bigint),
        ],
        cells![
            small(line.threads as u64),
            small(line.running as u64),
            small(line.waiting as u64),
            small(line.waiting_max as u64),
            count(line.begun)
        ],
    )
}

/// One cache for the node. Times are those of compiling a text that has no plan yet, in
/// nanoseconds; they and the failures are NULL until the first.
pub fn planner(sources: &Sources<'_>) -> SystemTable {
    let cache = sources.plans;
    let times = &cache.compilations;
    let some = |value: u64| (times.count > 0).then(|| count(value));
    one_row(
        sources,
        &[
            ("SITE_ID", Integer),
            ("PARTITION_ID", Integer),
            ("CACHE1_LEVEL", Integer),
            ("CACHE2_LEVEL", Integer),
            ("CACHE1_HITS", Bigint),
            ("CACHE2_HITS", Bigint),
            ("CACHE_MISSES", Bigint),
            ("PLAN_TIME_MIN", Bigint),
            ("PLAN_TIME_MAX", Bigint),
            ("PLAN_TIME_AVG", Bigint),
            ("FAILURES", Bigint),
        ],
        cells![
            -1,
            -1,
            small(cache.entries),
            0,
            count(cache.hits),
            0,
            count(cache.misses),
            some(times.nanoseconds_min),
            some(times.nanoseconds_max),
            some(times.nanoseconds.checked_div(times.count).unwrap_or(0)),
            some(times.failures)
        ],
    )
}
