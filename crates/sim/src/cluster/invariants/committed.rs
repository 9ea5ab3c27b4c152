//! 2 and 4. A committed entry never changes: whatever two nodes call committed at one position is
//! the same entry, with the same stream before it.

use super::noted;
use crate::cluster::ledger::Book;
use ferrite_base::{Epoch, GroupId, Position};
use ferrite_replica::group::{Mark, Member};

const NAME: &str = "a committed entry never changes";

pub fn note(book: &mut Book, group: GroupId, node: Member, mark: Mark) {
    let of = book.groups.entry(group).or_default();
    let is_lost = of.lost.is_some_and(|(parent, epoch)| mark.position > parent && mark.epoch < epoch);
    if mark.position == Position(0) || is_lost {
        return;
    }
    let known = *of.committed.entry(mark.position).or_insert(mark);
    if known != mark {
        noted(
            &mut book.violation,
            NAME,
            format!("node {} has {mark:?} in group {group} where {known:?} was committed", node.node),
        );
    }
}

/// An operator has accepted a loss: the stream goes on behind an entry of the node that leads,
/// with that epoch. That is what was committed, as far as it goes; but at its end may be what a
/// leader of an earlier epoch once sent, was never committed, and was replaced by what is lost now.
/// Whether it is.
pub fn lost(book: &mut Book, group: GroupId, parent: Mark, epoch: Epoch) -> bool {
    let of = book.groups.entry(group).or_default();
    let known = of.committed.get(&parent.position).copied().unwrap_or(parent);
    if known != parent && known.epoch <= parent.epoch {
        let detail = format!("after a loss {parent:?} is where {known:?} was committed");
        noted(&mut book.violation, NAME, detail);
    }
    of.committed.retain(|position, mark| *position <= parent.position && mark.epoch <= parent.epoch);
    of.lost = Some((parent.position, epoch));
    of.losses.insert(epoch);
    known != parent
}
