//! Starts of a node behind the first: with other options, or with a directory that is not quite
//! what it was.

use super::handing_over::admin;
use super::waiting::Waiting;
use super::{Cluster, TABLE, addresses};
use crate::common::Server;
use std::process::Command;

/// A cluster of three nodes with K = 1 and some rows, of which the third was stopped.
fn without_the_third() -> Cluster {
    let mut cluster = Cluster::start(3, 1);
    cluster.statement(TABLE);
    cluster.write(5);
    cluster.await_whole(1);
    cluster.nodes[2].take().expect("it runs").server.stop();
    cluster
}

#[test]
fn a_node_that_listens_elsewhere_than_before_is_told_where_others_look_for_it() {
    let mut cluster = without_the_third();
    let elsewhere = addresses(1).remove(0);
    let astray = Waiting::start("server", &cluster.dir(2), &["--cluster-listen", &elsewhere]);
    astray.lines.wait(&format!("look for this one at {}, where nothing answers", cluster.hosts[2]));
    drop(astray);
    cluster.start_again(2);
    cluster.write(5);
    cluster.check();
}

/// What the copy has said in the node's name stands, until the original counts as the later one.
#[test]
fn after_a_copied_directory_one_more_start_lets_the_original_in() {
    let mut cluster = without_the_third();
    let copied = cluster.root.path().join("copied");
    let done = Command::new("cp").arg("-r").args([&cluster.dir(2), &copied]).status();
    assert!(done.expect("cp is installed").success());
    let copy = Server::start(&copied, &[]);
    assert!(copy.ready_line.contains("node 3"), "{}", copy.ready_line);
    copy.kill();
    let original = Waiting::start("server", &cluster.dir(2), &[]);
    original.lines.wait("start this one again");
    drop(original);
    cluster.start_again(2);
    cluster.write(5);
    cluster.check();
}

#[test]
fn a_directory_in_which_a_later_release_has_run_is_refused_and_nothing_is_put_aside() {
    let mut cluster = without_the_third();
    let dir = cluster.dir(2);
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(&dir).expect("it is there").map(|entry| entry.expect("one").file_name()).collect();
        names.sort();
        names
    };
    let release = dir.join("release");
    let own = std::fs::read(&release).expect("each release writes it");
    std::fs::write(&release, "formats 99\nrelease 9.9.9\n").expect("it can be written");
    let before = names();
    let started = Server::try_start(&dir, &[]).err().expect("it is not for this release");
    let (done, recovered) = admin(&["recover", "--accept-loss", "--dir", dir.to_str().expect("text")]);
    assert!(!done, "{recovered}");
    for said in [started, recovered] {
        for words in ["was last used by a later release, 9.9.9 (formats 99); this is ", "Nothing was changed"] {
            assert!(said.contains(words), "{said}");
        }
    }
    assert_eq!(names(), before);
    std::fs::write(&release, own).expect("it can be written");
    cluster.start_again(2);
    cluster.write(5);
    cluster.check();
}

#[test]
fn a_damaged_founding_file_is_refused_with_the_way_back() {
    let mut cluster = without_the_third();
    let path = cluster.dir(2).join("founding");
    let mut bytes = std::fs::read(&path).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("it can be written");
    let said = Server::try_start(&cluster.dir(2), &[]).err().expect("it does not know its cluster");
    for words in ["founding cannot be used: ", "start this node with an empty directory", "Keep this directory"] {
        assert!(said.contains(words), "{said}");
    }
    // As the message says.
    std::fs::rename(cluster.dir(2), cluster.root.path().join("kept")).expect("nothing runs there");
    let list = cluster.hosts.join(",");
    let options = ["--cluster", &list, "--kfactor", "1", "--cluster-listen", &cluster.hosts[2]];
    let server = Server::start(&cluster.dir(2), &options);
    assert!(server.ready_line.contains("node 4"), "{}", server.ready_line);
    cluster.runs(2, server);
    cluster.write(5);
    cluster.check();
}

#[test]
fn a_later_start_with_other_options_is_told_what_counts() {
    let mut cluster = without_the_third();
    let (list, schema) = (cluster.hosts.join(","), cluster.root.path().join("schema.sql"));
    std::fs::write(&schema, "CREATE TABLE unused (id BIGINT NOT NULL PRIMARY KEY)").expect("it can be written");
    let schema = schema.to_str().expect("its path is text");
    let options = ["--cluster", &list, "--cluster-listen", &cluster.hosts[2], "--kfactor", "2"];
    let more = ["--durability", "none", "--schema", schema];
    cluster.runs(2, Server::start(&cluster.dir(2), &[&options[..], &more].concat()));
    let lines = |place: usize| &cluster.nodes[place].as_ref().expect("it runs").lines;
    lines(2).wait("--kfactor 1, which cannot change: the options given now are ignored");
    // What is acknowledged is as durable as the weakest: nodes with the same durability say nothing
    // of each other.
    for (place, other, words) in [
        (0, 3, "runs with --durability none, and this node with --durability sync"),
        (1, 3, "runs with --durability none, and this node with --durability sync"),
        (2, 1, "runs with --durability sync, and this node with --durability none"),
        (2, 2, "runs with --durability sync, and this node with --durability none"),
    ] {
        lines(place).wait(&format!("node {other} {words}"));
    }
    assert_eq!((lines(0).count("node 2 runs with"), lines(1).count("node 1 runs with")), (0, 0));
    let words = ["1     data", "sync", "none"];
    cluster.await_words(0, &words);
    // The database is not new any more.
    let (_, refused) = cluster.on_any("a refusal", |db| db.0.call_blocking("@AdHoc", ("SELECT * FROM unused",)).err());
    assert!(refused.to_string().contains("UNUSED"), "{refused}");
    cluster.write(5);
    cluster.check();
}
