//! Where reading a log begins: which segments are there, what it means when the first is not, and
//! how an empty log is made.

use std::path::{Path, PathBuf};

use ferrite_base::planted;
use ferrite_io::{Disk, DiskError, DiskResult, OpenMode, SECTOR_BYTES, SectorBuffer, SystemRandom};

use crate::begun::{self, Begun};
use crate::error::LogError;
use crate::format::{DatabaseId, HeaderFault, LogPosition, SEGMENT_BYTES_MAX, SegmentHeader};
use crate::opened::{Recovery, Tail};
use crate::options::LogOptions;
use crate::quarantine::Quarantine;
use crate::segment::{Blank, extent, prepare_segment, segment_numbers, segment_path};

pub(crate) struct Segment {
    pub number: u64,
    pub path: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    pub header: Result<SegmentHeader, HeaderFault>,
}

/// What stands in the directory.
pub(crate) struct Found {
    /// From the one that reading begins with, without a gap.
    pub segments: Vec<Segment>,
    /// The segments behind a gap.
    pub stranded: Vec<Segment>,
    pub begun: Begun,
}

/// The segment that must be there to begin with is not, or has no header.
pub(crate) fn no_first_segment(path: PathBuf, position: u64, segments: &[Segment], witness: &str) -> LogError {
    let missing = segments.is_empty().then(|| path.clone());
    let detail = if missing.is_some() {
        format!("{witness} were durable")
    } else {
        format!("the header cannot be read, though {witness} were durable")
    };
    let position = if missing.is_some() { position } else { 0 };
    LogError::Rot { path, position, missing, certain: true, detail }
}

/// Lists the segments and judges their headers as far as each can be judged alone.
pub(crate) fn find_segments(disk: &dyn Disk, dir: &Path, options: &LogOptions) -> Result<Found, LogError> {
    let first = options.from.map_or(1, |from| from.segment);
    let mut numbers = segment_numbers(disk, dir)?;
    numbers.retain(|number| *number >= first);
    let begun = Begun::read(disk, dir, options.accept_loss.is_some())?;
    let mut database = options.database.or(begun.database());
    if let (Some(expected), Some(found)) = (database, begun.database())
        && found != expected
        && !planted!(ForeignSegmentTaken)
    {
        return Err(LogError::ForeignSegment { path: begun::path(dir), found, expected });
    }
    let mut sector = SectorBuffer::new();
    let mut segments = Vec::with_capacity(numbers.len());
    let mut stranded = Vec::new();
    for (index, number) in numbers.into_iter().enumerate() {
        let path = segment_path(dir, number);
        let file = disk.open(&path, OpenMode::ReadDirect)?;
        sector.resize(SECTOR_BYTES);
        let count = file.read_at(sector.as_mut_slice(), 0)?;
        let header = SegmentHeader::decode(&sector.as_slice()[..count]);
        match header {
            Ok(header) => {
                let expected = *database.get_or_insert(header.database);
                if header.database != expected && !planted!(ForeignSegmentTaken) {
                    return Err(LogError::ForeignSegment { path, found: header.database, expected });
                }
                if header.number != number {
                    return Err(LogError::Misnamed { path, found: header.number });
                }
            }
            Err(HeaderFault::Version(found)) => return Err(LogError::Version { path, found }),
            Err(HeaderFault::Blank | HeaderFault::Damaged) => {}
        }
        let segment = Segment { number, bytes: file.bytes()?, path, header };
        if number == first + index as u64 { segments.push(segment) } else { stranded.push(segment) }
    }
    Ok(Found { segments, stranded, begun })
}

/// Makes an empty log where there is none, or only the beginning of one whose making was
/// interrupted.
pub(crate) fn create(
    disk: &dyn Disk,
    dir: &Path,
    options: &LogOptions,
    found: &Found,
) -> Result<(Tail, Recovery), LogError> {
    let Found { segments, stranded, begun } = found;
    if begun.is_begun() || (segments.is_empty() && !stranded.is_empty()) {
        let witness = if begun.is_begun() {
            "the file redo-begun beside it says that blocks in it"
        } else {
            "later ones are there: blocks in it"
        };
        return Err(no_first_segment(segment_path(dir, 1), SECTOR_BYTES as u64, segments, witness));
    }
    if let Some(first) = segments.first() {
        let mut content = SectorBuffer::new();
        load(disk, first, &mut content)?;
        if segments.len() + stranded.len() > 1 || extent(content.as_slice(), SECTOR_BYTES) > 0 {
            return Err(no_first_segment(first.path.clone(), 0, segments, "blocks behind it were written, so some"));
        }
    }
    let begin = LogPosition { segment: 1, position: SECTOR_BYTES as u64, block: 1, previous_checksum: 0 };
    let database = options.database.unwrap_or_else(|| DatabaseId::random(&mut SystemRandom));
    let header = begin_segment(disk, dir, database, begin, options.segment_bytes)?;
    Ok((Tail::beginning(&header, begin, Begun::Never), Recovery::beginning(database)))
}

/// Makes the log that a snapshot says it goes on with, empty up to that place, where its segment is
/// lost. What is there is set quarantine.
pub(crate) fn begin_anew(
    disk: &dyn Disk,
    dir: &Path,
    options: &LogOptions,
    from: LogPosition,
    folder: &Path,
    found: Found,
) -> Result<(Tail, Recovery), LogError> {
    let mut quarantine = Quarantine::new(disk, dir, folder);
    for segment in found.segments.into_iter().chain(found.stranded).rev() {
        quarantine.drop_file(&segment.path, segment.bytes > 0)?;
    }
    let database = options.database.unwrap_or_else(|| DatabaseId::random(&mut SystemRandom));
    let bytes = options.segment_bytes.max(from.position + SECTOR_BYTES as u64);
    let header = begin_segment(disk, dir, database, from, bytes)?;
    let recovery = Recovery { created: false, quarantined: quarantine.files, ..Recovery::beginning(database) };
    Ok((Tail::beginning(&header, from, found.begun), recovery))
}

/// Makes a segment whose first block will be that one, and makes its header durable.
fn begin_segment(
    disk: &dyn Disk,
    dir: &Path,
    database: DatabaseId,
    at: LogPosition,
    bytes: u64,
) -> DiskResult<SegmentHeader> {
    let header = SegmentHeader {
        sealed_at_end: true,
        database,
        number: at.segment,
        bytes,
        first_block: at.block,
        durable_through: at.block - 1,
        previous_checksum: at.previous_checksum,
    };
    prepare_segment(disk, dir, at.segment, bytes, Blank::Zeros, &mut |_| {})?;
    let file = disk.open(&segment_path(dir, at.segment), OpenMode::Write)?;
    file.write_at(&header.encode(), 0)?;
    file.sync_data()?;
    Ok(header)
}

/// Reads a segment whole, or as much as its header says, where it has one. What an earlier process
/// wrote and did not fsync may be in the page cache only, or differ there from what a failed fsync
/// left on the disk: so it is fsynced, and read past the cache. That is also the fastest way to
/// read.
pub(crate) fn load(disk: &dyn Disk, segment: &Segment, buffer: &mut SectorBuffer) -> DiskResult<()> {
    let bytes_max = segment.header.map_or(SEGMENT_BYTES_MAX, |header| header.bytes);
    let bytes = segment.bytes.min(bytes_max) as usize;
    let file = disk.open(&segment.path, OpenMode::ReadDirect)?;
    file.sync_data()?;
    buffer.resize(bytes.next_multiple_of(SECTOR_BYTES));
    let count = file.read_at(buffer.as_mut_slice(), 0)?;
    if count < bytes {
        // Less than the file has is not the end of the log.
        let error = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, format!("{count} of {bytes} bytes came"));
        return Err(DiskError::new("read", &segment.path, error));
    }
    buffer.resize(bytes);
    Ok(())
}
