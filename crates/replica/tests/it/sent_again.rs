//! What a member lacks is sent again once for each time that it was lost, not for each message
//! behind it that came all the same.

use ferrite_base::{Epoch, GroupId, Position};
use ferrite_replica::group::{
    Effect, Envelope, Group, GroupConfiguration, History, Member, Message, Remembered, Timing,
};

/// The entries that a leader wants to be sent, by the first and the last.
fn sends(leader: &mut Group) -> Vec<(u64, u64, u64)> {
    let effects = leader.take_effects().into_iter();
    let sends = effects.filter_map(|effect| match effect {
        Effect::SendEntries { after, up_to, round, .. } if up_to > after => Some((after.0 + 1, up_to.0, round)),
        _ => None,
    });
    sends.collect()
}

#[test]
fn answers_to_what_followed_a_lost_message_start_nothing_again() {
    let (one, other) = (Member::new(1, 1), Member::new(2, 1));
    let mut leader = Group::new(GroupId(0), one, Timing::DEFAULT, Remembered::default());
    leader.configured(GroupConfiguration::new(Epoch(1), one, vec![one, other], Vec::new()), 0);
    let start = leader.end();
    leader.written(start);
    let answer = |message| Envelope { from: other, epoch: Epoch(1), message };
    leader.handle_message(answer(Message::Acked { durable: start, compares: true, round: 0 }), 0);
    assert!(leader.is_open());
    leader.take_effects();
    // The first of these is lost, and each of the others is answered.
    let mut rounds = Vec::new();
    for number in 2..102 {
        let header = leader.append(7, 10).expect("it leads");
        leader.written(header.mark);
        leader.tick(0);
        let sent = sends(&mut leader);
        assert!(matches!(sent[..], [(first, last, _)] if (first, last) == (number, number)), "{sent:?}");
        rounds.push(sent[0].2);
    }
    let history = History::new(vec![(Epoch(1), Position(1))]).expect("one epoch");
    let mismatch = |round| Message::Mismatch { history: history.clone(), end: Position(1), round };
    let mut again = Vec::new();
    for round in &rounds[1..] {
        leader.handle_message(answer(mismatch(*round)), 0);
        leader.tick(0);
        again.extend(sends(&mut leader));
    }
    assert!(matches!(again[..], [(2, 101, _)]), "{again:?}");
    // That was lost, too.
    leader.handle_message(answer(mismatch(again[0].2)), 0);
    leader.tick(0);
    assert!(matches!(sends(&mut leader)[..], [(2, 101, _)]));
}

#[test]
fn a_member_that_has_not_heard_of_an_epoch_is_asked_until_it_answers() {
    let (one, other) = (Member::new(1, 1), Member::new(2, 1));
    let configuration = |epoch| GroupConfiguration::new(Epoch(epoch), one, vec![one, other], Vec::new());
    let mut leader = Group::new(GroupId(0), one, Timing::DEFAULT, Remembered::default());
    leader.configured(configuration(1), 0);
    let first = leader.end();
    leader.written(first);
    let answer = |epoch, message| Envelope { from: other, epoch: Epoch(epoch), message };
    leader.handle_message(answer(1, Message::Acked { durable: first, compares: true, round: 0 }), 0);
    leader.tick(0);
    leader.take_effects();
    leader.configured(configuration(2), 0);
    leader.written(leader.end());
    leader.take_effects();
    // What comes in an epoch that it does not know it does not take.
    let mut round = 0;
    for now in 1..5 {
        assert_eq!(leader.next_tick(now), Some(now));
        leader.tick(now);
        let effects = leader.take_effects();
        let [Effect::SendEntries { after, up_to, round: asked, .. }] = effects[..] else { panic!("{effects:?}") };
        assert_eq!(after, up_to, "a question");
        round = asked;
    }
    let history = History::new(vec![(Epoch(1), Position(1))]).expect("one epoch");
    leader.handle_message(answer(2, Message::Mismatch { history, end: first.position, round }), 5);
    assert!(leader.has_to_send());
    leader.tick(5);
    assert!(matches!(sends(&mut leader)[..], [(2, 2, _)]));
    leader.handle_message(answer(2, Message::Acked { durable: leader.end(), compares: true, round: round + 1 }), 6);
    assert_eq!(leader.commit(), leader.end().position);
}
