//! One seed of a cluster from beginning to end: chapters with faults, each of which ends when all
//! is well again and everything was compared.

use crate::clients::Clients;
use crate::cluster::callers::Callers;
use crate::cluster::counts::Counts;
use crate::cluster::invariants::{chain, fresh};
use crate::cluster::ledger::{Book, Ledger};
use crate::cluster::lot_links::LotLinks;
use crate::cluster::machine::Machine;
use crate::cluster::metadata::founded;
use crate::cluster::network::Network;
use crate::cluster::operator::{Administrator, Operator};
use crate::cluster::pausing_groups::PausingGroups;
use crate::cluster::plan::Plan;
use crate::cluster::process::{HeldStores, Process};
use crate::cluster::walks::Walks;
use crate::cluster::witness::Witness;
use crate::invariants::{self, Violation};
use crate::operation::Told;
use crate::run::text_of;
use crate::state::State;
use crate::trace::Trace;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_catalog::schema_text;
use ferrite_cluster::NotHandedOver;
use ferrite_group::FIRST_GROUP;
use ferrite_io::simulated::SimulatedRandom;
use ferrite_meta::State as Metadata;
use ferrite_replica::group::GroupConfiguration;
use ferrite_table::Store;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(super) const MILLI: u64 = 1_000_000;
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
    run_planned(seed, show, Plan::new)
}

/// The same with several groups that spread over the nodes.
pub fn run_with_groups(seed: u64, show: bool) -> Report {
    run_planned(seed, show, Plan::with_groups)
}

/// The same, whose nodes take snapshots and send them.
pub fn run_with_snapshots(seed: u64, show: bool) -> Report {
    run_planned(seed, show, Plan::with_groups_and_snapshots)
}

/// Several groups, of which one after another is continued without what its leader has.
pub fn run_with_losses(seed: u64, show: bool) -> Report {
    run_planned(seed, show, Plan::with_groups_and_losses)
}

/// Several groups, whose messages about lots may take seconds.
pub fn run_with_stalls(seed: u64, show: bool) -> Report {
    run_planned(seed, show, Plan::with_groups_and_stalls)
}

fn run_planned(seed: u64, show: bool, plan: fn(&mut SimulatedRandom) -> Plan) -> Report {
    let trace = Trace::new(show);
    let mut world = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| world.insert(World::new(seed, plan, trace.clone())).run()));
    let violation = match outcome {
        Ok(result) => result.err(),
        Err(panic) => Some(Violation { invariant: "nothing panics", detail: text_of(&*panic) }),
    };
    if let Some(violation) = &violation {
        trace.line(&format!("violated {violation}"));
    }
    let counts = world.as_mut().map(World::end).unwrap_or_default();
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
    pub next_call: u64,
    /// A leader that goes down at that time.
    pub succession: Option<(u64, NodeId)>,
    /// A process that stands still from a time on, for so long.
    pub still: Option<(u64, u64, NodeId)>,
    /// A node that is cut off from a time to another.
    pub isolation: Option<(u64, u64, NodeId)>,
    /// A node whose disk may fail only while it does not lead.
    pub failing: Option<NodeId>,
    /// The group that is next in trouble, where there are several.
    pub focus: GroupId,
    /// What became of the last hand-over of that group.
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
    pub pausing_groups: PausingGroups,
    /// An operator who is to accept a loss.
    pub operator: Option<Operator>,
    /// A node that has more than what an operator went on with, until it is made anew.
    pub given_up: Option<NodeId>,
    /// Machines whose node has no id yet.
    pub newcomers: Vec<Newcomer>,
    pub network: Network,
    pub lot_links: LotLinks,
    pub walks: Walks,
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

impl World {
    fn new(seed: u64, plan: fn(&mut SimulatedRandom) -> Plan, trace: Trace) -> World {
        let mut random = SimulatedRandom::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let plan = plan(&mut random);
        trace.line(&format!("seed {seed} {plan:?}"));
        let cluster = u128::from(random.number()).to_le_bytes();
        let ledger = Ledger::default();
        let founded = Arc::new(founded(cluster, &plan));
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
            lot_links: LotLinks::new(SimulatedRandom::new(seed.wrapping_mul(0x94d0_49bb_1331_11eb) | 1), plan.stalls),
            walks: Walks::new(SimulatedRandom::new(seed.wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)),
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
            focus: FIRST_GROUP,
            handed_over: None,
            avoided: None,
            looked_at: 0,
            last_epoch: Epoch(1),
            wiped: false,
            administrator: None,
            pausing_groups: PausingGroups::default(),
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

    /// What is left of processes must not write any more.
    fn end(&mut self) -> Counts {
        self.count();
        self.machines.values().for_each(|machine| machine.disk.halt());
        self.witnesses.values().for_each(|witness| witness.disk.halt());
        self.counts
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
        counts.over_groups = self.callers.over_groups();
        counts.paused_reads = self.callers.pauses.compared;
        self.ledger.with(|book| {
            counts.configurations = book.groups.values().map(|of| of.configurations.len() as u64).sum();
            (counts.terms, counts.votes_lost, counts.leases) = (book.terms, book.votes_lost, book.leases);
        });
    }

    fn run(&mut self) -> Result<(), Violation> {
        self.callers.clients.quiet = true;
        self.rest()?;
        for group in self.all_groups() {
            self.submit_first_schema(group);
        }
        self.rest()?;
        self.make_all_homes()?;
        for chapter in 1..=self.plan.chapters {
            self.wiped = false;
            self.trace.line(&format!("chapter {chapter}"));
            self.look_at_another();
            if !self.plan.database.power_loss && self.random.percent(50) && !self.lose_all()? {
                return Ok(());
            }
            if self.more.percent(self.plan.accepts) {
                self.accept_the_loss_of_a_leader_that_lives()?;
            }
            if !self.plan.faults.schema {
                self.callers.keep_the_schema();
            }
            self.trouble()?;
            self.settle()?;
            self.check()?;
            self.look_at_another();
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

    pub fn has_several_groups(&self) -> bool {
        self.plan.partitions_per_node.is_some()
    }

    pub fn process(&self, id: NodeId) -> &Process {
        self.machines[&id].process.as_ref().expect("it runs")
    }

    /// As any voter has it, where it is furthest.
    pub fn metadata(&self) -> Arc<Metadata> {
        self.ledger.with(|book| Arc::clone(&book.known.1))
    }

    /// Of the group that is looked at.
    pub fn configuration(&self) -> GroupConfiguration {
        self.configuration_of(self.focus)
    }

    pub fn configuration_of(&self, group: GroupId) -> GroupConfiguration {
        self.metadata().groups()[&group].configuration.clone()
    }

    pub fn all_groups(&self) -> Vec<GroupId> {
        self.metadata().groups().keys().copied().collect()
    }

    /// Another group is looked at, where there are several.
    pub fn look_at_another(&mut self) {
        let all = self.all_groups();
        if all.len() > 1 {
            self.focus = *self.later.pick(&all);
            let epoch = self.configuration().epoch;
            (self.handed_over, self.last_epoch) = (None, epoch);
        }
    }

    /// Where there are several groups: calls of several of them expect all homes to be there.
    fn make_all_homes(&mut self) -> Result<(), Violation> {
        if !self.has_several_groups() {
            return Ok(());
        }
        for group in self.all_groups() {
            let leader = self.leader_of(group).expect("at rest there is one");
            let process = self.machines[&leader].process.as_ref().expect("a leader runs");
            for home in process.of(group).doors.homes(self.callers.clients.homes) {
                self.walks.homes.insert(home, group);
                self.callers.touch(process, group, home);
            }
        }
        self.rest()?;
        self.callers.all_homes_are_there = true;
        Ok(())
    }

    pub fn submit_first_schema(&mut self, group: GroupId) {
        let leader = self.leader_of(group).expect("at rest there is one");
        let process = self.machines[&leader].process.as_ref().expect("a leader runs");
        self.callers.submit_first_schema(process, group);
    }

    pub fn voters(&self) -> Vec<NodeId> {
        self.metadata().voters().iter().copied().collect()
    }

    /// Whose partitions take calls, as the metadata has decided.
    pub fn leader(&self) -> Option<NodeId> {
        self.leader_of(self.focus)
    }

    pub fn leader_of(&self, group: GroupId) -> Option<NodeId> {
        let leader = self.configuration_of(group).leader;
        let process = self.machines.get(&leader.node)?.process.as_ref()?;
        let serves = process.hosted(group).is_some_and(|of| of.serves.is_some());
        (process.member == leader && serves).then_some(leader.node)
    }

    /// What all groups hold, where they are led.
    pub fn state(&self) -> State {
        let led: Vec<HeldStores<'_>> = self
            .all_groups()
            .into_iter()
            .map(|group| self.process(self.leader_of(group).expect("at rest there is one")).of(group).stores())
            .collect();
        let mut stores: Vec<&Store> = Vec::new();
        for of in &led {
            stores.extend(of.all().expect("at rest all stores are at home"));
        }
        stores.sort_by_key(|store| store.partition());
        if self.has_several_groups() { State::read_groups(&stores) } else { State::read(&stores) }
    }

    /// All rules, when all is at rest.
    fn check(&mut self) -> Result<(), Violation> {
        let check_chains = |book: &mut Book| {
            book.groups.values().try_for_each(|of| {
                let chain: Vec<GroupConfiguration> = of.configurations.values().cloned().collect();
                chain::check(&chain, &of.losses)
            })
        };
        self.ledger.with(check_chains).map_err(violated("configurations form a chain"))?;
        self.compare_copies()?;
        let state = self.state();
        self.trace.line(&format!("checked {:?} version {} rows {:x}", state.heads, state.version, state.rows_hash));
        self.check_schemas(&state)?;
        let history = &mut self.callers.clients.history;
        invariants::check(history, &state)?;
        fresh::check(history, &self.callers.known).map_err(violated("no read is older than what was acknowledged"))?;
        invariants::check_order(history, &state)?;
        invariants::adopt(history, &state);
        self.callers.note_schema();
        self.noted()
    }

    /// All groups make the same changes of the schema.
    fn check_schemas(&self, state: &State) -> Result<(), Violation> {
        for group in self.all_groups() {
            let process = self.process(self.leader_of(group).expect("at rest there is one"));
            let stores = process.of(group).stores();
            let of_stores = stores.all().expect("at rest all stores are at home").into_iter();
            let mut others = of_stores.filter(|store| {
                let catalog = store.catalog();
                catalog.version.0 != state.version || schema_text(catalog) != state.schema_text
            });
            if let Some(other) = others.next() {
                let detail =
                    format!("{group} has version {}, another group has {}", other.catalog().version, state.version);
                return Err(Violation { invariant: "all groups have one schema", detail });
            }
        }
        Ok(())
    }

    /// What was noted while it happened.
    pub fn noted(&self) -> Result<(), Violation> {
        if let Some((invariant, detail)) = &self.callers.clients.history.violation {
            return Err(Violation { invariant, detail: detail.clone() });
        }
        self.ledger.with(|book| book.violation.clone()).map_or(Ok(()), Err)
    }
}
