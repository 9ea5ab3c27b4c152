//! Which segments there are, how far they may be read while they are written, and where in them
//! the streams stand whose entries are appended (decision 0047).
//!
//! Shared by the log's thread, which adds to it, by those who read the log's files beside it, and
//! by whoever removes segments. Promises that a reader finds the last place at which an entry was
//! written, and that a segment which somebody reads stays, up to a bound. Does not know what
//! payloads say: [`LogOptions::numbers`](crate::LogOptions::numbers) does.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrite_io::{Disk, DiskResult, OpenMode, SECTOR_BYTES, SectorBuffer};

use crate::durability::Durability;
use crate::format::{DatabaseId, LogPosition, SegmentHeader};
use crate::segment::{segment_numbers, segment_path};
use crate::truncate;

/// Tells streams and numbers of the entries in a payload. What it is given may be cut off behind
/// its first entry's beginning.
pub type Numbers = fn(&[u8], &mut dyn FnMut(u32, u64));

/// What is known of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Indexed {
    pub number: u64,
    /// Of the file.
    pub bytes: u64,
    pub first_block: u64,
    pub previous_checksum: u32,
    /// The first place at which a payload begins; what is before continues the last one of the
    /// segment before. None: there is none, or it is not known yet.
    pub begins: Option<LogPosition>,
    /// For each stream that has entries from `begins` on, the least of their numbers.
    pub least: Vec<(u32, u64)>,
    /// That is true of the whole segment.
    pub whole: bool,
}

impl Indexed {
    pub fn of(header: &SegmentHeader, whole: bool) -> Indexed {
        Indexed {
            number: header.number,
            bytes: header.bytes,
            first_block: header.first_block,
            previous_checksum: header.previous_checksum,
            begins: None,
            least: Vec::new(),
            whole,
        }
    }

    /// Its first block.
    pub fn start(&self) -> LogPosition {
        LogPosition {
            segment: self.number,
            position: SECTOR_BYTES as u64,
            block: self.first_block,
            previous_checksum: self.previous_checksum,
        }
    }

    /// A payload begins there. Whether that was news.
    pub fn note(&mut self, place: LogPosition, payload: &[u8], numbers: Option<Numbers>) -> bool {
        let mut news = self.begins.is_none();
        self.begins.get_or_insert(place);
        let least = &mut self.least;
        if let Some(numbers) = numbers {
            numbers(payload, &mut |stream, number| match least.iter_mut().find(|(known, _)| *known == stream) {
                Some((_, least)) if *least <= number => {}
                Some((_, least)) => {
                    *least = number;
                    news = true;
                }
                None => {
                    least.push((stream, number));
                    news = true;
                }
            });
        }
        news
    }

    /// Adds what `other` knows of the same segment.
    fn merge(&mut self, other: &Indexed) {
        self.begins = [self.begins, other.begins].into_iter().flatten().min_by_key(|place| place.position);
        for (stream, least) in &other.least {
            match self.least.iter_mut().find(|(known, _)| known == stream) {
                Some((_, known)) => *known = (*known).min(*least),
                None => self.least.push((*stream, *least)),
            }
        }
    }

    fn least(&self, stream: u32) -> Option<u64> {
        self.least.iter().find(|(known, _)| *known == stream).map(|(_, least)| *least)
    }
}

/// Where to look for an entry.
pub(crate) enum Located {
    /// It is behind there, or not in the log yet.
    At(LogPosition),
    /// The segment has to be looked through first.
    Unread(Indexed),
    /// Nobody has looked yet which earlier segments there are.
    Unlisted,
    Removed,
}

/// What a reader has to know at each step.
pub(crate) struct Bounds {
    /// Blocks up to this may be read.
    pub durable: u64,
    /// What follows the segment that is read.
    pub next: Option<Indexed>,
}

/// The segments of a log that is open.
pub struct SegmentIndex {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    database: DatabaseId,
    open_mode: OpenMode,
    numbers: Option<Numbers>,
    /// The last block that was completed.
    durable: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// Ascending, without a gap.
    segments: VecDeque<Indexed>,
    /// Whether segments that recovery did not read have been listed.
    listed: bool,
    /// Earlier segments are gone.
    removed_below: u64,
    /// Who reads, and the segment that each has come to.
    readers: Vec<(u64, u64)>,
    next_reader: u64,
}

impl SegmentIndex {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: &Path,
        database: DatabaseId,
        durability: Durability,
        numbers: Option<Numbers>,
        segments: Vec<Indexed>,
    ) -> SegmentIndex {
        // As they are written: so a read past the page cache never has to write it out first.
        let open_mode = match durability {
            Durability::Sync | Durability::Memory => OpenMode::ReadDirect,
            Durability::Interval(_) | Durability::None => OpenMode::Read,
        };
        let state = State {
            listed: segments.first().is_none_or(|first| first.number == 1),
            removed_below: 0,
            segments: segments.into(),
            readers: Vec::new(),
            next_reader: 0,
        };
        SegmentIndex {
            disk,
            dir: dir.to_path_buf(),
            database,
            open_mode,
            numbers,
            durable: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    /// One more who reads, by this number.
    pub(crate) fn enter(&self) -> u64 {
        let mut state = self.state();
        state.next_reader += 1;
        let id = state.next_reader;
        state.readers.push((id, u64::MAX));
        id
    }

    /// Removes the segments before `segment`, lowest first, except those that somebody still reads,
    /// as far as these have no more bytes than `held_bytes_max` together: readers of others are
    /// told that they are removed. How many went. Calls `rest` after each.
    pub fn truncate_before(&self, segment: u64, held_bytes_max: u64, rest: &dyn Fn()) -> DiskResult<usize> {
        let kept = {
            let mut state = self.state();
            let bytes_from = |from: u64| {
                let held = state.segments.iter().filter(|indexed| (from..segment).contains(&indexed.number));
                held.map(|indexed| indexed.bytes).sum::<u64>()
            };
            let read = state.readers.iter().map(|(_, read)| *read);
            let kept = read.filter(|read| *read < segment && bytes_from(*read) <= held_bytes_max).min();
            let kept = kept.unwrap_or(segment);
            state.removed_below = state.removed_below.max(kept);
            while state.segments.front().is_some_and(|first| first.number < kept) {
                state.segments.pop_front();
            }
            for (_, read) in state.readers.iter_mut().filter(|(_, read)| *read < kept) {
                *read = u64::MAX;
            }
            kept
        };
        truncate::truncate_before(&*self.disk, &self.dir, kept, rest)
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Whose log it is.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    pub(crate) fn open_mode(&self) -> OpenMode {
        self.open_mode
    }

    pub(crate) fn numbers(&self) -> Option<Numbers> {
        self.numbers
    }

    pub(crate) fn path(&self, segment: u64) -> PathBuf {
        segment_path(&self.dir, segment)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole at every point where the lock can be lost to a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All blocks up to this are completed, and with durability `sync` durable.
    pub(crate) fn completed(&self, block: u64) {
        self.durable.store(block, Ordering::Release);
    }

    /// The last segment, as it is known now.
    pub(crate) fn update(&self, last: &Indexed) {
        let mut state = self.state();
        match state.segments.back_mut().filter(|known| known.number == last.number) {
            Some(known) => known.merge(last),
            None => state.segments.push_back(last.clone()),
        }
    }

    /// Where the last entry with that number is, if it is in the log.
    pub(crate) fn locate(&self, reader: u64, stream: u32, number: u64) -> Located {
        let mut state = self.state();
        // Numbers go back only where a suffix was replaced, and then everything behind came later:
        // the last entry of a number is in the last segment that has one as low.
        let last = state.segments.iter().rev().find_map(|indexed| {
            let place = indexed.begins?;
            indexed.least(stream).is_some_and(|least| least <= number).then_some(place)
        });
        let (segment, located) = match last {
            Some(place) => (place.segment, Located::At(place)),
            None => match state.segments.iter().rev().find(|indexed| !indexed.whole) {
                Some(unread) => (unread.number, Located::Unread(unread.clone())),
                None if !state.listed => (u64::MAX, Located::Unlisted),
                None => {
                    let begins = state.segments.front().filter(|first| first.first_block == 1);
                    let unknown = state.segments.iter().all(|indexed| indexed.least(stream).is_none());
                    match begins.filter(|_| unknown) {
                        // Nothing of the stream has ever come.
                        Some(first) => (first.number, Located::At(first.start())),
                        None => (u64::MAX, Located::Removed),
                    }
                }
            },
        };
        state.hold(reader, segment);
        located
    }

    /// Lists the segments that recovery did not read.
    pub(crate) fn list_earlier(&self) -> DiskResult<()> {
        let (mut first, removed_below) = {
            let state = self.state();
            let Some(first) = state.segments.front() else { return Ok(()) };
            (first.clone(), state.removed_below)
        };
        let there = segment_numbers(self.disk(), &self.dir)?;
        let mut earlier = Vec::new();
        let mut sector = SectorBuffer::new();
        sector.resize(SECTOR_BYTES);
        while first.number > removed_below.max(1) && there.contains(&(first.number - 1)) {
            let file = self.disk.open(&self.path(first.number - 1), self.open_mode)?;
            let count = file.read_at(sector.as_mut_slice(), 0)?;
            let Ok(header) = SegmentHeader::decode(&sector.as_slice()[..count]) else { break };
            if header.database != self.database
                || header.number != first.number - 1
                || header.first_block >= first.first_block
            {
                break;
            }
            first = Indexed::of(&header, false);
            earlier.push(first.clone());
        }
        let mut state = self.state();
        state.listed = true;
        for indexed in earlier {
            let next = state.segments.front().is_some_and(|first| first.number == indexed.number + 1);
            if next && indexed.number >= state.removed_below {
                state.segments.push_front(indexed);
            }
        }
        Ok(())
    }

    /// The segment was looked through.
    pub(crate) fn looked_through(&self, segment: &Indexed) {
        let mut state = self.state();
        if let Some(known) = state.segments.iter_mut().find(|known| known.number == segment.number) {
            known.merge(segment);
            known.whole = true;
        }
    }

    /// How far the reader may go, or None: its segment is removed. From now on the reader holds
    /// this segment.
    pub(crate) fn bounds(&self, reader: u64, segment: u64) -> Option<Bounds> {
        let durable = self.durable.load(Ordering::Acquire);
        let mut state = self.state();
        if segment < state.removed_below {
            return None;
        }
        state.hold(reader, segment);
        let next = state.segments.iter().find(|indexed| indexed.number == segment + 1).cloned();
        Some(Bounds { durable, next })
    }

    pub(crate) fn leave(&self, reader: u64) {
        self.state().readers.retain(|(id, _)| *id != reader);
    }
}

impl State {
    fn hold(&mut self, reader: u64, segment: u64) {
        if let Some((_, held)) = self.readers.iter_mut().find(|(id, _)| *id == reader) {
            *held = segment;
        }
    }
}
