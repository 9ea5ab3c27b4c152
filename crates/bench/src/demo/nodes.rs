//! The servers of a demo on several nodes: the leader is killed under load, and comes back.

use super::Shown;
use crate::cluster::{Cluster, ClusterCommand, Keepers};
use crate::error::{BenchResult, Doing};
use crate::options::DemoOptions;
use crate::session::{Environment, Session};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

const COPIES_BESIDE: u32 = 1;
/// Of a demo without an end.
const FIRST_KILL: Duration = Duration::from_secs(10);
/// Longer than anybody watches.
const EVER: Duration = Duration::from_secs(365 * 86_400);

pub struct Nodes {
    cluster: Cluster,
    /// Of the nodes; removed when this is dropped, behind the processes.
    _root: tempfile::TempDir,
}

impl Nodes {
    pub fn start(environment: &Environment, options: &DemoOptions, count: u32) -> BenchResult<Nodes> {
        let root = tempfile::Builder::new().prefix("ferrite-demo-").tempdir();
        let root = root.doing("making a temporary directory")?;
        let cluster = Cluster::start(ClusterCommand {
            executable: environment.executable.clone(),
            root: root.path().to_path_buf(),
            nodes: count as usize,
            kfactor: COPIES_BESIDE,
            durability: options.durability.clone(),
            partitions: None,
            power_loss: None,
            network: None,
            options: Vec::new(),
        })?;
        Ok(Nodes { cluster, _root: root })
    }

    /// A client of all nodes.
    pub fn session(&self) -> BenchResult<Session> {
        Session::to_cluster(self.cluster.client_options())
    }

    /// In words, who does what.
    pub fn description(&self) -> String {
        let keepers = self.cluster.keepers();
        format!(
            "{} processes on this machine; {}",
            self.cluster.count(),
            keepers.as_ref().map_or_else(String::new, kept)
        )
    }

    /// Kills the leader at half time and for each of `kills`, until no more can come, and says what
    /// comes of it.
    pub fn lose_leaders(
        &mut self,
        session: &Session,
        options: &DemoOptions,
        kills: &Receiver<()>,
        shown: &Shown,
    ) -> BenchResult<()> {
        let mut first = Some(if options.duration.is_zero() { FIRST_KILL } else { options.duration / 2 });
        let began = Instant::now();
        loop {
            let wait = first.map_or(EVER, |first| first.saturating_sub(began.elapsed()));
            match kills.recv_timeout(wait) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => first = None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.lose_leader(session, shown)?;
            // Whoever pressed the key more than once meant this one.
            while kills.try_recv().is_ok() {}
        }
    }

    fn lose_leader(&mut self, session: &Session, shown: &Shown) -> BenchResult<()> {
        let before = self.cluster.await_copies(0)?;
        let (killed, name) = (Instant::now(), before.leader + 1);
        self.cluster.kill(before.leader)?;
        shown.tell(format!("node {name}, the leader, is killed"));
        session.read("Results", ())?;
        let silence = killed.elapsed();
        let after = self.cluster.await_keepers("another node leads", |keepers| keepers.leader != before.leader)?;
        shown.tell(format!("node {} leads and answers, {:.1} s after that", after.leader + 1, silence.as_secs_f64()));
        shown.describe(self.description());
        self.cluster.start_again(before.leader)?;
        let again = self.cluster.await_copies(before.epoch)?;
        shown.describe(self.description());
        shown.tell(format!("node {name} is back; {}", kept(&again)));
        Ok(())
    }

    pub fn stop(self) -> BenchResult<()> {
        self.cluster.stop_all()
    }
}

fn kept(keepers: &Keepers) -> String {
    let copies = keepers.members.iter().filter(|member| **member != keepers.leader);
    let copies: Vec<String> = copies.map(|member| format!("node {}", member + 1)).collect();
    let copies = if copies.is_empty() { "no node".to_string() } else { copies.join(" and ") };
    format!("node {} leads, {copies} has a copy", keepers.leader + 1)
}
