//! Times of the hot paths, in nanoseconds, and bytes per row. `cargo run --release -p ferrite-table --example measure [votes]`

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
    voter_inserts(votes);
    hash_growth(votes);
    rollback();
}

fn per(elapsed: Duration, count: u64) -> f64 {
    elapsed.as_nanos() as f64 / count as f64
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

fn voter_inserts(votes: u64) {
    let mut log = Vec::new();
    for (name, phones) in [("phones in cache", 1000), ("phones mostly new", 8_000_000_000)] {
        let mut store = voter().store();
        let mut random = Random(1);
        let mut worst = Duration::ZERO;
        log.clear();
        let start = Instant::now();
        for i in 0..votes {
            vote(&mut store, &mut random, phones);
            if i % 1000 == 0 {
                let before = Instant::now();
                vote(&mut store, &mut random, phones);
                worst = worst.max(before.elapsed());
            }
            store.take_redo_into(&mut log);
            store.commit();
        }
        let count = votes + votes.div_ceil(1000);
        println!("vote, {name}: {:.0} ns (worst of each 1000th {worst:?})", per(start.elapsed(), count));
        let bytes: usize = store.memory().iter().map(|table| table.total_bytes()).sum();
        println!("  {:.1} bytes a vote, {:.1} of redo", bytes as f64 / count as f64, log.len() as f64 / count as f64);
    }
    let mut store = voter().store();
    let mut lengths = Vec::new();
    log.clear();
    let mut random = Random(1);
    for _ in 0..votes {
        vote(&mut store, &mut random, 8_000_000_000);
        lengths.push(store.redo().len());
        store.take_redo_into(&mut log);
        store.commit();
    }
    let mut copy = voter().store();
    let start = Instant::now();
    let mut rest = &log[..];
    for length in lengths {
        let (record, after) = rest.split_at(length);
        copy.apply_redo(record).unwrap();
        rest = after;
    }
    println!("vote from redo: {:.0} ns", per(start.elapsed(), votes));
}

fn hash_growth(rows: u64) {
    for kind in [IndexKind::Hash, IndexKind::Ordered] {
        let mut schema = Schema::default();
        let columns = vec![column("K", SqlType::Bigint, 0, false), column("V", SqlType::Bigint, 0, false)];
        schema.table("T", columns, vec![index("I", &[0], true, kind)]);
        let mut store = schema.store();
        let id = index_id(&store, T, "I");
        let mut worst = Duration::ZERO;
        let start = Instant::now();
        for i in 0..rows as i64 {
            let before = Instant::now();
            store.insert(T, &[Value::Integer(i.wrapping_mul(0x9e37_79b9)), Value::Integer(i)]).unwrap();
            worst = worst.max(before.elapsed());
            store.commit();
        }
        println!("insert into {kind:?} index: {:.0} ns, worst {worst:?}", per(start.elapsed(), rows));
        let mut random = Random(7);
        let start = Instant::now();
        let mut sum = 0;
        for _ in 0..rows {
            let key = [Value::Integer((random.below(rows) as i64).wrapping_mul(0x9e37_79b9))];
            let table = store.table(T);
            for row in table.lookup(id, &key) {
                if let Value::Integer(x) = table.row(row).column(1) {
                    sum += x;
                }
            }
        }
        println!("look up in {kind:?} index, random: {:.0} ns ({sum})", per(start.elapsed(), rows));
        let memory = store.memory();
        println!("  {:.1} bytes an entry", memory[0].indexes[0].bytes as f64 / rows as f64);
        let start = Instant::now();
        for i in 0..rows as i64 {
            let key = [Value::Integer(i.wrapping_mul(0x9e37_79b9))];
            let row = store.table(T).lookup(id, &key).next().unwrap();
            store.delete(T, row).unwrap();
            store.commit();
        }
        println!("look up and delete: {:.0} ns", per(start.elapsed(), rows));
    }
}

fn rollback() {
    let mut store = voter().store();
    let mut random = Random(1);
    let count = 1_000_000;
    let start = Instant::now();
    for _ in 0..count {
        let mark = store.mark();
        vote(&mut store, &mut random, 1_000_000);
        store.rollback_to(mark);
    }
    println!("vote and rollback: {:.0} ns", per(start.elapsed(), count));
}
