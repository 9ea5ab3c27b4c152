//! Which calls are made, and what the server says to them.

use crate::values::Values;
use ferrite_client::{OwnedResponse, OwnedValue, Prepared};
use ferrite_example_support::load::{CallResult, MakeCall, failure};
use ferrite_example_support::{Application, End, Random};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub struct Store {
    pub values: Values,
    pub first_key: u64,
    pub keys: u64,
    /// Share of the calls that read.
    pub reads: f64,
    /// Share of the calls on the table that every partition has.
    pub everywhere: f64,
    pub gets: Tally,
    pub puts: Tally,
    pub wrong: AtomicU64,
    procedures: [[Prepared; 2]; 2],
}

/// What one kind of call has come to.
#[derive(Default)]
pub struct Tally {
    pub done: AtomicU64,
    pub misses: AtomicU64,
    pub failed: AtomicU64,
    pub bytes: AtomicU64,
    pub plain_bytes: AtomicU64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: &AtomicU64| bytes.load(Relaxed) as f64 / 1_048_576.0;
        let (done, misses, failed) = (self.done.load(Relaxed), self.misses.load(Relaxed), self.failed.load(Relaxed));
        write!(f, "{done} done, {misses} misses, {failed} failed; ")?;
        write!(f, "{:.1} MB stored, {:.1} MB uncompressed", megabytes(&self.bytes), megabytes(&self.plain_bytes))
    }
}

/// A call under way: what it should give.
pub enum Note {
    Get { key: String },
    Put { bytes: usize, plain_bytes: usize },
}

impl Store {
    pub fn new(values: Values, first_key: u64, keys: u64, reads: f64, everywhere: f64) -> Store {
        let named = |name| Prepared::new(name).expect("the names are short");
        Store {
            values,
            first_key,
            keys,
            reads,
            everywhere,
            gets: Tally::default(),
            puts: Tally::default(),
            wrong: AtomicU64::new(0),
            procedures: [[named("STORE.select"), named("STORE.upsert")], [named("selectR"), named("STORER.upsert")]],
        }
    }

    fn check_read(&self, key: &str, response: &OwnedResponse) -> End {
        self.gets.done.fetch_add(1, Relaxed);
        let Some(row) = response.tables.first().and_then(|table| table.rows.first()) else {
            self.gets.misses.fetch_add(1, Relaxed);
            return End::Answered;
        };
        let found = match row.as_slice() {
            [OwnedValue::Text(there), OwnedValue::Bytes(value)] if **there == *key => {
                self.values.plain_length(value).map(|plain| (value.len(), plain))
            }
            _ => None,
        };
        let Some((bytes, plain)) = found else {
            self.wrong.fetch_add(1, Relaxed);
            return End::Failed;
        };
        self.gets.bytes.fetch_add(bytes as u64, Relaxed);
        self.gets.plain_bytes.fetch_add(plain as u64, Relaxed);
        End::Answered
    }
}

impl Application for Store {
    type Note = Note;

    fn next(&self, random: &mut Random, call: &mut MakeCall<'_, Note>) {
        let key = self.values.key(self.first_key + random.below(self.keys));
        let [select, upsert] = &self.procedures[usize::from(random.chance(self.everywhere))];
        if random.chance(self.reads) {
            call(select, &(key.as_str(),), Note::Get { key: key.clone() });
        } else {
            let (value, plain_bytes) = self.values.value(random);
            call(upsert, &(key, value.as_slice()), Note::Put { bytes: value.len(), plain_bytes });
        }
    }

    fn ended(&self, note: Note, result: &CallResult) -> End {
        match (note, result) {
            (Note::Get { key }, Ok(response)) => self.check_read(&key, response),
            (Note::Put { bytes, plain_bytes }, Ok(response)) => {
                self.puts.done.fetch_add(1, Relaxed);
                self.puts.bytes.fetch_add(bytes as u64, Relaxed);
                self.puts.plain_bytes.fetch_add(plain_bytes as u64, Relaxed);
                if response.scalar() == Some(1) {
                    return End::Answered;
                }
                self.wrong.fetch_add(1, Relaxed);
                End::Failed
            }
            (note, Err(error)) => {
                let tally = if matches!(note, Note::Get { .. }) { &self.gets } else { &self.puts };
                tally.failed.fetch_add(1, Relaxed);
                failure(error)
            }
        }
    }
}
