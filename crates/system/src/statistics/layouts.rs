//! Columns of the tables about things that this server does not have: they are answered without
//! rows.

use crate::result::Columns;
use ferrite_value::SqlType::{Bigint, Float, Integer, Smallint, Timestamp, Varchar};

pub const SNAPSHOT_STATUS: &Columns = &[
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

pub const SNAPSHOT_SUMMARY: &Columns = &[
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

pub const K_SAFETY: &Columns = &[("PARTITION_ID", Integer), ("MISSING_REPLICA", Integer)];

pub const REBALANCE: &Columns = &[
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

pub const EXPORT: &Columns = &[
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

pub const IMPORTER: &Columns = &[
    ("IMPORTER_NAME", Varchar),
    ("PROCEDURE_NAME", Varchar),
    ("SUCCESSES", Bigint),
    ("FAILURES", Bigint),
    ("OUTSTANDING_REQUESTS", Bigint),
    ("RETRIES", Bigint),
];

pub const TASK: &Columns = &[("PARTITION_ID", Integer), ("TASK_NAME", Varchar), ("STATE", Varchar), ("SCOPE", Varchar)];

pub const TASK_SCHEDULER: &Columns = &[
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

pub const TASK_PROCEDURE: &Columns = &[
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

pub const CLOCK_SKEW: &Columns = &[("SKEW_TIME", Integer), ("REMOTE_HOST_ID", Integer), ("REMOTE_HOST_NAME", Varchar)];

pub const QUEUE_PRIORITY: &Columns = &[
    ("PRIORITY", Smallint),
    ("CURRENT_DEPTH", Integer),
    ("POLL_COUNT", Bigint),
    ("AVG_WAIT", Bigint),
    ("MAX_WAIT", Bigint),
];

pub const COMPOUND: &Columns = &[
    ("INVOCATIONS", Bigint),
    ("MIN_ELAPSED", Bigint),
    ("MAX_ELAPSED", Bigint),
    ("AVG_ELAPSED", Bigint),
    ("ABORTS", Bigint),
    ("FAILURES", Bigint),
];

pub const COMPOUND_CALLS: &Columns = &[("CALLED_PROCEDURE", Varchar), ("INVOCATIONS", Bigint)];

pub const DR_PRODUCER_PARTITION: &Columns = &[
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

pub const DR_PRODUCER_NODE: &Columns = &[
    ("CLUSTER_ID", Smallint),
    ("REMOTE_CLUSTER_ID", Smallint),
    ("STATE", Varchar),
    ("SYNCSNAPSHOTSTATE", Varchar),
    ("ROWSINSYNCSNAPSHOT", Bigint),
    ("ROWSACKEDFORSYNCSNAPSHOT", Bigint),
    ("QUEUEDEPTH", Bigint),
    ("REMOTECREATIONTIMESTAMP", Timestamp),
];

pub const DR_PRODUCER_CLUSTER: &Columns =
    &[("CLUSTER_ID", Smallint), ("REMOTE_CLUSTER_ID", Smallint), ("STATE", Varchar), ("LASTFAILURE", Smallint)];

pub const DR_CONSUMER_NODE: &Columns = &[
    ("CLUSTER_ID", Integer),
    ("REMOTE_CLUSTER_ID", Integer),
    ("STATE", Varchar),
    ("REPLICATION_RATE_1M", Bigint),
    ("REPLICATION_RATE_5M", Bigint),
    ("REMOTE_CREATION_TIMESTAMP", Timestamp),
];

pub const DR_CONSUMER_PARTITION: &Columns = &[
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

pub const DR_CONSUMER_CLUSTER: &Columns =
    &[("CLUSTER_ID", Integer), ("REMOTE_CLUSTER_ID", Integer), ("STATE", Varchar), ("LAST_FAILURE", Integer)];
