//! Nodes that join later: in the place of one whose directory is gone, and at a new address; and
//! nodes that are removed.

use super::{Cluster, Lines, Node, PATIENCE, Stop, TABLE, addresses};
use crate::common::Server;
use ferrite_client::{Client, ClientOptions, OwnedTable, OwnedValue};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What a node knows of its cluster.
pub(super) struct Status {
    /// By number: presence, role, vote.
    nodes: BTreeMap<i64, (String, String, String)>,
    pub(super) leader: i64,
    members: i64,
    voters: i64,
    voters_there: i64,
}

impl Status {
    fn of(client: &Client) -> Option<Status> {
        let response = client.call_blocking("@ClusterStatus", ()).ok()?;
        let [nodes, group, voters, ..] = &response.tables[..] else { panic!("three tables") };
        let named = nodes.rows.iter().map(|row| {
            let cell = |name| text(nodes, row, name);
            (number(nodes, row, "NODE"), (cell("PRESENCE"), cell("ROLE"), cell("VOTES")))
        });
        let first = |table: &OwnedTable, name| number(table, table.rows.first().expect("a row"), name);
        Some(Status {
            nodes: named.collect(),
            leader: first(group, "LEADER"),
            members: first(group, "MEMBERS"),
            voters: first(voters, "VOTERS"),
            voters_there: first(voters, "VOTERS_THERE"),
        })
    }

    pub(super) fn members(&self) -> BTreeSet<i64> {
        let has_role = |(_, (_, role, _)): &(&i64, &(String, String, String))| !role.is_empty();
        self.nodes.iter().filter(has_role).map(|(node, _)| *node).collect()
    }

    fn has(&self, node: i64, presence: &str) -> bool {
        self.nodes.get(&node).is_some_and(|(known, ..)| known == presence)
    }
}

fn number(table: &OwnedTable, row: &[OwnedValue], name: &str) -> i64 {
    match row[table.column_index(name).expect("the column is there")] {
        OwnedValue::Integer(number) => number,
        ref other => panic!("{name} is no number: {other:?}"),
    }
}

fn text(table: &OwnedTable, row: &[OwnedValue], name: &str) -> String {
    match &row[table.column_index(name).expect("the column is there")] {
        OwnedValue::Text(text) => text.to_string(),
        other => panic!("{name} is no text: {other:?}"),
    }
}

impl Cluster {
    /// Its number, which its ready line says.
    fn number(&self, place: usize) -> i64 {
        let ready = &self.nodes[place].as_ref().expect("it runs").server.ready_line;
        let word = ready.split("node ").nth(1).expect("it says which node it is");
        word.trim().trim_end_matches(')').parse().expect("a number")
    }

    fn await_status(&self, what: &str, is: impl Fn(&Status) -> bool) -> Status {
        self.on_any(what, |db| Status::of(&db.0).filter(&is)).1
    }

    /// So many copies, and three votes that count.
    pub(super) fn await_whole(&self, kfactor: u32) -> Status {
        let copies = i64::from(kfactor) + 1;
        self.await_status("all copies and votes", |status| {
            status.leader != 0 && status.members == copies && (status.voters, status.voters_there) == (3, 3)
        })
    }

    /// The directory of a node is gone, and it is started by the same command.
    fn wipe_and_start(&mut self, place: usize, kfactor: u32) {
        std::fs::remove_dir_all(self.dir(place)).expect("its directory is there");
        self.start_by(place, &["--kfactor", &kfactor.to_string()]);
    }

    fn start_by(&mut self, place: usize, more: &[&str]) {
        let (list, host) = (self.hosts.join(","), self.hosts[place].clone());
        let options = ["--cluster", &list, "--cluster-listen", &host, "--partitions", "2"];
        let mut server = Server::start(&self.dir(place), &[&options[..], more].concat());
        let lines = Lines::of(&mut server);
        self.nodes[place] = Some(Node { server, lines });
    }

    /// Each node leads that has a copy, and shows exactly what was written.
    pub(super) fn check_copies(&self, kfactor: u32) {
        let members = self.await_whole(kfactor).members();
        for node in &members {
            let any = (0..self.nodes.len()).find(|place| self.nodes[*place].is_some()).expect("one runs");
            let deadline = Instant::now() + PATIENCE;
            loop {
                let (done, said) = self.transfer_through(any, &["--to", &node.to_string()]);
                if done || said.contains("leads already") {
                    break;
                }
                // The member may have been the process that was there before.
                assert!(said.contains("has no complete copy at the moment") && Instant::now() < deadline, "{said}");
            }
            let text = "SELECT id, v FROM t ORDER BY id LIMIT 100000";
            let (_, response) = self.on_any(text, |db| db.0.call_blocking("@AdHoc", (text,)).ok());
            let pair = |row: &Vec<OwnedValue>| match row[..] {
                [OwnedValue::Integer(id), OwnedValue::Integer(v)] => (id, v),
                ref other => panic!("not two integers: {other:?}"),
            };
            let there: Vec<(i64, i64)> = response.tables[0].rows.iter().map(pair).collect();
            let expected: Vec<(i64, i64)> = self.written.iter().map(|id| (*id, 3 * id)).collect();
            assert!(there == expected, "node {node} has {} rows of {}", there.len(), expected.len());
            let status = self.await_status("a leader", |status| status.leader != 0);
            assert_eq!(status.leader, *node, "what was read was that node's");
        }
    }
}

/// Writes rows through these nodes until it is told to stop, each until it is acknowledged; which.
fn write_until(stops: &AtomicBool, addresses: &[String], first: i64) -> BTreeSet<i64> {
    let mut written = BTreeSet::new();
    let deadline = Instant::now() + PATIENCE;
    let mut client = None;
    for id in first.. {
        let text = format!("UPSERT INTO t VALUES ({id}, {})", 3 * id);
        loop {
            assert!(Instant::now() < deadline, "in vain for {text}");
            let connected = match client.take() {
                Some(client) => client,
                None => match Client::connect(ClientOptions::new(addresses.iter().cloned())) {
                    Ok(client) => client,
                    Err(_) => continue,
                },
            };
            let done = connected.call_blocking("@AdHoc", (text.as_str(),)).is_ok();
            client = Some(connected);
            if done {
                break;
            }
        }
        written.insert(id);
        if stops.load(Ordering::Relaxed) {
            break;
        }
    }
    written
}

/// One after the other loses everything, under load, so that what there is in the end has come from
/// nodes that had come to it in the same way.
fn every_node_is_wiped(kfactor: u32) {
    let mut cluster = Cluster::start(3, kfactor);
    cluster.statement(TABLE);
    cluster.write(30);
    for (round, place) in (0..).zip([1, 2, 0]) {
        let before = cluster.await_whole(kfactor);
        let old = cluster.number(place);
        let others: Vec<String> = (0..3).filter(|other| *other != place).map(|other| cluster.address(other)).collect();
        let stops = AtomicBool::new(false);
        let written = std::thread::scope(|scope| {
            let stop = Stop(&stops);
            let (stops, others) = (&stops, &others);
            let writer = scope.spawn(move || write_until(stops, others, (round + 1) * 1_000_000));
            cluster.write(5);
            cluster.kill(place);
            cluster.write(5);
            cluster.wipe_and_start(place, kfactor);
            assert_eq!(cluster.number(place), 4 + round, "it has a new number");
            let is_over = |status: &Status| status.has(old, "retired") && status.voters_there == 3;
            cluster.await_status("the one before is retired", is_over);
            if before.members().len() == 3 {
                let becomes = |status: &Status| status.members().contains(&(4 + round));
                cluster.await_status("it is a member", becomes);
            }
            cluster.write(5);
            drop(stop);
            writer.join().expect("it writes")
        });
        cluster.written.extend(written);
        cluster.check_copies(kfactor);
    }
    let members = cluster.await_whole(kfactor).members();
    assert!(members.iter().all(|node| *node > 3), "{members:?}");
    // What they have is on their own disks.
    (0..3).for_each(|place| cluster.kill(place));
    cluster.start_all_again();
    cluster.write(5);
    cluster.check_copies(kfactor);
}

#[test]
fn wiped_nodes_get_everything_with_one_copy_more() {
    every_node_is_wiped(1);
}

#[test]
fn wiped_nodes_get_everything_with_two_copies_more() {
    every_node_is_wiped(2);
}

#[test]
fn a_node_joins_at_a_new_address_and_a_lost_one_is_removed_for_good() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.write(30);
    cluster.await_whole(1);
    for (node, words) in [
        ("9", "there is no node 9"),
        ("1", "node 1 answers this"),
        ("2", "node 2 is running: stop it first"),
        ("3", "node 3 is running: stop it first"),
    ] {
        let (done, said) = cluster.admin(0, &["remove-node", node]);
        assert!(!done && said.contains(words), "{said}");
    }
    // Two nodes with data make no cluster.
    cluster.kill(2);
    let refused = |cluster: &Cluster, words: &str| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (done, said) = cluster.admin(0, &["remove-node", "3"]);
            assert!(!done, "{said}");
            if said.contains(words) {
                return;
            }
            // Until it is seen to be gone, and left out.
            assert!(said.contains("stop it first") || said.contains("is a member of group 0"), "{said}");
            assert!(Instant::now() < deadline, "{said}");
        }
    };
    refused(&cluster, "without node 3 too little is left. Let another node join first (--join)");
    // One more, which names only itself and one that it knows.
    let all = cluster.hosts.clone();
    cluster.hosts = vec![all[0].clone(), addresses(1).remove(0)];
    cluster.nodes.push(None);
    let (list, host) = (cluster.hosts.join(","), cluster.hosts[1].clone());
    let dir = cluster.dir(3);
    let options = ["--cluster", &list, "--cluster-listen", &host];
    let said = Server::try_start(&dir, &[&options[..], &["--kfactor", "1"]].concat()).err().expect("it is refused");
    assert!(said.contains("K = 1") || said.contains("--join"), "{said}");
    let mut server = Server::start(&dir, &[&options[..], &["--join"]].concat());
    let lines = Lines::of(&mut server);
    cluster.nodes[3] = Some(Node { server, lines });
    assert_eq!(cluster.number(3), 4);
    cluster.hosts = all;
    let (done, said) = cluster.admin(0, &["remove-node", "3"]);
    assert!(done && said.contains("node 3 is removed"), "{said}");
    cluster.await_status("its vote has gone to node 4", |status| {
        status.has(3, "retired") && status.nodes.get(&4).is_some_and(|node| node.2 == "yes")
    });
    let (done, said) = cluster.admin(1, &["remove-node", "3"]);
    assert!(!done && said.contains("node 3 is no longer part of the cluster"), "{said}");
    cluster.write(10);
    cluster.check_copies(1);
    // Its directory is of no use any more, and it hears why.
    let said = Server::try_start(&cluster.dir(2), &[]).err().expect("it is refused");
    assert!(said.contains("node 3 was removed"), "{said}");
    // With another member lost, the new one gets a copy.
    let member = cluster.await_whole(1).members().into_iter().find(|node| *node < 4).expect("an old one");
    cluster.kill(usize::try_from(member).expect("a place") - 1);
    let becomes = |status: &Status| status.members == 2 && status.members().contains(&4);
    cluster.await_status("the new node is a member", becomes);
    cluster.write(10);
    cluster.check();
}
