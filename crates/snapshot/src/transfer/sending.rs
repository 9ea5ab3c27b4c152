//! The node that has the data, with all who wait for a snapshot of it: one gets it at a time, the
//! others wait in their order.
//!
//! Decides whose turn it is, when a snapshot has to be taken, and when one that was begun is given
//! up. Who needs one, and that this node may give it, others say. Nothing is written down: where
//! this node ends, whoever leads then begins with another snapshot, and where the receiving node is
//! started again, it goes on with what it has.
//!
//! Promises that who reads a snapshot is sent nothing: a node that has got all of one says where it
//! stands as before until it has read it, and so seems to need another. It is asked, and gets more
//! only when it has said since that it does not read that one: it has given it up, or loaded it, or
//! was started again. It may have said so, and be about to be a member: until it is, the log behind
//! its snapshot stays.

use super::message::{Refusal, TransferId, TransferMessage};
use super::source::{Source, SourceStep};
use crate::error::SnapshotError;
use crate::files::Files;
use ferrite_base::NodeId;
use ferrite_base::limits::{TRANSFER_LOADING_MAX, TRANSFER_SILENCE, TRANSFERS_MAX};
use std::collections::VecDeque;
use std::time::Duration;

/// What a step came to.
#[derive(Debug)]
pub enum SendingStep {
    /// Nobody wants anything.
    Idle,
    /// A snapshot is to be taken, with a number above this one; then [`Sending::snapshot_taken`] or
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

/// A node that wants a snapshot.
struct Waiting {
    node: NodeId,
    /// It has snapshots up to this number, as far as it has said.
    above: u64,
}

/// What was taken for a node that has not got all of it.
struct Unfinished {
    node: NodeId,
    snapshot: u64,
    /// When it was last its turn.
    since: u64,
}

/// A node that has got all of a snapshot, and is no member yet. What it lacks is behind that
/// snapshot in the log, which stays: else it would need another, and again.
struct Loading {
    node: NodeId,
    source: Box<Source>,
    since: u64,
    heard: u64,
    stands: Stands,
}

/// What a node has said last of the snapshot that it got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// It has it.
    Reads,
    /// It has given it up, and takes it once more.
    Takes,
    /// It will not take it any more, and none up to this number.
    Past(u64),
}

/// Sends snapshots of one directory.
pub struct Sending {
    files: Files,
    here: NodeId,
    /// Bytes a second.
    rate: u64,
    /// Who wants one; the first gets it.
    line: VecDeque<Waiting>,
    state: State,
    unfinished: Option<Unfinished>,
    /// Nobody of these is in the line.
    loading: Vec<Loading>,
    chunk_bytes: Option<usize>,
}

fn has_passed(time: Duration, since: u64, now: u64) -> bool {
    now.saturating_sub(since) >= time.as_nanos() as u64
}

impl Sending {
    /// `files`: where this node's snapshots are. `rate`: bytes a second at most.
    pub fn new(files: Files, here: NodeId, rate: u64) -> Sending {
        let line = VecDeque::new();
        let state = State::Idle;
        let loading = Vec::new();
        Sending { files, here, rate, line, state, unfinished: None, loading, chunk_bytes: None }
    }

    /// Smaller chunks, for tests.
    pub fn with_chunk_bytes(mut self, bytes: usize) -> Sending {
        self.chunk_bytes = Some(bytes);
        self
    }

    /// The node needs a snapshot, as where it stands shows. One that stands in line stays where it
    /// is; one that reads the last shows nothing else.
    pub fn want(&mut self, node: NodeId) {
        if self.first().is_some_and(|first| first == node) || self.line.iter().any(|waiting| waiting.node == node) {
            return;
        }
        let above = match self.loading.iter().position(|loading| loading.node == node) {
            None => 0,
            Some(index) => match self.loading[index].stands {
                Stands::Reads | Stands::Takes => return,
                Stands::Past(above) => {
                    self.loading.remove(index);
                    above
                }
            },
        };
        self.line.push_back(Waiting { node, above });
    }

    /// The node needs none any more, nor the log behind one.
    pub fn forget(&mut self, node: NodeId) {
        self.loading.retain(|loading| loading.node != node);
        if self.first() == Some(node) {
            self.state = State::Idle;
        }
        self.line.retain(|waiting| waiting.node != node);
        self.unfinished.take_if(|unfinished| unfinished.node == node);
    }

    /// This node gives no snapshots any more: it does not lead.
    pub fn stop(&mut self) {
        self.line.clear();
        self.loading.clear();
        (self.state, self.unfinished) = (State::Idle, None);
    }

    /// The snapshots that must stay where they are, with the log behind them.
    pub fn holds(&self) -> Vec<u64> {
        let unfinished = self.unfinished.iter().map(|unfinished| unfinished.snapshot);
        self.loading.iter().map(|loading| loading.source.id().snapshot).chain(unfinished).collect()
    }

    /// Who gets a snapshot, waits for one, or has got one that it may be reading.
    pub fn nodes(&self) -> Vec<NodeId> {
        let line = self.line.iter().map(|waiting| waiting.node);
        self.loading.iter().map(|loading| loading.node).chain(line).collect()
    }

    /// Who gets it, with the bytes that it has and those of all.
    pub fn progress(&self) -> Option<(NodeId, u64, u64)> {
        let State::Streaming { source, .. } = &self.state else { return None };
        let (there, all) = source.progress();
        self.first().map(|node| (node, there, all))
    }

    /// The snapshot that was to be taken counts, with what it shows committed. `now`: monotonic
    /// nanoseconds.
    pub fn snapshot_taken(&mut self, snapshot: u64, now: u64) -> Result<(), SnapshotError> {
        let (State::Taking, Some(node)) = (&self.state, self.first()) else { return Ok(()) };
        self.unfinished = Some(Unfinished { node, snapshot, since: now });
        self.begin(snapshot, false, now)
    }

    /// It could not be taken: whoever it was for is out of the line, and asks again.
    pub fn not_taken(&mut self) {
        if matches!(self.state, State::Taking) {
            self.state = State::Idle;
            self.line.pop_front();
        }
    }

    fn first(&self) -> Option<NodeId> {
        self.line.front().map(|waiting| waiting.node)
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
        let first = self.first();
        let (source, heard) = match &mut self.state {
            State::Streaming { source, heard } if first == Some(from) => (source, heard),
            _ => match self.loading.iter_mut().find(|loading| loading.node == from) {
                Some(loading) => (&mut loading.source, &mut loading.heard),
                None => return,
            },
        };
        if source.id() == *id {
            *heard = now;
            source.receive(id, message, now);
        }
    }

    /// Writes the next message to the end of `out`, if one is due. `now`: monotonic nanoseconds.
    pub fn step(&mut self, now: u64, out: &mut Vec<u8>) -> SendingStep {
        let until_asked = match self.ask_loading(now, out) {
            Ok(wait) => wait,
            Err(asked) => return SendingStep::Message(asked),
        };
        match (self.step_of_first(now, out), until_asked) {
            (SendingStep::Idle, Some(wait)) => SendingStep::Wait(wait),
            (SendingStep::Wait(wait), Some(other)) => SendingStep::Wait(wait.min(other)),
            (step, _) => step,
        }
    }

    /// How those stand who have got a snapshot. Until when nobody is to be asked, where there are
    /// any; an error: who was asked.
    fn ask_loading(&mut self, now: u64, out: &mut Vec<u8>) -> Result<Option<Duration>, NodeId> {
        self.loading.retain(|loading| !has_passed(TRANSFER_LOADING_MAX, loading.since, now));
        let first = self.first();
        // One that is silent and away for good keeps nothing for ever.
        self.unfinished.take_if(|unfinished| {
            Some(unfinished.node) != first && has_passed(TRANSFER_LOADING_MAX, unfinished.since, now)
        });
        let mut until: Option<Duration> = None;
        for Loading { node, source, stands, .. } in &mut self.loading {
            if source.goes_on() {
                *stands = Stands::Takes;
                continue;
            }
            let wait = loop {
                let snapshot = source.id().snapshot;
                *stands = match source.step(now, out) {
                    Ok(SourceStep::Message) => return Err(*node),
                    Ok(SourceStep::Wait(wait)) => break wait,
                    Ok(SourceStep::Installed) => Stands::Reads,
                    Ok(SourceStep::Loaded) => Stands::Past(snapshot),
                    Ok(SourceStep::Refused(Refusal::Number(above))) => Stands::Past(above),
                    // It will hear the same of another one, or take it, where it still needs one.
                    Ok(SourceStep::Refused(_)) | Err(_) => Stands::Past(0),
                };
                source.ask_again(now);
            };
            until = Some(until.map_or(wait, |until| until.min(wait)));
        }
        Ok(until)
    }

    fn step_of_first(&mut self, now: u64, out: &mut Vec<u8>) -> SendingStep {
        if matches!(self.state, State::Idle) {
            self.go_on_with_who_takes_again(now);
        }
        let Some(Waiting { node, above }) = self.line.front() else { return SendingStep::Idle };
        let node = *node;
        let above = *above;
        if matches!(self.state, State::Idle) && !self.has_room(now) {
            return SendingStep::Wait(TRANSFER_SILENCE);
        }
        match &mut self.state {
            State::Idle => {
                // Where it stopped in the middle, it goes on with that.
                let left = self.unfinished.as_ref().filter(|unfinished| unfinished.node == node);
                if let Some(snapshot) = left.map(|unfinished| unfinished.snapshot)
                    && self.begin(snapshot, false, now).is_ok()
                {
                    return self.step_of_first(now, out);
                }
                self.unfinished = None;
                self.request_snapshot(above)
            }
            State::Taking => SendingStep::Wait(TRANSFER_SILENCE),
            State::Streaming { source, heard } => match source.step(now, out) {
                Ok(SourceStep::Message) => SendingStep::Message(node),
                Ok(SourceStep::Wait(wait)) if !has_passed(TRANSFER_SILENCE, *heard, now) => SendingStep::Wait(wait),
                Ok(SourceStep::Wait(_)) => {
                    self.unfinished.iter_mut().for_each(|unfinished| unfinished.since = now);
                    self.next();
                    SendingStep::Silent(node)
                }
                Ok(ended @ (SourceStep::Installed | SourceStep::Loaded)) => {
                    let stands = match ended {
                        SourceStep::Loaded => Stands::Past(source.id().snapshot),
                        _ => Stands::Reads,
                    };
                    source.ask_again(now);
                    if let State::Streaming { source, heard } = self.next() {
                        self.loading.push(Loading { node, source, since: now, heard, stands });
                    }
                    self.unfinished = None;
                    SendingStep::Done(node)
                }
                // What another source has begun there, or this one with an older snapshot, nobody
                // completes: only who leads sends. The answer may be to an earlier message.
                Ok(SourceStep::Refused(Refusal::Other(..))) => {
                    let snapshot = source.id().snapshot;
                    match self.begin(snapshot, true, now) {
                        Ok(()) => self.step_of_first(now, out),
                        Err(error) => self.failed(node, error),
                    }
                }
                Ok(SourceStep::Refused(Refusal::Number(above))) => {
                    self.unfinished = None;
                    self.request_snapshot(above)
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

    /// It had its turn before all who wait.
    fn go_on_with_who_takes_again(&mut self, now: u64) {
        if let Some(index) = self.loading.iter().position(|loading| loading.stands == Stands::Takes) {
            let Loading { node, source, .. } = self.loading.remove(index);
            self.unfinished = Some(Unfinished { node, snapshot: source.id().snapshot, since: now });
            self.line.push_front(Waiting { node, above: 0 });
            self.state = State::Streaming { source, heard: now };
        }
    }

    /// Whether another snapshot may be kept beside those that nodes have got and may be reading.
    /// One that is silent gives way.
    fn has_room(&mut self, now: u64) -> bool {
        if self.loading.len() >= TRANSFERS_MAX
            && let Some(index) = self.loading.iter().position(|it| has_passed(TRANSFER_SILENCE, it.heard, now))
        {
            self.loading.remove(index);
        }
        self.loading.len() < TRANSFERS_MAX
    }

    fn request_snapshot(&mut self, above: u64) -> SendingStep {
        self.state = State::Taking;
        SendingStep::Take { above }
    }

    fn failed(&mut self, node: NodeId, error: SnapshotError) -> SendingStep {
        self.next();
        self.unfinished = None;
        SendingStep::Failed(node, error)
    }

    /// The first in line has its turn no longer; what it was at.
    fn next(&mut self) -> State {
        self.line.pop_front();
        std::mem::replace(&mut self.state, State::Idle)
    }
}
