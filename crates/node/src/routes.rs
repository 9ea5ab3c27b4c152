//! Where calls go: the partition that a value belongs to, the inboxes of partitions and of the
//! coordinator.
//!
//! The one place that knows which thread executes a partition's calls. A node leads all partitions
//! or none; while it leads none, dispatch passes calls to the thread that forwards (`away` in
//! `dispatch.rs`). Where a node leads some of them only, this becomes a table that is read once a
//! turn, as the catalog is.

use crossbeam_channel::Sender;
use ferrite_base::PartitionId;
use ferrite_partition::coordinator::Job;
use ferrite_partition::{CallBatch, Event, Ran, Seat};
use ferrite_value::ring::Ring;

pub struct Routes {
    pub ring: Ring,
    partitions: Vec<Sender<Event>>,
    seats: Box<[Seat]>,
    coordinator: Sender<Job>,
}

/// The thread has ended, which it does only when the server stops.
#[derive(Debug)]
pub struct Ended;

impl Routes {
    pub fn new(ring: Ring, partitions: Vec<Sender<Event>>, coordinator: Sender<Job>) -> Routes {
        let seats = partitions.iter().map(|_| Seat::default()).collect();
        Routes { ring, partitions, seats, coordinator }
    }

    /// The ways to the partitions' threads, in their order.
    pub fn partition_inboxes(&self) -> &[Sender<Event>] {
        &self.partitions
    }

    pub fn coordinator_inbox(&self) -> &Sender<Job> {
        &self.coordinator
    }

    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        (0..self.partitions.len() as u32).map(PartitionId)
    }

    #[inline]
    pub fn to_partition(&self, partition: PartitionId, event: Event) -> Result<(), Ended> {
        self.partitions[partition.index()].send(event).map_err(|_| Ended)
    }

    /// Where a partition rests when it is idle.
    #[inline]
    pub fn seat(&self, partition: PartitionId) -> &Seat {
        &self.seats[partition.index()]
    }

    /// Runs a batch of short calls at once, if the partition is idle.
    ///
    /// # Errors
    /// It is not: the batch goes to [`Self::to_partition`].
    pub fn run_here(&self, partition: PartitionId, batch: CallBatch) -> Result<(), CallBatch> {
        if self.seat(partition).run(batch)? == Ran::ThreadIsWanted {
            // It has ended only when the server stops.
            let _ = self.to_partition(partition, Event::Wake);
        }
        Ok(())
    }

    #[inline]
    pub fn to_coordinator(&self, job: Job) -> Result<(), Ended> {
        self.coordinator.send(job).map_err(|_| Ended)
    }
}
