//! A log of which acknowledged transactions cannot be read: what is at stake, how it is told, and how an operator gives it up.
//!
//! Nothing is given up but at the operator's word; then what is given up is written down, and what is cut is kept.

use crate::progress::{RecoveryProgress, Report};
use crate::record::{self, Record};
use crate::recovery::{Options, StartError, Summary, default_threads, open_with};
use crate::snapshots;
use ferrite_base::{PartitionId, Sequence};
use ferrite_io::{Clock, Disk, DiskResult, OpenMode, SECTOR_BYTES};
use ferrite_log::{LogError, LogOptions, segment_path};
use ferrite_plan::external::RuntimeHandle;
use ferrite_snapshot::{Files, own_name};
use ferrite_value::Value;
use ferrite_value::text::to_text_string;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the log cannot be read on, though it went on there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogDamage {
    /// Where what can be read ends.
    pub path: PathBuf,
    pub position: u64,
    /// The segment in which it should go on, where that is not there.
    pub missing: Option<PathBuf>,
    /// It is known that something durable stood there.
    pub certain: bool,
    pub detail: String,
    pub stake: Vec<Stake>,
    /// The last transaction of each partition that can be read, if any can.
    pub reached: Vec<Sequence>,
}

/// Transactions of one partition that are lost if the log ends where it cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stake {
    pub partition: PartitionId,
    /// The first that cannot be read.
    pub first: Sequence,
    /// The last that is known of; there may be more.
    pub last: Sequence,
}

impl LogDamage {
    /// The file, the place and the reason, in words.
    pub fn place(&self) -> String {
        let LogDamage { path, position, missing, detail, .. } = self;
        match missing {
            None => format!("redo log {} is damaged at byte {position}: {detail}", path.display()),
            Some(missing) if missing == path => format!("redo log segment {} is missing: {detail}", path.display()),
            Some(missing) => format!(
                "redo log segment {} is missing: {detail}. What can be read ends at byte {position} of {}",
                missing.display(),
                path.display()
            ),
        }
    }

    /// Where the log ends that can be read, partition by partition; nothing where no database is known.
    fn reached(&self) -> String {
        let each = self.reached.iter().zip(0..);
        let each: Vec<String> = each.map(|(last, partition)| format!("{last} of partition {partition}")).collect();
        if each.is_empty() {
            String::new()
        } else {
            format!("what can be read ends with transaction {}", each.join(", "))
        }
    }
}

impl fmt::Display for LogDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stand = match (self.missing.is_some(), self.certain || !self.stake.is_empty()) {
            (true, _) => "Acknowledged transactions stood in it",
            (false, true) => "Acknowledged transactions stand there and behind",
            (false, false) => "Acknowledged transactions may have stood there",
        };
        write!(f, "{}. {stand}: nothing was changed.", self.place())?;
        for Stake { partition, first, last } in &self.stake {
            write!(f, " Partition {partition}: from transaction {first} to at least {last}.")?;
        }
        if self.stake.is_empty() && !self.reached.is_empty() {
            write!(f, " Which, is not known; {}.", self.reached())?;
        }
        write!(
            f,
            " Restore the file from a copy{}; or, to go on without these transactions, run: ferrite admin recover --dir {} \
             --accept-loss",
            // One that was moved away and linked to is as good as gone.
            if self.missing.is_some() { ", as a file and not as a link" } else { "" },
            self.path.parent().unwrap_or(&self.path).display()
        )
    }
}

/// Snapshots were made here, and none can be used: without any log nothing is left, but a new database it is not.
pub(crate) fn refuse_without_log(disk: &dyn Disk, dir: &Path) -> Result<(), StartError> {
    let (_, segments) = ferrite_log::count_segments(disk, dir, 0).map_err(failed)?;
    if segments > 0 {
        return Ok(());
    }
    let path = segment_path(dir, 1);
    Err(StartError::Rot(Box::new(LogDamage {
        missing: Some(path.clone()),
        path,
        position: SECTOR_BYTES as u64,
        certain: true,
        detail: "there are snapshots of the database, though none that can be used".to_owned(),
        stake: Vec::new(),
        reached: Vec::new(),
    })))
}

fn failed(error: ferrite_io::DiskError) -> StartError {
    StartError::Log(LogError::Disk(error))
}

/// Cuts the log of a database that nobody runs where it cannot be read. What is lost then is said, and written to a file beside the log
/// before anything is cut: the file's path, and its text. What is cut is kept in a folder of the same name. None: nothing is lost.
pub fn accept_loss(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: &Path,
    report: &Report,
) -> Result<Option<(PathBuf, String)>, StartError> {
    let files = Files::new(Arc::clone(&disk), &dir.join(snapshots::DIRECTORY));
    let has_log = disk.list(dir).map_err(failed)?.iter().any(|name| name.starts_with("redo-"));
    if !has_log && files.find().map_or(true, |found| found.snapshots.is_empty()) {
        return Err(StartError::NoDatabase(dir.to_path_buf()));
    }
    let attempt = |accept_loss: Option<PathBuf>| -> Result<Summary, StartError> {
        let log = LogOptions { accept_loss, ..LogOptions::default() };
        let (threads, progress) = (default_threads(), RecoveryProgress::default());
        let runtime = &RuntimeHandle::default();
        let options =
            Options { log, partitions: None, partitions_default: 1, threads, report, progress: &progress, runtime };
        let recovered = open_with(Arc::clone(&disk), Arc::clone(&clock), &mut ferrite_io::SystemRandom, dir, options)?;
        recovered.log.close().map_err(StartError::LogFailed)?;
        Ok(recovered.summary)
    };
    let damage = match attempt(None) {
        Ok(_) => return Ok(None),
        Err(StartError::Rot(damage)) => damage,
        Err(error) => return Err(error),
    };
    let from_the_beginning = damage.path == segment_path(dir, 1) && damage.position <= SECTOR_BYTES as u64;
    if from_the_beginning && files.find().map_err(failed)?.snapshots.is_empty() {
        return Err(StartError::NothingLeft(damage));
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
                // Nothing was cut, so nothing is to be said about it.
                disk.remove(&note).and_then(|()| disk.sync_dir(dir)).map_err(failed)?;
            }
            return Err(if let StartError::Rot(damage) = error { StartError::NothingLeft(damage) } else { error });
        }
    };
    let kept = keep_newer_snapshots(&files, &summary, &folder).map_err(failed)?;
    text.push_str(&after(&summary, &kept));
    write(&text).map_err(failed)?;
    Ok(Some((note, text)))
}

/// What is newer than where the log ends now must not be taken for its continuation.
fn keep_newer_snapshots(files: &Files, summary: &Summary, folder: &Path) -> DiskResult<Vec<PathBuf>> {
    let mut kept = summary.quarantined.clone();
    let newest = summary.snapshot.map_or(0, |loaded| loaded.snapshot);
    for number in files.find()?.snapshots.into_iter().filter(|number| *number > newest) {
        kept.append(&mut files.move_to(&own_name(number), folder)?);
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

/// What is known of transactions that stand at or behind a position in the log and were not replayed.
pub(crate) fn at_stake(disk: &dyn Disk, path: &Path, position: u64, reached: &[Sequence]) -> Vec<Stake> {
    let mut last: BTreeMap<PartitionId, Sequence> = BTreeMap::new();
    let mut meet = |partition: PartitionId, sequence: Sequence| {
        let known = last.entry(partition).or_default();
        *known = (*known).max(sequence);
    };
    // An error of the disk leaves fewer figures, not a wrong decision.
    let _ = ferrite_log::blocks_behind(disk, path, position, |mut payload| {
        while let Ok(Some(record)) = record::next_record(&mut payload) {
            match record {
                Record::Batch { partition, first, count, .. } => {
                    meet(partition, Sequence(first.0.saturating_add(u64::from(count)).saturating_sub(1)));
                }
                Record::Multi { parts, .. } => parts.iter().for_each(|part| meet(part.partition, part.sequence)),
                _ => {}
            }
        }
    });
    let first = |partition: PartitionId| Sequence(reached.get(partition.index()).map_or(0, |last| last.0) + 1);
    let stakes = last.into_iter().map(|(partition, last)| Stake { partition, first: first(partition), last });
    stakes.filter(|stake| stake.first <= stake.last).collect()
}
