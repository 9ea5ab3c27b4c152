//! A cluster whose partitions are in several groups: every node leads some and copies others.

use super::{Cluster, PATIENCE, addresses};
use crate::common::{Db, Server};
use ferrite_client::{Client, ClientOptions, OwnedResponse, OwnedValue, Status};
use ferrite_value::{SqlType, Value};
use ferrite_wire::{TableHeader, TableWriter};
use std::collections::BTreeMap;
use std::time::Instant;

const SCHEMA: &str =
    "CREATE TABLE t (id BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (id)); PARTITION TABLE t ON COLUMN id;
CREATE PROCEDURE put PARTITION ON TABLE t COLUMN id AS UPSERT INTO t VALUES (?, ?);
CREATE PROCEDURE get PARTITION ON TABLE t COLUMN id AS SELECT v FROM t WHERE id = ?;";
const ROWS_PER_ROUND: i64 = 30;
/// Each node leads two of the six groups, with one partition each.
const LED: [[u32; 2]; 3] = [[0, 1], [2, 3], [4, 5]];

/// Three nodes with one copy of everything besides the first, and six groups.
pub(super) fn spread(more: &[&str]) -> Cluster {
    spread_with(SCHEMA, more)
}

/// The same with that schema.
pub(super) fn spread_with(schema: &str, more: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(3);
    let text = schema;
    let schema = cluster.root.path().join("schema.sql");
    std::fs::write(&schema, text).expect("a file");
    let schema = schema.to_str().expect("a plain path").to_owned();
    cluster.found(1, &[&["--partitions-per-node", "4", "--schema", &schema], more].concat());
    cluster
}

impl Cluster {
    /// Writes rows through a node, until each is acknowledged.
    pub(super) fn put_through(&mut self, place: usize) {
        for id in self.next..self.next + ROWS_PER_ROUND {
            self.on(place, "a write", |db| db.0.call_blocking("put", (id, 3 * id)).ok());
            self.written.insert(id);
        }
        self.next += ROWS_PER_ROUND;
    }

    /// Every row is there, seen from that node, by procedure and by statement.
    pub(super) fn see_all_from(&self, place: usize) {
        for id in &self.written {
            let found = self.on(place, "a read", |db| db.0.call_blocking("get", (*id,)).ok());
            assert_eq!(found.scalar(), Some(3 * id), "row {id} from node {}", place + 1);
        }
        let id = self.written.first().expect("rows were written");
        let text = format!("SELECT v FROM t WHERE id = {id}");
        let found = self.on(place, &text, |db| db.0.call_blocking("@AdHoc", (&*text,)).ok());
        assert_eq!(found.scalar(), Some(3 * id));
    }

    /// Asks one node until it does it.
    pub(super) fn on<T>(&self, place: usize, what: &str, mut call: impl FnMut(&Db) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let address = &self.nodes[place].as_ref().expect("it runs").server.address;
        loop {
            if let Ok(client) = Client::connect(ClientOptions::new([address]))
                && let Some(done) = call(&Db(client))
            {
                return done;
            }
            assert!(Instant::now() < deadline, "in vain for {what} at node {}", place + 1);
            std::thread::yield_now();
        }
    }

    /// All at once: none may remove another from the members before.
    fn lose_power(&mut self) {
        self.running().for_each(|(_, node)| node.server.signal("KILL"));
        (0..self.nodes.len())
            .filter(|place| self.nodes[*place].is_some())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|place| self.kill(place));
    }

    /// By partition, the node that leads it, as a node tells its clients.
    fn topology(&self, place: usize) -> BTreeMap<i64, String> {
        let response = self.on(place, "TOPO", |db| db.0.call_blocking("@Statistics", ("TOPO", 0)).ok());
        let row = |row: &Vec<OwnedValue>| match (&row[0], &row[2]) {
            (OwnedValue::Integer(partition), OwnedValue::Text(leader)) => {
                (*partition, leader.split(':').next().unwrap_or_default().to_owned())
            }
            other => panic!("not a partition and its leader: {other:?}"),
        };
        response.tables[0].rows.iter().map(row).filter(|(partition, _)| *partition < 6).collect()
    }

    /// Waits until the status says of every group that the node of its place leads all copies.
    pub(super) fn await_places(&self, place: usize) {
        let groups = (1..).zip(LED).flat_map(|(node, led)| led.map(|group| (node, group)));
        let words: Vec<String> =
            groups.map(|(node, group)| format!("group {group}: node {node} leads 2 of 2 copies")).collect();
        self.await_words(place, &words.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn every_node_leads_some_groups_and_a_lost_node_s_are_led_by_the_others() {
    let mut cluster = spread(&[]);
    (0..3).for_each(|place| cluster.put_through(place));
    cluster.await_places(0);
    (0..3).for_each(|place| cluster.see_all_from(place));
    let expected: BTreeMap<i64, String> =
        (1..).zip(LED).flat_map(|(node, led)| led.map(|group| (i64::from(group), node.to_string()))).collect();
    (0..3).for_each(|place| assert_eq!(cluster.topology(place), expected, "as node {} says", place + 1));
    cluster.kill(1);
    [0, 2].into_iter().for_each(|place| cluster.put_through(place));
    [0, 2].into_iter().for_each(|place| cluster.see_all_from(place));
    let after = cluster.topology(0);
    assert!(after.values().all(|leader| leader != "2"), "a lost node leads nothing: {after:?}");
    assert_ne!(after[&2], after[&3], "its groups are led by two others");
    // It comes back, and leads again what it has its place for.
    cluster.start_again(1);
    cluster.put_through(1);
    cluster.await_places(1);
    (0..3).for_each(|place| cluster.see_all_from(place));
    // One that ends in good order hands over all that it leads.
    let lines = cluster.nodes[2].as_ref().expect("it runs").lines.clone();
    cluster.nodes[2].take().expect("it runs").server.stop();
    LED[2].iter().for_each(|group| lines.wait(&format!("this node has handed group {group} over to node")));
    [0, 1].into_iter().for_each(|place| cluster.put_through(place));
    cluster.start_again(2);
    cluster.await_places(2);
    (0..3).for_each(|place| cluster.see_all_from(place));
    for (_, node) in cluster.running() {
        node.lines.are_of_good_ends();
    }
}

#[test]
fn all_groups_are_there_after_a_loss_of_power() {
    let mut cluster = spread(&["--snapshot-interval", "1"]);
    cluster.await_places(0);
    (0..3).for_each(|place| cluster.put_through(place));
    cluster.lose_power();
    cluster.start_all_again();
    (0..3).for_each(|place| cluster.see_all_from(place));
    cluster.await_places(0);
    (0..3).for_each(|place| cluster.put_through(place));
    // Two of them come back, without the leader of two groups.
    cluster.lose_power();
    cluster.start_these_again(&[0, 2]);
    [0, 2].into_iter().for_each(|place| cluster.see_all_from(place));
}

#[test]
fn a_schema_change_reaches_every_group_whichever_node_is_lost() {
    let mut cluster = spread(&[]);
    cluster.await_places(0);
    // Through a node that leads other groups.
    cluster.on(2, "a table", |db| {
        db.0.call_blocking("@AdHoc", ("CREATE TABLE u (id BIGINT NOT NULL, w BIGINT, PRIMARY KEY (id))",)).ok()
    });
    cluster.on(1, "its partitions", |db| {
        let text = "PARTITION TABLE u ON COLUMN id;
            CREATE PROCEDURE put_u PARTITION ON TABLE u COLUMN id AS INSERT INTO u VALUES (?, ?); CREATE INDEX v ON t (v)";
        db.0.call_blocking("@AdHoc", (text,)).ok()
    });
    // What was answered is everywhere.
    for id in 0..20 {
        let place = (id % 3) as usize;
        let db = cluster.nodes[place].as_ref().expect("it runs").server.connect();
        db.call("put_u", (id, id));
        assert_eq!(db.scalar(&format!("SELECT w FROM u WHERE id = {id}")), id);
    }
    // The node that leads the first group is lost: the next one knows what there was.
    cluster.kill(0);
    cluster.on(1, "another change", |db| db.0.call_blocking("@AdHoc", ("DROP PROCEDURE get IF EXISTS",)).ok());
    cluster.start_again(0);
    cluster.await_places(0);
    cluster.on(0, "a third", |db| match db.0.call_blocking("@AdHoc", ("CREATE TABLE x (a BIGINT)",)) {
        Ok(_) => Some(()),
        // One whose outcome was not known.
        Err(error) => error.to_string().contains("already exists").then_some(()),
    });
    cluster.lose_power();
    cluster.start_all_again();
    for id in 20..40 {
        let place = (id % 3) as usize;
        cluster.on(place, "a write", |db| db.0.call_blocking("put_u", (id, id)).ok());
        cluster.on(place, "no procedure", |db| db.0.call_blocking("get", (id,)).err());
    }
}

#[test]
fn a_change_that_depends_on_rows_is_made_by_all_groups_or_by_none() {
    let cluster = spread(&[]);
    let databases: Vec<Db> =
        cluster.nodes.iter().map(|node| node.as_ref().expect("it runs").server.connect()).collect();
    let db = &databases[1];
    db.sql("CREATE TABLE n (id BIGINT NOT NULL, v BIGINT); PARTITION TABLE n ON COLUMN id");
    (0..24).for_each(|id| drop(db.sql(&format!("INSERT INTO n VALUES ({id}, {id} + 100)"))));
    db.sql("UPDATE n SET v = NULL WHERE id = 7");
    db.sql("ALTER TABLE n ADD COLUMN w BIGINT DEFAULT 5 NOT NULL; CREATE UNIQUE INDEX i ON n (id, w)");
    db.sql("CREATE VIEW sums (id, c, s) AS SELECT id, COUNT(*), SUM(w) FROM n GROUP BY id");
    for (id, db) in (0..24).zip(databases.iter().cycle()) {
        assert_eq!(db.scalar(&format!("SELECT s FROM sums WHERE id = {id}")), 5, "{id}");
    }
    // Each by one group, or by all.
    for (change, words) in [
        ("ALTER TABLE n ALTER COLUMN v SET NOT NULL", "cannot be NULL"),
        ("PARTITION TABLE n ON COLUMN w", "rows of table N would move between groups"),
        ("CREATE PROCEDURE q AS SELECT nowhere FROM n", "NOWHERE"),
    ] {
        db.sql_fails(change, Status::GracefulFailure, words);
        (0..24).for_each(|id| drop(db.sql(&format!("UPDATE n SET w = w + 1 WHERE id = {id}"))));
    }
    db.sql("DELETE FROM n WHERE id = 7");
    db.sql("ALTER TABLE n ALTER COLUMN v SET NOT NULL");
    db.sql_fails("UPDATE n SET v = NULL WHERE id = 9", Status::GracefulFailure, "cannot be NULL");
    assert_eq!(databases[0].scalar("SELECT s FROM sums WHERE id = 9"), 8);
    // Rows of a replicated table are everywhere.
    db.sql("CREATE TABLE r (k BIGINT NOT NULL, v BIGINT)");
    (0..12).for_each(|k| drop(db.sql(&format!("INSERT INTO r VALUES ({k}, {k})"))));
    databases[2].sql("PARTITION TABLE r ON COLUMN k");
    for (k, db) in (0..12).zip(databases.iter().cycle()) {
        assert_eq!(db.scalar(&format!("SELECT v FROM r WHERE k = {k}")), k);
    }
    // Two tables change places, and all rows are counted.
    db.sql("CREATE TABLE o (k BIGINT NOT NULL, v BIGINT); PARTITION TABLE o ON COLUMN k");
    assert_eq!(db.call("@SwapTables", ("R", "O")).scalar(), Some(12));
}

/// What existing bulk loaders send for a table that all groups have.
#[test]
fn rows_in_a_table_s_form_are_loaded_by_all_groups_or_by_none() {
    let cluster = spread(&[]);
    let databases: Vec<Db> =
        cluster.nodes.iter().map(|node| node.as_ref().expect("it runs").server.connect()).collect();
    databases[0].sql("CREATE TABLE r (k BIGINT NOT NULL PRIMARY KEY, v VARCHAR(4))");
    // More than a lot takes beside others.
    let rows = |rows: std::ops::Range<i64>, long: Option<i64>| {
        let header = TableHeader::new([("K", SqlType::Bigint), ("V", SqlType::Varchar)]);
        let mut out = Vec::new();
        let mut table = TableWriter::begin(&mut out, &header);
        let value = |row| if long == Some(row) { "too long" } else { "fits" };
        rows.for_each(|row| table.row(&[Value::Integer(row), Value::Text(value(row))]).expect("a small row"));
        table.finish();
        out.split_off(size_of::<u32>())
    };
    let load = |place: usize, upsert: i8, rows: &[u8]| {
        databases[place].0.call_blocking("@LoadMultipartitionTable", ("r", upsert, Value::Table(rows)))
    };
    let many = 0..300_000;
    let all_have = |count: i64| {
        for db in &databases {
            assert_eq!(db.scalar("SELECT COUNT(*) FROM r"), count);
        }
    };
    assert_eq!(load(1, 0, &rows(many.clone(), None)).expect("all rows are new").scalar(), Some(many.end));
    all_have(many.end);
    for (refused, words) in [(rows(many.end - 1..many.end + 9, None), "row 0"), (rows(-9..0, Some(-2)), "row 7")] {
        let error = load(2, 0, &refused).expect_err("a row cannot be there").to_string();
        assert!(error.contains(words), "{error}");
        all_have(many.end);
    }
    assert_eq!(load(2, 1, &rows(-1..2, None)).expect("an upsert").scalar(), Some(3));
    all_have(many.end + 1);
    let error = databases[1].0.call_blocking("@LoadMultipartitionTable", ("t", 0_i8, Value::Table(&rows(0..1, None))));
    assert!(error.expect_err("another procedure loads it").to_string().contains("is partitioned"));
}

/// By partition: the node that has saved it, and the outcome.
fn saved(response: &OwnedResponse) -> BTreeMap<i64, (i64, String)> {
    let row = |row: &Vec<OwnedValue>| match &row[..] {
        [OwnedValue::Integer(node), _, OwnedValue::Integer(partition), OwnedValue::Text(result), _] => {
            (*partition, (*node, result.to_string()))
        }
        other => panic!("not a partition and its outcome: {other:?}"),
    };
    let rows = &response.tables[0].rows;
    let by_partition: BTreeMap<_, _> = rows.iter().map(row).collect();
    assert_eq!((rows.len(), by_partition.keys().copied().collect()), (6, (0..6).collect::<Vec<_>>()), "{rows:?}");
    by_partition
}

#[test]
fn a_snapshot_is_of_all_groups_whichever_node_is_asked() {
    let mut cluster = spread(&[]);
    cluster.await_places(0);
    (0..3).for_each(|place| cluster.put_through(place));
    let expected: BTreeMap<i64, (i64, String)> = (1..)
        .zip(LED)
        .flat_map(|(node, led)| led.map(|group| (i64::from(group), (node, "SUCCESS".to_owned()))))
        .collect();
    for place in 0..3 {
        let db = cluster.nodes[place].as_ref().expect("it runs").server.connect();
        let response = db.call("@SnapshotSave", ());
        assert_eq!(saved(&response), expected, "as node {} says", place + 1);
        assert_eq!(response.status_text.as_deref(), Some("6 of 6 groups have a new snapshot"));
        // Each in the directory of the node that leads its group.
        let status = db.call("@SnapshotStatus", ()).tables.swap_remove(0);
        let of = |row: &[OwnedValue], name: &str| format!("{:?}", row[status.column_index(name).expect("a column")]);
        for (node, led) in (1..).zip(LED) {
            for group in led {
                let dir = if group == 0 { "snapshots\"".to_owned() } else { format!("snapshots/group-{group}\"") };
                let is_there = |row: &&Vec<OwnedValue>| {
                    of(row, "HOST_ID").contains(&format!("({node})"))
                        && of(row, "PATH").contains(&dir)
                        && of(row, "RESULT").contains("SUCCESS")
                };
                let count = status.rows.iter().filter(is_there).count();
                assert!(count > place, "group {group} at node {node}: {:?}", status.rows);
            }
        }
    }
    // A lost node's groups are saved by those that lead them now.
    cluster.kill(1);
    let after = cluster.on(2, "a snapshot of all", |db| {
        let response = db.0.call_blocking("@SnapshotSave", ()).ok()?;
        let after = saved(&response);
        after.values().all(|(_, result)| result == "SUCCESS").then_some(after)
    });
    assert!(after.values().all(|(node, _)| *node != 2), "a lost node saves nothing: {after:?}");
    // Each group starts from its own snapshot and its own log.
    cluster.lose_power();
    cluster.start_all_again();
    (0..3).for_each(|place| cluster.see_all_from(place));
}

#[test]
fn rows_that_all_groups_have_expire_in_all_of_them_whichever_node_is_lost() {
    let mut cluster = spread(&[]);
    cluster.await_places(0);
    let call = |cluster: &Cluster, place: usize, text: &str| {
        cluster.on(place, text, |db| db.0.call_blocking("@AdHoc", (text,)).ok());
    };
    let table = "CREATE TABLE r (k BIGINT NOT NULL, d TIMESTAMP NOT NULL, PRIMARY KEY (k)) USING TTL 1 SECONDS ON COLUMN d BATCH_SIZE 5";
    call(&cluster, 1, table);
    let fill = |cluster: &Cluster, place: usize, from: i64| {
        (from..from + 12).for_each(|k| call(cluster, place, &format!("UPSERT INTO r VALUES ({k}, NOW)")));
        call(cluster, place, &format!("UPSERT INTO r VALUES ({}, DATEADD(DAY, 1, NOW))", from + 12));
    };
    // Each node says so of its own rows.
    let await_count = |cluster: &Cluster, place: usize, count: i64| {
        cluster.on(place, "expired rows", |db| {
            let found = db.0.call_blocking("@AdHoc", ("SELECT COUNT(*) FROM r",)).ok()?;
            (found.scalar() == Some(count)).then_some(())
        });
    };
    fill(&cluster, 2, 0);
    (0..3).for_each(|place| await_count(&cluster, place, 1));
    cluster.kill(0);
    fill(&cluster, 1, 20);
    [1, 2].into_iter().for_each(|place| await_count(&cluster, place, 2));
    cluster.start_again(0);
    await_count(&cluster, 0, 2);
}

#[test]
fn what_several_groups_cannot_do_is_refused() {
    let cluster = spread(&[]);
    let db = cluster.nodes[1].as_ref().expect("it runs").server.connect();
    let several = "needs partitions of several groups";
    db.sql_fails("SELECT COUNT(*) FROM t", Status::GracefulFailure, several);
    for internal in ["@FollowSchema", "@QuiesceGroup", "@SnapshotGroup"] {
        let said = db.fail(internal, (1, 0)).status_text.unwrap_or_default();
        assert!(said.contains("call each other"), "{internal}: {said}");
    }
    assert!(db.fail("@FollowSchema", (1, 2, "CREATE TABLE u (a INTEGER)")).status_text.is_some());
    let dir = tempfile::tempdir().expect("a temporary directory");
    // It would keep nothing, and becomes no node.
    let host = addresses(1).remove(0);
    let list = format!("{host},{}", cluster.hosts[0]);
    let options = ["--cluster", &list, "--join", "--cluster-listen", &host];
    let said = Server::try_start(dir.path(), &options).err().expect("it is refused");
    assert!(said.contains("is not the address of a node with data of this cluster"), "{said}");
    let status = cluster.await_words(0, &["group 0: node 1 leads"]);
    assert!(status.contains("\n3  ") && !status.contains("\n4  "), "{status}");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let with = |more: &[&str]| {
        let list = ["--cluster", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "--cluster-listen", "127.0.0.1:1"];
        Server::try_start(dir.path(), &[&list[..], more].concat()).err().expect("it is refused")
    };
    for (options, words) in [
        (&["--kfactor", "1", "--partitions-per-node", "4", "--partitions", "6"][..], "--partitions"),
        (&["--kfactor", "1", "--rack", "a"], "without --partitions-per-node there is one group"),
        (&["--join", "--partitions-per-node", "4"], "--join"),
    ] {
        let said = with(options);
        assert!(said.contains(words), "{options:?}: {said}");
    }
}
