//! What one group commit costs on a disk at least, measured the way the log does it.

use std::path::Path;
use std::time::Duration;

use ferrite_io::{Clock, Disk, DiskResult, OpenMode, RealDisk, SECTOR_BYTES, SectorBuffer, SystemClock};

const FILE_NAME: &str = "fsync-measure.tmp";
const WRITES: u64 = 256;

/// The median time to write one sector and make it durable, on the disk of `dir`, which must exist.
pub fn measure_fsync(dir: &Path) -> DiskResult<Duration> {
    let path = dir.join(FILE_NAME);
    let result = measure(&path);
    let removed = RealDisk.remove(&path);
    result.and_then(|median| removed.map(|()| median))
}

fn measure(path: &Path) -> DiskResult<Duration> {
    let mut buffer = SectorBuffer::new();
    buffer.extend_zeros(WRITES as usize * SECTOR_BYTES);
    RealDisk.open(path, OpenMode::Create)?.preallocate(buffer.len() as u64)?;
    let file = RealDisk.open(path, OpenMode::WriteDirect)?;
    file.write_at(buffer.as_slice(), 0)?;
    file.sync_data()?;
    let mut times = Vec::new();
    for index in 0..WRITES {
        let begin = SystemClock.monotonic_nanos();
        file.write_at(&buffer.as_slice()[..SECTOR_BYTES], index * SECTOR_BYTES as u64)?;
        file.sync_data()?;
        times.push(SystemClock.monotonic_nanos() - begin);
    }
    times.sort_unstable();
    Ok(Duration::from_nanos(times[times.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(measure_fsync(dir.path()).unwrap() > Duration::ZERO);
        assert!(RealDisk.list(dir.path()).unwrap().is_empty());
    }
}
