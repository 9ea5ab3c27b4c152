//! The connections of a driver, as its handler sees them: each to one address over its reconnects,
//! which are up, to which host, and how long each is waited for.
//!
//! They know no sockets' events: the driver reads, writes, connects and gives up.

use super::DriverOptions;
use crate::connection::{Connection, LoginInfo};
use crate::error::ClientError;
use crate::options::Credentials;
use crate::statistics::Statistics;
use mio::net::TcpStream;
use std::time::{Duration, Instant};

/// How often a node in whose place another leads is looked at before it is given up, if it is
/// silent, and the time between two looks. A process that stands still meanwhile looks once.
const DOUBT_LOOKS: u32 = 4;
pub(super) const DOUBT_LOOK: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Down {
        retry_at: Instant,
    },
    Connecting {
        until: Instant,
    },
    Up,
    /// Not to be connected any more; its place is free.
    Retired,
}

/// One connection to one address, over its reconnects.
#[derive(Debug)]
pub(super) struct Link<C> {
    pub(super) address: String,
    pub(super) state: State,
    /// What the server said at the last login.
    pub(super) login: Option<LoginInfo>,
    pub(super) stream: Option<TcpStream>,
    pub(super) connection: Connection<C>,
    pub(super) readable: bool,
    pub(super) read_closed: bool,
    pub(super) writable: bool,
    pub(super) pause: Duration,
    /// To connect to a host by its name.
    pub(super) attempts: usize,
    pub(super) last_received: Instant,
    pub(super) ping_sent: bool,
    /// When it is looked at next, if nothing comes, and how often after that.
    pub(super) doubted: Option<(Instant, u32)>,
}

/// All connections of a driver, as its handler sees them.
#[derive(Debug)]
pub struct Links<C> {
    pub(super) links: Vec<Link<C>>,
    pub(super) up: usize,
    pub(super) statistics: Statistics,
    pub(super) last_error: Option<ClientError>,
    /// For those that are added.
    credentials: Credentials,
    reconnect_pause: Duration,
    /// Some were added since the driver looked.
    pub(super) changed: bool,
}

impl<C> Links<C> {
    pub(super) fn new(options: &DriverOptions, now: Instant) -> Links<C> {
        let count = options.connections_per_address;
        let addresses = options.addresses.iter().flat_map(|address| std::iter::repeat_n(address, count));
        let credentials = options.credentials.clone();
        let pause = options.reconnect_pause;
        let links = addresses.map(|address| Link::new(address, &credentials, pause, now)).collect();
        Links {
            links,
            up: 0,
            statistics: Statistics::default(),
            last_error: None,
            credentials,
            reconnect_pause: pause,
            changed: false,
        }
    }

    /// Connections, up or not. They are numbered from 0.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "it counts connections, up or not")]
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// How many are logged in.
    #[inline]
    pub fn up_count(&self) -> usize {
        self.up
    }

    /// The connection, if it is logged in and can take calls.
    #[inline]
    pub fn get(&mut self, link: usize) -> Option<&mut Connection<C>> {
        let link = &mut self.links[link];
        (link.state == State::Up).then_some(&mut link.connection)
    }

    /// The next connection that is up, starting behind `after`, with its number.
    #[inline]
    pub fn next_up(&mut self, after: usize) -> Option<(usize, &mut Connection<C>)> {
        let count = self.links.len();
        let found = (1..=count).map(|step| (after + step) % count).find(|link| self.links[*link].state == State::Up)?;
        Some((found, &mut self.links[found].connection))
    }

    /// The next connection that is up to this host, starting behind `after`, with its number.
    #[inline]
    pub fn next_up_to(&mut self, host: i32, after: usize) -> Option<(usize, &mut Connection<C>)> {
        let count = self.links.len();
        let found = (1..=count).map(|step| (after + step) % count).find(|link| self.host(*link) == Some(host))?;
        Some((found, &mut self.links[found].connection))
    }

    /// The host that a link is connected to, if it is up.
    #[inline]
    pub fn host(&self, link: usize) -> Option<i32> {
        let link = &self.links[link];
        if link.state == State::Up { link.login.as_ref().map(|login| login.host_id) } else { None }
    }

    /// Another node leads in the place of this one, which may be dead or cut off: it is asked
    /// whether it is there, and not waited for as long as others.
    #[cold]
    pub fn doubt(&mut self, host: i32, now: Instant) {
        for link in &mut self.links {
            let is_of_it = link.login.as_ref().is_some_and(|login| login.host_id == host);
            if is_of_it && link.state == State::Up && link.doubted.is_none() {
                link.connection.ping();
                (link.ping_sent, link.doubted) = (true, Some((now + DOUBT_LOOK, DOUBT_LOOKS - 1)));
                self.changed = true;
            }
        }
    }

    /// The host that a link was connected to at its last login.
    pub fn last_host(&self, link: usize) -> Option<i32> {
        self.links[link].login.as_ref().map(|login| login.host_id)
    }

    /// `host:port` of a link.
    pub fn address(&self, link: usize) -> &str {
        &self.links[link].address
    }

    /// Adds this many connections to an address, which are made in the background. They take the
    /// numbers of retired ones first.
    pub fn add(&mut self, address: &str, connections: usize) {
        for _ in 0..connections {
            let link = Link::new(address, &self.credentials, self.reconnect_pause, Instant::now());
            match self.links.iter_mut().find(|link| link.state == State::Retired) {
                Some(free) => *free = link,
                None => self.links.push(link),
            }
        }
        self.changed = true;
    }

    /// Closes a connection without calls, and makes it no more. False if it has calls.
    pub fn retire(&mut self, link: usize) -> bool {
        let link = &mut self.links[link];
        if link.connection.outstanding() > 0 {
            return false;
        }
        if link.state == State::Up {
            self.up -= 1;
            self.statistics.disconnects += 1;
        }
        // Closing the socket takes it out of the poll as well.
        (link.stream, link.state, link.readable) = (None, State::Retired, false);
        true
    }

    /// The link is to be connected, or is.
    pub fn is_retired(&self, link: usize) -> bool {
        self.links[link].state == State::Retired
    }

    /// A connection that is up to another cluster than this one says it is of.
    pub(super) fn stranger(&self, index: usize, login: &LoginInfo) -> Option<&Link<C>> {
        let cluster = |login: &LoginInfo| (login.cluster_start_ms, login.leader_address);
        self.links.iter().enumerate().find_map(|(at, link)| {
            let other = link.login.as_ref().filter(|_| link.state == State::Up && at != index)?;
            // What is at the same address may just have been founded anew.
            (link.address != self.links[index].address && cluster(other) != cluster(login)).then_some(link)
        })
    }

    /// Calls in flight, all connections together.
    pub fn outstanding(&self) -> usize {
        self.links.iter().map(|link| link.connection.outstanding()).sum()
    }

    /// Traffic so far: bytes, reads, writes, connects and answers nobody waited for.
    pub fn statistics(&self) -> Statistics {
        Statistics { connections_up: self.up, ..self.statistics }
    }

    /// Why the last connection broke or could not be made.
    pub fn last_error(&self) -> Option<&ClientError> {
        self.last_error.as_ref()
    }
}

impl<C> Link<C> {
    fn new(address: &str, credentials: &Credentials, pause: Duration, now: Instant) -> Link<C> {
        Link {
            address: address.to_string(),
            state: State::Down { retry_at: now },
            login: None,
            stream: None,
            connection: Connection::new(credentials.user(), credentials.digest()),
            readable: false,
            read_closed: false,
            writable: false,
            pause,
            attempts: 0,
            last_received: now,
            ping_sent: false,
            doubted: None,
        }
    }

    /// When the driver must look at it again.
    pub(super) fn next_upkeep(&self, timeout: Duration) -> Option<Instant> {
        match self.state {
            State::Down { retry_at } => Some(retry_at),
            State::Connecting { until } => Some(until),
            State::Up if self.ping_sent => {
                let end = self.last_received + timeout;
                Some(self.doubted.map_or(end, |(look, _)| look.min(end)))
            }
            State::Up => Some(self.last_received + timeout / 3),
            State::Retired => None,
        }
    }
}
