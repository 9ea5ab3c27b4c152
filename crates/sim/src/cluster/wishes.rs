//! What a process wants done outside, until it is done.

use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_cluster::{MessageKind, NotHandedOver, Transport};
use ferrite_group::{FromLog, Urgency};
use ferrite_notice::Notice;
use ferrite_partition::applier::Applier;
use std::sync::{Arc, Mutex, PoisonError};

/// What a process wants done outside, in order.
pub enum Wish {
    /// The whole message.
    Send(NodeId, Urgency, Vec<u8>),
    /// A message about lots, by the connection for these.
    Lot(NodeId, Vec<u8>),
    Run(GroupId, Box<Applier>),
    FromLog(GroupId, FromLog),
    /// Entries for that node cannot be had from the log.
    NotSupplied(GroupId, NodeId, String),
    Serves(GroupId, Option<Epoch>),
    /// What became of a hand-over.
    HandedOver(GroupId, Result<NodeId, NotHandedOver>),
    MakeAnew(GroupId, String, Option<GroupId>),
    End(String),
    Notice(Notice),
}

/// Clones are the same.
#[derive(Clone, Default)]
pub struct Wishes(Arc<Mutex<Vec<Wish>>>);

impl Wishes {
    pub fn push(&self, wish: Wish) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(wish);
    }

    pub fn drain(&self) -> Vec<Wish> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wishes {
    pub fn push_message(&self, to: NodeId, message: Vec<u8>) {
        self.push(Wish::Send(to, Urgency::Entries, message));
    }
}

impl Transport for Wishes {
    fn send(&self, to: NodeId, urgency: Urgency, message: Vec<u8>) {
        self.push(Wish::Send(to, urgency, MessageKind::Group.encode(message)));
    }
}
