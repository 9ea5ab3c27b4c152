//! What waits to be sent to one node on one lane.

use crate::frame::{Lane, write_message};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Why a message was not taken. Nothing of it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotSent {
    NotConnected,
    /// As much waits already as may.
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

/// Messages in their order. It is of one connection: when that ends, they are gone.
#[derive(Debug)]
pub struct Outbox {
    lane: Lane,
    bytes_max: usize,
    messages: VecDeque<Arc<[u8]>>,
    /// Of the messages, and of what is cut already.
    bytes: usize,
    /// Frames of messages that are out of the queue, and how many of their bytes were sent.
    frames: Vec<u8>,
    sent: usize,
}

/// Frames that are cut ahead of the socket.
const FRAMES_BYTES: usize = 256 * 1024;

impl Outbox {
    pub fn new(lane: Lane, bytes_max: usize) -> Outbox {
        Outbox { lane, bytes_max, messages: VecDeque::new(), bytes: 0, frames: Vec::new(), sent: 0 }
    }

    /// One message fits in whatever its size, so that a large one is not kept for ever.
    pub fn put(&mut self, message: Arc<[u8]>) -> Result<(), NotSent> {
        if self.waiting() > 0 && self.waiting() + message.len() > self.bytes_max {
            return Err(NotSent::Full);
        }
        self.bytes += message.len();
        self.messages.push_back(message);
        Ok(())
    }

    /// Bytes that are not sent.
    pub fn waiting(&self) -> usize {
        self.bytes + self.frames.len() - self.sent
    }

    /// The next bytes to send.
    pub fn next(&mut self) -> &[u8] {
        if self.sent == self.frames.len() {
            self.frames.clear();
            self.sent = 0;
            while self.frames.len() < FRAMES_BYTES
                && let Some(message) = self.messages.pop_front()
            {
                self.bytes -= message.len();
                write_message(&mut self.frames, self.lane, &message);
            }
        }
        &self.frames[self.sent..]
    }

    pub fn sent(&mut self, count: usize) {
        assert!(count <= self.frames.len() - self.sent, "no more is sent than there was");
        self.sent += count;
        if self.sent == self.frames.len() && self.frames.capacity() > 4 * FRAMES_BYTES {
            // What one large message took is not kept.
            (self.frames, self.sent) = (Vec::new(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frames;

    #[test]
    fn messages_leave_in_their_order_and_no_more_wait_than_may() {
        let mut outbox = Outbox::new(Lane::Calls, 1_000);
        let message = |length: usize| -> Arc<[u8]> { vec![length as u8; length].into() };
        assert_eq!(outbox.put(message(5_000)), Ok(()), "alone it fits");
        assert_eq!(outbox.put(message(1)), Err(NotSent::Full));
        let (mut frames, mut got) = (Frames::new(Lane::Calls, 10_000), Vec::new());
        let mut send = |outbox: &mut Outbox, most: usize| {
            let bytes = outbox.next();
            let count = bytes.len().min(most);
            frames.take(&bytes[..count], |message| got.push(message.len())).unwrap();
            outbox.sent(count);
            count
        };
        while send(&mut outbox, 999) > 0 {}
        for length in [600, 400] {
            assert_eq!(outbox.put(message(length)), Ok(()));
        }
        assert_eq!(outbox.put(message(1)), Err(NotSent::Full));
        while send(&mut outbox, 7) > 0 {}
        assert_eq!((outbox.waiting(), got), (0, vec![5_000, 600, 400]));
    }
}
