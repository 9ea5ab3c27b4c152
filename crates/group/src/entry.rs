//! An entry as it is in the log (docs/replication.md, section 2): a header, then records.
//!
//! Decoding borrows, returns errors and never panics.

use ferrite_base::checksum::crc32c;
use ferrite_base::{Epoch, GroupId, Position};
use ferrite_replica::group::{Header, Mark};

pub const KIND_ENTRY: u8 = 6;
/// The first entry of an epoch: its body is the configuration.
pub const KIND_EPOCH_START: u8 = 7;

/// Kind, length, group, epoch, position, commit, time, body checksum, chain.
pub const HEADER_BYTES: usize = 1 + 4 + FIELDS_BYTES;
const FIELDS_BYTES: usize = 4 + 8 + 8 + 8 + 8 + 4 + 4;

/// Why bytes are not an entry, or not one that can come here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryError(pub &'static str);

impl std::fmt::Display for EntryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for EntryError {}

/// Records that become one entry, with room for its header in front of them.
#[derive(Debug, Default)]
pub struct EntryBuffer {
    bytes: Vec<u8>,
}

impl EntryBuffer {
    /// In `bytes`, whose memory is used again.
    pub fn new(mut bytes: Vec<u8>) -> EntryBuffer {
        bytes.clear();
        EntryBuffer { bytes }
    }

    /// Where the next record is written: at the end.
    #[inline]
    pub fn records(&mut self) -> &mut Vec<u8> {
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER_BYTES, 0);
        }
        &mut self.bytes
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= HEADER_BYTES
    }

    /// Bytes of the records.
    pub fn len(&self) -> usize {
        self.bytes.len().saturating_sub(HEADER_BYTES)
    }

    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Its memory, for the next one.
    pub fn into_emptied(mut self) -> Vec<u8> {
        self.bytes.clear();
        self.bytes
    }

    /// For another use.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// CRC-32C of the records.
    pub fn checksum(&self) -> u32 {
        crc32c(self.bytes.get(HEADER_BYTES..).unwrap_or_default())
    }

    /// Writes the header; nothing is added afterwards.
    ///
    /// # Panics
    /// If there are no records, or the header does not match them.
    pub fn seal(mut self, group: GroupId, header: &Header, commit: Position, time: i64) -> Vec<u8> {
        assert!(!self.is_empty(), "an entry has records");
        assert_eq!(self.len(), header.bytes as usize, "the header was made for these records");
        let length = (self.bytes.len() - 5) as u32;
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&[if header.starts_epoch { KIND_EPOCH_START } else { KIND_ENTRY }]);
        put(&length.to_le_bytes());
        put(&group.0.to_le_bytes());
        put(&header.mark.epoch.0.to_le_bytes());
        put(&header.mark.position.0.to_le_bytes());
        put(&commit.0.to_le_bytes());
        put(&time.to_le_bytes());
        put(&header.body.to_le_bytes());
        put(&header.mark.chain.to_le_bytes());
        assert_eq!(at, HEADER_BYTES, "the header fills its room");
        self.bytes
    }
}

/// One decoded entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    pub group: GroupId,
    pub header: Header,
    /// What the leader knew to be committed when it appended this.
    pub commit: Position,
    /// The leader's clock, never going back within a stream: microseconds since 1970.
    pub time: i64,
    /// Records; of an epoch's start, its configuration.
    pub body: &'a [u8],
}

impl<'a> Entry<'a> {
    /// From what follows kind and length.
    pub fn decode(kind: u8, bytes: &'a [u8]) -> Result<Entry<'a>, EntryError> {
        if !matches!(kind, KIND_ENTRY | KIND_EPOCH_START) {
            return Err(EntryError("an entry is of an unknown kind"));
        }
        let Some((fields, body)) = bytes.split_first_chunk::<FIELDS_BYTES>() else {
            return Err(EntryError("an entry ends early"));
        };
        let u32_at = |at: usize| u32::from_le_bytes(fields[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(fields[at..at + 8].try_into().expect("8 bytes"));
        let Ok(length) = u32::try_from(body.len()) else { return Err(EntryError("an entry is too long")) };
        let mark = Mark { epoch: Epoch(u64_at(4)), position: Position(u64_at(12)), chain: u32_at(40) };
        Ok(Entry {
            group: GroupId(u32_at(0)),
            header: Header { mark, starts_epoch: kind == KIND_EPOCH_START, body: u32_at(36), bytes: length },
            commit: Position(u64_at(20)),
            time: u64_at(28) as i64,
            body,
        })
    }

    /// Takes the first of several consecutive entries; None at their end.
    pub fn take_first(bytes: &mut &'a [u8]) -> Result<Option<Entry<'a>>, EntryError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let ends_early = EntryError("an entry ends early");
        let (head, behind) = bytes.split_first_chunk::<5>().ok_or(ends_early)?;
        let length = u32::from_le_bytes(head[1..].try_into().expect("4 bytes")) as usize;
        let (fields, behind) = behind.split_at_checked(length).ok_or(ends_early)?;
        *bytes = behind;
        Entry::decode(head[0], fields).map(Some)
    }

    /// As it is in the log.
    pub fn encode(&self) -> Vec<u8> {
        let mut buffer = EntryBuffer { bytes: vec![0; HEADER_BYTES] };
        buffer.bytes.extend_from_slice(self.body);
        buffer.seal(self.group, &self.header, self.commit, self.time)
    }

    /// Whether it is the entry after `previous`, with the body that it was given.
    pub fn follows(&self, previous: Mark) -> bool {
        self.header.follows(self.group, previous) && crc32c(self.body) == self.header.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> (Header, Vec<u8>) {
        let mut buffer = EntryBuffer::default();
        buffer.records().extend_from_slice(b"records");
        let previous = Mark { epoch: Epoch(3), position: Position(8), chain: 17 };
        let (checksum, length) = (buffer.checksum(), buffer.len() as u32);
        let header = Header::after(GroupId(5), previous, Epoch(3), false, checksum, length);
        (header, buffer.seal(GroupId(5), &header, Position(6), -7))
    }

    #[test]
    fn an_entry_reads_back_as_written() {
        let (header, bytes) = sealed();
        assert_eq!(bytes.len(), HEADER_BYTES + 7);
        assert_eq!((bytes[0], &bytes[1..5]), (KIND_ENTRY, &((bytes.len() - 5) as u32).to_le_bytes()[..]));
        let entry = Entry::decode(bytes[0], &bytes[5..]).unwrap();
        let expected = Entry { group: GroupId(5), header, commit: Position(6), time: -7, body: b"records" };
        assert_eq!(entry, expected);
        assert!(entry.follows(Mark { epoch: Epoch(3), position: Position(8), chain: 17 }));
        assert!(!entry.follows(Mark { epoch: Epoch(3), position: Position(8), chain: 18 }));
    }

    #[test]
    fn a_changed_or_shortened_entry_is_noticed() {
        let (_, bytes) = sealed();
        let previous = Mark { epoch: Epoch(3), position: Position(8), chain: 17 };
        for at in 5..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            // The log's checksum covers the commit position and the time.
            let unchained = (25..41).contains(&at);
            let follows = Entry::decode(changed[0], &changed[5..]).unwrap().follows(previous);
            assert_eq!(follows, unchained, "byte {at}");
        }
        for end in 5..bytes.len() {
            assert!(!Entry::decode(bytes[0], &bytes[5..end]).is_ok_and(|entry| entry.follows(previous)));
        }
        assert!(Entry::decode(2, &bytes[5..]).is_err());
    }
}
