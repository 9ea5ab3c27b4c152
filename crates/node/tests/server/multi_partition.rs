//! Strict serializability over four partitions: transactions of one partition and of all at once,
//! from several clients, leave every reader a state that some serial order explains, and that order
//! is the one in which calls were made and answered.

use crate::common::{Db, PATIENCE, VOTER, connect, integers, options, start, text_of};
use ferrite_client::{CallFuture, ClientError, Status};
use ferrite_node::{Durability, ServerOptions};
use ferrite_value::OwnedValue;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

const PARTITIONS: u32 = 4;
const ACCOUNTS: i64 = 64;
const BALANCE: i64 = 1_000;

const COUNTERS: &str = "
    CREATE TABLE counter (id BIGINT NOT NULL, value BIGINT NOT NULL, PRIMARY KEY (id));
    PARTITION TABLE counter ON COLUMN id;
    CREATE TABLE everywhere (id BIGINT NOT NULL, value BIGINT NOT NULL, PRIMARY KEY (id));
    CREATE PROCEDURE AddToBoth (one BIGINT, two BIGINT) AS BEGIN
        UPDATE counter SET value = value + 1 WHERE id = one;
        UPDATE everywhere SET value = value + 1 WHERE id = one;
        UPDATE counter SET value = value + 1 WHERE id = two;
    END;
    CREATE PROCEDURE ReadBoth AS SELECT id, value FROM counter ORDER BY id;
    CREATE PROCEDURE ReadEverywhere AS SELECT value FROM everywhere WHERE id = ?;
    CREATE PROCEDURE ReadOne PARTITION ON TABLE counter COLUMN id AS SELECT value FROM counter WHERE id = ?;
    CREATE PROCEDURE Deposit PARTITION ON TABLE account COLUMN id PARAMETER 1 AS UPDATE account SET balance = balance + ? WHERE id = ?;
";

/// Small, repeatable, and good enough to mix calls.
struct Mix(u64);

impl Mix {
    fn below(&mut self, end: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as i64
    }
}

/// Two rows of different partitions.
fn two_of_different_partitions(db: &Db) -> (i64, i64) {
    let keys = a_key_of_each_partition(db);
    (keys[1], keys[3])
}

/// A key for each partition.
fn a_key_of_each_partition(db: &Db) -> Vec<i64> {
    let response = db.call("@GetPartitionKeys", ("INTEGER",));
    let keys: Vec<i64> = response.tables[0]
        .rows
        .iter()
        .map(|row| match row[1] {
            OwnedValue::Integer(key) => key,
            ref other => panic!("not a key: {other:?}"),
        })
        .collect();
    assert_eq!(keys.len(), PARTITIONS as usize);
    keys
}

/// Writers add to two counters and a replicated one in one transaction. A reader must see what was
/// answered before it called (never less), nothing that was not called yet (never more), and the
/// counters alike.
#[test]
fn counters_that_grow_together_are_seen_together() {
    const ROUNDS: i64 = 200;
    const WRITERS: i64 = 3;
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Answers wait for fsyncs, and must wait for the right ones.
    let server = start(ServerOptions { durability: Durability::Sync, ..options(dir.path(), PARTITIONS) });
    let db = connect(&server);
    db.sql(VOTER);
    db.sql(COUNTERS);
    let (one, two) = two_of_different_partitions(&db);
    for id in [one, two] {
        db.call("COUNTER.insert", (id, 0i64));
        db.call("EVERYWHERE.insert", (id, 0i64));
    }
    let (called, answered, done) = (AtomicI64::new(0), AtomicI64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let (db, called, answered) = (connect(&server), &called, &answered);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        called.fetch_add(1, Ordering::SeqCst);
                        db.call("AddToBoth", (one, two));
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for number in 0..4 {
            let (db, called, answered, done) = (connect(&server), &called, &answered, &done);
            scope.spawn(move || {
                let mut mix = Mix(77 + number);
                while !done.load(Ordering::SeqCst) {
                    // What one kind of call has shown, no later call of any kind may take back.
                    let least = answered.load(Ordering::SeqCst);
                    let values = match mix.below(4) {
                        0 => {
                            let response = db.call("ReadBoth", ());
                            response.tables[0].rows.iter().map(|row| row[1].clone()).collect()
                        }
                        1 => db.call("ReadOne", (one,)).tables[0].rows[0].clone(),
                        2 => db.call("ReadOne", (two,)).tables[0].rows[0].clone(),
                        _ => db.call("ReadEverywhere", (one,)).tables[0].rows[0].clone(),
                    };
                    let most = called.load(Ordering::SeqCst);
                    let OwnedValue::Integer(value) = values[0] else { panic!("{values:?}") };
                    assert!(values.iter().all(|other| *other == values[0]), "seen apart: {values:?}");
                    assert!((least..=most).contains(&value), "{value} is not between {least} and {most}");
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().expect("the writer ended well"));
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(db.call("ReadOne", (one,)).scalar(), Some(ROUNDS * WRITERS));
}

/// What a random client may do; each leaves the sum as it was, or is a deposit that the client adds
/// up.
fn random_calls(db: &Db, seed: u64, rounds: usize, deposited: &AtomicI64) {
    let mut mix = Mix(seed);
    for _ in 0..rounds {
        let (source, target) = (mix.below(ACCOUNTS), mix.below(ACCOUNTS));
        match mix.below(6) {
            0 | 1 => {
                // Without cover it is rolled back on every partition, after both updates.
                let amount = mix.below(2 * BALANCE);
                match db.0.call_blocking("Transfer", (source, target, amount)) {
                    Ok(_) => {}
                    Err(ClientError::Failed(response)) if response.status() == Some(Status::UserAbort) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            2 | 3 => {
                // Several on the way at once, from one connection.
                let amounts = [mix.below(50), mix.below(50), -mix.below(30)];
                let calls: Vec<CallFuture> =
                    amounts.iter().map(|amount| db.0.call("Deposit", (*amount, target))).collect();
                for (call, amount) in calls.into_iter().zip(amounts) {
                    assert_eq!(call.wait().expect("a deposit").scalar(), Some(1));
                    deposited.fetch_add(amount, Ordering::SeqCst);
                }
            }
            4 => {
                db.fails("Transfer", (ACCOUNTS + 1, target, 1i64), Status::UserAbort, "no such account");
            }
            _ => {
                // The rows, the view and the rows again within one transaction agree, whatever is
                // going on.
                let response = db.sql(
                    "SELECT COUNT(*), SUM(balance) FROM account; SELECT n, balance FROM total;
                        SELECT COUNT(id), SUM(balance) FROM account WHERE id >= 0",
                );
                let rows: Vec<_> = response.tables.iter().map(|table| &table.rows[0]).collect();
                assert_eq!(rows[0], rows[1], "the view is what the rows say");
                assert_eq!(rows[0], rows[2]);
                assert_eq!(rows[0][0], OwnedValue::Integer(ACCOUNTS));
            }
        }
    }
}

#[test]
fn random_transactions_keep_the_sum() {
    const CLIENTS: u64 = 5;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    db.sql(VOTER);
    db.sql(COUNTERS);
    for id in 0..ACCOUNTS {
        db.call("ACCOUNT.insert", (id, BALANCE));
    }
    let deposited = AtomicI64::new(0);
    thread::scope(|scope| {
        for seed in 1..=CLIENTS {
            let (db, deposited) = (connect(&server), &deposited);
            scope.spawn(move || random_calls(&db, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 250, deposited));
        }
    });
    let sum = ACCOUNTS * BALANCE + deposited.load(Ordering::SeqCst);
    let balances = integers(&db.sql("SELECT balance FROM account ORDER BY id"));
    assert_eq!(balances.iter().sum::<i64>(), sum);
    assert_eq!(db.scalar("SELECT balance FROM total"), sum);
    server.stop().expect("the log is closed");

    // Replay makes of the records, of one partition and of several, the same rows.
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    assert_eq!(integers(&db.sql("SELECT balance FROM account ORDER BY id")), balances);
    assert_eq!(db.scalar("SELECT balance FROM total"), sum);
}

/// Transfers on the way in both directions between all pairs, many at once: there is no deadlock
/// and every one is answered.
#[test]
fn transactions_in_opposite_directions_do_not_block_each_other() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), PARTITIONS));
    let db = connect(&server);
    db.sql(VOTER);
    for id in 0..8i64 {
        db.call("ACCOUNT.insert", (id, BALANCE));
    }
    let clients: Vec<Db> = (0..4).map(|_| connect(&server)).collect();
    let mut calls = Vec::new();
    for round in 0..20 {
        for client in &clients {
            for pair in 0..8i64 {
                let (source, target) = if round % 2 == 0 { (pair, 7 - pair) } else { (7 - pair, pair) };
                calls.push(client.0.call("Transfer", (source, target, 1i64)));
                calls.push(client.0.call("ACCOUNT.select", (target,)));
            }
        }
    }
    for call in calls {
        call.wait().expect("every call is answered with success");
    }
    assert_eq!(integers(&db.sql("SELECT balance FROM account ORDER BY id")), [BALANCE; 8]);
}

/// A transfer between two partitions goes on while a third one is busy; what needs all partitions
/// waits.
#[test]
fn partitions_that_own_no_key_are_not_held() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Longer than any transfer takes: one that waits is seen to have waited until then.
    let server = start(ServerOptions { query_time_max: PATIENCE, ..options(dir.path(), PARTITIONS) });
    let db = connect(&server);
    db.sql(VOTER);
    db.sql(
        "CREATE PROCEDURE Spin (id BIGINT) PARTITION ON TABLE account COLUMN id AS BEGIN
            DECLARE turns BIGINT DEFAULT 0;
            WHILE turns >= 0 DO SET turns = 1; END WHILE;
        END",
    );
    let keys = a_key_of_each_partition(&db);
    for key in &keys {
        db.call("ACCOUNT.insert", (*key, BALANCE));
    }
    let spinning = db.0.call("Spin", (keys[0],));
    // Sent by the same connection, so the busy partition has its work first.
    for _ in 0..20 {
        db.call("Transfer", (keys[1], keys[3], 1i64));
        let text = format!("SELECT SUM(balance) FROM account WHERE id IN ({}, {})", keys[1], keys[3]);
        assert_eq!(db.scalar(&text), 2 * BALANCE);
    }
    db.call("@Cancel", ());
    match spinning.wait() {
        Err(ClientError::Failed(response)) => {
            let said = text_of(&response);
            assert!(said.contains("it was cancelled"), "the transfers waited for the busy partition: {said}");
        }
        other => panic!("it does not end: {other:?}"),
    }
    assert_eq!(db.scalar("SELECT SUM(balance) FROM account"), i64::from(PARTITIONS) * BALANCE);
}

/// Statements whose keys are several answer what they answer on one partition.
#[test]
fn statements_on_several_keys_find_and_change_them_all() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a temporary directory"));
    let servers = [(1, &dirs[0]), (7, &dirs[1])].map(|(partitions, dir)| start(options(dir.path(), partitions)));
    let nodes = [connect(&servers[0]), connect(&servers[1])];
    for db in &nodes {
        db.sql(VOTER);
        db.sql("CREATE TABLE owner (id BIGINT NOT NULL, name VARCHAR(9)); PARTITION TABLE owner ON COLUMN id");
        db.sql(
            "CREATE PROCEDURE Two (one BIGINT, two BIGINT) AS BEGIN
                INSERT INTO owner VALUES (one, 'new'); INSERT INTO owner VALUES (two, 'new');
                RETURN TABLE (SELECT name, COUNT(*) FROM owner WHERE id IN (one, two) GROUP BY name ORDER BY name);
            END",
        );
        for id in 0..ACCOUNTS {
            db.call("ACCOUNT.insert", (id, id * id));
            db.call("OWNER.insert", (id, format!("o{}", id % 5)));
        }
    }
    let mut mix = Mix(2024);
    for _ in 0..60 {
        let [a, b, c] = [(); 3].map(|()| mix.below(ACCOUNTS + 3));
        for text in [
            format!("SELECT * FROM account WHERE id IN ({a}, {b}, {c}) ORDER BY balance DESC, id"),
            format!(
                "SELECT COUNT(*), SUM(balance), MIN(balance) FROM account WHERE id IN ({a}, {b}) AND balance > {c}"
            ),
            format!(
                "SELECT a.id, o.name FROM account a JOIN owner o ON a.id = o.id WHERE o.id IN ({a}, {c}) ORDER BY 1, 2"
            ),
            format!("SELECT a.balance, o.name FROM account a, owner o WHERE a.id = {a} AND o.id = {b} ORDER BY 1, 2"),
            format!("SELECT a.id, o.name FROM account a LEFT JOIN owner o ON o.id = {b} WHERE a.id = {a} ORDER BY 2"),
            format!("SELECT id FROM account WHERE id = {a} UNION SELECT id FROM owner WHERE id = {b} ORDER BY 1"),
            format!("SELECT name FROM owner WHERE id = {a} AND id IN (SELECT id FROM account WHERE id = {b})"),
            format!("UPDATE account SET balance = balance + 1 WHERE id IN ({a}, {b})"),
            format!("UPDATE account SET balance = 7 WHERE id = {a}; UPDATE owner SET name = 'x' WHERE id = {b}"),
            format!("INSERT INTO owner VALUES ({a}, 'a'), ({b}, 'b'), ({c}, 'c')"),
            format!("DELETE FROM owner WHERE id IN ({a}, {c}) AND name = 'a'"),
        ] {
            let [one, seven] = [&nodes[0], &nodes[1]].map(|db| db.sql(&text).tables);
            assert_eq!(format!("{one:?}"), format!("{seven:?}"), "{text}");
        }
        let [one, seven] = [&nodes[0], &nodes[1]].map(|db| db.call("Two", (a, b)).tables);
        assert_eq!(format!("{one:?}"), format!("{seven:?}"), "Two({a}, {b})");
    }
    let [one, seven] = [&nodes[0], &nodes[1]].map(|db| db.sql("SELECT * FROM owner ORDER BY id, name").tables);
    assert_eq!(format!("{one:?}"), format!("{seven:?}"));
}
