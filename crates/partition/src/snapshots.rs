//! Snapshots on disk: the steps from what the coordinator took to a snapshot that counts, and what
//! may go then (docs/format/snapshot.md, "Writing").
//!
//! Owns a group's directory of snapshots while the node runs, and announces how much of the log
//! these need. Promises that a failure on the way leaves all that was there before, and that
//! nothing of another group changes, neither its snapshots nor its part of the log. Threads are
//! started for the length of one snapshot only, and none where none are asked for.

use crate::content_hashes::{ContentHashes, TableHashes, hash_tables};
use crate::event::TakenSnapshot;
use crate::log_needs::LogNeeds;
use crate::record::Genesis;
use crate::snapshot_image;
use crate::unlogged;
use ferrite_base::{GroupId, GroupPartitions, PartitionId, Position, limits};
use ferrite_group::{Checkpointed, FIRST_GROUP, GroupPlace, NotCommitted};
use ferrite_io::{Clock, Disk, DiskError, DiskResult, Yielding, lower_priority};
use ferrite_log::LogPosition;
use ferrite_notice::Notice;
use ferrite_replica::group::{GroupConfiguration, History, Mark};
use ferrite_snapshot::{
    FileIdentity, Files, Found, GroupEnd, Head, LogPlace, Manifest, RowsFile, SnapshotError, StoreWriter, Verified,
    Verifier, own_name, write_store,
};
use ferrite_table::Store;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where the snapshots of the first group are, in the directory of the database.
pub const DIRECTORY: &str = "snapshots";

/// Where a group's snapshots are. Those of the first are where they were before there were others.
pub fn directory(dir: &Path, group: GroupId) -> PathBuf {
    match group {
        FIRST_GROUP => dir.join(DIRECTORY),
        other => dir.join(DIRECTORY).join(format!("group-{other}")),
    }
}

/// Why there is no new snapshot. All older ones are as they were.
#[derive(Debug)]
pub enum SaveError {
    Snapshot(SnapshotError),
    /// The checkpoint record did not become durable, or what precedes it is not committed.
    NotCommitted(NotCommitted),
    /// It would take from what the log needs.
    NoRoom {
        free: u64,
        reserve: u64,
    },
    /// The server stops.
    Stopped,
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveError::Snapshot(error) => error.fmt(f),
            SaveError::NotCommitted(reason) => reason.fmt(f),
            SaveError::NoRoom { free, reserve } => write!(
                f,
                "the disk has {free} bytes free, less than half of its reserve of {reserve} (--disk-reserve), and the redo log \
                 needs them"
            ),
            SaveError::Stopped => f.write_str("the server stops"),
        }
    }
}

impl std::error::Error for SaveError {}

impl From<SnapshotError> for SaveError {
    fn from(error: SnapshotError) -> SaveError {
        SaveError::Snapshot(error)
    }
}

impl From<DiskError> for SaveError {
    fn from(error: DiskError) -> SaveError {
        SaveError::Snapshot(SnapshotError::Disk(error))
    }
}

/// A snapshot that counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Saved {
    pub snapshot: u64,
    /// When it was taken, microseconds since 1970.
    pub taken: i64,
    pub bytes: u64,
    pub rows: u64,
    /// To write the rows files, and to read them back.
    pub writing: Duration,
    pub verifying: Duration,
    /// The last entry that it shows.
    pub end: Position,
    /// Of a leader with others: what its tables hold, for them to compare.
    pub contents: Option<ContentHashes>,
    /// Log segments that it made dispensable.
    pub segments_cut: usize,
    /// Why older snapshots or segments that could have gone are still there.
    pub not_cut: Option<String>,
}

impl Saved {
    /// What the operator hears of it.
    pub fn notice(&self) -> Notice {
        Notice::SnapshotTaken {
            snapshot: self.snapshot,
            rows: self.rows,
            bytes: self.bytes,
            writing: self.writing,
            verifying: self.verifying,
            segments_removed: self.segments_cut,
        }
    }
}

/// The log begins with it.
const FIRST_SEGMENT: u64 = 1;

/// A whole snapshot, and the segment where the log continues from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    pub snapshot: u64,
    pub log_segment: u64,
}

/// Called after each block that was written or read back, with its bytes, from whichever thread
/// does it: to keep to a rate, to show how far it is, to end it.
pub type Pace<'p> = &'p (dyn Fn(u64) -> Result<(), SaveError> + Sync);

/// A group's own snapshots.
pub struct Snapshots {
    files: Files,
    log_dir: PathBuf,
    needs: Arc<LogNeeds>,
    clock: Arc<dyn Clock>,
    genesis: Genesis,
    of: GroupPartitions,
    /// Ascending. Those that recovery found damaged are not among them.
    kept: Vec<Kept>,
    /// Are on their way to other nodes.
    held: Vec<u64>,
    next: u64,
    /// The highest number that a snapshot here has, or may have.
    highest: u64,
    /// With durability memory: no log leads to a snapshot, so the newest is noted.
    notes_newest: bool,
}

impl Snapshots {
    /// From now on the group is hosted, and its need of the log is known.
    #[allow(clippy::too_many_arguments, reason = "called once for each group, when it is recovered")]
    pub fn new(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        needs: Arc<LogNeeds>,
        genesis: Genesis,
        of: GroupPartitions,
        kept: Vec<Kept>,
        next: u64,
    ) -> Snapshots {
        let files = Files::new(disk, &directory(dir, of.group()));
        let log_dir = dir.to_path_buf();
        let highest = kept.last().map_or(0, |kept| kept.snapshot);
        let held = Vec::new();
        // Without an older one to go back to, the log before the newest is needed too.
        needs.host(of.group(), least_segment(&kept).unwrap_or(FIRST_SEGMENT));
        Snapshots { files, log_dir, needs, clock, genesis, of, kept, held, next, highest, notes_newest: false }
    }

    /// Whose they are.
    pub fn group(&self) -> GroupId {
        self.of.group()
    }

    /// What the groups of the node need of its log.
    pub fn needs(&self) -> &Arc<LogNeeds> {
        &self.needs
    }

    /// Durability memory: no log leads to what they show.
    pub fn without_log(self) -> Snapshots {
        Snapshots { notes_newest: true, ..self }
    }

    /// The number that the next snapshot is to be taken under.
    pub fn next_number(&mut self) -> u64 {
        self.highest = self.next;
        self.next += 1;
        self.highest
    }

    /// The same for a node that has snapshots of its own up to `above`.
    pub fn next_number_above(&mut self, above: u64) -> u64 {
        self.next = self.next.max(above.saturating_add(1));
        self.next_number()
    }

    /// The highest number that a snapshot here has, or was given.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// These stay, with the log after them, while they are on their way to other nodes
    /// ([`ferrite_snapshot::transfer::Sending::holds`]).
    pub fn hold(&mut self, snapshots: Vec<u64>) {
        self.held = snapshots;
    }

    /// This one stays too, until the list is set again.
    pub fn hold_too(&mut self, snapshot: u64) {
        self.held.push(snapshot);
    }

    /// Makes the snapshot that came into another directory all that there is of the group: the log
    /// continues at `place`, where it was noted. The old data is removed once the new one counts,
    /// but for the part of the log that other groups need. A failure ends the node: then the next
    /// start has one or the other.
    pub fn take_in(&mut self, from: &Files, mut manifest: Manifest, place: &LogPosition) -> Result<(), SaveError> {
        assert_eq!(manifest.shown().as_ref(), Some(&self.of), "a group is replaced by a snapshot of its own");
        let number = manifest.snapshot;
        let name = own_name(number);
        self.files.create_dir()?;
        for PartitionId(partition) in self.of.ids() {
            let disk = self.files.disk();
            disk.rename(&from.rows_path(&name, partition), &self.files.rows_path(&name, partition))?;
        }
        from.sync()?;
        self.files.sync()?;
        ferrite_log::make_durable(&**self.files.disk(), &self.log_dir, place.segment)?;
        manifest.log = log_place(place);
        self.files.commit(&name, &manifest)?;
        self.kept = vec![Kept { snapshot: number, log_segment: place.segment }];
        self.remove_others(number)?;
        let Manifest { map: groups, created_ms, genesis_id, .. } = manifest;
        self.genesis = Genesis { groups, created_ms, database_id: genesis_id };
        (self.next, self.highest) = (self.next.max(number + 1), number);
        Ok(())
    }

    /// The group is not hosted any more, and the node's identity says that durably: its snapshots
    /// go, and it needs no part of the log.
    pub fn forget(self) -> Result<(), SaveError> {
        self.needs.let_go(self.group());
        for number in self.files.find()?.snapshots {
            self.files.remove(&own_name(number))?;
        }
        Ok(())
    }

    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Makes what was taken a snapshot on disk, with as many threads; none: on this one. Waits for
    /// the log. On an error the files written go again, as far as the disk lets them.
    pub fn save(&mut self, taken: TakenSnapshot, threads: usize, pace: Pace<'_>) -> Result<Saved, SaveError> {
        let name = own_name(taken.snapshot);
        let mut saved = self.write(taken, threads, pace).inspect_err(|_| {
            // What cannot be removed now is a leftover at the next start.
            let _ = self.files.remove(&name);
        })?;
        if self.notes_newest {
            // The snapshot counts already. Where this fails, the next start notes it.
            let _ = unlogged::note_newest(&**self.files.disk(), &self.log_dir, saved.snapshot);
        }
        // What is left undone here costs space, and is done by the next.
        match self.let_go(pace) {
            Ok(count) => saved.segments_cut = count,
            Err(error) => saved.not_cut = Some(error.to_string()),
        }
        Ok(saved)
    }

    /// Makes what was taken all that there is of the group, as [`Snapshots::take_in`] does: the log
    /// continues at its record, and what was there before goes once this counts.
    pub fn replace_all(&mut self, taken: TakenSnapshot) -> Result<(), SaveError> {
        let number = taken.snapshot;
        self.write(taken, 0, &|_| Ok(())).inspect_err(|_| {
            // What cannot be removed now is a leftover at the next start.
            let _ = self.files.remove(&own_name(number));
        })?;
        self.kept.retain(|kept| kept.snapshot == number);
        self.remove_others(number)
    }

    /// This snapshot is all that there is of the group: neither older ones nor the log before it
    /// are needed for it.
    fn remove_others(&mut self, number: u64) -> Result<(), SaveError> {
        for other in self.files.find()?.snapshots.into_iter().filter(|other| *other != number) {
            self.files.remove(&own_name(other))?;
        }
        let kept = self.kept.last().expect("it is kept");
        self.needs.advance(self.group(), kept.log_segment);
        let held_bytes_max = if self.needs.is_alone(self.group()) { 0 } else { self.held_log_bytes_max()? };
        self.needs.truncate(held_bytes_max, &|| {})?;
        Ok(())
    }

    fn write(&mut self, taken: TakenSnapshot, threads: usize, pace: Pace<'_>) -> Result<Saved, SaveError> {
        let TakenSnapshot { snapshot, stores, places, groups, contents, catalog, mut history, time, .. } = taken;
        assert!(stores.iter().map(Store::partition).eq(self.of.ids()), "a snapshot has the partitions of its group");
        assert!(groups.iter().map(|end| end.group).eq([self.group()]), "a snapshot is of one group's stream");
        let name = own_name(snapshot);
        self.files.create_dir()?;
        let begun = self.clock.monotonic_nanos();
        let partitions = self.genesis.partitions();
        let head = Head { database: self.needs.index().database().0, partitions, taken: time };
        let files = &self.files;
        let of = &self.of;
        let identity =
            |partition: PartitionId| FileIdentity { database: head.database, snapshot, partition: partition.0 };
        let stores: Vec<Mutex<Option<Store>>> = stores.into_iter().map(|store| Mutex::new(Some(store))).collect();
        let written = in_parallel(of.len(), threads, &|number| {
            let store = stores[number].lock().expect("no panic with a store").take();
            let store = store.expect("each store is written once");
            let place = places[number];
            let partition = store.partition();
            let path = files.rows_path(&name, partition.0);
            let hashes = match contents {
                Some(_) => hash_tables(&store, |_| pace(0))?,
                None => TableHashes::new(),
            };
            let writer = StoreWriter::create(&**files.disk(), &path, identity(partition), head, store, place)?;
            Ok((write_store(writer, pace)?, hashes))
        })?;
        let (written, hashes): (Vec<_>, Vec<_>) = written.into_iter().unzip();
        let verifying = self.clock.monotonic_nanos();
        in_parallel(of.len(), threads, &|number| {
            let partition = of.id(number);
            verify(files, &files.rows_path(&name, partition.0), identity(partition), written[number], pace)
        })?;
        let verified = self.clock.monotonic_nanos();
        taken.logged.recv().expect("the log completes every append").map_err(SaveError::NotCommitted)?;
        let position = taken.mark.get().expect("told before the append completes");
        let oldest = self.kept.last().map_or(1, |kept| kept.log_segment);
        ferrite_log::make_durable(&**files.disk(), &self.log_dir, oldest)?;
        files.sync()?;
        history.condense(&catalog, !self.genesis.groups.is_single());
        let manifest = Manifest {
            database: head.database,
            snapshot,
            taken: time,
            map: self.genesis.groups.clone(),
            created_ms: self.genesis.created_ms,
            genesis_id: self.genesis.database_id,
            log: log_place(position),
            catalog_version: catalog.version.0,
            base: history.base.as_deref().cloned(),
            changes: history.changes.iter().map(|change| (**change).clone()).collect(),
            files: written,
            groups: groups.iter().map(end_of).collect(),
            lots: snapshot_image::lots_in_manifest(&self.genesis.groups, &taken.lots),
        };
        files.commit(&name, &manifest)?;
        self.kept.push(Kept { snapshot, log_segment: position.segment });
        Ok(Saved {
            snapshot,
            taken: time,
            bytes: manifest.bytes(),
            rows: manifest.rows(),
            writing: Duration::from_nanos(verifying - begun),
            verifying: Duration::from_nanos(verified - verifying),
            end: groups.first().map_or(Position(0), |group| group.place.end.position),
            contents: contents.map(|entry| ContentHashes::new(entry, &hashes)),
            segments_cut: 0,
            not_cut: None,
        })
    }

    /// Removes what the newest whole snapshots make dispensable. How many log segments went.
    fn let_go(&mut self, pace: Pace<'_>) -> Result<usize, SaveError> {
        // A caller that wants an end of the snapshot wants no rests, and has nothing against the
        // space.
        let rest = || _ = pace(0);
        let enough = self.kept.len() >= limits::SNAPSHOTS_KEPT;
        let first_kept = self.kept.len().saturating_sub(limits::SNAPSHOTS_KEPT);
        let held = &self.held;
        let mut number = 0;
        self.kept.retain(|kept| {
            number += 1;
            number > first_kept || held.contains(&kept.snapshot)
        });
        let kept = &self.kept;
        let Found { snapshots, .. } = self.files.find()?;
        for number in snapshots.into_iter().filter(|number| kept.iter().all(|kept| kept.snapshot != *number)) {
            self.files.remove(&own_name(number))?;
        }
        if !enough {
            return Ok(0);
        }
        self.needs.advance(self.group(), least_segment(&self.kept).unwrap_or(FIRST_SEGMENT));
        let held_bytes_max = self.held_log_bytes_max()?;
        Ok(self.needs.truncate(held_bytes_max, &rest)?)
    }

    fn held_log_bytes_max(&self) -> DiskResult<u64> {
        Ok(held_log_bytes_max(self.files.disk().space(&self.log_dir)?.free))
    }
}

/// Reads a file back that was written.
fn verify(
    files: &Files,
    path: &Path,
    identity: FileIdentity,
    expected: RowsFile,
    pace: Pace<'_>,
) -> Result<(), SaveError> {
    let mut verifier = Verifier::open(&**files.disk(), path, identity, expected)?;
    while let Verified::Some(bytes) = verifier.step()? {
        pace(bytes)?;
    }
    Ok(())
}

/// The first segment that these snapshots need. None: there are too few to do without the log's
/// beginning.
fn least_segment(kept: &[Kept]) -> Option<u64> {
    let is_enough = kept.len() >= limits::SNAPSHOTS_KEPT;
    kept.iter().map(|kept| kept.log_segment).min().filter(|_| is_enough)
}

/// Bytes of the log that are kept for its readers, beyond what snapshots need.
fn held_log_bytes_max(free: u64) -> u64 {
    (free / limits::CATCH_UP_LOG_FREE_PART).min(limits::CATCH_UP_LOG_BYTES_MAX)
}

/// Where a stream has come to, as a manifest says it.
fn end_of(Checkpointed { group, place }: &Checkpointed) -> GroupEnd {
    let GroupPlace { end, history, configuration, time } = place;
    GroupEnd {
        group: *group,
        epoch: end.epoch,
        position: end.position,
        chain: end.chain,
        time: *time,
        starts: history.starts().to_vec(),
        configuration: configuration.encode(*end),
    }
}

/// The same back; None where it makes no sense.
pub(crate) fn place_of(end: GroupEnd) -> Option<GroupPlace> {
    let GroupEnd { epoch, position, chain, time, starts, configuration, .. } = end;
    let end = Mark { epoch, position, chain };
    let history = History::new(starts)?;
    let (configuration, _) = GroupConfiguration::decode(epoch, &configuration)?;
    (history.epoch_at(position) == epoch).then_some(GroupPlace { end, history, configuration, time })
}

pub(crate) fn log_place(position: &LogPosition) -> LogPlace {
    let LogPosition { segment, position, block, previous_checksum } = *position;
    LogPlace { segment, position, block, previous_checksum }
}

/// Does `work` for every partition, by its place in the group, on threads that yield to all others,
/// or without threads on this one. The first error ends it.
fn in_parallel<T: Send>(
    partitions: usize,
    threads: usize,
    work: &(dyn Fn(usize) -> Result<T, SaveError> + Sync),
) -> Result<Vec<T>, SaveError> {
    if threads == 0 {
        return (0..partitions).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<T, SaveError>)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(partitions) {
            scope.spawn(|| {
                lower_priority(Yielding::Some);
                loop {
                    let partition = next.fetch_add(1, Ordering::Relaxed);
                    if partition >= partitions || failed.load(Ordering::Relaxed) > 0 {
                        break;
                    }
                    let result = work(partition);
                    if result.is_err() {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                    done.lock().expect("no panic with the results").push((partition, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no panic with the results");
    done.sort_by_key(|(partition, _)| *partition);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_of_the_log_is_held_as_the_limit_and_the_free_room_allow() {
        let full = limits::CATCH_UP_LOG_BYTES_MAX * limits::CATCH_UP_LOG_FREE_PART;
        assert_eq!(held_log_bytes_max(u64::MAX), limits::CATCH_UP_LOG_BYTES_MAX);
        assert_eq!(held_log_bytes_max(full), limits::CATCH_UP_LOG_BYTES_MAX);
        assert_eq!(held_log_bytes_max(full - 1), limits::CATCH_UP_LOG_BYTES_MAX - 1);
        assert_eq!(held_log_bytes_max(9), 0);
    }
}
