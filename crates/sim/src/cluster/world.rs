//! One seed of a cluster from beginning to end: chapters with faults, each of which ends when all
//! is well again and everything was compared.

use crate::clients::Clients;
use crate::cluster::callers::Callers;
use crate::cluster::counts::Counts;
use crate::cluster::invariants::{chain, fresh, leaders, time};
use crate::cluster::ledger::Ledger;
use crate::cluster::machine::{Machine, Started, leaves_alone};
use crate::cluster::metadata::founded;
use crate::cluster::network::{Network, Packet};
use crate::cluster::operator::{Administrator, Operator};
use crate::cluster::plan::{Plan, TICK_NANOS};
use crate::cluster::process::Process;
use crate::cluster::wishes::Wish;
use crate::cluster::witness::Witness;
use crate::invariants::{self, Violation};
use crate::operation::Told;
use crate::run::text_of;
use crate::state::State;
use crate::trace::Trace;
use ferrite_base::{Epoch, NodeId};
use ferrite_cluster::{MessageKind, NotHandedOver};
use ferrite_group::FIRST_GROUP;
use ferrite_io::simulated::{PowerLost, Restart, SimulatedRandom};
use ferrite_meta::State as Metadata;
use ferrite_replica::group::{GroupConfiguration, Mark};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub(super) const MILLI: u64 = 1_000_000;
/// A machine is down so long at most, mostly.
const DOWN_MILLIS: u64 = 4_000;
/// And some for longer than anybody is waited for.
const DOWN_LONG_MILLIS: u64 = 20_000;
/// What a leader executes when it is deposed takes so long at most.
const BUSY_MILLIS: u64 = 800;
/// Between two questions of a node that joins.
pub(super) const JOIN_EVERY_MILLIS: u64 = 500;

/// What a seed came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    pub seed: u64,
    pub trace: u64,
    pub counts: Counts,
    pub violation: Option<Violation>,
}

/// Runs one seed. Whatever goes wrong, a panic included, is in the report.
pub fn run(seed: u64, show: bool) -> Report {
    let trace = Trace::new(show);
    let mut world = World::new(seed, trace.clone());
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let violation = match outcome {
        Ok(result) => result.err(),
        Err(panic) => Some(Violation { invariant: "nothing panics", detail: text_of(&*panic) }),
    };
    if let Some(violation) = &violation {
        trace.line(&format!("violated {violation}"));
    }
    world.count();
    // What is left of processes must not write any more.
    world.machines.values().for_each(|machine| machine.disk.halt());
    world.witnesses.values().for_each(|witness| witness.disk.halt());
    let counts = world.counts;
    // A party may have been torn in the middle of something.
    if violation.is_some() {
        std::mem::forget(world);
    }
    Report { seed, trace: trace.hash(), counts, violation }
}

pub(super) struct World {
    pub random: SimulatedRandom,
    /// For what was added later: seeds in which none of it happens mean what they did before.
    pub more: SimulatedRandom,
    /// Likewise.
    pub later: SimulatedRandom,
    pub plan: Plan,
    /// Wall clocks are set.
    pub sets_clocks: bool,
    /// The true time, nanoseconds.
    pub now: u64,
    next_call: u64,
    /// A leader that goes down at that time.
    pub succession: Option<(u64, NodeId)>,
    /// A process that stands still from a time on, for so long.
    pub still: Option<(u64, u64, NodeId)>,
    /// A node that is cut off from a time to another.
    pub isolation: Option<(u64, u64, NodeId)>,
    /// A node whose disk may fail only while it does not lead.
    pub failing: Option<NodeId>,
    /// What became of the last hand-over.
    pub handed_over: Option<Result<NodeId, NotHandedOver>>,
    /// Nobody calls that node by chance.
    pub avoided: Option<NodeId>,
    /// How many commands of the metadata had been applied anywhere, and the group's epoch, when
    /// that was last looked at.
    pub looked_at: u64,
    pub last_epoch: Epoch,
    /// A node has been wiped, or has lost its vote, and all is not well again.
    pub wiped: bool,
    /// One who is to pause the database, or to resume it.
    pub administrator: Option<Administrator>,
    /// An operator who is to accept a loss.
    pub operator: Option<Operator>,
    /// A node that has more than what an operator went on with, until it is made anew.
    pub given_up: Option<NodeId>,
    /// Machines whose node has no id yet.
    pub newcomers: Vec<Newcomer>,
    pub network: Network,
    pub machines: BTreeMap<NodeId, Machine>,
    pub witnesses: BTreeMap<NodeId, Witness>,
    pub callers: Callers,
    pub ledger: Ledger,
    pub trace: Trace,
    pub counts: Counts,
}

pub(super) fn violated(invariant: &'static str) -> impl FnOnce(String) -> Violation {
    move |detail| Violation { invariant, detail }
}

/// A machine in the place of one that has lost everything.
pub(super) struct Newcomer {
    pub place: u32,
    pub key: [u8; 16],
    pub next_ask: u64,
}

enum Turn {
    Deliver,
    Inbox(NodeId),
    Machine(NodeId),
    Submit,
    Time,
}

impl World {
    fn new(seed: u64, trace: Trace) -> World {
        let mut random = SimulatedRandom::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let plan = Plan::new(&mut random);
        trace.line(&format!("seed {seed} {plan:?}"));
        let cluster = u128::from(random.number()).to_le_bytes();
        let ledger = Ledger::default();
        let founded = Arc::new(founded(cluster, &plan, FIRST_GROUP));
        let machines = (1..=plan.nodes).map(|id| {
            let machine = Machine::new((id, id, false), &founded, &plan, &mut random, &trace);
            (NodeId(id), machine)
        });
        let machines = machines.collect();
        ledger.with(|book| book.known = (1, Arc::clone(&founded)));
        let witnesses = (plan.nodes + 1..=plan.nodes + plan.witnesses).map(NodeId);
        let witnesses = witnesses.map(|id| (id, Witness::new(id, &founded, &mut random, &ledger, &trace))).collect();
        let clients = Clients::new(random.fork(), &plan.database, "", trace.clone());
        World {
            network: Network::new(random.fork(), plan.faults),
            machines,
            witnesses,
            callers: Callers::new(clients, ledger.clone()),
            ledger,
            sets_clocks: seed.is_multiple_of(2),
            now: 0,
            next_call: 0,
            succession: None,
            still: None,
            isolation: None,
            failing: None,
            handed_over: None,
            avoided: None,
            looked_at: 0,
            last_epoch: Epoch(1),
            wiped: false,
            administrator: None,
            operator: None,
            given_up: None,
            newcomers: Vec::new(),
            trace,
            counts: Counts::default(),
            random,
            more: SimulatedRandom::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1),
            later: SimulatedRandom::new(seed.wrapping_mul(0xd605_1c82_9a6e_4b55) | 1),
            plan,
        }
    }

    fn count(&mut self) {
        let operations = &self.callers.clients.history.operations;
        let told =
            |wanted: fn(&Told) -> bool| operations.iter().filter(|operation| wanted(&operation.told)).count() as u64;
        let counts = &mut self.counts;
        counts.operations = operations.len() as u64;
        counts.acknowledged = told(|told| matches!(told, Told::Done(_)));
        counts.unknown = told(|told| *told == Told::Unknown);
        counts.refused = told(|told| matches!(told, Told::Refused(_)));
        counts.reads = self.callers.known.len() as u64;
        counts.schema_changes = self.callers.clients.history.schema.catalog.version.0;
        counts.lost = self.network.lost;
        counts.paused_reads = self.callers.pauses.compared;
        self.ledger.with(|book| {
            counts.configurations = book.configurations.len() as u64;
            (counts.terms, counts.votes_lost, counts.leases) = (book.terms, book.votes_lost, book.leases);
        });
    }

    fn run(&mut self) -> Result<(), Violation> {
        self.callers.clients.quiet = true;
        self.rest()?;
        let leader = self.leader().expect("at rest there is one");
        let process = self.machines[&leader].process.as_ref().expect("a leader runs");
        self.callers.submit_first_schema(process);
        self.rest()?;
        for chapter in 1..=self.plan.chapters {
            self.wiped = false;
            self.trace.line(&format!("chapter {chapter}"));
            if !self.plan.database.power_loss && self.random.percent(50) && !self.lose_all()? {
                return Ok(());
            }
            if self.more.percent(20) {
                self.accept_the_loss_of_a_leader_that_lives()?;
            }
            if !self.plan.faults.schema {
                self.callers.keep_the_schema();
            }
            self.trouble()?;
            self.settle()?;
            self.check()?;
            if self.random.percent(50) {
                self.hand_over_in_peace()?;
                self.check()?;
            }
            if self.random.percent(40) {
                self.restart_in_peace()?;
                self.check()?;
            }
        }
        Ok(())
    }

    pub fn process(&self, id: NodeId) -> &Process {
        self.machines[&id].process.as_ref().expect("it runs")
    }

    /// As any voter has it, where it is furthest.
    pub fn metadata(&self) -> Arc<Metadata> {
        self.ledger.with(|book| Arc::clone(&book.known.1))
    }

    pub fn configuration(&self) -> GroupConfiguration {
        self.metadata().groups()[&FIRST_GROUP].configuration.clone()
    }

    pub fn voters(&self) -> Vec<NodeId> {
        self.metadata().voters().iter().copied().collect()
    }

    /// Whose partitions take calls, as the metadata has decided.
    pub fn leader(&self) -> Option<NodeId> {
        let leader = self.configuration().leader;
        let process = self.machines.get(&leader.node)?.process.as_ref()?;
        (process.member == leader && process.serves.is_some()).then_some(leader.node)
    }

    /// All rules, when all is at rest.
    fn check(&mut self) -> Result<(), Violation> {
        let (chain, losses) = self.ledger.with(|book| {
            let all: Vec<GroupConfiguration> = book.configurations.values().cloned().collect();
            (all, book.losses.clone())
        });
        chain::check(&chain, &losses).map_err(violated("configurations form a chain"))?;
        let leader = self.leader().expect("at rest there is one");
        self.compare_copies()?;
        let state = self.process(leader).with_stores(State::read).expect("at rest all stores are at home");
        self.trace.line(&format!("checked {:?} version {} rows {:x}", state.heads, state.version, state.rows_hash));
        let history = &mut self.callers.clients.history;
        invariants::check(history, &state)?;
        fresh::check(history, &self.callers.known).map_err(violated("no read is older than what was acknowledged"))?;
        invariants::adopt(history, &state);
        self.callers.note_schema();
        self.noted()
    }

    /// What was noted while it happened.
    pub fn noted(&self) -> Result<(), Violation> {
        if let Some((invariant, detail)) = &self.callers.clients.history.violation {
            return Err(Violation { invariant, detail: detail.clone() });
        }
        self.ledger.with(|book| book.violation.clone()).map_or(Ok(()), Err)
    }

    /// One turn of somebody.
    pub fn step(&mut self) -> Result<(), Violation> {
        self.counts.steps += 1;
        let mut turns = Vec::new();
        if self.network.has_due(self.now) {
            turns.push((12, Turn::Deliver));
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
            Turn::Inbox(id) => {
                let machine = self.machines.get_mut(&id).expect("machines are known");
                let packet = machine.inbox.pop_front().expect("seen just now");
                self.receive(packet)?;
            }
            Turn::Machine(id) => self.step_machine(id, |process| process.step())?,
            Turn::Submit => self.submit(),
            Turn::Time => self.pass(busy)?,
        }
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
        let leads = |id: &NodeId| self.machines[id].process.as_ref().is_some_and(|process| process.serves.is_some());
        let all: Vec<NodeId> =
            self.machines.keys().copied().filter(runs).filter(|id| self.avoided != Some(*id)).collect();
        if all.is_empty() {
            return;
        }
        // There may be two for a while; each has clients that know no better.
        let leading: Vec<NodeId> = all.iter().copied().filter(leads).collect();
        let ask_leader = !leading.is_empty() && self.random.percent(90);
        let chosen = *self.random.pick(if ask_leader { &leading } else { &all });
        // What a leader that was replaced is asked to write only waits.
        let replaced = chosen != self.configuration().leader.node && self.random.percent(80);
        let machine = self.machines.get_mut(&chosen).expect("machines are known");
        machine.only_looks ^= self.random.percent(if machine.only_looks { 5 } else { 2 });
        let looks = machine.only_looks || replaced || machine.looks_until > self.now;
        self.call(chosen, looks);
    }

    /// A client of a node that runs calls it, unless there are enough calls on their way.
    pub fn call(&mut self, chosen: NodeId, looks: bool) {
        let process = self.machines[&chosen].process.as_ref().expect("it runs");
        let full = self.callers.waiting_for(process.member) >= self.plan.window;
        if full || process.held.holds.load(Relaxed) {
            return;
        }
        self.trace.line(&format!("calls {chosen}"));
        let number = self.callers.clients.history.operations.len();
        let epoch = process.serves;
        self.callers.submit(process, looks);
        process.held.waiting.store(self.callers.waiting_for(process.member), Relaxed);
        self.was_refused(number, epoch);
    }

    /// Time passes for all.
    fn pass(&mut self, busy: bool) -> Result<(), Violation> {
        let some = 1_000 << self.random.below(15);
        let mut next = self.network.next_due().unwrap_or(u64::MAX);
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
            if self.machines[&id].process.as_ref().is_some_and(|process| process.copying.ends) {
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
                process.copying.due = true;
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
            if !witness.received(&packet).map_err(violated(SENSE))? {
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
                MessageKind::Group => process.groups.received(from, body).map_err(|error| error.to_string()),
                MessageKind::Metadata => process.seat.received(from.node, body).map_err(|error| error.to_string()),
                MessageKind::Transfer => process.received_transfer(from.node, body),
                message_kind => Err(format!("nobody sends {message_kind:?}")),
            };
            None
        })?;
        outcome.map_err(violated(SENSE))
    }

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
        let member = process.member;
        if process.node.state().settings().is_some() {
            machine.known = Arc::clone(process.node.state());
        }
        let wishes = process.take_wishes();
        self.callers.read_letters(process);
        process.held.waiting.store(self.callers.waiting_for(member), Relaxed);
        let mut problem = None;
        let mut anew = false;
        let accepted = self.operator.is_some() || self.given_up == Some(id);
        for wish in wishes {
            match wish {
                Wish::Send(to, lane, bytes) => {
                    self.network.send(Packet { from: member, to, lane, bytes }, self.now);
                }
                Wish::Run(_) => unreachable!("the process keeps it"),
                Wish::FromLog(wanted) => {
                    self.counts.from_log += 1;
                    process.request(wanted);
                }
                Wish::Leads(epoch) => {
                    self.trace.line(&format!("{id} leads {epoch:?}"));
                    process.serves = epoch;
                    match epoch {
                        Some(epoch) => {
                            self.counts.promotions += 1;
                            let numbers = process.numbers_behind();
                            self.ledger.with(|book| {
                                leaders::note(book, epoch, member);
                                time::begins(book, member, epoch, numbers);
                            });
                        }
                        None => {
                            process.copying.deposed();
                            self.counts.deposed += 1;
                            if !self.network.calm && self.random.percent(50) {
                                process.keep_busy(self.random.below(BUSY_MILLIS) * MILLI);
                            }
                        }
                    }
                }
                Wish::HandedOver(outcome) => {
                    self.trace.line(&format!("{id} hands over: {outcome:?}"));
                    self.counts.handed_over += u64::from(outcome.is_ok());
                    if let Some(stopping) = &mut machine.stopping {
                        self.counts.left_alone += u64::from(leaves_alone(outcome));
                        stopping.handed_over(outcome);
                    }
                    self.handed_over = Some(outcome);
                }
                // As the server does, for which any disk may have such a log.
                Wish::NotSupplied(node, _) if machine.has_rotted => process.copying.wanted.push(node),
                Wish::NotSupplied(node, error) => {
                    problem = Some(("the log has what a member missed", format!("for node {node}: {error}")));
                }
                // It has, or may have, more than what an operator goes on with.
                Wish::MakeAnew(reason) if accepted || process.was_lost(&reason) => (self.given_up, anew) = (None, true),
                Wish::MakeAnew(reason) => problem = Some(("no copy is made anew for nothing", reason)),
                Wish::End(reason) => problem = Some(("no process ends for nothing", reason)),
                Wish::Notice(notice) => self.trace.line(&format!("{id} says {notice}")),
            }
        }
        machine.wait_for_disk();
        let Some(process) = &mut machine.process else { unreachable!("it has just taken a step") };
        let begins = process.copying.is_installing()
            && !std::mem::replace(&mut machine.installs, process.copying.is_installing());
        let done = std::mem::take(&mut process.copying.done);
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
        if let Some((invariant, detail)) = problem {
            return Err(Violation { invariant, detail: format!("node {id}: {detail}") });
        }
        if anew {
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

    pub fn running(&self) -> Vec<NodeId> {
        self.machines.iter().filter(|(_, machine)| machine.process.is_some()).map(|(id, _)| *id).collect()
    }

    pub fn crash(&mut self, id: NodeId, restart: Restart) {
        self.trace.line(&format!("{id} crashes {restart:?}"));
        self.counts.crashes += 1;
        self.counts.power_losses += u64::from(restart == Restart::Power);
        let down = self.down_nanos();
        self.failing = self.failing.filter(|failing| *failing != id);
        let machine = self.machines.get_mut(&id).expect("machines are known");
        let member = machine.process.as_ref().map(|process| process.member);
        machine.crash(restart);
        machine.down_until = self.now + down;
        self.network.crashed(id);
        if let Some(member) = member {
            self.callers.ended(member);
        }
        self.lost(id);
    }

    fn down_nanos(&mut self) -> u64 {
        let most = if self.random.percent(15) { DOWN_LONG_MILLIS } else { DOWN_MILLIS };
        self.random.below(most) * MILLI
    }

    pub fn crash_witness(&mut self, id: NodeId, restart: Restart) {
        self.trace.line(&format!("witness {id} crashes {restart:?}"));
        self.counts.crashes += 1;
        self.counts.power_losses += u64::from(restart == Restart::Power);
        let down_until = self.now + self.down_nanos();
        self.witnesses.get_mut(&id).expect("witnesses are known").crash(restart, down_until);
        self.network.crashed(id);
        self.lost(id);
    }

    /// All others hear that a connection has ended.
    fn lost(&mut self, id: NodeId) {
        for machine in self.machines.values_mut() {
            if let Some(process) = &mut machine.process {
                process.lost(id);
            }
        }
        for witness in self.witnesses.values_mut() {
            if let Some(running) = &mut witness.running {
                running.seat.lost(id);
            }
        }
    }

    fn start(&mut self, id: NodeId) -> Result<(), Violation> {
        self.trace.line(&format!("{id} starts"));
        let machine = self.machines.get_mut(&id).expect("machines are known");
        match machine.start(&self.ledger) {
            Ok(Started::Yes) => {
                let place = self.process(id).replication.place();
                let Mark { epoch, position, .. } = place.end;
                self.trace.line(&format!("{id} has come to {epoch} {position}"));
                // What it does first of all.
                self.step_machine(id, |_| None)
            }
            Ok(Started::PowerLost) => {
                self.crash(id, Restart::Power);
                Ok(())
            }
            Ok(Started::Unusable) => {
                self.finds_its_copy_unusable(id);
                Ok(())
            }
            Err(error) => Err(Violation { invariant: "a healthy disk can be opened", detail: error.to_string() }),
        }
    }
}
