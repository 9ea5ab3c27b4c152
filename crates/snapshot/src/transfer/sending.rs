//! The node that has the data, with all who wait for a snapshot of it: one gets it at a time, the
//! others wait in their order.
//!
//! Decides whose turn it is, when a snapshot has to be taken, and when one that was begun is given
//! up. Who needs one, and that this node may give it, others say. Nothing is written down: where
//! this node ends, whoever leads then begins with another snapshot, and where the receiving node is
//! started again, it goes on with what it has.

use super::message::{Refusal, TransferId, TransferMessage};
use super::source::{Source, SourceStep};
use crate::error::SnapshotError;
use crate::files::Files;
use ferrite_base::NodeId;
use ferrite_base::limits::{TRANSFER_LOADING_MAX, TRANSFER_SILENCE};
use std::collections::VecDeque;
use std::time::Duration;

/// What a step came to.
#[derive(Debug)]
pub enum SendingStep {
    /// Nobody wants anything.
    Idle,
    /// A snapshot is to be taken, with a number above this one; then [`Sending::taken`] or
    /// [`Sending::not_taken`] is called.
    Take { above: u64 },
    /// A message for this node was written: call again.
    Message(NodeId),
    /// Nothing to do for that long, unless a message comes.
    Wait(Duration),
    /// The node has the snapshot.
    Done(NodeId),
    /// The node does not get it, and is out of the line.
    Refused(NodeId, Refusal),
    /// Nothing was heard of the node for [`TRANSFER_SILENCE`]: it is out of the line. Where it is
    /// the next to want one, it goes on with the same.
    Silent(NodeId),
    /// This node's files cannot be read: it is out of the line.
    Failed(NodeId, SnapshotError),
}

enum State {
    Idle,
    /// A snapshot is being taken for the first in line.
    Taking,
    Streaming {
        source: Box<Source>,
        heard: u64,
    },
}

/// A node that has all of a snapshot asks for what was written since when it has read it. Until
/// then the log behind the snapshot stays: else it would need another, and again.
struct Loading {
    node: NodeId,
    snapshot: u64,
    since: u64,
}

/// Sends snapshots of one directory.
pub struct Sending {
    files: Files,
    here: NodeId,
    /// Bytes a second.
    rate: u64,
    /// Who wants one; the first gets it.
    line: VecDeque<NodeId>,
    state: State,
    /// What was taken last, and for whom, as long as that node has not got it.
    unfinished: Option<(NodeId, u64)>,
    /// Who has got all files, and reads them now.
    loading: Option<Loading>,
    chunk_bytes: Option<usize>,
}

impl Sending {
    /// `files`: where this node's snapshots are. `rate`: bytes a second at most.
    pub fn new(files: Files, here: NodeId, rate: u64) -> Sending {
        let (line, state) = (VecDeque::new(), State::Idle);
        Sending { files, here, rate, line, state, unfinished: None, loading: None, chunk_bytes: None }
    }

    /// Smaller chunks, for tests.
    pub fn with_chunk_bytes(mut self, bytes: usize) -> Sending {
        self.chunk_bytes = Some(bytes);
        self
    }

    /// The node needs a snapshot. One that stands in line stays where it is.
    pub fn want(&mut self, node: NodeId) {
        if !self.line.contains(&node) {
            self.line.push_back(node);
        }
    }

    /// The node needs none any more, nor the log behind one.
    pub fn forget(&mut self, node: NodeId) {
        self.loading = self.loading.take().filter(|loading| loading.node != node);
        if self.line.front() == Some(&node) {
            self.state = State::Idle;
        }
        self.line.retain(|other| *other != node);
        self.unfinished = self.unfinished.filter(|(whose, _)| *whose != node);
    }

    /// This node gives no snapshots any more: it does not lead.
    pub fn stop(&mut self) {
        self.line.clear();
        (self.state, self.unfinished, self.loading) = (State::Idle, None, None);
    }

    /// The snapshots that must stay where they are, with the log behind them. `now`: monotonic
    /// nanoseconds.
    pub fn holds(&mut self, now: u64) -> Vec<u64> {
        let still = |loading: &Loading| now.saturating_sub(loading.since) < TRANSFER_LOADING_MAX.as_nanos() as u64;
        self.loading = self.loading.take().filter(still);
        let loading = self.loading.as_ref().map(|loading| loading.snapshot);
        loading.into_iter().chain(self.unfinished.map(|(_, snapshot)| snapshot)).collect()
    }

    /// Who has all of a snapshot, and is not known to have read it.
    pub fn loading(&self) -> Option<NodeId> {
        self.loading.as_ref().map(|loading| loading.node)
    }

    /// Who gets it, with the bytes that it has and those of all.
    pub fn progress(&self) -> Option<(NodeId, u64, u64)> {
        let State::Streaming { source, .. } = &self.state else { return None };
        let (there, all) = source.progress();
        self.line.front().map(|node| (*node, there, all))
    }

    /// The snapshot that was to be taken counts, with what it shows committed. `now`: monotonic
    /// nanoseconds.
    pub fn taken(&mut self, snapshot: u64, now: u64) -> Result<(), SnapshotError> {
        let (State::Taking, Some(node)) = (&self.state, self.line.front()) else { return Ok(()) };
        self.unfinished = Some((*node, snapshot));
        self.loading = self.loading.take().filter(|loading| loading.node != *node);
        self.begin(snapshot, false, now)
    }

    /// It could not be taken: whoever it was for is out of the line, and asks again.
    pub fn not_taken(&mut self) {
        if matches!(self.state, State::Taking) {
            self.state = State::Idle;
            self.line.pop_front();
        }
    }

    fn begin(&mut self, snapshot: u64, anew: bool, now: u64) -> Result<(), SnapshotError> {
        self.state = State::Idle;
        let mut source = Source::new(self.files.clone(), self.here, snapshot, anew, self.rate, now)?;
        if let Some(bytes) = self.chunk_bytes {
            source = source.with_chunk_bytes(bytes);
        }
        self.state = State::Streaming { source: Box::new(source), heard: now };
        Ok(())
    }

    /// What came from a node. Of another transfer it is ignored.
    pub fn receive(&mut self, from: NodeId, id: &TransferId, message: &TransferMessage<'_>, now: u64) {
        if let State::Streaming { source, heard } = &mut self.state
            && self.line.front() == Some(&from)
            && source.id() == *id
        {
            *heard = now;
            source.receive(id, message, now);
        }
    }

    /// Writes the next message to the end of `out`, if one is due.
    pub fn step(&mut self, now: u64, out: &mut Vec<u8>) -> SendingStep {
        let Some(node) = self.line.front().copied() else { return SendingStep::Idle };
        match &mut self.state {
            State::Idle => {
                // Where it stopped in the middle, it goes on with that.
                let left = self.unfinished.filter(|(whose, _)| *whose == node);
                if let Some((_, snapshot)) = left
                    && self.begin(snapshot, false, now).is_ok()
                {
                    return self.step(now, out);
                }
                self.unfinished = None;
                self.take(0)
            }
            State::Taking => SendingStep::Wait(TRANSFER_SILENCE),
            State::Streaming { source, heard } => match source.step(now, out) {
                Ok(SourceStep::Message) => SendingStep::Message(node),
                Ok(SourceStep::Wait(wait)) if now.saturating_sub(*heard) < TRANSFER_SILENCE.as_nanos() as u64 => {
                    SendingStep::Wait(wait)
                }
                Ok(SourceStep::Wait(_)) => {
                    self.next();
                    SendingStep::Silent(node)
                }
                Ok(SourceStep::Installed) => {
                    let snapshot = source.id().snapshot;
                    self.next();
                    self.unfinished = None;
                    self.loading = Some(Loading { node, snapshot, since: now });
                    SendingStep::Done(node)
                }
                // What another source has begun there, or this one with an older snapshot, nobody
                // completes: only who leads sends. The answer may be to an earlier message.
                Ok(SourceStep::Refused(Refusal::Other(..))) => {
                    let snapshot = source.id().snapshot;
                    match self.begin(snapshot, true, now) {
                        Ok(()) => self.step(now, out),
                        Err(error) => self.failed(node, error),
                    }
                }
                Ok(SourceStep::Refused(Refusal::Number(above))) => {
                    self.unfinished = None;
                    self.take(above)
                }
                Ok(SourceStep::Refused(refusal)) => {
                    self.next();
                    self.unfinished = None;
                    SendingStep::Refused(node, refusal)
                }
                Err(error) => self.failed(node, error),
            },
        }
    }

    fn take(&mut self, above: u64) -> SendingStep {
        self.state = State::Taking;
        SendingStep::Take { above }
    }

    fn failed(&mut self, node: NodeId, error: SnapshotError) -> SendingStep {
        self.next();
        self.unfinished = None;
        SendingStep::Failed(node, error)
    }

    /// The first in line has its turn no longer.
    fn next(&mut self) {
        self.line.pop_front();
        self.state = State::Idle;
    }
}
