//! What goes wrong in a cluster, and when.

use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use ferrite_base::{GroupId, NodeId};
use ferrite_io::simulated::{CrashPoint, Fault, FaultKind, Restart, SimulatedRandom};

/// A split lasts so long at most, besides a pause.
const SPLIT_MILLIS: u64 = 5_000;
/// A process stands still for so long at most: some leases end meanwhile.
const STILL_MILLIS: u64 = 5_000;
/// And some for longer than any time-out between nodes: behind the others have done all that they
/// do for its absence.
const STILL_LONG_MILLIS: u64 = 35_000;
/// So long before it is cut off, clients of a node begin only to read.
const LOOK_MILLIS: u64 = 300;
/// A node that is to lose everything hands over within that, or keeps it.
const HANDS_OVER_MILLIS: u64 = 3_000;
/// A leader that had acknowledged what others have lost stays away for so long at most.
const AWAY_MILLIS: u64 = 25_000;

impl World {
    /// A part of the history in which things go wrong.
    pub fn trouble(&mut self) -> Result<(), Violation> {
        self.network.calm = false;
        self.callers.clients.quiet = false;
        let end = self.now + self.plan.millis * MILLI;
        let faults = self.plan.faults;
        let pause = |random: &mut SimulatedRandom| random.below(1 + faults.pause_millis) * MILLI;
        let mut next_fault = self.now + pause(&mut self.random);
        let mut next_split = if faults.splits { self.now + pause(&mut self.random) } else { u64::MAX };
        let hands_over = faults.pause_millis > 0 && self.random.percent(50);
        let mut next_hand_over = if hands_over { self.now + pause(&mut self.random) } else { u64::MAX };
        let scene = self.random.percent(90).then(|| self.now + self.random.below(self.plan.millis / 2) * MILLI);
        let mut next_scene = scene.unwrap_or(u64::MAX);
        let mut looked = false;
        while self.now < end {
            if !looked && self.now + LOOK_MILLIS * MILLI >= next_split {
                looked = true;
                let leader = self.configuration().leader.node;
                self.only_looks(leader, next_split + SPLIT_MILLIS * MILLI);
            }
            if self.now >= next_split {
                looked = false;
                let nodes = self.everybody();
                let leader = self.configuration().leader.node;
                let what = self.network.split_or_heal(&nodes, leader);
                self.trace.line(&what);
                // Some splits outlive a leader.
                next_split = self.now + pause(&mut self.random);
                if self.network.is_split() {
                    self.counts.splits += 1;
                    next_split += self.random.below(SPLIT_MILLIS) * MILLI;
                }
            }
            let all = faults.crashes + faults.disks + faults.pauses + faults.stops;
            if self.now >= next_fault && all > 0 {
                next_fault = self.now + pause(&mut self.random);
                self.look_at_another();
                let kind = self.random.below(all);
                if kind < faults.crashes {
                    self.plan_crashes()?;
                } else if kind < faults.crashes + faults.disks {
                    self.fail_disk();
                } else if kind < faults.crashes + faults.disks + faults.pauses {
                    self.stand_still();
                } else {
                    self.stop_somebody()?;
                }
            }
            if self.now >= next_hand_over {
                next_hand_over = self.now + pause(&mut self.random);
                self.hand_over()?;
            }
            if self.now >= next_scene {
                self.look_at_another();
                self.scene()?;
                let again = self.random.percent(80).then(|| self.now + self.random.below(self.plan.millis / 3) * MILLI);
                next_scene = again.unwrap_or(u64::MAX);
            }
            self.bereave();
            self.begin_to_stand_still();
            self.isolate();
            self.end_leader();
            self.step()?;
        }
        (self.succession, self.still, self.isolation) = (None, None, None);
        self.counts.millis += self.plan.millis;
        Ok(())
    }

    /// The leader that was to end at this time does.
    fn end_leader(&mut self) {
        let Some((_, leader)) = self.succession.take_if(|(when, _)| self.now >= *when) else { return };
        if !self.running().contains(&leader) {
            return;
        }
        self.crash(leader, Restart::Process);
        if self.random.percent(60) {
            let machine = self.machines.get_mut(&leader).expect("it ran");
            machine.down_until = self.now + self.random.below(AWAY_MILLIS) * MILLI;
        }
    }

    /// The leader is to hand over, to any member or to a node that may be none.
    fn hand_over(&mut self) -> Result<(), Violation> {
        self.look_at_another();
        let group = self.focus;
        let leader = self.configuration().leader.node;
        let to = *self.random.pick(&self.everybody());
        let to = Some(to).filter(|_| self.random.percent(40));
        self.step_machine(leader, |process| {
            process.node.hand_over(group, to, None);
            Some(format!("is to hand over to {to:?}"))
        })
    }

    pub fn everybody(&self) -> Vec<NodeId> {
        self.machines.keys().chain(self.witnesses.keys()).copied().collect()
    }

    /// A process stands still, the leader's preferred. Some are cut off from all others before they
    /// go on: what had come by then they take for news.
    fn stand_still(&mut self) {
        let running = self.running();
        if running.is_empty() || self.still.is_some() {
            return;
        }
        let leader = self.configuration().leader.node;
        let takes_leader = running.contains(&leader) && self.random.percent(70);
        let chosen = if takes_leader { leader } else { *self.random.pick(&running) };
        let begin = self.now + self.random.below(2 * LOOK_MILLIS) * MILLI;
        let is_long = self.random.percent(20);
        let millis =
            if is_long { STILL_MILLIS + self.random.below(STILL_LONG_MILLIS) } else { self.random.below(STILL_MILLIS) };
        let nanos = millis * MILLI;
        self.still = Some((begin, nanos, chosen));
        let mut until = begin + nanos;
        if self.isolation.is_none() && self.random.percent(60) {
            let from = begin + self.random.below(1 + nanos);
            until += self.random.below(SPLIT_MILLIS) * MILLI;
            self.isolation = Some((from, until, chosen));
        }
        self.only_looks(chosen, until);
    }

    /// Of some that will be cut off, clients only read from soon before that.
    fn only_looks(&mut self, chosen: NodeId, until: u64) {
        if self.random.percent(60)
            && let Some(machine) = self.machines.get_mut(&chosen)
        {
            machine.looks_until = until;
        }
    }

    fn begin_to_stand_still(&mut self) {
        let Some((_, nanos, chosen)) = self.still.take_if(|(begin, ..)| self.now >= *begin) else { return };
        let Some(machine) = self.machines.get_mut(&chosen).filter(|machine| machine.process.is_some()) else { return };
        machine.still_until = self.now + nanos;
        self.counts.pauses += 1;
        self.counts.long_pauses += u64::from(nanos >= STILL_MILLIS * MILLI);
        self.trace.line(&format!("{chosen} stands still for {nanos}"));
    }

    fn isolate(&mut self) {
        let Some((from, until, node)) = self.isolation else { return };
        if self.now >= until {
            self.isolation = None;
            self.network.heal();
            self.trace.line("heals");
        } else if self.now >= from && !self.network.is_split() {
            let nodes = self.everybody();
            self.network.cut_off(&nodes, node);
            self.counts.cut_off += 1;
            self.trace.line(&format!("cuts {node} off"));
        }
    }

    /// All voters have the vote that they were given, and know that.
    fn votes_are_sound(&self) -> bool {
        let state = self.metadata();
        let sound = |id: &NodeId| self.vote_of(*id) == state.vote(*id);
        state.voters().len() == self.plan.voters() && state.voters().iter().all(sound)
    }

    /// A node loses its vote.
    fn take_a_vote(&mut self) -> bool {
        let all = self.running();
        if all.is_empty() || !self.votes_are_sound() || self.plan.voters() < 3 {
            return false;
        }
        let chosen = *self.random.pick(&all);
        self.lose_vote(chosen);
        true
    }

    /// A node that leads nothing loses everything, where that loses nothing: the leaders of its
    /// groups have leases, so nobody decides otherwise at the same time. Where there are several
    /// groups, each node leads some: one hands over first.
    fn wipe_somebody(&mut self) -> Result<bool, Violation> {
        let others: Vec<NodeId> = self.machines.keys().copied().filter(|id| self.is_dispensable(*id)).collect();
        if !others.is_empty() && self.votes_are_sound() {
            let chosen = *self.random.pick(&others);
            self.wipe(chosen);
            return Ok(true);
        }
        let running = self.running();
        if !self.has_several_groups() || running.is_empty() || self.plan.kfactor == 0 {
            return Ok(false);
        }
        let chosen = *self.random.pick(&running);
        self.step_machine(chosen, |process| {
            process.served().into_iter().for_each(|group| process.node.hand_over(group, None, None));
            Some("is to hand over everything".to_owned())
        })?;
        let are_led = move |world: &World| world.is_dispensable(chosen) && world.votes_are_sound();
        if self.step_until(HANDS_OVER_MILLIS, are_led)? {
            self.wipe(chosen);
        }
        Ok(true)
    }

    /// Others lead its groups, and it has not the only vote, which would take the metadata with it.
    fn is_dispensable(&self, id: NodeId) -> bool {
        let kept = self.metadata().kept_by(id);
        self.voters() != [id] && kept.into_iter().all(|group| self.is_led_without(group, id))
    }

    /// Another node leads the group, with a lease.
    fn is_led_without(&self, group: GroupId, id: NodeId) -> bool {
        let leader = self.configuration_of(group).leader;
        leader.node != id
            && self.machines.get(&leader.node).is_some_and(|machine| {
                let process = machine.process.as_ref().filter(|process| process.member == leader);
                machine.still_until <= self.now
                    && process.is_some_and(|process| process.of(group).serves.is_some() && process.lease.holds())
            })
    }

    /// Another node's snapshot begins to take the place of what a node has. Some crash before that
    /// is done, and go on with what they had; perhaps another node leads by then, and has what they
    /// missed.
    pub fn installs(&mut self, id: NodeId) {
        if self.network.calm || !self.random.percent(60) {
            return;
        }
        let power = self.plan.database.power_loss && self.random.percent(70);
        self.crash_soon(id, power);
        if self.random.percent(50) {
            let leader = self.configuration().leader.node;
            self.succession = Some((self.now + self.random.below(300 * MILLI), leader));
        }
    }

    /// A node that is no member has taken a snapshot of its copy. Some lose their power then.
    pub fn has_cut(&mut self, id: NodeId) {
        let may = !self.network.calm && self.plan.database.power_loss && !self.configuration().has_node(id);
        if may && self.random.percent(60) {
            self.counts.cut_behind += 1;
            self.crash(id, Restart::Power);
        }
    }

    /// A write or an fsync of somebody fails, once or from then on.
    fn fail_disk(&mut self) {
        let mut running = self.running();
        if !self.plan.database.power_loss {
            // Its next process says that its log lacks something.
            running.retain(|node| self.failing.is_none() && self.may_lose(*node));
        }
        if running.is_empty() {
            return;
        }
        let chosen = *self.random.pick(&running);
        if !self.plan.database.power_loss {
            self.failing = Some(chosen);
        }
        let disk = &self.machines[&chosen].disk;
        let sync = self.random.percent(50);
        let kind = if sync { FaultKind::Sync } else { FaultKind::Write };
        let times = if self.random.percent(50) { 1 } else { u64::MAX };
        let at = disk.count(kind) + 1 + self.random.below(20);
        let short = self.random.below(5_000) as usize;
        self.trace.line(&format!("{chosen} fails {kind:?} {at}"));
        self.counts.disk_faults += 1;
        disk.fail(Fault { kind, at, times, error: Fault::EIO, short });
    }

    /// One goes down, or two, or all of them together, or a member and soon the leader.
    fn plan_crashes(&mut self) -> Result<(), Violation> {
        if self.plan.wipes && !self.wiped && self.random.percent(60) && self.wipe_somebody()? {
            return Ok(());
        }
        if self.plan.votes && !self.wiped && self.random.percent(20) && self.take_a_vote() {
            return Ok(());
        }
        if !self.witnesses.is_empty() && self.random.percent(15) {
            let all: Vec<NodeId> = self.witnesses.keys().copied().collect();
            let chosen = *self.random.pick(&all);
            let power = self.random.percent(self.plan.faults.power);
            self.crash_witness(chosen, if power { Restart::Power } else { Restart::Process });
            return Ok(());
        }
        let running = self.running().len();
        let leader = self.configuration().leader.node;
        let followers: Vec<NodeId> = self.running().into_iter().filter(|node| *node != leader).collect();
        if !followers.is_empty() && self.random.percent(30) {
            self.succession = Some((self.now + self.random.below(300 * MILLI), leader));
            if self.plan.faults.power > 0 && self.random.percent(50) {
                // All that they had not fsynced is gone, perhaps.
                followers.into_iter().for_each(|follower| self.crash(follower, Restart::Power));
                return Ok(());
            }
            let follower = *self.random.pick(&followers);
            let power = self.random.percent(self.plan.faults.power);
            self.crash_soon(follower, power);
            return Ok(());
        }
        let together = match self.random.below(10) {
            0..6 => 1,
            6..8 => 2,
            _ => running,
        };
        (0..together.min(running)).try_for_each(|_| self.plan_crash())
    }

    /// Somebody goes down, now or at one of the next changes of its disk.
    fn plan_crash(&mut self) -> Result<(), Violation> {
        let all = self.running();
        if all.is_empty() {
            return Ok(());
        }
        let leader = self.configuration().leader.node;
        let chosen = if all.contains(&leader) && self.random.percent(40) { leader } else { *self.random.pick(&all) };
        let power = self.random.percent(self.plan.faults.power);
        self.crash_soon(chosen, power);
        Ok(())
    }

    fn crash_soon(&mut self, chosen: NodeId, power: bool) {
        if power && self.random.percent(60) {
            let within = 1 + self.random.below(20);
            let disk = &self.machines[&chosen].disk;
            let boundary = disk.boundaries() + within;
            let after = self.random.percent(50);
            self.trace.line(&format!("{chosen} loses its power at {boundary}"));
            disk.crash_at(Some(CrashPoint { boundary, after }));
            return;
        }
        if power || !self.loses(chosen) {
            self.crash(chosen, if power { Restart::Power } else { Restart::Process });
        }
    }
}
