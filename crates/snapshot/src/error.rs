//! What can go wrong with a snapshot.

use ferrite_io::DiskError;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub enum SnapshotError {
    Disk(DiskError),
    /// The file is not what was written.
    Damaged {
        path: PathBuf,
        position: u64,
        detail: String,
    },
    /// The file is whole, but written by another release.
    Version {
        path: PathBuf,
        found: u32,
    },
    /// The same: its checksums are right, and this release cannot make its schema.
    Schema {
        path: PathBuf,
        detail: String,
    },
}

pub(crate) type SnapshotResult<T> = Result<T, SnapshotError>;

impl SnapshotError {
    pub(crate) fn damaged(path: &Path, position: u64, detail: impl Into<String>) -> SnapshotError {
        SnapshotError::Damaged { path: path.to_path_buf(), position, detail: detail.into() }
    }
}

impl From<DiskError> for SnapshotError {
    fn from(error: DiskError) -> SnapshotError {
        SnapshotError::Disk(error)
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Disk(error) => error.fmt(f),
            SnapshotError::Damaged { path, position, detail } => {
                write!(f, "snapshot file {} is damaged at byte {position}: {detail}", path.display())
            }
            SnapshotError::Version { path, found } => write!(
                f,
                "snapshot file {} has format version {found}, which this release does not read: use the release that wrote it",
                path.display()
            ),
            SnapshotError::Schema { path, detail } => write!(
                f,
                "snapshot file {} is intact, but this release cannot create its schema ({detail}): use the release that wrote it, or a \
                 later one",
                path.display()
            ),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SnapshotError::Disk(error) => Some(error),
            _ => None,
        }
    }
}
