//! Replay of the log in one pass: each record goes to the group that it is of.
//!
//! A node has one log and several groups. The log is read from where the first of them needs it;
//! each group begins where its own snapshot was taken (`replay/group.rs`). Records of groups that
//! are not hosted are passed over: the node had them once.
//!
//! The thread that reads the log judges every record (`judge.rs`) and keeps the order: sequence
//! numbers, schema changes, checkpoints. Row changes go to workers, each of which has some
//! partitions' stores (`replay/stores.rs`). A schema change waits for all workers of its group and
//! takes the stores back for its length. Without workers everything is done in place.

mod group;
mod stores;

pub(crate) use group::{GroupReplay, Missing, State};

use crate::judge::ReplayError;
use crate::progress::ProgressReporter;
use crate::record::{self, Genesis, Record};
use crate::start_error::StartError;
use ferrite_base::{GroupId, GroupMap, NodeId, limits};
use ferrite_group::FIRST_GROUP;
use ferrite_log::{BlockPlace, Visitor};
use ferrite_replica::group::Mark;

pub(crate) struct Replay {
    /// Those that are hosted, ascending.
    pub groups: Vec<GroupReplay>,
    /// Of what this node keeps alone, all that is in the log is committed.
    pub here: NodeId,
    /// The log may end before a snapshot.
    pub accept_loss: bool,
    /// Threads of each group for row changes; none: they are made in place.
    pub threads: usize,
    /// Which partitions each group of the database has, once it is known.
    map: Option<GroupMap>,
    /// The log's first record was read.
    is_founded: bool,
}

impl Visitor<StartError> for Replay {
    fn payload(&mut self, place: BlockPlace<'_>, payload: &[u8]) -> Result<(), StartError> {
        let mut rest = payload;
        let result = loop {
            match record::next_record(&mut rest) {
                Ok(None) => break Ok(()),
                Ok(Some(record)) => {
                    if let Err(error) = self.record(place, record) {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error.into()),
            }
        };
        // What a worker met comes before this in the log.
        if result.is_err() {
            self.groups.iter_mut().filter_map(|group| group.state.as_mut()).try_for_each(State::settle)?;
        }
        result
    }

    fn end(&mut self) -> Result<(), StartError> {
        self.groups.iter_mut().try_for_each(|group| group.end(self.accept_loss))?;
        let is_missing = |group: &GroupReplay| group.state.is_none();
        if self.map.is_some() && self.groups.iter().any(is_missing) {
            return Err(
                ReplayError::malformed("a group of this node has no snapshot, and the log does not begin").into()
            );
        }
        Ok(())
    }
}

/// A replay that tells how far it is.
pub(crate) struct ObservedReplay<'p> {
    pub replay: &'p mut Replay,
    pub progress: &'p ProgressReporter<'p>,
}

impl Visitor<StartError> for ObservedReplay<'_> {
    fn payload(&mut self, place: BlockPlace<'_>, payload: &[u8]) -> Result<(), StartError> {
        self.replay.payload(place, payload)?;
        self.progress.add(payload.len() as u64, 0);
        Ok(())
    }

    fn end(&mut self) -> Result<(), StartError> {
        self.replay.end()
    }
}

impl Replay {
    /// `hosted`: ascending, at least one.
    pub fn new(hosted: impl IntoIterator<Item = GroupId>, here: NodeId, threads: usize, accept_loss: bool) -> Replay {
        let groups: Vec<GroupReplay> = hosted.into_iter().map(GroupReplay::new).collect();
        assert!(!groups.is_empty() && groups.is_sorted_by_key(|group| group.id), "a node hosts groups");
        Replay { groups, here, accept_loss, threads, map: None, is_founded: false }
    }

    /// Every group of the database is hosted, as far as the database is known.
    pub fn hosts_all(&self) -> bool {
        self.map.as_ref().is_none_or(|map| map.groups() as usize == self.groups.len())
    }

    pub fn hosted(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.groups.iter().map(|group| group.id)
    }

    /// The next record goes to its group.
    fn record(&mut self, place: BlockPlace<'_>, record: Record<'_>) -> Result<(), StartError> {
        let of = match record {
            Record::Genesis(genesis) => return self.genesis(genesis),
            Record::Entry(ref entry) => entry.group,
            Record::Checkpoint { ref groups, .. }
            | Record::CopyCheckpoint { ref groups, .. }
            | Record::Installed { ref groups, .. } => group_of(groups)?,
            // Written before there were entries.
            _ => FIRST_GROUP,
        };
        if let Some(group) = self.groups.iter_mut().find(|group| group.id == of) {
            return group.record(place, record);
        }
        match &self.map {
            None => Err(ReplayError::malformed("the first record does not say what database this is").into()),
            Some(map) if of.0 < map.groups() => Ok(()),
            Some(_) => Err(ReplayError::malformed("a record is of a group that there is not").into()),
        }
    }

    /// What the log's first record says. Where a group's snapshot is read, that says it too.
    pub fn genesis(&mut self, genesis: Genesis) -> Result<(), StartError> {
        if self.is_founded || self.groups.iter().all(|group| group.state.is_some()) {
            return Err(ReplayError::malformed("a second record says what database this is").into());
        }
        if genesis.partitions() == 0 || genesis.partitions() as usize > limits::PARTITIONS_MAX {
            return Err(ReplayError::malformed("the number of partitions is out of range").into());
        }
        self.is_founded = true;
        self.is_of(&genesis.groups)?;
        if !self.groups.iter_mut().all(|group| group.found(&genesis, self.here, self.threads)) {
            return Err(ReplayError::malformed("this node hosts a group that the database does not have").into());
        }
        Ok(())
    }

    /// A snapshot or the log's first record says which partitions the groups have: all say the
    /// same.
    pub fn is_of(&mut self, map: &GroupMap) -> Result<(), StartError> {
        if *self.map.get_or_insert_with(|| map.clone()) != *map {
            return Err(ReplayError::malformed("snapshots and log are of databases with other groups").into());
        }
        Ok(())
    }
}

/// The group that a record of the node's own is about. None is named before there were entries, and
/// where the state of the first group continues.
fn group_of(groups: &[(GroupId, Mark)]) -> Result<GroupId, StartError> {
    match groups {
        [] => Ok(FIRST_GROUP),
        [(group, _)] => Ok(*group),
        _ => Err(ReplayError::malformed("a record of the node's own is about several groups").into()),
    }
}
