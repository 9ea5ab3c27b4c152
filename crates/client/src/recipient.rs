//! The end of one call, handed from the loop's thread to whoever waits for it.

use crate::error::ClientError;
use ferrite_wire::OwnedResponse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Poll, Waker};

/// How a call ended. An answer with another status than success is [`ClientError::Failed`].
pub type CallResult = Result<OwnedResponse, ClientError>;

/// Whom to tell.
pub(crate) enum Recipient {
    Slot(Arc<AnswerSlot>),
    Callback(Box<dyn FnOnce(CallResult) + Send>),
}

impl Recipient {
    /// Others' calls end on this thread, too: a callback or a waker that panics ends nothing but
    /// itself. The panic hook has printed its message.
    pub(crate) fn complete(self, result: CallResult) {
        let _ = catch_unwind(AssertUnwindSafe(|| match self {
            Recipient::Slot(slot) => slot.fill(result),
            Recipient::Callback(callback) => callback(result),
        }));
    }
}

/// A place for one result, and for whom to wake when it is there.
#[derive(Debug, Default)]
pub(crate) struct AnswerSlot {
    state: Mutex<SlotState>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    result: Option<CallResult>,
    waker: Option<Waker>,
}

impl AnswerSlot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        // Nothing that can panic runs under the lock, so its content is whole even if a holder was
        // ended.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn fill(&self, result: CallResult) {
        let mut state = self.lock();
        state.result = Some(result);
        let waker = state.waker.take();
        drop(state);
        self.filled.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn wait(&self) -> CallResult {
        let mut state = self.lock();
        loop {
            if let Some(result) = state.result.take() {
                return result;
            }
            state = self.filled.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    pub(crate) fn poll(&self, waker: &Waker) -> Poll<CallResult> {
        let mut state = self.lock();
        if let Some(result) = state.result.take() {
            return Poll::Ready(result);
        }
        match &mut state.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Poll::Pending
    }
}
