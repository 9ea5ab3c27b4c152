//! What the hand-over of a group waits for: that all calls which this node has taken are answered.
//! Each group drains by itself: one that is done, or gives up, changes nothing for the others.

use ferrite_base::GroupId;

/// Nothing waits here: the node's thread asks again and again.
pub trait Drain: Send {
    /// Calls of the group that are read after this wait.
    fn begin(&mut self, group: GroupId);

    /// Whether all that was read previously is answered, except for this number of calls.
    fn is_done(&mut self, group: GroupId, but_for: usize) -> bool;
}
