//! The connection: calls that Ctrl-C can give up, and connecting again after that.
//!
//! An interrupted call is cancelled with `@Cancel`, and then answered like any other: it says that
//! it was cancelled, or, where it had ended before, what came of it. A server that does not answer
//! soon is left: another connection is opened.

use crate::interrupt::{Interrupts, Wake};
use crate::options::ConnectionOptions;
use ferrite_client::{Client, ClientError, ClientOptions, Credentials, OwnedResponse, Prepared};
use ferrite_value::OwnedValue;
use std::fmt;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longer than any query timeout that a server can be set to: the shell waits until the answer
/// comes or Ctrl-C.
const CALL_TIME_MAX: Duration = Duration::from_secs(2 * 86_400);

/// How long a cancelled call is waited for. A server that knows `@Cancel` answers within the time
/// of some thousand rows.
const CANCEL_TIME_MAX: Duration = Duration::from_secs(2);

/// What the server says of a call that was cancelled.
const CANCELLED: &str = "it was cancelled";

/// Why a call has no result.
#[derive(Debug)]
pub enum Failure {
    /// Nothing of it was carried out.
    Cancelled,
    /// It was given up; what became of it is not known.
    Interrupted,
    Call(ClientError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Cancelled => f.write_str("cancelled"),
            Failure::Interrupted => f.write_str("cancelled; what the server had begun it may still finish"),
            Failure::Call(error) => error.fmt(f),
        }
    }
}

impl Failure {
    /// SQLSTATE.
    pub fn code(&self) -> Option<&str> {
        match self {
            Failure::Call(error) => Some(error.code()),
            Failure::Cancelled | Failure::Interrupted => None,
        }
    }

    /// What became of it, in the words of docs/errors.md.
    pub fn outcome(&self) -> &'static str {
        match self {
            Failure::Interrupted => "unknown",
            Failure::Call(error) if error.is_outcome_unknown() => "unknown",
            Failure::Call(error) if error.response().is_none() => "not sent",
            Failure::Cancelled | Failure::Call(_) => "failed",
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Call(error)
    }
}

pub struct Answer {
    pub response: OwnedResponse,
    pub elapsed: Duration,
}

/// One user's connection.
pub struct Session {
    client: Client,
    options: ClientOptions,
    interrupts: Interrupts,
}

impl Session {
    pub fn connect(connection: &ConnectionOptions, interrupts: Interrupts) -> Result<Session, ClientError> {
        let options = ClientOptions {
            credentials: Credentials::new(&connection.user, connection.password.as_deref().unwrap_or_default()),
            call_timeout: CALL_TIME_MAX,
            ..ClientOptions::new(connection.addresses())
        };
        let client = Client::connect(options.clone())?;
        Ok(Session { client, options, interrupts })
    }

    pub fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    /// Calls a procedure and waits for its answer or for Ctrl-C.
    pub fn call(&mut self, procedure: &str, parameters: &[OwnedValue]) -> Result<Answer, Failure> {
        // One that came between two calls is meant for what was going on.
        if self.interrupts.seen() {
            return Err(Failure::Cancelled);
        }
        let (sender, receiver) = mpsc::channel();
        let listening = self.interrupts.wake(sender.clone());
        let prepared = Prepared::new(procedure).map_err(ClientError::from)?;
        let begun = Instant::now();
        // The receiver is gone when the call was given up.
        let answer = move |result| drop(sender.send(Wake::Done(result)));
        self.client.call_with_callback(&prepared, parameters, answer)?;
        let mut wake = receiver.recv();
        if matches!(wake, Ok(Wake::Interrupted)) {
            self.client.cancel();
            wake = match receiver.recv_timeout(CANCEL_TIME_MAX) {
                Ok(Wake::Done(ended)) => Ok(Wake::Done(ended)),
                // Not in time, or Ctrl-C again.
                Ok(Wake::Interrupted) | Err(_) => {
                    drop(listening);
                    self.reconnect();
                    return Err(Failure::Interrupted);
                }
            };
        }
        let elapsed = begun.elapsed();
        drop(listening);
        match wake {
            Ok(Wake::Done(Ok(response))) => Ok(Answer { response, elapsed }),
            Ok(Wake::Done(Err(ClientError::Failed(answer)))) if self.interrupts.seen() && says_cancelled(&answer) => {
                Err(Failure::Cancelled)
            }
            Ok(Wake::Done(Err(error))) => Err(Failure::Call(error)),
            Ok(Wake::Interrupted) | Err(_) => Err(Failure::Call(ClientError::Closed)),
        }
    }

    /// The answer without the time that it took.
    pub fn ask(&mut self, procedure: &str, parameters: &[OwnedValue]) -> Result<OwnedResponse, Failure> {
        self.call(procedure, parameters).map(|answer| answer.response)
    }

    fn reconnect(&mut self) {
        self.client.close();
        // If this fails the closed client stays, and the next call says what is wrong.
        if let Ok(client) = Client::connect(self.options.clone()) {
            self.client = client;
        }
    }

    /// Waits so long, or until Ctrl-C; true when that came.
    pub fn pause(&self, time: Duration) -> bool {
        let (sender, receiver) = mpsc::channel::<Wake<()>>();
        let _listening = self.interrupts.wake(sender);
        // A Ctrl-C between the call before and this wait counts too.
        self.interrupts.seen() || receiver.recv_timeout(time).is_ok()
    }
}

fn says_cancelled(answer: &OwnedResponse) -> bool {
    answer.status_text.as_deref().is_some_and(|text| text.contains(CANCELLED))
}

pub fn text(text: &str) -> OwnedValue {
    OwnedValue::Text(text.into())
}
