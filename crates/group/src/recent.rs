//! The last entries of a group's stream, in memory, for members that missed a little (decision
//! 0047).
//!
//! An entry is shared by reference count with whoever else holds it: log, outboxes. Promises that
//! what it gives out is the end of the stream as it was pushed, without a gap, and that it keeps
//! no more bytes than it may. Does not know members, nor what an entry holds.

use ferrite_base::Position;
use ferrite_replica::group::{Header, Mark};
use std::collections::VecDeque;
use std::collections::vec_deque;
use std::sync::Arc;

/// What an entry takes beside its bytes: its place in the queue, the count, the allocation.
const ENTRY_OVERHEAD: usize = 128;

/// An entry and its bytes, whole, as they stand in the log.
#[derive(Clone, Debug)]
pub struct SharedEntry {
    pub header: Header,
    pub bytes: Arc<Vec<u8>>,
}

impl SharedEntry {
    /// Memory that it holds. The allocation's size counts, not what is used of it.
    pub(crate) fn cost(&self) -> usize {
        self.bytes.capacity() + ENTRY_OVERHEAD
    }
}

/// The entries behind a position.
pub enum Behind<'a> {
    /// All up to the stream's end, behind the entry with this mark.
    Here { previous: Mark, entries: vec_deque::Iter<'a, SharedEntry> },
    /// Some are no longer here: they are in the log.
    Gone,
    /// The stream does not reach that far.
    Beyond,
}

/// The last entries of a stream.
pub struct Recent {
    entries: VecDeque<SharedEntry>,
    /// The entry before the first that is here.
    before: Mark,
    bytes: usize,
    bytes_max: usize,
}

impl Recent {
    /// Behind an entry with that mark; of the entries before it none is here.
    pub fn new(end: Mark, bytes_max: usize) -> Recent {
        Recent { entries: VecDeque::new(), before: end, bytes: 0, bytes_max }
    }

    /// Memory that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the stream ends.
    pub fn end(&self) -> Mark {
        self.entries.back().map_or(self.before, |last| last.header.mark)
    }

    /// The next entry, behind `previous`: the stream's end, or an entry in its middle, behind which
    /// another leader goes on. What was behind that is dropped.
    ///
    /// # Panics
    /// If the entry is not the one behind `previous`, or another entry has that place.
    pub fn push(&mut self, previous: Mark, entry: SharedEntry) {
        assert_eq!(entry.header.mark.position.0, previous.position.0 + 1, "entries come in order");
        if previous != self.end() {
            self.drop_behind(previous);
        }
        self.bytes += entry.cost();
        self.entries.push_back(entry);
        self.evict();
    }

    /// Forgets the entries behind `last`.
    ///
    /// # Panics
    /// If another entry has that place.
    pub fn drop_behind(&mut self, last: Mark) {
        match last.position.0.checked_sub(self.before.position.0) {
            Some(kept) if kept as usize <= self.entries.len() => {
                for dropped in self.entries.drain(kept as usize..) {
                    self.bytes -= dropped.cost();
                }
                assert_eq!(self.end(), last, "a stream goes on behind one of its entries");
            }
            // Before all that is here, or where the stream has never been: it goes on there.
            _ => {
                self.entries.clear();
                self.bytes = 0;
                self.before = last;
            }
        }
    }

    /// What a member needs that has everything up to `position`.
    pub fn behind(&self, position: Position) -> Behind<'_> {
        let Some(index) = position.0.checked_sub(self.before.position.0) else { return Behind::Gone };
        if position > self.end().position {
            return Behind::Beyond;
        }
        let index = index as usize;
        let previous = index.checked_sub(1).map_or(self.before, |last| self.entries[last].header.mark);
        Behind::Here { previous, entries: self.entries.range(index..) }
    }

    /// From now on it keeps that many bytes: fewer where memory is short.
    pub fn keep(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.evict();
    }

    fn evict(&mut self) {
        while self.bytes > self.bytes_max
            && let Some(first) = self.entries.pop_front()
        {
            self.bytes -= first.cost();
            self.before = first.header.mark;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::Epoch;
    use ferrite_base::limits::RECENT_ENTRIES_BYTES_MAX;
    use proptest::prelude::*;

    const GROUP: ferrite_base::GroupId = ferrite_base::GroupId(3);

    fn after(previous: Mark, epoch: u64, bytes: usize) -> SharedEntry {
        let starts = Epoch(epoch) != previous.epoch;
        let header = Header::after(GROUP, previous, Epoch(epoch), starts, bytes as u32, bytes as u32);
        SharedEntry { header, bytes: Arc::new(vec![0; bytes]) }
    }

    fn marks(recent: &Recent, position: u64) -> Option<(Mark, Vec<Mark>)> {
        match recent.behind(Position(position)) {
            Behind::Here { previous, entries } => Some((previous, entries.map(|entry| entry.header.mark).collect())),
            Behind::Gone | Behind::Beyond => None,
        }
    }

    #[test]
    fn as_many_bytes_are_kept_as_the_limit_and_not_one_more() {
        let bytes_max = RECENT_ENTRIES_BYTES_MAX / 1_024;
        let mut recent = Recent::new(Mark::ORIGIN, bytes_max);
        let first = after(Mark::ORIGIN, 1, bytes_max / 2 - ENTRY_OVERHEAD);
        let second = after(first.header.mark, 1, bytes_max / 2 - ENTRY_OVERHEAD);
        let third = after(second.header.mark, 1, 0);
        recent.push(Mark::ORIGIN, first.clone());
        recent.push(first.header.mark, second.clone());
        assert_eq!((recent.bytes(), marks(&recent, 0).unwrap().1.len()), (bytes_max, 2));
        recent.push(second.header.mark, third.clone());
        assert!(matches!(recent.behind(Position(0)), Behind::Gone) && recent.bytes() < bytes_max);
        assert_eq!(marks(&recent, 1), Some((first.header.mark, vec![second.header.mark, third.header.mark])));
        assert_eq!(marks(&recent, 3), Some((third.header.mark, vec![])));
        assert!(matches!(recent.behind(Position(4)), Behind::Beyond));
        // What is evicted here is still held by whoever else has it.
        assert_eq!((Arc::strong_count(&first.bytes), Arc::strong_count(&second.bytes)), (1, 2));
        // An entry that does not fit leaves nothing behind it but itself gone.
        let large = after(third.header.mark, 1, bytes_max);
        recent.push(third.header.mark, large.clone());
        assert_eq!((recent.bytes(), recent.end(), marks(&recent, 3)), (0, large.header.mark, None));
        recent.keep(2 * bytes_max);
        recent.push(large.header.mark, after(large.header.mark, 1, bytes_max));
        assert_eq!(marks(&recent, 4).unwrap().1.len(), 1);
        recent.keep(0);
        assert_eq!((recent.bytes(), recent.end().position), (0, Position(5)));
    }

    proptest! {
        /// Leaders come and go, memory gets short and is there again: what is given out is the end
        /// of the stream.
        #[test]
        fn what_is_given_out_is_the_end_of_the_stream(
            steps in prop::collection::vec((0u8..10, 0usize..400), 1..120),
        ) {
            let mut recent = Recent::new(Mark::ORIGIN, 4_000);
            let mut stream = vec![Mark::ORIGIN];
            let mut epoch = 1;
            for (kind, amount) in steps {
                match kind {
                    0 => recent.keep(10 * amount),
                    1 => {
                        stream.truncate(stream.len().saturating_sub(amount % 7).max(1));
                        epoch += 1;
                        let entry = after(*stream.last().unwrap(), epoch, amount);
                        recent.push(*stream.last().unwrap(), entry.clone());
                        stream.push(entry.header.mark);
                    }
                    _ => {
                        let entry = after(*stream.last().unwrap(), epoch, amount);
                        recent.push(*stream.last().unwrap(), entry.clone());
                        stream.push(entry.header.mark);
                    }
                }
                prop_assert!(recent.bytes() <= recent.bytes_max);
                prop_assert_eq!(recent.end(), *stream.last().unwrap());
                let kept: usize = recent.entries.iter().map(SharedEntry::cost).sum();
                prop_assert_eq!(recent.bytes(), kept);
                for position in 0..stream.len() + 2 {
                    match recent.behind(Position(position as u64)) {
                        Behind::Here { previous, entries } => {
                            let given: Vec<Mark> = entries.map(|entry| entry.header.mark).collect();
                            prop_assert_eq!(previous, stream[position]);
                            prop_assert_eq!(&given[..], &stream[position + 1..]);
                        }
                        Behind::Gone => prop_assert!(position < stream.len() - 1),
                        Behind::Beyond => prop_assert!(position >= stream.len()),
                    }
                }
            }
        }
    }
}
