//! The tests of this crate that can share a process. One program, since each costs a link.

mod golden;
mod sending;
mod transfer;
