//! A disk that waits where the system lacks what opening a file takes (file descriptors, memory),
//! in place of failing: nothing has been written yet, so trying again is harmless.
//!
//! Owns the waiting. Promises that a failed write or fsync, and an opening that failed for any
//! other reason, comes through at once. Does not know what the files are for.

use crate::disk::{Disk, DiskFile, DiskLock, DiskResult, LockError, OpenMode, Space};
use ferrite_notice::Notice;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two attempts: the first time, and later at most.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Between two lines about the same want.
const TELL_EVERY: Duration = Duration::from_secs(60);

pub struct PatientDisk {
    below: Arc<dyn Disk>,
    tell: fn(Notice),
    hurried: AtomicBool,
}

impl PatientDisk {
    /// `tell` hears when it begins to wait, each minute, and when it continues.
    pub fn new(below: Arc<dyn Disk>, tell: fn(Notice)) -> PatientDisk {
        PatientDisk { below, tell, hurried: AtomicBool::new(false) }
    }

    /// From now on nobody has time: what cannot be opened at the next attempt fails.
    pub fn hurry(&self) {
        self.hurried.store(true, Ordering::Relaxed);
    }

    fn patiently<T>(&self, operation: impl Fn() -> DiskResult<T>) -> DiskResult<T> {
        let mut told = None::<Instant>;
        let mut pause = PAUSE_FIRST;
        loop {
            match operation() {
                Err(error) if error.is_out_of_handles() && !self.hurried.load(Ordering::Relaxed) => {
                    if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                        told = Some(Instant::now());
                        (self.tell)(Notice::LogWaitsForFiles { reason: error.to_string() });
                    }
                    std::thread::sleep(pause);
                    pause = (2 * pause).min(PAUSE_MAX);
                }
                result => {
                    if result.is_ok() && told.is_some() {
                        (self.tell)(Notice::LogHasFiles);
                    }
                    return result;
                }
            }
        }
    }
}

impl Disk for PatientDisk {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        self.patiently(|| self.below.create_dir(path))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        self.patiently(|| self.below.open(path, mode))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        self.below.lock(path)
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<String>> {
        self.patiently(|| self.below.list(dir))
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.below.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.patiently(|| self.below.rename(from, to))
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        self.patiently(|| self.below.sync_dir(dir))
    }

    fn space(&self, dir: &Path) -> DiskResult<Space> {
        self.below.space(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Fault, FaultKind, SimulatedDisk};

    fn patient(error: i32, times: u64) -> (PatientDisk, SimulatedDisk) {
        let disk = SimulatedDisk::healthy();
        disk.create_dir(Path::new("/d")).unwrap();
        disk.fail(Fault { kind: FaultKind::Name, at: 2, times, error, short: 0 });
        (PatientDisk::new(Arc::new(disk.clone()), |_| {}), disk)
    }

    #[test]
    fn what_lacks_handles_is_tried_again_and_nothing_else() {
        for error in [Fault::EMFILE, Fault::ENFILE, Fault::ENOMEM] {
            let (patient, disk) = patient(error, 4);
            patient.open(Path::new("/d/one"), OpenMode::Create).expect("the fifth attempt succeeds");
            assert_eq!(disk.count(FaultKind::Name), 6);
        }
        for error in [Fault::EIO, Fault::ENOSPC] {
            let (patient, disk) = patient(error, 1);
            assert!(patient.open(Path::new("/d/one"), OpenMode::Create).is_err());
            assert_eq!(disk.count(FaultKind::Name), 2, "one attempt");
        }
        // fsync of a directory that lacks memory has been begun: it is not known what it did.
        let (patient, _) = patient(Fault::ENOMEM, 1);
        assert!(patient.sync_dir(Path::new("/d")).is_err());
    }

    #[test]
    fn who_is_in_a_hurry_gets_the_error() {
        let (patient, _) = patient(Fault::EMFILE, u64::MAX);
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| patient.open(Path::new("/d/one"), OpenMode::Create).map(|_| ()));
            patient.hurry();
            let error = opened.join().unwrap().expect_err("there are none");
            assert!(error.is_out_of_handles(), "{error}");
        });
    }
}
