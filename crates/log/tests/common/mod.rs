//! What the tests share: a log in a temporary directory, appends that can be waited for.
#![allow(dead_code, reason = "each test file uses its part")]

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use ferrite_io::{Disk, RealDisk, SystemClock};
use ferrite_log::{Completion, DatabaseId, Log, LogError, LogFailed, LogOptions, LogPosition, OpenError, Recovery};

pub const SECTOR: usize = 4_096;
pub const DATABASE: DatabaseId = DatabaseId(*b"the test's own..");

/// Sends the outcome, with a tag that says whose it is.
pub struct Tell {
    pub tag: u64,
    pub sender: Sender<(u64, Result<(), LogFailed>)>,
}

impl Completion for Tell {
    fn complete(self, payload: Vec<u8>, outcome: Result<(), LogFailed>) {
        assert!(payload.is_empty(), "payloads come back empty");
        let _ = self.sender.send((self.tag, outcome));
    }
}

/// Small segments (15 sectors of blocks between header and seal), so that a test sees many, and no
/// thread that prepares, so that failures come in order.
pub fn options() -> LogOptions {
    LogOptions {
        database: Some(DATABASE),
        segment_bytes: 17 * SECTOR as u64,
        block_bytes_max: 3 * SECTOR,
        // Tests know what stands in the file `redo-begun`, however slow the machine is.
        look_interval: std::time::Duration::MAX,
        prepare_ahead: false,
        ..LogOptions::default()
    }
}

pub fn open_on(
    disk: Arc<dyn Disk>,
    dir: &Path,
    options: LogOptions,
) -> Result<(TestLog, Recovery, Vec<Vec<u8>>), LogError> {
    let mut payloads = Vec::new();
    let result =
        Log::open(disk, Arc::new(SystemClock), dir, options, |_: ferrite_log::BlockPlace<'_>, payload: &[u8]| {
            payloads.push(payload.to_vec());
            Ok::<(), Infallible>(())
        });
    match result {
        Ok((log, recovery)) => {
            let (sender, receiver) = channel();
            Ok((TestLog { log: Some(log), sender, receiver, next_tag: 0 }, recovery, payloads))
        }
        Err(OpenError::Log(error)) => Err(error),
        Err(OpenError::Replay { error, .. }) => match error {},
    }
}

pub fn open(dir: &Path) -> (TestLog, Recovery, Vec<Vec<u8>>) {
    open_on(Arc::new(RealDisk), dir, options()).unwrap()
}

pub fn open_error(dir: &Path) -> LogError {
    match open_on(Arc::new(RealDisk), dir, options()) {
        Ok((_, recovery, _)) => panic!("opened: {recovery:?}"),
        Err(error) => error,
    }
}

pub struct TestLog {
    pub log: Option<Log<Tell>>,
    sender: Sender<(u64, Result<(), LogFailed>)>,
    receiver: Receiver<(u64, Result<(), LogFailed>)>,
    next_tag: u64,
}

impl TestLog {
    pub fn log(&self) -> &Log<Tell> {
        self.log.as_ref().unwrap()
    }

    /// Appends without waiting.
    pub fn send(&mut self, payload: &[u8]) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.log().appender().append(payload.to_vec(), Tell { tag, sender: self.sender.clone() });
    }

    /// The same, and where it will stand.
    pub fn send_marked(&mut self, payload: &[u8]) -> Arc<OnceLock<LogPosition>> {
        let tag = self.next_tag;
        self.next_tag += 1;
        let mark = Arc::new(OnceLock::new());
        let completion = Tell { tag, sender: self.sender.clone() };
        let taken = self.log().appender().append_marked(payload.to_vec(), mark.clone(), completion);
        assert!(taken.is_ok(), "the log is open");
        mark
    }

    /// The outcome of the oldest append not waited for yet.
    pub fn wait(&mut self) -> (u64, Result<(), LogFailed>) {
        self.receiver.recv().unwrap()
    }

    /// The same, if it is there.
    pub fn answered(&mut self) -> Option<(u64, Result<(), LogFailed>)> {
        self.receiver.try_recv().ok()
    }

    /// Appends and waits, so that the payload gets a block of its own.
    pub fn append(&mut self, payload: &[u8]) -> Result<(), LogFailed> {
        self.send(payload);
        self.wait().1
    }

    pub fn close(&mut self) -> Result<(), LogFailed> {
        self.log.take().unwrap().close()
    }
}

/// Copies the files of a log: what a process killed at this moment leaves.
pub fn copy_of(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        // What was cut and kept is no part of the log.
        if path.is_file() {
            std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    copy
}

pub fn segment(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("redo-{number:010}.log"))
}

pub fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

/// A payload that differs from others in every byte that matters.
pub fn payload(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8 | 1
    };
    (0..length).map(|_| next()).collect()
}
