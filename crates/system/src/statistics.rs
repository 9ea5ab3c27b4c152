//! `@Statistics`: figures of this node, in the layout that monitoring tools read (wire-protocol
//! 12.3).
//!
//! Each thread counts for itself and is asked for a report when somebody wants to see figures
//! (through [`Collect`]). With the interval flag, counts are those since the last such question for
//! the same selector; least and most values are always those since the start. Features that this
//! server does not have are answered with no rows, which is the truth.

mod clients;
mod compound;
mod events;
mod layouts;
mod log;
mod procedures;
mod snapshots;
mod storage;
mod tasks;
mod threads;

use crate::result::{Cell, Columns, SystemResult, SystemTable, cells};
use crate::sources::{Collect, Sources};
use crate::topology;
use ferrite_base::{ErrorKind, UserError};
use ferrite_io::{Clock, SystemClock};
use ferrite_value::SqlType::{self, Bigint, Integer, Varchar};
use layouts::*;
pub use log::progress;
pub use snapshots::group_status;

type Column = (&'static str, SqlType);

/// The call that asks for figures, which is under way itself: what it asks about is the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asker {
    /// As the login told it to the client.
    pub connection: i64,
    /// Of its frame's body.
    pub bytes: usize,
}

/// The tables of a selector; TOPO's second parameter is `interval` too: it asks for the ring as
/// JSON.
pub fn statistics(
    sources: &Sources<'_>,
    threads: &dyn Collect,
    selector: &str,
    interval: bool,
    asker: Asker,
) -> SystemResult {
    let word = selector.to_ascii_uppercase();
    // Nobody is asked before the word is known to be about what they count.
    let by_threads = || threads.partitions(&word, interval);
    let by_network = || threads.network(&word, interval);
    let tables = match word.as_str() {
        "TOPO" => return topology::topology(&sources.hosts, sources.ring, interval),
        "PARTITIONCOUNT" => vec![partition_count(sources)],
        "MEMORY" => vec![storage::memory(sources, &by_threads())],
        "TABLE" => vec![storage::tables(sources, &by_threads())],
        "INDEX" => vec![storage::indexes(sources, &by_threads())],
        "PROCEDURE" => vec![procedures::procedures(sources, &by_threads())],
        "PROCEDUREDETAIL" => vec![procedures::detail(sources, &by_threads())],
        "PROCEDUREPROFILE" => vec![procedures::profile(&by_threads())],
        "PROCEDUREINPUT" => vec![procedures::input(&by_threads())],
        "PROCEDUREOUTPUT" => vec![procedures::output(&by_threads())],
        "IDLETIME" | "STARVATION" => vec![threads::idle(sources, &by_threads())],
        "QUEUE" => vec![threads::queue(sources, &by_threads())],
        "PLANNER" => vec![threads::planner(sources)],
        "INITIATOR" => vec![clients::initiators(sources, &by_network())],
        "IOSTATS" => vec![clients::bytes(sources, &by_network())],
        "FORWARDING" => vec![clients::forwarding(sources)],
        "LOTS" => vec![clients::lots(sources)],
        "LIVECLIENTS" => {
            let reports = by_network();
            vec![clients::connections(sources, &reports, asker), clients::limits(sources, &reports)]
        }
        "LIVECLIENTS_CONNECTIONS" => vec![clients::connections(sources, &by_network(), asker)],
        "LIMITS" => vec![clients::limits(sources, &by_network())],
        "LATENCY" => vec![clients::latency(sources, &by_network())],
        "LATENCY_COMPRESSED" => vec![clients::histogram(sources, &by_network(), false)],
        "LATENCY_HISTOGRAM" => vec![clients::histogram(sources, &by_network(), true)],
        "MANAGEMENT" => {
            let threads = by_threads();
            let network = by_network();
            vec![
                storage::memory(sources, &threads),
                clients::initiators(sources, &network),
                procedures::managed(sources, &threads),
                clients::bytes(sources, &network),
                storage::tables(sources, &threads),
                storage::indexes(sources, &threads),
                threads::idle(sources, &threads),
                threads::queue(sources, &threads),
                cpu(sources),
            ]
        }
        "CPU" => vec![cpu(sources)],
        "COMMANDLOG" => vec![log::command_log(sources), log::durability(sources)],
        "RECOVERY" => log::recovery(sources),
        "EVENTS" => vec![events::table(sources)],
        "GC" => vec![collections(sources)],
        "DRROLE" => vec![replication_role()],
        "DR" | "DRPRODUCER" => {
            vec![empty(&[BASE, DR_PRODUCER_PARTITION]), empty(&[BASE, DR_PRODUCER_NODE]), empty(&[DR_PRODUCER_CLUSTER])]
        }
        "DRPRODUCERNODE" => vec![empty(&[BASE, DR_PRODUCER_NODE])],
        "DRCONSUMER" => {
            vec![empty(&[BASE, DR_CONSUMER_NODE]), empty(&[BASE, DR_CONSUMER_PARTITION]), empty(&[DR_CONSUMER_CLUSTER])]
        }
        "SNAPSHOTSTATUS" => vec![snapshots::status(sources)],
        "SNAPSHOTSUMMARY" => vec![snapshots::summary(sources)],
        "KSAFETY" => vec![empty(&[TIME, K_SAFETY])],
        "REBALANCE" => vec![empty(&[TIME, REBALANCE])],
        "EXPORT" => vec![empty(&[BASE, SITE, EXPORT])],
        "IMPORT" | "IMPORTER" => vec![empty(&[BASE, SITE, IMPORTER])],
        "TTL" => vec![storage::time_to_live(sources)],
        "LONGREADS" => vec![threads::long_reads(sources), storage::snapshots(sources, &by_threads())],
        "TASK" | "SYSTEM_TASK" => vec![tasks::table(sources, true, true)],
        "TASK_SCHEDULER" => vec![tasks::table(sources, true, false)],
        "TASK_PROCEDURE" => vec![tasks::table(sources, false, true)],
        "CLOCKSKEW" => vec![empty(&[BASE, CLOCK_SKEW])],
        "QUEUEPRIORITY" => vec![empty(&[BASE, SITE, QUEUE_PRIORITY])],
        "COMPOUNDPROC" => vec![compound::procedures(sources)],
        "COMPOUNDPROCSUMMARY" => vec![compound::summary(sources)],
        "COMPOUNDPROCCALLS" => vec![compound::calls(sources)],
        word if UNAVAILABLE.contains(&word) => {
            return Err(UserError::new(
                ErrorKind::Parameters,
                "0A000",
                format!(
                    "Requested info \"{selector}\" is not yet available or not supported in the current configuration."
                ),
            ));
        }
        _ => return Err(unknown(selector)),
    };
    Ok(tables)
}

fn unknown(selector: &str) -> UserError {
    UserError::parameters(format!(
        "First argument to @Statistics must be a valid STRING selector, instead was {selector}"
    ))
}

/// The selectors that are answered, in any case.
pub const SELECTORS: &[&str] = &[
    "CLOCKSKEW",
    "COMMANDLOG",
    "COMPOUNDPROC",
    "COMPOUNDPROCCALLS",
    "COMPOUNDPROCSUMMARY",
    "CPU",
    "DR",
    "DRCONSUMER",
    "DRPRODUCER",
    "DRPRODUCERNODE",
    "DRROLE",
    "EVENTS",
    "EXPORT",
    "FORWARDING",
    "GC",
    "IDLETIME",
    "IMPORT",
    "IMPORTER",
    "INDEX",
    "INITIATOR",
    "IOSTATS",
    "KSAFETY",
    "LATENCY",
    "LATENCY_COMPRESSED",
    "LATENCY_HISTOGRAM",
    "LIMITS",
    "LIVECLIENTS",
    "LIVECLIENTS_CONNECTIONS",
    "LONGREADS",
    "LOTS",
    "MANAGEMENT",
    "MEMORY",
    "PARTITIONCOUNT",
    "PLANNER",
    "PROCEDURE",
    "PROCEDUREDETAIL",
    "PROCEDUREINPUT",
    "PROCEDUREOUTPUT",
    "PROCEDUREPROFILE",
    "QUEUE",
    "QUEUEPRIORITY",
    "REBALANCE",
    "RECOVERY",
    "SNAPSHOTSTATUS",
    "SNAPSHOTSUMMARY",
    "STARVATION",
    "SYSTEM_TASK",
    "TABLE",
    "TASK",
    "TASK_PROCEDURE",
    "TASK_SCHEDULER",
    "TOPO",
    "TTL",
];

/// Words that exist, for figures that nobody counts here.
const UNAVAILABLE: &[&str] = &["DRCONFLICTS", "TOPIC", "SHUTDOWN_CHECK", "STOP_CHECK", "PAUSE_CHECK", "XDCR_READINESS"];

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
fn one_row<const N: usize>(sources: &Sources<'_>, columns: &[Column; N], row: [Cell; N]) -> SystemTable {
    let mut table = empty(&[BASE, columns]);
    table.row(base(sources).into_iter().chain(row));
    table
}

/// The cells of [`BASE`].
fn base(sources: &Sources<'_>) -> [Cell; 3] {
    cells![now_ms(), sources.identity.host_id, &sources.identity.host_name]
}

fn now_ms() -> i64 {
    SystemClock.wall_micros() / 1000
}

/// A count as a cell; none ever comes near the end of the range.
fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A count for an INTEGER column.
fn small(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Bytes as the kibibytes that monitoring tools expect.
fn kib(bytes: usize) -> i64 {
    (bytes / 1024) as i64
}

fn partition_count(sources: &Sources<'_>) -> SystemTable {
    one_row(sources, &[("PARTITION_COUNT", Integer)], cells![sources.partitions as i32])
}

fn cpu(sources: &Sources<'_>) -> SystemTable {
    one_row(sources, &[("PERCENT_USED", Bigint)], cells![sources.processor.percent()])
}

/// There is no garbage to collect, so nothing has ever been collected.
fn collections(sources: &Sources<'_>) -> SystemTable {
    one_row(
        sources,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, check_columns, check_error, tables_of};
    use ferrite_value::OwnedValue;
    use std::collections::BTreeSet;

    #[test]
    fn columns_and_errors_are_those_of_the_original_server() {
        let node = testing::node(2);
        let sources = node.sources();
        for (selector, answered) in testing::captured_selectors("@Statistics") {
            if answered {
                let mut result = statistics(&sources, &node, &selector.to_lowercase(), false, Asker::default());
                if let (Ok(tables), "COMMANDLOG") = (&mut result, &*selector) {
                    // The second one is ours.
                    tables.truncate(1);
                }
                check_columns("@Statistics", &selector, &result);
            } else {
                check_error("@Statistics", &selector, &statistics(&sources, &node, &selector, false, Asker::default()));
            }
        }
    }

    #[test]
    fn every_selector_that_is_listed_is_answered() {
        let node = testing::node(1);
        for selector in SELECTORS {
            let answered = statistics(&node.sources(), &node, selector, false, Asker::default());
            assert!(answered.is_ok_and(|tables| !tables.is_empty()), "{selector}");
        }
    }

    #[test]
    fn the_page_names_every_selector_and_no_other() {
        let page = include_str!("../../../docs/system-procedures.md");
        let (_, section) = page.split_once("| selector | about |").expect("the page has a table of selectors");
        let rows = section.lines().skip(2).take_while(|line| line.starts_with('|'));
        let cells = rows.filter_map(|row| row.split(" | ").next());
        let named: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        let listed: BTreeSet<&str> = SELECTORS.iter().copied().collect();
        let differing: Vec<_> = named.symmetric_difference(&listed).collect();
        assert!(differing.is_empty(), "in docs/system-procedures.md or in SELECTORS, and not in both: {differing:?}");
    }

    fn row(selector: &str) -> Vec<OwnedValue> {
        let node = testing::node(3);
        let tables = tables_of(&statistics(&node.sources(), &node, selector, false, Asker::default()));
        assert_eq!(tables[0].rows.len(), 1, "{selector}");
        tables[0].rows[0].clone()
    }

    fn integer(value: &OwnedValue) -> i64 {
        match value {
            OwnedValue::Integer(value) => *value,
            other => panic!("not an integer: {other:?}"),
        }
    }

    #[test]
    fn lots_are_shown_in_the_order_of_their_columns() {
        let node = testing::node(3);
        node.lots.set(crate::lots::LotCounts {
            calls: 1,
            failed: 2,
            stale: 3,
            unknown: 4,
            begun: 5,
            committed: 6,
            read: 7,
            aborted: 8,
            waiting: 9,
            open: 10,
            open_millis: 11,
        });
        let tables = tables_of(&statistics(&node.sources(), &node, "lots", false, Asker::default()));
        let shown: Vec<i64> = tables[0].rows[0].iter().rev().take(11).rev().map(integer).collect();
        assert_eq!(shown, (1..=11).collect::<Vec<_>>());
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
        let node = testing::node(1);
        let sources = node.sources();
        let size = |json| match &tables_of(&statistics(&sources, &node, "topo", json, Asker::default()))[1].rows[0][1] {
            OwnedValue::Bytes(bytes) => bytes.len(),
            other => panic!("not bytes: {other:?}"),
        };
        assert_eq!(size(false), 131_076);
        assert!(size(true) < 131_076);
    }
}
