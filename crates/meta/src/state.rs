//! What all voters agree on: a function of the commands in their order.

mod assigned;
mod refusal;
mod snapshot;

pub use refusal::Refusal;

use crate::command::Command;
use crate::parts::{Group, Kind, Node, Phase, Presence, Settings};
use crate::{ADDRESSES_MAX, GROUPS_MAX, MEMBERS_MAX, NODES_MAX, TEXT_BYTES_MAX, VOTERS_MAX};
use ferrite_base::limits::METADATA_BYTES_MAX;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_replica::group::{GroupConfiguration, Mark, Member};
use std::collections::{BTreeMap, BTreeSet};

/// What a command did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Done,
    /// The same command has already done it.
    Repeated,
}

/// The replicated state. Nothing in it depends on time, chance or the node it is on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    settings: Option<Settings>,
    nodes: BTreeMap<NodeId, Node>,
    groups: BTreeMap<GroupId, Group>,
    voters: BTreeSet<NodeId>,
    /// The number of the last vote that each node was given. A voter's is its vote; an earlier one
    /// never counts again.
    votes: BTreeMap<NodeId, u32>,
    /// The key with which each node joined that the cluster was not founded with.
    joined: BTreeMap<NodeId, [u8; 16]>,
}

impl State {
    /// None: no cluster was founded.
    pub fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref()
    }

    /// Whether an operator has paused the database.
    pub fn is_paused(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.paused)
    }

    /// Retired ones too: an id is never used again.
    pub fn nodes(&self) -> &BTreeMap<NodeId, Node> {
        &self.nodes
    }

    pub fn groups(&self) -> &BTreeMap<GroupId, Group> {
        &self.groups
    }

    pub fn voters(&self) -> &BTreeSet<NodeId> {
        &self.voters
    }

    /// The number of the last vote that the node was given, whether or not it still has it.
    pub fn vote(&self, node: NodeId) -> Option<u32> {
        self.votes.get(&node).copied()
    }

    /// The node that has joined with that key.
    pub fn joined_with(&self, key: [u8; 16]) -> Option<NodeId> {
        self.joined.iter().find(|(_, known)| **known == key).map(|(node, _)| *node)
    }

    /// Nodes that are not retired, and that have no later node at their address.
    pub fn latest(&self) -> impl Iterator<Item = (&NodeId, &Node)> {
        let there = || self.nodes.iter().filter(|(_, node)| node.presence != Presence::Retired);
        let last: BTreeMap<Option<&str>, NodeId> = there().map(|(id, node)| (node.host(), *id)).collect();
        there().filter(move |(id, node)| last.get(&node.host()) == Some(*id))
    }

    /// The id of the node that joins next.
    pub fn next_node(&self) -> NodeId {
        NodeId(self.nodes.last_key_value().map_or(0, |(last, _)| last.0) + 1)
    }

    /// The processes that a seal of the group asks: the members of its last configuration, with
    /// their current incarnations.
    pub fn candidates(&self, group: GroupId) -> Vec<Member> {
        let Some(group) = self.groups.get(&group) else { return Vec::new() };
        let members = group.configuration.members();
        let accepted = group.accepted.filter(|member| !group.configuration.has_node(member.node));
        let members: Vec<Member> = members.iter().copied().chain(accepted).collect();
        let asked = members.iter().filter_map(|member| {
            let node = self.nodes.get(&member.node)?;
            (node.presence != Presence::Retired).then_some(Member { node: member.node, incarnation: node.incarnation })
        });
        asked.collect()
    }

    /// Carries out a command. A refused one changes nothing.
    pub fn apply(&mut self, command: &Command) -> Result<Change, Refusal> {
        if let Command::Found { settings, nodes, groups, voters } = command {
            return self.found(settings, nodes, groups, voters);
        }
        if self.settings.is_none() {
            return Err(Refusal::NotFounded);
        }
        match command {
            Command::Found { .. } => Err(Refusal::Founded),
            Command::Register { id, expected, node } => self.register(*id, *expected, node),
            Command::Join { id, key, node } => self.join(*id, *key, node),
            Command::Goodbye { node, incarnation } => self.leave(*node, *incarnation, Presence::Stopped),
            Command::Retire { node, incarnation } => self.leave(*node, *incarnation, Presence::Retired),
            Command::Seal { group, expected, epoch } => self.seal(*group, *expected, *epoch),
            Command::Activate { group, configuration, parent } => self.activate(*group, configuration, *parent),
            Command::Configure { group, expected, configuration, parent } => {
                self.configure(*group, *expected, configuration, *parent)
            }
            Command::AcceptLoss { group, expected, sealed, member } => {
                self.accept_loss(*group, *expected, *sealed, *member)
            }
            Command::Equal { group, loss } => self.equal(*group, *loss),
            Command::Settings { revision, kfactor } => self.set(*revision, *kfactor),
            Command::Pause { revision, paused } => self.pause(*revision, *paused),
            Command::Voters { expected, voters, number } => self.change_voters(expected, voters, *number),
        }
    }

    fn found(
        &mut self,
        settings: &Settings,
        nodes: &[(NodeId, Node)],
        groups: &[(GroupId, Group)],
        voters: &[NodeId],
    ) -> Result<Change, Refusal> {
        if let Some(founded) = &self.settings {
            return if founded.cluster == settings.cluster { Ok(Change::Repeated) } else { Err(Refusal::Founded) };
        }
        check_kfactor(settings.kfactor)?;
        if settings.partitions == 0 || groups.is_empty() {
            return Err(Refusal::Invalid("a cluster has a partition and a group"));
        }
        if ![1, 3, 5].contains(&voters.len()) {
            return Err(Refusal::Invalid("a cluster is founded with 1, 3 or 5 voters"));
        }
        let mut state = State { settings: Some(settings.clone()), ..State::default() };
        for (id, node) in nodes {
            state.add(*id, node)?;
        }
        for voter in voters {
            state.node(*voter)?;
            if !state.voters.insert(*voter) {
                return Err(Refusal::Voters);
            }
            state.votes.insert(*voter, 0);
        }
        for (id, group) in groups {
            check_size(&group.configuration)?;
            for member in group.configuration.members() {
                state.check_current(*member)?;
            }
            let fresh = group.phase == Phase::Active && group.burnt == group.configuration.epoch;
            if !fresh || !group.configuration.added().is_empty() || state.groups.insert(*id, group.clone()).is_some() {
                return Err(Refusal::Invalid("a group is founded once, active, with members that have everything"));
            }
        }
        if state.groups.len() > GROUPS_MAX {
            return Err(Refusal::Invalid("there are too many groups"));
        }
        assigned::check(settings, &state.nodes, &state.groups)?;
        *self = state;
        Ok(Change::Done)
    }

    fn join(&mut self, id: NodeId, key: [u8; 16], node: &Node) -> Result<Change, Refusal> {
        check_node(node)?;
        if let Some(known) = self.joined_with(key) {
            return if known == id { Ok(Change::Repeated) } else { Err(Refusal::CopiedDirectory(known)) };
        }
        if node.presence != Presence::Stopped || node.vote.is_some() {
            return Err(Refusal::Invalid("a node that joins has no process yet, and no vote"));
        }
        if id != self.next_node() {
            return Err(Refusal::NextNode(self.next_node()));
        }
        // Among what the state has to have room for.
        self.joined.insert(id, key);
        let added = self.add(id, node);
        if added.is_err() {
            self.joined.remove(&id);
        }
        added.map(|()| Change::Done)
    }

    fn add(&mut self, id: NodeId, node: &Node) -> Result<(), Refusal> {
        check_node(node)?;
        let next = self.next_node();
        if id != next {
            return Err(Refusal::NextNode(next));
        }
        if node.incarnation == Incarnation(0) {
            return Err(Refusal::Incarnation { node: id, known: Incarnation(0) });
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(Refusal::Invalid("there were too many nodes"));
        }
        self.put_node(id, node).map(drop)
    }

    fn register(&mut self, id: NodeId, expected: Incarnation, node: &Node) -> Result<Change, Refusal> {
        check_node(node)?;
        if node.presence != Presence::Running {
            return Err(Refusal::Invalid("a node that registers runs"));
        }
        let known = self.node(id)?;
        if known.presence == Presence::Retired {
            return Err(Refusal::Retired(id));
        }
        if known.incarnation == node.incarnation {
            return if known.start == node.start { Ok(Change::Repeated) } else { Err(Refusal::CopiedDirectory(id)) };
        }
        if known.incarnation != expected || node.incarnation < expected {
            return Err(Refusal::Incarnation { node: id, known: known.incarnation });
        }
        if known.kind != node.kind {
            return Err(Refusal::Invalid("a witness stays one, and a node with data too: join with a new id"));
        }
        self.put_node(id, node)
    }

    /// Nodes are most of the state, which is told in one message.
    fn put_node(&mut self, id: NodeId, node: &Node) -> Result<Change, Refusal> {
        let before = self.nodes.insert(id, node.clone());
        if self.encode().len() <= METADATA_BYTES_MAX {
            return Ok(Change::Done);
        }
        match before {
            Some(before) => self.nodes.insert(id, before),
            None => self.nodes.remove(&id),
        };
        Err(Refusal::Invalid("the metadata has as many bytes as it may: give nodes fewer and shorter addresses"))
    }

    fn leave(&mut self, id: NodeId, incarnation: Incarnation, presence: Presence) -> Result<Change, Refusal> {
        if presence == Presence::Retired {
            if self.voters.contains(&id) {
                return Err(Refusal::Invalid("a voter cannot be retired: change the voters first"));
            }
            let member = |(_, group): &(&GroupId, &Group)| group.configuration.has_node(id);
            if let Some((group, _)) = self.groups.iter().find(member) {
                return Err(Refusal::Needed { node: id, group: *group });
            }
        }
        let node = self.nodes.get_mut(&id).ok_or(Refusal::UnknownNode(id))?;
        if node.incarnation != incarnation {
            return Err(Refusal::Incarnation { node: id, known: node.incarnation });
        }
        if node.presence == presence {
            return Ok(Change::Repeated);
        }
        if node.presence == Presence::Retired {
            return Err(Refusal::Retired(id));
        }
        node.presence = presence;
        Ok(Change::Done)
    }

    fn seal(&mut self, id: GroupId, expected: Epoch, epoch: Epoch) -> Result<Change, Refusal> {
        let group = self.group_at(id, expected)?;
        check_next(id, group, epoch)?;
        group.burnt = epoch;
        group.phase = Phase::Sealing;
        Ok(Change::Done)
    }

    fn activate(&mut self, id: GroupId, next: &GroupConfiguration, parent: Mark) -> Result<Change, Refusal> {
        check_size(next)?;
        let group = self.groups.get(&id).ok_or(Refusal::UnknownGroup(id))?;
        if group.phase == Phase::Active && group.configuration == *next && group.parent == parent {
            return Ok(Change::Repeated);
        }
        if group.phase != Phase::Sealing || group.burnt != next.epoch {
            return Err(Refusal::NotSealing(id));
        }
        if !next.added().is_empty() {
            return Err(Refusal::Invalid("a seal adds nobody"));
        }
        for member in next.members() {
            if !group.configuration.has_node(member.node) && group.accepted != Some(*member) {
                return Err(Refusal::Member { node: member.node, why: "it was not in the last configuration" });
            }
            self.check_current(*member)?;
        }
        self.replace(id, next, parent);
        Ok(Change::Done)
    }

    fn configure(
        &mut self,
        id: GroupId,
        expected: Epoch,
        next: &GroupConfiguration,
        parent: Mark,
    ) -> Result<Change, Refusal> {
        check_size(next)?;
        let group = self.groups.get(&id).ok_or(Refusal::UnknownGroup(id))?;
        let last = &group.configuration;
        if group.phase == Phase::Active && *last == *next && group.parent == parent {
            return Ok(Change::Repeated);
        }
        if last.epoch != expected {
            return Err(Refusal::Epoch { group: id, known: last.epoch });
        }
        if group.phase == Phase::Sealing {
            return Err(Refusal::Sealing(id));
        }
        check_next(id, group, next.epoch)?;
        if next.leader != last.leader {
            // The leader hands over: to a member that runs, and nothing else is changed.
            if next.members() != last.members() || !next.added().is_empty() {
                return Err(Refusal::Invalid("a leader hands over to a member, and leaves the members as they are"));
            }
            self.check_current(next.leader)?;
        }
        for member in next.members() {
            let added = next.added().contains(&member.node);
            if added {
                self.check_current(*member)?;
            } else if !last.has(*member) {
                return Err(Refusal::Member { node: member.node, why: "it is new, and not said to be added" });
            }
        }
        self.replace(id, next, parent);
        Ok(Change::Done)
    }

    fn accept_loss(&mut self, id: GroupId, expected: Epoch, sealed: Epoch, member: Member) -> Result<Change, Refusal> {
        self.check_current(member)?;
        let group = self.group_at(id, expected)?;
        if group.phase != Phase::Sealing || group.burnt != sealed {
            return Err(Refusal::NotSealing(id));
        }
        if group.accepted.replace(member) == Some(member) {
            return Ok(Change::Repeated);
        }
        Ok(Change::Done)
    }

    fn replace(&mut self, id: GroupId, next: &GroupConfiguration, parent: Mark) {
        let configuration = next.clone();
        let burnt = next.epoch;
        let known = self.groups.get(&id);
        // A member of the last configuration may lead because of what it has kept: that is no less
        // of a loss.
        let by_loss = known.is_some_and(|known| known.accepted == Some(next.leader));
        let loss = if by_loss { Some((next.epoch, next.leader.node)) } else { known.and_then(|known| known.loss) };
        let assignment = known.and_then(|known| known.assignment.clone());
        // What it lacks, others may have in their copies of replicated tables.
        let unequal = assignment.is_some() && (by_loss || known.is_some_and(|known| known.unequal));
        let phase = Phase::Active;
        let group = Group { configuration, parent, burnt, phase, accepted: None, loss, unequal, assignment };
        self.groups.insert(id, group);
    }

    /// The group's copies of replicated tables are those of the other groups again, since the loss
    /// with which that epoch began.
    fn equal(&mut self, id: GroupId, loss: Epoch) -> Result<Change, Refusal> {
        let group = self.groups.get_mut(&id).ok_or(Refusal::UnknownGroup(id))?;
        if group.loss.is_none_or(|(epoch, _)| epoch != loss) {
            return Err(Refusal::Invalid("the group's last loss is another one"));
        }
        let was_unequal = std::mem::replace(&mut group.unequal, false);
        Ok(if was_unequal { Change::Done } else { Change::Repeated })
    }

    fn set(&mut self, revision: u64, kfactor: u32) -> Result<Change, Refusal> {
        check_kfactor(kfactor)?;
        let settings = self.settings.as_mut().ok_or(Refusal::NotFounded)?;
        if settings.revision != revision {
            return Err(Refusal::Revision(settings.revision));
        }
        settings.revision = next_revision(revision)?;
        settings.kfactor = kfactor;
        Ok(Change::Done)
    }

    fn pause(&mut self, revision: u64, paused: bool) -> Result<Change, Refusal> {
        let settings = self.settings.as_mut().ok_or(Refusal::NotFounded)?;
        if settings.revision != revision {
            return Err(Refusal::Revision(settings.revision));
        }
        // Even if nothing changes: an earlier question that is still under way then comes too late.
        settings.revision = next_revision(revision)?;
        settings.paused = paused;
        Ok(Change::Done)
    }

    fn change_voters(&mut self, expected: &[NodeId], voters: &[NodeId], number: u32) -> Result<Change, Refusal> {
        let set = |nodes: &[NodeId]| nodes.iter().copied().collect::<BTreeSet<_>>();
        let next = set(voters);
        if next == self.voters {
            return Ok(Change::Repeated);
        }
        let changed: Vec<NodeId> = next.symmetric_difference(&self.voters).copied().collect();
        let [changed] = changed[..] else { return Err(Refusal::Voters) };
        if set(expected) != self.voters || next.len() != voters.len() || next.len() > VOTERS_MAX {
            return Err(Refusal::Voters);
        }
        if next.is_empty() {
            return Err(Refusal::Invalid("the metadata has a voter"));
        }
        let last = self.votes.get(&changed).copied();
        if self.voters.contains(&changed) {
            if last != Some(number) {
                return Err(Refusal::Vote(changed));
            }
        } else {
            let node = self.node(changed)?;
            if node.presence != Presence::Running {
                return Err(Refusal::Invalid("a node that becomes a voter runs"));
            }
            // A vote that was taken away, or lost, may have promised what no node knows.
            if node.vote != Some(number) || last.is_some_and(|last| number <= last) {
                return Err(Refusal::Vote(changed));
            }
            self.votes.insert(changed, number);
        }
        self.voters = next;
        Ok(Change::Done)
    }

    fn node(&self, id: NodeId) -> Result<&Node, Refusal> {
        self.nodes.get(&id).ok_or(Refusal::UnknownNode(id))
    }

    fn group_at(&mut self, id: GroupId, expected: Epoch) -> Result<&mut Group, Refusal> {
        let group = self.groups.get_mut(&id).ok_or(Refusal::UnknownGroup(id))?;
        if group.configuration.epoch != expected {
            return Err(Refusal::Epoch { group: id, known: group.configuration.epoch });
        }
        Ok(group)
    }

    /// The process that runs on the node now, and may keep data.
    fn check_current(&self, member: Member) -> Result<(), Refusal> {
        let node = self.node(member.node)?;
        let why = match (node.presence, node.kind) {
            (Presence::Retired, _) => "it is retired",
            (Presence::Stopped, _) => "it has stopped",
            (Presence::Running, Kind::Witness) => "it is a witness, without data",
            (Presence::Running, Kind::Data) if node.incarnation != member.incarnation => "it was started again",
            (Presence::Running, Kind::Data) => return Ok(()),
        };
        Err(Refusal::Member { node: member.node, why })
    }
}

fn check_node(node: &Node) -> Result<(), Refusal> {
    let texts = node.addresses.iter().chain([&node.release]).chain(&node.rack);
    let texts_fit = texts.into_iter().all(|text| !text.is_empty() && text.len() <= TEXT_BYTES_MAX);
    if node.addresses.is_empty() || node.addresses.len() > ADDRESSES_MAX || !texts_fit {
        return Err(Refusal::Invalid("a node has a release and one to 8 addresses, of 255 bytes at most"));
    }
    Ok(())
}

fn check_kfactor(kfactor: u32) -> Result<(), Refusal> {
    // A member more while one is exchanged for another.
    if (kfactor as usize) + 1 < MEMBERS_MAX { Ok(()) } else { Err(Refusal::Invalid("the k-factor is 6 at most")) }
}

fn check_size(configuration: &GroupConfiguration) -> Result<(), Refusal> {
    if configuration.members().len() <= MEMBERS_MAX {
        Ok(())
    } else {
        Err(Refusal::Invalid("a group has 8 members at most"))
    }
}

fn next_revision(revision: u64) -> Result<u64, Refusal> {
    revision.checked_add(1).ok_or(Refusal::Invalid("the settings were changed too often"))
}

fn check_next(id: GroupId, group: &Group, epoch: Epoch) -> Result<(), Refusal> {
    let next = group.burnt.0.checked_add(1).ok_or(Refusal::Invalid("the group's epochs are used up"))?;
    if epoch == Epoch(next) { Ok(()) } else { Err(Refusal::NextEpoch { group: id, next: Epoch(next) }) }
}
