//! The schema: immutable, versioned. A schema change is `Catalog x Change -> Catalog` and a list of
//! [`Effect`]s that the stores carry out.
//!
//! Knows no SQL text (but keeps the text that users wrote), no rows, no plans.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod apply;
pub mod base64;
pub mod change;
mod class_file;
pub mod cron;
mod ids;
pub mod jar;
pub mod objects;
pub mod references;
mod schema_text;
pub mod task;

pub use apply::settle;
pub use change::{Change, ColumnSource, Effect, NewIndex, Rebuild, RebuiltColumn, TableAction, TaskAction};
pub use cron::Cron;
pub use ids::Ids;
pub use jar::Classes;
pub use objects::{
    Catalog, Check, Column, DecimalScale, Export, FunctionValues, Index, IndexKind, IndexText, Parsed, PlainView,
    Procedure, ProcedurePartitioning, Table, TableKind, TimeToLive, TimeUnit, VIEW_KEY_INDEX, View, ViewOutput,
};
pub use schema_text::{DECIMAL_SCALE, decimal_scale_text, schema_text, schema_text_without_classes};
pub use task::{Interval, IntervalUnit, OnError, RunOn, Schedule, Task};
