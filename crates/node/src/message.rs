//! The messages to a node's threads: the system, snapshot, expiry and task threads. Messages to
//! network threads are mail (`mailbox.rs`), partitions have events, the coordinator jobs.
//!
//! A leaf: the sender of a message need not know the thread that takes it.

use ferrite_base::TableId;
use ferrite_partition::Reply;
use ferrite_partition::contents::ContentCut;
use ferrite_partition::snapshots::{Saved, Snapshots};
use std::time::Duration;

/// For the system thread.
pub enum SystemJob {
    /// A call's whole frame body; it has been parsed before, so it parses.
    Call {
        body: Vec<u8>,
        reply: Reply,
    },
    /// An ad hoc call that failed with a plan for many texts: its own plan, made from the text as
    /// it is written, says why.
    AsWritten {
        body: Vec<u8>,
        reply: Reply,
    },
    /// The database is paused: this call is answered when all that was admitted before is executed
    /// and durable.
    Paused(Reply),
    Stop,
}

/// Called when the snapshot that was asked for is there, or with the reason why not.
pub type Told = Box<dyn FnOnce(Result<&Saved, &str>) + Send>;

/// For the snapshot thread.
pub enum SnapshotJob {
    /// None: no caller waits.
    Save(Option<Told>),
    /// For another node: with a number above this one, and held with the log after it from then on.
    /// Called with the number.
    SaveFor(u64, Box<dyn FnOnce(Result<u64, String>) + Send>),
    /// What a copy's tables hold is to be hashed.
    Hash(Box<ContentCut>),
    /// The snapshots that are on their way to other nodes, or are read there: they stay, with the
    /// log after them.
    Hold(Vec<u64>),
    /// Another node's snapshot takes the place of what is here: done piece by piece, until it says
    /// that it is over. No snapshot is taken meanwhile.
    TakeIn(TakeIn),
    Stop,
}

/// Does the next piece of work with the node's own snapshots. None: it is over.
pub type TakeIn = Box<dyn FnMut(&mut Snapshots) -> Option<Duration> + Send>;

/// For the expiry thread.
pub enum ExpiryNotice {
    CatalogChanged,
    /// A batch was answered; how many rows it deleted, where it did not fail.
    Answered {
        table: TableId,
        partition: u64,
        deleted: Option<u64>,
    },
    Stop,
}

/// For the task thread.
pub enum TaskNotice {
    CatalogChanged,
    /// A call of the run with this number was answered; None: it succeeded.
    Answered {
        run: u64,
        failure: Option<String>,
    },
    Stop,
}
