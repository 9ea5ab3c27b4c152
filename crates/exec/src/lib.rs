//! Runs programs (`ferrite_plan`) on table stores.
//!
//! Owns the nested loops, grouping, sorting, subqueries, data changes and the steps of SQL
//! procedures. Promises: a statement sees the state before it (no row is met twice because the
//! statement itself changed it), a failed program can be undone by rolling every store back to the
//! mark set before it, and the answers do not depend on how many partitions hold the rows (but for
//! the order of rows that ORDER BY leaves open). Knows no SQL text, threads, log or clients.
//!
//! The rooms, in the order of the main path: [`call`] what is run and where results go,
//! `transaction` the door, `shares` that of a program which several groups run, `run` a call on its
//! way, `procedure` the steps, `write`, `together` and `targets` the data changes, `parts` what is
//! done for each store by itself and merged; `query` ORDER BY, LIMIT and set operations, `select`,
//! `join` and `hash_join` the nested loops, `access` how rows are found, `subquery`, `grouping`,
//! `window`, `recursion`; below all of these `evaluator` what expressions see. Leaves: `rows` what
//! passes between them, `meter` what a statement uses, `measure` what EXPLAIN ANALYZE counts,
//! `row_table`, `sorting`, `series`, `marks`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod access;
pub mod call;
mod evaluator;
mod grouping;
mod hash_join;
mod join;
mod marks;
mod measure;
mod meter;
mod parts;
mod procedure;
mod query;
mod recursion;
mod row_table;
mod rows;
mod run;
mod select;
mod series;
mod shares;
mod sorting;
mod subquery;
mod targets;
mod together;
mod transaction;
mod window;
mod window_frame;
mod write;

pub use call::{Call, ResultSink, Scratch, WorkerPool};
pub use marks::{Marks, roll_back, set_marks};
pub use shares::{OwnShare, run_shares};
pub use transaction::{run, run_transaction};
