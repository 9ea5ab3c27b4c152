//! What can go wrong: at opening ([`LogError`]), while replaying ([`OpenError`]), and for good
//! ([`LogFailed`]).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_base::{ErrorKind, UserError};
use ferrite_io::{DiskError, LockError};

use crate::durability::Durability;
use crate::format::DatabaseId;

/// Why a log could not be opened. Nothing was changed on disk, except where the disk itself failed.
#[derive(Debug)]
pub enum LogError {
    Disk(DiskError),
    Locked(LockError),
    /// Bytes that had been made durable are not what was written, or not there. What is to be
    /// done about it, whoever opens the log knows: a copy of the file may be what is wanted, or
    /// may lack what others rely on.
    Rot {
        /// Where the log that can be read ends.
        path: PathBuf,
        position: u64,
        /// The segment in which it should go on, where there is none.
        missing: Option<PathBuf>,
        /// It is known that something durable stood there.
        certain: bool,
        detail: String,
    },
    /// What is to be cut cannot be kept. Nothing was changed.
    NoRoomToKeep {
        folder: PathBuf,
        needed: u64,
        free: u64,
    },
    ForeignSegment {
        path: PathBuf,
        found: DatabaseId,
        expected: DatabaseId,
    },
    /// The number in the header is not the one in the name.
    Misnamed {
        path: PathBuf,
        found: u64,
    },
    Version {
        path: PathBuf,
        found: u32,
    },
    Options(String),
}

impl From<DiskError> for LogError {
    fn from(error: DiskError) -> Self {
        LogError::Disk(error)
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Disk(error) if error.is_out_of_space() => {
                write!(f, "{error}. Free disk space, then try again")
            }
            LogError::Disk(error) => error.fmt(f),
            LogError::Locked(error) => error.fmt(f),
            LogError::Rot { path, position, missing: None, certain, detail } => write!(
                f,
                "redo log {} is damaged at byte {position}: {detail}. What {} durable there cannot be read, and nothing was \
                 changed",
                path.display(),
                if *certain { "was" } else { "may have been" }
            ),
            LogError::Rot { path, position, missing: Some(missing), detail, .. } => {
                write!(f, "redo log segment {} is missing: {detail}.", missing.display())?;
                if path != missing {
                    write!(f, " What can be read ends at byte {position} of {}.", path.display())?;
                }
                f.write_str(" Nothing was changed")
            }
            LogError::NoRoomToKeep { folder, needed, free } => write!(
                f,
                "what is to be cut from the redo log cannot be kept in {}: that takes {needed} bytes, and {free} are free. Nothing \
                 was changed. Free disk space, then run the command again",
                folder.display()
            ),
            LogError::ForeignSegment { path, found, expected } => write!(
                f,
                "{} of the redo log belongs to database {found}, not to {expected}: restore the right file",
                path.display()
            ),
            LogError::Misnamed { path, found } => {
                write!(f, "redo log segment {} says that it is segment {found}: restore its name", path.display())
            }
            LogError::Version { path, found } => write!(
                f,
                "redo log segment {} has format version {found}, which this release does not read: use the release that wrote it",
                path.display()
            ),
            LogError::Options(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LogError::Disk(error) => Some(error),
            LogError::Locked(error) => Some(error),
            _ => None,
        }
    }
}

/// Opening failed in the log itself, or in the visitor that was given a payload.
#[derive(Debug)]
pub enum OpenError<E> {
    Log(LogError),
    Replay { path: PathBuf, position: u64, error: E },
}

impl<E> From<LogError> for OpenError<E> {
    fn from(error: LogError) -> Self {
        OpenError::Log(error)
    }
}

impl<E> From<DiskError> for OpenError<E> {
    fn from(error: DiskError) -> Self {
        OpenError::Log(LogError::Disk(error))
    }
}

impl<E: fmt::Display> fmt::Display for OpenError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Log(error) => error.fmt(f),
            OpenError::Replay { path, position, error } => {
                write!(f, "cannot replay the block at byte {position} of {}: {error}", path.display())
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for OpenError<E> {}

/// The log stopped for good: the text says which file and why, and what to do. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFailed(Arc<str>);

impl LogFailed {
    pub(crate) fn from_disk(error: &DiskError, durability: Durability) -> Self {
        let remedy = if error.is_out_of_space() { "free disk space" } else { "repair the disk" };
        let safe = match durability {
            Durability::Sync => "acknowledged transactions are safe".to_owned(),
            Durability::Interval(time) => {
                format!("transactions acknowledged more than {} ms before are safe", time.as_millis())
            }
            Durability::None => "with durability none, recently acknowledged transactions may be lost".to_owned(),
            Durability::Memory => {
                "with durability memory, transactions acknowledged since the newest snapshot are lost".to_owned()
            }
        };
        LogFailed(
            format!("redo log: {error}. It accepts no more writes; {safe}. To continue: {remedy}, then restart").into(),
        )
    }

    /// A restart would not find what is written on.
    pub(crate) fn out_of_place(file: &Path) -> Self {
        LogFailed(
            format!(
                "redo log: {} was removed, moved or replaced while the server uses it. It accepts no more writes; what was \
                 acknowledged before is in the files that were there. To continue: put them back, then restart",
                file.display()
            )
            .into(),
        )
    }

    pub(crate) fn closed() -> Self {
        LogFailed("redo log: it has been closed".into())
    }

    pub(crate) fn thread_ended() -> Self {
        LogFailed(
            "redo log: its thread ended unexpectedly; acknowledged transactions are safe. To continue: restart".into(),
        )
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// For a caller whose transaction was executed, but is not known to be durable.
    pub fn outcome_unknown(&self) -> UserError {
        UserError::new(ErrorKind::OutcomeUnknown, "08007", self.0.to_string())
            .with_hint("after the restart, look whether the transaction took place before calling again")
    }

    /// For a caller whose transaction was not begun.
    pub fn unavailable(&self) -> UserError {
        UserError::new(ErrorKind::Unavailable, "58030", self.0.to_string())
    }
}

impl fmt::Display for LogFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LogFailed {}
