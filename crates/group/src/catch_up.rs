//! Entries that a member missed, read from this node's log while it is written (decision 0047).
//!
//! The log may have entries of the stream that a later leader replaced, and may have others several
//! times. The history of the stream's epochs tells which of them count: an epoch has one writer.
//! Promises that it gives out the entries of the stream in sequence, each with the bytes that its
//! checksums say, or an error.

use crate::entry::{Entry, EntryError, HEADER_BYTES, KIND_ENTRY, KIND_EPOCH_START};
use ferrite_base::limits::{LOG_BLOCK_BYTES_MAX, PEER_MESSAGE_BYTES_MAX};
use ferrite_base::{GroupId, Position};
use ferrite_log::{SegmentIndex, TailError, TailRead, TailReader};
use ferrite_replica::group::{GroupConfiguration, Header, History, Mark};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Bytes around the entries in a message, at most.
const MESSAGE_OVERHEAD: usize = 1_024;

/// Groups and positions of the entries in a payload of the log, for
/// [`ferrite_log::LogOptions::numbers`].
pub fn numbers(payload: &[u8], found: &mut dyn FnMut(u32, u64)) {
    let mut rest = payload;
    while let Some(([kind, length @ ..], behind)) = rest.split_first_chunk::<5>() {
        if matches!(*kind, KIND_ENTRY | KIND_EPOCH_START)
            && let (Some(group), Some(position)) = (behind.first_chunk::<4>(), behind.get(12..20))
        {
            let position = u64::from_le_bytes(position.try_into().expect("8 bytes"));
            found(u32::from_le_bytes(*group), position);
        }
        rest = behind.get(u32::from_le_bytes(*length) as usize..).unwrap_or_default();
    }
}

/// What a step came to.
#[derive(PartialEq, Eq, Debug)]
pub enum Missed<'a> {
    /// The next entries after the one with this mark, whole and in sequence.
    Entries { previous: Mark, headers: Vec<Header>, entries: &'a [u8] },
    /// Nothing yet; there is more to do.
    Working,
    /// All entries that are wanted and completed were given out.
    End,
}

/// Why the log's entries do not suffice.
#[derive(Debug)]
pub enum CatchUpError {
    /// The next entry is not in the log any more, or a member without any needs what was there
    /// before the stream: it has to have a snapshot.
    Removed,
    /// The log's entries are not the stream: it is damaged.
    Stream {
        position: Position,
        error: EntryError,
    },
    Log(TailError),
}

impl fmt::Display for CatchUpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CatchUpError::Removed => TailError::Removed.fmt(f),
            CatchUpError::Stream { position, error } => {
                write!(f, "the redo log cannot be read at entry {position} of the group: {error}")
            }
            CatchUpError::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CatchUpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CatchUpError::Removed => None,
            CatchUpError::Stream { error, .. } => Some(error),
            CatchUpError::Log(error) => Some(error),
        }
    }
}

/// What is asked for in a step.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The last entry that is to be given out.
    pub up_to: Position,
    /// Bytes of entries that are given out together; more where one has more.
    pub bytes: usize,
    /// The log had the stream up to there before this step.
    pub durable: Position,
}

/// Reads a group's entries from the log.
pub struct CatchUp {
    reader: TailReader,
    group: GroupId,
    /// The last entry that was given out, or the one before all.
    given: Mark,
    /// The last that was read. Its chain checksum is known once it was, or if it was given.
    read: Mark,
    known: bool,
    /// What was read and not given out, and its bytes, from there on.
    headers: VecDeque<Header>,
    entries: Vec<u8>,
    from: usize,
    /// Entries of the stream later than the next one were read.
    beyond: bool,
}

impl CatchUp {
    /// The entries after the one with that mark.
    pub fn behind(index: &Arc<SegmentIndex>, group: GroupId, mark: Mark) -> CatchUp {
        CatchUp::begin(index, group, mark, mark.position.0 + 1, true)
    }

    /// The entries after that position. The entry there must be in the log too, since what follows
    /// is compared with it.
    pub fn behind_position(index: &Arc<SegmentIndex>, group: GroupId, position: Position) -> CatchUp {
        let mark = Mark { position, ..Mark::ORIGIN };
        CatchUp::begin(index, group, mark, position.0.max(1), position == Position(0))
    }

    fn begin(index: &Arc<SegmentIndex>, group: GroupId, mark: Mark, first: u64, known: bool) -> CatchUp {
        let reader = TailReader::new(index, group.0, first, PEER_MESSAGE_BYTES_MAX - MESSAGE_OVERHEAD);
        let headers = VecDeque::new();
        let entries = Vec::new();
        CatchUp { reader, group, given: mark, read: mark, known, headers, entries, from: 0, beyond: false }
    }

    /// The last position that was given out.
    pub fn position(&self) -> Position {
        self.given.position
    }

    /// One piece of work: at most one read of the disk. `history` is that of the stream, which up
    /// to [`CatchUp::position`] is what it was at the step before: a leader's is.
    pub fn step(&mut self, history: &History, wanted: Wanted) -> Result<Missed<'_>, CatchUpError> {
        // What was read may have been replaced since. What took its place comes after it in the
        // log.
        let replaced = |header: &Header| history.epoch_at(header.mark.position) != header.mark.epoch;
        if let Some(first) = self.headers.iter().position(replaced) {
            self.headers.truncate(first);
            self.read = self.headers.back().map_or(self.given, |last| last.mark);
        }
        if self.headers.is_empty() && self.read_payload(history, wanted.durable)? {
            return Ok(Missed::End);
        }
        let mut headers = Vec::new();
        let mut bytes = 0;
        while let Some(header) = self.headers.front() {
            if header.mark.position > wanted.up_to {
                break;
            }
            let length = HEADER_BYTES + header.bytes as usize;
            if bytes > 0 && bytes + length > wanted.bytes {
                break;
            }
            bytes += length;
            headers.extend(self.headers.pop_front());
        }
        match headers.last() {
            Some(last) => {
                let previous = std::mem::replace(&mut self.given, last.mark);
                let entries = &self.entries[self.from..self.from + bytes];
                self.from += bytes;
                Ok(Missed::Entries { previous, headers, entries })
            }
            None if self.headers.is_empty() => Ok(Missed::Working),
            None => Ok(Missed::End),
        }
    }

    /// Reads on by one payload, if there is one. Returns whether this is the end.
    fn read_payload(&mut self, history: &History, durable: Position) -> Result<bool, CatchUpError> {
        if self.entries.capacity() > LOG_BLOCK_BYTES_MAX {
            self.entries = Vec::new();
        }
        self.entries.clear();
        self.from = 0;
        let payload = match self.reader.step() {
            Ok(TailRead::Payload(payload)) => payload,
            Ok(TailRead::Working) => return Ok(false),
            Ok(TailRead::End) => {
                let next = Position(self.read.position.0 + u64::from(self.known));
                let missing = EntryError("it is missing");
                return match next > durable {
                    true => Ok(true),
                    // This node began with a snapshot after that position.
                    false if self.beyond => Err(CatchUpError::Removed),
                    false => Err(CatchUpError::Stream { position: next, error: missing }),
                };
            }
            Err(TailError::Removed) => return Err(CatchUpError::Removed),
            Err(error) => return Err(CatchUpError::Log(error)),
        };
        let mut rest = payload;
        while !rest.is_empty() {
            let record = rest;
            let refuse = |position, error| CatchUpError::Stream { position, error };
            let next = Position(self.read.position.0 + 1);
            let early = || refuse(next, EntryError("a record ends early"));
            let ([kind, length @ ..], behind) = record.split_first_chunk::<5>().ok_or_else(early)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (fields, behind) = behind.split_at_checked(length).ok_or_else(early)?;
            rest = behind;
            if !matches!(*kind, KIND_ENTRY | KIND_EPOCH_START) {
                continue;
            }
            let entry = Entry::decode(*kind, fields).map_err(|error| refuse(next, error))?;
            let Mark { epoch, position, .. } = entry.header.mark;
            if entry.group != self.group || history.epoch_at(position) != epoch {
                continue;
            }
            if !self.known {
                if position == self.read.position {
                    (self.read, self.known) = (entry.header.mark, true);
                    self.given = self.read;
                }
                self.beyond |= position > self.read.position;
                continue;
            }
            if position != next {
                self.beyond |= position > next;
                continue;
            }
            self.beyond = false;
            if position == Position(1) && begins_behind(&entry).is_some_and(|parent| parent != self.read) {
                return Err(CatchUpError::Removed);
            }
            if !entry.follows(self.read) {
                return Err(refuse(position, EntryError("it does not follow the one before it")));
            }
            self.read = entry.header.mark;
            self.headers.push_back(entry.header);
            self.entries.extend_from_slice(&record[..5 + length]);
        }
        Ok(false)
    }
}

/// What a stream's first entry says was there before.
fn begins_behind(entry: &Entry<'_>) -> Option<Mark> {
    GroupConfiguration::decode(entry.header.mark.epoch, entry.body).map(|(_, parent)| parent)
}
