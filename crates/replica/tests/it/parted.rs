//! A node whose stream has parted from its leader's.

use ferrite_base::{Epoch, GroupId, Position};
use ferrite_replica::group::{
    Effect, Envelope, Group, GroupConfiguration, Header, History, Mark, Member, Message, Remembered, Timing,
};

const GROUP: GroupId = GroupId(0);

/// The entry behind `previous`, which says so.
fn entry(previous: Mark, epoch: u64) -> Header {
    Header::after(GROUP, previous, Epoch(epoch), Epoch(epoch) != previous.epoch, 7, 10)
}

/// Node 1 hands over to node 2, and appends an entry before it hears that this is decided. Node 2
/// begins its epoch, and nobody hears of it: so node 1 leads again, with that entry.
#[test]
fn a_leader_that_was_appointed_in_vain_gets_what_the_former_one_has_appended_meanwhile() {
    let (one, other) = (Member::new(1, 1), Member::new(2, 1));
    let first = entry(Mark::ORIGIN, 1);
    let late = entry(first.mark, 1);
    let starts = History::new(vec![(Epoch(1), Position(1))]).unwrap();
    let remembered =
        Remembered { history: starts, end: first.mark, commit: Position(1), intact: true, ..Remembered::default() };
    let mut group = Group::new(GROUP, other, Timing::DEFAULT, remembered);
    group.configured(GroupConfiguration::new(Epoch(2), other, vec![one, other], Vec::new()), 0);
    group.written(group.end());
    assert_eq!((group.end().epoch, group.end().position), (Epoch(2), Position(2)), "it has begun its epoch");
    group.configured(GroupConfiguration::new(Epoch(3), one, vec![one], Vec::new()), 0);
    group.take_effects();
    let start = entry(late.mark, 3);
    let append = |previous, entries, round| Envelope {
        from: one,
        epoch: Epoch(3),
        message: Message::Append { previous, entries, commit: Position(1), round },
    };
    group.handle_message(append(start.mark, Vec::new(), 1), 0);
    let effects = group.take_effects();
    let [Effect::Send { envelope, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert!(matches!(envelope.message, Message::Mismatch { end: Position(2), .. }), "{effects:?}");
    group.handle_message(append(first.mark, vec![late, start], 2), 0);
    let effects = group.take_effects();
    assert!(effects.contains(&Effect::Drop { from: Position(2) }), "{effects:?}");
    assert!(effects.contains(&Effect::Write(vec![late, start])), "{effects:?}");
    assert_eq!(group.end(), start.mark);
}

/// Nothing that is committed is taken back, whoever says so.
#[test]
fn what_is_committed_is_never_dropped() {
    let (one, other) = (Member::new(1, 1), Member::new(2, 1));
    let first = entry(Mark::ORIGIN, 1);
    let second = entry(first.mark, 2);
    let starts = History::new(vec![(Epoch(1), Position(1)), (Epoch(2), Position(2))]).unwrap();
    let remembered =
        Remembered { history: starts, end: second.mark, commit: Position(2), intact: true, ..Remembered::default() };
    let mut group = Group::new(GROUP, other, Timing::DEFAULT, remembered);
    group.configured(GroupConfiguration::new(Epoch(3), one, vec![one], Vec::new()), 0);
    let entries = vec![entry(first.mark, 1)];
    let message = Message::Append { previous: first.mark, entries, commit: Position(1), round: 1 };
    group.handle_message(Envelope { from: one, epoch: Epoch(3), message }, 0);
    let effects = group.take_effects();
    assert!(effects.contains(&Effect::Diverged(other.node)), "{effects:?}");
    assert_eq!(group.end(), second.mark);
}
