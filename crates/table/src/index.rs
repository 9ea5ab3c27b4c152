//! One index of one table: computes keys of rows, refuses duplicates, finds rows.
//!
//! Hash indexes on plain columns are a [`HashTable`]; all others are ordered. Of the unique ones
//! those on plain columns that are not one integer have a hash table beside their order
//! ([`BytesMap`]). In a unique index NULLs equal one another.

use crate::bytes_map::BytesMap;
use crate::evaluation::{ColumnSet, KeyPart, Rows as RowContext};
use crate::hash_table::{HashTable, NO_TAG, tag_of};
use crate::hashing::{hash_integer, hash_values};
use crate::integer_map::IntegerMap;
use crate::key_bytes::{KeyBuffer, KeyBytes, append_part, ordered_integer};
use crate::layout::{RowLayout, Storage};
use crate::look_up::{Inner, Part, Rows, bytes_range, equal_in_kind, integer_of, integer_range};
use crate::row::{RowStore, SourceRow};
use crate::tags::{Tag, Unknown};
use bumpalo::Bump;
use ferrite_base::{RowId, UserResult};
use ferrite_catalog::{Index, IndexKind, Table};
use ferrite_value::Value;
use std::collections::BTreeSet;

/// Where an index looks for a key by its hash.
#[derive(Clone, Copy)]
pub struct HashedKey(u32);

/// A row's key as one index keeps it.
#[derive(Clone, PartialEq)]
pub(crate) enum EncodedKey {
    /// A partial index does not have this row.
    NotIndexed,
    /// Only a hash: equal tags do not mean equal keys.
    Tag(u32),
    Integer(u64),
    /// With the tag where the index has a hash table, else [`NO_TAG`].
    Bytes(KeyBytes, u32),
}

pub(crate) enum Structure {
    Hash(HashTable),
    UniqueIntegers(IntegerMap),
    Integers(BTreeSet<(u64, u32)>),
    UniqueBytes(BytesMap),
    Bytes(BTreeSet<(KeyBytes, u32)>),
}

/// Keys of all rows of a table, in the order in which they came.
pub(crate) enum SortedKeys {
    Integers(Vec<(u64, u32)>),
    /// With tags and rows beside them.
    Bytes(Vec<(KeyBytes, u32)>, Vec<(u32, u32)>),
}

impl SortedKeys {
    pub(crate) fn push(&mut self, key: EncodedKey, row: RowId) {
        match (self, key) {
            (_, EncodedKey::NotIndexed) => {}
            (SortedKeys::Integers(keys), EncodedKey::Integer(key)) => keys.push((key, row.0)),
            (SortedKeys::Bytes(keys, tags), EncodedKey::Bytes(key, tag)) => {
                keys.push((key, row.0));
                if tag != NO_TAG {
                    tags.push((tag, row.0));
                }
            }
            _ => unreachable!("keys come from the index that they are given to"),
        }
    }
}

pub(crate) struct IndexData {
    pub(crate) definition: Index,
    pub(crate) parts: Vec<Part>,
    /// The parts' columns where all are plain.
    columns: Box<[u16]>,
    /// The only part is an integer-like column that cannot be NULL.
    single_integer: bool,
    /// Columns that decide the key or whether a row is in the index.
    pub(crate) reads: ColumnSet,
    /// The same as a list.
    pub(crate) read_columns: Box<[u16]>,
    pub(crate) structure: Structure,
}

impl IndexData {
    pub(crate) fn new(definition: &Index, layout: &RowLayout) -> IndexData {
        let mut reads = ColumnSet::default();
        definition.keys.iter().chain(&definition.predicate).for_each(|key| reads.add_expression(key, 0));
        let parts: Vec<Part> = definition
            .keys
            .iter()
            .map(|expression| {
                let key = KeyPart::new(expression);
                match key.column().map(|column| &layout.columns[column as usize]) {
                    Some(column) => Part { key, nullable: column.nullable(), kind: Some(column.storage) },
                    None => Part { key, nullable: true, kind: None },
                }
            })
            .collect();
        let columns: Option<Box<[u16]>> = parts.iter().map(|part| part.key.column()).collect();
        let single_integer = parts.len() == 1 && !parts[0].nullable && parts[0].kind.is_some_and(is_integer_like);
        let structure = match (definition.kind, definition.unique) {
            (IndexKind::Hash, _) if columns.is_some() => Structure::Hash(HashTable::new()),
            (_, true) if single_integer => Structure::UniqueIntegers(IntegerMap::default()),
            (_, false) if single_integer => Structure::Integers(BTreeSet::new()),
            (_, true) => Structure::UniqueBytes(BytesMap::new(columns.is_some())),
            (_, false) => Structure::Bytes(BTreeSet::new()),
        };
        let columns = columns.unwrap_or_default();
        let read_columns = (0..layout.columns.len() as u16).filter(|column| reads.contains(*column)).collect();
        IndexData { definition: definition.clone(), parts, columns, single_integer, reads, read_columns, structure }
    }

    /// Where the keys of all rows are gathered for [`IndexData::fill`]. None for hash indexes,
    /// which take them one by one.
    pub(crate) fn sorted_keys(&self, rows: usize) -> Option<SortedKeys> {
        match &self.structure {
            Structure::Hash(_) => None,
            Structure::UniqueIntegers(_) | Structure::Integers(_) => {
                Some(SortedKeys::Integers(Vec::with_capacity(rows)))
            }
            Structure::UniqueBytes(map) => {
                let tags = map.by_hash().map_or(0, |_| rows);
                Some(SortedKeys::Bytes(Vec::with_capacity(rows), Vec::with_capacity(tags)))
            }
            Structure::Bytes(_) => Some(SortedKeys::Bytes(Vec::with_capacity(rows), Vec::new())),
        }
    }

    /// Fills an empty ordered index. Err: a row whose key an earlier one has, though the index is
    /// unique.
    pub(crate) fn fill(&mut self, keys: SortedKeys) -> Result<(), RowId> {
        fn sorted<K: Ord>(mut keys: Vec<(K, u32)>, unique: bool) -> Result<Vec<(K, u32)>, RowId> {
            keys.sort_unstable();
            let twice = keys.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).min();
            match twice {
                Some(row) if unique => Err(RowId(row)),
                _ => Ok(keys),
            }
        }
        let unique = self.is_unique();
        match (&mut self.structure, keys) {
            (Structure::UniqueIntegers(map), SortedKeys::Integers(keys)) => {
                *map = sorted(keys, unique)?.into_iter().collect();
            }
            (Structure::Integers(set), SortedKeys::Integers(keys)) => {
                *set = sorted(keys, unique)?.into_iter().collect()
            }
            (Structure::UniqueBytes(map), SortedKeys::Bytes(keys, tags)) => map.fill(sorted(keys, unique)?, &tags),
            (Structure::Bytes(set), SortedKeys::Bytes(keys, _)) => *set = sorted(keys, unique)?.into_iter().collect(),
            _ => unreachable!("keys come from the index that they are given to"),
        }
        Ok(())
    }

    pub(crate) fn is_unique(&self) -> bool {
        self.definition.unique
    }

    pub(crate) fn len(&self) -> usize {
        match &self.structure {
            Structure::Hash(table) => table.len(),
            Structure::UniqueIntegers(map) => map.len(),
            Structure::Integers(set) => set.len(),
            Structure::UniqueBytes(map) => map.len(),
            Structure::Bytes(set) => set.len(),
        }
    }

    /// Builds an ordered index anew, in nodes that are full and lie together. Takes time in
    /// proportion to its entries.
    pub(crate) fn rebuild(&mut self) {
        match &mut self.structure {
            Structure::Hash(_) => {}
            Structure::UniqueIntegers(map) => map.rebuild(),
            Structure::Integers(set) => *set = std::mem::take(set).into_iter().collect(),
            Structure::UniqueBytes(map) => map.rebuild(),
            Structure::Bytes(set) => *set = std::mem::take(set).into_iter().collect(),
        }
    }

    /// Bytes of memory, reckoned for the ordered ones: nodes of a B-tree are two thirds full.
    pub(crate) fn bytes(&self) -> usize {
        match &self.structure {
            Structure::Hash(table) => table.bytes(),
            Structure::UniqueIntegers(map) => map.bytes(),
            Structure::Integers(set) => set.len() * 16 * 3 / 2,
            Structure::UniqueBytes(map) => map.bytes(),
            Structure::Bytes(set) => {
                set.len() * 40 * 3 / 2 + set.iter().map(|entry| entry.0.heap_bytes()).sum::<usize>()
            }
        }
    }

    /// The key under which a row is, or would be, in this index.
    #[inline]
    pub(crate) fn key_of_row<'a>(&'a self, row: SourceRow<'a>, arena: &'a Bump) -> UserResult<EncodedKey> {
        if let Some(predicate) = &self.definition.predicate
            && !predicate.is_true(&RowContext::new(&[row], arena))?
        {
            return Ok(EncodedKey::NotIndexed);
        }
        if let Structure::Hash(_) = self.structure {
            return Ok(EncodedKey::Tag(match row {
                SourceRow::Given(values) => self.tag_of_values(|part| values[self.columns[part] as usize]),
                SourceRow::Stored(row) => self.tag_of_values(|part| row.column(self.columns[part])),
            }));
        }
        if self.single_integer {
            let value = self.parts[0].key.value(&[row], arena)?;
            let integer = integer_of(&value).expect("integer-like columns hold integers");
            return Ok(EncodedKey::Integer(ordered_integer(integer)));
        }
        let mut buffer = KeyBuffer::new();
        for part in &self.parts {
            append_part(&mut buffer, &part.key.value(&[row], arena)?, part.nullable);
        }
        let tag = self.tag_of_parts(|part| row.column(self.columns[part]));
        Ok(EncodedKey::Bytes(KeyBytes::new(buffer.as_slice()), tag))
    }

    #[inline(always)]
    fn tag_of_values<'v>(&self, value: impl Fn(usize) -> Value<'v>) -> u32 {
        if self.single_integer
            && let Some(integer) = integer_of(&value(0))
        {
            return tag_of(hash_integer(integer));
        }
        tag_of(hash_values(self.columns.len(), value))
    }

    /// Another row than `row` itself with the same key.
    #[inline]
    pub(crate) fn conflict(
        &self,
        key: &EncodedKey,
        row: SourceRow<'_>,
        itself: Option<RowId>,
        rows: &RowStore,
    ) -> Option<RowId> {
        let has_key = |candidate: RowId| {
            Some(candidate) != itself
                && match row {
                    SourceRow::Given(values) => {
                        self.equals(candidate, rows, |part| values[self.columns[part] as usize])
                    }
                    SourceRow::Stored(row) => self.equals(candidate, rows, |part| row.column(self.columns[part])),
                }
        };
        let found = match (&self.structure, key, self.by_hash()) {
            (_, EncodedKey::NotIndexed, _) => None,
            // In one place, so that it is inlined there.
            (_, EncodedKey::Tag(tag) | EncodedKey::Bytes(_, tag), Some(table)) => table.find(*tag, has_key),
            (Structure::UniqueIntegers(map), EncodedKey::Integer(key), _) => map.get(*key),
            (Structure::UniqueBytes(map), EncodedKey::Bytes(key, _), None) => map.get(key.as_slice()),
            _ => unreachable!("only unique indexes are asked for conflicts, with keys of their own"),
        };
        found.filter(|row| Some(*row) != itself)
    }

    #[inline]
    pub(crate) fn insert(&mut self, key: EncodedKey, row: RowId) {
        match (&mut self.structure, key) {
            (_, EncodedKey::NotIndexed) => {}
            (Structure::Hash(table), EncodedKey::Tag(tag)) => table.insert(tag, row),
            (Structure::UniqueIntegers(map), EncodedKey::Integer(key)) => map.insert(key, row),
            (Structure::Integers(set), EncodedKey::Integer(key)) => {
                set.insert((key, row.0));
            }
            (Structure::UniqueBytes(map), EncodedKey::Bytes(key, tag)) => map.insert(key, tag, row),
            (Structure::Bytes(set), EncodedKey::Bytes(key, _)) => {
                set.insert((key, row.0));
            }
            _ => unreachable!("keys come from the index that they are given to"),
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: EncodedKey, row: RowId) {
        let was_there = match (&mut self.structure, key) {
            (_, EncodedKey::NotIndexed) => true,
            (Structure::Hash(table), EncodedKey::Tag(tag)) => table.remove(tag, row),
            (Structure::UniqueIntegers(map), EncodedKey::Integer(key)) => map.remove(key, row),
            (Structure::Integers(set), EncodedKey::Integer(key)) => set.remove(&(key, row.0)),
            (Structure::UniqueBytes(map), EncodedKey::Bytes(key, tag)) => map.remove(&key, tag, row),
            (Structure::Bytes(set), EncodedKey::Bytes(key, _)) => set.remove(&(key, row.0)),
            _ => unreachable!("keys come from the index that they are given to"),
        };
        assert!(was_there, "index {} has every row", self.definition.name);
    }

    /// Whether the index has this row under this key.
    pub(crate) fn contains(&self, key: &EncodedKey, row: RowId) -> bool {
        match (&self.structure, key) {
            (_, EncodedKey::NotIndexed) => true,
            (Structure::Hash(table), EncodedKey::Tag(tag)) => table.find(*tag, |other| other == row).is_some(),
            (Structure::UniqueIntegers(map), EncodedKey::Integer(key)) => map.get(*key) == Some(row),
            (Structure::Integers(set), EncodedKey::Integer(key)) => set.contains(&(*key, row.0)),
            (Structure::UniqueBytes(map), EncodedKey::Bytes(key, tag)) => map.contains(key, *tag, row),
            (Structure::Bytes(set), EncodedKey::Bytes(key, _)) => set.contains(&(key.clone(), row.0)),
            _ => false,
        }
    }

    /// Has the row the key whose parts `value` gives? For indexes on plain columns.
    #[inline(always)]
    fn equals<'v>(&self, row: RowId, rows: &RowStore, value: impl Fn(usize) -> Value<'v>) -> bool {
        let bytes = rows.pages.row(row);
        let mut columns = self.columns.iter().enumerate();
        columns.all(|(part, column)| rows.layout.columns[*column as usize].equals(bytes, &rows.longs, &value(part)))
    }

    /// The one row with this whole key, whose parts `value` gives, of a unique index on plain
    /// columns, without predicate. NULLs are equal.
    #[inline(always)]
    pub(crate) fn find_group<'v>(&self, rows: &RowStore, value: impl Fn(usize) -> Value<'v>) -> Option<RowId> {
        match &self.structure {
            Structure::Hash(_) => self.find_hashed_group(rows, Unknown, &value).1,
            _ => self.find_ordered_group(rows, &value),
        }
    }

    /// The same for hash indexes, with the tag under which the row is, or would be. It is not
    /// worked out again where it is known.
    #[inline(always)]
    pub(crate) fn find_hashed_group<'v>(
        &self,
        rows: &RowStore,
        known: impl Tag,
        value: impl Fn(usize) -> Value<'v>,
    ) -> (u32, Option<RowId>) {
        let Structure::Hash(table) = &self.structure else { unreachable!("asked of hash indexes only") };
        let tag = match known.known() {
            NO_TAG => self.tag_of_values(&value),
            tag => tag,
        };
        (tag, table.find(tag, |candidate| self.equals(candidate, rows, &value)))
    }

    #[inline(never)]
    fn find_ordered_group<'v>(&self, rows: &RowStore, value: &dyn Fn(usize) -> Value<'v>) -> Option<RowId> {
        match &self.structure {
            Structure::UniqueIntegers(map) => {
                let integer = integer_of(&value(0)).expect("integer-like columns hold integers");
                map.get(ordered_integer(integer))
            }
            Structure::UniqueBytes(map) => match map.by_hash() {
                Some(table) => table.find(self.tag_of_values(value), |candidate| self.equals(candidate, rows, value)),
                None => unreachable!("the keys of groups are plain columns"),
            },
            _ => unreachable!("groups are found through unique indexes"),
        }
    }

    /// The commonest look-up, without an iterator around its one row: a whole key of a unique
    /// index, each value of the kind of its column. None: it is not of this sort, ask
    /// [`IndexData::look_up`].
    #[inline]
    pub(crate) fn look_up_one(&self, key: &[Value<'_>], rows: &RowStore) -> Option<Option<RowId>> {
        match (&self.structure, key) {
            (Structure::UniqueIntegers(map), [Value::Integer(wanted)]) if self.holds_integers() => {
                Some(map.get(ordered_integer(*wanted)))
            }
            (Structure::Hash(_), [Value::Integer(wanted)])
                if self.single_integer && self.definition.unique && self.holds_integers() =>
            {
                Some(self.find_hashed_group(rows, Unknown, |_| Value::Integer(*wanted)).1)
            }
            (Structure::UniqueBytes(map), _) => self.look_up_bytes(map, key, rows),
            _ => None,
        }
    }

    fn look_up_bytes(&self, map: &BytesMap, key: &[Value<'_>], rows: &RowStore) -> Option<Option<RowId>> {
        let table = map.by_hash().filter(|_| self.is_in_kind(key))?;
        let value = |part: usize| key[part];
        Some(table.find(self.tag_of_values(value), |candidate| self.equals(candidate, rows, value)))
    }

    /// A whole key, whose values are of the kinds that the index's columns hold, none of them NULL.
    #[inline]
    fn is_in_kind(&self, key: &[Value<'_>]) -> bool {
        let holds = |(part, value): (&Part, &Value<'_>)| part.kind.is_some_and(|kind| kind.holds(value));
        key.len() == self.parts.len() && self.parts.iter().zip(key).all(holds)
    }

    /// Where rows are found by the hash of their key.
    #[inline]
    pub(crate) fn by_hash(&self) -> Option<&HashTable> {
        match &self.structure {
            Structure::Hash(table) => Some(table),
            Structure::UniqueBytes(map) => map.by_hash(),
            _ => None,
        }
    }

    /// The same for changes that leave its entries as they are.
    pub(crate) fn by_hash_mut(&mut self) -> Option<&mut HashTable> {
        match &mut self.structure {
            Structure::Hash(table) => Some(table),
            Structure::UniqueBytes(map) => map.by_hash_mut(),
            _ => None,
        }
    }

    /// Whether all that it is made of has the same number of entries.
    pub(crate) fn is_in_step(&self) -> bool {
        match &self.structure {
            Structure::UniqueBytes(map) => map.is_in_step(),
            _ => true,
        }
    }

    /// The first part is a column of an integer type; timestamps and dates are ordered like
    /// integers but are not.
    #[inline]
    fn holds_integers(&self) -> bool {
        self.parts[0].kind.is_some_and(|kind| kind.holds(&Value::Integer(0)))
    }

    /// Rows whose whole key (for ordered indexes: whose first parts) equals `key`. A NULL finds
    /// nothing.
    #[inline]
    pub(crate) fn look_up<'s>(&'s self, key: &'s [Value<'s>], rows: &'s RowStore) -> Rows<'s> {
        let Structure::Hash(table) = &self.structure else {
            return self.range(key, None, None, false, false);
        };
        assert_eq!(key.len(), self.columns.len(), "a hash index is asked for whole keys");
        if let (true, true, [Value::Integer(wanted)]) = (self.single_integer, self.definition.unique, key) {
            return Rows::new(Inner::One(self.find_group(rows, |_| Value::Integer(*wanted))), false);
        }
        if key.iter().any(Value::is_null) {
            return Rows::empty();
        }
        // Numbers of another kind hash otherwise; those that no column value can equal find
        // nothing.
        let mut converted = [Value::Null; 4];
        let in_kind = |part: usize| equal_in_kind(key[part], self.parts[part].kind);
        if key.len() <= converted.len() {
            for (part, slot) in converted.iter_mut().take(key.len()).enumerate() {
                let Some(value) = in_kind(part) else { return Rows::empty() };
                *slot = value;
            }
        } else if (0..key.len()).any(|part| in_kind(part).is_none()) {
            return Rows::empty();
        }
        let tag = if key.len() <= converted.len() {
            self.tag_of_values(|part| converted[part])
        } else {
            self.tag_of_values(|part| in_kind(part).expect("tested above"))
        };
        Rows::new(Inner::Hash { candidates: table.candidates(tag), rows, columns: &self.columns, key }, false)
    }

    /// Rows in key order: equal in the first parts, within bounds (value, inclusive) in the next.
    /// NULL bounds the next part only as a lower one, meaning "not NULL"; any bound leaves NULLs
    /// out. `nulls_equal`: NULLs in `equal` find NULLs.
    pub(crate) fn range<'s>(
        &'s self,
        equal: &[Value<'_>],
        lower: Option<(Value<'_>, bool)>,
        upper: Option<(Value<'_>, bool)>,
        descending: bool,
        nulls_equal: bool,
    ) -> Rows<'s> {
        if !nulls_equal && equal.iter().any(Value::is_null) || upper.is_some_and(|bound| bound.0.is_null()) {
            return Rows::empty();
        }
        let inner = match &self.structure {
            Structure::Hash(_) => panic!("hash index {} has no order", self.definition.name),
            Structure::UniqueIntegers(map) => match integer_range(&self.parts[0], equal, lower, upper) {
                Some((least, greatest)) if least == greatest => Inner::One(map.get(least)),
                Some((least, greatest)) => Inner::UniqueIntegers(map.range(least, greatest)),
                None => Inner::One(None),
            },
            Structure::Integers(set) => match integer_range(&self.parts[0], equal, lower, upper) {
                Some((least, greatest)) => Inner::Integers(set.range((least, 0)..=(greatest, u32::MAX))),
                None => Inner::One(None),
            },
            Structure::UniqueBytes(map) => match bytes_range(&self.parts, equal, lower, upper) {
                Some(range) => Inner::UniqueBytes(map.range(range)),
                None => Inner::One(None),
            },
            Structure::Bytes(set) => match bytes_range(&self.parts, equal, lower, upper) {
                Some((start, end)) => Inner::Bytes(set.range((start.map(|key| (key, 0)), end.map(|key| (key, 0))))),
                None => Inner::One(None),
            },
        };
        Rows::new(inner, descending)
    }

    /// Where a whole key is looked for. None in indexes that do not find rows by hash, and for
    /// values of other kinds than the columns'.
    #[inline]
    pub(crate) fn hashed_key(&self, key: &[Value<'_>]) -> Option<HashedKey> {
        if let (true, Structure::Hash(_), [Value::Integer(wanted)]) = (self.single_integer, &self.structure, key) {
            return Some(HashedKey(tag_of(hash_integer(*wanted))));
        }
        let hashed = self.by_hash().is_some() && self.is_in_kind(key);
        hashed.then(|| HashedKey(self.tag_of_values(|part| key[part])))
    }

    /// Asks the processor to have the key's place at hand soon; only where rows are found by hash,
    /// as all that follows here.
    #[inline]
    pub(crate) fn prefetch(&self, key: HashedKey) {
        if let Some(table) = self.by_hash() {
            table.prefetch(key.0);
        }
    }

    /// Asks for the row too that a key may lead to; its bucket should be at hand by now.
    #[inline]
    pub(crate) fn prefetch_row(&self, key: HashedKey, rows: &RowStore) -> Option<RowId> {
        let row = self.by_hash()?.find(key.0, |_| true)?;
        rows.pages.prefetch(row);
        Some(row)
    }

    /// The tag under which a row is, or would be, whose values are given by column; [`NO_TAG`]
    /// where rows are not found by hash. Of a partial index it does not say whether the row is
    /// there.
    #[inline]
    pub(crate) fn tag_of_row<'v>(&self, value: impl Fn(u16) -> Value<'v>) -> u32 {
        self.tag_of_parts(|part| value(self.columns[part]))
    }

    /// The same for a key whose parts `value` gives.
    #[inline]
    pub(crate) fn tag_of_parts<'v>(&self, value: impl Fn(usize) -> Value<'v>) -> u32 {
        match self.by_hash() {
            Some(_) => self.tag_of_values(value),
            None => NO_TAG,
        }
    }

    /// [`IndexData::key_of_row`], where the tag may be known.
    #[inline]
    pub(crate) fn key_of_tagged_row<'a>(
        &'a self,
        tag: impl Tag,
        row: SourceRow<'a>,
        arena: &'a Bump,
    ) -> UserResult<EncodedKey> {
        match (tag.known(), &self.structure) {
            (NO_TAG, _) => self.key_of_row(row, arena),
            (tag, Structure::Hash(_)) if self.definition.predicate.is_none() => Ok(EncodedKey::Tag(tag)),
            _ => self.key_of_row(row, arena),
        }
    }

    /// [`IndexData::prefetch`] by tag.
    #[inline]
    pub(crate) fn prefetch_tag(&self, tag: u32) {
        if tag != NO_TAG {
            self.prefetch(HashedKey(tag));
        }
    }

    /// [`IndexData::prefetch_row`] by tag.
    #[inline]
    pub(crate) fn prefetch_row_of_tag(&self, tag: u32, rows: &RowStore) {
        if tag != NO_TAG {
            self.prefetch_row(HashedKey(tag), rows);
        }
    }
}

/// Whether an index of this definition finds the rows of whole keys by hash: [`HashedKey`] is for
/// these.
pub fn finds_by_hash(table: &Table, index: &Index) -> bool {
    let Some(columns) = index.key_columns() else { return false };
    let is_integer = |column: &u16| {
        let column = table.columns.get(usize::from(*column));
        column.is_some_and(|column| !column.nullable && is_integer_like(Storage::of(&column.column_type)))
    };
    index.kind == IndexKind::Hash || index.unique && !matches!(&columns[..], [column] if is_integer(column))
}

fn is_integer_like(kind: Storage) -> bool {
    matches!(
        kind,
        Storage::Tinyint | Storage::Smallint | Storage::Integer | Storage::Bigint | Storage::Timestamp | Storage::Date
    )
}
