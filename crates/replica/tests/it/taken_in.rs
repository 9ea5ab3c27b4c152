//! Another node's snapshot in the place of what a node has: never while a seal may ask for that.

use ferrite_base::{Epoch, GroupId, Position};
use ferrite_replica::group::{
    Effect, Group, GroupConfiguration, History, Mark, Member, Remembered, Timing, decide, suffices,
};

fn history() -> History {
    History::new(vec![(Epoch(1), Position(1))]).expect("one epoch")
}

fn mark(position: u64) -> Mark {
    Mark { epoch: Epoch(1), position: Position(position), chain: position as u32 }
}

/// Node 2's second process, whose first was a member and has acknowledged ten entries.
fn started_again() -> Group {
    let remembered =
        Remembered { history: history(), end: mark(10), commit: Position(5), intact: true, ..Remembered::default() };
    Group::new(GroupId(0), Member::new(2, 2), Timing::DEFAULT, remembered)
}

fn both() -> GroupConfiguration {
    let (leader, other) = (Member::new(1, 1), Member::new(2, 1));
    GroupConfiguration::new(Epoch(1), leader, vec![leader, other], Vec::new())
}

#[test]
fn a_member_that_was_started_again_keeps_what_it_has_acknowledged_until_it_has_left() {
    let mut group = started_again();
    assert!(!group.install(history(), mark(5)), "who is a member is not known yet");
    group.configured(both(), 0);
    assert!(!group.install(history(), mark(5)), "the leader may be lost next");
    // It is, and the node alone answers the seal.
    group.seal(Epoch(2));
    group.promised(Epoch(2));
    let sealed = group.take_effects().into_iter().find_map(|effect| match effect {
        Effect::Sealed(sealed) => Some(sealed),
        _ => None,
    });
    let sealed = sealed.expect("an answer");
    assert!(suffices(&both(), &sealed));
    assert_eq!(sealed.end, mark(10), "all that was acknowledged");
    assert_eq!(decide(&both(), Epoch(2), &[sealed]).expect("it suffices").leader, Member::new(2, 2));
}

#[test]
fn a_member_that_was_started_again_takes_a_snapshot_when_it_has_left() {
    let mut group = started_again();
    group.configured(both(), 0);
    group.configured(GroupConfiguration::alone(Epoch(2), Member::new(1, 1)), 0);
    assert!(group.install(history(), mark(5)));
    assert_eq!((group.end(), group.commit()), (mark(5), Position(5)));
}
