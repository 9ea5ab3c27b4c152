//! The directory of snapshots: names, what is there, the step that makes a snapshot count, and what
//! goes.

use crate::error::{SnapshotError, SnapshotResult};
use crate::format::FileIdentity;
use crate::manifest::{Manifest, ManifestFault};
use ferrite_io::{Disk, DiskResult, OpenMode, SECTOR_BYTES, SectorBuffer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MANIFEST: &str = ".manifest";
const ROWS: &str = ".rows";
const PARTIAL: &str = ".partial";
/// No manifest is longer: the texts of all schema changes since the last base.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// No snapshot has a higher number, so that there is always a next one: others name them, too.
pub(crate) const NUMBER_MAX: u64 = u64::MAX / 2;

/// The name that the database's own snapshots have.
pub fn own_name(snapshot: u64) -> String {
    format!("snapshot-{snapshot:010}")
}

fn own_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("snapshot-")?;
    let plain = digits.len() >= 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten().filter(|number| (1..=NUMBER_MAX).contains(number))
}

/// What stands in the directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Numbers of the snapshots that have a manifest, ascending.
    pub snapshots: Vec<u64>,
    /// Files of the database's own snapshots that no manifest speaks of.
    pub leftovers: Vec<String>,
    /// Above all numbers in names.
    pub next: u64,
}

/// One directory of snapshots.
#[derive(Clone)]
pub struct Files {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl Files {
    pub fn new(disk: Arc<dyn Disk>, dir: &Path) -> Files {
        Files { disk, dir: dir.to_path_buf() }
    }

    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the directory if it is not there.
    pub fn create_dir(&self) -> DiskResult<()> {
        self.disk.create_dir(&self.dir)
    }

    pub fn manifest_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{MANIFEST}"))
    }

    /// Where a manifest stands until it counts.
    pub(crate) fn partial_manifest_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{MANIFEST}{PARTIAL}"))
    }

    pub fn rows_path(&self, name: &str, partition: u32) -> PathBuf {
        self.dir.join(rows_name(name, partition))
    }

    /// What is there. Changes nothing.
    pub fn find(&self) -> DiskResult<Found> {
        let names = self.disk.list(&self.dir)?;
        let numbered = |name: &str, end: &str| own_number(name.strip_suffix(end)?);
        let mut snapshots: Vec<u64> = names.iter().filter_map(|name| numbered(name, MANIFEST)).collect();
        snapshots.sort_unstable();
        let mut found = Found { next: snapshots.last().map_or(1, |last| last + 1), snapshots, leftovers: Vec::new() };
        for name in names {
            let whole = name.strip_suffix(PARTIAL).unwrap_or(&name);
            let of_rows = || own_number(whole.strip_suffix(ROWS)?.rsplit_once("-p")?.0);
            let Some(number) = numbered(whole, MANIFEST).or_else(of_rows) else { continue };
            found.next = found.next.max(number + 1);
            if name.ends_with(PARTIAL) || !found.snapshots.contains(&number) {
                found.leftovers.push(name);
            }
        }
        Ok(found)
    }

    /// Removes what interruptions left.
    pub fn remove_leftovers(&self, found: &Found) -> DiskResult<()> {
        for name in &found.leftovers {
            self.disk.remove(&self.dir.join(name))?;
        }
        if found.leftovers.is_empty() { Ok(()) } else { self.disk.sync_dir(&self.dir) }
    }

    /// Reads and judges a manifest; the rows files are not looked at.
    pub fn manifest(&self, name: &str) -> SnapshotResult<Manifest> {
        let path = self.manifest_path(name);
        let manifest = self.read_manifest(&path)?;
        match own_number(name) {
            Some(number) if number != manifest.snapshot => {
                Err(SnapshotError::damaged(&path, 40, format!("it says that it is snapshot {}", manifest.snapshot)))
            }
            _ => Ok(manifest),
        }
    }

    pub(crate) fn read_manifest(&self, path: &Path) -> SnapshotResult<Manifest> {
        let file = self.disk.open(path, OpenMode::ReadDirect)?;
        let bytes = file.bytes()?;
        if bytes > MANIFEST_BYTES_MAX {
            return Err(SnapshotError::damaged(path, 0, "it is too long"));
        }
        let mut buffer = SectorBuffer::new();
        buffer.resize((bytes as usize).next_multiple_of(SECTOR_BYTES));
        let count = file.read_at(buffer.as_mut_slice(), 0)?;
        Manifest::decode(&buffer.as_slice()[..count.min(bytes as usize)]).map_err(|fault| match fault {
            ManifestFault::Damaged(detail) => SnapshotError::damaged(path, 0, detail),
            ManifestFault::Version(found) => SnapshotError::Version { path: path.to_path_buf(), found },
        })
    }

    /// Which file the rows of the partition at that place are in, as its blocks say it.
    pub fn identity(&self, manifest: &Manifest, place: usize) -> FileIdentity {
        let partition = manifest.partitions().id(place).0;
        FileIdentity { database: manifest.database, snapshot: manifest.snapshot, partition }
    }

    /// Makes the names of files that were written durable.
    pub fn sync(&self) -> DiskResult<()> {
        self.disk.sync_dir(&self.dir)
    }

    /// The step that makes the snapshot count. Its rows files are verified and durable, names
    /// included, and so is the log up to its place.
    pub fn commit(&self, name: &str, manifest: &Manifest) -> SnapshotResult<()> {
        let path = self.manifest_path(name);
        let partial = self.partial_manifest_path(name);
        let file = self.disk.open(&partial, OpenMode::Create)?;
        file.write_at(&manifest.encode(), 0)?;
        file.sync_data()?;
        if self.read_manifest(&partial)? != *manifest {
            return Err(SnapshotError::damaged(&partial, 0, "it does not read back as it was written"));
        }
        self.disk.rename(&partial, &path)?;
        self.sync()?;
        Ok(())
    }

    /// Removes a snapshot: its manifest first, so that what an interruption leaves is leftovers.
    pub fn remove(&self, name: &str) -> DiskResult<()> {
        self.take_out(name, &mut |path| self.disk.remove(path))
    }

    /// Moves a snapshot's files to another folder, which is made, in the order in which they would
    /// be removed: their paths there.
    pub fn move_to(&self, name: &str, folder: &Path) -> DiskResult<Vec<PathBuf>> {
        self.disk.create_dir(folder)?;
        let mut moved = Vec::new();
        self.take_out(name, &mut |path| {
            let to = folder.join(path.file_name().expect("a file of the directory has a name"));
            self.disk.rename(path, &to)?;
            moved.push(to);
            self.disk.sync_dir(folder)
        })?;
        Ok(moved)
    }

    fn take_out(&self, name: &str, take: &mut dyn FnMut(&Path) -> DiskResult<()>) -> DiskResult<()> {
        let names = self.disk.list(&self.dir)?;
        let manifest = format!("{name}{MANIFEST}");
        if names.contains(&manifest) {
            take(&self.dir.join(&manifest))?;
            self.sync()?;
        }
        let prefix = format!("{name}-p");
        let own = |other: &&String| {
            **other == format!("{manifest}{PARTIAL}") || (other.starts_with(&prefix) && other.ends_with(ROWS))
        };
        for other in names.iter().filter(own) {
            take(&self.dir.join(other))?;
        }
        self.sync()
    }
}

fn rows_name(name: &str, partition: u32) -> String {
    format!("{name}-p{partition:04}{ROWS}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for number in [1, 42, 9_999_999_999, 10_000_000_000, NUMBER_MAX] {
            assert_eq!(own_number(&own_name(number)), Some(number));
        }
        for number in [NUMBER_MAX + 1, u64::MAX] {
            assert_eq!(own_number(&own_name(number)), None, "there would be no next one");
        }
        for name in ["snapshot-0000000000", "snapshot-1", "snapshot-+000000001", "backup"] {
            assert_eq!(own_number(name), None, "{name}");
        }
    }
}
