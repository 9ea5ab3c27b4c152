//! EXPLAIN ANALYZE: what each source of a statement delivered, how often it was asked and how long
//! it took.

use std::cell::RefCell;

/// Of one source.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measure {
    pub(crate) loops: u64,
    pub(crate) rows: u64,
    /// Without what was done with the rows.
    pub(crate) nanoseconds: u64,
}

impl Measure {
    pub(crate) fn in_words(&self) -> String {
        match self {
            Measure { loops: 0, .. } => " [not run]".to_owned(),
            Measure { loops: 1, rows, nanoseconds } => format!(" [{}, {}]", counted(*rows), milliseconds(*nanoseconds)),
            Measure { loops, rows, nanoseconds } => {
                format!(" [{} in {loops} loops, {}]", counted(*rows), milliseconds(*nanoseconds))
            }
        }
    }
}

pub(crate) fn counted(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

pub(crate) fn milliseconds(nanoseconds: u64) -> String {
    format!("{}.{:03} ms", nanoseconds / 1_000_000, nanoseconds / 1_000 % 1_000)
}

/// By slot; empty where nothing is measured.
pub(crate) type Measures = RefCell<Vec<Measure>>;
