//! `@SnapshotSave` with a path: a copy of the database as it is at one moment, in a directory that the caller names.
//!
//! Natively in the form of the database's own snapshots (docs/format/snapshot.md), under the nonce; or as one CSV file for each table. Files
//! are written under their names, fsynced and read back; the manifest comes last, so that a backup that has one is whole.

use crate::csv;
use crate::request::{Format, Save};
use crate::server::Server;
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::{Catalog, Table, TableKind};
use ferrite_io::{Disk, DiskResult, OpenMode, Random};
use ferrite_partition::coordinator::Taken;
use ferrite_snapshot::{
    FileIdentity, Files, Head, LogPlace, Manifest, RowsFile, SnapshotError, StoreWriter, Verified, Verifier, Written,
};
use ferrite_table::Store;
use ferrite_value::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 1 << 20;
/// The last file of a backup in CSV; there if, and only if, the backup is whole.
pub const SCHEMA_FILE: &str = ".schema.sql";

/// What is needed to write a backup once its moment is fixed.
pub struct Begun {
    taken: Taken,
    files: Files,
    request: Save,
}

/// Refuses what cannot be, makes the directory, and fixes the moment: everything acknowledged before is in the backup.
pub fn begin(server: &dyn Server, disk: Arc<dyn Disk>, request: Save) -> UserResult<Begun> {
    let catalog = server.catalog();
    if let Some(name) = request.tables.unknown(catalog.tables.keys().map(String::as_str)) {
        return Err(UserError::not_found(name));
    }
    if request.format == Format::Native && !request.tables.is_all() {
        return Err(UserError::parameters("a native backup has all tables")
            .with_hint("choose tables when restoring, or save as csv"));
    }
    let files = Files::new(disk, &request.dir);
    files.create_dir().map_err(failed)?;
    let there = files.disk().list(&request.dir).map_err(failed)?;
    let of_this = |name: &&String| name.strip_prefix(&request.nonce).is_some_and(|rest| rest.starts_with(['.', '-']));
    if let Some(name) = there.iter().find(of_this) {
        return Err(UserError::parameters(format!("{name} is there already in {}", request.dir.display()))
            .with_hint("name another nonce, or delete the older backup with @SnapshotDelete"));
    }
    Ok(Begun { taken: server.take_snapshot()?, files, request })
}

/// Names of the tables that a backup has.
pub fn tables(catalog: &Catalog, request: &Save) -> Vec<String> {
    let is_table = |table: &&Arc<Table>| table.kind == TableKind::Table && request.tables.takes(&table.name);
    catalog.tables.values().filter(is_table).map(|table| table.name.clone()).collect()
}

impl Begun {
    pub fn tables(&self) -> Vec<String> {
        tables(&self.taken.catalog, &self.request)
    }

    /// Writes everything. On an error what was written goes again. `random` is for the backup's identity.
    pub fn write(self, random: &mut dyn Random) -> UserResult<()> {
        let Begun { taken, files, request } = self;
        match request.format {
            Format::Native => write_native(&files, &request.nonce, taken, random).map_err(|error| {
                // What cannot be removed has no manifest, and is seen for what it is.
                let _ = files.remove(&request.nonce);
                failed(error)
            }),
            Format::Csv => {
                let mut written = Vec::new();
                write_csv(&files, &request, &taken, &mut written).map_err(|error| {
                    for path in &written {
                        let _ = files.disk().remove(path);
                    }
                    failed(error)
                })
            }
        }
    }
}

/// One file after the other: a backup is in no hurry, and others need the disk.
fn write_native(files: &Files, nonce: &str, taken: Taken, random: &mut dyn Random) -> Result<(), SnapshotError> {
    let Taken { stores, places, catalog, mut history, time, mark, logged, .. } = taken;
    let partitions = stores.len() as u32;
    // An identity of its own, so that files of two backups are never taken for those of one.
    let mut database = [0; 16];
    random.fill(&mut database);
    let head = Head { database, partitions, taken: time };
    let mut written: Vec<RowsFile> = Vec::new();
    for (store, (place, partition)) in stores.into_iter().zip(places.into_iter().zip(0..)) {
        let (path, identity) = (files.rows_path(nonce, partition), FileIdentity { database, snapshot: 0, partition });
        let mut writer = StoreWriter::create(&**files.disk(), &path, identity, head, store, place)?;
        let file = loop {
            if let Written::All(file) = writer.step()? {
                break file;
            }
        };
        let mut verifier = Verifier::open(&**files.disk(), &path, identity, file)?;
        while let Verified::Some(_) = verifier.step()? {}
        written.push(file);
    }
    files.sync()?;
    // What the backup shows must be durable here before the backup counts.
    let log = match logged.recv() {
        Ok(Ok(())) => mark.get().map(|position| LogPlace {
            segment: position.segment,
            position: position.position,
            block: position.block,
            previous_checksum: position.previous_checksum,
        }),
        _ => None,
    };
    let log = log.ok_or_else(|| SnapshotError::Damaged {
        path: files.dir().to_path_buf(),
        position: 0,
        detail: "the server's log has failed meanwhile, so that nobody knows what of this is to last".to_owned(),
    })?;
    history.condense(&catalog);
    let manifest = Manifest {
        database,
        snapshot: 0,
        taken: time,
        partitions,
        created_ms: (time / 1_000) as u64,
        genesis_id: database,
        log,
        catalog_version: catalog.version.0,
        base: history.base.as_deref().cloned(),
        changes: history.changes.iter().map(|change| (**change).clone()).collect(),
        files: written,
    };
    files.commit(nonce, &manifest)
}

fn write_csv(files: &Files, request: &Save, taken: &Taken, written: &mut Vec<PathBuf>) -> DiskResult<()> {
    let disk = files.disk();
    for name in tables(&taken.catalog, request) {
        let table = &taken.catalog.tables[&name];
        let path = files.dir().join(csv_name(&request.nonce, &name));
        written.push(path.clone());
        let mut out = CsvFile::create(&**disk, &path)?;
        let stores = if table.is_partitioned() { &taken.stores[..] } else { &taken.stores[..1] };
        stores.iter().try_for_each(|store| out.write_rows(store, table))?;
        out.finish()?;
    }
    // The schema last.
    let path = files.dir().join(format!("{}{SCHEMA_FILE}", request.nonce));
    written.push(path.clone());
    let mut out = CsvFile::create(&**disk, &path)?;
    out.buffer = ferrite_catalog::schema_text(&taken.catalog).into_bytes();
    out.finish()?;
    disk.sync_dir(files.dir())
}

/// As the original names them.
pub fn csv_name(nonce: &str, table: &str) -> String {
    let safe: String = table.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '.' }).collect();
    format!("{nonce}-{safe}.csv")
}

struct CsvFile {
    file: Box<dyn ferrite_io::DiskFile>,
    position: u64,
    buffer: Vec<u8>,
}

impl CsvFile {
    fn create(disk: &dyn Disk, path: &std::path::Path) -> DiskResult<CsvFile> {
        Ok(CsvFile { file: disk.open(path, OpenMode::Create)?, position: 0, buffer: Vec::new() })
    }

    fn write_rows(&mut self, store: &Store, table: &Table) -> DiskResult<()> {
        let data = store.table(table.id);
        let mut values = Vec::with_capacity(table.columns.len());
        for id in data.scan() {
            let row = data.row(id);
            values.clear();
            values.extend((0..table.columns.len()).map(|column| -> Value<'_> { row.column(column as u16) }));
            csv::write_row(&mut self.buffer, &values);
            if self.buffer.len() >= WRITE_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> DiskResult<()> {
        self.file.write_at(&self.buffer, self.position)?;
        self.position += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> DiskResult<()> {
        self.flush()?;
        self.file.sync_data()
    }
}

fn failed(error: impl std::fmt::Display) -> UserError {
    UserError::parameters(format!("the backup failed: {error}"))
}
