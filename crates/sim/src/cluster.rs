//! A cluster on one thread: several nodes of the server's own code, each with a disk and a clock of
//! its own, a network that follows from the seed, and clients that remember what they were told.
//!
//! What is real: partitions, coordinator, applier, log, replication, `ferrite_cluster::Node`, the
//! metadata with its voters, witnesses and leases, the messages between nodes. What is made up:
//! disks, clocks, network, clients, the order of turns.

mod accepting;
mod accepting_beside;
mod callers;
mod clocks;
mod contents;
mod copying;
mod counts;
mod crashes;
pub mod invariants;
mod ledger;
mod losses;
mod lot_links;
mod lot_turns;
mod machine;
mod metadata;
mod network;
mod noting;
mod operator;
mod pauses;
mod pausing;
mod pausing_groups;
mod pausing_turns;
mod peace;
mod plan;
mod process;
mod replicated;
mod rest;
mod scenes;
mod slow_copies;
mod stepping;
mod stopping;
mod trouble;
mod turns;
mod unable;
mod walk_turns;
mod walks;
mod wiping;
mod wishes;
mod witness;
mod world;

pub use counts::Counts;
pub use world::{Report, run, run_with_groups, run_with_losses, run_with_snapshots, run_with_stalls};
