//! The stores of a group while its part of the log is replayed, on workers' threads if there are
//! any. Each worker has some of the stores, so that each partition's changes are made in the log's
//! order.

use crate::apply;
use crate::start_error::StartError;
use crossbeam_channel::{Sender, bounded};
use ferrite_base::{PartitionId, Sequence};
use ferrite_log::BlockPlace;
use ferrite_table::Store;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Row changes gathered for a worker before they are handed over.
const PARCEL_BYTES: usize = 256 * 1024;
/// Parcels that wait for a worker.
const PARCELS_MAX: usize = 8;

/// Where the stores are.
pub(super) enum Stores {
    Here(Vec<Store>),
    Spread(Vec<Worker>),
}

/// Transactions of one partition.
pub(super) struct Changes<'a> {
    /// The place of the partition's store in the group.
    pub store: usize,
    pub partition: PartitionId,
    pub first: Sequence,
    /// None: the bytes are one transaction's changes.
    pub count: Option<u32>,
    pub bytes: &'a [u8],
}

/// Changes on their way to a worker: what they are, and where in `bytes`.
#[derive(Default)]
struct Parcel {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

struct Item {
    store: usize,
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

pub(super) struct Worker {
    parcels: Option<Sender<Parcel>>,
    gathered: Parcel,
    path: Arc<PathBuf>,
    /// Ends with the stores, or with the first error.
    thread: Option<JoinHandle<Result<Vec<Store>, StartError>>>,
}

impl Stores {
    /// Deals the stores out to workers: that at place p to worker p modulo their number.
    pub(super) fn spread(stores: Vec<Store>, threads: usize) -> Stores {
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

    pub(super) fn threads(&self) -> usize {
        match self {
            Stores::Here(_) => 0,
            Stores::Spread(workers) => workers.len(),
        }
    }

    /// All stores, in the order of their partitions, with all changes made.
    pub(super) fn finish(&mut self) -> Result<Vec<Store>, StartError> {
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

    /// Makes the changes of some transactions of one partition. `block`: where in the log that is.
    pub(super) fn make(&mut self, block: BlockPlace<'_>, changes: Changes<'_>) -> Result<(), StartError> {
        match self {
            Stores::Here(stores) => {
                let Changes { store, partition, first, count, bytes } = changes;
                let store = &mut stores[store];
                match count {
                    Some(count) => apply::batch(store, partition, first, count, bytes)?,
                    None => apply::one(store, partition, first, bytes)?,
                }
                Ok(())
            }
            Stores::Spread(workers) => {
                let number = changes.store % workers.len();
                workers[number].give(block, changes)
            }
        }
    }
}

impl Worker {
    /// `workers`: how many there are; this one has the stores whose places have its remainder.
    fn start(mut stores: Vec<Store>, workers: usize) -> Worker {
        let (parcels, arriving) = bounded::<Parcel>(PARCELS_MAX);
        let body = move || {
            while let Ok(parcel) = arriving.recv() {
                let mut start = 0;
                for item in parcel.items {
                    let bytes = &parcel.bytes[start..item.end];
                    start = item.end;
                    let store = &mut stores[item.store / workers];
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

    fn give(&mut self, place: BlockPlace<'_>, changes: Changes<'_>) -> Result<(), StartError> {
        let Changes { store, partition, first, count, bytes } = changes;
        if *self.path != place.path {
            self.path = Arc::new(place.path.to_path_buf());
        }
        self.gathered.bytes.extend_from_slice(bytes);
        let path = Arc::clone(&self.path);
        let position = place.position;
        let end = self.gathered.bytes.len();
        self.gathered.items.push(Item { store, partition, first, count, end, path, position });
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
