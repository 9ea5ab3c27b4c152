//! Which parties hear when an append is committed, or when this node will not know whether it is.

use crate::gate::Gate;
use crossbeam_channel::{Sender, bounded};
use ferrite_base::Sequence;
use ferrite_group::{Committing, EntryBuffer, GroupAppender, NotCommitted, Party};
use ferrite_log::Log;
use ferrite_multi::LotId;
use std::sync::Arc;

/// The redo log of a node, with the completions that it reports to the waiting parties.
pub type DatabaseLog = Log<Committing<Completion>>;

/// What is called when a batch is committed, or will not be by this node. Gives the batch's buffer
/// back to its owner.
pub struct Completion {
    pub parties: Parties,
    pub buffers: Option<Sender<Vec<u8>>>,
}

/// The parties that wait for a batch.
pub enum Parties {
    One(Arc<Gate>, Sequence),
    /// A transaction over several partitions: each one's place and the coordinator's.
    Several(Vec<(Arc<Gate>, Sequence)>),
    /// A party that stops until the outcome is known: a schema change.
    Waiting(Arc<Gate>, Sequence, Sender<Result<(), NotCommitted>>),
    /// A party that asks for the outcome and answers no client: the start of a server, a snapshot.
    Asking(Sender<Result<(), NotCommitted>>),
    /// What a group's stream says of a lot: the gates of those whose changes count with it, and the
    /// coordinator.
    Lot(Vec<(Arc<Gate>, Sequence)>, Sender<LotEvent>),
}

/// What a coordinator hears of the lots that its group takes part in, beside messages.
pub enum LotEvent {
    /// The outcome of the first append of those whose outcome has not come.
    Appended(Result<(), NotCommitted>),
    /// All that the lot saw is committed, if this node has not been deposed since.
    Shown(LotId),
}

/// Appends an entry and waits until it is committed: before a server reports that it is ready, when
/// there is no gate yet.
pub fn append_and_wait(
    log: &DatabaseLog,
    group: &GroupAppender<Completion>,
    records: EntryBuffer,
) -> Result<(), NotCommitted> {
    wait(log, |completion| _ = group.append(records, completion))
}

/// The same with whatever `append` appends.
pub fn wait(log: &DatabaseLog, append: impl FnOnce(Completion)) -> Result<(), NotCommitted> {
    let (tell, told) = bounded(1);
    append(Completion { parties: Parties::Asking(tell), buffers: None });
    // A log without a thread of its own is moved on by the waiting thread.
    while log.step() {}
    told.recv().expect("the log completes every append")
}

impl Party for Completion {
    fn complete(self, payload: Vec<u8>, outcome: Result<(), NotCommitted>) {
        let tell = |gate: &Gate, sequence| match &outcome {
            Ok(()) => gate.committed(sequence),
            Err(reason) => gate.given_up(reason),
        };
        match &self.parties {
            Parties::One(gate, sequence) => tell(gate, *sequence),
            Parties::Several(list) => list.iter().for_each(|(gate, sequence)| tell(gate, *sequence)),
            Parties::Waiting(gate, sequence, told) => {
                tell(gate, *sequence);
                let _ = told.send(outcome.clone());
            }
            Parties::Asking(told) => {
                let _ = told.send(outcome.clone());
            }
            Parties::Lot(list, told) => {
                list.iter().for_each(|(gate, sequence)| tell(gate, *sequence));
                // One that does not lead any more has nothing to do with it.
                let _ = told.send(LotEvent::Appended(outcome.clone()));
            }
        }
        assert!(payload.is_empty(), "the log gives an emptied buffer back");
        if let Some(buffers) = &self.buffers
            && payload.capacity() > 0
        {
            // A full pool or an owner that is gone: the buffer is freed.
            let _ = buffers.try_send(payload);
        }
    }
}
