//! Walks: beside a read of two homes in two groups, a client writes to one of the homes and the
//! other by turns, each time when the write before was acknowledged. A read that shows the second
//! of two such writes without the first has not seen one moment, though no write concerns both
//! homes: what `invariants/cycles.rs` finds, and no rule about a single call can.

use crate::cluster::callers::Callers;
use crate::history::Operation;
use crate::operation::{Action, Told};
use ferrite_base::GroupId;
use ferrite_io::simulated::SimulatedRandom;
use std::collections::BTreeMap;

/// Of a hundred reads of two groups, while there is no walk.
const BESIDE: u64 = 60;
/// Between two writes, at most.
pub const PAUSE_MICROS: u64 = 300;

pub(super) struct Walks {
    pub random: SimulatedRandom,
    /// In which group the rows of a home are.
    pub homes: BTreeMap<i64, GroupId>,
    pub under_way: Option<Walk>,
}

pub(super) struct Walk {
    /// The read beside which it is.
    pub read: usize,
    pub homes: [i64; 2],
    pub written: u64,
    pub last: Option<usize>,
    pub next: u64,
}

impl Walks {
    pub fn new(random: SimulatedRandom) -> Walks {
        Walks { random, homes: BTreeMap::new(), under_way: None }
    }

    /// After a call was sent: there may be a walk beside it.
    pub fn sent(&mut self, read: usize, callers: &Callers, now: u64) {
        let Operation { action: Action::Both { homes }, told: Told::Nothing, .. } =
            callers.clients.history.operations[read]
        else {
            return;
        };
        let is_over = self.homes.get(&homes[0]) != self.homes.get(&homes[1]);
        if is_over && self.under_way.is_none() && self.random.percent(BESIDE) {
            let first = self.random.below(2) as usize;
            let homes = [homes[first], homes[1 - first]];
            let next = now + 1_000 * self.random.below(PAUSE_MICROS);
            self.under_way = Some(Walk { read, homes, written: 0, last: None, next });
        }
    }
}
