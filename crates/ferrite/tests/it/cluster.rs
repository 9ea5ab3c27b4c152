//! Real processes that are a cluster: how they become one, what happens when the leader is killed
//! or stops, and what is refused.

mod alone;
mod anew;
mod cut_off;
mod damaged;
mod earlier_schema;
mod events;
mod groups;
mod groups_backup;
mod groups_lost;
mod groups_restore;
mod groups_stopped;
mod handing_over;
mod joining;
mod later_starts;
mod little_room;
mod operator;
mod pausing;
mod power;
mod read_only;
mod returning;
mod status;
mod stood_still;
mod subscribers;
mod tool;
mod transfers;
mod waiting;
mod without_java;

use crate::common::{Db, Server};
use ferrite_client::{Client, ClientOptions, OwnedValue};
use ferrite_io::notices::message_of;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Only what hangs takes so long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(180);

/// The messages of a process, line by line.
#[derive(Clone, Default)]
struct Lines(Arc<(Mutex<Vec<String>>, Condvar)>);

impl Lines {
    fn of(server: &mut Server) -> Lines {
        Lines::from(server.take_stderr(), server.id())
    }

    fn from(stderr: ChildStderr, pid: u32) -> Lines {
        let lines = Lines::default();
        let heard = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                eprintln!("{pid}: {line}");
                let message = message_of(&line).unwrap_or(&line).to_owned();
                heard.0.0.lock().expect("no panic with the lines").push(message);
                heard.0.1.notify_all();
            }
        });
        lines
    }

    /// Epochs, and the places of the nodes that lead in them.
    fn leaders(&self) -> Vec<(u64, usize)> {
        let lines = self.0.0.lock().expect("no panic with the lines");
        let said = lines.iter().filter_map(|line| line.split_once("led by node "));
        let parsed = said.filter_map(|(_, rest)| {
            let (node, epoch) = rest.trim_end_matches(')').split_once(" (epoch ")?;
            Some((epoch.parse().ok()?, node.parse::<usize>().ok()? - 1))
        });
        parsed.collect()
    }

    /// The places of the nodes that keep the data, as it was said last.
    fn keepers(&self) -> Vec<usize> {
        let lines = self.0.0.lock().expect("no panic with the lines");
        let said = lines.iter().rev().find_map(|line| line.split_once(" is kept by ")?.1.split_once(", led by"));
        let words = said.map_or("", |(keepers, _)| keepers).split(' ');
        words.skip(1).filter_map(|word| Some(word.trim_end_matches(',').parse::<usize>().ok()? - 1)).collect()
    }

    fn wait(&self, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = self.0.0.lock().expect("no panic with the lines");
        while !lines.iter().any(|line| line.contains(what)) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "in vain for '{what}': {lines:#?}");
            lines = self.0.1.wait_timeout(lines, left).expect("no panic with the lines").0;
        }
    }

    fn all(&self) -> Vec<String> {
        self.0.0.lock().expect("no panic with the lines").clone()
    }

    /// How many have these words.
    fn count(&self, words: &str) -> usize {
        self.0.0.lock().expect("no panic with the lines").iter().filter(|line| line.contains(words)).count()
    }

    /// What the node's processes were until now has ended in good order, as far as it did.
    fn are_of_good_ends(&self) {
        let lines = self.0.0.lock().expect("no panic with the lines");
        let bad = lines.iter().find(|line| BAD_ENDS.iter().any(|bad| line.contains(bad)));
        assert_eq!(bad, None);
    }
}

/// What a process says whose threads do not end by themselves.
const BAD_ENDS: [&str; 2] = ["the stop does not wait", "abandoned"];

/// Stops threads that call, also where the test fails: it would wait for them.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Node {
    server: Server,
    lines: Lines,
}

struct Cluster {
    root: tempfile::TempDir,
    hosts: Vec<String>,
    nodes: Vec<Option<Node>>,
    /// Rows that were acknowledged.
    written: BTreeSet<i64>,
    next: i64,
}

/// Addresses that nobody uses at the moment.
fn addresses(count: usize) -> Vec<String> {
    let ports = ferrite_bench::cluster::free_ports(count).expect("free ports");
    ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect()
}

impl Cluster {
    /// Starts so many at once, as their operator would, and waits until they are ready.
    fn start(count: usize, kfactor: u32) -> Cluster {
        Cluster::start_with(count, kfactor, &[])
    }

    fn start_with(count: usize, kfactor: u32, more: &[&str]) -> Cluster {
        let mut cluster = Cluster::new(count);
        cluster.found(kfactor, more);
        cluster
    }

    /// So many directories, and where their nodes are to hear each other.
    fn new(count: usize) -> Cluster {
        let (root, hosts) = (tempfile::tempdir().expect("a temporary directory"), addresses(count));
        let nodes = (0..count).map(|_| None).collect();
        Cluster { root, hosts, nodes, written: BTreeSet::new(), next: 0 }
    }

    /// Starts all at once with the command by which they become a cluster. In options, NODE is the
    /// node's number.
    fn found(&mut self, kfactor: u32, more: &[&str]) {
        let (list, kfactor) = (self.hosts.join(","), kfactor.to_string());
        let servers: Vec<Server> = std::thread::scope(|scope| {
            let start = |place: usize| {
                let (dir, host) = (self.dir(place), self.hosts[place].clone());
                let (list, kfactor) = (&list, &kfactor);
                scope.spawn(move || {
                    let options = ["--cluster", list, "--kfactor", kfactor, "--cluster-listen", &host];
                    let one_group = !more.contains(&"--partitions-per-node");
                    let partitions = if one_group { &["--partitions", "2"][..] } else { &[] };
                    let more: Vec<String> =
                        more.iter().map(|more| more.replace("NODE", &(place + 1).to_string())).collect();
                    let more: Vec<&str> = more.iter().map(String::as_str).collect();
                    Server::start(&dir, &[&options[..], partitions, &more].concat())
                })
            };
            let starting: Vec<_> = (0..self.hosts.len()).map(start).collect();
            starting.into_iter().map(|thread| thread.join().expect("it starts")).collect()
        });
        for (place, server) in servers.into_iter().enumerate() {
            self.runs(place, server);
        }
    }

    fn runs(&mut self, place: usize, mut server: Server) {
        let lines = Lines::of(&mut server);
        self.nodes[place] = Some(Node { server, lines });
    }

    fn dir(&self, place: usize) -> PathBuf {
        self.root.path().join(format!("node-{}", place + 1))
    }

    /// Starts a node again, which needs its directory only.
    fn start_again(&mut self, place: usize) {
        let server = Server::start(&self.dir(place), &[]);
        assert!(server.ready_line.contains(&format!("node {}", place + 1)), "{}", server.ready_line);
        self.runs(place, server);
    }

    /// All at once: none leads alone.
    fn start_all_again(&mut self) {
        self.start_all_again_with(&[]);
    }

    fn start_all_again_with(&mut self, more: &[&str]) {
        let dirs: Vec<PathBuf> = (0..self.nodes.len()).map(|place| self.dir(place)).collect();
        let servers: Vec<Server> = std::thread::scope(|scope| {
            let starting: Vec<_> = dirs.iter().map(|dir| scope.spawn(|| Server::start(dir, more))).collect();
            starting.into_iter().map(|thread| thread.join().expect("it starts")).collect()
        });
        for (place, server) in servers.into_iter().enumerate() {
            self.runs(place, server);
        }
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Node)> {
        (0..).zip(&self.nodes).filter_map(|(place, node)| Some((place, node.as_ref()?)))
    }

    fn kill(&mut self, place: usize) {
        self.nodes[place].take().expect("it runs").server.kill();
    }

    /// Asks one node after the other until one does it; which one.
    fn on_any<T>(&self, what: &str, mut call: impl FnMut(&Db) -> Option<T>) -> (usize, T) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for (place, node) in self.running() {
                let Ok(client) = Client::connect(ClientOptions::new([&node.server.address])) else { continue };
                if let Some(done) = call(&Db(client)) {
                    return (place, done);
                }
            }
            assert!(Instant::now() < deadline, "in vain for {what}");
            std::thread::yield_now();
        }
    }

    fn statement(&self, text: &str) -> usize {
        self.on_any(text, |db| db.0.call_blocking("@AdHoc", (text,)).ok()).0
    }

    /// Writes rows until so many more are acknowledged. A row whose outcome is not known is written
    /// again, which makes no difference.
    fn write(&mut self, count: i64) {
        for id in self.next..self.next + count {
            self.statement(&format!("UPSERT INTO t VALUES ({id}, {})", 3 * id));
            self.written.insert(id);
        }
        self.next += count;
    }

    fn check(&self) {
        let there = self.rows();
        assert!(self.written.is_subset(&there), "lost {:?}", self.written.difference(&there).collect::<Vec<_>>());
        for (_, node) in self.running() {
            node.lines.are_of_good_ends();
        }
    }

    /// Those that are there.
    fn rows(&self) -> BTreeSet<i64> {
        let text = "SELECT id FROM t WHERE v = 3 * id ORDER BY id LIMIT 10000";
        let (_, response) = self.on_any(text, |db| db.0.call_blocking("@AdHoc", (text,)).ok());
        let rows = response.tables[0].rows.iter().map(|row| match row[0] {
            OwnedValue::Integer(id) => id,
            ref other => panic!("not an integer: {other:?}"),
        });
        rows.collect()
    }

    /// Which node leads, by what the nodes have said last.
    fn leader(&self) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.running().flat_map(|(_, node)| node.lines.leaders());
            if let Some((_, leader)) = said.max()
                && self.nodes[leader].is_some()
            {
                return leader;
            }
            assert!(Instant::now() < deadline, "in vain for a leader");
            std::thread::yield_now();
        }
    }
}

const TABLE: &str =
    "CREATE TABLE t (id BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (id)); PARTITION TABLE t ON COLUMN id";

#[test]
fn a_cluster_outlives_its_leaders() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.write(50);
    // The first leader is node 1, until something happens; another member has joined it.
    assert_eq!(cluster.leader(), 0);
    let first = cluster.nodes[0].as_ref().expect("it runs").lines.clone();
    first.wait("is kept by 2 nodes");
    cluster.write(50);
    cluster.kill(0);
    cluster.write(50);
    cluster.check();
    let second = cluster.leader();
    assert_ne!(second, 0);
    // The third steps in for the one that was lost.
    cluster.nodes[second].as_ref().expect("it runs").lines.wait("is kept by 2 nodes: node 2 and node 3");
    cluster.write(10);
    cluster.start_again(0);
    cluster.kill(second);
    cluster.write(50);
    cluster.check();
    // The one that was killed first has come back, and takes the second's place.
    let third = cluster.leader();
    let both = format!("is kept by 2 nodes: node 1 and node {}", third + 1);
    cluster.nodes[third].as_ref().expect("it runs").lines.wait(&both);
    // Of three voters two are there when the next is lost, and what is acknowledged shows that the
    // member has come to the epoch that it was added in: until then it cannot lead.
    cluster.start_again(second);
    cluster.write(5);
    cluster.kill(third);
    cluster.write(10);
    cluster.check();
    assert_eq!(cluster.leader(), 0);
}

#[test]
fn a_leader_that_stops_hands_over_and_all_nodes_start_again() {
    let mut cluster = Cluster::start(3, 2);
    cluster.statement(TABLE);
    cluster.write(20);
    cluster.nodes[0].as_ref().expect("it runs").lines.wait("is kept by 3 nodes");
    cluster.nodes[0].take().expect("it runs").server.stop();
    cluster.write(20);
    let second = cluster.leader();
    cluster.start_again(0);
    cluster.nodes[second].as_ref().expect("it runs").lines.wait("is kept by 3 nodes: node 1, node 2 and node 3");
    cluster.write(20);
    // All lose their power, and start again by themselves.
    (0..3).for_each(|place| cluster.kill(place));
    cluster.start_all_again();
    cluster.write(5);
    cluster.check();
}

/// The numbers of the log's segments in a directory.
fn segments(dir: &Path) -> Vec<u64> {
    let names =
        std::fs::read_dir(dir).expect("a directory").filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<u64> =
        names.filter_map(|name| name.strip_prefix("redo-")?.strip_suffix(".log")?.parse().ok()).collect();
    found.sort_unstable();
    found
}

#[test]
fn a_copys_log_stays_small_and_the_copy_leads_with_everything() {
    /// Of the log that goes while the test writes: two snapshots keep less than these together.
    const GONE: u64 = 1;
    const THERE_MAX: usize = 5;
    let mut cluster = Cluster::start_with(3, 1, &["--snapshot-log", "16"]);
    cluster.statement(TABLE);
    cluster.statement("CREATE TABLE big (id BIGINT NOT NULL, n BIGINT NOT NULL, body VARBINARY(900000), PRIMARY KEY (id)); PARTITION TABLE big ON COLUMN id");
    cluster.write(20);
    let leader = cluster.leader();
    let lines = cluster.nodes[leader].as_ref().expect("it runs").lines.clone();
    lines.wait("is kept by 2 nodes");
    let copy = lines.keepers().into_iter().find(|place| *place != leader).expect("there are two");
    let body = vec![7u8; 800_000];
    let (mut written, deadline) = (0i64, Instant::now() + 4 * PATIENCE);
    loop {
        cluster.on_any("a write", |db| db.0.call_blocking("BIG.upsert", (written % 8, written, &body[..])).ok());
        written += 1;
        let there = segments(&cluster.dir(copy));
        assert!(there.len() <= THERE_MAX, "after {written} writes the copy's log has {there:?}");
        if there[0] > GONE {
            break;
        }
        assert!(Instant::now() < deadline, "after {written} writes the copy's log has {there:?}");
    }
    cluster.kill(leader);
    cluster.check();
    let text = "SELECT COUNT(*), MAX(n), SUM(n) FROM big";
    let (_, response) = cluster.on_any(text, |db| db.0.call_blocking("@AdHoc", (text,)).ok());
    let found: Vec<OwnedValue> = response.tables[0].rows[0].clone();
    let last = (written - 8..written).sum::<i64>();
    assert_eq!(found, [8, written - 1, last].map(OwnedValue::Integer));
    cluster.write(5);
    cluster.check();
}

#[test]
fn what_cannot_be_a_cluster_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let refused = |options: &[&str]| Server::try_start(dir.path(), options).err().expect("it is refused");
    for (options, words) in [
        (
            &["--cluster", "127.0.0.1:1,127.0.0.1:2", "--kfactor", "1", "--cluster-listen", "127.0.0.1:1"][..],
            "3 nodes with data, K = 1",
        ),
        (&["--cluster", "127.0.0.1:1,127.0.0.1:2", "--cluster-listen", "127.0.0.1:1"], "names 2 nodes: give --kfactor"),
        (&["--cluster", "127.0.0.1:1,127.0.0.1:1"], "twice"),
        (&["--cluster", "203.0.113.1,203.0.113.2,203.0.113.3"], "is an address of this machine"),
        (&["--cluster", "127.0.0.1:1,127.0.0.1:2"], "are all this machine"),
        (&["--cluster", "127.0.0.1:1,127.0.0.1:2", "--cluster-listen", "127.0.0.1:3"], "is none of --cluster"),
        (&["--kfactor", "1"], "--kfactor"),
        (&["--join"], "--join"),
        (&["--cluster-as", "127.0.0.1:1"], "--cluster-as"),
    ] {
        let said = refused(options);
        assert!(said.contains(words), "{options:?}: {said}");
    }
    let server = Server::start(dir.path(), &[]);
    assert!(!server.ready_line.contains("node"), "nothing of that is left: {}", server.ready_line);
    server.stop();
}

#[test]
fn a_node_that_is_early_says_whom_it_waits_for_and_ends_when_it_is_told() {
    let (dir, hosts) = (tempfile::tempdir().expect("a temporary directory"), addresses(3));
    let mut early = Command::new(env!("CARGO_BIN_EXE_ferrite"))
        .args(["server", "--listen", "127.0.0.1:0", "--cluster-listen", &hosts[1], "--cluster", &hosts.join(",")])
        .args(["--kfactor", "1", "--dir"])
        .arg(dir.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program under test can be started");
    let mut line = String::new();
    BufReader::new(early.stderr.take().expect("stderr is a pipe")).read_line(&mut line).expect("it says something");
    let waits = format!("waiting for node 1 ({}), node 3 ({})", hosts[0], hosts[2]);
    assert_eq!(message_of(&line), Some(&*waits));
    let pid = early.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill is installed").success());
    assert_eq!(early.wait().expect("it ends").code(), Some(0), "as every stop");
}

/// Found later it would end the first leader, while the others wait for that one.
#[test]
fn a_schema_that_cannot_be_used_ends_a_node_before_it_founds() {
    let (dir, hosts) = (tempfile::tempdir().expect("a temporary directory"), addresses(3));
    let (schema, list) = (dir.path().join("schema.sql"), hosts.join(","));
    std::fs::write(&schema, "CREATE TABLE t (id BIGINT);\nINSERT INTO t VALUES (1);").expect("a file");
    let schema = schema.to_str().expect("a plain path");
    let options = ["--cluster", &list, "--kfactor", "1", "--cluster-listen", &hosts[0], "--schema", schema];
    let refused = Server::try_start(&dir.path().join("data"), &options).err().expect("it ends");
    assert!(refused.contains("the statement is not a schema change"), "{refused}");
    assert!(!dir.path().join("data/founding").exists(), "it has declared nothing");
}
