//! The node's redo log: group commit by one thread, replay at start, reading while it is written.
//! The format is docs/format/redo-log.md.
//!
//! Owns the files of one directory. Promises that an append completed without error is replayed
//! after any crash that its [`Durability`] covers, whole and in order; that damage to what was
//! durable is an error, never a silent cut; and that the first write or fsync error is the last
//! thing it ever does to the disk. Does not know what the appended bytes say, nor partitions.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// A line to a stream that nobody reads would hold up the thread that says it; `ferrite_io::stdio`
// does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod begun;
mod durability;
mod error;
mod first_segment;
mod format;
mod inbox;
mod index;
mod log;
mod measure;
mod opened;
mod options;
mod payload;
mod prepare;
mod quarantine;
mod recovery;
mod segment;
mod statistics;
mod tail_reader;
mod truncate;
mod writer;

pub use durability::Durability;
pub use error::{LogError, LogFailed, OpenError};
pub use format::{DatabaseId, LogPosition};
pub use index::{Numbers, SegmentIndex};
pub use log::{Appender, Completion, Log};
pub use measure::measure_fsync;
pub use opened::{Recovery, TornTail};
pub use options::LogOptions;
pub use payload::Payload;
pub use recovery::{BlockPlace, Visitor};
pub use segment::segment_path;
pub use statistics::{Histogram, LogStatistics};
pub use tail_reader::{TailError, TailRead, TailReader};
pub use truncate::{blocks_behind, bytes_on_disk, count_segments, make_durable};
