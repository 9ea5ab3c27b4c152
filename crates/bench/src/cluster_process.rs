//! A cluster of processes on this machine that is started for a load, and ends with it.

use crate::cluster::{Cluster, ClusterCommand, Membership};
use crate::error::{BenchResult, Doing};
use crate::options::TargetOptions;
use crate::process::{Usage, usage};
use std::path::Path;
use tempfile::TempDir;

pub struct ClusterProcess {
    // Before the directory: the processes end first.
    cluster: Cluster,
    /// When the cluster was started.
    keepers: Membership,
    kfactor: u32,
    partitions_per_node: Option<u32>,
    durability: Option<String>,
    _directory: TempDir,
}

impl ClusterProcess {
    /// Starts the nodes, and waits until K + 1 of them keep the data.
    pub fn start(executable: &Path, nodes: usize, target: &TargetOptions) -> BenchResult<ClusterProcess> {
        let directory = tempfile::Builder::new().prefix("ferrite-cluster-").tempdir();
        let directory = directory.doing("making a temporary directory")?;
        let mut cluster = Cluster::start(ClusterCommand {
            executable: executable.to_path_buf(),
            root: directory.path().to_path_buf(),
            nodes,
            kfactor: target.kfactor,
            durability: target.durability.clone(),
            partitions: target.partitions,
            partitions_per_node: target.partitions_per_node,
            power_loss: None,
            network: None,
            options: Vec::new(),
        })?;
        let keepers = cluster.await_copies(0)?;
        if target.partitions_per_node.is_some() {
            cluster.await_groups()?;
        }
        let kfactor = target.kfactor;
        let durability = target.durability.clone();
        let partitions_per_node = target.partitions_per_node;
        Ok(ClusterProcess { cluster, keepers, kfactor, partitions_per_node, durability, _directory: directory })
    }

    /// The nodes themselves, for whoever does something to them.
    pub fn nodes(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Where clients reach the node that led when the cluster was started or, if several lead, all
    /// nodes.
    pub fn addresses(&self) -> String {
        match self.leads_everywhere() {
            false => self.cluster.clients()[self.keepers.leader].clone(),
            true => self.cluster.clients().join(","),
        }
    }

    /// Every node leads some of the partitions.
    fn leads_everywhere(&self) -> bool {
        self.partitions_per_node.is_some()
    }

    pub fn description(&self) -> String {
        let durability = self.durability.as_deref().unwrap_or("as the server chooses");
        let count = self.cluster.count();
        let nodes = if count == 1 { "node" } else { "nodes" };
        let copies = self.partitions_per_node.map_or(String::new(), |copies| format!(", {copies} partitions per node"));
        format!("a cluster of {count} {nodes} on this machine, K = {}{copies}, durability {durability}", self.kfactor)
    }

    /// None where every node leads: no process is the one that answers clients.
    pub fn leader_usage(&self) -> Option<Usage> {
        if self.leads_everywhere() {
            return None;
        }
        usage(self.cluster.process(self.keepers.leader).id())
    }

    pub fn usage_by_node(&self) -> Vec<(String, Option<Usage>)> {
        let node = |place: usize| {
            let part = match () {
                () if place == self.keepers.leader || self.leads_everywhere() => "leads",
                () if self.keepers.members.contains(&place) => "keeps a copy",
                () => "votes",
            };
            (format!("node {}, {part}", place + 1), usage(self.cluster.process(place).id()))
        };
        (0..self.cluster.count()).map(node).collect()
    }

    pub fn stop(self) -> BenchResult<()> {
        self.cluster.stop_all()
    }
}
