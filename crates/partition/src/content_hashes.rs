//! Hashes of what tables hold, by which a copy that differs from its leader is found
//! (docs/replication.md, section 9).
//!
//! A hash is of a table's rows with their ids, all partitions together, as a snapshot's rows files
//! have them (docs/format/snapshot.md): equal rows are equal bytes there. Views are omitted, since
//! their rows lie where each copy has put them, and they follow from the tables. Both sides read a
//! page snapshot, beside the transactions in progress.

use ferrite_base::checksum::{Crc32c, crc32c};
use ferrite_base::limits::SNAPSHOT_BLOCK_BYTES;
use ferrite_base::{Epoch, Position, TableId};
use ferrite_table::Store;
use std::collections::BTreeMap;

/// The hashes of all tables, as they are after one entry of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentHashes {
    /// The entry that marks the place: it was written in that epoch.
    pub epoch: Epoch,
    pub position: Position,
    /// Ascending.
    pub tables: Vec<(TableId, u32)>,
}

impl ContentHashes {
    /// `partitions`: what [`hash_tables`] says of each, in their order.
    pub fn new((epoch, position): (Epoch, Position), partitions: &[TableHashes]) -> ContentHashes {
        let mut together: BTreeMap<TableId, Vec<u8>> = BTreeMap::new();
        for (table, hash) in partitions.iter().flatten() {
            together.entry(*table).or_default().extend_from_slice(&hash.to_le_bytes());
        }
        let tables = together.into_iter().map(|(table, hashes)| (table, crc32c(&hashes))).collect();
        ContentHashes { epoch, position, tables }
    }

    /// The first table that is not the same, or is not there on one side.
    pub fn first_difference(&self, other: &ContentHashes) -> Option<TableId> {
        let of = |all: &ContentHashes| all.tables.iter().copied().collect::<BTreeMap<_, _>>();
        let here = of(self);
        let there = of(other);
        let differs = |table: &&TableId| here.get(table) != there.get(table);
        here.keys().chain(there.keys()).filter(differs).min().copied()
    }
}

/// Of one partition's tables, by their ids.
pub type TableHashes = Vec<(TableId, u32)>;

/// Reads all tables of a store. `pace` is called after each piece with its bytes; what it refuses
/// ends it.
pub fn hash_tables<E>(store: &Store, mut pace: impl FnMut(u64) -> Result<(), E>) -> Result<TableHashes, E> {
    let mut hashes = TableHashes::new();
    // Streams have no rows.
    for table in store.tables().filter(|table| table.shape().is_some_and(|shape| !shape.is_view)) {
        let mut hash = Crc32c::default();
        let mut next = 0;
        loop {
            let mut bytes = 0;
            let rows = table.write_runs(&mut next, SNAPSHOT_BLOCK_BYTES, &mut |piece| {
                bytes += piece.len() as u64;
                hash.add(piece);
            });
            if rows == 0 {
                break;
            }
            pace(bytes)?;
        }
        hashes.push((table.definition().id, hash.end()));
    }
    Ok(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_table_that_differs_is_named() {
        let hashes = |tables: &[(u32, u32)]| {
            let tables: TableHashes = tables.iter().map(|(id, hash)| (TableId(*id), *hash)).collect();
            ContentHashes::new((Epoch(1), Position(2)), &[tables.clone(), tables])
        };
        let one = hashes(&[(1, 10), (3, 30), (7, 70)]);
        assert_eq!(one.first_difference(&one.clone()), None);
        for (other, first) in [(&[(1, 10), (3, 31), (7, 71)][..], 3), (&[(1, 10), (7, 70)], 3), (&[(2, 1)], 1)] {
            let other = hashes(other);
            assert_eq!(one.first_difference(&other), Some(TableId(first)));
            assert_eq!(other.first_difference(&one), Some(TableId(first)));
        }
        let both = [vec![(TableId(1), 5)], vec![(TableId(1), 6)]];
        let turned = [both[1].clone(), both[0].clone()];
        let of = |partitions: &[TableHashes]| ContentHashes::new((Epoch(1), Position(2)), partitions);
        assert_ne!(of(&both), of(&turned), "which partition has which rows counts");
    }
}
