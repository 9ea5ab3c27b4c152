//! The first write or fsync error is final; what had been acknowledged is there after the restart.

use std::sync::Arc;

use crate::common::*;
use ferrite_io::simulated::{Fault, FaultKind, Restart, SimulatedDisk};
use ferrite_log::{Durability, LogError, LogFailed, LogOptions, Recovery};
use std::path::Path;

fn fault(kind: FaultKind, at: u64, error: i32) -> Fault {
    Fault { kind, at, times: u64::MAX, error, short: 0 }
}

fn failing(fault: Fault) -> SimulatedDisk {
    let disk = SimulatedDisk::healthy();
    disk.fail(fault);
    disk
}

fn opened(disk: &SimulatedDisk, options: LogOptions) -> Result<(TestLog, Recovery, Vec<Vec<u8>>), LogError> {
    open_on(Arc::new(disk.clone()), Path::new("/log"), options)
}

/// Appends, each waited for, until one fails; then checks that all later ones fail alike and the
/// disk is left alone. Answers the payloads acknowledged and the error.
fn run_until_failure(disk: &SimulatedDisk, options: LogOptions) -> (Vec<Vec<u8>>, LogFailed) {
    let (mut log, ..) = opened(disk, options).unwrap();
    let mut acknowledged = Vec::new();
    for seed in 0..200 {
        let bytes = payload(seed, 3_000 + seed as usize * 40);
        match log.append(&bytes) {
            Ok(()) => acknowledged.push(bytes),
            Err(failed) => {
                assert_eq!(log.log().failure(), Some(failed.clone()));
                assert!(log.log().statistics().failed.load(std::sync::atomic::Ordering::Relaxed));
                let counts =
                    || [FaultKind::Write, FaultKind::Sync, FaultKind::Preallocate].map(|kind| disk.count(kind));
                let before = counts();
                // Though the disk would do it now.
                assert_eq!(log.append(b"later").unwrap_err(), failed);
                assert_eq!(log.append(b"").unwrap_err(), failed, "barriers too");
                assert_eq!(log.close().unwrap_err(), failed);
                assert_eq!(counts(), before, "nothing more is done to the disk, at closing neither");
                return (acknowledged, failed);
            }
        }
    }
    panic!("nothing failed");
}

/// After the failure, and a loss of power, the log opens, with all that was acknowledged and at
/// most one append more.
fn check_reopened(disk: &SimulatedDisk, acknowledged: &[Vec<u8>]) {
    disk.heal();
    disk.restart(Restart::Power);
    let (mut log, _, found) = opened(disk, options()).unwrap();
    assert!(found.len() >= acknowledged.len() && found.len() <= acknowledged.len() + 1);
    assert!(found[..acknowledged.len()] == *acknowledged);
    log.append(b"goes on").unwrap();
    log.close().unwrap();
    assert_eq!(opened(disk, options()).unwrap().2.last().unwrap(), b"goes on");
}

#[test]
fn a_failed_fsync_is_final_even_if_the_next_would_succeed() {
    for at in [3, 5, 10, 30] {
        let disk = failing(Fault { times: 1, ..fault(FaultKind::Sync, at, Fault::EIO) });
        let (acknowledged, failed) = run_until_failure(&disk, options());
        let text = failed.text();
        assert!(text.starts_with("redo log: cannot fsync /") && text.contains("redo-00000"), "{text}");
        assert!(text.contains("os error 5") && text.contains("acknowledged transactions are safe"), "{text}");
        assert!(text.ends_with("To continue: repair the disk, then restart"), "{text}");
        assert!(failed.outcome_unknown().to_string().contains("cannot fsync"));
        check_reopened(&disk, &acknowledged);
    }
}

#[test]
fn failed_and_short_writes_are_final() {
    for at in [3, 4, 9, 20] {
        for short in [0, 1, 47, 500, 4_096] {
            let disk = failing(Fault { times: 1, short, ..fault(FaultKind::Write, at, Fault::EIO) });
            let (acknowledged, failed) = run_until_failure(&disk, options());
            assert!(failed.text().starts_with("redo log: cannot write /"), "{failed}");
            check_reopened(&disk, &acknowledged);
        }
    }
}

#[test]
fn out_of_space_is_named_with_what_to_do() {
    for (kind, at, operation) in [(FaultKind::Preallocate, 2, "preallocate"), (FaultKind::Write, 8, "write")] {
        let disk = failing(fault(kind, at, Fault::ENOSPC));
        let (acknowledged, failed) = run_until_failure(&disk, options());
        let text = failed.text();
        assert!(text.starts_with(&format!("redo log: cannot {operation} /")), "{text}");
        assert!(text.contains("No space left on device") && text.contains("free disk space, then restart"), "{text}");
        check_reopened(&disk, &acknowledged);
    }
}

/// A segment that could not be prepared ahead of need, and can be when it is needed, harms nobody.
#[test]
fn space_that_is_freed_in_time_harms_nobody() {
    let disk = failing(Fault { times: 1, ..fault(FaultKind::Preallocate, 2, Fault::ENOSPC) });
    let options = LogOptions { prepare_ahead: true, ..options() };
    let (mut log, ..) = opened(&disk, options).unwrap();
    // A quarter of the segment, then wait for the preparer to have tried.
    for seed in 0..4 {
        log.append(&payload(seed, 4_000)).unwrap();
    }
    let begin = std::time::Instant::now();
    while disk.count(FaultKind::Preallocate) < 2 {
        assert!(begin.elapsed() < std::time::Duration::from_secs(120));
        std::thread::yield_now();
    }
    for seed in 4..40 {
        log.append(&payload(seed, 4_000)).unwrap();
    }
    log.close().unwrap();
    assert_eq!(opened(&disk, self::options()).unwrap().2.concat().len(), 40 * 4_000);
}

#[test]
fn errors_off_the_commit_path_are_final_too() {
    // With `None` full segments are fsynced by the preparer, with `Interval` by the clock.
    for durability in [Durability::None, Durability::Interval(std::time::Duration::ZERO)] {
        for prepare_ahead in [false, true] {
            let disk = failing(fault(FaultKind::Sync, 4, Fault::EIO));
            let options = LogOptions { durability, prepare_ahead, ..options() };
            let (mut log, ..) = opened(&disk, options).unwrap();
            let mut failed = None;
            for seed in 0..100_000 {
                if let Err(error) = log.append(&payload(seed, 4_000)) {
                    failed = Some(error);
                    break;
                }
            }
            let failed = failed.unwrap_or_else(|| log.close().unwrap_err());
            assert!(failed.text().contains("cannot fsync"), "{failed}");
            assert!(failed.text().contains("acknowledged"), "{failed}");
        }
    }
}

#[test]
fn queued_appends_all_fail_in_order() {
    let disk = failing(fault(FaultKind::Write, 3, Fault::EIO));
    let (mut log, ..) = opened(&disk, options()).unwrap();
    for seed in 0..100 {
        log.send(&payload(seed, 100));
    }
    for expected in 0..100 {
        let (tag, outcome) = log.wait();
        assert_eq!(tag, expected);
        assert!(outcome.is_err());
    }
}

#[test]
fn failures_while_opening_are_errors_and_harm_nothing() {
    // Creation: preallocation, first write, first fsync.
    for (kind, error) in
        [(FaultKind::Preallocate, Fault::ENOSPC), (FaultKind::Write, Fault::EIO), (FaultKind::Sync, Fault::EIO)]
    {
        let disk = failing(Fault { short: 100, ..fault(kind, 1, error) });
        assert!(matches!(opened(&disk, options()), Err(LogError::Disk(_))));
        disk.heal();
        disk.restart(Restart::Power);
        let (_log, recovery, _) = opened(&disk, options()).unwrap();
        assert!(recovery.created);
    }
    // Cutting a torn tail, and marking the opening: interrupted at each step, then done again.
    let disk = SimulatedDisk::healthy();
    let (mut log, ..) = opened(&disk, options()).unwrap();
    for seed in 0..3 {
        log.append(&payload(seed, 6_000)).unwrap();
    }
    let killed = disk.copy(1);
    drop(log);
    killed.rot(&segment(Path::new("/log"), 1), 5 * SECTOR as u64 + 60, 0);
    for kind in [FaultKind::Write, FaultKind::Sync] {
        for at in 1..=2 {
            let copy = killed.copy(at);
            copy.fail(Fault { short: 4_096, ..fault(kind, at, Fault::EIO) });
            assert!(opened(&copy, options()).is_err());
            copy.heal();
            copy.restart(Restart::Power);
            let (_log, _, found) = opened(&copy, options()).unwrap();
            assert_eq!(found, [payload(0, 6_000), payload(1, 6_000)]);
        }
    }
}

/// An fsync that is done by the clock fails when nobody waits for an append: it is heard of all the
/// same, before the next.
#[test]
fn a_timed_fsync_that_fails_is_told_at_once() {
    let disk = failing(fault(FaultKind::Sync, 4, Fault::EIO));
    let options = LogOptions { durability: Durability::Interval(std::time::Duration::from_millis(1)), ..options() };
    let (mut log, ..) = opened(&disk, options).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    log.log().on_failure(move |failure| drop(tell.send(failure.clone())));
    // Each is acknowledged when it is written; the fault comes with one of their fsyncs.
    let heard = loop {
        if log.append(b"acknowledged").is_err() {
            break told.recv_timeout(std::time::Duration::from_secs(120));
        }
        if let Ok(failure) = told.recv_timeout(std::time::Duration::from_millis(100)) {
            break Ok(failure);
        }
    };
    let heard = heard.expect("the failure is told");
    assert!(heard.text().contains("cannot fsync"), "{heard}");
    assert_eq!(log.append(b"later").unwrap_err(), heard);
}

/// Making a segment takes file descriptors. Where the system has none, appends wait, and nothing is
/// lost or final.
#[test]
fn without_file_descriptors_the_log_waits() {
    let lacking = |ahead: u64, times: u64, options: &LogOptions| {
        let disk = SimulatedDisk::healthy();
        let (log, ..) = opened(&disk, options.clone()).unwrap();
        let at = disk.count(FaultKind::Name) + ahead;
        disk.fail(Fault { times, ..fault(FaultKind::Name, at, Fault::EMFILE) });
        (disk, log, at)
    };
    for prepare_ahead in [false, true] {
        let options = LogOptions { prepare_ahead, ..options() };
        // The file that says that a log was begun, the second segment, and their directory each
        // time.
        for ahead in 1..=4 {
            let (disk, mut log, at) = lacking(ahead, 1, &options);
            for seed in 0..40 {
                log.append(&payload(seed, 4_000)).expect("it was tried again");
            }
            assert!(disk.count(FaultKind::Name) > at, "the fault has come");
            log.close().unwrap();
            assert_eq!(opened(&disk, options.clone()).unwrap().2.concat().len(), 40 * 4_000);
        }
    }
    // For longer: who appends waits, and goes on when there are some.
    let (disk, mut log, at) = lacking(3, u64::MAX, &options());
    (0..40).for_each(|seed| log.send(&payload(seed, 4_000)));
    while disk.count(FaultKind::Name) < at + 3 {
        std::thread::yield_now();
    }
    assert_eq!(log.log().failure(), None);
    disk.heal();
    (0..40).for_each(|_| log.wait().1.unwrap());
    // An end does not wait.
    disk.fail(fault(FaultKind::Name, 1, Fault::EMFILE));
    (0..40).for_each(|seed| log.send(&payload(seed, 4_000)));
    let failed = log.close().unwrap_err();
    assert!(failed.text().contains("Too many open files"), "{failed}");
}
