//! A lot that is under way: its calls, which group runs which of them, and what the groups have
//! answered.

use crate::lots::call::GroupsCall;
use ferrite_base::limits::RESULT_BYTES_MAX;
use ferrite_base::{GroupId, PartitionId, UserError, UserResult};
use ferrite_multi::LotPart;
use ferrite_partition::lots::{LotAnswer, LotFailure, LotResult, LotWork};
use std::collections::{BTreeMap, BTreeSet};

/// A call that waits for a lot.
pub struct WaitingCall {
    pub call: GroupsCall,
    /// By group, the partitions that it needs.
    pub parts: BTreeMap<GroupId, Vec<PartitionId>>,
    /// Of the monotonic clock.
    pub came: u64,
    pub way: LotWay,
    /// How often it was in a lot that was aborted without a failure of a call.
    pub begun: u32,
}

/// How a call is run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LotWay {
    Any,
    /// As the first of its lot.
    First,
    /// In a lot of its own, and prepared only when its answer is there.
    Alone,
}

/// A group's part of a lot.
#[derive(Default)]
struct LivePart {
    partitions: BTreeSet<PartitionId>,
    /// Places of the calls that it runs, in their order.
    calls: Vec<usize>,
    has_run: bool,
    /// None: it has not run, or its answer cannot be read.
    result: Option<LotResult>,
}

pub struct LiveLot {
    pub calls: Vec<WaitingCall>,
    pub is_read: bool,
    /// Of the monotonic clock.
    pub began: u64,
    /// Of a call that is run alone: its answer, or why it has none.
    pub outcome: Option<UserResult<Vec<u8>>>,
    parts: BTreeMap<GroupId, LivePart>,
}

impl LiveLot {
    /// All of these only read, or all do not.
    pub fn new(calls: Vec<WaitingCall>, began: u64) -> LiveLot {
        let is_read = calls[0].call.is_read;
        assert!(calls.iter().all(|of| of.call.is_read == is_read), "a lot only reads, or all of it is prepared");
        let mut parts: BTreeMap<GroupId, LivePart> = BTreeMap::new();
        for (place, of) in calls.iter().enumerate() {
            for (group, partitions) in &of.parts {
                let part = parts.entry(*group).or_default();
                part.partitions.extend(partitions);
                part.calls.push(place);
            }
        }
        LiveLot { calls, is_read, began, outcome: None, parts }
    }

    /// Each part is prepared as soon as it has run.
    pub fn rides(&self) -> bool {
        !self.is_read && !self.is_alone()
    }

    /// Its one call is prepared only when its answer is there.
    pub fn is_alone(&self) -> bool {
        self.calls[0].way == LotWay::Alone
    }

    /// It is answered when all groups have what it has changed.
    pub fn is_answered_settled(&self) -> bool {
        self.calls[0].call.is_answered_settled()
    }

    /// All its parts have run without a failure, and not been prepared: what its call is to be
    /// answered. The groups' own answers are not needed any more.
    pub fn make_outcome(&mut self) -> bool {
        let outcome = match self.answers(0) {
            Some(answers) => self.calls[0].call.response(&answers, true),
            None => Err(UserError::internal("a group has not answered what it has run")),
        };
        self.parts.values_mut().for_each(|part| part.result = None);
        self.outcome.insert(outcome).is_ok()
    }

    /// What each group is to do. The first group of a call runs what one group is to run,
    /// whichever.
    pub fn parts(&self, time_micros: i64) -> Vec<LotPart> {
        let most = if self.is_alone() { RESULT_BYTES_MAX } else { RESULT_BYTES_MAX / self.parts.len() };
        let answers_max = most as u32;
        let part = |(group, part): (&GroupId, &LivePart)| {
            let to_group = |place: &usize| {
                let of = &self.calls[*place];
                of.call.to_group(of.parts.keys().next() == Some(group))
            };
            let work = LotWork { time_micros, answers_max, calls: part.calls.iter().map(to_group).collect() };
            LotPart { group: *group, partitions: part.partitions.iter().copied().collect(), work: work.encode() }
        };
        self.parts.iter().map(part).collect()
    }

    /// A group's part has run. None: its answer cannot be read, which counts as none.
    pub fn ran(&mut self, group: GroupId, result: Option<LotResult>) {
        if let Some(part) = self.parts.get_mut(&group) {
            part.has_run = true;
            part.result = result;
        }
    }

    /// Whether all parts have.
    pub fn has_run(&self) -> bool {
        self.parts.values().all(|part| part.has_run)
    }

    /// Whether all parts have run without a failure.
    pub fn has_succeeded(&self) -> bool {
        let succeeded = |part: &LivePart| {
            part.result.as_ref().is_some_and(|result| result.is_success() && result.0.len() == part.calls.len())
        };
        self.parts.values().all(succeeded)
    }

    /// What the groups have answered to the call, in their order. None: an answer is missing.
    pub fn answers(&self, place: usize) -> Option<Vec<&[Option<Vec<u8>>]>> {
        let of_group = |group: &GroupId| {
            let part = &self.parts[group];
            let at = part.calls.binary_search(&place).expect("each group of a call runs it");
            match part.result.as_ref()?.0.get(at)? {
                LotAnswer::Ran(tables) => Some(tables.as_slice()),
                LotAnswer::Failed(_) => None,
            }
        };
        self.calls[place].parts.keys().map(of_group).collect()
    }

    /// The calls that have failed, as the first of the groups says in which they did.
    pub fn failures(&self) -> BTreeMap<usize, (GroupId, LotFailure)> {
        let mut failures = BTreeMap::new();
        for (group, part) in &self.parts {
            let answers = part.result.iter().flat_map(|result| &result.0);
            for (place, answer) in part.calls.iter().zip(answers) {
                if let LotAnswer::Failed(failure) = answer {
                    failures.entry(*place).or_insert_with(|| (*group, failure.clone()));
                }
            }
        }
        failures
    }

    /// Some groups have refused the schema change of the lot, and others have not.
    pub fn is_disputed_change(&self) -> bool {
        let has_made = |part: &LivePart| part.result.as_ref().is_some_and(LotResult::is_success);
        self.calls[0].call.is_alone() && self.parts.values().any(has_made)
    }
}
