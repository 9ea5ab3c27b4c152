//! The sockets: two threads, one for the control lane, one for all others.
//!
//! Of two nodes the one with the higher id dials, so that there is one connection for each lane. A
//! newer connection of a lane takes the place of the older one.

mod connections;
mod dial;
mod greet;

use crate::frame::Lane;
use crate::handler::{Handler, Limits};
use crate::handshake::{Hello, Nonce};
use crate::outbox::{NotSent, Outbox, Outgoing};
use crate::roster::Roster;
use connections::{Connections, WAKER};
use crossbeam_channel::{Sender, unbounded};
use ferrite_base::{Incarnation, NodeId};
use ferrite_io::{AbortOnPanic, Random};
use mio::net::{TcpListener, TcpStream};
use mio::{Poll, Waker};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

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
    /// Which lanes this node dials.
    lanes: [AtomicBool; Lane::ALL.len()],
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
    Break(NodeId, Lane),
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
        lanes: Lane::ALL.map(|lane| AtomicBool::new(lane != Lane::Lots)),
        stop: AtomicBool::new(false),
        joins: Mutex::default(),
    });
    let mut listener = Some(listener);
    for (number, (poll, (_, commands))) in polls.into_iter().zip(commands).enumerate() {
        let connections = Connections::new(number, poll, listener.take(), commands, &shared)?;
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
        self.recheck_roster();
    }

    /// This node is now in a cluster, or is another start of it.
    pub fn introduce(&self, here: Hello) {
        locked(&self.0.roster).introduce(here);
        self.recheck_roster();
    }

    /// This lane is dialed, too: that of lots is not until then, so that nodes without it are not
    /// asked for it.
    pub fn open_lane(&self, lane: Lane) {
        self.0.lanes[lane as usize].store(true, Ordering::Release);
        self.recheck_roster();
    }

    /// Closes a lane to a node, which is dialed anew: both sides hear that messages may be lost.
    pub fn break_lane(&self, node: NodeId, lane: Lane) {
        let thread = &self.0.threads[thread_of(lane)];
        let _ = thread.commands.send(Command::Break(node, lane));
        thread.waker.wake().expect("a thread that is there can be woken");
    }

    fn recheck_roster(&self) {
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
