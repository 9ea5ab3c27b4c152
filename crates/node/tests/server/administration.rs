//! The administration port: what may be done only there, and what goes on there while clients are
//! held off.

use crate::common::raw::Raw;
use crate::common::{CONTESTANTS, VOTER, connect, connect_admin, options, start, synced_on};
use ferrite_client::Status;
use ferrite_io::simulated::SimulatedDisk;
use ferrite_node::ServerOptions;
use ferrite_value::OwnedValue;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

const PAUSED: &str = "Server is paused and is available in read-only mode - please try again later.";

#[test]
fn administrators_pause_and_go_on_writing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut options = options(dir.path(), 3);
    options.admin_listen = Some("127.0.0.1:0".parse().expect("an address"));
    let server = start(options);
    let (db, admin) = (connect(&server), connect_admin(&server));
    db.sql(VOTER);
    db.sql(CONTESTANTS);
    for procedure in ["@Pause", "@Resume", "@PrepareShutdown", "@CancelShutdown"] {
        let refused = db.fail(procedure, ());
        assert_eq!(refused.status(), Some(Status::UnexpectedFailure));
        assert_eq!(refused.status_text, Some(format!("{procedure} is not available to this client")));
    }
    // Each way in: by procedure, by text with and without a plan, over several partitions, DDL,
    // bulk loads.
    db.fails("@Pause", (1i64,), Status::UnexpectedFailure, "not available");
    admin.fails("@Pause", (1i64,), Status::GracefulFailure, "EXPECTS 0");
    admin.call("@Pause", ());
    let state = |db: &crate::common::Db| {
        let overview = db.call("@SystemInformation", ("OVERVIEW",));
        let is = |row: &&Vec<OwnedValue>| row[1] == OwnedValue::Text("CLUSTERSTATE".into());
        overview.tables[0].rows.iter().find(is).map(|row| row[2].clone())
    };
    assert_eq!(state(&db), Some(OwnedValue::Text("PAUSED".into())));
    for number in 10..14i32 {
        let text = format!("INSERT INTO contestants VALUES ({number}, 'late')");
        db.fails("@AdHoc", (text.as_str(),), Status::ServerUnavailable, PAUSED);
        assert_eq!(admin.sql(&text).scalar(), Some(1));
        db.fails("Vote", (5_550_000_000i64, 1i32, 9i64), Status::ServerUnavailable, PAUSED);
        assert_eq!(admin.call("Vote", (5_550_000_000i64, 1i32, 9i64)).scalar(), Some(0));
        db.fails("CONTESTANTS.delete", (number,), Status::ServerUnavailable, PAUSED);
    }
    assert_eq!(db.scalar("SELECT COUNT(*) FROM contestants"), 6);
    admin.call("CONTESTANTS.delete", (10i32,));
    db.fails("@AdHoc", ("CREATE TABLE late (a INTEGER)",), Status::ServerUnavailable, PAUSED);
    admin.sql("CREATE TABLE late (a INTEGER)");
    // A plan that was made before the schema changed is made again, by the same right.
    admin.sql("INSERT INTO contestants VALUES (10, 'later')");
    // What transactions cannot do now, a readiness check does not find.
    db.fails("@PingPartitions", (0i32,), Status::ServerUnavailable, PAUSED);
    admin.call("@Resume", ());
    for answer in [db.call("@PingPartitions", (0i32,)), db.call("@PingPartitions", ())] {
        assert_eq!(answer.scalar(), Some(0));
    }
    db.fails("@PingPartitions", ("all",), Status::GracefulFailure, "takes a number");
    db.fails("@PingPartitions", (0i32, 1i32), Status::GracefulFailure, "EXPECTS 1 PARAMS");
    db.sql("INSERT INTO late VALUES (1)");
    assert_eq!(state(&db), Some(OwnedValue::Text("RUNNING".into())));
    let admins: Vec<_> =
        db.call("@Statistics", ("LIVECLIENTS", 0i32)).tables[0].rows.iter().map(|row| row[5].clone()).collect();
    assert_eq!(admins.iter().filter(|flag| **flag == OwnedValue::Integer(1)).count(), 1, "{admins:?}");

    admin.call("@PrepareShutdown", ());
    let stopping = "Server is shutting down.";
    db.fails("@AdHoc", ("SELECT COUNT(*) FROM late",), Status::ServerUnavailable, stopping);
    admin.fails("@AdHoc", ("SELECT COUNT(*) FROM late",), Status::ServerUnavailable, stopping);
    admin.call("@Quiesce", ());
    admin.call("@CancelShutdown", ());
    assert_eq!(db.scalar("SELECT COUNT(*) FROM late"), 1);
    server.stop().expect("the log is closed");
}

/// Tools wait for zeros here before they stop the server, and ask by a call that is under way
/// itself.
#[test]
fn a_call_that_asks_what_is_outstanding_is_not_counted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let disk = SimulatedDisk::healthy();
    let mut options = options(dir.path(), 2);
    synced_on(&disk, &mut options);
    options.admin_listen = Some("127.0.0.1:0".parse().expect("an address"));
    let server = start(options);
    let (db, admin) = (connect(&server), connect_admin(&server));
    db.sql(VOTER);
    let (mut busy, number) = Raw::connect_numbered(server.address());
    let held_syncs = disk.hold_syncs();
    busy.call("CONTESTANTS.insert", 3, &(3i32, "Jessie"));
    disk.wait_for_held_sync();
    for asks in [&db, &admin] {
        let answer = asks.call("@Statistics", ("LIVECLIENTS", 0i32));
        for row in &answer.tables[0].rows {
            let (bytes, calls) = (row[6].clone(), row[8].clone());
            if row[3] == OwnedValue::Integer(number) {
                assert!(matches!((bytes, calls), (OwnedValue::Integer(1..), OwnedValue::Integer(1))), "{row:?}");
            } else {
                assert_eq!((bytes, calls), (OwnedValue::Integer(0), OwnedValue::Integer(0)), "{row:?}");
            }
        }
    }
    drop(held_syncs);
    assert_eq!(busy.answer().expect("an answer").0, 3);
    admin.call("@PrepareShutdown", ());
    for asks in [&db, &admin] {
        let figures = "SELECT COUNT(*), SUM(OUTSTANDING_TRANSACTIONS + OUTSTANDING_REQUEST_BYTES)
            FROM statistics(LIVECLIENTS, 0)";
        let row = &asks.call("@Statistics", ("LIVECLIENTS", 0i32)).tables[0].rows;
        assert!(row.iter().all(|row| row[6..9].iter().all(|cell| *cell == OwnedValue::Integer(0))), "{row:?}");
        admin.call("@CancelShutdown", ());
        let row = &asks.call("@QueryStats", (figures,)).tables[0].rows[0];
        assert_eq!(row[..], [OwnedValue::Integer(3), OwnedValue::Integer(0)]);
        admin.call("@PrepareShutdown", ());
    }
    server.stop().expect("the log is closed");
}

/// Options with an administration port that another socket has.
fn with_taken_port(dir: &Path) -> (TcpListener, SocketAddr, ServerOptions) {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("a bound socket has an address");
    let options = ServerOptions { admin_listen: Some(address), ..options(dir, 1) };
    (taken, address, options)
}

#[test]
fn a_port_that_is_taken_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_taken, address, options) = with_taken_port(dir.path());
    let error = ferrite_node::Server::start(options).err().expect("the port is taken").to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}: ")), "{error}");
    assert!(error.contains("--listen and --admin-listen"), "{error}");
    assert!(!dir.path().join("data").exists(), "nothing was begun");
}

#[test]
fn a_port_that_becomes_free_is_waited_for() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (taken, address, options) = with_taken_port(dir.path());
    let waits = || {
        ferrite_io::notices::recent()
            .iter()
            .any(|event| event.code == "port-taken" && event.message.contains(&address.to_string()))
    };
    let start = std::thread::spawn(move || ferrite_node::Server::start(options));
    while !waits() {
        std::thread::yield_now();
    }
    drop(taken);
    let server = start.join().expect("it does not panic").expect("the port is free now");
    server.stop().expect("the log is closed");
}
