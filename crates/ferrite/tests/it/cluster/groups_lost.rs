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
    // What node 1 had with node 2 is then on node 2 only.
    cluster.kill(0);
    [1, 2].into_iter().for_each(|place| cluster.put_through(place));
    let written = cluster.written.clone();
    cluster.continue_without_node_2();
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

/// All groups have all rows of a table that is not partitioned, and each has its own copy.
const REPLICATED: &str = "
    CREATE TABLE names (id BIGINT NOT NULL, v VARCHAR(20), PRIMARY KEY (id), UNIQUE (v));
    CREATE PROCEDURE names_at PARTITION ON TABLE t COLUMN id AS
      SELECT id, v FROM names WHERE id <> CAST(? AS BIGINT) ORDER BY id;";

/// Made while a node is away, changed once, and filled.
const LATE: &str = "DROP TABLE late IF EXISTS; CREATE TABLE late (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id));";

/// Whether the node may lead what it has, asked until that is answered with these words.
fn accept_until(node: &str, through: &str, words: &str) -> (bool, String) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (done, said) = accept_loss(node, through);
        if said.contains(words) {
            return (done, said);
        }
        assert!(Instant::now() < deadline, "{said}; {}", admin(&["status", "--server", through]).1);
        std::thread::yield_now();
    }
}

impl Cluster {
    fn statement_at(&self, place: usize, text: &str) {
        self.on(place, text, |db| db.0.call_blocking("@AdHoc", (text,)).ok());
    }

    /// While node 1 is away, node 2 loses its copies, but for its vote; then node 1 leads what it
    /// had together with node 2, with what it has.
    fn continue_without_node_2(&mut self) {
        self.kill(1);
        std::fs::write(self.dir(1).join("unsynced"), "anew").expect("the directory is there");
        let ports = addresses(3);
        self.start_with_ports(&[0, 1], &ports, || {
            let (done, said) = accept_until("3", &ports[0], "node 3 keeps none of the groups that no node leads");
            assert!(!done, "{said}");
            let (done, said) = accept_until("1", &ports[0], "node 1 leads group");
            assert!(done, "{said}");
        });
    }

    fn see_late_rows_from(&self, place: usize) {
        let sum = "SELECT SUM(v * 100 + w) FROM late";
        let found = self.on(place, sum, |db| db.0.call_blocking("@AdHoc", (sum,)).ok());
        assert_eq!(found.scalar(), Some(3_014), "from node {}", place + 1);
    }

    /// What the copy of the partition with that key has.
    fn names_at(&self, place: usize, key: i64) -> String {
        let found = self.on(place, "names", |db| db.0.call_blocking("names_at", (-1 - key,)).ok());
        format!("{:?}", found.tables[0].rows)
    }
}

#[test]
fn copies_of_a_replicated_table_are_made_equal_after_an_accepted_loss() {
    let mut cluster = spread(&[]);
    cluster.await_places(0);
    REPLICATED.split_inclusive(";\n").for_each(|text| cluster.statement_at(0, text));
    for id in 0..8 {
        cluster.statement_at(id as usize % 3, &format!("UPSERT INTO names VALUES ({id}, 'name {id}')"));
    }
    // What node 1 had with node 2 is then on node 2 only.
    cluster.kill(0);
    cluster.statement_at(1, "UPDATE names SET v = 'newer' WHERE id = 3");
    cluster.statement_at(2, "DELETE FROM names WHERE id < 2");
    cluster.statement_at(1, "UPSERT INTO names VALUES (20, 'name 3')");
    let wanted = cluster.names_at(2, 0);
    assert!(wanted.contains("newer"), "{wanted}");
    cluster.continue_without_node_2();
    let lines = &cluster.nodes[0].as_ref().expect("it runs").lines;
    lines.wait("continues from an older copy than other groups");
    // Whichever copy answers, it is refused or right.
    for key in 0..40 {
        assert_eq!(cluster.names_at(key as usize % 3, key), wanted, "key {key}");
    }
    lines.wait("in group 3 are equal to those of the other groups");
    cluster.statement_at(0, "UPDATE names SET v = 'name 3' WHERE id = 30");
    cluster.statement_at(2, "UPDATE names SET v = 'last' WHERE id = 20");
    let wanted = cluster.names_at(1, 0);
    assert!(wanted.contains("last"), "{wanted}");
    for key in 0..40 {
        assert_eq!(cluster.names_at(key as usize % 3, key), wanted, "key {key}");
    }
}

/// Groups 0 and 3 are led by nodes 1 and 2, each of which copies the other.
#[test]
fn the_first_group_gets_schema_changes_that_it_has_lost() {
    let mut cluster = spread(&[]);
    cluster.await_places(0);
    cluster.put_through(0);
    cluster.kill(0);
    cluster.statement_at(1, LATE);
    cluster.statement_at(2, "UPSERT INTO late VALUES (1, 10), (2, 20)");
    cluster.statement_at(2, "ALTER TABLE late ADD COLUMN w BIGINT DEFAULT 7");
    cluster.continue_without_node_2();
    (0..3).for_each(|place| cluster.see_late_rows_from(place));
    cluster.statement_at(0, "CREATE INDEX late_v ON late (v)");
    cluster.statement_at(1, "UPDATE late SET v = 11 WHERE id = 1");
    (0..3).for_each(|place| cluster.put_through(place));
    (0..3).for_each(|place| cluster.see_all_from(place));
}

/// The first group is led by the same process all the time, and has told group 2 of these changes.
#[test]
fn another_group_gets_schema_changes_that_it_has_lost() {
    let mut cluster = spread(&[]);
    cluster.await_places(0);
    cluster.put_through(0);
    cluster.kill(2);
    cluster.statement_at(0, LATE);
    cluster.statement_at(0, "ALTER TABLE late ADD COLUMN w BIGINT DEFAULT 7");
    cluster.statement_at(0, "UPSERT INTO late VALUES (1, 10, 7), (2, 20, 7)");
    // By then nothing is under way any more.
    [0, 1].into_iter().for_each(|place| cluster.put_through(place));
    let ports = addresses(3);
    cluster.kill(1);
    cluster.start_with_ports(&[2], &ports, || {
        let (done, said) = accept_until("3", &ports[2], "node 3 leads group");
        assert!(done, "{said}");
    });
    [0, 2].into_iter().for_each(|place| cluster.see_late_rows_from(place));
    cluster.statement_at(2, "CREATE INDEX late_v ON late (v)");
    cluster.statement_at(0, "UPDATE late SET v = 11 WHERE id = 1");
    cluster.put_through(0);
    cluster.put_through(2);
}
