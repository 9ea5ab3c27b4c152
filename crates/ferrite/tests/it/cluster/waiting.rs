//! Nodes that wait for others, or that disagree with them: how often they ask, and what they say.

use super::handing_over::admin;
use super::status::cells;
use super::{Cluster, Lines, PATIENCE, TABLE, addresses};
use crate::common::Server;
use std::collections::BTreeSet;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A process that is not ready yet; killed when dropped.
pub(super) struct Waiting {
    child: Child,
    pub(super) lines: Lines,
}

impl Waiting {
    /// `command`: `server` or `witness`.
    pub(super) fn start(command: &str, dir: &Path, options: &[&str]) -> Waiting {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ferrite"))
            .args([command, "--dir"])
            .arg(dir)
            .args(if command == "server" { &["--listen", "127.0.0.1:0"][..] } else { &[] })
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test can be started");
        let lines = Lines::from(child.stderr.take().expect("stderr is a pipe"), child.id());
        Waiting { child, lines }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stands where the others reach a node, and counts the connections.
struct Entrance {
    host: String,
    /// Where the node itself listens.
    behind: String,
    came: Arc<AtomicUsize>,
}

impl Entrance {
    fn new() -> Entrance {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let host = listener.local_addr().expect("it listens").to_string();
        let (behind, came) = (addresses(1).remove(0), Arc::<AtomicUsize>::default());
        let (to, count) = (behind.clone(), Arc::clone(&came));
        // Both end with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::Relaxed);
                if let Ok(node) = TcpStream::connect(&to) {
                    pass_on(&stream, &node);
                    pass_on(&node, &stream);
                }
            }
        });
        Entrance { host, behind, came }
    }
}

fn pass_on(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}

/// The connections of these addresses that wait until their ports are free again. Each counts
/// once, also where both of its ends closed it at the same time and wait.
fn in_time_wait(addresses: &[&str]) -> BTreeSet<[String; 2]> {
    const TIME_WAIT: &str = "06";
    let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned()).expect("a port");
    let ports: Vec<String> =
        addresses.iter().map(|address| format!("{:04X}", port(address).parse::<u16>().expect("a number"))).collect();
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel has a table of sockets");
    let ends = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let mut ends = [cells[1].to_owned(), cells[2].to_owned()];
        ends.sort();
        (cells[3] == TIME_WAIT && ends.iter().any(|address| ports.contains(&port(address)))).then_some(ends)
    };
    table.lines().skip(1).filter_map(ends).collect()
}

/// A cluster of three that does not come about, with what each place is started with besides.
/// `None`: it is missing. Says `words` somewhere, and asks once a second.
fn ask_now_and_then(nodes: [Option<(&str, &[&str])>; 3], turned: bool, words: &str) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let entrances = [Entrance::new(), Entrance::new(), Entrance::new()];
    let hosts = entrances.each_ref().map(|entrance| entrance.host.clone());
    let all: Vec<&str> = entrances.iter().flat_map(|entrance| [&entrance.host[..], &entrance.behind]).collect();
    // A port may have been another test's a moment ago.
    let of_others = in_time_wait(&all);
    let start = |place: usize| {
        let (command, options) = nodes[place]?;
        let (host, mut list) = (&hosts[place], hosts.to_vec());
        if turned && place == 2 {
            list.reverse();
        }
        let (dir, list) = (root.path().join(format!("node-{place}")), list.join(","));
        let own = ["--cluster", &list, "--cluster-as", host, "--cluster-listen", &entrances[place].behind];
        Some(Waiting::start(command, &dir, &[&own, options].concat()))
    };
    let running: Vec<Waiting> = (0..3).filter_map(start).collect();
    running[0].lines.wait(words);
    let came = || entrances.iter().map(|entrance| entrance.came.load(Ordering::Relaxed)).sum::<usize>();
    // What each of them asks the two others in three rounds, and once more.
    let (begun, before, wanted) = (Instant::now(), came(), 2 * running.len() * 4);
    while came() < before + wanted {
        assert!(begun.elapsed() < PATIENCE, "{} of {wanted} connections came", came() - before);
        std::thread::yield_now();
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(2), "{wanted} connections came in {took:?}");
    // A connection counts when its entrance has accepted it, which may be after its end; but long
    // before TIME-WAIT is over, after a minute.
    let counted = Instant::now() + Duration::from_secs(10);
    loop {
        let waiting = in_time_wait(&all).difference(&of_others).count();
        if waiting <= 2 * came() + 10 {
            break;
        }
        assert!(Instant::now() < counted, "{waiting} in TIME-WAIT of {} connections", came());
        std::thread::yield_now();
    }
}

const SERVER: Option<(&str, &[&str])> = Some(("server", &["--kfactor", "1"]));

#[test]
fn nodes_that_wait_for_the_last_ask_once_a_second() {
    ask_now_and_then([SERVER, SERVER, None], false, "waiting for node 3 (");
    ask_now_and_then([SERVER, Some(("witness", &["--kfactor", "1"])), None], false, "waiting for node 3 (");
}

#[test]
fn nodes_that_disagree_ask_once_a_second() {
    let other = |options| [SERVER, SERVER, Some(("server", options))];
    ask_now_and_then(other(&["--kfactor", "2"]), false, "was started with --kfactor 2");
    let two = &["--kfactor", "1", "--partitions", "2"][..];
    let three = &["--kfactor", "1", "--partitions", "3"][..];
    let partitions = [two, two, three].map(|options| Some(("server", options)));
    ask_now_and_then(partitions, false, "give --partitions only once, or equally");
    ask_now_and_then(other(&["--kfactor", "1"]), true, "(the order counts)");
    ask_now_and_then(other(&["--kfactor", "1", "--durability", "none"]), false, "with --durability none: start one of");
}

#[test]
fn a_node_that_waits_for_founders_shows_them_to_its_operator() {
    let (dir, hosts, ports) = (tempfile::tempdir().expect("a temporary directory"), addresses(3), addresses(1));
    let list = hosts.join(",");
    let options = ["--cluster", &list, "--kfactor", "1", "--cluster-listen", &hosts[0], "--admin-listen", &ports[0]];
    let early = Waiting::start("server", dir.path(), &options);
    early.lines.wait("waiting for node 2 (");
    let deadline = Instant::now() + PATIENCE;
    let said = loop {
        let (done, said) = admin(&["status", "--server", &ports[0]]);
        if done {
            break said;
        }
        assert!(Instant::now() < deadline, "{said}");
        std::thread::yield_now();
    };
    assert!(said.contains(&format!("it waits for node 2 ({}), node 3 ({}), to found", hosts[1], hosts[2])), "{said}");
    assert_eq!(cells(&said, 1)[1..4], ["data", "starting", "yes"], "{said}");
    assert_eq!(cells(&said, 2)[1..3], ["awaited", "no"], "{said}");
    let (done, said) = admin(&["transfer", "--server", &ports[0]]);
    assert!(!done && said.contains("in no cluster yet: it waits for node 2 ("), "{said}");
}

#[test]
fn a_schema_is_given_to_all_founders_or_to_none() {
    let mut cluster = Cluster::new(3);
    let schema = cluster.root.path().join("schema.sql");
    std::fs::write(&schema, TABLE).expect("it can be written");
    let list = cluster.hosts.join(",");
    let options = |place: usize, schema: &[&str]| {
        let all = ["--cluster", &list, "--kfactor", "1", "--cluster-listen", &cluster.hosts[place]];
        Waiting::start("server", &cluster.dir(place), &[&all[..], schema].concat())
    };
    let with = ["--schema", schema.to_str().expect("text")];
    let first = [options(0, &with), options(1, &with)];
    let without = options(2, &[]);
    first.iter().chain([&without]).for_each(|node| node.lines.wait("was started with --schema, and node 3 ("));
    drop(without);
    // The same directory, started with what the others have.
    let third = Server::start(
        &cluster.dir(2),
        &[&["--cluster", &list, "--kfactor", "1", "--cluster-listen", &cluster.hosts[2]][..], &with].concat(),
    );
    cluster.runs(2, third);
    cluster.write(5);
    cluster.check();
}

#[test]
fn the_last_founder_makes_a_cluster_of_those_that_wait() {
    let mut cluster = Cluster::new(3);
    let list = cluster.hosts.join(",");
    let options = |place: usize| ["--cluster", &list, "--kfactor", "1", "--cluster-listen", &cluster.hosts[place]];
    let early: Vec<Waiting> =
        (0..2).map(|place| Waiting::start("server", &cluster.dir(place), &options(place))).collect();
    early.iter().for_each(|node| node.lines.wait("waiting for node 3 ("));
    let server = Server::start(&cluster.dir(2), &options(2));
    early.iter().for_each(|node| node.lines.wait(" of 3 nodes"));
    assert!(server.ready_line.contains("node 3"), "{}", server.ready_line);
    cluster.runs(2, server);
    cluster.statement(TABLE);
    cluster.write(5);
    cluster.check();
}

#[test]
fn a_layout_that_needs_witnesses_is_reported_before_the_nodes_meet() {
    let (root, hosts) = (tempfile::tempdir().expect("a temporary directory"), addresses(3));
    let list = hosts.join(",");
    let options = ["--cluster", &list, "--kfactor", "1", "--partitions-per-node", "3"];
    let start = |command, place: usize| {
        let own = ["--cluster-listen", &hosts[place][..]];
        Waiting::start(command, &root.path().join(format!("node-{place}")), &[&options[..], &own].concat())
    };
    let data = start("server", 0);
    data.lines.wait("only if 1 of the 3 nodes is a witness");
    data.lines.wait("Possible are 3 nodes with data, K = 1, 2 partitions per node; 3 nodes with data, K = 1, 4");
    data.lines.wait("waiting for node 2 (");
    // It is as that message says: with a witness there is such a cluster.
    let others = [start("server", 1), start("witness", 2)];
    others.iter().chain([&data]).for_each(|node| node.lines.wait("group 1 is kept by 2 nodes"));
}
