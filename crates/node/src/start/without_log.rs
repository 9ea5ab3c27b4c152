//! What a server with durability memory has in the place of the log.

use crate::last_snapshot::LastSnapshot;
use crate::message::SnapshotJob;
use crate::options::ServerError;
use crate::snapshots::SnapshotsOnly;
use crossbeam_channel::{SendError, Sender};
use ferrite_group::FIRST_GROUP;
use ferrite_io::Disk;
use ferrite_partition::coordinator::{Save, WithoutLog};
use ferrite_partition::recovery::{RecoveredNode, StartError};
use ferrite_partition::snapshots::Saved;
use ferrite_partition::unlogged::{self, Unlogged};
use ferrite_snapshot::SnapshotError;
use std::path::Path;
use std::sync::Arc;

pub(super) fn instead_of_log(recovered: &RecoveredNode, snapshots: Sender<SnapshotJob>) -> Option<WithoutLog> {
    let unlogged = recovered.unlogged.as_ref().map(Arc::clone)?;
    Some(WithoutLog { unlogged, save: save_by(snapshots) })
}

/// How the coordinator has snapshots written.
fn save_by(snapshots: Sender<SnapshotJob>) -> Save {
    Box::new(move |told| {
        let told = Box::new(move |outcome: Result<&Saved, &str>| told(outcome.map(drop)));
        // Without a log there is one group.
        if let Err(SendError(SnapshotJob::Save(_, told))) = snapshots.send(SnapshotJob::Save(FIRST_GROUP, told)) {
            told(Err("the server stops"));
        }
    })
}

/// Whether the end of the server needs a snapshot. If not, the log has everything from now on, and
/// recovery has found what a run without it has lost.
pub(super) fn last_snapshot(
    recovered: &RecoveredNode,
    disk: &dyn Disk,
    dir: &Path,
) -> Result<LastSnapshot, ServerError> {
    if recovered.unlogged.is_some() {
        return Ok(LastSnapshot::wanted());
    }
    let failed = |error| ServerError::Start(StartError::Snapshot(SnapshotError::Disk(error)));
    unlogged::end_run(disk, dir).map_err(failed)?;
    Ok(LastSnapshot::default())
}

pub(super) fn snapshots_only(unlogged: Arc<Unlogged>, last: &Arc<LastSnapshot>, dir: &Path) -> SnapshotsOnly {
    SnapshotsOnly { unlogged, last: Arc::clone(last), dir: dir.to_path_buf() }
}
