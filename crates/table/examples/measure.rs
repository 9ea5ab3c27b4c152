//! Times of the hot paths, in nanoseconds, and bytes per row.
//! `cargo run --release -p ferrite-table --example measure [votes [part]]`
//!
//! `growth` is for many entries, such as 60,000,000 (5 GB): processor time and memory from the
//! first to the last, where the hash index must not cost more in some stretches than in others.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Random, Schema, column, index, index_id, voter};
use ferrite_base::{Sequence, TableId};
use ferrite_catalog::IndexKind;
use ferrite_table::{Store, Upcoming};
use ferrite_value::{SqlType, Value};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

const T: TableId = TableId(0);
const STATES: [&str; 8] = ["AK", "AL", "CA", "MA", "NY", "TX", "UT", "WA"];

fn main() {
    let votes: u64 = std::env::args().nth(1).and_then(|votes| votes.parse().ok()).unwrap_or(5_000_000);
    let wanted = std::env::args().nth(2).unwrap_or_default();
    type Part = (&'static str, fn(u64));
    let parts: [Part; 10] = [
        ("repeated", |votes| voter_inserts("repeated", votes, 1000)),
        ("new", |votes| voter_inserts("new", votes, 8_000_000_000)),
        ("kept", kept),
        ("ahead", ahead),
        ("redo", replay),
        ("index", index_growth),
        ("rollback", rollback),
        ("values", |votes| values_by_text(votes / 20)),
        ("growth of a hash index", hash_index_growth),
        ("growth of votes", votes_growth),
    ];
    for (name, run) in parts {
        // The last two take long, and are run where they are asked for.
        if name.contains(&wanted) && (!wanted.is_empty() || !name.starts_with("growth")) {
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

/// Repeated phones, with the undo kept of votes that are not committed everywhere.
fn kept(votes: u64) {
    const IN_FLIGHT: u64 = 4_096;
    let mut store = voter().store();
    store.retain_undo(true);
    let mut random = Random(1);
    let mut log = Vec::new();
    let batches = Batches::run(votes, |i| {
        vote(&mut store, &mut random, 1000);
        store.take_redo_into(&mut log);
        store.commit_at(Sequence(i + 1));
        if i % BATCH == 0 {
            log.clear();
        }
        if i % (IN_FLIGHT / 2) == 0 {
            store.committed(Sequence(i.saturating_sub(IN_FLIGHT / 2)));
        }
    });
    println!("vote, repeated phones, undo kept: {batches}");
}

/// New phones, whose buckets are asked for 32 votes ahead, as a partition can that has its calls in
/// a batch.
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
        let view = store.table(view);
        view.hashed_key(index, &[phone]).into_iter().for_each(|key| view.prefetch_bucket(index, key));
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
    drop(copy);
    replay_ahead(votes, &log, &lengths);
}

/// The same as a copy does it: some together, and the next are asked for before they are made.
fn replay_ahead(votes: u64, log: &[u8], lengths: &[usize]) {
    const TOGETHER: usize = 16;
    let mut copy = voter().store();
    let (mut now, mut next) = (Upcoming::default(), Upcoming::default());
    let (mut rest, mut lengths) = (log, lengths.iter());
    let batches = Batches::run(votes, |i| {
        let number = i as usize % TOGETHER;
        if number == 0 {
            // The first group comes unasked.
            let groups = if i == 0 { 2 } else { 1 };
            for _ in 0..groups {
                std::mem::swap(&mut now, &mut next);
                next.clear();
                for length in lengths.by_ref().take(TOGETHER) {
                    let (record, after) = rest.split_at(*length);
                    copy.read_ahead(&mut next, record);
                    rest = after;
                }
                copy.ask_for_first(&next);
            }
        }
        if number == TOGETHER / 2 {
            copy.ask_for_second(&next);
        }
        copy.apply_upcoming(&now, number).unwrap();
    });
    println!("vote from redo, read ahead: {batches}");
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

/// Values of a kilobyte by keys of 32 bytes, one look-up after the other, and in groups of which
/// each link of the chain is asked for at once: as `ferrite bench kv` reads them.
fn values_by_text(rows: u64) {
    const GROUP: usize = 8;
    let mut schema = Schema::default();
    let columns = vec![column("K", SqlType::Varchar, 250, false), column("V", SqlType::Varbinary, 1_048_576, false)];
    schema.table("T", columns, vec![index("I", &[0], true, IndexKind::Ordered)]);
    let mut store = schema.store();
    let id = index_id(&store, T, "I");
    let batches = Batches::run(rows / BATCH * BATCH, |i| {
        store.insert(T, &[Value::Text(&text_key(i)), Value::Bytes(&[i as u8; 1024])]).unwrap();
        store.take_redo_into(&mut Vec::new());
        store.commit();
    });
    println!("insert a value of 1 KB by text: {batches}");
    let rows = rows / BATCH * BATCH;
    let table = store.table(T);
    let mut copy = [0; 1024];
    let mut read = |key: &str, what: &str| {
        let row = table.lookup_one(id, &[Value::Text(key)]).flatten().expect("the key is there");
        match table.row(row).column(1) {
            Value::Bytes(value) if what == "read" => copy.copy_from_slice(value),
            Value::Bytes(value) => copy[0] ^= value.len() as u8,
            _ => unreachable!("the column has bytes"),
        }
        std::hint::black_box(&copy);
    };
    let mut random = Random(7);
    for what in ["look up", "read"] {
        let batches = Batches::run(rows, |_| read(&text_key(random.below(rows)), what));
        println!("{what} by text, random: {batches}");
        for lines in [0, 1, 2, 4, 8, 18] {
            let mut keys: Vec<String> = vec![String::new(); GROUP];
            let batches = Batches::run(rows / GROUP as u64 / BATCH * BATCH, |_| {
                keys.iter_mut().for_each(|key| *key = text_key(random.below(rows)));
                let hashed: Vec<_> = keys.iter().filter_map(|key| table.hashed_key(id, &[Value::Text(key)])).collect();
                hashed.iter().for_each(|key| table.prefetch_bucket(id, *key));
                let found: Vec<_> = hashed.iter().filter_map(|key| table.prefetch_row(id, *key)).collect();
                for row in found.iter().filter(|_| lines > 0) {
                    table.prefetch_value(*row, 0, 1);
                    table.prefetch_value(*row, 1, lines);
                }
                keys.iter().for_each(|key| read(key, what));
            });
            println!("  {GROUP} in one go, {lines} lines of each value asked for: {batches}");
        }
    }
}

fn text_key(number: u64) -> String {
    format!("K{number:>31}")
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

/// Entries of a window of [`Growth`].
const WINDOW: u64 = 100_000;
/// Below, windows tell more of the processor's caches than of the index.
const GROWTH_FROM: u64 = 2_000_000;

/// What each window of insertions took.
struct Growth {
    /// Nanoseconds of processor time and bytes of memory per entry.
    windows: Vec<(f64, f64)>,
}

impl Growth {
    /// Runs `insert` for 0..count; `bytes` says what the store takes.
    fn run(
        count: u64,
        store: &mut Store,
        mut insert: impl FnMut(&mut Store, u64),
        bytes: impl Fn(&Store) -> usize,
    ) -> Growth {
        let processor_nanoseconds = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
        };
        let mut windows = Vec::new();
        for first in (0..count).step_by(WINDOW as usize) {
            let start = processor_nanoseconds();
            (first..first + WINDOW).for_each(|i| insert(store, i));
            let elapsed = processor_nanoseconds() - start;
            windows.push((elapsed / WINDOW as f64, bytes(store) as f64 / (first + WINDOW) as f64));
        }
        Growth { windows }
    }
}

impl std::fmt::Display for Growth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let late = &self.windows[((GROWTH_FROM / WINDOW) as usize).min(self.windows.len() / 2)..];
        let mean = |of: &[(f64, f64)]| {
            let count = of.len() as f64;
            (of.iter().map(|w| w.0).sum::<f64>() / count, of.iter().map(|w| w.1).sum::<f64>() / count)
        };
        let all = mean(late);
        let worst = |part: fn(&(f64, f64)) -> f64| late.iter().map(part).fold(0.0, f64::max);
        let worst_second = late.windows(10).map(|ten| mean(ten).0).fold(0.0, f64::max);
        writeln!(
            f,
            "mean {:.0} ns; worst {WINDOW} {:.0} ns, {:.2} of the mean; worst million {worst_second:.0} ns, {:.2} of it",
            all.0,
            worst(|w| w.0),
            worst(|w| w.0) / all.0,
            worst_second / all.0
        )?;
        writeln!(f, "  bytes an entry: mean {:.1}, worst {:.1}", all.1, worst(|w| w.1))?;
        let from = self.windows.len() / 2;
        let parts: Vec<&[(f64, f64)]> =
            (0..16).map(|i| &self.windows[from + from * i / 16..from + from * (i + 1) / 16]).collect();
        // Medians, as a machine may stop for a moment.
        let line = |part: fn(&(f64, f64)) -> f64| -> String {
            let median = |windows: &&[(f64, f64)]| {
                let mut values: Vec<f64> = windows.iter().map(part).collect();
                values.sort_by(f64::total_cmp);
                format!(" {:.0}", values[values.len() / 2])
            };
            parts.iter().map(median).collect()
        };
        writeln!(f, "  sixteenths of the last doubling, ns:{}", line(|window| window.0))?;
        write!(f, "  bytes an entry:{}", line(|window| window.1))
    }
}

fn hash_index_growth(rows: u64) {
    type Key = fn(u64) -> i64;
    let keys: [(&str, Key); 2] =
        [("scattered", |i| (i as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64)), ("ascending", |i| i as i64)];
    for (name, key) in keys {
        let mut schema = Schema::default();
        let columns = vec![column("K", SqlType::Bigint, 0, false)];
        schema.table("T", columns, vec![index("I", &[0], true, IndexKind::Hash)]);
        let mut store = schema.store();
        let insert = |store: &mut Store, i| {
            store.insert(T, &[Value::Integer(key(i))]).unwrap();
            store.commit();
        };
        let growth = Growth::run(rows, &mut store, insert, |store| store.memory()[0].indexes[0].bytes);
        println!("growth of a hash index, {name} keys: {growth}");
    }
}

fn votes_growth(votes: u64) {
    let mut store = voter().store();
    let mut random = Random(1);
    let insert = |store: &mut Store, _| {
        vote(store, &mut random, 8_000_000_000);
        store.commit();
    };
    let bytes = |store: &Store| store.memory().iter().map(|table| table.total_bytes()).sum();
    println!("growth of votes: {}", Growth::run(votes, &mut store, insert, bytes));
}
