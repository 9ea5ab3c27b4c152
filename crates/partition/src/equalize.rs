//! How copies of replicated tables are compared and made equal over groups, as bytes
//! (docs/decisions/0129, docs/format/lots.md): what a lot asks of each group, and what the group
//! answers.
//!
//! The rows of a table are divided into *buckets* by a hash of their values, so that what differs
//! is found, and replaced, in pieces. A row is its values as a record of the log has them: equal
//! rows are equal bytes, wherever they lie.

use crate::lots::{put_bytes, put_count, read_bytes};
use ferrite_base::bytes::{ReadFault, Reader};
use ferrite_base::{GroupId, TableId};
use ferrite_value::{SqlType, Value};
use ferrite_wire::{Table, TableHeader, TableWriter};
use std::collections::BTreeMap;

/// Of one table.
pub const BUCKETS_MAX: u32 = 1 << 16;
/// Of a table's list, as it is read.
const LIST_MAX: usize = 1 << 24;
/// Of one row of an answer.
const PIECE_BYTES: usize = 512 * 1024;

/// What a lot has each group do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EqualizeStep {
    /// Say what the tables have, each in so many buckets. None: all replicated tables, in one.
    Digest(Vec<(TableId, u32)>),
    /// One group: show the rows of these buckets.
    Rows { source: GroupId, table: TableId, buckets: u32, wanted: Vec<u32> },
    /// Have these rows, and no others, in these buckets. Nothing is changed any more after so many
    /// bytes of changes. Refused by a group of `unequal` whose copies are in use again.
    Replace {
        unequal: Vec<GroupId>,
        table: TableId,
        buckets: u32,
        wanted: Vec<u32>,
        bytes_max: u64,
        rows: Vec<CountedRow>,
    },
}

/// Equal rows, and how many they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountedRow {
    pub count: u64,
    pub row: Vec<u8>,
}

/// What is in a bucket, of all stores of a group together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct BucketDigest {
    pub rows: u64,
    pub bytes: u64,
    /// The sum of the rows' hashes: in whichever order they lie.
    pub hash: u128,
}

/// What a group says of its tables: by bucket, without the empty ones.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GroupDigest {
    /// Each has a copy. At least one.
    pub stores: u32,
    /// The group refuses calls of replicated tables.
    pub is_unequal: bool,
    pub tables: BTreeMap<TableId, BTreeMap<u32, BucketDigest>>,
}

/// Of a row's values: the same in every process and release, since nodes compare it.
pub fn row_hash(row: &[u8]) -> u128 {
    let lane = |seed: u64, factor: u64| {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let mut hash = seed ^ row.len() as u64;
        for chunk in row.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = fold(hash ^ u64::from_le_bytes(word), factor).wrapping_add(seed);
        }
        fold(hash ^ seed, factor)
    };
    let high = lane(0x9e37_79b9_7f4a_7c15, 0xa076_1d64_78bd_642f);
    let low = lane(0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3);
    u128::from(high) << 64 | u128::from(low)
}

/// In which of so many buckets a row is.
pub fn bucket_of(hash: u128, buckets: u32) -> u32 {
    ((hash >> 96) as u32) % buckets.max(1)
}

impl BucketDigest {
    pub fn add(&mut self, row: &[u8], hash: u128) {
        self.rows += 1;
        self.bytes += row.len() as u64;
        self.hash = self.hash.wrapping_add(hash);
    }

    /// Whether every store of one group has what every store of the other has. What is in one store
    /// and not in another of the same group does not even out: all lack some of the same rows, or
    /// have some more than those.
    fn is_equal(&self, stores: u32, other: &BucketDigest, other_stores: u32) -> bool {
        let all = |digest: &BucketDigest, times: u32| {
            (u128::from(digest.rows) * u128::from(times), digest.hash.wrapping_mul(u128::from(times)))
        };
        all(self, other_stores) == all(other, stores)
    }
}

impl GroupDigest {
    /// By table, the buckets that differ, each with the bytes that a store has there at most.
    pub fn differences(&self, other: &GroupDigest) -> BTreeMap<TableId, BTreeMap<u32, u64>> {
        let empty = BTreeMap::new();
        let nothing = BucketDigest::default();
        let mut differences = BTreeMap::<TableId, BTreeMap<u32, u64>>::new();
        for table in self.tables.keys().chain(other.tables.keys()) {
            let own = self.tables.get(table).unwrap_or(&empty);
            let others = other.tables.get(table).unwrap_or(&empty);
            for bucket in own.keys().chain(others.keys()) {
                let one = own.get(bucket).unwrap_or(&nothing);
                let another = others.get(bucket).unwrap_or(&nothing);
                if !one.is_equal(self.stores, another, other.stores) {
                    let of_store = |digest: &BucketDigest, stores: u32| digest.bytes / u64::from(stores.max(1));
                    let bytes = of_store(one, self.stores).max(of_store(another, other.stores));
                    differences.entry(*table).or_default().insert(*bucket, bytes);
                }
            }
        }
        differences
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_u32(&mut out, self.stores);
        out.push(u8::from(self.is_unequal));
        put_count(&mut out, self.tables.len());
        for (table, buckets) in &self.tables {
            put_u32(&mut out, table.0);
            put_count(&mut out, buckets.len());
            for (bucket, BucketDigest { rows, bytes, hash }) in buckets {
                put_u32(&mut out, *bucket);
                out.extend_from_slice(&rows.to_le_bytes());
                out.extend_from_slice(&bytes.to_le_bytes());
                out.extend_from_slice(&hash.to_le_bytes());
            }
        }
        out
    }

    /// # Errors
    /// No group writes this.
    pub fn decode(bytes: &[u8]) -> Result<GroupDigest, ReadFault> {
        let from = &mut Reader::<ReadFault>::new(bytes);
        let stores = from.u32()?;
        let is_unequal = from.flag()?;
        let tables = from.list(LIST_MAX, |from| {
            let table = TableId(from.u32()?);
            let buckets = from.list(BUCKETS_MAX as usize, |from| {
                let bucket = from.u32()?;
                let rows = from.u64()?;
                let bytes = from.u64()?;
                Ok((bucket, BucketDigest { rows, bytes, hash: u128::from_le_bytes(from.array()?) }))
            })?;
            Ok((table, each_once(buckets)?))
        })?;
        from.end()?;
        if stores == 0 {
            return Err(ReadFault::Malformed("a group without stores has no digest"));
        }
        Ok(GroupDigest { stores, is_unequal, tables: each_once(tables)? })
    }
}

impl EqualizeStep {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            EqualizeStep::Digest(tables) => {
                out.push(0);
                put_count(&mut out, tables.len());
                for (table, buckets) in tables {
                    put_u32(&mut out, table.0);
                    put_u32(&mut out, *buckets);
                }
            }
            EqualizeStep::Rows { source, table, buckets, wanted } => {
                out.push(1);
                put_u32(&mut out, source.0);
                put_buckets(&mut out, *table, *buckets, wanted);
            }
            EqualizeStep::Replace { unequal, table, buckets, wanted, bytes_max, rows } => {
                out.push(2);
                put_count(&mut out, unequal.len());
                unequal.iter().for_each(|group| put_u32(&mut out, group.0));
                put_buckets(&mut out, *table, *buckets, wanted);
                out.extend_from_slice(&bytes_max.to_le_bytes());
                out.extend_from_slice(&encode_rows(rows));
            }
        }
        out
    }

    /// # Errors
    /// No sequencer writes this.
    pub fn decode(bytes: &[u8]) -> Result<EqualizeStep, ReadFault> {
        let from = &mut Reader::<ReadFault>::new(bytes);
        let step = match from.u8()? {
            0 => EqualizeStep::Digest(from.list(LIST_MAX, |from| Ok((TableId(from.u32()?), buckets(from)?)))?),
            1 => EqualizeStep::Rows {
                source: GroupId(from.u32()?),
                table: TableId(from.u32()?),
                buckets: buckets(from)?,
                wanted: from.list(BUCKETS_MAX as usize, Reader::u32)?,
            },
            2 => EqualizeStep::Replace {
                unequal: from.list(LIST_MAX, |from| from.u32().map(GroupId))?,
                table: TableId(from.u32()?),
                buckets: buckets(from)?,
                wanted: from.list(BUCKETS_MAX as usize, Reader::u32)?,
                bytes_max: from.u64()?,
                rows: read_rows(from)?,
            },
            _ => return Err(ReadFault::Malformed("a step of making tables equal is unknown")),
        };
        from.end()?;
        Ok(step)
    }
}

fn each_once<K: Ord, V>(pairs: Vec<(K, V)>) -> Result<BTreeMap<K, V>, ReadFault> {
    let named = pairs.len();
    let all: BTreeMap<K, V> = pairs.into_iter().collect();
    if all.len() == named { Ok(all) } else { Err(ReadFault::Malformed("a table or bucket is named twice")) }
}

fn buckets(from: &mut Reader<'_>) -> Result<u32, ReadFault> {
    match from.u32()? {
        buckets @ 1..=BUCKETS_MAX => Ok(buckets),
        _ => Err(ReadFault::Malformed("a table is divided into an impossible number of buckets")),
    }
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_buckets(out: &mut Vec<u8>, table: TableId, buckets: u32, wanted: &[u32]) {
    put_u32(out, table.0);
    put_u32(out, buckets);
    put_count(out, wanted.len());
    wanted.iter().for_each(|bucket| put_u32(out, *bucket));
}

pub fn encode_rows(rows: &[CountedRow]) -> Vec<u8> {
    let mut out = Vec::new();
    put_count(&mut out, rows.len());
    for CountedRow { count, row } in rows {
        out.extend_from_slice(&count.to_le_bytes());
        put_bytes(&mut out, row);
    }
    out
}

/// # Errors
/// No group writes this.
pub fn decode_rows(bytes: &[u8]) -> Result<Vec<CountedRow>, ReadFault> {
    let from = &mut Reader::<ReadFault>::new(bytes);
    let rows = read_rows(from)?;
    from.end()?;
    Ok(rows)
}

fn read_rows(from: &mut Reader<'_>) -> Result<Vec<CountedRow>, ReadFault> {
    from.list(LIST_MAX, |from| {
        let count = from.u64()?;
        Ok(CountedRow { count, row: read_bytes(from)?.to_vec() })
    })
}

fn header() -> TableHeader {
    TableHeader::new([("GROUP", SqlType::Bigint), ("DATA", SqlType::Varbinary)])
}

/// What a group says, as a table with its length in front: the tables of all groups follow one
/// another.
pub fn as_table(group: GroupId, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let header = header();
    let mut table = TableWriter::begin(&mut out, &header);
    for piece in bytes.chunks(PIECE_BYTES) {
        // What is too large is refused with the whole answer.
        let _ = table.row(&[Value::Integer(i64::from(group.0)), Value::Bytes(piece)]);
    }
    table.finish();
    out
}

/// By group, what [`as_table`] was given, of the tables of all groups. None: it is no such table.
pub fn of_table(table: &Table<'_>) -> Option<BTreeMap<GroupId, Vec<u8>>> {
    let mut said = BTreeMap::<GroupId, Vec<u8>>::new();
    for row in table.rows() {
        let row = row.ok()?;
        let cells: Vec<Value<'_>> = row.cells().collect::<Result<_, _>>().ok()?;
        let [Value::Integer(group), Value::Bytes(piece)] = cells[..] else { return None };
        said.entry(GroupId(u32::try_from(group).ok()?)).or_default().extend_from_slice(piece);
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_digests_are_read_as_they_were_written() {
        let table = TableId(7);
        let rows = vec![CountedRow { count: 2, row: b"a row".to_vec() }];
        for step in [
            EqualizeStep::Digest(Vec::new()),
            EqualizeStep::Digest(vec![(table, 1), (TableId(9), BUCKETS_MAX)]),
            EqualizeStep::Rows { source: GroupId(1), table, buckets: 4, wanted: vec![0, 3] },
            EqualizeStep::Replace {
                unequal: vec![GroupId(1)],
                table,
                buckets: 4,
                wanted: vec![0, 3],
                bytes_max: 9,
                rows: rows.clone(),
            },
        ] {
            let bytes = step.encode();
            assert_eq!(EqualizeStep::decode(&bytes), Ok(step));
            assert!((0..bytes.len()).all(|end| EqualizeStep::decode(&bytes[..end]).is_err()));
        }
        assert!(EqualizeStep::decode(&EqualizeStep::Digest(vec![(table, 0)]).encode()).is_err());
        assert_eq!(decode_rows(&encode_rows(&rows)), Ok(rows));
        let digest = GroupDigest {
            stores: 2,
            is_unequal: true,
            tables: [(table, [(3, BucketDigest { rows: 1, bytes: 2, hash: 3 })].into())].into(),
        };
        assert_eq!(GroupDigest::decode(&digest.encode()), Ok(digest.clone()));
        assert!(GroupDigest::decode(&GroupDigest { stores: 0, ..digest }.encode()).is_err());
    }

    /// A group with so many stores, all of which have these rows.
    fn digest(stores: u32, rows: &[&str]) -> GroupDigest {
        let mut buckets = BTreeMap::<u32, BucketDigest>::new();
        for row in rows.iter().flat_map(|row| (0..stores).map(|_| row.as_bytes())) {
            let hash = row_hash(row);
            buckets.entry(bucket_of(hash, 4)).or_default().add(row, hash);
        }
        GroupDigest { stores, is_unequal: false, tables: [(TableId(1), buckets)].into() }
    }

    #[test]
    fn groups_are_compared_store_by_store_whatever_the_order_of_their_rows() {
        let rows = ["one", "two", "three", "three"];
        let source = digest(3, &rows);
        assert!(source.differences(&digest(2, &["three", "one", "three", "two"])).is_empty());
        for other in [&["one", "two", "three"][..], &["one", "two", "three", "two"], &[], &["four"]] {
            assert!(!source.differences(&digest(2, other)).is_empty(), "{other:?}");
        }
        let bytes: u64 = digest(2, &[]).differences(&source).values().flat_map(BTreeMap::values).sum();
        assert_eq!(bytes, 16, "of one store");
    }

    #[test]
    fn hashes_of_rows_tell_them_apart() {
        let hashes: std::collections::BTreeSet<u128> =
            (0..20_000_u32).map(|number| row_hash(format!("row {number}").as_bytes())).collect();
        assert_eq!(hashes.len(), 20_000);
        assert_ne!(row_hash(&[0]), row_hash(&[0, 0]));
        assert_eq!(
            row_hash(b"a row of more than one word"),
            0x8766_7dbb_9f7f_0aaa_d39a_7b07_3e91_b32d,
            "nodes of all releases compare it"
        );
        let full: std::collections::BTreeSet<u32> = hashes.iter().map(|hash| bucket_of(*hash, 64)).collect();
        assert_eq!(full.len(), 64);
    }

    #[test]
    fn what_groups_say_comes_in_tables_that_follow_one_another() {
        let large = vec![5; PIECE_BYTES + 1];
        let table = as_table(GroupId(3), &large);
        let said = of_table(&Table::parse(&table[4..]).expect("a table")).expect("of groups");
        assert_eq!(said, [(GroupId(3), large)].into());
    }
}
