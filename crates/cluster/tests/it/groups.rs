//! A node with several groups: what they share, and that they come and go.

use crate::world::{MILLI, Wish, World, accept_loss, founded, founded_with_groups, founded_with_members, registration};
use ferrite_base::{Epoch, GroupId, NodeId, Position};
use ferrite_cluster::{Cause, Unusable};
use ferrite_group::{FIRST_GROUP, GroupEvent, message};
use ferrite_meta::{Ask, Command, State};
use ferrite_replica::group::{Envelope, GroupConfiguration, Mark, Member, Message};

fn seal(state: &mut State, id: u32) {
    state.apply(&Command::Seal { group: GroupId(id), expected: Epoch(1), epoch: Epoch(2) }).unwrap();
}

/// What was made durable, each time: the groups that had a promise.
fn promised(wishes: &[Wish]) -> Vec<Vec<u32>> {
    let kept = wishes.iter().filter_map(|wish| match wish {
        Wish::Kept(identity) => Some(identity.promised.iter()),
        _ => None,
    });
    kept.map(|promised| promised.filter(|(_, epoch)| **epoch == Epoch(2)).map(|(group, _)| group.0).collect()).collect()
}

#[test]
fn the_promises_of_all_groups_that_are_sealed_at_once_are_one_write() {
    for sealed in [1_u32, 2, 3] {
        let mut world = World::with_groups(1, 3);
        let mut state = founded_with_groups(registration(1), 3);
        world.told(1, &state);
        assert!(world.outside.take().is_empty());
        (0..sealed).for_each(|id| seal(&mut state, id));
        world.told(2, &state);
        let wishes = world.outside.take();
        assert_eq!(promised(&wishes), [(0..sealed).collect::<Vec<_>>()], "one fsync: {wishes:?}");
        // No seal is answered before.
        let answer = |wish: &Wish| matches!(wish, Wish::Ask(Ask::Sealed { .. }));
        assert!(matches!(wishes[0], Wish::Kept(_)) && wishes[1..].iter().all(answer), "{wishes:?}");
        assert_eq!(wishes.len(), 1 + sealed as usize);
    }
}

/// A voter that does not lead answers each of these questions with the state.
#[test]
fn seals_are_not_answered_again_with_each_state_that_comes() {
    let mut world = World::with_groups(1, 3);
    let mut state = founded_with_groups(registration(1), 3);
    world.told(1, &state);
    (0..3).for_each(|id| seal(&mut state, id));
    world.told(2, &state);
    assert_eq!(world.outside.take().len(), 4, "a promise of all, and three answers");
    let said = |world: &mut World, leader: Option<u32>| world.told_with_leader(2, &state, leader.map(NodeId));
    (0..9).for_each(|_| said(&mut world, None));
    assert_eq!(world.outside.take().len(), 0, "the answers are on their way");
    said(&mut world, Some(2));
    said(&mut world, Some(2));
    assert_eq!(world.outside.take().len(), 3, "to the one that leads the voters");
    world.clock.advance(std::time::Duration::from_millis(30));
    said(&mut world, Some(2));
    assert_eq!(world.outside.take().len(), 3, "they may be lost");
}

/// Its loss may be accepted for the copy that is here.
#[test]
fn what_was_lost_is_not_put_aside_while_another_group_has_no_leader() {
    let mut world = World::with_groups(1, 2);
    let mut state = founded_with_members(registration(1), 2, &[1, 2]);
    world.told(1, &state);
    accept_loss(&mut state, Member::new(2, 1));
    let other = GroupId(1);
    let led_by_two = |state: &mut State, epoch: u64| {
        let parent = Mark { epoch: Epoch(1), position: Position(1), chain: 0 };
        let configuration = GroupConfiguration::alone(Epoch(epoch), Member::new(2, 1));
        state.apply(&Command::Activate { group: other, configuration, parent }).unwrap();
    };
    let sealed = |state: &mut State, epoch: u64| {
        let command = Command::Seal { group: other, expected: Epoch(epoch - 1), epoch: Epoch(epoch) };
        state.apply(&command).unwrap();
    };
    sealed(&mut state, 2);
    led_by_two(&mut state, 2);
    sealed(&mut state, 3);
    world.outside.take();
    world.told(2, &state);
    let puts_aside = |world: &mut World, millis: u64| {
        world.node.tick(millis * MILLI);
        world.outside.take().iter().filter(|wish| matches!(wish, Wish::MakeAnew(_))).count()
    };
    assert_eq!([1, 2, 3].map(|millis| puts_aside(&mut world, millis)), [0, 0, 0]);
    led_by_two(&mut state, 3);
    world.told(3, &state);
    assert_eq!([4, 5].map(|millis| puts_aside(&mut world, millis)), [1, 0], "it is led again");
}

#[test]
fn a_group_that_has_left_is_forgotten_and_may_come_back() {
    let id = GroupId(1);
    let mut world = World::with_groups(1, 2);
    let mut state = founded_with_groups(registration(1), 2);
    assert!(world.node.let_go(id) && world.node.let_go(id), "a copy leaves, and one that is not here");
    assert!(world.groups.get(id).is_none() && world.groups.iter().count() == 1);
    // Messages for it are refused, and what it has reported is dropped.
    let from = Member::new(2, 1);
    let envelope = Envelope { from, epoch: Epoch(1), message: Message::Refused { promised: Epoch(3) } };
    let mut bytes = Vec::new();
    message::encode(&mut bytes, id, &envelope, &[]);
    assert_eq!(world.groups.dispatch(from, &bytes), Err(Unusable::Group(id)));
    for event in [GroupEvent::Opened, GroupEvent::Promise(Epoch(4)), GroupEvent::NeedsSnapshot(NodeId(2))] {
        world.causes.send(Cause::Event(id, event)).unwrap();
    }
    world.causes.send(Cause::CommittedUpTo(id, Position(3))).unwrap();
    world.settle();
    assert!(world.outside.take().is_empty());
    seal(&mut state, 0);
    seal(&mut state, 1);
    world.told(1, &state);
    assert_eq!(promised(&world.outside.take()), [[0]], "only for the other one");
    // It learns at once what the metadata says of a group that comes.
    world.host(1);
    assert_eq!(promised(&world.outside.take()), [[0, 1]]);
    assert_eq!(world.groups.iter().map(|group| group.id().0).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_group_is_listed_as_unequal_before_this_node_leads_it_by_that_loss() {
    let mut state = founded_with_groups(registration(1), 2);
    let mut world = World::with_groups(1, 2);
    world.told(1, &state);
    world.outside.take();
    accept_loss(&mut state, Member::new(1, 1));
    // Also where it has just started.
    for mut world in [world, World::with_groups(1, 2)] {
        world.told(2, &state);
        let wishes = world.outside.take();
        let serves = |wish: &Wish| matches!(wish, Wish::Serves(Some(Epoch(2))));
        assert!(matches!(wishes[0], Wish::Unequal(FIRST_GROUP, true)), "{wishes:?}");
        assert!(wishes[1..].iter().any(serves), "{wishes:?}");
        let mut equal = state.clone();
        equal.apply(&Command::Equal { group: FIRST_GROUP, loss: Epoch(2) }).unwrap();
        world.told(3, &equal);
        let wishes = world.outside.take();
        assert!(matches!(wishes[..], [Wish::Unequal(FIRST_GROUP, false)]), "{wishes:?}");
    }
}

#[test]
fn a_group_that_is_led_does_not_leave() {
    let mut world = World::new(1);
    world.told(1, &founded(registration(1)));
    world.outside.take();
    assert!(!world.node.let_go(FIRST_GROUP), "it is to hand over first");
    assert!(world.groups.get(FIRST_GROUP).is_some_and(|group| group.is_leading()));
}

/// The directory has the copies of both groups.
#[test]
fn what_was_lost_of_one_group_is_put_aside_when_others_have_everything_of_the_other_group() {
    let other = GroupId(1);
    let mut world = World::with_groups(1, 2);
    let mut state = founded_with_members(registration(1), 2, &[1]);
    world.told(1, &state);
    let [one, two] = [1, 2].map(|node| Member::new(node, 1));
    let parent = Mark { epoch: Epoch(1), position: Position(1), chain: 0 };
    accept_loss(&mut state, two);
    world.outside.take();
    world.told(2, &state);
    let ticks = |world: &mut World, millis: [u64; 3]| {
        millis.iter().for_each(|millis| world.node.tick(millis * MILLI));
        let wishes = world.outside.take();
        let notices =
            wishes.iter().filter(|wish| matches!(wish, Wish::Notice(text) if text.contains("is unusable"))).count();
        [notices, wishes.iter().filter(|wish| matches!(wish, Wish::MakeAnew(_))).count()]
    };
    assert_eq!(ticks(&mut world, [1, 2, 3]), [1, 0], "said once");
    let mut has_two_members = |epoch: u64, added: Vec<NodeId>| {
        let configuration = GroupConfiguration::new(Epoch(epoch), one, vec![one, two], added);
        let expected = Epoch(epoch - 1);
        state.apply(&Command::Configure { group: other, expected, configuration, parent }).unwrap();
        world.told(epoch + 1, &state);
        ticks(&mut world, [10 * epoch, 10 * epoch + 1, 10 * epoch + 2])
    };
    assert_eq!(has_two_members(2, vec![two.node]), [0, 0], "what was added has everything when its epoch has begun");
    assert_eq!(has_two_members(3, Vec::new()), [1, 1]);
}
