//! Voter's calls (wire-protocol, appendix C.1), for the server and the yardstick alike.

use crate::area_codes::{AreaCode, area_codes};
use crate::calls::Calls;
use crate::generator::{Intended, LoadOutcome, Workload, failure_outcome};
use crate::options::VoteProcedure;
use crate::random::FastRandom;
use ferrite_client::Prepared;
use ferrite_client::event_loop::Response;
use std::sync::Arc;

/// Not the number of any contestant.
pub const CONTESTANT_INVALID: u16 = 999;
/// One call in this many votes for a contestant that does not exist.
const INVALID_ONE_IN: u32 = 100;
/// Of ten area codes this many have a favourite of their own.
const FAVOURITES_IN_TEN: usize = 7;
/// Phone numbers of an area code.
const PHONES_PER_AREA: u32 = 10_000_000;

/// The results of `Vote`.
const ACCEPTED: i64 = 0;
const INVALID_CONTESTANT: i64 = 1;
const OVER_LIMIT: i64 = 2;

/// Makes votes and counts what becomes of them.
pub struct VoterLoad {
    procedure: Prepared,
    kind: VoteProcedure,
    area_codes: Arc<[AreaCode]>,
    favourites: Arc<[u16]>,
    contestants: u16,
    votes_max: i32,
    random: FastRandom,
    pub tally: Tally,
}

/// What the server has said about votes, by contestant (0 is unused).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub accepted: Vec<u64>,
    /// Votes without an answer.
    pub unknown: Vec<u64>,
    pub invalid_contestant: u64,
    pub over_limit: u64,
    /// Failures, and answers that `Vote` does not give.
    pub failed: u64,
}

impl Tally {
    fn new(contestants: u16) -> Tally {
        let by_contestant = vec![0; usize::from(contestants) + 1];
        Tally { accepted: by_contestant.clone(), unknown: by_contestant, ..Tally::default() }
    }

    pub fn accepted_total(&self) -> u64 {
        self.accepted.iter().sum()
    }

    pub fn merge(&mut self, other: &Tally) {
        let add = |sum: &mut Vec<u64>, more: &[u64]| {
            sum.resize(sum.len().max(more.len()), 0);
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        };
        add(&mut self.accepted, &other.accepted);
        add(&mut self.unknown, &other.unknown);
        self.invalid_contestant += other.invalid_contestant;
        self.over_limit += other.over_limit;
        self.failed += other.failed;
    }

    pub fn of(loads: &[VoterLoad]) -> Tally {
        let mut tally = Tally::default();
        loads.iter().for_each(|load| tally.merge(&load.tally));
        tally
    }
}

impl VoterLoad {
    pub fn new(kind: VoteProcedure, contestants: u16, votes_max: i32, seed: u64) -> VoterLoad {
        let name = match kind {
            VoteProcedure::Psm | VoteProcedure::Java => "Vote",
            VoteProcedure::Statements => "VoteStatements",
        };
        let area_codes: Arc<[AreaCode]> = area_codes().into();
        let favourite = |area: usize| {
            if area % 10 < FAVOURITES_IN_TEN { 1 + (area * 31 % usize::from(contestants)) as u16 } else { 1 }
        };
        VoterLoad {
            procedure: Prepared::new(name).expect("the name of the procedure is short"),
            kind,
            favourites: (0..area_codes.len()).map(favourite).collect(),
            area_codes,
            contestants,
            votes_max,
            random: FastRandom::new(seed),
            tally: Tally::new(contestants),
        }
    }

    /// Area, phone number and contestant of the next vote.
    #[inline]
    pub fn next_vote(&mut self) -> (AreaCode, i64, u16) {
        let area = self.random.below(self.area_codes.len() as u32) as usize;
        let area_code = self.area_codes[area];
        let phone =
            i64::from(area_code.code) * i64::from(PHONES_PER_AREA) + i64::from(self.random.below(PHONES_PER_AREA));
        let contestant = if self.kind != VoteProcedure::Statements && self.random.below(INVALID_ONE_IN) == 0 {
            CONTESTANT_INVALID
        } else if self.random.below(2) == 0 {
            self.favourites[area]
        } else {
            1 + self.random.below(u32::from(self.contestants)) as u16
        };
        (area_code, phone, contestant)
    }
}

impl Workload for VoterLoad {
    /// The contestant.
    type Note = u16;

    #[inline]
    fn call(&mut self, calls: &mut Calls<'_, u16>, call: Intended) {
        let (area, phone, contestant) = self.next_vote();
        let number = i32::from(contestant);
        let written = match self.kind {
            VoteProcedure::Psm | VoteProcedure::Java => {
                calls.call(&self.procedure, &(phone, number, self.votes_max), call.with(contestant))
            }
            VoteProcedure::Statements => {
                let state = area.state_name();
                let parameters = (number, phone, area.code as i16, phone, state, number);
                calls.call(&self.procedure, &parameters, call.with(contestant))
            }
        };
        debug_assert!(written.is_ok(), "the parameters are few and small");
    }

    #[inline]
    fn completed(&mut self, contestant: u16, response: &Response<'_>) -> LoadOutcome {
        if !response.is_success() {
            self.tally.failed += 1;
            return failure_outcome(response);
        }
        let result = match self.kind {
            VoteProcedure::Psm | VoteProcedure::Java => response.scalar(),
            // Whoever is told of success has voted: the insert is the last table.
            VoteProcedure::Statements => Some(ACCEPTED),
        };
        match result {
            Some(ACCEPTED) if usize::from(contestant) < self.tally.accepted.len() => {
                self.tally.accepted[usize::from(contestant)] += 1;
            }
            Some(INVALID_CONTESTANT) if contestant == CONTESTANT_INVALID => self.tally.invalid_contestant += 1,
            Some(OVER_LIMIT) => self.tally.over_limit += 1,
            _ => {
                self.tally.failed += 1;
                return LoadOutcome::Failed;
            }
        }
        LoadOutcome::Succeeded { payload_bytes: 0 }
    }

    fn lost(&mut self, contestant: u16) {
        // One for nobody would not have counted.
        if let Some(unknown) = self.tally.unknown.get_mut(usize::from(contestant)) {
            *unknown += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_are_shaped_as_the_original_ones() {
        let mut load = VoterLoad::new(VoteProcedure::Psm, 6, 2, 42);
        let (mut invalid, mut by_contestant) = (0, [0u32; 7]);
        for _ in 0..100_000 {
            let (area, phone, contestant) = load.next_vote();
            assert_eq!(phone / 10_000_000, i64::from(area.code));
            match contestant {
                CONTESTANT_INVALID => invalid += 1,
                contestant => by_contestant[usize::from(contestant)] += 1,
            }
        }
        assert!((900..1_100).contains(&invalid), "{invalid}");
        assert!(by_contestant[0] == 0 && by_contestant[1..].iter().all(|votes| *votes > 10_000), "{by_contestant:?}");
        assert!(by_contestant[1] == *by_contestant.iter().max().unwrap(), "the first is many areas' favourite");
    }

    #[test]
    fn tallies_add_up() {
        let mut a = Tally { accepted: vec![0, 1], unknown: vec![0, 0], ..Tally::default() };
        let b =
            Tally { accepted: vec![0, 2, 5], unknown: vec![0, 0, 1], invalid_contestant: 3, over_limit: 4, failed: 5 };
        a.merge(&b);
        assert_eq!(
            (a.accepted_total(), a.accepted.as_slice(), a.unknown.as_slice()),
            (8, &[0, 3, 5][..], &[0, 0, 1][..])
        );
        assert_eq!((a.invalid_contestant, a.over_limit, a.failed), (3, 4, 5));
    }
}
