//! Calls that are taken and not answered. A leaf.

use std::ops::{AddAssign, Sub};

/// Calls, and about how many bytes they had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outstanding {
    pub calls: usize,
    pub bytes: usize,
}

impl Outstanding {
    /// Takes the share of this many calls out: they count as calls of average size, so that nothing
    /// is left when none is outstanding.
    #[inline]
    pub fn answered(&mut self, calls: usize) {
        self.bytes -= self.bytes * calls / self.calls;
        self.calls -= calls;
    }
}

impl Sub for Outstanding {
    type Output = Outstanding;

    #[inline]
    fn sub(self, less: Outstanding) -> Outstanding {
        Outstanding { calls: self.calls - less.calls, bytes: self.bytes - less.bytes }
    }
}

impl AddAssign for Outstanding {
    #[inline]
    fn add_assign(&mut self, more: Outstanding) {
        self.calls += more.calls;
        self.bytes += more.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(calls: usize, bytes: usize) -> Outstanding {
        Outstanding { calls, bytes }
    }

    #[test]
    fn what_is_answered_is_of_average_size_and_leaves_nothing() {
        let mut outstanding = of(3, 100);
        outstanding.answered(1);
        assert_eq!(outstanding, of(2, 67));
        outstanding.answered(2);
        assert_eq!(outstanding, Outstanding::default());
    }
}
