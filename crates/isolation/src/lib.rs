//! Whether a history of transactions is strictly serializable: a search for cycles, as Elle does it
//! (Kingsbury and Alvaro, VLDB 2020), over histories of lists to which transactions append, and
//! which they read.
//!
//! An element is appended once. So what reads have seen of a list gives the order of its appends,
//! and each transaction has an exact place in it: behind what it has read, before what it has not
//! seen. With the order in real time these dependencies have a cycle if and only if no serial
//! execution explains what clients were told.
//!
//! | room | what is in it |
//! |---|---|
//! | [`history`] | transactions as clients know them |
//! | [`lists`] | what lists say by themselves: the order of appends, and what no list may show |
//! | [`graph`] | dependencies, and the search for a cycle |
//! | [`anomaly`] | what is found, by its name |
//! | [`check`] | all of it for a history |
//!
//! Invariants: a history that some serial execution in the order of real time explains is never
//! rejected, and every other one is; the time and memory of a check grow with the length of what
//! was read, not with the square of the transactions. Pure: no clocks, threads or files.

pub mod anomaly;
pub mod check;
pub mod graph;
pub mod history;
pub mod lists;

pub use anomaly::{Anomaly, AnomalyKind};
pub use check::{CheckedHistory, check, check_versions};
pub use history::{Operation, Transaction, TransactionOutcome};
