//! The redo records that partitions and the coordinator write, after `docs/format/records.md`.
//!
//! Encoding appends to a buffer that is handed to the log as a whole; decoding borrows, returns
//! errors and never panics.

use crate::content_hashes::ContentHashes;
use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::{Epoch, GroupId, GroupMap, PartitionId, Position, Sequence, TableId, limits};
use ferrite_group::{Entry, KIND_ENTRY, KIND_EPOCH_START};
use ferrite_multi as lot;
use ferrite_replica::group::Mark;

/// Of a new database of several groups.
pub const FORMAT_VERSION: u32 = 3;
/// Of one with a single group. Version 1 had records outside of entries.
const FORMAT_VERSION_ONE_GROUP: u32 = 2;
const FORMAT_VERSION_OLDEST: u32 = 1;

const KIND_GENESIS: u8 = 1;
const KIND_BATCH: u8 = 2;
const KIND_MULTI: u8 = 3;
const KIND_SCHEMA: u8 = 4;
const KIND_CHECKPOINT: u8 = 5;
const KIND_INSTALLED: u8 = 8;
const KIND_COPY_CHECKPOINT: u8 = 9;
const KIND_CONTENT_MARK: u8 = 10;
const KIND_CONTENT_HASHES: u8 = 11;

/// Facts fixed when a database is created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Genesis {
    /// Which partitions there are, and the group of each.
    pub groups: GroupMap,
    pub created_ms: u64,
    pub database_id: [u8; 16],
}

impl Genesis {
    pub fn partitions(&self) -> u32 {
        self.groups.partitions()
    }
}

/// One decoded record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    Genesis(Genesis),
    Batch {
        partition: PartitionId,
        epoch: Epoch,
        first: Sequence,
        count: u32,
        transactions: &'a [u8],
    },
    Multi {
        ticket: u64,
        parts: Vec<Part<'a>>,
    },
    Schema {
        version: u64,
        time: i64,
        text: &'a str,
    },
    /// A snapshot has all before this record, and nothing after it. Without groups: written before
    /// groups existed.
    Checkpoint {
        snapshot: u64,
        catalog_version: u64,
        places: Vec<(Epoch, Sequence)>,
        groups: Vec<(GroupId, Mark)>,
    },
    /// A snapshot that came from another node takes the place of all before this record, which says
    /// where everything is from then on; or, with number 0 and no places, what was there before the
    /// last such record continues, since that snapshot never counted.
    Installed {
        snapshot: u64,
        catalog_version: u64,
        places: Vec<(Epoch, Sequence)>,
        groups: Vec<(GroupId, Mark)>,
    },
    /// A snapshot that a copy began to take here has all before this record, and perhaps some of
    /// what follows it: its manifest says which entry is its last. `groups`: where streams were in
    /// the log.
    CopyCheckpoint {
        snapshot: u64,
        groups: Vec<(GroupId, Mark)>,
    },
    /// Of a stream: leader and copies hash what their tables hold after this entry.
    ContentMark {
        /// That the leader takes here.
        snapshot: u64,
    },
    /// Of a stream: what the leader's tables held there.
    ContentHashes(ContentHashes),
    /// Of a stream: what becomes of lots of transactions over groups.
    Lot(lot::Record<&'a [u8]>),
    /// Records of a group's stream.
    Entry(Entry<'a>),
}

/// One partition's share of a multi-partition transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    pub partition: PartitionId,
    pub epoch: Epoch,
    pub sequence: Sequence,
    pub changes: &'a [u8],
}

/// Why a payload could not be decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordError {
    Malformed(&'static str),
    /// This release does not know records of this kind.
    Kind(u8),
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordError::Malformed(reason) => f.write_str(reason),
            RecordError::Kind(kind) => write!(
                f,
                "a record is of kind {kind}, which this release does not know: start the release that wrote it, or a later one"
            ),
        }
    }
}

impl std::error::Error for RecordError {}

/// Builds a batch record in place: header first, transactions appended by the caller through
/// [`BatchWriter::transaction`].
pub struct BatchWriter {
    start: usize,
    first: Sequence,
    count: u32,
}

const BATCH_HEADER: usize = 5 + 4 + 8 + 8 + 4;

impl BatchWriter {
    pub fn begin(out: &mut Vec<u8>, partition: PartitionId, epoch: Epoch, first: Sequence) -> BatchWriter {
        let start = out.len();
        out.push(KIND_BATCH);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&partition.0.to_le_bytes());
        out.extend_from_slice(&epoch.0.to_le_bytes());
        out.extend_from_slice(&first.0.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        BatchWriter { start, first, count: 0 }
    }

    /// Appends one transaction; `write` puts its row changes at the end of the buffer.
    #[inline]
    pub fn transaction(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        write(out);
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
    }

    /// The number of its first transaction.
    pub fn first(&self) -> Sequence {
        self.first
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// The number of its last transaction; of the one before it, where it has none yet.
    #[inline]
    pub fn last(&self) -> Sequence {
        Sequence(self.first.0 + u64::from(self.count) - 1)
    }

    /// Patches the header; a batch without transactions leaves nothing.
    pub fn finish(self, out: &mut Vec<u8>) {
        if self.count == 0 {
            out.truncate(self.start);
            return;
        }
        let length = (out.len() - self.start - 5) as u32;
        out[self.start + 1..self.start + 5].copy_from_slice(&length.to_le_bytes());
        let count_at = self.start + BATCH_HEADER - 4;
        out[count_at..count_at + 4].copy_from_slice(&self.count.to_le_bytes());
    }
}

fn framed(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

pub fn write_genesis(out: &mut Vec<u8>, genesis: &Genesis) {
    let is_single = genesis.groups.is_single();
    let version = if is_single { FORMAT_VERSION_ONE_GROUP } else { FORMAT_VERSION };
    framed(out, KIND_GENESIS, |out| {
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&genesis.partitions().to_le_bytes());
        out.extend_from_slice(&genesis.created_ms.to_le_bytes());
        out.extend_from_slice(&genesis.database_id);
        if !is_single {
            genesis.groups.put(out);
        }
    });
}

pub fn write_multi(out: &mut Vec<u8>, ticket: u64, parts: &[Part<'_>]) {
    framed(out, KIND_MULTI, |out| {
        out.extend_from_slice(&ticket.to_le_bytes());
        out.extend_from_slice(&(parts.len() as u32).to_le_bytes());
        for part in parts {
            out.extend_from_slice(&part.partition.0.to_le_bytes());
            out.extend_from_slice(&part.epoch.0.to_le_bytes());
            out.extend_from_slice(&part.sequence.0.to_le_bytes());
            out.extend_from_slice(&(part.changes.len() as u32).to_le_bytes());
            out.extend_from_slice(part.changes);
        }
    });
}

pub fn write_schema(out: &mut Vec<u8>, version: u64, time: i64, text: &str) {
    framed(out, KIND_SCHEMA, |out| {
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&time.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    });
}

/// `places`: where each partition's history is, in their order; `groups`: where streams are.
pub fn write_checkpoint(
    out: &mut Vec<u8>,
    snapshot: u64,
    catalog_version: u64,
    places: &[(Epoch, Sequence)],
    groups: &[(GroupId, Mark)],
) {
    write_places(out, KIND_CHECKPOINT, snapshot, catalog_version, places, groups);
}

/// The same, of a snapshot that came from another node; 0: the earlier state continues.
pub fn write_installed(
    out: &mut Vec<u8>,
    snapshot: u64,
    catalog_version: u64,
    places: &[(Epoch, Sequence)],
    groups: &[(GroupId, Mark)],
) {
    write_places(out, KIND_INSTALLED, snapshot, catalog_version, places, groups);
}

/// Of a copy: what its snapshot does not show comes after this record.
pub fn write_copy_checkpoint(out: &mut Vec<u8>, snapshot: u64, groups: &[(GroupId, Mark)]) {
    framed(out, KIND_COPY_CHECKPOINT, |out| {
        out.extend_from_slice(&snapshot.to_le_bytes());
        put_groups(out, groups);
    });
}

/// Is alone in its entry.
pub fn write_content_mark(out: &mut Vec<u8>, snapshot: u64) {
    framed(out, KIND_CONTENT_MARK, |out| out.extend_from_slice(&snapshot.to_le_bytes()));
}

pub fn write_content_hashes(out: &mut Vec<u8>, hashes: &ContentHashes) {
    framed(out, KIND_CONTENT_HASHES, |out| {
        out.extend_from_slice(&hashes.epoch.0.to_le_bytes());
        out.extend_from_slice(&hashes.position.0.to_le_bytes());
        out.extend_from_slice(&(hashes.tables.len() as u32).to_le_bytes());
        for (table, hash) in &hashes.tables {
            out.extend_from_slice(&table.0.to_le_bytes());
            out.extend_from_slice(&hash.to_le_bytes());
        }
    });
}

pub fn write_lot(out: &mut Vec<u8>, record: &lot::Record<Vec<u8>>) {
    framed(out, record.kind(), |out| record.encode(out));
}

fn put_groups(out: &mut Vec<u8>, groups: &[(GroupId, Mark)]) {
    out.extend_from_slice(&(groups.len() as u32).to_le_bytes());
    for (group, mark) in groups {
        out.extend_from_slice(&group.0.to_le_bytes());
        out.extend_from_slice(&mark.epoch.0.to_le_bytes());
        out.extend_from_slice(&mark.position.0.to_le_bytes());
        out.extend_from_slice(&mark.chain.to_le_bytes());
    }
}

fn write_places(
    out: &mut Vec<u8>,
    kind: u8,
    snapshot: u64,
    catalog_version: u64,
    places: &[(Epoch, Sequence)],
    groups: &[(GroupId, Mark)],
) {
    framed(out, kind, |out| {
        out.extend_from_slice(&snapshot.to_le_bytes());
        out.extend_from_slice(&catalog_version.to_le_bytes());
        out.extend_from_slice(&(places.len() as u32).to_le_bytes());
        for (epoch, sequence) in places {
            out.extend_from_slice(&epoch.0.to_le_bytes());
            out.extend_from_slice(&sequence.0.to_le_bytes());
        }
        put_groups(out, groups);
    });
}

impl From<ReadFault> for RecordError {
    fn from(fault: ReadFault) -> RecordError {
        RecordError::Malformed(match fault {
            ReadFault::EndsEarly => "a record ends early",
            ReadFault::LeftOver => "bytes are left over at the end of a record",
            ReadFault::Malformed(reason) => reason,
        })
    }
}

fn read_groups(body: &mut Reader<'_, RecordError>) -> Result<Vec<(GroupId, Mark)>, RecordError> {
    body.list(usize::MAX, |body| {
        let group = GroupId(body.u32()?);
        let epoch = Epoch(body.u64()?);
        let position = Position(body.u64()?);
        Ok((group, Mark { epoch, position, chain: body.u32()? }))
    })
}

/// What database this is.
fn read_genesis(body: &mut Reader<'_, RecordError>) -> Result<Genesis, RecordError> {
    let version = body.u32()?;
    if !(FORMAT_VERSION_OLDEST..=FORMAT_VERSION).contains(&version) {
        return Err(RecordError::Malformed("the log was written in a record format that this version does not know"));
    }
    let partitions = body.u32()?;
    let created_ms = body.u64()?;
    let database_id = body.array()?;
    if partitions == 0 || partitions as usize > limits::PARTITIONS_MAX {
        return Err(RecordError::Malformed("the number of partitions is out of range"));
    }
    let groups = if version <= FORMAT_VERSION_ONE_GROUP { GroupMap::single(partitions) } else { GroupMap::read(body)? };
    body.end()?;
    let fits = groups.partitions() == partitions && (version <= FORMAT_VERSION_ONE_GROUP || !groups.is_single());
    if !fits {
        return Err(RecordError::Malformed("the groups of a database are not those of its partitions"));
    }
    Ok(Genesis { groups, created_ms, database_id })
}

/// A transaction over several partitions.
fn read_multi<'a>(body: &mut Reader<'a, RecordError>) -> Result<Record<'a>, RecordError> {
    let ticket = body.u64()?;
    let parts = body.list(usize::MAX, |body| {
        let partition = PartitionId(body.u32()?);
        let epoch = Epoch(body.u64()?);
        let sequence = Sequence(body.u64()?);
        let length = body.u32()? as usize;
        Ok(Part { partition, epoch, sequence, changes: body.bytes(length)? })
    })?;
    body.end()?;
    Ok(Record::Multi { ticket, parts })
}

/// A snapshot that begins here, of a leader or of a copy that has taken it.
fn read_checkpoint<'a>(kind: u8, body: &mut Reader<'a, RecordError>) -> Result<Record<'a>, RecordError> {
    let snapshot = body.u64()?;
    let catalog_version = body.u64()?;
    let places = body.list(usize::MAX, |body| Ok((Epoch(body.u64()?), Sequence(body.u64()?))))?;
    let groups = if body.is_empty() { Vec::new() } else { read_groups(body)? };
    body.end()?;
    Ok(match kind {
        KIND_CHECKPOINT => Record::Checkpoint { snapshot, catalog_version, places, groups },
        _ => Record::Installed { snapshot, catalog_version, places, groups },
    })
}

/// What the tables held where the leader marked the stream.
fn read_content_hashes<'a>(body: &mut Reader<'a, RecordError>) -> Result<Record<'a>, RecordError> {
    let epoch = Epoch(body.u64()?);
    let position = Position(body.u64()?);
    let tables = body.list(usize::MAX, |body| Ok((TableId(body.u32()?), body.u32()?)))?;
    body.end()?;
    Ok(Record::ContentHashes(ContentHashes { epoch, position, tables }))
}

/// Takes the next record off `payload`; None at its end.
pub fn next_record<'a>(payload: &mut &'a [u8]) -> Result<Option<Record<'a>>, RecordError> {
    if payload.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader::<RecordError>::new(payload);
    let kind = reader.u8()?;
    let length = reader.u32()? as usize;
    let mut body = Reader::<RecordError>::new(reader.bytes(length)?);
    *payload = reader.rest();
    let record = match kind {
        KIND_GENESIS => Record::Genesis(read_genesis(&mut body)?),
        KIND_BATCH => Record::Batch {
            partition: PartitionId(body.u32()?),
            epoch: Epoch(body.u64()?),
            first: Sequence(body.u64()?),
            count: body.u32()?,
            transactions: body.rest(),
        },
        KIND_MULTI => read_multi(&mut body)?,
        KIND_SCHEMA => {
            let version = body.u64()?;
            let time = body.i64()?;
            let text =
                std::str::from_utf8(body.rest()).map_err(|_| RecordError::Malformed("a schema record is not UTF-8"))?;
            Record::Schema { version, time, text }
        }
        KIND_CHECKPOINT | KIND_INSTALLED => read_checkpoint(kind, &mut body)?,
        KIND_COPY_CHECKPOINT => {
            let snapshot = body.u64()?;
            let groups = read_groups(&mut body)?;
            body.end()?;
            Record::CopyCheckpoint { snapshot, groups }
        }
        KIND_CONTENT_MARK => {
            let snapshot = body.u64()?;
            body.end()?;
            Record::ContentMark { snapshot }
        }
        KIND_CONTENT_HASHES => read_content_hashes(&mut body)?,
        lot::KIND_PREPARED..=lot::KIND_SETTLED => Record::Lot(lot::Record::decode(kind, body.rest())?),
        KIND_ENTRY | KIND_EPOCH_START => {
            Record::Entry(Entry::decode(kind, body.rest()).map_err(|error| RecordError::Malformed(error.0))?)
        }
        _ => return Err(RecordError::Kind(kind)),
    };
    Ok(Some(record))
}

/// Takes the next transaction's row changes off a batch's `transactions`; None at its end.
pub fn next_transaction<'a>(transactions: &mut &'a [u8]) -> Result<Option<&'a [u8]>, RecordError> {
    if transactions.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader::<RecordError>::new(transactions);
    let length = reader.u32()? as usize;
    let changes = reader.bytes(length)?;
    *transactions = reader.rest();
    Ok(Some(changes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes() -> ContentHashes {
        ContentHashes { epoch: Epoch(3), position: Position(9), tables: vec![(TableId(1), 7), (TableId(4), 8)] }
    }

    fn genesis(groups: &[u32]) -> Genesis {
        let groups = GroupMap::new(groups.iter().copied().map(GroupId).collect()).expect("groups without a gap");
        Genesis { groups, created_ms: 7, database_id: [9; 16] }
    }

    fn sample() -> Vec<u8> {
        let mut out = Vec::new();
        write_genesis(&mut out, &genesis(&[0, 0, 0]));
        let mut batch = BatchWriter::begin(&mut out, PartitionId(2), Epoch(1), Sequence(10));
        batch.transaction(&mut out, |out| out.extend_from_slice(b"first"));
        batch.transaction(&mut out, |_| {});
        batch.finish(&mut out);
        BatchWriter::begin(&mut out, PartitionId(0), Epoch(1), Sequence(1)).finish(&mut out);
        let part = Part { partition: PartitionId(1), epoch: Epoch(1), sequence: Sequence(4), changes: b"xyz" };
        write_multi(&mut out, 5, &[part, Part { partition: PartitionId(0), ..part }]);
        write_schema(&mut out, 2, 1234, "CREATE TABLE t (a INTEGER)");
        let end = Mark { epoch: Epoch(3), position: Position(8), chain: 21 };
        write_checkpoint(&mut out, 6, 2, &[(Epoch(1), Sequence(4)), (Epoch(1), Sequence(11))], &[(GroupId(0), end)]);
        write_copy_checkpoint(&mut out, 7, &[(GroupId(0), end)]);
        write_content_mark(&mut out, 8);
        write_content_hashes(&mut out, &hashes());
        out
    }

    #[test]
    fn records_read_back_as_written() {
        let bytes = sample();
        let mut rest = &bytes[..];
        let mut records = Vec::new();
        while let Some(record) = next_record(&mut rest).unwrap() {
            records.push(record);
        }
        assert_eq!(records.len(), 8, "the empty batch leaves nothing");
        let Record::Batch { first: Sequence(10), count: 2, mut transactions, .. } = records[1] else {
            panic!("{records:?}")
        };
        assert_eq!(next_transaction(&mut transactions), Ok(Some(&b"first"[..])));
        assert_eq!(next_transaction(&mut transactions), Ok(Some(&b""[..])));
        assert_eq!(next_transaction(&mut transactions), Ok(None));
        assert!(matches!(&records[2], Record::Multi { ticket: 5, parts } if parts[1].changes == b"xyz"));
        assert!(matches!(records[3], Record::Schema { version: 2, time: 1234, .. }));
        let Record::Checkpoint { snapshot: 6, catalog_version: 2, places, groups } = &records[4] else {
            panic!("{records:?}")
        };
        assert_eq!(places[1], (Epoch(1), Sequence(11)));
        assert_eq!(groups[0].1.position, Position(8));
        assert!(matches!(&records[5], Record::CopyCheckpoint { snapshot: 7, groups: same } if same == groups));
        assert_eq!(records[6..], [Record::ContentMark { snapshot: 8 }, Record::ContentHashes(hashes())]);
    }

    /// A database of one group is founded as releases before did: an earlier one opens it.
    #[test]
    fn the_record_of_founding_has_groups_where_there_are_several() {
        let mut one = Vec::new();
        write_genesis(&mut one, &genesis(&[0, 0, 0]));
        let mut expected = vec![KIND_GENESIS, 32, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        expected.extend_from_slice(&[9; 16]);
        assert_eq!(one, expected);
        let several = genesis(&[1, 0, 1]);
        let mut bytes = Vec::new();
        write_genesis(&mut bytes, &several);
        assert_eq!(next_record(&mut &bytes[..]), Ok(Some(Record::Genesis(several))));
        // What no writer leaves: one group in the new form, a partition without a group, a version
        // to come.
        let version = |bytes: &[u8], version: u8| [&bytes[..5], &[version], &bytes[6..]].concat();
        let mut whole = one.clone();
        whole[1] += 16;
        GroupMap::single(3).put(&mut whole);
        let mut other = bytes.clone();
        other[9] = 2;
        for wrong in [version(&whole, 3), version(&bytes, 2), version(&bytes, 4), other] {
            assert!(matches!(next_record(&mut &wrong[..]), Err(RecordError::Malformed(_))), "{wrong:?}");
        }
    }

    #[test]
    fn every_truncation_is_an_error_or_a_clean_end() {
        let bytes = sample();
        for end in 0..bytes.len() {
            let mut rest = &bytes[..end];
            while let Ok(Some(record)) = next_record(&mut rest) {
                if let Record::Batch { mut transactions, .. } = record {
                    while let Ok(Some(_)) = next_transaction(&mut transactions) {}
                }
            }
        }
    }
}
