//! 17. What a node's snapshots need is still in its log, and they are as few as they should be.

use ferrite_base::{NodeId, Position, limits};
use ferrite_partition::snapshots::Kept;

/// One that another node gets, and one that another has got and perhaps not read yet.
const HELD_FOR_OTHERS: usize = 2;

/// What a node has on its disk, at rest.
pub struct OnDisk<'k> {
    pub node: NodeId,
    pub kept: &'k [Kept],
    /// Numbers of the log's segments, ascending.
    pub segments: Vec<u64>,
    /// The last entry that its newest snapshot shows.
    pub shows: Option<Position>,
    pub commit: Position,
}

pub fn check(of: &OnDisk<'_>) -> Result<(), String> {
    let OnDisk { node, kept, segments, shows, commit } = of;
    if shows.is_some_and(|shows| shows > *commit) {
        return Err(format!("node {node} has a snapshot up to {shows:?}, and {commit} is committed"));
    }
    if kept.len() > limits::SNAPSHOTS_KEPT + HELD_FOR_OTHERS {
        return Err(format!("node {node} keeps {kept:?}"));
    }
    let first = segments.first().copied().unwrap_or(u64::MAX);
    let there = segments.last().map_or(0, |last| last + 1 - first) == segments.len() as u64;
    let needed = kept.iter().map(|kept| kept.log_segment).min().unwrap_or(1);
    if !there || first > needed {
        return Err(format!("node {node} needs its log from segment {needed} on for {kept:?}, and has {segments:?}"));
    }
    Ok(())
}
