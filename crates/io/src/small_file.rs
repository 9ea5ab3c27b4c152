//! Small files that are read whole and replaced whole.
//!
//! Promises that whoever reads one sees what was written last or what stood before it, never a part
//! of either. Does not know what is in them.

use crate::disk::{Disk, DiskResult, OpenMode};
use std::path::Path;

/// Puts `bytes` in place of the file, or makes it: durable when this returns. `new` is the name in
/// the same directory under which they stand until they are whole.
pub fn replace(disk: &dyn Disk, dir: &Path, name: &str, new: &str, bytes: &[u8]) -> DiskResult<()> {
    let partial = dir.join(new);
    let file = disk.open(&partial, OpenMode::Create)?;
    file.write_at(bytes, 0)?;
    file.sync_data()?;
    drop(file);
    disk.rename(&partial, &dir.join(name))?;
    disk.sync_dir(dir)
}

/// What the file says, up to its first `bytes_max` bytes; None: there is no such file.
pub fn read(disk: &dyn Disk, dir: &Path, name: &str, bytes_max: usize) -> DiskResult<Option<Vec<u8>>> {
    if !disk.list(dir)?.iter().any(|other| other == name) {
        return Ok(None);
    }
    let file = disk.open(&dir.join(name), OpenMode::Read)?;
    let length = usize::try_from(file.bytes()?).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length.min(bytes_max)];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Restart, SimulatedClock, SimulatedDisk};

    #[test]
    fn one_is_there_as_it_was_or_as_it_was_replaced_whatever_power_loss_comes() {
        let dir = Path::new("/small");
        for seed in 0..50 {
            let disk = SimulatedDisk::new(seed, SimulatedClock::default());
            disk.create_dir(dir).expect("a healthy disk");
            assert_eq!(read(&disk, dir, "file", 100).expect("a healthy disk"), None);
            replace(&disk, dir, "file", "file.new", b"before").expect("a healthy disk");
            disk.open(&dir.join("file.new"), OpenMode::Create)
                .and_then(|file| file.write_at(b"unfinished", 0))
                .expect("a healthy disk");
            disk.restart(Restart::Power);
            assert_eq!(read(&disk, dir, "file", 100).expect("a healthy disk"), Some(b"before".to_vec()));
            replace(&disk, dir, "file", "file.new", b"after that").expect("a healthy disk");
            disk.restart(Restart::Power);
            assert_eq!(read(&disk, dir, "file", 5).expect("a healthy disk"), Some(b"after".to_vec()));
        }
    }
}
