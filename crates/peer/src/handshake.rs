//! The first bytes of a connection: who calls, for which lane, and whether that is taken.
//!
//! Both messages have a fixed size, so nothing is allocated for whoever is not known yet.

use crate::frame::Lane;
use ferrite_base::checksum::crc32c;
use ferrite_base::{Incarnation, NodeId};
use std::fmt;

/// Of the cluster's protocol.
pub const VERSION: u16 = 1;
pub const HELLO_BYTES: usize = 56;
pub const ANSWER_BYTES: usize = 56;
/// Of a node that is in no cluster yet.
pub const NO_CLUSTER: [u8; 16] = [0; 16];
const MAGIC: [u8; 8] = *b"FERRPEER";

/// Who speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The oldest and the newest version that it speaks.
    pub versions: (u16, u16),
    pub lane: Lane,
    pub cluster: [u8; 16],
    pub node: NodeId,
    pub incarnation: Incarnation,
    /// Drawn at this start of its process: two processes of one data directory differ in it.
    pub start: u64,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No version that both speak.
    Version,
    Cluster,
    /// A later start of that node is known.
    Incarnation,
    /// Another process says that it is the same start of the same node, or this one.
    Copied,
    /// Not among the nodes that this one expects.
    Unknown,
    /// It is in no cluster yet.
    NoCluster,
    /// An earlier start of that node is connected, and speaks.
    Runs,
}

impl Refusal {
    const ALL: [Refusal; 7] = [
        Refusal::Version,
        Refusal::Cluster,
        Refusal::Incarnation,
        Refusal::Copied,
        Refusal::Unknown,
        Refusal::NoCluster,
        Refusal::Runs,
    ];

    fn byte(self) -> u8 {
        (1..).zip(Refusal::ALL).find(|(_, other)| *other == self).map_or(0, |(number, _)| number)
    }
}

/// As the operator of either node reads it.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Version => "it speaks another version of the cluster protocol: run releases that fit together",
            Refusal::Cluster => "it belongs to another cluster: check --cluster and the data directory",
            Refusal::Incarnation => "a later start of this node is known: this process is an old one",
            Refusal::Copied => {
                "another process runs with the same node id and start: a data directory was copied. Start only one of the two"
            }
            Refusal::Unknown => "it is not a node of this cluster, or another has taken its place: a node is added with an empty directory and --join",
            Refusal::NoCluster => "the node that answered is not in a cluster yet",
            Refusal::Runs => {
                "an earlier start of this node still runs: a data directory was copied. Start only one of the two"
            }
        })
    }
}

/// The answer to a hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The version that is spoken from here on, or why not.
    pub outcome: Result<u16, Refusal>,
    /// Who answers.
    pub from: Hello,
}

impl Hello {
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        self.encode_with(self.versions, self.lane as u8)
    }

    fn encode_with(&self, versions: (u16, u16), byte: u8) -> [u8; HELLO_BYTES] {
        let mut out = [0; HELLO_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&versions.0.to_le_bytes());
        out[10..12].copy_from_slice(&versions.1.to_le_bytes());
        out[12] = byte;
        out[13] = self.lane as u8;
        out[16..32].copy_from_slice(&self.cluster);
        out[32..36].copy_from_slice(&self.node.0.to_le_bytes());
        out[36..44].copy_from_slice(&self.incarnation.0.to_le_bytes());
        out[44..52].copy_from_slice(&self.start.to_le_bytes());
        let checksum = crc32c(&out[..52]);
        out[52..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// None: whoever speaks is not a node.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Hello> {
        let (hello, byte) = decode(bytes)?;
        (byte == hello.lane as u8 && hello.versions.0 <= hello.versions.1).then_some(hello)
    }

    /// The version that both speak, if there is one.
    pub fn common_version(&self, other: &Hello) -> Option<u16> {
        let (least, most) = (self.versions.0.max(other.versions.0), self.versions.1.min(other.versions.1));
        (least <= most).then_some(most)
    }
}

impl Answer {
    pub fn encode(&self) -> [u8; ANSWER_BYTES] {
        match self.outcome {
            Ok(version) => self.from.encode_with((version, version), 0),
            Err(refusal) => self.from.encode_with(self.from.versions, refusal.byte()),
        }
    }

    pub fn decode(bytes: &[u8; ANSWER_BYTES]) -> Option<Answer> {
        let (from, byte) = decode(bytes)?;
        let outcome = match byte.checked_sub(1) {
            None => Ok(from.versions.0),
            Some(place) => Err(*Refusal::ALL.get(place as usize)?),
        };
        Some(Answer { outcome, from })
    }
}

fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<(Hello, u8)> {
    let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2 bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let sound = bytes[..8] == MAGIC && bytes[14..16] == [0, 0] && crc32c(&bytes[..52]).to_le_bytes() == bytes[52..];
    let lane = Lane::from_byte(bytes[13]).filter(|_| sound)?;
    let hello = Hello {
        versions: (u16_at(8), u16_at(10)),
        lane,
        cluster: bytes[16..32].try_into().expect("16 bytes"),
        node: NodeId(u32::from_le_bytes(bytes[32..36].try_into().expect("4 bytes"))),
        incarnation: Incarnation(u64_at(36)),
        start: u64_at(44),
    };
    Some((hello, bytes[12]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            versions: (1, 3),
            lane: Lane::Calls,
            cluster: [9; 16],
            node: NodeId(2),
            incarnation: Incarnation(7),
            start: 1 << 40,
        }
    }

    #[test]
    fn both_sides_read_what_the_other_wrote() {
        assert_eq!(Hello::decode(&hello().encode()), Some(hello()));
        for outcome in Refusal::ALL.into_iter().map(Err) {
            let answer = Answer { outcome, from: hello() };
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        let welcome = Answer { outcome: Ok(2), from: Hello { versions: (2, 2), ..hello() } };
        assert_eq!(Answer::decode(&welcome.encode()), Some(welcome));
    }

    #[test]
    fn versions_meet_at_the_newest_that_both_speak() {
        let with = |versions| Hello { versions, ..hello() };
        assert_eq!(hello().common_version(&with((2, 9))), Some(3));
        assert_eq!(hello().common_version(&with((1, 1))), Some(1));
        assert_eq!(hello().common_version(&with((4, 9))), None);
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let bytes = hello().encode();
        for at in 0..bytes.len() {
            let mut changed = bytes;
            changed[at] ^= 1;
            assert_eq!((Hello::decode(&changed), Answer::decode(&changed)), (None, None), "byte {at}");
        }
    }
}
