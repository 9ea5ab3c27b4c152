//! `ferrite bench kv`: values by key through the default procedures `STORE.select` and
//! `STORE.upsert` (wire-protocol, appendix C.2).

use crate::calls::Calls;
use crate::error::{BenchError, BenchResult, Doing};
use crate::generator::{Intended, LoadOutcome, Workload, failure_outcome};
use crate::options::KvOptions;
use crate::progress::with_progress;
use crate::random::FastRandom;
use crate::random::seed_or_random;
use crate::report::{LoadReport, MemoryReport, grouped};
use crate::results::keep;
use crate::run::measure;
use crate::session::{Environment, Session};
use ferrite_client::Prepared;
use ferrite_client::event_loop::Response;
use ferrite_value::Value;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

const DDL: &str = "
DROP TABLE store IF EXISTS;
CREATE TABLE store (
  key VARCHAR(250) NOT NULL,
  value VARBINARY(1048576) NOT NULL,
  PRIMARY KEY (key)
);
PARTITION TABLE store ON COLUMN key;
";

/// Random bytes that values are cut from: making them anew for each call would cost more than the
/// call.
const MATERIAL_BYTES: usize = 4 * 1_048_576;

pub fn run_kv(environment: &Environment, options: &KvOptions) -> BenchResult<LoadReport> {
    let session = Session::open(environment, &options.target)?;
    let kept = options.keep && session.sum_partitions("SELECT COUNT(*) FROM store").is_ok();
    if !kept {
        session.run_statements(DDL)?;
    }
    let shape = Arc::new(Shape::new(options));
    let rows_before = session.sum_partitions("SELECT COUNT(*) FROM store")?;
    let memory_before = (session.usage(), session.accounted_bytes());
    if !kept {
        with_progress("writing the keys", || preload(&session, &shape))?;
    }
    let make = |thread: usize| KvLoad::new(Arc::clone(&shape), shape.seed.wrapping_add(1 + thread as u64), kept);
    let (result, mut report) = measure("kv", environment, &session, &options.load, make)?;
    let memory_after = (session.usage(), session.accounted_bytes());
    let rows_after = session.sum_partitions("SELECT COUNT(*) FROM store")?;
    session.close()?;

    report.memory = MemoryReport::new(
        (rows_before, rows_after),
        (memory_before.0.map(|usage| usage.resident_bytes), memory_after.0.map(|usage| usage.resident_bytes)),
        (memory_before.1, memory_after.1),
    );
    let mut tally = KvTally::default();
    result.workloads.iter().for_each(|load| tally.merge(&load.tally));
    report.details = vec![
        ("reads".to_string(), tally.hits + tally.misses),
        ("reads without a row".to_string(), tally.misses),
        ("writes".to_string(), tally.writes),
    ];
    let findings = findings(&tally, rows_after, i64::from(options.pool_size), kept);
    if !findings.is_empty() {
        return Err(BenchError::Wrong(findings));
    }
    if report.transactions == 0 {
        let why = report.first_failure.as_deref().unwrap_or("no call was answered");
        return Err(BenchError::Load(format!("not one call succeeded in the measured time: {why}")));
    }
    report.validated.push(format!(
        "{} reads found their row with a value of the right size, {} writes changed one row each, {} keys are there",
        grouped(tally.hits),
        grouped(tally.writes),
        grouped(rows_after as u64),
    ));
    ferrite_io::out!("{}", report.text());
    keep(options.load.json.as_deref(), "kv", &report)?;
    Ok(report)
}

/// The table anew, with every key in it.
pub(crate) fn prepare(session: &Session, shape: &Shape) -> BenchResult<()> {
    session.run_statements(DDL)?;
    with_progress("writing the keys", || preload(session, shape))
}

pub(crate) fn findings(tally: &KvTally, rows: i64, pool_size: i64, kept: bool) -> Vec<String> {
    let mut findings = Vec::new();
    if !kept && rows != pool_size {
        findings.push(format!("{rows} keys are there, {pool_size} were written"));
    }
    if !kept && tally.misses > 0 {
        findings.push(format!("{} reads found no row, though every key was written", tally.misses));
    }
    if tally.wrong_answers > 0 {
        findings.push(format!("{} answers were not what was asked for or written", tally.wrong_answers));
    }
    findings
}

/// Keys and values of a run, shared by its threads.
pub struct Shape {
    key_bytes: usize,
    pub pool_size: u32,
    pub value_bytes: RangeInclusive<usize>,
    /// Reads, of 2^32 calls.
    pub reads: u64,
    material: Vec<u8>,
    pub seed: u64,
}

impl Shape {
    pub fn new(options: &KvOptions) -> Shape {
        let seed = seed_or_random(options.seed);
        let largest = options.value_size as usize;
        let smallest = options.value_size_min.map_or(largest, |bytes| (bytes as usize).min(largest));
        let mut material = vec![0; MATERIAL_BYTES];
        FastRandom::new(seed).fill(&mut material);
        for byte in &mut material {
            *byte = (u16::from(*byte) * options.entropy / 256) as u8;
        }
        Shape {
            key_bytes: usize::from(options.key_size),
            pool_size: options.pool_size,
            value_bytes: smallest..=largest,
            reads: (options.reads / 100.0 * 4_294_967_296.0) as u64,
            material,
            seed,
        }
    }

    /// `K` and the number, right-aligned with spaces.
    #[inline]
    pub fn write_key<'k>(&self, buffer: &'k mut Vec<u8>, mut number: u32) -> &'k str {
        buffer.clear();
        buffer.resize(self.key_bytes, b' ');
        buffer[0] = b'K';
        for byte in buffer[1..].iter_mut().rev() {
            *byte = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        std::str::from_utf8(buffer).expect("keys are ASCII")
    }

    #[inline]
    pub fn value(&self, random: &mut FastRandom) -> &[u8] {
        let smallest = *self.value_bytes.start();
        let largest = *self.value_bytes.end();
        let length = smallest + random.below((largest - smallest + 1) as u32) as usize;
        let start = random.below((self.material.len() - length) as u32) as usize;
        &self.material[start..start + length]
    }
}

/// Writes every key once, pipelined.
fn preload(session: &Session, shape: &Shape) -> BenchResult<()> {
    let procedure = Prepared::new("STORE.upsert").expect("the name of the procedure is short");
    let mut random = FastRandom::new(shape.seed);
    let failure = Arc::new(Mutex::new(None));
    let mut key = Vec::new();
    for number in 0..shape.pool_size {
        let failure = Arc::clone(&failure);
        let parameters = (shape.write_key(&mut key, number), shape.value(&mut random));
        let callback = move |result: Result<_, _>| {
            if let Err(error) = result {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        };
        session.client().call_with_callback(&procedure, parameters, callback).doing("writing the keys")?;
    }
    session.client().drain();
    match failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error).doing("writing the keys"),
        None => Ok(()),
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KvTally {
    pub hits: u64,
    pub misses: u64,
    pub writes: u64,
    /// More than one row, a value of a wrong size, a write that did not change one row.
    pub wrong_answers: u64,
}

impl KvTally {
    pub fn merge(&mut self, other: &KvTally) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.writes += other.writes;
        self.wrong_answers += other.wrong_answers;
    }
}

pub(crate) struct KvLoad {
    shape: Arc<Shape>,
    select: Prepared,
    upsert: Prepared,
    random: FastRandom,
    key: Vec<u8>,
    /// Values of another run may have other sizes.
    any_size: bool,
    pub tally: KvTally,
}

/// What a call does, and for a write how many bytes it carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KvNote {
    Read,
    Write(u32),
}

impl KvLoad {
    pub fn new(shape: Arc<Shape>, seed: u64, any_size: bool) -> KvLoad {
        KvLoad {
            shape,
            select: Prepared::new("STORE.select").expect("the name of the procedure is short"),
            upsert: Prepared::new("STORE.upsert").expect("the name of the procedure is short"),
            random: FastRandom::new(seed),
            key: Vec::new(),
            any_size,
            tally: KvTally::default(),
        }
    }

    /// Bytes of the value that was read; None when the answer is not one row with a value of a
    /// right size.
    #[inline]
    fn value_read(&self, response: &Response<'_>) -> Option<u64> {
        let table = response.tables().next()?.ok()?;
        let row = table.rows().next()?.ok()?;
        match row.get(1).ok()?? {
            Value::Bytes(value) if table.row_count() == 1 => {
                (self.any_size || self.shape.value_bytes.contains(&value.len())).then_some(value.len() as u64)
            }
            _ => None,
        }
    }
}

impl Workload for KvLoad {
    type Note = KvNote;

    #[inline]
    fn call(&mut self, calls: &mut Calls<'_, KvNote>, call: Intended) {
        let number = self.random.below(self.shape.pool_size);
        let key = self.shape.write_key(&mut self.key, number);
        let written = if self.random.next_u64() >> 32 < self.shape.reads {
            calls.call(&self.select, &(key,), call.with(KvNote::Read))
        } else {
            let value = self.shape.value(&mut self.random);
            calls.call(&self.upsert, &(key, value), call.with(KvNote::Write(value.len() as u32)))
        };
        debug_assert!(written.is_ok(), "a key and a value fit into a frame");
    }

    #[inline]
    fn completed(&mut self, note: KvNote, response: &Response<'_>) -> LoadOutcome {
        if !response.is_success() {
            return failure_outcome(response);
        }
        match note {
            KvNote::Read => match self.value_read(response) {
                Some(bytes) => {
                    self.tally.hits += 1;
                    return LoadOutcome::Succeeded { payload_bytes: bytes };
                }
                None if response.tables().next().is_some_and(|table| table.is_ok_and(|t| t.row_count() == 0)) => {
                    self.tally.misses += 1;
                    return LoadOutcome::Succeeded { payload_bytes: 0 };
                }
                None => {}
            },
            KvNote::Write(bytes) if response.scalar() == Some(1) => {
                self.tally.writes += 1;
                return LoadOutcome::Succeeded { payload_bytes: u64::from(bytes) };
            }
            KvNote::Write(_) => {}
        }
        self.tally.wrong_answers += 1;
        LoadOutcome::Failed
    }

    fn lost(&mut self, _note: KvNote) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_value::SqlType;
    use ferrite_wire::{ResponseWriter, TableHeader};

    fn shape(smallest: usize, largest: usize) -> Shape {
        Shape {
            key_bytes: 32,
            pool_size: 100,
            value_bytes: smallest..=largest,
            reads: 1 << 31,
            material: vec![7; 4_096],
            seed: 1,
        }
    }

    #[test]
    fn keys_are_right_aligned() {
        let mut buffer = Vec::new();
        assert_eq!(shape(1, 1).write_key(&mut buffer, 0), "K                              0");
        assert_eq!(shape(1, 1).write_key(&mut buffer, u32::MAX), "K                     4294967295");
        assert_eq!(Shape { key_bytes: 11, ..shape(1, 1) }.write_key(&mut buffer, u32::MAX), "K4294967295");
    }

    #[test]
    fn values_have_all_sizes_between_the_limits() {
        let (shape, mut random) = (shape(3, 6), FastRandom::new(3));
        let mut sizes: Vec<usize> = (0..200).map(|_| shape.value(&mut random).len()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        assert_eq!(sizes, [3, 4, 5, 6]);
    }

    #[test]
    fn answers_are_looked_at() {
        let header = TableHeader::new([("KEY", SqlType::Varchar), ("VALUE", SqlType::Varbinary)]);
        let value = |bytes: usize| vec![7u8; bytes];
        for (values, note, expected) in [
            (vec![value(4)], KvNote::Read, KvTally { hits: 1, ..KvTally::default() }),
            (vec![], KvNote::Read, KvTally { misses: 1, ..KvTally::default() }),
            (vec![value(9)], KvNote::Read, KvTally { wrong_answers: 1, ..KvTally::default() }),
            (vec![value(4), value(4)], KvNote::Read, KvTally { wrong_answers: 1, ..KvTally::default() }),
            (vec![value(4)], KvNote::Write(4), KvTally { wrong_answers: 1, ..KvTally::default() }),
        ] {
            let mut load = KvLoad::new(Arc::new(shape(4, 4)), 1, false);
            let mut frame = Vec::new();
            let mut writer = ResponseWriter::begin(&mut frame, 1);
            let mut table = writer.table(&header);
            for value in &values {
                table.row(&[Value::Text("K"), Value::Bytes(value)]).unwrap();
            }
            table.finish();
            writer.finish();
            load.completed(note, &Response::parse(&frame[4..]).unwrap());
            assert_eq!(load.tally, expected, "{note:?} {values:?}");
        }
    }

    #[test]
    fn findings_of_a_run() {
        let good = KvTally { hits: 5, writes: 3, ..KvTally::default() };
        assert_eq!(findings(&good, 100, 100, false), [""; 0]);
        assert_eq!(findings(&good, 99, 100, false).len(), 1);
        assert_eq!(findings(&KvTally { misses: 1, ..good }, 100, 100, false).len(), 1);
        assert_eq!(findings(&KvTally { misses: 1, ..good }, 99, 100, true), [""; 0]);
        assert_eq!(findings(&KvTally { wrong_answers: 1, ..good }, 99, 100, true).len(), 1);
    }
}
