//! What comes in at the cluster's port: questions of nodes that are founding, and messages of this
//! cluster's nodes, each to whoever it is for. Runs on the connections' threads, so nothing here
//! waits.
//!
//! Promises that queues which peers fill are bounded: what there is no room for is lost, as on a
//! broken line, or is not read until there is.

use crate::cluster::forming::Founders;
use crate::cluster::notices::Notices;
use crossbeam_channel::Sender;
use ferrite_base::{Incarnation, NodeId};
use ferrite_cluster::{Cause, Groups, Letter};
use ferrite_partition::applier::CopyStart;
use ferrite_peer::{Handler, Lane, Room};
use ferrite_replica::group::Member;
use std::sync::{Arc, OnceLock};

/// For the metadata's thread.
pub enum MetadataNotice {
    /// What this node asks the voters.
    Ask(ferrite_meta::Ask),
    Lost(NodeId),
    Stop,
}

/// For the thread of transfers.
pub enum TransferNotice {
    /// The node follows, and needs a snapshot of what this leader has.
    Wanted(NodeId),
    /// This node leads no more.
    Deposed,
    /// The snapshot that was asked for is there, or why not.
    Taken(Result<u64, String>),
    /// Another node's snapshot is this node's own, or what became of it.
    Installed(Installed),
    Stop,
}

/// What became of another node's snapshot.
pub enum Installed {
    Done(Box<CopyStart>),
    /// Nothing has changed, and the files are of no use.
    GivenUp(String),
    /// The node must end.
    Failed(String),
}

/// What came from a node's process, by which node.
pub type Message = (NodeId, Vec<u8>);

/// For the thread that reads the log for others.
pub enum SupplierNotice {
    Wanted(ferrite_group::FromLog),
    Lost(NodeId),
    Stop,
}

/// Messages of other nodes that wait for the metadata's thread.
pub const METADATA_MESSAGES_MAX: usize = 1_024;
/// Messages that wait for the thread of transfers, each with a mebibyte at most.
pub const TRANSFER_MESSAGES_MAX: usize = 64;

/// Who messages are for. There from when this node knows which it is.
pub struct Inside {
    pub groups: Groups,
    pub causes: Sender<Cause>,
    pub metadata: Sender<MetadataNotice>,
    pub metadata_messages: Sender<Message>,
    /// None: a witness.
    pub data: Option<DataInboxes>,
}

#[derive(Clone)]
pub struct DataInboxes {
    pub transfer: Sender<TransferNotice>,
    pub transfer_messages: Sender<Message>,
    pub supplier: Sender<SupplierNotice>,
}

pub struct Door {
    founders: Arc<Founders>,
    inside: OnceLock<Inside>,
    notices: Notices,
}

impl Door {
    pub fn new(founders: Arc<Founders>) -> Door {
        Door { founders, inside: OnceLock::new(), notices: Notices::default() }
    }

    /// Messages are taken from here on.
    ///
    /// # Panics
    /// When that is said twice.
    pub fn open(&self, inside: Inside) {
        assert!(self.inside.set(inside).is_ok(), "the door is opened once");
    }

    fn taken(inside: &Inside, from: Member, message: &[u8]) -> Result<(), String> {
        let (letter, body) = Letter::decode(message).map_err(|error| error.to_string())?;
        match letter {
            Letter::Group => inside.groups.received(from, body).map_err(|error| error.to_string())?,
            // Whoever said it says it again.
            Letter::Metadata => drop(inside.metadata_messages.try_send((from.node, body.to_vec()))),
            Letter::Transfer => {
                if let Some(data) = &inside.data {
                    drop(data.transfer_messages.try_send((from.node, body.to_vec())));
                }
            }
            Letter::Calls | Letter::Answers => {
                return Err("calls of other nodes' clients are not taken here".to_owned());
            }
        }
        Ok(())
    }
}

impl Handler for Door {
    fn connected(&self, _: NodeId, _: Incarnation, _: Lane) {}

    fn received(&self, node: NodeId, incarnation: Incarnation, _: Lane, message: Vec<u8>) -> Room {
        let Some(inside) = self.inside.get() else { return Room::More };
        if let Err(error) = Door::taken(inside, Member { node, incarnation }, &message) {
            self.notices.say(&format!("node {node}: {error}"));
        }
        Room::More
    }

    fn lost(&self, node: NodeId, lane: Lane) {
        let Some(inside) = self.inside.get() else { return };
        match lane {
            // A node that has ended does not mind.
            Lane::Control => {
                let _ = inside.causes.send(Cause::Lost(node));
                let _ = inside.metadata.send(MetadataNotice::Lost(node));
            }
            Lane::Entries => {
                let _ = inside.causes.send(Cause::Lost(node));
                if let Some(data) = &inside.data {
                    let _ = data.supplier.send(SupplierNotice::Lost(node));
                }
            }
            Lane::Calls | Lane::Transfer => {}
        }
    }

    fn inquired(&self, question: Vec<u8>) -> Option<Vec<u8>> {
        self.founders.answer(&question)
    }

    fn notice(&self, line: &str) {
        self.notices.say(line);
    }
}
