//! Every limit of the product, by name. A test stands at each limit and one past it, where the
//! limit is enforced.

/// Largest frame accepted from or sent to a client, in bytes after the length field (wire-protocol
/// 1.2).
pub const FRAME_BYTES_MAX: usize = 52_428_800;
/// Bytes of one message between two nodes of a cluster, on the lane of entries: a batch and the
/// largest transaction behind it, and what stands around them.
pub const PEER_MESSAGE_BYTES_MAX: usize = 2_155_872_256;
/// Bytes that wait to be sent to a node of the cluster, on one lane.
pub const PEER_OUTBOX_BYTES_MAX: usize = 67_108_864;
/// Bytes of one message on the lane of control.
pub const PEER_CONTROL_BYTES_MAX: usize = 1_048_576;
/// Nodes that a cluster ever had, retired ones among them.
pub const CLUSTER_NODES_MAX: usize = 1_024;
/// Nodes that a cluster is founded with: each tells all others what it was told.
pub const CLUSTER_FOUNDERS_MAX: usize = 48;
/// Groups of a cluster.
pub const CLUSTER_GROUPS_MAX: usize = 256;
/// Lots of transactions over groups that are decided and not settled, or under way: no more are
/// begun while groups without a leader have left so many.
pub const LOTS_OPEN_MAX: usize = 1_024;
/// Bytes of the texts and parameters of one lot's calls; a call with more is alone in its lot.
pub const LOT_BYTES_MAX: usize = 4_194_304;
/// Bytes of one message about lots between nodes.
pub const LOT_MESSAGE_BYTES_MAX: usize = 134_217_728;
/// Calls of several groups that wait at the sequencer.
pub const LOT_QUEUE_CALLS_MAX: usize = 65_536;
/// Bytes of these calls.
pub const LOT_QUEUE_BYTES_MAX: usize = 134_217_728;
/// Schema changes of several groups that wait for their turn; of their texts as of these calls.
pub const SCHEMA_CHANGES_WAITING_MAX: usize = 256;
/// How long calls of several groups wait for a lot that takes them.
pub const LOT_WAIT: std::time::Duration = std::time::Duration::from_secs(5);
/// Members of a group: one more than it is to have, while one is exchanged for another.
pub const CLUSTER_MEMBERS_MAX: usize = 8;
/// Voters of the metadata.
pub const CLUSTER_VOTERS_MAX: usize = 5;
/// Addresses of a node.
pub const CLUSTER_ADDRESSES_MAX: usize = 8;
/// Bytes of a node's address, and of a release's name.
pub const CLUSTER_TEXT_BYTES_MAX: usize = 255;
/// Bytes of the metadata beyond which no node joins, and none gets other addresses: it is one
/// message.
pub const METADATA_BYTES_MAX: usize = 786_432;
/// Bytes of one command of the metadata.
pub const METADATA_COMMAND_BYTES_MAX: usize = 524_288;
/// Bytes of the metadata's commands that are not committed.
pub const METADATA_UNCOMMITTED_BYTES_MAX: usize = 4_194_304;
/// Connections to the cluster port that have not said who they are.
pub const PEER_STRANGERS_MAX: usize = 64;
/// Within this they must.
pub const PEER_HANDSHAKE_SECONDS_MAX: u64 = 3;
/// Bytes of a group's last entries that are kept in memory for members that missed them: two to
/// three seconds at full load.
pub const RECENT_ENTRIES_BYTES_MAX: usize = 67_108_864;
/// Bytes of a leader's entries that are not committed, beyond which nothing more is executed: a
/// member that is slow makes the leader as slow.
pub const UNCOMMITTED_BYTES_MAX: usize = 67_108_864;
/// Entries of about so many bytes go in one message to another node; a larger one goes alone.
pub const REPLICATION_MESSAGE_BYTES: usize = 1_048_576;
/// Largest single VARCHAR, VARBINARY or GEOGRAPHY value, in bytes. It is also the most that may be
/// set: drivers of the protocol refuse larger ones.
pub const VALUE_BYTES_MAX: usize = 1_048_576;
/// Largest VARCHAR length that can be declared in characters (four bytes each); a larger one counts
/// bytes.
pub const VARCHAR_CHARACTERS_MAX: u32 = 262_144;
/// Declared size of VARCHAR and VARBINARY where the statement names none.
pub const VARIABLE_LENGTH_DEFAULT: u32 = 2_048;
/// Largest row, values included, in bytes.
pub const ROW_BYTES_MAX: usize = 2_097_152;
/// The most that [`ROW_BYTES_MAX`] may be set to: a row must fit into a call and into a result.
/// What is on disk is held to this alone.
pub const ROW_BYTES_CEILING: usize = 33_554_432;
/// Columns of one table.
pub const TABLE_COLUMNS_MAX: usize = 1_024;
/// Tables, streams and views of one database.
pub const TABLES_MAX: usize = 10_000;
/// Indexes of one table, those of its constraints included.
pub const TABLE_INDEXES_MAX: usize = 64;
/// CHECK conditions of one table.
pub const TABLE_CHECKS_MAX: usize = 1_024;
/// Work, in about bytes made or looked at, of one expression of a view or an index, or of all CHECK
/// conditions, for one row.
pub const DEFINITION_WORK_MAX: usize = 67_108_864;
/// Procedures of one database.
pub const PROCEDURES_MAX: usize = 10_000;
/// User-defined functions of one database.
pub const FUNCTIONS_MAX: usize = 10_000;
/// Tasks of one database.
pub const TASKS_MAX: usize = 10_000;
/// Roles of one database, without the built-in ones.
pub const ROLES_MAX: usize = 10_000;
/// Reasons for which a task's calls failed that the log is told in a minute; others are counted.
pub const TASK_REASONS_MAX: usize = 8;
/// Columns (or expressions) of one index.
pub const INDEX_KEYS_MAX: usize = 64;
/// Parameters of one statement or procedure.
pub const PARAMETERS_MAX: usize = 1_025;
/// The most that [`PARAMETERS_MAX`] may be set to: a call counts its parameters in 16 bits.
pub const PARAMETERS_CEILING: usize = 32_767;
/// Bytes of one SQL text, a batch included.
pub const STATEMENT_BYTES_MAX: usize = 1_048_576;
/// The most that [`STATEMENT_BYTES_MAX`] may be set to: a text takes some hundred times its size
/// while it is compiled.
pub const STATEMENT_BYTES_CEILING: usize = 16_777_216;
/// Bytes of one note for the log of the server.
pub const NOTE_BYTES_MAX: usize = 4_096;
/// Requests for figures that a partition which does not answer is sent.
pub const REPORTS_ASKED_MAX: usize = 16;
/// Calls at a time that look through directories for backups.
pub const BACKUP_SCANS_MAX: usize = 8;
/// Bytes of lines for standard output, and for standard error, that wait to be written; others are
/// lost, and counted.
pub const STDIO_QUEUE_BYTES_MAX: usize = 1_048_576;
/// Notices for the operator that are kept for `@Statistics EVENTS`.
pub const EVENTS_MAX: usize = 1_000;
/// Bytes of the text of one kept notice, and of its fields; of a longer one the beginning is kept.
pub const EVENT_BYTES_MAX: usize = 8_192;
/// Bytes of all loaded Java classes and resources, compressed as in their jars.
pub const CLASSES_BYTES_MAX: usize = 33_554_432;
/// Bytes of all loaded Java classes and resources, unpacked: the JVM may come to hold them all.
pub const CLASSES_UNPACKED_BYTES_MAX: usize = 134_217_728;
/// Bytes of one class or resource, unpacked.
pub const CLASS_UNPACKED_BYTES_MAX: usize = 33_554_432;
/// Statements in one batch of a Java procedure.
pub const ROUTINE_BATCH_STATEMENTS_MAX: usize = 100_000;
/// Warnings in one answer about classes that need what is not there.
pub const CLASS_WARNINGS_MAX: usize = 20;
/// Files in all loaded jars together.
pub const CLASSES_ENTRIES_MAX: usize = 32_767;
/// Calls of compound procedures that the node has taken and not yet answered.
pub const COMPOUND_CALLS_MAX: usize = 10_000;
/// Calls that one stage of a compound procedure may queue.
pub const COMPOUND_STAGE_CALLS_MAX: usize = 10;
/// Seconds that a call of a compound procedure may take, its waiting included.
pub const COMPOUND_SECONDS_MAX: u64 = 60;
/// Seconds that calls of compound procedures have to end when the server stops.
pub const COMPOUND_STOP_SECONDS_MAX: u64 = 3;
/// Statements in one ad hoc batch or procedure.
pub const STATEMENTS_MAX: usize = 10_000;
/// The most that [`STATEMENTS_MAX`] may be set to: a response counts its tables in 16 bits.
pub const STATEMENTS_CEILING: usize = 32_767;
/// Nesting of expressions and of procedure blocks. In a chain of arithmetic or `||` each operator
/// nests what stands before it; chains of AND and OR are flat.
pub const NESTING_MAX: usize = 200;
/// Operators in one expression, between two commas or parentheses: longer chains would be trees too
/// deep to walk.
pub const OPERATORS_MAX: usize = 1_000;
/// UNION, INTERSECT and EXCEPT behind one another in one query.
pub const SET_OPERATIONS_MAX: usize = 200;
/// Expressions of one statement, those that stand in its plan several times counted for each.
pub const EXPRESSIONS_MAX: usize = 2_000_000;
/// Subqueries in the expressions of one statement or procedure.
pub const SUBQUERIES_MAX: usize = 16_384;
/// Different aggregates of one SELECT.
pub const AGGREGATES_MAX: usize = 4_096;
/// Keys of one GROUP BY.
pub const GROUP_KEYS_MAX: usize = 1_024;
/// Keys of one ORDER BY, and of PARTITION BY and ORDER BY of one window together.
pub const SORT_KEYS_MAX: usize = 1_024;
/// Nesting of JSON texts that FIELD and the like read, and steps of their paths.
pub const JSON_NESTING_MAX: usize = 200;
/// Bytes of one compiled regular expression, and of the states that matching with it may keep.
pub const REGULAR_EXPRESSION_BYTES_MAX: usize = 1_048_576;
/// Compiled regular expressions that a thread keeps for the next row or call.
pub const REGULAR_EXPRESSIONS_KEPT: usize = 8;
/// Pairs of edges that ISVALID and its like look at before they give up on a polygon.
pub const POLYGON_EDGE_PAIRS_MAX: u64 = 20_000_000;
/// Tables joined in one SELECT.
pub const JOIN_TABLES_MAX: usize = 64;
/// Views computed when read that stand in one view, those inside others counted for each place
/// where they stand.
pub const VIEW_EXPANSIONS_MAX: usize = 256;
/// How deep such views stand in each other.
pub const VIEW_NESTING_MAX: usize = 32;
/// Such views that one statement, batch or procedure reads, those inside others counted for each
/// place.
pub const STATEMENT_VIEWS_MAX: usize = 16_384;
/// Bytes of their definitions, counted for each place.
pub const STATEMENT_VIEW_BYTES_MAX: usize = 4_194_304;
/// Tables of WITH in one query; those that refer to rows outside count once for each place where
/// they are used.
pub const COMMON_TABLES_MAX: usize = 100;
/// Rounds of one WITH RECURSIVE.
pub const RECURSION_ROUNDS_MAX: usize = 1_000_000;
/// Grouping sets of one GROUP BY.
pub const GROUPING_SETS_MAX: usize = 256;
/// Rows of one GENERATE_SERIES.
pub const SERIES_ROWS_MAX: u64 = 1_000_000;
/// Bytes of one call's result, all tables together.
pub const RESULT_BYTES_MAX: usize = FRAME_BYTES_MAX - 1_024;
/// Bytes that one statement may hold for sorting, grouping and derived tables.
pub const TEMPORARY_BYTES_MAX: usize = 104_857_600;
/// Shapes of ad hoc statements whose plans are kept for the next texts of the shape.
pub const PLAN_CACHE_ENTRIES_MAX: usize = 4_096;
/// Longest ad hoc text whose plan is kept, in bytes.
pub const PLAN_CACHE_TEXT_BYTES_MAX: usize = 4_096;
/// Literals of an ad hoc text whose plan is kept.
pub const PLAN_CACHE_LITERALS_MAX: usize = 256;
/// Rows of a table that each partition samples, for estimates of how many lie in a range.
pub const SAMPLE_ROWS: usize = 64;
/// How often a statement is bound on trial to find the types of its parameters.
pub const PARAMETER_TRIALS_MAX: usize = 16;
/// Combinations of parameter types other than the declared ones that a statement is kept compiled
/// for.
pub const STATEMENT_VARIANTS_MAX: usize = 64;
/// Invocation extensions in one call (wire-protocol 3.3).
pub const EXTENSIONS_MAX: usize = 30;
/// How long one call may execute before it is interrupted and rolled back.
pub const QUERY_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(10);
/// Seconds that a change of the schema may take, its procedures' compiling included. Until it ends
/// no transaction runs.
pub const SCHEMA_SECONDS_MAX: u64 = 600;
/// Transactions over several partitions that one lending of the partitions' stores serves.
pub const LENDING_CALLS_MAX: usize = 512;
/// How long partitions stand still for transactions that could as well have the next lending.
pub const LENDING_TIME_MAX: std::time::Duration = std::time::Duration::from_millis(1);
/// A read that has met this many rows counts as long and runs on a snapshot, beside the
/// transactions: some two milliseconds.
pub const LONG_READ_ROWS_MIN: u64 = 20_000;
/// Partitions of one node.
pub const PARTITIONS_MAX: usize = 1_024;
/// Identifier length in bytes.
pub const IDENTIFIER_BYTES_MAX: usize = 255;

/// Inline storage: a variable-length column whose declared size in bytes is at most this lives in
/// the row itself.
pub const INLINE_BYTES_MAX: usize = 63;
/// Bytes of a table page.
pub const PAGE_BYTES: usize = 16_384;

/// Extents of page memory (2 MiB each) that are touched before they are needed.
pub const EXTENTS_AHEAD: usize = 8;
/// Extents of page memory without a page in use that are kept; more go back to the system.
pub const EXTENTS_KEPT_MAX: usize = 32;

/// Part of the machine's (or control group's) memory that the server may take unless told
/// otherwise, in percent.
pub const MEMORY_PERCENT_DEFAULT: usize = 80;
/// Least memory limit: less does not run a server.
pub const MEMORY_BYTES_MIN: usize = 67_108_864;
/// Bytes of addresses that the server takes besides what it uses: stacks, and what its allocators
/// keep at hand.
pub const ADDRESS_SPACE_BYTES_MIN: usize = 3_221_225_472;
/// One part in this many of the memory limit is kept for what is not a new row: deletions, reads,
/// rollbacks.
pub const MEMORY_RESERVE_PART: usize = 16;
/// Bytes that a query or a result may hold however full the memory is.
pub const MEMORY_ALWAYS_BYTES: usize = 1_048_576;
/// One part in this many of the memory limit is what clients may make the server hold: unfinished
/// frames, calls that wait, unread answers.
pub const CLIENTS_MEMORY_PART: usize = 4;
/// The same in bytes, where there is no memory limit.
pub const CLIENTS_BYTES_DEFAULT: usize = 1_073_741_824;
/// Bytes that an answer may have however much is held for clients.
pub const ANSWER_ALWAYS_BYTES: usize = 1_024;
/// Bytes that an answer may have while unread answers take a quarter more at most than clients may
/// hold.
pub const ANSWER_SMALL_BYTES: usize = 65_536;
/// Bytes of one transaction's changes: what it overwrote in one partition, and what goes to the log
/// of all partitions together.
pub const TRANSACTION_BYTES_MAX: usize = 1_073_741_824;
/// The most that [`TRANSACTION_BYTES_MAX`] may be set to: a transaction is one entry of the log,
/// whose length has 32 bits.
pub const TRANSACTION_BYTES_CEILING: usize = 2_147_483_648;
/// Bytes of changes of one batch of calls, beyond which they go to the log before more calls run.
pub const BATCH_CHANGES_BYTES_MAX: usize = 4_194_304;

/// Calls taken from a connection and not yet answered, beyond which the server stops reading from
/// it.
pub const CONNECTION_OUTSTANDING_CALLS_MAX: usize = 32_768;
/// Bytes of calls taken from a connection and not yet answered, beyond which the server stops
/// reading from it.
pub const CONNECTION_OUTSTANDING_BYTES_MAX: usize = 33_554_432;
/// Bytes of unread responses, beyond which the server stops reading from a connection.
pub const CONNECTION_UNREAD_BYTES_MAX: usize = 16_777_216;
/// Seconds after which a connection that does not read its responses is closed.
pub const CONNECTION_UNREAD_SECONDS_MAX: u64 = 30;
/// Largest frame of a login, in bytes after the length field.
pub const LOGIN_BYTES_MAX: usize = 4_096;
/// Seconds within which a frame that was begun must arrive; one more for each
/// [`FRAME_BYTES_PER_SECOND_MIN`] that have.
pub const FRAME_SECONDS_MAX: u64 = 30;
/// Bytes a second at which a large frame must arrive at least.
pub const FRAME_BYTES_PER_SECOND_MIN: usize = 8_192;
/// Seconds within which a login must arrive.
pub const LOGIN_SECONDS_MAX: u64 = 30;
/// Bytes that a connection's answers are expected to have, by the last ones, beyond which the
/// server stops reading from it.
pub const CONNECTION_EXPECTED_BYTES_MAX: usize = 67_108_864;
/// Calls taken from a connection whose answers' size is not known yet.
pub const CONNECTION_FIRST_CALLS_MAX: usize = 64;
/// Bytes of unread responses, beyond which a connection is closed: ten of the largest.
pub const CONNECTION_ANSWER_BYTES_MAX: usize = 536_870_912;
/// Calls taken by the node and not yet answered, beyond which it takes no more from connections
/// other than administrators'.
pub const NODE_OUTSTANDING_CALLS_MAX: usize = 1_048_576;
/// Bytes of calls taken by the node and not yet answered, beyond which it takes no more from
/// connections other than administrators'.
pub const NODE_OUTSTANDING_BYTES_MAX: usize = 536_870_912;
/// Requests to cancel calls that are remembered of one connection; the oldest is dropped for the
/// next.
pub const CONNECTION_CANCELS_MAX: usize = 64;
/// How long one call may execute whose client has ended its side of the connection.
pub const ENDED_CONNECTION_QUERY_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(1);
/// Bytes of answers that the system is to take for one connection whose peer does not read. It
/// doubles that for what it needs beside.
pub const SOCKET_SEND_BYTES: usize = 262_144;
/// Calls that a connection may make however much is held for clients, and bytes of them and of its
/// unread answers.
pub const CONNECTION_ALWAYS_CALLS: usize = 8;
pub const CONNECTION_ALWAYS_BYTES: usize = 4_096;
/// Seconds that a server that stops goes on executing what it has taken. With [`STOP_GRACE`] it
/// ends within the ten seconds that container runtimes give.
pub const STOP_SECONDS_MAX: u64 = 7;
/// How long a server that stops waits for calls that it has interrupted, before it ends without
/// them.
pub const STOP_GRACE: std::time::Duration = std::time::Duration::from_secs(2);
/// How long a connection may not read its answers when a server that stops waits for nobody any
/// more.
pub const STOP_UNREAD_TIME_MAX: std::time::Duration = std::time::Duration::from_millis(500);
/// How long a server that starts waits for a port that another process has. One that was killed
/// keeps its ports until the system has freed its memory.
pub const LISTEN_WAIT: std::time::Duration = std::time::Duration::from_secs(5);
/// Connections of one node.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Connections to the administration port that are taken when there are [`CONNECTIONS_MAX`]
/// already.
pub const ADMIN_CONNECTIONS_RESERVED: usize = 16;
/// Connections of clients that a node holds which is not open yet. The oldest gives way to the
/// next.
pub const UNOPENED_CONNECTIONS_MAX: usize = 256;

/// File descriptors that are kept from connections, for the log, snapshots, backups and Java. Half
/// of what there is, where that is little.
pub const DESCRIPTORS_RESERVED: usize = 64;
/// Seconds that a connection is silent before the system asks whether its peer is there still (TCP
/// keepalive).
pub const KEEPALIVE_IDLE_SECONDS: u64 = 60;
/// Seconds between two such questions.
pub const KEEPALIVE_INTERVAL_SECONDS: u64 = 10;
/// Such questions without an answer, after which the connection is closed.
pub const KEEPALIVE_PROBES_MAX: u32 = 6;
/// The same between nodes of a cluster.
pub const PEER_KEEPALIVE_IDLE_SECONDS: u64 = 5;
pub const PEER_KEEPALIVE_INTERVAL_SECONDS: u64 = 1;
pub const PEER_KEEPALIVE_PROBES_MAX: u32 = 5;
/// Seconds after which all connections to another node are closed from which nothing came: nodes
/// say every second how they are. Looked at once a second.
pub const PEER_SILENT_SECONDS_MAX: u64 = 4;
/// Milliseconds for which what was sent to another node may be without an acknowledgement of its
/// system.
pub const PEER_UNACKNOWLEDGED_MILLISECONDS_MAX: u32 = 10_000;
/// Milliseconds between two attempts of the system to send it again, at most; the system's least.
pub const PEER_RETRANSMISSION_MILLISECONDS_MAX: u16 = 1_000;

/// Free bytes of the log's disk below which writes are refused, unless set otherwise: four
/// segments of the log.
pub const DISK_RESERVE_BYTES: u64 = 268_435_456;
/// Bytes of one redo log segment file.
pub const LOG_SEGMENT_BYTES: u64 = 67_108_864;
/// Bytes that are read at a time from the log for members of a cluster that missed them; more only
/// where one block has more.
pub const CATCH_UP_READ_BYTES: usize = 1_048_576;
/// Epochs of a group's stream that are remembered: 16 bytes each, in messages and manifests. A node
/// that was away for more of them gets a snapshot.
pub const HISTORY_EPOCHS_MAX: usize = 4_096;
/// Bytes of the log that are kept for those who read it, beyond what snapshots need.
pub const CATCH_UP_LOG_BYTES_MAX: u64 = 17_179_869_184;
/// The same as a part of the free room on the log's disk: one in this many.
pub const CATCH_UP_LOG_FREE_PART: u64 = 10;
/// Largest payload of one redo log block (one group commit), in bytes.
pub const LOG_BLOCK_BYTES_MAX: usize = 16_777_216;

/// How often a redo log that is written looks whether its files are still in place, and writes down
/// how far it reaches. What was acknowledged after the last look may go into files that somebody
/// has removed, or be cut from them unnoticed.
pub const LOG_LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// Bytes of a snapshot's file in one message to a node that gets a copy of it.
pub const TRANSFER_CHUNK_BYTES: usize = 1_048_576;
/// Such messages that are sent before the first of them is acknowledged.
pub const TRANSFER_CHUNKS_AHEAD: usize = 8;
/// A node that gets a snapshot and is silent for that long loses its turn.
pub const TRANSFER_SILENCE: std::time::Duration = std::time::Duration::from_secs(30);
/// A node that has got a snapshot reads it; the log behind it is kept for it so long at most, and
/// until it is a member.
pub const TRANSFER_LOADING_MAX: std::time::Duration = std::time::Duration::from_secs(600);
/// Snapshots that are kept for nodes that get one or have got one and may be reading it.
pub const TRANSFERS_MAX: usize = 2;
/// Messages of other nodes, each with a mebibyte at most, that wait for the thread of transfers.
pub const TRANSFER_MESSAGES_MAX: usize = 64;
/// Messages of other nodes that wait for the metadata's thread.
pub const METADATA_MESSAGES_MAX: usize = 1_024;
/// Nodes without an id whose question waits for the metadata's thread; they ask again.
pub const JOINS_MAX: usize = 16;
/// Bytes of a block of rows in a snapshot; more only where one row needs it.
pub const SNAPSHOT_BLOCK_BYTES: usize = 1_048_576;
/// Whole snapshots that are kept. The log reaches back to the oldest of them.
pub const SNAPSHOTS_KEPT: usize = 2;

/// Bytes of committed entries that wait at a copy for its partitions to apply them; more only where
/// one arrival is larger.
pub const COPY_ENTRIES_BYTES_MAX: usize = 67_108_864;

/// Calls that a node has passed on to the one that leads, and that are not answered.
pub const FORWARD_CALLS_MAX: usize = 65_536;
/// Bytes of these calls, beyond which no more is passed on.
pub const FORWARD_BYTES_MAX: usize = 33_554_432;
/// Bytes of calls or answers that go together in one message between nodes; a larger one goes
/// alone.
pub const FORWARD_MESSAGE_BYTES: usize = 1_048_576;
/// Bytes on the way to a node, beyond which calls and answers wait.
pub const FORWARD_AHEAD_BYTES: usize = 8_388_608;
/// Bytes of other nodes' calls and answers that wait to be read.
pub const FORWARD_INBOX_BYTES_MAX: usize = 67_108_864;
/// Bytes of one node's calls that wait until this one knows whether it leads. Behind more the first
/// of them are answered as those that have waited too long.
pub const FORWARD_EARLY_BYTES_MAX: usize = 67_108_864;
/// Connections of one other node whose calls a node takes.
pub const FORWARD_CONNECTIONS_MAX: usize = 65_536;
/// How long calls wait for a node that leads, or for the way to it.
pub const FORWARD_WAIT: std::time::Duration = std::time::Duration::from_secs(5);
/// How long those wait that come when that was in vain: a client may go to another node.
pub const FORWARD_WAIT_LATER: std::time::Duration = std::time::Duration::from_millis(500);
/// How long a node that led answers what it had taken, before the calls that come are passed on to
/// the next one.
pub const FORWARD_SETTLE: std::time::Duration = std::time::Duration::from_secs(1);

/// Nodes of a cluster that the Rust driver connects to.
pub const CLIENT_NODES_MAX: usize = 256;

const _: () = assert!(VALUE_BYTES_MAX < ROW_BYTES_MAX && ROW_BYTES_MAX <= ROW_BYTES_CEILING);
const _: () = assert!(ROW_BYTES_CEILING < RESULT_BYTES_MAX && STATEMENT_BYTES_CEILING < FRAME_BYTES_MAX);
const _: () = assert!(STATEMENT_BYTES_MAX <= STATEMENT_BYTES_CEILING);
const _: () = assert!(PARAMETERS_MAX <= PARAMETERS_CEILING && PARAMETERS_CEILING <= i16::MAX as usize);
const _: () = assert!(STATEMENTS_MAX <= STATEMENTS_CEILING && STATEMENTS_CEILING <= i16::MAX as usize);
const _: () = assert!(RESULT_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(VARCHAR_CHARACTERS_MAX as usize * 4 == VALUE_BYTES_MAX);
const _: () = assert!((LOG_BLOCK_BYTES_MAX as u64) < LOG_SEGMENT_BYTES);
const _: () = assert!(DISK_RESERVE_BYTES >= 2 * LOG_SEGMENT_BYTES);
const _: () = assert!(CATCH_UP_READ_BYTES < LOG_BLOCK_BYTES_MAX && CATCH_UP_LOG_BYTES_MAX > 2 * LOG_SEGMENT_BYTES);
const _: () = assert!(CONNECTION_UNREAD_BYTES_MAX < CONNECTION_EXPECTED_BYTES_MAX);
const _: () = assert!(CONNECTION_EXPECTED_BYTES_MAX < CONNECTION_ANSWER_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX < CONNECTION_ANSWER_BYTES_MAX);
const _: () = assert!(CONNECTION_FIRST_CALLS_MAX * VALUE_BYTES_MAX < CONNECTION_ANSWER_BYTES_MAX);
const _: () = assert!(ANSWER_ALWAYS_BYTES < ANSWER_SMALL_BYTES && ANSWER_SMALL_BYTES < MEMORY_ALWAYS_BYTES);
const _: () = assert!(LOGIN_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(METADATA_BYTES_MAX + CLUSTER_GROUPS_MAX * 512 < PEER_CONTROL_BYTES_MAX);
const _: () = assert!(METADATA_COMMAND_BYTES_MAX < METADATA_BYTES_MAX);
const _: () = assert!(
    CLUSTER_FOUNDERS_MAX * (CLUSTER_FOUNDERS_MAX + CLUSTER_ADDRESSES_MAX + 2) * (CLUSTER_TEXT_BYTES_MAX + 2)
        < METADATA_BYTES_MAX
);
const _: () = assert!(TRANSACTION_BYTES_MAX <= TRANSACTION_BYTES_CEILING);
const _: () = assert!(TRANSACTION_BYTES_CEILING + BATCH_CHANGES_BYTES_MAX + 1_048_576 < PEER_MESSAGE_BYTES_MAX);
const _: () = assert!(PEER_MESSAGE_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(FORWARD_AHEAD_BYTES + FRAME_BYTES_MAX + FORWARD_MESSAGE_BYTES < PEER_OUTBOX_BYTES_MAX);
const _: () = assert!(LOT_BYTES_MAX + FRAME_BYTES_MAX + RESULT_BYTES_MAX < LOT_MESSAGE_BYTES_MAX);
const _: () = assert!(MEMORY_BYTES_MIN / CLIENTS_MEMORY_PART > 8 * VALUE_BYTES_MAX);
const _: () = assert!(CONNECTION_OUTSTANDING_CALLS_MAX < NODE_OUTSTANDING_CALLS_MAX);
const _: () = assert!(CONNECTION_OUTSTANDING_BYTES_MAX < NODE_OUTSTANDING_BYTES_MAX);
const _: () = assert!(STATEMENT_BYTES_MAX < EXPRESSIONS_MAX);
const _: () = assert!(SUBQUERIES_MAX <= u16::MAX as usize);
const _: () = assert!(VIEW_NESTING_MAX <= VIEW_EXPANSIONS_MAX && VIEW_EXPANSIONS_MAX <= STATEMENT_VIEWS_MAX);
const _: () = assert!(STATEMENT_BYTES_MAX <= STATEMENT_VIEW_BYTES_MAX);
const _: () = assert!(PAGE_BYTES.is_power_of_two());
const _: () = assert!(PLAN_CACHE_LITERALS_MAX < PARAMETERS_MAX);
const _: () = assert!(PLAN_CACHE_TEXT_BYTES_MAX <= STATEMENT_BYTES_MAX);
