//! Puts appends into blocks and blocks into segments, and makes them durable. One owner, no threads
//! of its own but the preparer's.
//!
//! Any error leaves it in an undefined state: the caller must not use it again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ferrite_base::planted;
use ferrite_io::{Disk, DiskFile, DiskResult, OpenMode, SECTOR_BYTES, SectorBuffer};

use crate::begun::{Begun, BegunFile, KnownEnd};
use crate::durability::Durability;
use crate::format::{
    BLOCK_HEADER_BYTES, CLEAN_END, CONTINUES, DatabaseId, LogPosition, OPENED, SegmentHeader, begin_block,
    block_bytes_on_disk, encode_seal, finish_block,
};
use crate::inbox::Mark;
use crate::index::{Indexed, SegmentIndex};
use crate::opened::{Tail, Unsealed};
use crate::options::LogOptions;
use crate::prepare::{Ahead, Preparer};
use crate::segment::{Blank, segment_path};
use crate::statistics::LogStatistics;

/// Finished blocks beyond this are written before more are put together.
const FLUSH_BYTES: usize = 4_194_304;
/// The next segment is asked for when this part of the current one is full.
const PREPARE_AT_PART: u64 = 4;

pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    durability: Durability,
    block_bytes_max: usize,
    new_segment_bytes: u64,
    database: DatabaseId,
    preparer: Preparer,
    statistics: Arc<LogStatistics>,

    file: Arc<dyn DiskFile>,
    segment_number: u64,
    segment_bytes: u64,
    /// Where in the file the room for blocks ends.
    blocks_end: u64,
    /// Where in the file the next block begins.
    position: u64,
    /// Where in the file the buffer goes.
    buffer_position: u64,
    buffer: SectorBuffer,
    /// The file has writes that were not fsynced.
    unsynced: bool,
    /// Where in the buffer the block begins that is being put together.
    open_block: Option<usize>,

    next_block: u64,
    previous_checksum: u32,
    last_flags: u32,
    /// All blocks up to this are fsynced.
    durable_through: u64,
    /// The last block of the batch before the current one.
    batch_after: u64,

    /// Segments that were left and have no seal yet, ascending.
    left: Vec<Left>,
    /// What says how far the log reaches; there once block 1 is durable.
    begun: Option<Arc<BegunFile>>,
    /// For those who read what is written; and what it is to know of the current segment.
    index: Arc<SegmentIndex>,
    indexed: Indexed,
}

/// A segment that is full. Its seal, written once the first block behind it is durable, says that
/// the log does not end with it.
struct Left {
    file: Arc<dyn DiskFile>,
    /// Where in the file the seal goes.
    seal_at: u64,
    /// The number of the first block behind the segment, and the checksum of the last one in it.
    block_behind: u64,
    last_checksum: u32,
}

impl Writer {
    /// Goes on where recovery ended.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: &LogOptions,
        statistics: Arc<LogStatistics>,
        index: Arc<SegmentIndex>,
        tail: Tail,
    ) -> DiskResult<Self> {
        let file = disk.open(&segment_path(dir, tail.segment_number), open_mode(options.durability))?;
        let mut left = Vec::with_capacity(tail.unsealed.len());
        for Unsealed { number, seal_at, block_behind, last_checksum } in tail.unsealed {
            let file = Arc::from(disk.open(&segment_path(dir, number), open_mode(options.durability))?);
            left.push(Left { file, seal_at, block_behind, last_checksum });
        }
        let ahead = match (options.prepare_ahead, options.own_threads) {
            (false, _) => Ahead::Never,
            (true, true) => Ahead::Thread,
            (true, false) => Ahead::Steps,
        };
        let begun = match tail.begun {
            Begun::Known { database, generation, .. } => {
                Some(Arc::new(BegunFile::open(&*disk, dir, database, generation)?))
            }
            // One of an earlier release is replaced as soon as there is more to say.
            Begun::Once | Begun::Never => None,
        };
        let blank = Blank::of(options.durability);
        let preparer = Preparer::new(disk.clone(), dir.to_path_buf(), options.segment_bytes, blank, ahead, tail.spare)?;
        let mut writer = Writer {
            disk,
            dir: dir.to_path_buf(),
            durability: options.durability,
            block_bytes_max: options.block_bytes_max,
            new_segment_bytes: options.segment_bytes,
            database: tail.database,
            preparer,
            statistics,
            file: Arc::from(file),
            segment_number: tail.segment_number,
            segment_bytes: tail.segment_bytes,
            blocks_end: tail.blocks_end,
            position: tail.position,
            buffer_position: tail.position,
            buffer: SectorBuffer::new(),
            unsynced: false,
            open_block: None,
            next_block: tail.next_block,
            previous_checksum: tail.previous_checksum,
            last_flags: tail.last_flags,
            durable_through: tail.next_block - 1,
            batch_after: tail.next_block - 1,
            left,
            begun,
            index,
            indexed: tail.indexed.into_iter().next_back().expect("the segment that is written on was indexed"),
        };
        writer.statistics.segment.store(writer.segment_number, Relaxed);
        if !planted!(RecoveredNotMarked) {
            writer.mark_recovered(tail.needs_opened, options.accept_loss.is_some())?;
        }
        writer.completed();
        Ok(writer)
    }

    /// What was replayed is durable, and is going to be shown: from now on its loss must be
    /// noticed.
    fn mark_recovered(&mut self, needs_opened: bool, loss_was_accepted: bool) -> DiskResult<()> {
        if needs_opened {
            self.write_mark(OPENED)?;
        }
        self.seal_left(true)?;
        // What was accepted to be lost must not be missed again, whichever of the two things that
        // are said is read.
        for _ in 0..if loss_was_accepted { 2 } else { 1 } {
            self.write_end(false)?;
        }
        Ok(())
    }

    /// Writes the payloads, empty ones left out, in as few blocks as the limits allow. Durable only
    /// after `sync`. One with a mark begins a block.
    pub fn write<'a>(&mut self, payloads: impl Iterator<Item = (&'a [u8], Option<&'a Mark>)>) -> DiskResult<()> {
        assert!(self.open_block.is_none() && self.buffer.is_empty(), "the batch before was written");
        self.begin_batch()?;
        for (payload, mark) in payloads.filter(|(payload, _)| !payload.is_empty()) {
            self.statistics.payload_bytes.fetch_add(payload.len() as u64, Relaxed);
            if let Some(mark) = mark {
                let _ = mark.set(self.place_of_next(payload)?);
            }
            if payload.len() <= self.block_bytes_max {
                self.put(payload)?;
            } else {
                self.put_in_pieces(payload)?;
            }
        }
        self.end_block(0)?;
        self.flush()?;
        if self.position >= self.segment_bytes / PREPARE_AT_PART {
            self.preparer.request(self.segment_number + 1, self.position);
        }
        Ok(())
    }

    /// Makes all that was written durable, unless the mode leaves full segments to the preparer.
    pub fn sync(&mut self) -> DiskResult<()> {
        assert!(self.open_block.is_none() && self.buffer.is_empty(), "what is synced was written before");
        if self.unsynced {
            let again = |error| if planted!(FsyncRetried) { self.file.sync_data() } else { Err(error) };
            self.file.sync_data().or_else(again)?;
            self.unsynced = false;
        }
        assert!(self.durable_through < self.next_block, "blocks are durable after they were numbered");
        self.durable_through = self.next_block - 1;
        self.seal_left(true)
    }

    /// Seals the segments behind which a block is durable. Whole batches are durable only, so no
    /// seal speaks for a part of a group.
    fn seal_left(&mut self, durably: bool) -> DiskResult<()> {
        if self.begun.is_none() && self.durable_through > 0 {
            let end = self.end().unwrap_or_default();
            self.begun = Some(Arc::new(BegunFile::create(&*self.disk, &self.dir, self.database, end)?));
        }
        while let Some(first) = self.left.first()
            && first.block_behind <= self.durable_through
        {
            let seal = encode_seal(self.database, self.durable_through, first.last_checksum);
            first.file.write_at(seal.as_slice(), first.seal_at)?;
            if durably {
                first.file.sync_data()?;
            }
            self.left.remove(0);
        }
        Ok(())
    }

    /// Where the log ends, if all of it is durable.
    fn end(&self) -> Option<KnownEnd> {
        (!self.unsynced && self.durable_through == self.next_block - 1).then_some(KnownEnd {
            block: self.durable_through,
            checksum: self.previous_checksum,
            segment: self.segment_number,
            position: self.position,
            clean: false,
        })
    }

    /// All that was written may be shown to those who read the log.
    pub fn completed(&self) {
        self.index.completed(self.next_block - 1);
    }

    /// Writes down where the log ends.
    fn write_end(&mut self, clean: bool) -> DiskResult<()> {
        match (&self.begun, self.end()) {
            _ if planted!(EndNotRecorded) => Ok(()),
            (Some(begun), Some(end)) => begun.write(KnownEnd { clean, ..end }),
            _ => Ok(()),
        }
    }

    /// Has it written down off the commit path; whether that could be, since all that was written
    /// is durable.
    pub fn note_end(&mut self) -> DiskResult<bool> {
        let (Some(begun), Some(end)) = (&self.begun, self.end()) else { return Ok(false) };
        if !planted!(IdleEndNotRecorded) {
            self.preparer.note_end(begun, end)?;
        }
        Ok(true)
    }

    /// The first of the log's files that somebody has removed or replaced, if any. A file that
    /// cannot be looked at is none: writing will tell.
    pub fn out_of_place(&self) -> Option<PathBuf> {
        if planted!(FilesNotChecked) {
            return None;
        }
        if !self.file.is_in_place().unwrap_or(true) {
            return Some(self.file.path().to_path_buf());
        }
        let begun = self.begun.as_ref()?;
        (!begun.is_in_place().unwrap_or(true)).then(|| crate::begun::path(&self.dir))
    }

    /// Where no thread works ahead: does one piece of such work, if there is any.
    pub fn step_ahead(&mut self) -> bool {
        self.preparer.step()
    }

    /// Makes everything durable and marks the end as clean.
    pub fn finish(&mut self) -> DiskResult<()> {
        self.preparer.finish()?;
        self.sync()?;
        if self.next_block > 1 && self.last_flags != CLEAN_END {
            self.write_mark(CLEAN_END)?;
        }
        self.write_end(true)
    }

    fn write_mark(&mut self, flags: u32) -> DiskResult<()> {
        self.begin_batch()?;
        if !self.fits(0) {
            self.next_segment()?;
        }
        self.begin_block();
        self.end_block(flags)?;
        self.flush()?;
        self.sync()
    }

    fn begin_batch(&mut self) -> DiskResult<()> {
        self.durable_through = self.durable_through.max(self.preparer.retired_through()?);
        self.batch_after = self.next_block - 1;
        // Where nobody waits for the disk, seals are written as the blocks are: for the operating
        // system to make durable.
        if self.durability == Durability::None { self.seal_left(false) } else { Ok(()) }
    }

    /// Ends the block that is open, and says where the next begins, which will hold the payload or
    /// its first piece.
    fn place_of_next(&mut self, payload: &[u8]) -> DiskResult<LogPosition> {
        self.end_block(0)?;
        if !self.fits(if payload.len() <= self.block_bytes_max { payload.len() } else { 1 }) {
            self.next_segment()?;
        }
        Ok(LogPosition {
            segment: self.segment_number,
            position: self.position,
            block: self.next_block,
            previous_checksum: self.previous_checksum,
        })
    }

    fn put(&mut self, payload: &[u8]) -> DiskResult<()> {
        if let Some(start) = self.open_block {
            let together = self.buffer.len() - start - BLOCK_HEADER_BYTES + payload.len();
            if together <= self.block_bytes_max && self.fits(together) {
                self.note(payload);
                self.buffer.extend(payload);
                return Ok(());
            }
            self.end_block(0)?;
        }
        if !self.fits(payload.len()) {
            self.next_segment()?;
        }
        self.note(payload);
        self.begin_block();
        self.buffer.extend(payload);
        Ok(())
    }

    /// The payload begins in the block that is open, or in the next.
    fn note(&mut self, payload: &[u8]) {
        let place = LogPosition {
            segment: self.segment_number,
            position: self.position,
            block: self.next_block,
            previous_checksum: self.previous_checksum,
        };
        if self.indexed.note(place, payload, self.index.numbers()) {
            self.index.update(&self.indexed);
        }
    }

    /// An append larger than a block: a group of its own.
    fn put_in_pieces(&mut self, payload: &[u8]) -> DiskResult<()> {
        self.end_block(0)?;
        let mut rest = payload;
        while !rest.is_empty() {
            if !self.fits(1) {
                self.next_segment()?;
            }
            if rest.len() == payload.len() {
                self.note(payload);
            }
            let room = (self.blocks_end - self.position) as usize - BLOCK_HEADER_BYTES;
            let (piece, after) = rest.split_at(rest.len().min(self.block_bytes_max).min(room));
            self.begin_block();
            self.buffer.extend(piece);
            self.end_block(if after.is_empty() { 0 } else { CONTINUES })?;
            rest = after;
        }
        Ok(())
    }

    fn fits(&self, payload_length: usize) -> bool {
        block_bytes_on_disk(payload_length) as u64 <= self.blocks_end - self.position
    }

    fn begin_block(&mut self) {
        self.open_block = Some(begin_block(&mut self.buffer));
    }

    fn end_block(&mut self, flags: u32) -> DiskResult<()> {
        let Some(start) = self.open_block.take() else { return Ok(()) };
        self.previous_checksum = finish_block(
            &mut self.buffer,
            start,
            self.database,
            flags,
            self.next_block,
            self.durable_through,
            self.previous_checksum,
        );
        self.position += (self.buffer.len() - start) as u64;
        self.next_block += 1;
        self.last_flags = flags;
        self.statistics.blocks.fetch_add(1, Relaxed);
        if self.buffer.len() >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> DiskResult<()> {
        if !self.buffer.is_empty() {
            let end = self.buffer_position + self.buffer.len() as u64;
            assert!(end == self.position && end <= self.blocks_end, "blocks lie behind one another in their segment");
            self.unsynced = true;
            self.file.write_at(self.buffer.as_slice(), self.buffer_position)?;
            self.statistics.written_bytes.fetch_add(self.buffer.len() as u64, Relaxed);
            self.buffer.clear(FLUSH_BYTES);
        }
        self.buffer_position = self.position;
        Ok(())
    }

    /// Leaves the current segment. The header of the next one goes to disk together with the first
    /// block.
    fn next_segment(&mut self) -> DiskResult<()> {
        self.flush()?;
        let number = self.segment_number + 1;
        self.preparer.wait(number)?;
        let next = self.disk.open(&segment_path(&self.dir, number), open_mode(self.durability))?;
        let full = std::mem::replace(&mut self.file, Arc::from(next));
        // One of an earlier release has blocks there.
        if self.blocks_end < self.segment_bytes {
            self.left.push(Left {
                file: Arc::clone(&full),
                seal_at: self.blocks_end,
                block_behind: self.next_block,
                last_checksum: self.previous_checksum,
            });
        }
        // What `sync` does not reach any more. `durable_through` stays: it must not name blocks of
        // the current batch.
        match self.durability {
            Durability::Sync | Durability::Memory if !self.unsynced => {}
            Durability::Sync | Durability::Memory => full.sync_data()?,
            Durability::Interval(_) => {
                if self.unsynced {
                    full.sync_data()?;
                }
                self.preparer.forget(full);
            }
            Durability::None => self.preparer.retire(full, self.batch_after)?,
        }
        self.unsynced = false;
        self.segment_number = number;
        self.segment_bytes = self.new_segment_bytes;
        let header = SegmentHeader {
            sealed_at_end: true,
            database: self.database,
            number,
            bytes: self.segment_bytes,
            first_block: self.next_block,
            durable_through: self.durable_through,
            previous_checksum: self.previous_checksum,
        };
        self.blocks_end = header.blocks_end();
        self.indexed = Indexed::of(&header, true);
        self.index.update(&self.indexed);
        self.buffer.extend(&header.encode());
        self.buffer_position = 0;
        self.position = SECTOR_BYTES as u64;
        self.statistics.segments.fetch_add(1, Relaxed);
        self.statistics.segment.store(number, Relaxed);
        Ok(())
    }
}

/// Writes that are waited for go straight to the disk, which spares copying and page cache; others
/// go where they return at once.
fn open_mode(durability: Durability) -> OpenMode {
    match durability {
        Durability::Sync | Durability::Memory => OpenMode::WriteDirect,
        Durability::Interval(_) | Durability::None => OpenMode::Write,
    }
}
