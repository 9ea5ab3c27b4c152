//! The time of calls as one thread takes them, which never goes back: cancelling goes by it.

use ferrite_io::{Clock, SystemClock};
use std::cell::Cell;

#[derive(Default)]
pub struct CallTime(Cell<i64>);

impl CallTime {
    pub fn stamp(&self) -> i64 {
        self.0.set(SystemClock.wall_micros().max(self.0.get()));
        self.0.get()
    }

    /// A moment that is not after any stamp before, and before any later.
    pub fn cut(&self) -> i64 {
        let until = self.stamp();
        self.0.set(until + 1);
        until
    }
}
