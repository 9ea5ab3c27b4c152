//! A leader that hears of a decision later than another node does.

use ferrite_base::{Epoch, GroupId};
use ferrite_replica::group::{Effect, Envelope, Group, GroupConfiguration, Member, Message, Remembered, Timing};

fn is_deposed(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Deposed { .. }))
}

/// Leads alone, and the other is told that it was made a member.
fn leader_and_added() -> (Group, Group, GroupConfiguration) {
    let (one, other) = (Member::new(1, 1), Member::new(2, 1));
    let mut leader = Group::new(GroupId(0), one, Timing::DEFAULT, Remembered::default());
    leader.configured(GroupConfiguration::alone(Epoch(1), one), 0);
    let start = leader.end();
    leader.written(start);
    assert!(leader.is_open());
    let larger = GroupConfiguration::new(Epoch(2), one, vec![one, other], vec![other.node]);
    let mut added = Group::new(GroupId(0), other, Timing::DEFAULT, Remembered::default());
    added.configured(larger.clone(), 0);
    leader.take_effects();
    (leader, added, larger)
}

/// What `added` answers to a message of the leader's epoch.
fn refusal(leader: &Group, added: &mut Group) -> Envelope {
    let message = Message::Append { previous: leader.end(), entries: Vec::new(), commit: leader.commit(), round: 1 };
    added.handle_message(Envelope { from: leader.here(), epoch: Epoch(1), message }, 0);
    let sent = added.take_effects().into_iter().find_map(|effect| match effect {
        Effect::Send { envelope, .. } => Some(envelope),
        _ => None,
    });
    let sent = sent.expect("an answer");
    assert!(matches!(sent.message, Message::Refused { promised: Epoch(2) }), "{sent:?}");
    sent
}

#[test]
fn a_leader_whose_change_reached_another_first_goes_on_and_asks() {
    let (mut leader, mut added, larger) = leader_and_added();
    let refusal = refusal(&leader, &mut added);
    leader.handle_message(refusal, 0);
    let effects = leader.take_effects();
    assert!(effects.contains(&Effect::AskMetadata(Epoch(2))) && !is_deposed(&effects), "{effects:?}");
    // What is appended until it hears of it belongs to the epoch that goes on.
    let header = leader.append(7, 10).expect("it leads");
    leader.configured(larger, 0);
    leader.written(header.mark);
    let effects = leader.take_effects();
    assert!(leader.is_open() && !is_deposed(&effects), "{effects:?}");
    assert!(leader.commit() < header.mark.position, "the member that was added has nothing of it yet");
}

#[test]
fn a_leader_that_was_replaced_commits_nothing_and_steps_down_when_it_is_told() {
    let (mut leader, mut added, larger) = leader_and_added();
    leader.configured(larger.clone(), 0);
    leader.written(leader.end());
    let committed = leader.commit();
    // The other has promised the next epoch, and refuses the leader's.
    added.seal(Epoch(3));
    added.promised(Epoch(3));
    let refused = Envelope { from: added.here(), epoch: Epoch(2), message: Message::Refused { promised: Epoch(3) } };
    leader.handle_message(refused, 0);
    let effects = leader.take_effects();
    assert!(effects.contains(&Effect::AskMetadata(Epoch(3))), "{effects:?}");
    leader.written(leader.end());
    leader.tick(Timing::DEFAULT.heartbeat);
    assert_eq!(leader.commit(), committed);
    let next = GroupConfiguration::alone(Epoch(3), added.here());
    leader.configured(next, 0);
    assert!(is_deposed(&leader.take_effects()));
}
