//! One partition's replication, as a pure state machine: who must have a record before it is
//! committed, and which answers may leave.
//!
//! Owns the commit sequence and the answers held back for it. Promises that no answer is released
//! as committed before every member of the configuration has made durable all that it could have
//! seen. Does not know what records and answers are, nor disks, sockets, clocks or threads: the
//! caller tells it what happened and carries out the effects.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod configuration;
pub mod group;
mod held;
mod replica;

pub use configuration::Configuration;
pub use held::Release;
pub use replica::{Effect, Replica};
