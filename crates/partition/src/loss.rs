//! How an operator gives up transactions that cannot be read from the log.
//!
//! Nothing is given up but at the operator's word; then what is given up is written down, and what
//! is cut is kept.

pub use crate::damage::{LogDamage, Stake};
use crate::progress::{ProgressListener, RecoveryProgress};
use crate::recovery::{self, Options, Summary, default_threads, open_with, summarize};
use crate::snapshots;
use crate::start_error::StartError;
use crate::unlogged;
use ferrite_group::FIRST_GROUP;
use ferrite_io::{Clock, Disk, DiskResult, OpenMode, SECTOR_BYTES};
use ferrite_log::{LogError, LogOptions, segment_path};
use ferrite_plan::external::RuntimeHandle;
use ferrite_snapshot::{Files, own_name};
use ferrite_value::Value;
use ferrite_value::text::to_text_string;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn failed(error: ferrite_io::DiskError) -> StartError {
    StartError::Log(LogError::Disk(error))
}

/// Cuts the log of a database that no process runs where it cannot be read. The loss is reported,
/// and written to a file beside the log before anything is cut: the file's path, and its text. What
/// is cut is kept in a folder of the same name. None: nothing is lost.
///
/// `of_cluster`: the directory is that of a cluster's node, and it is not a complete copy any more
/// when this has returned. Called before anything is cut, and while no process runs it.
pub fn accept_loss(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: &Path,
    of_cluster: Option<&dyn Fn() -> DiskResult<()>>,
    report: &ProgressListener,
) -> Result<Option<(PathBuf, String)>, StartError> {
    let files = Files::new(Arc::clone(&disk), &dir.join(snapshots::DIRECTORY));
    let has_log = disk.list(dir).map_err(failed)?.iter().any(|name| name.starts_with("redo-"));
    if !has_log && files.find().map_or(true, |found| found.snapshots.is_empty()) {
        return Err(StartError::NoDatabase(dir.to_path_buf()));
    }
    let attempt = |accept_loss: Option<PathBuf>| -> Result<Summary, StartError> {
        let log = LogOptions { accept_loss, ..LogOptions::default() };
        let threads = default_threads();
        let progress = RecoveryProgress::default();
        let runtime = &RuntimeHandle::default();
        let options =
            Options { log, groups: None, partitions_default: 1, threads, report, progress: &progress, runtime };
        if of_cluster.is_some() {
            return summarize(Arc::clone(&disk), Arc::clone(&clock), dir, &options);
        }
        let recovered = open_with(Arc::clone(&disk), Arc::clone(&clock), &mut ferrite_io::SystemRandom, dir, options)?;
        recovered.log.close().map_err(StartError::LogFailed)?;
        Ok(recovered.summary)
    };
    let damage = match attempt(None) {
        Ok(_) => return Ok(None),
        Err(StartError::Rot(damage)) => damage,
        Err(StartError::NoRedoBefore { snapshot }) => {
            return go_back_before(&disk, &files, dir, clock.wall_micros(), snapshot, &attempt).map(Some);
        }
        Err(error) => return Err(error),
    };
    let from_the_beginning = damage.path == segment_path(dir, 1) && damage.position <= SECTOR_BYTES as u64;
    if from_the_beginning && files.find().map_err(failed)?.snapshots.is_empty() {
        return Err(StartError::NothingLeft(damage));
    }
    if let Some(is_incomplete) = of_cluster {
        is_incomplete().map_err(failed)?;
    }
    let now = clock.wall_micros();
    let folder = dir.join(format!("accepted-loss-{now}"));
    let mut text = before(&damage, &folder, now);
    let note = dir.join(format!("accepted-loss-{now}.txt"));
    let file = disk.open(&note, OpenMode::Create).map_err(failed)?;
    let write = |text: &str| file.write_at(text.as_bytes(), 0).and_then(|()| file.sync_data());
    write(&text).and_then(|()| disk.sync_dir(dir)).map_err(failed)?;
    let summary = match attempt(Some(folder.clone())) {
        Ok(summary) => summary,
        Err(error) => {
            let refused = matches!(error, StartError::Rot(_) | StartError::Log(LogError::NoRoomToKeep { .. }));
            if refused {
                // Nothing was cut, so there is nothing to report.
                disk.remove(&note).and_then(|()| disk.sync_dir(dir)).map_err(failed)?;
            }
            return Err(if let StartError::Rot(damage) = error { StartError::NothingLeft(damage) } else { error });
        }
    };
    let kept = keep_newer_snapshots(&disk, dir, &summary, &folder).map_err(failed)?;
    text.push_str(&after(&summary, &kept));
    write(&text).map_err(failed)?;
    Ok(Some((note, text)))
}

/// Gives up a snapshot that took the place of the log before it and cannot be read, with all that
/// came after it: what is left is the snapshot before it, and the log up to its record.
fn go_back_before(
    disk: &Arc<dyn Disk>,
    files: &Files,
    dir: &Path,
    now: i64,
    mut snapshot: u64,
    attempt: &dyn Fn(Option<PathBuf>) -> Result<Summary, StartError>,
) -> Result<(PathBuf, String), StartError> {
    let folder = dir.join(format!("accepted-loss-{now}"));
    let note = dir.join(format!("accepted-loss-{now}.txt"));
    let file = disk.open(&note, OpenMode::Create).map_err(failed)?;
    let write = |text: &str| file.write_at(text.as_bytes(), 0).and_then(|()| file.sync_data());
    let mut text = format!("Accepted loss, {} UTC.\n", to_text_string(&Value::Timestamp(now)));
    let mut kept = Vec::new();
    loop {
        text.push_str(&format!(
            "Snapshot {snapshot} cannot be read. It took the place of the redo log before it, so what came after the snapshot \
             before it is lost.\nIts files are kept in {}. The database never looks there: delete the folder when it is not needed any \
             more.\n",
            folder.display()
        ));
        write(&text).and_then(|()| disk.sync_dir(dir)).map_err(failed)?;
        kept.append(&mut files.move_to(&own_name(snapshot), &folder).map_err(failed)?);
        match attempt(Some(folder.clone())) {
            Ok(summary) => {
                kept.extend(keep_newer_snapshots(disk, dir, &summary, &folder).map_err(failed)?);
                unlogged::forget_newest(&**disk, dir).map_err(failed)?;
                text.push_str(&after(&summary, &kept));
                write(&text).map_err(failed)?;
                return Ok((note, text));
            }
            Err(StartError::NoRedoBefore { snapshot: before }) if before != snapshot => snapshot = before,
            Err(StartError::Rot(damage)) => return Err(StartError::NothingLeft(damage)),
            Err(error) => return Err(error),
        }
    }
}

/// Turns the copy of a cluster's node that no process runs into a single server's database, as far
/// as its stream is concerned.
pub fn leave_others(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: &Path,
    report: &ProgressListener,
) -> Result<(), StartError> {
    let threads = default_threads();
    let progress = RecoveryProgress::default();
    let log = LogOptions::default();
    let runtime = &RuntimeHandle::default();
    let options = Options { log, groups: None, partitions_default: 1, threads, report, progress: &progress, runtime };
    recovery::leave_others(disk, clock, dir, &options)
}

/// What is newer than where the log ends now must not be taken for its continuation.
fn keep_newer_snapshots(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    summary: &Summary,
    folder: &Path,
) -> DiskResult<Vec<PathBuf>> {
    let mut kept = summary.quarantined.clone();
    for (group, newest) in &summary.loaded {
        let files = Files::new(Arc::clone(disk), &snapshots::directory(dir, *group));
        for number in files.find()?.snapshots.into_iter().filter(|number| number > newest) {
            // Groups give the same numbers.
            let folder =
                if *group == FIRST_GROUP { folder.to_path_buf() } else { folder.join(format!("group-{group}")) };
            kept.append(&mut files.move_to(&own_name(number), &folder)?);
        }
    }
    Ok(kept)
}

/// What is written down before anything is cut.
fn before(damage: &LogDamage, folder: &Path, now: i64) -> String {
    let path = damage.path.display();
    let done = if damage.path.extension().is_some_and(|extension| extension == "log") {
        format!("The redo log was cut at byte {} of {path}, and later segments were removed", damage.position)
    } else {
        format!("{path} was made anew, by what can be read of the redo log")
    };
    let mut text =
        format!("Accepted loss, {} UTC.\n{done}.\nWhy: {}.\n", to_text_string(&Value::Timestamp(now)), damage.place(),);
    for Stake { partition, first, last } in &damage.stake {
        text.push_str(&format!(
            "Partition {partition}: transactions {first} to {last} are lost, {} of them, and any after them.\n",
            last.0 + 1 - first.0
        ));
    }
    if damage.stake.is_empty() {
        text.push_str("Which transactions are lost cannot be read: nothing behind that place is whole.\n");
    }
    if damage.stake.is_empty() && !damage.reached.is_empty() {
        text.push_str(&format!("Of the log, {}.\n", damage.reached()));
    }
    text.push_str(&format!(
        "What was cut is kept in {}. The database never looks there: delete the folder when nobody needs it.\n",
        folder.display()
    ));
    text
}

/// And what is added when it is done.
fn after(summary: &Summary, kept: &[PathBuf]) -> String {
    let names: Vec<_> = kept.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy())).collect();
    let mut text = match names.is_empty() {
        true => "Kept: nothing, since nothing of it was there any more.\n".to_owned(),
        false => format!("Kept: {}.\n", names.join(", ")),
    };
    text.push_str("What is left: ");
    match &summary.snapshot {
        Some(loaded) => text.push_str(&format!("snapshot {} with {} rows, and ", loaded.snapshot, loaded.rows)),
        None => text.push_str("from the beginning on, "),
    }
    text.push_str(&format!(
        "{} transactions and {} schema changes of the redo log.\n",
        summary.transactions, summary.schema_changes
    ));
    text
}
