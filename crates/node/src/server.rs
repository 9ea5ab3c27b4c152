//! A running node, as its owner (the caller of `start.rs`) sees it.

use crate::administration::Shutdown;
use crate::plan_cache::PlanCache;
use crate::stop::{self, Ending, Insist, Insistence, Stopped};
use ferrite_base::NodeId;
use ferrite_log::LogFailed;
use ferrite_member::Running;
use ferrite_member::forward::Forward;
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::recovery::Summary;
use ferrite_system::Identity;
use ferrite_system::plans::PlanCacheStatistics;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Dropping it without [`Server::stop`] leaves its threads running.
pub struct Server {
    pub(crate) identity: Arc<Identity>,
    pub(crate) partition_count: usize,
    pub(crate) plan_cache: Arc<PlanCache>,
    pub(crate) recovery: Arc<Summary>,
    pub(crate) shutdown: Arc<Shutdown>,
    pub(crate) log: DatabaseLog,
    /// None: a server without others.
    pub(crate) cluster: Option<(Running, Forward)>,
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

    /// Sets what `@Shutdown` does, and a node of a cluster that must end: ask this server's owner
    /// to stop it, at once if the request came before this. Without, `@Shutdown` is refused.
    pub fn on_shutdown(&self, stop: impl Fn() + Send + Sync + 'static) {
        self.shutdown.set(stop);
    }

    pub fn recovery(&self) -> &Summary {
        &self.recovery
    }

    /// Which node of its cluster this is.
    pub fn node(&self) -> Option<NodeId> {
        self.cluster.as_ref().map(|(cluster, _)| cluster.node_status().here())
    }

    /// Why this node of a cluster must end, if that is so.
    pub fn must_end(&self) -> Option<String> {
        self.cluster.as_ref().and_then(|(cluster, _)| cluster.ended())
    }

    /// It must end because its copy is given up: its owner may start it again at once, and it gets
    /// everything from the leader.
    pub fn begins_anew(&self) -> bool {
        self.cluster.as_ref().is_some_and(|(cluster, _)| cluster.begins_anew())
    }

    /// The owner of this may request, now or later, that [`Server::stop`] shall not wait for calls.
    pub fn insist(&self) -> Insist {
        self.insistence.handle()
    }

    /// Answers what was taken, makes everything durable, ends. What takes longer than the settings
    /// allow is interrupted, and what waits is not executed.
    ///
    /// Where this node leads others, one of them leads before.
    pub fn stop(mut self) -> Result<Stopped, LogFailed> {
        let began = Instant::now();
        self.ending.connections.end();
        if let Some((cluster, forward)) = &self.cluster {
            cluster.ends();
            stop::hand_over(cluster, forward, self.ending.time_max, &self.insistence);
            forward.ends();
            self.ending.time_max = self.ending.time_max.saturating_sub(began.elapsed());
        }
        let stopped = stop::stop(self.log, self.ending, self.insistence)?;
        if let Some((cluster, _)) = &self.cluster {
            cluster.closed();
        }
        Ok(stopped)
    }
}
