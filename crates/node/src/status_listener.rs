//! The administration port while the database is being recovered, and while a node waits for the
//! others of its cluster: who asks hears how far that is, and that nothing else goes yet.
//!
//! Owns the connections that come meanwhile. Promises that none of them outlives the recovery (who
//! wants more connects again), and that recovery waits for none of them. Does not know the
//! database: there is none yet.

use ferrite_base::{ErrorKind, UserError, limits};
use ferrite_io::Clock;
use ferrite_partition::RecoveryProgress;
use ferrite_system::result::{SystemTable, write_response};
use ferrite_system::statistics;
use ferrite_value::Value;
use ferrite_wire::login::{self, LoginAccepted, LoginFailure, LoginRequest};
use ferrite_wire::{Invocation, frame, response};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::io::{self, ErrorKind::Interrupted, ErrorKind::WouldBlock, Read, Write};
use std::thread;

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
const FIRST_VISITOR: usize = 2;
/// No question about a recovery is longer.
const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// What is done meanwhile.
#[derive(Clone, Copy)]
pub enum Meanwhile<'d> {
    Recovers(&'d RecoveryProgress, &'d dyn Clock),
    /// The node waits for others: how it sees its cluster.
    Waits(&'d (dyn Fn() -> Vec<SystemTable> + Sync)),
}

/// Does `work`, and answers at the listener meanwhile.
pub fn open_during<T>(
    listener: &mut TcpListener,
    meanwhile: Meanwhile<'_>,
    build: &str,
    work: impl FnOnce() -> T,
) -> T {
    let prepared = Poll::new().and_then(|poll| {
        let waker = Waker::new(poll.registry(), WAKER)?;
        poll.registry().register(listener, LISTENER, Interest::READABLE)?;
        Ok((poll, waker))
    });
    // The work matters more than being watched.
    let Ok((poll, waker)) = prepared else { return work() };
    thread::scope(|scope| {
        let listening = StatusListener { poll, listener, visitors: Vec::new(), meanwhile, build };
        let serving = thread::Builder::new().name("recovery".to_owned()).spawn_scoped(scope, move || listening.run());
        let done = work();
        if serving.is_ok() {
            waker.wake().expect("a thread of this process can be woken");
        }
        done
    })
}

struct StatusListener<'d> {
    poll: Poll,
    listener: &'d mut TcpListener,
    visitors: Vec<Option<Visitor>>,
    meanwhile: Meanwhile<'d>,
    build: &'d str,
}

struct Visitor {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    logged_in: bool,
    /// Once its answers are written.
    leaves: bool,
}

impl StatusListener<'_> {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        loop {
            match self.poll.poll(&mut events, None) {
                Ok(()) => {}
                Err(error) if error.kind() == Interrupted => continue,
                Err(_) => break,
            }
            if events.iter().any(|event| event.token() == WAKER) {
                break;
            }
            for token in events.iter().map(|event| event.token()) {
                if token == LISTENER {
                    self.accept();
                } else {
                    self.serve(token.0 - FIRST_VISITOR);
                }
            }
        }
        // The listener goes on elsewhere.
        let _ = self.poll.registry().deregister(self.listener);
    }

    fn accept(&mut self) {
        // Whatever else it says, it says again.
        while let Ok((mut stream, _)) = self.listener.accept() {
            let free = self.visitors.iter().position(Option::is_none);
            let index = free.unwrap_or(self.visitors.len());
            if index >= limits::ADMIN_CONNECTIONS_RESERVED {
                let mut refusal = Vec::new();
                login::write_failure(&mut refusal, LoginFailure::TooManyConnections);
                let _ = stream.write(&refusal);
                continue;
            }
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, Token(index + FIRST_VISITOR), interest).is_err() {
                continue;
            }
            let visitor = Visitor { stream, input: Vec::new(), output: Vec::new(), logged_in: false, leaves: false };
            if index == self.visitors.len() {
                self.visitors.push(Some(visitor));
            } else {
                self.visitors[index] = Some(visitor);
            }
            self.serve(index);
        }
    }

    fn serve(&mut self, index: usize) {
        let Some(mut visitor) = self.visitors.get_mut(index).and_then(Option::take) else { return };
        if self.converse(&mut visitor).is_ok_and(|stays| stays) {
            self.visitors[index] = Some(visitor);
        }
    }

    /// Reads what is there, answers it, and writes what can be written. Whether the visitor stays.
    fn converse(&self, visitor: &mut Visitor) -> io::Result<bool> {
        let mut piece = [0; 4_096];
        while !visitor.leaves {
            match visitor.stream.read(&mut piece) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    visitor.input.extend_from_slice(&piece[..count]);
                    self.answer(visitor);
                }
                Err(error) if error.kind() == Interrupted => {}
                Err(error) if error.kind() == WouldBlock => break,
                Err(error) => return Err(error),
            }
            // Who asks for more than it reads has gone astray.
            visitor.leaves |= visitor.input.len() > REQUEST_BYTES_MAX || visitor.output.len() > REQUEST_BYTES_MAX;
        }
        while !visitor.output.is_empty() {
            match visitor.stream.write(&visitor.output) {
                Ok(0) => return Ok(false),
                Ok(count) => drop(visitor.output.drain(..count)),
                Err(error) if error.kind() == Interrupted => {}
                Err(error) if error.kind() == WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(!visitor.leaves)
    }

    fn answer(&self, visitor: &mut Visitor) {
        let input = std::mem::take(&mut visitor.input);
        let mut rest = &input[..];
        while !visitor.leaves {
            match frame::split(rest) {
                Ok(Some((length, body))) => {
                    rest = &rest[length..];
                    if visitor.logged_in { self.call(visitor, body) } else { self.login(visitor, body) }
                }
                Ok(None) => break,
                Err(_) => visitor.leaves = true,
            }
        }
        visitor.input = rest.to_vec();
    }

    fn login(&self, visitor: &mut Visitor, body: &[u8]) {
        if let Err(failure) = LoginRequest::parse(body) {
            login::write_failure(&mut visitor.output, failure);
            visitor.leaves = true;
            return;
        }
        // When the cluster began stands in the log that is being read.
        let accepted = LoginAccepted {
            host_id: 0,
            connection_id: 0,
            cluster_start_ms: 0,
            leader_address: [127, 0, 0, 1],
            build: self.build,
        };
        accepted.write(&mut visitor.output);
        visitor.logged_in = true;
    }

    fn call(&self, visitor: &mut Visitor, body: &[u8]) {
        let invocation = match Invocation::parse(body) {
            Ok(invocation) => invocation,
            Err(error) => {
                visitor.leaves = true;
                if let Some(handle) = error.handle {
                    let error = UserError::parameters(format!("the call is malformed: {}", error.reason));
                    response::write_error(&mut visitor.output, handle, &error);
                }
                return;
            }
        };
        let about = |selector: &str| {
            let first = invocation.parameters.nth(0);
            matches!(first, Ok(Some(Value::Text(text))) if text.eq_ignore_ascii_case(selector))
        };
        let unavailable = |text: String| UserError::new(ErrorKind::Unavailable, "57P03", text);
        let result = match self.meanwhile {
            Meanwhile::Recovers(progress, clock) => {
                let seen = progress.look(clock.monotonic_nanos());
                if invocation.procedure == "@Statistics" && about("RECOVERY") {
                    Ok(vec![statistics::progress(Some(seen))])
                } else {
                    Err(unavailable(format!("the database is not open yet; {seen}"))
                        .with_hint("try again when the server has said that it is ready"))
                }
            }
            Meanwhile::Waits(status) if invocation.procedure == "@ClusterStatus" => Ok(status()),
            Meanwhile::Waits(_) => {
                Err(unavailable("this node does not take part in its cluster yet: it waits for other nodes".to_owned())
                    .with_hint("ferrite admin status shows who is missing; or ask another node"))
            }
        };
        write_response(&mut visitor.output, invocation.handle, &result);
    }
}

#[cfg(test)]
mod tests;
