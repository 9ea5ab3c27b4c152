//! Calls as futures, which threads without an executor can wait for, too.

use crate::error::ClientError;
use crate::gate::{Gate, Queued, Submitted, Ticket};
use crate::recipient::{AnswerSlot, CallResult};
use crate::rows::Rows;
use ferrite_wire::OwnedResponse;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

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
    Sent(Arc<AnswerSlot>),
    Ended(Option<ClientError>),
}

impl CallFuture {
    /// `gate` had no room for the call.
    pub(crate) fn waiting(gate: Arc<Gate>, call: Queued, slot: Arc<AnswerSlot>) -> CallFuture {
        CallFuture { state: FutureState::Waiting(Submission { gate, ticket: None, call: Some((call, slot)) }) }
    }

    pub(crate) fn sent(slot: Arc<AnswerSlot>) -> CallFuture {
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

/// A call that waits for room at the gate.
struct Submission {
    gate: Arc<Gate>,
    /// Since it waits.
    ticket: Option<Ticket>,
    /// Present until it is submitted.
    call: Option<(Queued, Arc<AnswerSlot>)>,
}

impl Submission {
    /// None while there is no room; then `waker` will be woken.
    fn try_submit(&mut self, waker: &Waker) -> Option<Result<Arc<AnswerSlot>, ClientError>> {
        let (call, slot) = self.call.take()?;
        match self.gate.submit_or_wait(call, &mut self.ticket, waker) {
            Submitted::Taken => Some(Ok(slot)),
            Submitted::Closed => Some(Err(ClientError::Closed)),
            Submitted::Full(call) => {
                self.call = Some((call, slot));
                None
            }
        }
    }

    fn submit_blocking(mut self) -> Result<Arc<AnswerSlot>, ClientError> {
        let (call, slot) = self.call.take().ok_or(ClientError::Closed)?;
        // The thread waits from now on, not the future.
        if let Some(ticket) = self.ticket.take() {
            self.gate.give_up(ticket);
        }
        if self.gate.submit_blocking(call) { Ok(slot) } else { Err(ClientError::Closed) }
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.gate.give_up(ticket);
        }
    }
}
