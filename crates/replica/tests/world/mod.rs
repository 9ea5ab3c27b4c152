//! Nodes, their logs, the network and the metadata, moved on step by step as a seed says.

mod applied;
mod effects;
mod metadata;
mod node;
mod rest;

use ferrite_base::{Epoch, GroupId, NodeId, Position};
use ferrite_replica::group::{Among, Envelope, GroupConfiguration, Header, Member, Sealed, Timing};
use metadata::{Metadata, Word};
use node::Node;
use std::collections::BTreeMap;

pub const GROUP: GroupId = GroupId(7);
/// Where the metadata is, as far as cuts are concerned.
const METADATA: NodeId = NodeId(0);
pub const TIMING: Timing = Timing {
    heartbeat: 50,
    failure: 2_000,
    stall: 10_000,
    resend: 300,
    propose: 300,
    join_bytes: 60,
    window_bytes: 300,
};

/// Broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    None,
    AddedAreLikeMembers,
    AcknowledgedBeforeDurable,
    ReadsDoNotWait,
    AnyAnswerSuffices,
    /// A member answers a seal and goes on acknowledging.
    SealedWithoutPromise,
    /// A copy says that it has applied what is durable.
    DurableIsApplied,
    /// A member answers a seal, and not what it has applied.
    SealedWithoutApplied,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorldCounts {
    pub writes: u64,
    pub reads: u64,
    pub leaders: u64,
    pub crashes: u64,
    pub joins: u64,
    pub dropped: u64,
    pub steps_hash: u64,
    /// Reads that were run while another node led already.
    pub late_reads: u64,
    /// Leaders that handed over.
    pub handed_over: u64,
    /// Those that were to, where a member had everything in its log and not in its tables.
    pub lagged: u64,
    /// Leaders that were chosen among equal streams of which one had applied less.
    pub chosen: u64,
}

impl WorldCounts {
    pub fn add(&mut self, other: &WorldCounts) {
        self.writes += other.writes;
        self.reads += other.reads;
        self.leaders += other.leaders;
        self.crashes += other.crashes;
        self.joins += other.joins;
        self.dropped += other.dropped;
        self.late_reads += other.late_reads;
        self.handed_over += other.handed_over;
        self.lagged += other.lagged;
        self.chosen += other.chosen;
    }
}

pub struct Random(u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What is on its way.
#[derive(Clone, Debug)]
enum Packet {
    Between { from: NodeId, to: NodeId, envelope: Envelope },
    ToMetadata(Word),
    Configured { to: NodeId, configuration: GroupConfiguration },
    Seal { to: NodeId, epoch: Epoch },
    Learner { to: NodeId, learner: Member },
    Gone { to: NodeId, member: Member },
}

impl Packet {
    fn way(&self) -> (NodeId, NodeId) {
        match self {
            Packet::Between { from, to, .. } => (*from, *to),
            Packet::ToMetadata(Word::Sealed(Sealed { member, .. }) | Word::Propose(member, _)) => {
                (member.node, METADATA)
            }
            Packet::ToMetadata(Word::Ask(node)) => (*node, METADATA),
            Packet::Configured { to, .. }
            | Packet::Seal { to, .. }
            | Packet::Learner { to, .. }
            | Packet::Gone { to, .. } => (METADATA, *to),
        }
    }
}

/// How often what happens, drawn for each seed.
struct Weights {
    lose: u64,
    repeat: u64,
    crash: u64,
    seal: u64,
    split: u64,
    write: u64,
    read: u64,
    sync: u64,
    hand_over: u64,
    apply: u64,
    /// Entries that a copy applies at a time, at most; 0: all, as soon as they are committed.
    pace: u64,
}

pub struct World {
    random: Random,
    /// For what copies apply: it leaves the rest of a seed as it is.
    more: Random,
    fault: Fault,
    now: u64,
    nodes: BTreeMap<NodeId, Node>,
    packets: Vec<Packet>,
    /// One-way cuts.
    cut: Vec<(NodeId, NodeId)>,
    metadata: Metadata,
    weights: Weights,
    quiet: bool,
    /// Nobody writes where nobody hears of it.
    shy: bool,
    /// What is committed, by position.
    committed: BTreeMap<Position, Header>,
    /// The highest position that a client was told of.
    acknowledged: Position,
    outcome: WorldCounts,
    /// `GROUP_TRACE` shows every step.
    trace: bool,
}

type Broken = String;

impl World {
    pub fn new(seed: u64, fault: Fault) -> World {
        let mut random = Random(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let count = 2 + random.below(4) as u32;
        let members: Vec<Member> =
            (1..=1 + random.below(u64::from(count)) as u32).map(|node| Member::new(node, 1)).collect();
        let leader = members[random.below(members.len() as u64) as usize];
        let last = GroupConfiguration::new(Epoch(1), leader, members, Vec::new());
        let nodes = (1..=count).map(|node| (NodeId(node), Node::new(Member::new(node, 1)))).collect();
        let mut more = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let weights = Weights {
            lose: random.below(30),
            repeat: random.below(20),
            crash: random.below(5),
            seal: random.below(4),
            split: random.below(6),
            write: if random.percent(30) { 2 + random.below(6) } else { 25 + random.below(75) },
            read: 10 + random.below(50),
            sync: 50 + random.below(100),
            hand_over: random.below(8),
            apply: 5 + more.below(60),
            pace: [0, 0, 2, 8][more.below(4) as usize],
        };
        let shy = random.percent(50);
        let mut world = World {
            random,
            more,
            fault,
            now: 10_000,
            nodes,
            packets: Vec::new(),
            cut: Vec::new(),
            metadata: Metadata { last, next: Epoch(2), sealing: None, applied: BTreeMap::new() },
            weights,
            quiet: false,
            shy,
            committed: BTreeMap::new(),
            acknowledged: Position(0),
            outcome: WorldCounts::default(),
            trace: std::env::var_os("GROUP_TRACE").is_some(),
        };
        world.announce();
        world
    }

    pub fn run(mut self) -> Result<WorldCounts, Broken> {
        let steps = 2_000 + self.random.below(18_000);
        for _ in 0..steps {
            self.step()?;
        }
        self.settle()?;
        Ok(self.outcome)
    }

    fn hash(&mut self, what: u64) {
        self.outcome.steps_hash = (self.outcome.steps_hash ^ what).wrapping_mul(0x0100_0000_01b3);
    }

    fn step(&mut self) -> Result<(), Broken> {
        self.now += self.random.below(20);
        let choice = self.random.below(1_000);
        self.hash(choice);
        let node = self.any_node();
        if !self.nodes[&node].up && self.random.percent(5) {
            self.crash_or_start(node)?;
        }
        let Weights { crash, seal, split, write, read, sync, hand_over, .. } = self.weights;
        let bounds = [crash, seal, split, write, read, sync, 100, 20, hand_over];
        self.apply_some()?;
        let mut point = choice;
        let action = bounds.iter().position(|bound| {
            let here = point < *bound;
            point = point.saturating_sub(*bound);
            here
        });
        match action {
            // Sometimes all nodes lose power.
            Some(0) if self.random.percent(20) => {
                for id in self.nodes.keys().copied().collect::<Vec<_>>() {
                    if self.nodes[&id].up {
                        self.crash_or_start(id)?;
                    }
                }
            }
            Some(0) => self.crash_or_start(node)?,
            Some(1) => self.begin_seal(),
            Some(2) => self.split_or_heal(),
            Some(3) => self.write(node)?,
            // Of a node that is cut off, rather.
            Some(4) => {
                let alone = self.cut.iter().find(|(_, to)| *to == METADATA).map(|(from, _)| *from);
                let asked = alone.filter(|_| self.random.percent(50)).unwrap_or(node);
                self.read(asked)?;
            }
            Some(5) => self.sync(node)?,
            Some(6) => {
                let now = self.now;
                self.with(node, |node| node.group.tick(now))?;
            }
            Some(7) => self.metadata_decides()?,
            Some(8) => self.hand_over()?,
            _ => self.deliver()?,
        }
        Ok(())
    }

    /// The leader is to hand over, to anybody or to one that may be no member; or thinks better of
    /// it.
    fn hand_over(&mut self) -> Result<(), Broken> {
        let (leader, now) = (self.metadata.last.leader.node, self.now);
        let to = self.any_node();
        let to = Some(to).filter(|_| self.random.percent(50));
        let keeps = self.random.percent(30);
        if !keeps {
            self.note_lag(leader);
        }
        self.with(leader, |node| {
            if keeps {
                node.group.keep_lead(now);
            } else {
                let _ = node.group.hand_over(to, Among::Able, now);
            }
        })
    }

    fn any_node(&mut self) -> NodeId {
        let index = self.random.below(self.nodes.len() as u64) as usize;
        *self.nodes.keys().nth(index).expect("below their number")
    }

    /// Does something with a node that is up, and what it wants done.
    fn with(&mut self, id: NodeId, act: impl FnOnce(&mut Node)) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        if !node.up {
            return Ok(());
        }
        act(node);
        self.effects(id)
    }

    fn write(&mut self, id: NodeId) -> Result<(), Broken> {
        // A leader that is cut off, has nothing under way and is asked for reads is the one that
        // answers what is stale.
        let alone = self.cut.contains(&(id, METADATA)) || self.metadata.last.leader.node != id;
        if alone && self.shy {
            return Ok(());
        }
        let early = self.fault == Fault::AcknowledgedBeforeDurable;
        let body = self.random.next() as u32;
        let bytes = self.random.below(40) as u32;
        self.with(id, |node| {
            if let Some(header) = node.group.append(body, bytes) {
                node.write(&[header]);
                node.writes.push_back(header.mark.position);
                if early {
                    node.group.written(header.mark);
                }
            }
        })
    }

    fn read(&mut self, id: NodeId) -> Result<(), Broken> {
        let (acknowledged, at_once) = (self.acknowledged, self.fault == Fault::ReadsDoNotWait);
        let leader = self.metadata.last.leader.node;
        let mut late = false;
        self.with(id, |node| {
            if let Some(round) = node.group.read() {
                late = leader != id;
                let saw = node.group.end().position;
                node.reads.push_back(node::Read { saw, round: if at_once { 0 } else { round }, acknowledged });
            }
        })?;
        self.outcome.late_reads += u64::from(late);
        self.release_reads(id)
    }

    /// Answers the reads that may be answered.
    fn release_reads(&mut self, id: NodeId) -> Result<(), Broken> {
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        while let Some(read) = node.reads.front().copied() {
            if read.saw > node.committed || read.round > node.confirmed {
                break;
            }
            node.reads.pop_front();
            self.outcome.reads += 1;
            let seen = node.entries(Position(0), read.saw);
            let newest = self.committed.range(..=read.acknowledged).next_back().map(|(_, header)| *header);
            if let Some(newest) = newest.filter(|newest| !seen.contains(newest)) {
                return Err(format!("node {id} answers a read of {} that does not show {newest:?}", read.saw));
            }
        }
        Ok(())
    }

    /// The disk has written some more; promises become durable.
    fn sync(&mut self, id: NodeId) -> Result<(), Broken> {
        let part = self.random.below(4);
        self.with(id, |node| {
            node.look_at_applied();
            for epoch in std::mem::take(&mut node.promises) {
                node.promised = node.promised.max(epoch);
                node.group.promised(epoch);
            }
            for mark in node.sync(part) {
                node.group.written(mark);
            }
        })
    }

    fn crash_or_start(&mut self, id: NodeId) -> Result<(), Broken> {
        let kept = self.random.next();
        let node = self.nodes.get_mut(&id).expect("nodes are known");
        if node.up {
            node.crash(kept);
            self.outcome.crashes += 1;
        } else {
            node.start();
            self.register(id);
        }
        Ok(())
    }

    fn split_or_heal(&mut self) {
        if !self.cut.is_empty() {
            if self.random.percent(30) {
                self.cut.clear();
            }
            return;
        }
        let (one, other) = (self.any_node(), self.any_node());
        if self.random.percent(50) {
            self.cut.push((one, other));
            if self.random.percent(70) {
                self.cut.push((other, one));
            }
            return;
        }
        if self.random.percent(40) {
            // Two sides, the metadata on one of them.
            let sides = self.random.next();
            let side = |node: NodeId| sides >> node.0 & 1;
            let all: Vec<NodeId> = self.nodes.keys().copied().chain([METADATA]).collect();
            let pairs = all.iter().flat_map(|from| all.iter().map(|to| (*from, *to)));
            self.cut = pairs.filter(|(from, to)| side(*from) != side(*to)).collect();
            return;
        }
        // All alone, the leader preferred.
        let alone = if self.random.percent(70) { self.metadata.last.leader.node } else { one };
        let others = self.nodes.keys().copied().chain([METADATA]).filter(|node| *node != alone);
        self.cut = others.flat_map(|node| [(alone, node), (node, alone)]).collect();
    }

    fn deliver(&mut self) -> Result<(), Broken> {
        if self.packets.is_empty() {
            return Ok(());
        }
        // Mostly in order, sometimes not.
        let ordered = self.quiet || self.random.percent(70);
        let index = if ordered { 0 } else { self.random.below(self.packets.len() as u64) as usize };
        let packet = if !self.quiet && self.random.below(100) < self.weights.repeat {
            self.packets[index].clone()
        } else {
            self.packets.remove(index)
        };
        if !self.quiet && self.random.below(100) < self.weights.lose {
            return Ok(());
        }
        let now = self.now;
        if self.trace {
            println!("{now} comes {packet:?}");
        }
        if self.cut.contains(&packet.way()) {
            return Ok(());
        }
        match packet {
            Packet::Between { from, to, envelope } => {
                let knows = self.knows(from, &envelope);
                self.with(to, |node| {
                    knows.into_iter().for_each(|knows| node.group.handle_message(knows, now));
                    node.group.handle_message(envelope, now);
                })
            }
            Packet::ToMetadata(word) => {
                self.tell_metadata(word);
                Ok(())
            }
            Packet::Configured { to, configuration } => self.with(to, |node| node.group.configured(configuration, now)),
            Packet::Seal { to, epoch } => {
                if self.fault == Fault::SealedWithoutPromise && self.nodes[&to].up {
                    let Node { member, group, .. } = &self.nodes[&to];
                    let (end, history) = (group.end(), group.history().clone());
                    let sealed = Sealed {
                        member: *member,
                        epoch,
                        end,
                        history,
                        intact: true,
                        applied: end.position,
                        able: true,
                    };
                    self.packets.push(Packet::ToMetadata(Word::Sealed(sealed)));
                    return Ok(());
                }
                self.with(to, |node| {
                    node.look_at_applied();
                    node.group.seal(epoch);
                })
            }
            Packet::Learner { to, learner } => self.with(to, |node| node.group.learner(learner, now)),
            Packet::Gone { to, member } => self.with(to, |node| node.group.gone(member, now)),
        }
    }
}
