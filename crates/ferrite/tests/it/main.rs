//! The tests of this crate that can share a process. One program, since each costs a link.

#[path = "../common/mod.rs"]
mod common;

mod check;
mod cluster;
mod compare;
mod demo;
mod dump;
mod events;
mod full_disk;
mod hostile;
mod java;
mod lifecycle;
mod prompt;
mod quick_start;
mod shell;
mod strangers;
mod streams;
mod torture;
mod tpcc;
