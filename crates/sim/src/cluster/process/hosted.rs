//! What a process has of one group: what executes its calls, its copy, its stream, its snapshots,
//! and the ways in.

use super::{Partitions, lock};
use crate::clients::Doors;
use crate::cluster::copying::Copying;
use crate::cluster::process::outside::Held;
use crossbeam_channel::Receiver;
use ferrite_base::{Epoch, GroupId};
use ferrite_cluster::Node;
use ferrite_group::{Replication, Supplier};
use ferrite_partition::applier::Applier;
use ferrite_partition::commit::Completion;
use ferrite_partition::coordinator::Coordinator;
use ferrite_partition::long_read::LongRead;
use ferrite_partition::thread::Partition;
use ferrite_table::Store;
use std::sync::{Arc, Mutex, MutexGuard};

pub struct HostedGroup {
    // First, as it ends before the others do.
    pub(super) coordinator: Coordinator,
    pub(super) partitions: Arc<Mutex<Partitions>>,
    pub(super) applier: Option<Applier>,
    pub copying: Copying,
    pub replication: Arc<Replication<Completion>>,
    pub(super) supplier: Supplier<Completion>,
    pub(super) reads: Receiver<LongRead>,
    pub doors: Doors,
    /// Its copy applies nothing before that, by the process's clock.
    pub applies_from: u64,
    pub held: Arc<Held>,
    /// The epoch in which its partitions take calls.
    pub serves: Option<Epoch>,
}

/// The stores of a group, while they are looked at.
pub struct HeldStores<'g>(MutexGuard<'g, Partitions>);

impl HeldStores<'_> {
    /// None: one is not at home.
    pub fn all(&self) -> Option<Vec<&Store>> {
        self.0.all.iter().map(Partition::store).collect()
    }
}

impl HostedGroup {
    pub fn id(&self) -> GroupId {
        self.replication.id()
    }

    pub fn version(&self) -> u64 {
        lock(&self.doors.compiled).catalog.version.0
    }

    /// All stores are at home.
    pub fn with_stores<T>(&self, look: impl FnOnce(&[&Store]) -> T) -> Option<T> {
        self.stores().all().map(|stores| look(&stores))
    }

    pub fn stores(&self) -> HeldStores<'_> {
        HeldStores(lock(&self.partitions))
    }

    /// Its copy shows what the log does not have yet.
    pub fn is_ahead_of_log(&self, node: &Node) -> bool {
        node.intake(self.id()).is_some_and(|copy| copy.applied() > self.replication.durable())
    }
}
