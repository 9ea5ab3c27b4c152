//! What happens to the server in one round, from a seed.

use ferrite_bench::random::FastRandom;
use std::fmt;
use std::time::Duration;

/// When SIGKILL comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// So long after the loads began.
    Time(Duration),
    /// When a client hears of a success, the n-th after that time.
    Success(Duration, u32),
    /// When the first success of the n-th burst is heard of: the rest of the batch is on its way.
    Burst(u32),
    /// So long after a schema change was sent, once the first time has passed.
    SchemaChange(Duration, Duration),
    /// So long after a snapshot was asked for, once the first time has passed.
    Snapshot(Duration, Duration),
    /// Not at all: SIGTERM, and an orderly end under load.
    Stop(Duration),
}

/// SIGSTOP after a while, SIGCONT after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    pub after: Duration,
    pub length: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub moment: Moment,
    pub pause: Option<Pause>,
    /// Kills while the server recovers, each at this percentage of the time that the last recovery
    /// took.
    pub recovery_kills: Vec<u32>,
    /// For the loads.
    pub seed: u64,
}

impl Plan {
    /// The plan of a round. Plans of different rounds have nothing to do with one another, so a
    /// round can be planned alone.
    pub fn new(seed: u64, round: u32) -> Plan {
        let mut random = FastRandom::new(seed ^ u64::from(round).wrapping_mul(0xd134_2543_de82_ef95));
        let after = |random: &mut FastRandom, most: u32| Duration::from_micros(u64::from(random.below(most * 1_000)));
        let moment = match random.below(100) {
            0..30 => Moment::Time(after(&mut random, 600)),
            30..45 => Moment::Success(after(&mut random, 400), 1 + random.below(50)),
            45..70 => Moment::Burst(1 + random.below(6)),
            70..82 => Moment::SchemaChange(after(&mut random, 400), after(&mut random, 12)),
            82..94 => Moment::Snapshot(after(&mut random, 300), after(&mut random, 80)),
            _ => Moment::Stop(after(&mut random, 400)),
        };
        let pause =
            (random.below(5) == 0).then(|| Pause { after: after(&mut random, 300), length: after(&mut random, 400) });
        let recovery_kills = match random.below(10) {
            0..7 => Vec::new(),
            _ => (0..1 + random.below(3)).map(|_| random.below(110)).collect(),
        };
        Plan { moment, pause, recovery_kills, seed: random.next_u64() }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: &Duration| time.as_secs_f64() * 1e3;
        match self {
            Moment::Time(after) => write!(f, "SIGKILL after {:.1} ms", ms(after)),
            Moment::Success(after, nth) => write!(f, "SIGKILL at success {nth} after {:.1} ms", ms(after)),
            Moment::Burst(nth) => write!(f, "SIGKILL at the first success of burst {nth}"),
            Moment::SchemaChange(after, into) => {
                write!(f, "SIGKILL {:.1} ms into a schema change after {:.1} ms", ms(into), ms(after))
            }
            Moment::Snapshot(after, into) => {
                write!(f, "SIGKILL {:.1} ms into a snapshot after {:.1} ms", ms(into), ms(after))
            }
            Moment::Stop(after) => write!(f, "SIGTERM after {:.1} ms", ms(after)),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.moment.fmt(f)?;
        if let Some(pause) = self.pause {
            write!(
                f,
                ", paused after {:.0} ms for {:.0} ms",
                pause.after.as_secs_f64() * 1e3,
                pause.length.as_secs_f64() * 1e3
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_plans_and_all_kinds_of_them() {
        let plans: Vec<Plan> = (0..200).map(|round| Plan::new(1, round)).collect();
        assert_eq!(plans, (0..200).map(|round| Plan::new(1, round)).collect::<Vec<_>>());
        assert_ne!(plans[0], Plan::new(2, 0));
        let count = |kind: fn(&Plan) -> bool| plans.iter().filter(|plan| kind(plan)).count();
        assert!(count(|plan| matches!(plan.moment, Moment::Time(_))) > 30);
        assert!(count(|plan| matches!(plan.moment, Moment::Burst(_))) > 30);
        assert!(count(|plan| matches!(plan.moment, Moment::SchemaChange(..))) > 10);
        assert!(count(|plan| matches!(plan.moment, Moment::Snapshot(..))) > 10);
        assert!(count(|plan| matches!(plan.moment, Moment::Stop(_))) > 3);
        assert!(count(|plan| plan.pause.is_some()) > 20);
        assert!(count(|plan| !plan.recovery_kills.is_empty()) > 30);
    }
}
