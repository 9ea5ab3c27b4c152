//! One node, whose partitions and metadata are the test: what it asks for, what it does before
//! what, and that its roles follow each other whatever the group says meanwhile.

use crate::world::{MILLI, Wish, World, accept_loss, founded, founded_by, founded_with, member, registration};
use ferrite_base::{Epoch, Incarnation, NodeId, PartitionId, Position, Sequence};
use ferrite_cluster::{Cause, NotHandedOver};
use ferrite_group::{CannotHandOver, FIRST_GROUP, GroupEvent};
use ferrite_io::Clock;
use ferrite_meta::{Ask, Command, Node as Registration, Presence, State};
use ferrite_partition::coordinator::Job;
use ferrite_partition::event::CommittedState;
use ferrite_partition::{Compiled, CopyFault, Event, ReplayError};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::{GroupConfiguration, Member};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_node_takes_no_part_before_it_is_registered_and_leads_afterwards() {
    let mut world = World::new(2);
    world.node.tick(0);
    let asked = world.outside.take();
    assert!(matches!(&asked[..], [Wish::Ask(Ask::Register { id: NodeId(1), .. })]), "{asked:?}");
    // The metadata knows an earlier start, which led.
    let earlier = founded(registration(1));
    world.told(1, &earlier);
    assert!(!world.node.is_registered() && !world.groups.get(FIRST_GROUP).unwrap().is_open());
    world.node.tick(10 * MILLI);
    assert!(world.outside.take().is_empty(), "it asks again, though not at once");
    world.node.tick(60 * MILLI);
    assert!(matches!(&world.outside.take()[..], [Wish::Ask(Ask::Register { .. })]));
    world.told(2, &founded(registration(2)));
    assert!(matches!(&world.outside.take()[..], [Wish::Serves(Some(Epoch(1)))]));
    assert!(
        matches!(world.inbox.try_recv(), Ok(Event::Lead { .. }))
            && matches!(world.jobs.try_recv(), Ok(Job::Lead { .. }))
    );
    // From here on it only looks now and then.
    world.node.tick(2_000 * MILLI);
    assert!(matches!(&world.outside.take()[..], [Wish::Ask(Ask::Look { index: 2, .. })]));
}

#[test]
fn a_node_that_begins_to_lead_knows_by_then_whether_the_database_is_paused() {
    let mut world = World::new(1);
    let mut state = founded(registration(1));
    let paused = |revision, paused| Command::Pause { revision, paused };
    state.apply(&paused(1, true)).expect("it follows");
    world.told(5, &state);
    assert!(matches!(&world.outside.take()[..], [Wish::Paused(true), Wish::Serves(Some(Epoch(1)))]));
    // What was so before is news to nobody, nor is it believed.
    world.told(4, &founded(registration(1)));
    world.told(6, &state);
    assert!(world.outside.take().is_empty());
    state.apply(&paused(2, false)).expect("it follows");
    world.told(7, &state);
    assert!(matches!(&world.outside.take()[..], [Wish::Paused(false)]));
}

#[test]
fn a_node_sleeps_until_it_asks_again_and_less_while_its_group_lacks_a_member_or_a_lease() {
    for (kfactor, leased, pause) in [(0, true, 666), (1, true, 50), (0, false, 50)] {
        let mut world = World::new(1);
        if leased {
            world.lease.extend(world.clock.boottime_nanos() + 60_000 * MILLI);
        }
        assert_eq!(world.node.next_tick(5), 5, "it is not registered");
        world.told(1, &founded_with(registration(1), kfactor));
        let now = 1_000 * MILLI;
        world.node.tick(now);
        assert_eq!(world.node.next_tick(now + 1), now + pause * MILLI);
        let late = now + 700 * MILLI;
        assert_eq!(world.node.next_tick(late), late);
    }
}

#[test]
fn a_promise_is_durable_before_the_seal_is_answered_and_a_leader_steps_back() {
    let mut world = World::new(1);
    let mut state = founded(registration(1));
    world.told(1, &state);
    world.outside.take();
    assert!(world.inbox.try_recv().is_ok() && world.jobs.try_recv().is_ok());
    state.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).unwrap();
    world.told(2, &state);
    let wishes = world.outside.take();
    let [Wish::Serves(None), rest @ ..] = &wishes[..] else { panic!("{wishes:?}") };
    let [Wish::Kept(identity), Wish::Ask(Ask::Sealed { sealed, .. })] = rest else { panic!("{wishes:?}") };
    assert_eq!((identity.promised[&FIRST_GROUP], sealed.epoch), (Epoch(2), Epoch(2)));
    // The partitions have not stepped back yet: no snapshot is taken in, though the group follows.
    assert!(!world.node.is_copy(FIRST_GROUP) && world.node.intake(FIRST_GROUP).is_none());
    // It is decided that the node leads again.
    let next = GroupConfiguration::alone(Epoch(2), member(1));
    state.apply(&Command::Activate { group: FIRST_GROUP, configuration: next, parent: sealed.end }).unwrap();
    world.told(3, &state);
    assert!(world.groups.get(FIRST_GROUP).unwrap().is_open() && world.outside.take().is_empty());
    let Ok(Job::Follow { to, partitions }) = world.jobs.try_recv() else { panic!("it steps back") };
    let compiled = Arc::new(Compiled::recovered(Arc::default(), &RuntimeHandle::default()).unwrap());
    to.send(CommittedState { compiled, history: Default::default(), lots: Default::default() }).unwrap();
    world.settle();
    assert!(world.inbox.is_empty(), "the partition has not stepped back");
    partitions.send((PartitionId(0), Sequence(0))).unwrap();
    world.settle();
    assert!(matches!(&world.outside.take()[..], [Wish::Serves(Some(Epoch(2)))]));
    assert!(matches!(world.inbox.try_recv(), Ok(Event::Lead { .. })));
}

#[test]
fn a_lease_counts_once_the_groups_know_what_it_was_granted_for() {
    let mut world = World::new(1);
    let state = founded(registration(1));
    let granted = |world: &mut World, index, millis| {
        let until = world.clock.boottime_nanos() + millis * MILLI;
        world.causes.send(Cause::Lease { index, until }).unwrap();
        world.settle();
    };
    granted(&mut world, 1, 60_000);
    assert!(!world.lease.holds(), "the node is not registered");
    world.told(1, &state);
    granted(&mut world, 2, 60_000);
    assert!(!world.lease.holds(), "it was granted for a later state");
    granted(&mut world, 1, 2_000);
    granted(&mut world, 1, 1_000);
    world.clock.advance(Duration::from_nanos(2_000 * MILLI - 1));
    assert!(world.lease.holds(), "an answer that came late takes nothing away");
    world.clock.advance(Duration::from_nanos(1));
    assert!(!world.lease.holds(), "it has ended");
    granted(&mut world, 1, 60_000);
    assert!(world.lease.holds());
    world.node.goodbye();
    assert!(!world.lease.holds(), "others may lead from here on");
    granted(&mut world, 1, 60_000);
    assert!(!world.lease.holds(), "and again, an answer was on its way");
}

#[test]
fn a_process_whose_place_another_has_ends() {
    let copied = founded(Registration { start: [8; 16], ..registration(1) });
    let later = founded(registration(2));
    for (state, why) in [(copied, "a copy of the directory"), (later, "started again")] {
        let mut world = World::new(1);
        world.told(1, &state);
        let wishes = world.outside.take();
        assert!(matches!(&wishes[..], [Wish::End(reason)] if reason.contains(why)), "{wishes:?}");
        world.node.tick(1_000 * MILLI);
        world.causes.send(Cause::Event(FIRST_GROUP, GroupEvent::Promise(Epoch(9)))).unwrap();
        world.settle();
        assert!(world.outside.take().is_empty() && !world.groups.get(FIRST_GROUP).unwrap().is_open());
        // Nobody waits for it, or for what it would say.
        world.node.leave();
        assert!(world.node.says_goodbye() && world.node.has_left());
    }
}

#[test]
fn a_copy_of_no_use_is_given_up_once() {
    let mut world = World::new(1);
    world.told(1, &founded(registration(1)));
    world.outside.take();
    for _ in 0..3 {
        world.causes.send(Cause::Event(FIRST_GROUP, GroupEvent::Diverged(NodeId(1)))).unwrap();
        world.settle();
    }
    let wishes = world.outside.take();
    let given_up = |wish: &Wish| matches!(wish, Wish::MakeAnew(reason) if reason == "its entries are not the leader's");
    assert!(matches!(&wishes[..], [Wish::Notice(_), wish] if given_up(wish)), "{}", wishes.len());
}

/// Others have accepted the loss of what this node alone has.
#[test]
fn what_was_lost_to_the_others_is_put_aside_before_anything_replaces_it() {
    let mut world = World::new(1);
    let mut state = founded_by(registration(1), 1, 3);
    world.told(1, &state);
    let group = world.groups.get(FIRST_GROUP).unwrap();
    assert_eq!(group.end().epoch, Epoch(1));
    let two = Member::new(2, 1);
    accept_loss(&mut state, two);
    world.outside.take();
    world.told(2, &state);
    assert!(!group.is_open(), "it leads no more");
    let given_up =
        |wish: &Wish| matches!(wish, Wish::MakeAnew(reason) if reason.starts_with("node 2 has led since epoch 2"));
    let mut puts_aside = |millis: u64| {
        world.node.tick(millis * MILLI);
        world.outside.take().iter().filter(|wish| given_up(wish)).count()
    };
    assert_eq!([puts_aside(1), puts_aside(2), puts_aside(3)], [0, 1, 0], "once, and when all of the node knows why");
}

#[test]
fn a_copy_of_no_use_applies_nothing_more() {
    let mut world = World::new(1);
    world.settle();
    assert!(world.outside.applies());
    world.causes.send(Cause::Event(FIRST_GROUP, GroupEvent::Diverged(NodeId(1)))).unwrap();
    world.settle();
    assert!(!world.outside.applies(), "its thread would not end");
}

/// Its log is removed while it reads there, perhaps: it ends with the others, a moment later.
#[test]
fn an_applier_that_a_snapshot_has_replaced_does_not_condemn_the_snapshot() {
    let mut world = World::new(1);
    world.settle();
    let fault = |world: &mut World| {
        let reason = ReplayError::Log("the log was removed".to_owned());
        world.causes.send(Cause::Fault(FIRST_GROUP, CopyFault { entry: Position(7), reason })).unwrap();
        world.settle();
        world.outside.take().len()
    };
    world.causes.send(Cause::Event(FIRST_GROUP, GroupEvent::Replaced)).unwrap();
    world.settle();
    assert_eq!(fault(&mut world), 0);
    // The next one has begun.
    world.outside.end_applier();
    let start = world.start.take().unwrap();
    world.node.replaced(FIRST_GROUP, start);
    world.settle();
    assert_eq!((fault(&mut world), world.outside.applies()), (0, true));
    // And fails itself.
    world.outside.end_applier();
    assert_eq!(fault(&mut world), 2, "a line, and that the copy is to be made anew");
}

#[test]
fn a_leader_whose_log_stands_still_lets_its_lease_end_and_asks_again_when_it_moves() {
    let mut world = World::new(1);
    let mut state = founded(registration(1));
    world.told(1, &state);
    world.outside.take();
    let looks = |world: &mut World, seconds: u64| {
        world.node.tick(seconds * 1_000 * MILLI);
        let asked = world.outside.take();
        asked.iter().filter(|wish| matches!(wish, Wish::Ask(Ask::Look { .. }))).count()
    };
    let says = |world: &mut World, stands_still| {
        world.causes.send(Cause::Event(FIRST_GROUP, GroupEvent::StandsStill(stands_still))).unwrap();
        world.settle();
    };
    assert_eq!(looks(&mut world, 10), 1);
    says(&mut world, true);
    assert!(
        matches!(&world.outside.take()[..], [Wish::Notice(line)] if line.contains("gives up leadership of group 0"))
    );
    assert_eq!((looks(&mut world, 11), looks(&mut world, 20)), (0, 0));
    says(&mut world, false);
    world.outside.take();
    assert_eq!(looks(&mut world, 21), 1, "it moves again");
    says(&mut world, true);
    world.outside.take();
    assert_eq!(looks(&mut world, 30), 0);
    // Its lease has ended, and the voters seal the group.
    state.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(1), epoch: Epoch(2) }).unwrap();
    world.told(2, &state);
    world.outside.take();
    assert_eq!(looks(&mut world, 31), 1, "it leads no more");
}

/// Node 1 leads node 2, which says nothing. Until `leased` it has a lease; when it gives up its
/// lead, in milliseconds, and the world.
fn cut_off(leased: u64) -> (World, State, u64) {
    let mut world = World::new(1);
    let mut state = founded_with(registration(1), 1);
    let (presence, addresses) = (Presence::Stopped, vec!["there:1".to_owned()]);
    let node = Registration { presence, addresses, ..registration(1) };
    let process = Registration { presence: Presence::Running, ..node.clone() };
    state.apply(&Command::Join { id: NodeId(2), key: [2; 16], node }).unwrap();
    let process = Registration { incarnation: Incarnation(2), ..process };
    state.apply(&Command::Register { id: NodeId(2), expected: Incarnation(1), node: process }).unwrap();
    let kept = state.groups()[&FIRST_GROUP].clone();
    let members = vec![member(1), Member { node: NodeId(2), incarnation: Incarnation(2) }];
    let configuration = GroupConfiguration::new(Epoch(2), member(1), members, vec![NodeId(2)]);
    let command = Command::Configure { group: FIRST_GROUP, expected: Epoch(1), configuration, parent: kept.parent };
    state.apply(&command).unwrap();
    world.told(1, &state);
    let begun = world.clock.boottime_nanos();
    world.causes.send(Cause::Lease { index: 1, until: begun + leased * MILLI }).unwrap();
    world.settle();
    for now in (0..60_000).step_by(100) {
        world.node.tick(begun + now * MILLI);
        world.settle();
        let said = world.outside.take();
        if said.iter().any(|wish| matches!(wish, Wish::GaveUp(Epoch(2)))) {
            return (world, state, now);
        }
        let resigns = |wish: &Wish| matches!(wish, Wish::Ask(Ask::Resign { .. }));
        assert!(!said.iter().any(resigns), "{said:?}");
        world.clock.advance(Duration::from_millis(100));
    }
    panic!("it leads on");
}

#[test]
fn a_leader_without_a_lease_and_without_an_answer_gives_up_and_says_so_until_that_is_known() {
    let (mut world, mut state, at) = cut_off(2_000);
    assert_eq!(at, 5_000, "three seconds without a lease, five without an answer");
    assert_eq!(cut_off(0).2, 5_000, "it may be that the first has not come yet");
    assert_eq!(cut_off(20_000).2, 23_000, "the metadata is there to leave out who says nothing");
    let asks = |world: &mut World, seconds: u64| {
        world.node.tick(seconds * 1_000 * MILLI);
        let asked = world.outside.take().into_iter();
        let ask = |wish| if let Wish::Ask(ask) = wish { Some(ask) } else { None };
        asked.filter_map(ask).filter(|ask| !matches!(ask, Ask::Propose { .. })).collect::<Vec<_>>()
    };
    for seconds in [6, 7] {
        let asked = asks(&mut world, seconds);
        let resigns = Ask::Resign { group: FIRST_GROUP, from: member(1), epoch: Epoch(2) };
        assert!(matches!(&asked[..], [Ask::Look { .. }, second] if *second == resigns), "{asked:?}");
    }
    // The same word of the metadata again makes it no leader.
    world.told(1, &state);
    assert!(!world.groups.get(FIRST_GROUP).unwrap().is_leading());
    state.apply(&Command::Seal { group: FIRST_GROUP, expected: Epoch(2), epoch: Epoch(3) }).unwrap();
    world.told(2, &state);
    world.outside.take();
    let asked = asks(&mut world, 8);
    assert!(matches!(&asked[..], [Ask::Look { .. }]), "{asked:?}");
}

#[test]
fn a_node_that_nobody_can_follow_says_so_and_holds_nothing() {
    let mut world = World::new(1);
    let refused = |world: &mut World, to, reason| {
        world.node.hand_over(FIRST_GROUP, to, None);
        let wishes = world.outside.take();
        assert!(
            matches!(&wishes[..], [Wish::HandedOver(Err(NotHandedOver::Cannot(why)))] if *why == reason),
            "{wishes:?}"
        );
    };
    refused(&mut world, None, CannotHandOver::NotLeading);
    world.told(1, &founded(registration(1)));
    world.outside.take();
    refused(&mut world, None, CannotHandOver::Alone);
    refused(&mut world, Some(NodeId(1)), CannotHandOver::Leads(NodeId(1)));
    refused(&mut world, Some(NodeId(9)), CannotHandOver::NotMember(NodeId(9)));
    // It leaves as well, and at once.
    world.node.leave();
    world.node.tick(1);
    let wishes = world.outside.take();
    assert!(matches!(&wishes[..], [Wish::Ask(Ask::Goodbye(_))]), "{wishes:?}");
}

/// Node 1 leads alone, of so many voters, and hears nothing more: for how long, and what it said
/// until it gave up its lead, within a minute.
fn hears_nothing(voters: u32) -> (World, u64, Vec<Wish>) {
    let mut world = World::new(1);
    world.told(1, &founded_by(registration(1), 0, voters));
    let begun = world.clock.boottime_nanos();
    world.causes.send(Cause::Lease { index: 1, until: begun + 2_000 * MILLI }).unwrap();
    world.settle();
    let mut said = Vec::new();
    for _ in 0..600 {
        world.clock.advance(Duration::from_millis(100));
        world.node.tick(world.clock.boottime_nanos());
        world.settle();
        said.extend(world.outside.take());
        if said.iter().any(|wish| matches!(wish, Wish::GaveUp(_))) {
            break;
        }
    }
    let nanos = world.clock.boottime_nanos() - begun;
    (world, nanos, said)
}

#[test]
fn a_leader_without_which_the_others_can_decide_gives_up_when_they_could_have_accepted_its_loss() {
    let (world, nanos, said) = hears_nothing(3);
    assert!(said.iter().any(|wish| matches!(wish, Wish::GaveUp(Epoch(1)))), "{said:?}");
    assert_eq!(nanos / (100 * MILLI), 50, "three seconds without a lease");
    assert!(!world.lease.may_lead() && !world.groups.get(FIRST_GROUP).unwrap().is_leading());
}

#[test]
fn the_only_voter_leads_on_whatever_it_hears() {
    let (world, _, said) = hears_nothing(1);
    assert!(!said.iter().any(|wish| matches!(wish, Wish::GaveUp(_))), "{said:?}");
    assert!(world.groups.get(FIRST_GROUP).unwrap().is_open());
}

#[test]
fn what_becomes_durable_when_others_could_have_replaced_it_waits_for_the_next_lease() {
    let mut world = World::new(1);
    world.told(1, &founded_by(registration(1), 0, 3));
    let group = world.groups.get(FIRST_GROUP).unwrap().clone();
    assert!(group.is_leading() && !group.is_open(), "it has had no lease yet");
    let until = world.clock.boottime_nanos() + 2_000 * MILLI;
    world.causes.send(Cause::Lease { index: 1, until }).unwrap();
    world.settle();
    assert!(group.is_open(), "what waited for it is committed");
    // Its process stands still: it finds that out before it commits anything, or confirms a read.
    world.clock.advance(Duration::from_millis(5_000));
    assert!(group.read().is_some_and(|round| round > 0));
}
