//! The schema: immutable, versioned. A schema change is `Catalog x Change -> Catalog` and a list of [`Effect`]s that the
//! stores carry out.
//!
//! Knows no SQL text (but keeps the text that users wrote), no rows, no plans.

pub mod apply;
pub mod change;
pub mod objects;

pub use change::{Change, Effect, NewIndex};
pub use objects::{
    Catalog, Column, Index, IndexKind, Procedure, ProcedurePartitioning, Table, TableKind, VIEW_KEY_INDEX, View,
    ViewOutput,
};
