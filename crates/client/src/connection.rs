//! One connection without its socket: bytes to send, bytes received, calls in flight.
//!
//! Promises that each call gets exactly one end (a response, or being taken out when the connection
//! is given up), that a malformed message is an error and never a panic, and that buffers grow with
//! bytes that came, not with lengths that a peer names. Knows no sockets and no clock.

use crate::prepared::Prepared;
use crate::slab::Slab;
use ferrite_wire::frame;
use ferrite_wire::invocation::write_call;
use ferrite_wire::{
    DecodeError, EncodeError, HashScheme, Invocation, LoginRequest, LoginResponse, ParameterSet, Response, Service,
    handles,
};

/// Bytes that one read may bring. Large enough that a turn handles hundreds of answers, small
/// enough that their successors are on the way before the server has run out of work.
pub const RECEIVE_BYTES: usize = 128 * 1024;

/// What the server told at login.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoginInfo {
    /// The node, unique in its cluster.
    pub host_id: i32,
    /// The connection, unique at the node.
    pub connection_id: i64,
    /// Milliseconds since 1970; with the address the identity of the cluster.
    pub cluster_start_ms: i64,
    /// The IPv4 address of the cluster's first coordinator.
    pub leader_address: [u8; 4],
    /// Version and build of the server.
    pub build: String,
}

/// What came in.
#[derive(Debug)]
pub enum Event<'a, C> {
    /// The login was accepted.
    LoggedIn(LoginInfo),
    /// The answer to a call, with the context it was made with.
    Response(C, Response<'a>),
    /// A message that nobody asked for, or the answer to a ping or to [`Connection::ask`].
    Pushed(Response<'a>),
    /// The answer to a call that was given up, or to none at all.
    Unmatched,
}

/// The connection cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectionError {
    /// With this failure code of the protocol.
    LoginRefused {
        /// The protocol's.
        code: i8,
        /// What a node that is not open yet waits for.
        reason: Option<String>,
    },
    /// What came is not the protocol.
    Malformed(DecodeError),
}

impl From<DecodeError> for ConnectionError {
    fn from(error: DecodeError) -> Self {
        ConnectionError::Malformed(error)
    }
}

/// One connection without its socket: bytes to send, bytes received, calls in flight. `C` comes
/// back with each answer.
#[derive(Debug)]
pub struct Connection<C> {
    logged_in: bool,
    calls: Slab<C>,
    /// Whole frames, from the beginning of one.
    out: Vec<u8>,
    /// Bytes of `out` that are sent already.
    sent: usize,
    /// Bytes at the front of `out` that are the login.
    login_bytes: usize,
    input: Vec<u8>,
    /// Bytes of `input` handled already, and bytes filled.
    handled: usize,
    filled: usize,
}

impl<C> Connection<C> {
    /// A connection whose first bytes to send are the login. `digest` is the SHA-256 of the
    /// password.
    pub fn new(user: &str, digest: &[u8; 32]) -> Connection<C> {
        let mut out = Vec::with_capacity(RECEIVE_BYTES);
        LoginRequest { version: 1, scheme: HashScheme::Sha256, service: Service::Database, user, digest }
            .write(&mut out);
        let login_bytes = out.len();
        Connection {
            logged_in: false,
            calls: Slab::default(),
            out,
            sent: 0,
            login_bytes,
            input: vec![0; RECEIVE_BYTES],
            handled: 0,
            filled: 0,
        }
    }

    /// The login was accepted. Calls may be written before, and are sent after it in the same
    /// stream.
    #[inline]
    pub fn is_logged_in(&self) -> bool {
        self.logged_in
    }

    /// Calls in flight.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.calls.len()
    }

    /// The contexts of the calls in flight, by handle.
    pub fn calls(&self) -> impl Iterator<Item = (i64, &C)> {
        self.calls.iter()
    }

    /// Appends a call. On an error nothing is sent and the context is dropped.
    #[inline]
    pub fn call(
        &mut self,
        procedure: &Prepared,
        parameters: &(impl ParameterSet + ?Sized),
        context: C,
    ) -> Result<i64, EncodeError> {
        let handle = self.calls.insert(context);
        let written = procedure.write(&mut self.out, handle, parameters);
        match written {
            Ok(()) => Ok(handle),
            Err(error) => {
                self.calls.remove(handle);
                Err(error)
            }
        }
    }

    /// Appends a request made elsewhere with [`Prepared::write`], putting the handle in its place.
    pub fn call_encoded(&mut self, request: &[u8], handle_at: usize, context: C) -> i64 {
        let handle = self.calls.insert(context);
        let start = self.out.len();
        self.out.extend_from_slice(request);
        self.out[start + handle_at..start + handle_at + 8].copy_from_slice(&handle.to_be_bytes());
        handle
    }

    /// Appends a keep-alive ping. Its answer is an [`Event::Pushed`].
    pub fn ping(&mut self) {
        self.ask("@Ping", &(), handles::PING);
    }

    /// Appends a call of the driver's own. Its answer is an [`Event::Pushed`] with this handle,
    /// which is one of those from [`handles::RESERVED_MIN`] on.
    pub(crate) fn ask(&mut self, procedure: &str, parameters: &impl ParameterSet, handle: i64) {
        debug_assert!(handle >= handles::RESERVED_MIN);
        write_call(&mut self.out, procedure, handle, parameters).expect("a question fits into a frame");
    }

    /// Gives a call up: its context comes back, its answer will be [`Event::Unmatched`].
    pub fn give_up(&mut self, handle: i64) -> Option<C> {
        self.calls.remove(handle)
    }

    /// Gives all calls up.
    pub fn give_up_all(&mut self) -> Vec<C> {
        self.calls.drain()
    }

    /// Gives up the calls of which not a byte was sent: their contexts come back, in order, with
    /// their requests and where in these the handle stands. After this the connection is of no more
    /// use.
    pub fn give_up_unsent(&mut self) -> Vec<(C, Vec<u8>, usize)> {
        let mut unsent = Vec::new();
        let mut at = self.login_bytes;
        while let Ok(Some((size, body))) = frame::split(&self.out[at..]) {
            if at >= self.sent
                && let Ok(invocation) = Invocation::parse(body)
                && let Some(context) = self.calls.remove(invocation.handle)
            {
                // Requests of `Prepared` and `ask` are plain: length, layout, name, handle.
                let handle_at = 4 + 1 + 4 + invocation.procedure.len();
                unsent.push((context, self.out[at..at + size].to_vec(), handle_at));
            }
            at += size;
        }
        self.out.truncate(self.sent);
        unsent
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub fn unsent(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// This many of [`Connection::unsent`] are sent.
    #[inline]
    pub fn mark_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        debug_assert!(self.sent <= self.out.len());
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
            self.login_bytes = 0;
        } else if self.sent >= RECEIVE_BYTES.max(self.out.len() / 2) {
            // What is sent is at least as long as what moves, so that this costs no more than the
            // sending did.
            self.drop_sent();
        }
    }

    /// Drops the frames that are sent whole.
    #[cold]
    fn drop_sent(&mut self) {
        let mut whole = 0;
        while let Ok(Some((size, _))) = frame::split(&self.out[whole..])
            && whole + size <= self.sent
        {
            whole += size;
        }
        self.out.drain(..whole);
        self.sent -= whole;
        self.login_bytes = self.login_bytes.saturating_sub(whole);
    }

    /// Where the next bytes are to be received. Never empty.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        if self.handled == self.filled {
            self.handled = 0;
            self.filled = 0;
        } else if self.input.len() - self.filled < RECEIVE_BYTES / 2 {
            self.make_room();
        }
        &mut self.input[self.filled..]
    }

    /// Moves the incomplete frame to the front; doubles the buffer when the frame fills it.
    #[cold]
    fn make_room(&mut self) {
        if self.handled > 0 {
            self.input.copy_within(self.handled..self.filled, 0);
            self.filled -= self.handled;
            self.handled = 0;
        }
        if self.filled > self.input.len() / 2 {
            self.input.resize(self.input.len() * 2, 0);
        }
    }

    /// This many bytes were received into [`Connection::room`].
    #[inline]
    pub fn mark_received(&mut self, bytes: usize) {
        self.filled += bytes;
        debug_assert!(self.filled <= self.input.len());
    }

    /// The next complete message, if there is one. After an error the connection is of no more use.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event<'_, C>>, ConnectionError> {
        let unhandled = &self.input[self.handled..self.filled];
        let Some((size, body)) = frame::split(unhandled).map_err(|_| DecodeError::LengthMismatch)? else {
            return Ok(None);
        };
        self.handled += size;
        if !self.logged_in {
            let info = parse_login(body)?;
            self.logged_in = true;
            return Ok(Some(Event::LoggedIn(info)));
        }
        let response = Response::parse(body)?;
        Ok(Some(match self.calls.remove(response.handle) {
            Some(context) => Event::Response(context, response),
            None if response.handle >= handles::RESERVED_MIN => Event::Pushed(response),
            None => Event::Unmatched,
        }))
    }
}

#[cold]
fn parse_login(body: &[u8]) -> Result<LoginInfo, ConnectionError> {
    match LoginResponse::parse(body)? {
        LoginResponse::Refused { code, reason } => {
            Err(ConnectionError::LoginRefused { code, reason: reason.map(str::to_owned) })
        }
        LoginResponse::Accepted(accepted) => Ok(LoginInfo {
            host_id: accepted.host_id,
            connection_id: accepted.connection_id,
            cluster_start_ms: accepted.cluster_start_ms,
            leader_address: accepted.leader_address,
            build: accepted.build.to_string(),
        }),
    }
}
