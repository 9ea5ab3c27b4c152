//! Why a database does not start.

use crate::damage::LogDamage;
use crate::judge::ReplayError;
use crate::record::RecordError;
use ferrite_base::UserError;
use ferrite_group::{IdentityError, NotCommitted};
use ferrite_log::{LogError, LogFailed};
use ferrite_snapshot::SnapshotError;
use std::fmt;
use std::path::PathBuf;

#[derive(Debug)]
pub enum StartError {
    Log(LogError),
    /// The first record of a new database could not be written.
    LogFailed(LogFailed),
    /// What could not be replayed, and where it is.
    Replay {
        path: PathBuf,
        position: u64,
        reason: Box<StartError>,
    },
    /// A record that cannot be made part of the database.
    Record(ReplayError),
    Partitions {
        asked: u32,
        stored: u32,
    },
    /// The database's partitions are in other groups than was asked for.
    Groups {
        asked: u32,
        stored: u32,
    },
    Compile(UserError),
    /// Acknowledged transactions cannot be read from the log.
    Rot(Box<LogDamage>),
    /// A snapshot or the directory of snapshots cannot be used, and nothing older replaces it.
    Snapshot(SnapshotError),
    NoDatabase(PathBuf),
    /// The database's first block is lost, and with it what all others build on.
    NothingLeft(Box<LogDamage>),
    /// The log does not continue where the snapshot says.
    Checkpoint {
        snapshot: u64,
    },
    /// The log ends before the last entry that the snapshot shows.
    Behind {
        snapshot: u64,
    },
    /// What this node has began with another node's snapshot, or with one of a run without redo,
    /// which cannot be read.
    Installed {
        snapshot: u64,
    },
    /// Of a server without a cluster: a snapshot took the place of the log before it, as with
    /// durability memory, and is damaged or missing.
    NoRedoBefore {
        snapshot: u64,
    },
    /// An earlier start went back behind this snapshot, and wrote to the log after that; the
    /// snapshot's files have been put back since.
    CameBack {
        snapshot: u64,
    },
    /// It is not known which node this is.
    Identity(IdentityError),
    /// The log has a stream that several nodes keep, and nothing says which one this is.
    NoIdentity,
    /// The log ends with entries of which only the group's other members know whether they count.
    Uncommitted {
        entries: usize,
    },
}

impl From<NotCommitted> for StartError {
    fn from(reason: NotCommitted) -> StartError {
        match reason {
            NotCommitted::Log(failure) => StartError::LogFailed(failure),
            NotCommitted::Deposed => unreachable!("a node that starts leads nobody who could depose it"),
        }
    }
}

const ANEW: &str = "Where other nodes of its cluster have everything, write the word anew into the file unsynced in the node's \
                    directory and start the node again: it puts its data aside and gets everything from the leader";

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Log(error) => error.fmt(f),
            StartError::LogFailed(failure) => failure.fmt(f),
            StartError::Replay { path, position, reason } => {
                write!(f, "block at byte {position} of {}: {reason}", path.display())
            }
            StartError::Record(error) => write!(f, "the redo log cannot be replayed: {error}"),
            StartError::Partitions { asked, stored } => write!(
                f,
                "this data directory was created with {stored} partitions and cannot be opened with {asked}: leave out \
                 --partitions, or name another directory"
            ),
            StartError::Groups { asked, stored } => write!(
                f,
                "this data directory was created for a cluster whose partitions are in {stored} groups, and this one has {asked}, \
                 or has them in other groups: name another directory"
            ),
            StartError::Compile(error) => write!(f, "a stored procedure does not fit the recovered schema: {error}"),
            StartError::Rot(damage) => damage.fmt(f),
            StartError::NoDatabase(dir) => write!(
                f,
                "{} contains no redo log, so no database. Pass the directory that ferrite server uses as --dir",
                dir.display()
            ),
            StartError::NothingLeft(damage) => write!(
                f,
                "{}. The database begins there, and there is no snapshot, so nothing would be left: nothing was changed. Restore the \
                 directory from a copy; or make a new database in another one, and bring a backup in with ferrite admin restore",
                damage.place()
            ),
            StartError::Snapshot(error) => error.fmt(f),
            StartError::Checkpoint { snapshot } => write!(
                f,
                "the redo log does not have the checkpoint of snapshot {snapshot} where the snapshot says that it continues: the files \
                 do not belong together. Restore both from the same copy"
            ),
            StartError::Behind { snapshot } => write!(
                f,
                "the redo log ends before the last entry that snapshot {snapshot} shows: the files do not belong together. Restore \
                 both from the same copy. {ANEW}"
            ),
            StartError::Installed { snapshot } => write!(
                f,
                "snapshot {snapshot}, with which this node's data begins, cannot be read, and the log before it does not \
                 lead to it. {ANEW}"
            ),
            StartError::NoRedoBefore { snapshot } => write!(
                f,
                "snapshot {snapshot}, which takes the place of the redo log before it, is damaged or missing, so what came after the \
                 snapshot before it is lost. Restore its files from a copy of the directory, or go back to that older state with \
                 ferrite admin recover --accept-loss"
            ),
            StartError::CameBack { snapshot } => write!(
                f,
                "an earlier start went back to the state before snapshot {snapshot}, and the log continues from there, but the files \
                 of that snapshot are here again: nothing was changed. Move snapshot-{snapshot:010}* out of the folder snapshots"
            ),
            StartError::Identity(error) => error.fmt(f),
            StartError::NoIdentity => f.write_str(
                "the file node is missing, which says which node of its cluster this directory belongs to. Restore it from a \
                 copy of the directory",
            ),
            StartError::Uncommitted { entries } => write!(
                f,
                "the redo log ends with {entries} entries that may not be committed: only the other nodes of its cluster know. \
                 Start it with them"
            ),
        }
    }
}

impl std::error::Error for StartError {}

impl From<ReplayError> for StartError {
    fn from(error: ReplayError) -> StartError {
        StartError::Record(error)
    }
}

impl From<RecordError> for StartError {
    fn from(error: RecordError) -> StartError {
        StartError::Record(error.into())
    }
}
