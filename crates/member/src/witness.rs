//! A node without data: it votes, so that of two nodes with data one continues when the other is
//! lost.

use crate::error::MemberError;
use crate::figures::Figures;
use crate::giving_way::Room;
use crate::join::{About, join};
use crate::node_status::NodeStatus;
use crate::options::ClusterOptions;
use crate::release;
use crate::running::{self, Running, Uses};
use crate::waits::Waits;
use ferrite_base::{GroupMap, Incarnation, NodeId, memory};
use ferrite_cluster::Lease;
use ferrite_group::Identity;
use ferrite_io::threads::{Starting, Threads};
use ferrite_io::{Clock, Disk, DiskLock, SystemClock};
use ferrite_log::Durability;
use ferrite_meta::Kind;
use ferrite_meta::founding::Partitions;
use ferrite_partition::commit::DatabaseLog;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct WitnessOptions {
    pub dir: PathBuf,
    pub disk: Arc<dyn Disk>,
    pub cluster: ClusterOptions,
}

/// Runs until [`Witness::stop`].
pub struct Witness {
    node: NodeId,
    threads: Threads,
    running: Running,
    _lock: Box<dyn DiskLock>,
}

impl Witness {
    /// Waits until it takes part in its cluster.
    pub fn start(options: WitnessOptions) -> Result<Witness, MemberError> {
        let WitnessOptions { dir, disk, cluster } = options;
        let about = About {
            disk: Arc::clone(&disk),
            dir: &dir,
            kind: Kind::Witness,
            durability: Durability::Sync,
            partitions: Partitions::Suggested(1),
            clients: Vec::new(),
            manner: None,
            waits: &Waits::default(),
            look: None,
            begins: None,
        };
        let failed = |error: &dyn std::fmt::Display| MemberError::Cluster(error.to_string());
        release::check(&*disk, &dir)?;
        let Some(mut joined) = join(&cluster, &about)? else {
            return Err(MemberError::Cluster(format!(
                "{} belongs to no cluster: name the witness's cluster with --cluster and --kfactor",
                dir.display()
            )));
        };
        let lock = DatabaseLog::lock(&*disk, &dir).map_err(|error| failed(&error))?;
        // Without a database, the directory has nothing that depends on groups.
        release::note(&*disk, &dir, &GroupMap::single(1))?;
        let known = Identity::read(&*disk, &dir).map_err(|error| failed(&error))?;
        let mut identity = known.expect("written when it joined");
        identity.incarnation = Incarnation(identity.incarnation.0 + 1);
        identity.write(&*disk, &dir).map_err(|error| failed(&error))?;
        joined.introduce(identity.incarnation);
        let node = joined.node;
        let mut starting = Starting::default();
        let peers = joined.leaving.hand_over();
        starting.0.ended_by(move || peers.stop());
        let began = Instant::now();
        let figures = move || Figures {
            uptime_seconds: began.elapsed().as_secs(),
            memory_bytes: memory::used() as u64,
            ..Figures::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        // It never leads.
        let lease = Lease::new(Arc::clone(&clock));
        let uses = Uses {
            disk,
            clock,
            node_status: Arc::new(NodeStatus::new(node, lease, Box::new(Room::default), Box::new(|_| {}))),
            // It looks at its status.
            stop: Arc::new(|| {}),
            figures: Box::new(figures),
        };
        let running = running::start_witness(&mut starting.0, joined, uses, identity)?;
        running.is_registered(&cluster.ends)?;
        Ok(Witness { node, threads: starting.succeeded(), running, _lock: lock })
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Waits this long, or until this process must end: why.
    pub fn ends_within(&self, time: Duration) -> Option<String> {
        self.running.node_status().wait(time, |seen| seen.ended.is_some());
        self.running.ended()
    }

    /// Says goodbye to the others.
    pub fn stop(mut self) {
        self.running.ends();
        self.threads.end();
    }
}
