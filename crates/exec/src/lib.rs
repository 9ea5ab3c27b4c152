//! Runs programs (`ferrite_plan`) on table stores.
//!
//! Owns the nested loops, grouping, sorting, subqueries, data changes and the steps of SQL procedures. Promises: a statement
//! sees the state before it (no row is met twice because the statement itself changed it), a failed program can be undone by
//! rolling every store back to the mark set before it, and the answers do not depend on how many partitions hold the rows
//! (but for the order of rows that ORDER BY leaves open). Knows no SQL text, threads, log or clients.
//!
//! The rooms, in the order of the main path: [`call`] what is run and where results go, `procedure` the steps, `query`
//! ORDER BY, LIMIT and set operations, `select`, `join` and `hash_join` the nested loops, `access` how rows are found,
//! `frame` what expressions see, `subquery`, `grouping`, `window`, `recursion`, `sorting`, `row_table`, `write` the data changes,
//! `measure` what EXPLAIN ANALYZE counts, and `parts` what is done for each store by itself and merged.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod access;
pub mod call;
mod frame;
mod grouping;
mod hash_join;
mod join;
mod measure;
mod parts;
mod procedure;
mod query;
mod recursion;
mod row_table;
mod select;
mod series;
mod sorting;
mod subquery;
mod together;
mod window;
mod window_frame;
mod write;

pub use call::{Call, Marks, ResultSink, Scratch, WorkerPool, roll_back, run, run_transaction, set_marks};
