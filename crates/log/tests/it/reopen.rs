//! What was appended is there after every kind of end: orderly, killed, in many segments, larger
//! than a block.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use ferrite_io::{OpenMode, RealDisk};
use ferrite_log::{Durability, LogError, LogOptions};

#[test]
fn an_empty_log_is_created_once() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, recovery, payloads) = open(dir.path());
    assert!(recovery.created && recovery.clean && recovery.torn.is_none() && payloads.is_empty());
    log.close().unwrap();
    let before = std::fs::read(segment(dir.path(), 1)).unwrap();
    let (mut log, recovery, payloads) = open(dir.path());
    assert!(!recovery.created && recovery.clean && recovery.torn.is_none() && payloads.is_empty());
    assert_eq!(recovery.database, DATABASE);
    log.close().unwrap();
    assert_eq!(std::fs::read(segment(dir.path(), 1)).unwrap(), before, "idle runs leave no trace");
}

#[test]
fn reopen_cycles_keep_everything_in_order() {
    for durability in [Durability::Sync, Durability::Interval(Duration::from_millis(1)), Durability::None] {
        for prepare_ahead in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let options = LogOptions { durability, prepare_ahead, ..options() };
            let mut model: Vec<u8> = Vec::new();
            for cycle in 0..12u64 {
                let (mut log, recovery, payloads) = open_on(Arc::new(RealDisk), dir.path(), options.clone()).unwrap();
                assert_eq!(payloads.concat(), model);
                assert_eq!(recovery.payload_bytes, model.len() as u64);
                assert!(recovery.clean && recovery.torn.is_none(), "{recovery:?}");
                for append in 0..cycle {
                    let bytes = payload(cycle * 100 + append, (append as usize * 997 + 1) % 9_000);
                    log.send(&bytes);
                    model.extend_from_slice(&bytes);
                }
                for append in 0..cycle {
                    assert_eq!(log.wait(), (append, Ok(())));
                }
                log.close().unwrap();
            }
            let (_log, recovery, _) = open(dir.path());
            assert!(recovery.segments > 3);
        }
    }
}

/// A killed process leaves what it had written; opening again and again after that neither loses
/// nor adds.
#[test]
fn a_killed_process_loses_nothing() {
    for durability in [Durability::Sync, Durability::Interval(Duration::from_secs(3_600)), Durability::None] {
        let options = LogOptions { durability, ..options() };
        let mut model = Vec::new();
        let mut previous = tempfile::tempdir().unwrap();
        for cycle in 0..10u64 {
            let (mut log, recovery, payloads) = open_on(Arc::new(RealDisk), previous.path(), options.clone()).unwrap();
            assert_eq!(payloads.concat(), model);
            assert!(recovery.torn.is_none());
            assert_eq!(recovery.clean, cycle == 0);
            let bytes = payload(cycle, 5_000);
            log.append(&bytes).unwrap();
            model.extend_from_slice(&bytes);
            // The copy is the killed process's directory.
            let copy = copy_of(previous.path());
            log.close().unwrap();
            previous = copy;
        }
    }
}

#[test]
fn idle_openings_after_a_kill_do_not_grow_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    // That the first block was durable is known without another.
    log.append(b"data").unwrap();
    log.append(b"more").unwrap();
    let mut copy = copy_of(dir.path());
    let mut blocks = Vec::new();
    for _ in 0..4 {
        let (log, recovery, payloads) = open(copy.path());
        assert_eq!(payloads, [b"data", b"more"]);
        blocks.push(recovery.blocks);
        let next = copy_of(copy.path());
        drop(log);
        copy = next;
    }
    // Two for the data, and one that the first opening put there.
    assert_eq!(blocks, [2, 3, 3, 3]);
}

#[test]
fn appends_larger_than_a_block_or_a_segment_come_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    let big = options().block_bytes_max;
    let lengths = [big - 1, big, big + 1, 1, 3 * big, 2, 20 * SECTOR * 5, 3];
    for (seed, length) in lengths.iter().enumerate() {
        log.append(&payload(seed as u64, *length)).unwrap();
    }
    let copy = copy_of(dir.path());
    drop(log);
    for dir in [dir.path(), copy.path()] {
        let (_log, recovery, payloads) = open(dir);
        assert!(recovery.segments > 4);
        assert_eq!(payloads.len(), lengths.len());
        for (seed, length) in lengths.iter().enumerate() {
            assert!(payloads[seed] == payload(seed as u64, *length), "{seed}");
        }
    }
}

#[test]
fn the_limits_of_the_format_hold_a_full_block() {
    let dir = tempfile::tempdir().unwrap();
    let full = LogOptions::default();
    let lengths = [full.block_bytes_max, full.block_bytes_max + 1];
    let (mut log, ..) = open_on(Arc::new(RealDisk), dir.path(), full.clone()).unwrap();
    for (seed, length) in lengths.iter().enumerate() {
        log.append(&payload(seed as u64, *length)).unwrap();
    }
    log.close().unwrap();
    let (_log, recovery, payloads) = open_on(Arc::new(RealDisk), dir.path(), full).unwrap();
    assert_eq!(recovery.blocks, 1 + 2 + 1);
    assert!((0..2).all(|seed| payloads[seed] == payload(seed as u64, lengths[seed])));
}

#[test]
fn barriers_complete_in_order_and_write_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    log.send(b"");
    log.send(b"one");
    log.send(b"");
    log.send(b"two");
    log.send(b"");
    for tag in 0..5 {
        assert_eq!(log.wait(), (tag, Ok(())));
    }
    let written = log.log().statistics().written_bytes.load(std::sync::atomic::Ordering::Relaxed);
    log.append(b"").unwrap();
    assert_eq!(log.log().statistics().written_bytes.load(std::sync::atomic::Ordering::Relaxed), written);
    assert_eq!(log.log().statistics().queue_depth.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert!(log.log().statistics().fsyncs.count() >= 1);
    log.close().unwrap();
    let (_log, _, payloads) = open(dir.path());
    assert_eq!(payloads.concat(), b"onetwo");
}

#[test]
fn a_full_queue_makes_appends_wait_not_fail() {
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions { queue_bytes_max: 1_000, ..options() };
    let (mut log, ..) = open_on(Arc::new(RealDisk), dir.path(), options).unwrap();
    for seed in 0..300 {
        log.send(&payload(seed, 700));
    }
    for tag in 0..300 {
        assert_eq!(log.wait(), (tag, Ok(())));
    }
}

#[test]
fn a_second_opening_is_refused_and_names_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    let error = open_error(dir.path());
    assert!(matches!(error, LogError::Locked(_)));
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    log.close().unwrap();
    open(dir.path());
}

#[test]
fn appends_after_closing_complete_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    let appender = log.log().appender();
    log.close().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    appender.append(b"late".to_vec(), Tell { tag: 7, sender });
    let (tag, outcome) = receiver.recv().unwrap();
    assert_eq!((tag, outcome.unwrap_err().text()), (7, "redo log: it has been closed"));
}

#[test]
fn closing_completes_what_is_queued() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    for seed in 0..50 {
        log.send(&payload(seed, 100));
    }
    log.close().unwrap();
    for tag in 0..50 {
        assert_eq!(log.wait(), (tag, Ok(())));
    }
}

#[test]
fn with_an_interval_the_fsync_comes_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions { durability: Durability::Interval(Duration::from_millis(2)), ..options() };
    let (mut log, ..) = open_on(Arc::new(RealDisk), dir.path(), options).unwrap();
    log.append(b"data").unwrap();
    let begin = std::time::Instant::now();
    while log.log().statistics().fsyncs.count() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(120));
        std::thread::yield_now();
    }
}

#[test]
fn bad_options_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let bad = [
        LogOptions { segment_bytes: 5_000, ..options() },
        LogOptions { segment_bytes: 2 << 30, ..options() },
        LogOptions { segment_bytes: 5 * SECTOR as u64, ..options() },
        LogOptions { block_bytes_max: 0, ..options() },
        LogOptions { block_bytes_max: (16 << 20) + 1, ..LogOptions::default() },
        LogOptions { queue_bytes_max: 0, ..options() },
    ];
    for options in bad {
        assert!(matches!(open_on(Arc::new(RealDisk), dir.path(), options), Err(LogError::Options(_))));
    }
}

#[test]
fn a_visitor_that_refuses_stops_the_opening_with_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    log.append(b"good").unwrap();
    log.append(b"bad").unwrap();
    log.close().unwrap();
    let result = ferrite_log::Log::<Tell>::open(
        Arc::new(RealDisk),
        Arc::new(ferrite_io::SystemClock),
        dir.path(),
        options(),
        |_: ferrite_log::BlockPlace<'_>, payload: &[u8]| if payload == b"bad" { Err("it is bad") } else { Ok(()) },
    );
    let text = result.err().unwrap().to_string();
    assert!(text.contains("byte 8192") && text.ends_with("it is bad"), "{text}");
    // Nothing was changed, so it opens for a visitor who knows better.
    assert_eq!(open(dir.path()).2.len(), 2);
}

/// Whatever is in the rest of a segment is not taken for blocks, even if it was one once, in this
/// place of another log.
#[test]
fn content_of_another_log_is_not_taken_for_ones_own() {
    let ours = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(ours.path());
    log.append(b"ours").unwrap();
    let copy = copy_of(ours.path());
    drop(log);
    let foreign = LogOptions { database: None, ..options() };
    let (mut log, ..) = open_on(Arc::new(RealDisk), other.path(), foreign).unwrap();
    for seed in 0..4 {
        log.append(&payload(seed, 100)).unwrap();
    }
    log.close().unwrap();
    let stale = std::fs::read(segment(other.path(), 1)).unwrap();
    let file = ferrite_io::Disk::open(&RealDisk, &segment(copy.path(), 1), OpenMode::Write).unwrap();
    file.write_at(&stale[2 * SECTOR..], 2 * SECTOR as u64).unwrap();
    let (_log, recovery, payloads) = open(copy.path());
    assert_eq!(payloads, [b"ours"]);
    assert!(recovery.torn.is_some());
}

/// The same for a block of the same database, number and place, that follows another block than the
/// one before it: the chain is wrong.
#[test]
fn a_block_of_another_history_is_not_taken_for_ones_own() {
    let histories = [["one a", "two a"], ["one b", "two b"]].map(|payloads| {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, ..) = open(dir.path());
        payloads.iter().for_each(|payload| log.append(payload.as_bytes()).unwrap());
        copy_of(dir.path())
    });
    let stale = std::fs::read(segment(histories[1].path(), 1)).unwrap();
    edit(&segment(histories[0].path(), 1), |bytes| {
        bytes[2 * SECTOR..3 * SECTOR].copy_from_slice(&stale[2 * SECTOR..3 * SECTOR])
    });
    let (_log, recovery, payloads) = open(histories[0].path());
    assert_eq!(payloads, [b"one a"]);
    assert_eq!(recovery.torn.unwrap().position, 2 * SECTOR as u64);
}
