//! The tests of this crate that can share a process. One program, since each costs a link.

#[path = "../world/mod.rs"]
mod world;

mod dispensable;
mod group_cluster;
mod parted;
mod sent_again;
mod standing_still;
mod taken_in;
mod told_later;
