//! A backup of a database whose partitions are in several groups, which several nodes lead: each
//! group's leader writes its partitions' files, then one node the manifest.
//!
//! Invariants:
//! - all files are of one moment, at which each group took what its stores showed while all groups
//!   held them (docs/decisions/0128), and have one identity;
//! - the manifest comes when all of them are written, fsynced and read back, so that a backup that
//!   has one is whole. Then it is a backup like any other: it knows no groups.
//!
//! The files are in the directory of that name on each node's machine. Where that is not one which
//! all of them share, they are brought together before the backup is restored.

use crate::request::{Format, Save};
use crate::save::{self, Chosen, failed};
use ferrite_base::checksum::crc32c;
use ferrite_base::{PartitionId, UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_io::{Disk, SECTOR_BYTES};
use ferrite_partition::coordinator::GroupCut;
use ferrite_partition::schema::SchemaHistory;
use ferrite_snapshot::{FileIdentity, Files, Head, LogPlace, Reader, RowsFile};
use std::sync::Arc;

/// The place of a backup that no log leads to. Nothing is read from there.
const LOG_BEGINS: LogPlace = LogPlace { segment: 1, position: SECTOR_BYTES as u64, block: 1, previous_checksum: 0 };

/// What one backup is, for all groups.
#[derive(Clone, Copy, Debug)]
pub struct GroupsBackup {
    pub identity: [u8; 16],
    /// Of the database.
    pub partitions: u32,
}

/// A partition's file, with all that the manifest says of it.
pub type PartFile = (PartitionId, RowsFile);

/// Refuses what cannot be, before anything is held.
pub fn check(catalog: &Catalog, disk: &Arc<dyn Disk>, request: &Save) -> UserResult<()> {
    if request.format == Format::Csv {
        return Err(UserError::parameters("several groups write no backup in CSV").with_hint("make a native one"));
    }
    save::place(catalog, Arc::clone(disk), request).map(drop)
}

/// What the tables of a schema are to a backup's files: groups whose numbers of these differ cannot
/// write one backup.
pub fn fingerprint(catalog: &Catalog) -> u32 {
    let mut text = String::new();
    for table in catalog.tables.values() {
        text.push_str(&format!("{}:{}:{:?}", table.id.0, table.name, table.partition_column));
        table.columns.iter().for_each(|column| text.push_str(&format!(",{}:{}", column.name, column.column_type)));
        text.push(';');
    }
    crc32c(text.as_bytes())
}

/// The schema of the backup, where it has some of the tables only.
fn some(catalog: &Catalog, request: &Save) -> UserResult<Option<Chosen>> {
    if request.tables.is_all() { Ok(None) } else { save::chosen(catalog, request).map(Some) }
}

/// Writes one group's files. On an error they are gone again.
pub fn write_part(
    disk: &Arc<dyn Disk>,
    request: &Save,
    backup: &GroupsBackup,
    cut: GroupCut,
) -> UserResult<Vec<PartFile>> {
    let GroupCut { partitions, stores, places, catalog, time, .. } = cut;
    let tables = some(&catalog, request)?.as_ref().map(Chosen::tables);
    let files = Files::new(Arc::clone(disk), &request.dir);
    files.create_dir().map_err(failed)?;
    let there = disk.list(&request.dir).map_err(failed)?;
    let path = |partition: &PartitionId| files.rows_path(&request.nonce, partition.0);
    let is_there = |partition: &&PartitionId| {
        path(partition).file_name().is_some_and(|name| there.iter().any(|other| **other == *name))
    };
    if let Some(partition) = partitions.iter().find(is_there) {
        return Err(UserError::parameters(format!("{} already exists", path(partition).display()))
            .with_hint("name another nonce, or delete the older backup's files"));
    }
    let head = Head { database: backup.identity, partitions: backup.partitions, taken: time };
    let named = partitions.iter().copied().zip(stores).zip(places).map(|((id, store), place)| (id, store, place));
    match save::write_rows(&files, &request.nonce, head, tables, named) {
        Ok(written) => Ok(partitions.into_iter().zip(written).collect()),
        Err(error) => {
            remove_part(disk, request, backup, partitions.into_iter());
            Err(failed(error))
        }
    }
}

/// Removes these partitions' files, of a backup that does not come to be; those of another one of
/// that name stay.
pub fn remove_part(
    disk: &Arc<dyn Disk>,
    request: &Save,
    backup: &GroupsBackup,
    partitions: impl Iterator<Item = PartitionId>,
) {
    let files = Files::new(Arc::clone(disk), &request.dir);
    for partition in partitions {
        let path = files.rows_path(&request.nonce, partition.0);
        let identity = FileIdentity { database: backup.identity, snapshot: 0, partition: partition.0 };
        if Reader::open(&**disk, &path, identity, None).is_ok() {
            // What cannot be removed has no manifest, and is seen for what it is.
            let _ = disk.remove(&path);
        }
    }
}

/// The schema, as the manifest has it.
pub struct Schema {
    catalog: Arc<Catalog>,
    history: SchemaHistory,
    time: i64,
}

impl Schema {
    pub fn of(cut: &GroupCut, request: &Save) -> UserResult<Schema> {
        let mut history = cut.history.clone();
        match some(&cut.catalog, request)? {
            Some(chosen) => history = chosen.history,
            None => history.condense(&cut.catalog, false),
        }
        Ok(Schema { catalog: Arc::clone(&cut.catalog), history, time: cut.time })
    }

    /// [`fingerprint`] of the schema at the backup's moment.
    pub fn fingerprint(&self) -> u32 {
        fingerprint(&self.catalog)
    }

    /// Names of the tables that the backup has.
    pub fn tables(&self, request: &Save) -> Vec<String> {
        save::tables(&self.catalog, request)
    }

    /// Writes what makes the backup whole. `written`: of all partitions. How many bytes of rows.
    pub fn commit(
        self,
        disk: &Arc<dyn Disk>,
        request: &Save,
        backup: &GroupsBackup,
        mut written: Vec<PartFile>,
    ) -> UserResult<u64> {
        written.sort_by_key(|(partition, _)| *partition);
        if !written.iter().map(|(partition, _)| partition.0).eq(0..backup.partitions) {
            return Err(UserError::internal("a backup has one file of each partition"));
        }
        let files = Files::new(Arc::clone(disk), &request.dir);
        let head = Head { database: backup.identity, partitions: backup.partitions, taken: self.time };
        let written = written.into_iter().map(|(_, file)| file).collect();
        save::commit(&files, &request.nonce, head, LOG_BEGINS, &self.catalog, &self.history, written).map_err(failed)
    }
}

/// The partitions whose files are not in this machine's directory.
pub fn elsewhere(disk: &Arc<dyn Disk>, request: &Save, written: &[PartFile]) -> Vec<PartitionId> {
    let there = disk.list(&request.dir).unwrap_or_default();
    let files = Files::new(Arc::clone(disk), &request.dir);
    let is_away = |partition: &PartitionId| {
        let path = files.rows_path(&request.nonce, partition.0);
        !path.file_name().is_some_and(|name| there.iter().any(|other| **other == *name))
    };
    let mut away: Vec<PartitionId> = written.iter().map(|(partition, _)| *partition).filter(is_away).collect();
    away.sort();
    away
}
