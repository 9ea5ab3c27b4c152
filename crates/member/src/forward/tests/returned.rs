//! Calls that come back from a node that does not lead any more.

use super::*;

#[test]
fn what_comes_back_goes_to_the_next_node_before_all_that_was_not_sent() {
    let (mut here, mut former, mut next) = (Here::new(), Leader::default(), Leader::default());
    here.call(&[(7, 1), (8, 1)]);
    here.carry(2, &mut former);
    here.call(&[(7, 2), (7, 3)]);
    let (_, message) = here.link.next(NodeId(2)).unwrap();
    here.call(&[(8, 2)]);
    let (_, last) = here.link.next(NodeId(2)).unwrap();
    // Another node leads, as is known here at once, and there are more calls.
    here.lead(Some(3));
    here.call(&[(7, 4), (9, 1)]);
    assert!(here.link.next(NodeId(3)).is_none(), "the former one has some yet");
    former.give_back(&message, 2);
    assert_eq!(former.answer(), Some((7, 1)));
    former.give_back(&last, 2);
    assert_eq!(former.answer(), Some((8, 1)));
    here.window.cancel(8, Cancel::Gone, &cancelled());
    here.carry_back(2, &mut former);
    assert_eq!(
        here.answers.take(),
        [(8, 2, UNAVAILABLE), (7, 1, DONE), (8, 1, DONE)],
        "a connection that is gone calls nothing"
    );
    here.send();
    here.carry(3, &mut next);
    let answered: Vec<_> = std::iter::from_fn(|| next.answer()).collect();
    assert_eq!(answered, [(7, 2), (7, 3), (7, 4), (9, 1)]);
    here.carry_back(3, &mut next);
    assert_eq!(here.answers.take().len(), 4);
    assert_eq!(here.window.held(), 0);
}

#[test]
fn what_comes_back_waits_until_a_later_leadership_is_known() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.call(&[(7, 1)]);
    let (_, message) = here.link.next(NodeId(2)).unwrap();
    assert_eq!(batch::epoch_of_calls(&message), Epoch(1));
    there.give_back(&message, 3);
    here.carry_back(2, &mut there);
    here.send();
    here.lead(Some(2));
    here.carry(2, &mut there);
    assert!(there.execute.calls.is_empty() && here.window.held() == 1, "epoch 2 is not known to be meant");
    here.lead(Some(2));
    here.carry(2, &mut there);
    assert_eq!(there.answer(), Some((7, 1)));
    here.carry_back(2, &mut there);
    assert_eq!(here.answers.take(), [(7, 1, DONE)]);
    // And not for ever.
    here.call(&[(7, 2)]);
    let (_, message) = here.link.next(NodeId(2)).unwrap();
    there.give_back(&message, 9);
    here.carry_back(2, &mut there);
    here.send();
    here.now += FORWARD_WAIT;
    here.send();
    assert_eq!(here.answers.take(), [(7, 2, UNAVAILABLE)]);
}

#[test]
fn what_waits_too_long_for_a_leader_that_comes_is_refused_and_goes_there_when_called_again() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.call(&[(7, 1), (8, 2)]);
    let (_, message) = here.link.next(NodeId(2)).unwrap();
    there.received.calls((HERE, START), &message, Taking::Refuse, &mut there.execute).expect("well-formed");
    here.carry_back(2, &mut there);
    assert_eq!(here.answers.take(), [(7, 1, UNAVAILABLE), (8, 2, UNAVAILABLE)]);
    // It leads in the same epoch.
    here.call(&[(7, 3)]);
    here.carry(2, &mut there);
    assert_eq!(there.answer(), Some((7, 3)));
}

#[test]
fn what_comes_back_otherwise_than_it_was_sent_ends_the_session() {
    let mut here = Here::new();
    here.call(&[(7, 1)]);
    here.link.next(NodeId(2)).unwrap();
    let mut other = body(1, 0);
    other.truncate(other.len() - 1);
    assert_eq!(Invocation::parse(&other).err().and_then(|error| error.handle), Some(1), "it has a handle");
    let mut message = Vec::new();
    batch::begin(&mut message, Header { group: FIRST_GROUP, session: 0, number: 0 });
    batch::put_returned(&mut message, Epoch(2), 7, false, &other);
    // This node would execute it, if it led next.
    assert!(here.window.answers(NodeId(2), &message, here.now).is_err());
    assert_eq!((here.answers.take(), here.window.held()), (vec![(7, 1, UNKNOWN)], 0));
}

#[test]
fn what_was_cancelled_and_comes_back_goes_nowhere() {
    let (mut here, mut former) = (Here::new(), Leader::default());
    let cancel = |handle| Cancel::Calls { handle, until_micros: 77 };
    here.call(&[(7, 1), (7, 2), (8, 1), (9, 1)]);
    let (_, message) = here.link.next(NodeId(2)).unwrap();
    here.window.cancel(7, cancel(None), &cancelled());
    here.window.cancel(8, cancel(Some(2)), &cancelled());
    here.window.cancel(9, cancel(Some(1)), &cancelled());
    // Of the same connection, after what was cancelled.
    here.call(&[(7, 3)]);
    let (_, last) = here.link.next(NodeId(2)).unwrap();
    former.give_back(&message, 2);
    former.give_back(&last, 2);
    here.carry_back(2, &mut former);
    assert_eq!(here.answers.take(), [(7, 1, FAILED), (7, 2, FAILED), (9, 1, FAILED)]);
    here.lead(Some(3));
    let mut next = Leader::default();
    here.carry(3, &mut next);
    assert_eq!(next.execute.calls.iter().map(|(_, handle)| *handle).collect::<Vec<_>>(), [1, 3]);
    // The handle is the client's to use again.
    while next.answer().is_some() {}
    here.carry_back(3, &mut next);
    here.call(&[(7, 1)]);
    let (_, message) = here.link.next(NodeId(3)).unwrap();
    next.give_back(&message, 2);
    here.carry_back(3, &mut next);
    assert!(here.window.held() == 1 && here.answers.take().len() == 2);
}

#[test]
fn a_handle_that_is_used_again_before_its_call_is_answered_is_not_cancelled() {
    let cancel = Cancel::Calls { handle: Some(1), until_micros: 77 };
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.call(&[(7, 1)]);
    let (_, message) = here.link.next(NodeId(2)).unwrap();
    here.window.cancel(7, cancel, &cancelled());
    here.call(&[(7, 1)]);
    let (_, again) = here.link.next(NodeId(2)).unwrap();
    there.give_back(&message, 2);
    there.give_back(&again, 2);
    here.carry_back(2, &mut there);
    assert!(here.window.held() == 2 && here.answers.take().is_empty());
}

#[test]
fn what_was_sent_behind_a_call_that_comes_back_does_not_overtake_it() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.call(&[(7, 1)]);
    here.call(&[(7, 2)]);
    let (_, first) = here.link.next(NodeId(2)).unwrap();
    there.give_back(&first, 2);
    // It leads again before the next message comes, and before this node hears that it did not.
    here.carry(2, &mut there);
    here.lead(Some(2));
    here.call(&[(7, 3)]);
    here.carry(2, &mut there);
    assert!(there.execute.calls.is_empty(), "behind what went back");
    here.carry_back(2, &mut there);
    here.call(&[(7, 4)]);
    here.carry(2, &mut there);
    let answered: Vec<_> = std::iter::from_fn(|| there.answer()).collect();
    assert_eq!(answered, [(7, 1), (7, 2), (7, 3), (7, 4)]);
    here.carry_back(2, &mut there);
    assert!(here.answers.take().len() == 4 && here.window.held() == 0);
}
