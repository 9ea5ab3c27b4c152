//! Which snapshot a start begins with: the newest that is whole, loaded; and which of the others
//! count.

use crate::damage::LogDamage;
use crate::judge::{Judge, ReplayError};
use crate::lots::LotLedger;
use crate::progress::ProgressReporter;
use crate::record::Genesis;
use crate::replay::{Replay, State};
use crate::schema::SchemaHistory;
use crate::snapshot_image::SnapshotImage;
use crate::snapshots::{self, Kept};
use crate::start_error::StartError;
use ferrite_base::Position;
use ferrite_catalog::Catalog;
use ferrite_group::Replayed;
use ferrite_io::{Disk, SECTOR_BYTES};
use ferrite_log::{LogError, LogPosition, segment_path};
use ferrite_notice::Notice;
use ferrite_snapshot::{Files, Found, LogPlace, Manifest, SnapshotError, own_name};
use ferrite_table::Store;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The snapshot that recovery began with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    pub snapshot: u64,
    /// When it was taken, microseconds since 1970.
    pub taken: i64,
    pub rows: u64,
    pub bytes: u64,
    pub duration: Duration,
}

impl Loaded {
    /// This one, and another group's beside it.
    pub(crate) fn and(self, other: Loaded) -> Loaded {
        Loaded {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            duration: self.duration + other.duration,
            ..self
        }
    }
}

/// A snapshot, loaded.
pub(crate) struct Base {
    pub manifest: Manifest,
    stores: Vec<Store>,
    catalog: Arc<Catalog>,
    history: SchemaHistory,
    lots: LotLedger,
    pub loaded: Loaded,
}

impl Base {
    /// The group at that place of the replay continues after the snapshot. Where the log has to be
    /// read from for that.
    pub fn begin(self, replay: &mut Replay, number: usize) -> Result<LogPosition, StartError> {
        let of = self.manifest.partitions();
        if of.group() != replay.groups[number].id {
            return Err(ReplayError::malformed("a snapshot is of another group than its directory").into());
        }
        replay.is_of(&self.manifest.map)?;
        let Manifest { snapshot, map: groups, created_ms, genesis_id, groups: ends, log, .. } = self.manifest;
        let mut stream = None;
        for end in ends {
            let place = snapshots::place_of(end).ok_or(ReplayError::malformed(
                "a snapshot does not say in a way that can be read where a stream had come to",
            ))?;
            // Before its first entry the stream has not begun.
            stream = (place.end.position > Position(0)).then(|| Replayed::behind(replay.here, place));
        }
        let genesis = Genesis { groups, created_ms, database_id: genesis_id };
        let sequences = self.manifest.files.iter().map(|file| file.sequence).collect();
        let judge =
            Judge::new(replay.here, of.clone(), stream, sequences, self.catalog, self.history).with_lots(self.lots);
        let state = State::new(genesis, of, self.stores, judge, replay.threads);
        replay.groups[number].load(snapshot, (log.segment, log.position), state);
        let LogPlace { segment, position, block, previous_checksum } = log;
        Ok(LogPosition { segment, position, block, previous_checksum })
    }
}

/// The newest snapshot that is whole; why others are not goes to `damaged`. None: the log is read
/// from its beginning.
pub(crate) fn load_newest(
    files: &Files,
    found: &Found,
    threads: usize,
    progress: &ProgressReporter<'_>,
    damaged: &mut Vec<(u64, String)>,
) -> Result<Option<Base>, StartError> {
    for snapshot in found.snapshots.iter().rev() {
        match load(files, *snapshot, threads, progress) {
            Ok(base) => return Ok(Some(base)),
            // It is whole, for another release. That one's log is not for this one either.
            Err(error @ (SnapshotError::Version { .. } | SnapshotError::Schema { .. })) => {
                return Err(StartError::Snapshot(error));
            }
            Err(error) => {
                progress.say(Notice::SnapshotUnusable { snapshot: *snapshot, reason: error.to_string() });
                damaged.push((*snapshot, error.to_string()));
            }
        }
    }
    Ok(None)
}

fn load(files: &Files, snapshot: u64, threads: usize, progress: &ProgressReporter<'_>) -> Result<Base, SnapshotError> {
    let begin = progress.now();
    let image = SnapshotImage::open(files, snapshot)?;
    progress.begin("snapshot", image.manifest.bytes());
    let pace = |bytes, rows| progress.add(bytes, rows);
    let load_one = |place: usize| image.load(files, place, pace);
    let partitions = image.manifest.files.len();
    let stores = if threads == 0 {
        (0..partitions).map(load_one).collect::<Result<Vec<_>, _>>()?
    } else {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..threads.min(partitions) {
                scope.spawn(|| {
                    loop {
                        let partition = next.fetch_add(1, Ordering::Relaxed);
                        if partition >= partitions {
                            break;
                        }
                        let result = load_one(partition);
                        done.lock().expect("no panic with the results").push((partition, result));
                    }
                });
            }
        });
        let mut done = done.into_inner().expect("no panic with the results");
        done.sort_by_key(|(partition, _)| *partition);
        done.into_iter().map(|(_, result)| result).collect::<Result<Vec<_>, _>>()?
    };
    let SnapshotImage { manifest, catalog, history, lots, .. } = image;
    let loaded = Loaded {
        snapshot,
        taken: manifest.taken,
        rows: manifest.rows(),
        bytes: manifest.bytes(),
        duration: Duration::from_nanos(progress.now() - begin),
    };
    Ok(Base { manifest, stores, catalog, history, lots, loaded })
}

/// The directory has had a database, of which no snapshot can be used. Without a segment of its log
/// nothing is left of it; it must not become a new database in silence.
pub(crate) fn refuse_without_log(disk: &dyn Disk, dir: &Path) -> Result<(), StartError> {
    let (_, segments) =
        ferrite_log::count_segments(disk, dir, 0).map_err(|error| StartError::Log(LogError::Disk(error)))?;
    if segments > 0 {
        return Ok(());
    }
    let path = segment_path(dir, 1);
    Err(StartError::Rot(Box::new(LogDamage {
        missing: Some(path.clone()),
        path,
        position: SECTOR_BYTES as u64,
        certain: true,
        detail: "other files show that there was a database here, and no snapshot of it can be used".to_owned(),
        stake: Vec::new(),
        reached: Vec::new(),
    })))
}

/// The snapshots that count: the one that was loaded, and older ones whose manifests can be read
/// and whose files are as long as they say.
pub(crate) fn kept_snapshots(files: &Files, found: &Found, loaded: Option<u64>) -> Vec<Kept> {
    let Some(loaded) = loaded else { return Vec::new() };
    let mut kept = Vec::new();
    for snapshot in found.snapshots.iter().filter(|number| **number <= loaded) {
        let name = own_name(*snapshot);
        let Ok(manifest) = files.manifest(&name) else { continue };
        let partitions = manifest.partitions();
        let whole = partitions.ids().zip(&manifest.files).all(|(partition, file)| {
            let opened = files.disk().open(&files.rows_path(&name, partition.0), ferrite_io::OpenMode::Read);
            opened.and_then(|opened| opened.bytes()).is_ok_and(|bytes| bytes == file.bytes)
        });
        if whole {
            kept.push(Kept { snapshot: *snapshot, log_segment: manifest.log.segment });
        }
    }
    kept
}
