//! `NOW` does not go back when another leads that was a member, nor is a number of a transaction
//! given twice: the next leader goes on above all times that an earlier one has shown.

use super::noted;
use crate::cluster::ledger::Book;
use ferrite_base::{Epoch, GroupId};
use ferrite_replica::group::{GroupConfiguration, Member};

const NAME: &str = "time does not go back";

/// The least that transactions show which this process begins from here on: what reads have shown.
/// None where it may not have heard of that.
pub fn least(book: &Book, group: GroupId, by: Member) -> Option<i64> {
    let (last, of, members) = book.groups.get(&group)?.time.as_ref()?;
    (*of == by || members.has(by)).then_some(*last)
}

/// A read that was confirmed has shown this.
pub fn shown(book: &mut Book, group: GroupId, by: Member, configuration: &GroupConfiguration, time: i64) {
    if let Some(last) = least(book, group, by)
        && time < last
    {
        noted(&mut book.violation, NAME, format!("{by:?} shows {time}, and {last} was shown before"));
    }
    assert_eq!(time % 1_000, 0, "whole milliseconds");
    book.groups.entry(group).or_default().time = Some((time, by, configuration.clone()));
}

/// The numbers of this leader are of later times than this. One that was deposed before its tables
/// were there gives none.
pub fn begins(book: &mut Book, group: GroupId, by: Member, epoch: Epoch, numbers: i64) {
    let of_group = book.groups.entry(group).or_default();
    if let Some((last, of, members)) = &of_group.time
        && members.has(by)
        && members.epoch < epoch
        && numbers < *last
    {
        let detail = format!("the numbers of {by:?} begin behind {numbers}, and {of:?} has given those of {last}");
        noted(&mut book.violation, NAME, detail);
    }
}
