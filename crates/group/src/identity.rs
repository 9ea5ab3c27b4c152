//! The file `node`: which node this directory belongs to, and what it has promised.
//! docs/format/node.md.
//!
//! Two slots, written in turn: a write that a crash tears leaves what was said before. Whoever
//! relies on what it says waits for the write.

use ferrite_base::checksum::crc32c;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_io::{Disk, DiskError, OpenMode, SECTOR_BYTES, small_file};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

const NAME: &str = "node";
/// Written under this name first, so that there is never half of one.
const NEW_NAME: &str = "node.new";
const MAGIC: &[u8; 8] = b"FERRNODE";
const VERSION: u32 = 1;
const SLOTS: [u64; 2] = [0, SECTOR_BYTES as u64];
const FILE_BYTES: usize = 2 * SECTOR_BYTES;
const CHECKSUM_AT: usize = SECTOR_BYTES - 4;
const PROMISES_AT: usize = 56;
const PROMISE_BYTES: usize = 12;
/// What a slot has room for.
const PROMISES_MAX: usize = (CHECKSUM_AT - PROMISES_AT) / PROMISE_BYTES;

/// Which node this is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Zeros: of no cluster.
    pub cluster: [u8; 16],
    pub node: NodeId,
    /// This start of its process: higher than any before.
    pub incarnation: Incarnation,
    /// Nothing is acknowledged in a group at a lower epoch.
    pub promised: BTreeMap<GroupId, Epoch>,
}

/// Why it is not known which node this is.
#[derive(Debug)]
pub enum IdentityError {
    Disk(DiskError),
    /// Neither slot can be read.
    Damaged(PathBuf),
    /// Written by a later release.
    Version {
        path: PathBuf,
        version: u32,
    },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdentityError::Disk(error) => error.fmt(f),
            IdentityError::Damaged(path) => write!(
                f,
                "{} cannot be read: it says which node this is, and what it has promised to other nodes. Of a server without a \
                 cluster, remove the file. Of a node of a cluster, do not take it from a copy, which would take promises back: \
                 move the directory elsewhere and start the node with an empty one and the same --cluster. It joins as a new \
                 node, and gets everything from the others",
                path.display()
            ),
            IdentityError::Version { path, version } => write!(
                f,
                "{} is of format {version}, which this release does not know. Start the release that wrote it, or a later one",
                path.display()
            ),
        }
    }
}

impl std::error::Error for IdentityError {}

impl From<DiskError> for IdentityError {
    fn from(error: DiskError) -> IdentityError {
        IdentityError::Disk(error)
    }
}

impl Identity {
    /// A node that is in no cluster, before its first start.
    pub fn alone() -> Identity {
        Identity { cluster: [0; 16], node: crate::FIRST_NODE, incarnation: Incarnation(0), promised: BTreeMap::new() }
    }

    /// What the directory says; None where it says nothing.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Identity>, IdentityError> {
        Ok(read_slots(disk, dir)?.map(|(_, identity)| identity))
    }

    /// Says it, durably.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<(), IdentityError> {
        match read_slots(disk, dir) {
            Ok(Some((generation, _))) => {
                let generation = generation + 1;
                let file = disk.open(&dir.join(NAME), OpenMode::Write)?;
                // Odd generations stand in the first.
                file.write_at(&self.encode(generation), SLOTS[(generation as usize + 1) % SLOTS.len()])?;
                file.sync_data()?;
            }
            Ok(None) => {
                let mut bytes = vec![0; FILE_BYTES];
                // Both, so that the file never has a slot that was not written.
                for (at, generation) in SLOTS.iter().zip(1..) {
                    bytes[*at as usize..][..SECTOR_BYTES].copy_from_slice(&self.encode(generation));
                }
                small_file::replace(disk, dir, NAME, NEW_NAME, &bytes)?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn encode(&self, generation: u64) -> [u8; SECTOR_BYTES] {
        assert!(self.promised.len() <= PROMISES_MAX, "a node keeps {PROMISES_MAX} groups at most");
        let mut sector = [0; SECTOR_BYTES];
        sector[..8].copy_from_slice(MAGIC);
        sector[8..12].copy_from_slice(&VERSION.to_le_bytes());
        sector[12..16].copy_from_slice(&self.node.0.to_le_bytes());
        sector[16..32].copy_from_slice(&self.cluster);
        sector[32..40].copy_from_slice(&generation.to_le_bytes());
        sector[40..48].copy_from_slice(&self.incarnation.0.to_le_bytes());
        sector[48..52].copy_from_slice(&(self.promised.len() as u32).to_le_bytes());
        for ((group, epoch), at) in self.promised.iter().zip((PROMISES_AT..).step_by(PROMISE_BYTES)) {
            sector[at..at + 4].copy_from_slice(&group.0.to_le_bytes());
            sector[at + 4..at + PROMISE_BYTES].copy_from_slice(&epoch.0.to_le_bytes());
        }
        let checksum = crc32c(&sector[..CHECKSUM_AT]);
        sector[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        sector
    }
}

/// The slot that was written last, with its generation.
fn read_slots(disk: &dyn Disk, dir: &Path) -> Result<Option<(u64, Identity)>, IdentityError> {
    let Some(bytes) = small_file::read(disk, dir, NAME, FILE_BYTES)? else { return Ok(None) };
    let path = dir.join(NAME);
    let slots: Vec<Slot> = SLOTS.iter().filter_map(|at| decode(bytes.get(*at as usize..)?)).collect();
    if let Some(version) = slots.iter().filter_map(|slot| slot.as_ref().err()).max() {
        return Err(IdentityError::Version { path, version: *version });
    }
    let last = slots.into_iter().filter_map(Result::ok).max_by_key(|(generation, _)| *generation);
    last.map(Some).ok_or(IdentityError::Damaged(path))
}

/// Generation and contents; or the version that is not known.
type Slot = Result<(u64, Identity), u32>;

/// None: it is torn.
fn decode(bytes: &[u8]) -> Option<Slot> {
    let sector = bytes.get(..SECTOR_BYTES)?;
    let u32_at = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("4 bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("8 bytes"));
    if sector[..8] != *MAGIC || crc32c(&sector[..CHECKSUM_AT]) != u32_at(CHECKSUM_AT) {
        return None;
    }
    if u32_at(8) != VERSION {
        return Some(Err(u32_at(8)));
    }
    let promises = u32_at(48) as usize;
    if promises > PROMISES_MAX {
        return None;
    }
    let places = (PROMISES_AT..).step_by(PROMISE_BYTES).take(promises);
    let promised = places.map(|at| (GroupId(u32_at(at)), Epoch(u64_at(at + 4)))).collect();
    let identity = Identity {
        cluster: sector[16..32].try_into().expect("16 bytes"),
        node: NodeId(u32_at(12)),
        incarnation: Incarnation(u64_at(40)),
        promised,
    };
    Some(Ok((u64_at(32), identity)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_io::RealDisk;

    fn identity(incarnation: u64) -> Identity {
        let promised = [(GroupId(0), Epoch(4)), (GroupId(7), Epoch(incarnation))].into_iter().collect();
        Identity { cluster: [3; 16], node: NodeId(2), incarnation: Incarnation(incarnation), promised }
    }

    #[test]
    fn it_says_what_was_written_last_and_a_torn_write_leaves_what_it_said_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(Identity::read(&RealDisk, dir.path()).unwrap(), None);
        identity(1).write(&RealDisk, dir.path()).unwrap();
        for incarnation in 2..8 {
            let before = std::fs::read(&path).unwrap();
            identity(incarnation).write(&RealDisk, dir.path()).unwrap();
            assert_eq!(Identity::read(&RealDisk, dir.path()).unwrap(), Some(identity(incarnation)));
            let whole = std::fs::read(&path).unwrap();
            for written in (0..FILE_BYTES).step_by(509) {
                let torn = [&whole[..written], &before[written..]].concat();
                std::fs::write(&path, &torn).unwrap();
                let said = Identity::read(&RealDisk, dir.path()).unwrap().unwrap();
                assert!([identity(incarnation), identity(incarnation - 1)].contains(&said), "{written}: {said:?}");
            }
            std::fs::write(&path, whole).unwrap();
        }
    }

    #[test]
    fn a_damaged_one_and_one_of_a_later_release_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        for bytes in [vec![], vec![0; FILE_BYTES], vec![7; 100]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(matches!(Identity::read(&RealDisk, dir.path()), Err(IdentityError::Damaged(_))));
        }
        let mut sector = identity(1).encode(5);
        sector[8] = 9;
        let checksum = crc32c(&sector[..CHECKSUM_AT]);
        sector[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(&path, sector).unwrap();
        assert!(matches!(Identity::read(&RealDisk, dir.path()), Err(IdentityError::Version { version: 9, .. })));
    }
}
