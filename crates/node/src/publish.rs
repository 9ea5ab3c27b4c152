//! A new version of the catalog: who takes it up, and who is told.

use crate::mailbox::{Mail, NetworkMailbox};
use crate::message::{ExpiryNotice, TaskNotice};
use crate::plan_cache::PlanCache;
use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use ferrite_partition::Compiled;
use std::sync::Arc;

#[derive(Clone)]
pub struct Publisher {
    /// The catalog in force. Network threads look once a turn.
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub plan_cache: Arc<PlanCache>,
    pub expiry: Sender<ExpiryNotice>,
    pub tasks: Sender<TaskNotice>,
    pub network: Arc<[Arc<NetworkMailbox>]>,
}

impl Publisher {
    /// Makes a new catalog version the one that calls are routed with, and tells subscribers.
    pub fn publish(&self, compiled: Arc<Compiled>) {
        self.compiled.store(compiled);
        self.plan_cache.clear();
        // Gone only when the server stops.
        let _ = self.expiry.send(ExpiryNotice::CatalogChanged);
        let _ = self.tasks.send(TaskNotice::CatalogChanged);
        for mailbox in self.network.iter() {
            mailbox.send(Mail::CatalogChanged);
        }
    }
}
