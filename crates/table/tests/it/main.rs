//! The tests of this crate that can share a process. One program, since each costs a link.

#[path = "../common/mod.rs"]
mod common;

mod ahead;
mod compaction;
mod limits;
mod model;
mod redo_fuzz;
mod snapshots;
mod store;
