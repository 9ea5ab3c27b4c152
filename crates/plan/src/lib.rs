//! Programs: what is compiled from a text and run on rows, and what can be told from a program
//! alone.
//!
//! Owns the form of programs and plans ([`Program`], [`Query`], [`Access`]), the bodies of
//! procedures in other languages ([`external`]), and five questions that a call asks of its program
//! before it runs: which partitions it needs ([`Program::owners`]), whether it may take long
//! ([`as_long_read`]), what each partition can do by itself ([`in_parts`]), what each of
//! several groups ([`divide`]), and which tables it touches ([`touches`]). Knows catalogs and
//! expressions; knows no SQL text, no rows, no threads.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod division;
pub mod external;
mod long_read;
mod owners;
mod parts;
mod presets;
mod program;
mod short;
mod statement_text;
mod touched;
mod variants;
pub mod walk;

pub use division::{Indivisible, Share, divide};
pub use long_read::{as_long_read, snapshot_plan, tables_read};
pub use owners::{Owners, owner, owner_of_key};
pub use parts::{Divisible, InParts, in_parts};
pub use presets::Adoption;
pub use program::*;
pub use short::is_short;
pub use statement_text::{StatementText, Touches};
pub use touched::touches;
pub use variants::{Fitted, Presets, Recompile, Variants};
