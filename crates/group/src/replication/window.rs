//! How far a leader executes ahead of its members (docs/replication.md, section 4, "Window").
//!
//! An append waits while too much is not committed. It waits for the group's state, whose lock it
//! releases meanwhile: ticks, messages and the log continue, and what ends the wait comes from
//! them. It ends when enough is committed, and also when this node no longer leads, its log has
//! failed, or the process ends: then the append is refused, or proceeds as if there were no window.
//! An epoch's first entry and what a copy takes do not wait.

use super::State;
use ferrite_base::Epoch;
use std::sync::{Condvar, MutexGuard};

pub(super) struct Window {
    bytes_max: usize,
    opened: Condvar,
}

impl Window {
    pub(super) fn new(bytes_max: usize) -> Window {
        Window { bytes_max, opened: Condvar::new() }
    }

    #[inline]
    pub(super) fn is_full<C>(&self, state: &State<C>) -> bool {
        state.uncommitted_bytes >= self.bytes_max
    }

    fn holds_up<C>(&self, state: &State<C>) -> bool {
        self.is_full(state) && state.opened.is_some() && state.failed.is_none() && !state.ends
    }

    /// `since`: the leadership in whose name it is appended. Another leadership has nothing to wait
    /// for.
    #[cold]
    pub(super) fn wait<'s, C>(
        &self,
        mut state: MutexGuard<'s, State<C>>,
        since: Option<Epoch>,
    ) -> MutexGuard<'s, State<C>> {
        state.window_waiters += 1;
        while self.holds_up(&state) && state.leads_since(since) {
            state = self.opened.wait(state).expect("a panic under the group's lock ends the process");
        }
        state.window_waiters -= 1;
        state
    }

    /// Wakes waiting appends that no longer have a reason to wait.
    #[inline]
    pub(super) fn wake_appends<C>(&self, state: &State<C>) {
        if state.window_waiters > 0 && !self.holds_up(state) {
            self.opened.notify_all();
        }
    }
}
