//! Reads a log from its beginning, hands on what it holds, and tells a torn tail (cut) from rot (an error).
//! The rules are in docs/format/redo-log.md, "Reading". Changes nothing on disk before it has read everything without error.

use std::path::{Path, PathBuf};

use ferrite_io::{Disk, DiskError, DiskResult, OpenMode, SECTOR_BYTES, SectorBuffer, SystemRandom};

use crate::error::{LogError, OpenError};
use crate::format::{
    Block, CLEAN_END, CONTINUES, DatabaseId, HeaderFault, LogPosition, SEGMENT_BYTES_MAX, SegmentHeader,
};
use crate::options::LogOptions;
use crate::segment::{prepare_segment, segment_numbers, segment_path};

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
    pub position: u64,
    pub next_block: u64,
    pub previous_checksum: u32,
    pub last_flags: u32,
    /// A block with data is the last one, and nothing on disk says that it is durable.
    pub needs_opened: bool,
    /// The number of a segment that is prepared, and not used yet.
    pub spare: Option<u64>,
}

/// Where a payload begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockPlace<'a> {
    pub path: &'a Path,
    pub position: u64,
}

/// What is given all that the log holds. A closure over places and payloads is one.
pub trait Visitor<E> {
    fn payload(&mut self, place: BlockPlace<'_>, payload: &[u8]) -> Result<(), E>;

    /// All was given. Called before anything is changed on disk.
    fn end(&mut self) -> Result<(), E> {
        Ok(())
    }
}

impl<E, F: FnMut(BlockPlace<'_>, &[u8]) -> Result<(), E>> Visitor<E> for F {
    fn payload(&mut self, place: BlockPlace<'_>, payload: &[u8]) -> Result<(), E> {
        self(place, payload)
    }
}

struct Segment {
    number: u64,
    path: PathBuf,
    /// Bytes of the file.
    bytes: u64,
    header: Result<SegmentHeader, HeaderFault>,
}

pub(crate) fn recover<E>(
    disk: &dyn Disk,
    dir: &Path,
    options: &LogOptions,
    visit: impl Visitor<E>,
) -> Result<(Tail, Recovery), OpenError<E>> {
    let segments = find_segments(disk, dir, options)?;
    let first = match (segments.first().and_then(|first| first.header.ok()), options.from) {
        (Some(first), _) => first,
        (None, None) => return Ok(create(disk, dir, options, &segments)?),
        (None, Some(from)) => {
            return Err(OpenError::Log(LogError::Rot {
                path: segment_path(dir, from.segment),
                position: 0,
                detail: "the header cannot be read, though a snapshot says that blocks behind it were durable"
                    .to_owned(),
            }));
        }
    };
    // The chain of blocks goes on from the header, or from what was written down of a later block.
    let from = options.from.unwrap_or(LogPosition {
        segment: first.number,
        position: SECTOR_BYTES as u64,
        block: first.first_block,
        previous_checksum: first.previous_checksum,
    });
    let mut reader = Reader {
        disk,
        database: first.database,
        segments,
        visit,
        buffer: SectorBuffer::new(),
        loaded: None,
        next_block: from.block,
        previous_checksum: from.previous_checksum,
        last_flags: CLEAN_END,
        proven: options.from.map_or(first.durable_through, |from| from.block),
        first_position: from.position as usize,
        last_data_block: 0,
        group: Vec::new(),
        group_start: None,
        blocks: 0,
        payload_bytes: 0,
    };
    let stop = reader.read_all()?;
    if !options.accept_loss {
        reader.look_for_proof(&stop)?;
    }
    reader.visit.end().map_err(|error| OpenError::Replay {
        path: reader.segments[stop.place.index].path.clone(),
        position: stop.place.position as u64,
        error,
    })?;
    Ok(reader.cut(&stop, dir, options)?)
}

/// Lists the segments and judges their headers as far as each can be judged alone.
fn find_segments(disk: &dyn Disk, dir: &Path, options: &LogOptions) -> Result<Vec<Segment>, LogError> {
    let first = options.from.map_or(1, |from| from.segment);
    let mut numbers = segment_numbers(disk, dir)?;
    numbers.retain(|number| *number >= first);
    if numbers.is_empty() && options.from.is_some() {
        return Err(LogError::MissingSegment { path: segment_path(dir, first) });
    }
    let mut database = options.database;
    let mut sector = SectorBuffer::new();
    let mut segments = Vec::with_capacity(numbers.len());
    for (index, number) in numbers.into_iter().enumerate() {
        let expected_number = first + index as u64;
        if number != expected_number {
            return Err(LogError::MissingSegment { path: segment_path(dir, expected_number) });
        }
        let path = segment_path(dir, number);
        let file = disk.open(&path, OpenMode::ReadDirect)?;
        sector.resize(SECTOR_BYTES);
        let count = file.read_at(sector.as_mut_slice(), 0)?;
        let header = SegmentHeader::decode(&sector.as_slice()[..count]);
        match header {
            Ok(header) => {
                let expected = *database.get_or_insert(header.database);
                if header.database != expected {
                    return Err(LogError::ForeignSegment { path, found: header.database, expected });
                }
                if header.number != number {
                    return Err(LogError::Misnamed { path, found: header.number });
                }
            }
            Err(HeaderFault::Version(found)) => return Err(LogError::Version { path, found }),
            Err(HeaderFault::Blank | HeaderFault::Damaged) => {}
        }
        segments.push(Segment { number, bytes: file.bytes()?, path, header });
    }
    Ok(segments)
}

/// Makes an empty log where there is none, or only the beginning of one whose making was interrupted.
fn create(
    disk: &dyn Disk,
    dir: &Path,
    options: &LogOptions,
    segments: &[Segment],
) -> Result<(Tail, Recovery), LogError> {
    if let Some(first) = segments.first() {
        let mut content = SectorBuffer::new();
        load(disk, first, &mut content)?;
        if segments.len() > 1 || content.as_slice().iter().skip(SECTOR_BYTES).any(|byte| *byte != 0) {
            return Err(LogError::Rot {
                path: first.path.clone(),
                position: 0,
                detail: "the header of the first segment cannot be read, though blocks were written behind it"
                    .to_owned(),
            });
        }
    }
    let header = SegmentHeader {
        database: options.database.unwrap_or_else(|| DatabaseId::random(&mut SystemRandom)),
        number: 1,
        bytes: options.segment_bytes,
        first_block: 1,
        durable_through: 0,
        previous_checksum: 0,
    };
    prepare_segment(disk, dir, 1, options.segment_bytes, &mut |_| {})?;
    let file = disk.open(&segment_path(dir, 1), OpenMode::Write)?;
    file.write_at(&header.encode(), 0)?;
    file.sync_data()?;
    let tail = Tail {
        database: header.database,
        segment_number: 1,
        segment_bytes: header.bytes,
        position: SECTOR_BYTES as u64,
        next_block: 1,
        previous_checksum: 0,
        last_flags: CLEAN_END,
        needs_opened: false,
        spare: None,
    };
    let recovery = Recovery {
        database: header.database,
        created: true,
        clean: true,
        segments: 1,
        blocks: 0,
        payload_bytes: 0,
        torn: None,
    };
    Ok((tail, recovery))
}

struct Reader<'a, V> {
    disk: &'a dyn Disk,
    database: DatabaseId,
    segments: Vec<Segment>,
    visit: V,
    /// The content of the segment with index `loaded`.
    buffer: SectorBuffer,
    loaded: Option<usize>,

    /// Where the first block begins that is read, in the first segment.
    first_position: usize,
    next_block: u64,
    previous_checksum: u32,
    last_flags: u32,
    /// The highest *durable through* seen.
    proven: u64,
    last_data_block: u64,
    /// Payload of the group that is not complete yet, and where it began.
    group: Vec<u8>,
    group_start: Option<Place>,
    blocks: u64,
    payload_bytes: u64,
}

#[derive(Clone, Copy)]
struct Place {
    index: usize,
    position: usize,
    block: u64,
    previous_checksum: u32,
    flags_before: u32,
}

/// Where reading ended, and why it did not go on.
struct Stop {
    place: Place,
    fault: &'static str,
}

impl<V> Reader<'_, V> {
    fn read_all<E>(&mut self) -> Result<Stop, OpenError<E>>
    where
        V: Visitor<E>,
    {
        let mut index = 0;
        loop {
            self.load(index)?;
            let stop = self.read_segment(index)?;
            match self.segments.get(index + 1).map(|next| next.header) {
                Some(Ok(header))
                    if header.first_block == self.next_block && header.previous_checksum == self.previous_checksum =>
                {
                    self.proven = self.proven.max(header.durable_through);
                    index += 1;
                }
                _ => return Ok(stop),
            }
        }
    }

    fn load(&mut self, index: usize) -> DiskResult<()> {
        if self.loaded != Some(index) {
            self.loaded = None;
            load(self.disk, &self.segments[index], &mut self.buffer)?;
            self.loaded = Some(index);
        }
        Ok(())
    }

    fn here(&self, index: usize, position: usize) -> Place {
        Place {
            index,
            position,
            block: self.next_block,
            previous_checksum: self.previous_checksum,
            flags_before: self.last_flags,
        }
    }

    /// Reads the loaded segment up to the first block that is not valid.
    fn read_segment<E>(&mut self, index: usize) -> Result<Stop, OpenError<E>>
    where
        V: Visitor<E>,
    {
        // Apart, so that a block's payload can be borrowed while the reader notes what it read.
        let loaded = std::mem::take(&mut self.buffer);
        let buffer = loaded.as_slice();
        let mut position = if index == 0 { self.first_position } else { SECTOR_BYTES };
        let result = loop {
            let block = match Block::decode(self.database, &buffer[position.min(buffer.len())..]) {
                Ok(block) if block.number != self.next_block => Err("a block with another number stands here"),
                Ok(block) if block.previous_checksum != self.previous_checksum => {
                    Err("the block does not follow the one before it")
                }
                decoded => decoded,
            };
            match block {
                Ok(block) => {
                    if let Err(error) = self.accept(block, index, position) {
                        break Err(error);
                    }
                    position += block.bytes_on_disk();
                }
                Err(fault) => break Ok(Stop { place: self.here(index, position), fault }),
            }
        };
        self.buffer = loaded;
        result
    }

    fn accept<E>(&mut self, block: Block<'_>, index: usize, position: usize) -> Result<(), OpenError<E>>
    where
        V: Visitor<E>,
    {
        let continues = block.flags & CONTINUES != 0;
        if !block.payload.is_empty() {
            let start = *self.group_start.get_or_insert(Place {
                index,
                position,
                block: block.number,
                previous_checksum: self.previous_checksum,
                flags_before: self.last_flags,
            });
            let payload = if continues || !self.group.is_empty() {
                self.group.extend_from_slice(block.payload);
                &self.group
            } else {
                block.payload
            };
            if !continues {
                self.payload_bytes += payload.len() as u64;
                let place = BlockPlace { path: &self.segments[start.index].path, position: start.position as u64 };
                self.visit.payload(place, payload).map_err(|error| OpenError::Replay {
                    path: place.path.to_path_buf(),
                    position: place.position,
                    error,
                })?;
                self.group = Vec::new();
                self.group_start = None;
                self.last_data_block = block.number;
            }
        }
        self.blocks += 1;
        self.next_block += 1;
        self.previous_checksum = block.checksum;
        self.last_flags = block.flags;
        self.proven = self.proven.max(block.durable_through);
        Ok(())
    }

    /// Searches all that lies behind the end of reading for proof that what should stand there had been durable.
    fn look_for_proof(&mut self, stop: &Stop) -> Result<(), LogError> {
        let cut = self.group_start.unwrap_or(stop.place);
        // A batch never calls its own blocks durable, so with a whole log this holds for an incomplete group too.
        let mut proof = (self.proven >= cut.block).then(|| "what was written before it".to_owned());
        for index in stop.place.index..self.segments.len() {
            if proof.is_some() {
                break;
            }
            self.load(index)?;
            let segment = &self.segments[index];
            let from = if index == stop.place.index { stop.place.position } else { SECTOR_BYTES };
            if index > stop.place.index
                && let Ok(header) = segment.header
                && header.durable_through >= cut.block
            {
                proof = Some(format!("the header of {}", segment.path.display()));
            } else {
                let buffer = self.buffer.as_slice();
                proof = (from..buffer.len())
                    .step_by(SECTOR_BYTES)
                    .find(|position| {
                        Block::decode(self.database, &buffer[*position..])
                            .is_ok_and(|block| block.durable_through >= cut.block)
                    })
                    .map(|position| format!("the block at byte {position} of {}", segment.path.display()));
            }
        }
        let Some(proof) = proof else { return Ok(()) };
        self.load(stop.place.index)?;
        let here_blank = extent(self.buffer.as_slice(), stop.place.position) == 0;
        let next = self.segments.get(stop.place.index + 1);
        let (path, position, fault) = match next {
            Some(next) if here_blank && next.header == Err(HeaderFault::Damaged) => {
                (&next.path, 0, "the header's checksum is wrong")
            }
            Some(next) if here_blank && next.header == Err(HeaderFault::Blank) => {
                (&next.path, 0, "the header is missing")
            }
            _ => (&self.segments[stop.place.index].path, stop.place.position, stop.fault),
        };
        Err(LogError::Rot {
            path: path.clone(),
            position: position as u64,
            detail: format!(
                "block {} cannot be read ({fault}), though {proof} says that it was durable",
                stop.place.block
            ),
        })
    }

    /// Cuts what was not durable, if there is anything, and tells where to go on.
    fn cut(mut self, stop: &Stop, dir: &Path, options: &LogOptions) -> Result<(Tail, Recovery), LogError> {
        let cut = self.group_start.unwrap_or(stop.place);
        let mut torn_here = 0;
        let mut torn = 0;
        let mut spare = None;
        for index in cut.index..self.segments.len() {
            self.load(index)?;
            let count = extent(self.buffer.as_slice(), if index == cut.index { cut.position } else { 0 });
            torn += count;
            if index == cut.index {
                torn_here = count;
            } else if index == cut.index + 1 && torn == 0 && self.segments[index].bytes == options.segment_bytes {
                spare = Some(self.segments[index].number);
            }
        }
        let kept = cut.index + 1 + usize::from(spare.is_some());
        for segment in self.segments.drain(kept.min(self.segments.len())..).rev() {
            self.disk.remove(&segment.path)?;
        }
        self.disk.sync_dir(dir)?;
        let segment = &self.segments[cut.index];
        let header = segment.header.expect("only segments with a header are read");
        let file = self.disk.open(&segment.path, OpenMode::Write)?;
        // A file that lost its end: whole again before it is written on.
        if segment.bytes < header.bytes {
            file.preallocate(header.bytes)?;
        }
        if torn_here > 0 {
            file.write_at(&vec![0; torn_here.next_multiple_of(SECTOR_BYTES)], cut.position as u64)?;
        }
        file.sync_data()?;
        let tail = Tail {
            database: self.database,
            segment_number: segment.number,
            segment_bytes: header.bytes,
            position: cut.position as u64,
            next_block: cut.block,
            previous_checksum: cut.previous_checksum,
            last_flags: cut.flags_before,
            needs_opened: self.last_data_block > self.proven,
            spare,
        };
        let recovery = Recovery {
            database: self.database,
            created: false,
            clean: torn == 0 && cut.flags_before == CLEAN_END,
            segments: cut.index as u64 + 1,
            blocks: cut.block - 1,
            payload_bytes: self.payload_bytes,
            torn: (torn > 0).then(|| TornTail {
                path: segment.path.clone(),
                position: cut.position as u64,
                bytes: torn as u64,
            }),
        };
        Ok((tail, recovery))
    }
}

/// Reads a segment whole, or as much as its header says, where it has one. What an earlier process wrote and did not fsync may be
/// in the page cache only, or differ there from what a failed fsync left on the disk: so it is fsynced, and read past the cache.
/// That is also the fastest way to read.
fn load(disk: &dyn Disk, segment: &Segment, buffer: &mut SectorBuffer) -> DiskResult<()> {
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

/// Bytes from `from` to the last one that is not zero.
fn extent(buffer: &[u8], from: usize) -> usize {
    let rest = buffer.get(from..).unwrap_or_default();
    // Sixteen at a time, since most of what is looked at is a prepared segment full of zeros.
    let blank = rest.rchunks_exact(16).take_while(|chunk| **chunk == [0; 16]).count() * 16;
    let rest = &rest[..rest.len() - blank];
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}
