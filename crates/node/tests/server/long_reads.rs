//! Queries that take long run on snapshots beside the transactions: these go on meanwhile, and the
//! answers are as right as those of any other transaction.

use crate::common::{Db, VOTER, connect, integers, options, start, synced_on};
use ferrite_client::Status;
use ferrite_io::simulated::SimulatedDisk;
use ferrite_node::{Durability, Server, ServerOptions};
use ferrite_value::OwnedValue;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

const ACCOUNTS: i64 = 200;
const BALANCE: i64 = 1_000;
/// Met rows are the square of the accounts, which is long, though it takes a moment only.
const REPORT: &str = "SELECT COUNT(*), SUM(a.balance) FROM account a, account b";
/// Ends with the time that a query may take.
const ENDLESS: &str = "SELECT COUNT(*) FROM account a, account b, account c, account d
    WHERE a.balance + b.balance + c.balance < d.balance";
const PROCEDURES: &str = "
    CREATE PROCEDURE Deposit PARTITION ON TABLE account COLUMN id PARAMETER 1 AS UPDATE account SET balance = balance + ? WHERE id = ?;
    CREATE PROCEDURE Report AS SELECT COUNT(*), SUM(a.balance) FROM account a, account b;
    CREATE TABLE everywhere (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));
    CREATE PROCEDURE DepositEverywhere AS UPDATE everywhere SET balance = balance + 1 WHERE id = ?;
";

fn accounts(change: impl FnOnce(&mut ServerOptions)) -> (tempfile::TempDir, Server, Db) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut options = options(dir.path(), 4);
    change(&mut options);
    let server = start(options);
    let db = connect(&server);
    db.sql(VOTER);
    db.sql(PROCEDURES);
    for id in 0..ACCOUNTS {
        db.call("ACCOUNT.insert", (id, BALANCE));
        db.call("EVERYWHERE.insert", (id, BALANCE));
    }
    (dir, server, db)
}

/// What the sum of the balances has grown by, according to one of the reports.
fn growth(row: &[OwnedValue]) -> i64 {
    let [OwnedValue::Integer(count), OwnedValue::Integer(sum)] = row else { panic!("{row:?}") };
    assert_eq!((*count, *sum % ACCOUNTS), (ACCOUNTS * ACCOUNTS, 0));
    sum / ACCOUNTS - ACCOUNTS * BALANCE
}

#[test]
fn transactions_go_on_while_a_query_takes_long() {
    let (_dir, server, db) = accounts(|options| options.query_time_max = Duration::from_millis(1_500));
    let endless = [
        ENDLESS.to_owned(),
        // One partition's: of a replicated table, and by a key.
        ENDLESS.replace("account", "everywhere"),
        ENDLESS
            .replace("account", "everywhere")
            .replace("everywhere a,", "account a, everywhere e,")
            .replace("WHERE", "WHERE a.id = 7 AND")
            // Of all tables, so that no order of the joins ends early.
            .replace("< d.balance", "< d.balance - e.balance"),
    ];
    for query in &endless {
        thread::scope(|scope| {
            let other = connect(&server);
            let report = scope.spawn(move || {
                other.fails("@AdHoc", (query.as_str(),), Status::GracefulFailure, "Transaction Interrupted");
            });
            let mut transactions = 0;
            while !report.is_finished() {
                db.call("Deposit", (1i64, transactions % ACCOUNTS));
                db.call("Transfer", (transactions % ACCOUNTS, 0i64, 1i64));
                db.call("DepositEverywhere", (transactions % ACCOUNTS,));
                transactions += 1;
            }
            assert!(transactions > 20, "{transactions} transactions beside {query}");
        });
    }
    let answer = db.call("@Statistics", ("LONGREADS", 0i32));
    let figures = &answer.tables[0].rows[0][3..];
    assert_eq!(figures, [2, 0, 0, 0, endless.len() as i64].map(OwnedValue::Integer));
    assert_eq!(answer.tables[1].rows.len(), 4, "a row for each partition");
}

/// Deposits grow the sum, transfers between partitions keep it. A report must see every deposit
/// that was answered before it was sent, none that was not sent before it was answered, and no
/// transfer in part.
#[test]
fn reports_see_a_state_of_the_serial_order() {
    const ROUNDS: i64 = 150;
    let (_dir, server, db) = accounts(|options| options.durability = Durability::Sync);
    let (called, answered, done) = (AtomicI64::new(0), AtomicI64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (db, called, answered) = (connect(&server), &called, &answered);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let (id, other) = ((round * 7 + writer) % ACCOUNTS, (round * 13 + writer * 5) % ACCOUNTS);
                        db.call("Transfer", (id, other, round % 3));
                        called.fetch_add(1, Ordering::SeqCst);
                        db.call("Deposit", (1i64, id));
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for reader in 0..3 {
            let (db, called, answered, done) = (connect(&server), &called, &answered, &done);
            scope.spawn(move || {
                while !done.load(Ordering::SeqCst) {
                    let least = answered.load(Ordering::SeqCst);
                    let response = if reader == 0 { db.call("Report", ()) } else { db.sql(REPORT) };
                    let most = called.load(Ordering::SeqCst);
                    let seen = growth(&response.tables[0].rows[0]);
                    assert!((least..=most).contains(&seen), "{seen} is not between {least} and {most}");
                }
            });
        }
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::SeqCst);
        assert!(ends.iter().all(Result::is_ok), "the writers ended well");
    });
    assert_eq!(growth(&db.sql(REPORT).tables[0].rows[0]), 3 * ROUNDS);
    server.stop().expect("the log is closed");
}

/// A report that has seen a change waits until the change is durable.
#[test]
fn reports_wait_for_what_they_saw() {
    let disk = SimulatedDisk::healthy();
    let (_dir, server, db) = accounts(|options| synced_on(&disk, options));
    let local = REPORT.replace("account", "everywhere");
    for round in 0..2 {
        let held_syncs = disk.hold_syncs();
        let deposits = [db.0.call("Deposit", (1i64, 3i64)), db.0.call("DepositEverywhere", (3i64,))];
        disk.wait_for_held_sync();
        let opened = AtomicBool::new(false);
        thread::scope(|scope| {
            for query in [REPORT, local.as_str()] {
                let (db, opened) = (connect(&server), &opened);
                scope.spawn(move || {
                    let response = db.sql(query);
                    assert!(opened.load(Ordering::SeqCst), "answered before what it saw is durable: {query}");
                    let seen = growth(&response.tables[0].rows[0]);
                    assert!((round..=round + 1).contains(&seen), "{seen}");
                });
            }
            // Long enough for the reports to have run.
            (0..300).for_each(|_| drop(db.call("@Ping", ())));
            opened.store(true, Ordering::SeqCst);
            drop(held_syncs);
        });
        deposits.into_iter().for_each(|deposit| drop(deposit.wait().expect("a deposit")));
    }
}

/// More reports than threads wait for their turn, on one thread too, and transactions pass them.
#[test]
fn many_reports_take_turns() {
    let (_dir, server, db) = accounts(|options| options.long_query_threads = 1);
    let local = REPORT.replace("account", "everywhere");
    let reports: Vec<_> = (0..40)
        .flat_map(|_| [db.0.call("@AdHoc", (REPORT,)), db.0.call("Report", ()), db.0.call("@AdHoc", (local.as_str(),))])
        .collect();
    db.call("Deposit", (1i64, 3i64));
    for report in reports {
        let rows = report.wait().expect("a report").tables.remove(0).rows;
        assert!((0..=1).contains(&growth(&rows[0])), "{rows:?}");
    }
    server.stop().expect("the log is closed");
}

/// A plan with look-ups, on the other side one without; a schema change while a report is on its
/// way.
#[test]
fn reports_without_indexes_say_the_same() {
    let (_dir, server, db) = accounts(|_| {});
    db.sql(crate::common::CONTESTANTS);
    db.sql("INSERT INTO votes SELECT a.id * 1000 + b.id, 'CA', MOD(a.id, 2) + 1 FROM account a, account b WHERE a.id < 150");
    let votes = 150 * ACCOUNTS;
    let joined = "SELECT COUNT(*), MIN(c.contestant_name) FROM votes v JOIN contestants c
        ON c.contestant_number = v.contestant_number GROUP BY c.contestant_number ORDER BY 2";
    let half = OwnedValue::Integer(votes / 2);
    let expected =
        vec![vec![half.clone(), OwnedValue::Text("Edwina".into())], vec![half, OwnedValue::Text("Tabatha".into())]];
    assert_eq!(db.sql(joined).tables[0].rows, expected);
    // By the groups' index, of which a snapshot has none.
    let view =
        "SELECT phone_number FROM v_votes_by_phone_number WHERE num_votes > 0 ORDER BY phone_number LIMIT 3 OFFSET 7";
    assert_eq!(integers(&db.sql(view)), [7, 8, 9]);
    let late = thread::scope(|scope| {
        let other = connect(&server);
        let reports = scope.spawn(move || {
            let reports = (0..20).map(|_| other.0.call("@AdHoc", (joined,)));
            reports.collect::<Vec<_>>().into_iter().map(|report| report.wait()).collect::<Vec<_>>()
        });
        db.sql("DROP VIEW v_votes_by_contestant_number_state IF EXISTS; CREATE INDEX by_state ON votes (state)");
        db.sql("DELETE FROM votes WHERE contestant_number = 1");
        reports.join().expect("the reports ended well")
    });
    for report in late {
        let rows = &report.expect("a report").tables[0].rows;
        assert!(*rows == expected || rows[..] == expected[1..], "{rows:?}");
    }
}

/// So many rows that each partition's are grouped and sorted by themselves, and merged: the same
/// answers, whoever helped.
#[test]
fn reports_in_parts_answer_as_one() {
    const ROWS: i64 = 60_000;
    let (_dir, server, db) = accounts(|_| {});
    db.sql(
        "CREATE TABLE visit (id BIGINT NOT NULL, place INTEGER, note VARCHAR(20)); PARTITION TABLE visit ON COLUMN id;",
    );
    for first in (0..ROWS).step_by(20_000) {
        db.sql(&format!(
            "INSERT INTO visit SELECT n, MOD(n, 7), 'v' || CAST(n AS VARCHAR(9)) FROM GENERATE_SERIES({first}, {}) AS s (n)",
            first + 19_999
        ));
    }
    let groups = "SELECT place, COUNT(*), SUM(id), MIN(note) FROM visit GROUP BY place ORDER BY place";
    let first = "SELECT id FROM visit ORDER BY note DESC LIMIT 3 OFFSET 1";
    let failing = "SELECT SUM(1 / (id - 59999)) FROM visit";
    let expected: Vec<Vec<OwnedValue>> = (0..7)
        .map(|place| {
            let members = || (place..ROWS).step_by(7);
            let (count, sum) = (members().count() as i64, members().sum());
            let least = members().map(|id| format!("v{id}")).min().expect("some");
            vec![
                OwnedValue::Integer(place),
                OwnedValue::Integer(count),
                OwnedValue::Integer(sum),
                OwnedValue::Text(least.into()),
            ]
        })
        .collect();
    thread::scope(|scope| {
        for _ in 0..3 {
            let db = connect(&server);
            let expected = &expected;
            scope.spawn(move || {
                for _ in 0..5 {
                    assert_eq!(db.sql(groups).tables[0].rows, *expected);
                    assert_eq!(integers(&db.sql(first)), [9_998, 9_997, 9_996]);
                    db.fails("@AdHoc", (failing,), Status::GracefulFailure, "by zero");
                }
            });
        }
    });
    let answer = db.call("@Statistics", ("LONGREADS", 0i32));
    assert!(matches!(answer.tables[0].rows[0].last(), Some(OwnedValue::Integer(begun)) if *begun >= 45), "{answer:?}");
    server.stop().expect("the log is closed");
}
