//! Bound, typed expressions and their evaluation.
//!
//! The binder (`sql`) builds them; `table` evaluates them for views, index keys and checks, `exec` for plans. They live in a
//! crate of their own, below the catalog, because catalog objects hold them. An expression knows column positions,
//! parameter numbers and registers; it does not know names, tables, plans or where a row is stored: that is the
//! [`Context`]'s business.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod aggregate;
pub mod arithmetic;
pub mod earlier;
pub mod evaluate;
pub mod function;
pub mod like;
pub mod list;
pub mod tree;
pub mod user;
mod work;

pub use aggregate::{Aggregate, AggregateKind, AggregateState, Removal};
pub use evaluate::Context;
pub use function::{Function, Resolved};
pub use list::{List, SortedArray};
pub use tree::{ArithmeticDomain, ArithmeticOperator, CompareOperator, Expr};
pub use user::{Code, UserFunction};
