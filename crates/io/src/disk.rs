//! The disk as the database sees it: files written and read at positions, made durable when asked.
//!
//! What a simulated disk has to keep up: bytes written are read back at once, but survive a power
//! loss for certain only after `sync_data` of the file, and a new, removed or renamed name only
//! after `sync_dir` of its directory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Unit in which direct writes must be placed, sized and aligned in memory.
pub const SECTOR_BYTES: usize = 4_096;

pub type DiskResult<T> = Result<T, DiskError>;

/// What could not be done, to which file, and why.
#[derive(Debug)]
pub struct DiskError {
    pub operation: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl DiskError {
    pub fn new(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        DiskError { operation, path: path.to_path_buf(), source: source.into() }
    }

    pub fn is_out_of_space(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// The system lacked file descriptors, or memory to open a file with. Nothing was done to any
    /// file.
    pub fn is_out_of_handles(&self) -> bool {
        match self.source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => true,
            Some(libc::ENOMEM) => self.operation == "open",
            _ => false,
        }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.path.display(), self.source)?;
        match self.source.kind() {
            io::ErrorKind::PermissionDenied => {
                f.write_str("; the user that runs this must be allowed to read and write there")
            }
            io::ErrorKind::ReadOnlyFilesystem => f.write_str(
                "; mount it for writing. A file system that has found an error makes itself read-only: the system's log says \
                 so, and it must be checked first",
            ),
            io::ErrorKind::NotADirectory => f.write_str("; a file is where a directory must be"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Why a lock was not given.
#[derive(Debug)]
pub enum LockError {
    /// Another process has it; its id, if it could be read.
    Held {
        path: PathBuf,
        process: Option<u32>,
    },
    Disk(DiskError),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held { path, process: Some(process) } => {
                write!(f, "{} is held by process {process}: stop that process first", path.display())
            }
            LockError::Held { path, process: None } => {
                write!(f, "{} is held by another process: stop that process first", path.display())
            }
            LockError::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LockError {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// Reads of a file that is there.
    Read,
    /// Like `Read`, but past the page cache where the file system can do that: what is read is what
    /// the disk holds. Reads must then be sectors, in place, size and memory.
    ReadDirect,
    /// Reads and writes of a file that is there, through the page cache.
    Write,
    /// Like `Write`, but writes go past the page cache where the file system can do that: they must
    /// then be sectors, in place, size and memory. Where it cannot, the same as `Write`.
    WriteDirect,
    /// Makes an empty file, or empties the one that is there; then like `Write`.
    Create,
}

pub trait Disk: Send + Sync {
    /// Makes the directory and those above it, if they are not there, and makes their names
    /// durable.
    fn create_dir(&self, path: &Path) -> DiskResult<()>;

    fn open(&self, path: &Path, mode: OpenMode) -> DiskResult<Box<dyn DiskFile>>;

    /// Locks the file at `path` (made if need be), and the directory that it is in, against all
    /// other processes, and writes this process's id into it. Who removes the file does not remove
    /// the lock. Held until the answer is dropped or the process ends, however it ends.
    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError>;

    /// Names of the files in a directory, sorted.
    fn list(&self, dir: &Path) -> DiskResult<Vec<String>>;

    fn remove(&self, path: &Path) -> DiskResult<()>;

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()>;

    /// Makes names that came into the directory or left it durable.
    fn sync_dir(&self, dir: &Path) -> DiskResult<()>;

    /// Room on the file system of a directory that is there. A disk that does not say has no end.
    fn space(&self, _dir: &Path) -> DiskResult<Space> {
        Ok(Space { free: u64::MAX, total: u64::MAX })
    }
}

/// Room of a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// What this process may still take.
    pub free: u64,
    pub total: u64,
}

/// Releases its lock when dropped.
pub trait DiskLock: Send + Sync {}

/// An open file. May be used by several threads at once; one of them should be its owner.
pub trait DiskFile: Send + Sync {
    fn path(&self) -> &Path;

    /// Size in bytes.
    fn bytes(&self) -> DiskResult<u64>;

    /// Reads until the buffer is full or the file ends; the number of bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize>;

    /// Writes all bytes, or fails having written any part of them.
    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()>;

    /// Makes all bytes written before durable, and as much metadata as is needed to read them.
    /// After an error nobody knows what is on the disk, and a second call that succeeds proves
    /// nothing: the first error must be final.
    fn sync_data(&self) -> DiskResult<()>;

    /// The same for a caller who has time: in pieces, so that others may run between them.
    fn sync_data_in_pieces(&self) -> DiskResult<()> {
        self.sync_data()
    }

    /// Gives the file that size and the disk space for it. New bytes read as zero. Whether the
    /// space is reserved: some file systems cannot do that, and only writing shows whether there is
    /// enough.
    fn preallocate(&self, bytes: u64) -> DiskResult<bool>;

    /// Whether it is still what stands at its path: not removed, moved or replaced.
    fn is_in_place(&self) -> DiskResult<bool>;

    /// Nobody will read it soon: the operating system need not keep in memory what is durable of
    /// it. A hint, which changes no contents.
    fn forget(&self) {}
}

/// A byte buffer whose content begins at a sector boundary in memory, as direct writes need it.
#[derive(Default)]
pub struct SectorBuffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl SectorBuffer {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn capacity(&self) -> usize {
        self.bytes.len().saturating_sub(SECTOR_BYTES)
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }

    /// Empties it; gives memory beyond `capacity_max` back.
    pub fn clear(&mut self, capacity_max: usize) {
        self.length = 0;
        if self.capacity() > capacity_max {
            self.bytes = Vec::new();
            self.start = 0;
        }
    }

    /// Makes it that long: shorter by cutting, longer by zeros.
    pub fn resize(&mut self, length: usize) {
        match length.checked_sub(self.length) {
            Some(more) => self.extend_zeros(more),
            None => self.length = length,
        }
    }

    pub fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let end = self.start + self.length;
        self.bytes[end..end + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    pub fn extend_zeros(&mut self, count: usize) {
        self.reserve(count);
        let end = self.start + self.length;
        self.bytes[end..end + count].fill(0);
        self.length += count;
    }

    /// Zeros up to the next sector boundary.
    pub fn pad_to_sector(&mut self) {
        self.extend_zeros(self.length.next_multiple_of(SECTOR_BYTES) - self.length);
    }

    fn reserve(&mut self, more: usize) {
        let needed = self.length + more;
        if needed <= self.capacity() {
            return;
        }
        let capacity = needed.max(self.capacity() * 2).next_multiple_of(SECTOR_BYTES);
        let mut bytes = vec![0; capacity + SECTOR_BYTES];
        let start = bytes.as_ptr().align_offset(SECTOR_BYTES);
        assert!(start < SECTOR_BYTES, "a byte pointer can always be aligned");
        bytes[start..start + self.length].copy_from_slice(self.as_slice());
        self.bytes = bytes;
        self.start = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sector_buffer_keeps_content_and_alignment_while_growing() {
        let mut buffer = SectorBuffer::new();
        let mut model = Vec::new();
        for round in 0..200usize {
            let piece = vec![round as u8; round * 37 % 5_000];
            buffer.extend(&piece);
            model.extend_from_slice(&piece);
            if round % 3 == 0 {
                buffer.pad_to_sector();
                model.resize(model.len().next_multiple_of(SECTOR_BYTES), 0);
            }
            assert_eq!(buffer.as_slice(), model);
            assert!(model.is_empty() || (buffer.as_slice().as_ptr() as usize).is_multiple_of(SECTOR_BYTES));
        }
        buffer.clear(0);
        assert_eq!((buffer.len(), buffer.capacity()), (0, 0));
        buffer.extend(&[1, 2, 3]);
        buffer.resize(1);
        buffer.resize(3);
        assert_eq!(buffer.as_slice(), [1, 0, 0]);
    }
}
