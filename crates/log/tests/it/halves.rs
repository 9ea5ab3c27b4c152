//! A log that is moved on by its callers, half a round at a time: what comes between the write and
//! the fsync.

use crate::common::*;
use ferrite_io::simulated::{Fault, FaultKind, Restart, SimulatedDisk};
use ferrite_log::LogOptions;
use std::path::Path;
use std::sync::Arc;

fn opened(disk: &SimulatedDisk) -> (TestLog, Vec<Vec<u8>>) {
    let options = LogOptions { own_threads: false, ..options() };
    let (log, _, found) = open_on(Arc::new(disk.clone()), Path::new("/log"), options).unwrap();
    (log, found)
}

#[test]
fn what_is_appended_while_an_fsync_runs_waits_for_the_next_round() {
    let disk = SimulatedDisk::healthy();
    let (mut log, _) = opened(&disk);
    log.send(b"first");
    let written = disk.count(FaultKind::Write);
    assert!(log.log().half_step() && log.log().has_work());
    assert!(disk.count(FaultKind::Write) > written && log.answered().is_none(), "it is written, no more");
    log.send(b"second");
    assert!(log.log().half_step());
    assert_eq!(log.answered(), Some((0, Ok(()))));
    assert!(log.answered().is_none() && log.log().has_work(), "no fsync covers what came since");
    // A whole round ends what was begun.
    assert!(log.log().half_step() && log.log().step());
    assert_eq!(log.answered(), Some((1, Ok(()))));
    assert!(!log.log().has_work());
    log.close().unwrap();
    assert_eq!(opened(&disk).1, [b"first".to_vec(), b"second".to_vec()]);
}

#[test]
fn an_end_between_the_halves_completes_what_was_written_or_fails_it() {
    for fails in [false, true] {
        let disk = SimulatedDisk::healthy();
        let (mut log, _) = opened(&disk);
        log.send(b"first");
        assert!(log.log().half_step());
        if fails {
            let at = disk.count(FaultKind::Sync) + 1;
            disk.fail(Fault { kind: FaultKind::Sync, at, times: 1, error: Fault::EIO, short: 0 });
        }
        assert_eq!(log.close().is_err(), fails);
        assert_eq!(log.answered().map(|(tag, outcome)| (tag, outcome.is_err())), Some((0, fails)));
        disk.heal();
        disk.restart(Restart::Power);
        let found = opened(&disk).1;
        assert!(fails || found == [b"first".to_vec()], "{found:?}");
    }
}
