//! SQL values: types, borrowed and owned values, decimal arithmetic, time, text forms, comparison,
//! conversion to declared types, and the partition hash with its ring.
//!
//! Pure. Knows no rows, expressions, or wire frames.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod cast;
pub mod compare;
pub mod convert;
pub mod decimal;
pub mod geography;
pub mod hash;
pub mod ring;
pub mod sphere;
pub mod sql_type;
pub mod temporal;
pub mod text;
pub mod value;

pub use decimal::Decimal;
pub use sql_type::{ColumnType, SqlType};
pub use value::{OwnedValue, Point, Value};
