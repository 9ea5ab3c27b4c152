//! Looks at a backup while it is written: at each change of a name, what would a loss of power
//! leave of it? A life loses its power once; between two steps that belong together that is seldom
//! enough to be missed.

use ferrite_io::simulated::SimulatedDisk;
use ferrite_io::{Disk, DiskFile, DiskLock, DiskResult, LockError, OpenMode};
use ferrite_snapshot::{FileIdentity, Files, Verified, Verifier};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Losses of power that are tried at each change of a name.
const LOSSES: u64 = 6;

/// The first thing that was wrong, over all backups of a life.
#[derive(Clone, Default)]
pub struct Finding(Arc<Mutex<Option<String>>>);

impl Finding {
    pub fn first_problem(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The disk on which a backup is written.
pub struct Witness {
    disk: SimulatedDisk,
    dir: PathBuf,
    nonce: String,
    seed: AtomicU64,
    finding: Finding,
}

impl Witness {
    pub fn new(disk: SimulatedDisk, dir: &Path, nonce: &str, seed: u64, finding: Finding) -> Witness {
        Witness { disk, dir: dir.to_path_buf(), nonce: nonce.to_owned(), seed: AtomicU64::new(seed), finding }
    }

    /// A backup that has a manifest is whole, whatever else is lost.
    fn check_losses(&self, after: &str) {
        for _ in 0..LOSSES {
            let seed = self.seed.fetch_add(1, Ordering::Relaxed);
            let left: Arc<dyn Disk> = Arc::new(self.disk.after_power_loss(&self.dir, seed));
            if let Err(what) = whole(left, &self.dir, &self.nonce) {
                let mut finding = self.finding.0.lock().unwrap_or_else(PoisonError::into_inner);
                finding.get_or_insert(format!("{}: when the power goes after {after}: {what}", self.nonce));
            }
        }
    }
}

fn whole(disk: Arc<dyn Disk>, dir: &Path, nonce: &str) -> Result<(), String> {
    let files = Files::new(Arc::clone(&disk), dir);
    if disk.open(&files.manifest_path(nonce), OpenMode::Read).is_err() {
        return Ok(());
    }
    let manifest = files.manifest(nonce).map_err(|error| format!("its manifest is there, and {error}"))?;
    for (partition, file) in (0..).zip(&manifest.files) {
        let identity = FileIdentity { database: manifest.database, snapshot: manifest.snapshot, partition };
        let verified =
            Verifier::open(&*disk, &files.rows_path(nonce, partition), identity, *file).and_then(|mut all| {
                while let Verified::Some(_) = all.step()? {}
                Ok(())
            });
        verified.map_err(|error| format!("its manifest is there, and {error}"))?;
    }
    Ok(())
}

impl Disk for Witness {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        self.disk.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        self.disk.open(path, mode)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        self.disk.lock(path)
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<String>> {
        self.disk.list(dir)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.disk.remove(path)?;
        self.check_losses("a file was removed");
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.disk.rename(from, to)?;
        self.check_losses("the manifest got its name");
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        self.disk.sync_dir(dir)?;
        self.check_losses("names were made durable");
        Ok(())
    }
}
