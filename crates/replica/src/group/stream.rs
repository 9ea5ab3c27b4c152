//! The stream of one group as far as this node has it: its end, what is durable, and recent
//! checksums.

use super::entry::{Header, Mark};
use super::history::History;
use ferrite_base::Position;
use std::collections::VecDeque;

/// Entries whose checksums and sizes are remembered. Older ones are compared by their epoch alone.
const RECENT_MAX: usize = 65_536;
/// Older entries that are sent before an answer.
const FORGOTTEN_ON_THEIR_WAY: u64 = 256;

#[derive(Clone, Copy, Debug)]
struct Recent {
    chain: u32,
    /// Bytes of the stream up to and with this entry, counted from when the process started.
    bytes: u64,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub history: History,
    end: Mark,
    durable: Position,
    bytes: u64,
    /// Of the last entries, the newest last.
    recent: VecDeque<Recent>,
}

impl Stream {
    pub fn new(history: History, end: Mark) -> Stream {
        // What an earlier release wrote counts as an epoch before the first position.
        let known = end.position == Position(0) || history.epoch_at(end.position) == end.epoch;
        assert!(known, "the history says who wrote the last entry");
        let recent = VecDeque::from([Recent { chain: end.chain, bytes: 0 }]);
        Stream { history, end, durable: end.position, bytes: 0, recent }
    }

    pub fn end(&self) -> Mark {
        self.end
    }

    pub fn durable(&self) -> Position {
        self.durable
    }

    pub fn push(&mut self, header: &Header) {
        let Mark { epoch, position, chain } = header.mark;
        assert_eq!(position.0, self.end.position.0 + 1, "entries are appended in order");
        if header.starts_epoch {
            self.history.begin(epoch, position);
        }
        self.end = header.mark;
        self.bytes += u64::from(header.bytes);
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent { chain, bytes: self.bytes });
    }

    /// The log has everything up to there.
    pub fn written(&mut self, position: Position) {
        assert!(position <= self.end.position, "durable before it was appended: {position}");
        self.durable = self.durable.max(position);
    }

    /// Forgets the entries after `last`, which is the leader's mark of an entry that is here.
    pub fn drop_behind(&mut self, last: Mark) {
        assert!(last.position < self.end.position && self.has(last), "only what is there can be dropped");
        let gone = (self.end.position.0 - last.position.0) as usize;
        self.recent.truncate(self.recent.len().saturating_sub(gone));
        self.history.cut(Position(last.position.0 + 1));
        self.end = last;
        if self.recent.is_empty() {
            self.recent.push_back(Recent { chain: last.chain, bytes: self.bytes });
        }
        self.bytes = self.recent.back().expect("one at least").bytes;
        self.durable = self.durable.min(last.position);
    }

    fn recent(&self, position: Position) -> Option<Recent> {
        let back = self.end.position.0.checked_sub(position.0)? as usize;
        let index = self.recent.len().checked_sub(back + 1)?;
        Some(self.recent[index])
    }

    /// The mark of an entry that is there; its checksum is None where it is forgotten.
    pub fn chain_at(&self, position: Position) -> Option<u32> {
        self.recent(position).map(|recent| recent.chain)
    }

    pub fn mark_at(&self, position: Position) -> Mark {
        let chain = self.chain_at(position).unwrap_or(0);
        Mark { epoch: self.history.epoch_at(position), position, chain }
    }

    /// Whether the mark is in this stream, as far as that can be told. Its beginning is in every
    /// stream.
    pub fn has(&self, mark: Mark) -> bool {
        mark.position == Position(0)
            || mark.position <= self.end.position && self.history.epoch_at(mark.position) == mark.epoch
    }

    /// Whether two marks of one epoch and position differ: a stream was damaged.
    pub fn contradicts(&self, mark: Mark) -> bool {
        self.has(mark) && self.chain_at(mark.position).is_some_and(|chain| chain != mark.chain)
    }

    /// Bytes after `position`; those of entries long gone are not counted.
    pub fn bytes_behind(&self, position: Position) -> u64 {
        match self.recent(position) {
            Some(recent) => self.bytes - recent.bytes,
            None if position >= self.end.position => 0,
            // More than all that is remembered.
            None => u64::MAX,
        }
    }

    /// The last entry to send after `after`, if everything up to `durable` has arrived and at most
    /// `window` bytes are to be on their way; at least one entry, if none is. A fixed number of
    /// entries whose sizes are forgotten.
    pub fn reach(&self, durable: Position, after: Position, window: u64) -> Position {
        let Some(from) = self.recent(durable) else {
            let last = Position(durable.0 + FORGOTTEN_ON_THEIR_WAY);
            return last.min(self.end.position).max(after);
        };
        let first = self.recent.len() - (self.end.position.0 - durable.0) as usize;
        let behind = self.recent.range(first..);
        let count = behind.take_while(|recent| recent.bytes - from.bytes <= window).count() as u64;
        Position(durable.0 + count.max(1)).min(self.end.position).max(after)
    }
}
