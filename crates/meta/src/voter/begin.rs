//! A node's vote at a start: the one that its directory has, or a new one.
//!
//! A vote that is gone, damaged or was taken away is never guessed at: what it has promised is
//! lost, so it counts for nothing from then on, and the node gets another with a higher number. The
//! voters' leader takes the old one away and gives the new one (`controller/nodes.rs`). The node's
//! data does not depend on it.

use super::kept::NAMES;
use super::{Voter, VoterError};
use crate::state::State;
use ferrite_base::NodeId;
use ferrite_io::{Disk, Random};
use std::path::Path;
use std::sync::Arc;

/// What a node knows when it opens its vote.
pub struct Known<'a> {
    /// Of the metadata, as of any time.
    pub state: &'a State,
    /// This directory has done nothing for the cluster yet.
    pub is_new: bool,
    /// For a new vote: higher than that of any that this node was given.
    pub number: u32,
}

/// What was found where the vote was.
#[derive(Debug)]
pub enum Before {
    /// It continues, or is the first.
    Sound,
    /// There was one, and its files are gone.
    Gone,
    Unusable(VoterError),
    /// It was taken away while this node did not run.
    Taken,
}

/// The vote of this process, durable when this returns.
///
/// # Errors
/// The disk fails, or a later release has written the vote.
pub fn open_or_begin(
    here: NodeId,
    disk: &Arc<dyn Disk>,
    dir: &Path,
    random: impl Fn() -> Box<dyn Random>,
    known: &Known<'_>,
) -> Result<(Voter, Before), VoterError> {
    let before = match Voter::open(here, Arc::clone(disk), dir, random()) {
        Ok(Some(voter)) if is_taken(&voter, here, known.state) => Before::Taken,
        Ok(Some(voter)) => return Ok((voter, Before::Sound)),
        Ok(None) => {
            let votes = known.state.voters().contains(&here);
            if votes && known.is_new && known.state.vote(here) == Some(0) {
                let voter = Voter::found(here, Arc::clone(disk), dir, random(), known.state)?;
                return Ok((voter, Before::Sound));
            }
            if votes { Before::Gone } else { Before::Sound }
        }
        Err(error @ (VoterError::Damaged(_) | VoterError::Lost)) => Before::Unusable(error),
        Err(error) => return Err(error),
    };
    put_aside(&**disk, dir)?;
    let voter = Voter::join(here, Arc::clone(disk), dir, random(), known.number)?;
    Ok((voter, before))
}

/// Other votes of this node are known, or that this one was taken away.
fn is_taken(voter: &Voter, here: NodeId, known: &State) -> bool {
    let says = |state: &State| {
        let last = state.vote(here);
        last > Some(voter.number()) || (last == Some(voter.number()) && !state.voters().contains(&here))
    };
    says(known) || says(voter.state().1)
}

/// What is left of a vote that no longer counts.
///
/// # Errors
/// The disk fails.
pub fn put_aside(disk: &dyn Disk, dir: &Path) -> Result<(), VoterError> {
    let there = disk.list(dir)?;
    for name in NAMES.iter().filter(|name| there.iter().any(|other| other == *name)) {
        disk.rename(&dir.join(name), &dir.join(format!("{name}.aside")))?;
    }
    disk.sync_dir(dir)?;
    Ok(())
}
