//! The tests of this crate that can share a process. One program, since each costs a link.

#[path = "../common/mod.rs"]
mod common;

mod damage;
mod end;
mod failures;
mod fuzz_recovery;
mod halves;
mod killed;
mod missing;
mod reopen;
mod tail;
