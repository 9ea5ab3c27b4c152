//! What a node of a cluster keeps in its directory beside its data: its declaration, and whether
//! its log may lack what it has acknowledged (docs/format/founding.md, unsynced.md).
//!
//! Promises that a file is either complete or as it was previously.

use crate::error::MemberError;
use crate::release;
use ferrite_base::{GroupId, Incarnation};
use ferrite_group::Identity;
use ferrite_io::{Disk, DiskError, DiskResult, OpenMode, small_file};
use ferrite_log::Durability;
use ferrite_meta::founding::WrittenDown;
use ferrite_notice::Notice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub const FOUNDING: &str = "founding";
pub const UNSYNCED: &str = "unsynced";
/// The file says that an fsync has failed, or that what was here was thrown away.
const LOST: &str = "lost";
/// What is here is to be thrown away.
const ANEW: &str = "anew";
/// None of these files is longer.
const FILE_BYTES_MAX: usize = 1 << 20;
/// What stays then.
const KEPT: [&str; 6] = ["LOCK", FOUNDING, "node", "node.new", UNSYNCED, release::FILE];

/// Whether the directory belongs to a node of a cluster.
pub fn is_of_cluster(disk: &dyn Disk, dir: &Path) -> Result<bool, MemberError> {
    Ok(founding(disk, dir)?.is_some() || cluster_of(disk, dir)?.is_some())
}

/// The cluster that the directory belongs to.
pub fn cluster_of(disk: &dyn Disk, dir: &Path) -> Result<Option<[u8; 16]>, MemberError> {
    Ok(identity(disk, dir)?.map(|identity| identity.cluster).filter(|cluster| *cluster != [0; 16]))
}

/// The incarnation of the last process that ran here.
pub fn incarnation(disk: &dyn Disk, dir: &Path) -> Result<Incarnation, MemberError> {
    Ok(identity(disk, dir)?.map_or(Incarnation(0), |identity| identity.incarnation))
}

/// Which node's directory it is.
pub fn identity(disk: &dyn Disk, dir: &Path) -> Result<Option<Identity>, MemberError> {
    if !has_dir(dir, disk) {
        return Ok(None);
    }
    Identity::read(disk, dir).map_err(|error| MemberError::Cluster(error.to_string()))
}

/// The declaration made here.
pub fn founding(disk: &dyn Disk, dir: &Path) -> Result<Option<WrittenDown>, MemberError> {
    if !has_dir(dir, disk) {
        return Ok(None);
    }
    let path = dir.join(FOUNDING);
    let Some(bytes) = read(disk, dir, FOUNDING).map_err(failed)? else { return Ok(None) };
    let written = WrittenDown::decode(&bytes);
    written.map(Some).map_err(|error| {
        MemberError::Cluster(format!(
            "{} cannot be used: {error}. Without it the node does not know its cluster. Where the others run, start this node with \
             an empty directory and the command with --cluster that it was first started with: it joins as a new node and gets \
             everything from them. Keep this directory until it has: where it is the last complete copy, restore the file from \
             a backup of the machine",
            path.display()
        ))
    })
}

/// Durable when this returns.
pub fn write_founding(disk: &dyn Disk, dir: &Path, written: &WrittenDown) -> Result<(), MemberError> {
    write(disk, dir, FOUNDING, &written.encode()).map_err(failed)
}

fn failed(error: DiskError) -> MemberError {
    MemberError::Cluster(error.to_string())
}

fn has_dir(dir: &Path, disk: &dyn Disk) -> bool {
    // An unreadable one is reported when it is locked.
    disk.list(dir).is_ok()
}

fn read(disk: &dyn Disk, dir: &Path, name: &str) -> DiskResult<Option<Vec<u8>>> {
    small_file::read(disk, dir, name, FILE_BYTES_MAX)
}

fn write(disk: &dyn Disk, dir: &Path, name: &str, bytes: &[u8]) -> DiskResult<()> {
    small_file::replace(disk, dir, name, &format!("{name}.new"), bytes)
}

/// The log lacks something that this node has acknowledged: durable when this returns.
pub fn is_incomplete(disk: &dyn Disk, dir: &Path) -> DiskResult<()> {
    let given_up = read(disk, dir, UNSYNCED)?.is_some_and(|said| is_given_up(&said));
    if given_up { Ok(()) } else { write(disk, dir, UNSYNCED, LOST.as_bytes()) }
}

/// What the directory says of its log while no process runs it.
pub enum Said {
    Nothing,
    /// It may lack something that was acknowledged.
    Incomplete,
    /// The copy is to be thrown away.
    GivenUp,
}

pub fn said(disk: &dyn Disk, dir: &Path) -> Result<Said, MemberError> {
    Ok(match read(disk, dir, UNSYNCED).map_err(failed)? {
        Some(said) if is_given_up(&said) => Said::GivenUp,
        said if is_intact(said.as_deref(), &boot()) => Said::Nothing,
        _ => Said::Incomplete,
    })
}

fn is_given_up(said: &[u8]) -> bool {
    said.trim_ascii() == ANEW.as_bytes()
}

/// Whether a log with this record has all that was acknowledged, under this boot.
fn is_intact(said: Option<&[u8]>, boot: &str) -> bool {
    said.is_none_or(|said| !boot.is_empty() && said == boot.as_bytes())
}

/// Removes one of these files, if it is there.
pub fn forget(disk: &dyn Disk, dir: &Path, name: &str) -> Result<(), MemberError> {
    if disk.list(dir).map_err(failed)?.iter().any(|other| other == name) {
        disk.remove(&dir.join(name)).map_err(failed)?;
    }
    disk.sync_dir(dir).map_err(failed)
}

/// Whether the log has all that this node has acknowledged, and the file that tells the next start.
pub struct Unsynced {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    boot: String,
    durability: Durability,
    /// The data here is given up: nothing that this process says of its log changes that.
    given_up: AtomicBool,
    /// The log has failed in this process.
    failed: AtomicBool,
}

impl Unsynced {
    /// What the directory says, and the file for this process. What an earlier process has not
    /// synced is made durable when the log is opened; then [`Unsynced::is_whole`] may be called.
    /// `boot`: names this boot of the machine; empty: it is not known, and counts as another each
    /// time.
    pub fn begin(
        disk: Arc<dyn Disk>,
        dir: &Path,
        boot: String,
        durability: Durability,
    ) -> Result<(Unsynced, bool), MemberError> {
        let mut said = read(&*disk, dir, UNSYNCED).map_err(failed)?;
        if said.as_deref().is_some_and(is_given_up) {
            let known = Identity::read(&*disk, dir).map_err(|error| MemberError::Cluster(error.to_string()))?;
            set_aside(&*disk, dir, known.as_ref()).map_err(failed)?;
            write(&*disk, dir, UNSYNCED, LOST.as_bytes()).map_err(failed)?;
            said = Some(LOST.as_bytes().to_vec());
        }
        let intact = is_intact(said.as_deref(), &boot);
        let given_up = AtomicBool::new(false);
        let log_fails = AtomicBool::new(false);
        let unsynced = Unsynced { disk, dir: dir.to_path_buf(), boot, durability, given_up, failed: log_fails };
        if intact && durability != Durability::Sync {
            unsynced.is_whole().map_err(failed)?;
        }
        Ok((unsynced, intact))
    }

    /// The log has everything, from now on or at this moment.
    pub fn is_whole(&self) -> DiskResult<()> {
        if self.given_up.load(Ordering::SeqCst) {
            return Ok(());
        }
        match self.durability {
            Durability::Sync => self.remove(),
            Durability::Interval(_) | Durability::None | Durability::Memory => {
                write(&*self.disk, &self.dir, UNSYNCED, self.boot.as_bytes())
            }
        }
    }

    /// The log was closed in good order.
    pub fn closed(&self, intact: bool) -> DiskResult<()> {
        if intact && !self.given_up.load(Ordering::SeqCst) { self.remove() } else { Ok(()) }
    }

    /// An fsync has failed, or the data here is thrown away. Written in place, so that the next
    /// start under this boot reads it whatever the disk does.
    fn lost(&self) -> DiskResult<()> {
        if self.durability == Durability::Sync || self.given_up.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.say_lost()
    }

    /// A write to the log has failed, or an fsync.
    pub fn log_failed(&self) {
        self.failed.store(true, Ordering::SeqCst);
        if let Err(error) = self.lost() {
            ferrite_io::notify(Notice::MarkNotWritten { reason: error.to_string() });
        }
    }

    /// Whether this process can no longer write its log.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The next start throws away the data here, whatever the mode: durable when this returns.
    pub fn throw_away(&self) -> DiskResult<()> {
        self.given_up.store(true, Ordering::SeqCst);
        write(&*self.disk, &self.dir, UNSYNCED, ANEW.as_bytes())
    }

    fn say_lost(&self) -> DiskResult<()> {
        // An empty file belongs to no boot.
        let file = self.disk.open(&self.dir.join(UNSYNCED), OpenMode::Create)?;
        file.write_at(LOST.as_bytes(), 0)?;
        // It may fail as the log's has.
        let _ = file.sync_data();
        Ok(())
    }

    fn remove(&self) -> DiskResult<()> {
        if self.disk.list(&self.dir)?.iter().any(|name| name == UNSYNCED) {
            self.disk.remove(&self.dir.join(UNSYNCED))?;
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }
}

/// Moves log and snapshots to a directory beside, until an operator removes it. If it was
/// interrupted, it continues into another one.
fn set_aside(disk: &dyn Disk, dir: &Path, known: Option<&Identity>) -> DiskResult<()> {
    let start = known.map_or(0, |known| known.incarnation.0);
    let aside = dir.join(format!("aside-{start}"));
    // Those of other groups lie within the first one's.
    let others: Vec<GroupId> = known.iter().flat_map(|known| known.hosted.range(GroupId(1)..)).copied().collect();
    let of_groups = |folder: &'static str| others.iter().map(move |group| format!("{folder}/group-{group}"));
    let folders = ["", "snapshots", "incoming"].map(str::to_owned).into_iter();
    for folder in folders.chain(of_groups("snapshots")).chain(of_groups("incoming")) {
        let from = dir.join(&folder);
        let to = aside.join(&folder);
        let Ok(names) = disk.list(&from) else { continue };
        disk.create_dir(&to)?;
        for name in names.iter().filter(|name| !folder.is_empty() || !KEPT.contains(&&name[..])) {
            disk.rename(&from.join(name), &to.join(name))?;
        }
        disk.sync_dir(&to)?;
        disk.sync_dir(&from)?;
    }
    Ok(())
}

/// Names this boot of the machine; empty where the system does not report it.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_io::simulated::{Restart, SimulatedClock, SimulatedDisk};

    const DIR: &str = "/node";

    fn begin(disk: &SimulatedDisk, boot: &str, durability: Durability) -> (Unsynced, bool) {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        Unsynced::begin(disk, Path::new(DIR), boot.to_owned(), durability).expect("a healthy disk")
    }

    fn disk() -> SimulatedDisk {
        let disk = SimulatedDisk::new(1, SimulatedClock::default());
        disk.create_dir(Path::new(DIR)).expect("a healthy disk");
        disk
    }

    #[test]
    fn a_log_is_whole_under_the_boot_that_wrote_it_and_after_an_orderly_end() {
        let disk = disk();
        for durability in [Durability::None, Durability::Interval(std::time::Duration::from_millis(5))] {
            assert!(begin(&disk, "one", durability).1, "nothing was acknowledged yet");
            assert!(begin(&disk, "one", durability).1, "the process was killed");
            let (unsynced, intact) = begin(&disk, "two", durability);
            assert!(!intact, "the machine was");
            assert!(!begin(&disk, "two", durability).1, "what is lost stays lost");
            unsynced.is_whole().expect("a healthy disk");
            let (unsynced, intact) = begin(&disk, "two", durability);
            assert!(intact);
            unsynced.closed(true).expect("a healthy disk");
            assert!(begin(&disk, "three", durability).1);
            begin(&disk, "three", durability).0.closed(true).expect("a healthy disk");
        }
    }

    #[test]
    fn what_was_not_waited_for_is_not_taken_for_durable_before_the_log_is_open() {
        let disk = disk();
        begin(&disk, "one", Durability::None);
        assert!(begin(&disk, "one", Durability::Sync).1, "the process was killed");
        disk.restart(Restart::Power);
        let (unsynced, intact) = begin(&disk, "two", Durability::Sync);
        assert!(!intact, "the machine was, before the log was open");
        unsynced.is_whole().expect("a healthy disk");
        assert!(begin(&disk, "three", Durability::Sync).1);
    }

    #[test]
    fn after_a_failed_fsync_it_is_not_whole_under_the_same_boot_either() {
        let disk = disk();
        let (unsynced, _) = begin(&disk, "one", Durability::None);
        unsynced.lost().expect("what is written need not reach the disk");
        disk.restart(Restart::Process);
        assert!(!begin(&disk, "one", Durability::None).1);
        disk.restart(Restart::Power);
        assert!(!begin(&disk, "two", Durability::None).1);
    }

    #[test]
    fn what_is_given_up_is_not_taken_back_by_an_orderly_end() {
        for durability in [Durability::Sync, Durability::None] {
            let disk = disk();
            let (unsynced, _) = begin(&disk, "one", durability);
            unsynced.throw_away().expect("a healthy disk");
            unsynced.is_whole().expect("a healthy disk");
            unsynced.log_failed();
            unsynced.closed(true).expect("a healthy disk");
            let log = Path::new(DIR).join("redo-1");
            disk.open(&log, OpenMode::Create).expect("a healthy disk");
            assert!(!begin(&disk, "one", durability).1);
            assert!(disk.open(&log, OpenMode::Read).is_err(), "it is put aside");
        }
    }

    #[test]
    fn with_every_fsync_waited_for_nothing_is_written_and_an_earlier_word_counts() {
        let disk = disk();
        let (unsynced, intact) = begin(&disk, "one", Durability::Sync);
        assert!(intact);
        unsynced.lost().expect("nothing to do");
        assert!(begin(&disk, "two", Durability::Sync).1);
        begin(&disk, "two", Durability::None);
        assert!(!begin(&disk, "three", Durability::Sync).1, "written by a process that did not wait");
        unsynced.throw_away().expect("a healthy disk");
        let log = Path::new(DIR).join("redo-1");
        disk.open(&log, OpenMode::Create).expect("a healthy disk");
        assert!(!begin(&disk, "three", Durability::Sync).1);
        assert!(disk.open(&log, OpenMode::Read).is_err(), "it is put aside");
        disk.open(&log, OpenMode::Create).expect("a healthy disk");
        assert!(!begin(&disk, "three", Durability::Sync).1);
        assert!(disk.open(&log, OpenMode::Read).is_ok(), "what came since stays");
        // As an operator writes it.
        write(&disk, Path::new(DIR), UNSYNCED, b"anew\n").expect("a healthy disk");
        assert!(!begin(&disk, "three", Durability::Sync).1);
        assert!(disk.open(&log, OpenMode::Read).is_err(), "it is put aside");
        disk.open(&log, OpenMode::Create).expect("a healthy disk");
        begin(&disk, "three", Durability::Sync).0.is_whole().expect("a healthy disk");
        assert!(begin(&disk, "four", Durability::Sync).1);
    }
}
