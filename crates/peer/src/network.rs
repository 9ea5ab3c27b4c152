//! The sockets: two threads, one for the control lane, one for all others.
//!
//! Of two nodes the one with the higher id dials, so that there is one connection for each lane. A
//! newer connection of a lane takes the place of the older one.

mod dial;
mod greet;

use crate::frame::{Frames, Lane, write_message};
use crate::handler::{Handler, Limits, Room};
use crate::handshake::{ANSWER_BYTES, HELLO_BYTES, Hello, Nonce, Nonces};
use crate::outbox::{NotSent, Outbox, Outgoing, Sending};
use crate::roster::{HEARD_EVERY, Roster};
use crate::silence;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{Incarnation, NodeId};
use ferrite_io::{AbortOnPanic, Random};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FIRST: usize = 2;
/// Between two looks at deadlines and at nodes to dial, if there is something to look at.
const TICK: Duration = Duration::from_millis(50);
/// And if there is nothing.
const TICK_MAX: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 256 * 1024;
/// Read from one connection, or written to it, before others have their turn.
const BYTES_PER_TURN: usize = 1 << 20;
/// Connections that are taken before those that are there have their turn.
const ACCEPTED_PER_TURN: usize = 32;

/// The way to the other nodes.
#[derive(Clone)]
pub struct Peers(Arc<Shared>);

struct Shared {
    roster: Mutex<Roster>,
    addresses: Mutex<BTreeMap<NodeId, Vec<SocketAddr>>>,
    limits: Limits,
    random: Mutex<Box<dyn Random>>,
    handler: Arc<dyn Handler>,
    /// The control lane's, and the others'.
    threads: [ThreadShared; 2],
    /// How often the set of nodes was given.
    changes: AtomicU64,
    stop: AtomicBool,
    joins: Mutex<Vec<JoinHandle<()>>>,
}

struct ThreadShared {
    /// The outboxes of the open connections.
    outboxes: Mutex<BTreeMap<(NodeId, Lane), Outbox>>,
    waker: Waker,
    commands: Sender<Command>,
}

enum Command {
    /// A connection that may be taken and belongs to the other thread.
    Adopt(TcpStream, Hello, u16, Nonce),
    Resume(NodeId, Lane),
    /// The node has started again: what is open to an earlier start of it leads nowhere.
    Started(NodeId, Incarnation),
}

fn thread_of(lane: Lane) -> usize {
    usize::from(lane != Lane::Control)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a panic on a connection's thread ends the process")
}

/// Listens, and connects to the nodes that [`Peers::expect`] names.
pub fn start(
    here: Hello,
    listener: TcpListener,
    limits: Limits,
    random: Box<dyn Random>,
    handler: Arc<dyn Handler>,
) -> io::Result<Peers> {
    let polls = vec![Poll::new()?, Poll::new()?];
    let commands = vec![unbounded(), unbounded()];
    let thread = |number: usize| -> io::Result<ThreadShared> {
        let waker = Waker::new(polls[number].registry(), WAKER)?;
        Ok(ThreadShared { outboxes: Mutex::default(), waker, commands: commands[number].0.clone() })
    };
    let shared = Arc::new(Shared {
        roster: Mutex::new(Roster::new(here)),
        addresses: Mutex::default(),
        limits,
        random: Mutex::new(random),
        handler,
        threads: [thread(0)?, thread(1)?],
        changes: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        joins: Mutex::default(),
    });
    let mut listener = Some(listener);
    for (number, (poll, (_, commands))) in polls.into_iter().zip(commands).enumerate() {
        let mut listener = listener.take();
        if let Some(listener) = &mut listener {
            poll.registry().register(listener, LISTENER, Interest::READABLE)?;
        }
        let connections = Connections {
            number,
            poll,
            listener,
            commands,
            shared: Arc::clone(&shared),
            open: BTreeMap::new(),
            next: FIRST,
            dials: BTreeMap::new(),
            again: VecDeque::new(),
            more_to_accept: false,
            next_tick: Instant::now(),
            changes: 0,
            buffer: vec![0; READ_BYTES],
        };
        let name = if number == 0 { "peer-control" } else { "peer" };
        let join = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _guard = AbortOnPanic::default();
            connections.run();
        })?;
        locked(&shared.joins).push(join);
    }
    Ok(Peers(shared))
}

impl Peers {
    /// The nodes of the cluster and where they listen: of several addresses the next is tried if
    /// one does not answer. Connections to others are closed.
    pub fn expect(&self, nodes: &[(NodeId, Vec<SocketAddr>)]) {
        locked(&self.0.roster).expect(nodes.iter().map(|(node, _)| *node));
        *locked(&self.0.addresses) = nodes.iter().cloned().collect();
        self.look_soon();
    }

    /// This node is now in a cluster, or is another start of it.
    pub fn introduce(&self, here: Hello) {
        locked(&self.0.roster).introduce(here);
        self.look_soon();
    }

    fn look_soon(&self) {
        self.0.changes.fetch_add(1, Ordering::Release);
        self.wake_all();
    }

    /// Takes the message for sending, whole or not at all.
    pub fn send(&self, to: NodeId, lane: Lane, message: Outgoing) -> Result<(), NotSent> {
        assert!(
            message.len() <= self.0.limits.message_bytes_max[lane as usize],
            "a message has at most as many bytes as its lane takes"
        );
        let thread = &self.0.threads[thread_of(lane)];
        let mut outboxes = locked(&thread.outboxes);
        let outbox = outboxes.get_mut(&(to, lane)).ok_or(NotSent::NotConnected)?;
        let idle = outbox.waiting() == 0;
        outbox.put(message)?;
        drop(outboxes);
        if idle {
            thread.waker.wake().expect("a thread that is there can be woken");
        }
        Ok(())
    }

    /// When something came from the node's latest start, on whatever lane, to a quarter of a
    /// second.
    pub fn heard(&self, node: NodeId) -> Option<Instant> {
        locked(&self.0.roster).heard_last(node)
    }

    /// Bytes that wait to be sent; None where the lane is not open.
    pub fn waiting(&self, to: NodeId, lane: Lane) -> Option<usize> {
        locked(&self.0.threads[thread_of(lane)].outboxes).get(&(to, lane)).map(Outbox::waiting)
    }

    /// There is room again for messages of a lane.
    pub fn resume(&self, from: NodeId, lane: Lane) {
        let thread = &self.0.threads[thread_of(lane)];
        let _ = thread.commands.send(Command::Resume(from, lane));
        thread.waker.wake().expect("a thread that is there can be woken");
    }

    /// Closes all connections and ends the threads.
    pub fn stop(self) {
        self.0.stop.store(true, Ordering::Release);
        self.wake_all();
        for join in locked(&self.0.joins).drain(..) {
            join.join().expect("a connection's thread does not panic");
        }
    }

    fn wake_all(&self) {
        self.0.threads.iter().for_each(|thread| thread.waker.wake().expect("a thread that is there can be woken"));
    }
}

enum State {
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

struct Connection {
    stream: TcpStream,
    address: SocketAddr,
    state: State,
    /// Of the handshake: what came, and what is to be sent.
    greeting: Vec<u8>,
    /// This many bytes of it are read before they are looked at.
    wanted: usize,
    to_send: Vec<u8>,
    since: Instant,
    /// The handler has no room.
    waits: bool,
}

/// When a node is tried again, and where.
struct Dial {
    next: Instant,
    pause: Duration,
    /// Attempts that have failed: each is at the next of its addresses.
    failed: usize,
}

struct Connections {
    number: usize,
    poll: Poll,
    listener: Option<TcpListener>,
    commands: Receiver<Command>,
    shared: Arc<Shared>,
    open: BTreeMap<usize, Connection>,
    next: usize,
    dials: BTreeMap<(NodeId, Lane), Dial>,
    /// Connections that have more to read or to write.
    again: VecDeque<usize>,
    /// There may be more connections to take.
    more_to_accept: bool,
    /// When deadlines and nodes to dial are looked at next.
    next_tick: Instant,
    /// As of [`Shared::changes`] when it was looked at last.
    changes: u64,
    buffer: Vec<u8>,
}

impl Connections {
    fn run(mut self) {
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

    fn add(&mut self, mut stream: TcpStream, address: SocketAddr, state: State, to_send: Vec<u8>) -> Option<usize> {
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

    fn lanes(&self) -> &'static [Lane] {
        if self.number == 0 { &Lane::ALL[..1] } else { &Lane::ALL[1..] }
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
                let taken = frames.take(bytes, |message| {
                    waits |= handler.received(node, incarnation, lane, message) == Room::Wait;
                });
                connection.waits |= waits;
                if let Err(error) = taken {
                    self.shared.handler.notice(&format!(
                        "node {node} ({}) sent what makes no sense: {error}",
                        connection.address.ip()
                    ));
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
                let taken = frames.take(bytes, |message| question = question.take().or(Some(message)));
                match (taken, question) {
                    (Ok(()), None) => {}
                    (Ok(()), Some(question)) => self.inquired(number, question),
                    (Err(error), _) => {
                        self.shared
                            .handler
                            .notice(&format!("{} sent what makes no sense: {error}", connection.address.ip()));
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
    fn opened(&mut self, number: usize, (node, incarnation, lane): (NodeId, Incarnation, Lane), begins: (u32, u32)) {
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
    fn flush(&mut self, number: usize) {
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
                        sending.take(outbox);
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

    fn close(&mut self, number: usize) {
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
