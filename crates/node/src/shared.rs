//! What all threads of a node can see.

use crate::mailbox::NetworkMailbox;
use crate::plan_cache::PlanCache;
use crate::system::SystemJob;
use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use ferrite_log::LogStatistics;
use ferrite_partition::coordinator::Job;
use ferrite_partition::recovery::Summary;
use ferrite_partition::{Compiled, Event};
use ferrite_value::ring::Ring;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub struct Shared {
    /// The catalog in force. Network threads look once a turn.
    pub compiled: ArcSwap<Compiled>,
    pub partitions: Vec<Sender<Event>>,
    pub coordinator: Sender<Job>,
    pub system: Sender<SystemJob>,
    pub plan_cache: PlanCache,
    pub network: OnceLock<Vec<Arc<NetworkMailbox>>>,
    pub ring: Arc<Ring>,
    pub identity: Identity,
    pub log: Arc<LogStatistics>,
    pub recovery: Summary,
    pub started: Instant,
}

/// What this node says of itself.
pub struct Identity {
    pub host_id: i32,
    pub host_name: String,
    pub listen: SocketAddr,
    /// Milliseconds since 1970; with the address below it names the cluster (wire-protocol 2.2).
    pub cluster_start_ms: i64,
    pub leader_address: [u8; 4],
    pub build: String,
    pub version: &'static str,
    pub dir: PathBuf,
    pub durability: String,
}

impl Shared {
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// Makes a new catalog version the one that calls are routed with, and tells subscribers.
    pub fn publish(&self, compiled: Arc<Compiled>) {
        self.compiled.store(compiled);
        self.plan_cache.clear();
        for mailbox in self.network.get().into_iter().flatten() {
            mailbox.send(crate::mailbox::Mail::CatalogChanged);
        }
    }
}
