//! One turn of a party of the cluster: a message arrives, a process works, a client calls, or time
//! passes.

use crate::cluster::callers::Callers;
use crate::cluster::crashes::DOWN_MILLIS;
use crate::cluster::network::Packet;
use crate::cluster::plan::TICK_NANOS;
use crate::cluster::process::Process;
use crate::cluster::world::{MILLI, World, violated};
use crate::invariants::Violation;
use ferrite_base::{GroupId, NodeId};
use ferrite_cluster::MessageKind;
use ferrite_group::FIRST_GROUP;
use ferrite_io::simulated::Restart;
use std::sync::atomic::Ordering::Relaxed;

enum Turn {
    Deliver,
    DeliverLot,
    Inbox(NodeId),
    Machine(NodeId),
    Submit,
    Time,
}

impl World {
    /// One turn of somebody.
    pub fn step(&mut self) -> Result<(), Violation> {
        self.counts.steps += 1;
        let mut turns = Vec::new();
        if self.network.has_due(self.now) {
            turns.push((12, Turn::Deliver));
        }
        if self.has_lots_due() {
            turns.push((12, Turn::DeliverLot));
        }
        for (id, machine) in &self.machines {
            if machine.still_until > self.now {
                continue;
            }
            if machine.process.as_ref().is_some_and(Process::can_step) {
                turns.push((12, Turn::Machine(*id)));
            }
            if !machine.inbox.is_empty() {
                turns.push((12, Turn::Inbox(*id)));
            }
        }
        if self.may_call() && self.now >= self.next_call {
            turns.push((4, Turn::Submit));
        }
        let busy = !turns.is_empty();
        turns.push((1, Turn::Time));
        let mut point = self.random.below(turns.iter().map(|(weight, _)| weight).sum());
        let chosen = turns.into_iter().find(|(weight, _)| {
            let here = point < *weight;
            point = point.saturating_sub(*weight);
            here
        });
        match chosen.expect("the point lies within the weights").1 {
            Turn::Deliver => self.deliver()?,
            Turn::DeliverLot => self.deliver_lot()?,
            Turn::Inbox(id) => {
                let machine = self.machines.get_mut(&id).expect("machines are known");
                let packet = machine.inbox.pop_front().expect("seen just now");
                self.receive(packet)?;
            }
            Turn::Machine(id) => self.step_machine(id, |process| process.step())?,
            Turn::Submit => self.submit(),
            Turn::Time => self.pass(busy)?,
        }
        self.walk();
        self.look_at_clocks();
        self.spare_the_leader();
        self.noted()
    }

    fn may_call(&self) -> bool {
        self.callers.can_submit()
            && self.machines.values().filter_map(|machine| machine.process.as_ref()).any(Callers::is_ready)
    }

    fn submit(&mut self) {
        self.next_call = self.now + 1_000 * self.random.below(self.plan.think_micros);
        let runs = |id: &NodeId| self.machines[id].process.as_ref().is_some_and(Callers::is_ready);
        let serves =
            |id: &NodeId| self.machines[id].process.as_ref().is_some_and(|process| !process.served().is_empty());
        let all: Vec<NodeId> =
            self.machines.keys().copied().filter(runs).filter(|id| self.avoided != Some(*id)).collect();
        if all.is_empty() {
            return;
        }
        // There may be two for a while; each has clients that know no better.
        let leading: Vec<NodeId> = all.iter().copied().filter(serves).collect();
        let ask_leader = !leading.is_empty() && self.random.percent(90);
        let chosen = *self.random.pick(if ask_leader { &leading } else { &all });
        // What a leader that was replaced is asked to write only waits.
        let group = self.called_group(chosen);
        let replaced = chosen != self.configuration_of(group).leader.node && self.random.percent(80);
        let machine = self.machines.get_mut(&chosen).expect("machines are known");
        machine.only_looks ^= self.random.percent(if machine.only_looks { 5 } else { 2 });
        let looks = machine.only_looks || replaced || machine.looks_until > self.now;
        self.call_for(chosen, group, looks);
    }

    /// Of those that the node hosts; mostly one that it leads.
    fn called_group(&mut self, id: NodeId) -> GroupId {
        if !self.has_several_groups() {
            return FIRST_GROUP;
        }
        let process = self.process(id);
        let served = process.served();
        let hosted: Vec<GroupId> = process.all_hosted().map(|of| of.id()).collect();
        let serves = !served.is_empty() && self.later.percent(90);
        *self.later.pick(if serves { &served } else { &hosted })
    }

    /// A client of a node that runs calls it, unless there are enough calls on their way.
    pub fn call(&mut self, chosen: NodeId, looks: bool) {
        let process = self.machines[&chosen].process.as_ref().expect("it runs");
        if process.hosted(self.focus).is_some() {
            self.call_for(chosen, self.focus, looks);
        }
    }

    fn call_for(&mut self, chosen: NodeId, group: GroupId, looks: bool) {
        let process = self.machines[&chosen].process.as_ref().expect("it runs");
        let of = process.of(group);
        let full = self.callers.waiting_for(process.member, group) >= self.plan.window;
        if full || of.held.holds.load(Relaxed) || of.version() == 0 {
            return;
        }
        self.trace.line(&format!("calls {chosen}"));
        let number = self.callers.clients.history.operations.len();
        let epoch = of.serves;
        if !self.callers.submit(process, group, looks) {
            return;
        }
        of.held.waiting.store(self.callers.waiting_for(process.member, group), Relaxed);
        self.walks.sent(number, &self.callers, self.now);
        self.was_refused(number, group, epoch);
    }

    /// Time passes for all.
    fn pass(&mut self, busy: bool) -> Result<(), Violation> {
        let some = 1_000 << self.random.below(15);
        let dues = [self.network.next_due(), self.next_lot_due()];
        let mut next = dues.into_iter().flatten().min().unwrap_or(u64::MAX);
        if self.may_call() {
            next = next.min(self.next_call);
        }
        let until_next = next.saturating_sub(self.now);
        let nanos = if busy { some } else { until_next.clamp(1_000, TICK_NANOS) };
        let before = self.now / (100 * MILLI);
        self.now += nanos;
        if self.now / (100 * MILLI) > before {
            self.trace.line(&format!("{} ms have passed", self.now / MILLI));
        }
        let ids: Vec<NodeId> = self.machines.keys().copied().collect();
        for id in ids {
            let machine = self.machines.get_mut(&id).expect("machines are known");
            machine.pass(nanos);
            if machine.process.as_ref().is_some_and(Process::log_has_failed) {
                let ends = *machine.ends.get_or_insert(self.now + self.random.below(DOWN_MILLIS) * MILLI);
                if self.now >= ends {
                    self.counts.failures += 1;
                    let power = self.random.percent(self.plan.faults.power);
                    self.crash(id, if power { Restart::Power } else { Restart::Process });
                    continue;
                }
            }
            if self.go_on_stopping(id)? {
                continue;
            }
            if self.machines[&id].process.as_ref().is_some_and(Process::ends) {
                self.crash(id, Restart::Process);
                continue;
            }
            let every = self.plan.snapshot_millis;
            let machine = self.machines.get_mut(&id).expect("machines are known");
            if every > 0
                && !self.network.calm
                && self.now >= machine.next_snapshot
                && let Some(process) = &mut machine.process
            {
                process.takes_snapshot();
                machine.next_snapshot = self.now + self.random.below(every) * MILLI;
            }
            let machine = self.machines.get_mut(&id).expect("machines are known");
            if machine.process.is_none() && self.now >= machine.down_until {
                self.start(id)?;
            } else if machine.still_until <= self.now
                && let Some(time) = machine.tick_is_due()
            {
                self.step_machine(id, |process| {
                    process.tick(time);
                    None
                })?;
            }
        }
        self.connect_lots()?;
        self.join();
        self.administer();
        let ids: Vec<NodeId> = self.witnesses.keys().copied().collect();
        for id in ids {
            let witness = self.witnesses.get_mut(&id).expect("witnesses are known");
            if !witness.pass(nanos, self.now) {
                self.crash_witness(id, Restart::Power);
            }
            self.send_for_witness(id);
        }
        Ok(())
    }

    fn send_for_witness(&mut self, id: NodeId) {
        let witness = self.witnesses.get_mut(&id).expect("witnesses are known");
        for packet in std::mem::take(&mut witness.out) {
            self.network.send(packet, self.now);
        }
    }

    fn deliver(&mut self) -> Result<(), Violation> {
        let Some(packet) = self.network.deliver(self.now) else { return Ok(()) };
        if let Some(machine) = self.machines.get_mut(&packet.to)
            && (machine.still_until > self.now || !machine.inbox.is_empty())
        {
            if machine.process.is_some() {
                machine.inbox.push_back(packet);
            }
            return Ok(());
        }
        self.receive(packet)
    }

    fn receive(&mut self, packet: Packet) -> Result<(), Violation> {
        const SENSE: &str = "messages make sense";
        self.counts.messages += 1;
        self.trace.line(&format!("arrives {}", packet.line()));
        let Packet { from, to, ref bytes, .. } = packet;
        if let Some(witness) = self.witnesses.get_mut(&to) {
            if !witness.handle_packet(&packet).map_err(violated(SENSE))? {
                self.crash_witness(to, Restart::Power);
            }
            self.send_for_witness(to);
            return Ok(());
        }
        // One that was wiped has another id.
        let Some(machine) = self.machines.get_mut(&to) else { return Ok(()) };
        let highest = machine.highest.entry(from.node).or_insert(from.incarnation);
        if from.incarnation < *highest {
            // The connection was closed when a later process came.
            return Ok(());
        }
        *highest = from.incarnation;
        let (message_kind, body) = MessageKind::decode(bytes).map_err(|error| violated(SENSE)(error.to_string()))?;
        let mut outcome = Ok(());
        self.step_machine(to, |process| {
            outcome = match message_kind {
                MessageKind::Group => process.groups.dispatch(from, body).map_err(|error| error.to_string()),
                MessageKind::Metadata => {
                    process.seat.handle_message(from.node, body).map_err(|error| error.to_string())
                }
                MessageKind::Transfer => process.received_transfer(from.node, body),
                message_kind => Err(format!("nobody sends {message_kind:?}")),
            };
            None
        })?;
        outcome.map_err(violated(SENSE))
    }
}
