//! What snapshots do with the log's files beside the log's own thread, and what can still be read
//! behind damage.
//!
//! The segments dealt with here are full, or only fsynced once more: the log's writer never looks
//! back at them.

use std::path::Path;

use ferrite_io::{Disk, DiskResult, OpenMode, SECTOR_BYTES, SectorBuffer};

use crate::format::{Block, DatabaseId, SegmentHeader};
use crate::segment::{segment_number, segment_numbers, segment_path};

/// Makes all that was written to segments from `segment` on durable, whatever the log's durability:
/// a snapshot must not be newer than the log.
pub fn make_durable(disk: &dyn Disk, dir: &Path, segment: u64) -> DiskResult<()> {
    for number in segment_numbers(disk, dir)?.into_iter().filter(|number| *number >= segment) {
        disk.open(&segment_path(dir, number), OpenMode::Write)?.sync_data()?;
    }
    disk.sync_dir(dir)
}

/// How many segments there are up to `segment`, and how many in all.
pub fn count_segments(disk: &dyn Disk, dir: &Path, segment: u64) -> DiskResult<(usize, usize)> {
    let numbers = segment_numbers(disk, dir)?;
    Ok((numbers.iter().filter(|number| **number <= segment).count(), numbers.len()))
}

/// Bytes of the segments from `segment` on, what is prepared for writes to come included. A segment
/// that goes meanwhile does not count.
pub fn bytes_on_disk(disk: &dyn Disk, dir: &Path, segment: u64) -> DiskResult<u64> {
    let mut bytes = 0;
    for number in segment_numbers(disk, dir)?.into_iter().filter(|number| *number >= segment) {
        if let Ok(file) = disk.open(&segment_path(dir, number), OpenMode::Read) {
            bytes += file.bytes()?;
        }
    }
    Ok(bytes)
}

/// Removes the segments before `segment`, lowest first, so that an interruption leaves no gap. How
/// many. Calls `rest` after each: a file system frees what was removed when it next has something
/// to make durable, and the log's fsyncs wait for it.
pub(crate) fn truncate_before(disk: &dyn Disk, dir: &Path, segment: u64, rest: &dyn Fn()) -> DiskResult<usize> {
    let mut numbers = segment_numbers(disk, dir)?;
    numbers.retain(|number| *number < segment);
    for number in &numbers {
        disk.remove(&segment_path(dir, *number))?;
        rest();
    }
    if !numbers.is_empty() {
        disk.sync_dir(dir)?;
    }
    Ok(numbers.len())
}

/// Gives the payloads of blocks that are whole in themselves, from a position in a segment to the
/// end of the log, to `visit`: what is at stake where the log cannot be read. Pieces of larger
/// appends come as they are.
pub fn blocks_behind(disk: &dyn Disk, path: &Path, position: u64, mut visit: impl FnMut(&[u8])) -> DiskResult<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (Some(first), Some(dir)) = (segment_number(name), path.parent()) else { return Ok(()) };
    let mut database: Option<DatabaseId> = None;
    let mut buffer = SectorBuffer::new();
    for number in segment_numbers(disk, dir)? {
        let file = disk.open(&segment_path(dir, number), OpenMode::ReadDirect)?;
        let bytes = file.bytes()? as usize;
        buffer.resize(bytes.next_multiple_of(SECTOR_BYTES));
        let count = file.read_at(buffer.as_mut_slice(), 0)?;
        let bytes = &buffer.as_slice()[..count.min(bytes)];
        if let Ok(header) = SegmentHeader::decode(&bytes[..bytes.len().min(SECTOR_BYTES)]) {
            database.get_or_insert(header.database);
        }
        let Some(database) = database.filter(|_| number >= first) else { continue };
        let mut at = if number == first { (position as usize).max(SECTOR_BYTES) } else { SECTOR_BYTES };
        while at < bytes.len() {
            at += match Block::decode(database, &bytes[at..]) {
                Ok(block) => {
                    visit(block.payload);
                    block.bytes_on_disk()
                }
                Err(_) => SECTOR_BYTES,
            };
        }
    }
    Ok(())
}
