//! `@Statistics`: figures of this node, in the layout that monitoring tools read (wire-protocol 12.3).
//!
//! Owns the layouts. Figures that the partitions would have to count are refused in the protocol's words; those about
//! features that this server does not have are answered with no rows, which is the truth.

use crate::result::{Cell, Columns, SystemResult, SystemTable, cells};
use crate::shared::Shared;
use crate::system_information::{cores, physical_memory_kib, status_kib};
use crate::topology;
use ferrite_base::{ErrorKind, UserError, limits, memory};
use ferrite_io::{Clock, SystemClock};
use ferrite_value::SqlType::{self, Bigint, Float, Integer, Smallint, Timestamp, Varchar};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

type Column = (&'static str, SqlType);

/// The tables of a selector; TOPO's second parameter is `interval` too: it asks for the ring as JSON.
pub fn statistics(shared: &Shared, selector: &str, interval: bool) -> SystemResult {
    let tables = match selector.to_ascii_uppercase().as_str() {
        "TOPO" => return topology::topology(shared, interval),
        "PARTITIONCOUNT" => vec![partition_count(shared)],
        "MEMORY" => vec![memory(shared)],
        "CPU" => vec![cpu(shared)],
        "COMMANDLOG" => vec![command_log(shared)],
        "LIMITS" => vec![limits(shared)],
        "GC" => vec![collections(shared)],
        "DRROLE" => vec![replication_role()],
        "DR" | "DRPRODUCER" => {
            vec![empty(&[BASE, DR_PRODUCER_PARTITION]), empty(&[BASE, DR_PRODUCER_NODE]), empty(&[DR_PRODUCER_CLUSTER])]
        }
        "DRPRODUCERNODE" => vec![empty(&[BASE, DR_PRODUCER_NODE])],
        "DRCONSUMER" => {
            vec![empty(&[BASE, DR_CONSUMER_NODE]), empty(&[BASE, DR_CONSUMER_PARTITION]), empty(&[DR_CONSUMER_CLUSTER])]
        }
        "SNAPSHOTSTATUS" => vec![empty(&[BASE, SNAPSHOT_STATUS])],
        "SNAPSHOTSUMMARY" => vec![empty(&[SNAPSHOT_SUMMARY])],
        "KSAFETY" => vec![empty(&[TIME, K_SAFETY])],
        "REBALANCE" => vec![empty(&[TIME, REBALANCE])],
        "EXPORT" => vec![empty(&[BASE, SITE, EXPORT])],
        "IMPORT" | "IMPORTER" => vec![empty(&[BASE, SITE, IMPORTER])],
        "TTL" => vec![empty(&[TIME, TIME_TO_LIVE])],
        "TASK" | "SYSTEM_TASK" => vec![empty(&[BASE, TASK, TASK_SCHEDULER, TASK_PROCEDURE])],
        "TASK_SCHEDULER" => vec![empty(&[BASE, TASK, TASK_SCHEDULER])],
        "TASK_PROCEDURE" => vec![empty(&[BASE, TASK, TASK_PROCEDURE])],
        "CLOCKSKEW" => vec![empty(&[BASE, CLOCK_SKEW])],
        "QUEUEPRIORITY" => vec![empty(&[BASE, SITE, QUEUE_PRIORITY])],
        "COMPOUNDPROC" => vec![empty(&[BASE, PROCEDURE, COMPOUND])],
        "COMPOUNDPROCSUMMARY" => vec![empty(&[TIME, PROCEDURE, COMPOUND])],
        "COMPOUNDPROCCALLS" => vec![empty(&[BASE, PROCEDURE, COMPOUND_CALLS])],
        word if UNAVAILABLE.contains(&word) => {
            return Err(UserError::new(
                ErrorKind::Parameters,
                "0A000",
                format!(
                    "Requested info \"{selector}\" is not yet available or not supported in the current configuration."
                ),
            ));
        }
        _ => {
            return Err(UserError::parameters(format!(
                "First argument to @Statistics must be a valid STRING selector, instead was {selector}"
            )));
        }
    };
    Ok(tables)
}

/// Words that exist, for figures that nobody counts here.
const UNAVAILABLE: &[&str] = &[
    "TABLE",
    "INDEX",
    "PROCEDURE",
    "PROCEDUREDETAIL",
    "PROCEDUREPROFILE",
    "PROCEDUREINPUT",
    "PROCEDUREOUTPUT",
    "INITIATOR",
    "LATENCY",
    "LATENCY_COMPRESSED",
    "LATENCY_HISTOGRAM",
    "IOSTATS",
    "LIVECLIENTS",
    "LIVECLIENTS_CONNECTIONS",
    "PLANNER",
    "IDLETIME",
    "STARVATION",
    "QUEUE",
    "MANAGEMENT",
    "DRCONFLICTS",
    "TOPIC",
    "SHUTDOWN_CHECK",
    "STOP_CHECK",
    "PAUSE_CHECK",
    "XDCR_READINESS",
];

/// A table without rows: the whole answer about something that this server does not have.
fn empty(parts: &[&Columns]) -> SystemTable {
    SystemTable::new(&parts.concat())
}

const TIME: &Columns = &[("TIMESTAMP", Bigint)];
/// What most tables begin with; see [`base`].
const BASE: &Columns = &[("TIMESTAMP", Bigint), ("HOST_ID", Integer), ("HOSTNAME", Varchar)];
const SITE: &Columns = &[("SITE_ID", Integer)];
const PROCEDURE: &Columns = &[("PROCEDURE", Varchar)];

/// One table of one row.
fn one_row<const N: usize>(shared: &Shared, columns: &[Column; N], row: [Cell; N]) -> SystemTable {
    let mut table = empty(&[BASE, columns]);
    let now_ms = SystemClock.wall_micros() / 1000;
    let base = cells![now_ms, shared.identity.host_id, &shared.identity.host_name];
    table.row(base.into_iter().chain(row));
    table
}

fn partition_count(shared: &Shared) -> SystemTable {
    one_row(shared, &[("PARTITION_COUNT", Integer)], cells![shared.partition_count() as i32])
}

/// In KiB. Pages are not told apart by what is in them, so tables, indexes and texts share one figure.
fn memory(shared: &Shared) -> SystemTable {
    let used = (memory::bytes_used() / 1024) as i64;
    // Blocks larger than a page do not come from the reserve.
    let allocated = ((memory::bytes_reserved() / 1024) as i64).max(used);
    one_row(
        shared,
        &[
            ("RSS", Integer),
            ("JAVAUSED", Integer),
            ("JAVAUNUSED", Integer),
            ("TUPLEDATA", Bigint),
            ("TUPLEALLOCATED", Bigint),
            ("INDEXMEMORY", Bigint),
            ("STRINGMEMORY", Bigint),
            ("TUPLECOUNT", Bigint),
            ("POOLEDMEMORY", Bigint),
            ("PHYSICALMEMORY", Bigint),
            ("JAVAMAXHEAP", Integer),
        ],
        cells![
            status_kib("/proc/self/status", "VmRSS:").min(i64::from(i32::MAX)),
            0,
            0,
            used,
            allocated,
            Cell::NULL,
            Cell::NULL,
            Cell::NULL,
            allocated,
            physical_memory_kib(),
            0
        ],
    )
}

/// Of all cores, since the last time that anybody asked, or since the start.
fn cpu(shared: &Shared) -> SystemTable {
    static LAST: Mutex<Option<(Instant, f64)>> = Mutex::new(None);
    let now = Instant::now();
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let used = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    let last = LAST.lock().expect("nothing panics while it is held").replace((now, used));
    let (since, used_before) = last.unwrap_or((shared.started, 0.0));
    let elapsed = now.duration_since(since).as_secs_f64().max(1e-3);
    let percent = (100.0 * (used - used_before) / (elapsed * cores() as f64)).round().clamp(0.0, 100.0);
    one_row(shared, &[("PERCENT_USED", Bigint)], cells![percent as i64])
}

fn command_log(shared: &Shared) -> SystemTable {
    // Nothing is ever cut off the log yet, so all segments are in use. Milliseconds; 0 when each answer waits for fsync.
    let segments = shared.log.segments.load(Relaxed) as i64;
    let interval = shared.identity.durability.strip_prefix("interval=").and_then(|text| text.parse().ok());
    one_row(
        shared,
        &[
            ("OUTSTANDING_BYTES", Bigint),
            ("OUTSTANDING_TXNS", Bigint),
            ("IN_USE_SEGMENT_COUNT", Integer),
            ("SEGMENT_COUNT", Integer),
            ("FSYNC_INTERVAL", Integer),
        ],
        cells![Cell::NULL, shared.log.queue_depth.load(Relaxed) as i64, segments, segments, interval.unwrap_or(0i64)],
    )
}

fn limits(shared: &Shared) -> SystemTable {
    let integer = |count: u64| i32::try_from(count).unwrap_or(i32::MAX);
    // Without a limit, or where the system does not say: NULL.
    let descriptors_max = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.map(integer);
    let descriptors_open = std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as i32);
    one_row(
        shared,
        &[
            ("FILE_DESCRIPTORS_LIMIT", Integer),
            ("FILE_DESCRIPTORS_OPEN", Integer),
            ("CLIENT_CONNECTIONS_LIMIT", Integer),
            ("CLIENT_CONNECTIONS_OPEN", Integer),
            ("ACCEPTED_CONNECTIONS", Integer),
            ("DROPPED_CONNECTIONS", Integer),
        ],
        cells![descriptors_max, descriptors_open, limits::CONNECTIONS_MAX as i32, Cell::NULL, Cell::NULL, Cell::NULL],
    )
}

/// There is no garbage to collect, so nothing has ever been collected.
fn collections(shared: &Shared) -> SystemTable {
    one_row(
        shared,
        &[
            ("NEWGEN_GC_COUNT", Integer),
            ("NEWGEN_AVG_GC_TIME", Bigint),
            ("OLDGEN_GC_COUNT", Integer),
            ("OLDGEN_AVG_GC_TIME", Bigint),
        ],
        cells![0, 0, 0, 0],
    )
}

fn replication_role() -> SystemTable {
    let mut table = SystemTable::new(&[("ROLE", Varchar), ("STATE", Varchar), ("REMOTE_CLUSTER_ID", Integer)]);
    table.row(cells!["NONE", "DISABLED", -1]);
    table
}

const SNAPSHOT_STATUS: &Columns = &[
    ("TABLE", Varchar),
    ("PATH", Varchar),
    ("FILENAME", Varchar),
    ("NONCE", Varchar),
    ("TXNID", Bigint),
    ("START_TIME", Bigint),
    ("END_TIME", Bigint),
    ("SIZE", Bigint),
    ("DURATION", Bigint),
    ("THROUGHPUT", Float),
    ("RESULT", Varchar),
    ("TYPE", Varchar),
];

const SNAPSHOT_SUMMARY: &Columns = &[
    ("NONCE", Varchar),
    ("TXNID", Bigint),
    ("TYPE", Varchar),
    ("PATH", Varchar),
    ("START_TIME", Bigint),
    ("END_TIME", Bigint),
    ("DURATION", Bigint),
    ("PROGRESS_PCT", Float),
    ("RESULT", Varchar),
];

const K_SAFETY: &Columns = &[("PARTITION_ID", Integer), ("MISSING_REPLICA", Integer)];

const REBALANCE: &Columns = &[
    ("PERCENTAGE_MOVED", Float),
    ("MOVED_ROWS", Bigint),
    ("ROWS_PER_SECOND", Float),
    ("ESTIMATED_REMAINING", Bigint),
    ("MEGABYTES_PER_SECOND", Float),
    ("CALLS_PER_SECOND", Float),
    ("CALLS_LATENCY", Float),
    ("CALLS_TIME", Float),
    ("CALLS_TRANSFER_TIME", Float),
];

const EXPORT: &Columns = &[
    ("PARTITION_ID", Bigint),
    ("SOURCE", Varchar),
    ("TARGET", Varchar),
    ("ACTIVE", Varchar),
    ("TUPLE_COUNT", Bigint),
    ("TUPLE_PENDING", Bigint),
    ("LAST_QUEUED_TIMESTAMP", Timestamp),
    ("LAST_ACKED_TIMESTAMP", Timestamp),
    ("AVERAGE_LATENCY", Bigint),
    ("MAX_LATENCY", Bigint),
    ("QUEUE_GAP", Bigint),
    ("STATUS", Varchar),
];

const IMPORTER: &Columns = &[
    ("IMPORTER_NAME", Varchar),
    ("PROCEDURE_NAME", Varchar),
    ("SUCCESSES", Bigint),
    ("FAILURES", Bigint),
    ("OUTSTANDING_REQUESTS", Bigint),
    ("RETRIES", Bigint),
];

const TIME_TO_LIVE: &Columns = &[
    ("TABLE_NAME", Varchar),
    ("ROWS_DELETED", Bigint),
    ("ROWS_DELETED_LAST_ROUND", Bigint),
    ("ROWS_REMAINING", Bigint),
    ("LAST_DELETE_TIMESTAMP", Timestamp),
];

const TASK: &Columns = &[("PARTITION_ID", Integer), ("TASK_NAME", Varchar), ("STATE", Varchar), ("SCOPE", Varchar)];

const TASK_SCHEDULER: &Columns = &[
    ("SCHEDULER_INVOCATIONS", Bigint),
    ("SCHEDULER_TOTAL_EXECUTION", Bigint),
    ("SCHEDULER_MIN_EXECUTION", Bigint),
    ("SCHEDULER_MAX_EXECUTION", Bigint),
    ("SCHEDULER_AVG_EXECUTION", Bigint),
    ("SCHEDULER_TOTAL_WAIT_TIME", Bigint),
    ("SCHEDULER_MIN_WAIT_TIME", Bigint),
    ("SCHEDULER_MAX_WAIT_TIME", Bigint),
    ("SCHEDULER_AVG_WAIT_TIME", Bigint),
    ("SCHEDULER_STATUS", Varchar),
];

const TASK_PROCEDURE: &Columns = &[
    ("PROCEDURE_INVOCATIONS", Bigint),
    ("PROCEDURE_TOTAL_EXECUTION", Bigint),
    ("PROCEDURE_MIN_EXECUTION", Bigint),
    ("PROCEDURE_MAX_EXECUTION", Bigint),
    ("PROCEDURE_AVG_EXECUTION", Bigint),
    ("PROCEDURE_TOTAL_WAIT_TIME", Bigint),
    ("PROCEDURE_MIN_WAIT_TIME", Bigint),
    ("PROCEDURE_MAX_WAIT_TIME", Bigint),
    ("PROCEDURE_AVG_WAIT_TIME", Bigint),
    ("PROCEDURE_FAILURES", Bigint),
];

const CLOCK_SKEW: &Columns = &[("SKEW_TIME", Integer), ("REMOTE_HOST_ID", Integer), ("REMOTE_HOST_NAME", Varchar)];

const QUEUE_PRIORITY: &Columns = &[
    ("PRIORITY", Smallint),
    ("CURRENT_DEPTH", Integer),
    ("POLL_COUNT", Bigint),
    ("AVG_WAIT", Bigint),
    ("MAX_WAIT", Bigint),
];

const COMPOUND: &Columns = &[
    ("INVOCATIONS", Bigint),
    ("MIN_ELAPSED", Bigint),
    ("MAX_ELAPSED", Bigint),
    ("AVG_ELAPSED", Bigint),
    ("ABORTS", Bigint),
    ("FAILURES", Bigint),
];

const COMPOUND_CALLS: &Columns = &[("CALLED_PROCEDURE", Varchar), ("INVOCATIONS", Bigint)];

const DR_PRODUCER_PARTITION: &Columns = &[
    ("CLUSTER_ID", Smallint),
    ("REMOTE_CLUSTER_ID", Smallint),
    ("PARTITION_ID", Integer),
    ("STREAMTYPE", Varchar),
    ("TOTALBYTES", Bigint),
    ("TOTALBYTESINMEMORY", Bigint),
    ("TOTALBUFFERS", Bigint),
    ("LASTQUEUEDDRID", Bigint),
    ("LASTACKDRID", Bigint),
    ("LASTQUEUEDTIMESTAMP", Timestamp),
    ("LASTACKTIMESTAMP", Timestamp),
    ("ISSYNCED", Varchar),
    ("MODE", Varchar),
    ("QUEUE_GAP", Bigint),
    ("CONNECTION_STATUS", Varchar),
    ("AVAILABLE_BYTES", Integer),
    ("AVAILABLE_BUFFERS", Integer),
    ("CONSUMER_LIMIT_TYPE", Varchar),
];

const DR_PRODUCER_NODE: &Columns = &[
    ("CLUSTER_ID", Smallint),
    ("REMOTE_CLUSTER_ID", Smallint),
    ("STATE", Varchar),
    ("SYNCSNAPSHOTSTATE", Varchar),
    ("ROWSINSYNCSNAPSHOT", Bigint),
    ("ROWSACKEDFORSYNCSNAPSHOT", Bigint),
    ("QUEUEDEPTH", Bigint),
    ("REMOTECREATIONTIMESTAMP", Timestamp),
];

const DR_PRODUCER_CLUSTER: &Columns =
    &[("CLUSTER_ID", Smallint), ("REMOTE_CLUSTER_ID", Smallint), ("STATE", Varchar), ("LASTFAILURE", Smallint)];

const DR_CONSUMER_NODE: &Columns = &[
    ("CLUSTER_ID", Integer),
    ("REMOTE_CLUSTER_ID", Integer),
    ("STATE", Varchar),
    ("REPLICATION_RATE_1M", Bigint),
    ("REPLICATION_RATE_5M", Bigint),
    ("REMOTE_CREATION_TIMESTAMP", Timestamp),
];

const DR_CONSUMER_PARTITION: &Columns = &[
    ("CLUSTER_ID", Integer),
    ("REMOTE_CLUSTER_ID", Integer),
    ("PARTITION_ID", Integer),
    ("IS_COVERED", Varchar),
    ("COVERING_HOST", Varchar),
    ("LAST_RECEIVED_TIMESTAMP", Timestamp),
    ("LAST_APPLIED_TIMESTAMP", Timestamp),
    ("IS_PAUSED", Varchar),
    ("DUPLICATE_BUFFERS", Bigint),
    ("IGNORED_BUFFERS", Bigint),
    ("AVAILABLE_BYTES", Integer),
    ("AVAILABLE_BUFFERS", Integer),
    ("CONSUMER_LIMIT_TYPE", Varchar),
];

const DR_CONSUMER_CLUSTER: &Columns =
    &[("CLUSTER_ID", Integer), ("REMOTE_CLUSTER_ID", Integer), ("STATE", Varchar), ("LAST_FAILURE", Integer)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::testing::{self, check_columns, check_error, tables_of};
    use ferrite_value::OwnedValue;
    use ferrite_wire::{Status, failure};

    #[test]
    fn columns_and_errors_are_those_of_the_original_server() {
        let shared = testing::shared(2);
        let mut answered_by_us = 0;
        for (selector, answered) in testing::captured_selectors("@Statistics") {
            let result = statistics(&shared, &selector.to_lowercase(), false);
            if !answered {
                check_error("@Statistics", &selector, &statistics(&shared, &selector, false));
            } else if let Err(error) = result {
                assert!(UNAVAILABLE.contains(&selector.as_str()), "{selector}: {error}");
                assert_eq!(failure::status(error.kind()), Status::GracefulFailure);
                assert!(error.message().contains("not yet available"));
            } else {
                check_columns("@Statistics", &selector, &result);
                answered_by_us += 1;
            }
        }
        assert!(answered_by_us >= 20, "{answered_by_us}");
    }

    fn row(selector: &str) -> Vec<OwnedValue> {
        let tables = tables_of(&statistics(&testing::shared(3), selector, false));
        assert_eq!((tables.len(), tables[0].rows.len()), (1, 1), "{selector}");
        tables[0].rows[0].clone()
    }

    fn integer(value: &OwnedValue) -> i64 {
        match value {
            OwnedValue::Integer(value) => *value,
            other => panic!("not an integer: {other:?}"),
        }
    }

    #[test]
    fn figures_are_plausible() {
        assert_eq!(integer(&row("PartitionCount")[3]), 3);
        let memory = row("MEMORY");
        let (resident, physical) = (integer(&memory[3]), integer(&memory[12]));
        assert!(0 < resident && resident < physical);
        assert!((0..=100).contains(&integer(&row("CPU")[3])));
        assert_eq!(integer(&row("COMMANDLOG")[7]), 5);
        assert!(integer(&row("LIMITS")[4]) > 0);
    }

    #[test]
    fn the_second_parameter_of_topo_asks_for_json() {
        let shared = testing::shared(1);
        let size = |json| match &tables_of(&statistics(&shared, "topo", json))[1].rows[0][1] {
            OwnedValue::Bytes(bytes) => bytes.len(),
            other => panic!("not bytes: {other:?}"),
        };
        assert_eq!(size(false), 131_076);
        assert!(size(true) < 131_076);
    }
}
