//! Transactions over several groups, as a node has them: the sequencer's thread, which orders them
//! where this node leads the first group, and the way of its messages and of the agents'
//! (docs/decisions/0125-sequencer-of-a-node.md).
//!
//! Owns the queue of calls over several groups and the connections for lots. Promises one answer to
//! each call, and that what is under way on a connection that broke is never delivered later. Does
//! not know what calls do, nor how a group runs its part.

mod call;
mod directory;
mod frame;
mod hub;
mod live;
mod merge;
mod sequencing;
mod thread;

#[cfg(test)]
mod tests;

use crate::links::Links;
use crate::peer_dispatcher::PeerDispatcher;
use ferrite_meta::State;
use ferrite_peer::Lane;
use std::sync::Arc;

pub use call::{GroupsCall, LookUpAgain};
pub use frame::Led;
pub use hub::{AgentInboxes, LotHub, LotTransport, SequencerNotice};
pub use merge::MergeRule;
pub use sequencing::Sequencing;
pub use thread::{SequencerThread, lot_time};

/// Messages about lots are exchanged with the other nodes from now on. `state`: of the cluster.
pub(crate) fn take_part(dispatcher: &PeerDispatcher, links: &Links, state: &State, hub: Arc<LotHub>) {
    dispatcher.take_lots(hub);
    let peers = links.peers();
    // A connection of before has not been heard of: it is opened anew.
    state.nodes().keys().for_each(|node| peers.break_lane(*node, Lane::Lots));
    peers.open_lane(Lane::Lots);
}
