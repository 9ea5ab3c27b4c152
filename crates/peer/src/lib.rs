//! Connections between the nodes of a cluster: handshake, frames, lanes (docs/format/peer.md).
//!
//! Owns the sockets of the cluster port. Promises that a message arrives whole or not at all, in
//! the order of its lane and once; that bulk never delays the control lane, which has a connection
//! and a thread of its own; that memory follows the bytes that came, never what a peer announces;
//! and that a process that is not of this cluster hears why, and so does the operator. A message
//! may be lost with its connection: the sender repeats it. Does not know what messages say.

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::cast_possible_truncation))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod frame;
mod handler;
mod handshake;
mod inquiry;
mod network;
mod outbox;
mod roster;
mod silence;

pub use frame::{FRAME_BODY_BYTES_MAX, FRAME_HEADER_BYTES, FrameError, Frames, Lane, write_message};
pub use handler::{Handler, Limits, Room};
pub use handshake::{
    ANSWER_BYTES, Answer, HELLO_BYTES, Hello, NO_CLUSTER, NONCE_BYTES, Nonce, Nonces, Refusal, VERSION,
};
pub use inquiry::{INQUIRY_BYTES_MAX, inquire};
pub use network::{Peers, start};
pub use outbox::{NotSent, Outgoing};
pub use roster::Roster;
