//! What a hand-over waits for: that all calls which this node has taken are answered.

/// Nothing waits here: the node's thread asks again and again.
pub trait Drain: Send {
    /// Calls that are read after this wait.
    fn begin(&mut self);

    /// Whether all that was read previously is answered, except for this number of calls.
    fn is_done(&mut self, but_for: usize) -> bool;
}
