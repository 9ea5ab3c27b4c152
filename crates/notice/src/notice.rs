//! The notices, by subject. docs/events.md has a row for each code: what it means, and what to do.

use crate::Level;
use crate::define::notices;
use crate::field::Field;
use crate::words::{
    accept_loss, after_colon, all_of, and_others, as_known, awaited, groups_of, megabytes, plural, rate, ready,
    rows_part, times_more,
};
use ferrite_base::{Epoch, GroupId, NodeId, Position};
use serde_json::{Map, Value};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

notices! {
    // Start and stop of a process.

    Ready "ready" Info {
        address: SocketAddr, partitions: usize, durability: String, node: Option<NodeId>, admin: Option<SocketAddr>,
    }
        "ferrite ready on {address} ({words})", words = ready(*partitions, durability, *node, *admin);
    WitnessReady "witness-ready" Info { node: NodeId }
        "ferrite witness ready (node {node})";
    StartFailed "start-failed" Error { reason: String }
        "{reason}";
    PortTaken "port-taken" Info { address: SocketAddr }
        "another process uses {address}: trying again for some seconds, as one that was killed may be about to end";
    StartInterrupted "start-interrupted" Info
        "the start was interrupted by a signal while this node waited for the others";
    Stops "stopping" Info
        "the server stops: calls in flight are finished and the log is closed";
    Stopped "stopped" Info
        "the server has stopped";
    LogNotClosed "log-not-closed" Error { reason: String }
        "the server has stopped, but could not close the redo log: {reason}";
    SecondSignalIgnored "second-signal-ignored" Warn { reason: String }
        "a second signal would not speed up the stop: no thread can be started to watch for it ({reason})";
    StopInterrupts "stop-interrupts-calls" Warn
        "the stop does not wait any longer: running calls are interrupted, and calls that wait are not executed";
    StopAbandons "stop-abandons-calls" Warn
        "some calls cannot be interrupted and are abandoned; nothing of them is kept";
    LastSnapshotAwaited "last-snapshot-awaited" Info
        "the last snapshot is being written; another signal gives it up, and what it has";
    LastSnapshotMissing "last-snapshot-missing" Error
        "the last snapshot was not taken: with durability memory, what was acknowledged since the one before is lost";
    MemoryRunNotEnded "memory-run-not-ended" Warn { reason: String }
        "{reason}; the next start will report a loss, and there is none";
    StartThreadsAbandoned "start-threads-abandoned" Warn
        "some threads of a start that failed have not ended and are abandoned";
    StageAbandoned "compound-stage-abandoned" Warn
        "a stage of a compound procedure has not ended and is abandoned";
    CopyGivenUpTwice "copy-given-up-twice" Error
        "this node gave up its copy twice within an hour, and does not restart by itself again. Check the memory and the \
         disk of this machine, then start the node: it puts the copy aside and gets everything from the leader";
    Restarts "restarting" Info
        "this node restarts to get everything from the leader";
    RestartFailed "restart-failed" Error { reason: String }
        "this node cannot restart by itself: {reason}. Start it with its usual command";

    // Faults of the server, and ends that code in Java causes.

    InternalFault "internal-fault" Error { number: u64, thread: String, panic: String, backtrace: String }
        "fault {number} of the server in thread {thread}: {panic}";
    FaultContained "fault-contained" Error { procedure: String }
        "the fault above occurred in {procedure}; the call was rolled back, and the server continues";
    FaultNotContained "fault-not-contained" Error { procedure: String }
        "the fault above occurred in {procedure}, where it cannot be undone";
    FaultPlanted "fault-planted" Warn { fault: String, breaks: String }
        "the fault {fault} is planted: {breaks}";
    ProcessAborts "process-aborts" Error
        "internal error (see above); shutting down. Acknowledged transactions are in the log";
    JavaEndedProcess "java-ended-process" Error
        "Java code, or the JVM, has ended the process. Acknowledged transactions are in the log";
    JavaExits "java-exit" Warn { stack: String }
        "code in Java has called System.exit: the server stops";
    JavaCallLong "java-call-long" Warn { routine: String, thread: String, elapsed: Duration, stack: String }
        "{routine} has run for {seconds} s in thread {thread}", seconds = elapsed.as_secs();
    JavaCodeRemains "java-code-remains" Warn { procedure: String, stack: String }
        "a call of procedure {procedure} was ended, and its code still runs";
    JavaPrints "java-output" Info { line: String }
        "{line}";
    LinesLost "lines-lost" Warn { lines: u64 }
        "{lines} lines of this log are lost: they could not be written, or not as fast as they came";

    // Recovery.

    Created "database-created" Info { dir: PathBuf }
        "{dir} had no database: created a new one", dir = dir.display();
    NotForOldDatabase "options-not-used" Warn { dir: PathBuf, options: Vec<&'static str> }
        "{dir} already holds a database, so {options} {verb} not used. For a new database give another --dir; to change \
         this one use `ferrite sql -f FILE`",
        dir = dir.display(), verb = if options.len() == 1 { "was" } else { "were" }, options = options.join(" and ");
    NewNotNeeded "new-not-needed" Warn { dir: PathBuf }
        "{dir} already holds a database, so --new was not needed: leave it out of scripts and unit files, or a volume \
         that is not mounted becomes a new database", dir = dir.display();
    Recovering "recovering" Info { phase: &'static str, bytes: u64, bytes_total: u64, rows: u64, elapsed: Duration }
        "recovering: {phase}, {done:.0} MB of {total:.0}{rows}, {speed:.0} MB/s",
        done = megabytes(*bytes), total = megabytes(*bytes_total), speed = rate(*bytes, *elapsed) / 1e6,
        rows = rows_part(*rows);
    SnapshotUnusable "snapshot-unusable" Warn { snapshot: u64, reason: String }
        "snapshot {snapshot} cannot be used: {reason}";
    SnapshotLoaded "snapshot-loaded" Info { snapshot: u64, rows: u64, bytes: u64, duration: Duration }
        "snapshot {snapshot}: {rows} rows and {size:.1} MB loaded in {seconds:.3} s ({speed:.0} MB/s)",
        size = megabytes(*bytes), seconds = duration.as_secs_f64(), speed = rate(*bytes, *duration) / 1e6;
    Recovered "recovered" Info {
        transactions: u64, row_changes: u64, schema_changes: u64, log_bytes: u64, first_segment: u64,
        last_segment: u64, replay: Duration, threads: usize, total: Duration,
    }
        "recovered {transactions} transactions ({row_changes} row changes) and {schema_changes} schema changes from \
         {size:.1} MB of log, segments {first_segment} to {last_segment}, in {seconds:.3} s ({speed:.0} row changes/s per \
         thread, {threads} thread{plural}); {total:.3} s in all",
        size = megabytes(*log_bytes), seconds = replay.as_secs_f64(), plural = plural(*threads),
        speed = rate(*row_changes, *replay) / (*threads).max(1) as f64, total = total.as_secs_f64();
    OlderSnapshotUsed "older-snapshot-used" Warn { snapshot: u64, reason: String }
        "snapshot {snapshot} is damaged: an older snapshot and more of the log were used, and the damaged one was left as \
         it is ({reason})";
    IncompleteWriteCut "incomplete-write-cut" Info { bytes: u64 }
        "cut off {bytes} bytes of an incomplete write at the end of the redo log. A crash leaves such a write. It was not \
         acknowledged, unless the server ran with durability interval or none; everything known to be durable was \
         recovered";
    UncleanShutdown "unclean-shutdown" Info
        "the previous server did not shut down cleanly; everything known to be durable was recovered";
    LossWithoutRedo "loss-without-redo" Warn { reason: String }
        "{reason}";
    RestoreLeftovers "restore-leftovers" Warn { reason: String }
        "the remains of an interrupted restore cannot be dropped: {reason}";
    SchemaWarning "schema-warning" Warn { warning: String }
        "{warning}";
    FirstSchemaFailed "first-schema-failed" Error { reason: String }
        "{reason}";
    CannotRun "routines-cannot-run" Warn { kind: &'static str, name: String, others: usize, reason: String }
        "{kind} {name}{others} cannot run on this node: {reason}", others = and_others(*others);
    ReleaseNotRecorded "release-not-recorded" Warn { reason: String }
        "this release cannot be recorded in the directory, so an earlier release would open it: {reason}; move that \
         folder away";

    // Log, snapshots, backups.

    LogFailed "log-failed" Error { reason: String }
        "{reason}";
    LogWaitsForFiles "log-waits-for-files" Warn { reason: String }
        "the redo log waits, and writes wait with it, until it can open a file: {reason}";
    LogHasFiles "log-has-files" Info
        "the redo log can open files again: writes continue";
    SnapshotTaken "snapshot-taken" Info {
        snapshot: u64, rows: u64, bytes: u64, writing: Duration, verifying: Duration, segments_removed: usize,
    }
        "snapshot {snapshot}: {rows} rows, {size:.1} MB, written in {writing:.3} s, read back in {verifying:.3} s, \
         {segments_removed} log segment{plural} removed",
        size = megabytes(*bytes), writing = writing.as_secs_f64(), verifying = verifying.as_secs_f64(),
        plural = plural(*segments_removed);
    OldFilesNotRemoved "old-files-not-removed" Warn { snapshot: u64, reason: String }
        "snapshot {snapshot} is complete, but the files it replaces could not be removed: {reason}";
    SnapshotFailed "snapshot-failed" Error { reason: String }
        "no snapshot was taken: {reason}";
    BackupFailed "backup-failed" Error { reason: String }
        "{reason}";

    // Clients, procedures, tasks.

    Note "note" Info { text: String }
        "note: {text}";
    Paused "paused" Info
        "the database is paused: clients may read, and only administrators may write (@Resume ends it)";
    Resumed "resumed" Info
        "the database is resumed";
    ClientsTrusted "clients-trusted" Warn { address: SocketAddr }
        "clients are trusted (--trust-clients): any client that reaches {address} may load classes, which is to run code \
         with the server's rights, write backups and stop the server";
    ClientPortOpen "client-port-open" Info { address: SocketAddr, admin: Option<SocketAddr> }
        "{address} is open to other machines{rest}",
        rest = match admin {
            Some(admin) => format!(
                ": classes, backups and shutdown are accepted on the administration port only, {admin} (--trust-clients: \
                 from every client)"
            ),
            None => ", and there is no administration port: classes, backups and shutdown are refused (--admin-listen \
                     127.0.0.1:21211: accepted there; --trust-clients: from every client)".to_owned(),
        };
    AdminPortOpen "admin-port-open" Warn { address: SocketAddr }
        "the administration port is open to other machines: any client that reaches {address} may load classes, which is \
         to run code with the server's rights, write backups and stop the server";
    UserNotChecked "user-not-checked" Warn { user: String }
        "a client has logged in as user {user:?}: there are no users yet, so names and passwords are not checked, and \
         every client may do everything";
    ConnectionsLimited "connections-limited" Warn { most: usize, files: usize }
        "at most {most} connections are accepted: the process may open {files} files (ulimit -n), and needs some for the \
         log and administrators";
    ConnectionsFull "connections-full" Warn { open: usize }
        "{open} connections are open, which is the limit (--limit connections, and ulimit -n): more are refused";
    ConnectionsNotAccepted "connections-not-accepted" Warn { reason: String }
        "no connection can be accepted: {reason}; new connections wait until others are closed";
    AnswersNotRead "answers-not-read" Warn { peer: String, bytes: usize, for_memory: bool }
        "a connection from {peer} was closed: it has not read {bytes} bytes of its answers{why}",
        why = if *for_memory { ", and others wait for memory" } else { "" };
    ClientMemoryShort "client-memory-short" Warn { bytes: usize, most: usize }
        "{bytes} bytes are held for clients, of {most} (a quarter of --memory-limit) or of what the tables leave: \
         connections wait, and those that make no progress are closed";
    CallsOutstanding "calls-outstanding" Warn { calls: usize, bytes: usize }
        "{calls} calls of {bytes} bytes are outstanding, which is the limit (--limit node-outstanding-calls, \
         node-outstanding-bytes): connections wait";
    TaskFailed "task-failed" Warn { task: String, reason: String }
        "task {task}: {reason}";
    TaskFailsAgain "task-fails-again" Warn { task: String, reason: String, times: u64 }
        "task {task}: {reason} ({times} in the last minute)", times = times_more(*times);
    TaskFailsOtherwise "task-fails-otherwise" Warn { task: String, calls: u64 }
        "task {task}: {calls} more calls failed in the last minute, for other reasons";
    TaskStopped "task-stopped" Error { task: String, reason: String }
        "task {task} is stopped: {reason}";

    // Memory and disk.

    DataFillMemory "data-fill-memory" Warn { bytes: usize }
        "the data take {bytes} bytes, all that --memory-limit allows: new rows are refused until some are deleted";
    CopyBeyondMemory "copy-beyond-memory" Warn
        "this copy has reached its memory limit and grows beyond it: the leader refuses rows until there is room. Start \
         this node with a higher --memory-limit or more memory, or delete rows";
    DiskSpaceUnknown "disk-space-unknown" Warn { reason: String }
        "{reason}: whether the disk is nearly full is unknown";
    DiskLow "disk-low" Warn { free: u64, reserve: u64, role: &'static str }
        "the disk has {free} bytes free, less than the reserve of {reserve} (--disk-reserve): {effect}",
        effect = match *role {
            "leader" => "writes are refused until there is more",
            "copy" => "this node continues to write as a copy, and leaves its group when its log cannot be written. Free \
                       disk space",
            _ => "this node leads no group and has no copy at the moment; it needs room to take one over. Free disk space",
        };
    DiskFree "disk-free" Info { free: u64, accepts_writes: bool }
        "the disk has {free} bytes free again{effect}",
        effect = if *accepts_writes { ": writes are accepted" } else { "" };

    // Founding a cluster, joining it, starting as one of its nodes.

    WaitsForNodes "waiting-for-nodes" Info { nodes: Vec<String> }
        "waiting for {nodes}", nodes = nodes.join(", ");
    WaitsToJoin "waiting-to-join" Info { reason: String }
        "waiting for {reason}";
    WaitsForLeader "waiting-for-leader" Info { nodes: String }
        "waiting for a leader of the partitions{nodes}", nodes = after_colon(nodes);
    WaitsForMajority "waiting-for-majority" Info { nodes: Vec<String> }
        "waiting for a majority of the cluster's voters{nodes}", nodes = after_colon(&nodes.join(", "));
    AsksToJoin "asking-to-join" Info { hosts: String }
        "asking {hosts} to take this node into their cluster";
    JoinsAsNew "joining-as-new-node" Info { host: String }
        "the cluster was founded with another directory at {host}: joining as a new node";
    InCluster "in-cluster" Info { node: NodeId, cluster: String, nodes: usize }
        "node {node} in cluster {cluster} of {nodes} node{plural}", plural = plural(*nodes);
    FoundsFromDatabase "founding-from-database" Info { dir: PathBuf }
        "{dir} contains a database, with which the cluster will start: reading it first", dir = dir.display();
    NodeMisplaced "node-misplaced" Warn { host: String, claims: String, expected: u32 }
        "what answers at {host} says that it is {claims}: it was started as that node, or with a copy of its directory. \
         Start it as node {expected}, with an empty directory";
    OptionsDiffer "options-differ" Error { first: String, of_first: String, second: String, of_second: String }
        "{first} was started with {of_first}, and {second} with {of_second}: start one of them again with the options of \
         the other";
    NoCluster "nodes-make-no-cluster" Error { reason: String }
        "these nodes make no cluster: {reason}";
    NeedsWitnesses "cluster-needs-witnesses" Warn { witnesses: u32, nodes: u32, reason: String }
        "with these options there will be a cluster only if {witnesses} of the {nodes} nodes {are} (ferrite witness), and \
         otherwise none: {reason}", are = if *witnesses == 1 { "is a witness" } else { "are witnesses" };
    OptionsIgnored "cluster-options-ignored" Warn { dir: PathBuf, hosts: String, kfactor: u32 }
        "{dir} belongs to a cluster founded with --cluster {hosts} --kfactor {kfactor}, which cannot change: the options \
         given now are ignored", dir = dir.display();
    PartitionsIgnored "partitions-ignored" Warn { partitions: u32, asked: u32 }
        "this cluster has {partitions} partitions, which cannot change: --partitions {asked} is ignored";
    SchemaNotFollowed "schema-not-followed" Warn { group: GroupId, reason: String }
        "group {group} has not made the last schema change, and is told again until it has: {reason}";
    LotUndecided "lot-undecided" Warn { group: GroupId, seconds: u64, missing: String }
        "for {seconds} s group {group} has not known whether a transaction over several groups took place: nothing is \
         heard from {missing}. Calls to its partitions wait for the outcome";
    LotDecided "lot-decided" Info { group: GroupId, seconds: u64 }
        "after {seconds} s group {group} knows again how transactions over several groups ended: calls to its partitions \
         are executed";
    LayoutIgnored "layout-ignored" Warn { layout: String, asked: u32 }
        "this cluster was founded with {layout}, which cannot change: --partitions-per-node {asked} is ignored";
    RackIgnored "rack-ignored" Warn { rack: String, asked: String }
        "this node is in {rack}, by which its groups were placed, and stays there: --rack {asked} is ignored";
    ListensElsewhere "listens-elsewhere" Warn { host: String, address: SocketAddr }
        "other nodes look for this one at {host}, where nothing answers, and it listens on {address}. Start it with its \
         earlier --cluster-listen, or have connections to {host} passed on to it: in the cluster, a node keeps the name \
         or address by which it was founded or has joined";
    OnlyLocalClients "only-local-clients" Warn { address: SocketAddr }
        "clients on other machines cannot reach this node: it listens on {address}, and the other nodes pass that address \
         on to clients. To change that, start it with --listen 0.0.0.0:{port}", port = address.port();
    NameUnknown "host-name-unknown" Warn { host: String }
        "{host} has no known address: this machine cannot resolve the name, or not yet";
    NotOfThisCluster "not-a-node-of-this-cluster" Warn { host: String, reason: String }
        "what answers at {host} is not a node of this cluster: {reason}";
    AnswerUnusable "founding-answer-unusable" Warn { host: String, reason: String }
        "{host} sent an answer that cannot be used: {reason}";
    QuestionUnreadable "founding-question-unreadable" Warn { reason: String }
        "a question from another node cannot be read: {reason}";
    JoinsOtherCluster "joins-other-cluster" Warn
        "a node that is joining another cluster asked this one, and was refused";
    NodesNotRecorded "nodes-not-recorded" Warn { reason: String }
        "the nodes of the cluster cannot be recorded for the next start: {reason}";

    // Votes and metadata.

    VoteGone "vote-gone" Warn { dir: PathBuf }
        "{dir} is gone, and with it what this node had voted: it gets a new vote from the others", dir = dir.display();
    VoteUnusable "vote-unusable" Warn { reason: String }
        "{reason}. These files are put aside, and this node gets a new vote from the others";
    VoteTaken "vote-taken" Info
        "another node has voted in this node's place since it last ran: it gets a new vote if one is needed";
    CannotVote "cannot-vote" Error { reason: String }
        "this node cannot vote: {reason}";
    VotesAgain "votes-again" Info
        "this node votes again";
    VoteNotPutAside "vote-not-put-aside" Error { reason: String }
        "the record of this node's votes cannot be put aside: {reason}";
    MetadataUnusable "metadata-message-unusable" Warn { node: NodeId, reason: String }
        "node {node} sent metadata that cannot be used: {reason}";

    // Groups: leadership and members.

    Leads "leads" Info { group: GroupId, epoch: Epoch }
        "this node leads group {group} from epoch {epoch}";
    LeadEnded "lead-ended" Info { group: GroupId }
        "this node no longer leads group {group}";
    KeptBy "members" Info { group: GroupId, nodes: Vec<NodeId>, leader: NodeId, epoch: Epoch, stale: bool }
        "{was}group {group} is kept by {count} node{plural}: {all}, led by node {leader} (epoch {epoch})",
        was = as_known(*stale), count = nodes.len(), plural = plural(nodes.len()), all = all_of(nodes);
    ChoosesLeader "choosing-leader" Warn { group: GroupId, last: NodeId, stale: bool }
        "{was}group {group} is choosing a leader; node {last} led it last", was = as_known(*stale);
    LossAccepted "loss-accepted" Error { group: GroupId, node: NodeId, epoch: Epoch, stale: bool }
        "{was}LOSS ACCEPTED by an operator: node {node} leads group {group} from epoch {epoch} with what it has. What \
         others acknowledged beyond that is lost", was = as_known(*stale);
    GroupUnequal "group-unequal" Error { group: GroupId }
        "group {group} continues from an older copy than other groups. Its copies of replicated tables are neither \
         read nor changed until they are equal to those of the other groups; the node that leads group 0 makes them equal";
    GroupEqual "group-equal" Info { group: GroupId }
        "the copies of replicated tables in group {group} are equal to those of the other groups";
    MadeEqual "tables-made-equal" Warn { source: GroupId, rows: u64 }
        "copies of replicated tables were made equal to those of group {source}: {rows} rows were deleted or inserted, in all \
         partitions together";
    NotMadeEqual "tables-not-made-equal" Error { groups: Vec<GroupId>, reason: String }
        "the copies of replicated tables in {which} cannot be compared with those of other groups and made equal: {reason}. \
         The node tries again every second",
        which = groups_of(groups);
    HandedOver "handed-over" Info { group: GroupId, node: NodeId }
        "this node has handed group {group} over to node {node}";
    NotHandedOver "not-handed-over" Warn { group: GroupId, reason: String }
        "group {group} was not handed over: {reason}";
    GivesWayForJava "gives-way-for-java" Warn { node: NodeId }
        "procedures cannot run on this node: handing leadership over to node {node}, which can run them";
    GivesWayForRoom "gives-way-for-room" Warn { node: NodeId }
        "the disk of this node has little room left: handing leadership over to node {node}, which has more. Free disk space \
         here: a copy whose log cannot be written leaves the group";
    CutOff "cut-off" Warn { group: GroupId, dispensable: bool }
        "{reached}: it gives up leadership of group {group}",
        reached = if *dispensable {
            "this node cannot reach a majority of the voters, which could let another node lead"
        } else {
            "this node can reach neither a majority of the voters nor all members"
        };
    NoMajority "no-majority" Warn { missing: String }
        "this node cannot reach a majority of the voters, so no leader can be chosen: {missing}";
    MajorityReached "majority-reached" Info
        "this node reaches a majority of the voters again";
    LogStalled "log-stalled" Warn { group: GroupId }
        "this node's log makes no progress: it gives up leadership of group {group}";
    LogMoves "log-progresses" Info
        "this node's log makes progress again";
    PromiseFailed "promise-failed" Error { group: GroupId, epoch: Epoch, reason: String }
        "this node cannot promise epoch {epoch} of group {group}: {reason}";
    TakesNoPart "takes-no-part" Error { group: GroupId }
        "this node does not take part in group {group} until it is started again";
    NodeEnds "node-ends" Error { reason: String }
        "this node stops: {reason}";
    DecidesLeader "deciding-leader" Warn { group: GroupId, node: NodeId }
        "group {group} has no leader yet: node {node} has everything that was acknowledged, and leads once the voters have \
         decided that";
    AwaitsMembers "awaiting-members" Error {
        group: GroupId, epoch: Epoch, away: Vec<String>, incomplete: Vec<NodeId>, loss_offered: bool,
        latest: Option<NodeId>,
    }
        "group {group} {words}{loss}",
        words = awaited(epoch.0, away, incomplete), loss = accept_loss(*loss_offered, *latest);
    DurabilitiesDiffer "durabilities-differ" Warn { node: NodeId, other: String, own: String }
        "node {node} runs with --durability {other}, and this node with --durability {own}: what is acknowledged is only \
         as durable as the weaker of the two. Start one of them again with the setting of the other";

    // Copies.

    CopyDamaged "copy-damaged" Error { damage: String }
        "{damage}. Asking the other nodes of the cluster whether this copy is needed";
    CopyPutAside "copy-put-aside" Warn { reason: String }
        "this node's copy is unusable; {reason}";
    CopyUnusable "copy-unusable" Error { group: GroupId, reason: String }
        "this node's copy of group {group} is unusable and must be rebuilt: {reason}";
    CopyDiverged "copy-diverged" Error { group: GroupId, node: NodeId }
        "node {node} has entries in group {group} that its leader does not have: its copy must be rebuilt";
    CopyDiffers "copy-differs" Error { group: GroupId, node: NodeId, entry: Position }
        "the tables of node {node} differ from this leader's at entry {entry} of group {group}: the node is removed from \
         the members, and its copy must be rebuilt";
    MarkNotWritten "unsynced-mark-not-written" Error { reason: String }
        "whether this node's log has everything cannot be recorded: {reason}";
    EntryTooLarge "entry-too-large" Warn { group: GroupId, entry: Position, node: NodeId }
        "entry {entry} of group {group} is larger than a message: node {node} gets a snapshot";
    LogNotRead "log-not-read" Warn { node: NodeId, reason: String }
        "the log cannot be read for node {node}, which gets a snapshot instead: {reason}";
    SnapshotSent "snapshot-sent" Info { node: NodeId }
        "node {node} has received this node's snapshot";
    SnapshotUnanswered "snapshot-unanswered" Warn { node: NodeId }
        "node {node} does not take this node's snapshot: it does not answer";
    SnapshotRefused "snapshot-refused" Warn { node: NodeId, reason: String }
        "node {node} does not take this node's snapshot: {reason}";
    SnapshotNotSent "snapshot-not-sent" Warn { node: NodeId, reason: String }
        "no snapshot can be sent to node {node}: {reason}";
    SnapshotNotSendable "snapshot-not-sendable" Warn { snapshot: u64, reason: String }
        "snapshot {snapshot} cannot be sent: {reason}";
    NoSnapshotForOthers "no-snapshot-for-others" Warn { reason: String }
        "no snapshot for another node could be taken: {reason}";
    SnapshotMessageUnusable "snapshot-message-unusable" Warn { node: NodeId, reason: String }
        "node {node} sent a part of a snapshot that cannot be used: {reason}";
    SnapshotNotReceived "snapshot-not-received" Warn { reason: String }
        "the snapshot of another node cannot be received: {reason}";
    SnapshotReceived "snapshot-received" Info { snapshot: u64, begins: bool }
        "snapshot {snapshot} of another node has been received; {becomes}",
        becomes = if *begins { "this node begins with it" } else { "it replaces this node's copy" };
    SnapshotNotInstalled "snapshot-not-installed" Warn { reason: String }
        "the snapshot of another node was not installed: {reason}";
    SnapshotFilesLeft "snapshot-files-left" Warn { reason: String }
        "files of another node's snapshot cannot be removed: {reason}";

    // Connections between nodes.

    PeerNotConnecting "peer-not-connecting" Warn { node: NodeId, address: SocketAddr, reason: String }
        "node {node} ({address}) does not connect: {reason}";
    PeerRefused "peer-refused" Warn { node: NodeId, ip: IpAddr, reason: String }
        "a connection from {ip} that claims to be node {node} was refused: {reason}";
    NotAPeer "not-a-peer" Warn { ip: IpAddr }
        "a connection from {ip} is not from a node, and was closed";
    PeerUnintelligible "peer-unintelligible" Warn { node: Option<NodeId>, ip: IpAddr, reason: String }
        "{from} sent bytes that make no sense: {reason}",
        from = node.map_or_else(|| ip.to_string(), |node| format!("node {node} ({ip})"));
    PeerMessageUnusable "peer-message-unusable" Warn { node: NodeId, reason: String }
        "node {node} sent a message that cannot be used: {reason}";
    MessageTooLarge "message-too-large" Error { node: NodeId, kind: String, bytes: usize, most: usize }
        "a message for node {node} ({kind}) of {bytes} bytes is not sent: a message has at most {most}";
}

impl Notice {
    /// Lines that belong below the text: where in the code it happened.
    pub fn trace(&self) -> Option<&str> {
        match self {
            Notice::InternalFault { backtrace, .. } => Some(backtrace),
            Notice::JavaExits { stack }
            | Notice::JavaCallLong { stack, .. }
            | Notice::JavaCodeRemains { stack, .. } => Some(stack),
            _ => None,
        }
    }
}
