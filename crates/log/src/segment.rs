//! Segment files: their names, and how an empty one is made.

use std::path::{Path, PathBuf};

use ferrite_base::planted;
use ferrite_io::{Disk, DiskResult, OpenMode, SectorBuffer};

use crate::Durability;

/// Bytes of zeros written at once. Small enough for a group commit not to wait noticeably behind
/// one of them.
const FILL_BYTES: usize = 131_072;

/// Where a segment is. The first is 1.
pub fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("redo-{number:010}.log"))
}

/// The number of the segment by that file name, if it is one.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("redo-")?.strip_suffix(".log")?;
    if digits.len() < 10 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|number| *number > 0)
}

/// The segments that are there, ascending.
pub(crate) fn segment_numbers(disk: &dyn Disk, dir: &Path) -> DiskResult<Vec<u64>> {
    let mut numbers: Vec<u64> = disk.list(dir)?.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// What a segment consists of before its first block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blank {
    /// Zeros that were written. Unwritten space reads as zero, too, but turning it into written
    /// space costs a journal commit in every fsync.
    Zeros,
    /// Space that is reserved. Where no commit waits for an fsync, zeros would be written for
    /// nothing, and a log that takes all that the disk can write would be half as fast.
    Reserved,
}

impl Blank {
    pub(crate) fn of(durability: Durability) -> Blank {
        match durability {
            Durability::Sync => Blank::Zeros,
            Durability::Interval(_) | Durability::None | Durability::Memory => Blank::Reserved,
        }
    }
}

/// Makes the file: space, zeros where they are needed, and durable, its name included. `pace` is
/// called after each piece, with the bytes filled.
pub(crate) fn prepare_segment(
    disk: &dyn Disk,
    dir: &Path,
    number: u64,
    bytes: u64,
    blank: Blank,
    pace: &mut dyn FnMut(u64),
) -> DiskResult<()> {
    let path = segment_path(dir, number);
    let created = disk.open(&path, OpenMode::Create)?;
    let reserved = created.preallocate(bytes)?;
    if reserved && blank == Blank::Reserved {
        created.sync_data()?;
    } else {
        fill(disk, &path, bytes, pace)?;
    }
    if planted!(SegmentNameNotDurable) { Ok(()) } else { disk.sync_dir(dir) }
}

fn fill(disk: &dyn Disk, path: &Path, bytes: u64, pace: &mut dyn FnMut(u64)) -> DiskResult<()> {
    let file = disk.open(path, OpenMode::WriteDirect)?;
    let mut zeros = SectorBuffer::new();
    zeros.extend_zeros(FILL_BYTES.min(bytes as usize));
    let mut position = 0;
    while position < bytes {
        let count = (bytes - position).min(zeros.len() as u64);
        file.write_at(&zeros.as_slice()[..count as usize], position)?;
        position += count;
        pace(position);
    }
    file.sync_data()
}

/// Bytes from `from` to the last one that is not zero.
pub(crate) fn extent(buffer: &[u8], from: usize) -> usize {
    let rest = buffer.get(from..).unwrap_or_default();
    // Sixteen at a time, since most of what is looked at is a prepared segment full of zeros.
    let blank = rest.rchunks_exact(16).take_while(|chunk| **chunk == [0; 16]).count() * 16;
    let rest = &rest[..rest.len() - blank];
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for number in [1, 42, 9_999_999_999, 10_000_000_000] {
            let path = segment_path(Path::new("/d"), number);
            assert_eq!(segment_number(path.file_name().unwrap().to_str().unwrap()), Some(number));
        }
        for name in ["redo-0000000000.log", "redo-1.log", "redo-+000000001.log", "redo-0000000001.log.old", "LOCK"] {
            assert_eq!(segment_number(name), None, "{name}");
        }
    }
}
