//! The disk of this machine.

use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;

use crate::disk::{Disk, DiskError, DiskFile, DiskLock, DiskResult, LockError, OpenMode, SECTOR_BYTES, Space};

#[derive(Clone, Copy, Default, Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        if path.is_dir() {
            return Ok(());
        }
        let above = match path.parent() {
            Some(above) if above.as_os_str().is_empty() => Path::new("."),
            Some(above) => above,
            None => Path::new("/"),
        };
        self.create_dir(above)?;
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(DiskError::new("create directory", path, error));
            }
            _ => {}
        }
        self.sync_dir(above)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>> {
        let mut options = fs::OpenOptions::new();
        // A pipe that somebody has put in a file's place would be waited for.
        options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
        let result = match mode {
            OpenMode::Read => options.open(path),
            OpenMode::Write => options.write(true).open(path),
            OpenMode::ReadDirect => open_direct(path, &options),
            OpenMode::WriteDirect => open_direct(path, options.write(true)),
            OpenMode::Create => options.write(true).create(true).truncate(true).open(path),
        };
        let failed = |error| DiskError::new("open", path, error);
        let file = result.map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        let direct = mode == OpenMode::ReadDirect;
        Ok(Box::new(RealFile { file, path: path.to_path_buf(), direct }))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        let failed = |error: io::Error| LockError::Disk(DiskError::new("lock", path, error));
        let held = || {
            let process = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
            LockError::Held { path: path.to_path_buf(), process }
        };
        let lock = |file: &fs::File| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
        // The file can be removed under whoever holds it, and another one be locked in its place;
        // the directory cannot.
        let dir = match path.parent() {
            Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
            Some(dir) => dir,
            None => Path::new("/"),
        };
        let dir = fs::File::open(dir).map_err(failed)?;
        match lock(&dir) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(held()),
            // Some network file systems lock what is open for writing only: there the file is all
            // there is.
            Err(Errno::BADF | Errno::INVAL | Errno::ISDIR | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let file =
            fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        // Earlier releases have locked nothing else.
        match lock(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(held()),
            Err(error) => return Err(failed(error.into())),
        }
        // The id is a help for the operator only: the lock is what counts, and it goes away with
        // the process.
        file.set_len(0).map_err(failed)?;
        file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0).map_err(failed)?;
        Ok(Box::new(RealLock { file, dir }))
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<String>> {
        let failed = |error| DiskError::new("list directory", dir, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        fs::remove_file(path).map_err(|error| DiskError::new("remove", path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        fs::rename(from, to).map_err(|error| DiskError::new("rename", from, error))
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        let opened = fs::File::open(dir).map_err(|error| DiskError::new("open", dir, error))?;
        opened.sync_all().map_err(|error| DiskError::new("sync directory", dir, error))
    }

    fn space(&self, dir: &Path) -> DiskResult<Space> {
        let found =
            rustix::fs::statvfs(dir).map_err(|error| DiskError::new("ask for the free space of", dir, error))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { free: bytes(found.f_bavail), total: bytes(found.f_blocks) })
    }
}

/// Opens past the page cache; on file systems that refuse, through it.
fn open_direct(path: &Path, options: &fs::OpenOptions) -> io::Result<fs::File> {
    let direct = options.clone().custom_flags((OFlags::DIRECT | OFlags::NONBLOCK).bits() as i32).open(path);
    match direct {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => options.open(path),
        result => result,
    }
}

struct RealLock {
    file: fs::File,
    dir: fs::File,
}

impl Drop for RealLock {
    fn drop(&mut self) {
        // A process that this one is just starting has copies of both descriptors until it runs its
        // program: they would hold the lock for as long.
        for held in [&self.file, &self.dir] {
            let _ = rustix::fs::flock(held, FlockOperation::Unlock);
        }
    }
}

impl DiskLock for RealLock {}

struct RealFile {
    file: fs::File,
    path: PathBuf,
    direct: bool,
}

impl RealFile {
    fn failed(&self, operation: &'static str, error: impl Into<io::Error>) -> DiskError {
        DiskError::new(operation, &self.path, error)
    }
}

/// Places and lengths that a file is gone through by. Of a large file, writing and forgetting take
/// the kernel tens of milliseconds, in which some let nobody else run on that core; of a piece, a
/// tenth of one.
fn pieces(bytes: u64) -> impl Iterator<Item = (u64, NonZeroU64)> {
    const PIECE: NonZeroU64 = NonZeroU64::new(1 << 20).expect("not zero");
    (0..bytes.div_ceil(PIECE.get())).map(|number| (number * PIECE.get(), PIECE))
}

impl DiskFile for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> DiskResult<u64> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(|error| self.failed("look up", error))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => {
                    done += count;
                    // Only the end of the file is not at a sector, and to ask there again would be
                    // refused.
                    if self.direct && !done.is_multiple_of(SECTOR_BYTES) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read", error)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.failed("write", error))
    }

    fn sync_data(&self) -> DiskResult<()> {
        self.file.sync_data().map_err(|error| self.failed("fsync", error))
    }

    fn sync_data_in_pieces(&self) -> DiskResult<()> {
        for (offset, length) in pieces(self.bytes()?) {
            let offset = offset.cast_signed();
            let length = length.get().cast_signed();
            // SAFETY: the call takes numbers only, and the file is open.
            let result =
                unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE) };
            if result != 0 {
                return Err(self.failed("fsync", io::Error::last_os_error()));
            }
        }
        // That has only begun to write: this waits, and tells of errors.
        self.sync_data()
    }

    fn forget(&self) {
        for (offset, length) in pieces(self.bytes().unwrap_or_default()) {
            let _ = rustix::fs::fadvise(&self.file, offset, Some(length), Advice::DontNeed);
        }
    }

    fn is_in_place(&self) -> DiskResult<bool> {
        let own = self.file.metadata().map_err(|error| self.failed("look up", error))?;
        let same = |there: fs::Metadata| (there.dev(), there.ino()) == (own.dev(), own.ino());
        match fs::metadata(&self.path) {
            Ok(there) => Ok(own.nlink() > 0 && same(there)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(self.failed("look up", error)),
        }
    }

    fn preallocate(&self, bytes: u64) -> DiskResult<bool> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP) => match self.file.set_len(bytes) {
                Ok(()) => Ok(false),
                Err(error) => Err(self.failed("preallocate", error)),
            },
            Err(error) => Err(self.failed("preallocate", error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SectorBuffer;

    #[test]
    fn a_file_system_has_room_and_a_directory_that_is_not_there_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let Space { free, total } = RealDisk.space(dir.path()).unwrap();
        assert!(free > 0 && free <= total);
        assert!(RealDisk.space(&dir.path().join("nowhere")).is_err());
    }

    #[test]
    fn files_are_written_read_listed_renamed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        RealDisk.create_dir(&inner).unwrap();
        RealDisk.create_dir(&inner).unwrap();
        let file = RealDisk.open(&inner.join("one"), OpenMode::Create).unwrap();
        file.preallocate(3 * SECTOR_BYTES as u64).unwrap();
        file.write_at(b"hello", 10).unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.bytes().unwrap(), 3 * SECTOR_BYTES as u64);
        let mut buffer = [9; 16];
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 16);
        assert_eq!(&buffer, b"\0\0\0\0\0\0\0\0\0\0hello\0");
        assert_eq!(file.read_at(&mut buffer, 3 * SECTOR_BYTES as u64 - 4).unwrap(), 4);
        RealDisk.rename(&inner.join("one"), &inner.join("two")).unwrap();
        RealDisk.sync_dir(&inner).unwrap();
        assert_eq!(RealDisk.list(&inner).unwrap(), ["two"]);
        RealDisk.remove(&inner.join("two")).unwrap();
        assert!(RealDisk.list(&inner).unwrap().is_empty());
        let error = RealDisk.open(&inner.join("two"), OpenMode::Write).err().unwrap();
        assert!(error.to_string().starts_with("cannot open /") && error.to_string().contains("a/b/two: "), "{error}");
    }

    #[test]
    fn what_is_synced_in_pieces_and_forgotten_is_there() {
        let dir = tempfile::tempdir().unwrap();
        // No whole number of pieces; and nothing at all.
        for bytes in [5 * (1 << 20) / 2, 0] {
            let content: Vec<u8> = (0..bytes).map(|index| (index / 7) as u8).collect();
            let file = RealDisk.open(&dir.path().join("file"), OpenMode::Create).unwrap();
            file.write_at(&content, 0).unwrap();
            file.sync_data_in_pieces().unwrap();
            file.forget();
            let mut read = vec![0; content.len()];
            assert_eq!(file.read_at(&mut read, 0).unwrap(), content.len());
            assert!(read == content);
        }
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("zero")).unwrap();
        for mode in [OpenMode::Read, OpenMode::ReadDirect, OpenMode::Write, OpenMode::WriteDirect, OpenMode::Create] {
            for name in ["pipe", "zero"] {
                let error = RealDisk.open(&dir.path().join(name), mode).err().unwrap().to_string();
                assert!(error.contains("it is not a regular file"), "{name}, {mode:?}: {error}");
            }
        }
    }

    #[test]
    fn direct_writes_land() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("direct");
        RealDisk.open(&path, OpenMode::Create).unwrap().preallocate(8 * SECTOR_BYTES as u64).unwrap();
        let file = RealDisk.open(&path, OpenMode::WriteDirect).unwrap();
        let mut buffer = SectorBuffer::new();
        buffer.extend(b"sector");
        buffer.pad_to_sector();
        file.write_at(buffer.as_slice(), SECTOR_BYTES as u64).unwrap();
        file.sync_data().unwrap();
        let mut read = [0; 6];
        RealDisk.open(&path, OpenMode::Read).unwrap().read_at(&mut read, SECTOR_BYTES as u64).unwrap();
        assert_eq!(&read, b"sector");
        // Read past the cache, to an end of the file that is not at a sector.
        RealDisk.open(&path, OpenMode::Write).unwrap().write_at(b"end", 8 * SECTOR_BYTES as u64).unwrap();
        buffer.resize(16 * SECTOR_BYTES);
        let file = RealDisk.open(&path, OpenMode::ReadDirect).unwrap();
        assert_eq!(file.read_at(buffer.as_mut_slice(), 0).unwrap(), 8 * SECTOR_BYTES + 3);
        assert_eq!(&buffer.as_slice()[SECTOR_BYTES..SECTOR_BYTES + 6], b"sector");
        assert_eq!(&buffer.as_slice()[8 * SECTOR_BYTES..8 * SECTOR_BYTES + 3], b"end");
        assert_eq!(file.read_at(buffer.as_mut_slice(), 16 * SECTOR_BYTES as u64).unwrap(), 0);
    }

    #[test]
    fn a_lock_that_was_let_go_is_free_though_a_descriptor_of_it_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let dir = fs::File::open(dir.path()).unwrap();
        for held in [&file, &dir] {
            rustix::fs::flock(held, FlockOperation::NonBlockingLockExclusive).unwrap();
        }
        let copies = [file.try_clone().unwrap(), dir.try_clone().unwrap()];
        assert!(RealDisk.lock(&path).is_err());
        drop(RealLock { file, dir });
        assert!(RealDisk.lock(&path).is_ok());
        drop(copies);
    }

    #[test]
    fn a_second_lock_is_refused_with_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = RealDisk.lock(&path).unwrap();
        // flock belongs to the open file, so a second opening in the same process stands for
        // another process.
        let Err(LockError::Held { process, .. }) = RealDisk.lock(&path) else { panic!("the lock was given twice") };
        assert_eq!(process, Some(std::process::id()));
        drop(lock);
        RealDisk.lock(&path).unwrap();
    }

    #[test]
    fn who_removes_the_file_does_not_remove_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = RealDisk.lock(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(RealDisk.lock(&path), Err(LockError::Held { process: None, .. })));
        drop(lock);
        // Of an earlier release, which locks the file alone.
        let before = fs::File::create(&path).unwrap();
        rustix::fs::flock(&before, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(matches!(RealDisk.lock(&path), Err(LockError::Held { .. })));
        drop(before);
        RealDisk.lock(&path).unwrap();
    }

    #[test]
    fn a_file_that_was_removed_moved_or_replaced_is_not_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("file");
        let made = || RealDisk.open(&path, OpenMode::Create).unwrap();
        let file = made();
        assert!(file.is_in_place().unwrap());
        fs::rename(&path, inner.join("other")).unwrap();
        assert!(!file.is_in_place().unwrap(), "moved");
        let second = made();
        assert!(!file.is_in_place().unwrap() && second.is_in_place().unwrap(), "replaced");
        fs::rename(inner.join("other"), &path).unwrap();
        assert!(file.is_in_place().unwrap() && !second.is_in_place().unwrap(), "put back");
        fs::rename(&inner, dir.path().join("moved")).unwrap();
        assert!(!file.is_in_place().unwrap(), "its directory was moved");
        fs::remove_dir_all(dir.path().join("moved")).unwrap();
        assert!(!file.is_in_place().unwrap(), "removed");
    }
}
