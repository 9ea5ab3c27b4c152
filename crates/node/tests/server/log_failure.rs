//! The first write or fsync that fails ends acknowledgements for good: whatever is called
//! afterwards says so, and after a restart on a healthy disk there is all that was acknowledged and
//! nothing that was refused.

use crate::common::{CONTESTANTS, Db, PATIENCE, VOTER, connect, integers, options, start, text_of, votes};
use ferrite_client::{CallFuture, ClientError, Status};
use ferrite_io::simulated::{Fault, FaultKind, Restart, SimulatedDisk};
use ferrite_node::{Durability, Server, ServerOptions};
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const VOTERS: i64 = 4;
/// Calls that a client has on the way.
const WINDOW: usize = 40;
/// Calls that every client makes after it knows of the failure.
const AFTERWARDS: usize = 300;
const VOTES_MAX: i64 = 200_000;

/// What the voters were told.
#[derive(Default)]
struct Told {
    acknowledged: BTreeSet<i64>,
    unknown: BTreeSet<i64>,
    refused: BTreeSet<i64>,
}

/// Votes with a new number each time until some time after the failure.
fn voter(db: &Db, first: i64, failure_seen: &AtomicBool) -> Told {
    let mut told = Told::default();
    let mut on_the_way: VecDeque<(i64, bool, CallFuture)> = VecDeque::new();
    let mut left = AFTERWARDS;
    for phone in first.. {
        let late = failure_seen.load(Ordering::SeqCst);
        if late {
            left -= 1;
        }
        assert!(phone < first + VOTES_MAX, "the disk should have failed");
        on_the_way.push_back((phone, late, db.0.call("Vote", (phone, 1i32, 2i64))));
        while on_the_way.len() > if left == 0 { 0 } else { WINDOW } {
            let (phone, late, call) = on_the_way.pop_front().expect("the queue is not empty");
            match call.wait() {
                Ok(response) => {
                    assert!(!late, "acknowledged after the failure was known: {response:?}");
                    assert_eq!(response.scalar(), Some(0));
                    told.acknowledged.insert(phone);
                }
                Err(ClientError::Failed(response)) => {
                    match response.status() {
                        Some(Status::ServerUnavailable) => told.refused.insert(phone),
                        Some(Status::ResponseUnknown) if !late => told.unknown.insert(phone),
                        status => panic!("{status:?} for a call made late={late}: {response:?}"),
                    };
                    let text = text_of(&response);
                    assert!(text.contains("redo log: cannot") && text.contains("then restart"), "{text}");
                    failure_seen.store(true, Ordering::SeqCst);
                }
                Err(error) => panic!("{error}"),
            }
        }
        if left == 0 {
            break;
        }
    }
    told
}

/// Reads all the time: an answer made after the failure was known is a refusal.
fn reader(db: &Db, text: &str, failure_seen: &AtomicBool) {
    loop {
        let late = failure_seen.load(Ordering::SeqCst);
        match db.0.call_blocking("@AdHoc", (text,)) {
            Ok(_) => assert!(!late, "read after the failure was known: {text}"),
            Err(ClientError::Failed(response)) => match response.status() {
                Some(Status::ServerUnavailable) if late => return,
                Some(Status::ServerUnavailable | Status::ResponseUnknown) if !late => {}
                _ => panic!("late={late}: {response:?}"),
            },
            Err(error) => panic!("{error}"),
        }
    }
}

fn on(disk: &SimulatedDisk, durability: Durability) -> ServerOptions {
    let mut options = ServerOptions { disk: Arc::new(disk.clone()), durability, ..options(Path::new("/"), 2) };
    // Calls of the disk are counted, and what the log does by the clock would come among them.
    options.settings.log_look_interval = Duration::MAX;
    options
}

fn failing(fault: Fault) -> SimulatedDisk {
    let disk = SimulatedDisk::healthy();
    disk.fail(fault);
    disk
}

/// A server with accounts and nobody's vote.
fn set_up(disk: &SimulatedDisk, durability: Durability) -> (Server, Db) {
    let server = start(on(disk, durability));
    let db = connect(&server);
    db.sql(VOTER);
    db.sql(CONTESTANTS);
    db.call("ACCOUNT.insert", (1i64, 100i64));
    (server, db)
}

/// The fault comes when that many more of its kind have succeeded than setting up takes.
fn fail_and_reopen(fault: Fault, durability: Durability) {
    let healthy = SimulatedDisk::healthy();
    let (server, _) = set_up(&healthy, durability);
    server.stop().expect("a healthy log closes");
    let fault = Fault { at: fault.at + healthy.count(fault.kind), ..fault };

    let disk = failing(fault);
    let (server, db) = set_up(&disk, durability);
    let failure_seen = AtomicBool::new(false);
    let told = thread::scope(|scope| {
        let voters: Vec<_> = (0..VOTERS)
            .map(|number| {
                let (db, failure_seen) = (connect(&server), &failure_seen);
                scope.spawn(move || voter(&db, 5_550_000_000 + number * VOTES_MAX, failure_seen))
            })
            .collect();
        for text in [
            "SELECT COUNT(*) FROM votes",
            "SELECT COUNT(*) FROM votes WHERE phone_number = 5550000000",
            "SELECT COUNT(*) FROM votes WHERE phone_number = 5550000001",
            "SELECT COUNT(*) FROM contestants",
        ] {
            let (db, failure_seen) = (connect(&server), &failure_seen);
            scope.spawn(move || reader(&db, text, failure_seen));
        }
        voters.into_iter().fold(Told::default(), |mut all, voter| {
            let mut told = voter.join().expect("the voter ended well");
            all.acknowledged.append(&mut told.acknowledged);
            all.unknown.append(&mut told.unknown);
            all.refused.append(&mut told.refused);
            all
        })
    });
    assert!(!told.acknowledged.is_empty() && !told.unknown.is_empty());

    // Every way in is closed, with words that say why and what to do.
    let words =
        if fault.error == Fault::ENOSPC { "free disk space, then restart" } else { "repair the disk, then restart" };
    let refused = Status::ServerUnavailable;
    for phone in 0..8i64 {
        db.fails("Vote", (5_559_000_000 + phone, 1i32, 2i64), refused, words);
        db.fails("VOTES.insert", (5_559_000_000 + phone, "CA", 1i32), refused, words);
        db.fails("ACCOUNT.select", (phone,), refused, words);
    }
    db.fails("Transfer", (1i64, 2i64, 3i64), refused, words);
    for text in
        ["SELECT * FROM contestants", "DELETE FROM votes", "CREATE TABLE late (a BIGINT)", "DROP PROCEDURE Vote"]
    {
        db.fails("@AdHoc", (text,), refused, words);
    }
    // But it is there, and stops.
    assert_eq!(db.call("@Ping", ()).scalar(), Some(0));
    assert!(!db.call("@SystemInformation", ("OVERVIEW",)).tables.is_empty());
    let failure = server.stop().expect_err("the log was not closed");
    assert!(failure.text().contains(words), "{failure}");

    // Only durability sync promises anything for when the power goes.
    disk.restart(if durability == Durability::Sync { Restart::Power } else { Restart::Process });
    let server = start(on(&disk, durability));
    let db = connect(&server);
    let found = integers(&db.sql("SELECT phone_number FROM votes"));
    let distinct: BTreeSet<i64> = found.iter().copied().collect();
    assert_eq!(found.len(), distinct.len(), "no vote is there twice");
    assert_eq!(told.acknowledged.difference(&distinct).next(), None, "acknowledged and lost");
    assert_eq!(told.refused.intersection(&distinct).next(), None, "refused and there");
    assert!(distinct.iter().all(|phone| told.acknowledged.contains(phone) || told.unknown.contains(phone)));
    assert_eq!(votes(&db), [found.len() as i64; 3]);
    assert_eq!(db.call("Vote", (5_559_000_000i64, 1i32, 2i64)).scalar(), Some(0), "and it goes on");
    server.stop().expect("a healthy log closes");
}

fn fault(kind: FaultKind, at: u64, error: i32) -> Fault {
    // Once: that a later attempt would succeed must not matter.
    Fault { kind, at, times: 1, error, short: 0 }
}

#[test]
fn a_failed_fsync() {
    fail_and_reopen(fault(FaultKind::Sync, 40, Fault::EIO), Durability::Sync);
}

#[test]
fn a_failed_write() {
    fail_and_reopen(fault(FaultKind::Write, 45, Fault::EIO), Durability::Sync);
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_a_write() {
    fail_and_reopen(Fault { short: 4_096, ..fault(FaultKind::Write, 70, Fault::ENOSPC) }, Durability::Sync);
}

#[test]
fn a_failed_write_where_nobody_waits_for_fsyncs() {
    fail_and_reopen(Fault { short: 100, ..fault(FaultKind::Write, 50, Fault::EIO) }, Durability::None);
}

/// An fsync that is done by the clock has nobody waiting for it: nothing is executed after it all
/// the same, not even a read.
#[test]
fn a_failed_fsync_by_the_clock_stops_readers_too() {
    let healthy = SimulatedDisk::healthy();
    let durability = Durability::Interval(Duration::from_millis(1));
    let (server, _) = set_up(&healthy, durability);
    server.stop().expect("a healthy log closes");
    // Setting up takes as many or a few more or less, as the clock has it.
    let at = healthy.count(FaultKind::Sync) + 5;
    let disk = failing(fault(FaultKind::Sync, at, Fault::EIO));
    let (server, db) = set_up(&disk, durability);
    let mut accounts = 2i64;
    let deadline = Instant::now() + PATIENCE;
    // One write, then reads only, until its fsync is done: either that fails, or another write is
    // sent.
    let failed = loop {
        let synced = disk.count(FaultKind::Sync);
        match db.0.call_blocking("ACCOUNT.insert", (accounts, 1i64)) {
            Ok(_) => accounts += 1,
            // The write before it failed.
            Err(ClientError::Failed(response)) => break response,
            Err(error) => panic!("{error}"),
        }
        let seen = loop {
            assert!(Instant::now() < deadline, "the disk should have failed, and reads with it");
            match db.0.call_blocking("ACCOUNT.select", (1i64,)) {
                Ok(_) if disk.count(FaultKind::Sync) >= at => {}
                Ok(_) if disk.count(FaultKind::Sync) > synced => break None,
                Ok(_) => {}
                Err(ClientError::Failed(response)) => break Some(response),
                Err(error) => panic!("{error}"),
            }
        };
        if let Some(response) = seen {
            break response;
        }
    };
    assert_eq!(failed.status(), Some(Status::ServerUnavailable), "{failed:?}");
    assert!(text_of(&failed).contains("repair the disk, then restart"), "{failed:?}");
    server.stop().expect_err("the log was not closed");
}

/// Neither a database nor its schema is said to be there before it is durable.
#[test]
fn a_disk_that_fails_while_the_database_is_made() {
    let start_on = |disk: &SimulatedDisk| {
        Server::start(ServerOptions { schema: Some(VOTER.to_owned()), ..on(disk, Durability::Sync) })
    };
    for kind in [FaultKind::Sync, FaultKind::Write] {
        let healthy = SimulatedDisk::healthy();
        let server = start_on(&healthy).expect("a healthy disk");
        let last = healthy.count(kind);
        server.stop().expect("a healthy log closes");
        // The file's making, then the first record, which node this is, its epoch and the schema.
        for at in (1..2).chain(last - 6..=last) {
            let disk = failing(fault(kind, at, Fault::EIO));
            let error = start_on(&disk).err();
            let text = error.unwrap_or_else(|| panic!("{kind:?} {at}: it started all the same")).to_string();
            let named = ["redo-", "/node.new", "/data"].iter().any(|name| text.contains(name));
            assert!(text.contains("os error 5") && named, "{kind:?} {at}: {text}");
            disk.restart(Restart::Power);
            let server = start_on(&disk).unwrap_or_else(|error| panic!("{kind:?} {at}: {error}"));
            assert_eq!(votes(&connect(&server)), [0; 3]);
            server.stop().expect("a healthy log closes");
        }
    }
}
