//! One client connection: its socket, bytes in and out, and what is known of the peer.

use ferrite_base::{ProcedureId, limits};
use ferrite_member::forward::Outstanding;
use ferrite_partition::Compiled;
use ferrite_partition::counters::AD_HOC;
use ferrite_system::traffic::{ConnectionReport, Traffic};
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct Connection {
    pub stream: TcpStream,
    pub id: u64,
    pub logged_in: bool,
    pub subscribed: bool,
    /// Bytes of an incomplete frame.
    pub partial: Vec<u8>,
    /// What is written next, from `out_start` on.
    out: Vec<u8>,
    out_start: usize,
    later: Later,
    /// Buffers of batches that were kept and are written: the thread that flushes may fill them
    /// again.
    pub spent: Vec<Vec<u8>>,
    /// Since when `out` could not be written.
    pub blocked_since: Option<Instant>,
    pub opened: Instant,
    /// Taken and not yet answered.
    outstanding: Outstanding,
    /// From this many calls or bytes on, no more is read.
    outstanding_max: Outstanding,
    /// Bytes still to come of a call that was refused for its size.
    pub skip: usize,
    /// The socket may have more to read (edge-triggered readiness).
    pub readable: bool,
    /// The peer has ended its side: the last read shows it, and no event will.
    pub read_closed: bool,
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
    /// The same; nothing before the first.
    known_answer_bytes: usize,
    /// `partial` begins with whole frames whose turn has not come.
    pub has_frames: bool,
    /// The node's list of cancellations has something of this connection.
    pub listed: bool,
    /// Nothing is taken until the node has room again.
    pub held: bool,
    /// Held, and for want of memory.
    pub lacks_memory: bool,
    /// Is in its thread's list of those that are held.
    pub in_line: bool,
    /// Bytes that it may make the node hold, as of the last look.
    pub room: usize,
    /// Bytes that its thread has counted for it: all, and those of unread answers.
    pub counted: (usize, usize),
    /// The frame that is incomplete was so already at this time, when this many bytes had been
    /// read.
    frame_begun: Option<(Instant, u64)>,
}

/// Answers that wait to be written after others. In pieces: one buffer that grew would be copied,
/// and exist twice meanwhile.
#[derive(Default)]
struct Later {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    capacity: usize,
}

/// Of one piece; a larger answer has one of its own.
const PIECE_BYTES: usize = 1_048_576;

impl Later {
    /// Into the last piece if it fits there, else into a new one.
    fn append(&mut self, bytes: &[u8]) {
        let last = self.pieces.back_mut().filter(|last| last.len() + bytes.len() <= last.capacity());
        match last {
            Some(last) => {
                self.bytes += bytes.len();
                last.extend_from_slice(bytes);
            }
            None => {
                let mut piece = Vec::with_capacity(bytes.len().max(PIECE_BYTES));
                piece.extend_from_slice(bytes);
                self.push(piece);
            }
        }
    }

    /// A piece of its own.
    fn push(&mut self, piece: Vec<u8>) {
        self.bytes += piece.len();
        self.capacity += piece.capacity();
        self.pieces.push_back(piece);
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.len();
        self.capacity -= piece.capacity();
        Some(piece)
    }
}

/// What a call that waits takes beside its bytes, about.
const CALL_BYTES: usize = 64;

/// What calls that wait to be executed take: their bytes, and what is copied of them.
#[inline]
pub fn queued_bytes(work: Outstanding) -> usize {
    2 * work.bytes + CALL_BYTES * work.calls
}

/// From this size, the buffer of answers that the socket does not take is itself kept; less is
/// copied.
const TAKEN_BYTES_MIN: usize = 65_536;

/// The free memory that a buffer of a connection keeps.
const SPARE_BYTES_MAX: usize = 65_536;

/// Until the first answers have come, only this many calls are taken as would do with large ones.
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

/// In the number of a connection: its client is connected to another node.
const OF_OTHER_NODE: u64 = 1 << 30;
/// In the number of such a connection: its door lets it do what runs code and touches files.
const TRUSTED: u64 = 1 << 29;

/// A number for a connection of another node's client: the `number`-th of this node.
pub fn of_other_node(number: u64, admin: bool, trusted: bool) -> u64 {
    id(number, 0, admin) | OF_OTHER_NODE | if trusted { TRUSTED } else { 0 }
}

/// Whether the door that another node's client came in by lets it do what runs code and touches
/// files. None: it is connected here.
pub fn trusted_elsewhere(id: u64) -> Option<bool> {
    (id & (OF_OTHER_NODE | OF_COMPOUND) == OF_OTHER_NODE).then_some(id & TRUSTED != 0)
}

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

/// As clients know it from the login: the node's number is in its upper half, so that none is given
/// twice in a cluster.
pub fn public_id(host: i32, id: u64) -> i64 {
    i64::from(host) << 32 | (id >> 32) as i64
}

/// The node of a connection, by the number that clients know.
pub fn host_of(public_id: i64) -> i64 {
    public_id >> 32
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
            later: Later::default(),
            spent: Vec::new(),
            blocked_since: None,
            opened: Instant::now(),
            outstanding: Outstanding::default(),
            outstanding_max,
            skip: 0,
            readable: true,
            read_closed: false,
            closing: false,
            cached_name: String::new(),
            cached: None,
            cached_calls: 0,
            ad_hoc_calls: 0,
            traffic: Traffic::default(),
            answer_bytes: ANSWER_BYTES_AT_FIRST,
            known_answer_bytes: 0,
            has_frames: false,
            listed: false,
            held: false,
            lacks_memory: false,
            in_line: false,
            room: usize::MAX,
            counted: (0, 0),
            frame_begun: None,
        }
    }

    /// Whether to read more: overload stops here, at the door.
    pub fn wants_reading(&self) -> bool {
        !self.closing
            && self.outstanding.calls < self.outstanding_max.calls
            && self.outstanding.bytes < self.outstanding_max.bytes
            && self.unwritten() < limits::CONNECTION_UNREAD_BYTES_MAX
            && self.expected_bytes() < limits::CONNECTION_EXPECTED_BYTES_MAX
            && !self.lacks_room()
    }

    /// Whether its calls and answers take as much as it may hold. It may always make a few small
    /// calls: what runs for long, and holds up calls of others that hold much, must not keep it
    /// from what would be answered at once.
    #[inline]
    pub fn lacks_room(&self) -> bool {
        let here = self.unwritten() + queued_bytes(self.outstanding);
        here + self.answers_to_come() >= self.room
            && (here > limits::CONNECTION_ALWAYS_BYTES || self.outstanding.calls >= limits::CONNECTION_ALWAYS_CALLS)
    }

    /// What the node holds for it, and will for the answers of its calls.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        self.partial.capacity() + self.unread_capacity() + queued_bytes(self.outstanding) + self.answers_to_come()
    }

    /// Of a connection without answers yet nothing is known, and nothing is kept free for it: an
    /// answer that finds no room is refused where it is built.
    #[inline]
    fn answers_to_come(&self) -> usize {
        self.outstanding.calls * self.known_answer_bytes
    }

    /// Of that, what its unread answers take, with those that the system has taken where it takes
    /// no more.
    #[inline]
    pub fn unread_capacity(&self) -> usize {
        let of_system = if self.blocked_since.is_some() { 2 * limits::SOCKET_SEND_BYTES } else { 0 };
        self.out.capacity() + self.later.capacity + of_system
    }

    /// Has to wait for memory.
    pub fn wait_for_memory(&mut self) {
        self.held = true;
        self.lacks_memory = true;
    }

    /// Need not wait any more, until that is found out anew.
    pub fn wake(&mut self) {
        self.held = false;
        self.lacks_memory = false;
    }

    /// A whole frame came, or the rest of one that was dropped.
    #[inline]
    pub fn frame_came(&mut self) {
        self.frame_begun = None;
    }

    /// Looks whether a frame is incomplete, and since when.
    pub fn note_frame(&mut self, now: Instant) {
        let incomplete = self.skip > 0 || (!self.partial.is_empty() && !self.has_frames);
        match incomplete && self.logged_in && !self.closing {
            true => drop(self.frame_begun.get_or_insert((now, self.traffic.bytes_read))),
            false => self.frame_begun = None,
        }
    }

    /// Whether its frame should have come. One that the server itself does not read is not late.
    pub fn frame_is_late(&self, now: Instant, time_max: Duration) -> bool {
        let Some((since, read)) = self.frame_begun.filter(|_| !self.held && self.wants_reading()) else { return false };
        let came = (self.traffic.bytes_read - read) / limits::FRAME_BYTES_PER_SECOND_MIN as u64;
        now.duration_since(since) > time_max + Duration::from_secs(came)
    }

    /// Whether it has had an incomplete frame, which takes more than little, for this long.
    pub fn frame_stalls(&self, now: Instant, time: Duration) -> bool {
        self.skip == 0
            && self.partial.len() > limits::LOGIN_BYTES_MAX
            && self.frame_begun.is_some_and(|(since, _)| now.duration_since(since) >= time)
    }

    /// Whether there may be calls to take, and they may be taken.
    pub fn may_have_more(&self) -> bool {
        (self.readable || self.has_frames) && self.wants_reading()
    }

    /// Bytes of answers that have not been written, and of those that will come if they are like
    /// the last ones.
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
    pub fn count_call(&mut self, bytes: usize) {
        self.outstanding += Outstanding { calls: 1, bytes };
        self.traffic.messages_read += 1;
    }

    /// That many calls were answered. Which ones is not known here.
    #[inline]
    pub fn answered(&mut self, calls: usize, bytes: usize) {
        // Falls slowly: that others are small must not let large ones pass.
        self.answer_bytes = (bytes / calls).max(self.answer_bytes - self.answer_bytes / 4);
        self.known_answer_bytes = (bytes / calls).max(self.known_answer_bytes - self.known_answer_bytes / 4);
        self.outstanding.answered(calls);
        self.traffic.messages_written += calls as u64;
    }

    pub fn unwritten(&self) -> usize {
        self.out.len() - self.out_start + self.later.bytes
    }

    /// Nothing is left to do for a closing connection.
    pub fn is_finished(&self) -> bool {
        self.closing && self.outstanding.calls == 0 && self.unwritten() == 0
    }

    /// Something is to be written, or the end is near.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.unwritten() > 0 || self.closing
    }

    /// Reads once into `buffer`. None: nothing there now. Some(0): the peer has ended its side.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(buffer) {
                Ok(count) => {
                    self.traffic.bytes_read += count as u64;
                    if count < buffer.len() && !self.read_closed {
                        // All was taken, and the system tells of what comes after.
                        self.readable = false;
                    }
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

    /// What of the incomplete frame is kept is `bytes`.
    pub fn keep(&mut self, bytes: &[u8]) {
        self.partial.clear();
        if bytes.is_empty() && self.partial.capacity() > limits::LOGIN_BYTES_MAX {
            self.partial = Vec::new();
        }
        self.partial.extend_from_slice(bytes);
    }

    /// The buffer to which whole answers are appended; [`Connection::flush`] sends it.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// What the socket takes of `bytes`, if it comes next.
    fn send_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unwritten() == 0 && self.blocked_since.is_none() { self.write(bytes) } else { Ok(0) }
    }

    /// Sends a whole buffer, or keeps what the socket does not take, and much of it without a copy:
    /// then the buffer is kept.
    pub fn send_buffer(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let written = self.send_now(buffer)?;
        let waste = buffer.capacity() - (buffer.len() - written);
        if buffer.len() - written < TAKEN_BYTES_MIN || waste > PIECE_BYTES {
            self.wait(&buffer[written..]);
        } else if self.unwritten() == 0 {
            (self.out, self.out_start) = (std::mem::take(buffer), written);
        } else {
            self.later.push(std::mem::take(buffer));
        }
        Ok(())
    }

    /// Sends `bytes`, or keeps what the socket does not take.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.send_now(bytes)?;
        self.wait(&bytes[written..]);
        Ok(())
    }

    /// Keeps what is written after all that waits.
    fn wait(&mut self, rest: &[u8]) {
        if self.out.len() + rest.len() > self.out.capacity() {
            self.forget_written();
        }
        if self.later.bytes > 0 || (!self.out.is_empty() && self.out.len() + rest.len() > PIECE_BYTES) {
            return self.later.append(rest);
        }
        if self.out.len() + rest.len() > self.out.capacity() {
            // An eighth of what is there, not as much again: there may be much, for many.
            self.out.reserve_exact(rest.len().max(self.out.len() / 8).max(limits::LOGIN_BYTES_MAX));
        }
        self.out.extend_from_slice(rest);
    }

    /// What was written is removed from the buffer before it grows: one that is never read to its
    /// end would grow for ever.
    fn forget_written(&mut self) {
        self.out.drain(..self.out_start);
        self.out_start = 0;
    }

    /// Writes what is waiting, as far as the socket takes it.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.unwritten() > 0 {
            if self.out_start == self.out.len()
                && let Some(next) = self.later.pop()
            {
                self.spend(next);
            }
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
        if self.out.capacity() > SPARE_BYTES_MAX {
            self.spend(Vec::new());
        }
        Ok(())
    }

    /// Gives back the memory of a buffer that was written for the most part. Not at each write: a
    /// peer that reads has it back soon.
    pub fn trim(&mut self) {
        if self.out_start > self.out.len() / 2 {
            self.forget_written();
            self.out.shrink_to(2 * self.out.len());
        }
    }

    /// All of `out` is written, and `next` comes.
    fn spend(&mut self, next: Vec<u8>) {
        let written = std::mem::replace(&mut self.out, next);
        self.out_start = 0;
        if written.capacity() > SPARE_BYTES_MAX {
            self.spent.push(written);
        }
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

    /// The answers of this many calls came after this time.
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

    pub fn report(&mut self, host: i32) -> ConnectionReport {
        let peer = self.stream.peer_addr().map_or_else(|_| String::new(), |address| address.ip().to_string());
        ConnectionReport {
            connection_id: public_id(host, self.id),
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
mod tests;
