//! The memory limit: new rows are refused before it is reached, everything else goes on, and when
//! there is memory again so do new rows. In a process of its own, since the limit is the process's.

mod common;

use common::{Db, connect, integers, options, start, text_of};
use ferrite_base::limits::{MEMORY_ALWAYS_BYTES, MEMORY_RESERVE_PART, PAGE_BYTES};
use ferrite_base::memory::{self, Block, CountingAllocator};
use ferrite_client::{ClientError, Status};
use ferrite_node::ServerOptions;
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);

const SCHEMA: &str = "
    CREATE TABLE item (id BIGINT NOT NULL, name VARCHAR(15) NOT NULL, body VARCHAR(8000) NOT NULL, PRIMARY KEY (id));
    PARTITION TABLE item ON COLUMN id;
    CREATE INDEX item_name ON item (name);
    CREATE TABLE small (id BIGINT NOT NULL, PRIMARY KEY (id));
    PARTITION TABLE small ON COLUMN id;
    CREATE VIEW names (name, items) AS SELECT name, COUNT(*) FROM item GROUP BY name;
    CREATE PROCEDURE Both (id BIGINT, name VARCHAR(15), body VARCHAR(8000)) PARTITION ON TABLE item COLUMN id AS BEGIN
        INSERT INTO small VALUES (id);
        INSERT INTO item VALUES (id, name, body);
    END;";

/// What keeps memory used up while buffers of the server come and go.
fn use_up(more: impl Fn() -> bool) -> Vec<Block> {
    const MARGIN_BYTES: usize = 1 << 20;
    let page = || Block::zeroed(PAGE_BYTES);
    let mut blocks: Vec<Block> = std::iter::from_fn(|| more().then(page)).collect();
    blocks.extend((0..MARGIN_BYTES / PAGE_BYTES).map(|_| page()));
    blocks
}

/// Inserts rows with ascending ids until all are refused; the id after the last that was tried.
fn fill(db: &Db, from: i64) -> i64 {
    let body = "b".repeat(4_000);
    let mut next = from;
    let mut full = false;
    loop {
        let row = |id: i64| db.0.call("ITEM.insert", (id, format!("name {}", id % 1_000).as_str(), body.as_str()));
        let calls: Vec<_> = (next..next + 200).map(row).collect();
        next += 200;
        let mut refused = 0;
        for call in calls {
            match call.wait() {
                Ok(_) => {}
                Err(ClientError::Failed(response)) => {
                    assert_eq!(response.status(), Some(Status::GracefulFailure));
                    let said = text_of(&response);
                    assert!(said.contains("no memory for more rows of ITEM"), "{said}");
                    assert!(
                        said.contains("--memory-limit") && said.contains("delete rows"),
                        "it says what to do: {said}"
                    );
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        // With one partition full the other may still have a little room: until neither takes any.
        // And what those before had in buffers may be free now.
        if refused == 200 && full {
            return next;
        }
        full = refused == 200;
    }
}

#[test]
fn rows_are_refused_at_the_limit_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let limit = memory::used() + (96 << 20);
    let limited = |bytes| {
        let mut options: ServerOptions = options(dir.path(), 2);
        options.settings.memory_bytes = Some(bytes);
        options
    };
    let server = start(limited(limit));
    let db = connect(&server);
    db.sql(SCHEMA);
    // Each partition has a page for more of these.
    (-10..0i64).for_each(|id| drop(db.call("SMALL.insert", (id,))));
    let next = fill(&db, 0);
    assert!(memory::used() < limit, "the limit itself was not reached");
    assert!(memory::used() > limit - limit / MEMORY_RESERVE_PART - (4 << 20), "nor was much left");
    let mut filler = use_up(memory::takes_rows);
    let count = || db.scalar("SELECT COUNT(*) FROM item");
    let rows = count();
    assert!(rows > 15_000, "{rows} rows of some 5 KB in 90 MB");

    // A procedure of several statements leaves nothing, in tables and views.
    let body = "x".repeat(4_000);
    db.fails("Both", (next, "both", body.as_str()), Status::GracefulFailure, "no memory for more rows of ITEM");
    assert_eq!(db.scalar("SELECT COUNT(*) FROM small"), 10);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM names WHERE name = 'both'"), 0);
    // New indexes need memory, new names do not.
    db.fails("@AdHoc", ("CREATE INDEX item_body ON item (body)",), Status::GracefulFailure, "memory limit");
    db.sql("CREATE PROCEDURE OneName AS SELECT name FROM item WHERE id = ?");
    // Reads, changes in place and deletions go on.
    assert_eq!(db.scalar("SELECT COUNT(*) FROM names"), 1_000);
    assert_eq!(db.sql("SELECT id FROM item ORDER BY body, id DESC LIMIT 3").tables[0].rows.len(), 3);
    db.sql("UPDATE item SET name = 'changed' WHERE id < 10");
    assert_eq!(db.scalar("SELECT items FROM names WHERE name = 'changed'"), 10);
    db.fails("@AdHoc", ("UPDATE item SET body = 'other' WHERE id = 1",), Status::GracefulFailure, "no memory for");

    // Even when nothing at all is left, but for what needs much.
    filler.extend(use_up(memory::has_room));
    assert_eq!(integers(&db.sql("SELECT id FROM item WHERE id = 7")), [7]);
    let large = (2 * MEMORY_ALWAYS_BYTES / 4_000).to_string();
    let query = format!("SELECT body FROM item LIMIT {large}");
    db.fails("@AdHoc", (query.as_str(),), Status::GracefulFailure, "no memory for a result of that size");
    let query = "SELECT COUNT(*) FROM (SELECT id, name || body AS joined FROM item ORDER BY joined, id LIMIT 1000000) AS sorted";
    db.fails("@AdHoc", (query,), Status::GracefulFailure, "no memory for the statement's temporary results");
    assert_eq!(db.scalar("SELECT COUNT(*) FROM item WHERE name = 'changed'"), 10);
    for from in (0..next / 2).step_by(500) {
        db.sql(&format!("DELETE FROM item WHERE id >= {from} AND id < {}", (from + 500).min(next / 2)));
    }
    let left = count();
    assert!(left < rows * 3 / 5);
    drop(filler);

    // And with memory again there are new rows.
    let next = fill(&db, next);
    let more = count() - left;
    assert!(more > rows / 4, "{more} rows of {rows} fit into the room of half of them");
    assert_eq!(db.scalar("SELECT SUM(items) FROM names"), count());
    let total = count();
    server.stop().expect("the log is closed");

    // What was acknowledged is taken up even by a server that may take less.
    memory::set_limit(None);
    let server = start(limited(limit / 2));
    let db = connect(&server);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM item"), total);
    fill(&db, next);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM item"), total, "none more");
    db.call("@AdHoc", ("TRUNCATE TABLE item",));
    fill(&db, 0);
    assert!(db.scalar("SELECT COUNT(*) FROM item") > 1_000);
    server.stop().expect("the log is closed");
    memory::set_limit(None);
}
