//! Schema changes while calls run on several connections and partitions: every call is answered
//! once, from one schema or the other, and results are right under both.

use crate::common::raw::Raw;
use crate::common::{CONTESTANTS, VOTER, connect, integers, options, start, synced_on, text_of, votes};
use ferrite_client::{CallFuture, ClientError, OwnedResponse, Status};
use ferrite_io::simulated::SimulatedDisk;
use ferrite_node::{Server, ServerOptions};
use ferrite_wire::{Response, handles};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use tempfile::TempDir;

const PARTITIONS: u32 = 3;
const WINDOW: usize = 100;
const COUNT_PROCEDURE: &str = "CREATE PROCEDURE VotesOf PARTITION ON TABLE votes COLUMN phone_number AS
    SELECT COUNT(*) FROM votes WHERE phone_number = ?";
const OTHER_PROCEDURE: &str = "CREATE PROCEDURE VotesOf PARTITION ON TABLE votes COLUMN phone_number AS
    SELECT COUNT(*), 7 FROM votes WHERE phone_number = ?";
const EVERYWHERE_PROCEDURE: &str = "CREATE PROCEDURE VotesOf (phone BIGINT) AS
    SELECT COUNT(*) FROM votes WHERE phone_number = phone OR phone_number = -phone";

fn voter(change: impl FnOnce(&mut ServerOptions)) -> (TempDir, Server) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut options = options(dir.path(), PARTITIONS);
    change(&mut options);
    let server = start(options);
    let db = connect(&server);
    db.sql(VOTER);
    db.sql(CONTESTANTS);
    db.sql(COUNT_PROCEDURE);
    (dir, server)
}

/// Keeps calls on the way until told to stop, and gives every answer to `check`.
fn load(
    done: &AtomicBool,
    mut make: impl FnMut(i64) -> CallFuture,
    mut check: impl FnMut(i64, Result<OwnedResponse, ClientError>),
) {
    let mut on_the_way = VecDeque::new();
    for number in 0.. {
        let last = done.load(Ordering::SeqCst);
        if !last {
            on_the_way.push_back((number, make(number)));
        }
        while on_the_way.len() > if last { 0 } else { WINDOW } {
            let (number, call) = on_the_way.pop_front().expect("the queue is not empty");
            check(number, call.wait());
        }
        if last {
            return;
        }
    }
}

#[test]
fn calls_go_on_while_the_schema_changes() {
    const CHANGES: [&str; 9] = [
        "CREATE INDEX by_contestant ON votes (contestant_number, phone_number)",
        "CREATE VIEW by_state (state, num_votes) AS SELECT state, COUNT(*) FROM votes GROUP BY state",
        "DROP PROCEDURE VotesOf",
        OTHER_PROCEDURE,
        "DROP INDEX by_contestant",
        "DROP VIEW by_state",
        "DROP PROCEDURE VotesOf",
        EVERYWHERE_PROCEDURE,
        "DROP PROCEDURE VotesOf; CREATE TABLE came (a BIGINT); DROP TABLE came;
            CREATE PROCEDURE VotesOf PARTITION ON TABLE votes COLUMN phone_number AS
                SELECT COUNT(*) FROM votes WHERE phone_number = ?",
    ];
    let (_dir, server) = voter(|_| {});
    let db = connect(&server);
    let mut subscriber = Raw::connect(server.address());
    subscriber.call("@Subscribe", 5, &("TOPOLOGY",));
    assert_eq!(subscriber.answer().expect("an answer").0, 5);

    let done = AtomicBool::new(false);
    let (cast, counted, missing) = (AtomicI64::new(0), AtomicI64::new(0), AtomicI64::new(0));
    let mut changed = 0;
    thread::scope(|scope| {
        let mut loads = Vec::new();
        for client in 0..2i64 {
            let (db, done, cast) = (connect(&server), &done, &cast);
            let phone = move |number| 5_550_000_000 + client * 10_000_000 + number;
            loads.push(scope.spawn(move || {
                load(
                    done,
                    |number| db.0.call("Vote", (phone(number), 1i32, 1i64)),
                    |number, answer| match answer {
                        Ok(response) => {
                            assert_eq!(response.scalar(), Some(0), "vote {number} was the first of its number");
                            cast.fetch_add(1, Ordering::SeqCst);
                        }
                        // Changes around a procedure are not felt by its callers.
                        Err(error) => panic!("vote {number}: {error}"),
                    },
                );
            }));
        }
        for client in 0..2i64 {
            let (db, done, counted, missing) = (connect(&server), &done, &counted, &missing);
            loads.push(scope.spawn(move || {
                load(
                    done,
                    |number| db.0.call("VotesOf", (2_120_000_000 + client + number,)),
                    |number, answer| match answer {
                        Ok(response) => {
                            assert_eq!(response.scalar(), Some(0), "count {number}");
                            counted.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(ClientError::Failed(response)) => {
                            let text = text_of(&response);
                            match response.status() {
                                Some(Status::UnexpectedFailure) => {
                                    assert!(text.contains("VotesOf was not found"), "{text}")
                                }
                                Some(Status::ServerUnavailable) => {
                                    assert!(text.contains("send the call again"), "{text}")
                                }
                                _ => panic!("{response:?}"),
                            }
                            missing.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => panic!("count {number}: {error}"),
                    },
                );
            }));
        }
        // Statements of all partitions and ad hoc ones are compiled again where the schema changed
        // under them.
        let (reader, stop) = (connect(&server), &done);
        loads.push(scope.spawn(move || {
            let mut least = [0; 3];
            while !stop.load(Ordering::SeqCst) {
                let now = votes(&reader);
                assert!(least.iter().zip(&now).all(|(least, now)| least <= now), "{least:?} then {now:?}");
                least = now;
            }
        }));
        for round in 0..3 {
            for change in CHANGES {
                // Some calls between one change and the next.
                let before = cast.load(Ordering::SeqCst);
                while cast.load(Ordering::SeqCst) < before + 200 && !loads.iter().any(|load| load.is_finished()) {
                    thread::yield_now();
                }
                let failed = |error| panic!("round {round}, {change}: {error}");
                db.0.call_blocking("@AdHoc", (change,)).unwrap_or_else(failed);
                changed += 1;
                if change.starts_with("CREATE VIEW") {
                    let response = db.sql("SELECT SUM(num_votes) FROM by_state; SELECT COUNT(*) FROM votes");
                    assert_eq!(response.tables[0].rows, response.tables[1].rows, "the view was filled from the rows");
                }
                if change.starts_with("CREATE INDEX") {
                    let text = "SELECT COUNT(*) FROM votes WHERE contestant_number = 1; SELECT COUNT(*) FROM votes";
                    let response = db.sql(text);
                    assert_eq!(response.tables[0].rows, response.tables[1].rows, "so was the index");
                }
            }
        }
        done.store(true, Ordering::SeqCst);
        loads.into_iter().for_each(|load| load.join().expect("the load ended well"));
    });
    assert_eq!(votes(&db), [cast.load(Ordering::SeqCst); 3]);
    assert!(counted.load(Ordering::SeqCst) > 0 && missing.load(Ordering::SeqCst) > 0, "both were met");

    // Two messages for a change, or for several that came together; the last tells of the last
    // catalog.
    let mut pushes = BTreeSet::new();
    subscriber.call("@Ping", 6, &());
    let mut received = 0;
    loop {
        let body = subscriber.frame().expect("an answer");
        let response = Response::parse(&body).expect("well-formed");
        if response.handle == 6 {
            break;
        }
        assert!([handles::PROCEDURES_PUSH, handles::TOPOLOGY_PUSH].contains(&response.handle));
        pushes.insert(response.handle);
        received += 1;
    }
    assert_eq!(pushes.len(), 2);
    assert!(received >= 2 && received <= 2 * changed, "{received} messages for {changed} changes");
    server.stop().expect("the log is closed");
}

#[test]
fn a_schema_change_is_seen_when_it_is_durable_and_not_before() {
    let disk = SimulatedDisk::healthy();
    let (_dir, server) = voter(|options| {
        synced_on(&disk, options);
        options.network_threads = 1;
    });
    let db = connect(&server);
    let mut subscriber = Raw::connect(server.address());
    subscriber.call("@Subscribe", 5, &("TOPOLOGY",));
    assert_eq!(subscriber.answer().expect("an answer").0, 5);
    let held_syncs = disk.hold_syncs();
    let change = db.0.call("@AdHoc", ("CREATE TABLE fresh (a BIGINT NOT NULL, PRIMARY KEY (a))",));
    disk.wait_for_held_sync();
    db.fails("FRESH.insert", (1i64,), Status::UnexpectedFailure, "FRESH.insert was not found");
    subscriber.call("@Ping", 6, &());
    assert_eq!(subscriber.answer().expect("an answer").0, 6, "no push came before");
    drop(held_syncs);
    change.wait().expect("the table is made");
    assert!(handles::is_reserved(subscriber.answer().expect("a push").0));
    db.call("FRESH.insert", (1i64,));
    assert_eq!(integers(&db.sql("SELECT a FROM fresh")), [1]);
}

#[test]
fn a_schema_change_that_fails_changes_nothing() {
    let (_dir, server) = voter(|_| {});
    let db = connect(&server);
    for phone in [5_550_000_001i64, 5_550_000_001, 5_550_000_002] {
        db.call("Vote", (phone, 1i32, 2i64));
    }
    let refused = Status::GracefulFailure;
    db.fails("@AdHoc", ("CREATE UNIQUE INDEX one ON votes (phone_number)",), refused, "");
    db.fails("@AdHoc", ("CREATE TABLE came (a BIGINT); CREATE TABLE came (a BIGINT)",), refused, "");
    db.fails("@AdHoc", ("CREATE TABLE came (a BIGINT); DROP TABLE votes",), refused, "");
    db.fails("@AdHoc", ("CREATE PROCEDURE Wrong AS SELECT nothing FROM votes",), refused, "");
    db.fails("@AdHoc", ("SELECT * FROM came",), refused, "");
    db.fails("CAME.insert", (1i64,), Status::UnexpectedFailure, "was not found");
    assert_eq!(votes(&db), [3; 3]);
    assert_eq!(db.call("VotesOf", (5_550_000_001i64,)).scalar(), Some(2));
    db.sql("CREATE INDEX one ON votes (phone_number)");
    assert_eq!(db.call("VotesOf", (5_550_000_001i64,)).scalar(), Some(2));
}
