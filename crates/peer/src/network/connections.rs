//! The connections of one of the two threads: accepts, reads, writes, and closes, in turns, so that
//! no connection holds the others up.
//!
//! What a handshake says is in `greet.rs`; what happens as time passes, in `dial.rs`.

use super::{Command, Shared, locked};
use crate::frame::{Frames, Lane, write_message};
use crate::handler::Room;
use crate::handshake::{ANSWER_BYTES, HELLO_BYTES, Hello, Nonce, Nonces};
use crate::outbox::{Outbox, Sending};
use crate::roster::HEARD_EVERY;
use crate::silence;
use crossbeam_channel::Receiver;
use ferrite_base::{Incarnation, NodeId};
use ferrite_notice::Notice;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const LISTENER: Token = Token(0);
pub(super) const WAKER: Token = Token(1);
const FIRST: usize = 2;
/// Between two looks at deadlines and at nodes to dial, if there is something to look at.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// And if there is nothing.
pub(super) const TICK_MAX: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 256 * 1024;
/// Read from one connection, or written to it, before others have their turn.
const BYTES_PER_TURN: usize = 1 << 20;
/// Connections that are taken before those that are there have their turn.
const ACCEPTED_PER_TURN: usize = 32;

pub(super) enum State {
    /// We dialed: connecting, then waiting for the answer to our hello.
    Dialing {
        node: NodeId,
        lane: Lane,
        nonce: Nonce,
    },
    /// They dialed, and have not said who they are.
    Stranger,
    /// They have said who they are, but have not yet repeated what was drawn for this connection.
    Welcomed {
        hello: Hello,
        nonces: Nonces,
    },
    /// They ask something, and may not be in a cluster.
    Inquiring(Frames),
    /// Refused or answered: closed when that is out.
    Ending,
    Open {
        node: NodeId,
        incarnation: Incarnation,
        lane: Lane,
        frames: Frames,
        sending: Sending,
    },
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) state: State,
    /// Of the handshake: what came, and what is to be sent.
    pub(super) greeting: Vec<u8>,
    /// This many bytes of it are read before they are looked at.
    pub(super) wanted: usize,
    pub(super) to_send: Vec<u8>,
    pub(super) since: Instant,
    /// The handler has no room.
    pub(super) waits: bool,
}

/// When a node is tried again, and where.
pub(super) struct Dial {
    pub(super) next: Instant,
    pub(super) pause: Duration,
    /// Attempts that have failed: each is at the next of its addresses.
    pub(super) failed: usize,
}

pub(super) struct Connections {
    pub(super) number: usize,
    pub(super) poll: Poll,
    pub(super) listener: Option<TcpListener>,
    pub(super) commands: Receiver<Command>,
    pub(super) shared: Arc<Shared>,
    pub(super) open: BTreeMap<usize, Connection>,
    pub(super) next: usize,
    pub(super) dials: BTreeMap<(NodeId, Lane), Dial>,
    /// Connections that have more to read or to write.
    pub(super) again: VecDeque<usize>,
    /// There may be more connections to take.
    pub(super) more_to_accept: bool,
    /// When deadlines and nodes to dial are looked at next.
    pub(super) next_tick: Instant,
    /// As of [`Shared::changes`] when it was looked at last.
    pub(super) changes: u64,
    pub(super) buffer: Vec<u8>,
}

impl Connections {
    /// The listener is for the first of the threads.
    pub(super) fn new(
        number: usize,
        poll: Poll,
        mut listener: Option<TcpListener>,
        commands: Receiver<Command>,
        shared: &Arc<Shared>,
    ) -> io::Result<Connections> {
        if let Some(listener) = &mut listener {
            poll.registry().register(listener, LISTENER, Interest::READABLE)?;
        }
        Ok(Connections {
            number,
            poll,
            listener,
            commands,
            shared: Arc::clone(shared),
            open: BTreeMap::new(),
            next: FIRST,
            dials: BTreeMap::new(),
            again: VecDeque::new(),
            more_to_accept: false,
            next_tick: Instant::now(),
            changes: 0,
            buffer: vec![0; READ_BYTES],
        })
    }

    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        while !self.shared.stop.load(Ordering::Acquire) {
            let has_more = self.more_to_accept || !self.again.is_empty();
            let timeout =
                if has_more { Duration::ZERO } else { self.next_tick.saturating_duration_since(Instant::now()) };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => panic!("waiting for sockets: {error}"),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.more_to_accept = true,
                    WAKER => self.flush_all(),
                    Token(number) => {
                        if event.is_writable() {
                            self.flush(number);
                        }
                        if event.is_readable() || event.is_read_closed() {
                            self.read(number);
                        }
                    }
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                self.command(command);
            }
            for _ in 0..self.again.len() {
                let number = self.again.pop_front().expect("counted just now");
                self.flush(number);
                self.read(number);
            }
            if self.more_to_accept {
                self.accept();
            }
            if self.shared.changes.load(Ordering::Acquire) != self.changes || Instant::now() >= self.next_tick {
                self.tick();
            }
        }
        let numbers: Vec<usize> = self.open.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.close(number));
    }

    /// Accepts connections, but only as many as leave time for those that are there.
    fn accept(&mut self) {
        let nodes: BTreeSet<IpAddr> =
            locked(&self.shared.addresses).values().flatten().map(|address| address.ip()).collect();
        for _ in 0..ACCEPTED_PER_TURN {
            let (stream, address) = match self.listener.as_ref().map(TcpListener::accept) {
                Some(Ok(accepted)) => accepted,
                other => {
                    self.more_to_accept = false;
                    // No file descriptors: they come again with the next tick.
                    if matches!(other, Some(Err(error)) if error.kind() != ErrorKind::WouldBlock) {
                        self.tick_soon();
                    }
                    return;
                }
            };
            let is_stranger = |open: &&Connection| !matches!(open.state, State::Open { .. } | State::Dialing { .. });
            if self.open.values().filter(is_stranger).count() >= self.shared.limits.strangers_max {
                let of_no_node = |open: &&Connection| is_stranger(open) && !nodes.contains(&open.address.ip());
                let oldest = |is: &dyn Fn(&&Connection) -> bool| {
                    self.open.iter().find(|(_, open)| is(open)).map(|(number, _)| *number)
                };
                if let Some(oldest) = oldest(&of_no_node).or_else(|| oldest(&is_stranger)) {
                    self.close(oldest);
                }
            }
            self.add(stream, address, State::Stranger, Vec::new());
        }
    }

    pub(super) fn add(
        &mut self,
        mut stream: TcpStream,
        address: SocketAddr,
        state: State,
        to_send: Vec<u8>,
    ) -> Option<usize> {
        let number = self.next;
        self.next += 1;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(number), both).ok()?;
        // A message is sent as soon as it is there. If that cannot be set, it is only slower.
        let _ = stream.set_nodelay(true);
        let _ = silence::notice(&stream);
        let greeting = Vec::new();
        let since = Instant::now();
        let wanted = if matches!(state, State::Dialing { .. }) { ANSWER_BYTES } else { HELLO_BYTES };
        self.open.insert(number, Connection { stream, address, state, greeting, wanted, to_send, since, waits: false });
        self.tick_soon();
        Some(number)
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Adopt(stream, hello, version, nonce) => {
                let Ok(address) = stream.peer_addr() else { return };
                if let Some(number) = self.add(stream, address, State::Stranger, Vec::new()) {
                    self.welcome(number, &hello, version, nonce);
                }
            }
            Command::Resume(node, lane) => {
                if let Some(number) = self.number_of(node, lane) {
                    self.open.get_mut(&number).expect("found just now").waits = false;
                    self.read(number);
                }
            }
            Command::Break(node, lane) => {
                if let Some(number) = self.number_of(node, lane) {
                    self.close(number);
                }
            }
            Command::Started(node, incarnation) => self.started(node, incarnation),
        }
    }

    fn started(&mut self, node: NodeId, now: Incarnation) {
        let is_earlier = |open: &Connection| matches!(open.state, State::Open { node: other, incarnation, .. } if other == node && incarnation < now);
        let earlier: Vec<usize> =
            self.open.iter().filter(|(_, open)| is_earlier(open)).map(|(number, _)| *number).collect();
        earlier.into_iter().for_each(|number| self.close(number));
    }

    fn number_of(&self, wanted: NodeId, on: Lane) -> Option<usize> {
        let is = |connection: &Connection| matches!(&connection.state, State::Open { node, lane, .. } if *node == wanted && *lane == on);
        self.open.iter().find(|(_, connection)| is(connection)).map(|(number, _)| *number)
    }

    /// Those that this thread dials.
    pub(super) fn lanes(&self) -> impl Iterator<Item = Lane> + use<> {
        let of_thread = if self.number == 0 { &Lane::ALL[..1] } else { &Lane::ALL[1..] };
        let shared = Arc::clone(&self.shared);
        of_thread.iter().copied().filter(move |lane| shared.lanes[*lane as usize].load(Ordering::Acquire))
    }

    fn read(&mut self, number: usize) {
        let mut left = BYTES_PER_TURN;
        loop {
            let Some(connection) = self.open.get_mut(&number) else { return };
            if connection.waits || matches!(connection.state, State::Ending) {
                return;
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            // A greeting is read alone: what comes after it is for the thread that takes the
            // connection.
            let most = match connection.state {
                State::Stranger | State::Dialing { .. } | State::Welcomed { .. } => {
                    connection.wanted - connection.greeting.len()
                }
                _ => buffer.len(),
            };
            let read = connection.stream.read(&mut buffer[..most]);
            let goes_on = match read {
                Ok(0) => {
                    self.close(number);
                    false
                }
                Ok(count) => {
                    self.came(number, &buffer[..count]);
                    left = left.saturating_sub(count);
                    true
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => true,
                // A dialed connection is not connected yet.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => false,
                Err(_) => {
                    self.close(number);
                    false
                }
            };
            self.buffer = buffer;
            if !goes_on {
                return;
            }
            if left == 0 {
                self.again.push_back(number);
                return;
            }
        }
    }

    fn came(&mut self, number: usize, bytes: &[u8]) {
        let connection = self.open.get_mut(&number).expect("it was read from");
        match &mut connection.state {
            State::Open { node, incarnation, lane, frames, .. } => {
                let node = *node;
                let incarnation = *incarnation;
                let lane = *lane;
                let handler = &self.shared.handler;
                let now = Instant::now();
                if now.duration_since(connection.since) >= HEARD_EVERY {
                    connection.since = now;
                    locked(&self.shared.roster).heard(node, incarnation, now);
                }
                let mut waits = false;
                let decoded = frames.decode(bytes, |message| {
                    waits |= handler.deliver(node, incarnation, lane, message) == Room::Wait;
                });
                connection.waits |= waits;
                if let Err(error) = decoded {
                    self.shared.handler.notice(Notice::PeerUnintelligible {
                        node: Some(node),
                        ip: connection.address.ip(),
                        reason: error.to_string(),
                    });
                    self.close(number);
                }
            }
            State::Stranger | State::Dialing { .. } | State::Welcomed { .. } => {
                connection.greeting.extend_from_slice(bytes);
                if connection.greeting.len() == connection.wanted {
                    self.greeted(number);
                }
            }
            State::Inquiring(frames) => {
                let mut question = None;
                let decoded = frames.decode(bytes, |message| question = question.take().or(Some(message)));
                match (decoded, question) {
                    (Ok(()), None) => {}
                    (Ok(()), Some(question)) => self.inquired(number, question),
                    (Err(error), _) => {
                        self.shared.handler.notice(Notice::PeerUnintelligible {
                            node: None,
                            ip: connection.address.ip(),
                            reason: error.to_string(),
                        });
                        self.close(number);
                    }
                }
            }
            State::Ending => {}
        }
    }

    fn inquired(&mut self, number: usize, question: Vec<u8>) {
        let connection = self.open.get_mut(&number).expect("it was read from");
        match self.shared.handler.inquired(question) {
            Some(answer) => {
                write_message(&mut connection.to_send, &mut 0, Lane::Control, &answer);
                connection.state = State::Ending;
                self.flush(number);
            }
            None => self.close(number),
        }
    }

    /// `begins`: what the checksums of frames begin with, of those that come and of those that go.
    pub(super) fn opened(
        &mut self,
        number: usize,
        (node, incarnation, lane): (NodeId, Incarnation, Lane),
        begins: (u32, u32),
    ) {
        if let Some(older) = self.number_of(node, lane) {
            self.close(older);
        }
        self.started(node, incarnation);
        let other = &self.shared.threads[1 - self.number];
        let _ = other.commands.send(Command::Started(node, incarnation));
        other.waker.wake().expect("a thread that is there can be woken");
        let limits = &self.shared.limits;
        let frames = Frames::new(lane, limits.message_bytes_max[lane as usize], begins.0);
        let connection = self.open.get_mut(&number).expect("it is open");
        connection.state = State::Open { node, incarnation, lane, frames, sending: Sending::new(lane, begins.1) };
        locked(&self.shared.roster).opened(node, incarnation, Instant::now());
        // Its first message is noted at once.
        connection.since = connection.since.checked_sub(HEARD_EVERY).unwrap_or(connection.since);
        let outbox = Outbox::new(limits.outbox_bytes_max[lane as usize]);
        locked(&self.shared.threads[self.number].outboxes).insert((node, lane), outbox);
        if let Some(dial) = self.dials.get_mut(&(node, lane)) {
            dial.pause = limits.redial.0;
        }
        self.shared.handler.connected(node, incarnation, lane);
        // What came after the greeting.
        self.again.push_back(number);
    }

    fn flush_all(&mut self) {
        let numbers: Vec<usize> = self.open.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.flush(number));
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self, number: usize) {
        let Some(connection) = self.open.get_mut(&number) else { return };
        let mut failed = false;
        while !connection.to_send.is_empty() && !failed {
            match connection.stream.write(&connection.to_send) {
                Ok(count) => drop(connection.to_send.drain(..count)),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => failed = true,
            }
        }
        match &mut connection.state {
            State::Ending => failed = true,
            State::Open { node, lane, sending, .. } if !failed => {
                let outboxes = &self.shared.threads[self.number].outboxes;
                let mut left = BYTES_PER_TURN;
                loop {
                    if sending.is_done() {
                        // Frames are made and written without the lock: otherwise a sender could
                        // hold others up.
                        let mut outboxes = locked(outboxes);
                        let outbox = outboxes.get_mut(&(*node, *lane)).expect("an open lane has its outbox");
                        sending.refill(outbox);
                    }
                    let bytes = sending.next();
                    if bytes.is_empty() {
                        break;
                    }
                    if left == 0 {
                        self.again.push_back(number);
                        break;
                    }
                    match connection.stream.write(bytes) {
                        Ok(count) => {
                            sending.sent(count);
                            left = left.saturating_sub(count);
                        }
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(_) => {
                            failed = true;
                            break;
                        }
                    }
                }
            }
            _ => {}
        }
        if failed {
            self.close(number);
        }
    }

    pub(super) fn close(&mut self, number: usize) {
        let Some(mut connection) = self.open.remove(&number) else { return };
        self.tick_soon();
        let _ = self.poll.registry().deregister(&mut connection.stream);
        match connection.state {
            State::Open { node, incarnation, lane, .. } => {
                locked(&self.shared.threads[self.number].outboxes).remove(&(node, lane));
                // A process that ends closes all of them.
                locked(&self.shared.roster).closed(node, incarnation);
                self.shared.handler.lost(node, lane);
            }
            State::Dialing { node, lane, .. } => {
                if let Some(dial) = self.dials.get_mut(&(node, lane)) {
                    dial.failed += 1;
                }
            }
            _ => {}
        }
    }
}
