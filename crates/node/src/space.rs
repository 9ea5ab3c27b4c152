//! Watches the room on the disks that the database writes to, and says when there is less than the
//! reserve.
//!
//! The reserve keeps the disk from ever being full: from the mark on writes are refused at the
//! door, and those that are in already, with the segments that the log prepares for them, take from
//! the reserve. So the mark must not be passed unseen by more than a part of the reserve: each
//! writer looks ([`MeteredDisk`]) each time a sixteenth of it was written, by whatever part of the
//! server; and a thread looks now and then, since others may fill the disk too. Snapshots end when
//! half of the reserve is gone: the rest is the log's. Which calls are refused is
//! [`crate::mode::Mode`]'s business.

use crate::mode::Mode;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use ferrite_io::{Disk, DiskResult, MeteredDisk};
use ferrite_notice::Notice;
use ferrite_partition::gate::SharedFailure;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Between two looks of the thread.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOKS_PER_RESERVE: u64 = 16;
const LOOK_BYTES_MIN: u64 = 1_048_576;

pub struct SpaceWatch {
    pub mode: Arc<Mode>,
    /// The one that is asked for its room.
    pub disk: Arc<dyn Disk>,
    /// Directories of the log and the like; several may be on one disk.
    pub dirs: Vec<PathBuf>,
    pub reserve: u64,
    /// The log's: after it nothing is written any more, whatever room there is.
    pub log_failure: SharedFailure,
    /// The last look failed. Held while looking, so that an old look does not undo what a newer one
    /// saw.
    pub failed: Mutex<bool>,
}

/// The room of the fullest of the disks.
pub fn free(disk: &dyn Disk, dirs: &[PathBuf]) -> DiskResult<u64> {
    dirs.iter().try_fold(u64::MAX, |least, dir| Ok(disk.space(dir)?.free.min(least)))
}

/// The disk to write to where that much is kept in reserve.
pub fn metered(disk: Arc<dyn Disk>, reserve: u64) -> MeteredDisk {
    let every = if reserve == 0 { u64::MAX } else { (reserve / LOOKS_PER_RESERVE).max(LOOK_BYTES_MIN) };
    MeteredDisk::new(disk, every)
}

impl SpaceWatch {
    /// Looks now and then until `stop` is closed.
    pub fn run(&self, stop: &Receiver<()>) {
        while stop.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            self.check();
        }
    }

    pub fn check(&self) {
        let mut failed = self.failed.lock().expect("no panic while looking");
        match free(&*self.disk, &self.dirs) {
            Ok(free) => {
                *failed = false;
                if self.mode.disk_has(free, self.reserve) {
                    self.report(free);
                }
            }
            // What cannot be seen is not taken for full: a disk that is broken fails the log, which
            // then reports it.
            Err(error) => {
                if !std::mem::replace(&mut failed, true) {
                    ferrite_io::notify(Notice::DiskSpaceUnknown { reason: error.to_string() });
                }
            }
        }
    }

    fn report(&self, free: u64) {
        if self.log_failure.get().is_some() {
            return;
        }
        let mode = &self.mode;
        if !mode.is_disk_low() {
            return ferrite_io::notify(Notice::DiskFree { free, accepts_writes: mode.serves() });
        }
        let role = match () {
            () if mode.serves() => "leader",
            () if mode.is_copy() => "copy",
            () => "none",
        };
        ferrite_io::notify(Notice::DiskLow { free, reserve: self.reserve, role });
    }
}
