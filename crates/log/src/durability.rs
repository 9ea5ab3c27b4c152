//! What a completed append survives.

use std::fmt;
use std::time::Duration;

/// When an append completes, and so what a completed append survives.
///
/// Whatever the mode, what is replayed is a prefix of what was appended: nothing is missing in the
/// middle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// After the fsync. Survives the end of the process and loss of power.
    Sync,
    /// After it was handed to the operating system, which is told to write it out at most this much
    /// later. Survives the end of the process, however it ends; loss of power loses at most what
    /// completed within that time and while an fsync takes.
    Interval(Duration),
    /// After it was handed to the operating system, which writes it out when it likes. Survives the
    /// end of the process; loss of power loses what the operating system had not written yet,
    /// usually up to half a minute.
    None,
    /// After the fsync, as with `Sync`. The database appends no transactions, only the records of
    /// its snapshots: what it acknowledges survives once a snapshot shows it
    /// (docs/decisions/0106-durability-memory.md).
    Memory,
}

/// As `--durability` is written.
impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Sync => f.write_str("sync"),
            Durability::Interval(interval) => write!(f, "interval={}", interval.as_millis()),
            Durability::None => f.write_str("none"),
            Durability::Memory => f.write_str("memory"),
        }
    }
}
