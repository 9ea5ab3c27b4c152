//! When a leader lets another member lead because its own disk has little room
//! (docs/decisions/0068-full-disks.md), or because it cannot run all procedures
//! (docs/decisions/0102-nodes-without-java.md).

/// The lack must last this long before another node is asked to lead: what the others have reported
/// is then later than that, also where all share one disk.
const SURE_NANOS: u64 = 2_000_000_000;
/// Between two attempts.
const AGAIN_NANOS: u64 = 10_000_000_000;
/// A leader that comes back leads at least this long, as long as its calls do not fail: two nodes
/// with just about enough room do not pass the lead to and fro.
const REST_NANOS: u64 = 120_000_000_000;

/// One process's state, for one reason for which another member is to lead.
#[derive(Default)]
pub struct GivingWay {
    since: Option<u64>,
    /// When another was asked to lead last.
    asked: Option<u64>,
    /// That other node has led since.
    other_led: bool,
}

/// Of one group that this node may lead.
#[derive(Default)]
pub struct GivingWayFor {
    pub little_room: GivingWay,
    pub no_java: GivingWay,
}

/// How much room the disk of a node has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Room {
    #[default]
    Enough,
    /// Less than twice its reserve.
    Little,
    /// Less than its reserve: writes are refused.
    None,
}

/// How much a leader lacks of what another node may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    Nothing,
    /// Calls will fail.
    Soon,
    /// Calls fail.
    Now,
}

impl From<Room> for Need {
    fn from(room: Room) -> Need {
        match room {
            Room::Enough => Need::Nothing,
            Room::Little => Need::Soon,
            Room::None => Need::Now,
        }
    }
}

impl GivingWay {
    /// Whether another member, if one has what is lacking, is to lead now. Times are of the
    /// boot-time clock.
    pub fn is_due(&mut self, serves: bool, need: Need, now: u64) -> bool {
        self.other_led |= !serves;
        if !serves || need == Need::Nothing {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let pause = if self.other_led && need == Need::Soon { REST_NANOS } else { AGAIN_NANOS };
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
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn room_on_a_disk_is_lacked_before_calls_fail() {
        let needs = [Room::Enough, Room::Little, Room::None].map(Need::from);
        assert_eq!(needs, [Need::Nothing, Need::Soon, Need::Now]);
    }

    #[test]
    fn a_leader_asks_when_it_is_sure_and_again_where_it_was_in_vain() {
        let mut room = GivingWay::default();
        assert!(!room.is_due(true, Need::Nothing, 0) && !room.is_due(true, Need::Soon, 5 * SECOND));
        assert!(!room.is_due(true, Need::Soon, 6 * SECOND));
        assert!(room.is_due(true, Need::Soon, 7 * SECOND), "nobody had room until now, perhaps");
        assert!(room.is_due(true, Need::Soon, 8 * SECOND));
        room.asks(8 * SECOND);
        assert!(!room.is_due(true, Need::Soon, 17 * SECOND));
        assert!(room.is_due(true, Need::Soon, 18 * SECOND), "it leads still");
        assert!(!room.is_due(true, Need::Nothing, 19 * SECOND), "there is room again");
        assert!(!room.is_due(true, Need::Soon, 20 * SECOND) && room.is_due(true, Need::Soon, 22 * SECOND));
    }

    #[test]
    fn a_leader_that_comes_back_soon_leads_on() {
        let mut room = GivingWay::default();
        assert!(!room.is_due(true, Need::Soon, 0) && room.is_due(true, Need::Soon, 2 * SECOND));
        room.asks(2 * SECOND);
        assert!(!room.is_due(false, Need::Soon, 3 * SECOND), "another leads");
        let (back, over) = (4 * SECOND, 2 * SECOND + REST_NANOS);
        assert!(!room.is_due(true, Need::Soon, back) && !room.is_due(true, Need::Soon, over - 1));
        assert!(room.is_due(true, Need::Soon, over));
        // A node that only follows asks no other.
        let mut copy = GivingWay::default();
        assert!((0..300).all(|second| !copy.is_due(false, Need::Soon, second * SECOND)));
    }

    #[test]
    fn one_that_refuses_writes_does_not_lead_on() {
        let mut room = GivingWay::default();
        assert!(!room.is_due(true, Need::Now, 0) && room.is_due(true, Need::Now, 2 * SECOND));
        room.asks(2 * SECOND);
        assert!(!room.is_due(false, Need::Nothing, 3 * SECOND), "another leads");
        assert!(!room.is_due(true, Need::Now, 9 * SECOND) && !room.is_due(true, Need::Now, 11 * SECOND));
        assert!(room.is_due(true, Need::Now, 12 * SECOND), "and is full now, perhaps");
    }
}
