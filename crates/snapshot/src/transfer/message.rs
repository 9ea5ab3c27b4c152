//! What source and sink say to each other, as bytes (docs/format/peer.md, messages of a transfer).
//!
//! Decoding returns errors, never panics, and allocates no more than what came.

use crate::files::NUMBER_MAX;
use ferrite_base::NodeId;
use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::checksum::crc32c_of;
use ferrite_base::limits::{PARTITIONS_MAX, TRANSFER_CHUNK_BYTES};
use std::fmt;

/// Stands for the bytes of messages, manifests and rows files together: who reads another one
/// cannot use what would come.
pub(super) const FORMAT: u32 = 1;

const INSTALL: u8 = 1;
const CHUNK: u8 = 2;
const ACKED: u8 = 3;
const INSTALLED: u8 = 4;
const REFUSED: u8 = 5;
const LOADED: u8 = 6;

/// Which snapshot it is. Nodes number theirs on their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferId {
    /// That of the log, which all nodes of a cluster share.
    pub database: [u8; 16],
    /// Whose snapshot it is.
    pub node: NodeId,
    pub snapshot: u64,
    /// CRC-32C of its manifest, and with that of all.
    pub manifest: u32,
}

/// A place in the files of a snapshot: 0 is the manifest, then come the partitions' rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FileOffset {
    pub file: u32,
    pub offset: u64,
}

/// Why a sink does not take a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It reads this format.
    Format(u32),
    /// It belongs to another database.
    Database,
    /// It is taking another one: that node's, of that number.
    Other(NodeId, u64),
    /// It needs so many bytes, and has not got them.
    NoRoom(u64),
    /// The sizes are none that files of a snapshot have.
    Sizes,
    /// This file is not what its source says, though it was sent twice.
    Damaged(u32),
    /// The node has snapshots of its own up to this number: one with a higher number is to be
    /// taken.
    Number(u64),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Format(known) => write!(f, "the node takes transfers of format {known}: update the older node"),
            Refusal::Database => f.write_str("the node belongs to another database"),
            Refusal::Other(node, snapshot) => write!(f, "the node is taking snapshot {snapshot} of node {node}"),
            Refusal::NoRoom(needed) => write!(f, "the node has no room for {needed} bytes: free disk space there"),
            Refusal::Sizes => f.write_str("the files' sizes are not those of a snapshot"),
            Refusal::Damaged(0) => f.write_str("the manifest is damaged at its source"),
            Refusal::Number(above) => write!(f, "the node has snapshots up to number {above} of its own"),
            Refusal::Damaged(file) => write!(f, "the rows of partition {} are damaged at their source", file - 1),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransferMessage<'a> {
    /// Source: take this snapshot, in these files; `anew`: what was there of another one cannot be
    /// completed any more. Said again where nothing is heard.
    Install { format: u32, anew: bool, sizes: Vec<u64> },
    /// Source: what stands there in a file.
    Chunk { at: FileOffset, bytes: &'a [u8] },
    /// Sink: everything before has come; `again`: go on from there, whatever was sent.
    Acked { at: FileOffset, again: bool },
    /// Sink: the snapshot is here, whole and durable. The node reads it, or will.
    Installed,
    /// Sink: the node has read it, and made it its own.
    Loaded,
    /// Sink: nothing more will be taken.
    Refused(Refusal),
}

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferError(pub &'static str);

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for TransferError {}

impl From<ReadFault> for TransferError {
    fn from(fault: ReadFault) -> TransferError {
        TransferError(match fault {
            ReadFault::EndsEarly => "a message of a transfer ends early",
            ReadFault::LeftOver | ReadFault::Malformed(_) => "a message of a transfer is malformed",
        })
    }
}

/// Writes a message at the end of `out`.
pub fn encode(out: &mut Vec<u8>, id: &TransferId, message: &TransferMessage<'_>) {
    let start = out.len();
    out.push(match message {
        TransferMessage::Install { .. } => INSTALL,
        TransferMessage::Chunk { .. } => CHUNK,
        TransferMessage::Acked { .. } => ACKED,
        TransferMessage::Installed => INSTALLED,
        TransferMessage::Loaded => LOADED,
        TransferMessage::Refused(_) => REFUSED,
    });
    out.extend_from_slice(&id.database);
    out.extend_from_slice(&id.node.0.to_le_bytes());
    out.extend_from_slice(&id.snapshot.to_le_bytes());
    out.extend_from_slice(&id.manifest.to_le_bytes());
    match message {
        TransferMessage::Install { format, anew, sizes } => {
            out.extend_from_slice(&format.to_le_bytes());
            out.push(u8::from(*anew));
            sizes.iter().for_each(|size| out.extend_from_slice(&size.to_le_bytes()));
        }
        TransferMessage::Chunk { at, bytes } => {
            put_offset(out, at);
            let checksum = crc32c_of(&[&out[start..], bytes]);
            out.extend_from_slice(&checksum.to_le_bytes());
            out.extend_from_slice(bytes);
        }
        TransferMessage::Acked { at, again } => {
            put_offset(out, at);
            out.push(u8::from(*again));
        }
        TransferMessage::Installed | TransferMessage::Loaded => {}
        TransferMessage::Refused(refusal) => {
            let (reason, first, second) = match *refusal {
                Refusal::Format(known) => (1, known, 0),
                Refusal::Database => (2, 0, 0),
                Refusal::Other(node, snapshot) => (3, node.0, snapshot),
                Refusal::NoRoom(needed) => (4, 0, needed),
                Refusal::Sizes => (5, 0, 0),
                Refusal::Damaged(file) => (6, file, 0),
                Refusal::Number(above) => (7, 0, above),
            };
            out.push(reason);
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&second.to_le_bytes());
        }
    }
}

pub fn decode(bytes: &[u8]) -> Result<(TransferId, TransferMessage<'_>), TransferError> {
    let mut rest = Reader::<TransferError>::new(bytes);
    let malformed = TransferError("a message of a transfer is malformed");
    let kind = rest.u8()?;
    let id =
        TransferId { database: rest.array()?, node: NodeId(rest.u32()?), snapshot: rest.u64()?, manifest: rest.u32()? };
    if id.snapshot > NUMBER_MAX {
        return Err(malformed);
    }
    let message = match kind {
        INSTALL => {
            let format = rest.u32()?;
            let anew = rest.flag()?;
            if rest.rest().len() > 8 * (1 + PARTITIONS_MAX) {
                return Err(malformed);
            }
            let mut sizes = Vec::with_capacity(rest.rest().len() / 8);
            while !rest.is_empty() {
                sizes.push(rest.u64()?);
            }
            TransferMessage::Install { format, anew, sizes }
        }
        CHUNK => {
            let at = read_offset(&mut rest)?;
            let head = &bytes[..bytes.len() - rest.rest().len()];
            let checksum = rest.u32()?;
            let chunk = rest.remainder();
            if chunk.is_empty() || chunk.len() > TRANSFER_CHUNK_BYTES {
                return Err(malformed);
            }
            if crc32c_of(&[head, chunk]) != checksum {
                return Err(TransferError("the checksum of a chunk is wrong"));
            }
            TransferMessage::Chunk { at, bytes: chunk }
        }
        ACKED => TransferMessage::Acked { at: read_offset(&mut rest)?, again: rest.flag()? },
        INSTALLED => TransferMessage::Installed,
        LOADED => TransferMessage::Loaded,
        REFUSED => {
            let reason = rest.u8()?;
            let first = rest.u32()?;
            let second = rest.u64()?;
            TransferMessage::Refused(match reason {
                1 => Refusal::Format(first),
                2 => Refusal::Database,
                3 => Refusal::Other(NodeId(first), second),
                4 => Refusal::NoRoom(second),
                5 => Refusal::Sizes,
                6 => Refusal::Damaged(first),
                7 if second <= NUMBER_MAX => Refusal::Number(second),
                _ => return Err(malformed),
            })
        }
        _ => return Err(TransferError("a message of a transfer is of an unknown kind")),
    };
    rest.end()?;
    Ok((id, message))
}

fn put_offset(out: &mut Vec<u8>, at: &FileOffset) {
    out.extend_from_slice(&at.file.to_le_bytes());
    out.extend_from_slice(&at.offset.to_le_bytes());
}

fn read_offset(rest: &mut Reader<'_, TransferError>) -> Result<FileOffset, TransferError> {
    Ok(FileOffset { file: rest.u32()?, offset: rest.u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TransferId =
        TransferId { database: *b"0123456789abcdef", node: NodeId(3), snapshot: 0x0102, manifest: 0x0a0b_0c0d };

    fn messages() -> Vec<TransferMessage<'static>> {
        let at = FileOffset { file: 2, offset: 8_192 };
        let refusals = [
            Refusal::Format(1),
            Refusal::Database,
            Refusal::Other(NodeId(7), 9),
            Refusal::NoRoom(1 << 40),
            Refusal::Sizes,
            Refusal::Damaged(1),
            Refusal::Number(1 << 33),
        ];
        let mut messages = vec![
            TransferMessage::Install { format: FORMAT, anew: true, sizes: vec![300, 4_096, 1 << 33] },
            TransferMessage::Chunk { at, bytes: b"some of a file" },
            TransferMessage::Acked { at, again: false },
            TransferMessage::Installed,
            TransferMessage::Loaded,
        ];
        messages.extend(refusals.map(TransferMessage::Refused));
        messages
    }

    fn encoded(message: &TransferMessage<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, &ID, message);
        out
    }

    #[test]
    fn messages_read_back_as_written() {
        for message in messages() {
            assert_eq!(decode(&encoded(&message)), Ok((ID, message)));
        }
    }

    #[test]
    fn what_is_cut_or_too_long_is_refused() {
        for message in messages() {
            let bytes = encoded(&message);
            for end in 0..bytes.len() {
                // An install that is cut between two sizes is one of fewer files.
                let shorter = decode(&bytes[..end]);
                let fewer = matches!(shorter, Ok((_, TransferMessage::Install { .. })));
                assert!(shorter.is_err() || fewer, "{end} of {message:?}");
            }
            assert!(decode(&[&bytes[..], &[0]].concat()).is_err(), "{message:?}");
        }
    }

    #[test]
    fn a_number_behind_which_there_is_none_is_refused() {
        let decodes = |snapshot, message: &TransferMessage<'_>| {
            let mut out = Vec::new();
            encode(&mut out, &TransferId { snapshot, ..ID }, message);
            decode(&out).is_ok()
        };
        let above = |number| TransferMessage::Refused(Refusal::Number(number));
        assert!(decodes(NUMBER_MAX, &TransferMessage::Loaded) && !decodes(NUMBER_MAX + 1, &TransferMessage::Loaded));
        assert!(decodes(1, &above(NUMBER_MAX)) && !decodes(1, &above(NUMBER_MAX + 1)) && !decodes(1, &above(u64::MAX)));
    }

    #[test]
    fn every_flipped_bit_of_a_chunk_is_seen() {
        let chunk = messages().remove(1);
        let bytes = encoded(&chunk);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let decoded = decode(&flipped);
            assert!(!matches!(decoded, Ok((_, TransferMessage::Chunk { .. }))), "bit {bit}");
        }
    }

    #[test]
    fn a_chunk_at_the_limit_and_one_past_it() {
        let bytes = vec![7; TRANSFER_CHUNK_BYTES + 1];
        let at = FileOffset { file: 1, offset: 0 };
        assert!(decode(&encoded(&TransferMessage::Chunk { at, bytes: &bytes[1..] })).is_ok());
        assert!(decode(&encoded(&TransferMessage::Chunk { at, bytes: &bytes })).is_err());
        let sizes = vec![4_096; PARTITIONS_MAX + 2];
        let install = |sizes: &[u64]| TransferMessage::Install { format: FORMAT, anew: false, sizes: sizes.to_vec() };
        assert!(decode(&encoded(&install(&sizes[1..]))).is_ok());
        assert!(decode(&encoded(&install(&sizes))).is_err());
    }

    /// The bytes of the format page.
    #[test]
    fn golden_messages() {
        let head = b"0123456789abcdef\x03\0\0\0\x02\x01\0\0\0\0\0\0\x0d\x0c\x0b\x0a";
        let at = FileOffset { file: 2, offset: 8_192 };
        let place = b"\x02\0\0\0\0\x20\0\0\0\0\0\0";
        let install = encoded(&TransferMessage::Install { format: 1, anew: true, sizes: vec![300] });
        assert_eq!(install, [&[1], &head[..], b"\x01\0\0\0\x01\x2c\x01\0\0\0\0\0\0"].concat());
        let acked = encoded(&TransferMessage::Acked { at, again: true });
        assert_eq!(acked, [&[3], &head[..], place, &[1]].concat());
        let chunk = encoded(&TransferMessage::Chunk { at, bytes: b"abc" });
        let summed = [&[2], &head[..], place].concat();
        let checksum = crc32c_of(&[&summed, b"abc"]).to_le_bytes();
        assert_eq!(chunk, [&summed[..], &checksum, b"abc"].concat());
        assert_eq!(encoded(&TransferMessage::Installed), [&[4], &head[..]].concat());
        let refused = encoded(&TransferMessage::Refused(Refusal::Other(NodeId(7), 9)));
        assert_eq!(refused, [&[5], &head[..], b"\x03\x07\0\0\0\x09\0\0\0\0\0\0\0"].concat());
    }

    #[test]
    fn hostile_bytes_do_not_panic() {
        bolero::check!().with_iterations(20_000).with_type::<(u8, u16, Vec<u8>)>().for_each(|(which, cut, bytes)| {
            let _ = decode(bytes);
            let all = messages();
            let mut whole = encoded(&all[*which as usize % all.len()]);
            whole.truncate(*cut as usize % (whole.len() + 1));
            whole.extend_from_slice(bytes);
            let _ = decode(&whole);
        });
    }
}
