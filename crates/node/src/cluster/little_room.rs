//! When a leader lets another member lead because its own disk has little room
//! (docs/decisions/0068-full-disks.md).

/// For so long its disk has little room before another is asked to lead: what the others have said
/// of theirs is later than that, also where all share one disk.
const SURE_NANOS: u64 = 2_000_000_000;
/// Between two attempts.
const AGAIN_NANOS: u64 = 10_000_000_000;
/// So long a leader that comes back leads on as long as it takes writes: two nodes whose room is
/// about enough do not pass the lead to and fro.
const REST_NANOS: u64 = 120_000_000_000;

/// Of one process.
#[derive(Default)]
pub struct LittleRoom {
    since: Option<u64>,
    /// When another was asked to lead last.
    asked: Option<u64>,
    /// It has led since.
    other_led: bool,
}

/// What the disk of a node has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Room {
    #[default]
    Enough,
    /// Less than twice its reserve.
    Little,
    /// Less than its reserve: writes are refused.
    None,
}

impl LittleRoom {
    /// Whether another member, if one has room, is to lead now. Times are of the boot-time clock.
    pub fn look(&mut self, leads: bool, room: Room, now: u64) -> bool {
        self.other_led |= !leads;
        if !leads || room == Room::Enough {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let pause = if self.other_led && room == Room::Little { REST_NANOS } else { AGAIN_NANOS };
        let rests = self.asked.is_some_and(|asked| now.saturating_sub(asked) < pause);
        now.saturating_sub(since) >= SURE_NANOS && !rests
    }

    /// Another was asked to lead.
    pub fn asks(&mut self, now: u64) {
        (self.asked, self.other_led) = (Some(now), false);
    }
}

#[cfg(test)]
mod tests {
    use super::Room::{Enough, Little, None};
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_leader_asks_when_it_is_sure_and_again_where_it_was_in_vain() {
        let mut room = LittleRoom::default();
        assert!(!room.look(true, Enough, 0) && !room.look(true, Little, 5 * SECOND));
        assert!(!room.look(true, Little, 6 * SECOND));
        assert!(room.look(true, Little, 7 * SECOND), "nobody had room until now, perhaps");
        assert!(room.look(true, Little, 8 * SECOND));
        room.asks(8 * SECOND);
        assert!(!room.look(true, Little, 17 * SECOND));
        assert!(room.look(true, Little, 18 * SECOND), "it leads still");
        assert!(!room.look(true, Enough, 19 * SECOND), "there is room again");
        assert!(!room.look(true, Little, 20 * SECOND) && room.look(true, Little, 22 * SECOND));
    }

    #[test]
    fn a_leader_that_comes_back_soon_leads_on() {
        let mut room = LittleRoom::default();
        assert!(!room.look(true, Little, 0) && room.look(true, Little, 2 * SECOND));
        room.asks(2 * SECOND);
        assert!(!room.look(false, Little, 3 * SECOND), "another leads");
        let (back, over) = (4 * SECOND, 2 * SECOND + REST_NANOS);
        assert!(!room.look(true, Little, back) && !room.look(true, Little, over - 1));
        assert!(room.look(true, Little, over));
        // One that only follows asks nobody.
        let mut copy = LittleRoom::default();
        assert!((0..300).all(|second| !copy.look(false, Little, second * SECOND)));
    }

    #[test]
    fn one_that_refuses_writes_does_not_lead_on() {
        let mut room = LittleRoom::default();
        assert!(!room.look(true, None, 0) && room.look(true, None, 2 * SECOND));
        room.asks(2 * SECOND);
        assert!(!room.look(false, Enough, 3 * SECOND), "another leads");
        assert!(!room.look(true, None, 9 * SECOND) && !room.look(true, None, 11 * SECOND));
        assert!(room.look(true, None, 12 * SECOND), "and is full now, perhaps");
    }
}
