//! Batches of calls, and the entries of the log that they become.

use crate::stepped::{Database, entries};
use ferrite_base::{PartitionId, limits};
use ferrite_group::HEADER_BYTES;
use ferrite_partition::{CallBatch, CallHeader, Event};
use ferrite_wire::parameters::ParameterSet;

/// Runs calls that insert texts of these lengths as one batch. Bytes of changes of each entry.
fn sizes_of_entries(lengths: &[usize]) -> Vec<usize> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut database = Database::leader(dir.path(), 1, 1);
    for text in [
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(1048576 BYTES))",
        "PARTITION TABLE t ON COLUMN id",
        "CREATE PROCEDURE Put PARTITION ON TABLE t COLUMN id AS INSERT INTO t VALUES (?, ?)",
    ] {
        assert_eq!(database.change_schema(text).0, 1, "{text}");
    }
    database.settle();
    let (before, compiled) = (database.end(), database.compiled());
    let (mut bytes, mut calls) = (Vec::new(), Vec::new());
    for (key, length) in lengths.iter().enumerate() {
        let start = bytes.len();
        (key as i64, &*"x".repeat(*length)).write_set(&mut bytes).expect("values");
        calls.push(CallHeader {
            connection: 1,
            handle: key as i64,
            procedure: compiled.require("Put").expect("it was made"),
            parameters_start: start as u32,
            parameters_end: bytes.len() as u32,
            drop_first_parameter: false,
        });
    }
    let mailbox = database.mailbox();
    let batch = CallBatch { compiled, mailbox, calls, bytes, answers: Vec::new(), cached: None, sent_micros: 0 };
    database.send(PartitionId(0), Event::Calls(batch));
    database.settle();
    let answered = database.answered();
    assert!(answered.len() == lengths.len() && answered.iter().all(|(_, status, _)| *status == 1), "{answered:?}");
    database.close();
    let new = entries(dir.path()).into_iter().filter(|(position, _)| *position > before);
    new.map(|(_, bytes)| bytes.len() - HEADER_BYTES).collect()
}

#[test]
fn a_batch_is_cut_behind_the_limit_of_its_changes() {
    let large = 1_000_000;
    let one = sizes_of_entries(&[large])[0];
    let each = sizes_of_entries(&[large, large])[0] - one;
    let rest = limits::BATCH_CHANGES_BYTES_MAX - (one + 3 * each);
    let lengths = |last: usize| [large, large, large, large, last, 1];
    let last = rest - (each - large);
    let at_the_limit = sizes_of_entries(&lengths(last));
    let past_it = sizes_of_entries(&lengths(last + 1));
    assert_eq!(at_the_limit.len(), 1, "{at_the_limit:?}");
    assert_eq!((past_it.len(), past_it[0]), (2, limits::BATCH_CHANGES_BYTES_MAX + 1), "{past_it:?}");
}
