//! A log that is shorter than it was: cut short, its tail zeroed, an older copy, another
//! database's. What is known to have been durable is missed by name; no crash is taken for that.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use ferrite_io::RealDisk;
use ferrite_io::simulated::{CrashPoint, Restart, SimulatedClock, SimulatedDisk};
use ferrite_log::{DatabaseId, LogError, LogOptions};

const BEGUN: &str = "redo-begun";
/// As earlier releases wrote it.
const BEGUN_BEFORE: &[u8] =
    b"A redo log was begun in this directory. Without this file its loss would not be noticed.\n";

fn payloads(count: u64) -> Vec<Vec<u8>> {
    (0..count).map(|seed| payload(seed, 300 + seed as usize * 1_777 % 9_000)).collect()
}

/// Says after every batch how far it reaches.
fn noting() -> LogOptions {
    LogOptions { look_interval: Duration::ZERO, ..options() }
}

fn accepting(dir: &Path) -> LogOptions {
    LogOptions { accept_loss: Some(dir.join("kept")), ..options() }
}

fn open_as(dir: &Path, options: LogOptions) -> Result<Vec<Vec<u8>>, LogError> {
    open_on(Arc::new(RealDisk), dir, options).map(|(_, _, found)| found)
}

fn write_into(dir: &Path, options: LogOptions, payloads: &[Vec<u8>]) -> TestLog {
    let (mut log, ..) = open_on(Arc::new(RealDisk), dir, options).unwrap();
    for payload in payloads {
        log.append(payload).unwrap();
    }
    log
}

/// A log that ended in good order, and the same as a killed process left it that had just said how
/// far it reaches.
fn logs(payloads: &[Vec<u8>]) -> [(&'static str, tempfile::TempDir); 2] {
    let closed = tempfile::tempdir().unwrap();
    let mut log = write_into(closed.path(), noting(), payloads);
    let killed = copy_of(closed.path());
    log.close().unwrap();
    [("closed", closed), ("killed", killed)]
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    (1..).map(|number| segment(dir, number)).take_while(|path| path.exists()).collect()
}

fn refused_by_name(error: &LogError, dir: &Path) {
    let LogError::Rot { path, missing, .. } = error else { panic!("{error}") };
    assert!(missing.as_ref().unwrap_or(path).starts_with(dir), "{error}");
}

/// What an interrupted copy and a file system check do: 24 lengths of each segment, and the edges
/// of all blocks.
#[test]
fn a_log_that_was_cut_short_is_refused_wherever_it_was_cut() {
    let payloads = payloads(14);
    for (how, dir) in logs(&payloads) {
        for path in segments(dir.path()) {
            let whole = std::fs::read(&path).unwrap();
            let lengths = (0..24).map(|step| step * whole.len() / 24 + step * 7 % 5);
            let edges = (1..17).flat_map(|sector| [sector * SECTOR - 1, sector * SECTOR, sector * SECTOR + 1]);
            for length in lengths.chain(edges).chain([0, 1, 5_000, whole.len() - 1]) {
                let what = format!("{how}, {} of {} bytes of {}", length, whole.len(), path.display());
                std::fs::write(&path, &whole[..length]).unwrap();
                // Opening may mend it, so that it is looked at in a copy.
                let copy = copy_of(dir.path());
                match open_as(copy.path(), options()) {
                    Ok(found) => assert!(found == payloads, "{what}: {} of {}", found.len(), payloads.len()),
                    Err(error) => refused_by_name(&error, copy.path()),
                }
            }
            std::fs::write(&path, whole).unwrap();
        }
    }
}

#[test]
fn a_killed_log_that_was_cut_behind_its_end_is_refused_since_nobody_knows_what_stood_there() {
    let payloads = payloads(2);
    let [(_, closed), (_, killed)] = logs(&payloads);
    for dir in [&killed, &closed] {
        edit(&segment(dir.path(), 1), |bytes| bytes.truncate(14 * SECTOR));
    }
    match open_error(killed.path()) {
        error @ LogError::Rot { certain: false, .. } => {
            let text = error.to_string();
            assert!(text.contains("57344 of its 69632 bytes") && text.contains("may have been durable"), "{text}");
        }
        error => panic!("{error}"),
    }
    // Where it ended in good order, that is known, and the file is made whole again.
    let (mut log, _, found) = open(closed.path());
    assert_eq!(found, payloads);
    for seed in 100..110 {
        log.append(&payload(seed, 8_000)).unwrap();
    }
    assert_eq!(open(copy_of(closed.path()).path()).2.len(), 12);
}

#[test]
fn a_log_whose_tail_is_zeros_is_refused_wherever_it_begins() {
    let payloads = payloads(14);
    for (how, dir) in logs(&payloads) {
        let paths = segments(dir.path());
        for (index, path) in paths.iter().enumerate() {
            let whole = std::fs::read(path).unwrap();
            for from in (0..whole.len()).step_by(1_024) {
                // That segment's tail, and all that comes behind.
                for behind in [false, true] {
                    let copy = copy_of(dir.path());
                    edit(&segment(copy.path(), index as u64 + 1), |bytes| bytes[from..].fill(0));
                    for number in index + 1..paths.len() {
                        if behind {
                            edit(&segment(copy.path(), number as u64 + 1), |bytes| bytes.fill(0));
                        }
                    }
                    match open_as(copy.path(), options()) {
                        Ok(found) => assert!(found == payloads, "{how}: {from} of {}: {}", path.display(), found.len()),
                        Err(error) => refused_by_name(&error, copy.path()),
                    }
                }
            }
        }
    }
}

/// What cannot be noticed: what came after the last time that somebody said how far the log
/// reaches.
#[test]
fn a_zeroed_tail_behind_what_is_known_to_be_durable_is_not_noticed() {
    let payloads = payloads(4);
    let dir = tempfile::tempdir().unwrap();
    drop(write_into(dir.path(), options(), &payloads[..2]));
    let log = write_into(dir.path(), options(), &payloads[2..]);
    let killed = copy_of(dir.path());
    drop(log);
    let sizes: Vec<usize> = payloads.iter().map(|payload| (48 + payload.len()).div_ceil(SECTOR)).collect();
    // Header, two payloads, the clean end.
    let known = 2 + sizes[0] + sizes[1];
    for (from, left) in [(known, 2), (known + sizes[2], 3)] {
        let copy = copy_of(killed.path());
        edit(&segment(copy.path(), 1), |bytes| bytes[from * SECTOR..].fill(0));
        assert_eq!(open_as(copy.path(), options()).unwrap(), payloads[..left]);
    }
    edit(&segment(killed.path(), 1), |bytes| bytes[(known - 1) * SECTOR..].fill(0));
    match open_error(killed.path()) {
        LogError::Rot { detail, certain: true, .. } => {
            assert!(detail.contains("the file redo-begun, by which"), "{detail}")
        }
        error => panic!("{error}"),
    }
}

#[test]
fn older_copies_of_segments_are_refused_also_if_the_log_went_on_otherwise() {
    let payloads = payloads(12);
    let dir = tempfile::tempdir().unwrap();
    drop(write_into(dir.path(), options(), &payloads[..2]));
    let older = copy_of(dir.path());
    drop(write_into(dir.path(), options(), &payloads[2..]));
    let file = |dir: &Path| segment(dir, 1);
    let mixed = copy_of(dir.path());
    std::fs::copy(file(older.path()), file(mixed.path())).unwrap();
    refused_by_name(&open_error(mixed.path()), mixed.path());
    // The older one, written on with other payloads: as many blocks, and no other sign.
    let fork = copy_of(older.path());
    drop(write_into(fork.path(), options(), &payloads[1..11]));
    for path in segments(fork.path()) {
        std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    match open_error(dir.path()) {
        LogError::Rot { certain: true, detail, .. } => assert!(detail.contains("not of the same time"), "{detail}"),
        error => panic!("{error}"),
    }
}

#[test]
fn the_only_segment_of_another_database_is_refused() {
    let options = LogOptions { database: None, ..options() };
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for dir in [&own, &other] {
        drop(write_into(dir.path(), options.clone(), &payloads(3)));
    }
    std::fs::copy(segment(other.path(), 1), segment(own.path(), 1)).unwrap();
    match open_as(own.path(), options.clone()) {
        Err(LogError::ForeignSegment { path, .. }) => assert_eq!(path, segment(own.path(), 1)),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was taken for the own one"),
    }
    // So is the file itself, by whoever knows the database.
    let asked = LogOptions { database: Some(DatabaseId([7; 16])), ..options };
    match open_as(other.path(), asked) {
        Err(LogError::ForeignSegment { path, .. }) => assert_eq!(path, other.path().join(BEGUN)),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was taken for the own one"),
    }
}

#[test]
fn at_the_operators_word_the_log_ends_where_it_can_be_read_and_goes_on_from_there() {
    let payloads = payloads(14);
    type Damage = fn(&Path);
    let damages: [Damage; 4] = [
        |dir| edit(&segment(dir, 2), |bytes| bytes[2 * SECTOR..].fill(0)),
        |dir| edit(&segment(dir, 2), |bytes| bytes.truncate(2 * SECTOR + 77)),
        |dir| edit(&segment(dir, 2), |bytes| bytes.truncate(16 * SECTOR)),
        |dir| std::fs::write(dir.join(BEGUN), b"").unwrap(),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        for (how, dir) in logs(&payloads) {
            damage(dir.path());
            let what = format!("{number} {how}");
            if open_as(copy_of(dir.path()).path(), options()).is_ok() {
                assert_eq!((number, how), (2, "closed"), "only what is known to be complete is opened");
                continue;
            }
            let (mut log, _, found) = open_on(Arc::new(RealDisk), dir.path(), accepting(dir.path())).unwrap();
            assert!(found == payloads[..found.len()], "{what}");
            let mut expected = found;
            for seed in 50..56 {
                // Nobody misses again what was given up, however far the log has come by now.
                assert_eq!(open_as(copy_of(dir.path()).path(), options()).unwrap(), expected, "{what}");
                expected.push(payload(seed, 500));
                log.append(expected.last().unwrap()).unwrap();
            }
            log.close().unwrap();
            edit(&dir.path().join(BEGUN), |bytes| {
                // Whichever of the two is torn by the next write.
                let slot = if u64::from_le_bytes(bytes[SECTOR + 32..SECTOR + 40].try_into().unwrap()) % 2 == 0 {
                    2
                } else {
                    1
                };
                bytes[slot * SECTOR + 9] ^= 1;
            });
            assert_eq!(open_as(dir.path(), options()).unwrap(), expected, "{what}");
        }
    }
}

#[test]
fn logs_of_earlier_releases_are_taken_as_they_are_and_say_from_then_on_how_far_they_reach() {
    let payloads = payloads(5);
    for (how, dir) in logs(&payloads) {
        std::fs::write(dir.path().join(BEGUN), BEGUN_BEFORE).unwrap();
        assert_eq!(open_as(dir.path(), options()).unwrap(), payloads, "{how}");
        let last = segments(dir.path()).pop().unwrap();
        edit(&last, |bytes| bytes[SECTOR..].fill(0));
        refused_by_name(&open_error(dir.path()), dir.path());
    }
}

/// A log that nobody writes any more says once how far it came.
#[test]
fn an_idle_log_says_how_far_it_reaches() {
    for ahead in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let options = LogOptions { look_interval: Duration::from_millis(20), prepare_ahead: ahead, ..options() };
        let _log = write_into(dir.path(), options, &payloads(3));
        let reached = || {
            let bytes = std::fs::read(dir.path().join(BEGUN)).unwrap();
            let block = |slot: usize| u64::from_le_bytes(bytes[slot * SECTOR + 40..][..8].try_into().unwrap());
            block(1).max(block(2))
        };
        let begun = std::time::Instant::now();
        while reached() < 3 {
            assert!(begun.elapsed() < Duration::from_secs(120), "it does not say so");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_log_whose_files_go_away_takes_no_more() {
    type Away = fn(&Path);
    let ways: [(Away, &str); 4] = [
        (|dir| std::fs::remove_dir_all(dir).unwrap(), "redo-0000000001.log was removed"),
        (|dir| std::fs::rename(dir, dir.with_extension("moved")).unwrap(), "redo-0000000001.log was removed"),
        (
            |dir| {
                let away = dir.with_extension("moved");
                std::fs::rename(dir, &away).unwrap();
                std::fs::create_dir(dir).unwrap();
                for name in ["redo-0000000001.log", BEGUN] {
                    std::fs::copy(away.join(name), dir.join(name)).unwrap();
                }
            },
            "redo-0000000001.log was removed, moved or replaced",
        ),
        (|dir| std::fs::remove_file(dir.join(BEGUN)).unwrap(), "redo-begun was removed"),
    ];
    for (away, text) in ways {
        let above = tempfile::tempdir().unwrap();
        let dir = above.path().join("data");
        let mut log = write_into(&dir, noting(), &payloads(2));
        away(&dir);
        let failure = log.append(b"into the void").unwrap_err();
        assert!(failure.text().contains(text) && failure.text().contains("put them back"), "{failure}");
        assert_eq!(log.append(b"more").unwrap_err(), failure, "for good");
        assert_eq!(log.log().failure(), Some(failure));
        assert!(log.close().is_err());
    }
}

/// The power goes at every operation of the disk while the log says after every batch how far it
/// reaches: what opens then has all that was acknowledged, and nothing is missed that was not
/// there.
#[test]
fn no_loss_of_power_is_taken_for_a_loss_of_the_tail() {
    let dir = Path::new("/log");
    let payloads = payloads(13);
    let opened = |disk: &SimulatedDisk| open_on(Arc::new(disk.clone()), dir, noting());
    for boundary in 1.. {
        let mut reached = true;
        for way in 0..4 {
            let disk = SimulatedDisk::new(boundary * 4 + way, SimulatedClock::default());
            disk.crash_at(Some(CrashPoint { boundary, after: way % 2 == 1 }));
            let mut acknowledged = 0;
            if let Ok((mut log, ..)) = opened(&disk) {
                while acknowledged < payloads.len() && log.append(&payloads[acknowledged]).is_ok() {
                    acknowledged += 1;
                }
                reached = log.close().is_err();
            }
            if !reached {
                break;
            }
            disk.restart(Restart::Power);
            let (log, _, found) = opened(&disk).unwrap_or_else(|error| panic!("boundary {boundary} {way}: {error}"));
            assert!(found.len() >= acknowledged && found == payloads[..found.len()], "{boundary} {way}");
            drop(log);
            // And what a second one leaves, wherever it strikes the recovery.
            assert_eq!(opened(&disk.copy(5)).unwrap().2, found, "{boundary} {way}");
        }
        if !reached {
            assert!(boundary > 60, "the test comes to the end of the log: {boundary}");
            break;
        }
    }
}
