use super::*;

fn collect(table: &HashTable, tag: u32) -> Vec<u32> {
    let mut rows: Vec<u32> = table.candidates(tag).map(|row| row.0).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn entries_survive_growth_and_removal() {
    const COUNT: u32 = if cfg!(miri) { 2_000 } else { 100_000 };
    const CHURN: u32 = if cfg!(miri) { 300 } else { 300_000 };
    const KEPT: usize = COUNT as usize * 2 / 3;
    let mut table = HashTable::new();
    let tag = |i: u32| tag_of(crate::hashing::mix(i as u64));
    for i in 0..COUNT {
        table.insert(tag(i), RowId(i));
    }
    assert!((0..COUNT).all(|i| table.find(tag(i), |row| row.0 == i).is_some()));
    for i in (0..COUNT).step_by(3) {
        assert!(table.remove(tag(i), RowId(i)));
        assert!(!table.remove(tag(i), RowId(i)));
    }
    assert!((0..COUNT).all(|i| table.find(tag(i), |row| row.0 == i).is_some() == (i % 3 != 0)));
    for i in 0..CHURN {
        table.insert(tag(i + 1_000_000), RowId(i + 1_000_000));
        assert!(table.remove(tag(i + 1_000_000), RowId(i + 1_000_000)));
    }
    assert_eq!(table.len(), KEPT);
    assert!(table.bytes() < KEPT * 40, "tombstones do not make it grow");
}

/// The invariant of the module's head, through two doublings. (Statistics of millions of
/// entries, which would take Miri days and tell it nothing new.)
#[cfg(not(miri))]
#[test]
fn splits_are_spread_over_time_and_memory_grows_evenly() {
    const FIRST: u64 = 1 << 20;
    const PARTS: u64 = 16;
    type Hash = fn(u64) -> u64;
    let hashes: [(&str, Hash); 3] = [
        ("ascending", crate::hashing::mix),
        ("scattered", |i| crate::hashing::mix(crate::hashing::mix(i ^ 77))),
        ("even", |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    ];
    for (name, hash) in hashes {
        let mut table = HashTable::new();
        (0..FIRST).for_each(|i| table.insert(tag_of(hash(i)), RowId(i as u32)));
        let mut entries = FIRST;
        while entries < FIRST * 4 {
            let (start, at_start) = (entries, table.segments.len() as f64);
            for part in 1..=PARTS {
                let before = table.segments.len();
                let end = start + start * part / PARTS;
                (entries..end).for_each(|i| table.insert(tag_of(hash(i)), RowId(i as u32)));
                entries = end;
                let splits = (table.segments.len() - before) as f64 / (at_start / PARTS as f64);
                assert!((0.55..1.5).contains(&splits), "{name}: {splits} of the mean in part {part} from {start}");
                let bytes = table.bytes() as f64 / entries as f64;
                assert!((13.5..15.5).contains(&bytes), "{name}: {bytes} bytes an entry in part {part} from {start}");
            }
        }
    }
}

#[cfg(not(miri))]
#[test]
fn tags_are_twice_as_dense_at_the_first_as_at_the_last() {
    const PLACES: usize = 64;
    const COUNT: u64 = 1 << 20;
    let (mut by_place, mut by_bucket) = ([0u32; PLACES], [0u32; BUCKETS_MAX]);
    for i in 0..COUNT {
        by_place[tag_of(i << 44) as usize >> 26] += 1;
        by_bucket[tag_of(crate::hashing::mix(i)) as usize % BUCKETS_MAX] += 1;
    }
    for (place, count) in by_place.into_iter().enumerate() {
        let q = (place as f64 + 0.5) / PLACES as f64;
        let density = count as f64 * PLACES as f64 / COUNT as f64;
        assert!((density - 1.5 / (1.0 + 3.0 * q).sqrt()).abs() < 0.01, "{density} at {q}");
    }
    let even = COUNT as u32 / BUCKETS_MAX as u32;
    assert!(by_bucket.iter().all(|count| count.abs_diff(even) < even / 8), "{by_bucket:?}");
    assert!([0, 1, 2, u64::MAX].iter().all(|hash| tag_of(*hash) > TOMBSTONE));
    assert_eq!(tag_of(u64::MAX), u32::MAX);
}

#[test]
fn many_entries_of_one_tag_go_to_the_overflow() {
    const COUNT: u32 = if cfg!(miri) { 1_000 } else { 50_000 };
    let mut table = HashTable::new();
    for i in 0..COUNT {
        table.insert(u32::MAX, RowId(i));
        table.insert(u32::MAX - 1 - (i % 3), RowId(i));
    }
    assert_eq!(collect(&table, u32::MAX), (0..COUNT).collect::<Vec<_>>());
    assert!(table.bytes() < 4_000_000);
    for i in 0..COUNT {
        assert!(table.remove(u32::MAX, RowId(i)));
    }
    assert_eq!(collect(&table, u32::MAX), []);
    assert_eq!(table.len(), COUNT as usize);
}

#[test]
fn chosen_tags_cannot_make_the_directory_huge() {
    const COUNT: u32 = if cfg!(miri) { 2_000 } else { 40_000 };
    let mut table = HashTable::new();
    // All tags share their top 20 bits.
    for i in 0..COUNT {
        table.insert(0xabcd_e000 | (i % 4096), RowId(i));
    }
    assert_eq!(table.len(), COUNT as usize);
    assert!(table.directory.len() < 1 << 14);
    assert!((0..COUNT).all(|i| table.find(0xabcd_e000 | (i % 4096), |row| row.0 == i).is_some()));
}
