//! Scenes that chance would seldom put together: each needs several things one after the other, and
//! looks at what a fault of the protocol would show then. Beside them the usual goes on, wrongs
//! too.

use crate::cluster::machine::{Machine, Stopping};
use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use ferrite_base::NodeId;
use ferrite_io::simulated::Restart;
use ferrite_replica::group::Member;

/// All members are there within that, or there is no scene.
const WHOLE_MILLIS: u64 = 12_000;
/// What was asked of a leader is answered within that, or it stays as it is.
const QUIET_MILLIS: u64 = 1_500;
/// Another leads within that, or the scene is over.
const REPLACED_MILLIS: u64 = 9_000;
/// So many writes at most the next leader has acknowledged before the earlier one is asked.
const WRITES: u64 = 4;
/// Reads of an earlier leader.
const READS: usize = 16;
/// Of them, those that come while it stands still.
const CALLS_THAT_WAIT: usize = 4;
/// They have that long.
const READS_MILLIS: u64 = 400;
/// The next fsync of a node is so much later at most.
const SLOW_MILLIS: u64 = 300;
/// Entries that a copy lacks which has caught up.
const FEW: u64 = 8;
/// Who must not help stays away for so long: longer than the voters wait for members that have all
/// started again.
const AWAY_MILLIS: u64 = 18_000;

impl World {
    /// One of them, where there are others than the leader.
    pub fn scene(&mut self) -> Result<(), Violation> {
        if self.plan.kfactor == 0 {
            return Ok(());
        }
        let members = self.plan.kfactor as usize + 1;
        let is_whole =
            move |world: &World| world.leader().is_some() && world.configuration().members().len() == members;
        if !self.step_until(WHOLE_MILLIS, is_whole)? {
            return Ok(());
        }
        self.counts.scenes += 1;
        // Few plans have two copies besides, so that one may lead which has applied all.
        if self.more.percent(if members > 2 { 75 } else { 25 }) {
            self.a_copy_applies_slowly()?;
            if !self.step_until(WHOLE_MILLIS, is_whole)? {
                return Ok(());
            }
        }
        if self.later.percent(35) {
            self.the_database_is_paused()?;
            if !self.step_until(WHOLE_MILLIS, is_whole)? {
                return Ok(());
            }
        }
        if self.later.percent(35) {
            self.a_member_cannot_run_all()?;
            if !self.step_until(WHOLE_MILLIS, is_whole)? {
                return Ok(());
            }
        }
        if self.sets_clocks && self.later.percent(20) {
            self.a_leader_beyond_reach_has_a_clock_ahead()?;
            if !self.step_until(WHOLE_MILLIS, is_whole)? {
                return Ok(());
            }
        }
        if self.random.percent(50) {
            match self.random.below(5) {
                0..3 if self.plan.database.power_loss => self.a_snapshot_runs_ahead_of_its_log()?,
                _ => self.a_lead_comes_back()?,
            }
            if !self.step_until(WHOLE_MILLIS, is_whole)? {
                return Ok(());
            }
        }
        let configuration = self.configuration();
        let of_voters = self.leader_of_voters();
        if self.has_a_slower_clock(configuration.leader.node, of_voters) && self.random.percent(60) {
            self.an_earlier_leader_is_read(true)?;
            if !self.step_until(WHOLE_MILLIS, is_whole)? {
                return Ok(());
            }
        }
        let configuration = self.configuration();
        let of_voters = self.leader_of_voters();
        let is_outside = of_voters.is_some_and(|id| !configuration.has_node(id));
        if is_outside && self.random.percent(25) {
            return self.a_leader_keeps_only_its_members();
        }
        let drawn = self.random.below(12);
        if !self.plan.database.power_loss && drawn >= 7 {
            return self.a_member_loses_its_power_and_is_alone();
        }
        match drawn {
            0..4 if is_outside => self.a_leader_ends_behind_a_follower(),
            4..7 => self.a_leader_that_leaves_is_read(),
            0..8 => self.an_earlier_leader_is_read(false),
            _ => self.followers_lose_power_with_their_leader(),
        }
    }

    /// Takes steps until something is so, or for so long; whether it is.
    pub(super) fn step_until(&mut self, millis: u64, is: impl Fn(&World) -> bool) -> Result<bool, Violation> {
        let end = self.now + millis * MILLI;
        while !is(self) {
            if self.now >= end {
                return Ok(false);
            }
            self.step()?;
        }
        Ok(true)
    }

    /// A leader without unanswered calls is cut off, alone or with another member, or stands still.
    /// Another one leads and acknowledges writes. Then the earlier one is read from, with what has
    /// come to it meanwhile or without. `at_once`: its lease has just ended then, or nearly.
    fn an_earlier_leader_is_read(&mut self, at_once: bool) -> Result<(), Violation> {
        let Some(old) = self.quiet_leader()? else { return Ok(()) };
        self.trace.line(&format!("{old} is to be replaced, and read"));
        let stands_still = !at_once && self.random.percent(33);
        if stands_still {
            self.stands_still(old);
        }
        if !stands_still || self.random.percent(50) {
            let side = if at_once { vec![old] } else { self.minority_of(old) };
            self.network.cut_sides(&self.everybody(), &side);
            self.counts.cut_off += 1;
        }
        let writes = if at_once { 1 } else { 1 + self.random.below(WRITES) as usize };
        if self.is_replaced(old, writes)? {
            self.read_from(old)?;
        }
        self.end_of_scene(old);
        Ok(())
    }

    /// Than whoever leads the voters: its leases hold for longer than that one counts.
    fn has_a_slower_clock(&self, leader: NodeId, of_voters: Option<NodeId>) -> bool {
        let rate = |id: NodeId| self.machines.get(&id).map(Machine::rate);
        of_voters.and_then(rate).zip(rate(leader)).is_some_and(|(voters, leader)| leader < voters)
    }

    /// A leader leaves, and stands still and is cut off as soon as it is decided who leads then: it
    /// has its lease yet, and would say goodbye half a second later. It is read from when the next
    /// one has acknowledged something: it finds those calls first of all when it goes on.
    fn a_leader_that_leaves_is_read(&mut self) -> Result<(), Violation> {
        let Some(old) = self.quiet_leader()? else { return Ok(()) };
        self.trace.line(&format!("{old} is to leave, and to be read"));
        self.machines.get_mut(&old).expect("it leads").stopping = Some(Stopping::Leaving);
        self.counts.stops += 1;
        self.step_machine(old, |process| {
            // It holds no calls meanwhile.
            process.node.leave();
            Some("leaves".to_owned())
        })?;
        let next = move |world: &World| world.configuration().leader.node != old;
        if self.step_until(QUIET_MILLIS, next)? && self.running().contains(&old) {
            self.stands_still(old);
            self.network.cut_off(&self.everybody(), old);
            self.counts.cut_off += 1;
            if self.is_replaced(old, 1)? {
                self.counts.left += 1;
                for _ in 0..CALLS_THAT_WAIT {
                    if self.running().contains(&old) {
                        self.call(old, true);
                    }
                }
                self.read_from(old)?;
            }
        }
        self.end_of_scene(old);
        Ok(())
    }

    /// The leader, if it has answered all its calls soon: a write that is not committed would hold
    /// up all reads behind it. Nobody calls it by chance until the end of the scene.
    pub(super) fn quiet_leader(&mut self) -> Result<Option<NodeId>, Violation> {
        let Some(leader) = self.leader() else { return Ok(None) };
        self.network.heal();
        (self.still, self.isolation) = (None, None);
        let member = self.process(leader).member;
        self.avoided = Some(leader);
        let group = self.focus;
        let is_quiet = move |world: &World| world.callers.waiting_for(member, group) == 0;
        if self.step_until(QUIET_MILLIS, is_quiet)? && self.leader() == Some(leader) {
            return Ok(Some(leader));
        }
        self.avoided = None;
        Ok(None)
    }

    fn stands_still(&mut self, node: NodeId) {
        let until = self.now + 2 * REPLACED_MILLIS * MILLI;
        self.machines.get_mut(&node).expect("it runs").still_until = until;
        self.counts.pauses += 1;
    }

    /// Whether another leads soon, and acknowledges so many writes.
    pub(super) fn is_replaced(&mut self, old: NodeId, writes: usize) -> Result<bool, Violation> {
        let before = self.callers.writes();
        let is_replaced = move |world: &World| {
            world.leader().is_some_and(|leader| leader != old) && world.callers.writes() >= before + writes
        };
        let replaced = self.step_until(REPLACED_MILLIS, is_replaced)?;
        self.counts.replaced += u64::from(replaced);
        Ok(replaced)
    }

    pub(super) fn end_of_scene(&mut self, old: NodeId) {
        self.avoided = None;
        if let Some(machine) = self.machines.get_mut(&old) {
            machine.still_until = 0;
        }
        self.network.heal();
    }

    fn read_from(&mut self, old: NodeId) -> Result<(), Violation> {
        if let Some(machine) = self.machines.get_mut(&old) {
            machine.still_until = 0;
        }
        for _ in 0..READS {
            if self.machines.get(&old).is_some_and(|machine| machine.process.is_some()) {
                self.call(old, true);
            }
            // What it does with one may come before the next is there.
            for _ in 0..self.random.below(12) {
                self.step()?;
            }
        }
        self.step_until(READS_MILLIS, |_| false).map(drop)
    }

    /// The leader, and a member with it where the others can do without: they are most of the
    /// voters, and one of them has everything.
    fn minority_of(&mut self, leader: NodeId) -> Vec<NodeId> {
        let members = self.configuration().members().to_vec();
        let voters = self.voters();
        let other = members.iter().map(|member| member.node).find(|node| *node != leader);
        let side: Vec<NodeId> = [leader].into_iter().chain(other).collect();
        let beyond = voters.iter().filter(|voter| !side.contains(voter)).count();
        if members.len() > 2 && 2 * beyond > voters.len() && self.random.percent(85) { side } else { vec![leader] }
    }

    /// All other members lose their power under load, at the moment in which the leader ends, which
    /// stays away: what they had said is all that is left of what it has acknowledged.
    fn followers_lose_power_with_their_leader(&mut self) -> Result<(), Violation> {
        let Some(leader) = self.leader() else { return Ok(()) };
        for follower in self.running().into_iter().filter(|node| *node != leader) {
            let nanos = (SLOW_MILLIS / 2 + self.random.below(SLOW_MILLIS / 2)) * MILLI;
            let machine = self.machines.get_mut(&follower).expect("it runs");
            machine.process.as_mut().expect("it runs").delay_log(nanos);
        }
        let before = self.callers.writes() + 1 + self.random.below(4) as usize;
        self.step_until(QUIET_MILLIS, |world| world.callers.writes() >= before)?;
        if self.leader() != Some(leader) {
            return Ok(());
        }
        self.trace.line(&format!("{leader} ends, and the others lose their power"));
        self.crash_for(leader, Restart::Process, AWAY_MILLIS);
        for follower in self.running() {
            self.crash_for(follower, Restart::Power, 100);
        }
        Ok(())
    }

    /// All other members end and start again, and what the leader proposes about that is lost: they
    /// are members in its configuration, and their processes are gone. Of what it says from then
    /// on they have nothing: when it ends, nothing of that may be acknowledged.
    fn a_leader_ends_behind_a_follower(&mut self) -> Result<(), Violation> {
        let Some(leader) = self.quiet_leader()? else { return Ok(()) };
        let configuration = self.configuration();
        let others: Vec<Member> =
            configuration.members().iter().copied().filter(|other| other.node != leader).collect();
        self.trace.line(&format!("{leader} is to end, behind {others:?}"));
        self.loses_proposals(leader, true);
        for other in &others {
            if self.running().contains(&other.node) {
                self.crash_for(other.node, Restart::Process, 50);
            }
        }
        let gone = others.clone();
        let are_gone = move |world: &World| {
            let process = world.machines.get(&leader).and_then(|machine| machine.process.as_ref());
            let Some(process) = process else { return true };
            let state = process.node.state();
            let is_gone = |other: &Member| {
                state.nodes().get(&other.node).is_none_or(|node| node.incarnation != other.incarnation)
            };
            gone.iter().all(is_gone)
        };
        let epoch = configuration.epoch;
        let are_known = self.step_until(REPLACED_MILLIS, are_gone)?;
        self.avoided = None;
        if are_known && self.leader() == Some(leader) && self.configuration().epoch == epoch {
            self.counts.behind += 1;
            self.network.cut_off(&self.everybody(), leader);
            self.counts.cut_off += 1;
            let before = self.callers.writes();
            self.step_until(QUIET_MILLIS, |world| world.callers.writes() > before)?;
            if self.running().contains(&leader) {
                self.crash_for(leader, Restart::Process, AWAY_MILLIS);
            }
            // What it has said meanwhile is lost.
            self.step_until(READS_MILLIS, |_| false)?;
        }
        self.loses_proposals(leader, false);
        self.network.heal();
        Ok(())
    }

    /// Who leads the voters, where one says so.
    fn leader_of_voters(&self) -> Option<NodeId> {
        let leads = |id: &NodeId| {
            let process = self.machines.get(id).and_then(|machine| machine.process.as_ref());
            let witness = self.witnesses.get(id).and_then(|witness| witness.running.as_ref());
            let seat = process.map(|process| &process.seat).or(witness.map(|running| &running.seat));
            seat.is_some_and(|seat| seat.is_leader())
        };
        let mut leading = self.everybody().into_iter().filter(leads);
        let one = leading.next();
        one.filter(|_| leading.next().is_none())
    }

    /// The voters that are no members, their leader among them, hear nothing more of the group's
    /// leader, nor it of them; its members do. So another is chosen, while clients write to it.
    fn a_leader_keeps_only_its_members(&mut self) -> Result<(), Violation> {
        let Some(leader) = self.leader() else { return Ok(()) };
        self.network.heal();
        (self.still, self.isolation) = (None, None);
        let configuration = self.configuration();
        let others: Vec<NodeId> = self.everybody().into_iter().filter(|node| !configuration.has_node(*node)).collect();
        self.trace.line(&format!("{leader} is heard by its members only"));
        self.network.cut_from(leader, &others);
        self.counts.cut_off += 1;
        let epoch = configuration.epoch;
        let next = move |world: &World| world.configuration().epoch != epoch;
        if self.step_until(REPLACED_MILLIS, next)? {
            self.counts.replaced += 1;
            self.step_until(READS_MILLIS, |_| false)?;
        }
        self.network.heal();
        Ok(())
    }

    /// A member loses what it has acknowledged, and all others end at that moment and stay away: it
    /// is the only one that could lead, and must not.
    fn a_member_loses_its_power_and_is_alone(&mut self) -> Result<(), Violation> {
        let configuration = self.configuration();
        let followers = configuration.members().iter().map(|member| member.node);
        let followers: Vec<NodeId> =
            followers.filter(|node| *node != configuration.leader.node && self.running().contains(node)).collect();
        if followers.is_empty() {
            return Ok(());
        }
        let chosen = *self.random.pick(&followers);
        let before = self.callers.writes() + 1 + self.random.below(4) as usize;
        self.step_until(QUIET_MILLIS, |world| world.callers.writes() >= before)?;
        if !self.may_lose(chosen) || !self.running().contains(&chosen) {
            return Ok(());
        }
        self.trace.line(&format!("{chosen} loses its power, and the other members end"));
        self.counts.losses += 1;
        self.crash_for(chosen, Restart::Power, 100);
        for member in configuration.members() {
            if member.node != chosen && self.running().contains(&member.node) {
                self.crash_for(member.node, Restart::Process, AWAY_MILLIS);
            }
        }
        Ok(())
    }

    /// A leader hands over, and what it runs takes its time, so that it is no copy yet when it has
    /// got the lead again: what others committed meanwhile waits before that.
    fn a_lead_comes_back(&mut self) -> Result<(), Violation> {
        let Some(old) = self.leader() else { return Ok(()) };
        self.trace.line(&format!("the lead of {old} is to come back to it"));
        let group = self.focus;
        self.step_machine(old, |process| {
            process.node.hand_over(group, None, None);
            None
        })?;
        if !self.step_until(QUIET_MILLIS, move |world: &World| world.configuration().leader.node != old)? {
            return Ok(());
        }
        if let Some(process) = self.machines.get_mut(&old).and_then(|machine| machine.process.as_mut()) {
            process.keep_busy(2 * QUIET_MILLIS * MILLI);
        }
        let before = self.callers.writes() + 2 + self.random.below(WRITES) as usize;
        self.avoided = Some(old);
        let has_written = move |world: &World| world.leader().is_some() && world.callers.writes() >= before;
        if self.step_until(QUIET_MILLIS, has_written)?
            && let Some(next) = self.leader().filter(|next| *next != old)
        {
            self.counts.came_back += 1;
            self.step_machine(next, |process| {
                process.node.hand_over(group, Some(old), None);
                None
            })?;
            self.step_until(QUIET_MILLIS, move |world: &World| world.configuration().leader.node == old)?;
        }
        self.avoided = None;
        Ok(())
    }

    /// A member ends and comes back, and is not made a member again: what it applies is committed
    /// without its log. It takes a snapshot, and loses its power when that is there.
    fn a_snapshot_runs_ahead_of_its_log(&mut self) -> Result<(), Violation> {
        let configuration = self.configuration();
        let leader = configuration.leader.node;
        let others = configuration.members().iter().map(|member| member.node);
        let others: Vec<NodeId> = others.filter(|node| *node != leader && self.running().contains(node)).collect();
        if others.is_empty() {
            return Ok(());
        }
        let chosen = *self.random.pick(&others);
        self.trace.line(&format!("{chosen} is to take a snapshot ahead of its log"));
        self.network.heal();
        (self.still, self.isolation) = (None, None);
        self.crash_for(chosen, Restart::Process, AWAY_MILLIS);
        let is_left_out = move |world: &World| !world.configuration().has_node(chosen);
        if self.step_until(REPLACED_MILLIS, is_left_out)? && self.leader() == Some(leader) {
            self.loses_proposals(leader, true);
            self.machines.get_mut(&chosen).expect("machines are known").down_until = self.now;
            let follows = move |world: &World| world.follows_outside(chosen, leader);
            if self.step_until(REPLACED_MILLIS, follows)? {
                self.outruns_its_log(chosen)?;
            }
        }
        self.loses_proposals(leader, false);
        Ok(())
    }

    /// A copy that is no member, has entries of the leader's epoch and lacks few.
    fn follows_outside(&self, node: NodeId, leader: NodeId) -> bool {
        let process = |node| self.machines.get(&node).and_then(|machine| machine.process.as_ref());
        let (Some(copy), Some(leader)) = (process(node), process(leader)) else { return false };
        let Some(intake) = copy.node.intake(self.focus) else { return false };
        let configuration = self.configuration();
        let (Some(own), Some(led)) = (copy.hosted(self.focus), leader.hosted(self.focus)) else { return false };
        own.replication.end().epoch == configuration.epoch
            && !configuration.has_node(node)
            && intake.applied().0 + FEW > led.replication.commit().0
    }

    /// The fsync behind the record that begins a snapshot takes long; what comes meanwhile is
    /// committed by others and applied. Then the log's thread writes nothing for a while, though
    /// the snapshot could be taken.
    fn outruns_its_log(&mut self, node: NodeId) -> Result<(), Violation> {
        let group = self.focus;
        let is_over = move |world: &World| {
            let process = world.machines.get(&node).and_then(|machine| machine.process.as_ref());
            process.and_then(|process| process.hosted(group)).is_none_or(|of| !of.copying.is_cutting())
        };
        // One that has begun.
        self.step_until(READS_MILLIS, is_over)?;
        self.step_machine(node, |process| {
            process.write_log();
            process.of_mut(group).copying.due = true;
            None
        })?;
        if is_over(self) {
            return Ok(());
        }
        self.step_machine(node, |process| {
            process.half_step_log(2 * QUIET_MILLIS * MILLI);
            None
        })?;
        let is_ahead = move |world: &World| is_over(world) || world.process(node).is_ahead_of_log(group);
        if self.step_until(2 * QUIET_MILLIS, is_ahead)? && !is_over(self) {
            self.counts.ahead += 1;
            self.step_machine(node, |process| {
                process.half_step_log(SLOW_MILLIS * MILLI);
                None
            })?;
            self.step_until(QUIET_MILLIS, is_over)?;
        }
        if self.running().contains(&node) {
            self.crash(node, Restart::Power);
        }
        Ok(())
    }

    /// What a node proposes about its group does not come to the voters, while it runs.
    fn loses_proposals(&mut self, node: NodeId, loses: bool) {
        if let Some(process) = self.machines.get_mut(&node).and_then(|machine| machine.process.as_mut()) {
            process.seat.loses_proposals = loses;
        }
    }

    pub(super) fn crash_for(&mut self, node: NodeId, restart: Restart, millis: u64) {
        self.crash(node, restart);
        let machine = self.machines.get_mut(&node).expect("machines are known");
        machine.down_until = self.now + millis * MILLI;
    }

    /// A member was just added, and who had everything ends before it has. It is the only one that
    /// could lead, and must not, for it may lack what was acknowledged.
    pub fn bereave(&mut self) {
        let known = self.ledger.with(|book| book.known.0);
        if std::mem::replace(&mut self.looked_at, known) == known {
            return;
        }
        let configuration = self.configuration();
        // Of one that will be added, much is on its way to it yet when that is decided.
        self.network.far = self.running().into_iter().find(|node| !configuration.has_node(*node));
        let epoch = configuration.epoch;
        if std::mem::replace(&mut self.last_epoch, epoch) == epoch
            || configuration.added().is_empty()
            || !self.random.percent(40)
        {
            return;
        }
        self.trace.line(&format!("all end who had everything before {epoch}"));
        self.counts.bereaved += 1;
        let others = configuration.members().iter().map(|member| member.node);
        let others: Vec<NodeId> = others.filter(|node| !configuration.added().contains(node)).collect();
        for node in others {
            if self.running().contains(&node) {
                self.crash_for(node, Restart::Process, AWAY_MILLIS);
            }
        }
    }
}
