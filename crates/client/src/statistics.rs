//! What a client counts.

/// Counts since the client was made, and the state of its connections now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Calls handed to a connection.
    pub calls_sent: u64,
    /// Answers with status success.
    pub calls_succeeded: u64,
    /// Answers with any other status.
    pub calls_failed: u64,
    /// Calls in flight on a connection that broke: outcome unknown.
    pub calls_lost: u64,
    /// Calls without an answer in time.
    pub calls_timed_out: u64,
    /// Calls refused because as many were outstanding as allowed.
    pub calls_rejected: u64,
    /// Answers to calls that had been given up, or to none.
    pub responses_unmatched: u64,
    /// Bytes written to sockets.
    pub bytes_sent: u64,
    /// Bytes read from sockets.
    pub bytes_received: u64,
    /// Writes to sockets: `calls_sent / writes` calls went out together.
    pub writes: u64,
    /// Reads from sockets.
    pub reads: u64,
    /// Logins accepted, the first ones included.
    pub connects: u64,
    /// Connections that broke after their login.
    pub disconnects: u64,
    /// Calls waiting for an answer now.
    pub outstanding: usize,
    /// Connections that are logged in now.
    pub connections_up: usize,
}
