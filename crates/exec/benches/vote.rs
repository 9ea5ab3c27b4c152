//! Nanoseconds for one Vote (the procedure of examples/voter), executed and committed on one store,
//! with nothing around it.
//!
//! `cargo bench -p ferrite-exec --bench vote [-- counted|refused|statements [votes per round]]`

#[path = "../tests/support/mod.rs"]
mod support;

use bumpalo::Bump;
use ferrite_exec::{Call, Scratch};
use ferrite_value::Value;
use std::time::Instant;
use support::{Database, Lending, Statuses};

const ROUNDS: usize = 20;
const VOTES_PER_ROUND: usize = 100_000;
const AREA_CODES: [i64; 4] = [201, 617, 212, 415];

/// A procedure with the parameters of its call number so and so.
struct Scenario {
    name: &'static str,
    procedure: &'static str,
    parameters: fn(i64) -> Vec<Value<'static>>,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "counted",
        procedure: "VOTE",
        parameters: |number| {
            let phone = AREA_CODES[number as usize % 4] * 10_000_000 + number * 7_919 % 10_000_000;
            vec![Value::Integer(phone), Value::Integer(number % 6 + 1), Value::Integer(2)]
        },
    },
    Scenario {
        name: "refused",
        procedure: "VOTE",
        parameters: |number| {
            let phone = AREA_CODES[number as usize % 4] * 10_000_000 + number % 1_000;
            vec![Value::Integer(phone), Value::Integer(number % 6 + 1), Value::Integer(1)]
        },
    },
    Scenario {
        name: "statements",
        procedure: "VOTESTATEMENTS",
        parameters: |number| {
            let area = AREA_CODES[number as usize % 4];
            let phone = Value::Integer(area * 10_000_000 + number * 7_919 % 10_000_000);
            let contestant = Value::Integer(number % 6 + 1);
            vec![contestant, phone, Value::Integer(area), phone, Value::Text("MA"), contestant]
        },
    },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let votes = arguments.get(1).map_or(VOTES_PER_ROUND, |votes| votes.parse().expect("a number of votes"));
    for scenario in &SCENARIOS {
        if arguments.first().is_none_or(|wanted| wanted == scenario.name) {
            measure(scenario, votes);
        }
    }
}

fn measure(scenario: &Scenario, votes: usize) {
    let mut database = Database::new(1, Lending::All);
    support::load_voter(&mut database);
    let program = database.programs[scenario.procedure].clone();
    let mut arena = Bump::new();
    let mut scratch = Scratch::default();
    let mut redo = Vec::new();
    let mut sink = Statuses::default();
    let mut times = Vec::new();
    let mut number = 0;
    for _ in 0..ROUNDS {
        let calls: Vec<Vec<Value<'_>>> = (0..votes as i64).map(|call| (scenario.parameters)(number + call)).collect();
        number += votes as i64;
        let started = Instant::now();
        for parameters in &calls {
            arena.reset();
            let call = Call::new(&program, parameters, 0, &arena);
            ferrite_exec::run_transaction(&mut database.stores, &call, &mut scratch, &mut sink).expect("a vote runs");
            redo.clear();
            database.stores[0].take_redo_into(&mut redo);
            database.stores[0].commit();
        }
        times.push(started.elapsed().as_nanos() as f64 / votes as f64);
    }
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[times.len() / 2]);
    println!(
        "{}: {best:.0} ns in the best round, {median:.0} ns in the median; statuses {:?}",
        scenario.name, sink.counts
    );
}
