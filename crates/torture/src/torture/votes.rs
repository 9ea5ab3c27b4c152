//! Voter under torture: every phone's votes follow one another, and a phone has two.

use crate::torture::drive::{Calls, Ended, Fate, Load};
use crate::torture::lane::{Cut, Lane};
use ferrite_bench::area_codes::area_codes;
use ferrite_bench::error::{BenchError, BenchResult};
use ferrite_bench::random::FastRandom;
use ferrite_bench::session::Session;
use ferrite_bench::voter;
use ferrite_client::Prepared;
use ferrite_value::OwnedValue;
use std::collections::HashMap;

const CONTESTANTS: u16 = 6;
const VOTES_MAX: i32 = 2;
const PHONES_PER_AREA: i64 = 10_000_000;
/// One call in this many is for a phone that has voted, and one for a contestant that does not
/// exist.
const AGAIN_ONE_IN: u32 = 6;
const INVALID_ONE_IN: u32 = 50;
/// Calls of one round.
const CALLS_MAX: u32 = 60_000;
/// With more phones than these, half of the votes are deleted after a check, so that checks stay
/// short.
const PHONES_MAX: usize = 50_000;

const ACCEPTED: i64 = 0;
const INVALID_CONTESTANT: i64 = 1;
const OVER_LIMIT: i64 = 2;

pub struct Votes {
    procedure: Prepared,
    random: FastRandom,
    /// How many votes a phone has, and what may be on the way.
    phones: HashMap<i64, Lane<u32>>,
    /// Phones that have heard of a first vote and may vote again.
    again: Vec<i64>,
    /// "Over the limit" was said to these, at that moment: it must stay true.
    refusals: Vec<(i64, u64)>,
    /// Phones so far: the lower digits of the next one.
    phones_used: i64,
    areas: HashMap<i64, String>,
    area_numbers: Vec<i64>,
    calls_left: u32,
}

/// Every phone votes for one contestant only, so that a row's value can be told from its key.
fn contestant_of(phone: i64) -> i64 {
    1 + phone % i64::from(CONTESTANTS)
}

impl Votes {
    pub fn new(session: &Session) -> BenchResult<Votes> {
        voter::prepare(session, CONTESTANTS, false)?;
        let areas: HashMap<i64, String> =
            area_codes().iter().map(|area| (i64::from(area.code), area.state_name().to_string())).collect();
        let mut area_numbers: Vec<i64> = areas.keys().copied().collect();
        area_numbers.sort_unstable();
        Ok(Votes {
            procedure: Prepared::new("Vote").expect("a short name"),
            random: FastRandom::new(0),
            phones: HashMap::new(),
            again: Vec::new(),
            refusals: Vec::new(),
            phones_used: 0,
            areas,
            area_numbers,
            calls_left: 0,
        })
    }
}

/// The lowest bit of a token says that the vote is for nobody.
const FOR_NOBODY: u64 = 1;

impl Load for Votes {
    fn name(&self) -> &'static str {
        "votes"
    }

    fn outstanding_max(&self) -> usize {
        1_500
    }

    fn begin(&mut self, random: FastRandom) {
        self.random = random;
        self.calls_left = CALLS_MAX;
        self.again.clear();
    }

    fn call(&mut self, calls: &mut Calls) -> bool {
        if self.calls_left == 0 {
            return false;
        }
        self.calls_left -= 1;
        let phone = if self.random.below(AGAIN_ONE_IN) == 0 && !self.again.is_empty() {
            let at = self.random.below(self.again.len() as u32) as usize;
            self.again.swap_remove(at)
        } else {
            self.phones_used = (self.phones_used + 1) % PHONES_PER_AREA;
            let area = self.random.below(self.area_numbers.len() as u32) as usize;
            self.area_numbers[area] * PHONES_PER_AREA + self.phones_used
        };
        let token = (phone as u64) << 1;
        if self.random.below(INVALID_ONE_IN) == 0 {
            calls.call(&self.procedure, (phone, 999i32, VOTES_MAX), token | FOR_NOBODY);
        } else {
            let sent = calls.call(&self.procedure, (phone, contestant_of(phone) as i32, VOTES_MAX), token);
            let lane = self.phones.entry(phone).or_insert_with(|| Lane::new(0));
            let after = (lane.last() + 1).min(VOTES_MAX as u32);
            lane.sent(after, sent);
        }
        true
    }

    fn ended(&mut self, ended: Ended, cut: &mut Cut) {
        let phone = (ended.token >> 1) as i64;
        if ended.token & FOR_NOBODY != 0 {
            if let Fate::Acknowledged(response) = &ended.fate
                && response.scalar() != Some(INVALID_CONTESTANT)
            {
                cut.finding(format!("votes: a vote for nobody was answered {:?}", response.scalar()));
            }
            return;
        }
        let lane = self.phones.get_mut(&phone).expect("a vote has its phone");
        let over_limit = *lane.state(lane.steps.len() - 1) == VOTES_MAX as u32;
        match &ended.fate {
            Fate::Acknowledged(response) => match response.scalar() {
                Some(ACCEPTED) if !over_limit => {
                    lane.acknowledged(ended.at);
                    self.again.push(phone);
                }
                Some(OVER_LIMIT) if over_limit => {
                    lane.refused();
                    self.refusals.push((phone, ended.at));
                }
                other => cut.finding(format!("votes: a vote from {phone} was answered {other:?}; {lane:?}")),
            },
            Fate::Refused(text) => {
                lane.refused();
                cut.finding(format!("votes: a vote from {phone} was refused: {text}"));
            }
            Fate::NotSent => lane.refused(),
            Fate::Unknown => {}
        }
    }

    fn calls_of_a_round(&self) -> u32 {
        CALLS_MAX
    }

    fn check(&mut self, session: &Session, cut: &mut Cut) -> BenchResult<()> {
        let mut there: HashMap<i64, u32> = HashMap::new();
        let mut by_contestant_and_state: HashMap<(i64, String), i64> = HashMap::new();
        for row in session.query("SELECT phone_number, contestant_number, state FROM votes")?.rows {
            let [OwnedValue::Integer(phone), OwnedValue::Integer(contestant), OwnedValue::Text(state)] = row.as_slice()
            else {
                return Err(BenchError::Server(format!("a vote is not this: {row:?}")));
            };
            let home = self.areas.get(&(*phone / PHONES_PER_AREA)).map(String::as_str);
            if *contestant != contestant_of(*phone) || home != Some(state) {
                cut.finding(format!("votes: {row:?} is not what was voted"));
            }
            *there.entry(*phone).or_default() += 1;
            *by_contestant_and_state.entry((*contestant, state.to_string())).or_default() += 1;
        }
        for phone in there.keys().filter(|phone| !self.phones.contains_key(phone)) {
            cut.finding(format!("votes: nobody voted from {phone}"));
        }
        for (phone, at) in self.refusals.drain(..) {
            if there.get(&phone).copied().unwrap_or(0) < VOTES_MAX as u32 {
                cut.lost(at, || format!("votes: {phone} was told that it is over its limit, and is not"));
            }
        }
        for (phone, lane) in &mut self.phones {
            lane.settle(&there.get(phone).copied().unwrap_or(0), cut, || format!("votes of {phone}"));
        }
        self.phones.retain(|_, lane| lane.before > 0);

        let by_phone = session.query("SELECT phone_number, num_votes FROM v_votes_by_phone_number")?;
        let view: HashMap<i64, u32> = (by_phone.rows.iter())
            .filter_map(|row| match row.as_slice() {
                [OwnedValue::Integer(phone), OwnedValue::Integer(votes)] => Some((*phone, *votes as u32)),
                _ => None,
            })
            .collect();
        if view != there {
            let differs = |phone: &&i64| view.get(*phone) != there.get(*phone);
            let phone = view.keys().chain(there.keys()).find(differs);
            cut.finding(format!("votes: the view by phone is not what a scan says, such as of {phone:?}"));
        }
        let by_contestant =
            session.query("SELECT contestant_number, state, num_votes FROM v_votes_by_contestant_number_state")?;
        let view: HashMap<(i64, String), i64> = (by_contestant.rows.iter())
            .filter_map(|row| match row.as_slice() {
                [OwnedValue::Integer(contestant), OwnedValue::Text(state), OwnedValue::Integer(votes)] => {
                    Some(((*contestant, state.to_string()), *votes))
                }
                _ => None,
            })
            .collect();
        if view != by_contestant_and_state {
            cut.finding(format!(
                "votes: the view by contestant and state is {view:?}, a scan says {by_contestant_and_state:?}"
            ));
        }
        if there.len() > PHONES_MAX {
            self.delete_half(session)?;
            cut.changed = true;
        }
        Ok(())
    }
}

impl Votes {
    fn delete_half(&mut self, session: &Session) -> BenchResult<()> {
        let mut phones: Vec<i64> = self.phones.keys().copied().collect();
        let middle = phones.len() / 2;
        let middle = *phones.select_nth_unstable(middle).1;
        session.query(&format!("DELETE FROM votes WHERE phone_number < {middle}"))?;
        self.phones.retain(|phone, _| *phone >= middle);
        Ok(())
    }
}
