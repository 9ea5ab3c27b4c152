//! From text to programs: parse, bind, plan.
//!
//! Owns the dialect, name resolution, typing and the choice of access paths. Knows catalogs and
//! expressions; knows no rows, partitions at run time, or clients.
//!
//! The way down: [`parse_batch`] splits and parses a text, [`parse_within`] one of limited size.
//! Schema statements go to [`bind_ddl`], which answers the change that the catalog applies. Queries
//! and data changes go to [`compile_adhoc`], stored procedures to [`compile_procedure`]; both bind
//! a statement, plan what was bound, and answer a [`ferrite_plan::Program`].

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod bind;
mod compile;
mod ddl;
mod defaults;
mod errors;
mod expire;
mod explain;
mod explaining;
mod parameterize;
mod parse;
mod planner;
mod spelling;
mod template;

pub use bind::plain_view::{check_views, view_columns};
pub use compile::adhoc::{compile_adhoc, compile_adhoc_with};
pub use compile::class::{broken_class, compile_class, compile_text};
pub use compile::procedure::compile_procedure;
pub use ddl::missing_indexes::missing_indexes;
pub use ddl::schema::bind_ddl;
pub use defaults::default_procedures;
pub use expire::expire_program;
pub use explain::{explain, explain_with};
pub use parameterize::{Literal, LiteralKind, Parameterizer};
pub use parse::context::ddl_error;
pub use parse::figures::{TableCall, With, table_calls};
pub use parse::parse_batch;
pub use parse::procedure::{BodyMeasure, measure_body};
pub use parse::statement::Statement;
pub use parse::within::parse_within;
pub use planner::estimate::{NoStatistics, Statistics};
pub use template::{Argument, Template, find_template, template};
