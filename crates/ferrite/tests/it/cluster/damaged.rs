//! Copies whose files are damaged when their node starts.

use super::handing_over::{accept_loss, admin};
use super::{Cluster, Lines, Node, PATIENCE, TABLE, addresses};
use crate::common::Server;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

const SECTOR_BYTES: usize = 4096;
/// What a block of the log begins with.
const BLOCK: &[u8] = b"FBLK";

/// Makes a block in the middle of the log unreadable, behind which others were durable.
fn damage(dir: &Path) {
    let path = dir.join("redo-0000000001.log");
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("the log is there");
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("it can be read");
    let blocks: Vec<usize> =
        (0..bytes.len()).step_by(SECTOR_BYTES).filter(|at| bytes[*at..].starts_with(BLOCK)).collect();
    let at = blocks[blocks.len() / 2];
    file.seek(SeekFrom::Start(at as u64)).expect("it is within the file");
    file.write_all(b"scratched").expect("it can be written");
}

/// A cluster of three nodes, K = 1, and the node that has the second copy.
fn with_a_copy() -> (Cluster, usize) {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.write(60);
    let leader = cluster.leader();
    let lines = cluster.nodes[leader].as_ref().expect("it runs").lines.clone();
    lines.wait("is kept by 2 nodes");
    cluster.write(60);
    let copy = lines.keepers().into_iter().find(|place| *place != leader).expect("there are two");
    (cluster, copy)
}

#[test]
fn a_copy_with_a_damaged_log_is_put_aside_and_gets_everything_where_others_lead() {
    let (mut cluster, copy) = with_a_copy();
    cluster.kill(copy);
    damage(&cluster.dir(copy));
    cluster.write(5);
    cluster.start_again(copy);
    let lines = &cluster.nodes[copy].as_ref().expect("it runs").lines;
    lines.wait("is damaged at byte");
    lines.wait("this node's copy is unusable; other nodes keep the group without it: it is put aside");
    let aside = std::fs::read_dir(cluster.dir(copy)).expect("its directory").filter_map(Result::ok);
    let aside: Vec<_> = aside.filter(|entry| entry.file_name().to_string_lossy().starts_with("aside-")).collect();
    assert!(matches!(&aside[..], [one] if one.path().join("redo-0000000001.log").exists()), "{aside:?}");
    // It is as good as any other: the leader is lost, and it takes part in what follows.
    cluster.write(5);
    let leader = cluster.leader();
    cluster.kill(leader);
    cluster.write(5);
    cluster.check();
    cluster.start_again(leader);
    cluster.check_copies(1);
}

#[test]
fn a_damaged_copy_that_is_the_last_is_used_by_an_operators_word_only() {
    let (mut cluster, copy) = with_a_copy();
    let (leader, third) = (cluster.leader(), (0..3).find(|place| *place != copy && *place != cluster.leader()));
    let third = third.expect("there are three");
    // First the one without a copy: behind it no majority decides on other copies, however long the
    // kills take.
    [third, leader, copy].into_iter().for_each(|place| cluster.kill(place));
    std::fs::remove_dir_all(cluster.dir(leader)).expect("its directory is there");
    damage(&cluster.dir(copy));
    // It may be needed, and cannot be used.
    let said = Server::try_start(&cluster.dir(copy), &[]).err().expect("it does not start");
    for words in ["is damaged at byte", "Nothing was changed", "leads the group without this one", "--accept-loss"] {
        assert!(said.contains(words), "{said}");
    }
    let dir = cluster.dir(copy);
    let dir = dir.to_str().expect("its name is text");
    let (done, said) = admin(&["recover", "--accept-loss", "--leave-cluster", "--dir", dir]);
    assert!(
        !done && said.contains("Take another node's directory if one is left") && !said.contains("from a copy"),
        "{said}"
    );
    let (done, said) = admin(&["recover", "--accept-loss", "--dir", dir]);
    assert!(done && said.contains("The redo log was cut at byte"), "{said}");
    assert!(said.contains("This copy is not complete any more"), "{said}");
    // It starts, and does not lead by itself: what it lacks may be somewhere.
    let ports = addresses(3);
    let servers: Vec<Server> = std::thread::scope(|scope| {
        let start = |place: usize| {
            let (dir, port) = (cluster.dir(place), ports[place].clone());
            scope.spawn(move || Server::start(&dir, &["--admin-listen", &port]))
        };
        let starting: Vec<_> = [copy, third].map(start).into_iter().collect();
        let deadline = Instant::now() + PATIENCE;
        let status = || admin(&["status", "--server", &ports[third]]).1;
        while !status().contains("no node leads; it waits for") {
            assert!(Instant::now() < deadline, "{}", status());
            std::thread::yield_now();
        }
        let node = (copy + 1).to_string();
        let (done, said) = accept_loss(&node, &ports[third]);
        assert!(done && said.contains(&format!("node {node} leads group 0 with what it has")), "{said}");
        starting.into_iter().map(|thread| thread.join().expect("it starts")).collect()
    });
    for (place, mut server) in [copy, third].into_iter().zip(servers) {
        let lines = Lines::of(&mut server);
        lines.wait(&format!("LOSS ACCEPTED by an operator: node {}", copy + 1));
        cluster.nodes[place] = Some(Node { server, lines });
    }
    // What stood before the damage is there, and nothing but what was written.
    let there = cluster.rows();
    assert!(!there.is_empty() && there.len() < cluster.written.len(), "{there:?}");
    assert!(there.iter().copied().eq(0..there.len() as i64), "{there:?}");
    cluster.written = there;
    cluster.write(5);
    cluster.check();
}
