//! The client's background thread: moves calls from the gate to connections, and answers to whoever
//! waits for them. Where a call goes is the [`Router`]'s affair.

use crate::connection::LoginInfo;
use crate::driver::{Driver, Handler, Links, Turn};
use crate::error::ClientError;
use crate::gate::{Gate, Queued};
use crate::recipient::Recipient;
use crate::router::Router;
use crate::statistics::Statistics;
use ferrite_wire::{Response, handles};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Handle of `@Cancel`, whose answer says nothing: the calls' own answers count.
const CANCEL: i64 = handles::RESERVED_MIN + 2;

/// When one connection is up, a client that is made waits for the others only this long: one to a
/// machine without power takes ten seconds to fail.
const OTHERS_WAIT: Duration = Duration::from_secs(1);

/// What the thread keeps of a call in flight.
pub(crate) struct InFlight {
    recipient: Recipient,
    deadline: Instant,
}

pub(crate) struct Worker {
    gate: Arc<Gate>,
    call_timeout: Duration,
    /// Calls taken from the gate, empty between turns.
    calls: Vec<Queued>,
    /// Calls ended since the gate was last told.
    ended: usize,
    /// Calls of lost connections of which not a byte was sent.
    unsent: Vec<Queued>,
    router: Router,
    /// No call in flight has a deadline before this.
    next_deadline: Option<Instant>,
    /// Connections whose first attempt has not ended yet.
    undecided: Vec<bool>,
    /// Until when those are waited for, once another is up.
    decides_at: Option<Instant>,
    counts: Statistics,
}

/// Runs until the client is closed.
pub(crate) fn run(mut driver: Driver<InFlight>, gate: Arc<Gate>, router: Router, call_timeout: Duration) {
    let links = driver.links().len();
    let mut worker = Worker {
        gate,
        call_timeout,
        calls: Vec::new(),
        ended: 0,
        unsent: Vec::new(),
        router,
        next_deadline: None,
        undecided: vec![true; links],
        decides_at: None,
        counts: Statistics::default(),
    };
    let end = driver.run(&mut worker);
    worker.gate.close();
    driver.close(&mut worker);
    // Calls that came in while closing.
    let mut calls = std::mem::take(&mut worker.calls);
    worker.gate.exchange(&mut calls, worker.ended, worker.counts);
    calls.append(&mut worker.unsent);
    let late = calls.len();
    let reason = end.err().map_or(ClientError::Closed, |error| ClientError::System(Arc::new(error)));
    worker.gate.set_first_connect(Err(reason.clone()));
    for call in calls.drain(..) {
        call.recipient.complete(Err(reason.clone()));
    }
    worker.gate.exchange(&mut calls, late, worker.counts);
}

impl Worker {
    fn end(&mut self, recipient: Recipient, result: Result<ferrite_wire::OwnedResponse, ClientError>) {
        self.ended += 1;
        recipient.complete(result);
    }

    /// Gives up the calls whose time is over, and finds the next deadline.
    #[cold]
    fn expire(&mut self, links: &mut Links<InFlight>, now: Instant) {
        let mut next = None;
        for link in 0..links.len() {
            let Some(connection) = links.get(link) else {
                continue;
            };
            let mut expired = Vec::new();
            for (handle, call) in connection.calls() {
                if call.deadline <= now {
                    expired.push(handle);
                } else {
                    next = Some(next.map_or(call.deadline, |next: Instant| next.min(call.deadline)));
                }
            }
            let expired: Vec<InFlight> = expired.into_iter().filter_map(|handle| connection.give_up(handle)).collect();
            for call in expired {
                self.counts.calls_timed_out += 1;
                self.end(call.recipient, Err(ClientError::Timeout { after: self.call_timeout }));
            }
        }
        self.next_deadline = next;
    }

    /// The first attempt of this connection has ended. When all have, or one is up and the others
    /// have had their time, the thread that makes the client is told.
    fn decide(&mut self, link: usize, error: Option<&ClientError>) {
        // What was found later does not count.
        let Some(undecided) = self.undecided.get_mut(link) else {
            return;
        };
        if !std::mem::replace(undecided, false) {
            return;
        }
        if self.undecided.contains(&true) {
            if error.is_none() && self.decides_at.is_none() {
                self.decides_at = Some(Instant::now() + OTHERS_WAIT);
            }
            return;
        }
        self.decides_at = None;
        self.gate.set_first_connect(match error {
            Some(error) if self.counts.connects == 0 => Err(error.clone()),
            _ => Ok(()),
        });
    }
}

/// Asks each node to cancel what it was sent: `@Cancel` concerns the connection that it comes on.
#[cold]
fn cancel(links: &mut Links<InFlight>) {
    for link in 0..links.len() {
        if let Some(connection) = links.get(link)
            && connection.outstanding() > 0
        {
            connection.ask("@Cancel", &(), CANCEL);
        }
    }
}

impl Handler for Worker {
    type Context = InFlight;

    fn turn(&mut self, links: &mut Links<InFlight>, now: Instant) -> Turn {
        if self.next_deadline.is_some_and(|deadline| deadline <= now) {
            self.expire(links, now);
        }
        if self.decides_at.is_some_and(|at| at <= now) {
            self.decides_at = None;
            self.gate.set_first_connect(Ok(()));
        }
        let counts = self.counts;
        let statistics = Statistics {
            calls_sent: counts.calls_sent,
            calls_succeeded: counts.calls_succeeded,
            calls_failed: counts.calls_failed,
            calls_lost: counts.calls_lost,
            calls_timed_out: counts.calls_timed_out,
            ..links.statistics()
        };
        let mut calls = std::mem::take(&mut self.calls);
        let orders = self.gate.exchange(&mut calls, std::mem::take(&mut self.ended), statistics);
        let ask_at = self.router.turn(links, now);
        let unsent = std::mem::take(&mut self.unsent);
        for call in unsent.into_iter().chain(calls.drain(..)) {
            match self.router.choose(links, &call.request, call.handle_at) {
                Some(connection) => {
                    self.counts.calls_sent += 1;
                    self.next_deadline = Some(self.next_deadline.map_or(call.deadline, |next| next.min(call.deadline)));
                    let in_flight = InFlight { recipient: call.recipient, deadline: call.deadline };
                    connection.call_encoded(&call.request, call.handle_at, in_flight);
                }
                None => {
                    let last = links.last_error().cloned().map(Box::new);
                    self.end(call.recipient, Err(ClientError::NotConnected { last }));
                }
            }
        }
        self.calls = calls;
        if orders.cancels {
            cancel(links);
        }
        if orders.closes {
            Turn::Stop
        } else if self.ended > 0 {
            // Calls that ended above make room that somebody may wait for.
            Turn::Wait(Some(now))
        } else {
            Turn::Wait(self.next_deadline.into_iter().chain(ask_at).chain(self.decides_at).min())
        }
    }

    fn response(&mut self, link: usize, call: InFlight, response: &Response<'_>, _at: Instant) {
        let result = match response.to_owned_response() {
            Ok(response) if response.is_success() => {
                self.counts.calls_succeeded += 1;
                Ok(response)
            }
            Ok(response) => {
                self.counts.calls_failed += 1;
                self.router.failed(link, &response);
                Err(ClientError::Failed(Box::new(response)))
            }
            Err(reason) => {
                self.counts.calls_failed += 1;
                Err(ClientError::Protocol { address: "the server".to_string(), reason })
            }
        };
        self.end(call.recipient, result);
    }

    fn lost(&mut self, _link: usize, call: InFlight, reason: &ClientError) {
        self.counts.calls_lost += 1;
        let reason = match reason {
            ClientError::Closed => ClientError::ConnectionLost {
                address: "the server".to_string(),
                reason: "the client was closed".to_string(),
            },
            other => other.clone(),
        };
        self.end(call.recipient, Err(reason));
    }

    fn unsent(&mut self, _link: usize, call: InFlight, request: Vec<u8>, handle_at: usize, _reason: &ClientError) {
        self.counts.calls_sent -= 1;
        let InFlight { recipient, deadline } = call;
        self.unsent.push(Queued { request, handle_at, recipient, deadline });
    }

    fn connected(&mut self, link: usize, _login: &LoginInfo) {
        self.counts.connects += 1;
        self.router.connected(link);
        self.decide(link, None);
    }

    fn disconnected(&mut self, link: usize, reason: &ClientError) {
        self.decide(link, Some(reason));
    }

    fn pushed(&mut self, link: usize, response: &Response<'_>) {
        self.router.pushed(link, response);
    }
}
