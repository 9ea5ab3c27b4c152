//! Whether a party leads its group or is a copy: a value, so that it changes without moving a
//! store.

use crate::commit::Completion;
use crate::gate::Rounds;
use ferrite_base::UserError;
use ferrite_group::GroupAppender;
use std::sync::Arc;

/// A copy's tables follow the leader's entries alone. It takes no calls, and of what a partition
/// does by itself only what no other copy sees: views' rows, pages and indexes may be compacted,
/// tables' rows may not be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    #[default]
    Leader,
    Copy,
}

/// The answer to a call that came to a copy: it was not executed.
#[cold]
pub fn not_the_leader() -> UserError {
    UserError::not_started("this node is not the leader").with_hint("call again, through the node that leads")
}

/// What a leader's reads ask for rounds. None: its group has no other members.
pub(crate) fn rounds(log: &GroupAppender<Completion>) -> Option<Rounds> {
    let log = log.clone();
    (!log.is_solo()).then(|| Arc::new(move || log.read()) as Rounds)
}
