//! What other threads ask of the node's thread.

use crate::loss::AcceptLoss;
use crate::pausing::Pause;
use crate::remove::RemoveNode;
use crossbeam_channel::Sender;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_cluster::NotHandedOver;
use ferrite_partition::applier::{CopyStart, Intake};
use std::time::Duration;

/// What the node's thread is asked for by other threads.
pub enum Order {
    Intake(GroupId, Sender<CopyNow>),
    /// Another node's snapshot has taken the place of what was here.
    Replaced(GroupId, Box<CopyStart>),
    /// Another node is to lead.
    HandOver(HandOver),
    /// An operator accepts that a node leads with what it has.
    AcceptLoss(AcceptLoss),
    /// An operator says that a node is lost for good.
    RemoveNode(RemoveNode),
    /// An operator pauses the database, or resumes it.
    Pause(Pause),
    /// The group's copies of replicated tables are those of the other groups, since the loss with
    /// which that epoch began.
    Equal {
        group: GroupId,
        loss: Epoch,
    },
    /// Other nodes have asked for the procedures.
    AnswerProcedures,
    /// A node has connected, which hears this node's health at once.
    SayHealth,
    /// The process ends: the others hear that, and none of them hands over to it.
    Ends,
    /// The node does nothing more for its groups; then the thread ends.
    Goodbye,
}

/// What this node's copy of a group is at the moment.
pub struct CopyNow {
    /// The way to its applier, if it has one.
    pub intake: Option<Intake>,
    /// Whether the node is a copy, though its applier may have ended for another node's snapshot.
    pub is_copy: bool,
    /// How many appliers of the group have begun.
    pub appliers: u64,
}

/// The party that wants this node to hand over, and hears the outcome.
pub struct HandOver {
    /// None: all groups that this node leads.
    pub group: Option<GroupId>,
    pub to: Option<NodeId>,
    /// A call asks, and is answered at once: it is not waited for.
    pub by_call: bool,
    /// The node ends, and waits this long for a node that could lead.
    pub patience: Option<Duration>,
    pub told: Box<dyn FnOnce(Result<NodeId, NotHandedOver>) + Send>,
}
