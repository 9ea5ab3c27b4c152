//! Durability memory: answers wait for nothing, the disk gets snapshots only, an orderly stop loses
//! nothing, and a kill what no snapshot has.

use crate::common::{Db, connect, options, start, text_of};
use ferrite_client::Status;
use ferrite_io::simulated::{Fault, FaultKind, SimulatedDisk};
use ferrite_member::{ClusterOptions, MemberError};
use ferrite_node::{Durability, Server, ServerError, ServerOptions, SnapshotSettings, Stopped};
use ferrite_value::OwnedValue;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAIRS: &str = "CREATE TABLE pairs (id BIGINT NOT NULL, value VARCHAR(2000), PRIMARY KEY (id));
    PARTITION TABLE pairs ON COLUMN id;";

/// No snapshot is taken but those that a test asks for, and the last.
fn on(disk: &SimulatedDisk, durability: Durability) -> ServerOptions {
    let snapshots = SnapshotSettings { interval: None, log_bytes: None, ..SnapshotSettings::default() };
    ServerOptions { disk: Arc::new(disk.clone()), durability, snapshots, ..options(Path::new("/"), 2) }
}

fn rows(db: &Db) -> i64 {
    db.scalar("SELECT COUNT(*) FROM pairs")
}

fn insert(db: &Db, ids: std::ops::Range<i64>) {
    let body = "x".repeat(1_000);
    ids.for_each(|id| _ = db.call("PAIRS.insert", (id, body.as_str())));
}

/// What a kill at this moment leaves.
fn killed(disk: &SimulatedDisk) -> SimulatedDisk {
    disk.copy(1)
}

fn reports_a_loss(server: &Server) -> bool {
    server.recovery().loss_without_redo().is_some()
}

#[test]
fn an_orderly_stop_loses_nothing_and_a_kill_what_no_snapshot_has() {
    let disk = SimulatedDisk::healthy();
    let server = start(on(&disk, Durability::Memory));
    let db = connect(&server);
    db.sql(PAIRS);
    // Nothing has changed: the log has the schema.
    let copy = killed(&disk);
    let other = start(on(&copy, Durability::Sync));
    assert_eq!((rows(&connect(&other)), reports_a_loss(&other)), (0, true));
    other.stop().expect("a healthy log closes");
    insert(&db, 0..50);
    db.call("@SnapshotSave", ());
    insert(&db, 50..70);
    let copy = killed(&disk);
    for durability in [Durability::Memory, Durability::Sync, Durability::Memory] {
        let other = start(on(&copy, durability));
        let db = connect(&other);
        // Of a kill it is told once; what is inserted here stays.
        let first = durability == Durability::Memory && other.recovery().without_redo.is_some();
        let before = rows(&db);
        assert!(before == 50 && first || before > 50 && !first, "{before} rows, {durability}");
        insert(&db, before + 1_000..before + 1_001);
        assert_eq!(other.stop().expect("a healthy log closes"), Stopped::Wholly);
    }
    assert_eq!(server.stop().expect("a healthy log closes"), Stopped::Wholly);
    let server = start(on(&disk, Durability::None));
    assert_eq!((rows(&connect(&server)), reports_a_loss(&server)), (70, false));
    server.stop().expect("a healthy log closes");
}

/// Bytes that the log has written since the start.
fn log_bytes(db: &Db) -> i64 {
    let said = db.call("@Statistics", ("COMMANDLOG", 0i32)).tables.swap_remove(1);
    match said.rows[0][said.column_index("BYTES_WRITTEN").expect("the column is there")] {
        OwnedValue::Integer(bytes) => bytes,
        ref other => panic!("bytes are {other:?}"),
    }
}

/// One call at a time by the whole key: it is run on the network thread, and its answer leaves
/// there, as nothing is to be logged.
#[test]
fn lone_calls_are_readable_once_acknowledged_and_give_the_log_nothing() {
    let disk = SimulatedDisk::healthy();
    let server = start(on(&disk, Durability::Memory));
    let (writer, reader) = (connect(&server), connect(&server));
    writer.sql(PAIRS);
    writer.sql(
        "CREATE PROCEDURE Read PARTITION ON TABLE pairs COLUMN id AS SELECT value FROM pairs WHERE id = ?;
         CREATE PROCEDURE Write PARTITION ON TABLE pairs COLUMN id PARAMETER 1 AS UPDATE pairs SET value = ? WHERE id = ?",
    );
    let read = |id: i64| reader.call("Read", (id,)).tables.swap_remove(0).rows;
    let written = log_bytes(&writer);
    for id in 0..200 {
        writer.call("PAIRS.insert", (id, "first"));
        assert_eq!(read(id), vec![vec![OwnedValue::Text("first".into())]]);
        writer.call("Write", (format!("second {id}"), id));
        assert_eq!(read(id), vec![vec![OwnedValue::Text(format!("second {id}").into())]]);
        if id % 4 == 3 {
            writer.call("PAIRS.delete", (id,));
            assert_eq!(read(id).len(), 0);
        }
    }
    assert_eq!(log_bytes(&writer), written);
    // What a rolled back call did is gone, too.
    writer.fails("PAIRS.insert", (0i64, "twice"), Status::GracefulFailure, "PAIRS");
    assert_eq!(read(0), vec![vec![OwnedValue::Text("second 0".into())]]);
    assert_eq!(server.stop().expect("a healthy log closes"), Stopped::Wholly);
    let server = start(on(&disk, Durability::Sync));
    let db = connect(&server);
    assert_eq!((rows(&db), reports_a_loss(&server)), (150, false));
    assert_eq!(db.scalar("SELECT COUNT(*) FROM pairs WHERE value = 'second 77'"), 1);
    server.stop().expect("a healthy log closes");
}

#[test]
fn transactions_over_all_partitions_and_reads_need_no_log() {
    let disk = SimulatedDisk::healthy();
    let server = start(on(&disk, Durability::Memory));
    let db = connect(&server);
    db.sql(PAIRS);
    insert(&db, 0..20);
    db.sql("UPDATE pairs SET value = 'short' WHERE id < 10");
    db.sql("DELETE FROM pairs WHERE id >= 15");
    assert_eq!(rows(&db), 15);
    server.stop().expect("a healthy log closes");
    let server = start(on(&disk, Durability::Memory));
    let db = connect(&server);
    assert_eq!(rows(&db), 15);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM pairs WHERE value = 'short'"), 10);
    server.stop().expect("a healthy log closes");
}

/// A backup is not one of the database's own snapshots: after it the last one is still taken, and
/// a snapshot from before it still counts.
#[test]
fn a_backup_saves_nothing_of_the_database_and_gives_up_nothing() {
    let disk = SimulatedDisk::healthy();
    let server = start(on(&disk, Durability::Memory));
    let db = connect(&server);
    db.sql(PAIRS);
    insert(&db, 0..10);
    db.call("@SnapshotSave", ());
    insert(&db, 10..30);
    let written = log_bytes(&db);
    let saved = db.call("@SnapshotSave", ("/backups", "one", 1i8));
    assert!(!text_of(&saved).contains("FAILURE"), "{}", text_of(&saved));
    assert_eq!(log_bytes(&db), written);
    let copy = killed(&disk);
    assert_eq!(server.stop().expect("a healthy log closes"), Stopped::Wholly);
    let server = start(on(&disk, Durability::Memory));
    assert_eq!(rows(&connect(&server)), 30);
    server.stop().expect("a healthy log closes");
    // The kill leads back to the snapshot, and without that it does not lead anywhere.
    let other = start(on(&copy, Durability::Memory));
    assert_eq!(rows(&connect(&other)), 10);
    drop(other);
    let of_rows = |path: &&PathBuf| path.display().to_string().ends_with("snapshot-0000000001-p0000.rows");
    let files = copy.files();
    let path = files.iter().find(of_rows).expect("the snapshot has rows");
    copy.rot(path, 4_096, 1);
    let refused = Server::start(on(&copy, Durability::Memory)).err().expect("nothing leads to the snapshot");
    assert!(refused.to_string().contains("snapshot 1, which takes the place"), "{refused}");
}

#[test]
fn a_schema_change_that_was_answered_survives_a_kill() {
    let disk = SimulatedDisk::healthy();
    let server = start(on(&disk, Durability::Memory));
    let db = connect(&server);
    db.sql(PAIRS);
    insert(&db, 0..30);
    db.sql("ALTER TABLE pairs ADD COLUMN extra INTEGER DEFAULT 7; CREATE UNIQUE INDEX by_value ON pairs (id, extra)");
    db.call("PAIRS.insert", (30i64, "later", 1i64));
    let other = start(on(&killed(&disk), Durability::Sync));
    let db = connect(&other);
    assert_eq!(db.scalar("SELECT SUM(extra) FROM pairs"), 210, "30 rows of 7");
    other.stop().expect("a healthy log closes");
    server.stop().expect("a healthy log closes");
}

#[test]
fn where_no_snapshot_can_be_taken_a_schema_change_is_unknown_and_a_stop_says_what_is_lost() {
    let disk = SimulatedDisk::healthy();
    let server = start(on(&disk, Durability::Memory));
    let db = connect(&server);
    db.sql(PAIRS);
    insert(&db, 0..30);
    // No manifest gets its name.
    let (kind, error) = (FaultKind::Name, Fault::EIO);
    disk.fail(Fault { kind, at: disk.count(kind) + 1, times: u64::MAX, error, short: 0 });
    let answer = db.fail("@AdHoc", ("CREATE TABLE more (a INTEGER)",));
    assert!(text_of(&answer).contains("the schema was changed, but the snapshot"), "{}", text_of(&answer));
    db.sql("INSERT INTO more VALUES (1)");
    assert_eq!(server.stop().expect("a healthy log closes"), Stopped::Unsaved);
    disk.heal();
    let server = start(on(&disk, Durability::Memory));
    assert_eq!((rows(&connect(&server)), reports_a_loss(&server)), (0, true));
    server.stop().expect("a healthy log closes");
}

#[test]
fn a_node_of_a_cluster_is_told_what_to_use() {
    let disk = SimulatedDisk::healthy();
    let hosts = vec!["127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned()];
    let cluster = ClusterOptions { hosts, kfactor: Some(1), ..ClusterOptions::default() };
    match Server::start(ServerOptions { cluster, ..on(&disk, Durability::Memory) }) {
        Err(ServerError::Member(MemberError::Cluster(text))) => {
            assert!(text.contains("Use --durability none"), "{text}")
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    }
}
