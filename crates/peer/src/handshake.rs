//! The first bytes of a connection: the caller, the lane, and whether the connection is accepted.
//!
//! All messages have a fixed size, so nothing is allocated for a caller that is not known yet.
//!
//! Each side draws a nonce for each connection, and hears it from the other before it believes
//! anything. So bytes recorded on one connection fit no other, whichever side gets them. This does
//! not prove an identity: any process that is there at the moment can answer a nonce.

use crate::frame::Lane;
use ferrite_base::checksum::{crc32c, crc32c_of};
use ferrite_base::{Incarnation, NodeId};
use std::fmt;

/// The version of the cluster's protocol.
pub const VERSION: u16 = 4;
/// The same in all versions, so that each can refuse the other by name; the nonces follow.
pub const HELLO_BYTES: usize = 56;
pub const ANSWER_BYTES: usize = 56;
pub const NONCE_BYTES: usize = 16;
/// For a node that is not in a cluster yet.
pub const NO_CLUSTER: [u8; 16] = [0; 16];
const MAGIC: [u8; 8] = *b"FERRPEER";

/// The caller or the answering process.
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
    /// Another process claims to be the same start of the same node, or to be this one.
    Copied,
    /// Not among the nodes that this one expects.
    Unknown,
    /// It is not in a cluster yet.
    NoCluster,
    /// An earlier start of that node is connected, and active.
    Runs,
    /// A later node is where the caller looks for another.
    Replaced,
}

impl Refusal {
    const ALL: [Refusal; 8] = [
        Refusal::Version,
        Refusal::Cluster,
        Refusal::Incarnation,
        Refusal::Copied,
        Refusal::Unknown,
        Refusal::NoCluster,
        Refusal::Runs,
        Refusal::Replaced,
    ];

    fn byte(self) -> u8 {
        (1..).zip(Refusal::ALL).find(|(_, other)| *other == self).map_or(0, |(number, _)| number)
    }
}

/// As the operator of either node reads it.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Version => "it speaks another version of the cluster protocol",
            Refusal::Cluster => "it belongs to another cluster: check --cluster and the data directory",
            Refusal::Incarnation => "a later start of this node is known: this process is an old one",
            Refusal::Copied => {
                "another process runs with the same node id, or has run: a data directory was copied, or messages of a node \
                 were replayed. Run only the one that ran last; if the other has already stopped, start this one again. Give the \
                 other an empty directory"
            }
            Refusal::Unknown => "it is not a node of this cluster, or another has taken its place: a node is added with an empty directory and --join",
            Refusal::NoCluster => "the node that answered is not in a cluster yet",
            Refusal::Replaced => "another node of the cluster is at that address now",
            Refusal::Runs => {
                "an earlier start of this node still runs. If this lasts for more than a few seconds, a data directory \
                 was copied: start only one of the two"
            }
        })
    }
}

impl Refusal {
    /// The same of two nodes that have said who they are.
    pub(crate) fn of(self, other: &Hello, here: &Hello) -> String {
        let theirs = other.versions.1;
        let own = here.versions.1;
        match self {
            Refusal::Version => format!(
                "it speaks version {theirs} of the cluster protocol, and this node speaks version {own}: its release is the {} one. Nodes of \
                 both do not run in one cluster: stop all of them, and start all with the same release",
                if theirs < own { "earlier" } else { "later" }
            ),
            _ => self.to_string(),
        }
    }
}

/// The answer to a hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The version to speak, or why there is none.
    pub outcome: Result<u16, Refusal>,
    /// The answering process.
    pub from: Hello,
}

/// What one side has drawn for one connection.
pub type Nonce = [u8; NONCE_BYTES];

/// What both sides have drawn for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonces {
    pub dialer: Nonce,
    pub acceptor: Nonce,
}

impl Nonces {
    /// What follows an answer that welcomes.
    pub fn encode(&self) -> [u8; 2 * NONCE_BYTES] {
        let mut out = [0; 2 * NONCE_BYTES];
        out[..NONCE_BYTES].copy_from_slice(&self.acceptor);
        out[NONCE_BYTES..].copy_from_slice(&self.dialer);
        out
    }

    pub fn decode(bytes: &[u8; 2 * NONCE_BYTES]) -> Nonces {
        let (acceptor, dialer) = bytes.split_first_chunk().expect("there are two");
        Nonces { dialer: dialer.try_into().expect("there are two"), acceptor: *acceptor }
    }

    /// What the checksums of the dialer's frames begin with.
    pub fn dialer_begins(&self) -> u32 {
        crc32c_of(&[&[1], &self.dialer, &self.acceptor])
    }

    /// What the checksums of the acceptor's frames begin with.
    pub fn acceptor_begins(&self) -> u32 {
        crc32c_of(&[&[2], &self.dialer, &self.acceptor])
    }
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

    /// None: the caller is not a node.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Hello> {
        let (hello, byte) = decode(bytes)?;
        (byte == hello.lane as u8 && hello.versions.0 <= hello.versions.1).then_some(hello)
    }

    /// The version that both speak, if there is one.
    pub fn common_version(&self, other: &Hello) -> Option<u16> {
        let least = self.versions.0.max(other.versions.0);
        let most = self.versions.1.min(other.versions.1);
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
    fn the_bytes_are_these() {
        let mut expected = b"FERRPEER\x01\0\x03\0\x02\x02\0\0".to_vec();
        expected.extend([9; 16]);
        expected.extend(b"\x02\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0");
        expected.extend(crc32c(&expected).to_le_bytes());
        assert_eq!(hello().encode()[..], expected);
        let nonces = Nonces { dialer: [0xd; 16], acceptor: [0xa; 16] };
        assert_eq!(nonces.encode()[..], [[0xa; 16], [0xd; 16]].concat());
        assert_eq!(Nonces::decode(&nonces.encode()), nonces);
    }

    #[test]
    fn frames_begin_with_both_nonces_and_with_who_speaks() {
        let nonces = |dialer, acceptor| Nonces { dialer: [dialer; 16], acceptor: [acceptor; 16] };
        let begins: Vec<u32> = [(1, 2), (2, 1), (1, 1), (2, 2)]
            .into_iter()
            .flat_map(|(dialer, acceptor)| {
                let nonces = nonces(dialer, acceptor);
                [nonces.dialer_begins(), nonces.acceptor_begins()]
            })
            .collect();
        assert_eq!(begins.iter().collect::<std::collections::BTreeSet<_>>().len(), begins.len());
        assert_eq!(nonces(1, 2).dialer_begins(), crc32c(&[[1; 17].as_slice(), &[2; 16]].concat()));
    }

    #[test]
    fn versions_meet_at_the_newest_that_both_speak() {
        let with = |versions| Hello { versions, ..hello() };
        assert_eq!(hello().common_version(&with((2, 9))), Some(3));
        assert_eq!(hello().common_version(&with((1, 1))), Some(1));
        assert_eq!(hello().common_version(&with((4, 9))), None);
    }

    #[test]
    fn nodes_that_speak_other_versions_are_told_which_and_who_is_earlier() {
        let with = |versions| Hello { versions, ..hello() };
        let said = |theirs, own| Refusal::Version.of(&with(theirs), &with(own));
        let earlier = said((1, 2), (3, 3));
        assert!(
            earlier.starts_with("it speaks version 2 of the cluster protocol, and this node speaks version 3: "),
            "{earlier}"
        );
        assert!(earlier.contains("its release is the earlier one"), "{earlier}");
        assert!(
            said((3, 4), (1, 2)).contains(
                "version 4 of the cluster protocol, and this node speaks version 2: its release is the later"
            )
        );
        assert_eq!(Refusal::Runs.of(&hello(), &hello()), Refusal::Runs.to_string());
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
