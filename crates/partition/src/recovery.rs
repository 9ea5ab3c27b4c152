//! From the log to stores: replay at start. Applies row changes; runs no statement and no procedure.

use crate::commit::{self, Completion};
use crate::compiled::Compiled;
use crate::record::{self, Genesis, Record, RecordError};
use crate::schema;
use ferrite_base::{PartitionId, Sequence, UserError, limits};
use ferrite_catalog::Catalog;
use ferrite_io::{Clock, Disk, Random};
use ferrite_log::{DatabaseId, Log, LogError, LogFailed, LogOptions, OpenError};
use ferrite_table::Store;
use ferrite_value::ring::Ring;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Everything that a node runs on.
pub struct Recovered {
    pub genesis: Genesis,
    pub stores: Vec<Store>,
    /// Last sequence number of each partition.
    pub sequences: Vec<Sequence>,
    pub compiled: Arc<Compiled>,
    pub log: Log<Completion>,
    pub summary: Summary,
}

/// What recovery found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub created: bool,
    pub transactions: u64,
    pub schema_changes: u64,
    pub log_bytes: u64,
    pub duration: Duration,
    /// Bytes of an unfinished write at the end of the log that were cut off. None of it was acknowledged.
    pub torn_bytes: u64,
}

#[derive(Debug)]
pub enum StartError {
    Log(LogError),
    /// The first record of a new database could not be written.
    LogFailed(LogFailed),
    /// What could not be replayed, and where it stands.
    Replay {
        path: PathBuf,
        position: u64,
        reason: Box<StartError>,
    },
    /// A record that does not make sense, although its checksum is right.
    Record(RecordError),
    Sequence {
        partition: PartitionId,
        expected: Sequence,
        found: Sequence,
    },
    Changes {
        partition: PartitionId,
        sequence: Sequence,
        reason: String,
    },
    Schema {
        version: u64,
        error: UserError,
    },
    Partitions {
        asked: u32,
        stored: u32,
    },
    Compile(UserError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Log(error) => error.fmt(f),
            StartError::LogFailed(failure) => failure.fmt(f),
            StartError::Replay { path, position, reason } => {
                write!(f, "block at byte {position} of {}: {reason}", path.display())
            }
            StartError::Record(error) => write!(f, "the redo log cannot be replayed: {error}"),
            StartError::Sequence { partition, expected, found } => write!(
                f,
                "the redo log cannot be replayed: partition {partition} continues with transaction {found} where {expected} \
                 is next"
            ),
            StartError::Changes { partition, sequence, reason } => {
                write!(f, "transaction {sequence} of partition {partition} in the redo log cannot be applied: {reason}")
            }
            StartError::Schema { version, error } => {
                write!(f, "the schema change to version {version} in the redo log cannot be repeated: {error}")
            }
            StartError::Partitions { asked, stored } => write!(
                f,
                "this data directory was made with {stored} partitions and cannot be opened with {asked}: leave out \
                 --partitions, or name another directory"
            ),
            StartError::Compile(error) => write!(f, "a stored procedure does not fit the recovered schema: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Opens or makes the database in `dir`. `partitions` is what a new database gets and what an old one must have, if given.
pub fn open(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    random: &mut dyn Random,
    dir: &Path,
    options: LogOptions,
    partitions: Option<u32>,
    partitions_default: u32,
) -> Result<Recovered, StartError> {
    let begin = clock.monotonic_nanos();
    let mut replay = Replay::default();
    let (log, found) =
        Log::open(disk, Arc::clone(&clock), dir, options, |_, payload| replay.payload(payload)).map_err(|error| {
            match error {
                OpenError::Log(error) => StartError::Log(error),
                OpenError::Replay { path, position, error } => {
                    StartError::Replay { path, position, reason: Box::new(error) }
                }
            }
        })?;
    let created = replay.state.is_none();
    if created {
        let genesis = Genesis {
            partitions: partitions.unwrap_or(partitions_default),
            created_ms: (clock.wall_micros() / 1_000) as u64,
            database_id: DatabaseId::random(random).0,
        };
        let mut payload = Vec::new();
        record::write_genesis(&mut payload, &genesis);
        replay.payload(&payload)?;
        commit::append_and_wait(&log, payload).map_err(StartError::LogFailed)?;
    }
    let state = replay.state.expect("a genesis record was found or just written");
    if let Some(asked) = partitions
        && asked != state.genesis.partitions
    {
        return Err(StartError::Partitions { asked, stored: state.genesis.partitions });
    }
    let compiled = Compiled::new(Arc::new(state.catalog)).map_err(StartError::Compile)?;
    let mut stores = state.stores;
    for store in &mut stores {
        store.set_catalog(Arc::clone(&compiled.catalog));
    }
    Ok(Recovered {
        genesis: state.genesis,
        stores,
        sequences: state.sequences,
        compiled: Arc::new(compiled),
        log,
        summary: Summary {
            created,
            transactions: replay.transactions,
            schema_changes: replay.schema_changes,
            log_bytes: found.payload_bytes,
            duration: Duration::from_nanos(clock.monotonic_nanos() - begin),
            torn_bytes: found.torn.as_ref().map_or(0, |tail| tail.bytes),
        },
    })
}

#[derive(Default)]
struct Replay {
    state: Option<State>,
    transactions: u64,
    schema_changes: u64,
}

struct State {
    genesis: Genesis,
    stores: Vec<Store>,
    sequences: Vec<Sequence>,
    catalog: Catalog,
}

impl Replay {
    fn payload(&mut self, mut payload: &[u8]) -> Result<(), StartError> {
        while let Some(record) = record::next_record(&mut payload).map_err(StartError::Record)? {
            self.record(record)?;
        }
        Ok(())
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), StartError> {
        if let Record::Genesis(genesis) = record {
            return self.genesis(genesis);
        }
        let state = self
            .state
            .as_mut()
            .ok_or(StartError::Record(RecordError("the first record does not say what database this is")))?;
        match record {
            Record::Genesis(_) => unreachable!("handled above"),
            Record::Batch { partition, first, count, mut transactions, .. } => {
                let mut sequence = Sequence(first.0.wrapping_sub(1));
                let mut done = 0;
                while let Some(changes) = record::next_transaction(&mut transactions).map_err(StartError::Record)? {
                    sequence = Sequence(sequence.0.wrapping_add(1));
                    state.apply(partition, sequence, changes)?;
                    done += 1;
                }
                if done != count {
                    return Err(StartError::Record(RecordError(
                        "a batch does not hold as many transactions as it says",
                    )));
                }
                self.transactions += u64::from(count);
            }
            Record::Multi { parts, .. } => {
                for part in parts {
                    state.apply(part.partition, part.sequence, part.changes)?;
                }
                self.transactions += 1;
            }
            Record::Schema { version, time, text } => {
                let failed = |error| StartError::Schema { version, error };
                let planned = schema::plan(&state.catalog, text).map_err(failed)?;
                if planned.catalog.version.0 != version {
                    return Err(StartError::Record(RecordError("a schema change is missing before this one")));
                }
                schema::apply(&mut state.stores, &planned, time).map_err(failed)?;
                state.catalog = (*planned.catalog).clone();
                self.schema_changes += 1;
            }
        }
        Ok(())
    }

    fn genesis(&mut self, genesis: Genesis) -> Result<(), StartError> {
        if self.state.is_some() {
            return Err(StartError::Record(RecordError("a second record says what database this is")));
        }
        if genesis.partitions == 0 || genesis.partitions as usize > limits::PARTITIONS_MAX {
            return Err(StartError::Record(RecordError("the number of partitions is out of range")));
        }
        let ring = Arc::new(Ring::new_default(genesis.partitions));
        self.state = Some(State {
            genesis,
            stores: (0..genesis.partitions).map(|id| Store::new(PartitionId(id), Arc::clone(&ring))).collect(),
            sequences: vec![Sequence(0); genesis.partitions as usize],
            catalog: Catalog::default(),
        });
        Ok(())
    }
}

impl State {
    fn apply(&mut self, partition: PartitionId, sequence: Sequence, changes: &[u8]) -> Result<(), StartError> {
        let last = self
            .sequences
            .get_mut(partition.index())
            .ok_or(StartError::Record(RecordError("a record names a partition that there is not")))?;
        let expected = Sequence(last.0 + 1);
        if sequence != expected {
            return Err(StartError::Sequence { partition, expected, found: sequence });
        }
        self.stores[partition.index()].apply_redo(changes).map_err(|error| StartError::Changes {
            partition,
            sequence,
            reason: error.to_string(),
        })?;
        *last = sequence;
        Ok(())
    }
}
