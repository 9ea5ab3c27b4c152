//! A partition by itself, and calls of its procedures.

use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::PartitionId;
use ferrite_io::SystemClock;
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::compiled::Compiled;
use ferrite_partition::gate::{Failure, Gate};
use ferrite_partition::long_read::{Home, LongRead, LongReads};
use ferrite_partition::recovery::Recovered;
use ferrite_partition::thread::{Partition, Start};
use ferrite_partition::{AnswerBatch, CallBatch, CallHeader, Event, Mailbox, RowCounts};
use std::sync::Arc;
use std::time::Duration;

/// Answers go into a channel.
pub struct Told(pub Sender<AnswerBatch>);

impl Mailbox for Told {
    fn deliver(&self, answers: AnswerBatch) {
        self.0.send(answers).expect("the test listens");
    }
}

/// The only partition of a database, with what has to live as long.
pub struct OnePartition {
    pub partition: Partition,
    pub inbox: Sender<Event>,
    pub compiled: Arc<Compiled>,
    _log: DatabaseLog,
    _reads: Receiver<LongRead>,
}

impl OnePartition {
    pub fn of(recovered: Recovered) -> OnePartition {
        let Recovered { stores, sequences, compiled, log, group, .. } = recovered;
        let (inbox, events) = unbounded();
        let (long_reads, reads) = LongReads::new(1, Home::Partition(inbox.clone()));
        let start = Start {
            id: PartitionId(0),
            store: stores.into_iter().next().expect("one partition"),
            compiled: Arc::clone(&compiled),
            sequence: sequences[0],
            limits: Duration::from_secs(3_600).into(),
            counts: Arc::new(RowCounts::new(1)),
            long_reads,
        };
        let gate = Gate::new(start.sequence, Failure::new(|_| {}));
        let partition = Partition::new(start, events, gate, group, Arc::new(SystemClock));
        OnePartition { partition, inbox, compiled, _log: log, _reads: reads }
    }
}

/// A batch of one call.
pub fn batch(compiled: &Arc<Compiled>, mailbox: &Arc<Told>, procedure: &str, parameters: Vec<u8>) -> CallBatch {
    let header = CallHeader {
        connection: 1,
        handle: 5,
        procedure: compiled.require(procedure).expect("it was made"),
        parameters_start: 0,
        parameters_end: parameters.len() as u32,
        drop_first_parameter: false,
    };
    CallBatch {
        compiled: Arc::clone(compiled),
        mailbox: Arc::clone(mailbox) as _,
        calls: vec![header],
        bytes: parameters,
        answers: Vec::new(),
        cached: None,
        sent_micros: 0,
    }
}
