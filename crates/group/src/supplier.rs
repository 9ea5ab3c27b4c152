//! Sends nodes the entries that are not in memory any more (decision 0047): takes
//! [`FromLog`](crate::FromLog) requests, reads the log a piece at a time, makes messages of it.
//!
//! Promises that it sends entries of the leader's stream in sequence, in messages of
//! [`REPLICATION_MESSAGE_BYTES`] at most or of one larger entry; that nodes get their turns one
//! after the other, and none delays the others; and that it holds no more than one piece of the log
//! for each. Has no thread: [`Supplier::step`] is called, after each of which others may run. Does
//! not know who is a member, and knows no sockets.

use crate::catch_up::{CatchUp, CatchUpError, Missed, Wanted};
use crate::host::{FromLog, Party, Urgency};
use crate::message;
use crate::replication::Replication;
use ferrite_base::limits::REPLICATION_MESSAGE_BYTES;
use ferrite_base::{NodeId, Position};
use ferrite_log::SegmentIndex;
use ferrite_replica::group::{Envelope, Message};
use std::collections::VecDeque;
use std::sync::Arc;

/// How long to keep the place in the log that a node has come to, when it asks for nothing more: it
/// mostly wants what follows once that has arrived. While it is kept, the log is not removed.
const IDLE_NANOS: u64 = 5_000_000_000;

/// What a step came to.
#[derive(Debug)]
pub enum Supplied {
    /// Call again: there is more to do.
    Working,
    /// Everything that was asked for was sent or given up.
    Idle,
    /// What is left is for nodes whose outboxes have no room.
    Held,
    /// The log does not reach back to what this node needs: it gets a snapshot.
    Gone(NodeId),
    /// The entry at that place fits in no message: the same.
    TooLarge(NodeId, Position),
    /// The log cannot be read, or is damaged there: the node gets a snapshot, too. When asked
    /// again, it tries again.
    Failed(NodeId, CatchUpError),
}

/// What it works for.
struct Job {
    wanted: FromLog,
    reader: CatchUp,
    /// Its request is fulfilled.
    done: bool,
    /// When it was last asked for something, or sent something.
    used: u64,
}

/// For one group on the node that leads it. One for each group.
pub struct Supplier<C: Party> {
    group: Arc<Replication<C>>,
    index: Arc<SegmentIndex>,
    /// One for each node, the one whose turn is next first.
    jobs: VecDeque<Job>,
}

impl<C: Party> Supplier<C> {
    /// `index`: of the log that has the group's entries.
    pub fn new(group: Arc<Replication<C>>, index: Arc<SegmentIndex>) -> Supplier<C> {
        Supplier { group, index, jobs: VecDeque::new() }
    }

    /// As [`GroupEvent::FromLog`](crate::GroupEvent::FromLog) asks. Replaces an earlier request for
    /// the same node, or continues after it. `now`: monotonic nanoseconds.
    pub fn request(&mut self, wanted: FromLog, now: u64) {
        let Some(job) = self.jobs.iter_mut().find(|job| job.wanted.to == wanted.to) else {
            return self.jobs.push_back(self.job(wanted, now));
        };
        let goes_on = job.reader.position() == wanted.after
            || (wanted.after == job.wanted.up_to && job.reader.position() <= wanted.after);
        if goes_on && job.wanted.epoch == wanted.epoch {
            (job.wanted, job.done, job.used) = (wanted, false, now);
        } else {
            let to = wanted.to;
            let new = self.job(wanted, now);
            if let Some(job) = self.jobs.iter_mut().find(|job| job.wanted.to == to) {
                *job = new;
            }
        }
    }

    fn job(&self, wanted: FromLog, now: u64) -> Job {
        let reader = CatchUp::behind_position(&self.index, self.group.id(), wanted.after);
        Job { wanted, reader, done: false, used: now }
    }

    /// The node asks for nothing more: the connection to it was lost, or it is no longer followed.
    pub fn forget(&mut self, node: NodeId) {
        self.jobs.retain(|job| job.wanted.to != node);
    }

    /// Whether a step would do something, if there is room.
    pub fn has_work(&self) -> bool {
        self.jobs.iter().any(|job| !job.done)
    }

    /// One piece of work for the node whose turn it is: one read of the disk at most, and one
    /// message at most. `has_room`: whether the node's outbox takes a message; `send` is called
    /// with it.
    pub fn step(
        &mut self,
        now: u64,
        has_room: &mut dyn FnMut(NodeId) -> bool,
        send: &mut dyn FnMut(NodeId, Urgency, Vec<u8>),
    ) -> Supplied {
        self.jobs.retain(|job| !job.done || now.saturating_sub(job.used) < IDLE_NANOS);
        if !self.has_work() {
            return Supplied::Idle;
        }
        let Some(stream) = self.group.leads() else {
            // The current leader is asked.
            self.jobs.clear();
            return Supplied::Idle;
        };
        self.jobs.retain(|job| job.wanted.epoch == stream.epoch);
        let Some(turn) = self.jobs.iter().position(|job| !job.done && has_room(job.wanted.to)) else {
            return if self.has_work() { Supplied::Held } else { Supplied::Idle };
        };
        let mut job = self.jobs.remove(turn).expect("it was found just now");
        let FromLog { to, epoch, up_to, round, .. } = job.wanted;
        let wanted = Wanted { up_to, bytes: REPLICATION_MESSAGE_BYTES, durable: stream.durable };
        match job.reader.step(&stream.history, wanted) {
            Ok(Missed::Entries { previous, entries, .. }) if self.group.is_too_large(entries.len()) => {
                self.group.needs_more_than_entries(to);
                return Supplied::TooLarge(to, Position(previous.position.0 + 1));
            }
            Ok(Missed::Entries { previous, entries, .. }) => {
                let message = Message::Append { previous, entries: Vec::new(), commit: stream.commit, round };
                let mut out = Vec::with_capacity(message::HEADER_BYTES_MAX + entries.len());
                message::encode(&mut out, self.group.id(), &Envelope { from: stream.here, epoch, message }, entries);
                send(to, Urgency::Entries, out);
                job.used = now;
            }
            Ok(Missed::Working) => {}
            Ok(Missed::End) => job.done = true,
            Err(CatchUpError::Removed) => {
                // It is asked repeatedly where its stream ends: with a snapshot it is further at
                // once.
                self.group.disconnected(to);
                return Supplied::Gone(to);
            }
            Err(error) => {
                self.group.disconnected(to);
                return Supplied::Failed(to, error);
            }
        }
        job.done |= job.reader.position() >= up_to;
        // Behind the others, so that each has its turn.
        self.jobs.push_back(job);
        Supplied::Working
    }

    /// How far it has come with what it sends to a node.
    pub fn sent(&self, node: NodeId) -> Option<Position> {
        self.jobs.iter().find(|job| job.wanted.to == node).map(|job| job.reader.position())
    }
}
