//! The tests of this crate that can share a process. One program, since each costs a link.

#[path = "../world/mod.rs"]
mod world;

mod catch_up;
mod cluster;
mod groups;
mod window;
