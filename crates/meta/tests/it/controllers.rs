//! Leases, registrations and seals, with voters and nodes whose clocks differ in speed, on a
//! network with faults, with processes that end, stand still and start again, with nodes that lose
//! all that they had, or their vote only.
//!
//! `KEEPER_SEEDS=1000` runs more seeds; `KEEPER_SEED=17` runs one.

use crate::founded::founded;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, Position};
use ferrite_io::simulated::{Restart, SimulatedDisk, SimulatedRandom};
use ferrite_io::{Disk, Random};
use ferrite_meta::voter::{Known, open_or_begin};
use ferrite_meta::{Ask, Controller, Kind, Link, MetadataUpdate, Node as Registration, Out, Presence, Question, State};
use ferrite_replica::group::{GroupConfiguration, Mark};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

mod faults;
mod members;
mod rules;

const MILLI: u64 = 1_000_000;
const GROUP: GroupId = GroupId(0);
const DIR: &str = "/metadata";

#[derive(Default, Debug)]
struct Counts {
    /// Moments at which a node led by its lease.
    leases: u64,
    epochs: u64,
    restarts: u64,
    pauses: u64,
    changed: u64,
    handed_over: u64,
    resigned: u64,
    losses: u64,
    goodbyes: u64,
    wiped: u64,
    votes_lost: u64,
    joined: u64,
    retired: u64,
}

/// A node's process.
struct Process {
    incarnation: Incarnation,
    link: Link,
    controller: Option<Controller>,
    asked_at: Option<u64>,
    registered: bool,
    leaves: bool,
    /// It has proposed another as the leader in this epoch.
    gives_up: Epoch,
    /// It leads no more in this epoch, and says so until the voters know.
    resigned: Epoch,
}

struct Node {
    /// None: it has joined no cluster yet.
    id: Option<NodeId>,
    /// Where others reach it.
    place: usize,
    /// With which it joins.
    key: [u8; 16],
    /// All that it had is lost, and another node is in its place.
    gone: bool,
    /// The vote that its disk has.
    vote: Option<u32>,
    disk: SimulatedDisk,
    /// Durable: the last incarnation, the highest promise, the end of its stream.
    incarnation: u64,
    promised: Epoch,
    end: Mark,
    process: Option<Process>,
    /// An earlier process that stands still, perhaps for ever: another machine has a copy of the
    /// directory.
    earlier: Option<Process>,
    /// Its clock: parts of a thousand of the true speed.
    rate: u64,
    /// It stands still until then.
    paused: u64,
    /// What came meanwhile, or comes next.
    inbox: Vec<(usize, Message)>,
    /// From this node to itself, taken at once.
    own: Vec<Message>,
}

impl Node {
    fn empty(place: usize, random: &mut SimulatedRandom) -> Node {
        Node {
            id: None,
            place,
            key: u128::from(random.number()).to_le_bytes(),
            gone: false,
            vote: None,
            disk: SimulatedDisk::new(random.number(), Default::default()),
            incarnation: 1,
            promised: Epoch(0),
            end: Mark { epoch: Epoch(1), position: Position(0), chain: 0 },
            process: None,
            earlier: None,
            rate: [990, 1_000, 1_000][random.below(3) as usize],
            paused: 0,
            inbox: Vec::new(),
            own: Vec::new(),
        }
    }
}

#[derive(Clone)]
enum Message {
    Raft(Vec<u8>),
    Question(Vec<u8>),
    Update(Vec<u8>),
}

struct Packet {
    at: u64,
    from: usize,
    to: usize,
    of: (Incarnation, Incarnation),
    message: Message,
}

struct World {
    random: SimulatedRandom,
    /// For what was added later. None: all members never stand still together, which takes most of
    /// the other seeds' time.
    more: Option<SimulatedRandom>,
    /// Nothing else goes wrong until then.
    calm_until: u64,
    now: u64,
    nodes: Vec<Node>,
    packets: Vec<Packet>,
    founded: State,
    faults: bool,
    cut: Vec<(usize, usize)>,
    delay: u64,
    counts: Counts,
    /// By epoch, what was told of it.
    configurations: BTreeMap<Epoch, GroupConfiguration>,
    /// Epochs that began with a loss that was accepted, and who led them.
    losses: BTreeMap<Epoch, NodeId>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = SimulatedRandom::new(seed);
        let count = 3 + random.below(3) as u32;
        let node = |place: u32| Node { id: Some(NodeId(place + 1)), ..Node::empty(place as usize, &mut random) };
        let nodes = (0..count).map(node).collect();
        let delay = *random.pick(&[1, 5, 30, 200]);
        World {
            random,
            more: seed.is_multiple_of(3).then(|| SimulatedRandom::new(seed ^ 0x2545_f491_4f6c_dd1d)),
            calm_until: 0,
            now: 0,
            nodes,
            packets: Vec::new(),
            founded: founded(count, 1),
            faults: true,
            cut: Vec::new(),
            delay,
            counts: Counts::default(),
            configurations: BTreeMap::new(),
            losses: BTreeMap::new(),
        }
    }

    fn id(&self, node: usize) -> NodeId {
        self.nodes[node].id.expect("it has joined")
    }

    fn number(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == Some(id))
    }

    /// As the voter that is furthest has it.
    fn state(&self) -> State {
        let controllers = self.nodes.iter().filter_map(|node| node.process.as_ref()?.controller.as_ref());
        let last = controllers.max_by_key(|controller| controller.state().0).map(|controller| controller.state().1);
        last.filter(|state| state.settings().is_some()).cloned().unwrap_or_else(|| self.founded.clone())
    }

    /// A node's own clock.
    fn clock(&self, node: usize) -> u64 {
        (u128::from(self.now) * u128::from(self.nodes[node].rate) / 1_000) as u64
    }

    fn start(&mut self, node: usize) {
        if self.nodes[node].gone || (self.nodes[node].id.is_none() && !self.joins(node)) {
            return;
        }
        let here = self.id(node);
        let disk: Arc<dyn Disk> = Arc::new(self.nodes[node].disk.clone());
        let drawn = self.random.number();
        let state = self.state();
        let known = &mut self.nodes[node];
        let number = known.incarnation as u32 + 1;
        let how = Known { state: &state, is_new: known.incarnation == 1, number };
        let random = || Box::new(SimulatedRandom::new(drawn)) as Box<dyn Random>;
        let (voter, _) = open_or_begin(here, &disk, Path::new(DIR), random, &how).unwrap();
        known.vote = Some(voter.number());
        let controller = Some(Controller::new(here, voter));
        let voters = self.state().voters().iter().copied().collect();
        let known = &mut self.nodes[node];
        let link = Link::new(voters, self.random.number());
        known.incarnation += 1;
        let (incarnation, asked_at) = (Incarnation(known.incarnation), None);
        let (gives_up, resigned) = (Epoch(0), Epoch(0));
        let process =
            Process { incarnation, link, controller, asked_at, registered: false, leaves: false, gives_up, resigned };
        known.process = Some(process);
    }

    /// A node without an id asks one that has one, which asks the voters.
    fn joins(&mut self, node: usize) -> bool {
        let asked = self.random.below(self.nodes.len() as u64) as usize;
        let key = self.nodes[node].key;
        let Some(process) = self.nodes[asked].process.as_ref().filter(|_| self.nodes[asked].paused <= self.now) else {
            return false;
        };
        let state = Arc::clone(process.link.state().1);
        if let Some(id) = state.joined_with(key) {
            assert!(self.nodes.iter().all(|node| node.id != Some(id)), "an id is given once");
            self.nodes[node].id = Some(id);
            self.counts.joined += 1;
            return true;
        }
        let registration = self.registration(node, Incarnation(1));
        self.ask(asked, Ask::Join { key, node: registration });
        self.take_own(asked);
        false
    }

    fn registration(&self, node: usize, incarnation: Incarnation) -> Registration {
        let controller = self.nodes[node].process.as_ref().and_then(|process| process.controller.as_ref());
        Registration {
            incarnation,
            start: u128::from(incarnation.0).to_le_bytes(),
            kind: Kind::Data,
            presence: Presence::Running,
            vote: controller.map(Controller::number),
            release: "0.1.0".to_string(),
            addresses: vec![format!("host{}:21212", self.nodes[node].place + 1)],
            rack: None,
        }
    }

    fn post(&mut self, from: usize, to: NodeId, message: Message) {
        // One that does not know its id yet does not listen.
        let Some(to) = self.number(to) else { return };
        if from == to {
            return self.nodes[from].own.push(message);
        }
        let incarnation = |node: &Node| Incarnation(node.incarnation);
        let of = (incarnation(&self.nodes[from]), incarnation(&self.nodes[to]));
        let copies = if !self.faults { 1 } else { [0, 1, 1, 1, 1, 1, 1, 1, 1, 2][self.random.below(10) as usize] };
        for _ in 0..copies {
            let at = self.now + self.random.below(self.delay * MILLI);
            self.packets.push(Packet { at, from, to, of, message: message.clone() });
        }
    }

    fn ask(&mut self, node: usize, ask: Ask) {
        let now = self.clock(node);
        let process = self.nodes[node].process.as_mut().unwrap();
        let (to, question) = process.link.ask(ask, now);
        self.post(node, to, Message::Question(question.encode()));
    }

    fn work(&mut self, node: usize) {
        let now = self.clock(node);
        let Some(process) = &mut self.nodes[node].process else { return };
        let Some(controller) = &mut process.controller else { return };
        let mut out = Vec::new();
        controller.work(now, &mut out).unwrap();
        for out in out {
            match out {
                Out::Raft { to, message } => self.post(node, to, Message::Raft(message)),
                Out::Update { to, update } => self.post(node, to, Message::Update(update.encode())),
            }
        }
    }

    fn receive(&mut self, node: usize, from: usize, message: Message) {
        self.take_one(node, from, message);
        self.take_own(node);
    }

    fn take_own(&mut self, node: usize) {
        while !self.nodes[node].own.is_empty() {
            let message = self.nodes[node].own.remove(0);
            self.take_one(node, node, message);
        }
    }

    fn take_one(&mut self, node: usize, from: usize, message: Message) {
        let (now, sender) = (self.clock(node), self.id(from));
        let process = self.nodes[node].process.as_mut().unwrap();
        match message {
            Message::Raft(bytes) => {
                if let Some(controller) = &mut process.controller {
                    controller.handle_raft(sender, &bytes).unwrap();
                }
            }
            Message::Question(bytes) => {
                if let Some(controller) = &mut process.controller {
                    controller.asked(sender, Question::decode(&bytes).unwrap(), now);
                }
            }
            Message::Update(bytes) => {
                let update = MetadataUpdate::decode(&bytes).unwrap();
                if let Some((_, state)) = process.link.receive_update(sender, update) {
                    self.metadata_changed(node, &state);
                }
            }
        }
        self.work(node);
    }

    fn step(&mut self) {
        self.now += self.random.below(10 * MILLI);
        let now = self.now;
        for Packet { from, to, of, message, .. } in
            self.packets.extract_if(.., |packet| packet.at <= now).collect::<Vec<_>>()
        {
            // A connection ends with either process.
            let lives = |node: usize, incarnation| {
                self.nodes[node].process.as_ref().is_some_and(|process| process.incarnation == incarnation)
            };
            if lives(from, of.0) && lives(to, of.1) && !self.cut.contains(&(from, to)) {
                self.nodes[to].inbox.push((from, message));
            }
        }
        for node in 0..self.nodes.len() {
            if self.nodes[node].process.is_none() {
                if !self.faults || self.random.percent(2) {
                    self.start(node);
                }
                continue;
            }
            if self.nodes[node].paused > self.now {
                continue;
            }
            let ticks_first = self.random.percent(50);
            if ticks_first {
                self.tick(node);
            }
            for (from, message) in std::mem::take(&mut self.nodes[node].inbox) {
                self.receive(node, from, message);
            }
            if !ticks_first {
                self.tick(node);
            }
        }
        self.check();
        if self.faults && self.now >= self.calm_until && self.random.percent(1) {
            self.fault();
        }
        if self.faults
            && self.now >= self.calm_until
            && let Some(more) = &mut self.more
            && more.below(400) == 0
        {
            let still = (18_000 + more.below(6_000)) * MILLI;
            self.members_stand_still(still);
        }
    }

    fn run(mut self, steps: u64) -> Counts {
        for _ in 0..steps {
            self.step();
        }
        self.faults = false;
        self.cut.clear();
        for node in 0..self.nodes.len() {
            self.nodes[node].paused = 0;
            // One that has said goodbye ends.
            if self.nodes[node].process.as_ref().is_some_and(|process| process.leaves) {
                self.end(node, Restart::Process);
            }
        }
        let deadline = self.now + 60_000 * MILLI;
        while self.now < deadline {
            self.step();
            let registered = |node: &Node| node.gone || node.process.as_ref().is_some_and(|process| process.registered);
            let leads = (0..self.nodes.len()).filter_map(|node| self.leads(node)).filter(|(_, lease)| *lease).count();
            let state = self.state();
            let retired = state.nodes().values().filter(|node| node.presence == Presence::Retired).count();
            let gone = self.nodes.iter().filter(|node| node.gone).count();
            if leads == 1
                && self.nodes.iter().all(registered)
                && self.votes_are_sound()
                && retired == gone
                && self.voters_have_another_leader()
            {
                self.counts.retired = retired as u64;
                self.counts.epochs = self.configurations.len() as u64;
                self.counts.losses = self.losses.len() as u64;
                return self.counts;
            }
        }
        let states = self.nodes.iter().filter_map(|node| Some(node.process.as_ref()?.link.state().1.groups().clone()));
        let about = |node: &Node| {
            let process = node.process.as_ref();
            let controller = process.and_then(|process| process.controller.as_ref());
            let seen = process.map(|process| (process.incarnation, process.registered, process.link.state().0));
            (
                node.id,
                node.place,
                node.gone,
                node.vote,
                seen,
                controller.map(|controller| (controller.state().0, controller.is_leader())),
            )
        };
        panic!(
            "no rest: {:#?}, {:?}, {:#?}",
            states.last(),
            self.nodes.iter().map(about).collect::<Vec<_>>(),
            self.state()
        );
    }
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("KEEPER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("KEEPER_SEEDS").unwrap_or(80),
    }
}

#[test]
fn no_lease_holds_while_another_leads() {
    let mut total = Counts::default();
    for seed in seeds() {
        match std::panic::catch_unwind(|| World::new(seed).run(8_000)) {
            Ok(counts) => {
                total.leases += counts.leases;
                total.epochs += counts.epochs;
                total.restarts += counts.restarts;
                total.pauses += counts.pauses;
                total.changed += counts.changed;
                total.goodbyes += counts.goodbyes;
                total.handed_over += counts.handed_over;
                total.resigned += counts.resigned;
                total.losses += counts.losses;
                total.wiped += counts.wiped;
                total.votes_lost += counts.votes_lost;
                total.joined += counts.joined;
                total.retired += counts.retired;
            }
            Err(_) => panic!("seed {seed} has failed: KEEPER_SEED={seed} runs it alone"),
        }
    }
    println!("{total:?}");
    if seeds().end > 40 {
        assert!(total.leases > 50_000 && total.epochs > 250 && total.restarts > 300, "{total:?}");
        assert!(total.pauses > 300 && total.changed > 100 && total.goodbyes > 50, "{total:?}");
        assert!(total.handed_over > 8 && total.resigned > 8 && total.losses > 3, "{total:?}");
        assert!(total.wiped > 20 && total.votes_lost > 10, "{total:?}");
        assert_eq!((total.joined, total.retired), (total.wiped, total.wiped), "{total:?}");
    }
}
