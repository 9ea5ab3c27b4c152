//! A snapshot in the place of what is here: other nodes' entries are taken again once it is
//! durable.

use super::state::Appended;
use super::{Committing, Replication};
use crate::host::{GroupEvent, NotCommitted, Party};
use crate::recent::Recent;
use crate::replayed::GroupPlace;
use ferrite_base::limits::RECENT_ENTRIES_BYTES_MAX;
use ferrite_log::LogPosition;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

impl<C: Party> Replication<C> {
    /// This node's tables will be those of a snapshot that shows everything up to `place`. Writes
    /// `record`, which begins a block, whose place is in `mark` when `party` learns that it is
    /// durable; in the log only entries after `place` follow it. Until [`Replication::installed`]
    /// nothing is taken from other nodes and nothing sent to them. `party` comes back if others
    /// rely on what this node has: if it leads or is a member.
    pub fn install(
        self: &Arc<Self>,
        place: GroupPlace,
        record: Vec<u8>,
        mark: Arc<OnceLock<LogPosition>>,
        party: C,
    ) -> Result<(), C> {
        self.log.wait_for_room();
        let mut state = self.lock();
        let GroupPlace { end, history, configuration, time } = place;
        if self.solo || state.installing || !state.machine.install(history, end) {
            return Err(party);
        }
        state.installing = true;
        state.event(GroupEvent::Replaced);
        state.give_up(&NotCommitted::Deposed);
        state.uncommitted.clear();
        state.uncommitted_bytes = 0;
        state.committed = (end, configuration.clone());
        state.recent = Recent::new(end, RECENT_ENTRIES_BYTES_MAX);
        state.configuration = configuration;
        state.time = state.time.max(time);
        self.commit.store(end.position.0, Ordering::Release);
        let what = Appended::Own { after: end, party, since: None };
        let taken = self.log.append_marked(record, mark, Committing { group: Arc::clone(self), what });
        self.refused(&mut state, taken);
        self.notify_parties(state);
        Ok(())
    }

    /// The snapshot is durable, and what was here before is gone.
    pub fn installed(&self) {
        self.lock().installing = false;
    }
}
