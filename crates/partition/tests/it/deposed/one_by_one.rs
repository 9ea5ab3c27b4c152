//! What must not happen at the end of a leadership, one thing at a time.

use super::*;

/// A world in which the first node leads and has said so to a caller.
fn led_by_the_first(seed: u64) -> World {
    let mut world = World::new(seed);
    world.settle();
    assert!(world.nodes[0].leads());
    world.nodes[0].database.submit(1, "INSERT INTO marks VALUES (1)").expect("it means something");
    world.asked.insert(1, Asked::Marks(vec![1]));
    world.settle();
    assert!(world.kept.contains(&1));
    world
}

#[test]
fn a_read_waits_until_others_have_said_that_this_node_leads() {
    let mut world = led_by_the_first(3);
    world.cut[0] = true;
    for (handle, text) in [(2, "SELECT COUNT(*) FROM marks WHERE n = 1"), (3, "SELECT COUNT(*) FROM marks")] {
        world.nodes[0].database.submit(handle, text).expect("it means something");
        world.asked.insert(handle, Asked::Count(1));
    }
    world.settle();
    assert_eq!((world.asked.len(), world.outcome.reads), (2, 0), "nobody has said so yet");
    world.cut[0] = false;
    world.settle();
    assert_eq!((world.asked.len(), world.outcome.reads), (0, 2));

    // Cut off, it does not answer at all; and when it hears why, not with what it has read.
    world.cut = [true, false];
    let second = world.nodes[1].member;
    let epoch = Epoch(world.configuration.epoch.0 + 1);
    world.configuration = GroupConfiguration::alone(epoch, second);
    world.nodes[1].group.configured(world.configuration.clone());
    world.settle();
    world.nodes[1].database.submit(4, "INSERT INTO marks VALUES (2)").expect("it means something");
    world.asked.insert(4, Asked::Marks(vec![2]));
    world.settle();
    assert!(world.kept.contains(&2));
    for handle in [5, 6] {
        world.nodes[0].database.submit(handle, "SELECT COUNT(*) FROM marks").expect("it means something");
        world.asked.insert(handle, Asked::Count(2));
    }
    world.settle();
    assert_eq!((world.asked.len(), world.outcome.refused), (2, 0));
    world.cut[0] = false;
    world.settle();
    // A read has changed nothing: its caller may send it again.
    assert_eq!((world.asked.len(), world.outcome.refused, world.outcome.reads), (0, 2, 2));
}

/// The group is ahead of its partitions, and all that they have executed is committed: no entry
/// keeps back what they read, and another leads.
#[test]
fn a_read_behind_the_end_of_a_leadership_is_not_answered_with_what_was_there() {
    for steps in 0..8 {
        let mut world = led_by_the_first(2);
        world.deaf = Some(0);
        world.configuration = GroupConfiguration::alone(Epoch(world.configuration.epoch.0 + 1), world.nodes[1].member);
        world.nodes[1].group.configured(world.configuration.clone());
        world.settle();
        world.nodes[1].database.submit(3, "INSERT INTO marks VALUES (3)").expect("it leads");
        world.asked.insert(3, Asked::Marks(vec![3]));
        world.settle();
        assert!(world.kept.contains(&3));
        for handle in [4, 5] {
            world.nodes[0].database.submit(handle, "SELECT COUNT(*) FROM marks").expect("it means something");
            world.asked.insert(handle, Asked::Count(2));
        }
        for _ in 0..steps {
            world.nodes[0].database.step();
        }
        world.nodes[0].group.configured(world.configuration.clone());
        world.settle();
        world.deaf = None;
        world.settle();
        let outcome = &world.outcome;
        assert_eq!((world.asked.len(), outcome.refused, outcome.reads), (0, 2, 0), "{steps}: {outcome:?}");
    }
}

/// The group is ahead of its partitions: they execute for a leadership that has ended, and their
/// node leads again.
#[test]
fn what_was_executed_for_a_leadership_that_has_ended_is_not_appended_in_another() {
    let mut world = led_by_the_first(2);
    world.deaf = Some(0);
    for leader in [1, 0] {
        let members = world.nodes.each_ref().map(|node| node.member);
        let epoch = Epoch(world.configuration.epoch.0 + 1);
        world.configuration = GroupConfiguration::new(epoch, members[leader], members.to_vec(), Vec::new());
        world.nodes.iter().for_each(|node| node.group.configured(world.configuration.clone()));
        world.settle();
    }
    assert!(world.nodes[0].group.is_open() && world.nodes[0].leads());
    let texts = ["INSERT INTO marks VALUES (2)", "INSERT INTO marks VALUES (3); INSERT INTO marks VALUES (4)"];
    for (handle, text) in (2..).zip(texts) {
        world.nodes[0].database.submit(handle, text).expect("it means something");
        world.asked.insert(handle, Asked::Else);
        world.settle();
    }
    assert_eq!((world.outcome.unknown, world.asked.len()), (2, 0), "{:?}", world.outcome);
    world.deaf = None;
    world.check();
    assert_eq!(world.nodes[0].database.numbers("MARKS"), [1]);
}

/// The group is ahead of its coordinator, which takes a schema change: that waits for what is
/// before it, with all stores, and what is before it is committed by nobody any more.
#[test]
fn a_schema_change_waits_for_no_leadership_that_has_ended() {
    // After so many steps of the change the group hears that it is deposed: before it waits, while
    // the log has that, and later.
    for steps in 0..12 {
        let mut world = led_by_the_first(2);
        world.cut = [true; 2];
        world.nodes[0].database.submit(2, "INSERT INTO marks VALUES (2)").expect("it means something");
        world.asked.insert(2, Asked::Else);
        world.settle();
        assert_eq!(world.asked.len(), 1, "the other node is not reached");
        let epoch = Epoch(world.configuration.epoch.0 + 1);
        let configuration = GroupConfiguration::alone(epoch, world.nodes[1].member);
        world.deaf = Some(0);
        world.nodes[0].database.submit_change(3, "CREATE TABLE late (n BIGINT NOT NULL)");
        world.asked.insert(3, Asked::Else);
        for _ in 0..steps {
            world.nodes[0].database.step();
        }
        world.nodes[0].group.configured(configuration.clone());
        world.settle();
        world.configuration = configuration;
        world.deaf = None;
        world.settle();
        assert!(world.asked.is_empty() && !world.nodes[0].leads(), "{steps}: {:?}", world.outcome);
    }
}
