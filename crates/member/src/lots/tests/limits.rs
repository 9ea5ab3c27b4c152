//! How much waits, and for how long.

use super::*;
use ferrite_base::limits::{LENDING_CALLS_MAX, LOT_BYTES_MAX, LOT_QUEUE_BYTES_MAX, LOT_QUEUE_CALLS_MAX, LOT_WAIT};

impl World {
    /// A call that is this large, and changes nothing.
    fn large(&mut self, bytes: usize) -> i64 {
        self.handles += 1;
        let handle = self.handles;
        let mailbox = Arc::<Callers>::clone(&self.callers);
        let call = GroupsCall {
            program: LotProgram::Procedure("Add".to_owned()),
            catalog_version: CatalogVersion(1),
            parameters: vec![0; bytes - "Add".len()],
            stores: StoreSet::All,
            merges: [MergeRule::Sum].into(),
            is_read: false,
            time_max_millis: 0,
            reply: Reply { mailbox, connection: 1, handle, sent_micros: self.now.micros },
            again: Box::new(|| {}),
            behind: Vec::new(),
        };
        self.sequencing.call(call, self.now);
        handle
    }
}

#[test]
fn so_many_calls_wait_and_not_one_more() {
    let mut world = World::new(2);
    world.lost(1);
    for _ in 0..LOT_QUEUE_CALLS_MAX {
        world.call("Add", 1, &[0, 1], 1);
    }
    assert_eq!(world.heard(), []);
    let refused = world.call("Add", 1, &[0, 1], 1);
    assert_eq!(world.statuses(), [(refused, Status::ServerUnavailable)]);
}

#[test]
fn so_many_bytes_wait_and_not_one_more() {
    let mut world = World::new(2);
    world.lost(1);
    for _ in 0..4 {
        world.large(LOT_QUEUE_BYTES_MAX / 4);
    }
    assert_eq!(world.heard(), []);
    let refused = world.large(4);
    assert_eq!(world.statuses(), [(refused, Status::ServerUnavailable)]);
    // What is answered makes room.
    world.led(1);
    world.settle();
    assert_eq!(world.statuses().len(), 4);
    world.large(LOT_QUEUE_BYTES_MAX);
    world.settle();
    assert_eq!(world.statuses().len(), 1, "a call with more than a lot has is alone in it");
}

#[test]
fn a_lot_has_so_many_calls_and_so_many_bytes() {
    let mut world = World::new(2);
    for _ in 0..LENDING_CALLS_MAX {
        world.call("Add", 1, &[0, 1], 1);
    }
    world.settle();
    assert_eq!(world.sequencing.counts().begun, 1);
    for _ in 0..=LENDING_CALLS_MAX {
        world.call("Add", 1, &[0, 1], 1);
    }
    world.settle();
    assert_eq!(world.sequencing.counts().begun, 3);
    world.large(LOT_BYTES_MAX / 2);
    world.large(LOT_BYTES_MAX / 2);
    world.settle();
    assert_eq!(world.sequencing.counts().begun, 4);
    world.large(LOT_BYTES_MAX / 2);
    world.large(LOT_BYTES_MAX / 2 + 1);
    world.settle();
    assert_eq!(world.sequencing.counts().begun, 6);
}

#[test]
fn calls_wait_for_a_leader_and_are_refused_after_a_while() {
    let mut world = World::new(3);
    world.lost(1);
    let first = world.call("Add", 1, &[0, 1], 1);
    world.pass(1_000);
    let second = world.call("Add", 1, &[0, 1], 1);
    world.pass(LOT_WAIT.as_millis() as u64 - 1_000);
    assert_eq!(world.heard(), []);
    world.pass(1);
    let heard = world.heard();
    let Heard::Error(status, text) = &heard[0].1 else { panic!("{heard:?}") };
    assert_eq!((heard[0].0, *status, heard.len()), (first, Status::ServerUnavailable, 1));
    assert!(text.contains("no node that leads group 1 can be reached"), "{text}");
    world.led(1);
    world.settle();
    assert_eq!(world.statuses(), [(second, Status::Success)]);
}
