//! The ports while the database is being recovered, and while a node waits for the others of its
//! cluster. On the administration port an operator hears how far that is, and that nothing else
//! works yet. On the clients' port each login is refused with the reason, at once: a client with
//! other addresses continues with the next, and none waits for its connect timeout.
//!
//! Owns the connections that come meanwhile. Promises that recovery waits for none of them, that
//! they are few, and that those which are there as it ends are asked to connect again. Does not
//! know the database: it does not exist yet.

use ferrite_base::limits::{ADMIN_CONNECTIONS_RESERVED, UNOPENED_CONNECTIONS_MAX};
use ferrite_base::{ErrorKind, UserError};
use ferrite_io::Clock;
use ferrite_partition::RecoveryProgress;
use ferrite_system::result::{SystemTable, write_response};
use ferrite_system::statistics;
use ferrite_value::Value;
use ferrite_wire::login::{self, LoginAccepted, LoginFailure, LoginRequest};
use ferrite_wire::{Invocation, frame, response};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use std::io::{self, ErrorKind::Interrupted, ErrorKind::WouldBlock, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

const WAKER: Token = Token(0);
const ADMIN_LISTENER: Token = Token(1);
const CLIENT_LISTENER: Token = Token(2);
const FIRST_VISITOR: usize = 3;
/// No question about a recovery is longer.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// The message to a client as the node opens.
const JUST_OPENED: &str = "the server has just opened: connect again";
/// How long connected clients are asked to connect again.
const LATE_TIME_MAX: Duration = Duration::from_secs(3);

/// What is done meanwhile.
#[derive(Clone, Copy)]
pub enum Meanwhile<'d> {
    /// Before that the node may be in no cluster yet, and wait for others.
    Recovers(&'d RecoveryProgress, &'d dyn Clock, &'d (dyn Fn() -> Option<Awaited> + Sync)),
    /// The node waits for others: how it sees its cluster, and which nodes it waits for.
    Waits(&'d (dyn Fn() -> Vec<SystemTable> + Sync), &'d (dyn Fn() -> String + Sync)),
    /// Nothing any more: a client that connects now finds the database.
    Ended,
}

impl Meanwhile<'_> {
    /// Why there is no database yet.
    fn reason(&self) -> String {
        match self {
            Meanwhile::Recovers(progress, clock, awaits) => match awaits() {
                Some((_, awaited)) => format!("this node is in no cluster yet: it waits for {awaited}"),
                None => format!("the database is not open yet; {}", progress.read(clock.monotonic_nanos())),
            },
            Meanwhile::Waits(_, waits_for) => format!("this node is {}", waits_for()),
            Meanwhile::Ended => JUST_OPENED.to_owned(),
        }
    }
}

/// How a node that is in no cluster yet sees the others, and for what it waits, such as
/// `node 2 (db2:3021)`.
pub type Awaited = (Vec<SystemTable>, String);

/// Where connections come.
pub struct Ports<'l> {
    pub clients: &'l mut TcpListener,
    pub admin: Option<&'l mut TcpListener>,
}

impl Ports<'_> {
    fn register(&mut self, registry: &Registry) -> io::Result<()> {
        registry.register(self.clients, CLIENT_LISTENER, Interest::READABLE)?;
        match &mut self.admin {
            Some(admin) => registry.register(*admin, ADMIN_LISTENER, Interest::READABLE),
            None => Ok(()),
        }
    }

    /// They are served elsewhere from now on.
    fn deregister(&mut self, registry: &Registry) {
        let _ = registry.deregister(self.clients);
        if let Some(admin) = &mut self.admin {
            let _ = registry.deregister(*admin);
        }
    }
}

/// Does `work`, and answers at the ports meanwhile.
pub fn open_during<T>(
    mut ports: Ports<'_>,
    meanwhile: Meanwhile<'_>,
    build: &'static str,
    work: impl FnOnce() -> T,
) -> T {
    let prepared = Poll::new().and_then(|poll| {
        let waker = Waker::new(poll.registry(), WAKER)?;
        ports.register(poll.registry())?;
        Ok((poll, waker))
    });
    // The work matters more than being watched.
    let Ok((poll, waker)) = prepared else { return work() };
    let (done, late) = thread::scope(|scope| {
        let visitors = Visitors { poll, of: Vec::new(), came: 0, answers: Answers { meanwhile, build } };
        let serving =
            thread::Builder::new().name("recovery".to_owned()).spawn_scoped(scope, move || visitors.served_at(ports));
        let done = work();
        let late = serving.ok().and_then(|serving| {
            waker.wake().expect("a thread of this process can be woken");
            serving.join().expect("a thread that panics ends the process")
        });
        (done, late)
    });
    if let Some(late) = late {
        // Without it they see their connections end.
        let _ = thread::Builder::new().name("late visitors".to_owned()).spawn(move || late.told_to_call_again());
    }
    done
}

struct Visitors<'d> {
    poll: Poll,
    of: Vec<Option<Visitor>>,
    /// How many came in all.
    came: u64,
    answers: Answers<'d>,
}

/// The answers to visitors.
struct Answers<'d> {
    meanwhile: Meanwhile<'d>,
    build: &'static str,
}

struct Visitor {
    stream: TcpStream,
    /// From the administration port, where a login is taken.
    admin: bool,
    /// Those that came before it.
    number: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    logged_in: bool,
    /// Once its answers are written.
    leaves: bool,
}

impl Visitors<'_> {
    /// Those that are there when it ends, if any are.
    fn served_at(mut self, mut ports: Ports<'_>) -> Option<Visitors<'static>> {
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
                match (token, &ports.admin) {
                    (CLIENT_LISTENER, _) => self.accept(ports.clients, false),
                    (ADMIN_LISTENER, Some(admin)) => self.accept(admin, true),
                    _ => self.serve(token.0 - FIRST_VISITOR),
                }
            }
        }
        ports.deregister(self.poll.registry());
        let Visitors { poll, of, came, answers } = self;
        let answers = Answers { meanwhile: Meanwhile::Ended, build: answers.build };
        Some(Visitors { poll, of, came, answers }).filter(Visitors::are_there)
    }

    fn told_to_call_again(mut self) {
        let mut events = Events::with_capacity(64);
        let until = Instant::now() + LATE_TIME_MAX;
        // What has come meanwhile is not announced again.
        (0..self.of.len()).for_each(|index| self.serve(index));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.are_there() {
                return;
            }
            match self.poll.poll(&mut events, Some(left)) {
                Err(error) if error.kind() != Interrupted => return,
                _ => {}
            }
            for token in events.iter().map(|event| event.token()).filter(|token| token.0 >= FIRST_VISITOR) {
                self.serve(token.0 - FIRST_VISITOR);
            }
        }
    }

    fn are_there(&self) -> bool {
        self.of.iter().any(Option::is_some)
    }

    fn accept(&mut self, listener: &TcpListener, admin: bool) {
        // Whatever else it says, it says again.
        while let Ok((mut stream, _)) = listener.accept() {
            if self.count(admin) >= if admin { ADMIN_CONNECTIONS_RESERVED } else { UNOPENED_CONNECTIONS_MAX } {
                match admin {
                    true => {
                        let mut refusal = Vec::new();
                        login::write_failure(&mut refusal, LoginFailure::TooManyConnections);
                        let _ = stream.write(&refusal);
                        continue;
                    }
                    // Those that say something leave at once.
                    false => self.forget_the_oldest_client(),
                }
            }
            let free = self.of.iter().position(Option::is_none);
            let index = free.unwrap_or(self.of.len());
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, Token(index + FIRST_VISITOR), interest).is_err() {
                continue;
            }
            self.came += 1;
            let input = Vec::new();
            let output = Vec::new();
            let number = self.came;
            let visitor = Visitor { stream, admin, number, input, output, logged_in: false, leaves: false };
            if index == self.of.len() {
                self.of.push(Some(visitor));
            } else {
                self.of[index] = Some(visitor);
            }
            self.serve(index);
        }
    }

    fn count(&self, admin: bool) -> usize {
        self.of.iter().flatten().filter(|visitor| visitor.admin == admin).count()
    }

    fn forget_the_oldest_client(&mut self) {
        let clients = self.of.iter_mut().filter(|place| place.as_ref().is_some_and(|visitor| !visitor.admin));
        if let Some(oldest) = clients.min_by_key(|place| place.as_ref().map(|visitor| visitor.number)) {
            *oldest = None;
        }
    }

    fn serve(&mut self, index: usize) {
        let Some(mut visitor) = self.of.get_mut(index).and_then(Option::take) else { return };
        if self.answers.converse(&mut visitor).is_ok_and(|stays| stays) {
            self.of[index] = Some(visitor);
        }
    }
}

impl Answers<'_> {
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
            // A client that asks for more than it reads has gone astray.
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
        if !visitor.admin {
            login::write_failure_because(&mut visitor.output, LoginFailure::Rejoining, &self.meanwhile.reason());
            visitor.leaves = true;
            return;
        }
        // The time when the cluster began is in the log that is being read.
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
        let reason = self.meanwhile.reason();
        let result = match self.meanwhile {
            Meanwhile::Recovers(progress, clock, _) if invocation.procedure == "@Statistics" && about("RECOVERY") => {
                Ok(vec![statistics::progress(Some(progress.read(clock.monotonic_nanos())))])
            }
            Meanwhile::Recovers(_, _, awaits) => match awaits() {
                Some((status, _)) if invocation.procedure == "@ClusterStatus" => Ok(status),
                Some(_) => Err(unavailable(reason).with_hint("ferrite admin status shows which nodes are missing")),
                None => Err(unavailable(reason).with_hint("try again when the server has said that it is ready")),
            },
            Meanwhile::Waits(status, _) if invocation.procedure == "@ClusterStatus" => Ok(status()),
            Meanwhile::Waits(..) => {
                Err(unavailable(format!("this node does not take part in its cluster yet: {reason}"))
                    .with_hint("ferrite admin status shows which nodes are missing; or ask another node"))
            }
            Meanwhile::Ended => Err(unavailable(
                "the server has just opened, and this connection ends: the call was not executed".to_owned(),
            )
            .with_hint("connect and call again")),
        };
        write_response(&mut visitor.output, invocation.handle, &result);
    }
}

#[cfg(test)]
mod tests;
