//! What executes a group's calls on one machine, put together: a partition for each store, with its
//! gate, and the coordinator that borrows the stores.
//!
//! The one place where that is wired, for the server, the simulator and the tests. Owns nothing
//! afterwards: the caller has threads run the parts, or steps them.

use crate::commit::Completion;
pub use crate::coordinator::WithoutLog;
use crate::coordinator::{Borrower, Coordinator, Job};
use crate::gate::{Gate, SharedFailure};
use crate::long_read::{Home, LongReads};
use crate::lots::LotLinks;
use crate::schema::SchemaHistory;
use crate::thread::{Partition, Start};
use crate::{Compiled, Event, RowCounts};
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{CallLimits, GroupPartitions, Sequence};
use ferrite_group::GroupAppender;
use ferrite_io::Clock;
use ferrite_table::Store;
use std::sync::Arc;

/// A partition's inbox, and the way into it.
pub type PartitionEnds = (Sender<Event>, Receiver<Event>);

/// Channels to as many partitions.
pub fn partition_ends(count: usize) -> Vec<PartitionEnds> {
    (0..count).map(|_| unbounded()).collect()
}

/// What the parts are made of.
pub struct Assembly {
    /// Which partitions they are.
    pub of: GroupPartitions,
    /// One for each store.
    pub partitions: Vec<PartitionEnds>,
    /// The coordinator's inbox.
    pub jobs: Receiver<Job>,
    pub long_reads: LongReads,
    pub stores: Vec<Store>,
    /// The last sequence number of each partition.
    pub sequences: Vec<Sequence>,
    pub compiled: Arc<Compiled>,
    pub history: SchemaHistory,
    pub group: GroupAppender<Completion>,
    pub failure: SharedFailure,
    pub clock: Arc<dyn Clock>,
    /// What one call may take.
    pub limits: CallLimits,
    /// Where partitions say how many rows they have.
    pub counts: Arc<RowCounts>,
    /// Receives every new catalog version before anything is routed with it.
    pub publish: Box<dyn Fn(Arc<Compiled>) + Send>,
    /// They take no calls before they are promoted.
    pub is_copy: bool,
    /// With durability memory.
    pub without_log: Option<WithoutLog>,
    /// For transactions over groups; None where there is one.
    pub lots: Option<Arc<dyn LotLinks>>,
}

pub struct Executors {
    pub partitions: Vec<Partition>,
    pub coordinator: Coordinator,
    /// Of the partitions, and the coordinator's last.
    pub gates: Vec<Arc<Gate>>,
}

/// # Panics
/// If there are not as many inboxes and sequence numbers as stores, or these are not the group's.
pub fn assemble(assembly: Assembly) -> Executors {
    let Assembly { of, stores, sequences, compiled, group, failure, clock, limits, counts, long_reads, .. } = assembly;
    assert_eq!((stores.len(), stores.len()), (sequences.len(), assembly.partitions.len()), "a partition has all three");
    assert!(
        stores.iter().map(Store::partition).eq(of.ids()),
        "a group is assembled of the stores of its own partitions"
    );
    assert_eq!(group.id(), of.group(), "a group's changes go to its own stream");
    let long_reads = long_reads.of_group(group.id());
    let mut gates = Vec::new();
    let mut borrowers = Vec::new();
    let mut partitions = Vec::new();
    let starts = stores.into_iter().zip(sequences).zip(assembly.partitions);
    for ((store, sequence), (sender, inbox)) in starts {
        let gate = Gate::new(sequence, Arc::clone(&failure));
        gates.push(Arc::clone(&gate));
        let start = Start {
            id: store.partition(),
            store,
            compiled: Arc::clone(&compiled),
            sequence,
            limits,
            counts: Arc::clone(&counts),
            long_reads: long_reads.at(Home::Partition(sender.clone())),
        };
        borrowers.push(Borrower::new(sender, Arc::clone(&gate)));
        let partition = Partition::new(start, inbox, gate, group.clone(), Arc::clone(&clock));
        let partition = if assembly.is_copy { partition.as_copy() } else { partition };
        partitions.push(match &assembly.without_log {
            Some(without) => partition.without_log(Arc::clone(&without.unlogged)),
            None => partition,
        });
    }
    let gate = Gate::new(Sequence(0), failure);
    gates.push(Arc::clone(&gate));
    let jobs = assembly.jobs;
    let publish = assembly.publish;
    let coordinator = Coordinator::new(jobs, of, borrowers, compiled, publish, gate, group, clock, limits, long_reads)
        .with_history(assembly.history);
    let coordinator = if assembly.is_copy { coordinator.as_copy() } else { coordinator };
    let coordinator = match assembly.lots {
        Some(links) => coordinator.with_lots(links),
        None => coordinator,
    };
    let coordinator = match assembly.without_log {
        Some(without) => coordinator.without_log(without),
        None => coordinator,
    };
    Executors { partitions, coordinator, gates }
}
