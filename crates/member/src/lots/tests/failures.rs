//! Calls that fail, groups and sequencers that are lost: what each caller hears.

use super::*;

#[test]
fn a_call_that_fails_changes_nothing_and_the_others_of_its_lot_take_place() {
    let mut world = World::new(2);
    let before = world.call("Add", 5, &[0, 1], 1);
    let fails = world.call("Fail", 1, &[0, 1], 1);
    let after = world.call("Add", 7, &[0, 1], 1);
    world.settle();
    let heard = world.heard();
    let error = Heard::Error(Status::GracefulFailure, "VOLTDB ERROR: CONSTRAINT VIOLATION the key is there".to_owned());
    assert_eq!(heard.iter().map(|(handle, _)| *handle).collect::<Vec<_>>(), [fails, before, after]);
    assert_eq!(heard[0].1, error);
    assert_eq!(world.values(), [12, 12]);
    let counts = world.sequencing.counts();
    assert_eq!((counts.begun, counts.aborted, counts.read, counts.committed, counts.failed), (2, 1, 0, 1, 1));
}

/// A procedure `Many` returns so many times 10 MB from each group.
#[test]
fn a_call_whose_answer_is_too_large_when_it_is_merged_changes_nothing() {
    let mut world = World::new(3);
    let before = world.call("Add", 5, &[0, 1], 1);
    // 3 groups x 20 MB.
    let large = world.call("Many", 2, &[0, 1, 2], 1);
    let fits = world.call("Many", 1, &[0, 1, 2], 1);
    let after = world.call("Add", 7, &[0, 1], 1);
    world.settle();
    let heard = world.heard();
    let handles = || heard.iter().map(|(handle, _)| *handle);
    assert_eq!(handles().collect::<Vec<_>>(), [before, large, fits, after], "in their order");
    let Heard::Error(Status::GracefulFailure, text) = &heard[1].1 else { panic!("{:?}", heard[1]) };
    assert!(text.contains("larger than"), "{text}");
    assert_eq!(world.values(), [12 + 1, 12 + 1, 1], "only the one that fits took place");
    let Heard::Rows(rows) = heard[2].1 else { panic!("{:?}", heard[2]) };
    assert_eq!(rows, 30);
    assert_eq!(world.sequencing.counts().failed, 1);
    world.pass(10);
    assert!(world.sequencing.rests() && world.groups.iter().all(|group| group.agent.is_idle()));
}

/// It is not certain what the groups showed when they answered.
#[test]
fn a_call_whose_answer_is_too_large_fails_only_when_what_it_saw_is_committed() {
    let mut world = World::new(3);
    world.groups[2].confirms_late = true;
    let large = world.call("Many", 2, &[0, 1, 2], 1);
    world.settle();
    assert_eq!(world.heard(), []);
    // It was not: the group is led anew.
    world.lost(2);
    world.groups[2].confirms_late = false;
    world.led(2);
    world.pass(10);
    assert_eq!(world.statuses(), [(large, Status::GracefulFailure)]);
    assert_eq!(world.values(), [0, 0, 0]);
}

#[test]
fn a_call_that_failed_by_what_an_earlier_one_changed_is_run_before_all_that_came_later() {
    let mut world = World::new(2);
    let one = world.call("Once", 1, &[0, 1], 1);
    let twice = world.call("Once", 1, &[0, 1], 1);
    let after = world.call("Add", 7, &[0, 1], 1);
    world.settle();
    let ok = Status::Success;
    assert_eq!(world.statuses(), [(one, ok), (twice, Status::GracefulFailure), (after, ok)]);
    assert_eq!(world.values(), [8, 8]);
}

#[test]
fn a_group_that_is_lost_before_it_was_asked_delays_its_readers_and_a_later_leader_answers() {
    let mut world = World::new(2);
    world.groups[1].silent = true;
    let read = world.call("Read", 0, &[0, 1], 1);
    world.settle();
    world.lost(1);
    world.settle();
    assert_eq!(world.heard(), []);
    world.groups[1].silent = false;
    world.groups[1].carry_out();
    world.led(1);
    world.pass(10);
    assert_eq!(world.heard(), [(read, Heard::Numbers(vec![0, 77]))]);
}

#[test]
fn a_group_whose_connection_breaks_after_it_was_asked_decides_the_lot_with_the_others() {
    let (mut world, call) = World::with_one_begun(2, 5, |second| second.commits = false);
    // Its vote is lost with the connection, its answer has come before.
    world.lost(1);
    world.groups[1].commits = true;
    world.groups[1].commit();
    world.groups[1].carry_out();
    world.settle();
    assert_eq!(world.heard(), [], "it may have a part of the lot, or not");
    world.led(1);
    world.pass(300);
    assert_eq!(world.statuses(), [(call, Status::Success)]);
    assert_eq!(world.values(), [5, 5]);
}

#[test]
fn an_answer_that_is_lost_with_its_connection_is_unknown_although_the_lot_took_place() {
    let mut world = World::new(2);
    let call = world.call("Add", 5, &[0, 1], 1);
    world.sequencing.advance(world.now);
    for send in world.sequencing.sends() {
        world.groups[send.group.0 as usize].agent.receive(send.message, 0);
    }
    // All that the second group says is lost.
    let (said, _) = world.groups[0].carry_out();
    said.into_iter().for_each(|message| world.sequencing.receive(GroupId(0), Epoch(7), message));
    world.groups[1].carry_out();
    world.lost(1);
    world.led(1);
    world.pass(300);
    assert_eq!(world.statuses(), [(call, Status::ResponseUnknown)]);
    assert_eq!(world.values(), [5, 5]);
    assert_eq!(world.sequencing.counts().unknown, 1);
}

#[test]
fn where_another_node_leads_the_first_group_callers_hear_what_is_certain() {
    let (mut world, asked) = World::with_one_begun(2, 5, |second| second.commits = false);
    let waits = world.call("Add", 5, &[0, 1], 1);
    world.lost(0);
    world.settle();
    let after = world.call("Add", 5, &[0, 1], 1);
    let unavailable = Status::ServerUnavailable;
    assert_eq!(world.statuses(), [(asked, Status::ResponseUnknown), (waits, unavailable), (after, unavailable)]);
    assert!(world.sequencing.rests());
    // It comes back, of the same or a later epoch: the part that was left is decided first.
    world.groups[1].commits = true;
    world.groups[1].commit();
    world.led(0);
    world.settle();
    world.pass(1_500);
    let call = world.call("Add", 1, &[0, 1], 1);
    world.pass(10);
    world.pass(10);
    assert_eq!(world.statuses(), [(call, Status::Success)]);
    assert_eq!(world.values(), [6, 6], "both parts of the first one were prepared");
}

#[test]
fn a_reader_that_is_interrupted_was_not_executed() {
    let mut world = World::new(2);
    world.groups[1].silent = true;
    let read = world.call("Read", 5, &[0, 1], 1);
    world.settle();
    world.lost(0);
    assert_eq!(world.statuses(), [(read, Status::ServerUnavailable)]);
}

#[test]
fn a_call_of_another_catalog_is_looked_up_again_and_the_others_take_place() {
    let mut world = World::new(2);
    let stale = world.call("Add", 5, &[0, 1], 9);
    let other = world.call("Add", 7, &[0, 1], 1);
    world.settle();
    assert_eq!(world.statuses(), [(other, Status::Success)]);
    assert!(world.again.lock().unwrap().is_empty(), "not at once: the catalog may come in a moment");
    world.pass(10);
    assert_eq!(*world.again.lock().unwrap(), [stale]);
    assert_eq!((world.sequencing.counts().stale, world.values()), (1, vec![7, 7]));
}

#[test]
fn a_call_that_its_caller_has_given_up_is_not_executed() {
    let mut world = World::new(2);
    let cancellations = Arc::<ferrite_partition::cancel::Cancellations>::default();
    let map = GroupMap::new(vec![GroupId(0), GroupId(1)]).expect("a map");
    world.sequencing = Sequencing::new(HERE, map, Arc::clone(&cancellations));
    world.led(0);
    world.led(1);
    world.settle();
    let call = world.call("Add", 5, &[0, 1], 1);
    let until_micros = world.now.micros;
    cancellations.add(1, ferrite_partition::cancel::Cancel::Calls { handle: None, until_micros });
    world.settle();
    let heard = world.heard();
    assert!(matches!(&heard[..], [(handle, Heard::Error(..))] if *handle == call), "{heard:?}");
    assert_eq!(world.values(), [0, 0]);
}

#[test]
fn calls_that_come_when_the_process_ends_are_refused_whatever_leads() {
    let (mut world, begun) = World::with_one_begun(2, 1, |second| second.silent = true);
    let waits = world.call("Add", 1, &[0, 1], 1);
    world.sequencing.end();
    world.lost(0);
    world.led(0);
    let late = world.call("Add", 1, &[0, 1], 1);
    let refused = Status::ServerUnavailable;
    assert_eq!(world.statuses(), [(begun, Status::ResponseUnknown), (waits, refused), (late, refused)]);
}

/// The time that a call may execute is no time that it may wait.
#[test]
fn the_own_time_of_a_call_does_not_pass_while_it_waits() {
    let (mut world, _) = World::with_one_begun(2, 1, |second| second.commits = false);
    let waits = world.call_within(1, "Add", 1, &[0, 1], 1);
    world.pass(3_000);
    world.groups[1].commits = true;
    world.groups[1].commit();
    world.settle();
    assert_eq!(world.statuses(), [(1, Status::Success), (waits, Status::Success)]);
    assert_eq!(world.groups[1].own_times, [0, 1], "all of it is left");
}
