//! The hot path allocates nothing: Voter's Vote, measured by an allocator that counts.

mod support;

use bumpalo::Bump;
use ferrite_exec::{Call, Scratch};
use ferrite_value::Value;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::{Database, Lending, Statuses};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are the system allocator's requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `count` votes, the first with `first` as its number, and returns how many allocations they
/// made.
fn vote(database: &mut Database, first: i64, count: i64, max_votes: i64) -> u64 {
    let program = database.programs["VOTE"].clone();
    let mut arena = Bump::with_capacity(4_096);
    let mut scratch = Scratch::default();
    let mut redo = Vec::with_capacity(4_096);
    let mut sink = Statuses::default();
    let before = ALLOCATIONS.get();
    for number in first..first + count {
        arena.reset();
        let parameters =
            [Value::Integer(6_170_000_000 + number), Value::Integer(number % 6 + 1), Value::Integer(max_votes)];
        let call = Call::new(&program, &parameters, 0, &arena);
        ferrite_exec::run_transaction(&mut database.stores, &call, &mut scratch, &mut sink).expect("a vote runs");
        redo.clear();
        database.stores[0].take_redo_into(&mut redo);
        database.stores[0].commit();
    }
    let expected = if max_votes == 0 { [0, 0, count as u64, 0] } else { [count as u64, 0, 0, 0] };
    assert_eq!(sink.counts, expected);
    ALLOCATIONS.get() - before
}

#[test]
fn votes_allocate_only_to_grow_the_tables() {
    let mut database = Database::new(1, Lending::All);
    support::load_voter(&mut database);
    vote(&mut database, 0, 10_000, 2);
    assert_eq!(vote(&mut database, 0, 10_000, 0), 0, "a refused vote allocates nothing");
    let growth = vote(&mut database, 10_000, 10_000, 2);
    assert!(growth < 500, "10,000 votes made {growth} allocations, more than new pages and index segments need");
}
