//! A cut shows one moment: each transaction on all its homes, or on none.
//!
//! Cuts are taken in the order of their steps, and from one to the next only the marks between the
//! two are looked at: a history of N marks costs about N, however many cuts it has.

use crate::history::History;
use crate::operation::Cut;
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};

/// The cuts, each with the operation that read it, show no step that is not there.
pub fn check(history: &History, state: &State, cuts: &[(usize, &Cut)]) -> Result<(), String> {
    let mut ordered: Vec<_> = cuts.iter().collect();
    ordered.sort_by_key(|(_, cut)| cut.all_steps().map(|(_, step)| step).sum::<i64>());
    let mut shown = ShownMarks::nothing(state);
    for (number, cut) in ordered {
        shown.move_to(cut);
        if let Some((part, here, all)) = shown.part() {
            let action = &history.operations[part].action;
            return Err(format!(
                "operation {number} read only a part of operation {part} {action:?}: {here} of {all} homes"
            ));
        }
    }
    Ok(())
}

/// What one cut after another shows.
struct ShownMarks {
    /// By home: the operations of its marks in the order of their steps, and how many of these
    /// marks the cut shows.
    homes: BTreeMap<i64, (Vec<usize>, usize)>,
    /// By operation: how many of its marks the cut shows, and how many there are.
    operations: BTreeMap<usize, (usize, usize)>,
    /// Operations of which the cut shows some marks and lacks others.
    parts: BTreeSet<usize>,
}

impl ShownMarks {
    fn nothing(state: &State) -> ShownMarks {
        let mut operations = BTreeMap::<usize, (usize, usize)>::new();
        for number in state.marks.values().flat_map(BTreeMap::values) {
            operations.entry(*number).or_default().1 += 1;
        }
        let homes = state.marks.iter().map(|(home, marks)| (*home, (marks.values().copied().collect(), 0)));
        ShownMarks { homes: homes.collect(), operations, parts: BTreeSet::new() }
    }

    fn move_to(&mut self, cut: &Cut) {
        let steps: BTreeMap<i64, i64> = cut.all_steps().collect();
        for (home, (marks, shown)) in &mut self.homes {
            let until = steps.get(home).map_or(0, |step| (*step).clamp(0, marks.len() as i64) as usize);
            for number in &marks[until.min(*shown)..until.max(*shown)] {
                let (here, all) = self.operations.get_mut(number).expect("all marks were counted");
                *here = if until > *shown { *here + 1 } else { *here - 1 };
                if (1..*all).contains(here) {
                    self.parts.insert(*number);
                } else {
                    self.parts.remove(number);
                }
            }
            *shown = until;
        }
    }

    /// An operation of which the cut shows a part: on how many of its homes, and how many it has.
    fn part(&self) -> Option<(usize, usize, usize)> {
        let number = *self.parts.first()?;
        let (here, all) = self.operations[&number];
        Some((number, here, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Action, RATES};
    use ferrite_io::simulated::SimulatedRandom;

    /// Transfers between homes, some of which the database has torn.
    fn made_up(random: &mut SimulatedRandom) -> (History, State) {
        let (mut history, mut state) = (History::default(), State::default());
        for _ in 0..random.below(30) {
            let (from, to) = (random.below(4) as i64, 4 + random.below(3) as i64);
            let number = history.begin(Action::Transfer { from, to, amount: 1 }, 0);
            for home in [from, to] {
                let marks = state.marks.entry(home).or_default();
                marks.insert(marks.len() as i64 + 1, number);
            }
        }
        (history, state)
    }

    /// The plain way: all marks, for each cut.
    fn is_one_moment(state: &State, cut: &Cut) -> bool {
        let steps: BTreeMap<i64, i64> = cut.all_steps().collect();
        let mut seen = BTreeMap::new();
        state.marks.iter().all(|(home, marks)| {
            let until = steps.get(home).copied().unwrap_or_default();
            marks.iter().all(|(step, number)| *seen.entry(*number).or_insert(*step <= until) == (*step <= until))
        })
    }

    #[test]
    fn it_finds_what_a_look_at_all_marks_finds_whatever_the_order_of_the_cuts() {
        let (mut whole, mut torn) = (0, 0);
        for seed in 1..400 {
            let mut random = SimulatedRandom::new(seed);
            let (history, state) = made_up(&mut random);
            let cuts: Vec<Cut> = (0..1 + random.below(4))
                .map(|_| {
                    // What is there after so many operations; sometimes another step of one home.
                    let until = random.below(history.operations.len() as u64 + 1) as usize;
                    let mut steps: BTreeMap<i64, i64> = (state.marks.iter())
                        .map(|(home, marks)| (*home, marks.values().filter(|number| **number < until).count() as i64))
                        .collect();
                    if random.percent(20)
                        && let Some((home, marks)) = state.marks.first_key_value()
                    {
                        steps.insert(*home, random.below(marks.len() as u64 + 1) as i64);
                    }
                    Cut { steps, ..Cut::default() }
                })
                .collect();
            let numbered: Vec<(usize, &Cut)> = cuts.iter().enumerate().collect();
            let found = check(&history, &state, &numbered);
            assert_eq!(found.is_ok(), cuts.iter().all(|cut| is_one_moment(&state, cut)), "seed {seed}: {found:?}");
            if found.is_ok() { whole += 1 } else { torn += 1 }
        }
        assert!(whole > 100 && torn > 50, "{whole} and {torn}");
        assert!(Cut::default().all_steps().eq([(RATES, 0)]));
    }
}
