//! From a server without others to a cluster, and back where the others are lost for good.

use super::handing_over::admin;
use super::{Cluster, TABLE, addresses};
use crate::common::Server;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn leave_cluster(dir: &Path) -> (bool, String) {
    let dir = dir.to_str().expect("its path is text");
    admin(&["recover", "--dir", dir, "--accept-loss", "--leave-cluster"])
}

#[test]
fn a_cluster_begins_with_a_database_and_what_is_left_of_it_is_one() {
    let mut cluster = Cluster::new(3);
    cluster.runs(1, Server::start(&cluster.dir(1), &["--partitions", "2"]));
    cluster.statement(TABLE);
    cluster.write(40);
    cluster.kill(1);
    cluster.found(1, &[]);
    assert_eq!(cluster.leader(), 1, "nobody else has anything");
    cluster.check();
    cluster.write(40);
    cluster.nodes[1].as_ref().expect("it runs").lines.wait("is kept by 2 nodes");
    cluster.kill(1);
    cluster.write(40);
    cluster.check();
    let (done, said) = leave_cluster(&cluster.dir(1));
    assert!(!done && said.contains("other nodes of this cluster run (at "), "{said}");

    let left = cluster.leader();
    for place in 0..3 {
        if cluster.nodes[place].is_some() {
            cluster.kill(place);
        }
        if place != left {
            std::fs::remove_dir_all(cluster.dir(place)).expect("it is there");
        }
    }
    let dir = cluster.dir(left);
    let (done, said) = admin(&["recover", "--accept-loss", "--dir", dir.to_str().expect("text")]);
    assert!(done && said.contains("nothing was changed. It is the copy of node"), "{said}");
    assert!(said.contains("--leave-cluster") && !said.contains("the database opens"), "{said}");
    let (done, said) = leave_cluster(&dir);
    assert!(done && said.contains("is a single-node database now"), "{said}");
    let (done, said) = leave_cluster(&dir);
    assert!(!done && said.contains("is not the directory of a cluster's node"), "{said}");
    cluster.runs(left, Server::start(&dir, &[]));
    cluster.check();
    cluster.write(20);
    cluster.kill(left);

    cluster.hosts = addresses(3);
    cluster.found(1, &[]);
    assert_eq!(cluster.leader(), left);
    cluster.write(20);
    cluster.nodes[left].as_ref().expect("it runs").lines.wait("is kept by 2 nodes");
    cluster.kill(left);
    cluster.write(20);
    cluster.check();
}

#[test]
fn a_database_is_what_it_was_while_no_cluster_has_begun_with_it() {
    let mut cluster = Cluster::new(3);
    cluster.runs(1, Server::start(&cluster.dir(1), &["--partitions", "2"]));
    cluster.statement(TABLE);
    cluster.write(20);
    cluster.nodes[1].take().expect("it runs").server.stop();
    let (dir, list) = (cluster.dir(1), cluster.hosts.join(","));
    let options = ["--cluster", &list, "--cluster-listen", &cluster.hosts[1]];
    for (more, words) in [
        (&["--join"][..], "has a database, and a node that joins gets the cluster's"),
        (&["--kfactor", "1", "--partitions", "3"], "was created with 2 partitions and cannot be opened with 3"),
    ] {
        let said = Server::try_start(&dir, &[&options[..], more].concat()).err().expect("it is refused");
        assert!(said.contains(words), "{more:?}: {said}");
    }
    let witness =
        Command::new(env!("CARGO_BIN_EXE_ferrite")).arg("witness").args(options).arg("--dir").arg(&dir).output();
    let said = String::from_utf8_lossy(&witness.expect("the program can be started").stderr).into_owned();
    assert!(said.contains("has a database, and a witness keeps none"), "{said}");

    // Twice, so that the second finds what the first has declared.
    for arguments in [[&options[..], &["--kfactor", "1"]].concat(), Vec::new()] {
        let mut early = Command::new(env!("CARGO_BIN_EXE_ferrite"))
            .args(["server", "--listen", "127.0.0.1:0", "--dir"])
            .arg(&dir)
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test can be started");
        let mut lines = BufReader::new(early.stderr.take().expect("stderr is a pipe")).lines();
        let heard = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("waiting for node 1")));
        assert!(heard.is_some(), "it waits for the others");
        let ended = Command::new("kill").args(["-TERM", &early.id().to_string()]).status();
        assert!(ended.expect("kill is installed").success());
        assert_eq!(early.wait().expect("it ends").code(), Some(0));
    }
    let (done, said) = leave_cluster(&dir);
    assert!(!done && said.contains("remove the file 'founding'"), "{said}");
    std::fs::remove_file(dir.join("founding")).expect("it is there");
    cluster.runs(1, Server::start(&dir, &[]));
    cluster.check();
}

#[test]
fn each_of_two_copies_is_a_database_of_its_own_when_nothing_can_be_decided() {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.write(40);
    let leader = cluster.leader();
    cluster.nodes[leader].as_ref().expect("it runs").lines.wait("is kept by 2 nodes");
    cluster.write(40);
    // First the one without a copy: it would take over that of a member that is gone.
    let keepers = cluster.nodes[leader].as_ref().expect("it runs").lines.keepers();
    let mut places = [0, 1, 2];
    places.sort_by_key(|place| keepers.contains(place));
    places.into_iter().for_each(|place| cluster.kill(place));
    let dirs: Vec<_> = (0..3).map(|place| cluster.dir(place)).collect();
    let founding = |place: usize| dirs[place].join("founding");
    // As it is where the command is ended in the middle.
    std::fs::remove_file(founding(leader)).expect("it is there");
    let said = Server::try_start(&dirs[leader], &[]).err().expect("it is no node of the cluster any more");
    assert!(said.contains("give that command again"), "{said}");
    let mut left = Vec::new();
    for (place, dir) in dirs.iter().enumerate() {
        let (done, said) = leave_cluster(dir);
        assert!(done || said.contains("no redo log") || said.contains("no database"), "{said}");
        assert_eq!(founding(place).exists(), !done, "where nothing is done, it can still start");
        left.push(done);
    }
    assert_eq!(left.iter().filter(|left| **left).count(), 2, "{left:?}");
    // Those of the other hold for what both have: each was acknowledged by both.
    let written = cluster.written.clone();
    for place in (0..3).filter(|place| left[*place]) {
        cluster.written = written.clone();
        cluster.runs(place, Server::start(&dirs[place], &[]));
        cluster.check();
        cluster.write(20);
        cluster.kill(place);
    }
}
