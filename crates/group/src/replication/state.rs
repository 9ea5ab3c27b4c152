//! The state under the lock of a group's replication: the state machine, what waits for its commit,
//! and the notices not delivered yet.

use crate::entry::HEADER_BYTES;
use crate::host::{GroupEvent, NotCommitted};
use crate::recent::{Behind, Recent, SharedEntry};
use crate::replayed::GroupPlace;
use crate::times::Times;
use ferrite_base::{Epoch, Position};
use ferrite_log::LogFailed;
use ferrite_replica::group::{Effect, Group, GroupConfiguration, Header, Mark};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) struct State<C> {
    pub(super) machine: Group,
    pub(super) configuration: GroupConfiguration,
    /// The highest time of an entry, microseconds since 1970.
    pub(super) time: i64,
    /// Parties whose appends are not committed, in the order of positions.
    pub(super) waiting: VecDeque<Waiting<C>>,
    pub(super) notifications: VecDeque<Notification<C>>,
    /// Entries that are not committed, of a group that may have other members.
    pub(super) uncommitted: VecDeque<Uncommitted>,
    /// Memory that they hold.
    pub(super) uncommitted_bytes: usize,
    /// Appends that wait until that is less.
    pub(super) window_waiters: u32,
    /// The process ends: nothing waits.
    pub(super) ends: bool,
    /// The last entry before them, and the configuration of its epoch.
    pub(super) committed: (Mark, GroupConfiguration),
    pub(super) recent: Recent,
    /// The epoch in which this node has opened, while it leads.
    pub(super) opened: Option<Epoch>,
    pub(super) failed: Option<LogFailed>,
    /// A snapshot is replacing what is here, and is not durable yet.
    pub(super) installing: bool,
    pub(super) times: Times,
    /// The copy that applies what is committed reports its progress there.
    pub(super) applied: Option<Arc<AtomicU64>>,
    /// Whether procedures cannot run on this node. None: no party reports it.
    pub(super) unable: Option<Arc<AtomicBool>>,
    pub(super) effects: Vec<Effect>,
}

/// What the log is to make durable.
pub(super) enum Appended<C> {
    /// An entry; its party waits in the group.
    Entry(Mark),
    /// A record of this node's own, of no stream, or a barrier; it counts when the stream up to
    /// there is committed, too.
    Own {
        after: Mark,
        party: C,
        /// Of a leader since then: nothing waits for it once that lead has ended.
        since: Option<Epoch>,
    },
}

pub(super) struct Waiting<C> {
    /// Of its entry, or of the last one before it.
    pub(super) position: Position,
    pub(super) payload: Vec<u8>,
    pub(super) party: C,
}

/// Notices delivered outside the lock, in the order in which they arose.
pub(super) enum Notification<C> {
    Party { party: C, payload: Vec<u8>, outcome: Result<(), NotCommitted> },
    Committed(Vec<SharedEntry>),
    Event(GroupEvent),
}

pub(super) struct Uncommitted {
    pub(super) entry: SharedEntry,
    /// By this node, which leads; a copy applies it when it is committed.
    pub(super) executed: bool,
}

impl<C> State<C> {
    /// Up to where the tables show the stream, a leader's own all of it; and whether all procedures
    /// run here.
    pub(super) fn refresh_copy(&mut self) {
        let applied = self.applied.as_ref().map(|applied| Position(applied.load(Ordering::Acquire)));
        let applied = applied.filter(|_| self.opened.is_none()).unwrap_or(self.machine.commit());
        self.machine.applies(applied);
        self.machine.runs_all(!self.unable.as_ref().is_some_and(|unable| unable.load(Ordering::Acquire)));
    }

    /// The place that the stream has come to.
    pub(super) fn place(&self) -> GroupPlace {
        GroupPlace {
            end: self.machine.end(),
            history: self.machine.history().clone(),
            configuration: self.configuration.clone(),
            time: self.time,
        }
    }

    /// The place that the stream has come to, as far as it is committed.
    pub(super) fn committed_place(&self) -> GroupPlace {
        let (end, configuration) = self.committed.clone();
        let mut history = self.machine.history().clone();
        history.cut(Position(end.position.0 + 1));
        GroupPlace { end, history, configuration, time: self.time }
    }

    pub(super) fn keep(&mut self, entry: SharedEntry, executed: bool) {
        let position = entry.header.mark.position;
        let before = Position(position.0 - 1);
        let previous = match self.recent.behind(before) {
            Behind::Here { previous, .. } => previous,
            Behind::Gone | Behind::Beyond => self.machine.mark_at(before),
        };
        if let Some(last) = self.uncommitted.back() {
            assert_eq!(last.entry.header.mark, previous, "entries are kept in order");
        }
        self.recent.push(previous, entry.clone());
        self.uncommitted_bytes += entry.cost();
        self.uncommitted.push_back(Uncommitted { entry, executed });
    }

    /// Whether the leader since this epoch still leads; None: a caller that asks for no epoch.
    pub(super) fn leads_since(&self, since: Option<Epoch>) -> bool {
        since.is_none() || since == self.opened
    }

    /// An append is durable: what follows for others is sent when all appends of its fsync are
    /// noted.
    pub(super) fn note_written(&mut self, what: Appended<C>, payload: Vec<u8>) {
        match what {
            Appended::Entry(mark) => {
                if payload.capacity() > 0 {
                    let of = self.waiting.partition_point(|waiting| waiting.position < mark.position);
                    if let Some(waiting) = self.waiting.get_mut(of) {
                        waiting.payload = payload;
                    }
                }
                self.machine.note_written(mark);
            }
            // Another leader's entries have replaced what was before it, or may: the parties that
            // waited when this node was deposed have been notified.
            Appended::Own { after, party, since }
                if !self.machine.has(after) || after.position > self.machine.commit() && !self.leads_since(since) =>
            {
                self.notifications.push_back(Notification::Party {
                    party,
                    payload,
                    outcome: Err(NotCommitted::Deposed),
                });
            }
            Appended::Own { after: Mark { position: after, .. }, party, .. } => {
                let behind = self.waiting.partition_point(|waiting| waiting.position <= after);
                self.waiting.insert(behind, Waiting { position: after, payload, party });
            }
        }
    }

    /// Parties up to there learn that it is committed. What each has given is kept for other nodes;
    /// it gets memory of an earlier entry in return.
    pub(super) fn release(&mut self, commit: Position) {
        while self.waiting.front().is_some_and(|waiting| waiting.position <= commit) {
            let Waiting { mut payload, party, .. } = self.waiting.pop_front().expect("seen just now");
            if payload.capacity() == 0 {
                payload = self.recent.take_spare();
            }
            self.notifications.push_back(Notification::Party { party, payload, outcome: Ok(()) });
        }
    }

    /// This node will not learn the outcome of what waits.
    pub(super) fn give_up(&mut self, reason: &NotCommitted) {
        self.give_up_from(0, reason);
    }

    pub(super) fn give_up_from(&mut self, first: usize, reason: &NotCommitted) {
        for Waiting { payload, party, .. } in self.waiting.drain(first..) {
            self.notifications.push_back(Notification::Party { party, payload, outcome: Err(reason.clone()) });
        }
    }

    pub(super) fn event(&mut self, event: GroupEvent) {
        self.notifications.push_back(Notification::Event(event));
    }
}

/// The configuration whose epoch begins with this entry.
pub(super) fn begun_by(entry: &SharedEntry) -> Option<GroupConfiguration> {
    let Header { mark, starts_epoch, .. } = entry.header;
    let begun = starts_epoch.then(|| GroupConfiguration::decode(mark.epoch, &entry.bytes[HEADER_BYTES..]));
    begun.flatten().map(|(configuration, _)| configuration)
}
