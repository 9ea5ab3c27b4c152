//! What seeds have tried, in figures.

/// How much a seed has tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub operations: u64,
    pub acknowledged: u64,
    pub unknown: u64,
    pub refused: u64,
    pub reads: u64,
    pub schema_changes: u64,
    pub steps: u64,
    /// Simulated, in which things went wrong.
    pub millis: u64,
    pub messages: u64,
    pub lost: u64,
    /// Messages about lots, and connections for these that ended with their processes alive.
    pub lot_messages: u64,
    pub links_ended: u64,
    /// Such messages that took seconds.
    pub stalls: u64,
    /// Calls of several groups that were executed.
    pub over_groups: u64,
    /// Writes of walks.
    pub walked: u64,
    pub splits: u64,
    pub crashes: u64,
    pub power_losses: u64,
    pub disk_faults: u64,
    /// Processes that stood still, and those that were cut off meanwhile.
    pub pauses: u64,
    /// Nodes that lost everything; snapshots that leaders have taken, those of copies, those that
    /// came into another node's place, and those that were given up there.
    pub wiped: u64,
    pub snapshots: u64,
    pub copied: u64,
    /// Cuts of copies that were hashed, and how often copies had been compared with their leader at
    /// the ends of chapters.
    pub hashed: u64,
    pub compared: u64,
    pub installed: u64,
    pub needed: u64,
    pub cut_off: u64,
    /// Leaderships of the metadata's voters, votes that a disk has ended for a while, leases that
    /// were told.
    pub terms: u64,
    pub votes_lost: u64,
    pub leases: u64,
    /// Logs that have failed.
    pub failures: u64,
    pub configurations: u64,
    pub promotions: u64,
    /// Leaders that became copies without ending.
    pub deposed: u64,
    pub from_log: u64,
    /// Leaders that handed over, processes that ended in good order, and those of them that nobody
    /// could follow.
    pub handed_over: u64,
    pub stops: u64,
    pub left_alone: u64,
    /// Processes that stood still for longer than anybody waits for anything.
    pub long_pauses: u64,
    /// Scenes that were begun, leaders in them that were read after another led, and members that
    /// had just been added and were left alone.
    pub scenes: u64,
    pub replaced: u64,
    pub bereaved: u64,
    /// Machines that lost what their nodes had acknowledged, and starts that could not read what
    /// was left.
    pub losses: u64,
    pub unusable: u64,
    /// Copies that were no members, and lost their power when they had a snapshot of their own.
    pub cut_behind: u64,
    /// Such copies that showed what their logs did not have while they took one.
    pub ahead: u64,
    /// Leaders that were to lead again before they had become copies.
    pub came_back: u64,
    /// Leaders that were read when they had left and another had acknowledged something, and those
    /// whose other members had started again without their knowing how to go on.
    pub left: u64,
    pub behind: u64,
    /// Wall clocks that were set; leads that were to go to a copy which applied slowly, and went
    /// elsewhere or nowhere.
    pub clocks_set: u64,
    pub slow_copies: u64,
    /// Pauses of the database, changes of the leader in them, calls that were refused for one,
    /// steps that reads have compared in one, and resumes.
    pub paused: u64,
    pub paused_beyond: u64,
    pub paused_calls: u64,
    pub paused_reads: u64,
    pub resumed: u64,
    /// Leads that were to go to a member which could not run all procedures.
    pub unable: u64,
    /// Losses that an operator accepted while the leader lived.
    pub lived: u64,
    /// Losses that an operator accepted; logs that one cut before; copies that were made anew.
    pub accepted: u64,
    pub logs_cut: u64,
    pub made_anew: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        let Counts { operations, acknowledged, unknown, refused, reads, schema_changes, steps, .. } = other;
        self.operations += operations;
        self.acknowledged += acknowledged;
        self.unknown += unknown;
        self.refused += refused;
        self.reads += reads;
        self.schema_changes += schema_changes;
        self.steps += steps;
        self.millis += other.millis;
        self.messages += other.messages;
        self.lost += other.lost;
        self.lot_messages += other.lot_messages;
        self.links_ended += other.links_ended;
        self.stalls += other.stalls;
        self.over_groups += other.over_groups;
        self.walked += other.walked;
        self.splits += other.splits;
        self.crashes += other.crashes;
        self.power_losses += other.power_losses;
        self.disk_faults += other.disk_faults;
        self.pauses += other.pauses;
        self.wiped += other.wiped;
        self.snapshots += other.snapshots;
        self.copied += other.copied;
        self.hashed += other.hashed;
        self.compared += other.compared;
        self.installed += other.installed;
        self.needed += other.needed;
        self.cut_off += other.cut_off;
        self.terms += other.terms;
        self.votes_lost += other.votes_lost;
        self.leases += other.leases;
        self.failures += other.failures;
        self.configurations += other.configurations;
        self.promotions += other.promotions;
        self.deposed += other.deposed;
        self.from_log += other.from_log;
        self.handed_over += other.handed_over;
        self.stops += other.stops;
        self.left_alone += other.left_alone;
        self.long_pauses += other.long_pauses;
        self.scenes += other.scenes;
        self.replaced += other.replaced;
        self.bereaved += other.bereaved;
        self.losses += other.losses;
        self.unusable += other.unusable;
        self.cut_behind += other.cut_behind;
        self.ahead += other.ahead;
        self.came_back += other.came_back;
        self.left += other.left;
        self.behind += other.behind;
        self.clocks_set += other.clocks_set;
        self.slow_copies += other.slow_copies;
        self.paused += other.paused;
        self.paused_beyond += other.paused_beyond;
        self.paused_calls += other.paused_calls;
        self.paused_reads += other.paused_reads;
        self.resumed += other.resumed;
        self.unable += other.unable;
        self.lived += other.lived;
        self.accepted += other.accepted;
        self.logs_cut += other.logs_cut;
        self.made_anew += other.made_anew;
    }
}
