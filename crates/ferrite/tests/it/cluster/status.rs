//! What `ferrite admin status` says while a node is not well.

use super::{Cluster, PATIENCE, TABLE};
use crate::full_disk::SmallDisk;
use std::time::Instant;

impl Cluster {
    /// Asks a node until it says all of that; what it says.
    pub(super) fn await_words(&self, place: usize, words: &[&str]) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (done, said) = self.admin(place, &["status"]);
            if done && words.iter().all(|word| said.contains(word)) {
                return said;
            }
            assert!(Instant::now() < deadline, "in vain for {words:?}: {said}");
            std::thread::yield_now();
        }
    }
}

const ALL_VOTE: &str = "voters: 3 of 3 are there; decisions survive 1 more loss";

#[test]
fn a_vote_that_cannot_be_written_does_not_count_and_counts_again() {
    let mut cluster = Cluster::new(3);
    // Its node keeps no copy: only its vote needs the disk.
    let Some(disk) = SmallDisk::at(&cluster.dir(2), 400) else { return };
    cluster.found(1, &[]);
    cluster.statement(TABLE);
    cluster.write(5);
    let one_loss = "the data survive 1 more loss, the service 1\n";
    cluster.await_words(0, &["node 1 leads 2 of 2 copies", one_loss, ALL_VOTE]);
    disk.fill();
    let words = [
        "node 3 cannot vote at the moment",
        "voters: 2 of 3 are there; decisions survive 0 more losses",
        "the data survive 1 more loss, the service 0\n",
    ];
    for place in 0..3 {
        cluster.await_words(place, &words);
    }
    let lines = &cluster.nodes[2].as_ref().expect("it runs").lines;
    lines.wait("this node cannot vote: cannot write");
    disk.free();
    lines.wait("this node votes again");
    for place in 0..3 {
        cluster.await_words(place, &[one_loss, ALL_VOTE]);
    }
    cluster.write(5);
    cluster.check();
}

/// The cells of a node's row that are not empty.
pub(super) fn cells(said: &str, node: usize) -> Vec<&str> {
    let row = said.lines().find(|line| line.split_whitespace().next() == Some(&node.to_string()));
    row.expect("the node's row").split_whitespace().collect()
}

#[test]
fn a_node_that_was_killed_is_shown_as_silent_and_one_that_comes_back_tells_the_truth_at_once() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.write(5);
    let one_loss = "the data survive 1 more loss, the service 1\n";
    cluster.await_words(0, &["node 1 leads 2 of 2 copies", one_loss, ALL_VOTE]);
    let keepers = cluster.nodes[0].as_ref().expect("it runs").lines.keepers();
    let (member, other) = if keepers.contains(&1) { (1, 2) } else { (2, 1) };
    cluster.kill(other);
    let gone = format!("node {} is not reached", other + 1);
    let said = cluster.await_words(0, &["voters: 2 of 3 are there", &gone]);
    // The metadata never hear that it was killed.
    assert_eq!(cells(&said, other + 1)[1..5], ["data", "silent", "no", "missing"], "{said}");
    assert_eq!(cells(&said, member + 1)[1..6], ["data", "running", "yes", "member", "yes"], "{said}");
    // It is no member, and takes its word for it from one that is.
    cluster.start_again(other);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (done, said) = cluster.admin(other, &["status"]);
        assert!(done && !said.contains("survive 0"), "{said}");
        if said.contains(one_loss) && said.contains(ALL_VOTE) {
            break;
        }
        assert!(said.contains("it does not know yet") || said.contains("have said"), "{said}");
        assert!(Instant::now() < deadline, "{said}");
    }
    cluster.check();
}

#[test]
fn a_node_from_which_nothing_comes_is_not_reached_though_its_connections_are_open() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.write(5);
    cluster.await_words(0, &["node 1 leads 2 of 2 copies", ALL_VOTE]);
    // As a machine that is gone without a word: its system answers to nothing but packets.
    cluster.nodes[2].as_ref().expect("it runs").server.signal("STOP");
    let said = cluster.await_words(0, &["node 3 is not reached (nothing came from it for 2 s)"]);
    let header: Vec<&str> = said.lines().next().expect("a header").split_whitespace().collect();
    let node: Vec<&str> = said.lines().nth(3).expect("node 3").split_whitespace().collect();
    let column = |name: &str| header.iter().position(|column| *column == name).expect("a column");
    assert_eq!((node[column("node")], node[column("reached")]), ("3", "no"), "{said}");
    // Before it there may be a role, behind it what is lacking.
    let silent = node.iter().rev().find_map(|cell| cell.parse::<u64>().ok()).expect("a number");
    assert!((2_000..60_000).contains(&silent), "{said}");
    cluster.nodes[2].as_ref().expect("it runs").server.signal("CONT");
    cluster.await_words(0, &[ALL_VOTE]);
    cluster.check();
}
