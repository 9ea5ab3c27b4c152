//! Which votes are cast, and what the server says about them.

use ferrite_client::Prepared;
use ferrite_example_support::load::{CallResult, MakeCall, failure};
use ferrite_example_support::{Application, End, Random};
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Not the number of any contestant.
const NOBODY: i64 = 999;
const PHONES_PER_AREA: u64 = 10_000_000;

pub struct Votes {
    procedure: Prepared,
    area_codes: Vec<i64>,
    contestants: i64,
    votes_max: i32,
    accepted: AtomicI64,
    no_such_contestant: AtomicI64,
    over_limit: AtomicI64,
    failed: AtomicI64,
    unknown: AtomicI64,
}

/// What the server has said so far.
#[derive(Clone, Copy)]
pub struct Told {
    pub accepted: i64,
    pub no_such_contestant: i64,
    pub over_limit: i64,
    pub failed: i64,
    pub unknown: i64,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.accepted + self.no_such_contestant + self.over_limit + self.failed + self.unknown;
        writeln!(f, "{total:>14} votes were cast")?;
        writeln!(f, "{:>14} accepted", self.accepted)?;
        writeln!(f, "{:>14} rejected: no such contestant", self.no_such_contestant)?;
        writeln!(f, "{:>14} rejected: over the limit", self.over_limit)?;
        writeln!(f, "{:>14} failed", self.failed)?;
        write!(f, "{:>14} unknown: they may have counted", self.unknown)
    }
}

impl Votes {
    pub fn new(area_codes: Vec<i64>, contestants: i64, votes_max: i32) -> Votes {
        let zero = || AtomicI64::new(0);
        Votes {
            procedure: Prepared::new("Vote").expect("the name is short"),
            area_codes,
            contestants,
            votes_max,
            accepted: zero(),
            no_such_contestant: zero(),
            over_limit: zero(),
            failed: zero(),
            unknown: zero(),
        }
    }

    pub fn told(&self) -> Told {
        Told {
            accepted: self.accepted.load(Relaxed),
            no_such_contestant: self.no_such_contestant.load(Relaxed),
            over_limit: self.over_limit.load(Relaxed),
            failed: self.failed.load(Relaxed),
            unknown: self.unknown.load(Relaxed),
        }
    }

    /// Seven areas in ten have a favourite of their own, the others like the first contestant.
    fn favourite(&self, area: usize) -> i64 {
        if area % 10 < 7 { 1 + area as i64 * 31 % self.contestants } else { 1 }
    }
}

impl Application for Votes {
    type Note = ();

    fn next(&self, random: &mut Random, call: &mut MakeCall<'_, ()>) {
        let area = random.below(self.area_codes.len() as u64) as usize;
        let phone = self.area_codes[area] * PHONES_PER_AREA as i64 + random.below(PHONES_PER_AREA) as i64;
        let contestant = match random.below(100) {
            0 => NOBODY,
            odd if odd % 2 == 1 => self.favourite(area),
            _ => 1 + random.below(self.contestants as u64) as i64,
        };
        call(&self.procedure, &(phone, contestant as i32, self.votes_max), ());
    }

    fn ended(&self, (): (), result: &CallResult) -> End {
        let (count, end) = match result.as_ref().map(|response| response.scalar()) {
            Ok(Some(0)) => (&self.accepted, End::Answered),
            Ok(Some(1)) => (&self.no_such_contestant, End::Answered),
            Ok(Some(2)) => (&self.over_limit, End::Answered),
            Ok(_) => (&self.failed, End::Failed),
            Err(error) => match failure(error) {
                End::Unknown => (&self.unknown, End::Unknown),
                other => (&self.failed, other),
            },
        };
        count.fetch_add(1, Relaxed);
        end
    }
}
