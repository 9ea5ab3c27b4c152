//! From a server without others to a cluster, and back where the others are lost for good.

use super::handing_over::admin;
use super::{Cluster, TABLE, addresses};
use crate::common::Server;
use std::path::Path;

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
    let (done, said) = leave_cluster(&dir);
    assert!(done && said.contains("is a database without others now"), "{said}");
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
