//! How often a group answers that it is sealed. The answer, or the state that it follows from, may
//! be lost on its way, so it is repeated while the state that comes from the voters shows the seal.
//!
//! Invariant: a group answers one seal once in 25 ms at most, and at once when it hears of another
//! leader of the voters. A voter that does not lead answers each question with the state; if each
//! state were answered by every group, two sealed groups would double the messages with each round
//! trip.

use ferrite_base::{Epoch, NodeId};

/// Shorter than the pause between any two questions that a node asks by itself.
const AGAIN_NANOS: u64 = 25_000_000;

/// Of one group.
#[derive(Default)]
pub struct SealAnswer(Option<Answered>);

struct Answered {
    epoch: Epoch,
    leader: Option<NodeId>,
    at: u64,
}

impl SealAnswer {
    /// Whether to answer that seal now. `leader`: of the voters, as far as this node knows; another
    /// one is answered at once.
    pub fn is_due(&mut self, epoch: Epoch, leader: Option<NodeId>, now: u64) -> bool {
        let is_known = |answered: &Answered| {
            let same_leader = leader.is_none() || answered.leader == leader;
            answered.epoch == epoch && same_leader && now.saturating_sub(answered.at) < AGAIN_NANOS
        };
        if self.0.as_ref().is_some_and(is_known) {
            return false;
        }
        self.0 = Some(Answered { epoch, leader, at: now });
        true
    }
}
