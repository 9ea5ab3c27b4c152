//! How an operator gives up what cannot be read in a directory that nobody runs.
//!
//! Promises that a node of a cluster which lacks something afterwards does not count as a complete
//! copy: it leads only where an operator says so again.

use crate::cluster::directory;
use crate::options::ServerError;
use ferrite_io::{Clock, Disk};
use ferrite_partition::ProgressListener;
use ferrite_partition::loss;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// [`loss::accept_loss`], for any directory.
pub fn accept_loss(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: &Path,
    report: &ProgressListener,
) -> Result<Option<(PathBuf, String)>, ServerError> {
    let is_of_cluster = directory::cluster_of(&*disk, dir)?.is_some();
    let is_incomplete = || directory::is_incomplete(&*disk, dir);
    let of_cluster: Option<&dyn Fn() -> _> = if is_of_cluster { Some(&is_incomplete) } else { None };
    let outcome = loss::accept_loss(Arc::clone(&disk), clock, dir, of_cluster, report).map_err(ServerError::Start)?;
    Ok(outcome.map(|(note, text)| match is_of_cluster {
        true => (note, format!("{text}{OF_CLUSTER}")),
        false => (note, text),
    }))
}

const OF_CLUSTER: &str = "This copy is not complete any more. When the node is started, it gets everything from the leader. \
                          Where nobody leads, since all complete copies are lost for good, it leads by the word of an \
                          operator: ferrite admin recover --accept-loss --node N.\n";
