//! A single node's database, with which a cluster begins (docs/decisions/0056-founding.md).
//!
//! Promises that what is declared of it is durable, and that from then on only the cluster adds to
//! it.

use crate::directory;
use crate::error::MemberError;
use ferrite_base::Incarnation;
use ferrite_group::Identity;
use ferrite_io::{Clock, Disk, SystemRandom};
use ferrite_meta::founding::Database;
use ferrite_notice::Notice;
use ferrite_partition::recovery::{self, Options, Recovered, StartError};
use ferrite_partition::snapshots;
use ferrite_snapshot::Files;
use std::path::Path;
use std::sync::Arc;

/// What a node says of its database when it declares itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BegunAlone {
    pub database: Database,
    pub partitions: u32,
    /// The incarnation of the last process that has run it.
    pub incarnation: Incarnation,
}

/// Whether the directory has a database, or may have one.
pub fn is_there(disk: &dyn Disk, dir: &Path) -> bool {
    // An unreadable directory does not count as empty.
    let known = Identity::read(disk, dir).map_or(true, |known| known.is_some());
    known || ferrite_log::count_segments(disk, dir, 0).map_or(true, |(_, segments)| segments > 0)
}

/// Whether the directory has a database, or a part of one, or is a cluster's node's. Of one that
/// cannot be read, a start finds that out.
pub fn has_database(disk: &Arc<dyn Disk>, dir: &Path) -> bool {
    if matches!(dir.try_exists(), Ok(false)) {
        return false;
    }
    let is_declared = || directory::founding(&**disk, dir).map_or(true, |founding| founding.is_some());
    let files = Files::new(Arc::clone(disk), &dir.join(snapshots::DIRECTORY));
    let has_snapshots = || files.find().is_ok_and(|found| !found.snapshots.is_empty());
    is_there(&**disk, dir) || is_declared() || has_snapshots()
}

/// Recovers it, as a single server's start does, and closes it in good order. This gives a database
/// of an earlier release its first epoch.
pub fn examine_database(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: &Path,
    options: Options<'_>,
) -> Result<BegunAlone, MemberError> {
    ferrite_io::notify(Notice::FoundsFromDatabase { dir: dir.to_path_buf() });
    let opened = recovery::open_with(disk, clock, &mut SystemRandom, dir, options).map_err(MemberError::Start)?;
    let Recovered { genesis, log, group, identity, .. } = opened.only_group();
    let database = Database { id: log.index().database().0, end: group.end() };
    log.close().map_err(|failure| MemberError::Start(StartError::LogFailed(failure)))?;
    Ok(BegunAlone { database, partitions: genesis.partitions(), incarnation: identity.incarnation })
}
