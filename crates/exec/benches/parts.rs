//! Milliseconds for queries over a million rows in four stores, on one thread and in parts
//! (docs/decisions/0011).
//!
//! `cargo bench -p ferrite-exec --bench parts`

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;
use support::{Database, Lending};

const ROWS: u32 = 1_000_000;
const ROUNDS: usize = 3;

const QUERIES: [&str; 8] = [
    "SELECT COUNT(*), SUM(id), MAX(d) FROM t WHERE k < 90",
    "SELECT k, COUNT(*), SUM(d), MAX(id) FROM t GROUP BY k ORDER BY k",
    "SELECT s, COUNT(*), SUM(id) FROM t GROUP BY s ORDER BY s LIMIT 10",
    "SELECT MOD(id, 100000) AS g, COUNT(*) FROM t GROUP BY MOD(id, 100000) ORDER BY 2 DESC, 1 LIMIT 10",
    "SELECT MOD(id + k, 250000) AS g, COUNT(*) FROM t GROUP BY MOD(id + k, 250000) ORDER BY 2 DESC, 1 LIMIT 10",
    "SELECT name, COUNT(*) FROM t JOIN names ON names.k = t.k GROUP BY name ORDER BY name",
    "SELECT s, id FROM t ORDER BY s DESC, id LIMIT 10",
    "SELECT s, id FROM t ORDER BY d + k DESC LIMIT 1000",
];

fn main() {
    let mut whole = support::filled(4, Lending::AsRouted, ROWS);
    let mut in_parts = support::filled(4, Lending::All, ROWS);
    for query in QUERIES {
        let (one, parts) = (best(&mut whole, query), best(&mut in_parts, query));
        println!("{one:8.1} ms in one, {parts:8.1} ms in parts, {:.2} times as fast: {query}", one / parts);
    }
}

/// Milliseconds of the best round.
fn best(database: &mut Database, query: &str) -> f64 {
    let mut round = || {
        let started = Instant::now();
        database.run(query).expect("an answer");
        started.elapsed().as_secs_f64() * 1_000.0
    };
    (0..ROUNDS).map(|_| round()).fold(f64::MAX, f64::min)
}
