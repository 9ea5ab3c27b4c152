//! Calls of clients that are connected to another node than the one that leads their partition's
//! group, on their way there and back (docs/decisions/0059-forwarding.md). What is said of a leader
//! in these files is said of each group (docs/decisions/0120-forwarding-by-group.md).
//!
//! Owns what a node has passed on and not yet answered, and what it has taken from others. Promises
//! one answer to each call, and that no call is executed more than one node away.

mod batch;
mod behind;
mod early;
mod execute;
mod inbox;
mod link;
mod nodes;
mod order;
mod outstanding;
mod passage;
mod passing;
mod received;
mod thread;
mod window;

#[cfg(test)]
mod tests;

pub use behind::Behind;
pub use execute::{Execute, Executor};
pub use inbox::{Forward, Inbox, connect};
pub use link::{Batch, Call, Destination, Kind, Leadership, Link};
pub use nodes::leadership;
pub use outstanding::Outstanding;
pub use passage::{Passage, Way};
pub use thread::ForwardThread;
