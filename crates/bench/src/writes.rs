//! Steady writes to a cluster through one client, and how each of them ended: for telling how long
//! nothing was acknowledged, and afterwards whether what is there is what was said.
//!
//! Writes are made at a fixed rate, whether earlier ones have been answered or not. A write that
//! was refused is not made again: the next one is due soon.

use crate::cluster::PATIENCE;
use crate::error::{BenchError, BenchResult, Doing};
use crate::session::Session;
use ferrite_client::{Client, ClientError, ClientOptions, OwnedResponse, Prepared};
use ferrite_value::OwnedValue;
use ferrite_value::hash::partition_token_i64;
use ferrite_value::ring::Ring;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const DDL: [&str; 2] = [
    "CREATE TABLE bench_write (id BIGINT NOT NULL, content BIGINT NOT NULL, PRIMARY KEY (id))",
    "PARTITION TABLE bench_write ON COLUMN id",
];
/// More are not made until some have been answered.
const OUTSTANDING_MAX: usize = 20_000;
/// Rows of one question afterwards.
const ROWS_AT_ONCE: usize = 50_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Outstanding,
    Acknowledged,
    /// It was not executed: the server said so, or it was never sent.
    Refused,
    Unknown,
}

/// How many writes ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ends {
    pub acknowledged: u64,
    pub refused: u64,
    pub unknown: u64,
}

impl Ends {
    pub fn since(self, before: Ends) -> Ends {
        Ends {
            acknowledged: self.acknowledged - before.acknowledged,
            refused: self.refused - before.refused,
            unknown: self.unknown - before.unknown,
        }
    }
}

#[derive(Debug)]
struct Record {
    fates: Vec<Fate>,
    ends: Ends,
    outstanding: usize,
    /// By partition: when the last write was acknowledged.
    acknowledged_at: Vec<Instant>,
    /// The longest time between two of one partition since it was asked.
    longest_gap: Duration,
    watched: Option<Watch>,
    refusal: Option<String>,
}

/// For the first acknowledgements of writes that were sent after a moment.
#[derive(Debug)]
struct Watch {
    since: Instant,
    /// By partition: there was none yet.
    missing: Vec<bool>,
    /// When the last partition had its first one.
    complete_at: Option<Instant>,
}

#[derive(Debug)]
struct Shared {
    /// Finds the partition of each write.
    ring: Ring,
    record: Mutex<Record>,
    changed: Condvar,
    stop: AtomicBool,
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, id: usize, sent: Instant, result: Result<OwnedResponse, ClientError>) {
        let now = Instant::now();
        let mut record = self.record();
        record.outstanding -= 1;
        record.fates[id] = match result {
            Ok(_) => {
                record.ends.acknowledged += 1;
                let partition = self.ring.partition_of(partition_token_i64(id as i64)).0 as usize;
                record.longest_gap = record.longest_gap.max(now - record.acknowledged_at[partition]);
                record.acknowledged_at[partition] = now;
                if let Some(watch) = &mut record.watched
                    && sent >= watch.since
                    && watch.complete_at.is_none()
                {
                    watch.missing[partition] = false;
                    watch.complete_at = watch.missing.iter().all(|missing| !missing).then_some(now);
                }
                Fate::Acknowledged
            }
            Err(error) if error.is_outcome_unknown() => {
                record.ends.unknown += 1;
                Fate::Unknown
            }
            Err(error) => {
                record.ends.refused += 1;
                record.refusal = Some(error.to_string());
                Fate::Refused
            }
        };
        self.changed.notify_all();
    }
}

/// The writes, which go on until this is dropped.
pub struct Writes {
    session: Session,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Writes {
    /// Makes the table, and begins.
    pub fn begin(options: ClientOptions, every: Duration) -> BenchResult<Writes> {
        let options = ClientOptions { outstanding_max: OUTSTANDING_MAX + 1, ..options };
        let session = Session::to_cluster(options)?;
        for statement in DDL {
            session.call("@AdHoc", (statement,))?;
        }
        let partitions = session.partition_keys()?.len();
        let ring = u32::try_from(partitions).ok().filter(|count| *count > 0).map(Ring::new_default);
        let ring = ring.ok_or_else(|| BenchError::Server("the cluster names no partitions".to_string()))?;
        let record = Record {
            fates: Vec::new(),
            ends: Ends::default(),
            outstanding: 0,
            acknowledged_at: vec![Instant::now(); partitions],
            longest_gap: Duration::ZERO,
            watched: None,
            refusal: None,
        };
        let shared = Arc::new(Shared {
            ring,
            record: Mutex::new(record),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let client = session.client().clone();
        let write = move || write_steadily(&client, &of_thread, every);
        let thread = thread::Builder::new().name("writes".to_string()).spawn(write).doing("starting a thread")?;
        Ok(Writes { session, shared, thread: Some(thread) })
    }

    pub fn ends(&self) -> Ends {
        self.shared.record().ends
    }

    /// From now on the longest time without an acknowledgement is measured.
    pub fn watch(&self) -> Instant {
        let now = Instant::now();
        let mut record = self.shared.record();
        record.acknowledged_at.fill(now);
        record.longest_gap = Duration::ZERO;
        now
    }

    /// The longest time without an acknowledgement of one partition since [`Writes::watch`], until
    /// its last one.
    pub fn longest_gap(&self) -> Duration {
        self.shared.record().longest_gap
    }

    /// Waits until each partition has acknowledged a write that was sent at that time or later, and
    /// says when the last one did.
    pub fn first_sent_after(&self, since: Instant) -> BenchResult<Instant> {
        let mut record = self.shared.record();
        let missing = vec![true; record.acknowledged_at.len()];
        record.watched = Some(Watch { since, missing, complete_at: None });
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = record.watched.as_ref().and_then(|watch| watch.complete_at) {
                record.watched = None;
                return Ok(at);
            }
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let refusal = record.refusal.as_deref().unwrap_or("none was refused");
                return Err(BenchError::Server(format!(
                    "a partition has acknowledged no write for {PATIENCE:?}; the last refusal: {refusal}"
                )));
            }
            record = self.shared.changed.wait_timeout(record, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until so many more are acknowledged.
    pub fn await_more(&self, count: u64) -> BenchResult<()> {
        let until = self.ends().acknowledged + count;
        while self.ends().acknowledged < until {
            self.first_sent_after(Instant::now())?;
        }
        Ok(())
    }

    /// No more writes; waits for the ends of those under way, and compares what is there with what
    /// was said. Returns how all ended.
    pub fn finish(mut self) -> BenchResult<Ends> {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let mut record = self.shared.record();
        while record.outstanding > 0 {
            // Each call ends by its own time limit.
            record = self.shared.changed.wait(record).unwrap_or_else(PoisonError::into_inner);
        }
        let fates = std::mem::take(&mut record.fates);
        let ends = record.ends;
        drop(record);
        let mut there = vec![false; fates.len()];
        let mut wrong = Vec::new();
        for from in (0..fates.len()).step_by(ROWS_AT_ONCE) {
            let to = from + ROWS_AT_ONCE;
            let question = format!("SELECT id, content FROM bench_write WHERE id >= {from} AND id < {to}");
            // Of each partition by itself: groups of partitions may be led by several nodes.
            for table in self.session.query_each_partition(&question)? {
                table.rows.iter().for_each(|row| note_row(row, &mut there, &mut wrong));
            }
        }
        for (id, (fate, there)) in fates.iter().zip(&there).enumerate() {
            match (fate, there) {
                (Fate::Acknowledged, false) => wrong.push(format!("row {id} was acknowledged and is not there")),
                (Fate::Refused, true) => wrong.push(format!("row {id} was refused and is there")),
                _ => {}
            }
        }
        if wrong.is_empty() { Ok(ends) } else { Err(BenchError::Wrong(shortened(wrong))) }
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.session.client().close();
    }
}

fn note_row(row: &[OwnedValue], there: &mut [bool], wrong: &mut Vec<String>) {
    match row {
        [OwnedValue::Integer(id), OwnedValue::Integer(content)] if *content == content_of(*id) => {
            match there.get_mut(*id as usize) {
                Some(there) => *there = true,
                None => wrong.push(format!("row {id} is there, which nobody wrote")),
            }
        }
        other => wrong.push(format!("{other:?} is there, which nobody wrote")),
    }
}

fn content_of(id: i64) -> i64 {
    id.wrapping_mul(31) ^ 0x5eed
}

/// More than these are counted and not told.
fn shortened(mut wrong: Vec<String>) -> Vec<String> {
    const TOLD: usize = 10;
    if wrong.len() > TOLD {
        let more = wrong.len() - TOLD;
        wrong.truncate(TOLD);
        wrong.push(format!("and {more} more"));
    }
    wrong
}

fn write_steadily(client: &Client, shared: &Arc<Shared>, every: Duration) {
    let insert = Prepared::new("BENCH_WRITE.insert").expect("a short name");
    let mut due = Instant::now();
    while !shared.stop.load(Ordering::SeqCst) {
        let now = Instant::now();
        if now < due {
            thread::sleep(due - now);
        }
        // What a busy machine has missed is not made up for in a burst.
        due = due.max(Instant::now() - every * 10) + every;
        let id = {
            let mut record = shared.record();
            if record.outstanding >= OUTSTANDING_MAX {
                continue;
            }
            record.outstanding += 1;
            record.fates.push(Fate::Outstanding);
            record.fates.len() - 1
        };
        let of_call = Arc::clone(shared);
        let sent = Instant::now();
        let ended = move |result| of_call.ended(id, sent, result);
        if let Err(error) = client.call_with_callback(&insert, (id as i64, content_of(id as i64)), ended) {
            shared.ended(id, sent, Err(error));
        }
    }
}
