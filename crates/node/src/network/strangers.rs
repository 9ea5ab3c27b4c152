//! What a network thread's connections make the node hold, and what is done with those that hold
//! much and make no progress (docs/decisions/0019-strangers.md).

use super::NetworkThread;
use crate::connection::{Connection, is_admin, queued_bytes};
use crate::work::Work;
use ferrite_base::{limits, memory};
use ferrite_member::forward::Outstanding;
use ferrite_notice::Notice;
use std::time::{Duration, Instant};

/// The node hears of what is counted here at the latest when it is this much.
const UNTOLD_BYTES_MAX: usize = 1_048_576;
/// A connection that has made no progress for this long may be ended where others wait for room.
const STALLED: Duration = Duration::from_secs(1);
/// In each round as much room is made as one part in this many of what clients may hold.
const RELIEF_PART: usize = 4;

/// What has changed since the last report to the node: one addition a turn, not one for each call.
#[derive(Default)]
pub struct Ledger {
    held: isize,
    unread: isize,
}

impl Ledger {
    /// What a connection holds may have changed.
    #[inline]
    pub fn count(&mut self, connection: &mut Connection) {
        let held = connection.memory_bytes();
        let unread = connection.unread_capacity();
        let before = std::mem::replace(&mut connection.counted, (held, unread));
        self.held += held as isize - before.0 as isize;
        self.unread += unread as isize - before.1 as isize;
    }

    /// A connection is gone; its calls that are still to be answered are not.
    pub fn gone(&mut self, connection: &Connection) {
        self.held -= connection.counted.0 as isize - queued_bytes(connection.work()) as isize;
        self.unread -= connection.counted.1 as isize;
    }

    /// Calls of connections that are gone were answered.
    pub fn answered_in_vain(&mut self, answered: Outstanding) {
        self.held -= queued_bytes(answered) as isize;
    }

    /// How much a connection may hold that is not an administrator's: as much as is free. So a few
    /// that take all they get leave room for others, and many leave each other less. Never nothing:
    /// a connection that holds nothing may make a call.
    #[inline]
    pub fn room(&self, work: &Work) -> usize {
        memory::clients_room(work.charged(self.held)).max(1)
    }

    pub fn is_large(&self) -> bool {
        self.held.unsigned_abs().max(self.unread.unsigned_abs()) > UNTOLD_BYTES_MAX
    }

    /// Reports to the node. True: the waiting connections must be woken.
    #[inline]
    #[must_use]
    pub fn report(&mut self, work: &Work) -> bool {
        if self.unread != 0 {
            memory::answers_changed(std::mem::take(&mut self.unread));
        }
        self.held != 0 && work.charge(std::mem::take(&mut self.held))
    }
}

impl NetworkThread {
    pub(super) fn report_ledger(&mut self) {
        if self.ledger.report(&self.node.work) {
            self.wake_held();
        }
    }

    /// Closes connections whose login or whose frame does not come or that do not read their
    /// answers, gives back what written answers take, and makes room where others wait for it.
    pub(super) fn end_stalled(&mut self) {
        let allowed = self.node.connections.limits;
        let unread_time_max = if self.hurry { limits::STOP_UNREAD_TIME_MAX } else { allowed.unread_time_max };
        let now = Instant::now();
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_mut() else { continue };
            connection.note_frame(now);
            connection.trim();
            self.ledger.count(connection);
            let late = !connection.logged_in && connection.opened.elapsed() > allowed.login_time_max;
            let stuck = connection.blocked_since.is_some_and(|since| since.elapsed() > unread_time_max);
            if late || stuck || connection.frame_is_late(now, allowed.frame_time_max) {
                self.close(index);
            }
        }
        if self.node.work.is_short() {
            self.make_room(now);
        }
        self.node.work.rechecked();
        for index in 0..self.connections.len() {
            if let Some(connection) = self.connections[index].as_mut()
                && connection.lacks_memory
            {
                connection.wake();
                self.ready.push(index);
            }
        }
    }

    /// Takes room from the connections that hold most of it and make no progress: the calls that
    /// they send are refused, those that do not read are closed.
    #[cold]
    fn make_room(&mut self, now: Instant) {
        let stalled = |connection: &Connection| {
            let frame = if connection.frame_stalls(now, STALLED) { connection.partial.capacity() } else { 0 };
            let blocked = connection.blocked_since.is_some_and(|since| since.elapsed() >= STALLED);
            (frame, if blocked { connection.unread_capacity() } else { 0 })
        };
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (index, connection) in self.connections.iter().enumerate() {
            if let Some(connection) = connection.as_ref().filter(|open| !is_admin(open.id)) {
                let (frame, unread) = stalled(connection);
                if frame + unread > limits::LOGIN_BYTES_MAX {
                    found.push((frame + unread, index));
                }
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        let mut wanted = memory::clients_bytes_max() / RELIEF_PART;
        for (bytes, index) in found {
            let Some(connection) = self.connections[index].as_mut() else { continue };
            if stalled(connection).1 > 0 {
                let peer = connection.report(0).peer;
                let unread = connection.unwritten();
                ferrite_io::notify(Notice::AnswersNotRead { peer, bytes: unread, for_memory: true });
                self.close(index);
            } else {
                self.dispatcher.refuse_for_memory(connection);
                self.ledger.count(connection);
                self.settle(index);
            }
            wanted = wanted.saturating_sub(bytes);
            if wanted == 0 {
                break;
            }
        }
        self.report_ledger();
    }
}
