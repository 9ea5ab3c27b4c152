//! The metadata's thread: this node's vote, if it has one, and its way to those who vote.
//!
//! The steps are `ferrite_cluster::Metadata`; this brings them time, and takes what they want sent.
//! A vote is fsynced on this thread, where no heartbeat of a group waits for it.

use crate::cluster::door::{Message, MetadataNotice};
use crate::cluster::links::Links;
use crate::cluster::notices::Notices;
use crossbeam_channel::{Receiver, Select, Sender};
use ferrite_cluster::{Cause, Errand, Letter, Metadata};
use ferrite_io::Clock;
use ferrite_meta::State;
use ferrite_peer::Lane;
use std::sync::Arc;
use std::time::Duration;

/// Between two ticks of a node of a cluster.
pub const TICK: Duration = Duration::from_millis(10);
/// Notices, and messages, that are taken before something is done about them.
const TAKEN_PER_TURN: usize = 256;

pub struct MetadataThread {
    pub metadata: Metadata,
    pub inbox: Receiver<MetadataNotice>,
    pub messages: Receiver<Message>,
    pub causes: Sender<Cause>,
    pub links: Links,
    /// For whoever looks up where the nodes are.
    pub names: Sender<Arc<State>>,
    pub clock: Arc<dyn Clock>,
    pub notices: Notices,
}

impl MetadataThread {
    pub fn run(mut self) {
        let mut next_tick = self.clock.boottime_nanos();
        loop {
            self.wait(Duration::from_nanos(next_tick.saturating_sub(self.clock.boottime_nanos())).min(TICK));
            for notice in self.inbox.try_iter().take(TAKEN_PER_TURN).collect::<Vec<_>>() {
                let now = self.clock.boottime_nanos();
                match notice {
                    MetadataNotice::Ask(ask) => self.metadata.ask(ask, now),
                    MetadataNotice::Lost(node) => self.metadata.lost(node),
                    MetadataNotice::Stop => return,
                }
            }
            for (from, message) in self.messages.try_iter().take(TAKEN_PER_TURN).collect::<Vec<_>>() {
                if let Err(error) = self.metadata.received(from, &message, self.clock.boottime_nanos()) {
                    self.notices.say(&format!("node {from} said what cannot be used: {error}"));
                }
            }
            let now = self.clock.boottime_nanos();
            if now >= next_tick {
                self.metadata.tick(now);
                next_tick = now + TICK.as_nanos() as u64;
            }
            self.work();
        }
    }

    fn wait(&self, time_max: Duration) {
        let mut select = Select::new();
        select.recv(&self.inbox);
        select.recv(&self.messages);
        let _ = select.ready_timeout(time_max);
    }

    fn work(&mut self) {
        let mut errands = Vec::new();
        self.metadata.work(self.clock.boottime_nanos(), &mut errands);
        for errand in errands {
            match errand {
                Errand::Send { to, message } => self.links.send_on(to, Lane::Control, Letter::Metadata, message),
                Errand::Cause(cause) => {
                    if let Cause::Metadata { state, .. } = &cause {
                        let _ = self.names.send(Arc::clone(state));
                    }
                    // A node that has ended does not mind.
                    let _ = self.causes.send(cause);
                }
                Errand::VoteLost(error) => ferrite_io::errln!("ferrite: this node no longer votes: {error}"),
            }
        }
    }
}
