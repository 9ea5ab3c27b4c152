//! The yardstick: a bare loop that does Voter's work on plain hash tables behind the same wire format.
//!
//! One thread, one `epoll`, no SQL, no undo, no log, no other thread to hand anything to. What a server can do at most with
//! this protocol on this machine; `ferrite bench limit` measures it with the very client that measures the server.

use crate::area_codes::area_codes;
use crate::error::{BenchResult, Doing};
use bumpalo::Bump;
use ferrite_base::UserError;
use ferrite_value::Value;
use ferrite_wire::login::write_failure as write_login_failure;
use ferrite_wire::response::{write_error, write_pong, write_scalar};
use ferrite_wire::{Invocation, LoginAccepted, LoginRequest, frame};
use hashbrown::HashMap;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write};
use std::net::SocketAddr;

const LISTENER: Token = Token(usize::MAX - 1);
const RECEIVE_BYTES: usize = 256 * 1024;

/// Listens and serves until the process is ended. `ready` is told the address once connections are taken.
pub fn serve(listen: SocketAddr, contestants: i64, ready: impl FnOnce(SocketAddr)) -> BenchResult<()> {
    let mut poll = Poll::new().doing("setting up the poll")?;
    let mut listener = TcpListener::bind(listen).doing(format!("listening on {listen}"))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE).doing("registering the listener")?;
    ready(listener.local_addr().doing("asking for the address")?);

    let mut tables = Tables::new(contestants);
    let mut arena = Bump::new();
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Events::with_capacity(256);
    loop {
        let busy = connections.iter().flatten().any(|connection| connection.readable);
        let wait = busy.then_some(std::time::Duration::ZERO);
        match poll.poll(&mut events, wait) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error).doing("waiting for events"),
            _ => {}
        }
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut connections).doing("accepting a connection")?;
            } else if let Some(Some(connection)) = connections.get_mut(event.token().0) {
                connection.readable |= event.is_readable() || event.is_read_closed();
                connection.closing |= event.is_read_closed();
            }
        }
        for slot in &mut connections {
            let Some(connection) = slot else {
                continue;
            };
            if connection.turn(&mut tables, &arena).is_err() {
                *slot = None;
            }
            arena.reset();
        }
    }
}

fn accept(listener: &TcpListener, poll: &Poll, connections: &mut Vec<Option<Connection>>) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => {
                let slot = connections.iter().position(Option::is_none).unwrap_or(connections.len());
                poll.registry().register(&mut stream, Token(slot), Interest::READABLE | Interest::WRITABLE)?;
                stream.set_nodelay(true)?;
                let connection = Connection::new(stream, slot as i64);
                if slot == connections.len() {
                    connections.push(Some(connection));
                } else {
                    connections[slot] = Some(connection);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// The connection is to be closed.
struct Closed;

impl From<io::Error> for Closed {
    fn from(_: io::Error) -> Self {
        Closed
    }
}

struct Connection {
    stream: TcpStream,
    id: i64,
    logged_in: bool,
    readable: bool,
    closing: bool,
    input: Vec<u8>,
    filled: usize,
    out: Vec<u8>,
    sent: usize,
}

impl Connection {
    fn new(stream: TcpStream, id: i64) -> Connection {
        let (input, out) = (vec![0; RECEIVE_BYTES], Vec::with_capacity(RECEIVE_BYTES));
        Connection { stream, id, logged_in: false, readable: true, closing: false, input, filled: 0, out, sent: 0 }
    }

    /// Reads once, does everything that came, writes the answers.
    fn turn(&mut self, tables: &mut Tables, arena: &Bump) -> Result<(), Closed> {
        if self.readable {
            let room = &mut self.input[self.filled..];
            let room_bytes = room.len();
            match self.stream.read(room) {
                Ok(0) => return Err(Closed),
                Ok(bytes) => {
                    self.filled += bytes;
                    self.readable = bytes == room_bytes || self.closing;
                    self.handle_received(tables, arena)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    fn handle_received(&mut self, tables: &mut Tables, arena: &Bump) -> Result<(), Closed> {
        let mut handled = 0;
        while let Some((size, body)) = frame::split(&self.input[handled..self.filled]).map_err(|_| Closed)? {
            handled += size;
            if self.logged_in {
                answer(body, tables, arena, &mut self.out)?;
            } else {
                log_in(body, self.id, &mut self.out)?;
                self.logged_in = true;
            }
        }
        self.input.copy_within(handled..self.filled, 0);
        self.filled -= handled;
        // A frame as large as the buffer is no call of this load.
        if self.filled == self.input.len() { Err(Closed) } else { Ok(()) }
    }
}

fn log_in(body: &[u8], id: i64, out: &mut Vec<u8>) -> Result<(), Closed> {
    match LoginRequest::parse(body) {
        Ok(_) => {
            LoginAccepted {
                host_id: 0,
                connection_id: id,
                cluster_start_ms: 0,
                leader_address: [127, 0, 0, 1],
                build: "ferrite-limit",
            }
            .write(out);
            Ok(())
        }
        Err(failure) => {
            write_login_failure(out, failure);
            Err(Closed)
        }
    }
}

#[inline]
fn answer(body: &[u8], tables: &mut Tables, arena: &Bump, out: &mut Vec<u8>) -> Result<(), Closed> {
    let call = Invocation::parse(body).map_err(|_| Closed)?;
    if call.procedure != "Vote" {
        answer_other(&call, tables, out);
        return Ok(());
    }
    let parameters = call.parameters.decode(arena).map_err(|_| Closed)?;
    match *parameters {
        [Value::Integer(phone), Value::Integer(contestant), Value::Integer(votes_max)] => {
            write_scalar(out, call.handle, tables.vote(phone, contestant, votes_max));
        }
        _ => write_error(out, call.handle, &UserError::parameters("Vote needs phone, contestant, votes_max")),
    }
    Ok(())
}

#[cold]
fn answer_other(call: &Invocation<'_>, tables: &Tables, out: &mut Vec<u8>) {
    match call.procedure {
        "Count" => write_scalar(out, call.handle, tables.votes.len() as i64),
        "@Ping" => write_pong(out, call.handle),
        name => {
            let error =
                UserError::new(ferrite_base::ErrorKind::UnknownProcedure, "FE000", format!("no procedure {name}"));
            write_error(out, call.handle, &error);
        }
    }
}

#[expect(dead_code, reason = "written as the work asks for; nothing reads the rows back")]
struct Vote {
    phone: i64,
    contestant: i32,
    state: [u8; 2],
}

/// Room made beforehand: a table that grows moves all its entries at once, for up to half a second, and what is to be measured
/// is the machine's limit for the work, not for moving. Memory is taken from the system only as it is used.
const ROWS_EXPECTED: usize = 28_000_000;

/// Voter's tables and views.
struct Tables {
    contestants: HashMap<i64, ()>,
    area_codes: HashMap<i64, [u8; 2]>,
    votes: Vec<Vote>,
    votes_by_phone: HashMap<i64, i64>,
    votes_by_contestant_and_state: HashMap<(i32, [u8; 2]), i64>,
}

impl Tables {
    fn new(contestants: i64) -> Tables {
        Tables {
            contestants: (1..=contestants).map(|number| (number, ())).collect(),
            area_codes: area_codes().iter().map(|area| (i64::from(area.code), area.state)).collect(),
            votes: Vec::with_capacity(ROWS_EXPECTED),
            votes_by_phone: HashMap::with_capacity(ROWS_EXPECTED),
            votes_by_contestant_and_state: HashMap::new(),
        }
    }

    #[inline]
    fn vote(&mut self, phone: i64, contestant: i64, votes_max: i64) -> i64 {
        if !self.contestants.contains_key(&contestant) {
            return 1;
        }
        let by_phone = self.votes_by_phone.entry(phone).or_insert(0);
        if *by_phone >= votes_max {
            return 2;
        }
        let state = self.area_codes.get(&(phone / 10_000_000)).copied().unwrap_or(*b"XX");
        *by_phone += 1;
        *self.votes_by_contestant_and_state.entry((contestant as i32, state)).or_insert(0) += 1;
        self.votes.push(Vote { phone, contestant: contestant as i32, state });
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_as_the_procedure_does() {
        let mut tables = Tables::new(6);
        let phone = 2_050_000_001;
        assert_eq!(tables.vote(phone, 999, 2), 1);
        assert_eq!(tables.vote(phone, 1, 2), 0);
        assert_eq!(tables.vote(phone, 6, 2), 0);
        assert_eq!(tables.vote(phone, 6, 2), 2);
        assert_eq!(tables.vote(1_000_000_000, 1, 2), 0);
        assert_eq!(tables.votes.len(), 3);
        assert_eq!(tables.votes_by_contestant_and_state[&(6, *b"AL")], 1);
        assert_eq!(tables.votes_by_contestant_and_state[&(1, *b"XX")], 1);
    }
}
