//! Nodes, the network and the metadata, moved on step by step as a seed says. The metadata decides
//! at once and tells late.

mod metadata;
mod node;
mod outs;
mod packet;
mod pair;

use ferrite_base::{Epoch, NodeId};
use ferrite_group::{EntryBuffer, Supplied, Urgency, message};
use ferrite_io::Clock;
use ferrite_io::simulated::{Restart, SimulatedClock, SimulatedRandom};
use ferrite_replica::group::{GroupConfiguration, Member, Sealed, Timing};
pub use node::Bounds;
use node::{GROUP, Node, Read, Writer};
use packet::Packet;
pub use pair::Pair;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const METADATA: NodeId = NodeId(0);
const MILLI: u64 = 1_000_000;
pub const TIMING: Timing = Timing {
    heartbeat: 50 * MILLI,
    failure: 2_000 * MILLI,
    stall: 10_000 * MILLI,
    resend: 300 * MILLI,
    propose: 300 * MILLI,
    join_bytes: 3_000,
    window_bytes: 20_000,
};

type Broken = String;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    pub acknowledged: u64,
    pub unknown: u64,
    pub reads: u64,
    pub crashes: u64,
    pub deposed: u64,
    /// Executed and taken back.
    pub undone: u64,
    pub joins: u64,
    /// Requests for entries that are not in memory, and messages with these.
    pub from_log: u64,
    pub supplied: u64,
    pub snapshots: u64,
    /// Entries that no message holds: in memory, and in the log.
    pub too_large: u64,
    pub too_large_in_log: u64,
    /// Barriers.
    pub passed: u64,
}

impl Outcome {
    pub fn add(&mut self, other: &Outcome) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.reads += other.reads;
        self.crashes += other.crashes;
        self.deposed += other.deposed;
        self.undone += other.undone;
        self.joins += other.joins;
        self.from_log += other.from_log;
        self.supplied += other.supplied;
        self.snapshots += other.snapshots;
        self.too_large += other.too_large;
        self.too_large_in_log += other.too_large_in_log;
        self.passed += other.passed;
    }
}

pub struct World {
    random: SimulatedRandom,
    clock: SimulatedClock,
    nodes: BTreeMap<NodeId, Node>,
    packets: Vec<Packet>,
    cut: BTreeSet<(NodeId, NodeId)>,
    last: GroupConfiguration,
    /// The next epoch that is not burnt.
    next: Epoch,
    sealing: Option<(Epoch, Vec<Sealed>)>,
    /// What is committed anywhere, in order.
    stream: Vec<u64>,
    /// How far clients were told so.
    acknowledged: usize,
    numbers: u64,
    quiet: bool,
    lose: u64,
    repeat: u64,
    bounds: Bounds,
    outcome: Outcome,
    /// `GROUP_TRACE` shows what happens.
    trace: bool,
}

impl World {
    pub fn new(seed: u64) -> World {
        World::within(seed, Bounds::default())
    }

    pub fn within(seed: u64, bounds: Bounds) -> World {
        let mut random = SimulatedRandom::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) | 1);
        let clock = SimulatedClock::default();
        let mut below = |end: u64| random.below(end);
        let count = 2 + below(3) as u32;
        let nodes: BTreeMap<NodeId, Node> = (1..=count)
            .map(|id| (NodeId(id), Node::new(id, seed * 10 + u64::from(id), &clock, TIMING, bounds)))
            .collect();
        let members: Vec<Member> =
            nodes.values().take(1 + below(u64::from(count)) as usize).map(|n| n.member).collect();
        let leader = members[below(members.len() as u64) as usize];
        let last = GroupConfiguration::new(Epoch(1), leader, members, Vec::new());
        let (lose, repeat) = (below(25), below(15));
        let mut world = World {
            random,
            clock,
            nodes,
            packets: Vec::new(),
            cut: BTreeSet::new(),
            last,
            next: Epoch(2),
            sealing: None,
            stream: Vec::new(),
            acknowledged: 0,
            numbers: 0,
            quiet: false,
            lose,
            repeat,
            bounds,
            outcome: Outcome::default(),
            trace: std::env::var_os("GROUP_TRACE").is_some(),
        };
        world.announce();
        world
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn run(mut self) -> Result<Outcome, Broken> {
        for _ in 0..1_000 + self.below(4_000) {
            self.step()?;
        }
        self.settle()?;
        Ok(self.outcome)
    }

    fn any_node(&mut self) -> NodeId {
        let index = self.below(self.nodes.len() as u64) as usize;
        *self.nodes.keys().nth(index).expect("below their number")
    }

    fn step(&mut self) -> Result<(), Broken> {
        let micros = self.below(20_000);
        self.clock.advance(Duration::from_micros(micros));
        let node = self.any_node();
        if self.nodes[&node].running.is_none() && self.percent(8) {
            self.start(node)?;
        }
        match self.below(1_000) {
            0..5 => self.crash(node),
            5..9 => self.begin_seal(),
            9..14 => self.split_or_heal(),
            14..120 => self.write(node)?,
            120..150 => self.read(node)?,
            150..165 => self.barrier(node)?,
            165..300 => self.sync(node)?,
            300..420 => self.tick(node)?,
            420..440 => self.metadata_decides(),
            440..470 => self.supply(node)?,
            _ => self.deliver()?,
        }
        Ok(())
    }

    fn crash(&mut self, id: NodeId) {
        let power = self.percent(50);
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        if node.running.is_some() {
            self.outcome.crashes += 1;
            if self.trace {
                println!("{id} crashes");
            }
            node.crash(if power { Restart::Power } else { Restart::Process });
        }
    }

    fn start(&mut self, id: NodeId) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        node.start();
        if self.trace {
            println!("{id} starts as {:?} with {:?}", node.member, node.tables);
        }
        // Its log may know of more that is committed than anybody who is up.
        let known = self.stream.len().min(node.settled);
        self.stream.extend(&node.tables[known..]);
        if node.tables[..] != self.stream[..node.settled] {
            return Err(format!("node {id} starts with {:?} where {:?} was committed", node.tables, self.stream));
        }
        self.register(id);
        Ok(())
    }

    fn write(&mut self, id: NodeId) -> Result<(), Broken> {
        let message_bytes = self.bounds.message_bytes;
        let filling = match message_bytes < usize::MAX && self.percent(2) {
            // More than a learner may lack that becomes a member.
            true => message_bytes,
            false => self.below(600) as usize,
        };
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        let Some(running) = node.running.as_ref().filter(|_| node.leads) else { return Ok(()) };
        self.numbers += 1;
        let number = self.numbers;
        let mut records = EntryBuffer::default();
        records.records().extend_from_slice(&number.to_le_bytes());
        records.records().extend_from_slice(&vec![7; filling]);
        // Executed before it is appended, as partitions do.
        node.tables.push(number);
        node.asked.push(number);
        running.replication.append(records, Writer { what: Ok(number), outs: running.outs.clone() });
        self.take_outs(id)
    }

    /// Also where this node is a copy: a snapshot waits for what it shows.
    fn barrier(&mut self, id: NodeId) -> Result<(), Broken> {
        let own = self.percent(50);
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        let Some(running) = &node.running else { return Ok(()) };
        let party = Writer { what: Err(node.tables.len()), outs: running.outs.clone() };
        if own {
            running.replication.append_own(Vec::new(), party);
        } else {
            running.replication.append(EntryBuffer::default(), party);
        }
        self.take_outs(id)
    }

    fn read(&mut self, id: NodeId) -> Result<(), Broken> {
        let acknowledged = self.acknowledged;
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        let Some(running) = node.running.as_ref().filter(|_| node.leads) else { return Ok(()) };
        if let Some(round) = running.replication.read() {
            node.reads.push_back(Read { saw: node.tables.len(), round, acknowledged });
        }
        self.take_outs(id)?;
        self.release_reads(id)
    }

    fn release_reads(&mut self, id: NodeId) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        while let Some(read) =
            node.reads.front().copied().filter(|r| r.saw <= node.settled && r.round <= node.confirmed)
        {
            node.reads.pop_front();
            self.outcome.reads += 1;
            if read.saw < read.acknowledged {
                return Err(format!("node {id} answers a read of {} where {} were told", read.saw, read.acknowledged));
            }
        }
        Ok(())
    }

    fn sync(&mut self, id: NodeId) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        node.keep_promises();
        if let Some(running) = &node.running {
            running.log.step();
        }
        self.take_outs(id)
    }

    fn tick(&mut self, id: NodeId) -> Result<(), Broken> {
        if let Some(running) = &self.nodes[&id].running {
            running.replication.tick();
        }
        self.take_outs(id)
    }

    /// Some of what nodes miss, from the log of one that leads. Outboxes have room for little.
    fn supply(&mut self, id: NodeId) -> Result<(), Broken> {
        let now = self.clock.monotonic_nanos();
        for _ in 0..1 + self.below(8) {
            let node = self.nodes.get_mut(&id).expect("nodes are known");
            let Some(running) = &mut node.running else { return Ok(()) };
            let packets = &mut self.packets;
            let mut queued = BTreeMap::new();
            for packet in packets.iter() {
                if let Packet::Between { from, to, lane: Urgency::Entries, .. } = packet
                    && *from == id
                {
                    *queued.entry(*to).or_insert(0) += 1;
                }
            }
            let mut has_room = |to: NodeId| queued.get(&to).is_none_or(|queued| *queued < 3);
            let mut sent = 0;
            let mut send = |to, lane, bytes| {
                sent += 1;
                packets.push(Packet::Between { from: id, to, lane, bytes });
            };
            let supplied = running.supplier.step(now, &mut has_room, &mut send);
            self.outcome.supplied += sent;
            match supplied {
                Supplied::Working => {}
                Supplied::Idle | Supplied::Held => return Ok(()),
                Supplied::Gone(to) => self.send_snapshot(id, to),
                Supplied::TooLarge(to, _) => {
                    self.outcome.too_large_in_log += 1;
                    self.send_snapshot(id, to);
                }
                Supplied::Failed(to, error) => return Err(format!("node {id} has not what {to} missed: {error}")),
            }
        }
        Ok(())
    }

    /// One at a time, of what is committed.
    fn send_snapshot(&mut self, from: NodeId, to: NodeId) {
        if self.packets.iter().any(|packet| matches!(packet, Packet::Snapshot { to: other, .. } if *other == to)) {
            return;
        }
        if let Some((place, tables)) = self.nodes[&from].snapshot() {
            self.packets.push(Packet::Snapshot { from, to, place: Box::new(place), tables });
        }
    }

    fn split_or_heal(&mut self) {
        if !self.cut.is_empty() {
            self.cut.clear();
            return;
        }
        let (one, other) = (self.any_node(), self.any_node());
        let alone = if self.percent(60) { self.last.leader.node } else { one };
        if self.percent(40) {
            self.cut.extend([(one, other), (other, one)]);
        } else {
            let all: Vec<NodeId> = self.nodes.keys().copied().chain([METADATA]).filter(|node| *node != alone).collect();
            self.cut.extend(all.into_iter().flat_map(|node| [(alone, node), (node, alone)]));
        }
    }

    fn deliver(&mut self) -> Result<(), Broken> {
        if self.packets.is_empty() {
            return Ok(());
        }
        let ordered = self.quiet || self.percent(70);
        let index = if ordered { 0 } else { self.below(self.packets.len() as u64) as usize };
        let again = !self.quiet && self.below(100) < self.repeat;
        let packet = if again { self.packets[index].clone() } else { self.packets.remove(index) };
        if !self.quiet && self.below(100) < self.lose || self.cut.contains(&packet.way()) {
            return Ok(());
        }
        let (_, to) = packet.way();
        if self.trace {
            println!("   {}", packet.line());
        }
        let running = self.nodes.get(&to).and_then(|node| node.running.as_ref());
        match (packet, running) {
            (Packet::Between { lane, bytes, .. }, Some(running)) => {
                let (group, envelope, entries) = message::decode(&bytes).map_err(|error| error.to_string())?;
                if group != GROUP || (lane == Urgency::Entries) == entries.is_empty() {
                    return Err("a message is on another lane, or of another group".to_owned());
                }
                running.replication.handle_message(envelope, entries);
                self.take_outs(to)?;
            }
            (Packet::Snapshot { place, tables, .. }, Some(_)) => {
                self.nodes.get_mut(&to).expect("it runs").install(*place, tables);
                self.take_outs(to)?;
            }
            (Packet::Configured { configuration, .. }, Some(running)) => {
                running.replication.configured(configuration);
                self.take_outs(to)?;
            }
            (Packet::Seal { epoch, .. }, Some(running)) => {
                running.replication.seal(epoch);
                self.take_outs(to)?;
            }
            (Packet::Learner { learner, .. }, Some(running)) => {
                running.replication.learner(learner);
                self.take_outs(to)?;
            }
            (Packet::Gone { member, .. }, Some(running)) => {
                running.replication.gone(member);
                self.take_outs(to)?;
            }
            (packet, _) => self.metadata_hears(packet),
        }
        Ok(())
    }

    /// Without faults everything comes to rest: one leader, all nodes members, the same tables.
    fn settle(&mut self) -> Result<(), Broken> {
        self.quiet = true;
        self.cut.clear();
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        // The last write may be one that no message holds: all others leave, and come back with a
        // snapshot.
        let rounds = if self.bounds.message_bytes == usize::MAX { 150 } else { 300 };
        for round in 0..rounds {
            for id in &ids {
                if self.nodes[id].running.is_none() {
                    self.start(*id)?;
                }
            }
            let leader = self.nodes.values().any(|node| node.leads && node.member == self.last.leader);
            if round % 25 == 0 && !leader {
                self.begin_seal();
            }
            if round % 20 == 0 {
                ids.iter().for_each(|id| self.register(*id));
            }
            if round == 140 {
                self.write(self.last.leader.node)?;
            }
            for id in &ids {
                self.clock.advance(Duration::from_millis(25));
                self.tick(*id)?;
                self.sync(*id)?;
                self.supply(*id)?;
            }
            while !self.packets.is_empty() {
                self.deliver()?;
            }
            self.metadata_decides();
        }
        for (id, node) in &self.nodes {
            let whole = node.tables == self.stream && node.settled == self.stream.len();
            if !whole || !node.asked.is_empty() || self.last.members().len() != ids.len() {
                return Err(format!(
                    "no rest: node {id} has {} of {}, {:?}",
                    node.settled,
                    self.stream.len(),
                    self.last
                ));
            }
        }
        if self.acknowledged > self.stream.len() || self.stream.last() != Some(&self.numbers) {
            return Err("something acknowledged is gone".to_owned());
        }
        Ok(())
    }
}
