//! What a large answer that the server has no memory for leaves behind: nothing but the error that
//! was answered. Alone in its process, since the sums are the process's.

mod common;

use common::Node;
use crossbeam_channel::{Sender, unbounded};
use ferrite_base::{PartitionId, limits, memory};
use ferrite_io::{RealDisk, SystemClock};
use ferrite_partition::gate::{Failure, Gate};
use ferrite_partition::long_read::{Home, LongReads};
use ferrite_partition::thread::{Partition, Start};
use ferrite_partition::{AnswerBatch, CallBatch, CallHeader, Event, Mailbox, RowCounts};
use ferrite_value::Value;
use ferrite_wire::parameters::ParameterSet;
use ferrite_wire::{Response, Status, frame};
use std::sync::Arc;
use std::time::Duration;

struct Told(Sender<AnswerBatch>);

impl Mailbox for Told {
    fn deliver(&self, answers: AnswerBatch) {
        self.0.send(answers).expect("the test listens");
    }
}

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
    let recovered = node.0;
    let (compiled, _log, group) = (recovered.compiled, recovered.log, recovered.group);
    let (inbox, events) = unbounded();
    let (long_reads, _reads) = LongReads::new(1, Home::Partition(inbox.clone()));
    let start = Start {
        id: PartitionId(0),
        store: recovered.stores.into_iter().next().expect("one partition"),
        compiled: Arc::clone(&compiled),
        sequence: recovered.sequences[0],
        limits: Duration::from_secs(3_600).into(),
        counts: Arc::new(RowCounts::new(1)),
        long_reads,
    };
    let gate = Gate::new(start.sequence, Failure::new(|_| {}));
    let mut partition = Partition::new(start, events, gate, group, Arc::new(SystemClock));
    let (told, answers) = unbounded::<AnswerBatch>();
    let mailbox = Arc::new(Told(told));
    let mut call = || {
        let mut bytes = Vec::new();
        (0i64,).write_set(&mut bytes).expect("a number");
        let header = CallHeader {
            connection: 1,
            handle: 5,
            procedure: compiled.require("Wide").expect("it was made"),
            parameters_start: 0,
            parameters_end: bytes.len() as u32,
            drop_first_parameter: false,
        };
        let batch = CallBatch {
            compiled: Arc::clone(&compiled),
            mailbox: Arc::clone(&mailbox) as _,
            calls: vec![header],
            bytes,
            answers: Vec::new(),
            cached: None,
            sent_micros: 0,
        };
        assert!(inbox.send(Event::Calls(batch)).is_ok());
        // Behind a large answer the batch's buffers come back without one.
        let answered = loop {
            match answers.try_recv() {
                Ok(batch) if batch.runs.is_empty() => {}
                Ok(batch) => break batch,
                Err(_) => assert!(partition.step(), "the call is answered"),
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
