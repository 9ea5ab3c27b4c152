//! Times of the hot paths, in nanoseconds, and bytes per row. `cargo run --release -p ferrite-table --example measure [votes [part]]`

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Random, Schema, column, index, index_id, voter};
use ferrite_base::TableId;
use ferrite_catalog::IndexKind;
use ferrite_table::Store;
use ferrite_value::{SqlType, Value};
use std::time::{Duration, Instant};

const T: TableId = TableId(0);
const STATES: [&str; 8] = ["AK", "AL", "CA", "MA", "NY", "TX", "UT", "WA"];

fn main() {
    let votes: u64 = std::env::args().nth(1).and_then(|votes| votes.parse().ok()).unwrap_or(5_000_000);
    let wanted = std::env::args().nth(2).unwrap_or_default();
    type Part = (&'static str, fn(u64));
    let parts: [Part; 6] = [
        ("repeated", |votes| voter_inserts("repeated", votes, 1000)),
        ("new", |votes| voter_inserts("new", votes, 8_000_000_000)),
        ("ahead", ahead),
        ("redo", replay),
        ("index", index_growth),
        ("rollback", rollback),
    ];
    for (name, run) in parts {
        if name.contains(&wanted) {
            run(votes);
        }
    }
}

/// Times of batches, as a busy machine disturbs some and not others.
#[derive(Default)]
struct Batches {
    nanoseconds: Vec<f64>,
    worst: Duration,
}

const BATCH: u64 = 512;

impl Batches {
    /// Runs `step` for 0..count.
    fn run(count: u64, mut step: impl FnMut(u64)) -> Batches {
        let mut batches = Batches::default();
        for first in (0..count).step_by(BATCH as usize) {
            let start = Instant::now();
            (first..first + BATCH).for_each(&mut step);
            let elapsed = start.elapsed();
            batches.nanoseconds.push(elapsed.as_nanos() as f64 / BATCH as f64);
            batches.worst = batches.worst.max(elapsed);
        }
        batches.nanoseconds.sort_by(f64::total_cmp);
        batches
    }
}

impl std::fmt::Display for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |share: f64| self.nanoseconds[(self.nanoseconds.len() as f64 * share) as usize];
        let mean = self.nanoseconds.iter().sum::<f64>() / self.nanoseconds.len() as f64;
        let (fast, median, worst) = (at(0.1), at(0.5), self.worst);
        write!(f, "{median:.0} ns (fastest tenth {fast:.0}, mean {mean:.0}, slowest {BATCH} took {worst:?})")
    }
}

fn vote(store: &mut Store, random: &mut Random, phones: u64) {
    let phone = 2_010_000_000 + random.below(phones) as i64;
    let row = [
        Value::Integer(phone),
        Value::Text(STATES[random.below(8) as usize]),
        Value::Integer(1 + random.below(6) as i64),
    ];
    store.insert(T, &row).unwrap();
}

fn voter_inserts(name: &str, votes: u64, phones: u64) {
    let mut store = voter().store();
    let mut random = Random(1);
    let (mut log, mut log_bytes) = (Vec::new(), 0);
    let batches = Batches::run(votes, |i| {
        vote(&mut store, &mut random, phones);
        store.take_redo_into(&mut log);
        store.commit();
        if i % BATCH == 0 {
            log_bytes += log.len();
            log.clear();
        }
    });
    println!("vote, {name} phones: {batches}");
    let rows = store.table(T).row_count() as f64;
    let bytes: usize = store.memory().iter().map(|table| table.total_bytes()).sum();
    println!("  {:.1} bytes a vote, {:.1} of redo", bytes as f64 / rows, log_bytes as f64 / rows);
}

/// New phones, whose buckets are asked for 32 votes ahead, as a partition can that has its calls in a batch.
fn ahead(votes: u64) {
    let schema = voter();
    let view = schema.id("V_VOTES_BY_PHONE_NUMBER");
    let mut store = schema.store();
    let index = store.table(view).definition().indexes[0].id;
    let (mut random, mut scout) = (Random(1), Random(1));
    let mut log = Vec::new();
    let phone_ahead = |store: &Store, scout: &mut Random| {
        let phone = Value::Integer(2_010_000_000 + scout.below(8_000_000_000) as i64);
        scout.next();
        scout.next();
        store.table(view).prefetch_lookup(index, &[phone]);
    };
    (0..32).for_each(|_| phone_ahead(&store, &mut scout));
    let batches = Batches::run(votes, |i| {
        phone_ahead(&store, &mut scout);
        vote(&mut store, &mut random, 8_000_000_000);
        store.take_redo_into(&mut log);
        store.commit();
        if i % BATCH == 0 {
            log.clear();
        }
    });
    println!("vote, new phones, prefetched: {batches}");
}

fn replay(votes: u64) {
    let mut store = voter().store();
    let mut random = Random(1);
    let (mut log, mut lengths) = (Vec::new(), Vec::new());
    for _ in 0..votes + BATCH {
        vote(&mut store, &mut random, 8_000_000_000);
        lengths.push(store.redo().len());
        store.take_redo_into(&mut log);
        store.commit();
    }
    let mut copy = voter().store();
    let mut rest = &log[..];
    let batches = Batches::run(votes, |i| {
        let (record, after) = rest.split_at(lengths[i as usize]);
        copy.apply_redo(record).unwrap();
        rest = after;
    });
    println!("vote from redo: {batches}");
}

fn index_growth(rows: u64) {
    let key_of = |i: u64| Value::Integer((i as i64).wrapping_mul(0x9e37_79b9));
    for kind in [IndexKind::Hash, IndexKind::Ordered] {
        let mut schema = Schema::default();
        let columns = vec![column("K", SqlType::Bigint, 0, false), column("V", SqlType::Bigint, 0, false)];
        schema.table("T", columns, vec![index("I", &[0], true, kind)]);
        let mut store = schema.store();
        let id = index_id(&store, T, "I");
        let mut worst = Duration::ZERO;
        let batches = Batches::run(rows, |i| {
            let before = Instant::now();
            store.insert(T, &[key_of(i), Value::Integer(i as i64)]).unwrap();
            store.commit();
            worst = worst.max(before.elapsed());
        });
        println!("insert into {kind:?} index, clock included: {batches}, worst single {worst:?}");
        let mut random = Random(7);
        let mut sum = 0;
        let batches = Batches::run(rows, |_| {
            let key = [key_of(random.below(rows))];
            let table = store.table(T);
            for row in table.lookup(id, &key) {
                if let Value::Integer(x) = table.row(row).column(1) {
                    sum += x;
                }
            }
        });
        println!("look up in {kind:?} index, random: {batches} (sum {sum})");
        let memory = store.memory();
        println!("  {:.1} bytes an entry", memory[0].indexes[0].bytes as f64 / memory[0].rows as f64);
        let batches = Batches::run(rows, |i| {
            let row = store.table(T).lookup(id, &[key_of(i)]).next().unwrap();
            store.delete(T, row).unwrap();
            store.commit();
        });
        println!("look up and delete: {batches}");
    }
}

fn rollback(count: u64) {
    let mut store = voter().store();
    let mut random = Random(1);
    let batches = Batches::run(count, |_| {
        let mark = store.mark();
        vote(&mut store, &mut random, 1_000_000);
        store.rollback_to(mark);
    });
    println!("vote and rollback: {batches}");
}
