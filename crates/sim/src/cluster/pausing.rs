//! An administrator pauses the database and resumes it, whichever node leads meanwhile.

use crate::clients::reply;
use crate::cluster::operator::Administrator;
use crate::cluster::rest::REST_NANOS;
use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use crate::operation::Told;
use ferrite_base::{Epoch, GroupId, NodeId, UserResult};
use ferrite_group::FIRST_GROUP;
use ferrite_io::Clock;
use ferrite_io::simulated::Restart;
use ferrite_member::Pause;
use ferrite_partition::coordinator::Job;

/// Between two attempts.
const AGAIN_MILLIS: u64 = 300;
/// The administrator is answered within that, or tries again later.
const ANSWERED_MILLIS: u64 = 9_000;
/// Clients call for so long at most before another is to lead.
const LOAD_MILLIS: u64 = 800;
/// Another leads within that, or not.
const REPLACED_MILLIS: u64 = 9_000;
/// Of a leader that ends.
const DOWN_MILLIS: u64 = 4_000;
/// Behind a resume.
const WRITES_MILLIS: u64 = 3_000;

impl World {
    /// The database is paused, others lead, and it is resumed.
    pub fn the_database_is_paused(&mut self) -> Result<(), Violation> {
        if !self.plan.pauses {
            return Ok(());
        }
        self.trace.line("the database is to be paused");
        if self.is_told(true)? {
            self.counts.paused += 1;
            for _ in 0..1 + self.later.below(3) {
                let millis = self.later.below(LOAD_MILLIS);
                self.step_until(millis, |_| false)?;
                let before = self.configuration().epoch;
                self.another_is_to_lead()?;
                self.counts.paused_beyond += u64::from(self.configuration().epoch > before);
            }
            let millis = self.later.below(LOAD_MILLIS);
            self.step_until(millis, |_| false)?;
        }
        if self.is_told(false)? {
            self.counts.resumed += 1;
            let before = self.callers.writes();
            self.step_until(WRITES_MILLIS, |world| world.callers.writes() > before)?;
        }
        Ok(())
    }

    /// Whether the administrator hears in time that it is so.
    fn is_told(&mut self, paused: bool) -> Result<bool, Violation> {
        self.administrator = Some(Administrator { paused, next: self.now });
        self.step_until(ANSWERED_MILLIS, |world| world.administrator.is_none())
    }

    fn another_is_to_lead(&mut self) -> Result<(), Violation> {
        let Some(leader) = self.leader() else { return Ok(()) };
        match self.later.below(4) {
            0 => {
                let millis = self.later.below(DOWN_MILLIS);
                self.crash_for(leader, Restart::Process, millis);
            }
            1 => {
                let group = self.focus;
                self.step_machine(leader, |process| {
                    process.node.hand_over(group, None, None);
                    None
                })?;
            }
            2 => self.stop_one(leader)?,
            _ => {
                (self.still, self.isolation) = (None, None);
                self.network.heal();
                self.network.cut_off(&self.everybody(), leader);
                self.counts.cut_off += 1;
            }
        }
        self.step_until(REPLACED_MILLIS, move |world| world.leader().is_some_and(|next| next != leader))?;
        self.network.heal();
        Ok(())
    }

    /// The administrator tries what is not known to be so. To be called as time passes.
    pub fn administer(&mut self) {
        self.pause_groups();
        let Some(Administrator { paused, next }) = self.administrator else { return };
        let pauses = &self.callers.pauses;
        if if paused { pauses.is_paused() } else { pauses.is_resumed() } {
            self.administrator = None;
        } else if self.now >= next && !pauses.is_under_way() {
            self.administrator = Some(Administrator { paused, next: self.now + AGAIN_MILLIS * MILLI });
            let running: Vec<NodeId> = self.running();
            let anyone = (!running.is_empty() && self.later.percent(10)).then(|| *self.later.pick(&running));
            if let Some(asked) = anyone.or(self.leader_of(FIRST_GROUP)) {
                self.pause(asked, paused);
            }
        }
    }

    /// `@Pause` or `@Resume`, as a node takes them (`node/src/system.rs`). The answer comes when
    /// all that was admitted before is executed and durable, and the group has confirmed who
    /// leads; where there are several, when all groups have done their parts.
    fn pause(&mut self, asked: NodeId, paused: bool) {
        let process = self.machines.get_mut(&asked).and_then(|machine| machine.process.as_mut());
        let Some(process) = process else { return };
        let number = self.callers.pause(process.member, paused, process.clock.wall_micros());
        self.trace.line(&format!("{asked} is told to pause: {paused}"));
        // One that does not have the first group refuses it.
        let doors = &process.all_hosted().next().expect("a node hosts groups").doors;
        let reply = reply(doors, number, process.clock.wall_micros());
        let coordinator = doors.coordinator.clone();
        let calls = doors.groups.clone();
        let asked = self.pausing_groups.asked();
        let by = process.member;
        let several = process.all_groups > 1;
        let told = Box::new(move |outcome: UserResult<u64>| match outcome {
            Ok(revision) if several => asked.push(by, revision, reply, calls),
            Ok(_) => drop(coordinator.send(Job::Quiesce(reply))),
            Err(error) => reply.refuse(&error),
        });
        process.pauses.begin(Pause { paused, told }, process.clock.boottime_nanos());
    }

    /// A call that was refused for a pause, by a process that leads by the last configuration.
    pub fn was_refused(&mut self, number: usize, group: GroupId, epoch: Option<Epoch>) {
        let history = &mut self.callers.clients.history;
        let Told::Refused(text) = &history.operations[number].told else { return };
        if !text.contains("is paused") {
            return;
        }
        self.counts.paused_calls += 1;
        if self.callers.pauses.is_resumed() && epoch == Some(self.configuration_of(group).epoch) {
            let detail = format!("operation {number} was refused: the database was resumed before it was sent");
            self.callers.clients.history.violated("behind a resume writes are taken", detail);
        }
    }

    /// At rest: nothing stays paused.
    pub fn resume_in_peace(&mut self) -> Result<(), Violation> {
        if !self.callers.pauses.is_resumed() {
            self.administrator = Some(Administrator { paused: false, next: self.now });
            if !self.step_until(REST_NANOS / MILLI, |world| world.administrator.is_none())? {
                let detail = format!("{:?}", self.metadata().settings());
                return Err(Violation { invariant: "without faults the database is resumed", detail });
            }
            self.rest()?;
        }
        self.callers.pauses.at_rest();
        Ok(())
    }
}
