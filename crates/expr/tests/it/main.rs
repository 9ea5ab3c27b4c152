//! The tests of this crate that can share a process. One program, since each costs a link.

#[path = "../common/mod.rs"]
mod common;

mod aggregate;
mod earlier;
mod evaluate;
mod functions;
mod json;
mod random_arguments;
