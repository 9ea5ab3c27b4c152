//! A node whose copy is of no use starts again by itself, and gets everything from the leader.

use super::handing_over::admin;
use super::{Cluster, Lines, Node, PATIENCE, TABLE, addresses};
use crate::common::Server;
use std::time::Instant;

const AGAIN: &str = "this node restarts to get everything from the leader";

/// The third node has what the others do not have any more, and go on without: what it has is put
/// aside. That it is told so may be before it says that it is ready, or after that.
#[test]
fn a_node_whose_copy_is_of_no_use_starts_again_by_itself() {
    let mut cluster = Cluster::start(3, 2);
    cluster.statement(TABLE);
    cluster.write(20);
    cluster.nodes[0].as_ref().expect("it runs").lines.wait("is kept by 3 nodes");
    cluster.kill(0);
    let old = cluster.written.clone();
    cluster.write(20);
    for place in [1, 2] {
        cluster.kill(place);
    }
    std::fs::write(cluster.dir(1).join("unsynced"), "anew").expect("the directory is there");
    let ports = addresses(2);
    let servers: Vec<Server> = std::thread::scope(|scope| {
        let start = |place: usize| {
            let (dir, port) = (cluster.dir(place), ports[place].clone());
            scope.spawn(move || Server::start(&dir, &["--admin-listen", &port]))
        };
        let starting: Vec<_> = (0..2).map(start).collect();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (done, said) = admin(&["recover", "--accept-loss", "--node", "1", "--server", &ports[0]]);
            if done {
                break;
            }
            assert!(Instant::now() < deadline, "{said}");
        }
        starting.into_iter().map(|thread| thread.join().expect("it starts")).collect()
    });
    for (place, mut server) in servers.into_iter().enumerate() {
        let lines = Lines::of(&mut server);
        cluster.nodes[place] = Some(Node { server, lines });
    }
    cluster.written = old;
    cluster.write(20);
    cluster.start_again(2);
    let third = cluster.nodes[2].as_ref().expect("it runs").lines.clone();
    third.wait(AGAIN);
    // The others said so before they went on without it, and may say it again when they start.
    third.wait("is kept by 3 nodes: node 1, node 2 and node 3");
    assert!(cluster.dir(2).read_dir().expect("a directory").any(|entry| {
        let name = entry.expect("a name").file_name();
        name.to_string_lossy().starts_with("aside-")
    }));
    // It is as good as any other: alone with its vote and one more it has everything.
    cluster.kill(0);
    cluster.write(5);
    cluster.check();
}
