use super::*;
use crate::disk::{SECTOR_BYTES, SectorBuffer};

const FILE: &str = "/data/file";

fn disk(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed, SimulatedClock::default());
    disk.create_dir(Path::new("/data")).unwrap();
    disk
}

fn made(disk: &SimulatedDisk) -> Box<dyn DiskFile> {
    disk.open(Path::new(FILE), OpenMode::Create).unwrap()
}

fn content(disk: &SimulatedDisk) -> Option<Vec<u8>> {
    disk.bytes_of(Path::new(FILE))
}

#[test]
fn what_is_synced_survives_and_what_is_not_may_be_lost_torn_or_kept() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let disk = disk(seed);
        let file = made(&disk);
        file.write_at(&[1; 4096], 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/data")).unwrap();
        file.write_at(&[2; 1024], 512).unwrap();
        assert_eq!(content(&disk).unwrap()[512..1536], [2; 1024]);
        disk.halt();
        assert!(file.write_at(&[3], 0).is_err() && file.sync_data().is_err());
        disk.restart(Restart::Power);
        assert!(file.write_at(&[3], 0).is_err(), "a handle from before");
        let bytes = content(&disk).unwrap();
        assert_eq!(bytes.len(), 4096);
        assert!(bytes[..512].iter().chain(&bytes[1536..]).all(|byte| *byte == 1));
        outcomes.insert((bytes[512], bytes[1023], bytes[1024], bytes[1535]));
    }
    // Nothing, all, each half without the other, a torn sector.
    for seen in [(1, 1, 1, 1), (2, 2, 2, 2), (2, 2, 1, 1), (1, 1, 2, 2)] {
        assert!(outcomes.contains(&seen), "{outcomes:?}");
    }
    assert!(outcomes.iter().any(|seen| seen.0 != seen.1 || seen.2 != seen.3), "{outcomes:?}");
}

#[test]
fn the_end_of_the_process_loses_nothing() {
    let disk = disk(1);
    made(&disk).write_at(b"kept", 0).unwrap();
    disk.restart(Restart::Process);
    assert_eq!(content(&disk).unwrap(), b"kept");
}

#[test]
fn names_that_were_not_synced_may_be_lost() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..50 {
        let disk = disk(seed);
        made(&disk).sync_data().unwrap();
        disk.restart(Restart::Power);
        match content(&disk) {
            Some(_) => kept += 1,
            None => lost += 1,
        }
    }
    assert!(lost > 5 && kept > 5, "{lost} {kept}");
}

#[test]
fn a_rename_is_there_wholly_or_not_at_all() {
    let other = Path::new("/data/other");
    for seed in 0..50 {
        let disk = disk(seed);
        let file = made(&disk);
        file.write_at(b"new", 0).unwrap();
        file.sync_data().unwrap();
        let old = disk.open(other, OpenMode::Create).unwrap();
        old.write_at(b"old", 0).unwrap();
        old.sync_data().unwrap();
        disk.sync_dir(Path::new("/data")).unwrap();
        disk.rename(Path::new(FILE), other).unwrap();
        disk.restart(Restart::Power);
        let bytes = disk.bytes_of(other).expect("it has one or the other");
        assert_eq!(content(&disk).is_some(), bytes == b"old");
    }
}

#[test]
fn a_failed_fsync_may_lose_what_a_second_one_then_calls_durable() {
    let mut lost = 0;
    for seed in 0..50 {
        let disk = disk(seed);
        let file = made(&disk);
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/data")).unwrap();
        file.write_at(b"gone?", 0).unwrap();
        let at = disk.count(FaultKind::Sync) + 1;
        disk.fail(Fault { kind: FaultKind::Sync, at, times: 1, error: Fault::EIO, short: 0 });
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
        assert_eq!(content(&disk).unwrap(), b"gone?", "the page cache still shows it");
        disk.restart(Restart::Power);
        lost += usize::from(content(&disk).unwrap() != b"gone?");
    }
    assert!(lost > 10, "{lost}");
}

#[test]
fn a_full_disk_takes_a_part_and_says_so() {
    let disk = disk(1);
    let file = made(&disk);
    disk.set_capacity(5);
    let error = file.write_at(b"1234567", 0).unwrap_err();
    assert!(error.is_out_of_space());
    assert_eq!(content(&disk).unwrap(), b"12345");
    assert!(file.preallocate(6).unwrap_err().is_out_of_space());
    disk.set_capacity(7);
    file.write_at(b"1234567", 0).unwrap();
}

#[test]
fn power_is_lost_before_or_after_the_operation_that_was_named() {
    for (after, expected) in [(false, &b"one"[..]), (true, &b"two"[..])] {
        let disk = disk(1);
        let file = made(&disk);
        file.write_at(b"one", 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/data")).unwrap();
        file.write_at(b"two", 0).unwrap();
        disk.crash_at(Some(CrashPoint { boundary: disk.boundaries() + 1, after }));
        assert!(file.sync_data().is_err() && disk.has_halted());
        disk.restart(Restart::Process);
        let direct = disk.open(Path::new(FILE), OpenMode::ReadDirect).unwrap();
        let mut buffer = SectorBuffer::new();
        buffer.extend_zeros(SECTOR_BYTES);
        assert_eq!(direct.read_at(buffer.as_mut_slice(), 0).unwrap(), 3);
        if after {
            disk.restart(Restart::Power);
            assert_eq!(content(&disk).unwrap(), expected);
        }
    }
}

#[test]
fn the_same_seed_does_the_same() {
    let run = |seed| {
        let disk = disk(seed);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&lines);
        disk.trace(move |line| told.lock().unwrap().push(line.to_owned()));
        let file = made(&disk);
        (0..40).for_each(|number| file.write_at(&[number; 700], u64::from(number) * 300).unwrap());
        disk.sync_dir(Path::new("/data")).unwrap();
        disk.restart(Restart::Power);
        let lines = std::mem::take(&mut *lines.lock().unwrap());
        (lines, content(&disk))
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).1, run(8).1);
}

#[test]
fn held_syncs_go_on_when_whoever_holds_them_fails() {
    let disk = disk(1);
    let file = made(&disk);
    file.write_at(&[1; 700], 0).unwrap();
    let held_syncs = disk.hold_syncs();
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| file.sync_data());
        let failing = std::panic::AssertUnwindSafe(|| {
            let _held_syncs = held_syncs;
            disk.wait_for_held_sync();
            std::panic::resume_unwind(Box::new("a test fails"));
        });
        assert!(std::panic::catch_unwind(failing).is_err());
        syncing.join().unwrap().unwrap();
    });
}
