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

use crate::groups_csv;
use crate::request::{Format, Save};
use crate::save::{self, Chosen, failed};
use ferrite_base::checksum::crc32c;
use ferrite_base::{Epoch, GroupId, PartitionId, Sequence, TableId, UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_io::{Disk, DiskResult, SECTOR_BYTES};
use ferrite_partition::coordinator::GroupCut;
use ferrite_partition::schema::SchemaHistory;
use ferrite_snapshot::{Content, FileIdentity, Files, Head, LogPlace, Reader, RowsFile};
use ferrite_table::Store;
use std::collections::BTreeSet;
use std::path::Path;
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
    save::place(catalog, Arc::clone(disk), request).map(drop)
}

/// What files of one backup have in common: its moment, and what the tables are to them. A group
/// whose own differs has taken what is not a part of it: by another attempt of the lot, or with
/// other numbers of tables.
pub fn fingerprint(cut: &GroupCut) -> u32 {
    fingerprint_of(&cut.catalog, cut.time)
}

fn fingerprint_of(catalog: &Catalog, time: i64) -> u32 {
    let mut text = time.to_string();
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
    let head = Head { database: backup.identity, partitions: backup.partitions, taken: time };
    let mut written: Vec<PartFile> = Vec::new();
    let parts = partitions.into_iter().zip(stores).zip(places);
    let outcome = parts.map(|((id, store), place)| {
        let file = write_file(&files, request, head, tables.as_ref(), (id, store, place))?;
        written.push((id, file));
        Ok(())
    });
    let outcome = outcome.collect::<UserResult<()>>().and_then(|()| files.sync().map_err(failed));
    if let Err(error) = outcome {
        remove_part(disk, request, backup, written.into_iter().map(|(id, _)| id));
        return Err(error);
    }
    Ok(written)
}

/// Writes one partition's file, where there is none of that name. On an error it is gone again.
fn write_file(
    files: &Files,
    request: &Save,
    head: Head,
    tables: Option<&BTreeSet<TableId>>,
    part: (PartitionId, Store, (Epoch, Sequence)),
) -> UserResult<RowsFile> {
    let path = files.rows_path(&request.nonce, part.0.0);
    // Looked at for each: another node may write to the same directory.
    save::refuse_older(&**files.disk(), request, |name| path.ends_with(name))?;
    save::write_file(files, &request.nonce, head, tables, part).map_err(|error| {
        // What cannot be removed has no manifest, and is seen for what it is.
        let _ = files.disk().remove(&path);
        failed(error)
    })
}

fn is_there(disk: &dyn Disk, request: &Save, path: &Path) -> DiskResult<bool> {
    let name = path.file_name().expect("a file of the directory has a name");
    Ok(disk.list(&request.dir)?.iter().any(|other| **other == *name))
}

/// Whether the file is there and of this backup, as its first block says.
fn is_own(disk: &dyn Disk, path: &Path, backup: &GroupsBackup, partition: PartitionId) -> bool {
    let identity = FileIdentity { database: backup.identity, snapshot: 0, partition: partition.0 };
    let reader = Reader::open(disk, path, identity, None);
    reader.is_ok_and(|mut reader| matches!(reader.next_block(), Ok(Some(Content::Head(_)))))
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
        if is_own(&**disk, &path, backup, partition) {
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

    /// [`fingerprint`] of what the first group took.
    pub fn fingerprint(&self) -> u32 {
        fingerprint_of(&self.catalog, self.time)
    }

    /// Names of the files in CSV that these groups write, the first one first.
    pub fn csv_names(&self, request: &Save, groups: impl Iterator<Item = GroupId>) -> Vec<String> {
        groups_csv::names(&self.catalog, request, groups)
    }

    /// Names of the tables that the backup has.
    pub fn tables(&self, request: &Save) -> Vec<String> {
        save::tables(&self.catalog, request)
    }

    /// Writes what makes the backup whole. `written`: of all partitions; `names`: of the files in
    /// CSV. How many bytes of rows.
    pub fn commit(
        self,
        disk: &Arc<dyn Disk>,
        request: &Save,
        backup: &GroupsBackup,
        mut written: Vec<PartFile>,
        names: &[String],
    ) -> UserResult<u64> {
        written.sort_by_key(|(partition, _)| *partition);
        if !written.iter().map(|(partition, _)| partition.0).eq(0..backup.partitions) {
            return Err(UserError::internal("a backup has one file of each partition"));
        }
        let files = Files::new(Arc::clone(disk), &request.dir);
        if request.format == Format::Csv {
            save::write_schema(&files, request, &self.catalog, names).map_err(|error| {
                let _ = disk.remove(&request.dir.join(save::schema_name(&request.nonce)));
                failed(error)
            })?;
            return Ok(written.iter().map(|(_, file)| file.bytes).sum());
        }
        for (partition, _) in &written {
            let path = files.rows_path(&request.nonce, partition.0);
            if is_there(&**disk, request, &path).map_err(failed)? && !is_own(&**disk, &path, backup, *partition) {
                let words = format!("{} is of another backup of that name", path.display());
                return Err(UserError::parameters(words).with_hint("name another nonce"));
            }
        }
        let head = Head { database: backup.identity, partitions: backup.partitions, taken: self.time };
        let written = written.into_iter().map(|(_, file)| file).collect();
        let done = save::commit(&files, &request.nonce, head, LOG_BEGINS, &self.catalog, &self.history, written);
        done.map_err(|error| {
            // The manifest first, which may be there.
            let _ = files.remove(&request.nonce);
            failed(error)
        })
    }
}

/// The partitions whose files are not in this machine's directory.
pub fn elsewhere(
    disk: &Arc<dyn Disk>,
    request: &Save,
    backup: &GroupsBackup,
    written: &[PartFile],
) -> Vec<PartitionId> {
    let files = Files::new(Arc::clone(disk), &request.dir);
    let is_away = |id: &PartitionId| !is_own(&**disk, &files.rows_path(&request.nonce, id.0), backup, *id);
    let mut away: Vec<PartitionId> = written.iter().map(|(partition, _)| *partition).filter(is_away).collect();
    away.sort();
    away
}
