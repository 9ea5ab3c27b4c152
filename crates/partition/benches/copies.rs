//! What applying a leader's entries costs a copy, against what executing the calls costs the
//! leader: nanoseconds of the threads that do it, per transaction; and what it costs the leader to
//! keep undo until it is committed. Without log, network and clients.
//!
//! `cargo bench -p ferrite-partition --bench copies [-- votes|updates [transactions per round]]`

#[path = "../tests/common/stepped.rs"]
mod stepped;

use crossbeam_channel::unbounded;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, PartitionId, Position};
use ferrite_group::{GroupAppender, GroupEvent, GroupHost, SharedEntry, Urgency};
use ferrite_io::SystemClock;
use ferrite_partition::contents::hash_tables;
use ferrite_partition::{AnswerBatch, CallBatch, CallHeader, Delivery, Event, Mailbox};
use ferrite_replica::group::{GroupConfiguration, Member};
use ferrite_wire::parameters::ParameterSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use stepped::{Database, entries};

const ROUNDS: usize = 12;
const BATCH: usize = 500;
/// Batches that are executed before the first of them is committed.
const UNCOMMITTED: usize = 10;
const AREA_CODES: [i64; 4] = [201, 617, 212, 415];
const ACCOUNTS: i64 = 200_000;

struct Scenario {
    name: &'static str,
    procedure: &'static str,
    parameters: fn(i64) -> Vec<i64>,
}

const SCENARIOS: [Scenario; 2] = [
    Scenario {
        name: "votes",
        procedure: "Vote",
        parameters: |number| {
            let phone = AREA_CODES[number as usize % 4] * 10_000_000 + number * 7_919 % 10_000_000;
            vec![phone, number % 6 + 1, 2]
        },
    },
    Scenario { name: "updates", procedure: "Deposit", parameters: |number| vec![number * 7_919 % ACCOUNTS, number] },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let calls = arguments.get(1).map_or(100_000, |calls| calls.parse().expect("a number of transactions"));
    for scenario in &SCENARIOS {
        if arguments.first().is_none_or(|wanted| wanted == scenario.name) {
            measure(scenario, calls);
        }
    }
}

fn set_up(leader: &mut Database) {
    let schema = "CREATE TABLE accounts (id BIGINT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL, at TIMESTAMP, changes INTEGER);
        PARTITION TABLE accounts ON COLUMN id;
        CREATE PROCEDURE Deposit (account BIGINT, amount BIGINT) PARTITION ON TABLE accounts COLUMN id AS
          UPDATE accounts SET balance = balance + amount, at = NOW, changes = changes + 1 WHERE id = account;";
    for text in [include_str!("../../../examples/voter/ddl.sql"), schema] {
        assert_eq!(leader.change_schema(text).0, 1);
    }
    let accounts =
        format!("INSERT INTO accounts SELECT n, 0, NULL, 0 FROM GENERATE_SERIES(0, {}) AS s (n)", ACCOUNTS - 1);
    assert_eq!(leader.call(&accounts).0, 1);
    for contestant in 1..=6 {
        assert_eq!(leader.call(&format!("INSERT INTO contestants VALUES ({contestant}, 'c')")).0, 1);
    }
    for (area_code, state) in AREA_CODES.iter().zip(["NJ", "MA", "NY", "CA"]) {
        assert_eq!(leader.call(&format!("INSERT INTO area_code_state VALUES ({area_code}, '{state}')")).0, 1);
    }
    leader.settle();
}

struct Nobody;

impl Mailbox for Nobody {
    fn deliver(&self, _: AnswerBatch) {}
}

fn measure(scenario: &Scenario, calls: usize) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut leader = Database::leader(&home.path().join("leader"), 1, 1);
    set_up(&mut leader);
    stepped::copy_files(&leader.dir, &home.path().join("copy"));
    stepped::copy_files(&leader.dir, &home.path().join("cluster"));
    let begin = leader.end();
    let (mut executing, ends, _) = execute(&mut leader, scenario, calls);
    let number = (ROUNDS * calls) as i64;
    let said: Vec<_> = entries(&leader.dir).into_iter().filter(|(position, _)| *position > begin).collect();
    drop(leader);
    let mut copy = Database::copy(&home.path().join("copy"), 1, 1);
    let mut applying = Vec::new();
    let mut rest = &said[..];
    for end in ends {
        let (round, behind) = rest.split_at(rest.partition_point(|(position, _)| *position <= end));
        rest = behind;
        let mut nanos = 0;
        for (_, bytes) in round {
            copy.intake().entries(bytes.clone()).expect("there is room");
            let started = Instant::now();
            copy.settle();
            nanos += started.elapsed().as_nanos();
        }
        assert_eq!(copy.applied(), end);
        applying.push(nanos as f64 / calls as f64);
    }
    let (mut bytes_hashed, started) = (0, Instant::now());
    copy.with_stores(|stores| {
        let mut pace = |bytes| {
            bytes_hashed += bytes;
            Ok::<(), Infallible>(())
        };
        stores.iter().for_each(|store| drop(hash_tables(store, &mut pace)));
    });
    let hashed = bytes_hashed as f64 / started.elapsed().as_secs_f64() / 1e6;
    println!("{}: {:.0} MB of rows are hashed at {hashed:.0} MB/s", scenario.name, bytes_hashed as f64 / 1e6);
    let mut kept = Database::copy(&home.path().join("cluster"), 1, 1);
    lead_alone_in_a_cluster(&mut kept);
    let (mut keeping, _, bytes_kept) = execute(&mut kept, scenario, calls);
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let bytes: usize = said.iter().map(|(_, bytes)| bytes.len()).sum();
    let (executing, keeping, applying) = (median(&mut executing), median(&mut keeping), median(&mut applying));
    println!(
        "{}: executing {executing:.0} ns, with undo kept {keeping:.0} ns and {bytes_kept:.0} bytes, applying {applying:.0} ns: {:.0} %; {:.0} bytes of entries each",
        scenario.name,
        100.0 * applying / executing,
        bytes as f64 / number as f64
    );
}

/// Nanoseconds per transaction of each round, where each ended, and the most undo that was kept per
/// transaction that was not committed.
fn execute(leader: &mut Database, scenario: &Scenario, calls: usize) -> (Vec<f64>, Vec<Position>, f64) {
    let (mut executing, mut ends, mut bytes_kept) = (Vec::new(), Vec::new(), 0);
    let mut number = 0;
    for _ in 0..ROUNDS {
        let mut nanos = 0;
        for done in 1..=calls / BATCH {
            leader.send(PartitionId(0), Event::Calls(batch(leader, scenario, number)));
            number += BATCH as i64;
            let started = Instant::now();
            // Undo of what is committed is forgotten first.
            leader.step_partitions();
            leader.step_partitions();
            nanos += started.elapsed().as_nanos();
            if done % UNCOMMITTED == 0 {
                bytes_kept = bytes_kept.max(leader.retained_bytes());
                leader.step_log();
            }
        }
        leader.settle();
        executing.push(nanos as f64 / calls as f64);
        ends.push(leader.end());
    }
    (executing, ends, bytes_kept as f64 / (UNCOMMITTED * BATCH) as f64)
}

struct Told(Mutex<Vec<GroupEvent>>);

impl GroupHost for Told {
    fn send(&self, _: NodeId, _: Urgency, _: Vec<u8>) {}

    fn committed(&self, _: GroupId, entries: Vec<SharedEntry>) {
        assert!(entries.iter().all(|entry| entry.header.starts_epoch), "nobody else has executed anything");
    }

    fn event(&self, _: GroupId, event: GroupEvent) {
        self.0.lock().expect("no panic").push(event);
    }
}

/// Undo is kept, since there may be other members later.
fn lead_alone_in_a_cluster(copy: &mut Database) {
    let here = Member { node: NodeId(1), incarnation: Incarnation(7) };
    let told = Arc::new(Told(Mutex::default()));
    let host: Arc<dyn GroupHost> = Arc::<Told>::clone(&told);
    let group = copy.in_a_cluster(here, Arc::new(SystemClock), host);
    let epoch = Epoch(group.end().epoch.0 + 1);
    group.configured(GroupConfiguration::alone(epoch, here));
    copy.step_log();
    assert_eq!(*told.0.lock().expect("no panic"), [GroupEvent::Opened]);
    let (to, promoted) = unbounded();
    copy.intake().send(Delivery::Promote(to));
    copy.settle();
    let mut promoted = promoted.try_recv().expect("nothing is in the way");
    promoted.place.end = group.end();
    copy.lead(promoted, &GroupAppender::new(group));
    copy.settle();
}

fn batch(leader: &Database, scenario: &Scenario, from: i64) -> CallBatch {
    let compiled = leader.compiled();
    let procedure = compiled.find(scenario.procedure).expect("it was made");
    let (mut bytes, mut calls) = (Vec::new(), Vec::new());
    for number in from..from + BATCH as i64 {
        let start = bytes.len() as u32;
        (scenario.parameters)(number).write_set(&mut bytes).expect("numbers");
        calls.push(CallHeader {
            connection: 1,
            handle: number,
            procedure,
            parameters_start: start,
            parameters_end: bytes.len() as u32,
            drop_first_parameter: false,
        });
    }
    let mailbox = Arc::new(Nobody);
    CallBatch { compiled, mailbox, calls, bytes, answers: Vec::new(), cached: None, sent_micros: 0 }
}
