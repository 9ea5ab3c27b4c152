//! All that a voter keeps: Raft's term, vote and log, and the state as applied, with the voters at
//! that point. A few kilobytes, written whole, into two files one after the other: nothing is sent
//! before both are fsynced, so each alone has everything that was acted on
//! (docs/format/metadata.md).

use crate::bytes::{Malformed, Reader, put_list, put_u32, put_u64};
use crate::command::CommandError;
use crate::voter::message::{conf_state, put_entry, take_entry};
use crate::{State, VOTERS_MAX};
use ferrite_base::checksum::crc32c;
use ferrite_io::{Disk, DiskError, small_file};
use raft::eraftpb::{Entry, HardState, Snapshot};
use raft::storage::{GetEntriesContext, RaftState, Storage};
use raft::{Error, StorageError};
use std::fmt;
use std::path::{Path, PathBuf};

pub(super) const NAMES: [&str; 2] = ["one", "two"];
const MAGIC: &[u8; 8] = b"FERRMETA";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
/// This many applied entries are kept for voters that are a little behind; others get the state.
const ENTRIES_KEPT: usize = 64;
/// Entries that a file can have.
const ENTRIES_MAX: usize = 1 << 20;
/// A file is never longer: what comes after is ignored.
const FILE_BYTES_MAX: usize = 1 << 30;

/// Why a voter cannot continue, or begin.
#[derive(Debug)]
pub enum VoterError {
    Disk(DiskError),
    /// Neither file can be read.
    Damaged(PathBuf),
    /// Written by a later release.
    Version {
        path: PathBuf,
        version: u32,
    },
    /// What this voter had acknowledged is lost.
    Lost,
    /// A command that the voters have decided and this release cannot carry out.
    Command {
        index: u64,
        error: CommandError,
    },
}

impl fmt::Display for VoterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VoterError::Disk(error) => error.fmt(f),
            VoterError::Damaged(dir) => write!(
                f,
                "{}: neither copy of the cluster's metadata can be read, so this node must not vote with them",
                dir.display()
            ),
            VoterError::Version { path, version } => write!(
                f,
                "{} is of format {version}, which this release does not know: start the release that wrote it, or a later \
                 one",
                path.display()
            ),
            VoterError::Command { index, error } => write!(f, "entry {index}: {error}"),
            VoterError::Lost => f.write_str(
                "this node has lost metadata that it had acknowledged, so it must not vote with what is left",
            ),
        }
    }
}

impl std::error::Error for VoterError {}

impl From<DiskError> for VoterError {
    fn from(error: DiskError) -> VoterError {
        VoterError::Disk(error)
    }
}

/// In memory. Raft reads it.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Kept {
    /// Which of this node's votes it is: 0 for one that the cluster was founded with.
    pub number: u32,
    pub hard: HardState,
    /// The voters as of `applied`.
    pub voters: Vec<u64>,
    /// The state after this entry.
    pub applied: (u64, u64),
    pub state: State,
    /// The entry before the first of `entries`.
    base: (u64, u64),
    entries: Vec<Entry>,
}

impl Kept {
    /// What each voter of a cluster begins with: the state of its founding is the first entry's.
    pub fn founded(state: &State) -> Kept {
        let mut hard = HardState::default();
        (hard.term, hard.commit) = (1, 1);
        let voters = state.voters().iter().map(|node| u64::from(node.0)).collect();
        Kept { number: 0, hard, voters, applied: (1, 1), state: state.clone(), base: (1, 1), entries: Vec::new() }
    }

    /// What a later voter begins with.
    pub fn empty(number: u32) -> Kept {
        Kept { number, ..Kept::default() }
    }

    fn last(&self) -> (u64, u64) {
        self.entries.last().map_or(self.base, |entry| (entry.index, entry.term))
    }

    /// Entries after the first of these are dead.
    pub fn append(&mut self, entries: Vec<Entry>) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.applied.0, "what was applied is not replaced");
        assert!(first.index <= self.last().0 + 1, "entries have no gap");
        self.entries.truncate((first.index - self.base.0 - 1) as usize);
        self.entries.extend(entries);
    }

    /// The whole state of a leader, in place of entries.
    pub fn install(&mut self, snapshot: &Snapshot) -> Result<(), Malformed> {
        let metadata = snapshot.get_metadata();
        self.state = State::restore(&snapshot.data)?;
        self.voters = metadata.get_conf_state().voters.clone();
        self.applied = (metadata.index, metadata.term);
        self.base = self.applied;
        self.entries.clear();
        self.hard.commit = self.hard.commit.max(metadata.index);
        Ok(())
    }

    /// Forgets entries that are in the state, except for some.
    pub fn compact(&mut self) {
        let behind = self.entries.iter().take_while(|entry| entry.index <= self.applied.0).count();
        if behind < 2 * ENTRIES_KEPT {
            return;
        }
        let gone = self.entries.drain(..behind - ENTRIES_KEPT).next_back().expect("some are gone");
        self.base = (gone.index, gone.term);
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [self.hard.term, self.hard.vote, self.hard.commit.max(self.applied.0)] {
            put_u64(&mut out, number);
        }
        for (index, term) in [self.applied, self.base] {
            put_u64(&mut out, index);
            put_u64(&mut out, term);
        }
        put_list(&mut out, &self.voters, |out, voter| put_u64(out, *voter));
        put_list(&mut out, &self.entries, put_entry);
        let state = self.state.snapshot();
        put_u32(&mut out, u32::try_from(state.len()).expect("the state has kilobytes"));
        out.extend_from_slice(&state);
        out
    }

    fn decode(number: u32, bytes: &[u8]) -> Result<Kept, Malformed> {
        let mut rest = Reader::new(bytes);
        let mut hard = HardState::default();
        (hard.term, hard.vote, hard.commit) = (rest.u64()?, rest.u64()?, rest.u64()?);
        let applied = (rest.u64()?, rest.u64()?);
        let base = (rest.u64()?, rest.u64()?);
        let voters = rest.list(VOTERS_MAX + 1, Reader::u64)?;
        let entries = rest.list(ENTRIES_MAX, take_entry)?;
        let length = rest.u32()? as usize;
        let state = State::restore(rest.bytes(length)?)?;
        rest.end()?;
        Ok(Kept { number, hard, voters, applied, state, base, entries })
    }
}

/// The two files.
pub(super) struct Files {
    dir: PathBuf,
    generation: u64,
}

impl Files {
    /// What the directory says; None: it has no such files.
    pub fn open(disk: &dyn Disk, dir: &Path) -> Result<Option<(Files, Kept)>, VoterError> {
        disk.create_dir(dir)?;
        let mut found: Option<(u64, Kept)> = None;
        let mut any = false;
        for name in NAMES {
            let Some(bytes) = small_file::read(disk, dir, name, FILE_BYTES_MAX)? else { continue };
            any = true;
            let Some((generation, kept)) = decode(&bytes, &dir.join(name))? else { continue };
            if found.as_ref().is_none_or(|(other, _)| *other < generation) {
                found = Some((generation, kept));
            }
        }
        match found {
            Some((generation, kept)) => Ok(Some((Files { dir: dir.to_path_buf(), generation }, kept))),
            None if any => Err(VoterError::Damaged(dir.to_path_buf())),
            None => Ok(None),
        }
    }

    /// For a voter that begins.
    pub fn create(disk: &dyn Disk, dir: &Path, kept: &Kept) -> Result<Files, VoterError> {
        disk.create_dir(dir)?;
        let mut files = Files { dir: dir.to_path_buf(), generation: 0 };
        files.write(disk, kept)?;
        Ok(files)
    }

    /// Durable in both when this returns.
    pub fn write(&mut self, disk: &dyn Disk, kept: &Kept) -> Result<(), VoterError> {
        self.generation += 1;
        let body = kept.encode();
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(MAGIC);
        put_u32(&mut bytes, VERSION);
        put_u32(&mut bytes, kept.number);
        put_u64(&mut bytes, self.generation);
        put_u32(&mut bytes, u32::try_from(body.len()).expect("the state has kilobytes"));
        bytes.extend_from_slice(&body);
        // It covers the header, too.
        let checksum = crc32c(&bytes);
        bytes.splice(28..28, checksum.to_le_bytes());
        for name in NAMES {
            small_file::replace(disk, &self.dir, name, "new", &bytes)?;
        }
        Ok(())
    }
}

/// None: it is torn or damaged.
fn decode(bytes: &[u8], path: &Path) -> Result<Option<(u64, Kept)>, VoterError> {
    let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else { return Ok(None) };
    let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let checksum = crc32c(&[&header[..28], body].concat());
    if header[..8] != *MAGIC || u32_at(24) as usize != body.len() || checksum != u32_at(28) {
        return Ok(None);
    }
    if u32_at(8) != VERSION {
        return Err(VoterError::Version { path: path.to_path_buf(), version: u32_at(8) });
    }
    let generation = u64::from_le_bytes(header[16..24].try_into().expect("8 bytes"));
    Ok(Kept::decode(u32_at(12), body).ok().map(|kept| (generation, kept)))
}

impl Storage for Kept {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard.clone(), conf_state(&self.voters)))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.base.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.last().0 + 1, "entries are asked for that are not there");
        let from = (low - self.base.0 - 1) as usize;
        let to = (high - self.base.0 - 1) as usize;
        let max = max_size.into().unwrap_or(u64::MAX);
        let mut size = 0;
        let fits = |entry: &&Entry| {
            let first = size == 0;
            size += (entry.data.len() + entry.context.len() + 32) as u64;
            first || size <= max
        };
        Ok(self.entries[from..to].iter().take_while(fits).cloned().collect())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.base.0 {
            return Ok(self.base.1);
        }
        if index == self.applied.0 {
            return Ok(self.applied.1);
        }
        if index < self.base.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        let entry = self.entries.get((index - self.base.0 - 1) as usize);
        entry.map(|entry| entry.term).ok_or(Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last().0)
    }

    fn snapshot(&self, request_index: u64, _: u64) -> raft::Result<Snapshot> {
        if request_index > self.applied.0 {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        snapshot.data = self.state.snapshot().into();
        let metadata = snapshot.mut_metadata();
        (metadata.index, metadata.term) = self.applied;
        *metadata.mut_conf_state() = conf_state(&self.voters);
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_io::RealDisk;

    fn kept(term: u64) -> Kept {
        let entry = |index| {
            let mut entry = Entry::default();
            (entry.index, entry.term) = (index, term);
            entry
        };
        let mut kept = Kept { voters: vec![1, 2, 3], applied: (1, 1), base: (1, 1), ..Kept::default() };
        (kept.hard.term, kept.hard.vote, kept.hard.commit) = (term, 2, 1);
        kept.append((2..10).map(entry).collect());
        kept
    }

    #[test]
    fn either_file_alone_says_everything() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Files::open(&RealDisk, dir.path()).unwrap().is_none());
        let mut files = Files::create(&RealDisk, dir.path(), &kept(1)).unwrap();
        files.write(&RealDisk, &kept(2)).unwrap();
        let whole = std::fs::read(dir.path().join("one")).unwrap();
        for name in NAMES {
            for at in [0, 9, 20, 30, 40, whole.len() - 1] {
                let mut damaged = whole.clone();
                damaged[at] ^= 4;
                std::fs::write(dir.path().join(name), &damaged[..]).unwrap();
                assert_eq!(Files::open(&RealDisk, dir.path()).unwrap().unwrap().1, kept(2), "{name} at {at}");
                std::fs::write(dir.path().join(name), &whole[..at]).unwrap();
                assert_eq!(Files::open(&RealDisk, dir.path()).unwrap().unwrap().1, kept(2), "{at} bytes of {name}");
            }
            std::fs::write(dir.path().join(name), &whole).unwrap();
        }
        for name in NAMES {
            std::fs::write(dir.path().join(name), b"nothing").unwrap();
        }
        let refused = Files::open(&RealDisk, dir.path()).err().unwrap().to_string();
        assert!(refused.contains("neither copy of the cluster's metadata can be read"), "{refused}");
        let mut later = whole.clone();
        later[8] = 2;
        let checksum = crc32c(&[&later[..28], &later[32..]].concat());
        later[28..32].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(dir.path().join("two"), later).unwrap();
        assert!(matches!(Files::open(&RealDisk, dir.path()), Err(VoterError::Version { version: 2, .. })));
    }

    #[test]
    fn entries_replace_those_behind_them_and_are_forgotten_when_they_are_applied() {
        let mut kept = kept(2);
        let mut entry = Entry::default();
        (entry.index, entry.term) = (5, 3);
        kept.append(vec![entry]);
        assert_eq!((kept.last_index(), kept.term(5), kept.term(4)), (Ok(5), Ok(3), Ok(2)));
        let entry = |index| {
            let mut entry = Entry::default();
            (entry.index, entry.term) = (index, 3);
            entry
        };
        kept.append((6..400).map(entry).collect());
        kept.applied = (300, 3);
        kept.compact();
        assert_eq!((kept.first_index(), kept.last_index()), (Ok(300 - ENTRIES_KEPT as u64 + 1), Ok(399)));
        assert_eq!(kept.term(236), Ok(3));
        assert!(kept.entries(236, 240, None, GetEntriesContext::empty(false)).is_err());
        assert_eq!(kept.entries(237, 240, None, GetEntriesContext::empty(false)).unwrap().len(), 3);
        assert_eq!(Kept::decode(0, &kept.encode()).unwrap().entries, kept.entries);
    }
}
