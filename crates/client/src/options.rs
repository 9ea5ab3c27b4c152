//! How a client is to behave.

use sha2::{Digest, Sha256};
use std::fmt;
use std::time::Duration;

/// Who logs in. Keeps the digest, not the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    digest: [u8; 32],
}

impl Credentials {
    /// A user's name and password.
    pub fn new(user: &str, password: &str) -> Credentials {
        Credentials { user: user.to_string(), digest: Sha256::digest(password.as_bytes()).into() }
    }

    /// The name.
    pub fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// No name and no password, for servers without security.
impl Default for Credentials {
    fn default() -> Self {
        Credentials::new("", "")
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// What a call does that finds [`ClientOptions::outstanding_max`] calls outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// Waits for room: futures by pending, blocking calls and calls with a callback by blocking
    /// their thread.
    #[default]
    Block,
    /// Fails at once with [`crate::ClientError::TooManyOutstanding`].
    Reject,
}

/// Options of a [`crate::Client`]. Fill in the addresses and change what should differ from the
/// default.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// `host:port` of one or more nodes of the same cluster. Calls go to those that are up, in
    /// turn.
    pub addresses: Vec<String>,
    /// Who logs in.
    pub credentials: Credentials,
    /// Connections to each address.
    pub connections_per_address: usize,
    /// Calls without an answer, all connections together.
    pub outstanding_max: usize,
    /// What a call does when that many are outstanding.
    pub when_full: WhenFull,
    /// Time for one call, from its making to its answer.
    pub call_timeout: Duration,
    /// A connection that answers nothing for so long is given up; after a third of it a ping is
    /// sent.
    pub connection_timeout: Duration,
    /// Pause before the first attempt to connect again; doubles with each failure up to the
    /// maximum.
    pub reconnect_pause: Duration,
    /// The longest pause.
    pub reconnect_pause_max: Duration,
}

impl ClientOptions {
    /// Options with their defaults, for one address or several.
    pub fn new(addresses: impl IntoIterator<Item = impl Into<String>>) -> ClientOptions {
        ClientOptions { addresses: addresses.into_iter().map(Into::into).collect(), ..ClientOptions::default() }
    }

    /// What is wrong with them.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.addresses.is_empty() {
            return Err("name at least one address");
        }
        if self.connections_per_address == 0 {
            return Err("connections_per_address must be at least 1");
        }
        if self.outstanding_max == 0 {
            return Err("outstanding_max must be at least 1");
        }
        Ok(())
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            addresses: vec!["127.0.0.1:21212".to_string()],
            credentials: Credentials::default(),
            connections_per_address: 1,
            outstanding_max: 3_000,
            when_full: WhenFull::default(),
            call_timeout: Duration::from_secs(120),
            connection_timeout: Duration::from_secs(120),
            reconnect_pause: Duration::from_millis(50),
            reconnect_pause_max: Duration::from_secs(5),
        }
    }
}
