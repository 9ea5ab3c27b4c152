//! What stands around a group on a node: what it sends leaves at once, everything else becomes a
//! cause of work, since nothing may be done under the group's lock.

use crate::cause::Cause;
use crossbeam_channel::Sender;
use ferrite_base::{GroupId, NodeId};
use ferrite_group::{GroupEvent, GroupHost, SharedEntry, Urgency};
use std::sync::Arc;

/// The way to other nodes. Takes a message, or loses it; never waits.
pub trait Post: Send + Sync {
    fn send(&self, to: NodeId, urgency: Urgency, message: Vec<u8>);
}

pub struct Host {
    causes: Sender<Cause>,
    post: Arc<dyn Post>,
}

impl Host {
    pub fn new(causes: Sender<Cause>, post: Arc<dyn Post>) -> Host {
        Host { causes, post }
    }

    /// A node that has ended does nothing more.
    fn cause(&self, cause: Cause) {
        let _ = self.causes.send(cause);
    }
}

impl GroupHost for Host {
    fn send(&self, to: NodeId, urgency: Urgency, message: Vec<u8>) {
        self.post.send(to, urgency, message);
    }

    fn committed(&self, group: GroupId, entries: Vec<SharedEntry>) {
        self.cause(Cause::Committed(group, entries));
    }

    fn event(&self, group: GroupId, event: GroupEvent) {
        self.cause(Cause::Event(group, event));
    }
}
