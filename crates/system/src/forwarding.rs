//! Calls that a node passes on to the one that leads, and those that it takes of other nodes'
//! clients.

use std::ops::AddAssign;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Of a node since it started. Those that wait at the moment come and go.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Forwarded {
    /// Of this node's clients, sent to another node; one that came back and was sent again counts
    /// again.
    pub passed_on: u64,
    /// Of these, not executed there, and back here.
    pub came_back: u64,
    /// Taken of clients here, and not answered yet: sent or not.
    pub waiting: u64,
    /// Answered with status -7, since their answers were lost.
    pub unknown: u64,
    /// Answered with status -5, since no node that leads could be reached.
    pub refused: u64,
    /// Of other nodes' clients, and executed here.
    pub taken: u64,
    /// Of other nodes' clients, and given back, since this node did not lead.
    pub given_back: u64,
}

impl AddAssign for Forwarded {
    fn add_assign(&mut self, more: Forwarded) {
        self.passed_on += more.passed_on;
        self.came_back += more.came_back;
        self.waiting += more.waiting;
        self.unknown += more.unknown;
        self.refused += more.refused;
        self.taken += more.taken;
        self.given_back += more.given_back;
    }
}

/// The same for whoever asks. One thread writes.
#[derive(Default)]
pub struct Figures([AtomicU64; 7]);

impl Figures {
    pub fn set(&self, forwarded: Forwarded) {
        let Forwarded { passed_on, came_back, waiting, unknown, refused, taken, given_back } = forwarded;
        let all = [passed_on, came_back, waiting, unknown, refused, taken, given_back];
        self.0.iter().zip(all).for_each(|(figure, value)| figure.store(value, Relaxed));
    }

    pub fn read(&self) -> Forwarded {
        let [passed_on, came_back, waiting, unknown, refused, taken, given_back] =
            self.0.each_ref().map(|figure| figure.load(Relaxed));
        Forwarded { passed_on, came_back, waiting, unknown, refused, taken, given_back }
    }
}
