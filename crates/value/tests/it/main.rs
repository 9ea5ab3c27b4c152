//! The tests of this crate that can share a process. One program, since each costs a link.

mod compare;
mod convert;
mod decimal;
mod golden;
mod round_trips;
mod temporal;
