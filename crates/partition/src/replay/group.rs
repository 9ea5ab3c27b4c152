//! What a replay makes of one group: its state, as far as the log has been read.
//!
//! Invariant: nothing of another group changes it, and nothing in the log before the place that its
//! snapshot names.

use super::stores::{Changes, Stores};
use crate::judge::{Change, Judge, ReplayError};
use crate::record::{self, Genesis, Part, Record};
use crate::schema::{self, Planned, SchemaHistory};
use crate::start_error::StartError;
use ferrite_base::{GroupId, GroupPartitions, NodeId, Sequence};
use ferrite_catalog::Catalog;
use ferrite_group::Entry;
use ferrite_log::BlockPlace;
use ferrite_replica::group::Mark;
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use std::sync::Arc;

/// A group's data as they are while the log is replayed.
pub(crate) struct State {
    pub genesis: Genesis,
    pub of: GroupPartitions,
    pub judge: Judge,
    stores: Stores,
}

/// A place in the log: segment, and position in its file.
pub(crate) type LogSpot = (u64, u64);

pub(crate) struct GroupReplay {
    pub id: GroupId,
    pub state: Option<State>,
    /// Where the log has the record of the snapshot that the state was loaded from. What is before
    /// is in the snapshot. None: it was read, or there is no snapshot.
    base: Option<LogSpot>,
    /// The snapshot that the state was loaded from: what the log has of the group must begin with
    /// its checkpoint record. At the end: it has not come to what that shows, and loss is accepted.
    pub begins_with: Option<u64>,
    /// The number of that snapshot.
    pub loaded: u64,
    /// The highest number of a checkpoint record.
    pub last_checkpoint: u64,
    /// Its record stands in the place of the log before it: no log leads to it.
    pub begins_without_log: bool,
    /// Snapshots that were to take the place of what was read, another node's or one of a run
    /// without redo, and that are not what was loaded. What follows of the group is not read.
    pub superseded: Vec<u64>,
    /// The last of them was taken where this log had come to: it is of a run without redo.
    superseded_is_own: bool,
    /// The first of them that entries follow.
    pub missing: Option<Missing>,
}

/// A snapshot that took the place of the log before it, and is not there though entries follow its
/// record.
#[derive(Clone, Copy)]
pub(crate) struct Missing {
    pub snapshot: u64,
    /// It is of a run without redo, so it was complete before the first of these entries. A copy
    /// may get entries while another node's snapshot is being taken in.
    pub is_own: bool,
}

impl GroupReplay {
    pub fn new(id: GroupId) -> GroupReplay {
        GroupReplay {
            id,
            state: None,
            base: None,
            begins_with: None,
            loaded: 0,
            last_checkpoint: 0,
            begins_without_log: false,
            superseded: Vec::new(),
            superseded_is_own: false,
            missing: None,
        }
    }

    /// How many there are, once that is known.
    pub fn partitions(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.of.len())
    }

    /// The log was not read to the record of its snapshot.
    pub fn is_before_base(&self) -> bool {
        self.base.is_some()
    }

    /// Nothing was ever done in this group.
    pub fn is_empty(&self) -> bool {
        self.state.as_ref().is_none_or(|state| {
            let Judge { sequences, catalog, .. } = &state.judge;
            catalog.version.0 == 0 && sequences.iter().all(|sequence| sequence.0 == 0)
        })
    }

    /// Continues after a snapshot, whose record is at `base` in the log.
    pub fn load(&mut self, snapshot: u64, base: LogSpot, state: State) {
        assert!(self.state.is_none(), "a group begins once");
        assert_eq!(state.of.group(), self.id, "a group begins with a snapshot of its own");
        self.state = Some(state);
        self.base = Some(base);
        self.begins_with = Some(snapshot);
        self.loaded = snapshot;
    }

    /// Begins with nothing, as the record of founding says, unless a snapshot was loaded. False:
    /// the database has no such group.
    pub fn found(&mut self, genesis: &Genesis, here: NodeId, threads: usize) -> bool {
        let Some(of) = genesis.groups.partitions_of(self.id) else { return false };
        if self.state.is_none() {
            let ring = Arc::new(Ring::new_default(genesis.partitions()));
            let stores = of.ids().map(|id| Store::new(id, Arc::clone(&ring))).collect();
            let sequences = vec![Sequence(0); of.len()];
            let catalog = Arc::new(Catalog::before_history());
            let judge = Judge::new(here, of.clone(), None, sequences, catalog, SchemaHistory::default());
            self.state = Some(State::new(genesis.clone(), of, stores, judge, threads));
        }
        true
    }

    /// A record of this group, or of the node about it.
    pub fn record(&mut self, block: BlockPlace<'_>, record: Record<'_>) -> Result<(), StartError> {
        if let Some(base) = self.base {
            let spot = (block.segment, block.position);
            if spot < base {
                return Ok(());
            }
            self.base = None;
        }
        let begins = self.begins_with.take();
        if let Some(snapshot) = begins {
            match record {
                Record::Checkpoint { snapshot: found, .. }
                | Record::CopyCheckpoint { snapshot: found, .. }
                | Record::Installed { snapshot: found, .. }
                    if found == snapshot => {}
                _ => return Err(StartError::Checkpoint { snapshot }),
            }
            self.begins_without_log = matches!(record, Record::Installed { .. });
        }
        match &record {
            Record::Installed { snapshot: 0, catalog_version: first, .. } => {
                return self.resume(*first);
            }
            Record::Installed { snapshot, groups, .. } if begins.is_none() => {
                self.supersede(*snapshot, groups);
                return Ok(());
            }
            _ => {}
        }
        if let Some(snapshot) = self.superseded.last().copied() {
            if matches!(record, Record::Entry(_)) {
                self.missing.get_or_insert(Missing { snapshot, is_own: self.superseded_is_own });
            }
            return Ok(());
        }
        let Some(state) = &mut self.state else {
            return Err(ReplayError::malformed("the first record does not say what database this is").into());
        };
        match record {
            Record::Entry(entry) => return state.entry(block, &entry),
            Record::Checkpoint { snapshot, catalog_version, places, groups }
            | Record::Installed { snapshot, catalog_version, places, groups } => {
                state.judge.checkpoint(catalog_version, &places, &groups)?;
                self.last_checkpoint = self.last_checkpoint.max(snapshot);
            }
            Record::CopyCheckpoint { snapshot, groups } => {
                state.judge.copy_checkpoint(&groups, begins.is_some())?;
                self.last_checkpoint = self.last_checkpoint.max(snapshot);
            }
            _ if state.judge.stream.is_some() => {
                return Err(ReplayError::malformed("a record stands outside of its group's stream").into());
            }
            change => state.change(block, change)?,
        }
        Ok(())
    }

    /// The log ends here. `accept_loss`: it may end before what the snapshot shows.
    pub fn end(&mut self, accept_loss: bool) -> Result<(), StartError> {
        if let Some(snapshot) = self.begins_with.filter(|_| !accept_loss) {
            return Err(StartError::Checkpoint { snapshot });
        }
        let Some(state) = &mut self.state else { return Ok(()) };
        if !state.judge.reaches_base() {
            if !accept_loss {
                return Err(StartError::Behind { snapshot: self.loaded });
            }
            self.begins_with = Some(self.loaded);
        }
        state.settle()
    }

    /// The state from before the snapshot of this number continues. What superseded that state
    /// still does: it was there when the record was written. Records of earlier releases name none.
    ///
    /// What follows in the log belongs to the state before that snapshot. Where this start began
    /// with it, or with a later one that did not count either, its files have come back since.
    fn resume(&mut self, first: u64) -> Result<(), StartError> {
        if first > 0 && self.loaded >= first {
            return Err(StartError::CameBack { snapshot: self.loaded });
        }
        self.superseded.retain(|snapshot| *snapshot < first);
        self.missing = self.missing.filter(|missing| missing.snapshot < first);
        Ok(())
    }

    /// `groups`: where the snapshot says that the stream stands. Without redo it stands still;
    /// another node's snapshot is taken in by a copy whose log does not lead there.
    fn supersede(&mut self, snapshot: u64, groups: &[(GroupId, Mark)]) {
        self.last_checkpoint = self.last_checkpoint.max(snapshot);
        self.superseded.push(snapshot);
        self.superseded_is_own = self.state.as_ref().is_some_and(|state| state.judge.stands_at(groups));
    }
}

impl State {
    pub fn new(genesis: Genesis, of: GroupPartitions, stores: Vec<Store>, judge: Judge, threads: usize) -> State {
        assert!(stores.iter().map(Store::partition).eq(of.ids()), "a group has the stores of its partitions");
        State { genesis, of, judge, stores: Stores::spread(stores, threads) }
    }

    /// The next entry of the group, and those that it shows to be committed.
    fn entry(&mut self, block: BlockPlace<'_>, entry: &Entry<'_>) -> Result<(), StartError> {
        let verdict = self.judge.entry(entry)?;
        for records in &verdict.earlier {
            self.records(block, records)?;
        }
        if verdict.now { self.records(block, entry.body) } else { Ok(()) }
    }

    /// The records of one entry.
    fn records(&mut self, block: BlockPlace<'_>, mut records: &[u8]) -> Result<(), StartError> {
        while let Some(record) = record::next_record(&mut records)? {
            self.change(block, record)?;
        }
        Ok(())
    }

    /// A record that changes the database.
    fn change(&mut self, block: BlockPlace<'_>, record: Record<'_>) -> Result<(), StartError> {
        match self.judge.record(record)? {
            Change::Batch { partition, first, count, transactions } => {
                let store = self.judge.place(partition);
                self.stores.make(block, Changes { store, partition, first, count: Some(count), bytes: transactions })
            }
            Change::Multi(parts) => parts.into_iter().try_for_each(|part| {
                let Part { partition, sequence: first, changes: bytes, .. } = part;
                let store = self.judge.place(partition);
                self.stores.make(block, Changes { store, partition, first, count: None, bytes })
            }),
            Change::ContentMark | Change::ContentHashes(_) | Change::Lot | Change::Foreseen(_) => Ok(()),
            Change::Committed(redo) => self.records(block, &redo),
            Change::Schema { planned, time } => self.schema(&planned, time),
        }
    }

    fn schema(&mut self, planned: &Planned, time: i64) -> Result<(), StartError> {
        let threads = self.stores.threads();
        let mut stores = self.stores.finish()?;
        let applied = schema::apply(&mut stores, planned, time);
        self.stores = Stores::spread(stores, threads);
        let version = planned.catalog.version.0;
        applied.map_err(|error| ReplayError::Schema { version, error }.into())
    }

    /// Waits until all changes so far are made.
    pub fn settle(&mut self) -> Result<(), StartError> {
        let threads = self.stores.threads();
        if threads > 0 {
            self.stores = Stores::spread(self.stores.finish()?, threads);
        }
        Ok(())
    }

    /// The stores, when all changes are made.
    pub fn take_stores(&mut self) -> Result<Vec<Store>, StartError> {
        self.stores.finish()
    }
}
