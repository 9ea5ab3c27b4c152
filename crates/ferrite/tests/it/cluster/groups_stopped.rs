//! A node of several groups that is stopped while it has a part of a transaction whose outcome is
//! not known.

use super::Cluster;
use ferrite_client::{Client, ClientOptions, OwnedValue};
use std::time::Duration;

const SCHEMA: &str = "CREATE TABLE t (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id)); PARTITION TABLE t ON COLUMN id;
    CREATE PROCEDURE put PARTITION ON TABLE t COLUMN id AS INSERT INTO t VALUES (?, 100);
    CREATE PROCEDURE get PARTITION ON TABLE t COLUMN id AS SELECT v FROM t WHERE id = ?;
    CREATE PROCEDURE move AS BEGIN
        UPDATE t SET v = v - 5 WHERE id = ?; UPDATE t SET v = v + 5 WHERE id = ?;
    END;";

impl Cluster {
    /// By partition, which is the place of the node that leads it, a key.
    fn keys_of_nodes(&self) -> [i64; 3] {
        let found = self.on(0, "keys", |db| db.0.call_blocking("@GetPartitionKeys", ("INTEGER",)).ok());
        let mut keys = [0; 3];
        for row in &found.tables[0].rows {
            let [OwnedValue::Integer(partition), OwnedValue::Integer(key)] = row[..] else { panic!("{row:?}") };
            keys[usize::try_from(partition).expect("a partition")] = key;
        }
        keys
    }

    fn value(&self, place: usize, key: i64) -> i64 {
        let found = self.on(place, "a read", |db| db.0.call_blocking("get", (key,)).ok());
        found.scalar().expect("the row is there")
    }
}

/// Each group is on one node. While the third stands still, the part of the second is in doubt, and
/// nothing can tell it the outcome.
#[test]
fn a_node_that_is_stopped_with_a_part_in_doubt_ends_and_settles_it_at_its_next_start() {
    let mut cluster = Cluster::new(3);
    let schema = cluster.root.path().join("schema.sql");
    std::fs::write(&schema, SCHEMA).expect("a file");
    let schema = schema.to_str().expect("a plain path").to_owned();
    cluster.found(0, &["--partitions-per-node", "1", "--schema", &schema]);
    let keys = cluster.keys_of_nodes();
    keys.iter().for_each(|key| drop(cluster.on(0, "a row", |db| db.0.call_blocking("put", (*key,)).ok())));
    cluster.nodes[2].as_ref().expect("it runs").server.signal("STOP");
    let address = cluster.nodes[0].as_ref().expect("it runs").server.address.clone();
    let options = ClientOptions { call_timeout: Duration::from_secs(120), ..ClientOptions::new([address]) };
    let from = keys[1];
    let to = keys[2];
    let moved = std::thread::spawn(move || {
        Client::connect(options).expect("it runs").call_blocking("move", (from, to)).map(|_| ())
    });
    // It has been under way for far longer than the second node takes for its part.
    cluster.on(0, "a lot that waits", |db| {
        let lots = db.0.call_blocking("@Statistics", ("LOTS", 0i32)).ok()?;
        let table = &lots.tables[0];
        let column = table.column_index("OPEN_MS").expect("a column");
        matches!(table.rows[0][column], OwnedValue::Integer(millis) if millis > 500).then_some(())
    });
    cluster.nodes[1].take().expect("it runs").server.stop();
    cluster.nodes[2].as_ref().expect("it runs").server.signal("CONT");
    cluster.start_again(1);
    let moved = moved.join().expect("a call has an outcome");
    let values = [cluster.value(0, from), cluster.value(0, to)];
    match moved {
        Ok(()) => assert_eq!(values, [95, 105]),
        Err(error) => assert!(values == [100, 100] || values == [95, 105], "{values:?}: {error}"),
    }
    // Nothing of it is left.
    cluster.on(0, "another transfer", |db| db.0.call_blocking("move", (to, from)).ok());
    let after = [cluster.value(0, from), cluster.value(0, to)];
    assert!(after[0] > values[0] && after[0] + after[1] == 200, "{values:?}, then {after:?}");
}
