//! The tests of this crate that can share a process. One program, since each costs a link.

mod groups;
mod leaving;
mod metadata;
mod node;
mod world;
