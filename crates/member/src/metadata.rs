//! The metadata's thread: this node's vote, if it has one, and its way to the voters.
//!
//! The steps are `ferrite_cluster::Metadata`; this brings them time, and sends their messages. A
//! vote is fsynced on this thread, where no heartbeat of a group waits for it.

use crate::health::OwnVote;
use crate::links::Links;
use crate::notices::Notices;
use crate::peer_dispatcher::{Message, MetadataNotice};
use crossbeam_channel::{Receiver, Select, Sender};
use ferrite_cluster::{Cause, Errand, MessageKind, Metadata};
use ferrite_io::Clock;
use ferrite_meta::founding::Joins;
use ferrite_meta::voter::VoterError;
use ferrite_meta::{Ask, Controller, State};
use ferrite_notice::Notice;
use ferrite_partition::waker::WakingSender;
use ferrite_peer::Lane;
use std::sync::Arc;
use std::time::Duration;

/// Between two ticks of a node of a cluster, at least.
pub const TICK: Duration = Duration::from_millis(10);
/// And at most.
const TICK_MAX: Duration = Duration::from_secs(1);
/// After a fault of the disk the vote is opened again.
const VOTE_AGAIN: Duration = Duration::from_secs(2);
/// How often the vote is test-written, where nothing else writes it.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// Notices, and messages, that are taken in one turn.
const TAKEN_PER_TURN: usize = 256;

pub struct MetadataThread {
    pub metadata: Metadata,
    pub inbox: Receiver<MetadataNotice>,
    pub messages: Receiver<Message>,
    /// What nodes without an id ask.
    pub joins: Receiver<Joins>,
    pub causes: WakingSender<Cause>,
    pub links: Links,
    /// For the thread that looks up where the nodes are.
    pub names: Sender<(u64, Arc<State>)>,
    pub clock: Arc<dyn Clock>,
    pub notices: Notices,
    /// Puts aside what was voted here, which no longer counts.
    pub forget_vote: Box<dyn FnMut() -> Result<(), VoterError> + Send>,
    /// Opens this node's vote, as at a start; None: it no longer has one.
    pub open_vote: Box<dyn FnMut() -> Result<Option<Controller>, VoterError> + Send>,
    /// When that is tried, in boot-time nanoseconds.
    pub vote_again: Option<u64>,
    /// The condition of the vote, for others to see.
    pub vote: Arc<OwnVote>,
    /// When it is written next, whether or not it has changed.
    pub next_probe: u64,
}

impl MetadataThread {
    pub fn run(mut self) {
        loop {
            self.wait();
            self.vote.works(self.clock.boottime_nanos());
            for notice in self.inbox.try_iter().take(TAKEN_PER_TURN).collect::<Vec<_>>() {
                let now = self.clock.boottime_nanos();
                match notice {
                    MetadataNotice::Ask(ask) => self.metadata.ask(ask, now),
                    MetadataNotice::Lost(node) => self.metadata.lost(node),
                    MetadataNotice::Stop => return,
                }
            }
            for (from, message) in self.messages.try_iter().take(TAKEN_PER_TURN).collect::<Vec<_>>() {
                if let Err(error) = self.metadata.handle_message(from, &message, self.clock.boottime_nanos()) {
                    self.notices.say(Notice::MetadataUnusable { node: from, reason: error.to_string() });
                }
            }
            for Joins { key, node, .. } in self.joins.try_iter().take(TAKEN_PER_TURN).collect::<Vec<_>>() {
                self.metadata.ask(Ask::Join { key, node }, self.clock.boottime_nanos());
            }
            let now = self.clock.boottime_nanos();
            self.metadata.tick(now);
            self.look_for_vote(now);
            if now >= self.next_probe {
                self.next_probe = now + PROBE_EVERY.as_nanos() as u64;
                self.metadata.probe();
            }
            self.work();
            self.vote.rests(self.metadata.controller().is_some_and(Controller::votes));
        }
    }

    /// Waits until something comes, or until there is something to do anyway.
    fn wait(&self) {
        let now = self.clock.boottime_nanos();
        let next = self.metadata.next_tick(now).unwrap_or(u64::MAX);
        let next = next.min(self.vote_again.unwrap_or(u64::MAX)).min(self.next_probe);
        let time_max = Duration::from_nanos(next.saturating_sub(now)).clamp(TICK, TICK_MAX);
        let mut select = Select::new();
        select.recv(&self.inbox);
        select.recv(&self.messages);
        select.recv(&self.joins);
        let _ = select.ready_timeout(time_max);
    }

    /// A disk that could not be written to may be one that can, again.
    fn look_for_vote(&mut self, now: u64) {
        if self.vote_again.take_if(|again| now >= *again).is_none() {
            return;
        }
        match (self.open_vote)() {
            Ok(Some(controller)) => {
                ferrite_io::notify(Notice::VotesAgain);
                self.metadata.begin_to_vote(controller);
            }
            Ok(None) => {}
            Err(error) => self.vote_lost(&error),
        }
    }

    fn vote_lost(&mut self, error: &VoterError) {
        self.notices.say(Notice::CannotVote { reason: error.to_string() });
        match error {
            VoterError::Disk(_) => {
                self.vote_again = Some(self.clock.boottime_nanos() + VOTE_AGAIN.as_nanos() as u64);
            }
            // The next start gets another.
            VoterError::Lost | VoterError::Damaged(_) => {
                if let Err(error) = (self.forget_vote)() {
                    self.notices.say(Notice::VoteNotPutAside { reason: error.to_string() });
                }
            }
            // What a later release has written is kept for that release.
            VoterError::Version { .. } | VoterError::Command { .. } => {}
        }
    }

    fn work(&mut self) {
        let mut errands = Vec::new();
        self.metadata.work(self.clock.boottime_nanos(), &mut errands);
        for errand in errands {
            match errand {
                Errand::Send { to, message } => self.links.send_on(to, Lane::Control, MessageKind::Metadata, message),
                Errand::Cause(cause) => {
                    if let Cause::Metadata { index, state, .. } = &cause {
                        let _ = self.names.send((*index, Arc::clone(state)));
                    }
                    // A node that has ended does not mind.
                    let _ = self.causes.send(cause);
                }
                Errand::VoteLost(error) => self.vote_lost(&error),
            }
        }
    }
}
