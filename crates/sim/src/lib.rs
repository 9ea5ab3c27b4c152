//! The deterministic simulator: a whole node on a simulated disk, or a cluster of them
//! ([`cluster`]), on one thread, everything from one seed.
//!
//! Promises that the same seed does the same, step by step. What runs is the server's own code:
//! log, partitions, coordinator, recovery. What is made up is the disk, the clock, the clients, and
//! the order in which the parties get their turns. After every recovery the database is compared
//! with a model, by the rules in [`invariants`]. Does not know sockets and sessions.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod backups;
mod calls;
pub mod clients;
pub mod cluster;
mod counts;
pub mod history;
mod internal_client;
pub mod invariants;
pub mod model;
pub mod node;
pub mod operation;
pub mod plan;
pub mod planted;
pub mod poison;
pub mod restore_fixture;
pub mod restore_history;
pub mod run;
pub mod schema;
mod shortened;
pub mod state;
pub mod trace;
mod witness;

pub use run::{Counts, SeedReport, run, run_switching};
