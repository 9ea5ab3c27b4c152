//! Why a command of the metadata did nothing, in words.

use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use std::fmt;

/// Why a command did nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    NotFounded,
    Founded,
    UnknownNode(NodeId),
    UnknownGroup(GroupId),
    /// A new node's id is the next one.
    NextNode(NodeId),
    /// The comparison failed: this is the incarnation that is known.
    Incarnation {
        node: NodeId,
        known: Incarnation,
    },
    /// The same incarnation was started twice.
    CopiedDirectory(NodeId),
    Retired(NodeId),
    /// The comparison failed: this is the group's epoch.
    Epoch {
        group: GroupId,
        known: Epoch,
    },
    /// The epoch is not the next one that is free.
    NextEpoch {
        group: GroupId,
        next: Epoch,
    },
    /// The group is sealed, and has no leader that could change it.
    Sealing(GroupId),
    NotSealing(GroupId),
    /// It may not be a member of that configuration.
    Member {
        node: NodeId,
        why: &'static str,
    },
    /// The comparison failed: this is the settings' revision.
    Revision(u64),
    /// The comparison failed, or it is not one voter more or less.
    Voters,
    /// The node's vote is another, or one that was taken from it.
    Vote(NodeId),
    /// The group's last configuration has the node: its copy may be needed.
    Needed {
        node: NodeId,
        group: GroupId,
    },
    Invalid(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotFounded => f.write_str("there is no cluster yet: found one"),
            Refusal::Founded => f.write_str("there is a cluster already"),
            Refusal::UnknownNode(node) => write!(f, "there is no node {node}"),
            Refusal::UnknownGroup(group) => write!(f, "there is no group {group}"),
            Refusal::NextNode(next) => write!(f, "a new node's id is {next}: ask again with it"),
            Refusal::Incarnation { node, known } => {
                write!(f, "node {node} is at incarnation {known}: ask again if that is yours")
            }
            Refusal::CopiedDirectory(node) => write!(
                f,
                "node {node} runs already, from a directory of which this one is a copy: start only one of the two; where the \
                 other has ended, start this one again"
            ),
            Refusal::Retired(node) => write!(f, "node {node} is retired: it is no longer part of the cluster"),
            Refusal::Epoch { group, known } => write!(f, "group {group} is at epoch {known}"),
            Refusal::NextEpoch { group, next } => write!(f, "the next epoch of group {group} is {next}"),
            Refusal::Sealing(group) => write!(f, "group {group} is sealed: its next leader changes it"),
            Refusal::NotSealing(group) => write!(f, "group {group} is not sealed at that epoch"),
            Refusal::Member { node, why } => write!(f, "node {node} cannot be a member: {why}"),
            Refusal::Revision(known) => write!(f, "the settings are at revision {known}: read them again"),
            Refusal::Voters => f.write_str("the voters are others, or more than one is changed: read them again"),
            Refusal::Vote(node) => write!(f, "node {node} has another vote: read the voters again"),
            Refusal::Needed { node, group } => {
                write!(f, "node {node} is a member of group {group}: another must take its place first")
            }
            Refusal::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refusal {}
