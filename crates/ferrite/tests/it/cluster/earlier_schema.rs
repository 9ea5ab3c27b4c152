//! A node whose copies are behind does not deny what clients know to be there.

use super::groups::spread_with;
use super::{Cluster, Node, PATIENCE, TABLE};
use crate::common::{Db, Server};
use ferrite_client::{Client, ClientError, ClientOptions, Status};
use std::time::Instant;

impl Cluster {
    /// Adds one to the row's `v` through a node that has just started, until that is acknowledged
    /// several times. Each refusal says that nothing was executed.
    fn use_while_it_comes_back(&self, place: usize, text: &str, procedure: &str) {
        let address = &self.nodes[place].as_ref().expect("it runs").server.address;
        let db = Db(Client::connect(ClientOptions::new([address])).expect("it is ready"));
        let deadline = Instant::now() + PATIENCE;
        let (mut statements, mut calls) = (0, 0);
        let mut id = 0;
        while statements < 20 || calls < 20 {
            id += 1;
            let outcomes = [
                (&mut statements, db.0.call_blocking("@AdHoc", (text, id))),
                (&mut calls, db.0.call_blocking(procedure, (id,))),
            ];
            for (done, outcome) in outcomes {
                match outcome {
                    Ok(_) => *done += 1,
                    Err(ClientError::Failed(response)) => {
                        assert_eq!(response.status(), Some(Status::ServerUnavailable), "{:?}", response.status_text);
                    }
                    Err(other) => panic!("the node is there: {other}"),
                }
            }
            assert!(Instant::now() < deadline, "{statements} statements and {calls} calls are done");
        }
    }

    /// A node in an empty directory takes the place of one that is gone.
    fn replace(&mut self, place: usize, options: &[&str]) {
        let mut server = Server::start(&self.dir(place), options);
        let lines = super::Lines::of(&mut server);
        self.nodes[place] = Some(Node { server, lines });
    }

    fn make(&self, place: usize, table: &str) {
        let text = format!(
            "CREATE TABLE {table} (id BIGINT NOT NULL, PRIMARY KEY (id)); PARTITION TABLE {table} ON COLUMN id;
            CREATE PROCEDURE put_{table} PARTITION ON TABLE {table} COLUMN id AS UPSERT INTO {table} VALUES (?)"
        );
        self.on(place, "a table", |db| match db.0.call_blocking("@AdHoc", (&*text,)) {
            Ok(_) => Some(()),
            Err(error) => error.to_string().contains("already exists").then_some(()),
        });
    }
}

#[test]
fn a_node_that_starts_does_not_deny_what_is_there() {
    let mut cluster = spread_with(TABLE, &[]);
    cluster.await_places(0);
    for round in 0..3 {
        let table = format!("u{round}");
        cluster.kill(2);
        cluster.make(0, &table);
        cluster.start_again(2);
        cluster.use_while_it_comes_back(2, &format!("UPSERT INTO {table} VALUES (?)"), &format!("put_{table}"));
        cluster.await_places(0);
    }
    // Another takes its place, which has nothing.
    cluster.kill(2);
    std::fs::remove_dir_all(cluster.dir(2)).expect("its directory is there");
    let (list, host) = (cluster.hosts.join(","), cluster.hosts[2].clone());
    // The layout is what the cluster was founded with.
    let said = Server::try_start(&cluster.dir(2), &["--cluster", &list, "--cluster-listen", &host, "--kfactor", "1"]);
    let said = said.err().expect("it is refused");
    assert!(
        said.contains("founded with --partitions-per-node 4") && said.contains("no --partitions-per-node"),
        "{said}"
    );
    let options = ["--cluster", &list, "--cluster-listen", &host, "--kfactor", "1", "--partitions-per-node", "4"];
    cluster.replace(2, &options);
    cluster.use_while_it_comes_back(2, "UPSERT INTO u0 VALUES (?)", "put_u1");
    for (_, node) in cluster.running() {
        node.lines.are_of_good_ends();
    }
}

/// The snapshot that a replacement begins with has the schema as one text: what leads to it one by
/// one is gone, and the node leads the first group by that.
#[test]
fn after_many_changes_a_replacement_makes_the_next_one() {
    let mut cluster = spread_with(TABLE, &[]);
    for number in 0..110 {
        cluster.on(0, "a table", |db| {
            match db.0.call_blocking("@AdHoc", (format!("CREATE TABLE x{number} (a INT)"),)) {
                Ok(_) => Some(()),
                Err(error) => error.to_string().contains("already exists").then_some(()),
            }
        });
    }
    cluster.kill(0);
    std::fs::remove_dir_all(cluster.dir(0)).expect("its directory is there");
    let (list, host) = (cluster.hosts.join(","), cluster.hosts[0].clone());
    let options = ["--cluster", &list, "--cluster-listen", &host, "--kfactor", "1", "--partitions-per-node", "4"];
    cluster.replace(0, &options);
    cluster.await_words(1, &["group 0: node 4 leads 2 of 2 copies"]);
    cluster.make(1, "after_all");
    cluster.use_while_it_comes_back(0, "UPSERT INTO after_all VALUES (?)", "put_after_all");
}
