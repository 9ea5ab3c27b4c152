//! One replica group as a pure state machine ([`group`]): which members must have an entry before
//! it is committed, who leads, and what a partition's answers wait for ([`HeldAnswers`]).
//!
//! Owns the commit sequence and the answers held back for it. Promises that no answer is released
//! as committed before every member of the configuration has made durable all that it could have
//! seen. Does not know what records and answers are, nor disks, sockets, clocks or threads: the
//! caller tells it what happened and carries out the effects.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod configuration;
pub mod group;
mod held;
mod held_answers;

pub use configuration::Configuration;
pub use held::Release;
pub use held_answers::{Effect, HeldAnswers};
