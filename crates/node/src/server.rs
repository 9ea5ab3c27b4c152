//! A running node, as whoever started it (`start.rs`) sees it.

use crate::administration::Shutdown;
use crate::cluster::Running;
use crate::plan_cache::PlanCache;
use crate::stop::{self, Ending, Insist, Insistence, Stopped};
use ferrite_base::NodeId;
use ferrite_log::LogFailed;
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::recovery::Summary;
use ferrite_system::Identity;
use ferrite_system::plans::PlanCacheStatistics;
use std::net::SocketAddr;
use std::sync::Arc;

/// Dropping it without [`Server::stop`] leaves its threads running.
pub struct Server {
    pub(crate) identity: Arc<Identity>,
    pub(crate) partition_count: usize,
    pub(crate) plan_cache: Arc<PlanCache>,
    pub(crate) recovery: Arc<Summary>,
    pub(crate) shutdown: Arc<Shutdown>,
    pub(crate) log: DatabaseLog,
    /// None: a server without others.
    pub(crate) cluster: Option<Running>,
    pub(crate) ending: Ending,
    pub(crate) insistence: Insistence,
}

impl Server {
    pub fn address(&self) -> SocketAddr {
        self.identity.listen
    }

    /// The administration port, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.identity.admin_listen
    }

    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// How the plans of ad hoc statements are used.
    pub fn plan_cache(&self) -> PlanCacheStatistics {
        self.plan_cache.statistics()
    }

    /// Says what `@Shutdown` does: ask whoever runs this server to stop it. Without, `@Shutdown` is
    /// refused.
    pub fn on_shutdown(&self, stop: impl Fn() + Send + Sync + 'static) {
        let _ = self.shutdown.set(Box::new(stop));
    }

    pub fn recovery(&self) -> &Summary {
        &self.recovery
    }

    /// Which node of its cluster this is.
    pub fn node(&self) -> Option<NodeId> {
        self.cluster.as_ref().map(|cluster| cluster.standing().here())
    }

    /// Why this node of a cluster must end, if that is so.
    pub fn must_end(&self) -> Option<String> {
        self.cluster.as_ref().and_then(Running::ended)
    }

    /// Whoever has this may say, now or later, that [`Server::stop`] shall not wait for calls.
    pub fn insist(&self) -> Insist {
        self.insistence.handle()
    }

    /// Answers what was taken, makes everything durable, ends. What takes longer than the settings
    /// allow is interrupted, and what waits is not executed.
    pub fn stop(self) -> Result<Stopped, LogFailed> {
        let stopped = stop::stop(self.log, self.ending, self.insistence)?;
        if let Some(cluster) = &self.cluster {
            cluster.closed();
        }
        Ok(stopped)
    }
}
