//! Replay of the log: its records applied to stores, partitions side by side.
//!
//! The thread that reads the log judges every record (`judge.rs`) and keeps the order: sequence
//! numbers, schema changes, checkpoints. Row changes go to workers, each of which has some
//! partitions' stores, so that each partition's changes are made in the log's order. A schema
//! change waits for all workers and takes the stores back for its length. Without workers
//! everything is done in place.

use crate::apply;
use crate::judge::{Change, Judge, ReplayError};
use crate::progress::ProgressReporter;
use crate::record::{self, Genesis, Record};
use crate::schema::{self, Planned, SchemaHistory};
use crate::start_error::StartError;
use crossbeam_channel::{Sender, bounded};
use ferrite_base::{GroupId, NodeId, PartitionId, Sequence, limits};
use ferrite_catalog::Catalog;
use ferrite_group::Entry;
use ferrite_log::{BlockPlace, Visitor};
use ferrite_replica::group::Mark;
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Row changes gathered for a worker before they are handed over.
const PARCEL_BYTES: usize = 256 * 1024;
/// Parcels that wait for a worker.
const PARCELS_MAX: usize = 8;

/// The database as it is while the log is replayed.
pub(crate) struct State {
    pub genesis: Genesis,
    pub judge: Judge,
    stores: Stores,
}

/// Where the stores are.
enum Stores {
    Here(Vec<Store>),
    Spread(Vec<Worker>),
}

#[derive(Default)]
pub(crate) struct Replay {
    pub state: Option<State>,
    /// Of what this node keeps alone, all that is in the log is committed.
    pub here: NodeId,
    /// The snapshot that the state was loaded from: the log must begin with its checkpoint record.
    /// At the end: it has not come to what that shows, and loss is accepted.
    pub begins_with: Option<u64>,
    /// The number of that snapshot.
    pub loaded: u64,
    /// The log may end before it.
    pub accept_loss: bool,
    /// Threads for row changes; none: they are made in place.
    pub threads: usize,
    /// The highest number of a checkpoint record.
    pub last_checkpoint: u64,
    /// Its record stands in the place of the log before it: no log leads to it.
    pub begins_without_log: bool,
    /// Snapshots that were to take the place of what was read, another node's or one of a run
    /// without redo, and that are not what was loaded. What follows is not read.
    pub superseded: Vec<u64>,
    /// The last of them was taken where this log had come to: it is of a run without redo.
    pub superseded_is_own: bool,
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
        if result.is_err()
            && let Some(state) = &mut self.state
        {
            state.settle()?;
        }
        result
    }

    fn end(&mut self) -> Result<(), StartError> {
        if let Some(snapshot) = self.begins_with.filter(|_| !self.accept_loss) {
            return Err(StartError::Checkpoint { snapshot });
        }
        let Some(state) = &mut self.state else { return Ok(()) };
        if !state.judge.reaches_base() {
            if !self.accept_loss {
                return Err(StartError::Behind { snapshot: self.loaded });
            }
            self.begins_with = Some(self.loaded);
        }
        state.settle()
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
    fn record(&mut self, place: BlockPlace<'_>, record: Record<'_>) -> Result<(), StartError> {
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
        if let Record::Genesis(genesis) = record {
            return self.genesis(genesis);
        }
        let Some(state) = &mut self.state else {
            return Err(ReplayError::malformed("the first record does not say what database this is").into());
        };
        match record {
            Record::Entry(entry) => return state.entry(place, &entry),
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
            change => state.change(place, change)?,
        }
        Ok(())
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

    /// `groups`: where the snapshot says that the streams stand. Without redo they stand still;
    /// another node's snapshot is taken in by a copy whose log does not lead there.
    fn supersede(&mut self, snapshot: u64, groups: &[(GroupId, Mark)]) {
        self.last_checkpoint = self.last_checkpoint.max(snapshot);
        self.superseded.push(snapshot);
        self.superseded_is_own = self.state.as_ref().is_some_and(|state| state.judge.stands_at(groups));
    }

    pub fn genesis(&mut self, genesis: Genesis) -> Result<(), StartError> {
        if self.state.is_some() {
            return Err(ReplayError::malformed("a second record says what database this is").into());
        }
        if genesis.partitions == 0 || genesis.partitions as usize > limits::PARTITIONS_MAX {
            return Err(ReplayError::malformed("the number of partitions is out of range").into());
        }
        let ring = Arc::new(Ring::new_default(genesis.partitions));
        let stores = (0..genesis.partitions).map(|id| Store::new(PartitionId(id), Arc::clone(&ring))).collect();
        let sequences = vec![Sequence(0); genesis.partitions as usize];
        let judge =
            Judge::new(self.here, None, sequences, Arc::new(Catalog::before_history()), SchemaHistory::default());
        self.begin(genesis, stores, judge);
        Ok(())
    }

    /// Continues from there.
    pub fn begin(&mut self, genesis: Genesis, stores: Vec<Store>, judge: Judge) {
        let stores = Stores::spread(stores, self.threads);
        self.state = Some(State { genesis, judge, stores });
    }
}

impl State {
    /// The next entry of a group, and those that it shows to be committed.
    fn entry(&mut self, place: BlockPlace<'_>, entry: &Entry<'_>) -> Result<(), StartError> {
        let verdict = self.judge.entry(entry)?;
        for records in &verdict.earlier {
            self.records(place, records)?;
        }
        if verdict.now { self.records(place, entry.body) } else { Ok(()) }
    }

    /// The records of one entry.
    fn records(&mut self, place: BlockPlace<'_>, mut records: &[u8]) -> Result<(), StartError> {
        while let Some(record) = record::next_record(&mut records)? {
            self.change(place, record)?;
        }
        Ok(())
    }

    /// A record that changes the database.
    fn change(&mut self, place: BlockPlace<'_>, record: Record<'_>) -> Result<(), StartError> {
        match self.judge.record(record)? {
            Change::Batch { partition, first, count, transactions } => {
                self.stores.batch(place, partition, first, count, transactions)
            }
            Change::Multi(parts) => {
                for part in parts {
                    self.stores.one(place, part.partition, part.sequence, part.changes)?;
                }
                Ok(())
            }
            Change::ContentMark | Change::ContentHashes(_) => Ok(()),
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
    fn settle(&mut self) -> Result<(), StartError> {
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

/// Changes on their way to a worker: what they are, and where in `bytes`.
#[derive(Default)]
struct Parcel {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

struct Item {
    partition: PartitionId,
    first: Sequence,
    /// None: the bytes are one transaction's changes.
    count: Option<u32>,
    end: usize,
    /// Where it is in the log, for an error to report: the segment's path, shared, and the
    /// position.
    path: Arc<PathBuf>,
    position: u64,
}

struct Worker {
    parcels: Option<Sender<Parcel>>,
    gathered: Parcel,
    path: Arc<PathBuf>,
    /// Ends with the stores, or with the first error.
    thread: Option<JoinHandle<Result<Vec<Store>, StartError>>>,
}

impl Stores {
    /// Deals the stores out to workers: partition p to worker p modulo their number.
    fn spread(stores: Vec<Store>, threads: usize) -> Stores {
        let threads = threads.min(stores.len());
        if threads == 0 {
            return Stores::Here(stores);
        }
        let mut hands: Vec<Vec<Store>> = (0..threads).map(|_| Vec::new()).collect();
        for (number, store) in stores.into_iter().enumerate() {
            hands[number % threads].push(store);
        }
        Stores::Spread(hands.into_iter().map(|stores| Worker::start(stores, threads)).collect())
    }

    fn threads(&self) -> usize {
        match self {
            Stores::Here(_) => 0,
            Stores::Spread(workers) => workers.len(),
        }
    }

    /// All stores, in the order of their partitions, with all changes made.
    fn finish(&mut self) -> Result<Vec<Store>, StartError> {
        match std::mem::replace(self, Stores::Here(Vec::new())) {
            Stores::Here(stores) => Ok(stores),
            Stores::Spread(workers) => {
                let mut all = Vec::new();
                for worker in workers {
                    all.extend(worker.finish()?);
                }
                all.sort_by_key(Store::partition);
                Ok(all)
            }
        }
    }

    fn batch(
        &mut self,
        place: BlockPlace<'_>,
        partition: PartitionId,
        first: Sequence,
        count: u32,
        transactions: &[u8],
    ) -> Result<(), StartError> {
        match self {
            Stores::Here(stores) => {
                Ok(apply::batch(&mut stores[partition.index()], partition, first, count, transactions)?)
            }
            Stores::Spread(workers) => {
                let number = partition.index() % workers.len();
                workers[number].give(place, partition, first, Some(count), transactions)
            }
        }
    }

    fn one(
        &mut self,
        place: BlockPlace<'_>,
        partition: PartitionId,
        sequence: Sequence,
        changes: &[u8],
    ) -> Result<(), StartError> {
        match self {
            Stores::Here(stores) => Ok(apply::one(&mut stores[partition.index()], partition, sequence, changes)?),
            Stores::Spread(workers) => {
                let number = partition.index() % workers.len();
                workers[number].give(place, partition, sequence, None, changes)
            }
        }
    }
}

impl Worker {
    /// `workers`: how many there are; this one has the partitions that have its remainder.
    fn start(mut stores: Vec<Store>, workers: usize) -> Worker {
        let (parcels, arriving) = bounded::<Parcel>(PARCELS_MAX);
        let body = move || {
            while let Ok(parcel) = arriving.recv() {
                let mut start = 0;
                for item in parcel.items {
                    let bytes = &parcel.bytes[start..item.end];
                    start = item.end;
                    let store = &mut stores[item.partition.index() / workers];
                    let result = match item.count {
                        Some(count) => apply::batch(store, item.partition, item.first, count, bytes),
                        None => apply::one(store, item.partition, item.first, bytes),
                    };
                    result.map_err(|reason| StartError::Replay {
                        path: item.path.to_path_buf(),
                        position: item.position,
                        reason: Box::new(reason.into()),
                    })?;
                }
            }
            Ok(stores)
        };
        let thread =
            std::thread::Builder::new().name("replay".to_owned()).spawn(body).expect("a thread can be started");
        Worker { parcels: Some(parcels), gathered: Parcel::default(), path: Arc::default(), thread: Some(thread) }
    }

    fn give(
        &mut self,
        place: BlockPlace<'_>,
        partition: PartitionId,
        first: Sequence,
        count: Option<u32>,
        bytes: &[u8],
    ) -> Result<(), StartError> {
        if *self.path != place.path {
            self.path = Arc::new(place.path.to_path_buf());
        }
        self.gathered.bytes.extend_from_slice(bytes);
        let path = Arc::clone(&self.path);
        let position = place.position;
        let end = self.gathered.bytes.len();
        self.gathered.items.push(Item { partition, first, count, end, path, position });
        if self.gathered.bytes.len() >= PARCEL_BYTES || self.gathered.items.len() >= PARCEL_BYTES / 64 {
            self.send()?;
        }
        Ok(())
    }

    /// Hands over what was gathered; the worker's error, if it has ended with one.
    fn send(&mut self) -> Result<(), StartError> {
        let parcel = std::mem::take(&mut self.gathered);
        let sent = self.parcels.as_ref().is_some_and(|parcels| parcels.send(parcel).is_ok());
        if sent { Ok(()) } else { self.join().map(drop) }
    }

    fn finish(mut self) -> Result<Vec<Store>, StartError> {
        self.send()?;
        self.join()
    }

    fn join(&mut self) -> Result<Vec<Store>, StartError> {
        self.parcels = None;
        // If joined previously, it has reported its error.
        let Some(thread) = self.thread.take() else { return Ok(Vec::new()) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
