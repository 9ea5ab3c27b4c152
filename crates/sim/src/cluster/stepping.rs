//! A process does something, and the world carries out what follows from it.

use crate::cluster::invariants::{leaders, time};
use crate::cluster::machine::leaves_alone;
use crate::cluster::network::Packet;
use crate::cluster::process::Process;
use crate::cluster::wishes::Wish;
use crate::cluster::world::{MILLI, World};
use crate::invariants::Violation;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_io::simulated::{PowerLost, Restart};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What a leader executes when it is deposed takes so long at most.
const BUSY_MILLIS: u64 = 800;

/// A process that has ended by itself is started again after so long.
const ENDED_MILLIS: u64 = 1_000;

/// What is left to do when the wishes of a process are carried out.
#[derive(Default)]
struct Left {
    /// The rule that was violated, and how.
    problem: Option<(&'static str, String)>,
    /// The process ends, and its copies are discarded.
    anew: bool,
    /// The process ends, and all is left as it is.
    ends: bool,
}

impl World {
    /// Something is done by the process of a node, if it runs; and what follows from that.
    pub fn step_machine(
        &mut self,
        id: NodeId,
        body: impl FnOnce(&mut Process) -> Option<String>,
    ) -> Result<(), Violation> {
        // One that was wiped may be made the leader all the same.
        let Some(machine) = self.machines.get_mut(&id) else { return Ok(()) };
        let Some(process) = &mut machine.process else { return Ok(()) };
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let line = body(process);
            process.work_around();
            line
        }));
        if process.node.state().settings().is_some() {
            machine.known = Arc::clone(process.node.state());
        }
        let wishes = process.take_wishes();
        self.callers.read_letters(process);
        for of in process.all_hosted() {
            of.held.waiting.store(self.callers.waiting_for(process.member, of.id()), Relaxed);
        }
        let left = self.carry_out(id, wishes);
        let machine = self.machines.get_mut(&id).expect("machines are known");
        machine.wait_for_disk();
        let Some(process) = &mut machine.process else { unreachable!("it has just taken a step") };
        let installs = process.all_hosted().any(|of| of.copying.is_installing());
        let begins = installs && !std::mem::replace(&mut machine.installs, installs);
        machine.installs = installs;
        let done = process.take_done();
        self.counts.snapshots += done.taken;
        self.counts.copied += done.copied;
        self.counts.hashed += done.hashed;
        self.counts.installed += done.installed;
        self.counts.needed += done.needed;
        match lived {
            Ok(line) => {
                if let Some(line) = line {
                    self.trace.line(&format!("{id} {line}"));
                }
            }
            Err(panic) if panic.is::<PowerLost>() => {
                self.crash(id, Restart::Power);
                return Ok(());
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
        if let Some((invariant, detail)) = left.problem {
            return Err(Violation { invariant, detail: format!("node {id}: {detail}") });
        }
        if left.ends {
            self.crash_for(id, Restart::Process, ENDED_MILLIS);
            return Ok(());
        }
        if left.anew {
            self.counts.made_anew += 1;
            self.crash(id, Restart::Process);
            self.machines[&id].throw_away();
            return Ok(());
        }
        if begins {
            self.installs(id);
        }
        if done.copied > 0 {
            self.has_cut(id);
        }
        Ok(())
    }

    fn carry_out(&mut self, id: NodeId, wishes: Vec<Wish>) -> Left {
        let mut left = Left::default();
        let accepted = self.operator.is_some() || self.given_up == Some(id);
        for wish in wishes {
            let machine = self.machines.get_mut(&id).expect("machines are known");
            let Some(process) = &mut machine.process else { unreachable!("it has just taken a step") };
            match wish {
                Wish::Send(to, lane, bytes) => {
                    self.network.send(Packet { from: process.member, to, lane, bytes }, self.now);
                }
                Wish::Lot(to, bytes) => self.lot_links.send(process.member, to, bytes, self.now, self.network.calm),
                Wish::Run(..) => unreachable!("the process keeps it"),
                Wish::FromLog(group, wanted) => {
                    self.counts.from_log += 1;
                    process.request(group, wanted);
                }
                Wish::Serves(group, epoch) => self.serves(id, group, epoch),
                Wish::HandedOver(group, outcome) => {
                    self.trace.line(&format!("{id} hands over: {outcome:?}"));
                    self.counts.handed_over += u64::from(outcome.is_ok());
                    if machine.stopping.is_some() {
                        self.counts.left_alone += u64::from(leaves_alone(outcome));
                        machine.handed_over(group, outcome);
                    }
                    if group == self.focus {
                        self.handed_over = Some(outcome);
                    }
                }
                // As the server does, for which any disk may have such a log.
                Wish::NotSupplied(group, node, _) if machine.has_rotted => {
                    process.of(group).copying.wanted.push(node);
                }
                Wish::NotSupplied(_, node, error) => {
                    left.problem = Some(("the log has what a member missed", format!("for node {node}: {error}")));
                }
                // It has, or may have, more than what an operator continued with.
                Wish::MakeAnew(group, reason, alone) if accepted || process.was_lost(group, &reason) => {
                    // As the server does: the directory has all copies.
                    if alone.is_some() {
                        left.ends = true;
                    } else {
                        self.given_up = None;
                        left.anew = true;
                    }
                }
                Wish::MakeAnew(_, reason, _) => left.problem = Some(("no copy is made anew for nothing", reason)),
                Wish::End(reason) => left.problem = Some(("no process ends for nothing", reason)),
                Wish::Notice(notice) => self.trace.line(&format!("{id} says {notice}")),
            }
        }
        left
    }

    /// The node's partitions take calls in this epoch, or take none any more.
    fn serves(&mut self, id: NodeId, group: GroupId, epoch: Option<Epoch>) {
        self.trace.line(&format!("{id} leads group {group} {epoch:?}"));
        let machine = self.machines.get_mut(&id).expect("machines are known");
        let Some(process) = &mut machine.process else { unreachable!("it has just taken a step") };
        let of = process.of_mut(group);
        of.serves = epoch;
        let Some(epoch) = epoch else {
            of.copying.deposed();
            self.counts.deposed += 1;
            if !self.network.calm && self.random.percent(50) {
                process.keep_busy(self.random.below(BUSY_MILLIS) * MILLI);
            }
            return;
        };
        self.counts.promotions += 1;
        let member = process.member;
        let numbers = process.numbers_behind(group);
        self.ledger.with(|book| {
            leaders::note(book, group, epoch, member);
            time::begins(book, group, member, epoch, numbers);
        });
    }
}
