//! A torn tail is cut and reported; damage to what was durable is an error that names file and
//! position and changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::*;
use ferrite_log::LogError;

const HEADER: usize = 48;

/// The directory as a killed process left it, with each payload in a block of its own.
fn killed_after(payloads: &[Vec<u8>]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    for payload in payloads {
        log.append(payload).unwrap();
    }
    copy_of(dir.path())
}

fn closed_after(payloads: &[Vec<u8>]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    for payload in payloads {
        log.append(payload).unwrap();
    }
    log.close().unwrap();
    dir
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| (path.clone(), std::fs::read(&path).unwrap()))
        .collect()
}

/// Opening says rot at that place, and leaves every byte as it was.
fn assert_rot(dir: &Path, number: u64, at: usize, what: &str) {
    let before = contents(dir);
    match open_error(dir) {
        LogError::Rot { path, position, missing: None, detail, .. } => {
            assert_eq!((path, position), (segment(dir, number), at as u64), "{what}: {detail}");
        }
        error => panic!("{what}: {error}"),
    }
    assert!(contents(dir) == before, "{what}: an error changed the files");
}

#[test]
fn a_tail_torn_at_every_byte_is_cut_and_written_on() {
    let payloads = [payload(1, 5_000), payload(2, 100), payload(3, 300)];
    let dir = killed_after(&payloads);
    let path = segment(dir.path(), 1);
    let whole = std::fs::read(&path).unwrap();
    let start = 4 * SECTOR;
    let end = start + HEADER + payloads[2].len();
    assert!(whole[end - 1] != 0 && whole[end..].iter().all(|byte| *byte == 0), "the test knows the layout");
    // What is known of the log's end, as it was when the process was killed: each opening says
    // more.
    let begun = std::fs::read(dir.path().join("redo-begun")).unwrap();
    for cut in start..=end {
        let mut torn = whole.clone();
        torn[cut..].fill(0);
        let extent = torn[start..].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        std::fs::write(&path, torn).unwrap();
        std::fs::write(dir.path().join("redo-begun"), &begun).unwrap();
        let (mut log, recovery, found) = open(dir.path());
        if cut == end {
            assert_eq!(found, payloads);
            assert_eq!(recovery.torn, None);
            continue;
        }
        assert_eq!(found, payloads[..2], "cut at {cut}");
        let torn = recovery.torn.map(|torn| (torn.path, torn.position, torn.bytes));
        assert_eq!(torn, (extent > 0).then(|| (path.clone(), start as u64, extent as u64)), "cut at {cut}");
        // What is written after the cut is found, and so is the cut's place in the chain.
        if cut % 16 == 0 || cut == end - 1 {
            log.append(&payload(4, 6_000)).unwrap();
            let copy = copy_of(dir.path());
            assert_eq!(open(copy.path()).2, [payloads[0].clone(), payloads[1].clone(), payload(4, 6_000)]);
        }
    }
}

/// The disk may write a block's sectors in any order.
#[test]
fn a_last_block_with_any_of_its_sectors_missing_is_cut() {
    let payloads = [payload(1, 10), payload(2, 3 * SECTOR)];
    let dir = killed_after(&payloads);
    let path = segment(dir.path(), 1);
    let whole = std::fs::read(&path).unwrap();
    for missing in 1..16u32 {
        let mut torn = whole.clone();
        for sector in (0..4).filter(|sector| missing & 1 << sector != 0) {
            let at = (2 + sector) * SECTOR;
            torn[at..at + SECTOR].fill(0);
        }
        std::fs::write(&path, torn).unwrap();
        let dir = copy_of(dir.path());
        let (mut log, _, found) = open(dir.path());
        assert_eq!(found, payloads[..1], "missing {missing:b}");
        log.append(b"after").unwrap();
        let copy = copy_of(dir.path());
        let (_log, recovery, found) = open(copy.path());
        assert_eq!(found, [payloads[0].as_slice(), b"after"]);
        assert_eq!(recovery.torn, None, "the rest was overwritten");
    }
}

/// Every bit of the header and some of the payload, in the first, a middle and the last block.
#[test]
fn flipped_bits_before_the_last_block_are_rot_and_in_it_a_torn_tail() {
    let payloads: Vec<Vec<u8>> = (0..4).map(|seed| payload(seed, 200)).collect();
    let killed = killed_after(&payloads);
    let path = segment(killed.path(), 1);
    let whole = std::fs::read(&path).unwrap();
    let bits: Vec<usize> =
        (0..HEADER * 8).step_by(3).chain([HEADER * 8, (HEADER + 100) * 8 + 5, (HEADER + 199) * 8]).collect();
    for bit in bits {
        for block in [0, 2, 3] {
            let at = (1 + block) * SECTOR;
            let mut damaged = whole.clone();
            damaged[at + bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &damaged).unwrap();
            if block < 3 {
                assert_rot(killed.path(), 1, at, &format!("bit {bit} of block {block}"));
            } else {
                let (_log, recovery, found) = open(copy_of(killed.path()).path());
                assert_eq!(found, payloads[..3]);
                assert_eq!(recovery.torn.unwrap().position, at as u64);
            }
        }
    }
}

#[test]
fn after_a_clean_end_the_last_block_with_data_is_protected_too() {
    let payloads: Vec<Vec<u8>> = (0..3).map(|seed| payload(seed, 200)).collect();
    let dir = closed_after(&payloads);
    edit(&segment(dir.path(), 1), |bytes| bytes[3 * SECTOR + HEADER + 7] ^= 1);
    assert_rot(dir.path(), 1, 3 * SECTOR, "last block with data");
    // Without the mark, too: it is written down beside the log.
    edit(&segment(dir.path(), 1), |bytes| bytes[4 * SECTOR] ^= 1);
    assert_rot(dir.path(), 1, 3 * SECTOR, "last block with data, and the mark");
}

#[test]
fn an_opening_protects_what_it_replayed() {
    let payloads: Vec<Vec<u8>> = (0..2).map(|seed| payload(seed, 200)).collect();
    let killed = killed_after(&payloads);
    let (log, ..) = open(killed.path());
    let again = copy_of(killed.path());
    drop(log);
    edit(&segment(again.path(), 1), |bytes| bytes[2 * SECTOR + HEADER + 7] ^= 1);
    assert_rot(again.path(), 1, 2 * SECTOR, "replayed block");
}

#[test]
fn damage_in_the_padding_means_nothing() {
    let payloads: Vec<Vec<u8>> = (0..3).map(|seed| payload(seed, 200)).collect();
    let dir = closed_after(&payloads);
    edit(&segment(dir.path(), 1), |bytes| bytes[2 * SECTOR - 1] ^= 1);
    let (_log, recovery, found) = open(dir.path());
    assert!(found == payloads && recovery.clean);
}

/// A zeroed, or a lost, durable block is rot as much as a damaged one.
#[test]
fn a_block_that_is_not_there_is_rot() {
    let payloads: Vec<Vec<u8>> = (0..4).map(|seed| payload(seed, 200)).collect();
    let dir = closed_after(&payloads);
    edit(&segment(dir.path(), 1), |bytes| bytes[2 * SECTOR..3 * SECTOR].fill(0));
    assert_rot(dir.path(), 1, 2 * SECTOR, "zeroed block");
    // An older block in its place, whole in itself.
    edit(&segment(dir.path(), 1), |bytes| bytes.copy_within(SECTOR..2 * SECTOR, 2 * SECTOR));
    assert_rot(dir.path(), 1, 2 * SECTOR, "a copy of the block before");
}

/// Blocks of three sectors, five to a segment, over four segments.
fn many_segments() -> (tempfile::TempDir, Vec<Vec<u8>>) {
    let payloads: Vec<Vec<u8>> = (0..17).map(|seed| payload(seed, 2 * SECTOR)).collect();
    (killed_after(&payloads), payloads)
}

#[test]
fn damage_in_any_segment_is_found_where_it_is() {
    let (dir, payloads) = many_segments();
    assert_eq!(open(copy_of(dir.path()).path()).2, payloads);
    for (number, block) in [(1, 0), (1, 4), (2, 0), (3, 2), (3, 4), (4, 0)] {
        let copy = copy_of(dir.path());
        let at = (1 + 3 * block) * SECTOR;
        edit(&segment(copy.path(), number), |bytes| bytes[at + 5_000] ^= 0x10);
        assert_rot(copy.path(), number, at, &format!("block {block} of segment {number}"));
    }
    for number in 1..=4 {
        for at in [0, 9, 20, 33, 50, 66, 2_000, 4_095] {
            let copy = copy_of(dir.path());
            edit(&segment(copy.path(), number), |bytes| bytes[at] ^= 1);
            assert_rot(copy.path(), number, 0, &format!("byte {at} of segment {number}'s header"));
        }
        let copy = copy_of(dir.path());
        edit(&segment(copy.path(), number), |bytes| bytes[..SECTOR].fill(0));
        assert_rot(copy.path(), number, 0, &format!("segment {number}'s header zeroed"));
    }
}

#[test]
fn missing_foreign_renamed_and_newer_segments_are_named() {
    let (dir, payloads) = many_segments();
    for number in 1..=3 {
        let copy = copy_of(dir.path());
        std::fs::remove_file(segment(copy.path(), number)).unwrap();
        match open_error(copy.path()) {
            LogError::Rot { missing: Some(missing), .. } => assert_eq!(missing, segment(copy.path(), number)),
            error => panic!("{error}"),
        }
    }

    let foreign = tempfile::tempdir().unwrap();
    let options = ferrite_log::LogOptions { database: None, ..options() };
    let (mut log, ..) = open_on(std::sync::Arc::new(ferrite_io::RealDisk), foreign.path(), options).unwrap();
    for payload in &payloads {
        log.append(payload).unwrap();
    }
    log.close().unwrap();
    for number in [1, 2, 4] {
        let copy = copy_of(dir.path());
        std::fs::copy(segment(foreign.path(), number), segment(copy.path(), number)).unwrap();
        match open_error(copy.path()) {
            LogError::ForeignSegment { path, expected, .. } => {
                assert_eq!((path, expected), (segment(copy.path(), number), DATABASE));
            }
            error => panic!("{error}"),
        }
    }

    let copy = copy_of(dir.path());
    std::fs::copy(segment(copy.path(), 2), segment(copy.path(), 3)).unwrap();
    assert!(matches!(open_error(copy.path()), LogError::Misnamed { found: 2, .. }));

    let copy = copy_of(dir.path());
    edit(&segment(copy.path(), 2), |bytes| {
        bytes[8] = 3;
        let checksum = ferrite_base::checksum::crc32c(&bytes[..SECTOR - 4]);
        bytes[SECTOR - 4..SECTOR].copy_from_slice(&checksum.to_le_bytes());
    });
    assert!(matches!(open_error(copy.path()), LogError::Version { found: 3, .. }));
}

/// Before the batch that left them was acknowledged.
fn without_seals(dir: &Path) {
    for path in contents(dir).keys() {
        edit(path, |bytes| bytes[16 * SECTOR..].fill(0));
    }
}

/// The first block of a segment and its header are written together, and may be torn in any way.
#[test]
fn a_torn_first_write_of_a_segment_is_cut() {
    let payloads: Vec<Vec<u8>> = (0..6).map(|seed| payload(seed, 2 * SECTOR)).collect();
    let dir = killed_after(&payloads);
    without_seals(dir.path());
    let whole = std::fs::read(segment(dir.path(), 2)).unwrap();
    assert_eq!(open(copy_of(dir.path()).path()).2, payloads);
    for missing in 1..16u32 {
        let copy = copy_of(dir.path());
        let mut torn = whole.clone();
        for sector in (0..4).filter(|sector| missing & 1 << sector != 0) {
            torn[sector * SECTOR..(sector + 1) * SECTOR].fill(0);
        }
        std::fs::write(segment(copy.path(), 2), torn).unwrap();
        let (mut log, recovery, found) = open(copy.path());
        assert_eq!(found, payloads[..5], "missing {missing:b}");
        // With nothing but the header there, or nothing at all, nothing is torn.
        assert_eq!(recovery.torn.is_some(), missing < 14);
        log.append(&payloads[5]).unwrap();
        let again = copy_of(copy.path());
        let (_log, recovery, found) = open(again.path());
        assert!(found == payloads && recovery.torn.is_none());
    }
}

#[test]
fn an_interrupted_creation_is_begun_again_but_never_over_data() {
    for bytes in [vec![], vec![0; 5_000], vec![0; 17 * SECTOR], b"FERRLOG\0\x01".to_vec()] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(segment(dir.path(), 1), bytes).unwrap();
        let (mut log, recovery, _) = open(dir.path());
        assert!(recovery.created);
        log.append(b"data").unwrap();
        log.close().unwrap();
        assert_eq!(open(dir.path()).2, [b"data"]);
    }
}

/// An append in several blocks is cut whole, also across segments, and what was written before
/// stays.
#[test]
fn a_torn_group_is_cut_from_its_first_block() {
    let big = payload(9, 12 * options().block_bytes_max);
    let dir = killed_after(&[payload(1, 100), big.clone()]);
    without_seals(dir.path());
    let (_, _, found) = open(copy_of(dir.path()).path());
    assert!(found == [payload(1, 100), big.clone()]);
    let files = contents(dir.path());
    assert!(files.len() > 3);
    for (path, whole) in &files {
        for at in (SECTOR..whole.len()).step_by(2 * SECTOR) {
            let copy = copy_of(dir.path());
            let path = copy.path().join(path.file_name().unwrap());
            let mut damaged = whole.clone();
            damaged[at..at + SECTOR].fill(0);
            if damaged == *whole {
                continue;
            }
            std::fs::write(&path, damaged).unwrap();
            if path == segment(copy.path(), 1) && at == SECTOR {
                assert_rot(copy.path(), 1, SECTOR, "the block before the group");
                continue;
            }
            let (mut log, recovery, found) = open(copy.path());
            assert_eq!(found, [payload(1, 100)]);
            assert_eq!(recovery.torn.unwrap().position, 2 * SECTOR as u64);
            log.append(b"after").unwrap();
            log.close().unwrap();
            assert_eq!(open(copy.path()).2, [payload(1, 100).as_slice(), b"after"]);
        }
    }
    // Once something was written behind it, the group is as protected as any block.
    let dir = killed_after(&[payload(1, 100), big, payload(2, 100)]);
    edit(&segment(dir.path(), 2), |bytes| bytes[SECTOR + 100] ^= 1);
    assert_rot(dir.path(), 2, SECTOR, "a block of the group");
}

/// Without fsync the disk may keep a later block and lose an earlier one. That is no rot: nothing
/// said that it was durable.
#[test]
fn without_fsync_a_gap_is_a_torn_tail() {
    let options = ferrite_log::LogOptions { durability: ferrite_log::Durability::None, ..options() };
    let dir = tempfile::tempdir().unwrap();
    let disk = || std::sync::Arc::new(ferrite_io::RealDisk);
    let (mut log, ..) = open_on(disk(), dir.path(), options.clone()).unwrap();
    let payloads: Vec<Vec<u8>> = (0..4).map(|seed| payload(seed, 200)).collect();
    for payload in &payloads {
        log.append(payload).unwrap();
    }
    let copy = copy_of(dir.path());
    edit(&segment(copy.path(), 1), |bytes| bytes[2 * SECTOR..3 * SECTOR].fill(0));
    let (log, recovery, found) = open_on(disk(), copy.path(), options.clone()).unwrap();
    assert_eq!(found, payloads[..1]);
    assert_eq!(recovery.torn.unwrap().position, 2 * SECTOR as u64);
    drop(log);
    let (_log, recovery, found) = open_on(disk(), copy.path(), options).unwrap();
    assert!(found == payloads[..1] && recovery.torn.is_none() && recovery.clean);
}
