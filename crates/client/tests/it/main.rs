//! The tests of this crate that can share a process. One program, since each costs a link.

#[path = "../support/mod.rs"]
mod support;

mod affinity;
mod client;
mod golden;
