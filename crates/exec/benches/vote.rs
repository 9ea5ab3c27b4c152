//! Nanoseconds for one Vote (the procedure of examples/voter), executed and committed on one store, with nothing around it.
//!
//! `cargo bench -p ferrite-exec --bench vote`

#[path = "../tests/support/mod.rs"]
mod support;

use bumpalo::Bump;
use ferrite_exec::{Call, Scratch};
use ferrite_value::Value;
use std::time::Instant;
use support::{Database, Lending, Statuses};

const ROUNDS: usize = 8;
const VOTES_PER_ROUND: i64 = 500_000;

fn main() {
    let mut database = Database::new(1, Lending::All);
    support::load_voter(&mut database);
    for (name, phone_digits) in [("Vote", "mostly new phones"), ("Vote", "all phones have used up their votes")] {
        let program = database.programs[&name.to_uppercase()].clone();
        let refused = phone_digits.starts_with("all");
        let mut arena = Bump::new();
        let mut scratch = Scratch::default();
        let mut redo = Vec::new();
        let mut sink = Statuses::default();
        let mut number: i64 = 0;
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            for _ in 0..VOTES_PER_ROUND {
                number += 1;
                let area = [201, 617, 212, 415][number as usize % 4];
                let within = if refused { number % 1_000 } else { number * 7_919 % 10_000_000 };
                arena.reset();
                let parameters = [
                    Value::Integer(area * 10_000_000 + within),
                    Value::Integer(number % 6 + 1),
                    Value::Integer(if refused { 0 } else { 2 }),
                ];
                let call = Call {
                    program: &program,
                    parameters: &parameters,
                    transaction_time: 0,
                    arena: &arena,
                    interrupted: None,
                };
                ferrite_exec::run_transaction(&mut database.stores, &call, &mut scratch, &mut sink)
                    .expect("a vote runs");
                redo.clear();
                database.stores[0].take_redo_into(&mut redo);
                database.stores[0].commit();
            }
            best = best.min(started.elapsed().as_nanos() as f64 / VOTES_PER_ROUND as f64);
        }
        println!("{name}, {phone_digits}: {best:.0} ns each; statuses {:?}", sink.counts);
    }
}
