//! What an operator is told: nothing alarming at a normal start, and at once what is wrong
//! otherwise.

use super::handing_over::admin;
use super::status::cells;
use super::{Cluster, PATIENCE, TABLE, addresses};
use crate::common::Server;
use ferrite_io::notices::message_of;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

impl Cluster {
    /// The nodes that run have said nothing of this kind.
    fn have_not_said(&self, what: &str) {
        for (_, node) in self.running() {
            let lines = node.lines.0.0.lock().expect("no panic with the lines");
            assert!(!lines.iter().any(|line| line.contains(what)), "'{what}' in {lines:#?}");
        }
    }
}

#[test]
fn a_normal_start_and_one_of_all_nodes_again_alarm_nobody() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.write(5);
    cluster.await_whole(1);
    let alarms = ["was refused", "does not connect", "without an answer", "it replaces this node's copy"];
    alarms.iter().for_each(|alarm| cluster.have_not_said(alarm));
    (0..3).for_each(|place| cluster.kill(place));
    cluster.start_all_again();
    cluster.write(5);
    cluster.await_whole(1);
    alarms[..3].iter().for_each(|alarm| cluster.have_not_said(alarm));
    cluster.check();
}

#[test]
fn a_directory_is_not_started_as_another_node_and_without_a_majority_that_is_said() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.await_whole(1);
    cluster.kill(2);
    let (list, all) = (cluster.hosts.join(","), &cluster.hosts);
    let options = ["--cluster", &list, "--kfactor", "1", "--cluster-listen", &all[2], "--cluster-as"];
    let said = Server::try_start(&cluster.dir(2), &[&options[..], &[&all[0]]].concat()).err().expect("it is refused");
    let expected = format!("belongs to the node {} of its cluster, and --cluster-as names {}", all[2], all[0]);
    assert!(said.contains(&expected), "{said}");
    let server = Server::start(&cluster.dir(2), &[&options[..], &[&all[2]]].concat());
    cluster.runs(2, server);
    cluster.await_whole(1);
    (1..3).for_each(|place| cluster.kill(place));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (done, said) = cluster.admin(0, &["remove-node", "2"]);
        assert!(!done, "{said}");
        if said.contains("this node does not hear a majority of the cluster's voters") {
            assert!(said.contains("node 2 is not reached") && said.contains("node 3 is not reached"), "{said}");
            break;
        }
        // Until their connections are seen to be closed.
        assert!(said.contains("stop it first"), "{said}");
        assert!(Instant::now() < deadline, "{said}");
    }
}

#[test]
fn a_node_that_is_alone_shows_its_cluster_before_it_takes_part() {
    let mut cluster = Cluster::start(3, 1);
    cluster.await_whole(1);
    (0..3).for_each(|place| cluster.kill(place));
    let port = addresses(1).remove(0);
    let mut alone = Command::new(env!("CARGO_BIN_EXE_ferrite"))
        .args(["server", "--listen", "127.0.0.1:0", "--admin-listen", &port, "--dir"])
        .arg(cluster.dir(0))
        .stderr(Stdio::null())
        .spawn()
        .expect("the program under test can be started");
    let deadline = Instant::now() + PATIENCE;
    let said = loop {
        let (done, said) = admin(&["status", "--server", &port]);
        let is_said = done && said.contains("no majority of the voters can be reached from here");
        if is_said || Instant::now() >= deadline {
            break said;
        }
        std::thread::yield_now();
    };
    alone.kill().expect("it runs");
    alone.wait().expect("it ends");
    assert!(said.contains("no majority of the voters can be reached from here"), "{said}");
    assert!(said.contains("node 3 is not reached (nothing came from it since this node started)"), "{said}");
    // It led last, and its lease has ended with its process.
    let waits = "group 0: no node leads; it waits for a word of the voters, whether node 1 leads on";
    assert!(said.contains(waits) && !said.contains("survive"), "{said}");
    // It runs, and takes no part yet.
    assert_eq!(cells(&said, 1)[1..4], ["data", "starting", "yes"], "{said}");
}

#[test]
fn a_node_that_joins_says_at_once_whom_it_asks() {
    let (dir, hosts) = (tempfile::tempdir().expect("a temporary directory"), addresses(3));
    let mut joins = Command::new(env!("CARGO_BIN_EXE_ferrite"))
        .args(["server", "--listen", "127.0.0.1:0", "--cluster-listen", &hosts[1], "--cluster", &hosts.join(",")])
        .args(["--join", "--dir"])
        .arg(dir.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program under test can be started");
    let mut lines = BufReader::new(joins.stderr.take().expect("stderr is a pipe")).lines();
    let mut sorted = [&hosts[0][..], &hosts[2]];
    sorted.sort_unstable();
    let others = sorted.join(", ");
    let mut line = || lines.next().expect("it says something").expect("it is text");
    for said in [
        format!("asking {others} to take this node into their cluster"),
        format!("waiting for a node of the cluster at {others}: none has answered"),
    ] {
        assert_eq!(message_of(&line()), Some(&*said));
    }
    joins.kill().expect("it runs");
    joins.wait().expect("it ends");
}
