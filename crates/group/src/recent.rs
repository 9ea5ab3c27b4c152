//! The last entries of a group's stream, in memory, for members that missed a little (decision
//! 0047).
//!
//! An entry is shared by reference count with its other holders: log, outboxes. Promises that what
//! it gives out is the end of the stream as it was pushed, without a gap, and that it keeps no more
//! bytes than it may. Does not know members, or what an entry holds.
//!
//! Memory of entries that leave is reused for those that come: otherwise each entry would be
//! written to memory that the system has to provide first, which costs more than everything else
//! that is done with it.

use ferrite_base::Position;
use ferrite_replica::group::{Header, Mark};
use std::collections::VecDeque;
use std::collections::vec_deque;
use std::sync::Arc;

/// What an entry takes besides its bytes: its place in the queue, the count, the allocation.
const ENTRY_OVERHEAD: usize = 128;
/// Of what it may keep, one part in this many may be buffers without an entry.
const SPARE_PART: usize = 64;
/// A buffer of this size is never too large for what is put into it.
const SMALL_BYTES: usize = 1024;

/// An entry and its bytes, whole, as they are in the log.
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

/// The entries after a position.
pub enum Behind<'a> {
    /// All up to the stream's end, after the entry with this mark.
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
    /// Memory of entries that left; they are empty.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// Of entries and spare buffers.
    bytes: usize,
    bytes_max: usize,
}

impl Recent {
    /// Begins after an entry with that mark; no entry before it is here.
    pub fn new(end: Mark, bytes_max: usize) -> Recent {
        Recent { entries: VecDeque::new(), before: end, spare: Vec::new(), spare_bytes: 0, bytes: 0, bytes_max }
    }

    /// Memory that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the stream ends.
    pub fn end(&self) -> Mark {
        self.entries.back().map_or(self.before, |last| last.header.mark)
    }

    /// The next entry, after `previous`: the stream's end, or an entry in its middle, after which
    /// another leader continues. What came after that is dropped.
    ///
    /// # Panics
    /// If the entry is not the one after `previous`, or another entry has that place.
    pub fn push(&mut self, previous: Mark, entry: SharedEntry) {
        assert_eq!(entry.header.mark.position.0, previous.position.0 + 1, "entries come in order");
        if previous != self.end() {
            self.drop_behind(previous);
        }
        self.bytes += entry.cost();
        self.entries.push_back(entry);
        self.evict();
    }

    /// Forgets the entries after `last`.
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
            // Before all that is here, or where the stream has never been: it continues there.
            _ => {
                self.entries.clear();
                self.bytes = self.spare_bytes;
                self.before = last;
            }
        }
    }

    /// What a member that has everything up to `position` needs.
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
        while self.bytes > self.bytes_max {
            if self.spare_bytes > self.bytes_max / SPARE_PART || self.entries.is_empty() {
                self.take_spare();
                continue;
            }
            let first = self.entries.pop_front().expect("there is one");
            self.bytes -= first.cost();
            self.before = first.header.mark;
            // The log, or a copy, may still use it.
            if let Ok(bytes) = Arc::try_unwrap(first.bytes) {
                self.reuse(bytes);
            }
        }
    }

    /// A buffer whose memory may be used for entries to come.
    fn reuse(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        let more = self.spare_bytes + bytes.capacity();
        if bytes.capacity() > 0 && more <= self.bytes_max / SPARE_PART {
            self.spare_bytes = more;
            self.bytes += bytes.capacity();
            self.spare.push(bytes);
        }
    }

    /// An empty buffer; without memory if there is none to spare.
    pub fn take_spare(&mut self) -> Vec<u8> {
        let spare = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= spare.capacity();
        self.bytes -= spare.capacity();
        spare
    }

    /// The bytes of an entry in a buffer of about their size: each entry counts with all of its
    /// buffer as long as it is kept.
    pub fn fitted(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if bytes.capacity() <= SMALL_BYTES || bytes.capacity() / 4 <= bytes.len() {
            return bytes;
        }
        let fitted = bytes.as_slice().to_vec();
        self.reuse(bytes);
        fitted
    }

    /// A copy of an entry's bytes, in spare memory if there is some of about that size. Memory of
    /// another size is freed, so that spare memory fits what comes.
    pub fn copy_of(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut copy = self.take_spare();
        if copy.capacity() < bytes.len() || copy.capacity() > SMALL_BYTES.max(4 * bytes.len()) {
            return bytes.to_vec();
        }
        copy.extend_from_slice(bytes);
        copy
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
        // The log and others still hold what is evicted here.
        assert_eq!((Arc::strong_count(&first.bytes), Arc::strong_count(&second.bytes)), (1, 2));
        // An entry that does not fit is itself gone, and nothing is left.
        let large = after(third.header.mark, 1, bytes_max);
        recent.push(third.header.mark, large.clone());
        assert_eq!((recent.bytes(), recent.end(), marks(&recent, 3)), (0, large.header.mark, None));
        recent.keep(2 * bytes_max);
        recent.push(large.header.mark, after(large.header.mark, 1, bytes_max));
        assert_eq!(marks(&recent, 4).unwrap().1.len(), 1);
        recent.keep(0);
        assert_eq!((recent.bytes(), recent.end().position), (0, Position(5)));
    }

    #[test]
    fn memory_of_entries_that_leave_is_used_for_those_that_come() {
        let mut recent = Recent::new(Mark::ORIGIN, 64 * 4_096);
        let mut reused = 0;
        for number in 0..300 {
            let spare = recent.spare.last().map(|spare| spare.as_ptr().addr());
            let bytes = recent.copy_of(&vec![number as u8; 2_000]);
            assert!(bytes[..] == [number as u8; 2_000]);
            if let Some(spare) = spare {
                assert_eq!(bytes.as_ptr().addr(), spare);
                reused += 1;
            }
            let entry = after(recent.end(), 1, 2_000);
            recent.push(recent.end(), SharedEntry { bytes: Arc::new(bytes), ..entry });
            assert!(recent.bytes() <= 64 * 4_096 && recent.spare_bytes <= 4_096);
        }
        // Most of the entries that come when there is no room for more.
        assert!(reused > 100, "{reused}");
        // An entry that another holder still has is not.
        let held: Vec<SharedEntry> = recent.entries.iter().cloned().collect();
        recent.keep(0);
        assert!(recent.spare.is_empty() && held.iter().all(|entry| entry.bytes.len() == 2_000));
    }

    #[test]
    fn what_is_kept_lies_in_a_buffer_of_its_size() {
        let mut recent = Recent::new(Mark::ORIGIN, 64 << 20);
        let of = |length: usize, capacity: usize| {
            let mut bytes = Vec::with_capacity(capacity);
            bytes.resize(length, 3);
            bytes
        };
        assert_eq!(recent.fitted(of(10, SMALL_BYTES)).capacity(), SMALL_BYTES);
        assert_eq!((recent.fitted(of(1_000, 4_000)).capacity(), recent.spare_bytes), (4_000, 0));
        let fitted = recent.fitted(of(1_000, 65_536));
        assert!(fitted == [3; 1_000] && fitted.capacity() < 4_000);
        assert_eq!((recent.bytes(), recent.spare_bytes), (65_536, 65_536));
        // Nor is a small entry put into a large spare buffer, which goes.
        assert!(recent.copy_of(&[1; 1_000]).capacity() < 4_000);
        assert_eq!((recent.bytes(), recent.take_spare().capacity()), (0, 0));
    }

    proptest! {
        /// Leaders come and go, memory gets short and returns: what is given out is the end of the
        /// stream.
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
                    2 => drop(recent.copy_of(&vec![7; amount])),
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
                let spare: usize = recent.spare.iter().map(Vec::capacity).sum();
                prop_assert!(spare == recent.spare_bytes && recent.spare.iter().all(Vec::is_empty));
                prop_assert_eq!(recent.bytes(), kept + spare);
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
