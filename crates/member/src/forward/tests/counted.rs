//! What becomes of calls, as `@Statistics FORWARDING` shows it.

use super::*;
use ferrite_system::forwarding::Forwarded;

#[test]
fn each_call_is_counted_by_what_became_of_it() {
    let (mut here, mut second, mut third) = (Here::new(), Leader::default(), Leader::default());
    here.call(&[(7, 1), (7, 2)]);
    let mut expected = Forwarded { passed_on: 2, waiting: 2, ..Forwarded::default() };
    assert_eq!(here.window.counts(), expected);
    // The second node does not lead any more. They go to the third, and count again.
    let (_, message) = here.link.next(NodeId(2)).expect("they were sent");
    second.give_back(&message, 2);
    here.carry_back(2, &mut second);
    assert_eq!((second.received.taken, second.received.given_back), (0, 2));
    expected.came_back = 2;
    assert_eq!(here.window.counts(), expected);
    here.lead(Some(3));
    here.carry(3, &mut third);
    expected.passed_on = 4;
    assert_eq!(here.window.counts(), expected);
    third.answer().expect("it was taken");
    here.carry_back(3, &mut third);
    assert_eq!((third.received.taken, third.received.given_back), (2, 0));
    expected.waiting = 1;
    assert_eq!(here.window.counts(), expected);
    // The way is lost with one under way; and one comes while no node leads.
    here.window.lost(NodeId(3));
    (expected.waiting, expected.unknown) = (0, 1);
    assert_eq!(here.window.counts(), expected);
    here.lead(None);
    here.call(&[(8, 1)]);
    expected.waiting = 1;
    assert_eq!(here.window.counts(), expected);
    here.now += FORWARD_WAIT;
    here.send();
    (expected.waiting, expected.refused) = (0, 1);
    assert_eq!(here.window.counts(), expected);
    assert_eq!(here.answers.take(), [(7, 1, DONE), (7, 2, UNKNOWN), (8, 1, UNAVAILABLE)]);
}
