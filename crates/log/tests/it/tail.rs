//! Reading the log's files while they are written: what was completed comes, in order and whole,
//! or a word why not.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{SECTOR, TestLog, edit, open_on, options, payload, segment};
use ferrite_base::limits::CATCH_UP_READ_BYTES;
use ferrite_io::simulated::{Fault, FaultKind, SimulatedClock, SimulatedDisk};
use ferrite_io::{Disk, RealDisk};
use ferrite_log::{Durability, LogOptions, TailError, TailRead, TailReader};

const STREAM: u32 = 7;
const ANY_SIZE: usize = usize::MAX;

/// Payloads that begin with `E` and a number are entries.
fn numbers(mut payload: &[u8], found: &mut dyn FnMut(u32, u64)) {
    while let Some(([b'E', number @ ..], _)) = payload.split_first_chunk::<9>() {
        found(STREAM, u64::from_le_bytes(*number));
        let length = payload.get(9..13).map_or(0, |length| u32::from_le_bytes(length.try_into().unwrap()) as usize);
        payload = payload.get(length..).unwrap_or_default();
    }
}

fn entry(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![b'E'];
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    bytes.extend(payload(number, length - bytes.len()));
    bytes
}

fn tail_options() -> LogOptions {
    LogOptions { numbers: Some(numbers), ..options() }
}

fn simulated() -> (SimulatedDisk, TestLog) {
    let disk = SimulatedDisk::new(3, SimulatedClock::default());
    let (log, ..) = open_on(Arc::new(disk.clone()), Path::new("/d"), tail_options()).unwrap();
    (disk, log)
}

fn reader(log: &TestLog, number: u64) -> TailReader {
    TailReader::new(log.log().index(), STREAM, number, ANY_SIZE)
}

/// The numbers of the entries up to the end of what is completed, each compared with its bytes.
fn read(reader: &mut TailReader) -> Result<Vec<u64>, TailError> {
    let mut found = Vec::new();
    loop {
        match reader.step()? {
            TailRead::Working => {}
            TailRead::End => return Ok(found),
            TailRead::Payload(mut payload) => {
                while !payload.is_empty() {
                    let number = u64::from_le_bytes(payload[1..9].try_into().unwrap());
                    let length = u32::from_le_bytes(payload[9..13].try_into().unwrap()) as usize;
                    assert!(payload[..length] == entry(number, length), "entry {number}");
                    found.push(number);
                    payload = &payload[length..];
                }
            }
        }
    }
}

fn fill(log: &mut TestLog, numbers: std::ops::RangeInclusive<u64>) {
    numbers.for_each(|number| log.append(&entry(number, 3_000)).unwrap());
}

#[test]
fn what_is_written_meanwhile_comes_too() {
    let (_, mut log) = simulated();
    let mut from_start = reader(&log, 1);
    assert!(read(&mut from_start).unwrap().is_empty());
    // Each in a block of its own, which takes a sector: the end is met in every place of a segment.
    for number in 1..=60 {
        fill(&mut log, number..=number);
        assert_eq!(read(&mut from_start).unwrap(), [number]);
    }
    assert_eq!(from_start.segment(), Some(4));
    for first in 1..=60 {
        let found = read(&mut reader(&log, first)).unwrap();
        let begins = *found.first().unwrap();
        assert!(begins <= first && first - begins < 15, "from {first} it begins with {begins}, in its segment");
        assert_eq!(found, (begins..=60).collect::<Vec<_>>());
    }
}

#[test]
fn several_appends_in_a_block_and_one_in_several_come_whole() {
    let (_, mut log) = simulated();
    let lengths = [100, 20_000, 13, 13, 150_000, 60_000, 5_000, 61_000, 17, 4_000];
    let mut tail = reader(&log, 1);
    let mut number = 0;
    for _ in 0..8 {
        let first = number + 1;
        for length in lengths {
            number += 1;
            log.send(&entry(number, length));
        }
        lengths.iter().for_each(|_| log.wait().1.unwrap());
        assert_eq!(read(&mut tail).unwrap(), (first..=number).collect::<Vec<_>>());
    }
    for first in 1..=number {
        let found = read(&mut reader(&log, first)).unwrap();
        assert!(found[0] <= first && *found.last().unwrap() == number, "from {first}");
        assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    }
}

#[test]
fn a_payload_at_the_bound_is_given_out_and_one_byte_more_is_refused() {
    let (_, mut log) = simulated();
    log.append(&entry(1, 40_000)).unwrap();
    log.append(&entry(2, 40_001)).unwrap();
    let mut tail = TailReader::new(log.log().index(), STREAM, 1, 40_000);
    for _ in 0..2 {
        let refused = loop {
            match tail.step() {
                Ok(TailRead::Payload(payload)) => assert_eq!(payload.len(), 40_000),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, TailError::TooLarge { bytes_max: 40_000 }), "{refused}");
    }
}

/// A block that is larger than what is read at a time is read in one piece all the same.
#[test]
fn blocks_at_the_size_of_a_read_and_beyond_come_whole() {
    let disk = SimulatedDisk::new(3, SimulatedClock::default());
    let options = LogOptions {
        segment_bytes: 16 * CATCH_UP_READ_BYTES as u64,
        block_bytes_max: 3 * CATCH_UP_READ_BYTES,
        ..tail_options()
    };
    let (mut log, ..) = open_on(Arc::new(disk), Path::new("/d"), options).unwrap();
    let mut tail = reader(&log, 1);
    for (number, length) in
        (1..).zip([CATCH_UP_READ_BYTES - 48, CATCH_UP_READ_BYTES - 47, 3 * CATCH_UP_READ_BYTES, 100, 2_000_000])
    {
        log.append(&entry(number, length)).unwrap();
        assert_eq!(read(&mut tail).unwrap(), [number]);
    }
    assert_eq!(read(&mut reader(&log, 1)).unwrap(), [1, 2, 3, 4, 5]);
}

/// Numbers go back where a suffix is replaced: reading begins where the last entry of the number
/// stands.
#[test]
fn the_last_entry_of_a_number_is_found() {
    let (disk, mut log) = simulated();
    fill(&mut log, 1..=40);
    fill(&mut log, 20..=25);
    fill(&mut log, 26..=60);
    let check = |log: &TestLog| {
        let found = read(&mut reader(log, 19)).unwrap();
        assert!(found.windows(2).any(|pair| pair == [40, 20]), "{found:?}");
        for first in 20..=60 {
            let found = read(&mut reader(log, first)).unwrap();
            let last_lap = found.iter().rposition(|number| *number == first).unwrap();
            assert_eq!(found[last_lap..], (first..=60).collect::<Vec<_>>());
            assert!(last_lap < 15, "from {first}: {found:?}");
        }
    };
    check(&log);
    log.close().unwrap();
    let (log, ..) = open_on(Arc::new(disk), Path::new("/d"), tail_options()).unwrap();
    check(&log);
}

#[test]
fn rot_is_an_error_that_names_the_place_and_what_is_before_comes() {
    for (at, flipped) in [(5 * SECTOR, 5 * SECTOR + 20), (5 * SECTOR, 5 * SECTOR + 2_000), (0, 40)] {
        let (disk, mut log) = simulated();
        fill(&mut log, 1..=50);
        let path = segment(Path::new("/d"), 2);
        disk.rot(&path, flipped as u64, 3);
        let mut tail = reader(&log, 1);
        let mut found = Vec::new();
        for _ in 0..2 {
            let error = loop {
                match tail.step() {
                    Ok(TailRead::Payload(payload)) => found.push(payload[1]),
                    Ok(TailRead::Working) => {}
                    Ok(TailRead::End) => panic!("rot is not the end"),
                    Err(error) => break error,
                }
            };
            let TailError::Rot { path: named, position, .. } = &error else { panic!("{error}") };
            assert_eq!((named, *position), (&path, at as u64), "{error}");
        }
        let whole = if at == 0 { 15 } else { 15 + 4 };
        assert_eq!(found, (1..=whole).collect::<Vec<u8>>());
    }
}

#[test]
fn a_read_that_fails_is_tried_again() {
    let (disk, mut log) = simulated();
    fill(&mut log, 1..=50);
    let kind = FaultKind::Read;
    let mut tail = reader(&log, 1);
    let (mut found, mut failures, mut fails) = (0, 0, true);
    loop {
        disk.heal();
        if fails {
            disk.fail(Fault { kind, at: disk.count(kind) + 1, times: 1, error: Fault::EIO, short: 0 });
        }
        fails = true;
        match tail.step() {
            Ok(TailRead::Payload(payload)) => found += payload.len() / 3_000,
            Ok(TailRead::Working) => {}
            Ok(TailRead::End) => break,
            Err(TailError::Disk(_)) => (failures, fails) = (failures + 1, false),
            Err(error) => panic!("{error}"),
        }
    }
    disk.heal();
    assert!(failures > 3 && found == 50, "{failures} failures, {found} entries");
}

#[test]
fn segments_that_are_read_stay_within_the_bound_and_readers_beyond_it_are_told() {
    let bytes = 17 * SECTOR as u64;
    let (disk, mut log) = simulated();
    fill(&mut log, 1..=100);
    let here = |number| disk.bytes_of(&segment(Path::new("/d"), number)).is_some();
    let index = log.log().index();
    // 15 entries in each segment.
    let (mut first, mut third) = (reader(&log, 1), reader(&log, 31));
    assert!(matches!(first.step(), Ok(TailRead::Working)) && matches!(third.step(), Ok(TailRead::Working)));
    assert_eq!((first.segment(), third.segment()), (Some(1), Some(3)));
    assert_eq!(index.truncate_before(6, 5 * bytes, &|| {}).unwrap(), 0, "as many bytes as the bound");
    assert_eq!(index.truncate_before(6, 5 * bytes - 1, &|| {}).unwrap(), 2, "one byte less");
    assert!(!here(2) && here(3));
    assert!(matches!(first.step(), Err(TailError::Removed)));
    assert!(matches!(first.step(), Err(TailError::Removed)));
    assert_eq!(read(&mut third).unwrap(), (31..=100).collect::<Vec<_>>());
    assert!(matches!(read(&mut reader(&log, 1)), Err(TailError::Removed)));
    // Whoever has read on, or has gone, holds nothing.
    let held = reader(&log, 40);
    drop(held);
    assert_eq!(index.truncate_before(6, u64::MAX, &|| {}).unwrap(), 3);
    assert!(!here(5) && here(6));
    assert!(matches!(read(&mut reader(&log, 75)), Err(TailError::Removed)));
    assert_eq!(read(&mut reader(&log, 76)).unwrap(), (76..=100).collect::<Vec<_>>());
}

/// Who removes files around the index is noticed as well.
#[test]
fn a_segment_that_is_gone_is_removed() {
    let (disk, mut log) = simulated();
    fill(&mut log, 1..=50);
    disk.remove(&segment(Path::new("/d"), 1)).unwrap();
    assert!(matches!(read(&mut reader(&log, 1)), Err(TailError::Removed)));
    assert_eq!(read(&mut reader(&log, 16)).unwrap()[0], 16);
}

/// Recovery reads from a snapshot's place on only; the segments before it are looked through when
/// somebody asks for what is in them.
#[test]
fn what_recovery_did_not_read_is_looked_through_when_it_is_asked_for() {
    let (disk, mut log) = simulated();
    let large = 100_000;
    fill(&mut log, 1..=50);
    // Goes on in several segments: what is in the first one of those must be found from before.
    log.append(&entry(51, large)).unwrap();
    fill(&mut log, 52..=80);
    let mark = log.send_marked(&entry(81, 3_000));
    log.wait().1.unwrap();
    fill(&mut log, 82..=120);
    log.close().unwrap();
    let from = Some(*mark.get().unwrap());
    let (mut log, _, replayed) =
        open_on(Arc::new(disk.clone()), Path::new("/d"), LogOptions { from, ..tail_options() }).unwrap();
    assert_eq!(replayed.len(), 40);
    for first in [120, 81, 80, 60, 52, 51, 50, 31, 1, 52, 100] {
        let found = read(&mut reader(&log, first)).unwrap();
        assert!(found[0] <= first && *found.last().unwrap() == 120, "from {first}: {found:?}");
        assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    }
    fill(&mut log, 121..=130);
    assert_eq!(*read(&mut reader(&log, 3)).unwrap().last().unwrap(), 130);
    assert_eq!(log.log().index().truncate_before(3, 0, &|| {}).unwrap(), 2);
    assert!(matches!(read(&mut reader(&log, 3)), Err(TailError::Removed)));
    assert!(read(&mut reader(&log, 50)).unwrap().contains(&50));
    drop(log);
    // And where some of them are gone before anybody has asked.
    let (log, ..) = open_on(Arc::new(disk.clone()), Path::new("/d"), LogOptions { from, ..tail_options() }).unwrap();
    assert!(matches!(read(&mut reader(&log, 30)), Err(TailError::Removed)));
    // The first block of the first segment may go on with what is gone.
    assert_eq!(read(&mut reader(&log, 40)).unwrap()[0], 32);
}

/// What stands in the file and is not durable is not shown; and what was read of it is not believed
/// later.
#[test]
fn what_is_written_and_not_durable_is_not_shown() {
    let (disk, mut log) = simulated();
    fill(&mut log, 1..=3);
    let mut tail = reader(&log, 1);
    assert_eq!(read(&mut tail).unwrap(), [1, 2, 3]);
    for number in 4..=40 {
        let mut late = reader(&log, 1);
        let held = disk.hold_syncs();
        log.send(&entry(number, 3_000));
        disk.wait_for_held_sync();
        assert!(read(&mut tail).unwrap().is_empty());
        assert_eq!(read(&mut late).unwrap().last(), Some(&(number - 1)));
        drop(held);
        log.wait().1.unwrap();
        assert_eq!(read(&mut tail).unwrap(), [number]);
        assert_eq!(read(&mut late).unwrap(), [number]);
    }
}

/// Threads, real files, every durability: what is read is what was completed at that time.
#[test]
fn a_reader_keeps_up_with_a_writer_on_another_thread() {
    for durability in [Durability::Sync, Durability::Interval(std::time::Duration::from_millis(1)), Durability::None] {
        let dir = tempfile::tempdir().unwrap();
        let options = LogOptions { durability, prepare_ahead: true, ..tail_options() };
        let (mut log, ..) = open_on(Arc::new(RealDisk), dir.path(), options).unwrap();
        let mut tail = reader(&log, 1);
        let written = Arc::new(AtomicBool::new(false));
        let reading = std::thread::spawn({
            let written = Arc::clone(&written);
            move || {
                let mut found = Vec::new();
                loop {
                    let last = written.load(Ordering::Acquire);
                    found.extend(read(&mut tail).unwrap());
                    if last {
                        return found;
                    }
                    std::thread::yield_now();
                }
            }
        });
        for number in 1..=400 {
            log.send(&entry(number, 13 + (number as usize * 7_919) % 9_000));
            if number % 5 == 0 {
                (0..5).for_each(|_| log.wait().1.unwrap());
            }
        }
        written.store(true, Ordering::Release);
        assert_eq!(reading.join().unwrap(), (1..=400).collect::<Vec<_>>(), "{durability:?}");
        log.close().unwrap();
        // What has rotted on the disk is noticed there too.
        let path = segment(dir.path(), 2);
        let (log, ..) = open_on(Arc::new(RealDisk), dir.path(), tail_options()).unwrap();
        edit(&path, |bytes| bytes[3 * SECTOR + 5] ^= 1);
        assert!(matches!(read(&mut reader(&log, 1)), Err(TailError::Rot { path: named, .. }) if named == path));
    }
}
