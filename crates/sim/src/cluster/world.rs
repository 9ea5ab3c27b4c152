//! One seed of a cluster from beginning to end: chapters with faults, each of which ends when all
//! is well again and everything was compared.

use crate::clients::Clients;
use crate::cluster::callers::Callers;
use crate::cluster::contents::contents;
use crate::cluster::invariants::{chain, copies, fresh, leaders};
use crate::cluster::ledger::Ledger;
use crate::cluster::machine::{Machine, Started};
use crate::cluster::metadata::Metadata;
use crate::cluster::network::{Network, Packet};
use crate::cluster::plan::{Plan, TICK_NANOS};
use crate::cluster::process::{Process, Wish};
use crate::invariants::{self, Violation};
use crate::operation::Told;
use crate::run::text_of;
use crate::state::State;
use crate::trace::Trace;
use ferrite_base::NodeId;
use ferrite_cluster::Cause;
use ferrite_group::FIRST_GROUP;
use ferrite_io::simulated::{CrashPoint, Fault, FaultKind, PowerLost, Restart, SimulatedRandom};
use ferrite_replica::group::{GroupConfiguration, Mark};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const MILLI: u64 = 1_000_000;
/// In which all has to be well again once nothing is done wrong any more.
const REST_NANOS: u64 = 60_000 * MILLI;
const REST_STEPS: u64 = 60_000;
/// Between two looks whether all is well.
const LOOK_STEPS: u64 = 8;
/// A split lasts so long at most, besides a pause.
const SPLIT_MILLIS: u64 = 5_000;
/// A machine is down so long at most.
const DOWN_MILLIS: u64 = 4_000;

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
    pub splits: u64,
    pub crashes: u64,
    pub power_losses: u64,
    pub disk_faults: u64,
    /// Logs that have failed.
    pub failures: u64,
    pub seals: u64,
    pub configurations: u64,
    pub promotions: u64,
    /// Leaders that became copies without ending.
    pub deposed: u64,
    pub from_log: u64,
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
        self.splits += other.splits;
        self.crashes += other.crashes;
        self.power_losses += other.power_losses;
        self.disk_faults += other.disk_faults;
        self.failures += other.failures;
        self.seals += other.seals;
        self.configurations += other.configurations;
        self.promotions += other.promotions;
        self.deposed += other.deposed;
        self.from_log += other.from_log;
    }
}

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
    let counts = world.counts;
    // A party may have been torn in the middle of something.
    if violation.is_some() {
        std::mem::forget(world);
    }
    Report { seed, trace: trace.hash(), counts, violation }
}

struct World {
    random: SimulatedRandom,
    plan: Plan,
    /// The true time, nanoseconds.
    now: u64,
    next_look: u64,
    next_call: u64,
    /// A leader that goes down at that time.
    succession: Option<(u64, NodeId)>,
    network: Network,
    metadata: Metadata,
    machines: BTreeMap<NodeId, Machine>,
    callers: Callers,
    ledger: Ledger,
    trace: Trace,
    counts: Counts,
}

fn violated(invariant: &'static str) -> impl FnOnce(String) -> Violation {
    move |detail| Violation { invariant, detail }
}

enum Turn {
    Deliver,
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
        let machines = (1..=plan.nodes).map(|id| {
            let machine = Machine::new(id, cluster, &plan, &mut random, &trace);
            (NodeId(id), machine)
        });
        let machines = machines.collect();
        let clients = Clients::new(random.fork(), &plan.database, "", trace.clone());
        World {
            network: Network::new(random.fork(), plan.faults),
            metadata: Metadata::found(cluster, plan.nodes, plan.database.partitions, FIRST_GROUP, 0),
            machines,
            callers: Callers::new(clients),
            ledger: Ledger::default(),
            now: 0,
            next_look: 0,
            next_call: 0,
            succession: None,
            trace,
            counts: Counts::default(),
            random,
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
        counts.seals = self.metadata.seals_begun;
        counts.configurations = self.metadata.configurations.len() as u64;
    }

    fn run(&mut self) -> Result<(), Violation> {
        self.callers.clients.quiet = true;
        self.rest()?;
        let leader = self.leader().expect("at rest there is one");
        let process = self.machines[&leader].process.as_ref().expect("a leader runs");
        self.callers.submit_first_schema(process);
        self.rest()?;
        for chapter in 1..=self.plan.chapters {
            self.trace.line(&format!("chapter {chapter}"));
            if !self.plan.faults.schema {
                self.callers.keep_the_schema();
            }
            self.trouble()?;
            self.settle()?;
            self.check()?;
        }
        Ok(())
    }

    fn process(&self, id: NodeId) -> &Process {
        self.machines[&id].process.as_ref().expect("it runs")
    }

    /// A part of the history in which things go wrong.
    fn trouble(&mut self) -> Result<(), Violation> {
        self.network.calm = false;
        self.callers.clients.quiet = false;
        let end = self.now + self.plan.millis * MILLI;
        let faults = self.plan.faults;
        let pause = |random: &mut SimulatedRandom| random.below(1 + faults.pause_millis) * MILLI;
        let mut next_fault = self.now + pause(&mut self.random);
        let mut next_split = if faults.splits { self.now + pause(&mut self.random) } else { u64::MAX };
        while self.now < end {
            if self.now >= next_split {
                let nodes: Vec<NodeId> = self.machines.keys().copied().collect();
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
            let all = faults.crashes + faults.disks;
            if self.now >= next_fault && all > 0 {
                next_fault = self.now + pause(&mut self.random);
                if self.random.below(all) < faults.crashes {
                    self.plan_crashes()?;
                } else {
                    self.fail_disk();
                }
            }
            if let Some((_, leader)) = self.succession.take_if(|(when, _)| self.now >= *when)
                && self.running().contains(&leader)
            {
                self.crash(leader, Restart::Process);
            }
            self.step()?;
        }
        self.succession = None;
        self.counts.millis += self.plan.millis;
        Ok(())
    }

    /// Nothing is done wrong any more: all nodes become members, and a write succeeds.
    fn settle(&mut self) -> Result<(), Violation> {
        self.trace.line("calm");
        self.network.calm = true;
        self.network.heal();
        self.callers.clients.quiet = true;
        for machine in self.machines.values_mut() {
            machine.disk.crash_at(None);
            machine.disk.heal();
            machine.down_until = 0;
        }
        self.rest()?;
        let before = self.callers.writes();
        for _ in 0..40 {
            if self.callers.writes() > before {
                return Ok(());
            }
            let leader = self.leader().expect("at rest there is one");
            let machine = &self.machines[&leader];
            let process = machine.process.as_ref().expect("a leader runs");
            self.callers.clients.quiet = false;
            self.callers.submit(process, false);
            self.callers.clients.quiet = true;
            self.rest()?;
        }
        let detail = "none of 40 calls was a write that succeeded".to_owned();
        Err(Violation { invariant: "without faults a write succeeds", detail })
    }

    /// Goes on until nothing is on its way, and all nodes are members.
    fn rest(&mut self) -> Result<(), Violation> {
        let (begin, steps) = (self.now, self.counts.steps);
        loop {
            // Whatever has come to rest stays so for a while.
            if self.counts.steps.is_multiple_of(LOOK_STEPS) && self.unrest().is_none() {
                return Ok(());
            }
            if self.now - begin > REST_NANOS || self.counts.steps - steps > REST_STEPS {
                let detail = self.unrest().unwrap_or_default();
                return Err(Violation { invariant: "without faults all comes to rest", detail });
            }
            self.step()?;
        }
    }

    /// What is not at rest.
    fn unrest(&self) -> Option<String> {
        let configuration = self.configuration();
        let Some(leader) = self.leader() else { return Some(format!("nobody leads: {configuration:?}")) };
        let mark = self.process(leader).replication.end();
        for (id, machine) in &self.machines {
            let Some(process) = &machine.process else { return Some(format!("node {id} does not run")) };
            if process.log_has_failed() {
                return Some(format!("the log of node {id} has failed"));
            }
            if !process.node.is_registered() || !configuration.has(process.member) {
                return Some(format!("node {id} is not a member: {configuration:?}"));
            }
            if !configuration.added().is_empty() && configuration.members().len() < self.machines.len() {
                return Some(format!("node {id} was added just now"));
            }
            let (end, commit) = (process.replication.end(), process.replication.commit());
            if end != mark || commit != mark.position {
                return Some(format!("node {id} has {end:?}, committed {commit}, and the leader has {mark:?}"));
            }
            if !process.is_at_rest() {
                return Some(format!("node {id} is at work"));
            }
        }
        let waiting = self.callers.waiting();
        (waiting > 0).then(|| format!("{waiting} calls have no answer"))
    }

    fn configuration(&self) -> &GroupConfiguration {
        &self.metadata.state().groups()[&FIRST_GROUP].configuration
    }

    /// Whose partitions take calls, as the metadata has decided.
    fn leader(&self) -> Option<NodeId> {
        let leader = self.configuration().leader;
        let process = self.machines.get(&leader.node)?.process.as_ref()?;
        (process.member == leader && process.leads.is_some()).then_some(leader.node)
    }

    /// All rules, when all is at rest.
    fn check(&mut self) -> Result<(), Violation> {
        let chain: Vec<GroupConfiguration> =
            self.metadata.configurations.iter().map(|(_, configuration)| configuration.clone()).collect();
        chain::check(&chain).map_err(violated("configurations form a chain"))?;
        let leader = self.leader().expect("at rest there is one");
        let mut all: Vec<(NodeId, Vec<String>)> = Vec::new();
        for (id, machine) in &self.machines {
            let process = machine.process.as_ref().expect("at rest all run");
            let found = process.with_stores(contents).expect("at rest all stores are at home");
            all.push((*id, found.map_err(violated("indexes and views equal a scan"))?));
        }
        copies::check(&all).map_err(violated("copies at one position are equal"))?;
        let state = self.process(leader).with_stores(State::read).expect("at rest all stores are at home");
        self.trace.line(&format!("checked {:?} version {} rows {:x}", state.heads, state.version, state.rows_hash));
        let history = &mut self.callers.clients.history;
        invariants::check(history, &state)?;
        fresh::check(history, &self.callers.known).map_err(violated("no read is older than what was acknowledged"))?;
        invariants::adopt(history, &state);
        self.noted()
    }

    /// What was noted while it happened.
    fn noted(&self) -> Result<(), Violation> {
        if let Some((invariant, detail)) = &self.callers.clients.history.violation {
            return Err(Violation { invariant, detail: detail.clone() });
        }
        self.ledger.with(|book| book.violation.clone()).map_or(Ok(()), Err)
    }

    /// One turn of somebody.
    fn step(&mut self) -> Result<(), Violation> {
        self.counts.steps += 1;
        let mut turns = Vec::new();
        if self.network.has_due(self.now) {
            turns.push((12, Turn::Deliver));
        }
        for (id, machine) in &self.machines {
            if machine.process.as_ref().is_some_and(Process::can_step) {
                turns.push((12, Turn::Machine(*id)));
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
            Turn::Machine(id) => self.step_machine(id, |process| process.step())?,
            Turn::Submit => self.submit(),
            Turn::Time => self.pass(busy)?,
        }
        self.noted()
    }

    fn may_call(&self) -> bool {
        self.callers.can_submit()
            && self.machines.values().filter_map(|machine| machine.process.as_ref()).any(Callers::is_ready)
    }

    fn submit(&mut self) {
        self.next_call = self.now + 1_000 * self.random.below(self.plan.think_micros);
        let runs = |id: &NodeId| self.machines[id].process.as_ref().is_some_and(Callers::is_ready);
        let leads = |id: &NodeId| self.machines[id].process.as_ref().is_some_and(|process| process.leads.is_some());
        let all: Vec<NodeId> = self.machines.keys().copied().filter(runs).collect();
        // There may be two for a while; each has clients that know no better.
        let leading: Vec<NodeId> = all.iter().copied().filter(leads).collect();
        let ask_leader = !leading.is_empty() && self.random.percent(90);
        let chosen = *self.random.pick(if ask_leader { &leading } else { &all });
        // What a leader that was replaced is asked to write only waits.
        let replaced = chosen != self.configuration().leader.node && self.random.percent(80);
        let machine = self.machines.get_mut(&chosen).expect("machines are known");
        machine.only_looks ^= self.random.percent(if machine.only_looks { 5 } else { 2 });
        let looks = machine.only_looks || replaced;
        let process = machine.process.as_ref().expect("it runs");
        if self.callers.waiting_for(process.member) >= self.plan.window {
            return;
        }
        self.trace.line(&format!("calls {chosen}"));
        self.callers.submit(process, looks);
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
        self.now += nanos;
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
            let machine = self.machines.get_mut(&id).expect("machines are known");
            if machine.process.is_none() && self.now >= machine.down_until {
                self.start(id)?;
            } else if let Some(time) = machine.tick_is_due() {
                self.step_machine(id, |process| {
                    process.tick(time);
                    None
                })?;
            }
        }
        if self.now >= self.next_look {
            self.next_look = self.now + TICK_NANOS;
            self.metadata.tick(self.now);
            self.send_metadata();
        }
        Ok(())
    }

    fn send_metadata(&mut self) {
        for packet in self.metadata.take_out() {
            self.network.send(packet, self.now);
        }
    }

    fn deliver(&mut self) -> Result<(), Violation> {
        let Some(packet) = self.network.deliver(self.now) else { return Ok(()) };
        self.counts.messages += 1;
        self.trace.line(&format!("arrives {}", packet.line()));
        match packet {
            Packet::Ask { from, ask } => {
                self.metadata.asked(from, ask, self.now);
                self.send_metadata();
                Ok(())
            }
            Packet::Metadata { to, index, state } => self.step_machine(to, |process| {
                process.cause(Cause::Metadata { index, state });
                None
            }),
            Packet::Group { from, to, bytes, .. } => {
                let machine = self.machines.get_mut(&to).expect("machines are known");
                let highest = machine.highest.entry(from.node).or_insert(from.incarnation);
                if from.incarnation < *highest {
                    // The connection was closed when a later process came.
                    return Ok(());
                }
                *highest = from.incarnation;
                let mut outcome = Ok(());
                self.step_machine(to, |process| {
                    outcome = process.groups.received(from, &bytes);
                    None
                })?;
                outcome.map_err(|error| Violation { invariant: "messages make sense", detail: error.to_string() })
            }
        }
    }

    /// Something is done by the process of a node, if it runs; and what follows from that.
    fn step_machine(&mut self, id: NodeId, body: impl FnOnce(&mut Process) -> Option<String>) -> Result<(), Violation> {
        let machine = self.machines.get_mut(&id).expect("machines are known");
        let Some(process) = &mut machine.process else { return Ok(()) };
        let lived = catch_unwind(AssertUnwindSafe(|| body(process)));
        let member = process.member;
        let wishes = process.take_wishes();
        self.callers.read_letters(process);
        let mut problem = None;
        for wish in wishes {
            match wish {
                Wish::Send(to, lane, bytes) => {
                    self.network.send(Packet::Group { from: member, to, lane, bytes }, self.now);
                }
                Wish::Ask(ask) => self.network.send(Packet::Ask { from: id, ask }, self.now),
                Wish::Run(_) => unreachable!("the process keeps it"),
                Wish::FromLog(wanted) => {
                    self.counts.from_log += 1;
                    process.request(wanted);
                }
                Wish::Leads(epoch) => {
                    self.trace.line(&format!("{id} leads {epoch:?}"));
                    process.leads = epoch;
                    match epoch {
                        Some(epoch) => {
                            self.counts.promotions += 1;
                            self.ledger.with(|book| leaders::note(book, epoch, member));
                        }
                        None => self.counts.deposed += 1,
                    }
                }
                Wish::NotSupplied(error) => problem = Some(("the log has what a member missed", error)),
                Wish::MakeAnew(reason) => problem = Some(("no copy is made anew for nothing", reason)),
                Wish::End(reason) => problem = Some(("no process ends for nothing", reason)),
                Wish::Notice(line) => self.trace.line(&format!("{id} says {line}")),
            }
        }
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
        match problem {
            Some((invariant, detail)) => Err(Violation { invariant, detail: format!("node {id}: {detail}") }),
            None => Ok(()),
        }
    }

    fn running(&self) -> Vec<NodeId> {
        self.machines.iter().filter(|(_, machine)| machine.process.is_some()).map(|(id, _)| *id).collect()
    }

    /// A write or an fsync of somebody fails, once or from then on.
    fn fail_disk(&mut self) {
        let running = self.running();
        if running.is_empty() {
            return;
        }
        let chosen = *self.random.pick(&running);
        let disk = &self.machines[&chosen].disk;
        // In the other modes a failed fsync takes what was acknowledged: a node that starts again
        // does not know that yet.
        let sync = self.plan.database.power_loss && self.random.percent(50);
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
        let running = self.running().len();
        let leader = self.configuration().leader.node;
        let followers: Vec<NodeId> = self.running().into_iter().filter(|node| *node != leader).collect();
        if !followers.is_empty() && self.random.percent(30) {
            let follower = *self.random.pick(&followers);
            self.succession = Some((self.now + self.random.below(300 * MILLI), leader));
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
            let (boundary, after) = (disk.boundaries() + within, self.random.percent(50));
            self.trace.line(&format!("{chosen} loses its power at {boundary}"));
            disk.crash_at(Some(CrashPoint { boundary, after }));
            return;
        }
        self.crash(chosen, if power { Restart::Power } else { Restart::Process });
    }

    fn crash(&mut self, id: NodeId, restart: Restart) {
        self.trace.line(&format!("{id} crashes {restart:?}"));
        self.counts.crashes += 1;
        self.counts.power_losses += u64::from(restart == Restart::Power);
        let down = self.random.below(DOWN_MILLIS) * MILLI;
        let machine = self.machines.get_mut(&id).expect("machines are known");
        let member = machine.process.as_ref().map(|process| process.member);
        machine.crash(restart);
        machine.down_until = self.now + down;
        self.network.crashed(id);
        if let Some(member) = member {
            self.callers.ended(member);
        }
        for machine in self.machines.values_mut() {
            if let Some(process) = &mut machine.process {
                process.lost(id);
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
            Err(error) => Err(Violation { invariant: "a healthy disk can be opened", detail: error.to_string() }),
        }
    }
}
