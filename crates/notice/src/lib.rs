//! What a node tells its operator: a closed enum of notices, each with a code, a level, typed
//! fields and its text.
//!
//! Owns the words of every line that a server or a witness writes, and the two forms that a line
//! takes ([`LoggedNotice::text`], [`LoggedNotice::json`]). Promises that a notice is one line
//! whatever its fields contain, except for the trace of a fault, whose lines are indented; and that
//! a code never changes its meaning (docs/events.md explains each). Does not know the time, nor
//! where lines are written: that is `ferrite_io::notices`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod define;
mod field;
mod logged;
mod notice;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
mod words;

pub use logged::{LoggedNotice, message_of};
pub use notice::Notice;

/// How much a notice matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Part of normal operation.
    Info,
    /// The node continues; an operator should look at it.
    Warn,
    /// Something that was asked for, or that the node needs, has failed.
    Error,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        }
    }
}
