//! A leader executes no further ahead of its members than it may, and waits for nothing in vain.

use crate::world::{Bounds, Pair};
use ferrite_base::{Epoch, Position};
use ferrite_replica::group::{GroupConfiguration, Member};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

const ENTRY: usize = 10_000;
const ENTRIES: u64 = 10;

/// A leader whose window is full, and somebody who appends one entry more: he says first that he is
/// about to, and ends when it was taken or refused, with the commit position at that time.
fn full() -> (Pair, JoinHandle<Position>) {
    let window_bytes = ENTRY * ENTRIES as usize;
    let mut pair = Pair::new(Bounds { window_bytes, ..Bounds::default() });
    while !pair.nodes[0].replication().is_open() {
        pair.turn(true);
    }
    let (append, group) = (pair.appender(), pair.nodes[0].replication());
    let (tell, told): (_, Receiver<()>) = channel();
    let appender = std::thread::spawn(move || {
        for _ in 0..ENTRIES {
            append(ENTRY);
        }
        tell.send(()).expect("the test listens");
        append(ENTRY);
        group.commit()
    });
    told.recv().expect("as much as the window takes is taken at once");
    // The group itself goes on: it ticks, and hears its log and its member.
    for _ in 0..3 {
        pair.turn(false);
    }
    let replication = pair.nodes[0].replication();
    assert_eq!((replication.commit(), replication.end().position), (Position(1), Position(1 + ENTRIES)));
    (pair, appender)
}

#[test]
fn an_append_waits_until_enough_is_committed() {
    let (mut pair, appender) = full();
    pair.turn(true);
    assert!(appender.join().expect("no panic") > Position(1), "it came behind a commit");
    assert_eq!(pair.nodes[0].replication().end().position, Position(2 + ENTRIES));
}

#[test]
fn a_leader_that_is_deposed_waits_no_more() {
    let (pair, appender) = full();
    let members: Vec<Member> = pair.nodes.iter().map(|node| node.member).collect();
    let replication = pair.nodes[0].replication();
    replication.configured(GroupConfiguration::new(Epoch(2), members[1], members, Vec::new()));
    assert_eq!(appender.join().expect("no panic"), Position(1), "nothing more was committed");
    assert_eq!(replication.end().position, Position(1 + ENTRIES), "and it was refused");
}

#[test]
fn a_leader_that_goes_on_in_another_epoch_waits_on() {
    let (mut pair, appender) = full();
    let leader = pair.nodes[0].member;
    let replication = pair.nodes[0].replication();
    replication.configured(GroupConfiguration::new(Epoch(2), leader, vec![leader], Vec::new()));
    // The member is gone; the own log has the epoch's start after a turn.
    pair.turn(false);
    assert!(appender.join().expect("no panic") > Position(1));
    assert_eq!(replication.end().position, Position(3 + ENTRIES));
}

#[test]
fn a_process_that_ends_waits_no_more() {
    let (pair, appender) = full();
    pair.nodes[0].replication().ends();
    assert_eq!(appender.join().expect("no panic"), Position(1));
    assert_eq!(pair.nodes[0].replication().end().position, Position(2 + ENTRIES), "it was appended all the same");
}

#[test]
fn a_leader_whose_log_has_failed_waits_no_more() {
    let (pair, appender) = full();
    pair.nodes[0].fail_log();
    assert_eq!(appender.join().expect("no panic"), Position(1));
}
