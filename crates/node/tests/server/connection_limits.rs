//! What a connection may do before it is closed, and how many there may be: with small settings, at
//! each limit and one past it.

use crate::common::raw::Raw;
use crate::common::{CONTESTANTS, Db, PATIENCE, VOTER, connect, connect_admin, options, start, synced_on, votes};
use ferrite_base::{Settings, limits};
use ferrite_client::Status;
use ferrite_io::simulated::SimulatedDisk;
use ferrite_node::{ConnectionLimits, Server};
use ferrite_value::OwnedValue;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

fn limited(change: impl FnOnce(&mut ConnectionLimits)) -> (tempfile::TempDir, Server, Db) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut options = options(dir.path(), 1);
    options.admin_listen = Some("127.0.0.1:0".parse().expect("an address"));
    change(&mut options.connection_limits);
    let server = start(options);
    let db = connect(&server);
    (dir, server, db)
}

/// The bytes that come before the server closes the connection.
fn bytes_until_closed(mut stream: TcpStream) -> usize {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    let mut buffer = vec![0; 1 << 16];
    let mut all = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return all,
            Ok(count) => all += count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("the server should have closed the connection: {error}"),
        }
    }
}

fn dropped(db: &Db) -> i64 {
    let limits = db.call("@Statistics", ("LIMITS", 0i32));
    let column = limits.tables[0].column_index("DROPPED_CONNECTIONS").expect("a column");
    match limits.tables[0].rows[0][column] {
        OwnedValue::Integer(number) => number,
        ref other => panic!("{other:?}"),
    }
}

/// Sends no login and says how many bytes of an answer came.
fn knock(address: SocketAddr) -> usize {
    bytes_until_closed(TcpStream::connect(address).expect("the port takes connections"))
}

#[test]
fn as_many_connections_as_the_limit_and_some_more_for_administrators() {
    const MOST: usize = 5;
    let (_dir, server, db) = limited(|limits| limits.connections_max = MOST);
    let admin = server.admin_address().expect("there is an administration port");
    // The client of the test is one.
    let mut open: Vec<Raw> = (1..MOST).map(|_| Raw::connect(server.address())).collect();
    // The frame of a refused login: length, version, code.
    assert_eq!(knock(server.address()), 6, "one past the limit is told why");
    assert_eq!(dropped(&db), 1);
    let mut administrator = Raw::connect(admin);
    administrator.call("@Ping", 1, &());
    assert_eq!(administrator.answer().expect("an answer").0, 1);
    drop(administrator);
    open.pop();
    // The place is free when the server has seen the end.
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "the place of a closed connection is not free");
        let before = dropped(&db);
        let mut stream = TcpStream::connect(server.address()).expect("the port takes connections");
        stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout can be set");
        let mut first = [0];
        if stream.read(&mut first).is_err() {
            assert_eq!(dropped(&db), before);
            break;
        }
    }
    server.stop().expect("the log is closed");
}

#[test]
fn connections_have_numbers_of_their_own_on_all_threads() {
    let (_dir, server, _db) = limited(|_| {});
    let open: Vec<(Raw, i64)> = (0..20).map(|_| Raw::connect_numbered(server.address())).collect();
    let mut numbers: Vec<i64> = open.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 20);
    assert!(numbers.iter().all(|number| *number > 0));
    server.stop().expect("the log is closed");
}

#[test]
fn a_login_that_does_not_come_is_not_waited_for() {
    let (_dir, server, _) = limited(|limits| limits.login_time_max = Duration::from_millis(50));
    assert_eq!(knock(server.address()), 0);
    assert_eq!(knock(server.admin_address().expect("there is an administration port")), 0);
    // One that has come may take its time.
    let mut raw = Raw::connect(server.address());
    knock(server.address());
    raw.call("@Ping", 1, &());
    assert_eq!(raw.answer().expect("an answer").0, 1);
    server.stop().expect("the log is closed");
}

#[test]
fn a_frame_that_does_not_come_is_not_waited_for() {
    let (_dir, server, _db) = limited(|limits| limits.frame_time_max = Duration::from_millis(200));
    let whole = crate::common::raw::call("@Ping", 1, &());
    let mut raw = Raw::connect(server.address());
    // One that comes within its time, in two parts.
    raw.send(&whole[..10]);
    raw.send(&whole[10..]);
    assert_eq!(raw.answer().expect("an answer").0, 1);
    raw.send(&whole[..10]);
    assert_eq!(bytes_until_closed(raw.0), 0);
    // Nor is one that is announced, and of which nothing comes.
    let mut raw = Raw::connect(server.address());
    raw.send(&[0, 0, 1]);
    assert_eq!(bytes_until_closed(raw.0), 0);
    server.stop().expect("the log is closed");
}

fn blob(db: &Db) {
    db.sql(
        "CREATE TABLE blob (id BIGINT NOT NULL, bytes VARBINARY(1048576) NOT NULL, PRIMARY KEY (id));
        PARTITION TABLE blob ON COLUMN id",
    );
    db.call("BLOB.insert", (1i64, &vec![7u8; 1 << 20][..]));
}

#[test]
fn a_connection_that_reads_nothing_for_too_long_is_closed() {
    let (_dir, server, db) = limited(|limits| limits.unread_time_max = Duration::from_millis(200));
    blob(&db);
    let mut lazy = Raw::connect(server.address());
    for handle in 0..40 {
        lazy.call("BLOB.select", handle, &(1i64,));
    }
    // It is closed though it reads nothing: seen from outside, since reading would help it.
    let deadline = Instant::now() + PATIENCE;
    while db.call("@Statistics", ("LIVECLIENTS", 0i32)).tables[0].rows.len() > 1 {
        assert!(Instant::now() < deadline, "a connection that does not read is open still");
    }
    assert!(bytes_until_closed(lazy.0) < 40 << 20);
    server.stop().expect("the log is closed");
}

/// Calls that the server has taken from a connection. A network thread that is busy for half a
/// second, with large answers, is left out of the figures: then they are asked for again.
fn taken(db: &Db, number: i64) -> i64 {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let table = db.call("@Statistics", ("IOSTATS", 0i32)).tables.swap_remove(0);
        let at = |name: &str| table.column_index(name).expect("a column of IOSTATS");
        let row = table.rows.iter().find(|row| row[at("CONNECTION_ID")] == OwnedValue::Integer(number));
        match row.map(|row| &row[at("MESSAGES_READ")]) {
            Some(OwnedValue::Integer(calls)) => return *calls,
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
    panic!("connection {number} is not there")
}

#[test]
fn calls_for_large_answers_are_not_taken_before_others_are_read() {
    const ANSWERS: i64 = 600;
    // However long a busy machine takes for all the questions below: it is not closed for reading
    // nothing meanwhile.
    let (_dir, server, db) = limited(|limits| limits.unread_time_max = Duration::from_secs(3_600));
    blob(&db);
    let (mut lazy, number) = Raw::connect_numbered(server.address());
    let calls: Vec<u8> =
        (0..ANSWERS).flat_map(|handle| crate::common::raw::call("BLOB.select", handle, &(1i64,))).collect();
    // In one piece, and small: the server has read them all before it knows how large the answers
    // are.
    lazy.send(&calls);
    let mut most = 0;
    for _ in 0..2_000 {
        db.call("BLOB.select", (2i64,));
        most = most.max(taken(&db, number));
    }
    // Some are answered into the kernel's buffers, and make room for others.
    let expected = limits::CONNECTION_FIRST_CALLS_MAX as i64;
    assert!((expected..expected + 64).contains(&most), "{most} calls were taken");
    for handle in 0..ANSWERS {
        let (answered, status, text) = lazy.answer().expect("an answer");
        assert_eq!((answered, status), (handle, Status::Success.code()), "{text}");
    }
    // The end of the connection is seen behind calls that had to wait.
    lazy.send(&calls);
    lazy.0.shutdown(std::net::Shutdown::Write).expect("an open socket");
    for _ in 0..ANSWERS {
        assert_eq!(lazy.answer().expect("an answer").1, Status::Success.code());
    }
    assert_eq!(lazy.frame(), None);
    server.stop().expect("the log is closed");
}

#[test]
fn unread_answers_have_a_limit_and_one_past_it_the_connection_is_closed() {
    const MOST: usize = 32 << 20;
    let (_dir, server, db) = limited(|limits| limits.unread_bytes_max = MOST);
    blob(&db);
    let mut lazy = Raw::connect(server.address());
    // It is known for small answers, so that many calls are taken at once.
    for handle in 0..200 {
        lazy.call("BLOB.select", handle, &(2i64,));
        assert_eq!(lazy.answer().expect("an answer").0, handle);
    }
    let calls: Vec<u8> =
        (0..300).flat_map(|handle| crate::common::raw::call("BLOB.select", handle, &(1i64,))).collect();
    lazy.send(&calls);
    let deadline = Instant::now() + PATIENCE;
    while db.call("@Statistics", ("LIVECLIENTS", 0i32)).tables[0].rows.len() > 1 {
        assert!(Instant::now() < deadline, "a connection with too many unread answers is open still");
    }
    assert!(bytes_until_closed(lazy.0) < 300 << 20);
    assert_eq!(db.call("@Ping", ()).scalar(), Some(0));
    server.stop().expect("the log is closed");
}

#[test]
fn a_full_node_takes_no_more_until_it_has_answered_some() {
    const MOST: usize = 40;
    let vote = |handle: i64| crate::common::raw::call("Vote", handle, &(5_550_000_000 + handle, 1i32, 2i64));
    // Without the four bytes of its length.
    let bytes = vote(0).len() - 4;
    let by_calls = Settings { node_outstanding_calls: MOST, ..Settings::default() };
    let by_bytes = Settings { node_outstanding_bytes: MOST * bytes, ..Settings::default() };
    for settings in [by_calls, by_bytes] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk = SimulatedDisk::healthy();
        let mut options = options(dir.path(), 1);
        options.admin_listen = Some("127.0.0.1:0".parse().expect("an address"));
        synced_on(&disk, &mut options);
        options.network_threads = 1;
        options.settings = settings;
        let server = start(options);
        let admin = connect_admin(&server);
        admin.sql(VOTER);
        admin.sql(CONTESTANTS);
        let held_syncs = disk.hold_syncs();
        let mut open: Vec<(Raw, i64)> = (0..2).map(|_| Raw::connect_numbered(server.address())).collect();
        for (number, (raw, _)) in open.iter_mut().enumerate() {
            // An administrator's call takes room too while it is outstanding, so none may be before
            // these are read. That calls over another connection are answered does not say that
            // they are: nothing promises an order between two connections. A ping in front of them,
            // in the same read, does: it is answered when all that there was room for is taken.
            let mut bytes = crate::common::raw::call("@Ping", 1_000, &());
            bytes.extend((0..30).flat_map(|call| vote(30 * number as i64 + call)));
            raw.send(&bytes);
            assert_eq!(raw.answer().expect("an answer").0, 1_000);
        }
        assert_eq!([taken(&admin, open[0].1), taken(&admin, open[1].1)], [30, 10], "so many, and not one more");
        // Others may come, and wait from their login on; administrators need not.
        open.push(Raw::connect_numbered(server.address()));
        open[2].0.send(&vote(60));
        assert_eq!(taken(&admin, open[2].1), 0);
        drop(held_syncs);
        let mut answered = 0;
        for (raw, count) in open.iter_mut().map(|(raw, _)| raw).zip([30, 30, 1]) {
            for _ in 0..count {
                let (_, status, text) = raw.answer().expect("an answer");
                assert_eq!(status, Status::Success.code(), "{text}");
                answered += 1;
            }
        }
        assert_eq!(votes(&admin), [answered; 3]);
        server.stop().expect("the log is closed");
    }
}

#[test]
fn a_connection_has_as_many_outstanding_as_are_set_and_not_one_more() {
    const MOST: usize = 7;
    let vote = |handle: i64| crate::common::raw::call("Vote", handle, &(5_550_000_000 + handle, 1i32, 2i64));
    // Without the four bytes of its length.
    let bytes = vote(0).len() - 4;
    let by_calls = Settings { connection_outstanding_calls: MOST, ..Settings::default() };
    let by_bytes = Settings { connection_outstanding_bytes: MOST * bytes, ..Settings::default() };
    for settings in [by_calls, by_bytes] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk = SimulatedDisk::healthy();
        let mut options = options(dir.path(), 1);
        synced_on(&disk, &mut options);
        options.settings = settings;
        let server = start(options);
        let db = connect(&server);
        db.sql(VOTER);
        db.sql(CONTESTANTS);
        let held_syncs = disk.hold_syncs();
        // A ping in front, in the same read: it is answered when all that there was room for is
        // taken.
        let (mut raw, number) = Raw::connect_numbered(server.address());
        let mut calls = crate::common::raw::call("@Ping", 1_000, &());
        calls.extend((0..=MOST as i64).flat_map(vote));
        raw.send(&calls);
        assert_eq!(raw.answer().expect("an answer").0, 1_000);
        assert_eq!(taken(&db, number), MOST as i64, "so many, and not one more");
        drop(held_syncs);
        for handle in 0..=MOST as i64 {
            let (answered, status, text) = raw.answer().expect("an answer");
            assert_eq!((answered, status), (handle, Status::Success.code()), "{text}");
        }
        assert_eq!(votes(&db), [MOST as i64 + 1; 3]);
        server.stop().expect("the log is closed");
    }
}
