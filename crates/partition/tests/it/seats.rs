//! A partition that rests: what other threads run in its place is in order with what they send it.

use crate::calls::{OnePartition, Told, batch};
use crate::common::{Node, log_options};
use crossbeam_channel::unbounded;
use ferrite_io::{RealDisk, SystemClock, SystemRandom};
use ferrite_log::{Durability, LogOptions};
use ferrite_partition::{AnswerBatch, CallBatch, Event, Seat, recovery};
use ferrite_value::Value;
use ferrite_wire::parameters::ParameterSet;
use ferrite_wire::{Response, Status, frame};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SENDERS: i64 = 3;
const CALLS: i64 = 3_000;

/// Counts a row from `last` to the next number; no row is changed if a call came before its turn.
const SCHEMA: [&str; 4] = [
    "CREATE TABLE counted (id BIGINT NOT NULL PRIMARY KEY, last BIGINT NOT NULL)",
    "PARTITION TABLE counted ON COLUMN id",
    "CREATE PROCEDURE Next (row BIGINT, before BIGINT) PARTITION ON TABLE counted COLUMN id PARAMETER 0 AS
       UPDATE counted SET last = last + 1 WHERE id = row AND last = before",
    "CREATE PROCEDURE Begin (row BIGINT) PARTITION ON TABLE counted COLUMN id PARAMETER 0 AS
       INSERT INTO counted VALUES (row, 0)",
];

/// The count of changed rows that a batch of one answer has.
fn changed(answers: &AnswerBatch) -> i64 {
    let (_, body) = frame::split(&answers.bytes).expect("a whole frame").expect("one answer");
    let response = Response::parse(body).expect("well-formed");
    assert_eq!(response.status_code, Status::Success.code(), "{:?}", response.status_text);
    let table = response.tables().next().expect("a table").expect("well-formed");
    let row = table.rows().next().expect("a row").expect("well-formed");
    match row.get(0).expect("well-formed") {
        Some(Value::Integer(count)) => count,
        other => panic!("a count of rows, not {other:?}"),
    }
}

#[test]
fn what_is_run_at_a_seat_keeps_the_order_of_each_sender() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut node = Node::open(Arc::new(RealDisk), dir.path(), 1).expect("an empty directory");
    SCHEMA.iter().for_each(|statement| node.ddl(statement));
    drop(node);
    let log = LogOptions { durability: Durability::None, own_threads: true, ..log_options() };
    let clock = Arc::new(SystemClock);
    let recovered = recovery::open(Arc::new(RealDisk), clock, &mut SystemRandom, dir.path(), log, Some(1), 1);
    let lone = OnePartition::of(recovered.expect("the database of before"));
    let (compiled, inbox, partition) = (&lone.compiled, &lone.inbox, lone.partition);
    assert!(compiled.is_short(compiled.require("Next").expect("it was made")));
    let seat = Seat::default();
    let (run_here, sent) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| partition.run(&seat));
        let senders: Vec<_> = (0..SENDERS)
            .map(|row| {
                let seat = &seat;
                let (run_here, sent) = (&run_here, &sent);
                scope.spawn(move || {
                    let (told, answers) = unbounded();
                    let mailbox = Arc::new(Told(told));
                    let give = |batch: CallBatch, here: bool| {
                        let given = if here { seat.run(batch) } else { Err(batch) };
                        let counted = if given.is_ok() { run_here } else { sent };
                        counted.fetch_add(1, Ordering::Relaxed);
                        if let Err(batch) = given {
                            inbox.send(Event::Calls(batch)).expect("the partition runs");
                        }
                    };
                    let parameters = |last: Option<i64>| {
                        let mut bytes = Vec::new();
                        match last {
                            None => (row,).write_set(&mut bytes).expect("a number"),
                            Some(last) => (row, last).write_set(&mut bytes).expect("numbers"),
                        }
                        bytes
                    };
                    give(batch(compiled, &mailbox, "Begin", parameters(None)), row == 0);
                    for last in 0..CALLS {
                        // Some are sent behind others that wait, some to a partition that rests.
                        give(batch(compiled, &mailbox, "Next", parameters(Some(last))), (last * 7 + row) % 11 != 0);
                        if last % 5 == 0 {
                            while answers.len() < last as usize {
                                std::thread::yield_now();
                            }
                        }
                    }
                    for number in 0..=CALLS {
                        let answers = answers.recv().expect("every call is answered");
                        assert_eq!(changed(&answers), 1, "call {number} of sender {row} came before its turn");
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.join().expect("in order");
        }
        inbox.send(Event::Stop).expect("the partition runs");
    });
    let (run_here, sent) = (run_here.into_inner(), sent.into_inner());
    assert_eq!(run_here + sent, (SENDERS * (CALLS + 1)) as u64);
    assert!(run_here > 0 && sent > 0, "{run_here} were run at the seat, {sent} sent");
}
