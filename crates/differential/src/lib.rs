//! Differential tests: random schemas, data, changes and queries, whose answers must be the same
//! wherever and however they are run.
//!
//! Owns the generator, the oracles and the shrinker. Knows our database at the level of stores and
//! programs, without threads, log and network, so that a thousand statements a second can be
//! compared; and PostgreSQL, if there is one, through `psql`. Promises that a seed makes the same
//! statements every time. docs/differential.md says how to run it and what to do with what it
//! finds.
//!
//! The rooms: [`random`], [`datum`] (types and constants in both dialects), [`functions`]
//! (operators and functions in both dialects, and *every known difference with its reason*),
//! [`tree`] and [`print`] (statements), [`schema`], [`generate`], [`engine`] and [`postgres`]
//! (where statements run), [`answer`], [`check`] (the oracles), [`shrink`], [`run`]. By itself
//! stand [`numbers`], literals with many digits, and [`other_types`], parameters beside values of
//! other types.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod answer;
pub mod check;
pub mod datum;
pub mod engine;
pub mod functions;
pub mod generate;
pub mod numbers;
pub mod other_types;
pub mod postgres;
pub mod print;
pub mod random;
pub mod run;
pub mod schema;
pub mod shrink;
pub mod tree;
