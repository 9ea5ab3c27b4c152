//! How many calls, bytes and connections are in flight at once, and not one more.

use super::*;
use ferrite_base::limits::{
    FORWARD_AHEAD_BYTES, FORWARD_BYTES_MAX, FORWARD_CALLS_MAX, FORWARD_CONNECTIONS_MAX, FORWARD_MESSAGE_BYTES,
};

#[test]
fn so_many_calls_are_under_way_and_not_one_more() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    let calls: Vec<_> = (0..FORWARD_CALLS_MAX as i64 + 3).map(|handle| (7, handle)).collect();
    here.call(&calls);
    here.carry(2, &mut there);
    assert_eq!((there.execute.calls.len(), here.window.outstanding().calls), (FORWARD_CALLS_MAX, FORWARD_CALLS_MAX));
    assert!(here.window.has_waiting());
    there.answer();
    here.carry_back(2, &mut there);
    here.send();
    here.carry(2, &mut there);
    assert_eq!((there.execute.calls.len(), here.answers.take().len()), (FORWARD_CALLS_MAX, 1));
    while there.answer().is_some() {}
    here.carry_back(2, &mut there);
    here.send();
    here.carry(2, &mut there);
    assert!(there.execute.calls.len() == 2 && !here.window.has_waiting());
}

#[test]
fn so_many_bytes_are_under_way_and_go_in_messages_of_a_size() {
    let mut here = Here::new();
    let large = FORWARD_MESSAGE_BYTES / 2 - 64;
    let count = FORWARD_BYTES_MAX / large + 1;
    let calls: Vec<_> = (0..count as i64 + 5).map(|handle| (7, handle)).collect();
    here.window.push(batch(&here.answers, &calls, large), here.now);
    here.send();
    assert_eq!(here.window.outstanding().calls, count, "the last goes past the limit");
    let sizes: Vec<_> = std::iter::from_fn(|| here.link.next(NodeId(2))).map(|(_, message)| message.len()).collect();
    assert!(sizes.iter().all(|size| *size <= FORWARD_MESSAGE_BYTES) && sizes.len() == count.div_ceil(2), "{sizes:?}");
    // One that is larger than all goes alone.
    let mut here = Here::new();
    here.window.push(batch(&here.answers, &[(7, 1), (7, 2)], FORWARD_BYTES_MAX + 1), here.now);
    here.send();
    assert_eq!(here.window.outstanding().calls, 1);
}

#[test]
fn as_much_is_on_the_way_to_a_node_as_may_be() {
    let (mut here, mut there) = (Here::new(), Leader::default());
    here.link.0.lock().unwrap().waiting = FORWARD_AHEAD_BYTES;
    here.call(&[(7, 1)]);
    here.carry(2, &mut there);
    assert!(there.execute.calls.is_empty() && here.window.has_waiting());
    here.now += 2 * FORWARD_WAIT;
    here.send();
    assert!(here.answers.take().is_empty(), "the node is there, only slow");
    here.link.0.lock().unwrap().waiting = FORWARD_AHEAD_BYTES - 1;
    here.send();
    here.carry(2, &mut there);
    assert_eq!(there.execute.calls.len(), 1);
    there.answer();
    here.link.0.lock().unwrap().waiting = FORWARD_AHEAD_BYTES;
    assert!(there.received.send(&here.link), "answers wait, too");
    here.link.0.lock().unwrap().waiting = 0;
    here.carry_back(2, &mut there);
    assert_eq!(here.answers.take(), [(7, 1, DONE)]);
}

#[test]
fn a_node_has_so_many_connections_and_not_one_more() {
    let mut there = Leader::default();
    let calls: Vec<_> = (0..FORWARD_CONNECTIONS_MAX as u64).map(|connection| (connection, 1)).collect();
    there.take(&calls_message(0, 0, &calls));
    there.take(&calls_message(0, 1, &calls[..1]));
    refused(&mut there, &calls_message(0, 2, &[(u64::MAX, 1)]), "more connections");
    while there.answer().is_some() {}
    assert_eq!(there.received.remote_count(), 0);
}
