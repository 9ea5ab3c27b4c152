//! Frames: what a connection carries after the handshake. A message is one frame or several, the
//! last of which is marked.
//!
//! The checksum of a frame covers everything that its sender has sent on the connection, so that
//! frames of another connection, or in another order, are noticed, and what the connection began
//! with. What was sent is one number: the checksum of the previous frame.

use ferrite_base::checksum::crc32c_behind;
use std::fmt;

/// Magic, lane, flags, two zeros, length of the body, checksum.
pub const FRAME_HEADER_BYTES: usize = 16;
pub const FRAME_BODY_BYTES_MAX: usize = 1 << 20;
const MAGIC: [u8; 4] = *b"FFRM";
const LAST: u8 = 1;

/// What a connection is for; each has its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Lane {
    /// Heartbeats, acknowledgements, seals, consensus: small, and never waiting behind anything
    /// else.
    Control = 0,
    Entries = 1,
    Calls = 2,
    Transfer = 3,
    /// Transactions over groups. Dialed where a cluster has several: [`crate::Peers::open_lane`].
    Lots = 4,
}

impl Lane {
    pub const ALL: [Lane; 5] = [Lane::Control, Lane::Entries, Lane::Calls, Lane::Transfer, Lane::Lots];

    pub fn from_byte(byte: u8) -> Option<Lane> {
        Lane::ALL.into_iter().find(|lane| *lane as u8 == byte)
    }
}

/// Why bytes are not frames. The connection is closed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    Malformed(&'static str),
    /// A message that is larger than its lane allows.
    TooLarge {
        bytes_max: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Malformed(reason) => f.write_str(reason),
            FrameError::TooLarge { bytes_max } => write!(f, "a message has more than {bytes_max} bytes"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Appends a message as frames, after what was sent on the connection.
pub fn write_message(out: &mut Vec<u8>, said: &mut u32, lane: Lane, message: &[u8]) {
    let mut sent = 0;
    loop {
        sent += write_frame(out, said, lane, &[], &message[sent..]);
        // An empty message is one empty frame.
        if sent == message.len() {
            return;
        }
    }
}

/// Appends the first frame of what is left of a message; returns how many bytes of `rest` are in
/// it. In front of them is `head`, which is short.
pub(crate) fn write_frame(out: &mut Vec<u8>, said: &mut u32, lane: Lane, head: &[u8], rest: &[u8]) -> usize {
    let piece = &rest[..rest.len().min(FRAME_BODY_BYTES_MAX - head.len())];
    let mut header = [0; FRAME_HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[4] = lane as u8;
    header[5] = if piece.len() == rest.len() { LAST } else { 0 };
    let length = u32::try_from(head.len() + piece.len()).expect("a frame's body is bounded");
    header[8..12].copy_from_slice(&length.to_le_bytes());
    *said = crc32c_behind(*said, &[&header[..12], head, piece]);
    header[12..].copy_from_slice(&said.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(head);
    out.extend_from_slice(piece);
    piece.len()
}

/// Makes messages of the bytes of one connection, however they are cut.
#[derive(Debug)]
pub struct Frames {
    lane: Lane,
    message_bytes_max: usize,
    said: u32,
    /// Not looked at yet, or an incomplete frame.
    bytes: Vec<u8>,
    /// The message so far.
    message: Vec<u8>,
}

impl Frames {
    /// `said`: what the connection began with on the sender's side; 0 where that is nothing.
    pub fn new(lane: Lane, message_bytes_max: usize, said: u32) -> Frames {
        Frames { lane, message_bytes_max, said, bytes: Vec::new(), message: Vec::new() }
    }

    /// Takes what came, and gives out the messages that are whole now.
    pub fn decode(&mut self, came: &[u8], mut message: impl FnMut(Vec<u8>)) -> Result<(), FrameError> {
        self.bytes.extend_from_slice(came);
        let mut rest = &self.bytes[..];
        let result = loop {
            match next(rest, self.lane, self.said) {
                Ok(None) => break Ok(()),
                Ok(Some((frame, behind))) => {
                    if self.message.len() + frame.body.len() > self.message_bytes_max {
                        break Err(FrameError::TooLarge { bytes_max: self.message_bytes_max });
                    }
                    self.message.extend_from_slice(frame.body);
                    self.said = frame.said;
                    rest = behind;
                    if frame.last {
                        message(std::mem::take(&mut self.message));
                    }
                }
                Err(error) => break Err(error),
            }
        };
        let used = self.bytes.len() - rest.len();
        self.bytes.drain(..used);
        result
    }

    /// Bytes that are kept for a message that is not whole.
    pub fn buffered_bytes(&self) -> usize {
        self.bytes.len() + self.message.len()
    }
}

struct Frame<'a> {
    last: bool,
    body: &'a [u8],
    /// By its sender, up to here.
    said: u32,
}

/// The first frame and what comes after it; None if it is incomplete.
fn next(bytes: &[u8], lane: Lane, said: u32) -> Result<Option<(Frame<'_>, &[u8])>, FrameError> {
    let Some((header, behind)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else {
        // The bytes that are here are checked, so that garbage does not wait for more.
        let known = bytes.len().min(MAGIC.len());
        return if bytes[..known] == MAGIC[..known] { Ok(None) } else { Err(FrameError::Malformed("not a frame")) };
    };
    if header[..4] != MAGIC {
        return Err(FrameError::Malformed("not a frame"));
    }
    if header[4] != lane as u8 || header[5] & !LAST != 0 || header[6..8] != [0, 0] {
        return Err(FrameError::Malformed("a frame of another lane, or of another version"));
    }
    let length = u32::from_le_bytes(header[8..12].try_into().expect("4 bytes")) as usize;
    if length > FRAME_BODY_BYTES_MAX {
        return Err(FrameError::Malformed("a frame is longer than frames are"));
    }
    let last = header[5] == LAST;
    if !last && length == 0 {
        return Err(FrameError::Malformed("a frame says nothing, and is not the last one"));
    }
    let Some((body, behind)) = behind.split_at_checked(length) else { return Ok(None) };
    let said = crc32c_behind(said, &[&header[..12], body]);
    if said.to_le_bytes() != header[12..] {
        return Err(FrameError::Malformed("the checksum of a frame is wrong"));
    }
    Ok(Some((Frame { last, body, said }, behind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(frames: &mut Frames, bytes: &[u8]) -> Result<Vec<Vec<u8>>, FrameError> {
        let mut messages = Vec::new();
        frames.decode(bytes, |message| messages.push(message))?;
        Ok(messages)
    }

    #[test]
    fn messages_come_back_however_their_bytes_are_cut() {
        let large = vec![7; FRAME_BODY_BYTES_MAX + 5];
        let messages = [&b""[..], b"one", &large, b"two"];
        let (mut bytes, mut said) = (Vec::new(), 7);
        messages.iter().for_each(|message| write_message(&mut bytes, &mut said, Lane::Entries, message));
        for step in [1_000_000_000, 65_537, 1_009] {
            let mut frames = Frames::new(Lane::Entries, 1 << 24, 7);
            let mut got = Vec::new();
            for piece in bytes.chunks(step) {
                got.extend(decoded(&mut frames, piece).unwrap());
            }
            assert_eq!(got, messages);
            assert_eq!(frames.buffered_bytes(), 0);
        }
        let mut frames = Frames::new(Lane::Entries, 1 << 24, 7);
        let small: Vec<u8> = bytes[..40].to_vec();
        let got: Vec<_> = small.iter().flat_map(|byte| decoded(&mut frames, &[*byte]).unwrap()).collect();
        assert_eq!(got, messages[..2]);
    }

    #[test]
    fn a_message_at_the_limit_fits_and_one_byte_more_does_not() {
        for (length, fits) in [(100, true), (101, false)] {
            let mut bytes = Vec::new();
            write_message(&mut bytes, &mut 0, Lane::Control, &vec![1; length]);
            assert_eq!(decoded(&mut Frames::new(Lane::Control, 100, 0), &bytes).is_ok(), fits);
        }
        // In pieces, too.
        let mut bytes = Vec::new();
        write_message(&mut bytes, &mut 0, Lane::Control, &vec![1; FRAME_BODY_BYTES_MAX + 1]);
        let mut frames = Frames::new(Lane::Control, FRAME_BODY_BYTES_MAX, 0);
        assert_eq!(decoded(&mut frames, &bytes), Err(FrameError::TooLarge { bytes_max: FRAME_BODY_BYTES_MAX }));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let mut bytes = Vec::new();
        write_message(&mut bytes, &mut 0, Lane::Calls, b"a message");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 16;
            // A length that became larger waits for more bytes, and is then wrong.
            changed.extend([0; 64]);
            let outcome = decoded(&mut Frames::new(Lane::Calls, 1 << 20, 0), &changed);
            assert!(!matches!(&outcome, Ok(messages) if !messages.is_empty()), "byte {at}: {outcome:?}");
        }
    }

    /// Each of the messages `a`, `b` and `c`, as one side says them.
    fn said_in_turn(mut said: u32) -> [Vec<u8>; 3] {
        [b"a", b"b", b"c"].map(|message| {
            let mut bytes = Vec::new();
            write_message(&mut bytes, &mut said, Lane::Calls, message);
            bytes
        })
    }

    #[test]
    fn frames_of_another_connection_or_out_of_turn_are_noticed() {
        let heard = |begin: u32, frames: &[&Vec<u8>]| {
            let mut there = Frames::new(Lane::Calls, 1 << 20, begin);
            let mut messages = Vec::new();
            let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.iter().copied()).collect();
            let decoded = there.decode(&bytes, |message| messages.push(message));
            (messages, decoded.is_ok())
        };
        let [a, b, c] = said_in_turn(8);
        let messages = |said: &str| said.bytes().map(|byte| vec![byte]).collect::<Vec<_>>();
        assert_eq!(heard(8, &[&a, &b, &c]), (messages("abc"), true));
        assert_eq!(heard(9, &[&a, &b, &c]), (messages(""), false), "another connection");
        assert_eq!(heard(8, &[&a, &a]), (messages("a"), false), "again");
        assert_eq!(heard(8, &[&a, &c]), (messages("a"), false), "one is missing");
        assert_eq!(heard(8, &[&b, &a]), (messages(""), false), "in another order");
        assert_eq!(heard(8, &[&a, &said_in_turn(9)[1]]), (messages("a"), false), "from another connection");
    }

    #[test]
    fn the_bytes_of_frames_are_these() {
        let mut bytes = Vec::new();
        write_message(&mut bytes, &mut 0x1234_5678, Lane::Calls, b"ab");
        let header = b"FFRM\x02\x01\0\0\x02\0\0\0";
        let checksum = crc32c_behind(0x1234_5678, &[header, b"ab"]);
        assert_eq!(bytes, [&header[..], &checksum.to_le_bytes(), b"ab"].concat());
        assert_ne!(checksum, crc32c_behind(0, &[header, b"ab"]));
    }

    #[test]
    fn hostile_bytes_neither_panic_nor_take_memory() {
        bolero::check!().with_iterations(20_000).with_type::<Vec<u8>>().for_each(|bytes| {
            let mut frames = Frames::new(Lane::Control, 1 << 16, 0);
            let mut prefixed = Vec::new();
            write_message(&mut prefixed, &mut 0, Lane::Control, b"x");
            prefixed.truncate(bytes.first().map_or(0, |byte| *byte as usize % 18));
            prefixed.extend_from_slice(bytes);
            let _ = frames.decode(&prefixed, drop);
            assert!(frames.buffered_bytes() <= prefixed.len());
        });
    }
}
