//! What the state consists of and commands name, as values and as bytes.

use crate::bytes::{Malformed, Reader, put_list, put_text, put_u32, put_u64};
use crate::{ADDRESSES_MAX, MEMBERS_MAX, VOTERS_MAX};
use ferrite_base::limits::PARTITIONS_MAX;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, PartitionId};
use ferrite_replica::group::{GroupConfiguration, Mark, Member};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Drawn once, when the cluster is founded.
    pub cluster: [u8; 16],
    /// Counted up by each change.
    pub revision: u64,
    /// Copies of a partition besides the first.
    pub kfactor: u32,
    pub partitions: u32,
    /// An operator has paused the database: clients may read, and only administrators write.
    pub paused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Data,
    /// Votes, and keeps no group.
    Witness,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// As far as it has said itself; whether it lives is for its lease to say.
    Running,
    /// It said that it stops.
    Stopped,
    /// Never asked again.
    Retired,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The last that registered.
    pub incarnation: Incarnation,
    /// Drawn at that start. Another with the same incarnation is a copied directory.
    pub start: [u8; 16],
    pub kind: Kind,
    pub presence: Presence,
    /// The number of the vote that its directory has; None: it has none, or has lost it.
    pub vote: Option<u32>,
    pub release: String,
    pub addresses: Vec<String>,
    /// What fails together with other nodes of the same name. None: the node alone.
    pub rack: Option<String>,
}

impl Node {
    /// Where the other nodes reach it. One process at a time listens there.
    pub fn host(&self) -> Option<&str> {
        self.addresses.first().map(String::as_str)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Active,
    /// `burnt` is the epoch that candidates are asked to promise.
    Sealing,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The last one, also while it is sealed.
    pub configuration: GroupConfiguration,
    /// The end of the stream that the configuration continues.
    pub parent: Mark,
    /// The highest epoch that was ever named for this group. The next one is free.
    pub burnt: Epoch,
    pub phase: Phase,
    /// While it is sealed: an operator has said that this process suffices.
    pub accepted: Option<Member>,
    /// The last epoch that began so, and whose leader had what was kept.
    pub loss: Option<(Epoch, NodeId)>,
    /// Since that loss, it is not known that its copies of replicated tables are those of the other
    /// groups. Only in a cluster of several groups.
    pub unequal: bool,
    /// None: the one group of its cluster, with all partitions, on whichever nodes there are.
    pub assignment: Option<Assignment>,
}

/// What a group has and where it is to be, in a cluster of several groups. Not where it is: that
/// is for its configuration to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// In ascending order.
    pub partitions: Vec<PartitionId>,
    /// The nodes that are to keep it: the one that is to lead it, then the one that is next.
    pub place: Vec<NodeId>,
}

impl Group {
    /// The nodes that are to keep it; none are named where any may.
    pub fn place(&self) -> &[NodeId] {
        self.assignment.as_ref().map_or(&[], |assignment| &assignment.place)
    }

    /// The node that is to lead it, if its copy is complete.
    pub fn lead(&self) -> Option<NodeId> {
        self.place().first().copied()
    }
}

/// Added to a kind of node, or to a phase, that is followed by what only clusters of several groups
/// have: others are written as before there were any.
const WITH_MORE: u8 = 2;
/// Added to the phase of one of several groups that may be unequal to others.
const UNEQUAL: u8 = 4;

/// All but whether the database is paused: it is not when the cluster is founded.
pub(crate) fn put_settings(out: &mut Vec<u8>, settings: &Settings) {
    out.extend_from_slice(&settings.cluster);
    put_u64(out, settings.revision);
    put_u32(out, settings.kfactor);
    put_u32(out, settings.partitions);
}

pub(crate) fn take_settings(rest: &mut Reader<'_>) -> Result<Settings, Malformed> {
    let cluster = rest.array()?;
    let revision = rest.u64()?;
    let kfactor = rest.u32()?;
    Ok(Settings { cluster, revision, kfactor, partitions: rest.u32()?, paused: false })
}

pub(crate) fn put_node(out: &mut Vec<u8>, id: NodeId, node: &Node) {
    put_u32(out, id.0);
    put_u64(out, node.incarnation.0);
    out.extend_from_slice(&node.start);
    let kind = match node.kind {
        Kind::Data => 0,
        Kind::Witness => 1,
    };
    out.push(if node.rack.is_some() { kind | WITH_MORE } else { kind });
    out.push(match node.presence {
        Presence::Running => 0,
        Presence::Stopped => 1,
        Presence::Retired => 2,
    });
    out.push(u8::from(node.vote.is_some()));
    put_u32(out, node.vote.unwrap_or_default());
    put_text(out, &node.release);
    put_list(out, &node.addresses, |out, address| put_text(out, address));
    if let Some(rack) = &node.rack {
        put_text(out, rack);
    }
}

pub(crate) fn take_node(rest: &mut Reader<'_>) -> Result<(NodeId, Node), Malformed> {
    let id = NodeId(rest.u32()?);
    let incarnation = Incarnation(rest.u64()?);
    let start = rest.array()?;
    let said = rest.u8()?;
    let kind = match said & !WITH_MORE {
        0 => Kind::Data,
        1 => Kind::Witness,
        _ => return Err(Malformed("a kind of node is unknown")),
    };
    let presence = match rest.u8()? {
        0 => Presence::Running,
        1 => Presence::Stopped,
        2 => Presence::Retired,
        _ => return Err(Malformed("a node's presence is unknown")),
    };
    let vote = match (rest.u8()?, rest.u32()?) {
        (0, 0) => None,
        (1, number) => Some(number),
        _ => return Err(Malformed("it is not said whether a node votes")),
    };
    let release = rest.short_text()?.to_string();
    let addresses = rest.list(ADDRESSES_MAX, |rest| rest.short_text().map(str::to_string))?;
    let rack = if said & WITH_MORE != 0 { Some(rest.short_text()?.to_string()) } else { None };
    Ok((id, Node { incarnation, start, kind, presence, vote, release, addresses, rack }))
}

/// The epoch, then the body of its first entry with its length.
pub(crate) fn put_configuration(out: &mut Vec<u8>, configuration: &GroupConfiguration, parent: Mark) {
    put_u64(out, configuration.epoch.0);
    let body = configuration.encode(parent);
    put_u32(out, u32::try_from(body.len()).expect("a configuration is short"));
    out.extend_from_slice(&body);
}

pub(crate) fn take_configuration(rest: &mut Reader<'_>) -> Result<(GroupConfiguration, Mark), Malformed> {
    let epoch = Epoch(rest.u64()?);
    let length = rest.u32()?;
    let body = rest.bytes(length as usize)?;
    GroupConfiguration::decode(epoch, body).ok_or(Malformed("a configuration does not hold together"))
}

pub(crate) fn put_group(out: &mut Vec<u8>, id: GroupId, group: &Group) {
    put_u32(out, id.0);
    put_u64(out, group.burnt.0);
    let phase = match group.phase {
        Phase::Active => 0,
        Phase::Sealing => 1,
    };
    assert!(group.assignment.is_some() || !group.unequal, "one group is equal to itself");
    let unequal = if group.unequal { UNEQUAL } else { 0 };
    out.push(unequal | if group.assignment.is_some() { phase | WITH_MORE } else { phase });
    put_configuration(out, &group.configuration, group.parent);
    out.push(u8::from(group.accepted.is_some()));
    if let Some(member) = group.accepted {
        put_member(out, member);
    }
    let (epoch, node) = group.loss.unwrap_or_default();
    put_u64(out, epoch.0);
    put_u32(out, node.0);
    if let Some(Assignment { partitions, place }) = &group.assignment {
        put_list(out, partitions, |out, partition| put_u32(out, partition.0));
        put_list(out, place, |out, node| put_u32(out, node.0));
    }
}

pub(crate) fn put_member(out: &mut Vec<u8>, member: Member) {
    put_u32(out, member.node.0);
    put_u64(out, member.incarnation.0);
}

pub(crate) fn take_member(rest: &mut Reader<'_>) -> Result<Member, Malformed> {
    Ok(Member { node: NodeId(rest.u32()?), incarnation: Incarnation(rest.u64()?) })
}

pub(crate) fn take_group(rest: &mut Reader<'_>) -> Result<(GroupId, Group), Malformed> {
    let id = GroupId(rest.u32()?);
    let burnt = Epoch(rest.u64()?);
    let said = rest.u8()?;
    let unequal = said & UNEQUAL != 0;
    let phase = match said & !WITH_MORE & !UNEQUAL {
        0 => Phase::Active,
        1 => Phase::Sealing,
        _ => return Err(Malformed("a group's phase is unknown")),
    };
    let (configuration, parent) = take_configuration(rest)?;
    if (burnt < configuration.epoch) || (phase == Phase::Sealing && burnt == configuration.epoch) {
        return Err(Malformed("a group's epoch was not used yet"));
    }
    let accepted = match rest.u8()? {
        0 => None,
        1 if phase == Phase::Sealing => Some(take_member(rest)?),
        _ => return Err(Malformed("it is not said whether loss is accepted")),
    };
    let loss = (Epoch(rest.u64()?), NodeId(rest.u32()?));
    let loss = (loss.0 != Epoch(0)).then_some(loss);
    if unequal && (loss.is_none() || said & WITH_MORE == 0) {
        return Err(Malformed("a group is unequal to others without a loss"));
    }
    let assignment = if said & WITH_MORE != 0 { Some(take_assignment(rest)?) } else { None };
    Ok((id, Group { configuration, parent, burnt, phase, accepted, loss, unequal, assignment }))
}

fn take_assignment(rest: &mut Reader<'_>) -> Result<Assignment, Malformed> {
    let partitions = rest.list(PARTITIONS_MAX, |rest| rest.u32().map(PartitionId))?;
    let place = rest.list(MEMBERS_MAX, |rest| rest.u32().map(NodeId))?;
    Ok(Assignment { partitions, place })
}

pub(crate) fn take_voters(rest: &mut Reader<'_>) -> Result<Vec<NodeId>, Malformed> {
    rest.list(VOTERS_MAX, |rest| rest.u32().map(NodeId))
}
