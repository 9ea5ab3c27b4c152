//! What a seed decides of a cluster at its beginning.

use crate::plan::Plan as DatabasePlan;
use ferrite_io::simulated::SimulatedRandom;
use ferrite_replica::group::Timing;

const MILLI: u64 = 1_000_000;

/// Shorter than the server's, so that a history of seconds has all of it.
pub const TIMING: Timing = Timing {
    heartbeat: 50 * MILLI,
    failure: 1_000 * MILLI,
    resend: 300 * MILLI,
    join_bytes: 20_000,
    window_bytes: 200_000,
};
/// A node that was not heard of for so long is not there: longer than what a leader needs to notice
/// that it is alone, whatever its clock does.
pub const DEAD_NANOS: u64 = 1_500 * MILLI;
/// The others' answers to a seal are waited for so long, once one suffices.
pub const GRACE_NANOS: u64 = 200 * MILLI;
/// A seal that nobody has answered is begun again.
pub const SEAL_AGAIN_NANOS: u64 = 3_000 * MILLI;
/// Between two ticks of a node.
pub const TICK_NANOS: u64 = 20 * MILLI;

#[derive(Clone, Debug)]
pub struct Plan {
    pub database: DatabasePlan,
    pub nodes: u32,
    pub chapters: u32,
    /// Calls on the way at a time, to one node.
    pub window: usize,
    /// A chapter with faults takes so long.
    pub millis: u64,
    /// Between two fsyncs of a node, at most.
    pub sync_micros: u64,
    /// Between two calls of clients, at most.
    pub think_micros: u64,
    pub faults: Faults,
}

/// Of a hundred, unless it is said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lose: u64,
    pub repeat: u64,
    pub reorder: u64,
    /// Milliseconds that a message takes at most, mostly.
    pub delay: u64,
    pub splits: bool,
    /// Between two crashes and the like, at most.
    pub pause_millis: u64,
    /// Of those that happen, one is of this kind so often in proportion.
    pub crashes: u64,
    pub disks: u64,
    /// Of a machine, and not only of a process, of a hundred crashes.
    pub power: u64,
    pub schema: bool,
}

impl Plan {
    pub fn new(random: &mut SimulatedRandom) -> Plan {
        let mut database = DatabasePlan::new(random);
        database.partitions = 1 + random.below(3) as u32;
        database.homes = 2 + random.below(5) as i64;
        let window = 1 + random.below(12) as usize;
        // Each node has clients of its own.
        database.turns.window = 4 * window;
        let faults = match random.below(6) {
            0 => Faults { delay: random.below(3), schema: true, ..Faults::default() },
            kind => Faults {
                lose: random.below(10),
                repeat: random.below(10),
                reorder: random.below(40),
                delay: random.below(30),
                pause_millis: 300 + random.below(3_000),
                splits: kind > 2 && random.percent(80),
                crashes: if kind > 1 { random.below(10) } else { 0 },
                disks: if kind > 3 { random.below(4) } else { 0 },
                power: if database.power_loss { random.below(100) } else { 0 },
                schema: random.percent(70),
            },
        };
        Plan {
            database,
            nodes: 2 + random.below(2) as u32,
            window,
            chapters: 1 + random.below(3) as u32,
            millis: 3_000 + random.below(12_000),
            sync_micros: 1 << random.below(16),
            think_micros: 1 << (10 + random.below(8)),
            faults,
        }
    }
}
