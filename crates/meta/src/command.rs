//! What changes the metadata, as values and as bytes.
//!
//! Bytes: format, the kind's name, its fields. The name is written in full, so that a release that
//! does not know a kind can name it.

use crate::bytes::{Malformed, Reader, put_list, put_text, put_u32, put_u64};
use crate::parts::{
    Group, Node, Settings, put_configuration, put_group, put_member, put_node, put_settings, take_configuration,
    take_group, take_member, take_node, take_settings, take_voters,
};
use crate::{GROUPS_MAX, NODES_MAX};
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_replica::group::{GroupConfiguration, Mark, Member};
use std::fmt;

/// Of commands.
pub const FORMAT: u8 = 1;
/// Of those that name a rack or a group's place: a release that does not know it cannot carry them
/// out.
pub const FORMAT_SEVERAL_GROUPS: u8 = 2;

/// Each is a comparison and a change: it names what it was made from, and is refused if that no
/// longer holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// The first one; refused by a state that has a cluster.
    Found { settings: Settings, nodes: Vec<(NodeId, Node)>, groups: Vec<(GroupId, Group)>, voters: Vec<NodeId> },
    /// A node's process started. `expected`: the incarnation that is known; 0 for a new node, whose
    /// id is the next one.
    Register { id: NodeId, expected: Incarnation, node: Node },
    /// A node that the cluster was not founded with, before its first process registers. `key`: its
    /// declaration's, by which it is recognized when it asks twice.
    Join { id: NodeId, key: [u8; 16], node: Node },
    /// A node's process ends, and acts no more.
    Goodbye { node: NodeId, incarnation: Incarnation },
    /// What the node promised and voted is lost: nothing is asked of it again.
    Retire { node: NodeId, incarnation: Incarnation },
    /// Burns `epoch`, and makes the members of `expected` the candidates for it.
    Seal { group: GroupId, expected: Epoch, epoch: Epoch },
    /// Ends the seal of the configuration's epoch.
    Activate { group: GroupId, configuration: GroupConfiguration, parent: Mark },
    /// The leader's own change of `expected`.
    Configure { group: GroupId, expected: Epoch, configuration: GroupConfiguration, parent: Mark },
    /// An operator's: this process suffices to lead the group, whose seal is that of `sealed` and
    /// whose last configuration is `expected`, though it may lack what others have acknowledged.
    AcceptLoss { group: GroupId, expected: Epoch, sealed: Epoch, member: Member },
    /// The group's copies of replicated tables are those of the other groups, since the loss with
    /// which that epoch began.
    Equal { group: GroupId, loss: Epoch },
    /// `revision`: the settings' last.
    Settings { revision: u64, kfactor: u32 },
    /// An operator pauses the database, or resumes it. `revision`: the settings' last.
    Pause { revision: u64, paused: bool },
    /// `expected`: the current voters. One node more or less, whose vote has this number.
    Voters { expected: Vec<NodeId>, voters: Vec<NodeId>, number: u32 },
}

/// Why bytes are not a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// Of a later release.
    Unknown {
        kind: String,
        format: u8,
    },
    Malformed(Malformed),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Unknown { kind, format } => write!(
                f,
                "the metadata's command '{}' (format {format}) is not known to this release, which knows formats \
                 up to {FORMAT_SEVERAL_GROUPS}: start the release that wrote it, or a later one",
                kind.escape_debug()
            ),
            CommandError::Malformed(malformed) => malformed.fmt(f),
        }
    }
}

impl std::error::Error for CommandError {}

impl From<Malformed> for CommandError {
    fn from(malformed: Malformed) -> CommandError {
        CommandError::Malformed(malformed)
    }
}

impl Command {
    pub fn kind(&self) -> &'static str {
        match self {
            Command::Found { .. } => "found",
            Command::Register { .. } => "register",
            Command::Join { .. } => "join",
            Command::Goodbye { .. } => "goodbye",
            Command::Retire { .. } => "retire",
            Command::Seal { .. } => "seal",
            Command::Activate { .. } => "activate",
            Command::Configure { .. } => "configure",
            Command::AcceptLoss { .. } => "accept loss",
            Command::Equal { .. } => "equal",
            Command::Settings { .. } => "settings",
            Command::Pause { .. } => "pause",
            Command::Voters { .. } => "voters",
        }
    }

    fn format(&self) -> u8 {
        let is_of_several_groups = match self {
            Command::Found { nodes, groups, .. } => {
                nodes.iter().any(|(_, node)| node.rack.is_some())
                    || groups.iter().any(|(_, group)| group.assignment.is_some())
            }
            Command::Register { node, .. } | Command::Join { node, .. } => node.rack.is_some(),
            Command::Equal { .. } => true,
            _ => false,
        };
        if is_of_several_groups { FORMAT_SEVERAL_GROUPS } else { FORMAT }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.format()];
        let out = &mut bytes;
        put_text(out, self.kind());
        match self {
            Command::Found { settings, nodes, groups, voters } => {
                put_settings(out, settings);
                put_list(out, nodes, |out, (id, node)| put_node(out, *id, node));
                put_list(out, groups, |out, (id, group)| put_group(out, *id, group));
                put_list(out, voters, |out, node| put_u32(out, node.0));
            }
            Command::Register { id, expected, node } => {
                put_u64(out, expected.0);
                put_node(out, *id, node);
            }
            Command::Join { id, key, node } => {
                out.extend_from_slice(key);
                put_node(out, *id, node);
            }
            Command::Goodbye { node, incarnation } | Command::Retire { node, incarnation } => {
                put_u32(out, node.0);
                put_u64(out, incarnation.0);
            }
            Command::Seal { group, expected, epoch } => {
                put_u32(out, group.0);
                put_u64(out, expected.0);
                put_u64(out, epoch.0);
            }
            Command::Activate { group, configuration, parent } => {
                put_u32(out, group.0);
                put_configuration(out, configuration, *parent);
            }
            Command::Configure { group, expected, configuration, parent } => {
                put_u32(out, group.0);
                put_u64(out, expected.0);
                put_configuration(out, configuration, *parent);
            }
            Command::AcceptLoss { group, expected, sealed, member } => {
                put_u32(out, group.0);
                put_u64(out, expected.0);
                put_u64(out, sealed.0);
                put_member(out, *member);
            }
            Command::Equal { group, loss } => {
                put_u32(out, group.0);
                put_u64(out, loss.0);
            }
            Command::Settings { revision, kfactor } => {
                put_u64(out, *revision);
                put_u32(out, *kfactor);
            }
            Command::Pause { revision, paused } => {
                put_u64(out, *revision);
                out.push(u8::from(*paused));
            }
            Command::Voters { expected, voters, number } => {
                put_list(out, expected, |out, node| put_u32(out, node.0));
                put_list(out, voters, |out, node| put_u32(out, node.0));
                put_u32(out, *number);
            }
        }
        bytes
    }

    /// What [`Command::encode`] has written.
    pub fn decode(bytes: &[u8]) -> Result<Command, CommandError> {
        let mut rest = Reader::new(bytes);
        let format = rest.u8()?;
        let kind = rest.short_text()?;
        let unknown = || CommandError::Unknown { kind: kind.to_string(), format };
        if ![FORMAT, FORMAT_SEVERAL_GROUPS].contains(&format) {
            return Err(unknown());
        }
        let command = match kind {
            "found" => Command::Found {
                settings: take_settings(&mut rest)?,
                nodes: rest.list(NODES_MAX, take_node)?,
                groups: rest.list(GROUPS_MAX, take_group)?,
                voters: take_voters(&mut rest)?,
            },
            "register" => {
                let expected = Incarnation(rest.u64()?);
                let (id, node) = take_node(&mut rest)?;
                Command::Register { id, expected, node }
            }
            "join" => {
                let key = rest.array()?;
                let (id, node) = take_node(&mut rest)?;
                Command::Join { id, key, node }
            }
            "goodbye" => Command::Goodbye { node: NodeId(rest.u32()?), incarnation: Incarnation(rest.u64()?) },
            "retire" => Command::Retire { node: NodeId(rest.u32()?), incarnation: Incarnation(rest.u64()?) },
            "seal" => {
                Command::Seal { group: GroupId(rest.u32()?), expected: Epoch(rest.u64()?), epoch: Epoch(rest.u64()?) }
            }
            "activate" => {
                let group = GroupId(rest.u32()?);
                let (configuration, parent) = take_configuration(&mut rest)?;
                Command::Activate { group, configuration, parent }
            }
            "configure" => {
                let group = GroupId(rest.u32()?);
                let expected = Epoch(rest.u64()?);
                let (configuration, parent) = take_configuration(&mut rest)?;
                Command::Configure { group, expected, configuration, parent }
            }
            "accept loss" => Command::AcceptLoss {
                group: GroupId(rest.u32()?),
                expected: Epoch(rest.u64()?),
                sealed: Epoch(rest.u64()?),
                member: take_member(&mut rest)?,
            },
            "equal" => Command::Equal { group: GroupId(rest.u32()?), loss: Epoch(rest.u64()?) },
            "settings" => Command::Settings { revision: rest.u64()?, kfactor: rest.u32()? },
            "pause" => Command::Pause { revision: rest.u64()?, paused: rest.flag()? },
            "voters" => Command::Voters {
                expected: take_voters(&mut rest)?,
                voters: take_voters(&mut rest)?,
                number: rest.u32()?,
            },
            _ => return Err(unknown()),
        };
        rest.end()?;
        if format != command.format() {
            return Err(Malformed("a command's format is not that of what it names").into());
        }
        Ok(command)
    }
}
