//! 2 and 4. A committed entry never changes: whatever two nodes call committed at one position is
//! the same entry, with the same stream before it.

use super::noted;
use crate::cluster::ledger::Book;
use ferrite_base::Position;
use ferrite_replica::group::{Mark, Member};

const NAME: &str = "a committed entry never changes";

pub fn note(book: &mut Book, node: Member, mark: Mark) {
    if mark.position == Position(0) {
        return;
    }
    let known = *book.committed.entry(mark.position).or_insert(mark);
    if known != mark {
        noted(&mut book.violation, NAME, format!("node {} has {mark:?} where {known:?} was committed", node.node));
    }
}
