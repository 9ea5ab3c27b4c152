//! A cluster under test: server processes on loopback addresses or in a network of their own, and
//! what they say about who keeps the data.
//!
//! Client and cluster ports stay the same over restarts, so that clients find a node again. They
//! lie below the ports that the kernel gives to connections: a client that tries again and again to
//! reach a dead node cannot take the node's port that way, nor connect to itself.

use crate::error::{BenchError, BenchResult, Doing};
use crate::network::Network;
use crate::process::{Launched, ServerProcess, Signal, message_of};
use crate::random::FastRandom;
use ferrite_client::{Client, ClientError, ClientOptions, OwnedResponse, OwnedTable, OwnedValue, ParameterSet};
use ferrite_wire::Status;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Only what hangs takes so long.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether something has happened.
pub const LOOK_AFTER: Duration = Duration::from_millis(2);
/// Where the ports are looked for.
const PORTS: std::ops::Range<u32> = 12_000..32_000;
/// The ports of nodes that have addresses of their own.
const CLUSTER_PORT: u16 = 3021;
const CLIENT_PORT: u16 = 21_212;
/// A node that connects to one that is away does so again after this long at most.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(250);

/// How to start a cluster.
#[derive(Clone, Debug)]
pub struct ClusterCommand {
    pub executable: PathBuf,
    /// Where the nodes' directories and what they say are put.
    pub root: PathBuf,
    pub nodes: usize,
    pub kfactor: u32,
    pub durability: Option<String>,
    pub partitions: Option<usize>,
    /// Copies of partitions on each node: several groups. None: one group.
    pub partitions_per_node: Option<u32>,
    /// What was not fsynced dies with a process; of this seed.
    pub power_loss: Option<u64>,
    /// Where each node has an address of its own. None: loopback.
    pub network: Option<Arc<Network>>,
    /// More options for each node's server.
    pub options: Vec<OsString>,
}

/// Who keeps the data, as nodes have said it. Nodes are counted by their places, from 0; the one at
/// a place has that number, and one more, until its directory is wiped and another takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    pub epoch: u64,
    pub leader: usize,
    pub members: Vec<usize>,
}

/// The processes. They end when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    command: ClusterCommand,
    /// Where clients reach each node.
    clients: Vec<String>,
    nodes: Vec<Option<ServerProcess>>,
    /// With these each node was started first.
    founding: Vec<Vec<OsString>>,
    /// The place of each number that a node has had.
    places: BTreeMap<u32, usize>,
    /// For what survives a power loss: each process has a seed of its own.
    power_loss: Option<FastRandom>,
}

impl Cluster {
    /// Starts all nodes in empty directories, and waits until they are ready and K + 1 keep the
    /// data.
    pub fn start(command: ClusterCommand) -> BenchResult<Cluster> {
        let (hosts, clients) = match &command.network {
            Some(network) => {
                let at = |port: u16| (0..command.nodes).map(move |place| format!("{}:{port}", network.address(place)));
                (at(CLUSTER_PORT).collect::<Vec<String>>(), at(CLIENT_PORT).collect())
            }
            None => {
                let mut ports = free_ports(2 * command.nodes)?.into_iter().map(|port| format!("127.0.0.1:{port}"));
                (ports.by_ref().take(command.nodes).collect(), ports.collect())
            }
        };
        let list = hosts.join(",");
        let kfactor = command.kfactor.to_string();
        let power_loss = command.power_loss.map(FastRandom::new);
        let nodes = Vec::new();
        let founding = Vec::new();
        let places = BTreeMap::new();
        let mut cluster = Cluster { nodes, founding, places, clients, power_loss, command };
        let mut launched = Vec::new();
        for (place, host) in hosts.iter().enumerate() {
            let founding = ["--cluster", &list, "--kfactor", &kfactor, "--cluster-listen", host];
            let mut founding: Vec<OsString> = founding.map(OsString::from).to_vec();
            if let Some(partitions) = cluster.command.partitions {
                founding.extend(["--partitions".into(), partitions.to_string().into()]);
            }
            if let Some(copies) = cluster.command.partitions_per_node {
                founding.extend(["--partitions-per-node".into(), copies.to_string().into()]);
            }
            cluster.founding.push(founding.clone());
            launched.push(cluster.launch(place, founding)?);
        }
        for (place, launched) in launched.into_iter().enumerate() {
            let process = cluster.until_ready(place, launched)?;
            cluster.nodes.push(Some(process));
        }
        cluster.await_copies(0)?;
        Ok(cluster)
    }

    fn launch(&mut self, place: usize, more: Vec<OsString>) -> BenchResult<Launched> {
        let mut arguments: Vec<OsString> = ["server", "--listen", &self.clients[place], "--dir"].map(Into::into).into();
        arguments.push(self.directory(place).into());
        if let Some(durability) = &self.command.durability {
            arguments.extend(["--durability".into(), durability.into()]);
        }
        if self.command.network.is_some() {
            // Nobody else reaches that network.
            arguments.extend(["--trust-clients", "--admin-listen", "none"].map(OsString::from));
        }
        if let Some(random) = &mut self.power_loss {
            arguments.extend(["--unsynced-writes-are-lost".into(), (random.next_u64() >> 1).to_string().into()]);
        }
        arguments.extend(more);
        arguments.extend(self.command.options.iter().cloned());
        let messages = fs::File::options().create(true).append(true).open(self.messages(place));
        let messages = messages.doing("opening a node's messages")?;
        let namespace = self.command.network.as_ref().map(|network| network.namespace(place));
        ServerProcess::launch_in(namespace, &self.command.executable, &arguments, None, Some(messages))
    }

    fn until_ready(&mut self, place: usize, launched: Launched) -> BenchResult<ServerProcess> {
        let ready = launched.until_ready();
        let process = ready.map_err(|error| BenchError::Server(format!("{error}; {}", self.last_words(place))))?;
        let line = process.ready_line();
        let number = number_in(line)
            .ok_or_else(|| BenchError::Server(format!("the server does not say which node it is: {line}")))?;
        self.places.insert(number, place);
        Ok(process)
    }

    /// Removes a node's directory, which does not run.
    pub fn wipe(&self, place: usize) -> BenchResult<()> {
        assert!(self.nodes[place].is_none(), "node {} runs", place + 1);
        fs::remove_dir_all(self.directory(place)).doing("removing a node's directory")
    }

    /// Starts a node that was wiped, by the command by which it was started first.
    pub fn start_anew(&mut self, place: usize) -> BenchResult<()> {
        let launched = self.launch(place, self.founding[place].clone())?;
        self.nodes[place] = Some(self.until_ready(place, launched)?);
        Ok(())
    }

    /// Waits until all votes are with nodes that run: another node can be lost then.
    pub fn await_votes(&mut self) -> BenchResult<()> {
        self.await_status("all votes are with nodes that run", 2, |voters| {
            let number = |name| match voters.rows.first()?[voters.column_index(name)?] {
                OwnedValue::Integer(number) => Some(number),
                _ => None,
            };
            Some(number("VOTERS")? % 2 == 1 && number("VOTERS")? == number("VOTERS_THERE")?)
        })
    }

    /// Waits until every group is led, and K + 1 nodes have its data.
    pub fn await_groups(&mut self) -> BenchResult<()> {
        let copies = i64::from(self.command.kfactor) + 1;
        self.await_status("K + 1 nodes have the data of each group", 1, |groups| {
            let leader = groups.column_index("LEADER")?;
            let members = groups.column_index("MEMBERS")?;
            let is_complete =
                |row: &Vec<OwnedValue>| row[leader] != OwnedValue::Null && row[members] == OwnedValue::Integer(copies);
            Some(!groups.rows.is_empty() && groups.rows.iter().all(is_complete))
        })
    }

    /// Waits until that table of `@ClusterStatus` is as wanted.
    fn await_status(&mut self, what: &str, table: usize, is: impl Fn(&OwnedTable) -> Option<bool>) -> BenchResult<()> {
        let give_up = Instant::now() + PATIENCE;
        let client = Client::connect(self.client_options()).map_err(|error| BenchError::Server(error.to_string()))?;
        loop {
            let status = client.call_blocking("@ClusterStatus", ());
            let found = status.as_ref().ok().and_then(|response| response.tables.get(table));
            if found.and_then(&is) == Some(true) {
                return Ok(());
            }
            self.check_alive()?;
            if Instant::now() >= give_up {
                return Err(BenchError::Server(format!("{PATIENCE:?} and not yet: {what}; last heard: {found:?}")));
            }
            thread::sleep(10 * LOOK_AFTER);
        }
    }

    /// Starts a node again, which needs its directory only.
    pub fn start_again(&mut self, place: usize) -> BenchResult<()> {
        assert!(self.nodes[place].is_none(), "node {} runs", place + 1);
        let launched = self.launch(place, Vec::new())?;
        self.nodes[place] = Some(self.until_ready(place, launched)?);
        Ok(())
    }

    /// Starts all nodes again that do not run, at once: alone they may not suffice.
    pub fn start_all_again(&mut self) -> BenchResult<()> {
        let down: Vec<usize> = (0..self.nodes.len()).filter(|place| self.nodes[*place].is_none()).collect();
        let mut launched = Vec::new();
        for place in down {
            launched.push((place, self.launch(place, Vec::new())?));
        }
        for (place, launched) in launched {
            self.nodes[place] = Some(self.until_ready(place, launched)?);
        }
        Ok(())
    }

    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Copies beside the first.
    pub fn kfactor(&self) -> u32 {
        self.command.kfactor
    }

    pub fn has_several_groups(&self) -> bool {
        self.command.partitions_per_node.is_some()
    }

    /// A node's process, which runs.
    pub fn process(&self, place: usize) -> &ServerProcess {
        self.nodes[place].as_ref().expect("the node runs")
    }

    pub fn is_running(&self, place: usize) -> bool {
        self.nodes[place].is_some()
    }

    /// SIGKILL, and its end.
    pub fn kill(&mut self, place: usize) -> BenchResult<()> {
        self.nodes[place].take().expect("the node runs").kill()
    }

    /// Waits for the end of a node that was sent SIGKILL.
    pub fn await_kill(&mut self, place: usize) -> BenchResult<()> {
        self.nodes[place].take().expect("the node runs").await_kill()
    }

    /// SIGTERM, and its end in good order.
    pub fn stop(&mut self, place: usize) -> BenchResult<()> {
        let stopped = self.nodes[place].take().expect("the node runs").stop();
        stopped.map_err(|error| BenchError::Server(format!("{error}; {}", self.last_words(place))))
    }

    /// The orderly end of a node that was sent SIGTERM.
    pub fn stop_told(&mut self, place: usize) -> BenchResult<()> {
        let stopped = self.nodes[place].take().expect("the node runs").await_end();
        stopped.map_err(|error| BenchError::Server(format!("{error}; {}", self.last_words(place))))
    }

    /// Starts a node and kills it after that time, wherever it has come.
    pub fn launch_and_kill(&mut self, place: usize, after: Duration) -> BenchResult<()> {
        let launched = self.launch(place, Vec::new())?;
        thread::sleep(after);
        launched.process.kill()
    }

    pub fn resume(&self, place: usize) {
        self.process(place).signal(Signal::CONT);
    }

    /// Where clients reach the nodes.
    pub fn clients(&self) -> &[String] {
        &self.clients
    }

    /// Of a client that knows all nodes.
    pub fn client_options(&self) -> ClientOptions {
        ClientOptions { reconnect_pause_max: RECONNECT_PAUSE_MAX, ..ClientOptions::new(self.clients.iter().cloned()) }
    }

    pub fn directory(&self, place: usize) -> PathBuf {
        self.command.root.join(format!("node-{}", place + 1))
    }

    /// The number that the node at that place has now: one whose directory was lost gets another.
    pub fn number(&self, place: usize) -> u32 {
        let of_it = self.places.iter().rev().find(|(_, at)| **at == place);
        *of_it.expect("a node that has been ready has a number").0
    }

    fn messages(&self, place: usize) -> PathBuf {
        self.command.root.join(format!("node-{}.messages", place + 1))
    }

    /// What a node has said on standard error, over all its processes.
    pub fn said(&self, place: usize) -> String {
        fs::read(self.messages(place))
            .map_or_else(|_| String::new(), |said| String::from_utf8_lossy(&said).into_owned())
    }

    fn last_words(&self, place: usize) -> String {
        let said = self.said(place);
        let lines: Vec<&str> = said.lines().collect();
        format!("node {} said: {}", place + 1, lines[lines.len().saturating_sub(5)..].join(" / "))
    }

    /// Who keeps the data by the newest word of any node.
    pub fn keepers(&self) -> Option<Membership> {
        let at_places = |line: &str| keepers_in(line, &self.places);
        let said = |place| self.said(place).lines().filter_map(at_places).max_by_key(|keepers| keepers.epoch);
        (0..self.clients.len()).filter_map(said).max_by_key(|keepers| keepers.epoch)
    }

    /// Waits until K + 1 nodes keep the data, by a word that is newer than that epoch.
    pub fn await_copies(&mut self, epoch: u64) -> BenchResult<Membership> {
        let copies = self.command.kfactor as usize + 1;
        self.await_keepers("K + 1 nodes keep the data", |keepers| {
            keepers.epoch > epoch && keepers.members.len() >= copies
        })
    }

    /// Waits until what nodes say of who keeps the data is as wanted.
    pub fn await_keepers(&mut self, what: &str, is: impl Fn(&Membership) -> bool) -> BenchResult<Membership> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let found = self.keepers();
            if let Some(found) = &found
                && is(found)
            {
                return Ok(found.clone());
            }
            self.check_alive()?;
            if Instant::now() >= give_up {
                let words: Vec<String> = (0..self.count()).map(|place| self.last_words(place)).collect();
                let words = words.join("; ");
                return Err(BenchError::Server(format!(
                    "{PATIENCE:?} and not yet: {what}; last heard of {found:?}; {words}"
                )));
            }
            thread::sleep(LOOK_AFTER);
        }
    }

    /// No node has ended by itself.
    pub fn check_alive(&mut self) -> BenchResult<()> {
        for place in 0..self.nodes.len() {
            if let Some(process) = &mut self.nodes[place]
                && process.has_ended()?
            {
                let words = self.last_words(place);
                return Err(BenchError::Server(format!("node {} ended by itself; {words}", place + 1)));
            }
        }
        Ok(())
    }

    /// SIGTERM to all at once, and their ends.
    pub fn stop_all(mut self) -> BenchResult<()> {
        self.nodes.iter().flatten().for_each(|process| process.signal(Signal::TERM));
        for place in 0..self.nodes.len() {
            let Some(process) = self.nodes[place].take() else { continue };
            process.await_end().map_err(|error| BenchError::Server(format!("{error}; {}", self.last_words(place))))?;
        }
        Ok(())
    }

    /// None: the nodes are on loopback addresses.
    pub fn network(&self) -> Option<&Arc<Network>> {
        self.command.network.as_ref()
    }

    pub fn root(&self) -> &Path {
        &self.command.root
    }
}

/// Calls until it succeeds, while it fails as calls do when a cluster looks for a leader. One whose
/// outcome is unknown is repeated only if it may be executed `twice`.
pub fn patiently(
    client: &Client,
    procedure: &str,
    parameters: impl ParameterSet,
    twice: bool,
) -> Result<OwnedResponse, ClientError> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match client.call_blocking(procedure, &parameters) {
            Err(error) if passes(&error, twice) && Instant::now() < give_up => thread::sleep(10 * LOOK_AFTER),
            result => return result,
        }
    }
}

/// Whether the same call may succeed a little later.
fn passes(error: &ClientError, twice: bool) -> bool {
    matches!(error, ClientError::NotConnected { .. }) || was_refused(error) || twice && error.is_outcome_unknown()
}

/// Whether a node has said that it does not take the call, and that nothing of it was executed.
pub fn was_refused(error: &ClientError) -> bool {
    error.response().is_some_and(|response| response.status() == Some(Status::ServerUnavailable))
}

/// `ferrite ready on 127.0.0.1:21212 (2 partitions, durability sync, node 4)`
fn number_in(ready_line: &str) -> Option<u32> {
    ready_line.split("node ").nth(1)?.split([',', ')']).next()?.parse().ok()
}

/// `group 0 is kept by 2 nodes: node 1 and node 3, led by node 1 (epoch 3)`. `places`: of the nodes
/// by their numbers.
fn keepers_in(line: &str, places: &BTreeMap<u32, usize>) -> Option<Membership> {
    let rest = message_of(line)?.strip_prefix("group 0 is kept by ")?;
    let (_, rest) = rest.split_once(": ")?;
    let (members, rest) = rest.split_once(", led by ")?;
    let (leader, rest) = rest.split_once(" (epoch ")?;
    let place = |name: &str| places.get(&name.trim().strip_prefix("node ")?.parse().ok()?).copied();
    let members = members.replace(" and ", ", ").split(", ").map(place).collect::<Option<Vec<usize>>>()?;
    Some(Membership { epoch: rest.strip_suffix(')')?.parse().ok()?, leader: place(leader)?, members })
}

/// Ports that nobody listens on at the moment, and that no connection is given by the kernel.
///
/// # Errors
/// Where there are not so many.
pub fn free_ports(count: usize) -> BenchResult<Vec<u16>> {
    let mut random = FastRandom::new(u64::from(std::process::id()) ^ crate::random::seed_or_random(None));
    let mut held: Vec<TcpListener> = Vec::new();
    for _ in 0..10_000 {
        if held.len() == count {
            break;
        }
        let port = PORTS.start + random.below(PORTS.end - PORTS.start);
        held.extend(TcpListener::bind(("127.0.0.1", port as u16)));
    }
    let ports: Vec<u16> = held.iter().filter_map(|listener| Some(listener.local_addr().ok()?.port())).collect();
    if ports.len() == count {
        Ok(ports)
    } else {
        Err(BenchError::Load(format!("there are not {count} free ports from {} to {}", PORTS.start, PORTS.end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_the_data_is_read_from_what_nodes_say() {
        let places = BTreeMap::from([(1, 0), (2, 1), (3, 2), (4, 0)]);
        let keepers_in = |said| keepers_in(said, &places);
        let said = "2026-11-29T13:00:00.123Z INFO  ferrite: group 0 is kept by 3 nodes: node 1, node 2 and node 3, led by \
                    node 2 (epoch 17) [members]";
        assert_eq!(keepers_in(said), Some(Membership { epoch: 17, leader: 1, members: vec![0, 1, 2] }));
        let said = "ferrite: group 0 is kept by 1 node: node 3, led by node 3 (epoch 4)";
        assert_eq!(keepers_in(said), Some(Membership { epoch: 4, leader: 2, members: vec![2] }));
        let said = "ferrite: group 0 is kept by 2 nodes: node 3 and node 4, led by node 4 (epoch 9)";
        assert_eq!(keepers_in(said), Some(Membership { epoch: 9, leader: 0, members: vec![2, 0] }));
        assert_eq!(number_in("ferrite ready on 127.0.0.1:1 (2 partitions, durability sync, node 4)\n"), Some(4));
        let administered = "ferrite ready on 10.77.0.1:1 (2 partitions, node 12, administration on 127.0.0.1:2)";
        assert_eq!(number_in(administered), Some(12));
        for other in ["", "ferrite: group 0 is choosing a leader; node 1 led it last", "ferrite: group 0 is kept by x"]
        {
            assert_eq!(keepers_in(other), None);
        }
    }

    #[test]
    fn ports_are_different() {
        // Whether they are free is anybody's to change.
        let mut ports = free_ports(6).unwrap();
        assert!(ports.iter().all(|port| PORTS.contains(&u32::from(*port))));
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 6);
    }
}
