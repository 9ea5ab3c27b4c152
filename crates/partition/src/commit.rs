//! How the log tells partitions and the coordinator what is durable.
//!
//! The log thread must never wait for a partition, so it writes a number and leaves a wake-up: at most one is under way.

use crossbeam_channel::{Sender, bounded};
use ferrite_base::Sequence;
use ferrite_log::{Log, LogFailed};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Why the log failed, once it has: one for all parties of a node. A party that was not waiting must hear of it too, or it would
/// go on executing what can no longer be acknowledged.
pub type SharedFailure = Arc<OnceLock<LogFailed>>;

/// One waiting party's view of the log. Written by the log thread, read by the owner.
pub struct CommitWatch {
    durable: AtomicU64,
    failure: SharedFailure,
    /// A wake-up is on its way and has not been taken.
    waking: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl CommitWatch {
    pub fn new<E: Send + 'static>(
        inbox: Sender<E>,
        durable: Sequence,
        failure: SharedFailure,
        event: impl Fn() -> E + Send + Sync + 'static,
    ) -> Arc<CommitWatch> {
        Arc::new(CommitWatch {
            durable: AtomicU64::new(durable.0),
            failure,
            waking: AtomicBool::new(false),
            wake: Box::new(move || {
                // The owner is gone only when the server stops.
                let _ = inbox.send(event());
            }),
        })
    }

    fn moved(&self) {
        if !self.waking.swap(true, Ordering::AcqRel) {
            (self.wake)();
        }
    }

    /// Everything up to `sequence` is durable. Called by the log thread, in order.
    fn durable(&self, sequence: Sequence) {
        let before = self.durable.swap(sequence.0, Ordering::AcqRel);
        assert!(before <= sequence.0, "durable positions only go up");
        self.moved();
    }

    fn failed(&self, failure: LogFailed) {
        // The first failure is the one that counts, and the one to tell the operator of.
        let text = failure.to_string();
        if self.failure.set(failure).is_ok() {
            eprintln!("ferrite: {text}");
        }
        self.moved();
    }

    /// The owner looks: what is durable now. Wake-ups for anything later will come again.
    pub fn take(&self) -> Sequence {
        self.waking.store(false, Ordering::Release);
        Sequence(self.durable.load(Ordering::Acquire))
    }

    /// Set once the log has failed: nothing will become durable any more.
    pub fn failure(&self) -> Option<&LogFailed> {
        self.failure.get()
    }
}

/// What the log calls when a batch is durable, or never will be. Gives the batch's buffer back to its owner.
pub struct Completion {
    pub parties: Parties,
    pub buffers: Option<Sender<Vec<u8>>>,
}

/// Who waits for a batch.
pub enum Parties {
    One(Arc<CommitWatch>, Sequence),
    /// A transaction over several partitions: each one's place and the coordinator's.
    Several(Vec<(Arc<CommitWatch>, Sequence)>),
    /// One that stands still until the outcome is known: a schema change.
    Waiting(Arc<CommitWatch>, Sequence, Sender<()>),
    /// The start of a server, which stands still too, and fails if the log does.
    Start(Sender<Result<(), LogFailed>>),
}

/// Appends a record and waits until it is durable: before a server says that it is ready, when nobody watches the log yet.
pub fn append_and_wait(log: &Log<Completion>, payload: Vec<u8>) -> Result<(), LogFailed> {
    let (tell, told) = bounded(1);
    log.appender().append(payload, Completion { parties: Parties::Start(tell), buffers: None });
    told.recv().expect("the log completes every append")
}

impl ferrite_log::Completion for Completion {
    fn complete(self, payload: Vec<u8>, outcome: Result<(), LogFailed>) {
        let tell = |watch: &CommitWatch, sequence| match &outcome {
            Ok(()) => watch.durable(sequence),
            Err(failure) => watch.failed(failure.clone()),
        };
        match &self.parties {
            Parties::One(watch, sequence) => tell(watch, *sequence),
            Parties::Several(list) => list.iter().for_each(|(watch, sequence)| tell(watch, *sequence)),
            Parties::Waiting(watch, sequence, told) => {
                tell(watch, *sequence);
                let _ = told.send(());
            }
            Parties::Start(told) => {
                let _ = told.send(outcome.clone());
            }
        }
        if let Some(buffers) = &self.buffers {
            // A full pool or an owner that is gone: the buffer is freed.
            let _ = buffers.try_send(payload);
        }
    }
}
