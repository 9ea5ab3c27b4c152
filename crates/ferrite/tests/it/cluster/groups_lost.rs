//! What of several groups is lost with the nodes that had their complete copies, and given up by an
//! operator: those groups, and nothing of the others.

use super::groups::spread;
use super::handing_over::{accept_loss, admin};
use super::{Cluster, Lines, Node, PATIENCE, addresses};
use crate::common::Server;
use std::collections::BTreeSet;
use std::time::Instant;

impl Cluster {
    /// Starts these with their administration ports, while `meanwhile` acts, which the servers may
    /// need in order to be ready.
    fn start_with_ports(&mut self, places: &[usize], ports: &[String], meanwhile: impl FnOnce()) {
        let servers: Vec<Server> = std::thread::scope(|scope| {
            let start = |place: &usize| {
                let dir = self.dir(*place);
                let port = ports[*place].clone();
                scope.spawn(move || Server::start(&dir, &["--admin-listen", &port]))
            };
            let starting: Vec<_> = places.iter().map(start).collect();
            meanwhile();
            starting.into_iter().map(|thread| thread.join().expect("it starts")).collect()
        });
        for (place, mut server) in places.iter().zip(servers) {
            let lines = Lines::of(&mut server);
            self.nodes[*place] = Some(Node { server, lines });
        }
    }

    /// The rows that are there, as that node says.
    fn rows_from(&self, place: usize) -> BTreeSet<i64> {
        let is_there = |id: &&i64| {
            let found = self.on(place, "a read", |db| db.0.call_blocking("get", (**id,)).ok());
            found.tables[0].rows.len() == 1
        };
        self.written.iter().filter(is_there).copied().collect()
    }
}

#[test]
fn an_old_copy_leads_the_groups_that_are_lost_and_no_others() {
    let mut cluster = spread(&[]);
    cluster.await_places(0);
    (0..3).for_each(|place| cluster.put_through(place));
    let old = cluster.written.clone();
    // What node 1 had with node 2 is then on node 2 only, which loses its copies, but for its vote.
    cluster.kill(0);
    [1, 2].into_iter().for_each(|place| cluster.put_through(place));
    let written = cluster.written.clone();
    cluster.kill(1);
    std::fs::write(cluster.dir(1).join("unsynced"), "anew").expect("the directory is there");
    let ports = addresses(3);
    let through = ports[0].clone();
    cluster.start_with_ports(&[0, 1], &ports, || {
        let deadline = Instant::now() + PATIENCE;
        let until = |node: &str, words: &str| loop {
            let (done, said) = accept_loss(node, &through);
            if said.contains(words) {
                return (done, said);
            }
            assert!(Instant::now() < deadline, "{said}; {}", admin(&["status", "--server", &through]).1);
            std::thread::yield_now();
        };
        let (done, said) = until("3", "node 3 keeps none of the groups that no node leads");
        assert!(!done, "{said}");
        let (done, said) = until("1", "node 1 leads group");
        assert!(done, "{said}");
    });
    cluster.nodes[0].as_ref().expect("it runs").lines.wait("LOSS ACCEPTED by an operator: node 1");
    let there = cluster.rows_from(2);
    assert!(there.is_superset(&old), "an old copy has what there was when it was complete");
    let lost: Vec<i64> = written.difference(&there).copied().collect();
    assert!(!lost.is_empty(), "two groups of six had new rows on a lost node only");
    // Every partition has some of these rows.
    assert!(lost.len() < written.len() - old.len(), "the others' rows are there: {lost:?}");
    cluster.written = there;
    (0..3).for_each(|place| cluster.put_through(place));
    cluster.await_places(0);
    (0..3).for_each(|place| cluster.see_all_from(place));
}
