//! SIGKILL at any moment under load: no acknowledged vote or transfer is lost, none is there twice, and what was not
//! acknowledged is there wholly or not at all.

mod common;

use common::{Db, Server, votes};
use ferrite_client::{Client, ClientOptions, Prepared};
use ferrite_value::OwnedValue;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What the clients were told in one round.
#[derive(Default)]
struct Told {
    accepted: HashSet<i64>,
    unknown: HashSet<i64>,
}

/// A small generator of our own: the rounds are to differ, and to be the same in the next run.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Votes from many phones, each once, until the server is killed after about `until` acknowledgements.
fn vote_until_killed(server: Server, first_phone: i64, until: u64) -> (Told, i64) {
    let mut options = ClientOptions::new([&server.address]);
    options.outstanding_max = 2_000;
    let client = Client::connect(options).expect("the server takes connections");
    let told = Arc::new(Mutex::new(Told::default()));
    let acknowledged = Arc::new(AtomicU64::new(0));
    let procedure = Prepared::new("Vote").expect("a short name");
    let mut server = Some(server);
    let mut phone = first_phone;
    let mut after_kill = 0;
    loop {
        if acknowledged.load(Ordering::Relaxed) >= until
            && let Some(server) = server.take()
        {
            server.kill();
        }
        let (told, acknowledged) = (Arc::clone(&told), Arc::clone(&acknowledged));
        let this = phone;
        phone += 1;
        let sent = client.call_with_callback(&procedure, (this, 1i32, 2i64), move |result| {
            let mut told = told.lock().expect("no callback panics");
            match result {
                Ok(response) => {
                    assert_eq!(response.scalar(), Some(0));
                    told.accepted.insert(this);
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) if error.is_outcome_unknown() => {
                    told.unknown.insert(this);
                }
                Err(_) => {}
            }
        });
        assert!(sent.is_ok());
        if server.is_none() {
            after_kill += 1;
            if after_kill > 4_000 {
                break;
            }
        }
    }
    client.close();
    client.drain();
    let told = std::mem::take(&mut *told.lock().expect("no callback panics"));
    (told, phone)
}

fn check(db: &Db, told: &Told, certain: &mut HashSet<i64>) {
    let mut there = HashMap::new();
    for row in db.rows("SELECT phone_number FROM votes") {
        let OwnedValue::Integer(phone) = row[0] else { panic!("{row:?}") };
        *there.entry(phone).or_insert(0) += 1;
    }
    certain.extend(&told.accepted);
    let lost: Vec<_> = certain.iter().filter(|phone| !there.contains_key(phone)).take(5).collect();
    assert!(lost.is_empty(), "acknowledged votes are lost: {lost:?}");
    for (phone, count) in &there {
        assert_eq!(*count, 1, "phone {phone} is there {count} times");
        assert!(certain.contains(phone) || told.unknown.contains(phone), "nobody voted from {phone}");
    }
    let count = there.len() as i64;
    assert_eq!(votes(db), [count; 3], "rows and views");
    // What was unknown is now known.
    certain.extend(there.keys());
}

fn kill_rounds(options: &[&str], rounds: u32, seed: u64) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    let mut state = seed;
    let mut phone = 5_550_000_000;
    let mut certain = HashSet::new();
    let first = Server::start(&data, options);
    let db = first.connect();
    db.sql(common::VOTER);
    db.sql("INSERT INTO contestants VALUES (1, 'Edwina')");
    drop(db);
    let mut server = first;
    for round in 0..rounds {
        let until = 1 + next(&mut state) % 20_000;
        let (told, next_phone) = vote_until_killed(server, phone, until);
        phone = next_phone;
        server = Server::start(&data, options);
        check(&server.connect(), &told, &mut certain);
        println!(
            "round {round}: killed after {until}, {} accepted, {} unknown, {} rows",
            told.accepted.len(),
            told.unknown.len(),
            certain.len()
        );
    }
    server.stop();
    let server = Server::start(&data, options);
    assert_eq!(votes(&server.connect()), [certain.len() as i64; 3], "after a clean stop");
}

/// Rounds per case; `FERRITE_KILL_ROUNDS` makes it a long test.
fn rounds() -> u32 {
    std::env::var("FERRITE_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

#[test]
fn no_acknowledged_vote_is_lost_with_one_partition() {
    kill_rounds(&["--partitions", "1"], rounds(), 0x9e37_79b9_7f4a_7c15);
}

#[test]
fn no_acknowledged_vote_is_lost_with_three_partitions() {
    kill_rounds(&["--partitions", "3"], rounds(), 0xd1b5_4a32_d192_ed03);
}

/// A kill of the process loses nothing without fsync either: what was written is the operating system's.
#[test]
fn no_acknowledged_vote_is_lost_with_interval_durability() {
    kill_rounds(&["--durability", "interval=5"], rounds().div_ceil(2), 0x2545_f491_4f6c_dd1d);
}

/// Transfers over partitions keep the sum, whenever the server dies.
#[test]
fn transfers_over_partitions_are_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    let mut server = Server::start(&data, &["--partitions", "4"]);
    let db = server.connect();
    db.sql(common::VOTER);
    for id in 0..20i64 {
        db.call("ACCOUNT.insert", (id, 1_000i64));
    }
    drop(db);
    let mut state = 77;
    for _ in 0..rounds() {
        let mut options = ClientOptions::new([&server.address]);
        options.outstanding_max = 50;
        let client = Client::connect(options).expect("the server takes connections");
        let procedure = Prepared::new("Transfer").expect("a short name");
        let until = 20 + next(&mut state) % 300;
        let done = Arc::new(AtomicU64::new(0));
        while done.load(Ordering::Relaxed) < until {
            let (from, to) = (next(&mut state) as i64 & 15, 4 + (next(&mut state) as i64 & 15));
            let done = Arc::clone(&done);
            let amount = (next(&mut state) % 400) as i64;
            client
                .call_with_callback(&procedure, (from, to, amount), move |_| {
                    done.fetch_add(1, Ordering::Relaxed);
                })
                .expect("the client is open");
        }
        server.kill();
        client.close();
        server = Server::start(&data, &["--partitions", "4"]);
        let db = server.connect();
        assert_eq!(db.scalar("SELECT SUM(balance) FROM account"), 20_000);
        assert_eq!(db.scalar("SELECT SUM(balance) FROM total"), 20_000);
        assert_eq!(db.scalar("SELECT COUNT(*) FROM account WHERE balance < 0"), 0);
    }
}
