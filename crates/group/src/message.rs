//! The messages between nodes about a group, as bytes (docs/format/peer.md, messages).
//!
//! Entries have the same bytes in a message as in the log, so that a copy writes what it was sent.
//! Decoding returns errors, never panics, and allocates no more than what came.

use crate::entry::{Entry, EntryError};
use crate::times::TIMES;
use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::limits::PEER_MESSAGE_BYTES_MAX;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, Position};
use ferrite_replica::group::{Envelope, Header, History, Mark, Member, Message, Said};

const APPEND: u8 = 1;
const ACKED: u8 = 2;
const MISMATCH: u8 = 3;
const REFUSED: u8 = 4;
const DIFFERS: u8 = 5;
const CLOCK: u8 = 6;
const KNOWS: u8 = 7;

/// Of a message without its entries, except for a history.
pub const HEADER_BYTES_MAX: usize = 25 + 36;

/// Of a message, leaving room for something in front of it.
pub const MESSAGE_BYTES_MAX: usize = PEER_MESSAGE_BYTES_MAX - 16;

/// Writes a message; `entries`: those of an append, whole and in sequence.
///
/// # Panics
/// If entries are given to another message.
pub fn encode(out: &mut Vec<u8>, group: GroupId, envelope: &Envelope, entries: &[u8]) {
    let Envelope { from, epoch, message } = envelope;
    assert!(entries.is_empty() || matches!(message, Message::Append { .. }), "entries go with an append");
    out.push(match message {
        Message::Append { .. } => APPEND,
        Message::Acked { .. } => ACKED,
        Message::Mismatch { .. } => MISMATCH,
        Message::Refused { .. } => REFUSED,
        Message::Differs { .. } => DIFFERS,
        Message::Clock(_) => CLOCK,
        Message::Knows { .. } => KNOWS,
    });
    out.extend_from_slice(&group.0.to_le_bytes());
    out.extend_from_slice(&from.node.0.to_le_bytes());
    for number in [from.incarnation.0, epoch.0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    match message {
        Message::Append { previous, commit, round, .. } => {
            put_mark(out, previous);
            out.extend_from_slice(&commit.0.to_le_bytes());
            out.extend_from_slice(&round.to_le_bytes());
            out.extend_from_slice(entries);
        }
        Message::Acked { durable, compares, round } => {
            put_mark(out, durable);
            out.push(u8::from(*compares));
            out.extend_from_slice(&round.to_le_bytes());
        }
        Message::Mismatch { history, end, round } => {
            out.extend_from_slice(&end.0.to_le_bytes());
            out.extend_from_slice(&round.to_le_bytes());
            for (epoch, position) in history.starts() {
                out.extend_from_slice(&epoch.0.to_le_bytes());
                out.extend_from_slice(&position.0.to_le_bytes());
            }
        }
        Message::Refused { promised } => out.extend_from_slice(&promised.0.to_le_bytes()),
        Message::Differs { entry } => out.extend_from_slice(&entry.0.to_le_bytes()),
        Message::Clock(said) => put_said(out, *said),
        Message::Knows { said, applied, able } => {
            put_said(out, *said);
            out.extend_from_slice(&applied.0.to_le_bytes());
            out.push(u8::from(*able));
        }
    }
}

/// A message with its group, and the entries of an append: as many as it has headers.
pub fn decode(bytes: &[u8]) -> Result<(GroupId, Envelope, &[u8]), EntryError> {
    let mut rest = Reader::<EntryError>::new(bytes);
    let kind = rest.u8()?;
    let group = GroupId(rest.u32()?);
    let from = Member { node: NodeId(rest.u32()?), incarnation: Incarnation(rest.u64()?) };
    let epoch = Epoch(rest.u64()?);
    let mut entries = &[][..];
    let message = match kind {
        APPEND => {
            let previous = read_mark(&mut rest)?;
            let commit = Position(rest.u64()?);
            let round = rest.u64()?;
            entries = rest.remainder();
            Message::Append { previous, entries: headers(group, previous, entries)?, commit, round }
        }
        ACKED => {
            let durable = read_mark(&mut rest)?;
            let compares = rest.flag()?;
            Message::Acked { durable, compares, round: rest.u64()? }
        }
        MISMATCH => {
            let end = Position(rest.u64()?);
            let round = rest.u64()?;
            let mut starts = Vec::new();
            while !rest.is_empty() {
                starts.push((Epoch(rest.u64()?), Position(rest.u64()?)));
            }
            let history = History::new(starts).ok_or(EntryError("a history is out of order"))?;
            Message::Mismatch { history, end, round }
        }
        REFUSED => Message::Refused { promised: Epoch(rest.u64()?) },
        DIFFERS => Message::Differs { entry: Position(rest.u64()?) },
        CLOCK => Message::Clock(read_said(&mut rest)?),
        KNOWS => Message::Knows { said: read_said(&mut rest)?, applied: Position(rest.u64()?), able: rest.flag()? },
        _ => return Err(EntryError("a message is of an unknown kind")),
    };
    rest.end()?;
    Ok((group, Envelope { from, epoch, message }, entries))
}

/// The entries of an append: each follows the one before it, with the body that its checksum says.
fn headers(group: GroupId, mut previous: Mark, mut entries: &[u8]) -> Result<Vec<Header>, EntryError> {
    let mut headers = Vec::new();
    while let Some(entry) = Entry::take_first(&mut entries)? {
        if entry.group != group || !entry.follows(previous) {
            return Err(EntryError("an entry of a message does not follow the one before it"));
        }
        previous = entry.header.mark;
        headers.push(entry.header);
    }
    Ok(headers)
}

fn put_mark(out: &mut Vec<u8>, mark: &Mark) {
    out.extend_from_slice(&mark.epoch.0.to_le_bytes());
    out.extend_from_slice(&mark.position.0.to_le_bytes());
    out.extend_from_slice(&mark.chain.to_le_bytes());
}

fn put_said(out: &mut Vec<u8>, said: Said) {
    for number in [said.now, said.numbers] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

impl From<ReadFault> for EntryError {
    fn from(fault: ReadFault) -> EntryError {
        EntryError(match fault {
            ReadFault::EndsEarly => "a message ends early",
            ReadFault::LeftOver => "bytes are left over at the end of a message",
            ReadFault::Malformed(_) => "a message is malformed",
        })
    }
}

fn read_said(rest: &mut Reader<'_, EntryError>) -> Result<Said, EntryError> {
    Ok(Said { now: read_time(rest)?, numbers: read_time(rest)? })
}

fn read_time(rest: &mut Reader<'_, EntryError>) -> Result<i64, EntryError> {
    let time = rest.i64()?;
    if TIMES.contains(&time) { Ok(time) } else { Err(EntryError("a time of a message is out of range")) }
}

fn read_mark(rest: &mut Reader<'_, EntryError>) -> Result<Mark, EntryError> {
    Ok(Mark { epoch: Epoch(rest.u64()?), position: Position(rest.u64()?), chain: rest.u32()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EntryBuffer;

    fn mark(position: u64) -> Mark {
        Mark { epoch: Epoch(4), position: Position(position), chain: 77 }
    }

    /// Two entries after `mark(9)`.
    fn entries() -> (Vec<Header>, Vec<u8>) {
        let (mut headers, mut bytes, mut previous) = (Vec::new(), Vec::new(), mark(9));
        for body in [&b"first"[..], b"second"] {
            let mut buffer = EntryBuffer::default();
            buffer.records().extend_from_slice(body);
            let header = Header::after(GroupId(3), previous, Epoch(4), false, buffer.checksum(), buffer.len() as u32);
            bytes.extend(buffer.seal(GroupId(3), &header, Position(8), 5));
            previous = header.mark;
            headers.push(header);
        }
        (headers, bytes)
    }

    fn envelopes() -> Vec<(Envelope, Vec<u8>)> {
        let envelope = |message| Envelope {
            from: Member { node: NodeId(2), incarnation: Incarnation(6) },
            epoch: Epoch(4),
            message,
        };
        let (headers, bytes) = entries();
        let history = History::new(vec![(Epoch(1), Position(1)), (Epoch(4), Position(9))]).unwrap();
        let append = |entries| Message::Append { previous: mark(9), entries, commit: Position(7), round: 30 };
        vec![
            (envelope(append(headers)), bytes),
            (envelope(append(Vec::new())), Vec::new()),
            (envelope(Message::Acked { durable: mark(9), compares: true, round: 31 }), Vec::new()),
            (envelope(Message::Mismatch { history, end: Position(12), round: 32 }), Vec::new()),
            (envelope(Message::Refused { promised: Epoch(9) }), Vec::new()),
            (envelope(Message::Differs { entry: Position(8) }), Vec::new()),
            (envelope(Message::Clock(Said { now: -5, numbers: 1 << 50 })), Vec::new()),
            (envelope(knows(Said { now: 1 << 50, numbers: -6 }, true)), Vec::new()),
            (envelope(knows(Said::default(), false)), Vec::new()),
        ]
    }

    fn knows(said: Said, able: bool) -> Message {
        Message::Knows { said, applied: Position(8), able }
    }

    fn encoded(envelope: &Envelope, entries: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, GroupId(3), envelope, entries);
        out
    }

    #[test]
    fn messages_read_back_as_written() {
        for (envelope, entries) in envelopes() {
            let bytes = encoded(&envelope, &entries);
            assert_eq!(decode(&bytes), Ok((GroupId(3), envelope, &entries[..])));
        }
    }

    #[test]
    fn what_is_cut_or_does_not_follow_is_refused() {
        for (envelope, entries) in envelopes() {
            let bytes = encoded(&envelope, &entries);
            for end in 0..bytes.len() {
                // An append or a history that is cut between two of its parts is a shorter one.
                if let Ok((_, shorter, _)) = decode(&bytes[..end]) {
                    let parts = matches!(shorter.message, Message::Append { .. } | Message::Mismatch { .. });
                    assert!(parts && shorter != envelope, "{end} of {envelope:?}");
                }
            }
            assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
        }
        let (envelope, entries) = envelopes().remove(0);
        let bytes = encoded(&envelope, &entries);
        let start = bytes.len() - entries.len();
        for at in start..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 2;
            // The frame's checksum covers commit position and time.
            let (first, second) = (start + 25..start + 41, start + 79..start + 95);
            assert_eq!(decode(&changed).is_ok(), first.contains(&at) || second.contains(&at), "byte {at}");
        }
    }

    #[test]
    fn times_that_no_timestamp_has_are_refused() {
        let from = Member { node: NodeId(2), incarnation: Incarnation(6) };
        for (time, is_taken) in [
            (*TIMES.start(), true),
            (*TIMES.end(), true),
            (TIMES.start() - 1, false),
            (TIMES.end() + 1, false),
            (i64::MIN, false),
            (i64::MAX, false),
        ] {
            for said in [Said { now: time, numbers: 0 }, Said { now: 0, numbers: time }] {
                for message in [Message::Clock(said), knows(said, true)] {
                    let envelope = Envelope { from, epoch: Epoch(4), message };
                    assert_eq!(decode(&encoded(&envelope, &[])).is_ok(), is_taken, "{envelope:?}");
                }
            }
        }
    }

    #[test]
    fn hostile_bytes_do_not_panic() {
        bolero::check!().with_iterations(20_000).with_type::<(u8, u16, Vec<u8>)>().for_each(|(which, cut, bytes)| {
            let _ = decode(bytes);
            let (envelope, entries) = envelopes().remove(*which as usize % 8);
            let mut whole = encoded(&envelope, &entries);
            whole.truncate(*cut as usize % (whole.len() + 1));
            whole.extend_from_slice(bytes);
            let _ = decode(&whole);
        });
    }
}
