//! The file `node`: which node this directory belongs to, which groups it hosts, and what it has
//! promised.
//! docs/format/node.md.
//!
//! Two slots, written in turn: a write that a crash tears leaves the earlier contents. A caller
//! that relies on the contents waits for the write.
//!
//! A node that hosts the first group alone writes the file as releases did that knew no other.
//!
//! Promises that one slot is durable at every moment, even if an fsync fails: what it should have
//! written still reads as written, yet may be lost, and no later fsync saves it. So the slot that
//! is left alone is one that this process has made durable itself. If there is none, because the
//! process has just begun or its disk has failed, the whole file is replaced; on a full disk, which
//! has no room for that, the slots are written in turn after all.

use ferrite_base::checksum::crc32c;
use ferrite_base::limits::CLUSTER_GROUPS_MAX;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId, UserError, UserResult};
use ferrite_io::{Disk, DiskError, DiskResult, OpenMode, SECTOR_BYTES, small_file};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

const NAME: &str = "node";
/// Written under this name first, so that there is never half of one.
const NEW_NAME: &str = "node.new";
const MAGIC: &[u8; 8] = b"FERRNODE";
/// Of a node that hosts other groups than the first.
const VERSION: u32 = 2;
const VERSION_FIRST_GROUP: u32 = 1;
const SLOTS: [u64; 2] = [0, SECTOR_BYTES as u64];
const FILE_BYTES: usize = 2 * SECTOR_BYTES;
const CHECKSUM_AT: usize = SECTOR_BYTES - 4;
const GROUPS_AT: usize = 56;
const GROUP_BYTES: usize = 12;
/// What a slot has room for: more groups than a cluster has.
const SLOT_GROUPS: usize = (CHECKSUM_AT - GROUPS_AT) / GROUP_BYTES;
const _: () = assert!(CLUSTER_GROUPS_MAX <= SLOT_GROUPS, "a node can host all groups of a cluster");
/// In a group's number, from version 2 on: it is hosted.
const HOSTED: u32 = 1 << 31;

/// Which node this is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Zeros: of no cluster.
    pub cluster: [u8; 16],
    pub node: NodeId,
    /// This start of its process: higher than any before.
    pub incarnation: Incarnation,
    /// The groups that this node keeps data of.
    pub hosted: BTreeSet<GroupId>,
    /// Nothing is acknowledged in a group at a lower epoch. What was promised of a group is kept
    /// when it is hosted no more.
    pub promised: BTreeMap<GroupId, Epoch>,
}

/// Why it is unknown which node this is.
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
    /// A node that is not in a cluster, before its first start.
    pub fn alone() -> Identity {
        Identity::new([0; 16], crate::FIRST_NODE, Incarnation(0))
    }

    /// Of a node that has promised nothing, and hosts the first group.
    pub fn new(cluster: [u8; 16], node: NodeId, incarnation: Incarnation) -> Identity {
        let hosted = BTreeSet::from([crate::FIRST_GROUP]);
        Identity { cluster, node, incarnation, hosted, promised: BTreeMap::new() }
    }

    /// The group is hosted from now on: there is room for all that the node will promise of it.
    pub fn host(&mut self, group: GroupId) -> UserResult<()> {
        if group.index() >= CLUSTER_GROUPS_MAX {
            return Err(UserError::limit(format!("a cluster has {CLUSTER_GROUPS_MAX} groups at most")));
        }
        self.hosted.insert(group);
        Ok(())
    }

    /// Those that the file has a place for.
    fn groups(&self) -> BTreeSet<GroupId> {
        self.hosted.iter().chain(self.promised.keys()).copied().collect()
    }

    /// What the directory says; None if it says nothing.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Identity>, IdentityError> {
        Ok(read_slots(disk, dir)?.map(|(_, identity)| identity))
    }

    /// Writes it durably. A caller that writes more than once uses an [`IdentityFile`].
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<(), IdentityError> {
        IdentityFile::default().write(self, disk, dir)
    }

    fn encode(&self, generation: u64) -> [u8; SECTOR_BYTES] {
        let is_first_alone = self.hosted.iter().eq([&crate::FIRST_GROUP]);
        let version = if is_first_alone { VERSION_FIRST_GROUP } else { VERSION };
        // A node has promised something only of groups that it hosts, or has hosted.
        let groups: Vec<(GroupId, Epoch)> = match is_first_alone {
            true => self.promised.iter().map(|(group, epoch)| (*group, *epoch)).collect(),
            false => {
                let promised = |group: &GroupId| self.promised.get(group).copied().unwrap_or_default();
                self.groups().iter().map(|group| (*group, promised(group))).collect()
            }
        };
        assert!(groups.len() <= SLOT_GROUPS, "a node knows no more groups than a cluster has");
        let mut sector = [0; SECTOR_BYTES];
        sector[..8].copy_from_slice(MAGIC);
        sector[8..12].copy_from_slice(&version.to_le_bytes());
        sector[12..16].copy_from_slice(&self.node.0.to_le_bytes());
        sector[16..32].copy_from_slice(&self.cluster);
        sector[32..40].copy_from_slice(&generation.to_le_bytes());
        sector[40..48].copy_from_slice(&self.incarnation.0.to_le_bytes());
        sector[48..52].copy_from_slice(&(groups.len() as u32).to_le_bytes());
        for ((group, epoch), at) in groups.into_iter().zip((GROUPS_AT..).step_by(GROUP_BYTES)) {
            let is_marked = !is_first_alone && self.hosted.contains(&group);
            let number = if is_marked { group.0 | HOSTED } else { group.0 };
            sector[at..at + 4].copy_from_slice(&number.to_le_bytes());
            sector[at + 4..at + GROUP_BYTES].copy_from_slice(&epoch.0.to_le_bytes());
        }
        let checksum = crc32c(&sector[..CHECKSUM_AT]);
        sector[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        sector
    }
}

/// The file as one process writes it.
#[derive(Debug, Default)]
pub struct IdentityFile {
    /// The generation that this process has made durable last.
    durable: Option<u64>,
}

impl IdentityFile {
    /// Writes it durably.
    pub fn write(&mut self, identity: &Identity, disk: &dyn Disk, dir: &Path) -> Result<(), IdentityError> {
        let last = read_slots(disk, dir)?.map(|(generation, _)| generation);
        let durable = self.durable.filter(|_| last.is_some());
        let in_place = match (last, durable) {
            // Not in the durable one's slot, and above what was written in vain since.
            (Some(last), Some(durable)) => last + 1 + u64::from((last + 1) % 2 == durable % 2),
            _ => {
                let first = last.map_or(1, |last| last + 1 + last % 2);
                let replaced = replace(identity, first, disk, dir);
                match (last, replaced) {
                    (_, Ok(generation)) => {
                        self.durable = Some(generation);
                        return Ok(());
                    }
                    (Some(last), Err(error)) if error.is_out_of_space() => last + 1,
                    (_, Err(error)) => return Err(error.into()),
                }
            }
        };
        let file = disk.open(&dir.join(NAME), OpenMode::Write)?;
        // Odd generations are in the first.
        file.write_at(&identity.encode(in_place), SLOTS[(in_place as usize + 1) % SLOTS.len()])?;
        file.sync_data()?;
        self.durable = Some(in_place);
        Ok(())
    }
}

/// A file with both slots, so that it never has one that was not written; the last generation in
/// it. `first`: an odd one.
fn replace(identity: &Identity, first: u64, disk: &dyn Disk, dir: &Path) -> DiskResult<u64> {
    let mut bytes = vec![0; FILE_BYTES];
    for (at, generation) in SLOTS.iter().zip(first..) {
        bytes[*at as usize..][..SECTOR_BYTES].copy_from_slice(&identity.encode(generation));
    }
    small_file::replace(disk, dir, NAME, NEW_NAME, &bytes)?;
    Ok(first + 1)
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
    let version = u32_at(8);
    if !(VERSION_FIRST_GROUP..=VERSION).contains(&version) {
        return Some(Err(version));
    }
    let count = u32_at(48) as usize;
    if count > SLOT_GROUPS {
        return None;
    }
    let cluster = sector[16..32].try_into().expect("16 bytes");
    let mut identity = Identity::new(cluster, NodeId(u32_at(12)), Incarnation(u64_at(40)));
    let groups = (GROUPS_AT..).step_by(GROUP_BYTES).take(count).map(|at| (u32_at(at), Epoch(u64_at(at + 4))));
    if version == VERSION_FIRST_GROUP {
        identity.promised = groups.map(|(group, epoch)| (GroupId(group), epoch)).collect();
    } else {
        let groups: Vec<(u32, Epoch)> = groups.collect();
        let hosted = groups.iter().filter(|(group, _)| group & HOSTED != 0);
        identity.hosted = hosted.map(|(group, _)| GroupId(group & !HOSTED)).collect();
        let promised = groups.iter().filter(|(_, epoch)| *epoch > Epoch(0));
        identity.promised = promised.map(|(group, epoch)| (GroupId(group & !HOSTED), *epoch)).collect();
    }
    Some(Ok((u64_at(32), identity)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_io::RealDisk;
    use ferrite_io::simulated::{
        CrashPoint, Fault, FaultKind, Restart, SimulatedClock, SimulatedDisk, SimulatedRandom,
    };

    fn identity(incarnation: u64) -> Identity {
        let promised = [(GroupId(0), Epoch(4)), (GroupId(7), Epoch(incarnation))].into_iter().collect();
        Identity { promised, ..Identity::new([3; 16], NodeId(2), Incarnation(incarnation)) }
    }

    /// Fsyncs and writes fail, the disk is full, power is lost at any step. What was written
    /// durably is never lost.
    #[test]
    fn what_was_said_survives_failed_fsyncs_and_the_loss_of_power() {
        let dir = Path::new("/data");
        let (mut failed, mut lost, mut full) = (0, 0, 0);
        for seed in 0..3_000 {
            let mut random = SimulatedRandom::new(seed);
            let disk = SimulatedDisk::new(seed, SimulatedClock::default());
            disk.create_dir(dir).expect("a healthy disk");
            identity(1).write(&disk, dir).expect("a healthy disk");
            let (mut file, mut said) = (IdentityFile::default(), 1);
            for incarnation in 2..12 {
                let kind = [FaultKind::Sync, FaultKind::Write][random.below(2) as usize];
                let at = disk.count(kind) + 1 + random.below(3);
                let times = 1 + random.below(2);
                disk.fail(Fault { kind, at, times, error: Fault::EIO, short: random.below(4_096) as usize });
                // A new process replaces the file, which takes room.
                if random.below(12) == 0 {
                    file = IdentityFile::default();
                } else if file.durable.is_some() && random.below(6) == 0 {
                    full += 1;
                    disk.set_capacity(0);
                }
                if random.below(6) == 0 {
                    let boundary = disk.boundaries() + 1 + random.below(8);
                    disk.crash_at(Some(CrashPoint { boundary, after: random.below(2) == 0 }));
                }
                match file.write(&identity(incarnation), &disk, dir) {
                    Ok(()) => said = incarnation,
                    Err(_) => failed += 1,
                }
                if disk.has_halted() || random.below(12) == 0 {
                    lost += 1;
                    disk.crash_at(None);
                    disk.restart(Restart::Power);
                    disk.heal();
                    disk.set_capacity(u64::MAX);
                    let read = Identity::read(&disk, dir).expect("one slot is sound").expect("it was said");
                    assert!((said..=incarnation).contains(&read.incarnation.0), "seed {seed}: {said}, {read:?}");
                    (file, said) = (IdentityFile::default(), read.incarnation.0);
                }
                disk.heal();
                disk.set_capacity(u64::MAX);
            }
        }
        assert!(failed > 1_000 && lost > 1_000 && full > 1_000, "{failed} failed, {lost} lost, {full} full");
    }

    #[test]
    fn it_says_what_was_written_last_and_a_torn_write_leaves_what_it_said_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(Identity::read(&RealDisk, dir.path()).unwrap(), None);
        let mut file = IdentityFile::default();
        file.write(&identity(1), &RealDisk, dir.path()).unwrap();
        for incarnation in 2..8 {
            let before = std::fs::read(&path).unwrap();
            file.write(&identity(incarnation), &RealDisk, dir.path()).unwrap();
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

    fn sector(version: u32, groups: &[(u32, u64)]) -> [u8; SECTOR_BYTES] {
        let mut sector = identity(4).encode(9);
        sector[8..12].copy_from_slice(&version.to_le_bytes());
        sector[48..52].copy_from_slice(&(groups.len() as u32).to_le_bytes());
        for ((group, epoch), at) in groups.iter().zip((GROUPS_AT..).step_by(GROUP_BYTES)) {
            sector[at..at + 4].copy_from_slice(&group.to_le_bytes());
            sector[at + 4..at + 12].copy_from_slice(&epoch.to_le_bytes());
        }
        let checksum = crc32c(&sector[..CHECKSUM_AT]);
        sector[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        sector
    }

    /// A release that knew one group reads what one group needs; where others are hosted, it
    /// refuses.
    #[test]
    fn hosted_groups_are_in_the_file_where_they_are_not_the_first_alone() {
        let first = identity(4);
        assert_eq!(first.encode(9), sector(1, &[(0, 4), (7, 4)]));
        let mut several = first.clone();
        several.host(GroupId(2)).expect("there is room");
        assert_eq!(several.encode(9), sector(2, &[(HOSTED, 4), (2 | HOSTED, 0), (7, 4)]));
        let mut other = several.clone();
        other.hosted.remove(&GroupId(0));
        for identity in [first, several, other] {
            let read = decode(&identity.encode(9)).expect("it is whole").expect("a version that is known");
            assert_eq!(read, (9, identity));
        }
    }

    #[test]
    fn as_many_groups_are_hosted_as_can_be_promised_of() {
        let mut full = Identity::new([3; 16], NodeId(2), Incarnation(1));
        for group in 1..CLUSTER_GROUPS_MAX as u32 {
            full.host(GroupId(group)).expect("the limit");
        }
        let refused = full.host(GroupId(CLUSTER_GROUPS_MAX as u32)).expect_err("one past the limit");
        assert!(refused.to_string().contains("a cluster has 256 groups at most"), "{refused}");
        full.promised = full.hosted.iter().map(|group| (*group, Epoch(7))).collect();
        let read = decode(&full.encode(1)).expect("it is whole").expect("a version that is known");
        assert_eq!(read, (1, full));
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
