//! Reads the log's files while they are written (decision 0047).
//!
//! That is safe without a lock: a sector with completed bytes is never written again, and the
//! reader stops at the last block that was completed. Every step is at most one read of the disk of
//! a block, so that whoever calls yields between them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use ferrite_base::limits::CATCH_UP_READ_BYTES;
use ferrite_io::{DiskError, DiskFile, SECTOR_BYTES, SectorBuffer};

use crate::format::{BLOCK_HEADER_BYTES, Block, CONTINUES, LogPosition, SEAL, SegmentHeader, block_bytes_on_disk};
use crate::index::{Bounds, Indexed, Located, SegmentIndex};

/// What a step came to.
#[derive(Debug)]
pub enum TailRead<'a> {
    /// The next payloads, whole: several appends may come in one piece.
    Payload(&'a [u8]),
    /// Nothing that is whole yet; there is more to do.
    Working,
    /// All that is completed has been given out. More may come.
    End,
}

/// Why a reader cannot go on.
#[derive(Debug)]
pub enum TailError {
    /// What it was to read next is not in the log any more.
    Removed,
    /// Something completed is not what was written.
    Rot {
        path: PathBuf,
        position: u64,
        detail: &'static str,
    },
    /// A payload has more bytes than are given out.
    TooLarge {
        bytes_max: usize,
    },
    Disk(DiskError),
}

impl From<DiskError> for TailError {
    fn from(error: DiskError) -> Self {
        TailError::Disk(error)
    }
}

impl fmt::Display for TailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TailError::Removed => f.write_str("the redo log does not reach back that far: load a snapshot"),
            TailError::Rot { path, position, detail } => {
                write!(f, "redo log {} is damaged at byte {position}: {detail}", path.display())
            }
            TailError::TooLarge { bytes_max } => {
                write!(f, "an entry of the redo log has more than {bytes_max} bytes: load a snapshot")
            }
            TailError::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TailError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TailError::Disk(error) => Some(error),
            _ => None,
        }
    }
}

/// One who reads. While it lives, the segment that it has come to is kept, within bounds.
pub struct TailReader {
    index: Arc<SegmentIndex>,
    id: u64,
    /// Stream and number of the entry that it begins with.
    wanted: (u32, u64),
    payload_bytes_max: usize,
    work: Work,
    /// Payload of the last group of several blocks; and whether more of it comes.
    group: Vec<u8>,
    group_open: bool,
}

enum Work {
    Seek,
    /// Looks through a segment of which it is not known what is in it; whether the next block
    /// begins a payload.
    Look(Cursor, Indexed, bool),
    Read(Cursor),
}

impl TailReader {
    /// From the entry with that number on, or from earlier: what it gives out has other entries
    /// too, and may have this one several times. The last of them counts. Does not touch the disk
    /// yet. Payloads with more bytes are not given out.
    ///
    /// The segment that is read stays meanwhile, within the bound that
    /// [`SegmentIndex::truncate_before`] is given.
    pub fn new(index: &Arc<SegmentIndex>, stream: u32, number: u64, payload_bytes_max: usize) -> TailReader {
        TailReader {
            id: index.enter(),
            index: Arc::clone(index),
            wanted: (stream, number),
            payload_bytes_max,
            work: Work::Seek,
            group: Vec::new(),
            group_open: false,
        }
    }

    /// The segment that it has come to; None while it seeks.
    pub fn segment(&self) -> Option<u64> {
        match &self.work {
            Work::Read(cursor) => Some(cursor.segment),
            Work::Seek | Work::Look(..) => None,
        }
    }

    /// The next piece of work. After [`TailRead::End`] it may be called again; after an error it
    /// says the same again, or goes on where the disk has recovered.
    pub fn step(&mut self) -> Result<TailRead<'_>, TailError> {
        if self.seek()? {
            return Ok(TailRead::Working);
        }
        if !self.group_open {
            // It was given out, and may have been large.
            self.group = Vec::new();
        }
        let Work::Read(cursor) = &mut self.work else { unreachable!("it has been sought") };
        let block = match cursor.next_block(&self.index, self.id)? {
            Found::Block(block) => block,
            Found::Left => return Ok(TailRead::Working),
            Found::End => return Ok(TailRead::End),
        };
        if block.payload_bytes == 0 {
            return Ok(TailRead::Working);
        }
        if self.group.len() + block.payload_bytes > self.payload_bytes_max {
            // It stays before the block, so that it says so again.
            cursor.step_back(&block);
            return Err(TailError::TooLarge { bytes_max: self.payload_bytes_max });
        }
        let continues = block.flags & CONTINUES != 0;
        let continued = std::mem::replace(&mut self.group_open, continues);
        let payload = cursor.payload(&block);
        if !continues && !continued {
            return Ok(TailRead::Payload(payload));
        }
        self.group.extend_from_slice(payload);
        Ok(if continues { TailRead::Working } else { TailRead::Payload(&self.group) })
    }

    /// Whether there was something to do before reading.
    fn seek(&mut self) -> Result<bool, TailError> {
        match &mut self.work {
            Work::Read(_) => return Ok(false),
            Work::Seek => match self.index.locate(self.id, self.wanted.0, self.wanted.1) {
                Located::At(place) => self.work = Work::Read(Cursor::open(&self.index, self.id, place)?),
                Located::Unread(indexed) => {
                    let cursor = Cursor::open(&self.index, self.id, indexed.start())?;
                    // What the first block of a log begins is known; of another segment's it is
                    // not.
                    let begins = indexed.first_block == 1;
                    self.work = Work::Look(cursor, Indexed { begins: None, least: Vec::new(), ..indexed }, begins);
                }
                Located::Unlisted => self.index.list_earlier()?,
                Located::Removed => return Err(TailError::Removed),
            },
            Work::Look(cursor, looked, begins) => {
                let place = cursor.place();
                match cursor.next_block(&self.index, self.id)? {
                    Found::Block(block) => {
                        let payload = cursor.payload(&block);
                        if *begins && !payload.is_empty() {
                            looked.note(place, payload, self.index.numbers());
                        }
                        *begins = block.flags & CONTINUES == 0;
                    }
                    Found::Left | Found::End => {
                        self.index.looked_through(looked);
                        self.work = Work::Seek;
                    }
                }
            }
        }
        Ok(true)
    }
}

impl Drop for TailReader {
    fn drop(&mut self) {
        self.index.leave(self.id);
    }
}

/// A place in the log's files.
struct Cursor {
    file: Box<dyn DiskFile>,
    segment: u64,
    /// Where in the file the room for blocks ends.
    blocks_end: u64,
    /// Of the next block.
    position: u64,
    next_block: u64,
    previous_checksum: u32,
    /// The file from `window_position` on, as it was when the block `window_durable` was the last.
    window: SectorBuffer,
    window_position: u64,
    window_durable: u64,
}

enum Found {
    Block(FoundBlock),
    /// The segment is read; the next one is open.
    Left,
    End,
}

/// A block that was judged.
struct FoundBlock {
    flags: u32,
    position: u64,
    number: u64,
    previous_checksum: u32,
    payload_bytes: usize,
}

impl Cursor {
    fn open(index: &SegmentIndex, reader: u64, at: LogPosition) -> Result<Cursor, TailError> {
        let path = index.path(at.segment);
        let gone = |error: DiskError| match error.source.kind() {
            std::io::ErrorKind::NotFound => TailError::Removed,
            _ => TailError::Disk(error),
        };
        if index.bounds(reader, at.segment).is_none() {
            return Err(TailError::Removed);
        }
        let file = index.disk().open(&path, index.open_mode()).map_err(gone)?;
        let mut window = SectorBuffer::new();
        window.resize(SECTOR_BYTES);
        let count = file.read_at(window.as_mut_slice(), 0)?;
        let sound = SegmentHeader::decode(&window.as_slice()[..count]).ok().filter(|header| {
            (header.database, header.number) == (index.database(), at.segment)
                && header.first_block <= at.block
                && (header.first_block != at.block || header.previous_checksum == at.previous_checksum)
        });
        let Some(header) = sound else {
            return Err(TailError::Rot { path, position: 0, detail: "the segment's header is not what was written" });
        };
        Ok(Cursor {
            file,
            segment: at.segment,
            blocks_end: header.blocks_end(),
            position: at.position,
            next_block: at.block,
            previous_checksum: at.previous_checksum,
            window: SectorBuffer::new(),
            window_position: 0,
            window_durable: 0,
        })
    }

    fn place(&self) -> LogPosition {
        let Cursor { segment, position, next_block: block, previous_checksum, .. } = *self;
        LogPosition { segment, position, block, previous_checksum }
    }

    fn payload(&self, block: &FoundBlock) -> &[u8] {
        let start = (block.position - self.window_position) as usize + BLOCK_HEADER_BYTES;
        &self.window.as_slice()[start..start + block.payload_bytes]
    }

    fn step_back(&mut self, block: &FoundBlock) {
        self.position = block.position;
        self.next_block = block.number;
        self.previous_checksum = block.previous_checksum;
    }

    fn next_block(&mut self, index: &SegmentIndex, reader: u64) -> Result<Found, TailError> {
        let Some(Bounds { durable, next }) = index.bounds(reader, self.segment) else {
            return Err(TailError::Removed);
        };
        if self.next_block > durable {
            return Ok(Found::End);
        }
        if let Some(next) = next.filter(|next| next.first_block <= self.next_block) {
            let at = LogPosition { previous_checksum: self.previous_checksum, ..next.start() };
            *self = Cursor::open(index, reader, at)?;
            return Ok(Found::Left);
        }
        if self.next_block > self.window_durable {
            // What was read then need not be what stands there now.
            self.window.resize(0);
        }
        let bytes = self.have(SECTOR_BYTES, durable)?;
        // A header that is wrong is refused by the decoder.
        let length = bytes.get(12..16).map_or(0, |length| u32::from_le_bytes(length.try_into().expect("4 bytes")));
        let room = (self.blocks_end - self.position) as usize;
        let whole = block_bytes_on_disk(length as usize).min(room);
        let LogPosition { segment, position, block: number, previous_checksum } = self.place();
        let decoded = Block::decode(index.database(), self.have(whole, durable)?);
        let block = match decoded {
            Ok(block) if block.flags == SEAL => Err("a seal stands here"),
            Ok(block) if block.number != number => Err("a block with another number stands here"),
            Ok(block) if block.previous_checksum != previous_checksum => {
                Err("the block does not follow the one before it")
            }
            decoded => decoded,
        };
        let block = block.map_err(|detail| TailError::Rot { path: index.path(segment), position, detail })?;
        let found =
            FoundBlock { flags: block.flags, position, number, previous_checksum, payload_bytes: block.payload.len() };
        let checksum = block.checksum;
        let bytes = block.bytes_on_disk();
        self.position += bytes as u64;
        self.next_block += 1;
        self.previous_checksum = checksum;
        Ok(Found::Block(found))
    }

    /// The file from the next block on, as far as the window has it: that many bytes at least,
    /// unless the file or the room for blocks ends.
    fn have(&mut self, bytes: usize, durable: u64) -> Result<&[u8], TailError> {
        let there = self.window_position + self.window.len() as u64;
        let from = self.position;
        if from < self.window_position || from + bytes as u64 > there {
            let room = (self.blocks_end - from) as usize;
            // Behind the last block nothing stands that could be used.
            let ahead = if self.next_block == durable { bytes } else { bytes.max(CATCH_UP_READ_BYTES) };
            self.window.resize(ahead.min(room));
            let count = self.file.read_at(self.window.as_mut_slice(), from);
            self.window.resize(*count.as_ref().unwrap_or(&0));
            (self.window_position, self.window_durable) = (from, durable);
            count?;
        }
        Ok(&self.window.as_slice()[(from - self.window_position) as usize..])
    }
}
