//! A copy whose tables are not what its leader's were is found at the next snapshot of the leader,
//! whatever it is that differs; and one whose tables are is left alone.

use crate::stepped::{Database, entries};
use crate::work::{CHANGES, SCHEMA};
use crossbeam_channel::unbounded;
use ferrite_base::{PartitionId, RowId, TableId};
use ferrite_group::EntryBuffer;
use ferrite_partition::contents::{ContentHashes, hash_tables};
use ferrite_partition::{Event, ReplayError, record};
use ferrite_table::Store;
use ferrite_value::Value;
use ferrite_wire::Status;
use std::convert::Infallible;

/// What somebody or something does to a copy behind the back of everybody: row changes.
type Plant = fn(TableId, RowId) -> Vec<u8>;

/// Table and row as `docs/format/pages.md` has them in row changes.
fn of(kind: u8, table: TableId, row: RowId, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    for mut number in [table.0, row.0] {
        while number > 0x7f {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    }
    bytes.extend_from_slice(rest);
    bytes
}

const PLANTS: [(&str, Plant); 5] = [
    ("one bit of a number", |table, row| of(2, table, row, &[1, 2, 6, 0, 0, 0])),
    ("a NULL", |table, row| of(2, table, row, &[1, 3])),
    ("a byte of a long value", |table, row| of(2, table, row, &[1, 6, 3, b'a', b'b', b'd'])),
    ("a row that is elsewhere", |table, row| of(5, table, row, &[90])),
    ("a row that is not there", |table, row| of(3, table, row, &[])),
];

/// The row with this id in partition 1.
fn place(store: &Store, wanted: i64) -> Option<(TableId, RowId)> {
    let table = store.tables().find(|table| table.definition().name == "EVENTS")?;
    let row = table.scan().find(|row| matches!(table.row(*row).column(0), Value::Integer(id) if id == wanted))?;
    Some((table.definition().id, row))
}

/// As the coordinator and the snapshot thread do: a mark, and what the tables hold there.
fn mark(leader: &mut Database) {
    leader.settle();
    let mut records = EntryBuffer::default();
    record::write_content_mark(records.records(), 1);
    let mark = leader.append(records).expect("a leader appends");
    let hashes = leader.with_stores(|stores| {
        stores.iter().map(|store| hash_tables(store, |_| Ok::<(), Infallible>(())).expect("never")).collect::<Vec<_>>()
    });
    let mut records = EntryBuffer::default();
    let hashes = ContentHashes::new((mark.epoch, mark.position), &hashes);
    assert!(hashes.tables.len() >= 3, "tables, and neither views nor streams: {hashes:?}");
    record::write_content_hashes(records.records(), &hashes);
    leader.append(records).expect("a leader appends");
    leader.settle();
}

fn run(plant: Option<Plant>) -> (Option<String>, u64) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut leader = Database::leader(&home.path().join("leader"), 2, 5);
    assert_eq!(leader.change_schema(SCHEMA).0, Status::Success.code());
    for id in 0..40 {
        let text = format!(
            "INSERT INTO events (id, grp, body) VALUES ({id}, 7, 'abc'); INSERT INTO sessions VALUES ({id}, NOW)"
        );
        assert_eq!(leader.call(&text).0, Status::Success.code());
    }
    assert_eq!(leader.change_schema(CHANGES[1][0]).0, Status::Success.code());
    mark(&mut leader);
    // What follows a mark is not in it.
    assert_eq!(leader.call("DELETE FROM events WHERE id = 3").0, Status::Success.code());
    mark(&mut leader);
    let said = entries(&leader.dir);
    let mut copy = Database::empty_copy(&home.path().join("copy"), 2, 6);
    let (before, behind) = said.split_at(said.len() - 5);
    copy.feed(before);
    copy.settle();
    if let Some(plant) = plant {
        let ((to, loans), (back, way)) = (unbounded(), unbounded());
        copy.send(PartitionId(1), Event::Lend { to, back: way });
        copy.settle();
        let mut loan = loans.try_recv().expect("it was lent");
        let (table, row) = (4..40).find_map(|id| place(&loan.store, id)).expect("some are in this partition");
        loan.store.apply_redo(&plant(table, row)).expect("it can be done");
        assert!(back.send(loan).is_ok());
        copy.settle();
    }
    for entry in behind {
        copy.feed(std::slice::from_ref(entry));
        copy.settle();
        for cut in copy.contents_cut.1.try_iter().collect::<Vec<_>>() {
            cut.hash(|_| Ok::<(), Infallible>(())).expect("never");
        }
        copy.settle();
    }
    let fault = copy.fault.lock().expect("no panic").clone();
    if let Some(fault) = &fault {
        assert!(matches!(&fault.reason, ReplayError::Contents { table } if table == "EVENTS"), "{fault}");
    }
    (fault.map(|fault| fault.to_string()), copy.intake().compared())
}

#[test]
fn a_copy_with_one_flipped_value_is_found() {
    for (what, plant) in PLANTS {
        let (fault, compared) = run(Some(plant));
        let fault = fault.unwrap_or_else(|| panic!("{what} is not found"));
        let words = "and must be rebuilt: its rows of table EVENTS are not those of the leader";
        assert!(fault.contains(words) && compared == 0, "{what}: {fault}");
    }
}

#[test]
fn a_copy_that_is_what_its_leader_is_is_left_alone() {
    assert_eq!(run(None), (None, 2));
}
