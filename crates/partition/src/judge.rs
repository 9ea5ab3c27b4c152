//! Whether the next record continues a group's state: its stream, the sequence numbers of its
//! partitions, its schema. Recovery and copies read records through this alone; what feeds the
//! stores is theirs.
//!
//! Invariant: what it lets pass is of its own group, and names partitions of that group only. Which
//! group a record is of is decided by the code that reads the log, which may have several judges.

use crate::content_hashes::ContentHashes;
use crate::lots::LotLedger;
use crate::record::{self, Part, Record, RecordError};
use crate::schema::{self, Planned, SchemaHistory};
use ferrite_base::{Epoch, GroupId, GroupPartitions, NodeId, PartitionId, Position, Sequence, UserError, planted};
use ferrite_catalog::Catalog;
use ferrite_group::{Entry, EntryError, Replayed, Verdict};
use ferrite_multi::Applied;
use ferrite_replica::group::Mark;
use std::fmt;
use std::sync::Arc;

/// Why a record cannot be made part of the database.
#[derive(Clone, PartialEq, Debug)]
pub enum ReplayError {
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
        /// The table's name, where it is known.
        table: Option<String>,
        reason: String,
    },
    Schema {
        version: u64,
        error: UserError,
    },
    /// The node's own log does not have what it has acknowledged.
    Log(String),
    /// A copy's rows are not the leader's, although it has applied all entries.
    Contents {
        /// Its name, or its number where it has been dropped since.
        table: String,
    },
}

impl ReplayError {
    pub(crate) fn malformed(reason: &'static str) -> ReplayError {
        ReplayError::Record(RecordError::Malformed(reason))
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Record(error) => error.fmt(f),
            ReplayError::Sequence { partition, expected, found } => {
                write!(f, "partition {partition} continues with transaction {found} where {expected} is next")
            }
            ReplayError::Changes { partition, sequence, table, reason } => {
                write!(f, "transaction {sequence} of partition {partition} cannot be applied")?;
                if let Some(table) = table {
                    write!(f, " to table {table}")?;
                }
                write!(f, ": {reason}")
            }
            ReplayError::Contents { table } => write!(f, "its rows of table {table} are not those of the leader"),
            ReplayError::Schema { version, error } => {
                write!(
                    f,
                    "the schema change to version {version} cannot be repeated: {error}. The log is not damaged: if a later release has \
                     written it, start that release"
                )
            }
            ReplayError::Log(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<RecordError> for ReplayError {
    fn from(error: RecordError) -> ReplayError {
        ReplayError::Record(error)
    }
}

impl From<EntryError> for ReplayError {
    fn from(error: EntryError) -> ReplayError {
        ReplayError::malformed(error.0)
    }
}

/// What is to be made of a record that continues here.
pub(crate) enum Change<'a> {
    /// Transactions of one partition.
    Batch {
        partition: PartitionId,
        first: Sequence,
        count: u32,
        transactions: &'a [u8],
    },
    /// One transaction over several.
    Multi(Vec<Part<'a>>),
    /// None: copies hash what the tables hold here.
    ContentMark,
    /// None either: what the leader's held at such a place.
    ContentHashes(ContentHashes),
    Schema {
        planned: Planned,
        time: i64,
    },
    /// None, of a lot.
    Lot,
    /// None yet, of a lot that is to change the schema so.
    Foreseen(Planned),
    /// A group's part of a lot counts from here on: records of transactions, each to be judged in
    /// turn.
    Committed(Vec<u8>),
}

/// The position of a group's data.
pub(crate) struct Judge {
    here: NodeId,
    of: GroupPartitions,
    /// The group's stream, once it has begun.
    pub stream: Option<Replayed>,
    /// Of the last transaction of each partition, by its place in the group.
    pub sequences: Vec<Sequence>,
    pub catalog: Arc<Catalog>,
    pub history: SchemaHistory,
    /// What the stream says of lots.
    pub lots: LotLedger,
    pub transactions: u64,
    pub schema_changes: u64,
}

impl Judge {
    pub fn new(
        here: NodeId,
        of: GroupPartitions,
        stream: Option<Replayed>,
        sequences: Vec<Sequence>,
        catalog: Arc<Catalog>,
        history: SchemaHistory,
    ) -> Judge {
        assert_eq!(of.len(), sequences.len(), "a group's partitions have a sequence number each");
        let lots = LotLedger::default();
        Judge { here, of, stream, sequences, catalog, history, lots, transactions: 0, schema_changes: 0 }
    }

    /// With what the stream has said of lots.
    pub fn with_lots(self, lots: LotLedger) -> Judge {
        Judge { lots, ..self }
    }

    /// Where a partition is that a record named which has passed.
    pub fn place(&self, partition: PartitionId) -> usize {
        self.of.place_of(partition).expect("what was judged is of the group")
    }

    /// The next entry of the log: what it shows to be committed.
    pub fn entry(&mut self, entry: &Entry<'_>) -> Result<Verdict, ReplayError> {
        self.is_of_the_group(entry)?;
        match &mut self.stream {
            Some(stream) => Ok(stream.judge(entry)?),
            stream => {
                *stream = Some(Replayed::begin(self.here, entry)?);
                Ok(Verdict::default())
            }
        }
    }

    /// The next entry, which is known to be committed; whether it has records to apply.
    pub fn committed(&mut self, entry: &Entry<'_>) -> Result<bool, ReplayError> {
        self.is_of_the_group(entry)?;
        Ok(self.stream.as_mut().expect("a copy knows where its stream stands").committed(entry)?)
    }

    fn is_of_the_group(&self, entry: &Entry<'_>) -> Result<(), ReplayError> {
        if entry.group == self.of.group() {
            return Ok(());
        }
        Err(ReplayError::malformed("an entry is of another group"))
    }

    /// A record that changes the database. It counts from now on: a caller that cannot make the
    /// change must stop.
    pub fn record<'a>(&mut self, record: Record<'a>) -> Result<Change<'a>, ReplayError> {
        match record {
            Record::Batch { partition, first, count, transactions, .. } => {
                let place = self.expect(partition, first)?;
                let last = first.0.checked_add(u64::from(count)).map(|behind| Sequence(behind - 1));
                let Some(last) = last.filter(|_| count > 0) else {
                    return Err(ReplayError::malformed("a batch does not hold as many transactions as it says"));
                };
                self.sequences[place] = last;
                self.transactions += u64::from(count);
                Ok(Change::Batch { partition, first, count, transactions })
            }
            Record::Multi { parts, .. } => {
                for part in &parts {
                    let place = self.expect(part.partition, part.sequence)?;
                    self.sequences[place] = part.sequence;
                }
                self.transactions += 1;
                Ok(Change::Multi(parts))
            }
            Record::Schema { version, time, text } => {
                let planned = self.plan(version, text)?;
                self.catalog = Arc::clone(&planned.catalog);
                self.history.add(version, time, text);
                self.schema_changes += 1;
                Ok(Change::Schema { planned, time })
            }
            Record::Lot(record) => self.lot(record),
            Record::ContentMark { .. } => Ok(Change::ContentMark),
            Record::ContentHashes(hashes) => Ok(Change::ContentHashes(hashes)),
            Record::Genesis(_)
            | Record::Checkpoint { .. }
            | Record::CopyCheckpoint { .. }
            | Record::Installed { .. }
            | Record::Entry(_) => Err(ReplayError::malformed("an entry has a record that is of no stream")),
        }
    }

    /// What the stream says of a lot. Its changes are judged when they are made: until then no
    /// other transaction changes the partitions that it has.
    fn lot<'a>(&mut self, record: ferrite_multi::Record<&[u8]>) -> Result<Change<'a>, ReplayError> {
        let foreseen = match &record {
            ferrite_multi::Record::Prepared { redo, .. } => self.check_part(redo)?,
            _ => None,
        };
        let at_once = match &record {
            ferrite_multi::Record::Prepared { redo, .. } if planted!(PartAppliedAtOnce) => Some(redo.to_vec()),
            _ => None,
        };
        match self.lots.apply(record.map(<[u8]>::to_vec)) {
            Ok(_) if at_once.is_some() => Ok(Change::Committed(at_once.expect("it was just there"))),
            Ok(Applied::Committed(_)) if planted!(PartAppliedAtOnce) => Ok(Change::Lot),
            Ok(Applied::Nothing | Applied::Aborted(_)) => Ok(foreseen.map_or(Change::Lot, Change::Foreseen)),
            Ok(Applied::Committed(part)) => Ok(Change::Committed(part.redo)),
            Err(error) => Err(ReplayError::malformed(error.0)),
        }
    }

    fn plan(&self, version: u64, text: &str) -> Result<Planned, ReplayError> {
        let planned = schema::plan(&self.catalog, text).map_err(|error| ReplayError::Schema { version, error })?;
        if planned.catalog.version.0 != version {
            return Err(ReplayError::malformed("a schema change is missing before this one"));
        }
        Ok(planned)
    }

    /// A part has transactions of this group's partitions, or one schema change, and nothing else.
    fn check_part(&self, mut redo: &[u8]) -> Result<Option<Planned>, ReplayError> {
        let mut has_transactions = false;
        while let Some(record) = record::next_record(&mut redo)? {
            let parts = match record {
                Record::Multi { parts, .. } => parts,
                Record::Schema { version, text, .. } if redo.is_empty() && !has_transactions => {
                    return self.plan(version, text).map(Some);
                }
                _ => {
                    return Err(ReplayError::malformed("a part of a lot has a record that is not one of a part"));
                }
            };
            if parts.iter().any(|part| self.of.place_of(part.partition).is_none()) {
                return Err(ReplayError::malformed("a record names a partition that there is not"));
            }
            has_transactions = true;
        }
        Ok(None)
    }

    /// The partition is one of the group, and this is its next transaction. Its place.
    fn expect(&self, partition: PartitionId, found: Sequence) -> Result<usize, ReplayError> {
        let place = self
            .of
            .place_of(partition)
            .ok_or(ReplayError::malformed("a record names a partition that there is not"))?;
        let expected = Sequence(self.sequences[place].0 + 1);
        if found == expected { Ok(place) } else { Err(ReplayError::Sequence { partition, expected, found }) }
    }

    /// A checkpoint says where everything stood.
    pub fn checkpoint(
        &mut self,
        version: u64,
        places: &[(Epoch, Sequence)],
        groups: &[(GroupId, Mark)],
    ) -> Result<(), ReplayError> {
        // A member's log does not say of its last entries that they are committed: they are made
        // part of the database later, and their numbers are compared then.
        let shows_all = self.stream.as_ref().is_none_or(|stream| stream.pending() == 0);
        let reached = places.iter().map(|(_, sequence)| sequence).eq(&self.sequences);
        if shows_all && (!reached || version != self.catalog.version.0) {
            return Err(ReplayError::malformed("a checkpoint says that the log has come to another point than it has"));
        }
        let mark = self.own_mark(groups)?;
        if let (Some(stream), Some(mark)) = (&mut self.stream, mark) {
            stream.comes_to(mark);
        }
        self.stream_has_come_to(mark)
    }

    /// Whether there is a stream, and the log has come to this place of it, which a snapshot names.
    pub fn stands_at(&self, groups: &[(GroupId, Mark)]) -> bool {
        let mark = self.own_mark(groups).ok().flatten();
        self.stream.is_some() && mark.is_some() && self.stream_has_come_to(mark).is_ok()
    }

    /// What a record of the node's own says of this group. None: it is from before there were
    /// entries.
    fn own_mark(&self, groups: &[(GroupId, Mark)]) -> Result<Option<Mark>, ReplayError> {
        match groups {
            [] => Ok(None),
            [(group, mark)] if *group == self.of.group() => Ok(Some(*mark)),
            _ => Err(ReplayError::malformed("a checkpoint is of another group, or of several")),
        }
    }

    /// The log tells where the stream is in it. One that has not begun is before its first entry,
    /// whatever the epoch of that place is called.
    fn stream_has_come_to(&self, mark: Option<Mark>) -> Result<(), ReplayError> {
        let end = self.stream.as_ref().map(Replayed::log_end);
        let reached = |mark: Mark| end.map_or(mark.position == Position(0), |end| end == mark);
        if !mark.is_none_or(reached) {
            return Err(ReplayError::malformed(
                "a checkpoint says that a stream has come to another point than it has",
            ));
        }
        Ok(())
    }

    /// A copy began to take a snapshot here; `begins`: the one that is loaded, which may show some
    /// of what follows.
    pub fn copy_checkpoint(&mut self, groups: &[(GroupId, Mark)], begins: bool) -> Result<(), ReplayError> {
        let mark = self.own_mark(groups)?;
        match (&mut self.stream, mark) {
            (Some(stream), Some(mark)) if begins => Ok(stream.begins_behind(mark)?),
            _ => self.stream_has_come_to(mark),
        }
    }

    /// The log ends here. It has all that what was loaded shows.
    pub fn reaches_base(&self) -> bool {
        !self.stream.as_ref().is_some_and(Replayed::awaits_base)
    }
}
