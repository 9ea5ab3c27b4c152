//! The tests of this crate that can share a process. One program, since each costs a link.

mod controllers;
mod founded;
mod founding;
mod placement;
mod state;
mod voters;
