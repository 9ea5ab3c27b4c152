//! What a seed decides at its beginning: how large everything is, and how the parties take turns.

use ferrite_io::SECTOR_BYTES;
use ferrite_io::simulated::{FaultKind, SimulatedRandom};
use ferrite_log::{Durability, LogOptions};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Plan {
    pub partitions: u32,
    pub homes: i64,
    pub lives: u32,
    pub log: LogOptions,
    /// Power may be lost, not only processes end: with durability sync only, since others do not
    /// promise to survive that.
    pub power_loss: bool,
    pub turns: Turns,
}

/// How often each party gets its turn when it has something to do.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    pub submit: u64,
    pub partition: u64,
    pub coordinator: u64,
    pub log: u64,
    pub ahead: u64,
    pub clock: u64,
    /// Calls on the way at a time.
    pub window: usize,
}

impl Plan {
    pub fn new(random: &mut SimulatedRandom) -> Plan {
        let durability = match random.below(10) {
            0 => Durability::None,
            1 => Durability::Interval(Duration::from_millis(random.below(20))),
            _ => Durability::Sync,
        };
        let sectors = 16 + random.below(64);
        let block_bytes_max = (1 + random.below(sectors - 4)) as usize * SECTOR_BYTES - 64;
        Plan {
            partitions: 1 + random.below(4) as u32,
            homes: 2 + random.below(9) as i64,
            lives: 2 + random.below(4) as u32,
            power_loss: durability == Durability::Sync,
            log: LogOptions {
                durability,
                segment_bytes: sectors * SECTOR_BYTES as u64,
                block_bytes_max,
                prepare_ahead: random.percent(70),
                look_interval: Duration::from_millis(if random.percent(50) { 0 } else { random.below(50) }),
                own_threads: false,
                ..LogOptions::default()
            },
            turns: Turns {
                submit: 10 + random.below(40),
                partition: 5 + random.below(40),
                coordinator: 5 + random.below(40),
                log: 1 + random.below(40),
                ahead: 1 + random.below(20),
                clock: 1 + random.below(4),
                window: 1 + random.below(40) as usize,
            },
        }
    }
    /// A kind of fault, one of `others` or of those that concern data. A failed fsync loses what
    /// was written before, which only durability sync does not acknowledge earlier.
    pub fn fault_kind(&self, random: &mut SimulatedRandom, others: &[FaultKind]) -> FaultKind {
        match random.below(4) {
            0 => *random.pick(others),
            1 | 2 if self.power_loss => FaultKind::Sync,
            _ => FaultKind::Write,
        }
    }
}
