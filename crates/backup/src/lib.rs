//! Backups: copies of the database in a directory that the caller names, and their rows back into a
//! database of any number of partitions.
//!
//! Owns no state. Promises that a backup that says it is whole is, and that a restore happens
//! wholly or not at all. Knows neither sessions nor threads; the server is what [`Server`] says.
//!
//! | room | what is in it |
//! |---|---|
//! | [`request`] | what callers ask, checked |
//! | [`save`], `csv` | writing a backup |
//! | [`groups`], [`groups_csv`], [`csv_files`] | the same of several groups, which several nodes lead |
//! | [`restore`] | a backup's rows into a database |
//! | [`listing`] | what stands in a directory, and its files gone |

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// A line to a stream that nobody reads would hold up the thread that says it; `ferrite_io::stdio`
// does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod csv;
pub mod csv_files;
pub mod groups;
pub mod groups_csv;
pub mod listing;
pub mod request;
pub mod restore;
pub mod save;
mod server;

pub use server::{STAGING, Server, drop_statements, is_staging};
