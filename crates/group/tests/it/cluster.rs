//! The replication of a group as nodes run it: real logs on simulated disks, encoded messages on a
//! network that loses, repeats and reorders, crashes of processes and machines.
//!
//! The state machine itself is tested in `replica`; here it is what stands around it: that entries
//! reach the log and other nodes in one order, that parties are told what is so and in their order,
//! that copies are given what is committed, once, and that a node that was deposed or restarted
//! goes on with what is left. `GROUP_SEEDS` and `GROUP_SEED` run more.

use crate::world::{Bounds, Outcome, Pair, World};
use ferrite_base::limits::REPLICATION_MESSAGE_BYTES;
use ferrite_group::HEADER_BYTES;

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let first = number("GROUP_SEED", 1);
    first..first + number("GROUP_SEEDS", default)
}

#[test]
fn what_was_told_is_so_on_all_nodes() {
    let mut total = Outcome::default();
    for seed in seeds(75) {
        let outcome = World::new(seed).run().unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        total.add(&outcome);
    }
    println!("{total:?}");
    // The generator goes where it should.
    assert!(total.acknowledged > 1_500 && total.unknown > 200 && total.reads > 300, "{total:?}");
    assert!(total.crashes > 150 && total.deposed > 60 && total.undone > 60 && total.joins > 60, "{total:?}");
    assert!(total.from_log > 100 && total.supplied > 100 && total.passed > 500, "{total:?}");
    assert!(total.snapshots > 60, "{total:?}");
}

/// Nodes that lack an entry that cannot be sent get a snapshot, and all comes to rest.
#[test]
fn an_entry_that_no_message_holds_holds_nobody_up() {
    let mut total = Outcome::default();
    // One in fifty is as large as that, and has a header besides.
    let bounds = Bounds { message_bytes: 3_500, ..Bounds::default() };
    for seed in seeds(30) {
        let outcome = World::within(seed, bounds).run().unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        total.add(&outcome);
    }
    println!("{total:?}");
    assert!(total.too_large > 20 && total.too_large_in_log > 5 && total.acknowledged > 300, "{total:?}");
}

#[test]
fn entries_leave_together_up_to_a_size_and_larger_ones_alone() {
    let part = REPLICATION_MESSAGE_BYTES / 4 - HEADER_BYTES;
    let sizes = Pair::sizes_of_messages(&[part, part, part, part, 1, 2 * REPLICATION_MESSAGE_BYTES, 5, 6]);
    let large = 2 * REPLICATION_MESSAGE_BYTES + HEADER_BYTES;
    assert_eq!(sizes, [REPLICATION_MESSAGE_BYTES, HEADER_BYTES + 1, large, 2 * HEADER_BYTES + 11]);
}

#[test]
fn who_says_where_it_stands_gets_what_it_lacks_without_another_tick() {
    assert_eq!(Pair::messages_for_an_answer(&[10, 20]), 1);
}

#[test]
fn the_same_seed_is_the_same_history() {
    let run = |seed| World::new(seed).run();
    for seed in 1..3 {
        assert_eq!(run(seed), run(seed));
    }
}
