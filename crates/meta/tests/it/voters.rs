//! Voters on a network that loses, repeats and reorders messages, with splits, processes that end,
//! machines that lose power between any two operations of the disk, and clocks of their own speed.
//!
//! `VOTER_SEEDS=2000` runs more seeds; `VOTER_SEED=17` runs one.

use crate::founded::founded;
use ferrite_base::{Incarnation, NodeId};
use ferrite_io::Disk;
use ferrite_io::simulated::{CrashPoint, Restart, SimulatedDisk, SimulatedRandom};
use ferrite_meta::voter::{Before, Did, Known, ReadId, Voter, open_or_begin};
use ferrite_meta::{Change, Command, Presence, Refusal, State};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

const MILLI: u64 = 1_000_000;
const DIR: &str = "/metadata";

#[derive(Default, Debug)]
struct Counts {
    applied: u64,
    refused: u64,
    reads: u64,
    leaders: u64,
    crashes: u64,
    torn: u64,
    installed: u64,
    voters_changed: u64,
    votes_renewed: u64,
    wiped: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.applied += other.applied;
        self.refused += other.refused;
        self.reads += other.reads;
        self.leaders += other.leaders;
        self.crashes += other.crashes;
        self.torn += other.torn;
        self.installed += other.installed;
        self.voters_changed += other.voters_changed;
        self.votes_renewed += other.votes_renewed;
        self.wiped += other.wiped;
    }
}

struct Node {
    disk: SimulatedDisk,
    voter: Option<Voter>,
    /// Of the vote that it would begin next.
    number: u32,
    /// Per cent of the true speed.
    rate: u64,
    began: u64,
    /// Reads that wait, with the last entry that anybody had applied when they were asked for.
    reads: BTreeMap<ReadId, u64>,
    applied: u64,
}

struct Packet {
    at: u64,
    from: usize,
    to: usize,
    message: Vec<u8>,
}

struct World {
    random: SimulatedRandom,
    now: u64,
    nodes: Vec<Node>,
    packets: Vec<Packet>,
    founded: State,
    faults: bool,
    cut: BTreeSet<(usize, usize)>,
    /// What each entry was, and what it came to.
    entries: BTreeMap<u64, (Command, Result<Change, Refusal>)>,
    leaders: BTreeMap<u64, usize>,
    applied: u64,
    counts: Counts,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = SimulatedRandom::new(seed);
        // With four nodes there are three voters, and one that may become one.
        let count = *random.pick(&[1, 3, 3, 4, 4, 5]);
        World::of(count, seed, random)
    }

    fn of(count: u32, seed: u64, mut random: SimulatedRandom) -> World {
        let founded = founded(count, u32::from(count > 2));
        let node = |_| Node {
            disk: SimulatedDisk::new(random.number(), Default::default()),
            voter: None,
            number: 1,
            rate: 99 + random.below(3),
            began: 0,
            reads: BTreeMap::new(),
            applied: 0,
        };
        let nodes = (0..count).map(node).collect();
        let random = SimulatedRandom::new(seed ^ 0x5eed);
        World {
            random,
            now: 0,
            nodes,
            packets: Vec::new(),
            founded,
            faults: true,
            cut: BTreeSet::new(),
            entries: BTreeMap::new(),
            leaders: BTreeMap::new(),
            applied: 1,
            counts: Counts::default(),
        }
    }

    fn id(node: usize) -> NodeId {
        NodeId(node as u32 + 1)
    }

    fn start(&mut self, node: usize) {
        let (here, dir) = (World::id(node), Path::new(DIR));
        let disk: Arc<dyn Disk> = Arc::new(self.nodes[node].disk.clone());
        let founded = self.founded.clone();
        let number = self.nodes[node].number;
        let known = Known { state: &founded, is_new: number == 1, number };
        let drawn = self.random.number();
        let opened = open_or_begin(here, &disk, dir, || Box::new(SimulatedRandom::new(drawn)), &known);
        let known = &mut self.nodes[node];
        known.began = self.now;
        known.reads.clear();
        match opened {
            Ok((voter, before)) => {
                self.counts.votes_renewed += u64::from(!matches!(before, Before::Sound));
                // As an incarnation, which is durable before anything is said.
                known.number = known.number.max(voter.number()) + 1;
                known.applied = voter.state().0;
                known.voter = Some(voter);
            }
            Err(error) => {
                assert!(known.disk.has_halted(), "node {}: {error}", node + 1);
                self.crash(node, Restart::Power);
            }
        }
    }

    fn crash(&mut self, node: usize, restart: Restart) {
        self.nodes[node].voter = None;
        self.nodes[node].disk.restart(restart);
        self.counts.crashes += 1;
    }

    /// Does what a node has to do, and checks what it says.
    fn work(&mut self, node: usize) {
        let Some(voter) = &mut self.nodes[node].voter else { return };
        let mut did = Vec::new();
        let outcome = voter.work(&mut did);
        // The first entry of a term says nothing.
        let applied = voter.state().0;
        for did in did {
            self.did(node, did);
        }
        self.applied = self.applied.max(applied);
        if let Err(error) = outcome {
            assert!(self.nodes[node].disk.has_halted(), "node {}: {error}", node + 1);
            self.counts.torn += 1;
            self.crash(node, Restart::Power);
        }
    }

    fn did(&mut self, node: usize, did: Did) {
        match did {
            Did::Send { to, message } => self.post(node, to.0 as usize - 1, message),
            Did::Applied { index, command, outcome } => {
                assert!(index > self.nodes[node].applied, "entries are applied in their order, once");
                self.nodes[node].applied = index;
                self.counts.applied += 1;
                self.counts.refused += u64::from(outcome.is_err());
                self.counts.voters_changed +=
                    u64::from(matches!((&command, &outcome), (Command::Voters { .. }, Ok(Change::Done))));
                match self.entries.get(&index) {
                    None => drop(self.entries.insert(index, (command, outcome))),
                    Some((same, came_to)) => assert_eq!((same, came_to), (&command, &outcome), "entry {index}"),
                }
            }
            Did::Installed { index } => {
                self.counts.installed += 1;
                self.nodes[node].applied = index;
                assert!(index <= self.applied, "a state is of what was committed");
            }
            Did::Leader { is_leader: true, term } => {
                self.counts.leaders += 1;
                let before = self.leaders.insert(term, node);
                assert!(before.is_none_or(|before| before == node), "two lead in term {term}");
            }
            Did::Leader { is_leader: false, .. } => self.nodes[node].reads.clear(),
            Did::Confirmed { read, index } => {
                let wanted = self.nodes[node].reads.remove(&read).expect("it was asked for");
                assert!(index >= wanted, "a read of {index} when {wanted} was committed before it was asked for");
                self.counts.reads += 1;
            }
        }
    }

    fn post(&mut self, from: usize, to: usize, message: Vec<u8>) {
        if to >= self.nodes.len() {
            return;
        }
        let copies = if !self.faults { 1 } else { [0, 1, 1, 1, 1, 1, 1, 1, 1, 2][self.random.below(10) as usize] };
        for _ in 0..copies {
            let delay = if self.faults && self.random.percent(10) { 800 } else { 12 };
            let at = self.now + self.random.below(delay * MILLI);
            self.packets.push(Packet { at, from, to, message: message.clone() });
        }
    }

    fn deliver(&mut self) {
        let now = self.now;
        let due: Vec<Packet> = self.packets.extract_if(.., |packet| packet.at <= now).collect();
        for Packet { from, to, message, .. } in due {
            if self.cut.contains(&(from, to)) {
                continue;
            }
            let Some(voter) = &mut self.nodes[to].voter else { continue };
            voter.handle_raft(World::id(from), &message).unwrap();
            self.work(to);
        }
    }

    fn command(&mut self, state: &State) -> Command {
        let settings = state.settings().unwrap();
        let (id, node) = {
            let nodes: Vec<_> = state.nodes().iter().collect();
            let (id, node) = *self.random.pick(&nodes);
            (*id, node.clone())
        };
        match self.random.below(10) {
            0..5 => {
                let incarnation = Incarnation(node.incarnation.0 + 1);
                let running = self.nodes[id.0 as usize - 1].voter.as_ref();
                let vote = running.map(Voter::number);
                let node = ferrite_meta::Node { incarnation, vote, presence: Presence::Running, ..node.clone() };
                Command::Register { id, expected: Incarnation(incarnation.0 - 1 - self.random.below(2)), node }
            }
            5..7 => Command::Settings { revision: settings.revision, kfactor: self.random.below(4) as u32 },
            7 => Command::Goodbye { node: id, incarnation: node.incarnation },
            _ => {
                let voters: Vec<NodeId> = state.voters().iter().copied().collect();
                let other = World::id(self.random.below(self.nodes.len() as u64) as usize);
                let mut next = voters.clone();
                let number = match voters.contains(&other) {
                    true => state.vote(other),
                    false => state.nodes().get(&other).and_then(|node| node.vote),
                };
                let number = number.unwrap_or_default();
                match next.iter().position(|voter| *voter == other) {
                    Some(at) if next.len() > 1 => drop(next.remove(at)),
                    Some(_) => {}
                    None => next.push(other),
                }
                Command::Voters { expected: voters, voters: next, number }
            }
        }
    }

    fn fault(&mut self) {
        let node = self.random.below(self.nodes.len() as u64) as usize;
        match self.random.below(12) {
            0..2 if self.nodes[node].voter.is_some() => self.crash(node, Restart::Process),
            2..4 if self.nodes[node].voter.is_some() => self.crash(node, Restart::Power),
            4..6 => {
                let disk = &self.nodes[node].disk;
                let boundary = disk.boundaries() + 1 + self.random.below(16);
                disk.crash_at(Some(CrashPoint { boundary, after: self.random.percent(50) }));
            }
            6 => self.wipe(node),
            7..9 => {
                self.cut.clear();
                for from in 0..self.nodes.len() {
                    for to in 0..self.nodes.len() {
                        if self.random.percent(25) {
                            self.cut.insert((from, to));
                        }
                    }
                }
            }
            _ => self.cut.clear(),
        }
    }

    /// One of the voters, with the vote that it was given.
    fn has_its_vote(&self, state: &State, node: usize) -> bool {
        let (id, voter) = (World::id(node), self.nodes[node].voter.as_ref());
        state.voters().contains(&id) && voter.is_some_and(|voter| Some(voter.number()) == state.vote(id))
    }

    /// A node loses its vote, where a majority of the voters keep theirs.
    fn wipe(&mut self, node: usize) {
        let state = self.last_state();
        let others = (0..self.nodes.len()).filter(|other| *other != node && self.has_its_vote(&state, *other));
        if others.count() * 2 <= state.voters().len() {
            return;
        }
        self.nodes[node].voter = None;
        let disk = SimulatedDisk::new(self.random.number(), Default::default());
        self.nodes[node].disk = disk;
        // It was something before.
        self.nodes[node].number += 1;
        self.counts.wiped += 1;
    }

    /// Time passes, and messages come.
    fn go_on(&mut self) {
        self.now += self.random.below(8 * MILLI);
        for node in 0..self.nodes.len() {
            if self.nodes[node].voter.is_none() {
                if !self.faults || self.random.percent(1) {
                    self.start(node);
                }
                continue;
            }
            let known = &mut self.nodes[node];
            let here = (self.now - known.began) * known.rate / 100;
            known.voter.as_mut().expect("looked at just now").tick(here);
            self.work(node);
        }
        self.deliver();
    }

    fn step(&mut self) {
        self.go_on();
        let node = self.random.below(self.nodes.len() as u64) as usize;
        if self.random.percent(6)
            && let Some(voter) = &self.nodes[node].voter
        {
            let state = voter.state().1.clone();
            if state.settings().is_some() {
                let command = self.command(&state);
                if let Some(voter) = &mut self.nodes[node].voter {
                    voter.propose(&command);
                }
                self.work(node);
            }
        }
        if self.random.percent(8)
            && let Some(voter) = &mut self.nodes[node].voter
            && let Some(read) = voter.read()
        {
            self.nodes[node].reads.insert(read, self.applied);
            self.work(node);
        }
        if self.faults && self.random.percent(1) {
            self.fault();
        }
    }

    fn run(mut self, steps: u64) -> Counts {
        for _ in 0..steps {
            self.step();
        }
        // Without faults there is a leader within seconds, and all come to the same.
        self.faults = false;
        self.cut.clear();
        self.nodes.iter().for_each(|node| node.disk.crash_at(None));
        let deadline = self.now + 30_000 * MILLI;
        let before = self.applied;
        while self.now < deadline {
            self.step();
            let last = self.last_state();
            let of = |node: usize| self.nodes[node].voter.as_ref().filter(|_| self.has_its_vote(&last, node));
            let all: Vec<&Voter> = (0..self.nodes.len()).filter_map(of).collect();
            let runs = self.nodes.iter().all(|node| node.voter.is_some());
            if runs && all.len() * 2 <= last.voters().len() {
                // Of two that were left when a vote was lost, one was taken away.
                return self.counts;
            }
            let leads = all.iter().any(|voter| voter.is_leader());
            let same = all.windows(2).all(|pair| pair[0].state() == pair[1].state());
            if self.applied > before + 3 && leads && same && all.len() * 2 > last.voters().len() {
                return self.counts;
            }
        }
        panic!(
            "no rest: {:?}",
            self.nodes
                .iter()
                .map(|node| node.voter.as_ref().map(|voter| (voter.state().0, voter.term(), voter.is_leader())))
                .collect::<Vec<_>>()
        );
    }

    fn last_state(&self) -> State {
        let voters = self.nodes.iter().filter_map(|node| node.voter.as_ref());
        voters.max_by_key(|voter| voter.state().0).map_or_else(|| self.founded.clone(), |voter| voter.state().1.clone())
    }
}

/// Without faults, and without commands but those that are proposed.
struct Quiet(World);

impl Quiet {
    /// With so many nodes, one of which leads.
    fn new(nodes: u32) -> Quiet {
        let mut world = World::of(nodes, 1, SimulatedRandom::new(1));
        world.faults = false;
        let mut quiet = Quiet(world);
        quiet.until(|world| world.nodes.iter().any(|node| node.voter.as_ref().is_some_and(Voter::is_leader)));
        quiet
    }

    fn until(&mut self, holds: impl Fn(&World) -> bool) {
        for _ in 0..10_000 {
            if holds(&self.0) {
                return;
            }
            self.0.go_on();
        }
        panic!("it does not come to that");
    }

    fn leader(&self) -> usize {
        let leads = |node: &Node| node.voter.as_ref().is_some_and(Voter::is_leader);
        self.0.nodes.iter().position(leads).expect("one leads")
    }

    fn voter(&mut self, node: usize) -> &mut Voter {
        self.0.nodes[node].voter.as_mut().expect("it runs")
    }

    fn state(&self) -> State {
        self.0.last_state()
    }

    /// The leader proposes it, and it is done.
    fn change(&mut self, command: &Command, is_done: impl Fn(&State) -> bool) {
        let leader = self.leader();
        assert!(self.voter(leader).propose(command), "{command:?}");
        self.until(|world| is_done(&world.last_state()));
    }

    /// The voters with that node, or without it.
    fn voters(&self, node: usize, votes: bool, number: u32) -> Command {
        let (expected, id) = (self.state().voters().iter().copied().collect::<Vec<_>>(), World::id(node));
        let mut voters: Vec<NodeId> = expected.iter().copied().filter(|voter| *voter != id).collect();
        voters.extend(votes.then_some(id));
        Command::Voters { expected, voters, number }
    }
}

#[test]
fn a_node_whose_vote_is_a_later_one_may_be_given_the_lead() {
    let mut quiet = Quiet::new(3);
    let node = (quiet.leader() + 1) % 3;
    let id = World::id(node);
    quiet.0.wipe(node);
    quiet.until(|world| world.nodes[node].voter.is_some());
    let number = quiet.voter(node).number();
    assert!(number > 0, "it has another vote");
    let known = quiet.state().nodes()[&id].clone();
    let (expected, vote, presence) = (known.incarnation, Some(number), Presence::Running);
    let incarnation = Incarnation(expected.0 + 1);
    let registers = ferrite_meta::Node { incarnation, vote, presence, ..known };
    let registers = Command::Register { id, expected, node: registers };
    quiet.change(&registers, |state| state.nodes()[&id].incarnation == incarnation);
    quiet.change(&quiet.voters(node, false, 0), |state| !state.voters().contains(&id));
    quiet.change(&quiet.voters(node, true, number), |state| state.voters().contains(&id));
    quiet.until(|world| world.nodes.iter().all(|node| node.voter.as_ref().is_some_and(Voter::votes)));
    let leader = quiet.leader();
    quiet.voter(leader).hand_over(id);
    quiet.until(|world| world.nodes[node].voter.as_ref().is_some_and(Voter::is_leader));
}

#[test]
fn a_second_change_of_the_voters_is_not_taken_before_the_first_is_done() {
    let mut quiet = Quiet::new(3);
    let leader = quiet.leader();
    let first = quiet.voters((leader + 1) % 3, false, 0);
    let second = quiet.voters((leader + 2) % 3, false, 0);
    quiet.until(|world| world.nodes[leader].voter.as_ref().is_some_and(|voter| voter.state().0 > 1));
    assert!(quiet.voter(leader).propose(&first));
    // It would be lost without a word: whoever proposes waits for what it comes to.
    assert!(!quiet.voter(leader).propose(&second));
    quiet.until(|world| world.last_state().voters().len() == 2);
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("VOTER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("VOTER_SEEDS").unwrap_or(40),
    }
}

#[test]
fn voters_agree_whatever_fails() {
    let mut counts = Counts::default();
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(|| World::new(seed).run(4_000));
        match outcome {
            Ok(seen) => counts.add(&seen),
            Err(_) => panic!("seed {seed} has failed: VOTER_SEED={seed} runs it alone"),
        }
    }
    println!("{counts:?}");
    if seeds().end > 40 {
        assert!(counts.applied > 1_000 && counts.refused > 50 && counts.reads > 500, "{counts:?}");
        assert!(counts.leaders > 100 && counts.crashes > 100 && counts.torn > 20, "{counts:?}");
        assert!(counts.installed > 5 && counts.voters_changed > 20, "{counts:?}");
        assert!(counts.wiped > 20 && counts.votes_renewed > 20, "{counts:?}");
    }
}
