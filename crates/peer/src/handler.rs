//! The user of the connections, and what one node may take of others.

use crate::frame::Lane;
use ferrite_base::{Incarnation, NodeId, limits};
use ferrite_notice::Notice;
use std::time::Duration;

/// What the user of the connections hears, on the connections' threads. Must be quick: a lane's
/// thread waits.
pub trait Handler: Send + Sync + 'static {
    fn connected(&self, node: NodeId, incarnation: Incarnation, lane: Lane);
    fn deliver(&self, node: NodeId, incarnation: Incarnation, lane: Lane, message: Vec<u8>) -> Room;
    /// Messages that were not answered may be lost.
    fn lost(&self, node: NodeId, lane: Lane);
    /// The answer to a process that may belong to no cluster; None: the connection is closed.
    fn inquired(&self, question: Vec<u8>) -> Option<Vec<u8>>;
    /// For the operator. Peers can cause the same one repeatedly: the handler limits how often it
    /// is shown.
    fn notice(&self, notice: Notice);
}

/// Whether there is room for more from a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    More,
    /// Nothing more is read until [`Peers::resume`]: the sender waits in turn.
    Wait,
}

/// What one node may take of another.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one message, by lane.
    pub message_bytes_max: [usize; Lane::ALL.len()],
    /// Bytes that wait to be sent on one lane to one node.
    pub outbox_bytes_max: [usize; Lane::ALL.len()],
    /// The longest time of a handshake.
    pub handshake_time_max: Duration,
    /// A node that has been silent for this long is dialed anew: what was sent to it is lost.
    pub silence_time_max: Duration,
    /// Connections that have not said who they are, or are of no node. A new one replaces the
    /// oldest, of those that are not from a node's address if there are any.
    pub strangers_max: usize,
    /// Between two attempts to reach a node: at first, and at most.
    pub redial: (Duration, Duration),
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message_bytes_max: [
                limits::PEER_CONTROL_BYTES_MAX,
                limits::PEER_MESSAGE_BYTES_MAX,
                64 << 20,
                2 << 20,
                limits::LOT_MESSAGE_BYTES_MAX,
            ],
            outbox_bytes_max: [
                4 << 20,
                limits::PEER_OUTBOX_BYTES_MAX,
                limits::PEER_OUTBOX_BYTES_MAX,
                8 << 20,
                2 * limits::LOT_MESSAGE_BYTES_MAX,
            ],
            handshake_time_max: Duration::from_secs(limits::PEER_HANDSHAKE_SECONDS_MAX),
            silence_time_max: Duration::from_secs(limits::PEER_SILENT_SECONDS_MAX),
            strangers_max: limits::PEER_STRANGERS_MAX,
            redial: (Duration::from_millis(50), Duration::from_secs(1)),
        }
    }
}
