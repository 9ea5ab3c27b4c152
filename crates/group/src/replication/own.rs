//! What this node appends besides its group's entries: barriers, and records of its own, of no
//! stream.

use super::state::{Appended, Notification, State};
use super::{Committing, Replication};
use crate::host::{NotCommitted, Party};
use crate::replayed::GroupPlace;
use ferrite_base::{Epoch, Position};
use ferrite_log::{LogFailed, LogPosition};
use ferrite_replica::group::Mark;
use std::sync::{Arc, OnceLock};

impl<C: Party> Replication<C> {
    /// Completed when all before it is committed. A leadership that has ended has none any more:
    /// what is before it then may never be committed, and the party that waits for it holds the
    /// stores that this node needs to become a copy.
    pub(super) fn append_barrier(self: &Arc<Self>, party: C, since: Option<Epoch>) {
        self.log.wait_for_room();
        let mut state = self.lock();
        if !self.solo && !state.leads_since(since) {
            state.notifications.push_back(Notification::Party {
                party,
                payload: Vec::new(),
                outcome: Err(NotCommitted::Deposed),
            });
            return self.notify_parties(state);
        }
        let what = Appended::Own { after: state.machine.end(), party, since };
        let taken = self.log.append_now(Vec::new(), Committing { group: Arc::clone(self), what });
        self.refused(&mut state, taken);
        self.notify_parties(state);
    }

    pub fn append_own(self: &Arc<Self>, payload: Vec<u8>, party: C) {
        self.log.wait_for_room();
        let mut state = self.lock();
        let what = Appended::Own { after: state.machine.end(), party, since: None };
        let taken = self.log.append_now(payload, Committing { group: Arc::clone(self), what });
        self.refused(&mut state, taken);
        self.notify_parties(state);
    }

    pub fn append_checkpoint(
        self: &Arc<Self>,
        write: impl FnOnce(&GroupPlace) -> Vec<u8>,
        mark: Arc<OnceLock<LogPosition>>,
        party: C,
        since: Option<Epoch>,
    ) -> GroupPlace {
        self.log.wait_for_room();
        let mut state = self.lock();
        let place = state.place();
        if !self.solo && !state.leads_since(since) {
            // What was executed since the leader was deposed is in the tables, and in no stream.
            state.notifications.push_back(Notification::Party {
                party,
                payload: Vec::new(),
                outcome: Err(NotCommitted::Deposed),
            });
            self.notify_parties(state);
            return place;
        }
        let what = Appended::Own { after: place.end, party, since };
        let taken = self.log.append_marked(write(&place), mark, Committing { group: Arc::clone(self), what });
        self.refused(&mut state, taken);
        self.notify_parties(state);
        place
    }

    /// Appends a record of this node's own, which begins a block and gets the stream's end. `party`
    /// learns when everything up to there is committed, or that this cannot be known. None: another
    /// node's snapshot replaces what is here, or the stream is empty: then there is nothing to
    /// begin after, and the log of a node without a stream names none.
    pub fn note(
        self: &Arc<Self>,
        write: impl FnOnce(Mark) -> Vec<u8>,
        mark: Arc<OnceLock<LogPosition>>,
        party: C,
    ) -> Option<Mark> {
        self.log.wait_for_room();
        let mut state = self.lock();
        let end = state.machine.end();
        if state.installing || end.position == Position(0) {
            state.notifications.push_back(Notification::Party {
                party,
                payload: Vec::new(),
                outcome: Err(NotCommitted::Deposed),
            });
            self.notify_parties(state);
            return None;
        }
        let what = Appended::Own { after: end, party, since: None };
        let taken = self.log.append_marked(write(end), mark, Committing { group: Arc::clone(self), what });
        self.refused(&mut state, taken);
        self.notify_parties(state);
        Some(end)
    }

    /// Whether this node's log has everything up to that entry of the stream, durable as the mode
    /// says. None: the stream does not have it any more.
    pub fn has_durable(&self, entry: Mark) -> Option<bool> {
        let state = self.lock();
        state.machine.has(entry).then(|| state.machine.durable() >= entry.position)
    }

    /// The log is closed: a party that came back learns that.
    pub(super) fn refused(&self, state: &mut State<C>, taken: Result<(), (Committing<C>, LogFailed)>) {
        let Err((committing, failure)) = taken else { return };
        self.fail(state, failure.clone());
        if let Appended::Own { party, .. } = committing.what {
            let outcome = Err(NotCommitted::Log(failure));
            state.notifications.push_back(Notification::Party { party, payload: Vec::new(), outcome });
        }
    }
}
