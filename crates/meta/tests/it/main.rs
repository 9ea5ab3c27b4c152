//! The tests of this crate that can share a process. One program, since each costs a link.

mod controllers;
mod founded;
mod founding;
mod state;
mod voters;
