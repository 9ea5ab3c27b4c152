//! How much of the node's log its groups still need.
//!
//! A node has one log and several groups, and each group's snapshots say from where on the log has
//! what they do not show. A segment may go when no hosted group needs it any more. One object of
//! the node knows what each needs: a group's snapshots announce that here, and segments are removed
//! here alone.
//!
//! Invariants: what is removed is below what every hosted group needs; what a group needs moves
//! forward only.

use ferrite_base::{GroupId, planted};
use ferrite_io::DiskResult;
use ferrite_log::SegmentIndex;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The first segment that each hosted group needs.
pub struct LogNeeds {
    index: Arc<SegmentIndex>,
    needs: Mutex<BTreeMap<GroupId, u64>>,
}

impl LogNeeds {
    /// No group is hosted, so nothing may be removed.
    pub fn new(index: Arc<SegmentIndex>) -> Arc<LogNeeds> {
        Arc::new(LogNeeds { index, needs: Mutex::default() })
    }

    /// Of the log.
    pub fn index(&self) -> &Arc<SegmentIndex> {
        &self.index
    }

    /// A group is hosted from now on, and needs the log from this segment on.
    pub fn host(&self, group: GroupId, segment: u64) {
        let before = self.lock().insert(group, segment);
        assert!(before.is_none(), "group {group} is hosted once");
    }

    /// A group is hosted no more.
    pub fn let_go(&self, group: GroupId) {
        self.lock().remove(&group);
    }

    /// The group's snapshots show what is before this segment.
    pub fn advance(&self, group: GroupId, segment: u64) {
        let mut needs = self.lock();
        let need = needs.get_mut(&group).expect("a group whose snapshots are written is hosted");
        *need = segment.max(*need);
    }

    /// Whether the group is the only one.
    pub fn is_alone(&self, group: GroupId) -> bool {
        self.lock().keys().eq([&group])
    }

    /// The first segment that is needed. None: no group is hosted.
    pub fn least(&self) -> Option<u64> {
        self.lock().values().copied().min()
    }

    /// Removes the segments that no group needs, but those that are read, as far as these have no
    /// more bytes than that. How many went.
    pub fn truncate(&self, held_bytes_max: u64, rest: &dyn Fn()) -> DiskResult<usize> {
        // A group that is hosted meanwhile needs what is written from then on.
        let Some(least) = self.least() else { return Ok(0) };
        let least =
            if planted!(TruncatesOthers) { self.lock().values().copied().max().unwrap_or(least) } else { least };
        self.index.truncate_before(least, held_bytes_max, rest)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupId, u64>> {
        // Whole at every point where the lock can be lost to a panic.
        self.needs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
