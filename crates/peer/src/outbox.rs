//! What waits to be sent to one node on one lane: an outbox, which senders fill under a lock, and
//! what the connection's thread has taken from it to make frames.

use crate::frame::{Lane, write_frame};
use std::collections::VecDeque;
use std::fmt;

/// Why a message was not taken. Nothing of it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotSent {
    NotConnected,
    /// The outbox is full.
    Full,
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotSent::NotConnected => "the node is not connected",
            NotSent::Full => "the node does not take messages as fast as they come",
        })
    }
}

impl std::error::Error for NotSent {}

/// A message on its way. A large one is not copied before it becomes frames.
#[derive(Debug)]
pub struct Outgoing {
    /// Comes before the rest.
    first: Option<u8>,
    rest: Vec<u8>,
}

impl Outgoing {
    /// A message that begins with this byte.
    pub fn new(first: u8, rest: Vec<u8>) -> Outgoing {
        Outgoing { first: Some(first), rest }
    }

    pub fn len(&self) -> usize {
        self.rest.len() + usize::from(self.first.is_some())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(rest: Vec<u8>) -> Outgoing {
        Outgoing { first: None, rest }
    }
}

/// Messages in their order. It is of one connection: when that ends, they are gone.
#[derive(Debug)]
pub struct Outbox {
    bytes_max: usize,
    messages: VecDeque<Outgoing>,
    /// Of the messages, and of those that were taken and have not left.
    bytes: usize,
}

impl Outbox {
    pub fn new(bytes_max: usize) -> Outbox {
        Outbox { bytes_max, messages: VecDeque::new(), bytes: 0 }
    }

    /// One message fits in whatever its size, so that a large one does not wait for ever.
    pub fn put(&mut self, message: Outgoing) -> Result<(), NotSent> {
        if self.waiting() > 0 && self.waiting() + message.len() > self.bytes_max {
            return Err(NotSent::Full);
        }
        // An empty one counts, so that the thread is woken for the first of several.
        self.bytes += message.len().max(1);
        self.messages.push_back(message);
        Ok(())
    }

    /// Bytes that have not left.
    pub fn waiting(&self) -> usize {
        self.bytes
    }
}

/// What was taken from an outbox, on the connection's thread.
#[derive(Debug)]
pub(crate) struct Sending {
    lane: Lane,
    /// On this connection, so far.
    said: u32,
    taken: VecDeque<Outgoing>,
    /// Of the first of them: bytes of its rest that are in frames already.
    cut: usize,
    frames: Vec<u8>,
    sent: usize,
    /// Bytes of messages that are in the frames.
    bytes: usize,
}

/// Frames that are cut ahead of the socket; more only where one frame has more.
const FRAMES_BYTES: usize = 256 * 1024;

impl Sending {
    /// `said`: what the connection began with on this side.
    pub fn new(lane: Lane, said: u32) -> Sending {
        Sending { lane, said, taken: VecDeque::new(), cut: 0, frames: Vec::new(), sent: 0, bytes: 0 }
    }

    /// Whether nothing of what was taken is left.
    pub fn is_done(&self) -> bool {
        self.sent == self.frames.len() && self.taken.is_empty()
    }

    /// Takes messages for about one buffer of frames, once everything taken earlier has left.
    /// Called under the lock; copies nothing.
    pub fn refill(&mut self, outbox: &mut Outbox) {
        assert!(self.is_done(), "what was taken is sent before more is");
        outbox.bytes -= std::mem::take(&mut self.bytes);
        let mut bytes = 0;
        while bytes < FRAMES_BYTES
            && let Some(message) = outbox.messages.pop_front()
        {
            bytes += message.len();
            self.taken.push_back(message);
        }
    }

    /// The next bytes to send; none if more is to be taken first.
    pub fn next(&mut self) -> &[u8] {
        if self.sent == self.frames.len() {
            self.frames.clear();
            self.sent = 0;
            while self.frames.len() < FRAMES_BYTES
                && let Some(message) = self.taken.front()
            {
                let head = message.first.as_slice();
                let head = if self.cut == 0 { head } else { &[] };
                self.cut += write_frame(&mut self.frames, &mut self.said, self.lane, head, &message.rest[self.cut..]);
                if self.cut == message.rest.len() {
                    self.bytes += message.len().max(1);
                    self.taken.pop_front();
                    self.cut = 0;
                }
            }
        }
        &self.frames[self.sent..]
    }

    pub fn sent(&mut self, count: usize) {
        assert!(count <= self.frames.len() - self.sent, "no more is sent than there was");
        self.sent += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FRAME_BODY_BYTES_MAX, Frames};

    fn message(length: usize) -> Outgoing {
        vec![length as u8; length].into()
    }

    /// Sends at most this many bytes; returns how many there were.
    fn send(outbox: &mut Outbox, sending: &mut Sending, most: usize, to: &mut impl FnMut(&[u8])) -> usize {
        if sending.is_done() {
            sending.refill(outbox);
        }
        let bytes = sending.next();
        let count = bytes.len().min(most);
        to(&bytes[..count]);
        sending.sent(count);
        count
    }

    #[test]
    fn messages_leave_in_their_order_and_no_more_wait_than_may() {
        let (mut outbox, mut sending) = (Outbox::new(1_000), Sending::new(Lane::Calls, 1));
        assert_eq!(outbox.put(message(5_000)), Ok(()), "alone it fits");
        assert_eq!(outbox.put(message(1)), Err(NotSent::Full));
        let (mut frames, mut got) = (Frames::new(Lane::Calls, 10_000, 1), Vec::new());
        let mut to = |bytes: &[u8]| frames.decode(bytes, |message| got.push(message.len())).unwrap();
        while send(&mut outbox, &mut sending, 999, &mut to) > 0 {}
        assert_eq!(outbox.waiting(), 0);
        for length in [600, 400] {
            assert_eq!(outbox.put(message(length)), Ok(()));
        }
        assert_eq!(outbox.put(message(1)), Err(NotSent::Full));
        // What was taken waits until it has left.
        assert!(send(&mut outbox, &mut sending, 7, &mut to) > 0 && outbox.waiting() == 1_000);
        while send(&mut outbox, &mut sending, 7, &mut to) > 0 {}
        assert_eq!(outbox.put(Vec::new().into()), Ok(()));
        assert!(outbox.waiting() > 0, "an empty one waits, too");
        while send(&mut outbox, &mut sending, 7, &mut to) > 0 {}
        assert_eq!((outbox.waiting(), got), (0, vec![5_000, 600, 400, 0]));
    }

    #[test]
    fn a_first_byte_stands_in_front_and_a_large_message_is_cut_piece_by_piece() {
        for length in [0, 1, FRAME_BODY_BYTES_MAX - 1, FRAME_BODY_BYTES_MAX, 3 * FRAME_BODY_BYTES_MAX + 5] {
            let (mut outbox, mut sending) = (Outbox::new(1_000), Sending::new(Lane::Entries, 1));
            outbox.put(Outgoing::new(9, vec![7; length])).unwrap();
            let (mut frames, mut got) = (Frames::new(Lane::Entries, 1 << 24, 1), Vec::new());
            let mut to = |bytes: &[u8]| frames.decode(bytes, |message| got.push(message)).unwrap();
            while send(&mut outbox, &mut sending, usize::MAX, &mut to) > 0 {
                assert!(sending.frames.len() < FRAMES_BYTES + FRAME_BODY_BYTES_MAX + 64, "{}", sending.frames.len());
            }
            assert_eq!(got, [[&[9][..], &vec![7; length]].concat()], "{length}");
        }
    }
}
