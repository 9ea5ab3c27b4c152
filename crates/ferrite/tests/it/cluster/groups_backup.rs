//! Backups of a database whose partitions are in several groups, while transactions over groups are
//! executed, and restored elsewhere.

use super::Cluster;
use super::groups::spread;
use super::handing_over::admin;
use crate::common::{Db, Server};
use ferrite_client::OwnedValue;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const ACCOUNTS: i64 = 12;
pub(super) const EACH: i64 = 100;

impl Cluster {
    pub(super) fn database(&self, place: usize) -> Db {
        self.nodes[place].as_ref().expect("it runs").server.connect()
    }
}

/// Moves from account to account, most of which are in different groups, until told to stop.
pub(super) fn transfer(db: &Db, from: i64, is_over: &AtomicBool) -> u64 {
    let mut made = 0;
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let payer = (from + round) % ACCOUNTS;
        let payee = (payer + 1 + round % 5) % ACCOUNTS;
        let text = format!("UPDATE t SET v = v - 1 WHERE id = {payer}; UPDATE t SET v = v + 1 WHERE id = {payee}");
        made += u64::from(db.0.call_blocking("@AdHoc", (&*text,)).is_ok());
    }
    made
}

/// Accounts, and a replicated table of names, two of which are different.
pub(super) fn with_accounts_and_names() -> Cluster {
    let cluster = spread(&[]);
    cluster.await_places(0);
    let db = cluster.database(1);
    db.sql("CREATE TABLE names (k BIGINT NOT NULL, v VARCHAR(20), PRIMARY KEY (k))");
    (0..5).for_each(|k| drop(db.sql(&format!("INSERT INTO names VALUES ({k}, 'name {}')", k % 2))));
    (0..ACCOUNTS).for_each(|id| drop(db.call("put", (id, EACH))));
    cluster
}

#[test]
fn a_backup_of_all_groups_shows_one_moment_whichever_node_is_asked() {
    let cluster = with_accounts_and_names();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_str().expect("a plain path");
    let is_over = AtomicBool::new(false);
    let made: u64 = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..3)
            .map(|place| {
                let db = cluster.database(place);
                let is_over = &is_over;
                scope.spawn(move || transfer(&db, 4 * place as i64, is_over))
            })
            .collect();
        for place in 0..3 {
            let response = cluster.database(place).call("@SnapshotSave", (path, format!("backup{place}"), 1i8));
            let rows = &response.tables[0].rows;
            let partition = |row: &Vec<OwnedValue>| row[2].clone();
            assert!(rows.iter().map(partition).eq((0..6).map(OwnedValue::Integer)), "{rows:?}");
            assert!(rows.iter().all(|row| row[3] == OwnedValue::Text("SUCCESS".into())), "{rows:?}");
            let nodes: BTreeSet<String> = rows.iter().map(|row| format!("{:?}", row[0])).collect();
            assert_eq!(nodes.len(), 3, "each node has written what it leads: {rows:?}");
            assert_eq!(response.status_text, None, "all files are in one directory");
        }
        // One that is not waited for: it is begun when it is answered.
        let response = cluster.database(0).call("@SnapshotSave", (path, "later", 0i8));
        assert_eq!(response.tables[0].rows.len(), 2, "a row for each table");
        is_over.store(true, Ordering::Relaxed);
        callers.into_iter().map(|caller| caller.join().expect("it calls")).sum()
    });
    assert!(made > 0, "transactions over groups were executed meanwhile");
    cluster.on(0, "the one that was not waited for", |db| {
        let scan = db.0.call_blocking("@SnapshotScan", (path,)).ok()?.tables.swap_remove(0);
        let whole = scan.column_index("COMPLETE").expect("a column");
        let count = scan.rows.iter().filter(|row| row[whole] == OwnedValue::Text("TRUE".into())).count();
        (count == 4).then_some(())
    });
    let again = cluster.database(0).call("@SnapshotSave", (path, "backup0", 1i8));
    assert!(format!("{:?}", again.tables[0].rows).contains("already exists"), "{again:?}");
    for name in ["backup0", "backup1", "backup2", "later"] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let server = Server::start(home.path(), &["--partitions", "2"]);
        let db = server.connect();
        db.call("@SnapshotRestore", (path, name));
        assert_eq!(db.scalar("SELECT SUM(v) FROM t"), ACCOUNTS * EACH, "{name} has no transfer in part");
        assert_eq!(db.scalar("SELECT COUNT(*) FROM t"), ACCOUNTS, "{name}");
        assert_eq!(db.scalar("SELECT COUNT(*) FROM names"), 5, "{name}");
    }
}

#[test]
fn what_of_a_backup_several_groups_refuse_is_said() {
    let cluster = spread(&[]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_str().expect("a plain path");
    let address = cluster.address(1);
    let (done, said) = admin(&["backup", path, "--name", "monday", "--server", &address]);
    assert!(done && said.contains("backup monday is complete on node 1 (") && said.contains("node 3 ("), "{said}");
    let (done, said) = admin(&["restore", path, "--name", "monday", "--server", &address]);
    assert!(
        done && said.contains(&format!("restored 1 tables from {path} (the files were read on node 1 (")),
        "{said}"
    );
    for procedure in ["@BackupGroup", "@BackupFiles", "@RestoreGroup"] {
        let said = cluster.database(0).fail(procedure, (1, "00", 0, 1, path, "x", 1)).status_text.unwrap_or_default();
        assert!(said.contains("call each other"), "{said}");
    }
}

/// The rows of one table's files, sorted.
fn csv_rows(dir: &Path, nonce: &str, table: &str) -> Vec<String> {
    let begin = format!("{nonce}-{table}");
    let files = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let own = files.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin)));
    let texts = own.map(|path| std::fs::read_to_string(path).expect("a text"));
    let mut rows: Vec<String> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    rows.sort();
    rows
}

#[test]
fn a_backup_in_csv_has_a_file_of_each_table_and_group_and_one_schema() {
    let cluster = with_accounts_and_names();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_str().expect("a plain path");
    let is_over = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        let caller = scope.spawn(|| transfer(&cluster.database(2), 0, &is_over));
        let address = cluster.address(1);
        let (done, said) = admin(&["backup", path, "--name", "mon", "--csv", "--server", &address]);
        is_over.store(true, Ordering::Relaxed);
        assert!(
            done && said.contains("node 1 (") && said.contains("node 3 (") && !said.contains("other nodes"),
            "{said}"
        );
        caller.join().expect("it calls")
    });
    assert!(made > 0, "transactions over groups were executed meanwhile");
    let rows = csv_rows(dir.path(), "mon", "T");
    let value = |row: &String| row.split('"').nth(3).and_then(|value| value.parse::<i64>().ok()).expect("a number");
    assert_eq!(rows.len() as i64, ACCOUNTS);
    assert_eq!(rows.iter().map(value).sum::<i64>(), ACCOUNTS * EACH, "no transfer is in it in part: {rows:?}");
    assert_eq!(csv_rows(dir.path(), "mon", "NAMES").len(), 5, "a replicated table has one file");
    let schema = std::fs::read_to_string(dir.path().join("mon.schema.sql")).expect("the schema");
    assert!(schema.contains("NAMES"), "{schema}");
    let scan = cluster.database(0).call("@SnapshotScan", (path,));
    let row = &scan.tables[0].rows[0];
    assert_eq!((&row[5], &row[8]), (&OwnedValue::Text("NAMES,T".into()), &OwnedValue::Text("TRUE".into())));
    let said = cluster.database(0).fail("@SnapshotRestore", (path, "mon")).status_text.unwrap_or_default();
    assert!(said.contains("has the CSV format"), "{said}");
    // A file that is there already stays as it is: nothing is left beside it.
    let other = dir.path().join("tue-T-group_3.csv");
    std::fs::write(&other, "mine").expect("a file");
    let settings = format!("{{path:'{path}',nonce:tue,block:true,format:csv}}");
    let refused = cluster.database(0).call("@SnapshotSave", (settings.as_str(),));
    assert!(format!("{:?}", refused.tables[0].rows).contains("already exists"), "{refused:?}");
    assert_eq!(csv_rows(dir.path(), "tue", "T"), ["mine"]);
    std::fs::remove_file(&other).expect("it is there");
    let saved = cluster.database(2).call("@SnapshotSave", (settings.as_str(),));
    assert!(saved.tables[0].rows.iter().all(|row| row[3] == OwnedValue::Text("SUCCESS".into())), "{saved:?}");
    // One of its files is on no node.
    std::fs::remove_file(&other).expect("it was written");
    let scan = cluster.database(0).call("@SnapshotScan", (path,));
    let whole: Vec<&OwnedValue> = scan.tables[0].rows.iter().map(|row| &row[8]).collect();
    assert_eq!(whole, [&OwnedValue::Text("TRUE".into()), &OwnedValue::Text("FALSE".into())]);
    assert!(format!("{:?}", scan.tables[2].rows).contains("lacks files: tue-T-group_3.csv"), "{scan:?}");
}
