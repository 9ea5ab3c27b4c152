//! What a history may show that no serial execution does.

use std::fmt;

/// What a history may show that no serial execution does. Adya's names, where he has one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AnomalyKind {
    /// Two reads of a list, of which neither is the beginning of the other.
    IncompatibleOrder,
    /// An element that nobody has appended.
    UnknownElement,
    /// An element twice.
    Duplicate,
    /// An append that was not executed.
    AbortedRead,
    /// Some of what a transaction appends to a list.
    IntermediateRead,
    /// What a transaction appends to a list is not together.
    Torn,
    /// A transaction that does not see what it has done itself.
    Internal,
    /// Appends in a circle.
    G0,
    /// Appends, and reads of them, in a circle.
    G1c,
    /// A circle with one read that has not seen an append.
    GSingle,
    /// A circle with several of them.
    G2,
    /// The same, with the order in real time.
    G0RealTime,
    G1cRealTime,
    GSingleRealTime,
    G2RealTime,
}

/// What was found first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anomaly {
    pub kind: AnomalyKind,
    pub text: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)
    }
}
