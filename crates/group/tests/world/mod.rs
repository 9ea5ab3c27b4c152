//! Nodes, the network and the metadata, moved on step by step as a seed says. The metadata decides
//! at once and tells late.

mod node;
mod pair;

use ferrite_base::{Epoch, NodeId};
use ferrite_group::{EntryBuffer, GroupEvent, GroupPlace, Supplied, Urgency, message};
use ferrite_io::Clock;
use ferrite_io::simulated::{Restart, SimulatedClock, SimulatedRandom};
use ferrite_replica::group::{GroupConfiguration, Member, Proposal, Sealed, Timing, decide};
pub use node::Bounds;
use node::{GROUP, Node, Out, Read, Writer, number_of};
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

#[derive(Clone)]
enum Packet {
    Between { from: NodeId, to: NodeId, lane: Urgency, bytes: Vec<u8> },
    Sealed(Sealed),
    Propose(Member, Proposal),
    Ask(NodeId),
    Configured { to: NodeId, configuration: GroupConfiguration },
    Seal { to: NodeId, epoch: Epoch },
    Learner { to: NodeId, learner: Member },
    Gone { to: NodeId, member: Member },
    Snapshot { from: NodeId, to: NodeId, place: Box<GroupPlace>, tables: Vec<u64> },
}

impl Packet {
    fn way(&self) -> (NodeId, NodeId) {
        match self {
            Packet::Between { from, to, .. } | Packet::Snapshot { from, to, .. } => (*from, *to),
            Packet::Sealed(Sealed { member, .. }) | Packet::Propose(member, _) => (member.node, METADATA),
            Packet::Ask(node) => (*node, METADATA),
            Packet::Configured { to, .. }
            | Packet::Seal { to, .. }
            | Packet::Learner { to, .. }
            | Packet::Gone { to, .. } => (METADATA, *to),
        }
    }
}

impl Packet {
    fn line(&self) -> String {
        match self {
            Packet::Between { from, to, bytes, .. } => match message::decode(bytes) {
                Ok((_, envelope, _)) => format!("{from} to {to}: {} {:?}", envelope.epoch, envelope.message),
                Err(error) => error.to_string(),
            },
            Packet::Sealed(sealed) => format!("{sealed:?}"),
            Packet::Propose(from, proposal) => format!("{from:?} {proposal:?}"),
            Packet::Ask(node) => format!("{node} asks"),
            Packet::Configured { to, configuration } => format!("to {to}: {configuration:?}"),
            Packet::Seal { to, epoch } => format!("to {to}: seal {epoch}"),
            Packet::Learner { to, learner } => format!("to {to}: learner {learner:?}"),
            Packet::Snapshot { from, to, place, .. } => format!("{from} to {to}: snapshot at {:?}", place.end),
            Packet::Gone { to, member } => format!("to {to}: gone {member:?}"),
        }
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

    fn register(&mut self, id: NodeId) {
        let member = self.nodes[&id].member;
        let to = self.last.leader.node;
        if !self.last.has(member) {
            if let Some(gone) = self.last.members().iter().find(|member| member.node == id) {
                self.packets.push(Packet::Gone { to, member: *gone });
            }
            self.packets.push(Packet::Learner { to, learner: member });
        }
        self.packets.push(Packet::Ask(id));
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

    /// What a node wants done, and what it says.
    fn take_outs(&mut self, id: NodeId) -> Result<(), Broken> {
        loop {
            let node = self.nodes.get_mut(&id).expect("nodes are known");
            let Some(out) = node.running.as_ref().and_then(|running| running.outs.pop()) else { return Ok(()) };
            if self.trace {
                println!("{id} {}", out.line());
            }
            match out {
                Out::Sent(to, lane, bytes) => self.packets.push(Packet::Between { from: id, to, lane, bytes }),
                Out::Told(number, committed) => self.told(id, number, committed)?,
                Out::Passed(rows, true) if node.settled < rows => {
                    return Err(format!(
                        "node {id} passes a barrier behind {rows}, and {} are committed",
                        node.settled
                    ));
                }
                Out::Passed(_, committed) => self.outcome.passed += u64::from(committed),
                Out::Committed(entries) => {
                    if node.tables.len() != node.settled {
                        return Err(format!("node {id} applies behind what it executed and may have to take back"));
                    }
                    for number in entries.iter().filter_map(number_of) {
                        self.nodes.get_mut(&id).expect("nodes are known").tables.push(number);
                        self.settled(id)?;
                    }
                }
                Out::Installed => {
                    self.outcome.snapshots += 1;
                    node.installed();
                    self.settled_more(id)?;
                }
                Out::Event(event) => self.event(id, event)?,
            }
        }
    }

    fn told(&mut self, id: NodeId, number: u64, committed: bool) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        if node.asked.first() != Some(&number) {
            return Err(format!("node {id} is told of {number}, and {:?} waits", node.asked));
        }
        node.asked.remove(0);
        if !committed {
            self.outcome.unknown += 1;
            return Ok(());
        }
        if node.tables.get(node.settled) != Some(&number) {
            return Err(format!("node {id} is told of {number} out of order"));
        }
        self.outcome.acknowledged += 1;
        self.settled(id)?;
        self.acknowledged = self.acknowledged.max(self.nodes[&id].settled);
        self.release_reads(id)
    }

    /// One more of what a node has is committed: the same as everywhere.
    fn settled(&mut self, id: NodeId) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        let number = node.tables[node.settled];
        match self.stream.get(node.settled) {
            None => self.stream.push(number),
            Some(known) if *known == number => {}
            Some(known) => return Err(format!("node {id} has {number} where {known} was committed")),
        }
        node.settled += 1;
        Ok(())
    }

    fn event(&mut self, id: NodeId, event: GroupEvent) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        match event {
            GroupEvent::Opened => {
                if node.tables.len() != node.settled || node.settled < self.stream.len() {
                    return Err(format!("node {id} opens before it has applied what is committed"));
                }
                node.leads = true;
            }
            GroupEvent::Deposed { .. } => {
                self.outcome.deposed += 1;
                self.outcome.undone += (node.tables.len() - node.settled) as u64;
                node.tables.truncate(node.settled);
                node.leads = false;
                node.forget_clients();
                if !node.asked.is_empty() {
                    return Err(format!("node {id} leaves {:?} waiting", node.asked));
                }
            }
            // Here is no lease that could end.
            GroupEvent::StandsStill(_) => {}
            GroupEvent::Confirmed(round) => {
                node.confirmed = round;
                self.release_reads(id)?;
            }
            GroupEvent::Promise(epoch) => node.promises.push(epoch),
            GroupEvent::Sealed(sealed) => self.packets.push(Packet::Sealed(sealed)),
            GroupEvent::Propose(proposal) => self.packets.push(Packet::Propose(node.member, proposal)),
            GroupEvent::AskMetadata(_) => self.packets.push(Packet::Ask(id)),
            GroupEvent::Differs(other, _) => return Err(format!("node {id} finds that {other} differs")),
            GroupEvent::Diverged(other) => return Err(format!("node {id} finds that {other} has another stream")),
            GroupEvent::FromLog(wanted) => {
                self.outcome.from_log += 1;
                let now = self.clock.monotonic_nanos();
                if let Some(running) = &mut node.running {
                    running.supplier.request(wanted, now);
                }
            }
            GroupEvent::Replaced => {}
            GroupEvent::NeedsSnapshot(to) => self.send_snapshot(id, to),
            GroupEvent::TooLarge { to, .. } => {
                self.outcome.too_large += 1;
                self.send_snapshot(id, to);
            }
            GroupEvent::LogFailed(failure) => return Err(format!("node {id}: {failure}")),
        }
        Ok(())
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

    /// What a snapshot shows is committed.
    fn settled_more(&mut self, id: NodeId) -> Result<(), Broken> {
        let node = &self.nodes[&id];
        let known = self.stream.len().min(node.settled);
        self.stream.extend(&node.tables[known..]);
        if node.tables[..] != self.stream[..node.settled] {
            return Err(format!("node {id} got {:?} where {:?} was committed", node.tables, self.stream));
        }
        Ok(())
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
                running.replication.received(envelope, entries);
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
            (Packet::Sealed(sealed), _) => {
                let member = sealed.member;
                let current = self.nodes[&member.node].member == member;
                if let Some((epoch, answers)) = &mut self.sealing
                    && sealed.epoch == *epoch
                    && current
                {
                    answers.retain(|answer| answer.member.node != member.node);
                    answers.push(sealed);
                }
            }
            (Packet::Propose(from, proposal), _) => {
                let current = proposal.members.iter().all(|member| self.nodes[&member.node].member == *member);
                if proposal.expected == self.last.epoch && self.sealing.is_none() && from == self.last.leader && current
                {
                    self.outcome.joins += u64::from(!proposal.added.is_empty());
                    self.last = GroupConfiguration::new(self.next, from, proposal.members, proposal.added);
                    self.next = Epoch(self.next.0 + 1);
                    self.announce();
                }
            }
            (Packet::Ask(to), _) => {
                self.packets.push(Packet::Configured { to, configuration: self.last.clone() });
                if let Some((epoch, _)) = self.sealing {
                    self.packets.push(Packet::Seal { to, epoch });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn announce(&mut self) {
        let configuration = &self.last;
        let packets = self.nodes.keys().map(|to| Packet::Configured { to: *to, configuration: configuration.clone() });
        self.packets.extend(packets);
    }

    fn begin_seal(&mut self) {
        let epoch = self.next;
        self.next = Epoch(epoch.0 + 1);
        self.sealing = Some((epoch, Vec::new()));
        let candidates = self.last.members().iter().map(|member| Packet::Seal { to: member.node, epoch });
        self.packets.extend(candidates);
    }

    fn metadata_decides(&mut self) {
        let Some((epoch, answers)) = &self.sealing else { return };
        let current = answers.iter().filter(|answer| self.nodes[&answer.member.node].member == answer.member);
        let current: Vec<Sealed> = current.cloned().collect();
        if let Some(decided) = decide(&self.last, *epoch, &current) {
            self.last = decided;
            self.sealing = None;
            self.announce();
            let up: Vec<NodeId> =
                self.nodes.iter().filter(|(_, node)| node.running.is_some()).map(|(id, _)| *id).collect();
            up.into_iter().for_each(|id| self.register(id));
        }
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
