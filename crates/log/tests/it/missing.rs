//! Segments that are gone: whoever removes the last one, or all of them, is found out; no crash is
//! taken for that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::*;
use ferrite_base::checksum::crc32c;
use ferrite_io::RealDisk;
use ferrite_io::simulated::{CrashPoint, Restart, SimulatedClock, SimulatedDisk};
use ferrite_log::{Durability, LogError, LogOptions};

/// Blocks of three sectors, five to a segment.
fn payloads(count: u64) -> Vec<Vec<u8>> {
    (0..count).map(|seed| payload(seed, 2 * SECTOR)).collect()
}

fn written(payloads: &[Vec<u8>], close: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    for payload in payloads {
        log.append(payload).unwrap();
    }
    if close {
        log.close().unwrap();
        return dir;
    }
    copy_of(dir.path())
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn assert_missing(dir: &Path, number: u64, what: &str) -> (PathBuf, u64, String) {
    let before = names(dir);
    match open_error(dir) {
        LogError::Rot { path, position, missing: Some(missing), detail, .. } => {
            assert_eq!(missing, segment(dir, number), "{what}: {detail}");
            assert_eq!(names(dir), before, "{what}");
            (path, position, detail)
        }
        error => panic!("{what}: {error}"),
    }
}

#[test]
fn the_last_segment_is_missed_wherever_the_log_ends() {
    // Segments hold five blocks; a clean end is one more.
    for count in [6, 7, 10, 11, 12, 16] {
        for close in [false, true] {
            let payloads = payloads(count);
            let dir = written(&payloads, close);
            let blocks = count + u64::from(close);
            let last = blocks.div_ceil(5);
            let what = format!("{count} blocks, closed: {close}");
            let held = copy_of(dir.path());
            std::fs::remove_file(segment(dir.path(), last)).unwrap();
            let (path, position, detail) = assert_missing(dir.path(), last, &what);
            assert_eq!((path, position), (segment(dir.path(), last - 1), 16 * SECTOR as u64), "{what}");
            let witness = if close { "the file redo-begun" } else { "the seal at byte 65536" };
            assert!(detail.contains(witness) && detail.contains("durable"), "{detail}");
            // All behind the first segment.
            for number in 2..last {
                std::fs::remove_file(segment(dir.path(), number)).unwrap();
            }
            if last > 2 {
                assert_missing(dir.path(), 2, &what);
            }
            // There, but with nothing in it.
            let path = segment(held.path(), last);
            for bytes in [0, 17 * SECTOR] {
                std::fs::write(&path, vec![0; bytes]).unwrap();
                match open_error(held.path()) {
                    LogError::Rot { path: named, position: 0, missing: None, .. } => assert_eq!(named, path, "{what}"),
                    error => panic!("{what}: {error}"),
                }
            }
        }
    }
}

#[test]
fn a_directory_that_has_lost_all_of_its_log_is_not_taken_for_a_new_one() {
    for close in [false, true] {
        let dir = written(&payloads(3), close);
        let path = segment(dir.path(), 1);
        std::fs::remove_file(&path).unwrap();
        let (named, _, detail) = assert_missing(dir.path(), 1, "the only segment");
        assert!(named == path && detail.contains("redo-begun"), "{detail}");
        for bytes in [0, 17 * SECTOR] {
            std::fs::write(&path, vec![0; bytes]).unwrap();
            assert!(matches!(open_error(dir.path()), LogError::Rot { position: 0, missing: None, .. }));
        }
    }
    // Nothing was acknowledged: it may be begun again.
    let dir = written(&[], true);
    std::fs::remove_file(segment(dir.path(), 1)).unwrap();
    assert!(open(dir.path()).1.created);
}

#[test]
fn a_segment_that_was_only_prepared_is_not_missed() {
    let payloads = payloads(8);
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions { prepare_ahead: true, ..options() };
    let (mut log, ..) = open_on(Arc::new(RealDisk), dir.path(), options).unwrap();
    for payload in &payloads {
        log.append(payload).unwrap();
    }
    log.close().unwrap();
    let prepared = segment(dir.path(), 3);
    assert!(std::fs::read(&prepared).unwrap().iter().all(|byte| *byte == 0));
    std::fs::remove_file(prepared).unwrap();
    assert_eq!(open(dir.path()).2, payloads);
}

#[test]
fn without_waiting_for_the_disk_a_clean_end_or_an_opening_seals() {
    for durability in [Durability::None, Durability::Interval(std::time::Duration::from_secs(3_600))] {
        let options = LogOptions { durability, ..options() };
        let payloads = payloads(12);
        for close in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (mut log, ..) = open_on(Arc::new(RealDisk), dir.path(), options.clone()).unwrap();
            for payload in &payloads {
                log.append(payload).unwrap();
            }
            let killed = copy_of(dir.path());
            log.close().unwrap();
            let dir = if close { dir } else { killed };
            if !close {
                drop(open_on(Arc::new(RealDisk), dir.path(), options.clone()).unwrap());
            }
            for last in [3, 2] {
                std::fs::remove_file(segment(dir.path(), last)).unwrap();
                assert_missing(dir.path(), last, &format!("{durability:?} {close}"));
            }
        }
    }
}

/// A log as releases before the seal wrote it: segments full to the end, and no other file.
fn of_version_1(dir: &Path) {
    for number in 1.. {
        let path = segment(dir, number);
        if !path.exists() {
            break;
        }
        edit(&path, |bytes| {
            if bytes[..8] == *b"FERRLOG\0" {
                bytes[8] = 1;
                let checksum = crc32c(&bytes[..SECTOR - 4]);
                bytes[SECTOR - 4..SECTOR].copy_from_slice(&checksum.to_le_bytes());
                bytes[16 * SECTOR..].fill(0);
            }
        });
    }
    std::fs::remove_file(dir.join("redo-begun")).unwrap();
}

#[test]
fn a_log_without_seals_is_read_and_goes_on_with_them() {
    let mut payloads = payloads(12);
    let old = written(&payloads, false);
    of_version_1(old.path());
    assert_eq!(open(copy_of(old.path()).path()).2, payloads);
    // As before, nothing says that there was more.
    let shorter = copy_of(old.path());
    std::fs::remove_file(segment(shorter.path(), 3)).unwrap();
    assert_eq!(open(shorter.path()).2, payloads[..10]);
    // The segment that is being written stays what it is, to its last sector; the next ones are
    // sealed.
    let (mut log, ..) = open(old.path());
    for seed in 100..110 {
        payloads.push(payload(seed, 2 * SECTOR));
        log.append(payloads.last().unwrap()).unwrap();
    }
    let killed = copy_of(old.path());
    assert_eq!(open(copy_of(killed.path()).path()).2, payloads);
    let versions: Vec<u8> = (1..=5).map(|number| std::fs::read(segment(killed.path(), number)).unwrap()[8]).collect();
    assert_eq!(versions, [1, 1, 1, 2, 2]);
    std::fs::remove_file(segment(killed.path(), 5)).unwrap();
    assert_missing(killed.path(), 5, "the last one");
    let all = copy_of(old.path());
    (1..=5).for_each(|number| std::fs::remove_file(segment(all.path(), number)).unwrap());
    assert_missing(all.path(), 1, "all of it");
}

fn accepting(dir: &Path) -> LogOptions {
    LogOptions { accept_loss: Some(dir.join("kept")), ..options() }
}

#[test]
fn what_is_cut_at_the_operators_word_is_kept_and_the_rest_goes_on() {
    let payloads = payloads(17);
    let base = written(&payloads, false);
    // Damaged in the middle of a segment, at the beginning of one, a segment missing, the last one
    // missing.
    type Damage = fn(&Path);
    let damages: [(Damage, usize, &[&str]); 4] = [
        (
            |dir| edit(&segment(dir, 2), |bytes| bytes[4 * SECTOR + 100] ^= 1),
            6,
            &["redo-0000000002-from-byte-16384", "redo-0000000003.log", "redo-0000000004.log"],
        ),
        (
            |dir| edit(&segment(dir, 3), |bytes| bytes[SECTOR + 100] ^= 1),
            10,
            &["redo-0000000003-from-byte-4096", "redo-0000000004.log"],
        ),
        (
            |dir| std::fs::remove_file(segment(dir, 3)).unwrap(),
            10,
            &["redo-0000000002-from-byte-65536", "redo-0000000004.log"],
        ),
        (|dir| std::fs::remove_file(segment(dir, 4)).unwrap(), 15, &["redo-0000000003-from-byte-65536"]),
    ];
    for (number, (damage, left, kept)) in damages.into_iter().enumerate() {
        let dir = copy_of(base.path());
        damage(dir.path());
        assert!(matches!(open_error(dir.path()), LogError::Rot { .. }));
        let damaged: Vec<(String, Vec<u8>)> = names(dir.path())
            .into_iter()
            .map(|name| (name.clone(), std::fs::read(dir.path().join(name)).unwrap()))
            .collect();
        let (mut log, recovery, found) = open_on(Arc::new(RealDisk), dir.path(), accepting(dir.path())).unwrap();
        assert!(found == payloads[..left], "{number}: {}", found.len());
        let folder = dir.path().join("kept");
        assert_eq!(names(&folder), kept, "{number}");
        let mut told: Vec<_> = recovery.quarantined.iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        told.sort();
        assert_eq!(told, kept, "{number}");
        for name in kept {
            let bytes = std::fs::read(folder.join(name)).unwrap();
            let (of, at) = match name.split_once("-from-byte-") {
                Some((stem, at)) => (format!("{stem}.log"), at.parse().unwrap()),
                None => ((*name).to_owned(), 0),
            };
            let (_, before) = damaged.iter().find(|(name, _)| *name == of).unwrap();
            let rest: &[u8] = &before[at..];
            assert!(rest.starts_with(&bytes) && rest[bytes.len()..].iter().all(|byte| *byte == 0), "{number} {name}");
        }
        // Nothing speaks for what was cut any more, and what follows is as safe as ever: opened at
        // every length.
        let mut expected = payloads[..left].to_vec();
        for seed in 200..212 {
            assert_eq!(open(copy_of(dir.path()).path()).2, expected, "{number}");
            expected.push(payload(seed, 2 * SECTOR));
            log.append(expected.last().unwrap()).unwrap();
        }
        log.close().unwrap();
        let last = (1..).take_while(|number| segment(dir.path(), *number).exists()).last().unwrap();
        assert_eq!(open(copy_of(dir.path()).path()).2, expected, "{number}");
        std::fs::remove_file(segment(dir.path(), last)).unwrap();
        assert_missing(dir.path(), last, "after an accepted loss");
    }
}

#[test]
fn without_room_for_the_copy_nothing_is_cut() {
    let disk = SimulatedDisk::healthy();
    let (mut log, ..) = open_on(Arc::new(disk.clone()), Path::new("/log"), options()).unwrap();
    for payload in payloads(12) {
        log.append(&payload).unwrap();
    }
    let disk = disk.copy(1);
    drop(log);
    disk.rot(&segment(Path::new("/log"), 1), 4 * SECTOR as u64 + 100, 1);
    let contents = || disk.files().into_iter().map(|path| (path.clone(), disk.bytes_of(&path))).collect::<Vec<_>>();
    let before = contents();
    disk.set_capacity(disk.used_bytes() + 4 * SECTOR as u64);
    match open_on(Arc::new(disk.clone()), Path::new("/log"), accepting(Path::new("/log"))) {
        Err(error @ LogError::NoRoomToKeep { .. }) => {
            assert!(error.to_string().contains("Nothing was changed. Free disk space"), "{error}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("there was no room"),
    }
    assert!(contents() == before, "nothing was changed, and no half copy is left");
    disk.set_capacity(u64::MAX);
    let found = open_on(Arc::new(disk.clone()), Path::new("/log"), accepting(Path::new("/log"))).unwrap().2;
    assert_eq!(found, payloads(1));
}

#[test]
fn behind_a_snapshot_the_segment_that_it_names_is_required_and_can_be_made_anew() {
    let payloads = payloads(12);
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    for payload in &payloads[..6] {
        log.append(payload).unwrap();
    }
    let mark = log.send_marked(&payloads[6]);
    log.wait().1.unwrap();
    let place = *mark.get().unwrap();
    for payload in &payloads[7..] {
        log.append(payload).unwrap();
    }
    let killed = copy_of(dir.path());
    drop(log);
    let from = |options: LogOptions| LogOptions { from: Some(place), ..options };
    let open_from = |dir: &Path, options| open_on(Arc::new(RealDisk), dir, from(options));
    assert_eq!(place.segment, 2);
    assert_eq!(open_from(copy_of(killed.path()).path(), options()).unwrap().2, payloads[6..]);
    type Damage = fn(&Path);
    let damages: [(Damage, usize); 4] = [
        // All that lies behind the snapshot, all at all, the first alone, the header of the first.
        (|dir| (2..=3).for_each(|number| std::fs::remove_file(segment(dir, number)).unwrap()), 0),
        (|dir| (1..=3).for_each(|number| std::fs::remove_file(segment(dir, number)).unwrap()), 0),
        (|dir| std::fs::remove_file(segment(dir, 2)).unwrap(), 1),
        (|dir| edit(&segment(dir, 2), |bytes| bytes[..SECTOR].fill(0)), 2),
    ];
    for (damage, kept) in damages {
        let dir = copy_of(killed.path());
        damage(dir.path());
        match open_from(dir.path(), options()) {
            Err(LogError::Rot { path, missing, .. }) => {
                assert_eq!(path, segment(dir.path(), 2));
                assert_eq!(missing.is_some(), kept < 2);
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was not noticed"),
        }
        let (mut log, recovery, found) = open_from(dir.path(), accepting(dir.path())).unwrap();
        assert!(found.is_empty() && recovery.quarantined.len() == kept);
        let mut expected = Vec::new();
        for seed in 300..307 {
            if seed > 300 {
                assert_eq!(open_from(copy_of(dir.path()).path(), options()).unwrap().2, expected);
            }
            expected.push(payload(seed, 2 * SECTOR));
            log.append(expected.last().unwrap()).unwrap();
        }
        log.close().unwrap();
        assert_eq!(open_from(dir.path(), options()).unwrap().2, expected);
    }
    // Without a snapshot that could be read, nothing would be left.
    let dir = copy_of(killed.path());
    std::fs::remove_file(segment(dir.path(), 1)).unwrap();
    let opened = open_on(Arc::new(RealDisk), dir.path(), accepting(dir.path()));
    assert!(matches!(opened, Err(LogError::Rot { missing: Some(_), .. })));
    assert!(!dir.path().join("kept").exists() && segment(dir.path(), 2).exists());
}

/// Power lost at every operation of the disk from the making of the log through three segments,
/// four ways each: what opens then has all that was acknowledged, and when the last segment with
/// anything in it goes, that is noticed.
#[test]
fn power_lost_at_any_moment_is_not_taken_for_a_missing_segment() {
    let dir = Path::new("/log");
    let sizes = [2, 6, 2, 2, 40, 2, 6, 6, 6, 2, 2].map(|sectors| sectors * SECTOR - 1_000);
    let opened = |disk: &SimulatedDisk| open_on(Arc::new(disk.clone()), dir, options());
    for boundary in 1.. {
        let mut reached = true;
        for way in 0..4 {
            let disk = SimulatedDisk::new(boundary * 4 + way, SimulatedClock::default());
            disk.crash_at(Some(CrashPoint { boundary, after: way % 2 == 1 }));
            let mut acknowledged = Vec::new();
            if let Ok((mut log, ..)) = opened(&disk) {
                for (seed, size) in sizes.into_iter().enumerate() {
                    let payload = payload(seed as u64, size);
                    if log.append(&payload).is_ok() {
                        acknowledged.push(payload);
                    }
                }
                reached = log.close().is_err();
            }
            if !reached {
                break;
            }
            disk.restart(Restart::Power);
            let (log, _, found) = opened(&disk).unwrap_or_else(|error| panic!("boundary {boundary} {way}: {error}"));
            assert!(
                found.len() >= acknowledged.len() && found[..acknowledged.len()] == acknowledged,
                "{boundary} {way}"
            );
            drop(log);
            let copy = disk.copy(7);
            let files = copy.files();
            let used = |path: &&PathBuf| {
                path.extension().is_some()
                    && copy.bytes_of(path).is_some_and(|bytes| bytes[SECTOR..].iter().any(|byte| *byte != 0))
            };
            let Some(last) = files.iter().rfind(used) else { continue };
            ferrite_io::Disk::remove(&copy, last).unwrap();
            assert!(opened(&copy).is_err(), "boundary {boundary} {way}: {} is not missed", last.display());
        }
        if !reached {
            assert!(boundary > 60, "the test comes to the end of the log: {boundary}");
            break;
        }
    }
}
