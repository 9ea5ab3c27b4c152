//! 1. At most one process takes calls in each epoch.

use super::noted;
use crate::cluster::ledger::Book;
use ferrite_base::Epoch;
use ferrite_replica::group::Member;

const NAME: &str = "one leader acknowledges in each epoch";

pub fn note(book: &mut Book, epoch: Epoch, leader: Member) {
    let known = *book.opened.entry(epoch).or_insert(leader);
    if known != leader {
        noted(&mut book.violation, NAME, format!("{leader:?} takes calls in epoch {epoch}, as did {known:?}"));
    }
}
