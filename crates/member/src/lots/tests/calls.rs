//! Calls that succeed: their order, how they share lots, their answers.

use super::*;
use crate::forward::Behind;

#[test]
fn calls_that_wait_share_a_lot_and_each_gets_the_answers_of_its_groups() {
    let mut world = World::new(3);
    let first = world.call("Add", 5, &[0, 1], 1);
    let second = world.call("Add", 7, &[1, 2], 1);
    let third = world.call("Add", 1, &[0, 1, 2], 1);
    world.settle();
    // Of each, the numbers of its groups' rows, and what its first group alone has run.
    let answer = |groups| Heard::Numbers(vec![groups, 77]);
    assert_eq!(world.heard(), [(first, answer(2)), (second, answer(2)), (third, answer(3))]);
    assert_eq!(world.values(), [6, 13, 8]);
    assert_eq!(world.groups.iter().map(|group| group.ran.len()).collect::<Vec<_>>(), [1, 1, 1]);
    let counts = world.sequencing.counts();
    assert_eq!((counts.begun, counts.committed, counts.calls, counts.open), (1, 1, 3, 0));
}

#[test]
fn nothing_is_answered_before_every_part_is_committed() {
    let (mut world, call) = World::with_one_begun(2, 5, |second| second.commits = false);
    assert_eq!(world.heard(), []);
    assert_eq!(world.sequencing.counts().open, 1);
    world.groups[1].commits = true;
    world.groups[1].commit();
    world.settle();
    assert_eq!(world.statuses(), [(call, Status::Success)]);
    world.pass(20);
    assert!(world.sequencing.rests(), "it has said what is settled, too");
    assert!(world.groups.iter().all(|group| group.agent.is_idle()));
}

#[test]
fn what_only_reads_is_released_when_it_has_run_and_answered_when_what_it_saw_is_committed() {
    let mut world = World::new(2);
    world.call("Add", 5, &[0, 1], 1);
    let read = world.call("Read", 0, &[0, 1], 1);
    let later = world.call("Add", 1, &[0, 1], 1);
    world.settle();
    let heard = world.heard();
    assert_eq!(heard[1], (read, Heard::Numbers(vec![10, 77])), "it is between the two in the order of calls");
    assert_eq!(heard[2].0, later);
    let counts = world.sequencing.counts();
    assert_eq!((counts.begun, counts.committed, counts.read), (3, 2, 1));
}

#[test]
fn a_call_passes_another_that_waits_for_a_group_unless_they_share_one() {
    let mut world = World::new(4);
    world.lost(3);
    let waits = world.call("Add", 1, &[2, 3], 1);
    let behind = world.call("Add", 1, &[1, 2], 1);
    let passes = world.call("Add", 1, &[0, 1], 1);
    world.settle();
    assert_eq!(world.statuses(), [], "the third shares a group with the second");
    let alone = world.call("Read", 0, &[0, 1], 1);
    world.settle();
    assert_eq!(world.statuses(), [], "so does the fourth");
    world.led(3);
    world.settle();
    let statuses = world.statuses();
    assert_eq!(statuses.iter().map(|(handle, _)| *handle).collect::<Vec<_>>(), [waits, behind, passes, alone]);
    world.lost(3);
    world.call("Add", 1, &[2, 3], 1);
    let passes = world.call("Add", 1, &[0, 1], 1);
    world.settle();
    assert_eq!(world.statuses(), [(passes, Status::Success)]);
}

#[test]
fn nothing_is_begun_with_a_group_that_another_node_hands_over() {
    let mut world = World::new(3);
    world.sequencing.change(LeaderChange::Holds(GroupId(1), true), world.now);
    world.sequencing.change(LeaderChange::Holds(GroupId(0), true), world.now);
    let waits = world.call("Add", 1, &[1, 2], 1);
    let passes = world.call("Add", 1, &[0, 2], 1);
    world.settle();
    assert_eq!(world.statuses(), [], "they share a group");
    world.sequencing.change(LeaderChange::Holds(GroupId(1), false), world.now);
    world.settle();
    assert_eq!(world.statuses().len(), 2, "{waits} {passes}: what is led here goes on until it is another's");
}

#[test]
fn a_mark_is_done_when_the_calls_before_it_are_answered() {
    let mut world = World::new(3);
    world.lost(2);
    let here = world.call("Add", 1, &[0, 1], 1);
    let waiting = world.call("Add", 1, &[0, 2], 1);
    let done = Arc::new(Mutex::new(false));
    let set = Arc::clone(&done);
    world.sequencing.behind(&Behind::new(move || *set.lock().unwrap() = true));
    world.settle();
    assert_eq!(world.statuses(), [(here, Status::Success)]);
    assert!(!*done.lock().unwrap(), "one waits for its group's leader");
    world.led(2);
    world.settle();
    assert_eq!(world.statuses(), [(waiting, Status::Success)]);
    assert!(*done.lock().unwrap());
    let set = Arc::new(Mutex::new(false));
    let done = Arc::clone(&set);
    world.sequencing.behind(&Behind::new(move || *set.lock().unwrap() = true));
    assert!(*done.lock().unwrap(), "nothing is under way");
}
