//! Figures about connections, and about latencies as network threads see them.

use super::{Asker, BASE, SITE, base, count, empty, one_row, small};
use crate::forwarding::Forwarded;
use crate::result::{Cell, Columns, SystemTable, cells};
use crate::sources::Collected;
use crate::sources::Sources;
use crate::traffic::NetworkReport;
use ferrite_base::limits as named_limits;
use ferrite_value::SqlType::{Bigint, Integer, Tinyint, Varbinary, Varchar};

type Reports = Collected<NetworkReport>;

/// Calls passed on to the node that leads, and those taken of other nodes: a table of ours.
pub fn forwarding(sources: &Sources<'_>) -> SystemTable {
    let Forwarded { passed_on, came_back, waiting, unknown, refused, taken, given_back } = sources.forwarding.read();
    one_row(
        sources,
        &[
            ("PASSED_ON", Bigint),
            ("CAME_BACK", Bigint),
            ("WAITING", Bigint),
            ("OUTCOME_UNKNOWN", Bigint),
            ("REFUSED", Bigint),
            ("TAKEN", Bigint),
            ("GIVEN_BACK", Bigint),
        ],
        cells![
            count(passed_on),
            count(came_back),
            count(waiting),
            count(unknown),
            count(refused),
            count(taken),
            count(given_back)
        ],
    )
}

/// Transactions over groups, as the node has ordered them: a table of ours.
pub fn lots(sources: &Sources<'_>) -> SystemTable {
    let counts = sources.lots.read();
    one_row(
        sources,
        &[
            ("CALLS", Bigint),
            ("FAILED", Bigint),
            ("STALE", Bigint),
            ("OUTCOME_UNKNOWN", Bigint),
            ("LOTS", Bigint),
            ("COMMITTED", Bigint),
            ("READ", Bigint),
            ("ABORTED", Bigint),
            ("WAITING", Bigint),
            ("OPEN", Bigint),
            ("OPEN_MS", Bigint),
        ],
        cells![
            count(counts.calls),
            count(counts.failed),
            count(counts.stale),
            count(counts.unknown),
            count(counts.begun),
            count(counts.committed),
            count(counts.read),
            count(counts.aborted),
            count(counts.waiting),
            count(counts.open),
            count(counts.open_millis)
        ],
    )
}

/// A row for each procedure that a connection has called. Times are the connection's, over all its
/// procedures; aborts and failures are counted by procedure only, see PROCEDURE.
pub fn initiators(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    const COLUMNS: &Columns = &[
        ("CONNECTION_ID", Bigint),
        ("CONNECTION_HOSTNAME", Varchar),
        ("PROCEDURE_NAME", Varchar),
        ("INVOCATIONS", Bigint),
        ("AVG_EXECUTION_TIME", Integer),
        ("MIN_EXECUTION_TIME", Integer),
        ("MAX_EXECUTION_TIME", Integer),
        ("ABORTS", Bigint),
        ("FAILURES", Bigint),
    ];
    let mut table = empty(&[BASE, SITE, COLUMNS]);
    for connection in &collected.reports.connections {
        let traffic = &connection.traffic;
        let average = traffic.wait_total.checked_div(traffic.waits).unwrap_or(0);
        for (procedure, calls) in traffic.calls() {
            let row = cells![
                sources.identity.host_id,
                connection.connection_id,
                &connection.peer,
                procedure,
                count(calls),
                small(average / 1000),
                small(traffic.wait_min / 1000),
                small(traffic.wait_max / 1000),
                Cell::NULL,
                Cell::NULL
            ];
            table.row(base(sources).into_iter().chain(row));
        }
    }
    table
}

pub fn bytes(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    const COLUMNS: &Columns = &[
        ("CONNECTION_ID", Bigint),
        ("CONNECTION_HOSTNAME", Varchar),
        ("BYTES_READ", Bigint),
        ("MESSAGES_READ", Bigint),
        ("BYTES_WRITTEN", Bigint),
        ("MESSAGES_WRITTEN", Bigint),
    ];
    let mut table = empty(&[BASE, COLUMNS]);
    let report = &collected.reports;
    let all = || report.connections.iter().map(|connection| &connection.traffic).chain([&report.closed]);
    let global = cells![
        -1i64,
        "GLOBAL",
        count(all().map(|traffic| traffic.bytes_read).sum()),
        count(all().map(|traffic| traffic.messages_read).sum()),
        count(all().map(|traffic| traffic.bytes_written).sum()),
        count(all().map(|traffic| traffic.messages_written).sum())
    ];
    table.row(base(sources).into_iter().chain(global));
    for connection in &report.connections {
        let traffic = &connection.traffic;
        let row = cells![
            connection.connection_id,
            &connection.peer,
            count(traffic.bytes_read),
            count(traffic.messages_read),
            count(traffic.bytes_written),
            count(traffic.messages_written)
        ];
        table.row(base(sources).into_iter().chain(row));
    }
    table
}

/// What the connections have outstanding, but for the call that asks: tools wait until there is
/// nothing.
pub fn connections(sources: &Sources<'_>, collected: &Reports, asker: Asker) -> SystemTable {
    const COLUMNS: &Columns = &[
        ("CONNECTION_ID", Bigint),
        ("CLIENT_HOSTNAME", Varchar),
        ("ADMIN", Tinyint),
        ("OUTSTANDING_REQUEST_BYTES", Bigint),
        ("OUTSTANDING_RESPONSE_MESSAGES", Bigint),
        ("OUTSTANDING_TRANSACTIONS", Bigint),
    ];
    let mut table = empty(&[BASE, COLUMNS]);
    for connection in &collected.reports.connections {
        let (calls, bytes) = if connection.connection_id == asker.connection { (1, asker.bytes) } else { (0, 0) };
        let row = cells![
            connection.connection_id,
            &connection.peer,
            i32::from(connection.admin),
            connection.outstanding_bytes.saturating_sub(bytes) as i64,
            connection.unread_answers as i64,
            connection.outstanding_calls.saturating_sub(calls) as i64
        ];
        table.row(base(sources).into_iter().chain(row));
    }
    table
}

pub fn limits(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    // Without a limit, or where the system does not say: NULL.
    let descriptors_max = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.map(small);
    let descriptors_open = std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as i32);
    let report = &collected.reports;
    one_row(
        sources,
        &[
            ("FILE_DESCRIPTORS_LIMIT", Integer),
            ("FILE_DESCRIPTORS_OPEN", Integer),
            ("CLIENT_CONNECTIONS_LIMIT", Integer),
            ("CLIENT_CONNECTIONS_OPEN", Integer),
            ("ACCEPTED_CONNECTIONS", Integer),
            ("DROPPED_CONNECTIONS", Integer),
        ],
        cells![
            descriptors_max,
            descriptors_open,
            named_limits::CONNECTIONS_MAX as i32,
            report.connections.len() as i32,
            small(report.accepted),
            small(report.refused)
        ],
    )
}

pub fn latency(sources: &Sources<'_>, collected: &Reports) -> SystemTable {
    let latencies = &collected.reports.latencies;
    let per_second = latencies.count() as f64 / collected.elapsed.as_secs_f64().max(1e-3);
    let at = |part| count(latencies.quantile(part));
    one_row(
        sources,
        &[
            ("INTERVAL", Integer),
            ("COUNT", Integer),
            ("TPS", Integer),
            ("P50", Bigint),
            ("P95", Bigint),
            ("P99", Bigint),
            ("P99.9", Bigint),
            ("P99.99", Bigint),
            ("P99.999", Bigint),
            ("MAX", Bigint),
        ],
        cells![
            small(collected.elapsed.as_millis() as u64),
            small(latencies.count()),
            small(per_second.round() as u64),
            at(0.5),
            at(0.95),
            at(0.99),
            at(0.999),
            at(0.9999),
            at(0.99999),
            at(1.0)
        ],
    )
}

pub fn histogram(sources: &Sources<'_>, collected: &Reports, uncompressed: bool) -> SystemTable {
    const COMPRESSED: &Columns = &[("HISTOGRAM", Varbinary)];
    const UNCOMPRESSED: &Columns = &[("UNCOMPRESSED_HISTOGRAM", Varbinary)];
    let latencies = &collected.reports.latencies;
    let mut table =
        if uncompressed { empty(&[BASE, SITE, COMPRESSED, UNCOMPRESSED]) } else { empty(&[BASE, SITE, COMPRESSED]) };
    let row = cells![sources.identity.host_id, latencies.to_compressed_bytes()];
    let more = uncompressed.then(|| Cell::from(latencies.to_bytes()));
    table.row(base(sources).into_iter().chain(row).chain(more));
    table
}
