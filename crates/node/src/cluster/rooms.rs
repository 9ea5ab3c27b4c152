//! Which nodes have said that they have no room for more rows (docs/decisions/0050-copies.md): a
//! copy applies what is committed whatever its memory limit says, so who leads refuses rows for it.

use ferrite_base::NodeId;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often a node says so.
pub const SAID_EVERY: Duration = Duration::from_secs(1);
/// So long its word counts.
const COUNTS: Duration = Duration::from_secs(4);

#[derive(Default)]
pub struct Rooms(Mutex<BTreeMap<NodeId, Instant>>);

impl Rooms {
    pub fn is_full(&self, node: NodeId, now: Instant) {
        self.0.lock().expect("no panic with the rooms").insert(node, now);
    }

    /// One of these nodes that has no room.
    pub fn full(&self, mut among: impl Iterator<Item = NodeId>, now: Instant) -> Option<NodeId> {
        let said = self.0.lock().expect("no panic with the rooms");
        among.find(|node| said.get(node).is_some_and(|at| now.saturating_duration_since(*at) < COUNTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_for_some_seconds_and_only_of_those_who_are_asked_for() {
        let (rooms, now) = (Rooms::default(), Instant::now());
        rooms.is_full(NodeId(2), now);
        let full = |among: &[u32], at| rooms.full(among.iter().map(|node| NodeId(*node)), at);
        assert_eq!(full(&[1, 2], now + COUNTS / 2), Some(NodeId(2)));
        assert_eq!(full(&[1, 3], now), None, "it is not a member");
        assert_eq!(full(&[2], now + COUNTS), None);
        assert!(SAID_EVERY * 3 < COUNTS, "one message may be lost");
    }
}
