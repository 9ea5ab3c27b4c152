//! The messages to a node's threads: the system, snapshot, expiry and task threads. Messages to
//! network threads are mail (`mailbox.rs`), partitions have events, the coordinator jobs.
//!
//! A leaf: the sender of a message need not know the thread that takes it.

use crossbeam_channel::Sender;
use ferrite_base::{CatalogVersion, GroupId, TableId};
use ferrite_member::SnapshotRequest;
use ferrite_partition::snapshots::Saved;
use ferrite_partition::{Compiled, Reply, Retry};
use ferrite_value::OwnedValue;

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
    /// A call that was compiled with another schema than its group has is looked up again.
    Stale {
        body: Vec<u8>,
        reply: Reply,
        versions: Versions,
    },
    /// The database is paused: this call is answered when all that was admitted before is executed
    /// and durable in the group of that place.
    Paused(usize, Reply),
    /// Says when the calls that came previously are on their way.
    Passed(Sender<()>),
    Stop,
}

/// Why a call is stale.
#[derive(Clone, Copy, Debug)]
pub struct Versions {
    /// What it was compiled with.
    pub used: CatalogVersion,
    pub of_group: CatalogVersion,
}

impl Versions {
    pub fn is_group_behind(self) -> bool {
        self.of_group < self.used
    }
}

/// How a call is sent back that was compiled with this schema. The system thread has ended only
/// when the server stops.
pub fn look_up_again(system: &Sender<SystemJob>, used: &Compiled, body: &[u8], reply: &Reply) -> Retry {
    let system = system.clone();
    let body = body.to_vec();
    let reply = reply.clone();
    let used = used.catalog.version;
    Box::new(move |group| {
        let versions = Versions { used, of_group: group.catalog.version };
        let _ = system.send(SystemJob::Stale { body, reply, versions });
    })
}

/// Called when the snapshot that was asked for is there, or with the reason why not.
pub type SaveCallback = Box<dyn FnOnce(Result<&Saved, &str>) + Send>;

/// For the snapshot thread.
pub enum SnapshotJob {
    /// One of this group is wanted.
    Save(GroupId, SaveCallback),
    /// From the cluster's threads, about the group.
    OfCluster(GroupId, SnapshotRequest),
    Stop,
}

/// For the expiry thread.
pub enum ExpiryNotice {
    CatalogChanged,
    /// A batch was answered; how many rows it deleted, where it did not fail.
    Answered {
        table: TableId,
        partition: u64,
        deleted: Option<u64>,
    },
    /// Of a table that all groups have: the newest time of a batch, if anything has expired. None:
    /// the question has failed.
    Bounded {
        table: TableId,
        newest: Option<Option<OwnedValue>>,
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
