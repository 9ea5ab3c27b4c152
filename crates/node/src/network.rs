//! A network thread: sockets in, batches of calls out; answers in, sockets out.
//!
//! One turn reads what every ready connection has, cuts it into calls, hands each partition its
//! batch, then writes the answers that have come. Nothing here waits for a transaction.

use crate::connection::{self, Connection, is_admin};
use crate::dispatch::{Dispatcher, Handles};
use crate::mailbox::{Mail, NetworkMailbox};
use crossbeam_channel::Receiver;
use ferrite_base::{limits, memory};
use ferrite_io::{Clock, SystemClock};
use ferrite_member::forward::Outstanding;
use ferrite_notice::Notice;
use ferrite_partition::cancel::Cancel;
use ferrite_partition::{AnswerBatch, MailboxHandle};
use ferrite_system::latency::Latencies;
use ferrite_system::traffic::{NetworkReport, Traffic};
use ferrite_system::{system_catalog, topology};
use ferrite_wire::handles;
use ferrite_wire::login::{self, LoginFailure};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod read;
mod strangers;

use read::BUFFER_BYTES;
use strangers::Ledger;

pub const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
const ADMIN_LISTENER: Token = Token(2);
const FIRST_CONNECTION: usize = 3;

/// How often connections are looked at for logins and frames that do not come and answers that are
/// not read, unless that may take a shorter time only.
const SWEEP: Duration = Duration::from_secs(1);

/// Where clients come in. One thread has both.
pub struct Listeners {
    pub clients: TcpListener,
    pub admin: Option<TcpListener>,
}

pub struct NetworkThread {
    poll: Poll,
    listeners: Option<Listeners>,
    mail: Receiver<Mail>,
    mailbox: Arc<NetworkMailbox>,
    node: Handles,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Where the next accepted connection goes.
    next_thread: usize,
    dispatcher: Dispatcher,
    buffer: Vec<u8>,
    /// Connections that may have more to read although no event will report it.
    ready: Vec<usize>,
    /// None of these is read before calls are on their way that were handed to the thread that
    /// forwards. It wakes this one.
    waits: bool,
    last_sweep: Instant,
    latencies: Latencies,
    /// Bytes and messages of connections that are gone.
    closed: Traffic,
    accepted: u64,
    refused: u64,
    /// Calls that are still to be answered of connections that are gone.
    gone: HashMap<u64, Outstanding>,
    /// Connections that wait until the node has room, in the order in which they came.
    held: Vec<usize>,
    ledger: Ledger,
    sweep_every: Duration,
    /// The system has refused a new connection: it lacks something that a connection that is closed
    /// may give back.
    starved: bool,
    /// A connection was closed since.
    freed: bool,
    stopping: bool,
    /// Peers that do not read are not waited for any longer.
    hurry: bool,
}

impl NetworkThread {
    pub fn new(
        poll: Poll,
        mut listeners: Option<Listeners>,
        mail: Receiver<Mail>,
        mailbox: Arc<NetworkMailbox>,
        node: Handles,
    ) -> io::Result<NetworkThread> {
        if let Some(Listeners { clients, admin }) = &mut listeners {
            poll.registry().register(clients, LISTENER, Interest::READABLE)?;
            if let Some(admin) = admin {
                poll.registry().register(admin, ADMIN_LISTENER, Interest::READABLE)?;
            }
        }
        let limits = node.connections.limits;
        let sweep_every = [limits.login_time_max, limits.unread_time_max, limits.frame_time_max]
            .into_iter()
            .fold(SWEEP, |every, time| every.min(time / 4));
        let handle: MailboxHandle = Arc::clone(&mailbox) as MailboxHandle;
        Ok(NetworkThread {
            poll,
            listeners,
            mail,
            mailbox,
            dispatcher: Dispatcher::new(node.clone(), handle),
            node,
            connections: Vec::new(),
            free: Vec::new(),
            next_thread: 0,
            buffer: vec![0; BUFFER_BYTES],
            ready: Vec::new(),
            waits: false,
            last_sweep: Instant::now(),
            latencies: Latencies::default(),
            closed: Traffic::default(),
            accepted: 0,
            refused: 0,
            gone: HashMap::new(),
            held: Vec::new(),
            ledger: Ledger::default(),
            sweep_every: sweep_every.max(Duration::from_millis(1)),
            starved: false,
            freed: false,
            stopping: false,
            hurry: false,
        })
    }

    /// Runs until told to stop and every answer is written.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while !(self.stopping && self.connections.iter().all(Option::is_none)) {
            let rests = self.ready.is_empty() || self.waits;
            let timeout = if rests { Some(self.sweep_every) } else { Some(Duration::ZERO) };
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => panic!("waiting for sockets failed: {error}"),
            }
            self.turn(&events);
        }
    }

    /// One turn. The main path begins here, at [`Self::read`], which leaves calls in the
    /// dispatcher's batches; `send_batches` hands these to the partitions. It ends here, too: the
    /// answers that have come are mail, which [`Self::handle`] delivers.
    fn turn(&mut self, events: &Events) {
        self.mailbox.is_awake();
        self.dispatcher.refresh_catalog();
        self.waits = !self.dispatcher.refresh_way();
        for event in events {
            match event.token() {
                WAKER => {}
                LISTENER | ADMIN_LISTENER => self.accept(),
                Token(token) => {
                    let index = token - FIRST_CONNECTION;
                    if let Some(connection) = self.connections[index].as_mut() {
                        if event.is_readable() || event.is_read_closed() {
                            connection.readable = true;
                            connection.read_closed |= event.is_read_closed();
                            self.ready.push(index);
                        }
                        if event.is_writable() && connection.unwritten() > 0 {
                            // It may have been waiting for this to be closed, or to be read again.
                            self.ready.push(index);
                            self.settle(index);
                        }
                    }
                }
            }
        }
        if !self.waits {
            // A connection may be listed twice; the second time there is nothing to read.
            let mut ready = std::mem::take(&mut self.ready);
            for index in ready.drain(..) {
                self.read(index);
            }
            ready.append(&mut self.ready);
            self.ready = ready;
        }
        self.dispatcher.send_batches();
        self.mailbox.taking();
        while let Ok(mail) = self.mail.try_recv() {
            self.handle(mail);
        }
        self.report_ledger();
        if self.starved && std::mem::take(&mut self.freed) {
            self.accept();
        }
        if self.last_sweep.elapsed() >= self.sweep_every {
            self.sweep();
        }
    }

    /// Carries out what other threads have sent: answers, most of all.
    fn handle(&mut self, mail: Mail) {
        match mail {
            Mail::Answers(mut answers) => {
                self.deliver(&mut answers);
                self.dispatcher.recycle(answers);
            }
            // One that was on its way here when the stop came is closed.
            Mail::Accepted { .. } if self.stopping => self.node.connections.closed(),
            Mail::Accepted { stream, admin } => self.open(stream, admin),
            Mail::Cancel { connection: number, handle } => {
                let host = self.node.identity.host_id;
                let mut open = self.connections.iter_mut().flatten();
                if let Some(connection) = open.find(|open| connection::public_id(host, open.id) == number) {
                    self.dispatcher.cancel(connection, handle);
                }
            }
            Mail::Room => {
                for index in std::mem::take(&mut self.held) {
                    if let Some(connection) = self.connections[index].as_mut() {
                        connection.in_line = false;
                        connection.wake();
                        self.ready.push(index);
                    }
                }
            }
            Mail::CatalogChanged | Mail::TopologyChanged => self.push_to_subscribers(),
            // Batches leave before mail is taken.
            Mail::Passed(to) => drop(to.send(())),
            Mail::Behind(behind) => drop(behind),
            Mail::Report(to) => {
                // The caller may have given up waiting.
                let _ = to.send(self.report());
            }
            Mail::Hurry => {
                self.hurry = true;
                self.sweep_every = limits::STOP_UNREAD_TIME_MAX / 4;
            }
            Mail::Stop => {
                self.stopping = true;
                if let Some(Listeners { mut clients, admin }) = self.listeners.take() {
                    let _ = self.poll.registry().deregister(&mut clients);
                    if let Some(mut admin) = admin {
                        let _ = self.poll.registry().deregister(&mut admin);
                    }
                }
                for index in 0..self.connections.len() {
                    if let Some(connection) = self.connections[index].as_mut() {
                        connection.closing = true;
                        self.settle(index);
                    }
                }
            }
        }
    }

    fn accept(&mut self) {
        let Some(listeners) = self.listeners.take() else { return };
        self.starved = !self.accept_from(&listeners.clients, false);
        if let Some(listener) = &listeners.admin {
            self.starved |= !self.accept_from(listener, true);
        }
        self.listeners = Some(listeners);
    }

    /// Takes the connections that wait. False when the system refuses; then they wait on, and it is
    /// tried again when a connection is closed, or at the next sweep: never at once, which would
    /// repeat without end.
    fn accept_from(&mut self, listener: &TcpListener, admin: bool) -> bool {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    self.accepted += 1;
                    if !self.node.connections.opened(admin) {
                        self.refused += 1;
                        refuse(stream);
                        continue;
                    }
                    let thread = self.next_thread % self.node.mailboxes.len();
                    self.next_thread += 1;
                    if thread == 0 {
                        self.open(stream, admin);
                    } else {
                        self.node.mailboxes[thread].send(Mail::Accepted { stream, admin });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // The peer has gone already: the next may be there still.
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                }
                Err(error) => {
                    // Once for as long as it lasts.
                    if !self.starved {
                        ferrite_io::notify(Notice::ConnectionsNotAccepted { reason: error.to_string() });
                    }
                    return false;
                }
            }
        }
    }

    fn open(&mut self, stream: TcpStream, admin: bool) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let id = connection::id(self.node.connections.next_number(), index, admin);
        let settings = &self.node.settings;
        let calls = settings.connection_outstanding_calls;
        let bytes = settings.connection_outstanding_bytes;
        let mut connection = Connection::new(stream, id, Outstanding { calls, bytes });
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut connection.stream, Token(index + FIRST_CONNECTION), interest).is_err() {
            self.free.push(index);
            self.node.connections.closed();
            return;
        }
        self.connections[index] = Some(connection);
        self.ready.push(index);
    }

    fn close(&mut self, index: usize) {
        if let Some(mut connection) = self.connections[index].take() {
            let traffic = connection.traffic();
            self.closed.bytes_read += traffic.bytes_read;
            self.closed.messages_read += traffic.messages_read;
            self.closed.bytes_written += traffic.bytes_written;
            self.closed.messages_written += traffic.messages_written;
            let _ = self.poll.registry().deregister(&mut connection.stream);
            self.ledger.gone(&connection);
            self.free.push(index);
            self.node.connections.closed();
            self.freed = true;
            if connection.outstanding() > 0 {
                // What it has sent that is not executed yet is not worth it any more.
                self.gone.insert(connection.id, connection.work());
                self.node.cancelling.cancel(connection.id, Cancel::Gone);
            } else {
                if connection.listed {
                    self.node.cancelling.list.forget(connection.id);
                }
                self.node.cancelling.gone(connection.id);
            }
        }
    }

    /// Calls of a connection that is gone were answered.
    #[cold]
    fn answered_in_vain(&mut self, connection: u64, calls: usize) -> Outstanding {
        let Some(outstanding) = self.gone.get_mut(&connection) else { return Outstanding::default() };
        let before = *outstanding;
        outstanding.answered(calls);
        let answered = before - *outstanding;
        self.ledger.answered_in_vain(answered);
        if outstanding.calls == 0 {
            self.gone.remove(&connection);
            self.node.cancelling.list.forget(connection);
        }
        answered
    }

    fn report(&mut self) -> NetworkReport {
        let host = self.node.identity.host_id;
        NetworkReport {
            connections: self.connections.iter_mut().flatten().map(|open| open.report(host)).collect(),
            closed: self.closed.clone(),
            latencies: self.latencies.clone(),
            accepted: self.accepted,
            refused: self.refused,
        }
    }

    /// Writes what a connection has, and closes it if it is done.
    fn settle(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        let before = connection.unwritten();
        let flushed = connection.flush();
        self.dispatcher.keep_answers(&mut connection.spent);
        self.ledger.count(connection);
        if flushed.is_err() || connection.is_finished() {
            return self.close(index);
        }
        if connection.lacks_memory && connection.unwritten() < before {
            connection.wake();
        }
        if connection.may_have_more() {
            // What was just written made room, and no event will report it again.
            self.ready.push(index);
        }
    }

    /// Lets a connection read once and dispatches what came; the rest decides which connections
    /// wait for room, and which can continue. The bytes continue in [`Self::read_and_dispatch`].
    fn read(&mut self, index: usize) {
        if self.connections[index].as_ref().is_none_or(|connection| connection.held) {
            return;
        }
        self.read_and_dispatch(index);
        let Some(connection) = self.connections[index].as_mut() else { return };
        self.ledger.count(connection);
        if connection.held {
            if !std::mem::replace(&mut connection.in_line, true) {
                self.held.push(index);
            }
            if connection.lacks_memory {
                self.node.work.lacks_memory();
            } else if self.node.work.found_full() {
                self.wake_held();
            }
        }
        if self.ledger.is_large() {
            self.report_ledger();
        }
    }

    /// The node has room again, for connections that wait on any thread.
    #[cold]
    fn wake_held(&self) {
        for mailbox in self.node.mailboxes.iter() {
            mailbox.send(Mail::Room);
        }
    }

    /// Frames that waited go first; then one read, if the connection may hold more: by
    /// [`read::read_once`], which passes complete frames to [`Dispatcher::frames`].
    fn read_and_dispatch(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        if !is_admin(connection.id) {
            connection.room = self.ledger.room(&self.node.work);
        }
        if !connection.wants_reading() {
            if connection.lacks_room() {
                connection.wait_for_memory();
            }
            return;
        }
        if connection.has_frames {
            read::dispatch_kept(connection, &mut self.dispatcher);
            if connection.has_output() {
                return self.settle(index);
            }
        }
        if connection.has_frames || !connection.readable {
            return;
        }
        match read::read_once(connection, &mut self.dispatcher, &mut self.buffer) {
            Some(Ok(Some(0))) => self.peer_has_closed(index),
            Some(Ok(Some(_))) => {
                read::trim(connection);
                if connection.may_have_more() {
                    self.ready.push(index);
                }
                if connection.has_output() {
                    self.settle(index);
                }
            }
            Some(Ok(None)) if connection.has_output() => self.settle(index),
            Some(Err(_)) => self.close(index),
            Some(Ok(None)) | None => {}
        }
    }

    /// No client waits for the calls in flight.
    fn peer_has_closed(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        connection.closing = true;
        if connection.outstanding() > 0 {
            connection.listed = true;
            self.node.cancelling.cancel(connection.id, Cancel::Ended);
        }
        self.settle(index);
    }

    /// Sends answers to their connections: the end of the main path. Those of connections that are
    /// gone are dropped.
    fn deliver(&mut self, answers: &mut AnswerBatch) {
        let mut start = 0;
        let mut answered = Outstanding::default();
        let only_run = answers.runs.len() == 1;
        assert!(
            answers.runs.last().is_none_or(|last| last.end as usize == answers.bytes.len()),
            "runs are all of a batch"
        );
        let unread_bytes_max = self.node.connections.limits.unread_bytes_max.min(memory::clients_bytes_max());
        let micros = match answers.sent_micros {
            0 => None,
            sent => Some((SystemClock.wall_micros() - sent).max(0) as u64),
        };
        for run in &answers.runs {
            let range = start..run.end as usize;
            start = run.end as usize;
            let index = (run.connection & 0xffff_ffff) as usize;
            let Some(connection) = self.connections[index].as_mut().filter(|open| open.id == run.connection) else {
                answered += self.answered_in_vain(run.connection, run.calls as usize);
                continue;
            };
            let was_waiting = connection.lacks_memory || !connection.wants_reading();
            let before = connection.work();
            connection.answered(run.calls as usize, range.len());
            answered += before - connection.work();
            if connection.listed && connection.outstanding() == 0 {
                connection.listed = false;
                self.node.cancelling.list.forget(connection.id);
            }
            if let Some(micros) = micros {
                connection.waited(micros, u64::from(run.calls));
                self.latencies.record(micros, u64::from(run.calls));
            }
            let sent = match only_run {
                true => connection.send_buffer(&mut answers.bytes),
                false => connection.send(&answers.bytes[range]),
            };
            self.ledger.count(connection);
            if connection.lacks_memory {
                connection.wake();
            }
            if was_waiting && connection.may_have_more() {
                self.ready.push(index);
            }
            let unread = connection.unwritten();
            if unread > unread_bytes_max {
                let peer = connection.report(0).peer;
                ferrite_io::notify(Notice::AnswersNotRead { peer, bytes: unread, for_memory: false });
            }
            if sent.is_err() || unread > unread_bytes_max {
                self.close(index);
            } else if self.connections[index].as_ref().is_some_and(|open| open.unwritten() > 0 || open.closing) {
                self.settle(index);
            }
        }
        if self.node.work.give_back(answered) {
            self.wake_held();
        }
        // What these take where they are now counts before they go: others are built meanwhile.
        if self.ledger.is_large() {
            self.report_ledger();
        }
    }

    fn push_to_subscribers(&mut self) {
        self.dispatcher.refresh_catalog();
        if !self.connections.iter().flatten().any(|connection| connection.subscribed) {
            return;
        }
        let mut push = Vec::new();
        let hosts = self.node.topology.hosts();
        let ring = &self.node.submit.routes.ring;
        if hosts.keeps(self.node.identity.host_id) {
            system_catalog::write_procedures_push(&mut push, handles::PROCEDURES_PUSH, self.dispatcher.compiled());
        } else if let Some(told) = self.node.topology.procedures() {
            push.extend_from_slice(&told.push);
        }
        topology::write_push(&mut push, handles::TOPOLOGY_PUSH, &hosts, ring);
        for index in 0..self.connections.len() {
            if let Some(connection) = self.connections[index].as_mut().filter(|open| open.subscribed && !open.closing) {
                connection.out().extend_from_slice(&push);
                self.settle(index);
            }
        }
    }

    /// Ends what does not make progress, and takes connections that had to wait.
    fn sweep(&mut self) {
        self.last_sweep = Instant::now();
        // One that could not be accepted for want of file descriptors is not announced again.
        self.accept();
        self.end_stalled();
    }
}

/// Says that there are too many connections, and takes no room for that.
#[cold]
fn refuse(mut stream: TcpStream) {
    let mut answer = Vec::new();
    login::write_failure(&mut answer, LoginFailure::TooManyConnections);
    // What does not go at once is not waited for. A login that is left unread would take the answer
    // with it.
    let _ = stream.write(&answer);
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests;
