//! Which epochs wrote a stream, and where two streams part.

use ferrite_base::limits::HISTORY_EPOCHS_MAX;
use ferrite_base::{Epoch, Position};

/// The epochs of a stream, each with the position of its first entry, both ascending. Only the last
/// of them, if there were many: nothing is known of what is before the first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    starts: Vec<(Epoch, Position)>,
}

impl History {
    /// None if the starts are not in order, as they may come from a peer.
    pub fn new(starts: Vec<(Epoch, Position)>) -> Option<History> {
        let ascending = starts.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
        let begins = starts.first().is_none_or(|(_, position)| *position > Position(0));
        (ascending && begins).then_some(History { starts })
    }

    pub fn starts(&self) -> &[(Epoch, Position)] {
        &self.starts
    }

    /// The epoch that wrote the entry at `position`, if the stream reaches there; 0 before the
    /// first that is known.
    pub fn epoch_at(&self, position: Position) -> Epoch {
        let behind = self.starts.partition_point(|(_, start)| *start <= position);
        behind.checked_sub(1).map_or(Epoch(0), |last| self.starts[last].0)
    }

    /// Whether an epoch's first entry is there.
    pub fn begins_at(&self, position: Position) -> bool {
        self.starts.binary_search_by_key(&position, |(_, start)| *start).is_ok()
    }

    /// # Panics
    /// If epoch or position does not follow the last one's.
    pub fn begin(&mut self, epoch: Epoch, position: Position) {
        if let Some((last, start)) = self.starts.last() {
            assert!(*last < epoch && *start < position, "epoch {epoch} begins at {position} after {last} at {start}");
        }
        self.starts.push((epoch, position));
    }

    /// Forgets the oldest epochs beyond [`HISTORY_EPOCHS_MAX`], except where that would concern
    /// what is not committed. A stream that shares none of the remaining epochs with this one
    /// parted from it so long ago that its node gets a snapshot.
    pub fn forget_oldest(&mut self, commit: Position) {
        let beyond = self.starts.len().saturating_sub(HISTORY_EPOCHS_MAX);
        if beyond > 0 {
            let behind = self.starts.partition_point(|(_, start)| *start <= commit);
            self.starts.drain(..beyond.min(behind.saturating_sub(1)));
        }
    }

    /// Forgets the entries from `position` on.
    pub fn cut(&mut self, position: Position) {
        self.starts.retain(|(_, start)| *start < position);
    }

    /// The last position up to which this stream, which ends at `end`, and the other are the same:
    /// the lesser of their ends within the highest epoch that both have. An epoch has one writer,
    /// so a stream with its first entry has all before it.
    pub fn common_end(&self, end: Position, other: &History, other_end: Position) -> Position {
        let shared = self.starts.iter().rev().find(|start| other.starts.binary_search(start).is_ok());
        let Some((epoch, _)) = shared else { return Position(0) };
        self.end_of(*epoch, end).min(other.end_of(*epoch, other_end))
    }

    /// The last position that the epoch wrote.
    fn end_of(&self, epoch: Epoch, end: Position) -> Position {
        let next = self.starts.partition_point(|(started, _)| *started <= epoch);
        self.starts.get(next).map_or(end, |(_, start)| Position(start.0 - 1).min(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(starts: &[(u64, u64)]) -> History {
        History::new(starts.iter().map(|(epoch, start)| (Epoch(*epoch), Position(*start))).collect()).unwrap()
    }

    #[test]
    fn positions_belong_to_the_epoch_that_began_last_before_them() {
        let history = history(&[(1, 1), (4, 10)]);
        let epochs = [0, 1, 9, 10, 99].map(|position| history.epoch_at(Position(position)).0);
        assert_eq!(epochs, [0, 1, 1, 4, 4]);
    }

    #[test]
    fn streams_part_at_the_lesser_end_within_their_last_common_epoch() {
        let common = |a: &[(u64, u64)], a_end, b: &[(u64, u64)], b_end| {
            let (a, b) = (history(a), history(b));
            let there = a.common_end(Position(a_end), &b, Position(b_end));
            assert_eq!(there, b.common_end(Position(b_end), &a, Position(a_end)));
            there.0
        };
        assert_eq!(common(&[], 0, &[(1, 1)], 5), 0);
        assert_eq!(common(&[(1, 1)], 12, &[(1, 1)], 7), 7);
        assert_eq!(common(&[(1, 1)], 12, &[(1, 1), (2, 10)], 30), 9);
        assert_eq!(common(&[(1, 1), (2, 10)], 20, &[(1, 1), (3, 12)], 30), 9);
        assert_eq!(common(&[(1, 1), (2, 10), (5, 15)], 20, &[(1, 1), (2, 10), (7, 13)], 30), 12);
    }

    #[test]
    fn the_oldest_epochs_are_forgotten_where_there_are_too_many() {
        let max = HISTORY_EPOCHS_MAX as u64;
        let of = |count: u64| history(&(1..=count).map(|epoch| (epoch, 10 * epoch - 9)).collect::<Vec<_>>());
        let forgotten = |count, commit| {
            let mut history = of(count);
            history.forget_oldest(Position(commit));
            history
        };
        assert_eq!(forgotten(max, u64::MAX), of(max));
        let shorter = forgotten(max + 3, u64::MAX);
        assert_eq!((shorter.starts().len() as u64, shorter.starts()[0]), (max, (Epoch(4), Position(31))));
        assert_eq!(History::new(shorter.starts().to_vec()), Some(shorter.clone()), "it can be sent");
        assert_eq!([30, 31, 45].map(|position| shorter.epoch_at(Position(position)).0), [0, 4, 5]);
        // Entry 15 is of the second epoch, and the last that is committed.
        assert_eq!(forgotten(max + 3, 15).starts()[0], (Epoch(2), Position(11)));
        assert_eq!(forgotten(max + 3, 0).starts()[0], (Epoch(1), Position(1)));
        let common = |other: &History, end| shorter.common_end(Position(1 << 40), other, Position(end)).0;
        assert_eq!([common(&of(3), 28), common(&of(4), 33), common(&of(max + 9), 1 << 41)], [0, 33, 10 * (max + 3)]);
    }

    #[test]
    fn a_history_out_of_order_is_refused() {
        for starts in [&[(2, 1), (1, 5)][..], &[(1, 1), (2, 1)], &[(1, 0)]] {
            assert_eq!(History::new(starts.iter().map(|(e, p)| (Epoch(*e), Position(*p))).collect()), None);
        }
    }
}
