//! What a call is told that has waited for too long, and that nothing else is refused.

use super::*;
use ferrite_base::limits::LOT_WAIT;

const WAIT_MILLIS: u64 = LOT_WAIT.as_millis() as u64;

impl World {
    /// The text of the only answer.
    fn refused(&self, handle: i64) -> String {
        match &self.heard()[..] {
            [(of, Heard::Error(Status::ServerUnavailable, text))] if *of == handle => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// A lot of the first two groups, which waits for the second, and a call that comes after it.
    fn with_one_behind(second: impl FnOnce(&mut TestGroup)) -> (World, i64) {
        let (mut world, _) = World::with_one_begun(3, 1, second);
        let behind = world.call("Add", 1, &[0, 2], 1);
        (world, behind)
    }
}

const UNDECIDED: &str =
    "earlier transactions over several groups are not decided yet: lot 7.1 was begun 5001 ms ago, and ";

#[test]
fn a_call_behind_a_lot_is_told_which_group_that_waits_for() {
    let (mut world, behind) = World::with_one_behind(|group| group.silent = true);
    world.pass(WAIT_MILLIS + 1);
    let text = world.refused(behind);
    assert!(text.contains(&format!("{UNDECIDED}group 1 (node 2) is to run its part")), "{text}");

    let (mut world, behind) = World::with_one_behind(|group| group.commits = false);
    world.pass(WAIT_MILLIS + 1);
    let text = world.refused(behind);
    assert!(text.contains(&format!("{UNDECIDED}group 1 (node 2) is to commit its part")), "{text}");

    let (mut world, behind) = World::with_one_behind(|group| group.commits = false);
    world.lost(1);
    world.pass(WAIT_MILLIS + 1);
    let text = world.refused(behind);
    let awaited = "group 1 (led by no node) is to say whether it has its part";
    assert!(text.contains(&format!("{UNDECIDED}{awaited}")), "{text}");
}

#[test]
fn a_call_is_told_of_a_group_that_has_not_obeyed() {
    let mut world = World::new(2);
    world.lost(1);
    world.groups[1].silent = true;
    world.led(1);
    let waits = world.call("Add", 1, &[0, 1], 1);
    world.pass(WAIT_MILLIS + 1);
    let text = world.refused(waits);
    let reason = "group 1 (node 2) has not answered the node that orders transactions over several groups";
    assert!(text.contains(reason), "{text}");
}

#[test]
fn a_call_is_told_how_often_it_was_begun_in_vain() {
    let mut world = World::new(2);
    let read = world.call("Read", 0, &[0, 1], 1);
    world.groups[1].silent = true;
    world.settle();
    world.now.nanos += (WAIT_MILLIS + 1) * MILLI;
    world.lost(1);
    world.groups[1].silent = false;
    world.groups[1].carry_out();
    world.led(1);
    world.settle();
    world.sequencing.tick(world.now);
    let text = world.refused(read);
    assert!(text.contains("restarted because groups lost their leaders (restarts of this one: 1)"), "{text}");
}

/// The process was not running: what it should have heard has come now.
#[test]
fn a_call_that_may_begin_is_not_refused_for_the_time_that_it_has_waited() {
    let (mut world, behind) = World::with_one_behind(|group| group.commits = false);
    world.groups[1].commits = true;
    world.groups[1].commit();
    let (said, _) = world.groups[1].carry_out();
    world.now.nanos += (WAIT_MILLIS + 1) * MILLI;
    said.into_iter().for_each(|message| world.sequencing.receive(GroupId(1), Epoch(7), message));
    world.sequencing.tick(world.now);
    world.settle();
    let ok = Status::Success;
    assert_eq!(world.statuses(), [(1, ok), (behind, ok)]);
    assert_eq!(world.values(), [2, 1, 1]);
}

#[test]
fn a_call_that_has_waited_only_for_one_that_is_refused_begins() {
    let mut world = World::new(3);
    world.sequencing.change(LeaderChange::Holds(GroupId(2), true), world.now);
    let held = world.call("Add", 1, &[1, 2], 1);
    let behind = world.call("Add", 1, &[0, 1], 1);
    world.settle();
    assert_eq!(world.heard(), [], "calls that share a group keep their order");
    world.pass(WAIT_MILLIS + 1);
    let heard = world.heard();
    let [(first, Heard::Error(Status::ServerUnavailable, text)), (second, Heard::Numbers(_))] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert_eq!((*first, *second), (held, behind));
    assert!(text.contains("group 2 (node 3) is being handed over to another node"), "{text}");
    assert_eq!(world.values(), [1, 1, 0]);
}
