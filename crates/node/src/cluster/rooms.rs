//! Which nodes have said that they have no room (docs/decisions/0050-copies.md): a copy applies
//! what is committed whatever its memory limit says, and writes what it is sent whatever its disk
//! has, so who leads refuses rows for the one, and writes for the other.

use ferrite_base::NodeId;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often a node says so.
pub const SAID_EVERY: Duration = Duration::from_secs(1);
/// So long its word counts.
const COUNTS: Duration = Duration::from_secs(4);

/// Where there is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Room {
    /// For more rows.
    Memory,
    /// The disk has less room than its reserve.
    Disk,
}

impl Room {
    /// What follows in a message that says so.
    pub fn encode(self) -> Vec<u8> {
        match self {
            Room::Memory => Vec::new(),
            Room::Disk => vec![1],
        }
    }

    /// None: a later release says it.
    pub fn decode(bytes: &[u8]) -> Option<Room> {
        [Room::Memory, Room::Disk].into_iter().find(|room| room.encode() == bytes)
    }
}

#[derive(Default)]
pub struct Rooms(Mutex<BTreeMap<(Room, NodeId), Instant>>);

impl Rooms {
    pub fn is_full(&self, room: Room, node: NodeId, now: Instant) {
        self.0.lock().expect("no panic with the rooms").insert((room, node), now);
    }

    /// One of these nodes that has no room.
    pub fn full(&self, room: Room, mut among: impl Iterator<Item = NodeId>, now: Instant) -> Option<NodeId> {
        let said = self.0.lock().expect("no panic with the rooms");
        among.find(|node| said.get(&(room, *node)).is_some_and(|at| now.saturating_duration_since(*at) < COUNTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_for_some_seconds_and_only_of_those_who_are_asked_for() {
        let (rooms, now) = (Rooms::default(), Instant::now());
        rooms.is_full(Room::Memory, NodeId(2), now);
        let full = |among: &[u32], at| rooms.full(Room::Memory, among.iter().map(|node| NodeId(*node)), at);
        assert_eq!(full(&[1, 2], now + COUNTS / 2), Some(NodeId(2)));
        assert_eq!(full(&[1, 3], now), None, "it is not a member");
        assert_eq!(full(&[2], now + COUNTS), None);
        assert!(SAID_EVERY * 3 < COUNTS, "one message may be lost");
        assert_eq!(rooms.full(Room::Disk, [NodeId(2)].into_iter(), now), None);
        rooms.is_full(Room::Disk, NodeId(2), now);
        assert_eq!(rooms.full(Room::Disk, [NodeId(2)].into_iter(), now), Some(NodeId(2)));
    }

    #[test]
    fn where_there_is_no_room_reads_back() {
        for room in [Room::Memory, Room::Disk] {
            assert_eq!(Room::decode(&room.encode()), Some(room));
        }
        assert_eq!((Room::decode(&[2]), Room::decode(&[1, 1])), (None, None));
    }
}
