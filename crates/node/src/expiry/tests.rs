//! The expiry thread without partition threads, answer by answer.

use super::*;
use crate::dispatch;
use crate::groups_calls::GroupsCalls;
use crate::message::SystemJob;
use crate::testing::{Inboxes, handles_and_inboxes, handles_of_groups};
use crossbeam_channel::unbounded;
use ferrite_base::{Epoch, GroupId};
use ferrite_group::FIRST_GROUP;
use ferrite_io::simulated::SimulatedClock;
use ferrite_member::forward::{Leadership, connect};
use ferrite_member::lots::SequencerNotice;
use ferrite_partition::lots::LotProgram;
use ferrite_value::Value;
use ferrite_wire::invocation::Invocation;

const TABLES: &str = "
    CREATE TABLE one (id BIGINT NOT NULL, d TIMESTAMP NOT NULL, PRIMARY KEY (id)) USING TTL 1 SECONDS ON COLUMN d BATCH_SIZE 10;
    PARTITION TABLE one ON COLUMN id;
    CREATE TABLE two (id BIGINT NOT NULL, d TIMESTAMP NOT NULL, PRIMARY KEY (id)) USING TTL 1 SECONDS ON COLUMN d BATCH_SIZE 10;
    PARTITION TABLE two ON COLUMN id;";

fn expiry(forward: Option<Forward>) -> (Expiry, Inboxes, Vec<TableId>) {
    expiry_of(handles_and_inboxes(2, TABLES), forward)
}

fn expiry_of(
    (node, inboxes): (dispatch::Handles, Inboxes),
    forward: Option<Forward>,
) -> (Expiry, Inboxes, Vec<TableId>) {
    let mut tables: Vec<TableId> = node.submit.compiled.load().catalog.tables.values().map(|table| table.id).collect();
    tables.sort();
    let handles = Handles {
        submit: Arc::clone(&node.submit),
        compiled: Arc::clone(&node.submit.compiled),
        routes: Arc::clone(&node.submit.routes),
        mode: Arc::clone(&node.submit.mode),
        forward,
        figures: Arc::default(),
        clock: Arc::new(SimulatedClock::default()),
        drop_migrating: false,
    };
    (Expiry::new(handles, unbounded()), inboxes, tables)
}

/// How many batches have come to each partition.
fn batches(inboxes: &Inboxes) -> Vec<usize> {
    inboxes.partitions.iter().map(|inbox| inbox.try_iter().count()).collect()
}

#[test]
fn a_partition_that_answers_late_holds_up_no_other_and_no_other_table() {
    let (mut expiry, inboxes, tables) = expiry(None);
    expiry.begin_rounds(0);
    assert_eq!(batches(&inboxes), [2, 2], "one of each table");
    // The first partition's store is lent. The second one has more to delete.
    expiry.answered(tables[0], 1, Some(10));
    assert_eq!(batches(&inboxes), [0, 1]);
    expiry.answered(tables[0], 1, Some(3));
    for partition in 0..2 {
        expiry.answered(tables[1], partition, Some(0));
    }
    // Of the other table the next round begins, of this one it does not.
    expiry.begin_rounds(2_000_000_000);
    assert_eq!(batches(&inboxes), [1, 1]);
    expiry.answered(tables[0], 0, Some(0));
    expiry.begin_rounds(4_000_000_000);
    assert_eq!(batches(&inboxes), [1, 1], "of this one");
}

#[test]
fn a_node_begins_nothing_while_it_does_not_lead_or_hands_over() {
    let (forward, inbox) = connect();
    let (mut expiry, inboxes, tables) = expiry(Some(forward.clone()));
    expiry.begin_rounds(0);
    assert_eq!(batches(&inboxes), [0, 0]);
    forward.lead(FIRST_GROUP, Leadership::Here, Epoch(1));
    assert!(inbox.open(FIRST_GROUP, 0) || inbox.open(FIRST_GROUP, 1));
    expiry.begin_rounds(2_000_000_000);
    assert_eq!(batches(&inboxes), [2, 2]);
    forward.lead(FIRST_GROUP, Leadership::HandingOver, Epoch(1));
    expiry.answered(tables[0], 0, Some(10));
    assert_eq!(batches(&inboxes), [0, 0], "what is left waits");
}

const REPLICATED: &str = "
    CREATE TABLE all_have (id BIGINT NOT NULL, d BIGINT NOT NULL, PRIMARY KEY (id)) USING TTL 1 SECONDS ON COLUMN d BATCH_SIZE 10;";

/// The one statement that was sent as an ad hoc call, and how many parameters it has.
fn statement(inboxes: &Inboxes) -> (String, usize) {
    let Ok(SystemJob::Call { body, .. }) = inboxes.system.try_recv() else { panic!("a call was sent") };
    assert!(inboxes.system.is_empty(), "one at a time");
    let invocation = Invocation::parse(&body).expect("a call");
    let Ok(Some(Value::Text(text))) = invocation.parameters.nth(0) else { panic!("a statement") };
    (text.to_owned(), invocation.parameters.count() - 1)
}

#[test]
fn a_table_of_several_groups_expires_in_all_of_them_by_batches_that_end_at_a_time() {
    let (mut node, inboxes) = handles_of_groups(&[FIRST_GROUP, GroupId(1)], REPLICATED);
    let (sequencer, calls) = unbounded();
    Arc::get_mut(&mut node.submit).expect("no thread has it").groups_calls = GroupsCalls::new(Some(sequencer));
    let (mut expiry, inboxes, tables) = expiry_of((node, inboxes), None);
    let oldest = (r#"SELECT "D" FROM "ALL_HAVE" WHERE "D" <= ? ORDER BY "D" LIMIT 10"#.to_owned(), 1);
    let delete = LotProgram::Text(r#"DELETE FROM "ALL_HAVE" WHERE "D" <= ?"#.to_owned());
    expiry.begin_rounds(0);
    assert_eq!(statement(&inboxes), oldest);
    expiry.bounded(tables[0], Some(Some(OwnedValue::Integer(7))));
    let Ok(SequencerNotice::Call(call)) = calls.try_recv() else { panic!("all groups are to delete them") };
    let version = expiry.node.compiled.load().catalog.version;
    assert_eq!((&call.program, call.catalog_version, call.parameters.len()), (&delete, version, 11));
    // By another schema the rows may not have expired.
    (call.again)();
    let changed = expiry.inbox.try_recv();
    assert!(matches!(changed, Ok(ExpiryNotice::Answered { partition: ALL_GROUPS, deleted: None, .. })));
    // A full batch is followed by another, and what has not expired is not touched.
    expiry.answered(tables[0], ALL_GROUPS, Some(12));
    assert_eq!(statement(&inboxes), oldest);
    expiry.bounded(tables[0], Some(None));
    assert!(inboxes.system.is_empty(), "the round is over");
    let expired = expiry.node.figures.of(tables[0]);
    assert_eq!((expired.rows, expired.remaining), (12, Some(0)));
    // One that fails is left to the next round.
    expiry.begin_rounds(2_000_000_000);
    assert_eq!(statement(&inboxes), oldest);
    expiry.bounded(tables[0], None);
    assert!(inboxes.system.is_empty() && expiry.rounds.is_empty());
    expiry.begin_rounds(4_000_000_000);
    assert_eq!(statement(&inboxes), oldest);
    assert_eq!(batches(&inboxes), [0, 0]);
}
