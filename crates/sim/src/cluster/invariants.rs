//! What must hold in a cluster, beside the rules for its database: each rule in a room of its own.
//! The numbers are those of the design's list.

pub mod chain;
pub mod committed;
pub mod copies;
pub mod fresh;
pub mod leaders;
pub mod promises;
pub mod snapshots;
pub mod time;
pub mod voters;

use crate::invariants::Violation;

/// The first violation that somebody noted counts.
fn noted(violation: &mut Option<Violation>, invariant: &'static str, detail: String) {
    violation.get_or_insert(Violation { invariant, detail });
}
