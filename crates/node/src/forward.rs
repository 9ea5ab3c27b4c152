//! Calls of clients that are connected to another node than the one that leads, on their way there
//! and back (docs/decisions/0059-forwarding.md).
//!
//! Owns what a node has passed on and not yet answered, and what it has taken from others. Promises
//! one answer to each call, and that no call is executed more than one node away.

mod batch;
mod drain;
mod early;
mod execute;
mod inbox;
mod link;
mod nodes;
mod order;
mod passage;
mod received;
mod thread;
mod window;

#[cfg(test)]
mod tests;

pub use drain::Drain;
pub use execute::{Executor, Uses};
pub use inbox::{Forward, Inbox, connect};
#[cfg(test)]
pub use link::Leadership;
pub use link::{Batch, Call};
pub use nodes::leadership;
pub use passage::{Passage, Way};
pub use thread::ForwardThread;
