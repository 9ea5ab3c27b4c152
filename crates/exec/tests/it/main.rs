//! The tests of this crate that can share a process. One program, since each costs a link.

#[path = "../support/mod.rs"]
mod support;

mod arrays;
mod coverage;
mod limits;
mod parts;
mod plans;
mod programs;
mod shares;
mod views;
mod watched_schema;
