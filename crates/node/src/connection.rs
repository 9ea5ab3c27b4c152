//! One client connection: its socket, bytes in and out, and what is known of the peer.

use crate::traffic::{ConnectionReport, Traffic};
use crate::work::Outstanding;
use ferrite_base::{ProcedureId, limits};
use ferrite_partition::Compiled;
use ferrite_partition::counters::AD_HOC;
use mio::net::TcpStream;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

pub struct Connection {
    pub stream: TcpStream,
    pub id: u64,
    pub logged_in: bool,
    pub subscribed: bool,
    /// Bytes of an incomplete frame.
    pub partial: Vec<u8>,
    out: Vec<u8>,
    out_start: usize,
    /// Since when `out` could not be written.
    pub blocked_since: Option<Instant>,
    pub opened: Instant,
    /// Taken and not yet answered.
    outstanding: Outstanding,
    /// From so many calls or bytes on, no more is read.
    outstanding_max: Outstanding,
    /// Bytes still to come of a call that was refused for its size.
    pub skip: usize,
    /// The socket may have more to read (edge-triggered readiness).
    pub readable: bool,
    /// No more is read; the connection is closed when everything is answered and written.
    pub closing: bool,
    /// The procedure that the last call named; most connections call one over and over.
    cached_name: String,
    cached: Option<(Arc<Compiled>, ProcedureId)>,
    /// Calls of it that `traffic` does not know of yet.
    cached_calls: u64,
    /// Ad hoc calls that `traffic` does not know of yet.
    pub ad_hoc_calls: u64,
    traffic: Traffic,
    /// Of one answer lately, or somewhat more; large before the first.
    answer_bytes: usize,
    /// `partial` begins with whole frames whose turn has not come.
    pub has_frames: bool,
    /// The node's list of cancellations has something of this connection.
    pub listed: bool,
    /// The node is full: nothing is taken until it has room again.
    pub held: bool,
}

/// Until the first answers have come, only so many calls are taken as would do with large ones.
const ANSWER_BYTES_AT_FIRST: usize = limits::CONNECTION_EXPECTED_BYTES_MAX / limits::CONNECTION_FIRST_CALLS_MAX;

/// In the number of a connection: it is one to the administration port.
const ADMIN: u64 = 1 << 63;

/// A number for a connection: the `number`-th of the node, at `index` of its network thread.
pub fn id(number: u64, index: usize, admin: bool) -> u64 {
    let number = number & 0x7fff_ffff;
    (number << 32) | index as u64 | if admin { ADMIN } else { 0 }
}

/// In the number of a connection that no client has: a call of a compound procedure goes by it.
const OF_COMPOUND: u64 = 1 << 31;

/// A number for the calls that a compound procedure makes. They may do what its caller may.
pub fn of_compound(admin: bool) -> u64 {
    OF_COMPOUND | if admin { ADMIN } else { 0 }
}

/// Whether a call with that connection was made by a compound procedure.
pub fn is_of_compound(id: u64) -> bool {
    id & !ADMIN == OF_COMPOUND
}

/// Whether that connection may do what administrators may.
#[inline]
pub fn is_admin(id: u64) -> bool {
    id & ADMIN != 0
}

/// As clients know it from the login.
pub fn public_id(id: u64) -> i64 {
    (id >> 32) as i64
}

impl Connection {
    pub fn new(stream: TcpStream, id: u64, outstanding_max: Outstanding) -> Connection {
        // Answers are written in batches already.
        let _ = stream.set_nodelay(true);
        Connection {
            stream,
            id,
            logged_in: false,
            subscribed: false,
            partial: Vec::new(),
            out: Vec::new(),
            out_start: 0,
            blocked_since: None,
            opened: Instant::now(),
            outstanding: Outstanding::default(),
            outstanding_max,
            skip: 0,
            readable: true,
            closing: false,
            cached_name: String::new(),
            cached: None,
            cached_calls: 0,
            ad_hoc_calls: 0,
            traffic: Traffic::default(),
            answer_bytes: ANSWER_BYTES_AT_FIRST,
            has_frames: false,
            listed: false,
            held: false,
        }
    }

    /// Whether to read more: overload stops here, at the door.
    pub fn wants_reading(&self) -> bool {
        !self.closing
            && self.outstanding.calls < self.outstanding_max.calls
            && self.outstanding.bytes < self.outstanding_max.bytes
            && self.unwritten() < limits::CONNECTION_UNREAD_BYTES_MAX
            && self.expected_bytes() < limits::CONNECTION_EXPECTED_BYTES_MAX
    }

    /// Whether there may be calls to take, and they may be taken.
    pub fn may_have_more(&self) -> bool {
        (self.readable || self.has_frames) && self.wants_reading()
    }

    /// Bytes of answers that have not been written, and of those that will come if they are like the last ones.
    fn expected_bytes(&self) -> usize {
        self.unwritten() + self.outstanding.calls * self.answer_bytes
    }

    /// Calls taken and not yet answered.
    pub fn outstanding(&self) -> usize {
        self.outstanding.calls
    }

    /// With their bytes.
    pub fn work(&self) -> Outstanding {
        self.outstanding
    }

    /// A call of that many bytes was taken: it will be answered.
    #[inline]
    pub fn taken(&mut self, bytes: usize) {
        self.outstanding += Outstanding { calls: 1, bytes };
        self.traffic.messages_read += 1;
    }

    /// That many calls were answered. Which ones is not known here.
    #[inline]
    pub fn answered(&mut self, calls: usize, bytes: usize) {
        // Falls slowly: that others are small must not let large ones pass.
        self.answer_bytes = (bytes / calls).max(self.answer_bytes - self.answer_bytes / 4);
        self.outstanding.answered(calls);
        self.traffic.messages_written += calls as u64;
    }

    pub fn unwritten(&self) -> usize {
        self.out.len() - self.out_start
    }

    /// Nothing is left to do for a closing connection.
    pub fn is_finished(&self) -> bool {
        self.closing && self.outstanding.calls == 0 && self.unwritten() == 0
    }

    /// Reads once into `buffer`. None: nothing there now. Some(0): the peer has ended its side.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(buffer) {
                Ok(count) => {
                    self.traffic.bytes_read += count as u64;
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(None);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The buffer to which answers are appended; [`Connection::flush`] sends it.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends `bytes`, or keeps what the socket does not take.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        if self.unwritten() == 0 && self.blocked_since.is_none() {
            let written = self.write(rest)?;
            rest = &rest[written..];
        }
        self.out.extend_from_slice(rest);
        Ok(())
    }

    /// Writes what is waiting, as far as the socket takes it.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.unwritten() > 0 {
            let pending = std::mem::take(&mut self.out);
            let written = self.write(&pending[self.out_start..]);
            self.out = pending;
            match written? {
                0 => return Ok(()),
                count => self.out_start += count,
            }
        }
        self.blocked_since = None;
        self.out.clear();
        self.out_start = 0;
        // A large answer's memory is not kept by an idle connection.
        if self.out.capacity() > 1 << 20 {
            self.out = Vec::new();
        }
        Ok(())
    }

    /// Bytes written; 0 when the socket is full.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.traffic.bytes_written += count as u64;
                    self.blocked_since = (count < bytes.len()).then(Instant::now);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked_since.get_or_insert_with(Instant::now);
                    return Ok(0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The procedure by that name, from the connection's memory if it is the same as last time.
    #[inline]
    pub fn find_procedure(&mut self, compiled: &Arc<Compiled>, name: &str) -> Option<ProcedureId> {
        if let Some((known, id)) = &self.cached
            && Arc::ptr_eq(known, compiled)
            && self.cached_name == name
        {
            self.cached_calls += 1;
            return Some(*id);
        }
        let id = compiled.find(name)?;
        self.traffic.called(&self.cached_name, std::mem::take(&mut self.cached_calls));
        self.cached_calls = 1;
        self.cached_name.clear();
        self.cached_name.push_str(name);
        self.cached = Some((Arc::clone(compiled), id));
        Some(id)
    }

    /// The answers of so many calls came after this time.
    #[inline]
    pub fn waited(&mut self, micros: u64, calls: u64) {
        self.traffic.waited(micros, calls);
    }

    /// A call that the network thread answers itself, or passes to the system thread.
    pub fn system_called(&mut self, procedure: &str) {
        self.traffic.called(procedure, 1);
    }

    /// All that was counted.
    pub fn traffic(&mut self) -> &Traffic {
        self.traffic.called(&self.cached_name, std::mem::take(&mut self.cached_calls));
        self.traffic.called(AD_HOC, std::mem::take(&mut self.ad_hoc_calls));
        &self.traffic
    }

    pub fn report(&mut self) -> ConnectionReport {
        let peer = self.stream.peer_addr().map_or_else(|_| String::new(), |address| address.ip().to_string());
        ConnectionReport {
            connection_id: public_id(self.id),
            peer,
            admin: is_admin(self.id),
            traffic: self.traffic().clone(),
            outstanding_calls: self.outstanding.calls,
            outstanding_bytes: self.outstanding.bytes,
            unread_answers: usize::from(self.unwritten() > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let stream = TcpStream::connect(address).expect("a listening port takes connections");
        let (calls, bytes) = (limits::CONNECTION_OUTSTANDING_CALLS_MAX, limits::CONNECTION_OUTSTANDING_BYTES_MAX);
        Connection::new(stream, 1, Outstanding { calls, bytes })
    }

    fn known_for_small_answers() -> Connection {
        let mut connection = connection();
        for _ in 0..100 {
            connection.taken(20);
            connection.answered(1, 50);
        }
        connection
    }

    #[test]
    fn reading_stops_at_each_limit_and_goes_on_below() {
        let mut calls = known_for_small_answers();
        for _ in 1..limits::CONNECTION_OUTSTANDING_CALLS_MAX {
            calls.taken(20);
        }
        assert!(calls.wants_reading(), "one below the limit");
        calls.taken(20);
        assert!(!calls.wants_reading(), "at the limit");
        calls.taken(20);
        calls.answered(2, 40);
        assert!(calls.wants_reading());

        let mut bytes = known_for_small_answers();
        bytes.taken(limits::CONNECTION_OUTSTANDING_BYTES_MAX - 1);
        assert!(bytes.wants_reading(), "one below the limit");
        bytes.taken(1);
        assert!(!bytes.wants_reading(), "at the limit");
        bytes.answered(1, 20);
        assert!(bytes.wants_reading());

        let mut unread = connection();
        unread.out().resize(limits::CONNECTION_UNREAD_BYTES_MAX - 1, 0);
        assert!(unread.wants_reading(), "one below the limit");
        unread.out().push(0);
        assert!(!unread.wants_reading(), "at the limit");

        let mut expected = connection();
        (1..limits::CONNECTION_FIRST_CALLS_MAX).for_each(|_| expected.taken(20));
        assert!(expected.wants_reading(), "one below the limit, if the answers are large");
        expected.taken(20);
        assert!(!expected.wants_reading(), "at the limit");
        expected.answered(1, 20);
        assert!(expected.wants_reading(), "they are smaller");
        expected.answered(1, limits::CONNECTION_EXPECTED_BYTES_MAX);
        assert!(!expected.wants_reading(), "they are larger");
    }

    #[test]
    fn nothing_is_left_when_all_is_answered() {
        let mut connection = connection();
        for round in 1..100usize {
            for size in 0..round {
                connection.taken(size * 7_919);
            }
            for calls in [round / 3, round / 2 - round / 3, round - round / 2] {
                if calls > 0 {
                    connection.answered(calls, 100);
                }
            }
            assert_eq!(connection.work(), Outstanding::default(), "round {round}");
        }
    }
}
