//! What a seed decides of a cluster at its beginning.

use crate::plan::Plan as DatabasePlan;
use ferrite_base::NodeId;
use ferrite_io::simulated::SimulatedRandom;
use ferrite_log::Durability;
use ferrite_meta::founding::Layout;
use ferrite_meta::placement::{PlacedNode, Placement, place_groups};
use ferrite_replica::group::Timing;

const MILLI: u64 = 1_000_000;
/// Of a hundred clusters, so many more wait for no fsync than databases alone.
const NOT_SYNCED: u64 = 15;

/// Shorter than the server's, so that a history of seconds has all of it; but for `propose`: what
/// is lost stays so for longer.
pub const TIMING: Timing = Timing {
    heartbeat: 50 * MILLI,
    failure: 1_000 * MILLI,
    stall: 4_000 * MILLI,
    resend: 300 * MILLI,
    propose: 300 * MILLI,
    join_bytes: 20_000,
    window_bytes: 200_000,
};
/// Wall clocks are off by so much at most, forward or back: two differ by less than a minute.
pub const OFF_SECONDS: i64 = 25;
/// Between two ticks of a node.
pub const TICK_NANOS: u64 = 20 * MILLI;

#[derive(Clone, Debug)]
pub struct Plan {
    pub database: DatabasePlan,
    /// With data; then those without, which only vote.
    pub nodes: u32,
    pub witnesses: u32,
    /// A group has so many members beside the first when all is well.
    pub kfactor: u32,
    /// So many partitions are kept by each node with data, in groups of their own. None: there is
    /// one group.
    pub partitions_per_node: Option<u32>,
    pub chapters: u32,
    /// Calls on the way at a time, to one node.
    pub window: usize,
    /// A chapter with faults takes so long.
    pub millis: u64,
    /// Between two fsyncs of a node, at most.
    pub sync_micros: u64,
    /// Between two calls of clients, at most.
    pub think_micros: u64,
    /// Between two snapshots of a node, at most; 0: it takes none by itself.
    pub snapshot_millis: u64,
    /// Nodes that have nothing get snapshots.
    pub snapshots: bool,
    /// A node loses all that it has, and joins as another.
    pub wipes: bool,
    /// A node loses what it has voted.
    pub votes: bool,
    /// An administrator pauses the database, and resumes it.
    pub pauses: bool,
    /// Messages about lots take seconds.
    pub stalls: bool,
    /// Of a hundred chapters, so many begin with an accepted loss of a leader that lives.
    pub accepts: u64,
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
    /// Processes that stand still for a while, and those that end in good order.
    pub pauses: u64,
    pub stops: u64,
    /// Of a machine, and not only of a process, of a hundred crashes.
    pub power: u64,
    /// The same where fsyncs are not waited for: of crashes that may take what was acknowledged.
    pub losses: u64,
    pub schema: bool,
}

impl Plan {
    pub fn voters(&self) -> usize {
        Layout { data: self.nodes, witnesses: self.witnesses, kfactor: self.kfactor }.voters()
    }

    /// Several groups on the nodes, and what is not there yet over several of them left out:
    /// snapshots that go to nodes which have nothing.
    pub fn with_groups(random: &mut SimulatedRandom) -> Plan {
        let mut plan = Plan::new(random);
        let mut faults = plan.faults;
        if !plan.database.power_loss {
            (faults.power, faults.losses) = (faults.losses, 0);
            (plan.database.log.durability, plan.database.power_loss) = (Durability::Sync, true);
        }
        // What spreads evenly: nodes, K, partitions for each node.
        let (nodes, witnesses, kfactor, partitions_per_node) = *random.pick(&[
            (2, 1, 1, 2),
            (2, 1, 1, 4),
            (3, 0, 0, 1),
            (3, 0, 1, 2),
            (3, 0, 1, 4),
            (3, 0, 2, 3),
            (4, 0, 1, 2),
            (5, 0, 2, 3),
        ]);
        plan.database.homes = 6 + random.below(10) as i64;
        Plan {
            nodes,
            witnesses,
            kfactor,
            partitions_per_node: Some(partitions_per_node),
            snapshot_millis: 0,
            snapshots: false,
            wipes: false,
            pauses: false,
            accepts: 0,
            faults,
            ..plan
        }
    }

    /// The same with snapshots: of leaders and of copies, each group's own, and those that go to
    /// nodes for which a log reaches back too little, or which have lost everything. Parts of lots
    /// and schema changes are in doubt meanwhile. Administrators pause the database.
    pub fn with_groups_and_snapshots(random: &mut SimulatedRandom) -> Plan {
        let plan = Plan::with_groups(random);
        let snapshot_millis = *random.pick(&[300, 1_000, 3_000]);
        let wipes = plan.faults.crashes > 0 && random.percent(70);
        Plan { snapshots: true, snapshot_millis, wipes, pauses: true, ..plan }
    }

    /// Several groups, whose messages about lots may take longer than a part in doubt waits for its
    /// outcome, and than a sequencer leads.
    pub fn with_groups_and_stalls(random: &mut SimulatedRandom) -> Plan {
        Plan { stalls: true, ..Plan::with_groups(random) }
    }

    /// Several groups, and operators who accept the loss of one: parts of lots that others have are
    /// lost with it.
    pub fn with_groups_and_losses(random: &mut SimulatedRandom) -> Plan {
        Plan { accepts: 70, ..Plan::with_groups(random) }
    }

    /// Where the groups are, where there are several.
    pub fn placement(&self) -> Option<Placement> {
        let nodes: Vec<PlacedNode> =
            (1..=self.nodes).map(|node| PlacedNode { node: NodeId(node), rack: None }).collect();
        let placed = |count| place_groups(&nodes, self.kfactor, count).expect("the layouts here can be placed");
        self.partitions_per_node.map(placed)
    }

    pub fn partitions(&self) -> u32 {
        self.placement().map_or(self.database.partitions, |placement| placement.partitions())
    }

    pub fn new(random: &mut SimulatedRandom) -> Plan {
        let mut database = DatabasePlan::new(random);
        database.partitions = 1 + random.below(3) as u32;
        database.homes = 2 + random.below(5) as i64;
        if random.percent(NOT_SYNCED) {
            (database.log.durability, database.power_loss) = (Durability::None, false);
        }
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
                pauses: if kind > 1 { random.below(6) } else { 0 },
                stops: if kind > 1 { random.below(4) } else { 0 },
                power: if database.power_loss { random.below(100) } else { 0 },
                losses: if database.power_loss { 0 } else { random.below(100) },
                schema: random.percent(70),
            },
        };
        let snapshots = random.percent(70);
        // Layouts that the server takes.
        let (nodes, witnesses, kfactor) = *random.pick(&[
            (2, 0, 0),
            (2, 1, 1),
            (2, 1, 1),
            (3, 0, 1),
            (3, 0, 2),
            (3, 0, 2),
            (3, 2, 2),
            (3, 2, 2),
            (4, 0, 1),
            (5, 0, 2),
        ]);
        Plan {
            database,
            nodes,
            witnesses,
            kfactor,
            partitions_per_node: None,
            window,
            chapters: 1 + random.below(3) as u32,
            millis: 4_000 + random.below(20_000),
            sync_micros: 1 << random.below(16),
            think_micros: 1 << (10 + random.below(8)),
            snapshot_millis: if snapshots { [0, 400, 2_000][random.below(3) as usize] } else { 0 },
            wipes: snapshots && faults.crashes > 0 && random.percent(70),
            snapshots,
            votes: faults.crashes > 0 && random.percent(50),
            pauses: true,
            stalls: false,
            accepts: 20,
            faults,
        }
    }
}
