//! What an operator does to a cluster that runs, and to one that cannot: `ferrite admin transfer`,
//! `status` and `recover`.

use super::{Cluster, Lines, Node, PATIENCE, Stop, TABLE, addresses};
use crate::common::Server;
use ferrite_client::{Client, ClientOptions};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Accepts a loss through a node, as soon as that one takes part.
pub(super) fn accept_loss(node: &str, port: &str) -> (bool, String) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (done, said) = admin(&["recover", "--accept-loss", "--node", node, "--server", port]);
        if !said.contains("does not take part in its cluster yet") && !said.contains("has just opened") {
            return (done, said);
        }
        assert!(Instant::now() < deadline, "{said}");
        std::thread::yield_now();
    }
}

/// Whether the command succeeded, and what it says on both its outputs.
pub(super) fn admin(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ferrite")).arg("admin").args(arguments).output();
    let output = output.expect("the program under test can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// The same of a transfer, which is refused for as long as the next leader's tables are behind, or
/// calls take long.
pub(super) fn admin_transfer(arguments: &[&str]) -> (bool, String) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (done, said) = admin(&[&["transfer"], arguments].concat());
        let again = said.contains("is still applying") || said.contains("calls are still running");
        if done || !again || Instant::now() >= deadline {
            return (done, said);
        }
    }
}

impl Cluster {
    pub(super) fn address(&self, place: usize) -> String {
        self.nodes[place].as_ref().expect("it runs").server.address.clone()
    }

    pub(super) fn admin(&self, place: usize, arguments: &[&str]) -> (bool, String) {
        let address = self.address(place);
        admin(&[arguments, &["--server", &address]].concat())
    }

    pub(super) fn transfer_through(&self, place: usize, arguments: &[&str]) -> (bool, String) {
        let address = self.address(place);
        admin_transfer(&[arguments, &["--server", &address]].concat())
    }
}

/// Calls one after the other through one client until it is told to stop; how many, and what went
/// wrong.
fn call_until(stops: &AtomicBool, addresses: Vec<String>, first: i64) -> (i64, Vec<String>) {
    let client = Client::connect(ClientOptions::new(addresses)).expect("the servers take connections");
    let (mut count, mut wrong) = (0, Vec::new());
    while !stops.load(Ordering::Relaxed) {
        let text = format!("INSERT INTO t VALUES ({}, {})", first + count, 3 * (first + count));
        if let Err(error) = client.call_blocking("@AdHoc", (text.as_str(),)) {
            wrong.push(format!("{}: {error}", first + count));
        }
        count += 1;
    }
    (count, wrong)
}

#[test]
fn another_node_leads_and_no_call_fails() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.nodes[0].as_ref().expect("it runs").lines.wait("is kept by 2 nodes");
    cluster.await_words(2, &["node 1 leads 2 of 2 copies"]);
    // The leader knows that the other one has come to its epoch.
    let (done, said) = cluster.admin(0, &["status"]);
    assert!(done && said.contains("the data survive 1 more loss, the service 1"), "{said}");
    let keepers: Vec<usize> = {
        let said = said.lines().filter(|line| line.contains("leader") || line.contains("member"));
        said.map(|line| line.split_whitespace().next().and_then(|id| id.parse().ok()).expect("a number")).collect()
    };
    let (member, other) = (keepers[1], 5 - keepers[1]);
    for (to, words) in [(1, "node 1 leads already"), (other, "has no complete copy"), (9, "there is no node 9")] {
        let (done, said) = cluster.transfer_through(other - 1, &["--to", &to.to_string()]);
        assert!(!done && said.contains(words), "{said}");
    }
    let stops = AtomicBool::new(false);
    let all: Vec<String> = (0..3).map(|place| cluster.address(place)).collect();
    let last = member - 1;
    std::thread::scope(|scope| {
        let stop = Stop(&stops);
        // Of one node each, and of all.
        let ways: Vec<Vec<String>> = all.iter().map(|one| vec![one.clone()]).chain([all.clone()]).collect();
        let begin = |(way, first): (Vec<String>, i64)| {
            let stops = &stops;
            scope.spawn(move || call_until(stops, way, first))
        };
        let callers: Vec<_> = ways.into_iter().zip((1..).map(|number| number * 1_000_000)).map(begin).collect();
        for _ in 0..3 {
            for to in [member, 1] {
                let (done, said) = cluster.transfer_through(other - 1, &["--to", &to.to_string()]);
                assert!(done && said.contains(&format!("node {to} leads")), "{said}");
            }
        }
        let (done, said) = cluster.transfer_through(last, &[]);
        assert!(done && said.contains(&format!("node {member} leads")), "{said}");
        drop(stop);
        for caller in callers {
            let (count, wrong) = caller.join().expect("it calls");
            assert!(wrong.is_empty() && count > 0, "of {count}: {wrong:#?}");
        }
    });
    // And where the leader is stopped. Its clients know the others, too.
    stops.store(false, Ordering::Relaxed);
    let (one, stopped) = (all[other - 1].clone(), cluster.nodes[last].take().expect("it runs"));
    std::thread::scope(|scope| {
        let stop = Stop(&stops);
        let stops = &stops;
        let callers = [scope.spawn(move || call_until(stops, vec![one], 10_000_000)), {
            let all = all.clone();
            scope.spawn(move || call_until(stops, all, 11_000_000))
        }];
        cluster.write(5);
        stopped.server.stop();
        cluster.write(5);
        drop(stop);
        for caller in callers {
            let (count, wrong) = caller.join().expect("it calls");
            assert!(wrong.is_empty() && count > 0, "of {count}: {wrong:#?}");
        }
    });
    stopped.lines.wait("has handed group 0 over");
    cluster.check();
}

#[test]
fn an_old_copy_leads_when_its_loss_is_accepted_and_not_before() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.nodes[0].as_ref().expect("it runs").lines.wait("is kept by 2 nodes");
    cluster.write(20);
    let (old, first) = (cluster.written.clone(), cluster.leader());
    assert_eq!(first, 0);
    let (done, said) = cluster.admin(0, &["recover", "--accept-loss", "--node", "2"]);
    assert!(!done && said.contains("there is nothing to recover: node 1 leads"), "{said}");
    // The first node is left behind; the others lose what they have, but for their votes.
    cluster.kill(0);
    cluster.write(20);
    let second = cluster.leader();
    let both = "is kept by 2 nodes: node 2 and node 3";
    cluster.nodes[second].as_ref().expect("it runs").lines.wait(both);
    cluster.write(5);
    for place in [1, 2] {
        cluster.kill(place);
        std::fs::write(cluster.dir(place).join("unsynced"), "anew").expect("the directory is there");
    }
    let ports = addresses(3);
    let servers: Vec<Server> = std::thread::scope(|scope| {
        let start = |place: usize| {
            let (dir, port) = (cluster.dir(place), ports[place].clone());
            scope.spawn(move || Server::start(&dir, &["--admin-listen", &port]))
        };
        let starting: Vec<_> = (0..3).map(start).collect();
        // Nobody leads, and that is said.
        let deadline = Instant::now() + PATIENCE;
        let waits = "no node leads; it waits for node 2 or node 3, members of its last configuration";
        while !admin(&["status", "--server", &ports[0]]).1.contains(waits) {
            assert!(Instant::now() < deadline, "{}", admin(&["status", "--server", &ports[0]]).1);
            std::thread::yield_now();
        }
        let (done, said) = accept_loss("9", &ports[1]);
        assert!(!done && said.contains("there is no node 9"), "{said}");
        let (done, said) = accept_loss("1", &ports[1]);
        assert!(done && said.contains("node 1 leads group 0 with what it has"), "{said}");
        assert!(!said.contains("waits for node 2"), "it was so before: {said}");
        starting.into_iter().map(|thread| thread.join().expect("it starts")).collect()
    });
    for (place, mut server) in servers.into_iter().enumerate() {
        let lines = Lines::of(&mut server);
        lines.wait("LOSS ACCEPTED by an operator: node 1");
        cluster.nodes[place] = Some(Node { server, lines });
    }
    let (done, said) = cluster.admin(0, &["transfer"]);
    assert!(!done && said.contains("give --server the address of the administration port"), "{said}");
    let (done, said) = admin(&["transfer", "--to", "9", "--server", &ports[0]]);
    assert!(!done && said.contains("there is no node 9"), "{said}");
    // What the old copy had is there, and it goes on.
    cluster.written = old;
    cluster.check();
    cluster.write(10);
    cluster.nodes[0].as_ref().expect("it runs").lines.wait("is kept by 2 nodes");
    cluster.check();
}
