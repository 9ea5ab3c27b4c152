//! After most rows were deleted, here and there, the process's resident memory falls to near what
//! the rest needs. In a process of its own, since it looks at all memory.

mod common;

use common::{connect, options, start};
use ferrite_base::limits::EXTENTS_KEPT_MAX;
use ferrite_base::memory::{self, EXTENT_BYTES};
use std::fs;
use std::time::{Duration, Instant};

const ROWS: i64 = 120_000;
/// A row's long value; it has a short one too.
const BODY_BYTES: usize = 2_000;
/// Free pages between others that are not worth moving those.
const SCATTERED_BYTES_MAX: usize = 16 << 20;
/// Rows of which each page keeps some.
const LEFT: i64 = ROWS / 10;

fn resident_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("with its memory");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("in kilobytes") * 1024
}

#[test]
fn memory_goes_back_after_deletions_and_nothing_else_changes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), 2));
    let db = connect(&server);
    db.sql(
        "CREATE TABLE item (id BIGINT NOT NULL, shelf INTEGER NOT NULL, body VARBINARY(4000) NOT NULL, PRIMARY KEY (id));
         PARTITION TABLE item ON COLUMN id;
         CREATE INDEX item_shelf ON item (shelf, id);
         CREATE TABLE kept (id BIGINT NOT NULL, body VARBINARY(4000) NOT NULL, PRIMARY KEY (id));
         PARTITION TABLE kept ON COLUMN id;
         CREATE VIEW shelves (shelf, items, total) AS SELECT shelf, COUNT(*), SUM(id) FROM item GROUP BY shelf;",
    );
    let before = resident_bytes();
    let body = vec![7u8; BODY_BYTES];
    let mut calls = Vec::new();
    for number in 0..ROWS {
        // In no order.
        let id = number * 7_919 % ROWS;
        calls.push(db.0.call("ITEM.insert", (id, (id % 97) as i32, &body[..])));
        // Another table's pages lie between.
        if number % 20 == 0 {
            calls.push(db.0.call("KEPT.insert", (number, &body[..])));
        }
        if calls.len() > 5_000 {
            calls.drain(..).for_each(|call| drop(call.wait().expect("inserted")));
        }
    }
    calls.drain(..).for_each(|call| drop(call.wait().expect("inserted")));
    let (full, full_pages) = (resident_bytes(), memory::bytes_reserved());
    let data = ROWS as usize * BODY_BYTES;
    assert!(full > before + data, "{full} bytes resident with the rows, {before} before");
    let expected = |text: &str| db.sql(text).tables[0].rows.clone();
    let rest = "SELECT id, shelf FROM item WHERE MOD(id, 10) = 0 ORDER BY id";
    let rest_before = expected(rest);
    for digit in 1..10 {
        db.sql(&format!("DELETE FROM item WHERE MOD(id, 10) = {digit}"));
    }
    // The rest with its indexes and the other table; what may lie scattered; what is kept for those
    // who come.
    let enough = data / 5 + SCATTERED_BYTES_MAX + EXTENTS_KEPT_MAX * EXTENT_BYTES;
    // Pages when full are at least the data; how much more is the luck of extents shared with
    // others.
    assert!(full_pages >= data && enough < data * 3 / 5, "the test can tell: {full_pages} when full");
    // What the allocator of this test keeps for itself is not ours: the resident memory falls by
    // the pages that went back.
    let done = || {
        let pages = memory::bytes_reserved();
        pages <= enough && resident_bytes() <= full - (full_pages - pages) * 9 / 10
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(
            Instant::now() < deadline,
            "{} bytes resident and {} in pages, {full} and {full_pages} when full; {} used, {} scattered, {:?}",
            resident_bytes(),
            memory::bytes_reserved(),
            memory::bytes_used(),
            memory::bytes_scattered(),
            db.call("@Statistics", ("LONGREADS", 0i32)).tables
        );
        // Others go on meanwhile.
        db.call("KEPT.upsert", (ROWS, &body[..10]));
    }
    let (resident, pages) = (resident_bytes(), memory::bytes_reserved());
    println!(
        "{before} resident before, {full} full ({full_pages} in pages), {resident} with a tenth left ({pages} in pages)"
    );
    assert_eq!(db.scalar("SELECT COUNT(*) FROM item"), LEFT);
    assert_eq!(expected(rest), rest_before);
    let shelves = "SELECT shelf, COUNT(*), SUM(id) FROM item GROUP BY shelf ORDER BY shelf";
    assert_eq!(expected(shelves), expected("SELECT shelf, items, total FROM shelves ORDER BY shelf"));
    server.stop().expect("the log is closed");
    // The moves are in the log.
    let server = start(options(dir.path(), 2));
    let db = connect(&server);
    assert_eq!(db.sql(rest).tables[0].rows, rest_before);
    assert_eq!(
        db.sql(shelves).tables[0].rows,
        db.sql("SELECT shelf, items, total FROM shelves ORDER BY shelf").tables[0].rows
    );
    server.stop().expect("the log is closed");
}
