//! What happens to a cluster in one round, from a seed.

use crate::options::HarmKind;
use crate::torture::cluster::split::{self, Split};
use crate::torture::plan::Moment;
use ferrite_bench::random::FastRandom;
use std::fmt;
use std::time::Duration;

/// Longer than leases and elections take.
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// Longer than every time limit between nodes, of which the longest is 10 s.
pub const SPLIT_MIN: Duration = Duration::from_secs(12);

/// How often one comes, beside the others.
fn weight(kind: HarmKind) -> u32 {
    match kind {
        HarmKind::Kills => 54,
        HarmKind::KillsOfAll | HarmKind::Stops => 12,
        HarmKind::Pauses => 22,
        HarmKind::Splits => 40,
        HarmKind::Wipes => 30,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Harm {
    /// SIGKILL of a node.
    Kill,
    /// SIGKILL of all nodes at once, and a start of all.
    KillAll,
    /// SIGSTOP of a node for so long, then SIGCONT.
    Pause(Duration),
    /// SIGTERM of a node.
    Stop,
    /// SIGKILL of a node, and its directory is gone.
    Wipe,
    /// Nodes do not reach each other for so long.
    Split(Split, Duration),
}

impl Harm {
    /// Whether another node leads afterwards, if the victim has led.
    pub fn deposes(self, victim: usize, nodes: usize, members: &[usize]) -> bool {
        match self {
            Harm::Kill | Harm::Stop | Harm::Wipe | Harm::Pause(_) => true,
            Harm::KillAll => false,
            Harm::Split(split, length) => {
                let (side, _) = split.trouble(victim, nodes, members);
                length >= SPLIT_MIN && split.deposes(&side, members)
            }
        }
    }
}

/// To whom it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    Leader,
    /// One of the others, in turn from the leader on.
    Other(u32),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub harm: Harm,
    pub victim: Victim,
    pub moment: Moment,
    /// The node comes back while the loads go on.
    pub returns_under_load: bool,
    /// When it has come back under load, it is killed once more so long after its start.
    pub killed_again: Option<Duration>,
    /// Calls go to the leader; else to all nodes in turn, which pass them on.
    pub affinity: bool,
    /// A leader that is to stand still, or to be cut off, is only read from, from a moment before
    /// that on: a read waits for the commit of what was executed before it, so that a leader that
    /// cannot commit shows nothing stale to whoever writes, too.
    pub looks: bool,
    /// Afterwards another copy is compared with the leader's.
    pub compare: bool,
    /// For the loads.
    pub seed: u64,
}

impl Plan {
    /// The plan of a round, whatever the others are.
    pub fn new(seed: u64, round: u32, kinds: &[HarmKind]) -> Plan {
        let mut random = FastRandom::new(seed ^ u64::from(round).wrapping_mul(0x9e6c_63d0_876a_3f35));
        let after = |random: &mut FastRandom, most: u32| Duration::from_micros(u64::from(random.below(most * 1_000)));
        let mut drawn = random.below(kinds.iter().map(|kind| weight(*kind)).sum());
        let drawn_is = |kind: &&HarmKind| {
            let below = drawn < weight(**kind);
            drawn = drawn.saturating_sub(weight(**kind));
            below
        };
        let harm = match kinds.iter().find(drawn_is).expect("the number is below the sum of all") {
            HarmKind::Kills => Harm::Kill,
            HarmKind::KillsOfAll => Harm::KillAll,
            HarmKind::Pauses => Harm::Pause(PAUSE_MIN + after(&mut random, 4_000)),
            HarmKind::Stops => Harm::Stop,
            HarmKind::Wipes => Harm::Wipe,
            HarmKind::Splits => {
                let split = split::ALL[random.below(split::ALL.len() as u32) as usize];
                let length = match random.below(5) {
                    0 => after(&mut random, 5_000),
                    _ => SPLIT_MIN + after(&mut random, 3_000),
                };
                Harm::Split(split, length)
            }
        };
        let victim = match random.below(100) {
            0..70 => Victim::Leader,
            _ => Victim::Other(random.below(8)),
        };
        let moment = match random.below(100) {
            0..35 => Moment::Time(after(&mut random, 1_500)),
            35..60 => Moment::Success(after(&mut random, 800), 1 + random.below(50)),
            60..82 => Moment::SchemaChange(after(&mut random, 800), after(&mut random, 12)),
            _ => Moment::Snapshot(after(&mut random, 500), after(&mut random, 80)),
        };
        let returns_under_load = random.below(2) == 0;
        let killed_again = (harm == Harm::Kill && returns_under_load && random.below(3) == 0)
            .then(|| Duration::from_millis(10) + after(&mut random, 900));
        let affinity = random.below(4) != 0;
        let compare = random.below(3) == 0;
        let lasts = matches!(harm, Harm::Pause(_) | Harm::Split(..));
        let looks = lasts && victim == Victim::Leader && random.below(2) == 0;
        let moment = if looks { Moment::Time(after(&mut random, 1_500)) } else { moment };
        let seed = random.next_u64();
        Plan { harm, victim, moment, returns_under_load, killed_again, affinity, looks, compare, seed }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: &Duration| time.as_secs_f64() * 1e3;
        match self.moment {
            Moment::Time(after) => write!(f, "after {:.1} ms", ms(&after)),
            Moment::Success(after, nth) => write!(f, "at success {nth} after {:.1} ms", ms(&after)),
            Moment::SchemaChange(after, into) => {
                write!(f, "{:.1} ms into a schema change after {:.1} ms", ms(&into), ms(&after))
            }
            Moment::Snapshot(after, into) => {
                write!(f, "{:.1} ms into a snapshot after {:.1} ms", ms(&into), ms(&after))
            }
            Moment::Burst(_) | Moment::Stop(_) => unreachable!("not planned here"),
        }?;
        if self.looks {
            f.write_str(", only read from")?;
        }
        if !self.affinity {
            f.write_str(", calls to all nodes in turn")?;
        }
        if self.returns_under_load && matches!(self.harm, Harm::Kill | Harm::Stop | Harm::Wipe) {
            f.write_str(", back under load")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [HarmKind; 6] =
        [HarmKind::Kills, HarmKind::KillsOfAll, HarmKind::Pauses, HarmKind::Stops, HarmKind::Splits, HarmKind::Wipes];

    #[test]
    fn a_seed_gives_the_same_plans_and_all_kinds_of_them() {
        let plans: Vec<Plan> = (0..300).map(|round| Plan::new(1, round, &ALL)).collect();
        assert_eq!(plans, (0..300).map(|round| Plan::new(1, round, &ALL)).collect::<Vec<_>>());
        assert_ne!(plans[0], Plan::new(2, 0, &ALL));
        let count = |kind: fn(&Plan) -> bool| plans.iter().filter(|plan| kind(plan)).count();
        assert!(count(|plan| plan.harm == Harm::Kill) > 60);
        assert!(count(|plan| plan.harm == Harm::KillAll) > 10);
        assert!(count(|plan| plan.harm == Harm::Stop) > 10);
        assert!(count(|plan| plan.harm == Harm::Wipe) > 20);
        assert!(count(|plan| matches!(plan.harm, Harm::Pause(_))) > 20);
        assert!(count(|plan| matches!(plan.harm, Harm::Split(_, length) if length >= SPLIT_MIN)) > 40);
        for split in split::ALL {
            assert!(plans.iter().any(|plan| matches!(plan.harm, Harm::Split(found, _) if found == split)), "{split:?}");
        }
        assert!(count(|plan| plan.victim == Victim::Leader) > 100);
        assert!(count(|plan| plan.killed_again.is_some()) > 5);
        assert!(count(|plan| plan.looks) > 20);
        assert!(count(|plan| plan.compare) > 30);
        assert!(count(|plan| !plan.affinity) > 20);
    }

    #[test]
    fn only_what_is_chosen_happens() {
        let harms: Vec<Harm> =
            (0..50).map(|round| Plan::new(3, round, &[HarmKind::Pauses, HarmKind::Stops]).harm).collect();
        assert!(harms.iter().all(|harm| matches!(harm, Harm::Pause(_) | Harm::Stop)), "{harms:?}");
        assert!(harms.contains(&Harm::Stop) && harms.iter().any(|harm| *harm != Harm::Stop), "{harms:?}");
    }
}
