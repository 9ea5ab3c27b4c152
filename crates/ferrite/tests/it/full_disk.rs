//! A disk that is really full: a small tmpfs of our own, written until there is no more room, then
//! made larger. Nothing that was acknowledged is lost, nothing that was refused is there, and what
//! was said tells what to do.
//!
//! Needs the right to mount; without it the tests say so and end.

use crate::common::{Db, Server};
use ferrite_client::{Client, ClientError, ClientOptions, Prepared};
use ferrite_value::OwnedValue;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TABLE: &str = "CREATE TABLE filler (id BIGINT NOT NULL, content VARBINARY(100000) NOT NULL, PRIMARY KEY (id));
    PARTITION TABLE filler ON COLUMN id";
/// A server takes note of room within some seconds; a busy machine has more.
const NOTICE_SECONDS_MAX: u64 = 120;

/// A file system of its own for the length of a test.
pub struct SmallDisk {
    path: PathBuf,
    /// Removed when it is a file system no more.
    dir: Option<tempfile::TempDir>,
}

impl SmallDisk {
    /// None where mounting is not allowed.
    fn new(megabytes: u32) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut disk = SmallDisk::at(dir.path(), megabytes)?;
        disk.dir = Some(dir);
        Some(disk)
    }

    /// The same in a directory that is made if it is not there.
    pub fn at(path: &Path, megabytes: u32) -> Option<SmallDisk> {
        std::fs::create_dir_all(path).expect("a directory");
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk { path: path.to_path_buf(), dir: None }),
            Ok(output) => {
                println!("skipped: a tmpfs cannot be mounted: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                println!("skipped: there is no mount: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn resize(&self, megabytes: u32) {
        self.remount(&format!("size={megabytes}m"));
    }

    pub fn remount(&self, option: &str) {
        let options = format!("remount,{option}");
        let status =
            Command::new("mount").args(["-o", &options]).arg(self.path()).status().expect("mount was there before");
        assert!(status.success(), "the tmpfs cannot be mounted again with {option}");
    }

    /// Takes so much room, which is there.
    pub fn take(&self, megabytes: u64) {
        let mut file = std::fs::File::create(self.filler()).expect("a file more");
        let bytes = std::io::Read::take(std::io::repeat(7), megabytes << 20);
        std::io::copy(&mut { bytes }, &mut file).expect("there is room");
    }

    /// Takes all room that is left.
    pub fn fill(&self) {
        let mut file = std::fs::File::create(self.filler()).expect("a file more");
        let error = std::io::copy(&mut std::io::repeat(7), &mut file).expect_err("the room ends");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    }

    /// Gives back what was taken.
    pub fn free(&self) {
        std::fs::remove_file(self.filler()).expect("it was filled");
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that was just killed may hold it for another moment.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// What the client was told.
#[derive(Default)]
struct Told {
    acknowledged: BTreeSet<i64>,
    refused: BTreeSet<i64>,
    unknown: BTreeSet<i64>,
    /// The first text of each kind.
    refusal: Option<String>,
    doubt: Option<String>,
}

/// Inserts rows from `first` on until one is refused or in doubt; all calls have ended then.
fn fill(server: &Server, first: i64) -> Told {
    let mut options = ClientOptions::new([&server.address]);
    options.outstanding_max = 20;
    let client = Client::connect(options).expect("the server takes connections");
    let insert = Prepared::new("FILLER.insert").expect("a short name");
    let told = Arc::new(Mutex::new(Told::default()));
    for id in first..first + 100_000 {
        let mut content = vec![0u8; 60_000];
        content[..8].copy_from_slice(&id.to_be_bytes());
        let shared = Arc::clone(&told);
        let made = client.call_with_callback(&insert, (id, content), move |result| {
            let mut told = shared.lock().expect("no callback panics");
            match result {
                Ok(_) => {
                    told.acknowledged.insert(id);
                }
                Err(error) if error.is_outcome_unknown() => {
                    told.unknown.insert(id);
                    told.doubt.get_or_insert_with(|| error.to_string());
                }
                Err(error) => {
                    told.refused.insert(id);
                    told.refusal.get_or_insert_with(|| error.to_string());
                }
            }
        });
        assert!(made.is_ok());
        let told = told.lock().expect("no callback panics");
        if told.refusal.is_some() || told.doubt.is_some() {
            break;
        }
    }
    client.drain();
    client.close();
    std::mem::take(&mut *told.lock().expect("no callback panics"))
}

fn check(db: &Db, told: &[&Told]) {
    let rows = db.rows("SELECT id FROM filler");
    let there: BTreeSet<i64> = rows
        .iter()
        .map(|row| match row[0] {
            OwnedValue::Integer(id) => id,
            _ => panic!("{row:?}"),
        })
        .collect();
    assert_eq!(there.len(), rows.len(), "a row is there twice");
    for told in told {
        let lost: Vec<_> = told.acknowledged.difference(&there).take(5).collect();
        assert!(lost.is_empty(), "acknowledged rows are lost: {lost:?}");
        let wrong: Vec<_> = told.refused.intersection(&there).take(5).collect();
        assert!(wrong.is_empty(), "refused rows are there: {wrong:?}");
    }
    let known: usize = told.iter().map(|told| told.acknowledged.len() + told.unknown.len()).sum();
    assert!(there.len() <= known, "rows are there that nobody wrote");
}

#[test]
fn writes_are_refused_before_the_disk_is_full_and_taken_again_when_there_is_room() {
    let Some(disk) = SmallDisk::new(700) else { return };
    let data = disk.path().join("data");
    // With snapshots, which take room at the same time and give some back.
    let server = Server::start(&data, &["--partitions", "2", "--snapshot-log", "64"]);
    let db = server.connect();
    db.sql(TABLE);
    let first = fill(&server, 0);
    let refusal = first.refusal.as_deref().unwrap_or_else(|| panic!("doubt instead of a refusal: {:?}", first.doubt));
    assert!(refusal.contains("disk") && refusal.contains("writes are refused"), "{refusal}");
    assert!(first.unknown.is_empty() && first.acknowledged.len() > 100, "{} rows", first.acknowledged.len());
    // Reads go on.
    check(&db, &[&first]);
    match db.0.call_blocking("FILLER.insert", (-1i64, vec![0u8; 4])) {
        Err(ClientError::Failed(response)) => {
            let text = response.status_text.clone().unwrap_or_default();
            assert!(text.contains("--disk-reserve") && text.contains("free disk space"), "what to do: {text}");
        }
        other => panic!("a write was not refused: {other:?}"),
    }
    // Space is back: so is the service, without a restart.
    disk.resize(1_400);
    let give_up = Instant::now() + Duration::from_secs(NOTICE_SECONDS_MAX);
    while db.0.call_blocking("FILLER.insert", (1_000_000i64, vec![0u8; 4])).is_err() {
        assert!(Instant::now() < give_up, "the room that is back was not taken note of");
        std::thread::yield_now();
    }
    let second = fill(&server, 2_000_000);
    assert!(second.unknown.is_empty(), "{:?}", second.doubt);
    assert!(second.acknowledged.len() > 100, "{} rows, then {:?}", second.acknowledged.len(), second.refusal);
    server.kill();
    let server = Server::start(&data, &[]);
    let db = server.connect();
    let between = Told { acknowledged: BTreeSet::from([1_000_000]), ..Told::default() };
    check(&db, &[&first, &between, &second]);
    server.stop();
}

#[test]
fn a_full_disk_ends_acknowledgements_and_a_restart_with_room_goes_on() {
    // The second leaves no room for the segment that a start begins.
    [150, 100].into_iter().for_each(fill_and_restart);
}

fn fill_and_restart(megabytes: u32) {
    let Some(disk) = SmallDisk::new(megabytes) else { return };
    let data = disk.path().join("data");
    let options = ["--partitions", "2", "--disk-reserve", "0"];
    let server = Server::start(&data, &options);
    let db = server.connect();
    db.sql(TABLE);
    let first = fill(&server, 0);
    let said = first.doubt.clone().or(first.refusal.clone()).expect("it ended by one of them");
    assert!(said.to_lowercase().contains("space"), "{said}");
    // The first failed write is final.
    match db.0.call_blocking("FILLER.insert", (-1i64, vec![0u8; 4])) {
        Err(ClientError::Failed(response)) => {
            let text = response.status_text.clone().unwrap_or_default();
            assert!(text.contains("restart"), "what to do: {text}");
        }
        other => panic!("a write after a failed one was not refused: {other:?}"),
    }
    server.kill();
    // Without room: either the server starts and has everything, or it says what is wrong.
    match Server::try_start(&data, &options) {
        Ok(server) => {
            check(&server.connect(), &[&first]);
            server.kill();
        }
        Err(text) => {
            assert!(text.contains("No space left on device") && text.contains("Free disk space, then try"), "{text}");
        }
    }
    disk.resize(600);
    let server = Server::start(&data, &options);
    check(&server.connect(), &[&first]);
    let second = fill(&server, 2_000_000);
    assert!(second.acknowledged.len() > 100, "{} rows with new room", second.acknowledged.len());
    server.kill();
    disk.resize(1_200);
    let server = Server::start(&data, &options);
    check(&server.connect(), &[&first, &second]);
    server.stop();
}
