//! Between the threads that call and the one that owns the sockets: the queue of new calls, and the
//! count of outstanding ones that bounds it.

use crate::error::ClientError;
use crate::options::WhenFull;
use crate::recipient::Recipient;
use crate::statistics::Statistics;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

/// A call on its way to a connection.
pub(crate) struct Queued {
    /// A whole request, its handle still open.
    pub request: Vec<u8>,
    pub handle_at: usize,
    pub recipient: Recipient,
    pub deadline: Instant,
}

/// Shared by all handles of one client and its background thread.
pub(crate) struct Gate {
    state: Mutex<GateState>,
    /// Something changed that a blocked thread may wait for: room, the first connections, the last
    /// answer.
    changed: Condvar,
    waker: Arc<mio::Waker>,
    pub outstanding_max: usize,
    pub when_full: WhenFull,
}

/// A future's place among those that wait for room. It keeps the place until it has room or is
/// given up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket(u64);

#[derive(Default)]
struct GateState {
    queue: Vec<Queued>,
    /// Calls taken in and not yet ended.
    outstanding: usize,
    /// Futures that wait for room, by their tickets: the longest waiting first. Only futures that
    /// are there: a waker of one that was given up would take room from the others.
    waiting: BTreeMap<Ticket, Waker>,
    tickets: u64,
    /// Threads that wait on `changed`.
    blocked: usize,
    /// The background thread has been told to look at the queue.
    notified: bool,
    closed: bool,
    /// The calls in flight are to be cancelled.
    cancels: bool,
    rejected: u64,
    /// How connecting for the first time ended.
    first_connect: Option<Result<(), ClientError>>,
    statistics: Statistics,
}

/// What the background thread is to do besides making calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orders {
    /// The client is to be closed.
    pub closes: bool,
    /// All calls so far are to be cancelled.
    pub cancels: bool,
}

/// What [`Gate::submit`] did.
pub(crate) enum Submitted {
    Taken,
    /// There is no room. The call comes back.
    Full(Queued),
    /// The client is closed.
    Closed,
}

impl Gate {
    pub fn new(waker: Arc<mio::Waker>, outstanding_max: usize, when_full: WhenFull) -> Gate {
        Gate { state: Mutex::default(), changed: Condvar::new(), waker, outstanding_max, when_full }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        // Every change under the lock is complete before anything that could panic, so the state is
        // whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, mut state: MutexGuard<'g, GateState>) -> MutexGuard<'g, GateState> {
        state.blocked += 1;
        state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.blocked -= 1;
        state
    }

    /// Takes the call if there is room.
    pub fn submit(&self, call: Queued) -> Submitted {
        let mut state = self.lock();
        if state.closed {
            return Submitted::Closed;
        }
        if state.outstanding >= self.outstanding_max {
            state.rejected += u64::from(self.when_full == WhenFull::Reject);
            return Submitted::Full(call);
        }
        self.enqueue(state, call);
        Submitted::Taken
    }

    /// Takes the call if there is room. Otherwise `waker` will be woken when there may be; `ticket`
    /// is then for [`Gate::give_up`].
    pub fn submit_or_wait(&self, call: Queued, ticket: &mut Option<Ticket>, waker: &Waker) -> Submitted {
        let mut state = self.lock();
        if state.closed {
            return Submitted::Closed;
        }
        if state.outstanding >= self.outstanding_max {
            let ticket = *ticket.get_or_insert_with(|| {
                state.tickets += 1;
                Ticket(state.tickets)
            });
            state.waiting.insert(ticket, waker.clone());
            return Submitted::Full(call);
        }
        if let Some(ticket) = ticket.take() {
            state.waiting.remove(&ticket);
        }
        self.enqueue(state, call);
        Submitted::Taken
    }

    /// The future with this ticket waits no more. If it was woken already, the next is woken in its
    /// place.
    pub fn give_up(&self, ticket: Ticket) {
        let mut state = self.lock();
        let was_woken = state.waiting.remove(&ticket).is_none();
        let room = state.outstanding < self.outstanding_max;
        let next = if was_woken && room { state.waiting.pop_first() } else { None };
        drop(state);
        next.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Takes the call as soon as there is room, blocking the thread. False when the client is
    /// closed.
    pub fn submit_blocking(&self, call: Queued) -> bool {
        let mut state = self.lock();
        while !state.closed && state.outstanding >= self.outstanding_max {
            state = self.wait(state);
        }
        if state.closed {
            return false;
        }
        self.enqueue(state, call);
        true
    }

    fn enqueue(&self, mut state: MutexGuard<'_, GateState>, call: Queued) {
        state.outstanding += 1;
        state.queue.push(call);
        let wake = !std::mem::replace(&mut state.notified, true);
        drop(state);
        if wake {
            self.wake();
        }
    }

    fn wake(&self) {
        // It fails only when the poll is gone, which is when the thread has ended and the gate is
        // closed.
        let _ = self.waker.wake();
    }

    /// Blocks until connecting for the first time has ended.
    pub fn wait_for_first_connect(&self) -> Result<(), ClientError> {
        let mut state = self.lock();
        loop {
            if let Some(result) = &state.first_connect {
                return result.clone();
            }
            state = self.wait(state);
        }
    }

    /// Blocks until no call is outstanding.
    pub fn wait_until_idle(&self) {
        let mut state = self.lock();
        while state.outstanding > 0 {
            state = self.wait(state);
        }
    }

    pub fn statistics(&self) -> Statistics {
        let state = self.lock();
        Statistics { outstanding: state.outstanding, calls_rejected: state.rejected, ..state.statistics }
    }

    /// No more calls are taken; the background thread is told to end.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
        waiting.into_values().for_each(Waker::wake);
        self.wake();
    }

    /// The calls taken in so far are to be cancelled.
    pub fn cancel(&self) {
        self.lock().cancels = true;
        self.wake();
    }

    // For the background thread.

    /// Swaps the queue with the empty `calls`, and accounts for `ended` calls.
    pub fn exchange(&self, calls: &mut Vec<Queued>, ended: usize, statistics: Statistics) -> Orders {
        debug_assert!(calls.is_empty());
        let mut state = self.lock();
        std::mem::swap(&mut state.queue, calls);
        state.notified = false;
        state.outstanding -= ended;
        state.statistics = statistics;
        let mut waiting = Vec::new();
        if ended > 0 && !state.waiting.is_empty() {
            let room = self.outstanding_max.saturating_sub(state.outstanding);
            // The longest waiting first.
            waiting.extend(std::iter::from_fn(|| state.waiting.pop_first()).take(room).map(|(_, waker)| waker));
        }
        let blocked = state.blocked > 0;
        let orders = Orders { closes: state.closed, cancels: std::mem::take(&mut state.cancels) };
        drop(state);
        if ended > 0 && blocked {
            self.changed.notify_all();
        }
        waiting.into_iter().for_each(Waker::wake);
        orders
    }

    /// Says how connecting for the first time ended. Only the first word counts.
    pub fn set_first_connect(&self, result: Result<(), ClientError>) {
        self.lock().first_connect.get_or_insert(result);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipient::AnswerSlot;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn call() -> Queued {
        let recipient = Recipient::Slot(Arc::new(AnswerSlot::default()));
        Queued { request: Vec::new(), handle_at: 0, recipient, deadline: Instant::now() }
    }

    struct Waiting {
        wakes: Arc<Wakes>,
        ticket: Option<Ticket>,
    }

    impl Waiting {
        fn at(gate: &Gate) -> Waiting {
            let mut waiting = Waiting { wakes: Arc::default(), ticket: None };
            assert!(!waiting.poll(gate));
            waiting
        }

        fn poll(&mut self, gate: &Gate) -> bool {
            let waker = Waker::from(Arc::clone(&self.wakes));
            matches!(gate.submit_or_wait(call(), &mut self.ticket, &waker), Submitted::Taken)
        }

        fn woken(&self) -> usize {
            self.wakes.0.load(Ordering::Relaxed)
        }
    }

    /// A gate for one call, which is taken; the poll must live as long as its waker.
    fn full_gate() -> (mio::Poll, Gate) {
        let poll = mio::Poll::new().expect("a poll");
        let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0)).expect("a waker"));
        let gate = Gate::new(waker, 1, WhenFull::Block);
        assert!(matches!(gate.submit(call()), Submitted::Taken));
        (poll, gate)
    }

    fn one_ends(gate: &Gate) {
        gate.exchange(&mut Vec::new(), 1, Statistics::default());
    }

    #[test]
    fn given_up_before_there_is_room_it_takes_none() {
        let (_poll, gate) = full_gate();
        let (first, second) = (Waiting::at(&gate), Waiting::at(&gate));
        gate.give_up(first.ticket.expect("it waits"));
        assert_eq!(second.woken(), 0, "there is no room yet");
        one_ends(&gate);
        assert_eq!((first.woken(), second.woken()), (0, 1));
    }

    #[test]
    fn given_up_after_it_was_woken_it_wakes_the_next() {
        let (_poll, gate) = full_gate();
        let (first, second) = (Waiting::at(&gate), Waiting::at(&gate));
        one_ends(&gate);
        assert_eq!((first.woken(), second.woken()), (1, 0));
        gate.give_up(first.ticket.expect("it waits"));
        assert_eq!(second.woken(), 1);
    }

    #[test]
    fn polled_again_it_waits_once_and_keeps_its_place() {
        let (_poll, gate) = full_gate();
        let (mut first, mut second) = (Waiting::at(&gate), Waiting::at(&gate));
        assert!(!first.poll(&gate));
        one_ends(&gate);
        // Somebody else is faster.
        assert!(matches!(gate.submit(call()), Submitted::Taken));
        assert!(!first.poll(&gate));
        one_ends(&gate);
        assert_eq!((first.woken(), second.woken()), (2, 0));
        assert!(first.poll(&gate));
        one_ends(&gate);
        assert_eq!(second.woken(), 1);
        assert!(second.poll(&gate));
        assert!(gate.lock().waiting.is_empty());
    }
}
