//! The tests of this crate that can share a process. One program, since each costs a link.

#[path = "../common/mod.rs"]
mod common;

mod division;
mod hostile;
mod nesting;
mod plain_views;
mod schema_text;
mod watched;
