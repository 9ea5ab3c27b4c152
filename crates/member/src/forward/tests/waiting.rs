//! How long calls wait for a node that leads.

use super::*;
use ferrite_base::limits::FORWARD_WAIT_LATER;

#[test]
fn calls_wait_for_somebody_to_lead_and_are_refused_after_a_while() {
    let mut here = Here::new();
    here.lead(None);
    here.call(&[(7, 1)]);
    here.now += FORWARD_WAIT / 2;
    here.call(&[(7, 2)]);
    here.now += FORWARD_WAIT / 2 - Duration::from_millis(1);
    here.call(&[(7, 3)]);
    assert!(here.answers.take().is_empty());
    here.now += Duration::from_millis(1);
    here.send();
    assert_eq!(here.answers.take(), [(7, 1, UNAVAILABLE), (7, 2, UNAVAILABLE)]);
    // A leader that is not connected is no better, and what comes now waits no longer for it.
    here.link.0.lock().unwrap().down = true;
    here.lead(Some(3));
    here.now += FORWARD_WAIT_LATER - Duration::from_millis(1);
    here.send();
    assert_eq!(here.answers.take(), [(7, 3, UNAVAILABLE)]);
    here.call(&[(7, 4)]);
    here.now += FORWARD_WAIT_LATER;
    here.send();
    assert_eq!(here.answers.take(), [(7, 4, UNAVAILABLE)]);
    // A leader is there, and is lost again: the next wait is a long one.
    here.link.0.lock().unwrap().down = false;
    here.call(&[(7, 5)]);
    assert!(here.link.next(NodeId(3)).is_some());
    here.lead(None);
    here.now += FORWARD_SETTLE;
    here.send();
    assert_eq!(here.answers.take(), [(7, 5, UNKNOWN)]);
    here.call(&[(7, 6)]);
    here.now += FORWARD_WAIT - Duration::from_millis(1);
    here.send();
    assert!(here.answers.take().is_empty());
    here.lead(Some(3));
    assert!(here.link.next(NodeId(3)).is_some());
    here.link.0.lock().unwrap().down = true;
    here.call(&[(7, 7)]);
    here.window.end();
    assert_eq!(here.answers.take(), [(7, 7, UNAVAILABLE), (7, 6, UNKNOWN)]);
}

#[test]
fn a_process_that_ends_refuses_at_once_what_waits_for_a_leader() {
    let mut here = Here::new();
    here.lead(None);
    here.call(&[(7, 1)]);
    assert!(here.answers.take().is_empty());
    here.window.ends();
    here.send();
    assert_eq!(here.answers.take(), [(7, 1, UNAVAILABLE)]);
    here.call(&[(7, 2)]);
    assert_eq!(here.answers.take(), [(7, 2, UNAVAILABLE)]);
    // One that leads gets what comes still.
    here.lead(Some(3));
    here.call(&[(7, 3)]);
    assert!(here.answers.take().is_empty() && here.link.next(NodeId(3)).is_some());
    // And this one, while it hands over.
    here.window.lead(None, true, Epoch(9), here.now);
    here.now += FORWARD_SETTLE;
    here.send();
    assert_eq!(here.answers.take(), [(7, 3, UNKNOWN)]);
    here.call(&[(7, 4)]);
    assert!(here.answers.take().is_empty() && here.window.held() == 1);
}

#[test]
fn how_long_calls_wait_does_not_depend_on_what_was_before() {
    let an_hour = Duration::from_secs(3_600);
    // A node that was not connected at first, and has passed nothing on since it is.
    let mut here = Here::new();
    here.link.0.lock().unwrap().down = true;
    here.send();
    here.now += an_hour;
    here.link.0.lock().unwrap().down = false;
    here.send();
    here.now += an_hour;
    let waits = |here: &mut Here, handle| {
        here.call(&[(7, handle)]);
        here.now += FORWARD_WAIT - Duration::from_millis(1);
        here.send();
        assert!(here.answers.take().is_empty());
        here.now += Duration::from_millis(1);
        here.send();
        assert_eq!(here.answers.take(), [(7, handle, UNAVAILABLE)]);
    };
    here.lead(None);
    waits(&mut here, 1);
    // One that leads, and hands over: what comes waits until it is decided who leads.
    here.window.lead(None, true, Epoch(9), here.now);
    here.send();
    here.now += an_hour;
    here.call(&[(7, 2)]);
    here.now += FORWARD_WAIT;
    here.send();
    assert!(here.answers.take().is_empty() && here.window.held() == 1);
    assert_eq!(here.window.take_back().count(), 1, "it leads on");
    here.window.lead(None, false, Epoch(9), here.now);
    here.send();
    waits(&mut here, 3);
}
