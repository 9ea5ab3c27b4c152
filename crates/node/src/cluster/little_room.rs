//! When a leader lets another member lead because its own disk has little room
//! (docs/decisions/0068-full-disks.md).

/// For so long its disk has little room before another is asked to lead: what the others have said
/// of theirs is later than that, also where all share one disk.
const SURE_NANOS: u64 = 2_000_000_000;
/// Between two attempts.
const AGAIN_NANOS: u64 = 10_000_000_000;
/// So long a leader that comes back leads on, room or not: two nodes that are both nearly full do
/// not pass the lead to and fro.
const REST_NANOS: u64 = 120_000_000_000;

/// Of one process.
#[derive(Default)]
pub struct LittleRoom {
    since: Option<u64>,
    /// When another was asked to lead last, while this node has led since.
    asked: Option<u64>,
    rests_until: u64,
}

impl LittleRoom {
    /// Whether another member, if one has room, is to lead now. Times are of the boot-time clock.
    pub fn look(&mut self, leads: bool, has_little: bool, now: u64) -> bool {
        if !leads && let Some(asked) = self.asked.take() {
            self.rests_until = asked + REST_NANOS;
        }
        if !(leads && has_little) {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since) >= SURE_NANOS && now >= self.rests_until
    }

    /// Another was asked to lead.
    pub fn asks(&mut self, now: u64) {
        (self.asked, self.rests_until) = (Some(now), now + AGAIN_NANOS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_leader_asks_when_it_is_sure_and_again_where_it_was_in_vain() {
        let mut room = LittleRoom::default();
        assert!(!room.look(true, false, 0) && !room.look(true, true, 5 * SECOND));
        assert!(!room.look(true, true, 6 * SECOND));
        assert!(room.look(true, true, 7 * SECOND), "nobody had room until now, perhaps");
        assert!(room.look(true, true, 8 * SECOND));
        room.asks(8 * SECOND);
        assert!(!room.look(true, true, 17 * SECOND));
        assert!(room.look(true, true, 18 * SECOND), "it leads still");
        assert!(!room.look(true, false, 19 * SECOND), "there is room again");
        assert!(!room.look(true, true, 20 * SECOND) && room.look(true, true, 22 * SECOND));
    }

    #[test]
    fn a_leader_that_comes_back_soon_leads_on() {
        let mut room = LittleRoom::default();
        assert!(!room.look(true, true, 0) && room.look(true, true, 2 * SECOND));
        room.asks(2 * SECOND);
        assert!(!room.look(false, true, 3 * SECOND), "another leads");
        let (back, over) = (4 * SECOND, 2 * SECOND + REST_NANOS);
        assert!(!room.look(true, true, back) && !room.look(true, true, over - 1));
        assert!(room.look(true, true, over));
        // One that only follows asks nobody.
        let mut copy = LittleRoom::default();
        assert!((0..300).all(|second| !copy.look(false, true, second * SECOND)));
    }
}
