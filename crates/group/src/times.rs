//! What time a group's transactions may show (docs/replication.md, section 8, "NOW").
//!
//! Owns what this node has shown, what others know of it, and what it has heard of the leader's
//! clock. Promises that a leader shows no time that a member which could lead next is unaware of,
//! without a message, a lock or a wait of any transaction. Does not know how messages travel.
//!
//! A time that was sent advances by itself, a little slower than clocks run: by 2 % where it was
//! heard, by 4 % where it was said. Clocks differ in speed by 1 % at most, so what the leader may
//! show is never ahead of what the member counts.

use ferrite_base::{NodeId, planted};
use ferrite_replica::group::{GroupConfiguration, Member, Said};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Per mille: how fast a time advances where it was heard, and where it was said.
const HEARD_PER_MILLE: u64 = 980;
const SAID_PER_MILLE: u64 = 960;
/// Microseconds that are said beyond the clock: what an answer takes must not hold time up.
const AHEAD_MICROS: i64 = 20_000;
/// The same for numbers of transactions: more than are given between two messages.
const NUMBERS_AHEAD_MICROS: i64 = 1_000_000;
/// Time does not go back by up to this much, a minute and what is said ahead; beyond that it
/// follows the clock.
const HELD_MILLIS: i64 = 61_000;
/// A time that no clock reaches: there is no limit.
const UNLIMITED: i64 = i64::MAX;

/// What nodes may tell each other, in microseconds since 1970: TIMESTAMP from 1583 to 9999.
pub const TIMES: RangeInclusive<i64> = -12_212_553_600_000_000..=253_402_300_799_999_999;

/// A time that advances from when it was said or heard, by the boot-time clock in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Line {
    time: i64,
    at: u64,
}

impl Line {
    fn reaches(self, at: u64, per_mille: u64) -> i64 {
        let micros = at.saturating_sub(self.at) / 1_000 * per_mille / 1_000;
        self.time.saturating_add(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// The later one of both, as of `at`.
    fn advance(known: &mut Option<Line>, time: i64, at: u64, per_mille: u64) {
        if known.is_none_or(|known| time >= known.reaches(at, per_mille)) {
            *known = Some(Line { time, at });
        }
    }
}

/// Read without a lock by the threads that execute.
pub(crate) struct Shown {
    /// The last time that was shown, in milliseconds.
    millis: AtomicI64,
    /// What may be shown: this line.
    until: AtomicI64,
    until_at: AtomicU64,
}

impl Shown {
    /// For a stream that has come to `time`.
    pub fn behind(time: i64) -> Shown {
        Shown { millis: AtomicI64::new(time / 1_000), until: AtomicI64::new(UNLIMITED), until_at: AtomicU64::new(0) }
    }

    /// The time of a transaction, in microseconds but whole milliseconds. `wall`: as the clock has
    /// it; `boottime`: asked only where others could lead.
    #[inline]
    pub fn show(&self, wall: i64, boottime: impl FnOnce() -> u64) -> i64 {
        let mut millis = wall.div_euclid(1_000);
        let last = self.millis.load(Ordering::Relaxed);
        if millis == last {
            return last * 1_000;
        }
        if last - millis > HELD_MILLIS {
            // The clock was set back by more: time follows it.
            let _ = self.millis.compare_exchange(last, millis, Ordering::Relaxed, Ordering::Relaxed);
            return millis * 1_000;
        }
        // In this order: `limit` writes the other way round, and a limit of which half is new is
        // lower than either.
        let until = self.until.load(Ordering::Acquire);
        if until != UNLIMITED && !planted!(TimeUnlimited) {
            let line = Line { time: until, at: self.until_at.load(Ordering::Acquire) };
            millis = millis.min(line.reaches(boottime(), SAID_PER_MILLE).div_euclid(1_000));
        }
        if millis <= last {
            return last * 1_000;
        }
        self.millis.fetch_max(millis, Ordering::Relaxed).max(millis) * 1_000
    }

    /// The last time that was shown.
    pub fn so_far(&self) -> i64 {
        self.millis.load(Ordering::Relaxed).saturating_mul(1_000)
    }

    /// The same, and all of its millisecond.
    fn last(&self) -> i64 {
        self.so_far().saturating_add(999)
    }

    fn limit(&self, line: Option<Line>) {
        let (time, at) = line.map_or((UNLIMITED, 0), |line| (line.time, line.at));
        if time != UNLIMITED {
            self.until_at.store(at, Ordering::Release);
        }
        self.until.store(time, Ordering::Release);
    }
}

/// Under the group's lock.
#[derive(Default)]
pub(crate) struct Times {
    /// The leader's clock, as this node has heard.
    heard: Option<Line>,
    heard_numbers: i64,
    /// What members have answered.
    answered: BTreeMap<NodeId, (Member, Option<Line>)>,
    said: Said,
    said_at: Option<u64>,
    /// When this node began to lead: what the earlier leader may have shown, and given.
    began_behind: Said,
}

/// Whether a time is held to: not that of a clock which is ahead of this one by more.
fn is_near(time: i64, wall: i64) -> bool {
    time.div_euclid(1_000) - wall.div_euclid(1_000) <= HELD_MILLIS
}

impl Times {
    /// A leader has said something of its clock.
    pub fn hear(&mut self, said: Said, at: u64) {
        Line::advance(&mut self.heard, said.now, at, HEARD_PER_MILLE);
        self.heard_numbers = self.heard_numbers.max(said.numbers);
    }

    /// This node is to lead, after a stream that has come to `time`: returns the time to which that
    /// of its first entry is raised, by which all members know what is shown from then on.
    pub fn begin(&mut self, time: i64, wall: i64, at: u64) -> i64 {
        let heard = self
            .heard
            .filter(|_| !planted!(TimeOfEntries))
            .map_or(i64::MIN, |heard| heard.reaches(at, HEARD_PER_MILLE));
        let near = [time, heard].into_iter().filter(|known| is_near(*known, wall));
        let now = near.max().unwrap_or(i64::MIN);
        let given = if planted!(NumbersOfEntries) { time } else { self.heard_numbers.max(heard).max(time) };
        self.began_behind = Said { now, numbers: given };
        now.max(time)
    }

    /// It leads now.
    pub fn open(&self, shown: &Shown) {
        shown.millis.fetch_max(self.began_behind.now.div_euclid(1_000), Ordering::Relaxed);
    }

    /// Numbers of new transactions are above this.
    pub fn numbers_behind(&self) -> i64 {
        self.began_behind.numbers
    }

    /// Whether something is to be said again: not within `every` nanoseconds of the last time.
    pub fn is_due(&self, at: u64, every: u64) -> bool {
        self.said_at.is_none_or(|said| at.saturating_sub(said) >= every)
    }

    /// What a leader says now. `time`: that of its stream.
    pub fn say(&mut self, shown: &Shown, time: i64, wall: i64, at: u64) -> Said {
        let may_be_told = |micros: i64| micros.clamp(*TIMES.start(), *TIMES.end());
        let now = may_be_told(wall.max(shown.last()).saturating_add(AHEAD_MICROS));
        let numbers = may_be_told(time.max(now).saturating_add(NUMBERS_AHEAD_MICROS));
        self.said = Said { now: now.max(self.said.now), numbers: numbers.max(self.said.numbers) };
        self.said_at = Some(at);
        self.said
    }

    /// A member knows what was said.
    pub fn answered(&mut self, from: Member, said: Said, at: u64) {
        if said.now > self.said.now {
            // No time was announced.
            return;
        }
        if let Some((member, line)) = self.answered.get_mut(&from.node)
            && *member == from
        {
            Line::advance(line, said.now, at, SAID_PER_MILLE);
        }
    }

    /// What may be shown, as of now: what each other member knows. `leads`: this node, with that
    /// configuration.
    pub fn limit(&mut self, shown: &Shown, leads: Option<&GroupConfiguration>, here: Member, at: u64) {
        let Some(configuration) = leads else {
            self.answered.clear();
            return shown.limit(None);
        };
        let others = || configuration.members().iter().filter(|member| **member != here);
        self.answered.retain(|_, (member, _)| configuration.has(*member));
        for member in others() {
            let known = self.answered.entry(member.node).or_insert((*member, None));
            if known.0 != *member {
                *known = (*member, None);
            }
        }
        // A member that has not answered yet may lead next: time stands still until it has.
        let line = |(_, line): &(Member, Option<Line>)| line.map_or(i64::MIN, |line| line.reaches(at, SAID_PER_MILLE));
        shown.limit(self.answered.values().map(line).min().map(|time| Line { time, at }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_base::Epoch;

    const SECOND: u64 = 1_000_000_000;
    const BEGIN: i64 = 1_800_000_000_000_000;

    fn pair() -> (Member, Member, GroupConfiguration) {
        let (one, two) = (Member::new(1, 1), Member::new(2, 1));
        (one, two, GroupConfiguration::new(Epoch(3), one, vec![one, two], Vec::new()))
    }

    #[test]
    fn whole_milliseconds_that_do_not_go_back_by_a_minute() {
        let shown = Shown::behind(0);
        let show = |wall| shown.show(wall, || panic!("nobody else could lead"));
        assert_eq!(show(BEGIN + 1_999), BEGIN + 1_000);
        assert_eq!(show(BEGIN - 60_000_000), BEGIN + 1_000, "it stands still");
        assert_eq!(show(BEGIN + 2_000), BEGIN + 2_000);
        assert_eq!(show(BEGIN - 3_600_000_000), BEGIN - 3_600_000_000, "by an hour it follows the clock");
        assert_eq!(show(-1), -1_000, "before 1970, too");
    }

    #[test]
    fn a_leader_shows_what_its_members_know_and_that_goes_on_by_itself() {
        let (one, two, configuration) = pair();
        let (shown, mut times) = (Shown::behind(BEGIN), Times::default());
        times.limit(&shown, Some(&configuration), one, 0);
        assert_eq!(shown.show(BEGIN + 5_000_000, || SECOND), BEGIN, "the other member knows nothing");
        let said = times.say(&shown, BEGIN, BEGIN + 5_000_000, SECOND);
        times.answered(two, Said { now: said.now + 1, ..said }, SECOND);
        times.answered(Member::new(2, 2), said, SECOND);
        times.limit(&shown, Some(&configuration), one, SECOND);
        assert_eq!(shown.show(BEGIN + 5_000_000, || SECOND), BEGIN, "nobody has said that, and another process");
        times.answered(two, said, SECOND);
        times.limit(&shown, Some(&configuration), one, SECOND);
        assert_eq!(shown.show(BEGIN + 5_000_000, || SECOND), BEGIN + 5_000_000);
        // Its clock jumps: no member knows of that.
        assert_eq!(shown.show(BEGIN + 50_000_000, || 2 * SECOND), BEGIN + 5_980_000);
        times.limit(&shown, Some(&GroupConfiguration::alone(Epoch(4), one)), one, 2 * SECOND);
        assert_eq!(shown.show(BEGIN + 50_000_000, || panic!("it is alone")), BEGIN + 50_000_000);
    }

    #[test]
    fn the_next_leader_is_never_behind_whatever_the_clocks_do() {
        let (one, two, configuration) = pair();
        // Speeds of both, in thousandths, and what the message and its answer take.
        for (rate, other, to, back) in
            [(1_010, 990, 0, 0), (1_000, 1_000, SECOND, 0), (990, 1_010, 0, SECOND), (1_010, 990, SECOND / 3, SECOND)]
        {
            let (shown, mut times, mut next) = (Shown::behind(0), Times::default(), Times::default());
            let at = |now: u64, rate: u64| now * rate / 1_000;
            let wall = |now: u64| BEGIN + 20_000_000 + (at(now, rate) / 1_000) as i64;
            for word in 0..5 {
                let now = word * 2 * SECOND;
                let said = times.say(&shown, 0, wall(now), at(now, rate));
                next.hear(said, at(now + to, other));
                times.limit(&shown, Some(&configuration), one, at(now, rate));
                times.answered(two, said, at(now + to + back, rate));
                times.limit(&shown, Some(&configuration), one, at(now + to + back, rate));
                for later in [0, SECOND / 2] {
                    let now = now + to + back + later;
                    // It jumps at the last moment.
                    let jump = if word == 4 { 30_000_000 } else { 0 };
                    let last = shown.show(wall(now) + jump, || at(now, rate));
                    let of_next = Shown::behind(0);
                    next.begin(0, BEGIN, at(now, other));
                    next.open(&of_next);
                    let first = of_next.show(BEGIN, || panic!("it has no members yet"));
                    assert!(first >= last && first <= wall(now) + 60_000, "{first} behind {last} at {now}");
                }
            }
        }
    }

    #[test]
    fn a_clock_that_was_hours_ahead_is_not_held_to_but_numbers_are() {
        let (mut times, shown) = (Times::default(), Shown::behind(0));
        let ahead = BEGIN + 3_600_000_000;
        times.hear(Said { now: ahead, numbers: ahead }, 0);
        assert_eq!(times.begin(BEGIN - 7, BEGIN, 0), BEGIN - 7);
        times.open(&shown);
        assert_eq!(shown.show(BEGIN, || 0), BEGIN);
        assert_eq!(times.numbers_behind(), ahead);
        // A minute ahead, with what was said ahead of that.
        let (mut times, shown) = (Times::default(), Shown::behind(0));
        times.hear(Said { now: BEGIN + 60_000_000 + AHEAD_MICROS, numbers: 0 }, 0);
        let ahead = BEGIN + 60_000_000 + AHEAD_MICROS;
        assert_eq!(times.begin(0, BEGIN, 0), ahead);
        times.open(&shown);
        assert_eq!(shown.show(BEGIN, || 0), ahead);
    }
}
