//! What names a lot.

use ferrite_base::Epoch;
use std::fmt;

/// Of a lot: never given twice. The epoch is that of the first group, in which its leader was the
/// sequencer; numbers begin with 1 in each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LotId {
    pub epoch: Epoch,
    pub number: u64,
}

impl fmt::Display for LotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch.0, self.number)
    }
}
