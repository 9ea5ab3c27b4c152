//! Replay of the log: its records applied to stores, partitions side by side.
//!
//! The thread that reads the log judges every record and keeps the order: sequence numbers, schema
//! changes, checkpoints. Row changes go to workers, each of which has some partitions' stores, so
//! that each partition's changes are made in the log's order. A schema change waits for all workers
//! and takes the stores back for its length. Without workers everything is done in place.

use crate::prefetch;
use crate::record::{self, Genesis, Record, RecordError};
use crate::schema::{self, SchemaHistory};
use crate::start_error::StartError;
use crossbeam_channel::{Sender, bounded};
use ferrite_base::{Epoch, GroupId, NodeId, PartitionId, Sequence, limits};
use ferrite_catalog::Catalog;
use ferrite_group::{Entry, EntryError, FIRST_GROUP, Replayed};
use ferrite_log::{BlockPlace, Visitor};
use ferrite_replica::group::Mark;
use ferrite_table::{Ahead, Store};
use ferrite_value::ring::Ring;
use std::collections::BTreeMap;
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
    stores: Stores,
    pub sequences: Vec<Sequence>,
    pub catalog: Catalog,
    pub history: SchemaHistory,
}

/// Where the stores are.
enum Stores {
    Here(Vec<Store>),
    Spread(Vec<Worker>),
}

#[derive(Default)]
pub(crate) struct Replay {
    pub state: Option<State>,
    /// This node.
    pub here: NodeId,
    /// The groups' streams, once they have begun.
    pub streams: BTreeMap<GroupId, Replayed>,
    /// The snapshot that the state was loaded from: the log must begin with its checkpoint record.
    pub begins_with: Option<u64>,
    /// The log may end before it.
    pub accept_loss: bool,
    /// Threads for row changes; none: they are made in place.
    pub threads: usize,
    pub transactions: u64,
    pub schema_changes: u64,
    /// The highest number of a checkpoint record.
    pub last_checkpoint: u64,
}

impl Visitor<StartError> for Replay {
    fn payload(&mut self, place: BlockPlace<'_>, payload: &[u8]) -> Result<(), StartError> {
        let mut rest = payload;
        let result = loop {
            match record::next_record(&mut rest).map_err(StartError::Record) {
                Ok(None) => break Ok(()),
                Ok(Some(record)) => {
                    if let Err(error) = self.record(place, record) {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        // What a worker met stands before this in the log.
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
        self.state.as_mut().map_or(Ok(()), State::settle)
    }
}

impl Replay {
    fn record(&mut self, place: BlockPlace<'_>, record: Record<'_>) -> Result<(), StartError> {
        let misplaced = |reason| Err(StartError::Record(RecordError::Malformed(reason)));
        if let Some(snapshot) = self.begins_with.take()
            && !matches!(record, Record::Checkpoint { snapshot: found, .. } if found == snapshot)
        {
            return Err(StartError::Checkpoint { snapshot });
        }
        if let Record::Genesis(genesis) = record {
            return self.genesis(genesis);
        }
        let Some(state) = &mut self.state else {
            return misplaced("the first record does not say what database this is");
        };
        match record {
            Record::Genesis(_) => unreachable!("handled above"),
            Record::Entry(entry) => return self.entry(place, &entry),
            Record::Checkpoint { snapshot, catalog_version, places, groups } => {
                state.checkpoint(catalog_version, &places)?;
                self.streams_have_come_to(&groups)?;
                self.last_checkpoint = self.last_checkpoint.max(snapshot);
            }
            _ if !self.streams.is_empty() => return misplaced("a record stands outside of its group's stream"),
            change => self.change(place, change)?,
        }
        Ok(())
    }

    /// The next entry of a group, and those that it shows to be committed.
    fn entry(&mut self, place: BlockPlace<'_>, entry: &Entry<'_>) -> Result<(), StartError> {
        let failed = |error: EntryError| StartError::Record(RecordError::Malformed(error.0));
        if entry.group != FIRST_GROUP {
            return Err(StartError::Record(RecordError::Malformed("an entry is of a group that there is not")));
        }
        let verdict = match self.streams.get_mut(&entry.group) {
            Some(stream) => stream.judge(entry).map_err(failed)?,
            None => {
                let stream = Replayed::begin(self.here, entry).map_err(failed)?;
                self.streams.insert(entry.group, stream);
                return Ok(());
            }
        };
        for records in &verdict.earlier {
            self.records(place, records)?;
        }
        if verdict.now { self.records(place, entry.body) } else { Ok(()) }
    }

    /// The records of one entry.
    fn records(&mut self, place: BlockPlace<'_>, mut records: &[u8]) -> Result<(), StartError> {
        while let Some(record) = record::next_record(&mut records).map_err(StartError::Record)? {
            self.change(place, record)?;
        }
        Ok(())
    }

    /// A checkpoint says where the streams stood.
    fn streams_have_come_to(&self, groups: &[(GroupId, Mark)]) -> Result<(), StartError> {
        let reached = |(group, mark): &(GroupId, Mark)| {
            self.streams.get(group).and_then(Replayed::place).is_some_and(|place| place.end == *mark)
        };
        if groups.iter().all(reached) {
            return Ok(());
        }
        Err(StartError::Record(RecordError::Malformed(
            "a checkpoint says that a stream has come to another point than it has",
        )))
    }

    /// A record that changes the database.
    fn change(&mut self, place: BlockPlace<'_>, record: Record<'_>) -> Result<(), StartError> {
        let misplaced = |reason| Err(StartError::Record(RecordError::Malformed(reason)));
        let state = self.state.as_mut().expect("a database is there before it changes");
        match record {
            Record::Batch { partition, first, count, transactions, .. } => {
                state.expect(partition, first)?;
                let last = first.0.checked_add(u64::from(count)).map(|behind| Sequence(behind - 1));
                let Some(last) = last.filter(|_| count > 0) else {
                    return misplaced("a batch does not hold as many transactions as it says");
                };
                state.stores.batch(place, partition, first, count, transactions)?;
                state.sequences[partition.index()] = last;
                self.transactions += u64::from(count);
            }
            Record::Multi { parts, .. } => {
                for part in parts {
                    state.expect(part.partition, part.sequence)?;
                    state.stores.one(place, part.partition, part.sequence, part.changes)?;
                    state.sequences[part.partition.index()] = part.sequence;
                }
                self.transactions += 1;
            }
            Record::Schema { version, time, text } => {
                state.schema(version, time, text)?;
                self.schema_changes += 1;
            }
            Record::Genesis(_) | Record::Checkpoint { .. } | Record::Entry(_) => {
                return misplaced("an entry has a record that is of no stream");
            }
        }
        Ok(())
    }

    pub fn genesis(&mut self, genesis: Genesis) -> Result<(), StartError> {
        if self.state.is_some() {
            return Err(StartError::Record(RecordError::Malformed("a second record says what database this is")));
        }
        if genesis.partitions == 0 || genesis.partitions as usize > limits::PARTITIONS_MAX {
            return Err(StartError::Record(RecordError::Malformed("the number of partitions is out of range")));
        }
        let ring = Arc::new(Ring::new_default(genesis.partitions));
        let stores = (0..genesis.partitions).map(|id| Store::new(PartitionId(id), Arc::clone(&ring))).collect();
        let sequences = vec![Sequence(0); genesis.partitions as usize];
        self.begin(genesis, stores, sequences, Catalog::before_history(), SchemaHistory::default());
        Ok(())
    }

    /// Goes on from there.
    pub fn begin(
        &mut self,
        genesis: Genesis,
        stores: Vec<Store>,
        sequences: Vec<Sequence>,
        catalog: Catalog,
        history: SchemaHistory,
    ) {
        let stores = Stores::spread(stores, self.threads);
        self.state = Some(State { genesis, stores, sequences, catalog, history });
    }
}

impl State {
    /// The partition is there, and this is its next transaction.
    fn expect(&self, partition: PartitionId, found: Sequence) -> Result<(), StartError> {
        let last = self
            .sequences
            .get(partition.index())
            .ok_or(StartError::Record(RecordError::Malformed("a record names a partition that there is not")))?;
        let expected = Sequence(last.0 + 1);
        if found == expected { Ok(()) } else { Err(StartError::Sequence { partition, expected, found }) }
    }

    fn schema(&mut self, version: u64, time: i64, text: &str) -> Result<(), StartError> {
        let failed = |error| StartError::Schema { version, error };
        let planned = schema::plan(&self.catalog, text).map_err(failed)?;
        if planned.catalog.version.0 != version {
            return Err(StartError::Record(RecordError::Malformed("a schema change is missing before this one")));
        }
        let threads = self.stores.threads();
        let mut stores = self.stores.take()?;
        let applied = schema::apply(&mut stores, &planned, time);
        self.stores = Stores::spread(stores, threads);
        applied.map_err(failed)?;
        self.catalog = (*planned.catalog).clone();
        self.history.add(version, time, text);
        Ok(())
    }

    fn checkpoint(&self, version: u64, places: &[(Epoch, Sequence)]) -> Result<(), StartError> {
        let reached = places.iter().map(|(_, sequence)| sequence).eq(&self.sequences);
        if reached && version == self.catalog.version.0 {
            return Ok(());
        }
        Err(StartError::Record(RecordError::Malformed(
            "a checkpoint says that the log has come to another point than it has",
        )))
    }

    /// Waits until all changes so far are made.
    fn settle(&mut self) -> Result<(), StartError> {
        let threads = self.stores.threads();
        if threads > 0 {
            self.stores = Stores::spread(self.stores.take()?, threads);
        }
        Ok(())
    }

    /// The stores, when all changes are made.
    pub fn into_stores(mut self) -> Result<Vec<Store>, StartError> {
        self.stores.take()
    }
}

/// Makes the changes of one transaction.
fn apply(store: &mut Store, partition: PartitionId, sequence: Sequence, changes: &[u8]) -> Result<(), StartError> {
    store.apply_redo(changes).map_err(|error| StartError::Changes { partition, sequence, reason: error.to_string() })
}

fn apply_batch(
    store: &mut Store,
    partition: PartitionId,
    sequence: Sequence,
    count: u32,
    mut transactions: &[u8],
) -> Result<(), StartError> {
    let mut done = 0;
    let mut first = LookAhead::new(transactions, Ahead::First, prefetch::BUCKET_AHEAD, store);
    let mut second = LookAhead::new(transactions, Ahead::Second, prefetch::ROW_AHEAD, store);
    while let Some(changes) = record::next_transaction(&mut transactions).map_err(StartError::Record)? {
        first.step(store);
        second.step(store);
        apply(store, partition, Sequence(sequence.0.wrapping_add(u64::from(done))), changes)?;
        done += 1;
    }
    if done != count {
        return Err(StartError::Record(RecordError::Malformed(
            "a batch does not hold as many transactions as it says",
        )));
    }
    Ok(())
}

/// Reads a batch some transactions ahead of the one that is applied, and asks for what those will
/// need.
struct LookAhead<'b> {
    transactions: &'b [u8],
    ahead: Ahead,
}

impl<'b> LookAhead<'b> {
    fn new(transactions: &'b [u8], ahead: Ahead, distance: usize, store: &Store) -> LookAhead<'b> {
        let mut reading = LookAhead { transactions, ahead };
        (0..distance).for_each(|_| reading.step(store));
        reading
    }

    /// Behind the last transaction, and at one that cannot be read, it does nothing.
    #[inline]
    fn step(&mut self, store: &Store) {
        if let Ok(Some(changes)) = record::next_transaction(&mut self.transactions) {
            store.prefetch_ahead(changes, self.ahead);
        }
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
    /// Where it stands in the log, for an error to say: the segment's path, shared, and the
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
    fn take(&mut self) -> Result<Vec<Store>, StartError> {
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
            Stores::Here(stores) => apply_batch(&mut stores[partition.index()], partition, first, count, transactions),
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
            Stores::Here(stores) => apply(&mut stores[partition.index()], partition, sequence, changes),
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
                        Some(count) => apply_batch(store, item.partition, item.first, count, bytes),
                        None => apply(store, item.partition, item.first, bytes),
                    };
                    result.map_err(|reason| StartError::Replay {
                        path: item.path.to_path_buf(),
                        position: item.position,
                        reason: Box::new(reason),
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
        let (path, position, end) = (Arc::clone(&self.path), place.position, self.gathered.bytes.len());
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
        // Joined before, it has told its error.
        let Some(thread) = self.thread.take() else { return Ok(Vec::new()) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
