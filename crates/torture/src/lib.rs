//! Whether the server keeps its promises under kills and over hours: the library behind
//! `ferrite bench torture` and `ferrite bench soak`. Its runs verify; they end with a finding or
//! with none, and their figures are incidental.
//!
//! | room | what is in it |
//! |---|---|
//! | [`options`] | the command line |
//! | [`torture`] | kills of the server under load, and what is there afterwards |
//! | [`soak`] | hours of load, and whether anything grows |
//!
//! Knows the server only as `ferrite-bench` does: by its command line, its ready line and the
//! client protocol.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod options;
pub mod soak;
pub mod torture;

pub use options::{SoakOptions, TortureOptions};
pub use soak::run_soak;
pub use torture::run_torture;
