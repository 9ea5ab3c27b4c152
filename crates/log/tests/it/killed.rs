//! SIGKILL under load: what was acknowledged is there, and without the last segment the log does
//! not open as if nothing were lost.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::common::*;
use ferrite_io::RealDisk;
use ferrite_log::{LogError, LogOptions};

const DIRECTORY: &str = "FERRITE_LOG_TEST_DIRECTORY";

fn payload_of(number: u64) -> Vec<u8> {
    payload(number, 500 + number as usize * 977 % 9_000)
}

/// The other process: appends until it is killed, and says how many are acknowledged. Ends by
/// itself where nobody listens.
#[test]
fn appends_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let options = LogOptions { prepare_ahead: true, ..options() };
    let (mut log, ..) = open_on(Arc::new(RealDisk), Path::new(&dir), options).unwrap();
    let mut out = std::io::stdout();
    let mut waiting = VecDeque::new();
    for number in 0.. {
        log.send(&payload_of(number));
        waiting.push_back(number);
        // Some wait alone, some in a crowd.
        while waiting.len() as u64 > number % 7 {
            log.wait().1.unwrap();
            writeln!(out, "acknowledged {}", waiting.pop_front().unwrap() + 1).unwrap();
        }
    }
}

/// How many appends the process was told to be durable.
fn killed_after(dir: &Path, at_least: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::appends_until_it_is_killed", "--nocapture"])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        let Some(number) = line.strip_prefix("acknowledged ") else { continue };
        acknowledged = number.parse().unwrap();
        if acknowledged == at_least {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged >= at_least);
    acknowledged
}

#[test]
fn without_its_last_segment_a_killed_log_does_not_open() {
    let mut missed = 0;
    for at_least in [4, 9, 30, 31, 32, 33, 80, 150] {
        let dir = tempfile::tempdir().unwrap();
        let acknowledged = killed_after(dir.path(), at_least) as usize;
        // Several appends come back in one piece; what was sent and not acknowledged may be there
        // too.
        let sent: Vec<Vec<u8>> = (0..acknowledged as u64 + 100).map(payload_of).collect();
        let (acknowledged, sent) = (sent[..acknowledged].concat(), sent.concat());
        let check = |found: &[Vec<u8>]| {
            let found = found.concat();
            assert!(
                found.starts_with(&acknowledged) && sent.starts_with(&found),
                "{} bytes at {at_least}",
                found.len()
            );
        };
        check(&open(copy_of(dir.path()).path()).2);
        let used = |path: &PathBuf| std::fs::read(path).is_ok_and(|bytes| bytes.iter().any(|byte| *byte != 0));
        let last = (1..).map(|number| segment(dir.path(), number)).take_while(used).last().unwrap();
        std::fs::remove_file(&last).unwrap();
        match open_on(Arc::new(RealDisk), dir.path(), options()) {
            Err(LogError::Rot { missing: Some(missing), .. }) => {
                assert_eq!(missing, last);
                missed += 1;
            }
            Err(error) => panic!("{error}"),
            // Killed between a segment's first write and the first acknowledgement from it.
            Ok((_, _, found)) => check(&found),
        }
    }
    assert!(missed >= 4, "{missed}");
}
