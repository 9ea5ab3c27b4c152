//! What a leader knows of each node that follows it, and whether logs and tables keep up.

use super::Member;
use ferrite_base::{Position, planted};

/// Between two of these looks. What a copy reports may be as old.
const PACE_NANOS: u64 = 100_000_000;

/// What was committed a moment ago: a copy that has applied that keeps up. When it was looked at
/// last, what was committed then, and the time before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    at: u64,
    last: Position,
    before: Position,
}

impl Pace {
    pub(super) fn sample(&mut self, commit: Position, now: u64) {
        if now.saturating_sub(self.at) >= PACE_NANOS {
            *self = Pace { at: now, last: commit, before: self.last };
        }
    }

    /// How many entries a copy has to apply before it keeps up.
    pub(super) fn behind(self, applied: Position, commit: Position) -> Option<u64> {
        (applied < self.before && !planted!(NotApplied)).then(|| commit.0.saturating_sub(applied.0))
    }
}

/// Where the stream ended at some time: by then plus [`super::Timing::stall`] that must be durable.
/// So a slow log is judged like one that has stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) end: Position,
    pub(super) since: u64,
}

impl Watch {
    pub(super) fn observe(&mut self, durable: Position, end: Position, now: u64) {
        if durable >= self.end {
            *self = Watch { end, since: now };
        }
    }

    pub(super) fn is_late(&self, now: u64, stall: u64) -> bool {
        now.saturating_sub(self.since) >= stall
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) member: Member,
    /// The next entry to send.
    pub(super) next: Position,
    /// Everything up to there is there.
    pub(super) present: Position,
    /// Everything up to there is durable there.
    pub(super) durable: Position,
    /// Its tables show everything up to there.
    pub(super) applied: Position,
    /// It can run all procedures, as far as it has said.
    pub(super) able: bool,
    pub(super) round: u64,
    /// When what it lacks was last sent from the beginning: answers to earlier rounds tell nothing
    /// new. Each of many messages after a lost one has such an answer.
    pub(super) rewound: u64,
    /// False until it has answered in this epoch: then it is asked, not sent to.
    pub(super) matched: bool,
    /// Answers to earlier rounds do not show its position: it was doubted since.
    pub(super) asked_since: u64,
    pub(super) heard: u64,
    /// It has answered this leader.
    pub(super) answered: bool,
    pub(super) progressed: u64,
    /// Its log.
    pub(super) watch: Watch,
    /// What was durable there when it was first asked; more has become so since.
    pub(super) baseline: Option<Position>,
    pub(super) moves: bool,
}

impl Progress {
    pub(super) fn new(member: Member, next: Position, now: u64) -> Progress {
        Progress {
            member,
            next,
            present: Position(0),
            durable: Position(0),
            applied: Position(0),
            able: true,
            round: 0,
            rewound: 0,
            matched: false,
            asked_since: 0,
            heard: now,
            answered: false,
            progressed: now,
            watch: Watch { end: Position(next.0 - 1), since: now },
            baseline: None,
            moves: false,
        }
    }

    pub(super) fn is_silent(&self, now: u64, failure: u64) -> bool {
        now.saturating_sub(self.heard) >= failure
    }

    /// It takes part, as far as can be told.
    pub(super) fn answers(&self, now: u64, failure: u64) -> bool {
        self.answered && !self.is_silent(now, failure)
    }

    /// It has everything up to there, durably and in its tables, as it has said in this epoch.
    pub(super) fn has_all(&self, end: Position) -> bool {
        self.matched && self.durable >= end && (self.applied >= end || planted!(NotApplied))
    }

    /// What was sent up to this round may not have arrived.
    pub(super) fn doubt(&mut self, round: u64) {
        self.matched = false;
        self.asked_since = round + 1;
    }

    /// What was sent seems to be lost.
    pub(super) fn is_stuck(&self, now: u64, resend: u64) -> bool {
        let waits = self.matched && self.present.0 + 1 < self.next.0;
        waits && now.saturating_sub(self.progressed) >= resend
    }

    /// What is durable there.
    pub(super) fn has_made_durable(&mut self, position: Position) {
        let baseline = *self.baseline.get_or_insert(position);
        self.moves |= position > baseline;
    }
}
