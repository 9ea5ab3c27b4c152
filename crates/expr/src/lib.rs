//! Bound, typed expressions and their evaluation.
//!
//! The binder (`sql`) builds them; `table` evaluates them for views, index keys and checks, `exec`
//! for plans. They live in a crate of their own, below the catalog, because catalog objects hold
//! them. An expression knows column positions, parameter numbers and registers; it does not know
//! names, tables, plans or where a row is stored: that is the [`Context`]'s business.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod aggregate;
pub mod arithmetic;
mod checks;
mod context;
mod cost;
pub mod earlier;
pub mod evaluate;
pub mod function;
pub mod like;
pub mod list;
mod operator;
mod sorted_array;
pub mod tree;
pub mod user;

pub use aggregate::{Aggregate, AggregateKind, AggregateState, Removal};
pub use context::Context;
pub use function::{Function, Resolved};
pub use list::List;
pub use operator::{ArithmeticDomain, ArithmeticOperator, CompareOperator};
pub use sorted_array::SortedArray;
pub use tree::Expr;
pub use user::{Code, UserFunction};
