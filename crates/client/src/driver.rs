//! Sockets and the event loop: connects, logs in, reads, lets a handler make calls, writes, and
//! connects again.
//!
//! One turn of the loop: the handler makes calls, each connection writes what they left in one go,
//! the loop waits, each readable connection reads once, and the handler gets the answers. So a
//! wake-up pays for hundreds of calls. Runs in whichever thread turns it. Each call ends in exactly
//! one of [`Handler::response`] and [`Handler::lost`], or is taken back by the handler itself.

mod links;

use crate::connection::{Connection, ConnectionError, Event, LoginInfo};
use crate::error::ClientError;
use crate::options::Credentials;
use crate::resolver::{Found, Resolver};
use crate::timer::Timer;
use ferrite_wire::Response;
use links::{DOUBT_LOOK, State};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::net::sockopt::set_socket_linger;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use links::Links;

const WAKER: Token = Token(usize::MAX - 1);
const TIMER: Token = Token(usize::MAX - 2);
/// Time for connecting and logging in.
const CONNECT_SECONDS_MAX: u64 = 10;
/// Whom to connect to and how to keep at it.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// `host:port` of each server.
    pub addresses: Vec<String>,
    /// Connections to each.
    pub connections_per_address: usize,
    /// Who logs in.
    pub credentials: Credentials,
    /// A connection that answers nothing for so long is given up.
    pub connection_timeout: Duration,
    /// Pause before connecting again; doubles with each failure.
    pub reconnect_pause: Duration,
    /// The longest pause.
    pub reconnect_pause_max: Duration,
    /// Wake at the handler's deadlines to the microsecond, for open-loop schedules, instead of to
    /// the millisecond.
    pub precise_timer: bool,
}

/// What the handler wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Wait for the network, a waker, or this moment.
    Wait(Option<Instant>),
    /// End the loop.
    Stop,
}

/// The owner of the calls that a [`Driver`] carries.
pub trait Handler {
    /// What comes back with each answer.
    type Context;

    /// Make calls, once per turn of the loop.
    fn turn(&mut self, links: &mut Links<Self::Context>, now: Instant) -> Turn;

    /// The answer to a call. `at` is when its bytes had been read.
    fn response(&mut self, link: usize, context: Self::Context, response: &Response<'_>, at: Instant);

    /// The connection broke while this call was in flight: whether it ran is not known.
    fn lost(&mut self, link: usize, context: Self::Context, reason: &ClientError);

    /// The connection broke before a byte of this call was sent: it did not run, and
    /// [`Connection::call_encoded`] may send `request` on another.
    fn unsent(
        &mut self,
        link: usize,
        context: Self::Context,
        _request: Vec<u8>,
        _handle_at: usize,
        reason: &ClientError,
    ) {
        self.lost(link, context, reason);
    }

    /// A connection is up.
    fn connected(&mut self, _link: usize, _login: &LoginInfo) {}

    /// A connection broke, or an attempt to connect failed. After this the link will be tried
    /// again.
    fn disconnected(&mut self, _link: usize, _reason: &ClientError) {}

    /// A message that nobody asked for, or an answer for a [`Topology`](crate::topology::Topology).
    fn pushed(&mut self, _link: usize, _response: &Response<'_>) {}
}

/// The event loop with its connections.
#[derive(Debug)]
pub struct Driver<C> {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    timer: Option<Timer>,
    resolver: Resolver,
    links: Links<C>,
    options: DriverOptions,
    next_upkeep: Instant,
}

impl<C> Driver<C> {
    /// A driver that begins to connect with its first turn.
    pub fn new(options: DriverOptions) -> io::Result<Driver<C>> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let resolver = Resolver::new(Arc::clone(&waker));
        let timer = if options.precise_timer { Some(Timer::new(poll.registry(), TIMER)?) } else { None };
        let now = Instant::now();
        let links = Links::new(&options, now);
        let events = Events::with_capacity(256);
        Ok(Driver { poll, events, waker, timer, resolver, links, options, next_upkeep: now })
    }

    /// Something with which other threads end the driver's wait. There is one per driver.
    pub fn waker(&self) -> io::Result<Arc<Waker>> {
        Ok(Arc::clone(&self.waker))
    }

    /// All connections, between two runs of the loop.
    pub fn links(&mut self) -> &mut Links<C> {
        &mut self.links
    }

    /// Turns the loop until the handler stops it. May be called again afterwards, with the same or
    /// another handler of the same kind of context.
    pub fn run<H: Handler<Context = C>>(&mut self, handler: &mut H) -> io::Result<()> {
        let mut now = Instant::now();
        loop {
            if now >= self.next_upkeep {
                self.upkeep(handler, now);
            }
            while let Some(found) = self.resolver.next() {
                self.found(handler, found, now);
            }
            let Turn::Wait(deadline) = handler.turn(&mut self.links, now) else {
                return Ok(());
            };
            self.flush(handler, now);
            if std::mem::take(&mut self.links.changed) {
                self.next_upkeep = now;
            }
            self.wait(deadline, now)?;
            now = self.receive(handler);
        }
    }

    /// Closes all connections. Calls in flight are lost.
    pub fn close<H: Handler<Context = C>>(&mut self, handler: &mut H) {
        let now = Instant::now();
        for link in 0..self.links.len() {
            if self.links.links[link].stream.is_some() {
                self.give_up(handler, link, |_| ClientError::Closed, now);
            }
        }
    }

    /// Waits for events, and notes them at their links.
    fn wait(&mut self, deadline: Option<Instant>, now: Instant) -> io::Result<()> {
        let mut until = self.next_upkeep;
        if self.links.links.iter().any(|link| link.readable) {
            until = now;
        } else if let Some(deadline) = deadline {
            match &self.timer {
                Some(timer) if deadline > now && deadline < until => timer.set(deadline - now)?,
                _ => until = until.min(deadline),
            }
        }
        match self.poll.poll(&mut self.events, Some(until.saturating_duration_since(now))) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &self.events {
            let Some(link) = self.links.links.get_mut(event.token().0) else {
                continue;
            };
            link.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
            link.read_closed |= event.is_read_closed() || event.is_error();
            link.writable |= event.is_writable();
        }
        Ok(())
    }

    /// Reads once from each connection that has something. Returns the time afterwards.
    fn receive<H: Handler<Context = C>>(&mut self, handler: &mut H) -> Instant {
        let mut at = Instant::now();
        for index in 0..self.links.links.len() {
            let link = &mut self.links.links[index];
            if !link.readable {
                continue;
            }
            let Some(stream) = &mut link.stream else {
                link.readable = false;
                continue;
            };
            let room = link.connection.room();
            let room_bytes = room.len();
            match stream.read(room) {
                Ok(0) => self.give_up(handler, index, lost("the server closed it"), at),
                Ok(bytes) => {
                    // A read that fills less than it could has emptied the socket; what comes later
                    // is another event.
                    link.readable = bytes == room_bytes || link.read_closed;
                    link.connection.mark_received(bytes);
                    (link.ping_sent, link.doubted) = (false, None);
                    at = Instant::now();
                    link.last_received = at;
                    self.links.statistics.reads += 1;
                    self.links.statistics.bytes_received += bytes as u64;
                    self.handle_received(handler, index, at);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => link.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.fail(handler, index, error, at),
            }
        }
        at
    }

    /// Hands all complete messages of a connection to the handler.
    #[inline]
    fn handle_received<H: Handler<Context = C>>(&mut self, handler: &mut H, index: usize, at: Instant) {
        let mut link = &mut self.links.links[index];
        loop {
            match link.connection.next_event() {
                Ok(Some(Event::Response(context, response))) => handler.response(index, context, &response, at),
                Ok(None) => return,
                Ok(Some(Event::Pushed(response))) => handler.pushed(index, &response),
                Ok(Some(Event::Unmatched)) => self.links.statistics.responses_unmatched += 1,
                Ok(Some(Event::LoggedIn(login))) => {
                    if !self.logged_in(handler, index, login, at) {
                        return;
                    }
                    link = &mut self.links.links[index];
                }
                Err(error) => {
                    let reason = move |address: String| match error {
                        ConnectionError::LoginRefused { code, reason } => ClientError::Login { address, code, reason },
                        ConnectionError::Malformed(reason) => ClientError::Protocol { address, reason },
                    };
                    return self.give_up(handler, index, reason, at);
                }
            }
        }
    }

    /// The connection is up, unless its node belongs to another cluster than the others: then it is
    /// given up.
    #[cold]
    fn logged_in<H: Handler<Context = C>>(
        &mut self,
        handler: &mut H,
        index: usize,
        login: LoginInfo,
        at: Instant,
    ) -> bool {
        if let Some(other) = self.links.stranger(index, &login) {
            let other = other.address.clone();
            self.give_up(handler, index, |address| ClientError::AnotherCluster { address, other }, at);
            return false;
        }
        let link = &mut self.links.links[index];
        link.state = State::Up;
        link.pause = self.options.reconnect_pause;
        self.links.up += 1;
        self.links.statistics.connects += 1;
        if let Some(upkeep) = link.next_upkeep(self.options.connection_timeout) {
            self.next_upkeep = self.next_upkeep.min(upkeep);
        }
        handler.connected(index, &login);
        link.login = Some(login);
        true
    }

    /// Writes what the turn has left, in one go per connection where the socket takes it.
    fn flush<H: Handler<Context = C>>(&mut self, handler: &mut H, now: Instant) {
        for index in 0..self.links.links.len() {
            let link = &mut self.links.links[index];
            let Some(stream) = &mut link.stream else {
                continue;
            };
            while link.writable && !link.connection.unsent().is_empty() {
                match stream.write(link.connection.unsent()) {
                    Ok(bytes) => {
                        link.connection.mark_sent(bytes);
                        self.links.statistics.writes += 1;
                        self.links.statistics.bytes_sent += bytes as u64;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => link.writable = false,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        self.fail(handler, index, error, now);
                        break;
                    }
                }
            }
        }
    }

    /// What only needs doing now and then: connecting, giving up attempts that take too long,
    /// keep-alive.
    fn upkeep<H: Handler<Context = C>>(&mut self, handler: &mut H, now: Instant) {
        let timeout = self.options.connection_timeout;
        for index in 0..self.links.links.len() {
            let link = &mut self.links.links[index];
            match link.state {
                State::Down { retry_at } if retry_at <= now => {
                    if let Err(error) = self.connect(index, now) {
                        self.fail(handler, index, error, now);
                    }
                }
                State::Connecting { until } if until <= now => {
                    self.fail(handler, index, io::ErrorKind::TimedOut.into(), now);
                }
                State::Up if now >= link.last_received + timeout => {
                    self.give_up(handler, index, lost("it answered nothing for too long"), now);
                }
                State::Up if link.doubted.is_some_and(|(look, _)| now >= look) => match link.doubted {
                    Some((_, left @ 1..)) => link.doubted = Some((now + DOUBT_LOOK, left - 1)),
                    _ => self.give_up(handler, index, lost("it does not lead any more, and answers nothing"), now),
                },
                State::Up if now >= link.last_received + timeout / 3 && !link.ping_sent => {
                    link.connection.ping();
                    link.ping_sent = true;
                }
                _ => {}
            }
        }
        self.next_upkeep = self
            .links
            .links
            .iter()
            .filter_map(|link| link.next_upkeep(timeout))
            .min()
            .unwrap_or(now + timeout)
            // A moment that has come during the work above is met in the next turn.
            .max(now + Duration::from_millis(1));
    }

    fn connect(&mut self, index: usize, now: Instant) -> io::Result<()> {
        let link = &mut self.links.links[index];
        link.state = State::Connecting { until: now + Duration::from_secs(CONNECT_SECONDS_MAX) };
        match link.address.parse() {
            Ok(address) => self.connect_to(index, address, now),
            Err(_) => self.resolver.look_up(index, &link.address),
        }
    }

    /// A host's addresses, or that there are none.
    #[cold]
    fn found<H: Handler<Context = C>>(&mut self, handler: &mut H, found: Found, now: Instant) {
        let link = &mut self.links.links[found.link];
        let waits = matches!(link.state, State::Connecting { .. }) && link.stream.is_none();
        if !waits || link.address != found.address {
            return;
        }
        // Another address with each attempt.
        link.attempts += 1;
        let address = found.addresses.and_then(|all| {
            let at = (link.attempts - 1) % all.len().max(1);
            all.get(at).copied().ok_or(io::ErrorKind::AddrNotAvailable.into())
        });
        if let Err(error) = address.and_then(|address| self.connect_to(found.link, address, now)) {
            self.fail(handler, found.link, error, now);
        }
    }

    fn connect_to(&mut self, index: usize, address: SocketAddr, now: Instant) -> io::Result<()> {
        let link = &mut self.links.links[index];
        let mut stream = TcpStream::connect(address)?;
        self.poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        // Batches are made here; the kernel should not wait for more.
        let _ = stream.set_nodelay(true);
        let credentials = &self.options.credentials;
        link.connection = Connection::new(credentials.user(), credentials.digest());
        link.stream = Some(stream);
        (link.readable, link.read_closed, link.writable) = (false, false, false);
        (link.last_received, link.ping_sent, link.doubted) = (now, false, None);
        Ok(())
    }

    /// A connection failed with an error of the operating system.
    #[cold]
    fn fail<H: Handler<Context = C>>(&mut self, handler: &mut H, index: usize, error: io::Error, now: Instant) {
        let was_up = self.links.links[index].state == State::Up;
        let reason = |address| {
            if was_up {
                ClientError::ConnectionLost { address, reason: error.to_string() }
            } else {
                ClientError::Connect { address, reason: Arc::new(error) }
            }
        };
        self.give_up(handler, index, reason, now);
    }

    /// Takes a connection down, tells the handler, and arranges the next attempt.
    #[cold]
    fn give_up<H: Handler<Context = C>>(
        &mut self,
        handler: &mut H,
        index: usize,
        reason: impl FnOnce(String) -> ClientError,
        now: Instant,
    ) {
        let link = &mut self.links.links[index];
        let reason = reason(link.address.clone());
        if link.state == State::Up {
            self.links.up -= 1;
            self.links.statistics.disconnects += 1;
        }
        if let Some(mut stream) = link.stream.take() {
            // Closing the socket takes it out of the poll as well; nothing depends on this
            // succeeding.
            let _ = self.poll.registry().deregister(&mut stream);
            if !matches!(reason, ClientError::Closed) {
                // What the system has of calls that end here must not reach the server later, when
                // whoever called has looked whether they took place.
                let _ = set_socket_linger(&stream, Some(Duration::ZERO));
            }
        }
        let retry_at = now + link.pause;
        link.pause = (link.pause * 2).min(self.options.reconnect_pause_max);
        link.state = State::Down { retry_at };
        link.readable = false;
        self.next_upkeep = self.next_upkeep.min(retry_at);
        let unsent = link.connection.give_up_unsent();
        for context in link.connection.give_up_all() {
            handler.lost(index, context, &reason);
        }
        for (context, request, handle_at) in unsent {
            handler.unsent(index, context, request, handle_at, &reason);
        }
        handler.disconnected(index, &reason);
        self.links.last_error = Some(reason);
    }
}

fn lost(reason: &'static str) -> impl FnOnce(String) -> ClientError {
    move |address| ClientError::ConnectionLost { address, reason: reason.to_string() }
}
