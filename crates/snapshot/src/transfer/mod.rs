//! A snapshot's files on their way to another node (docs/replication.md, section 3; decision 0052).
//!
//! Two state machines, [`Source`] and [`Sink`], that take messages with the time and give messages
//! back; they know no socket, clock or thread, and files only through the seam. Either may be
//! stopped at any moment and begun again: what the sink has verified stays, and the rest is sent
//! again. Promises that a snapshot which the sink says is installed is what the source had, whole
//! and durable; that no name comes from the peer, and no size is believed beyond what there is room
//! for. Does not know who may send to whom, nor when.

mod layout;
mod message;
mod sending;
mod sink;
mod source;

pub use message::{FileOffset, Refusal, TransferError, TransferId, TransferMessage, decode, encode};
pub use sending::{Sending, SendingStep};
pub use sink::{Sink, SinkProgress};
pub use source::{Source, SourceStep};
