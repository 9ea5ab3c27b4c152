//! Watches the room on the disks that the database writes to, and says when there is less than the reserve.
//!
//! The reserve is what keeps a full disk from being met at all: from the mark on writes are refused at the door, and those that are
//! in already, with the segments that the log prepares for them, take from the reserve. Which calls are refused is
//! [`crate::shared::Mode`]'s business.

use crate::shared::Shared;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use ferrite_io::{Disk, DiskResult};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Between two looks while the log grows.
const BUSY: Duration = Duration::from_millis(50);
/// And otherwise: others may fill the disk too.
const QUIET: Duration = Duration::from_secs(1);

pub struct SpaceWatch {
    pub shared: Arc<Shared>,
    pub disk: Arc<dyn Disk>,
    /// Directories of the log and the like; several may be on one disk.
    pub dirs: Vec<PathBuf>,
    pub reserve: u64,
    /// Closed when the server stops.
    pub stop: Receiver<()>,
}

/// The room of the fullest of the disks.
pub fn free(disk: &dyn Disk, dirs: &[PathBuf]) -> DiskResult<u64> {
    dirs.iter().try_fold(u64::MAX, |least, dir| Ok(disk.space(dir)?.free.min(least)))
}

impl SpaceWatch {
    pub fn run(self) {
        let mut written_before = 0;
        let mut failed = false;
        loop {
            let written = self.shared.log.written_bytes.load(Relaxed);
            match free(&*self.disk, &self.dirs) {
                Ok(free) => {
                    failed = false;
                    if self.shared.mode.disk_has(free, self.reserve) {
                        self.tell(free);
                    }
                }
                // What cannot be seen is not taken for full: a disk that is broken fails the log, which then says so.
                Err(error) if !failed => {
                    failed = true;
                    eprintln!("ferrite: {error}; whether the disk is nearly full is not known");
                }
                Err(_) => {}
            }
            let pause = if written != written_before { BUSY } else { QUIET };
            written_before = written;
            if self.stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn tell(&self, free: u64) {
        let reserve = self.reserve;
        if self.shared.mode.is_disk_low() {
            eprintln!(
                "ferrite: the disk has {free} bytes free, less than the reserve of {reserve} (--disk-reserve): writes are \
                 refused until there is more"
            );
        } else {
            eprintln!("ferrite: the disk has {free} bytes free again: writes are taken");
        }
    }
}
