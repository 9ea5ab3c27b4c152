//! The tests of this crate that can share a process. One program, since each costs a link.

mod assigned;
mod controllers;
mod founded;
mod founded_groups;
mod founding;
mod placement;
mod state;
mod voters;
