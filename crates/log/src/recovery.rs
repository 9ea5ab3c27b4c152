//! Reads a log from its beginning, hands on what it holds, and tells a torn tail (cut) from rot (an
//! error). The rules are in docs/format/redo-log.md, "Reading". Changes nothing on disk before it
//! has read everything without error.

mod cut;
mod proof;

use crate::begun::{Begun, KnownEnd};
use crate::error::{LogError, OpenError};
use crate::first_segment::{Found, Segment, begin_anew, create, find_segments, load, no_first_segment};
use crate::format::{Block, CLEAN_END, CONTINUES, DatabaseId, LogPosition, SEAL, SegmentHeader};
use crate::index::{Indexed, Numbers};
use crate::opened::{Recovery, Tail, Unsealed};
use crate::options::LogOptions;
use crate::segment::segment_path;
use ferrite_base::planted;
use ferrite_io::{Disk, DiskResult, SECTOR_BYTES, SectorBuffer};
use std::path::Path;

/// Where a payload begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockPlace<'a> {
    pub path: &'a Path,
    pub segment: u64,
    /// In the segment's file.
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

pub(crate) fn recover<E>(
    disk: &dyn Disk,
    dir: &Path,
    options: &LogOptions,
    mut visit: impl Visitor<E>,
) -> Result<(Tail, Recovery), OpenError<E>> {
    let found = find_segments(disk, dir, options)?;
    let first = match (found.segments.first().and_then(|first| first.header.ok()), options.from) {
        (Some(first), _) => first,
        (None, None) => return Ok(create(disk, dir, options, &found)?),
        (None, Some(from)) => {
            let path = segment_path(dir, from.segment);
            let Some(folder) = &options.accept_loss else {
                return Err(OpenError::Log(no_first_segment(
                    path,
                    from.position,
                    &found.segments,
                    "a snapshot says that blocks in it",
                )));
            };
            visit.end().map_err(|error| OpenError::Replay { path, position: from.position, error })?;
            return Ok(begin_anew(disk, dir, options, from, folder, found)?);
        }
    };
    let mut reader = Reader::new(disk, first, found, options, visit);
    let stop = reader.read_all()?;
    // Without the first block nothing would be left.
    if !planted!(RotIsCut) && (options.accept_loss.is_none() || reader.cut_at(&stop).block == 1) {
        reader.look_for_proof(&stop, dir)?;
    }
    reader.visit.end().map_err(|error| OpenError::Replay {
        path: reader.segments[stop.place.index].path.clone(),
        position: stop.place.position as u64,
        error,
    })?;
    Ok(reader.cut(&stop, dir, options)?)
}

struct Reader<'a, V> {
    disk: &'a dyn Disk,
    database: DatabaseId,
    segments: Vec<Segment>,
    stranded: Vec<Segment>,
    begun: Begun,
    /// How far the log reached at least.
    known: KnownEnd,
    accept_loss: bool,
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
    /// The segments that were read to their end, and through which block their seal says that all
    /// is durable, if it is there.
    left: Vec<(Unsealed, Option<u64>)>,
    last_data_block: u64,
    /// Payload of the group that is not complete yet, and where it began.
    group: Vec<u8>,
    group_start: Option<ReadPosition>,
    /// By index, as far as they are read.
    indexed: Vec<Indexed>,
    numbers: Option<Numbers>,
    blocks: u64,
    payload_bytes: u64,
}

#[derive(Clone, Copy)]
struct ReadPosition {
    index: usize,
    position: usize,
    block: u64,
    previous_checksum: u32,
    flags_before: u32,
}

/// Where reading ended, and why it did not go on.
struct Stop {
    place: ReadPosition,
    fault: &'static str,
}

impl<'a, V> Reader<'a, V> {
    /// `first`: the header of the first segment that was found.
    fn new(disk: &'a dyn Disk, first: SegmentHeader, found: Found, options: &LogOptions, visit: V) -> Reader<'a, V> {
        let Found { segments, stranded, begun } = found;
        // The chain of blocks continues from the header, or from what was written down of a later
        // block.
        let from = options.from.unwrap_or(LogPosition {
            segment: first.number,
            position: SECTOR_BYTES as u64,
            block: first.first_block,
            previous_checksum: first.previous_checksum,
        });
        let proven = match options.from {
            Some(from) => from.block,
            None => first.durable_through.max(u64::from(begun.is_begun())),
        };
        Reader {
            disk,
            database: first.database,
            segments,
            stranded,
            begun,
            known: if planted!(EndNotAsked) { KnownEnd::default() } else { begun.end() },
            accept_loss: options.accept_loss.is_some(),
            visit,
            buffer: SectorBuffer::new(),
            loaded: None,
            next_block: from.block,
            previous_checksum: from.previous_checksum,
            last_flags: CLEAN_END,
            proven,
            left: Vec::new(),
            first_position: from.position as usize,
            last_data_block: 0,
            group: Vec::new(),
            group_start: None,
            indexed: Vec::new(),
            numbers: options.numbers,
            blocks: 0,
            payload_bytes: 0,
        }
    }

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
                    self.leave(index, header.first_block);
                    index += 1;
                }
                _ => return Ok(stop),
            }
        }
    }

    /// Looks whether the loaded segment, which is read, has its seal.
    fn leave(&mut self, index: usize, block_behind: u64) {
        let header = self.segments[index].header.expect("only segments with a header are read");
        if header.sealed_at_end {
            let durable_through = self.seal(index);
            self.proven = self.proven.max(durable_through.unwrap_or(0));
            let last_checksum = self.previous_checksum;
            let seal_at = header.blocks_end();
            self.left.push((Unsealed { number: header.number, seal_at, block_behind, last_checksum }, durable_through));
        }
    }

    /// What the seal of the loaded segment says, if it has one, and if the segment's last block is
    /// the one that was read last: the block through which all is durable, in later segments.
    fn seal(&self, index: usize) -> Option<u64> {
        let header = self.segments[index].header.ok().filter(|header| header.sealed_at_end)?;
        let sector = self.buffer.as_slice().get(header.blocks_end() as usize..)?;
        let seal = Block::decode(self.database, sector).ok()?;
        let fits = seal.flags == SEAL
            && seal.previous_checksum == self.previous_checksum
            && seal.durable_through >= self.next_block;
        fits.then_some(seal.durable_through)
    }

    fn load(&mut self, index: usize) -> DiskResult<()> {
        if self.loaded != Some(index) {
            self.loaded = None;
            load(self.disk, &self.segments[index], &mut self.buffer)?;
            self.loaded = Some(index);
        }
        Ok(())
    }

    fn here(&self, index: usize, position: usize) -> ReadPosition {
        ReadPosition {
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
        let header = self.segments[index].header.expect("only segments with a header are read");
        let buffer = &loaded.as_slice()[..loaded.len().min(header.blocks_end() as usize)];
        let mut position = if index == 0 { self.first_position } else { SECTOR_BYTES };
        self.indexed.push(Indexed::of(&header, position == SECTOR_BYTES));
        let result = loop {
            let block = match Block::decode(self.database, &buffer[position.min(buffer.len())..]) {
                Ok(block) if block.flags == SEAL => Err("a seal stands here"),
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
        if block.number == self.known.block
            && block.checksum != self.known.checksum
            && !self.accept_loss
            && !planted!(OlderCopyTaken)
        {
            let path = self.segments[index].path.clone();
            let detail = format!(
                "block {} there is not the one that was durable, as the file redo-begun says: the files are not of the same time",
                block.number
            );
            return Err(LogError::Rot { path, position: position as u64, missing: None, certain: true, detail }.into());
        }
        let continues = block.flags & CONTINUES != 0;
        if !block.payload.is_empty() {
            let start = *self.group_start.get_or_insert(ReadPosition {
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
                let Segment { path, number, .. } = &self.segments[start.index];
                let place = BlockPlace { path, segment: *number, position: start.position as u64 };
                self.visit.payload(place, payload).map_err(|error| OpenError::Replay {
                    path: place.path.to_path_buf(),
                    position: place.position,
                    error,
                })?;
                let begins = LogPosition {
                    segment: self.segments[start.index].number,
                    position: start.position as u64,
                    block: start.block,
                    previous_checksum: start.previous_checksum,
                };
                self.indexed[start.index].note(begins, payload, self.numbers);
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

    /// A group of which a part is missing is cut whole.
    fn cut_at(&self, stop: &Stop) -> ReadPosition {
        self.group_start.unwrap_or(stop.place)
    }
}
