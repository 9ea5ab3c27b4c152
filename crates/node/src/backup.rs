//! `@SnapshotSave` with a path, `@SnapshotRestore`, `@SnapshotScan`, `@SnapshotDelete`
//! (wire-protocol 12.7): their threads and their answers. What they do is `ferrite_backup`'s
//! business.

mod answers;
pub mod files_of_nodes;
pub mod in_groups;
mod internal_client;
pub mod on_all_nodes;
pub mod partition_loads;
pub mod restore_in_groups;

use answers::in_one_line;
use ferrite_backup::request::{self, checked_nonce};
use ferrite_backup::{listing, restore, save};
use ferrite_base::limits::BACKUP_SCANS_MAX;
use ferrite_base::{GroupId, UserError, UserResult};
use ferrite_io::{Clock, Disk, SystemClock, SystemRandom, Yielding, lower_priority};
use ferrite_notice::Notice;
use ferrite_partition::{AnswerBatch, Reply};
use ferrite_snapshot::Files;
use ferrite_system::Identity;
use ferrite_system::result::{SystemResult, SystemTable, cells, write_response};
use ferrite_system::saved::BackupAttempt;
use ferrite_value::SqlType::{self, Bigint, Integer, Varchar};
use ferrite_value::Value;
use ferrite_wire::response::ResponseWriter;
pub use internal_client::Handles;
use internal_client::InternalClient;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

const PATH_TYPE: &str = "SNAP_PATH";
const HOST: [(&str, SqlType); 2] = [("HOST_ID", Integer), ("HOSTNAME", Varchar)];
const OUTCOME: [(&str, SqlType); 2] = [("RESULT", Varchar), ("ERR_MSG", Varchar)];

/// Backups that are remembered for statistics.
const REMEMBERED: usize = 16;

/// Backups of a node, and what they use of it.
pub struct Backups {
    handles: Handles,
    identity: Arc<Identity>,
    disk: Arc<dyn Disk>,
    turn: Turn,
    /// By group: for which backup files in CSV were written last, and which.
    csv_written: Mutex<BTreeMap<GroupId, CsvWritten>>,
}

impl Backups {
    pub fn new(handles: Handles, identity: Arc<Identity>, disk: Arc<dyn Disk>) -> Backups {
        Backups { handles, identity, disk, turn: Turn::default(), csv_written: Mutex::default() }
    }

    /// When the last one ended that was completed since the start, in milliseconds since 1970.
    pub fn last_complete_ms(&self) -> Option<i64> {
        let complete = |attempt: &BackupAttempt| match &attempt.ended {
            Some((ended, Ok(_))) => Some(*ended),
            _ => None,
        };
        self.turn.lock().iter().rev().find_map(complete)
    }

    /// Of a cluster: this node, on whose machine backups are looked for. None: a single server.
    fn place(&self) -> Option<String> {
        let identity = &self.identity;
        (identity.host_id > 0).then(|| format!("node {} ({})", identity.host_id, identity.host_name))
    }

    /// The error, with the machine on which the files were looked for.
    fn placed(&self, error: UserError) -> UserError {
        let Some(place) = self.place() else { return error };
        let words = format!("the directory is that of {place}, which leads");
        let detail = error.detail().map_or_else(|| words.clone(), |detail| format!("{detail}; {words}"));
        error.with_detail(detail)
    }

    pub fn attempts(&self) -> Vec<BackupAttempt> {
        self.turn.attempts()
    }
}

/// The identity of a backup, and its files in CSV.
type CsvWritten = ([u8; 16], Vec<PathBuf>);

/// One save or restore at a time, and what became of the last saves.
#[derive(Default)]
struct Turn {
    taken: AtomicBool,
    /// Threads that look through directories.
    scans: Arc<AtomicUsize>,
    /// Oldest first.
    attempts: Mutex<VecDeque<BackupAttempt>>,
}

/// A scan in progress.
struct Scan(Arc<AtomicUsize>);

impl Drop for Scan {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Gives the turn back.
struct HeldTurn<'t>(&'t AtomicBool);

impl Turn {
    fn acquire(&self) -> UserResult<HeldTurn<'_>> {
        if self.taken.swap(true, Ordering::AcqRel) {
            return Err(UserError::parameters("another backup or restore is in progress").with_hint("wait for its end"));
        }
        Ok(HeldTurn(&self.taken))
    }

    fn scan(&self) -> UserResult<Scan> {
        let scan = (self.scans.fetch_add(1, Ordering::AcqRel), Scan(Arc::clone(&self.scans)));
        match scan {
            (before, scan) if before < BACKUP_SCANS_MAX => Ok(scan),
            _ => Err(UserError::parameters(format!("{BACKUP_SCANS_MAX} directories are being scanned already"))
                .with_hint("wait for the end of one")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<BackupAttempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begun(&self, request: &request::Save) {
        let file = save::last_file(&request.nonce, request.format);
        let dir = request.dir.clone();
        let nonce = request.nonce.clone();
        let mut attempts = self.lock();
        if attempts.len() == REMEMBERED {
            attempts.pop_front();
        }
        attempts.push_back(BackupAttempt { dir, nonce, file, begun_ms: now_ms(), ended: None });
    }

    /// The last that was begun, while its turn is taken still.
    fn ended(&self, result: &UserResult<u64>) {
        if let Some(last) = self.lock().back_mut() {
            last.ended = Some((now_ms(), result.as_ref().copied().map_err(UserError::to_string)));
        }
    }

    pub fn attempts(&self) -> Vec<BackupAttempt> {
        self.lock().iter().cloned().collect()
    }
}

impl Drop for HeldTurn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Answers one of the four, from a thread of its own where that takes long.
pub fn call(node: &Arc<Backups>, name: &str, parameters: &[Value<'_>], reply: &Reply) -> UserResult<()> {
    let place = &node.identity.backups;
    let result = match name {
        "@SnapshotSave" => match request::save(parameters, place) {
            Ok(request) => {
                let node = Arc::clone(node);
                let reply = reply.clone();
                return spawn(move || run_save(&node, request, &reply));
            }
            Err(error) => Ok(vec![request_failed(node, &error)]),
        },
        "@SnapshotRestore" => {
            let request = request::restore(parameters, place)?;
            let node = Arc::clone(node);
            let reply = reply.clone();
            return spawn(move || answer(&reply, &run_restore(&node, &request).map_err(|error| node.placed(error))));
        }
        "@SnapshotScan" => {
            let dir = scanned(node, parameters)?;
            let going = node.turn.scan()?;
            let node = Arc::clone(node);
            let reply = reply.clone();
            return spawn(move || {
                let result = scan(&node, &dir).map_err(|error| node.placed(error));
                // A client that has its answer may ask again at once.
                drop(going);
                answer(&reply, &result);
            });
        }
        _ => {
            let asked = deletions(node, parameters)?;
            let going = node.turn.scan()?;
            let node = Arc::clone(node);
            let reply = reply.clone();
            return spawn(move || {
                let result = delete(&node, asked).map_err(|error| node.placed(error));
                drop(going);
                answer(&reply, &result);
            });
        }
    };
    answer(reply, &result);
    Ok(())
}

fn spawn(work: impl FnOnce() + Send + 'static) -> UserResult<()> {
    let spawned = thread::Builder::new().name("backup".to_owned()).spawn(move || {
        lower_priority(Yielding::Some);
        work();
    });
    spawned.map(drop).map_err(|error| UserError::internal(format!("no thread can be started: {error}")))
}

fn run_save(node: &Arc<Backups>, request: request::Save, reply: &Reply) {
    let block = request.block;
    let client = InternalClient::new(node.handles.clone());
    let begun = node.turn.acquire().and_then(|turn| Ok((turn, save::begin(&client, Arc::clone(&node.disk), request)?)));
    let (turn, begun) = match begun {
        Ok(begun) => begun,
        Err(error) => return answer(reply, &Ok(vec![request_failed(node, &error)])),
    };
    node.turn.begun(begun.request());
    if !block {
        answer(reply, &Ok(vec![by_table(node, &begun.tables())]));
    }
    let result = begun.write(&mut SystemRandom);
    if let Err(error) = &result {
        ferrite_io::notify(Notice::BackupFailed { reason: error.to_string() });
    }
    node.turn.ended(&result);
    // A client that has its answer may begin the next at once.
    drop(turn);
    if block {
        answer(reply, &Ok(vec![by_site(node, result)]));
    }
}

/// The answer to a request that cannot be fulfilled. Its columns are those of one that can, since
/// tools read them by position.
fn request_failed(node: &Backups, error: &UserError) -> SystemTable {
    let mut table = SystemTable::new(&columns([("TABLE", Varchar)]));
    let identity = &node.identity;
    let place = node.place().map_or_else(String::new, |place| format!(" (on {place})"));
    let words = format!("{}{place}", in_one_line(error));
    table.row(cells![identity.host_id, identity.host_name.as_str(), "", "FAILURE", words]);
    table
}

fn now_ms() -> i64 {
    SystemClock.wall_micros() / 1_000
}

fn columns<const N: usize>(middle: [(&'static str, SqlType); N]) -> Vec<(&'static str, SqlType)> {
    HOST.into_iter().chain(middle).chain(OUTCOME).collect()
}

/// The answer of a save in progress.
fn by_table(node: &Backups, tables: &[String]) -> SystemTable {
    let mut table = SystemTable::new(&columns([("TABLE", Varchar)]));
    for name in tables {
        table.row(cells![node.identity.host_id, node.identity.host_name.as_str(), name.as_str(), "SUCCESS", ""]);
    }
    table
}

/// The columns of [`by_site`].
fn saved_table() -> SystemTable {
    SystemTable::new(&columns([("SITE_ID", Integer)]))
}

/// The answer of a save that was waited for.
fn by_site(node: &Backups, result: UserResult<u64>) -> SystemTable {
    let mut table = saved_table();
    let (said, text) = match &result {
        Ok(_) => ("SUCCESS", String::new()),
        Err(error) => ("FAILURE", in_one_line(error)),
    };
    let host = node.identity.host_name.as_str();
    for site in 0..node.handles.routes.partition_count() {
        table.row(cells![node.identity.host_id, host, site as i32, said, text.as_str()]);
    }
    table
}

/// What `@SnapshotRestore` answers: a row for each table and partition.
fn restored_table() -> SystemTable {
    SystemTable::new(&columns([("SITE_ID", Integer), ("TABLE", Varchar), ("PARTITION_ID", Integer)]))
}

fn run_restore(node: &Arc<Backups>, request: &request::Restore) -> SystemResult {
    let _turn = node.turn.acquire()?;
    let client = InternalClient::new(node.handles.clone());
    let files = Files::new(Arc::clone(&node.disk), &request.dir);
    let restored = restore::restore(&client, &files, request)?;
    let mut table = restored_table();
    let host = node.identity.host_name.as_str();
    for name in restored.keys() {
        for site in 0..node.handles.routes.partition_count() as i32 {
            table.row(cells![node.identity.host_id, host, site, name.as_str(), site, "SUCCESS", ""]);
        }
    }
    Ok(vec![table])
}

/// After a start: what a restore left that a crash has ended.
pub fn drop_leftovers(node: &Arc<Backups>) {
    if let Err(error) = restore::drop_leftovers(&InternalClient::new(node.handles.clone())) {
        ferrite_io::notify(Notice::RestoreLeftovers { reason: error.to_string() });
    }
}

fn scanned(node: &Backups, parameters: &[Value<'_>]) -> UserResult<PathBuf> {
    match parameters {
        [Value::Text(path)] => node.identity.backups.directory(path),
        _ => Err(UserError::parameters("@SnapshotScan takes a path")),
    }
}

/// The tables that `@SnapshotScan` answers.
struct Scanned {
    snapshots: SystemTable,
    /// How much room the directory's file system has.
    space: SystemTable,
    files: SystemTable,
}

impl Default for Scanned {
    fn default() -> Scanned {
        let snapshots = SystemTable::new(&[
            ("PATH", Varchar),
            ("NONCE", Varchar),
            ("TXNID", Bigint),
            ("CREATED", Bigint),
            ("SIZE", Bigint),
            ("TABLES_REQUIRED", Varchar),
            ("TABLES_MISSING", Varchar),
            ("TABLES_INCOMPLETE", Varchar),
            ("COMPLETE", Varchar),
            ("PATHTYPE", Varchar),
        ]);
        let space =
            SystemTable::new(&columns([("PATH", Varchar), ("TOTAL", Bigint), ("FREE", Bigint), ("USED", Bigint)]));
        let files = SystemTable::new(&[
            ("HOST_ID", Integer),
            ("HOSTNAME", Varchar),
            ("PATH", Varchar),
            ("NAME", Varchar),
            ("TXNID", Bigint),
            ("CREATED", Bigint),
            ("TABLE", Varchar),
            ("COMPLETED", Varchar),
            ("SIZE", Bigint),
            ("IS_REPLICATED", Varchar),
            ("PARTITIONS", Varchar),
            ("TOTAL_PARTITIONS", Bigint),
            ("READABLE", Varchar),
            ("RESULT", Varchar),
            ("ERR_MSG", Varchar),
            ("PATHTYPE", Varchar),
        ]);
        Scanned { snapshots, space, files }
    }
}

fn scan(node: &Backups, dir: &Path) -> SystemResult {
    let path = dir.display().to_string();
    let host_id = node.identity.host_id;
    let host = node.identity.host_name.as_str();
    let Scanned { mut snapshots, mut space, mut files } = Scanned::default();
    if !dir.is_dir() {
        space.row(cells![host_id, host, path.as_str(), 0i64, 0i64, 0i64, "FAILURE", "Path is not a directory"]);
        let place = node.place().map_or_else(String::new, |place| format!(" on {place}"));
        let text = format!("Provided search path does not exist{place}: {path}");
        files.row(cells![
            host_id, host, "", "", 0i64, 0i64, "", "FALSE", 0i64, "", "", 0i64, "", "FAILURE", text, PATH_TYPE
        ]);
        return Ok(vec![snapshots, space, files]);
    }
    for seen in listing::list(&node.disk, dir)? {
        let whole = if seen.fault.is_none() { "TRUE" } else { "FALSE" };
        let result = if seen.fault.is_none() { "SUCCESS" } else { "FAILURE" };
        let incomplete = if seen.fault.is_none() { "" } else { seen.tables.as_str() };
        let nonce = seen.nonce.as_str();
        let created = seen.created_ms;
        let bytes = seen.bytes as i64;
        let tables = seen.tables.as_str();
        snapshots.row(cells![path.as_str(), nonce, 0i64, created, bytes, tables, "", incomplete, whole, PATH_TYPE]);
        for (name, bytes) in &seen.files {
            files.row(cells![
                host_id,
                host,
                path.as_str(),
                name.as_str(),
                0i64,
                created,
                tables,
                whole,
                *bytes as i64,
                "FALSE",
                "",
                seen.partitions as i64,
                "TRUE",
                result,
                seen.fault.as_deref().unwrap_or_default(),
                PATH_TYPE
            ]);
        }
    }
    match rustix::fs::statvfs(dir) {
        Ok(figures) => {
            let total = figures.f_blocks * figures.f_frsize;
            let free = figures.f_bavail * figures.f_frsize;
            let used = total.saturating_sub(free);
            space.row(cells![host_id, host, path, total as i64, free as i64, used as i64, "SUCCESS", ""]);
        }
        Err(error) => space.row(cells![host_id, host, path, 0i64, 0i64, 0i64, "FAILURE", error.to_string()]),
    }
    Ok(vec![snapshots, space, files])
}

/// Directories and nonces. All are judged before the first file goes.
fn deletions(node: &Backups, parameters: &[Value<'_>]) -> UserResult<Vec<(PathBuf, String)>> {
    let pairs = match parameters {
        [paths, nonces] => texts(paths).zip(texts(nonces)).filter(|(paths, nonces)| paths.len() == nonces.len()),
        _ => None,
    };
    let Some((paths, nonces)) = pairs else {
        return Err(UserError::parameters("@SnapshotDelete takes paths and as many nonces"));
    };
    let asked = paths
        .into_iter()
        .zip(nonces)
        .map(|(path, nonce)| Ok((node.identity.backups.directory(path)?, checked_nonce(nonce)?.to_owned())));
    asked.collect()
}

/// What `@SnapshotDelete` answers: a row for each file, or one for a backup that is not there.
fn deleted_table() -> SystemTable {
    SystemTable::new(&columns([
        ("PATH", Varchar),
        ("PATHTYPE", Varchar),
        ("NONCE", Varchar),
        ("NAME", Varchar),
        ("SIZE", Bigint),
        ("DELETED", Varchar),
    ]))
}

fn delete(node: &Backups, asked: Vec<(PathBuf, String)>) -> SystemResult {
    let mut table = deleted_table();
    let host_id = node.identity.host_id;
    let host = node.identity.host_name.as_str();
    for (dir, nonce) in asked {
        let there = listing::remove(&node.disk, &dir, &nonce)?;
        let path = dir.display().to_string();
        if there.is_empty() {
            let words = format!("there is no backup {nonce} in {path}");
            table.row(cells![host_id, host, path, PATH_TYPE, nonce, "", 0i64, "FALSE", "FAILURE", words]);
            continue;
        }
        for removed in there {
            let (deleted, result) = if removed.result.is_ok() { ("TRUE", "SUCCESS") } else { ("FALSE", "FAILURE") };
            table.row(cells![
                host_id,
                host,
                path.as_str(),
                PATH_TYPE,
                nonce.as_str(),
                removed.name,
                removed.bytes as i64,
                deleted,
                result,
                removed.result.err().map_or(String::new(), |error| error.to_string())
            ]);
        }
    }
    Ok(vec![table])
}

/// The texts of one string or of an array of them.
fn texts<'v>(value: &Value<'v>) -> Option<Vec<&'v str>> {
    let text = |value: &Value<'v>| match value {
        Value::Text(text) => Some(*text),
        _ => None,
    };
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        value => Some(vec![text(value)?]),
    }
}

/// Tables, and words about them, if there are any.
type TablesWithWords = UserResult<(Vec<SystemTable>, String)>;

fn answer_with_words(reply: &Reply, result: TablesWithWords) {
    let mut answers = AnswerBatch::default();
    match result {
        Ok((tables, words)) if !words.is_empty() => {
            let mut writer = ResponseWriter::begin(&mut answers.bytes, reply.handle);
            writer.status_text(&words);
            match tables.iter().try_for_each(|table| table.write(&mut writer)) {
                Ok(()) => writer.finish(),
                Err(error) => writer.fail(&error),
            }
        }
        other => write_response(&mut answers.bytes, reply.handle, &other.map(|(tables, _)| tables)),
    }
    answers.finish_answer(reply.connection);
    reply.mailbox.deliver(answers);
}

fn answer(reply: &Reply, result: &SystemResult) {
    let mut answers = AnswerBatch::default();
    write_response(&mut answers.bytes, reply.handle, result);
    answers.finish_answer(reply.connection);
    reply.mailbox.deliver(answers);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_directories_are_scanned_at_a_time() {
        let turn = Turn::default();
        let going: Vec<_> = (0..BACKUP_SCANS_MAX).map(|_| turn.scan().expect("there is room")).collect();
        for _ in 0..2 {
            let refused = turn.scan().err().expect("that is one too many").to_string();
            assert!(refused.contains("8 directories are being scanned already"), "{refused}");
        }
        drop(going);
        assert!(turn.scan().is_ok());
    }
}
