//! 1. At most one process takes calls in each epoch.

use super::noted;
use crate::cluster::ledger::Book;
use ferrite_base::{Epoch, GroupId};
use ferrite_replica::group::Member;

const NAME: &str = "one leader acknowledges in each epoch";

pub fn note(book: &mut Book, group: GroupId, epoch: Epoch, leader: Member) {
    let of = book.groups.entry(group).or_default();
    let known = *of.opened.entry(epoch).or_insert(leader);
    if known != leader {
        noted(
            &mut book.violation,
            NAME,
            format!("{leader:?} takes calls of group {group} in epoch {epoch}, as did {known:?}"),
        );
    }
}
