//! Which lots are settled everywhere, so that how they ended may be forgotten.
//!
//! Nearly all of a sequencer's lots up to some number, and all of earlier sequencers'. The rest are
//! named one by one: lots with a participant that nobody leads at present. So what is remembered
//! does not grow while a group is lost.

use crate::lot_id::LotId;
use ferrite_base::Epoch;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settled {
    /// All lots of sequencers before that one.
    pub earlier: Epoch,
    /// And all up to that number of these.
    pub numbers: BTreeMap<Epoch, u64>,
    /// Except for these.
    pub open: BTreeSet<LotId>,
}

impl Settled {
    pub fn covers(&self, lot: LotId) -> bool {
        let is_below =
            lot.epoch < self.earlier || self.numbers.get(&lot.epoch).is_some_and(|number| lot.number <= *number);
        is_below && !self.open.contains(&lot)
    }

    /// Learns that these are settled, too; whether that is news.
    pub fn merge(&mut self, other: &Settled) -> bool {
        let before = self.clone();
        self.earlier = before.earlier.max(other.earlier);
        for (epoch, number) in &other.numbers {
            let known = self.numbers.entry(*epoch).or_default();
            *known = (*known).max(*number);
        }
        let earlier = self.earlier;
        self.numbers.retain(|epoch, _| *epoch >= earlier);
        let named = before.open.iter().chain(&other.open).copied();
        self.open = named.filter(|lot| !before.covers(*lot) && !other.covers(*lot)).collect();
        *self != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lot(epoch: u64, number: u64) -> LotId {
        LotId { epoch: Epoch(epoch), number }
    }

    fn settled(earlier: u64, numbers: &[(u64, u64)], open: &[LotId]) -> Settled {
        Settled {
            earlier: Epoch(earlier),
            numbers: numbers.iter().map(|(epoch, number)| (Epoch(*epoch), *number)).collect(),
            open: open.iter().copied().collect(),
        }
    }

    #[test]
    fn what_one_of_two_covers_is_covered_by_both_together() {
        let statements = [
            settled(0, &[], &[]),
            settled(0, &[(1, 4)], &[lot(1, 2)]),
            settled(0, &[(1, 6)], &[lot(1, 2), lot(1, 5)]),
            settled(2, &[(2, 3)], &[lot(1, 5)]),
            settled(2, &[(3, 1), (2, 1)], &[lot(1, 2), lot(3, 1)]),
            settled(3, &[(3, 9)], &[]),
        ];
        let lots = || (0..5).flat_map(|epoch| (1..10).map(move |number| lot(epoch, number)));
        for one in &statements {
            for other in &statements {
                let mut both = one.clone();
                let is_news = both.merge(other);
                for lot in lots() {
                    assert_eq!(both.covers(lot), one.covers(lot) || other.covers(lot), "{one:?}, {other:?}, {lot}");
                }
                assert_eq!(is_news, &both != one);
                assert!(!both.merge(other), "{one:?}, {other:?}");
            }
        }
    }
}
