//! What can be set about a log.

use std::path::PathBuf;
use std::time::Duration;

use ferrite_base::limits::{LOG_BLOCK_BYTES_MAX, LOG_LOOK_INTERVAL, LOG_SEGMENT_BYTES};
use ferrite_io::SECTOR_BYTES;

use crate::durability::Durability;
use crate::error::LogError;
use crate::format::{BLOCK_HEADER_BYTES, DatabaseId, LogPosition, SEGMENT_BYTES_MAX};
use crate::index::Numbers;

#[derive(Clone, Debug)]
pub struct LogOptions {
    pub durability: Durability,
    /// The database that must be found, or that a new log is made for. `None`: whichever is there,
    /// or a new random one.
    pub database: Option<DatabaseId>,
    /// Where reading begins: a block that was durable before its place was written down, by a
    /// snapshot of what lies before it. `None`: the log's first block. What lies before is not
    /// looked at, and may be gone.
    pub from: Option<LogPosition>,
    /// Cut the log where acknowledged blocks cannot be read, in place of refusing, and keep what is
    /// cut in this folder, which is made if there is anything. Only ever at the operator's word.
    pub accept_loss: Option<PathBuf>,
    /// How to tell streams and numbers of the entries that are appended, so that
    /// [`crate::SegmentIndex`] finds them. `None`: they have none.
    pub numbers: Option<Numbers>,
    /// Size of new segment files; a multiple of the sector.
    pub segment_bytes: u64,
    /// Largest payload of one block.
    pub block_bytes_max: usize,
    /// Bytes waiting for the log thread, beyond which `append` blocks.
    pub queue_bytes_max: usize,
    /// How often a log that is written looks whether its files are still in place, and writes down
    /// how far it reaches.
    pub look_interval: Duration,
    /// Prepare the next segment ahead of need, on a thread of its own. Otherwise when it is needed,
    /// by the log thread.
    pub prepare_ahead: bool,
    /// Work on threads of the log's own. Otherwise whoever calls [`crate::Log::step`] does the
    /// work, as a simulator wants it.
    pub own_threads: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            durability: Durability::Sync,
            database: None,
            from: None,
            accept_loss: None,
            numbers: None,
            segment_bytes: LOG_SEGMENT_BYTES,
            block_bytes_max: LOG_BLOCK_BYTES_MAX,
            queue_bytes_max: 4 * LOG_BLOCK_BYTES_MAX,
            look_interval: LOG_LOOK_INTERVAL,
            prepare_ahead: true,
            own_threads: true,
        }
    }
}

impl LogOptions {
    pub(crate) fn check(&self) -> Result<(), LogError> {
        let sector = SECTOR_BYTES as u64;
        let refuse = |text: &str| Err(LogError::Options(text.to_owned()));
        if !self.segment_bytes.is_multiple_of(sector) || self.segment_bytes > SEGMENT_BYTES_MAX {
            return refuse("the segment size must be a multiple of 4096 bytes and at most 1 GiB");
        }
        if self.block_bytes_max == 0 || self.block_bytes_max > LOG_BLOCK_BYTES_MAX {
            return refuse("the block size must be between 1 byte and 16 MiB");
        }
        if 2 * sector + (BLOCK_HEADER_BYTES + self.block_bytes_max) as u64 > self.segment_bytes {
            return refuse("a segment must have room for its header, the largest block and its seal");
        }
        if self.queue_bytes_max == 0 {
            return refuse("the queue must have room");
        }
        Ok(())
    }
}
