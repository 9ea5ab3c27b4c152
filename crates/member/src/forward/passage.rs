//! A network thread's way to the thread that forwards, and whether its calls take it
//! ([`crate::forward::order`]).

use crate::forward::inbox::Forward;
use crate::forward::link::Batch;
use crate::forward::order::Handed;

/// Where a network thread's next calls go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Here,
    Elsewhere,
    /// Nothing is read until what was handed over is on its way.
    Wait,
}

/// A network thread's way to the thread that forwards.
pub struct Passage {
    forward: Forward,
    handed: Handed,
}

impl Passage {
    pub fn new(forward: Forward) -> Passage {
        Passage { forward, handed: Handed::default() }
    }

    /// Called once per turn, when nothing of the previous turn is left to be handed over.
    #[inline]
    pub fn way(&self) -> Way {
        match self.forward.is_away() {
            true => Way::Elsewhere,
            false if self.handed.is_done() => Way::Here,
            false => Way::Wait,
        }
    }

    pub fn submit(&mut self, batch: Batch) {
        self.handed.add(batch.calls.len());
        self.forward.submit(batch, self.handed.clone());
    }

    /// This number of calls will come by [`Passage::take`]. Sent after they are counted as taken.
    pub fn passed(&self, calls: usize) {
        self.forward.passed(calls);
    }
}
