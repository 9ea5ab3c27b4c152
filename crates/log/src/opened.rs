//! What opening a log found, and where writing goes on.

use std::path::PathBuf;

use crate::begun::Begun;
use crate::format::{CLEAN_END, DatabaseId, LogPosition, SegmentHeader};
use crate::index::Indexed;

/// What was found at opening.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    pub database: DatabaseId,
    /// There was no log; an empty one was made.
    pub created: bool,
    /// The log ended with an orderly shutdown, or was empty.
    pub clean: bool,
    pub segments: u64,
    pub blocks: u64,
    pub payload_bytes: u64,
    pub torn: Option<TornTail>,
    /// The files that keep what was cut at the operator's word.
    pub quarantined: Vec<PathBuf>,
}

/// What was cut because it had not become durable when the writing process ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    pub path: PathBuf,
    pub position: u64,
    pub bytes: u64,
}

/// Where writing goes on.
pub(crate) struct Tail {
    pub database: DatabaseId,
    pub segment_number: u64,
    pub segment_bytes: u64,
    /// Where in it the room for blocks ends.
    pub blocks_end: u64,
    pub position: u64,
    pub next_block: u64,
    pub previous_checksum: u32,
    pub last_flags: u32,
    /// A block with data is the last one, and nothing on disk says that it is durable.
    pub needs_opened: bool,
    /// The number of a segment that is prepared, and not used yet.
    pub spare: Option<u64>,
    /// Segments before it that should have a seal and have none, ascending.
    pub unsealed: Vec<Unsealed>,
    /// What says how far the log reached.
    pub begun: Begun,
    /// The segments that were read, and where streams stand in them.
    pub indexed: Vec<Indexed>,
}

/// A segment whose seal is to be written once the first block behind it is durable.
pub(crate) struct Unsealed {
    pub number: u64,
    pub seal_at: u64,
    pub block_behind: u64,
    pub last_checksum: u32,
}

impl Tail {
    /// The end of an empty log that begins with this segment.
    pub fn beginning(header: &SegmentHeader, at: LogPosition, begun: Begun) -> Tail {
        Tail {
            database: header.database,
            segment_number: header.number,
            segment_bytes: header.bytes,
            blocks_end: header.blocks_end(),
            position: at.position,
            next_block: at.block,
            previous_checksum: at.previous_checksum,
            last_flags: CLEAN_END,
            needs_opened: false,
            spare: None,
            unsealed: Vec::new(),
            begun,
            indexed: vec![Indexed::of(header, true)],
        }
    }
}

impl Recovery {
    pub(crate) fn beginning(database: DatabaseId) -> Recovery {
        Recovery {
            database,
            created: true,
            clean: true,
            segments: 1,
            blocks: 0,
            payload_bytes: 0,
            torn: None,
            quarantined: Vec::new(),
        }
    }
}
