//! Entries that a member missed, read from this node's log while it is written (decision 0047).
//!
//! The log may have entries of the stream that a later leader replaced, and others several times.
//! The history of the stream's epochs tells which of them count: an epoch has one writer. Promises
//! that what it gives out are the entries of the stream behind one another, each with the bytes
//! that its checksums say, or an error.

use crate::entry::{Entry, EntryError, KIND_ENTRY, KIND_EPOCH_START};
use ferrite_base::limits::PEER_MESSAGE_BYTES_MAX;
use ferrite_base::{GroupId, Position};
use ferrite_log::{SegmentIndex, TailError, TailRead, TailReader};
use ferrite_replica::group::{GroupConfiguration, Header, History, Mark};
use std::fmt;
use std::sync::Arc;

/// Bytes that stand around entries in a message, at most.
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
    /// The next entries, behind the one with this mark, whole and one behind another.
    Entries { previous: Mark, headers: Vec<Header>, entries: &'a [u8] },
    /// Nothing yet; there is more to do.
    Working,
    /// All entries that are completed were given out.
    End,
}

/// Why the log's entries do not suffice.
#[derive(Debug)]
pub enum CatchUpError {
    /// The next entry is not in the log any more, or a member without any needs what was there
    /// before the stream: it has to have a snapshot.
    Removed,
    /// What stands in the log is not the stream: it is damaged.
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

/// Reads a group's entries from the log.
pub struct CatchUp {
    reader: TailReader,
    group: GroupId,
    /// The entry before the next. Its chain checksum is known once it was read, or if it was given.
    previous: Mark,
    known: bool,
    /// The entries that were given out last.
    entries: Vec<u8>,
}

impl CatchUp {
    /// The entries behind the one with that mark.
    pub fn behind(index: &Arc<SegmentIndex>, group: GroupId, mark: Mark) -> CatchUp {
        CatchUp::begin(index, group, mark, mark.position.0 + 1, true)
    }

    /// The entries behind that position. The entry there must be in the log too, since what follows
    /// is compared with it.
    pub fn behind_position(index: &Arc<SegmentIndex>, group: GroupId, position: Position) -> CatchUp {
        let mark = Mark { position, ..Mark::ORIGIN };
        CatchUp::begin(index, group, mark, position.0.max(1), position == Position(0))
    }

    fn begin(index: &Arc<SegmentIndex>, group: GroupId, previous: Mark, first: u64, known: bool) -> CatchUp {
        let reader = TailReader::new(index, group.0, first, PEER_MESSAGE_BYTES_MAX - MESSAGE_OVERHEAD);
        CatchUp { reader, group, previous, known, entries: Vec::new() }
    }

    /// The last position that was given out.
    pub fn position(&self) -> Position {
        self.previous.position
    }

    /// One piece of work: at most one read of the disk. `history` is that of the stream, which up
    /// to [`CatchUp::position`] is what it was at the step before: a leader's is. `durable`: up to
    /// which the log had the stream before this step.
    pub fn step(&mut self, history: &History, durable: Position) -> Result<Missed<'_>, CatchUpError> {
        let payload = match self.reader.step() {
            Ok(TailRead::Payload(payload)) => payload,
            Ok(TailRead::Working) => return Ok(Missed::Working),
            Ok(TailRead::End) => {
                let next = Position(self.previous.position.0 + u64::from(self.known));
                let missing = EntryError("it is missing");
                return match next > durable {
                    true => Ok(Missed::End),
                    false => Err(CatchUpError::Stream { position: next, error: missing }),
                };
            }
            Err(TailError::Removed) => return Err(CatchUpError::Removed),
            Err(error) => return Err(CatchUpError::Log(error)),
        };
        self.entries.clear();
        let (mut headers, mut first) = (Vec::new(), self.previous);
        let mut rest = payload;
        while !rest.is_empty() {
            let record = rest;
            let refuse = |position, error| CatchUpError::Stream { position, error };
            let next = Position(self.previous.position.0 + 1);
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
                if position == self.previous.position {
                    (self.previous, self.known) = (entry.header.mark, true);
                    first = self.previous;
                }
                continue;
            }
            if position != next {
                continue;
            }
            if position == Position(1) && begins_behind(&entry).is_some_and(|parent| parent != self.previous) {
                return Err(CatchUpError::Removed);
            }
            if !entry.follows(self.previous) {
                return Err(refuse(position, EntryError("it does not follow the one before it")));
            }
            self.previous = entry.header.mark;
            headers.push(entry.header);
            self.entries.extend_from_slice(&record[..5 + length]);
        }
        match headers.is_empty() {
            true => Ok(Missed::Working),
            false => Ok(Missed::Entries { previous: first, headers, entries: &self.entries }),
        }
    }
}

/// What a stream's first entry says was there before.
fn begins_behind(entry: &Entry<'_>) -> Option<Mark> {
    GroupConfiguration::decode(entry.header.mark.epoch, entry.body).map(|(_, parent)| parent)
}
