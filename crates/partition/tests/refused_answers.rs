//! What a large answer that the server has no memory for leaves behind: nothing but the error that
//! was answered. Alone in its process, since the sums are the process's.

mod common;

#[path = "common/calls.rs"]
mod calls;

use calls::{OnePartition, Told, batch};
use common::Node;
use crossbeam_channel::unbounded;
use ferrite_base::{limits, memory};
use ferrite_io::RealDisk;
use ferrite_partition::{AnswerBatch, Event};
use ferrite_value::Value;
use ferrite_wire::parameters::ParameterSet;
use ferrite_wire::{Response, Status, frame};
use std::sync::Arc;

#[test]
fn a_refused_answer_leaves_its_partition_as_small_as_the_error() {
    const LIMIT: usize = limits::MEMORY_BYTES_MIN;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut node = Node::open(Arc::new(RealDisk), dir.path(), 1).expect("an empty directory");
    node.ddl("CREATE TABLE wide (id BIGINT NOT NULL, text VARCHAR(1000000 BYTES) NOT NULL, PRIMARY KEY (id))");
    node.ddl("PARTITION TABLE wide ON COLUMN id");
    node.ddl("CREATE PROCEDURE Wide PARTITION ON TABLE wide COLUMN id AS SELECT * FROM wide WHERE id >= ?");
    let (table, text) = (node.table("WIDE"), "x".repeat(900_000));
    (0..12i64).for_each(|id| node.insert(table, &[Value::Integer(id), Value::Text(&text)]));
    let mut lone = OnePartition::of(node.0);
    let (told, answers) = unbounded::<AnswerBatch>();
    let mailbox = Arc::new(Told(told));
    let mut call = || {
        let mut bytes = Vec::new();
        (0i64,).write_set(&mut bytes).expect("a number");
        let call = batch(&lone.compiled, &mailbox, "Wide", bytes);
        assert!(lone.inbox.send(Event::Calls(call)).is_ok());
        // Behind a large answer the batch's buffers come back without one.
        let answered = loop {
            match answers.try_recv() {
                Ok(batch) if batch.runs.is_empty() => {}
                Ok(batch) => break batch,
                Err(_) => assert!(lone.partition.step(), "the call is answered"),
            }
        };
        let (_, body) = frame::split(&answered.bytes).expect("a whole frame").expect("one answer");
        let response = Response::parse(body).expect("well-formed");
        (response.status_code, response.status_text.unwrap_or_default().to_owned(), answered)
    };
    memory::set_limit(Some(LIMIT));
    let (status, _, whole) = call();
    assert_eq!(status, Status::Success.code());
    assert_eq!(memory::answers_held(), whole.bytes.len(), "an answer counts until it is gone");
    drop(whole);
    assert_eq!(memory::answers_held(), 0);
    // Others have not read nearly as much as all may hold: a large answer is begun, and refused
    // when it has grown to a quarter of that.
    let others = LIMIT / limits::CLIENTS_MEMORY_PART - 1;
    memory::answers_changed(others as isize);
    for _ in 0..3 {
        let (status, text, refused) = call();
        assert_eq!(
            (status, text.contains("no memory for the answer")),
            (Status::ServerUnavailable.code(), true),
            "{text}"
        );
        let (length, room) = (refused.bytes.len(), refused.bytes.capacity());
        assert!(length < limits::ANSWER_ALWAYS_BYTES && room <= limits::ANSWER_SMALL_BYTES, "{length} bytes in {room}");
        assert_eq!(memory::answers_held(), others + length, "what was taken back does not count");
    }
    memory::answers_changed(-(others as isize));
    assert_eq!(memory::answers_held(), 0);
}
