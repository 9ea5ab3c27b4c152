//! Backups restored into clusters of several groups, with other numbers of partitions and groups,
//! from files that lie on several machines, and while nodes are killed.

use super::Cluster;
use super::groups::spread;
use super::groups_backup::{ACCOUNTS, EACH, transfer, with_accounts_and_names};
use crate::common::{Db, Server};
use ferrite_client::{OwnedResponse, OwnedValue};
use ferrite_value::{SqlType, Value};
use ferrite_wire::{TableHeader, TableWriter};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tempfile::TempDir;

/// An empty cluster of so many partitions on each node.
fn empty(per_node: &str, more: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.found(1, &[&["--partitions-per-node", per_node], more].concat());
    cluster
}

/// What the accounts have, by their keys.
fn balances(db: &Db) -> Vec<i64> {
    (0..ACCOUNTS).map(|id| db.scalar(&format!("SELECT v FROM t WHERE id = {id}"))).collect()
}

/// Names of tables, as a node says them.
fn tables(db: &Db) -> Vec<String> {
    let response = db.call("@SystemCatalog", ("TABLES",));
    let name = response.tables[0].column_index("TABLE_NAME").expect("a column");
    let text = |row: &Vec<OwnedValue>| match &row[name] {
        OwnedValue::Text(text) => text.to_string(),
        other => panic!("not a name: {other:?}"),
    };
    response.tables[0].rows.iter().map(text).collect()
}

fn words(response: &OwnedResponse) -> String {
    response.status_text.clone().unwrap_or_default()
}

#[test]
fn a_backup_goes_into_any_number_of_groups_and_partitions() {
    let source = with_accounts_and_names();
    source.database(1).sql("CREATE VIEW counted (v, n) AS SELECT v, COUNT(*) FROM names GROUP BY v");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_str().expect("a plain path");
    let is_over = AtomicBool::new(false);
    let made: u64 = std::thread::scope(|scope| {
        let caller = scope.spawn(|| transfer(&source.database(2), 0, &is_over));
        source.database(0).call("@SnapshotSave", (path, "spread", 1i8));
        is_over.store(true, Ordering::Relaxed);
        caller.join().expect("it calls")
    });
    assert!(made > 0, "transactions over groups were executed meanwhile");
    let seen = source.database(2).call("@SnapshotScan", (path,)).tables;
    assert_eq!((seen[0].rows.len(), seen[2].rows.len()), (1, 3 * 7), "each node says what it sees");
    assert_eq!(seen[0].rows[0][8], OwnedValue::Text("TRUE".into()));
    drop(source);
    let home = tempfile::tempdir().expect("a temporary directory");
    let single = Server::start(home.path(), &["--partitions", "3"]);
    let db = single.connect();
    db.call("@SnapshotRestore", (path, "spread"));
    let expected = balances(&db);
    assert_eq!(expected.iter().sum::<i64>(), ACCOUNTS * EACH);
    db.call("@SnapshotSave", (path, "single", 1i8));
    for (per_node, name, place) in [("2", "spread", 1), ("6", "single", 2)] {
        let target = empty(per_node, &[]);
        let db = target.database(place);
        let response = db.call("@SnapshotRestore", (path, name));
        assert!(words(&response).starts_with("the files were read on node 1"), "{}", words(&response));
        let nodes: BTreeSet<String> = response.tables[0].rows.iter().map(|row| format!("{:?}", row[0])).collect();
        assert_eq!(nodes.len(), 3, "partitions of three nodes got rows");
        for place in 0..3 {
            let db = target.database(place);
            assert_eq!(balances(&db), expected, "{name} as node {} says", place + 1);
            assert_eq!(db.scalar("SELECT COUNT(*) FROM names"), 5);
            assert_eq!(db.scalar("SELECT n FROM counted WHERE v = 'name 0'"), 3);
            assert!(tables(&db).iter().all(|name| !name.starts_with("FERRITE_")), "{:?}", tables(&db));
        }
        assert_eq!(db.call("get", (3,)).scalar(), Some(expected[3]), "procedures were restored");
        // What is restored is changed as any other.
        db.sql("UPDATE t SET v = v + 1 WHERE id = 1; UPDATE t SET v = v - 1 WHERE id = 2");
        if name == "single" {
            is_dumped_whole(&target.address(place), &balances(&db));
        }
        let said = words(&db.fail("@SnapshotRestore", (path, name)));
        assert!(said.contains("empty"), "a second one needs empty tables: {said}");
        assert!(tables(&db).iter().all(|name| !name.starts_with("FERRITE_")), "{:?}", tables(&db));
        assert_eq!(balances(&db).iter().sum::<i64>(), ACCOUNTS * EACH);
    }
}

/// The script of `ferrite dump` makes the same rows on a single server.
fn is_dumped_whole(address: &str, expected: &[i64]) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let script = home.path().join("dump.sql");
    let ferrite = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_ferrite")).args(words).output().expect("it can be started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let script = script.to_str().expect("a plain path");
    let said = ferrite(&["dump", "--server", address, "-o", script]);
    assert!(said.contains("several groups have rows of table T: it is read partition by partition"), "{said}");
    assert!(!said.contains("NAMES"), "all groups have its rows: {said}");
    let server = Server::start(&home.path().join("data"), &["--partitions", "2"]);
    ferrite(&["sql", "--server", &server.address, "-f", script]);
    let db = server.connect();
    assert_eq!(balances(&db), expected);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM t"), ACCOUNTS);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM names"), 5);
}

/// A directory of each node's own, and what all of them are told.
fn directories_of_nodes() -> (TempDir, String) {
    let backups = tempfile::tempdir().expect("a temporary directory");
    let dirs = backups.path().join("of-NODE").to_str().expect("a plain path").to_owned();
    (1..=3).for_each(|node| std::fs::create_dir(backups.path().join(format!("of-{node}"))).expect("a directory"));
    (backups, dirs)
}

#[test]
fn a_backup_without_its_last_file_and_two_of_one_name_are_refused() {
    let (backups, dirs) = directories_of_nodes();
    let mut cluster = spread(&["--backup-dir", &dirs]);
    cluster.await_places(0);
    let db = cluster.database(0);
    let save = || format!("{:?}", db.call("@SnapshotSave", ("", "mon", 1i8)).tables[0].rows);
    let restore = || words(&db.fail("@SnapshotRestore", ("", "mon")));
    assert!(!save().contains("FAILURE"));
    let manifest = backups.path().join("of-1/mon.manifest");
    let first = std::fs::read(&manifest).expect("this node leads the first group");
    std::fs::remove_file(&manifest).expect("it is there");
    let said = restore();
    let expected = "the backup mon is incomplete: no node has mon.manifest, its last file; looked in ";
    assert!(said.contains(expected) && said.contains("@SnapshotDelete"), "{said}");
    let said = save();
    assert!(
        said.contains("already exists") && said.contains("of a backup that is incomplete in this directory"),
        "{said}"
    );
    db.call("@SnapshotDelete", ("", "mon"));
    assert!(!save().contains("FAILURE"));
    std::fs::write(backups.path().join("of-2/mon.manifest"), first).expect("a directory");
    let said = restore();
    assert!(said.contains("have different backups with the name mon"), "{said}");
    cluster.kill(2);
    cluster.on(0, "a node that is not asked", |db| {
        let said = words(&db.0.call_blocking("@SnapshotScan", ("",)).ok()?);
        said.contains("node 3 leads no group and was not asked").then_some(())
    });
}

#[test]
fn files_are_read_where_they_lie_and_what_is_missing_is_named() {
    let (backups, dirs) = directories_of_nodes();
    let source = spread(&["--backup-dir", &dirs]);
    source.await_places(0);
    (0..ACCOUNTS).for_each(|id| drop(source.database(0).call("put", (id, EACH))));
    let response = source.database(0).call("@SnapshotSave", ("", "mon", 1i8));
    assert!(words(&response).contains("on other nodes"), "{}", words(&response));
    // Nodes have it together, each its part.
    let scan = |db: &Db| {
        let tables = db.call("@SnapshotScan", ("",)).tables;
        let complete: Vec<String> = tables[0].rows.iter().map(|row| format!("{:?} {:?}", row[1], row[8])).collect();
        let hosts = tables[2].rows.iter().map(|row| format!("{:?}", row[0])).collect::<BTreeSet<_>>().len();
        (complete.join(","), tables[1].rows.len(), hosts, tables[2].rows.len())
    };
    let whole = "Text(\"mon\") Text(\"TRUE\")".to_owned();
    assert_eq!(scan(&source.database(2)), (whole, 3, 3, 7));
    drop(source);
    let target = empty("2", &["--backup-dir", &dirs]);
    let db = target.database(1);
    let of_second = |dir: &Path| dir.join("of-2").join("mon-p0002.rows");
    let away = backups.path().join("away");
    std::fs::rename(of_second(backups.path()), &away).expect("the file lies with node 2");
    let said = words(&db.fail("@SnapshotRestore", ("", "mon")));
    assert!(said.contains("lacks files: mon-p0002.rows; looked in ") && said.contains("node 3 ("), "{said}");
    assert!(scan(&db).0.contains("FALSE"));
    // One that has lost its end is another file.
    let whole = std::fs::read(&away).expect("a file");
    std::fs::write(of_second(backups.path()), &whole[..whole.len() / 2]).expect("a file");
    let said = words(&db.fail("@SnapshotRestore", ("", "mon")));
    assert!(said.contains("mon-p0002.rows (which has another size on node 2 ("), "{said}");
    let mut damaged = whole.clone();
    damaged[whole.len() - 600] ^= 1;
    std::fs::write(of_second(backups.path()), &damaged).expect("a file");
    let said = words(&db.fail("@SnapshotRestore", ("", "mon")));
    assert!(said.contains("mon-p0002.rows is damaged"), "{said}");
    assert!(tables(&db).is_empty(), "nothing is there: {:?}", tables(&db));
    let said = words(&db.fail("@SnapshotRestore", ("", "tue")));
    assert!(said.contains("there is no backup tue: no node has tue.manifest; looked in "), "{said}");
    // Anywhere will do.
    std::fs::remove_file(of_second(backups.path())).expect("it is there");
    std::fs::rename(&away, backups.path().join("of-3/mon-p0002.rows")).expect("a directory");
    let said = words(&target.database(2).call("@SnapshotRestore", ("", "mon")));
    assert!(said.starts_with("the files were read on node 1 (") && said.contains(", node 3 ("), "{said}");
    assert_eq!(balances(&target.database(2)), vec![EACH; ACCOUNTS as usize]);
    let names = [Value::Text("mon"), Value::Text("tue")];
    let paths = [Value::Text(""); 2];
    let deleted = &db.call("@SnapshotDelete", (Value::Array(&paths), Value::Array(&names))).tables[0].rows;
    let of = |outcome: &str| deleted.iter().filter(|row| row[8] == OwnedValue::Text(outcome.into())).count();
    assert_eq!((of("SUCCESS"), of("FAILURE")), (7, 1), "{deleted:?}");
    assert_eq!(scan(&db), (String::new(), 3, 0, 0));
}

/// So many rows of 1,000 bytes in a replicated table take a while on their way to all groups.
const LONG: i64 = 20_000;

fn fill(db: &Db) {
    db.sql("CREATE TABLE long (k BIGINT NOT NULL, v VARCHAR(1000), PRIMARY KEY (k))");
    let header = TableHeader::new([("K", SqlType::Bigint), ("V", SqlType::Varchar)]);
    let mut out = Vec::new();
    let mut table = TableWriter::begin(&mut out, &header);
    let text = "x".repeat(1_000);
    (0..LONG).for_each(|row| table.row(&[Value::Integer(row), Value::Text(&text)]).expect("a small row"));
    table.finish();
    db.call("@LoadMultipartitionTable", ("LONG", 0_i8, Value::Table(&out[size_of::<u32>()..])));
}

#[test]
fn a_node_killed_meanwhile_leaves_all_or_nothing_and_the_same_call_works() {
    let mut cluster = spread(&[]);
    cluster.await_places(0);
    let db = cluster.database(0);
    (0..ACCOUNTS).for_each(|id| drop(db.call("put", (id, EACH))));
    fill(&db);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_str().expect("a plain path").to_owned();
    db.call("@SnapshotSave", (&*path, "mon", 1i8));
    drop(db);
    // The node that restores, and one that only gets rows.
    for lost in [2, 0] {
        cluster.on(1, "empty tables", |db| {
            db.0.call_blocking("@AdHoc", ("TRUNCATE TABLE long",)).ok()?;
            db.0.call_blocking("@AdHoc", ("DELETE FROM t",)).ok()
        });
        let db = cluster.database(1);
        let watched = cluster.database(1);
        let outcome = std::thread::scope(|scope| {
            let path = &path;
            let restoring = scope.spawn(move || db.0.call_blocking("@SnapshotRestore", (&**path, "mon")));
            let deadline = Instant::now() + super::PATIENCE;
            while !tables(&watched).iter().any(|name| name.starts_with("FERRITE_RESTORE_")) {
                assert!(Instant::now() < deadline && !restoring.is_finished(), "it has begun and is not over");
                std::thread::yield_now();
            }
            cluster.kill(lost);
            restoring.join().expect("it calls")
        });
        eprintln!("with node {} lost: {:?}", lost + 1, outcome.as_ref().map(|_| ()));
        let count = |db: &Db| {
            let response = db.0.call_blocking("@AdHoc", ("SELECT COUNT(*) FROM long",)).ok()?;
            response.scalar()
        };
        let there = cluster.on(1, "the rows", count);
        let first = cluster.on(1, "a row", |db| {
            let response = db.0.call_blocking("@AdHoc", ("SELECT COUNT(*) FROM t WHERE id = 7",)).ok()?;
            response.scalar()
        });
        assert!(there == 0 && first == 0 || there == LONG && first == 1, "{there} rows and {first}");
        assert!(there == LONG || outcome.is_err(), "what was answered is there");
        if lost != 0 {
            let left = tables(&cluster.database(1));
            assert!(
                left.iter().all(|name| !name.starts_with("FERRITE_")),
                "the node that restores drops them: {left:?}"
            );
        }
        cluster.start_again(lost);
        cluster.await_places(1);
        if there == 0 {
            cluster.on(1, "the same call", |db| db.0.call_blocking("@SnapshotRestore", (&*path, "mon")).ok());
        }
        for place in 0..3 {
            let db = cluster.database(place);
            assert_eq!(balances(&db), vec![EACH; ACCOUNTS as usize]);
            assert_eq!(db.scalar("SELECT COUNT(*) FROM long"), LONG);
            assert!(tables(&db).iter().all(|name| !name.starts_with("FERRITE_")), "{:?}", tables(&db));
        }
    }
}
