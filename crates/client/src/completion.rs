//! The end of one call, handed from the loop's thread to whoever waits for it.

use crate::client::Submission;
use crate::error::ClientError;
use crate::rows::Rows;
use ferrite_wire::OwnedResponse;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// How a call ended. An answer with another status than success is [`ClientError::Failed`].
pub type CallResult = Result<OwnedResponse, ClientError>;

/// Whom to tell.
pub(crate) enum Completion {
    Slot(Arc<Slot>),
    Callback(Box<dyn FnOnce(CallResult) + Send>),
}

impl Completion {
    pub(crate) fn complete(self, result: CallResult) {
        match self {
            Completion::Slot(slot) => slot.fill(result),
            Completion::Callback(callback) => callback(result),
        }
    }
}

/// A place for one result, and for whom to wake when it is there.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: Mutex<SlotState>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    result: Option<CallResult>,
    waker: Option<Waker>,
}

impl Slot {
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

    fn poll(&self, waker: &Waker) -> Poll<CallResult> {
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

/// A call on its way. Any executor can run it: it only ever uses the waker it is polled with.
///
/// The call is sent when it is made, not when it is first polled, unless as many calls were
/// outstanding as allowed and the client is set to wait: then polling sends it as soon as there is
/// room. Dropping the future does not take the call back.
#[must_use = "the outcome of a call should be looked at"]
pub struct CallFuture {
    state: FutureState,
}

enum FutureState {
    /// Waits for room.
    Waiting(Submission),
    Sent(Arc<Slot>),
    Ended(Option<ClientError>),
}

impl CallFuture {
    pub(crate) fn waiting(submission: Submission) -> CallFuture {
        CallFuture { state: FutureState::Waiting(submission) }
    }

    pub(crate) fn sent(slot: Arc<Slot>) -> CallFuture {
        CallFuture { state: FutureState::Sent(slot) }
    }

    pub(crate) fn failed(error: ClientError) -> CallFuture {
        CallFuture { state: FutureState::Ended(Some(error)) }
    }

    /// Blocks the thread until the call has ended. For threads that run no executor.
    pub fn wait(self) -> CallResult {
        match self.state {
            FutureState::Waiting(submission) => submission.submit_blocking()?.wait(),
            FutureState::Sent(slot) => slot.wait(),
            FutureState::Ended(error) => Err(error.expect("a future is waited for once")),
        }
    }
}

impl CallFuture {
    /// The rows of the first table, instead of the whole response.
    pub fn rows(self) -> ResultFuture<Rows> {
        ResultFuture::of(self, Rows::first_of)
    }
}

/// As [`CallFuture`], with what is wanted of the response.
#[must_use = "the outcome of a call should be looked at"]
pub struct ResultFuture<T> {
    call: CallFuture,
    wanted: fn(OwnedResponse) -> T,
}

impl<T> ResultFuture<T> {
    pub(crate) fn of(call: CallFuture, wanted: fn(OwnedResponse) -> T) -> ResultFuture<T> {
        ResultFuture { call, wanted }
    }

    /// Blocks the thread until the call has ended. For threads that run no executor.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn wait(self) -> Result<T, ClientError> {
        self.call.wait().map(self.wanted)
    }
}

impl<T> Future for ResultFuture<T> {
    type Output = Result<T, ClientError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        Pin::new(&mut this.call).poll(context).map(|result| result.map(this.wanted))
    }
}

impl Future for CallFuture {
    type Output = CallResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CallResult> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                FutureState::Waiting(submission) => match submission.try_submit(context.waker()) {
                    None => return Poll::Pending,
                    Some(Ok(slot)) => this.state = FutureState::Sent(slot),
                    Some(Err(error)) => this.state = FutureState::Ended(Some(error)),
                },
                FutureState::Sent(slot) => return slot.poll(context.waker()),
                FutureState::Ended(error) => {
                    return Poll::Ready(Err(error.take().expect("a future is not polled after its end")));
                }
            }
        }
    }
}
