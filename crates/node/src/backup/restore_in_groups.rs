//! `@SnapshotRestore` where a cluster has several groups. What happens is what happens anywhere
//! (`ferrite_backup::restore`): rows come into staging tables, and one change of the schema, which
//! is one transaction of all groups (docs/decisions/0127), fills the tables from them
//! (docs/decisions/0130). Here is where files are read, and how rows get to their partitions.
//!
//! Invariants:
//! - rows of a partition go to the node that leads its group, and those of a replicated table to
//!   all groups by a lot;
//! - the last change is asked for when all rows are answered, so when they are committed;
//! - staging tables have names that no other restore has: what an earlier restore still sends,
//!   whose node leads the first group no longer, finds no table.

use super::files_of_nodes::FoundBackup;
use super::internal_client::InternalClient;
use super::{Backups, restored_table, spawn};
use crate::groups_change::ChangeQueue;
use crate::submit::Submit;
use ferrite_backup::{request, restore};
use ferrite_base::leader_change::reason_of_unknown;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_partition::Reply;
use ferrite_snapshot::Files;
use ferrite_system::result::{SystemTable, cells};
use ferrite_value::{OwnedValue, Value};
use std::sync::Arc;

/// Answers `@SnapshotRestore`, from a thread of its own.
pub fn restore(
    node: &Arc<Backups>,
    submit: &Arc<Submit>,
    changes: &Arc<ChangeQueue>,
    parameters: &[Value<'_>],
    reply: &Reply,
) -> UserResult<()> {
    let request = request::restore(parameters, &node.identity.backups)?;
    let asked = parameters.iter().map(Value::to_owned_value).collect();
    let node = Arc::clone(node);
    let submit = Arc::clone(submit);
    let changes = Arc::clone(changes);
    let reply = reply.clone();
    spawn(move || {
        let done = run(&node, &submit, &changes, asked, &request);
        super::answer_with_words(&reply, done.map(|done| (vec![done.table], done.words)));
    })
}

/// An error after which it is known that nothing of the restore took place, with these words. That
/// the outcome is not known is said of the last step only: of a step before, only the reason.
fn nothing_restored(error: UserError) -> UserError {
    if error.kind() != ErrorKind::Unavailable {
        return error;
    }
    let text = error.message();
    let words = format!("nothing was restored: {}", reason_of_unknown(text).unwrap_or(text));
    error.with_message(words)
}

struct Done {
    table: SystemTable,
    words: String,
}

fn run(
    node: &Backups,
    submit: &Arc<Submit>,
    changes: &Arc<ChangeQueue>,
    asked: Vec<OwnedValue>,
    request: &request::Restore,
) -> UserResult<Done> {
    let _turn = node.turn.acquire()?;
    let client = InternalClient::of_groups(node.handles.clone(), Arc::clone(submit), Arc::clone(changes));
    // All files are found, and judged, before what an earlier restore has left is dropped.
    let FoundBackup { files, leaders, read_on } = FoundBackup::of(node, submit, asked, request)?;
    let files = Files::new(Arc::new(files), &request.dir);
    let restored =
        restore::restore(&client, &files, request).map_err(|error| client.with_leftovers(nothing_restored(error)))?;
    let mut table = restored_table();
    let routes = submit.routes.table();
    for name in restored.keys() {
        for partition in submit.routes.partitions() {
            let leader = leaders.get(&routes.id_of(routes.group_of(partition)));
            let host_id = leader.map(|(host_id, _)| *host_id);
            let host_name = leader.map(|(_, host_name)| host_name.as_str());
            let number = partition.0 as i32;
            table.row(cells![host_id, host_name, number, name.as_str(), number, "SUCCESS", ""]);
        }
    }
    Ok(Done { table, words: format!("the files were read on {}", read_on.join(", ")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_was_restored_nothing_else_is_said_of_the_outcome() {
        let heard = |error: UserError| nothing_restored(error).message().to_owned();
        let lost = UserError::maybe_committed("the node that leads was lost").in_context("group 2");
        let before_the_last_step = UserError::new(ErrorKind::Unavailable, "58030", lost.message().to_owned());
        assert_eq!(heard(before_the_last_step), "nothing was restored: the node that leads was lost");
        let refused = UserError::not_started("no node leads\nhint: try again");
        assert_eq!(heard(refused.clone()), format!("nothing was restored: {}", refused.message()));
        assert_eq!(heard(lost.clone()), lost.message(), "of the last step it is not known");
    }
}
