//! How a client is to behave.

use sha2::{Digest, Sha256};
use std::fmt;
use std::time::Duration;

const PORT_DEFAULT: &str = "21212";

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
    /// `host` or `host:port` of one or more nodes of the same cluster; the port is 21212 unless
    /// given.
    pub addresses: Vec<String>,
    /// Who logs in.
    pub credentials: Credentials,
    /// Connections to each address.
    pub connections_per_address: usize,
    /// Sends each call to the node that leads its partition or, if it has none of its own,
    /// transactions over several; in turn to those that are up where that is not known. The cluster
    /// says who leads, and when that changes. Without it calls go to all in turn, and every node
    /// passes on what it does not lead. With one address, and without
    /// [`discover`](ClientOptions::discover), nothing is asked and nothing chosen.
    pub affinity: bool,
    /// Connects to those nodes of the cluster, too, that `addresses` does not name.
    pub discover: bool,
    /// Calls without an answer, all connections together.
    pub outstanding_max: usize,
    /// What a call does when that many are outstanding.
    pub when_full: WhenFull,
    /// Time for one call, from its making to its answer.
    pub call_timeout: Duration,
    /// A connection that answers nothing for so long is given up; after a third of it a ping is
    /// sent. A node in whose place another leads is asked at once, and given up after two seconds.
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
        if self.addresses.iter().any(|address| with_port(address).is_none()) {
            return Err("an address is host, host:port or [address]:port, with a port from 1 to 65535");
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

/// The address with a port, which is the usual one unless given. None: this is not an address.
pub(crate) fn with_port(address: &str) -> Option<String> {
    let (host, port) = match address.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((host, port)) if !address.ends_with(']') => (host, port),
        _ => (address, PORT_DEFAULT),
    };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let is_host = !host.is_empty() && (bracketed || !host.contains(':'));
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    (is_host && is_port).then(|| format!("{host}:{port}"))
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            addresses: vec!["127.0.0.1:21212".to_string()],
            credentials: Credentials::default(),
            connections_per_address: 1,
            affinity: true,
            discover: false,
            outstanding_max: 3_000,
            when_full: WhenFull::default(),
            call_timeout: Duration::from_secs(120),
            connection_timeout: Duration::from_secs(30),
            reconnect_pause: Duration::from_millis(50),
            reconnect_pause_max: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_or_gets_the_usual_one() {
        for (address, expected) in [
            ("localhost", Some("localhost:21212")),
            ("localhost:1", Some("localhost:1")),
            ("[::1]", Some("[::1]:21212")),
            ("[::1]:65535", Some("[::1]:65535")),
            ("localhost:0", None),
            ("localhost:65536", None),
            ("localhost:", None),
            ("localhost:x", None),
            ("::1", None),
            (":21212", None),
            ("", None),
        ] {
            assert_eq!(with_port(address).as_deref(), expected, "{address}");
        }
    }
}
