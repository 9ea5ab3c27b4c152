//! What can go wrong with a call, in words that say whether it may have run.

use crate::rows::ColumnError;
use ferrite_wire::{DecodeError, EncodeError, LoginFailure, OwnedResponse, Status};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Why a call, or a connection, came to nothing. Cheap to clone: all calls of a lost connection get
/// the same one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The server could not be reached. Nothing was sent.
    Connect {
        /// `host:port`.
        address: String,
        /// What the operating system said.
        reason: Arc<io::Error>,
    },
    /// The server refused the login with this code.
    Login {
        /// `host:port`.
        address: String,
        /// The failure code of the protocol.
        code: i8,
        /// What a node that is not open yet waits for, such as another node.
        reason: Option<String>,
    },
    /// Two addresses lead to nodes of different clusters. Nothing was sent.
    AnotherCluster {
        /// `host:port`.
        address: String,
        /// `host:port` of the node that was there first.
        other: String,
    },
    /// No connection is up. The call was not sent and may be repeated.
    NotConnected {
        /// Why the last attempt to connect failed.
        last: Option<Box<ClientError>>,
    },
    /// As many calls are outstanding as the options allow. The call was not sent and may be
    /// repeated.
    TooManyOutstanding {
        /// [`crate::ClientOptions::outstanding_max`].
        limit: usize,
    },
    /// The connection broke with the call in flight: whether it ran is not known.
    ConnectionLost {
        /// `host:port`.
        address: String,
        /// How it broke.
        reason: String,
    },
    /// No answer within the time given: whether the call ran is not known.
    Timeout {
        /// The time that the call was given.
        after: Duration,
    },
    /// The server sent bytes that are not a response. The connection was closed; whether calls in
    /// flight ran is not known.
    Protocol {
        /// `host:port`.
        address: String,
        /// What is wrong with the bytes.
        reason: DecodeError,
    },
    /// The parameters cannot be written as a request. Nothing was sent.
    Encode(EncodeError),
    /// The server answered that the call failed; it was rolled back unless the status says
    /// otherwise.
    Failed(Box<OwnedResponse>),
    /// The client was closed. The call was not sent.
    Closed,
    /// The operating system refused what the client needs to work at all (a thread, a poll).
    System(Arc<io::Error>),
    /// The options cannot be used.
    Options(&'static str),
    /// The call succeeded, but a column of its result cannot be read as asked.
    Column(ColumnError),
}

impl ClientError {
    /// True when the call may have been carried out although no answer came. Such a call may be
    /// repeated only if doing it twice is harmless.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            ClientError::ConnectionLost { .. } | ClientError::Timeout { .. } | ClientError::Protocol { .. } => true,
            ClientError::Failed(response) => response.status() == Some(Status::ResponseUnknown),
            _ => false,
        }
    }

    /// True when the call never left this process, so that it may be repeated.
    pub fn is_not_sent(&self) -> bool {
        match self {
            ClientError::Connect { .. }
            | ClientError::Login { .. }
            | ClientError::AnotherCluster { .. }
            | ClientError::NotConnected { .. }
            | ClientError::TooManyOutstanding { .. }
            | ClientError::Encode(_)
            | ClientError::Closed
            | ClientError::System(_)
            | ClientError::Options(_) => true,
            ClientError::ConnectionLost { .. }
            | ClientError::Timeout { .. }
            | ClientError::Protocol { .. }
            | ClientError::Failed(_)
            | ClientError::Column(_) => false,
        }
    }

    /// The SQLSTATE: five characters, such as `23505` for a violated unique key. `docs/errors.md`
    /// lists them. `HY000` when the server sent none.
    pub fn code(&self) -> &str {
        match self {
            ClientError::Connect { .. } => "08001",
            ClientError::Login { code, .. } => LoginFailure::sqlstate(*code),
            ClientError::AnotherCluster { .. } => "08004",
            ClientError::NotConnected { .. } | ClientError::Closed => "08003",
            ClientError::TooManyOutstanding { .. } => "54000",
            ClientError::ConnectionLost { .. } => "08007",
            ClientError::Timeout { .. } => "HYT00",
            ClientError::Protocol { .. } => "08P01",
            ClientError::Encode(error) => error.code(),
            ClientError::Failed(response) => response.code.as_deref().unwrap_or("HY000"),
            ClientError::System(_) => "58000",
            ClientError::Options(_) => "22023",
            ClientError::Column(error) => error.code(),
        }
    }

    /// The response of a call that the server answered with a failure.
    pub fn response(&self) -> Option<&OwnedResponse> {
        match self {
            ClientError::Failed(response) => Some(response),
            _ => None,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Connect { address, reason } => {
                let advice = match reason.raw_os_error() {
                    // The name was not found: the resolver's errors are not the system's.
                    None if reason.kind() != io::ErrorKind::TimedOut => "check the host's name",
                    _ => "check that a server listens there",
                };
                write!(f, "cannot connect to {address}: {reason}; {advice}")
            }
            ClientError::Login { address, reason: Some(reason), .. } => {
                write!(f, "{address} is not open yet: {reason}")
            }
            ClientError::Login { address, code, reason: None } => match LoginFailure::from_code(*code) {
                Some(failure) => write!(f, "{address} refused the login: {failure}"),
                None => write!(f, "{address} refused the login with the unknown code {code}"),
            },
            ClientError::AnotherCluster { address, other } => {
                write!(f, "{address} belongs to another cluster than {other}; name the nodes of one")
            }
            ClientError::NotConnected { last: Some(last) } => {
                write!(f, "no connection is up; the last attempt: {last}")
            }
            ClientError::NotConnected { last: None } => f.write_str("no connection is up"),
            ClientError::TooManyOutstanding { limit } => {
                write!(f, "{limit} calls are outstanding already; wait for answers, or allow more")
            }
            ClientError::ConnectionLost { address, reason } => {
                write!(f, "the connection to {address} was lost ({reason}); whether the call ran is not known")
            }
            ClientError::Timeout { after } => {
                write!(f, "no answer within {after:?}; whether the call ran is not known")
            }
            ClientError::Protocol { address, reason } => {
                write!(
                    f,
                    "{address} sent something that is not a response ({reason}); whether the call ran is not known"
                )
            }
            ClientError::Encode(error) => error.fmt(f),
            ClientError::Failed(response) => match (&response.status_text, response.status()) {
                (Some(text), _) if !text.is_empty() => f.write_str(text),
                (_, Some(status)) => write!(f, "the call failed: {status}"),
                (_, None) => write!(f, "the call failed with the unknown status {}", response.status_code),
            },
            ClientError::Options(reason) => write!(f, "the client's options cannot be used: {reason}"),
            ClientError::Column(error) => error.fmt(f),
            ClientError::Closed => f.write_str("the client was closed"),
            ClientError::System(error) => write!(f, "the operating system refused what the client needs: {error}"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClientError::Connect { reason, .. } | ClientError::System(reason) => Some(reason),
            ClientError::NotConnected { last: Some(last) } => Some(last),
            ClientError::Protocol { reason, .. } => Some(reason),
            ClientError::Encode(error) => Some(error),
            ClientError::Column(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ColumnError> for ClientError {
    fn from(error: ColumnError) -> Self {
        ClientError::Column(error)
    }
}

impl From<EncodeError> for ClientError {
    fn from(error: EncodeError) -> Self {
        ClientError::Encode(error)
    }
}
