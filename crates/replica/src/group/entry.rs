//! What the state machines know of an entry: its place, and checksums instead of its bytes.

use ferrite_base::checksum::crc32c;
use ferrite_base::{Epoch, GroupId, Position};

/// The end of a stream after some entry. Two streams with equal marks are equal up to there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    pub epoch: Epoch,
    pub position: Position,
    /// The entry's chain checksum.
    pub chain: u32,
}

impl Mark {
    /// Before the first entry.
    pub const ORIGIN: Mark = Mark { epoch: Epoch(0), position: Position(0), chain: 0 };
}

/// An entry without its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub mark: Mark,
    /// The first entry of its epoch.
    pub starts_epoch: bool,
    /// CRC-32C of its records.
    pub body: u32,
    /// Of its records.
    pub bytes: u32,
}

impl Header {
    /// The entry that follows `previous`.
    pub fn after(group: GroupId, previous: Mark, epoch: Epoch, starts_epoch: bool, body: u32, bytes: u32) -> Header {
        assert!(epoch >= previous.epoch, "epochs never fall: {epoch} after {}", previous.epoch);
        let position = Position(previous.position.0 + 1);
        let chain = chain(group, previous.chain, epoch, position, starts_epoch, body);
        Header { mark: Mark { epoch, position, chain }, starts_epoch, body, bytes }
    }

    /// Whether this is the entry after `previous`: numbers, epochs and checksum agree.
    pub fn follows(&self, group: GroupId, previous: Mark) -> bool {
        let Mark { epoch, position, .. } = self.mark;
        let in_order = position.0.checked_sub(1) == Some(previous.position.0)
            && if self.starts_epoch { epoch > previous.epoch } else { epoch == previous.epoch };
        in_order && *self == Header::after(group, previous, epoch, self.starts_epoch, self.body, self.bytes)
    }
}

fn chain(group: GroupId, previous: u32, epoch: Epoch, position: Position, starts_epoch: bool, body: u32) -> u32 {
    let mut bytes = [0; 29];
    bytes[..4].copy_from_slice(&previous.to_le_bytes());
    bytes[4..8].copy_from_slice(&group.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&epoch.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&position.0.to_le_bytes());
    bytes[24] = u8::from(starts_epoch);
    bytes[25..].copy_from_slice(&body.to_le_bytes());
    crc32c(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_follows_only_the_one_that_it_was_made_after() {
        let group = GroupId(3);
        let start = Header::after(group, Mark::ORIGIN, Epoch(1), true, 7, 0);
        let next = Header::after(group, start.mark, Epoch(1), false, 8, 10);
        assert!(start.follows(group, Mark::ORIGIN) && next.follows(group, start.mark));
        assert!(!next.follows(group, Mark::ORIGIN));
        assert!(!next.follows(GroupId(4), start.mark));
        assert!(!next.follows(group, Mark { chain: 1, ..start.mark }));
        assert!(!Header { body: 9, ..next }.follows(group, start.mark));
        let other = Header::after(group, start.mark, Epoch(2), false, 8, 10);
        assert!(!other.follows(group, start.mark), "an epoch begins with its start");
        let again = Header::after(group, start.mark, Epoch(1), true, 7, 0);
        assert!(!again.follows(group, start.mark), "an epoch begins once");
    }
}
