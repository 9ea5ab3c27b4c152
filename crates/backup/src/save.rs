//! `@SnapshotSave` with a path: a copy of the database as it is at one moment, in a directory that
//! the caller names.
//!
//! Natively in the form of the database's own snapshots (docs/format/snapshot.md), under the nonce;
//! or as one CSV file for each table. Files are written under their names, fsynced and read back;
//! the manifest comes last, so that a backup that has one is whole.

use crate::csv;
use crate::csv_files;
use crate::request::{Format, Save};
use crate::server::Server;
use ferrite_base::{Epoch, GroupMap, PartitionId, Sequence, TableId, UserError, UserResult, planted};
use ferrite_catalog::{Catalog, Change, Table, TableKind};
use ferrite_io::{Disk, DiskError, DiskResult, OpenMode, Random};
use ferrite_partition::coordinator::{TakenSnapshot, wait_until_committed};
use ferrite_partition::schema::SchemaHistory;
use ferrite_snapshot::{
    FileIdentity, Files, Head, LogPlace, Manifest, RowsFile, SnapshotError, StoreWriter, Verified, Verifier, Written,
};
use ferrite_table::Store;
use ferrite_value::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 1 << 20;
/// The last file of a backup in CSV; there if, and only if, the backup is whole.
pub const SCHEMA_FILE: &str = ".schema.sql";

/// What is needed to write a backup once its moment is fixed.
pub struct Begun {
    taken: TakenSnapshot,
    files: Files,
    request: Save,
}

/// Refuses what cannot be, makes the directory, and fixes the moment: everything acknowledged
/// before is in the backup.
pub fn begin(server: &dyn Server, disk: Arc<dyn Disk>, request: Save) -> UserResult<Begun> {
    let files = place(&server.catalog(), disk, &request)?;
    Ok(Begun { taken: server.take_snapshot()?, files, request })
}

/// Refuses what cannot be, and makes the directory.
pub(crate) fn place(catalog: &Catalog, disk: Arc<dyn Disk>, request: &Save) -> UserResult<Files> {
    if let Some(name) = request.tables.unknown(catalog.tables.keys().map(String::as_str)) {
        return Err(UserError::unknown_table(name));
    }
    let files = Files::new(disk, &request.dir);
    files.create_dir().map_err(failed)?;
    let of_this = |name: &str| name.strip_prefix(&request.nonce).is_some_and(|rest| rest.starts_with(['.', '-']));
    refuse_older(&**files.disk(), request, of_this)?;
    Ok(files)
}

/// Refuses names that an older backup's files have.
pub(crate) fn refuse_older(disk: &dyn Disk, request: &Save, is_wanted: impl Fn(&str) -> bool) -> UserResult<()> {
    let there = disk.list(&request.dir).map_err(failed)?;
    let Some(name) = there.iter().find(|name| is_wanted(name)) else { return Ok(()) };
    let nonce = &request.nonce;
    let last = [Format::Native, Format::Csv].map(|format| last_file(nonce, format));
    let words = format!("{name} already exists in {}", request.dir.display());
    Err(match there.iter().any(|name| last.contains(name)) {
        true => UserError::parameters(words)
            .with_hint("name another nonce, or delete the older backup with @SnapshotDelete"),
        // Other nodes may have the rest of it.
        false => UserError::parameters(format!("{words}, of a backup that is incomplete in this directory")).with_hint(
            "name another nonce, or, unless @SnapshotScan shows it as complete, delete it with @SnapshotDelete",
        ),
    })
}

/// Names of the tables that a backup has.
pub fn tables(catalog: &Catalog, request: &Save) -> Vec<String> {
    let is_table = |table: &&Arc<Table>| table.kind == TableKind::Table && request.tables.includes(&table.name);
    catalog.tables.values().filter(is_table).map(|table| table.name.clone()).collect()
}

/// The name of the file that says that the backup is whole.
pub fn last_file(nonce: &str, format: Format) -> String {
    match format {
        Format::Native => format!("{nonce}.manifest"),
        Format::Csv => schema_name(nonce),
    }
}

/// The last file of a backup in CSV.
pub fn schema_name(nonce: &str) -> String {
    format!("{nonce}{SCHEMA_FILE}")
}

impl Begun {
    pub fn tables(&self) -> Vec<String> {
        tables(&self.taken.catalog, &self.request)
    }

    pub fn request(&self) -> &Save {
        &self.request
    }

    /// Writes everything, and says how many bytes of rows that were. On an error what was written
    /// goes again. `random` is for the backup's identity.
    pub fn write(self, random: &mut dyn Random) -> UserResult<u64> {
        let Begun { taken, files, request } = self;
        match request.format {
            Format::Native => {
                let chosen = if request.tables.is_all() { None } else { Some(chosen(&taken.catalog, &request)?) };
                write_native(&files, &request.nonce, taken, chosen, random).map_err(|error| {
                    // What cannot be removed has no manifest, and is seen for what it is.
                    let _ = files.remove(&request.nonce);
                    failed(error)
                })
            }
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

/// The schema of a backup that has some of the tables only: these, and what their constraints may
/// be made of.
pub(crate) struct Chosen {
    catalog: Catalog,
    pub history: SchemaHistory,
}

impl Chosen {
    pub fn tables(&self) -> BTreeSet<TableId> {
        self.catalog.tables.values().map(|table| table.id).collect()
    }
}

/// What is left out is dropped as a user would drop it, so that what is left is a schema like any
/// other.
pub(crate) fn chosen(whole: &Catalog, request: &Save) -> UserResult<Chosen> {
    let tasks = whole.tasks.keys().map(|name| Change::DropTask { name: name.clone(), if_exists: false });
    let procedures = whole.procedures.values();
    let procedures =
        procedures.map(|procedure| Change::DropProcedure { name: procedure.name.clone(), if_exists: false });
    let of_kind = |kind: TableKind| {
        let others = whole.tables.values().filter(move |table| table.kind == kind);
        let others = others.filter(|table| table.kind != TableKind::Table || !request.tables.includes(&table.name));
        others.map(move |table| Change::DropTable { name: table.name.clone(), if_exists: false, cascade: false, kind })
    };
    let tables = [TableKind::View, TableKind::Stream, TableKind::Table].into_iter().flat_map(of_kind);
    let mut catalog = whole.clone();
    for change in tasks.chain(procedures).chain(tables) {
        catalog = catalog.apply(&change)?.0;
    }
    catalog.version = whole.version;
    let history = SchemaHistory::at_once(&catalog).ok_or_else(|| {
        UserError::parameters("the schema of these tables cannot be separated from the rest")
            .with_hint("back up all tables, and choose when restoring")
    })?;
    Ok(Chosen { catalog, history })
}

fn write_native(
    files: &Files,
    nonce: &str,
    taken: TakenSnapshot,
    chosen: Option<Chosen>,
    random: &mut dyn Random,
) -> Result<u64, NotSaved> {
    let TakenSnapshot { stores, places, catalog, mut history, time, mark, logged, .. } = taken;
    let partitions = stores.len() as u32;
    // An identity of its own, so that files of two backups are never taken for those of one.
    let mut database = [0; 16];
    random.fill(&mut database);
    let head = Head { database, partitions, taken: time };
    let tables = chosen.as_ref().map(Chosen::tables);
    let stores = stores.into_iter().zip(places).zip((0..).map(PartitionId));
    let written = write_rows(files, nonce, head, tables, stores.map(|((store, place), id)| (id, store, place)))?;
    // What the backup shows must be durable here, and committed, before the backup counts.
    wait_until_committed(&logged).map_err(NotSaved::NotCommitted)?;
    let position = mark.get().expect("what is committed has its place in the log");
    let log = LogPlace {
        segment: position.segment,
        position: position.position,
        block: position.block,
        previous_checksum: position.previous_checksum,
    };
    match chosen {
        Some(chosen) => history = chosen.history,
        None => history.condense(&catalog, false),
    }
    commit(files, nonce, head, log, &catalog, &history, written)
}

/// One file after the other: others need the disk.
fn write_rows(
    files: &Files,
    nonce: &str,
    head: Head,
    tables: Option<BTreeSet<TableId>>,
    stores: impl Iterator<Item = (PartitionId, Store, (Epoch, Sequence))>,
) -> Result<Vec<RowsFile>, NotSaved> {
    let mut written: Vec<RowsFile> = Vec::new();
    for part in stores {
        written.push(write_file(files, nonce, head, tables.as_ref(), part)?);
    }
    if !planted!(BackupNamesNotDurable) {
        files.sync()?;
    }
    Ok(written)
}

/// One partition's file, read back. Its name is not durable yet.
pub(crate) fn write_file(
    files: &Files,
    nonce: &str,
    head: Head,
    tables: Option<&BTreeSet<TableId>>,
    (PartitionId(partition), store, place): (PartitionId, Store, (Epoch, Sequence)),
) -> Result<RowsFile, NotSaved> {
    let path = files.rows_path(nonce, partition);
    let identity = FileIdentity { database: head.database, snapshot: 0, partition };
    let mut writer = StoreWriter::create(&**files.disk(), &path, identity, head, store, place)?;
    if let Some(tables) = tables {
        writer = writer.only(tables.clone());
    }
    let file = loop {
        if let Written::All(file) = writer.step()? {
            break file;
        }
    };
    let mut verifier = Verifier::open(&**files.disk(), &path, identity, file)?;
    while let Verified::Some(_) = verifier.step()? {}
    Ok(file)
}

/// Writes what makes the backup whole: all partitions' files are there. How many bytes of rows they
/// have.
pub(crate) fn commit(
    files: &Files,
    nonce: &str,
    head: Head,
    log: LogPlace,
    catalog: &Catalog,
    history: &SchemaHistory,
    written: Vec<RowsFile>,
) -> Result<u64, NotSaved> {
    let Head { database, partitions, taken } = head;
    assert_eq!(written.len(), partitions as usize, "each partition has a file");
    let bytes = written.iter().map(|file| file.bytes).sum();
    let manifest = Manifest {
        database,
        snapshot: 0,
        taken,
        map: GroupMap::single(partitions),
        created_ms: (taken / 1_000) as u64,
        genesis_id: database,
        log,
        catalog_version: catalog.version.0,
        base: history.base.as_deref().cloned(),
        changes: history.changes.iter().map(|change| (**change).clone()).collect(),
        files: written,
        // A backup goes to any database: it is of no stream.
        groups: Vec::new(),
        lots: Vec::new(),
    };
    files.commit(nonce, &manifest)?;
    Ok(bytes)
}

fn write_csv(
    files: &Files,
    request: &Save,
    taken: &TakenSnapshot,
    written: &mut Vec<PathBuf>,
) -> Result<u64, NotSaved> {
    let disk = files.disk();
    let mut bytes = 0;
    for name in tables(&taken.catalog, request) {
        let table = &taken.catalog.tables[&name];
        let path = files.dir().join(csv_name(&request.nonce, &name));
        written.push(path.clone());
        let mut out = CsvFile::create(&**disk, &path)?;
        let stores = if table.is_partitioned() { &taken.stores[..] } else { &taken.stores[..1] };
        stores.iter().try_for_each(|store| out.write_rows(store, table))?;
        bytes += out.finish()?;
    }
    wait_until_committed(&taken.logged).map_err(NotSaved::NotCommitted)?;
    // The schema last.
    written.push(files.dir().join(schema_name(&request.nonce)));
    write_schema(files, request, &taken.catalog, &[])?;
    Ok(bytes)
}

/// What makes a backup in CSV whole. `names`: of the other files, where they may lie on several
/// machines.
pub(crate) fn write_schema(files: &Files, request: &Save, catalog: &Catalog, names: &[String]) -> DiskResult<()> {
    let mut out = CsvFile::create(&**files.disk(), &files.dir().join(schema_name(&request.nonce)))?;
    out.buffer = csv_files::list_of_files(names).into_bytes();
    out.buffer.extend(ferrite_catalog::schema_text(catalog).into_bytes());
    out.finish()?;
    files.sync()
}

/// As the original names them.
pub fn csv_name(nonce: &str, table: &str) -> String {
    let safe: String = table.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '.' }).collect();
    format!("{nonce}-{safe}.csv")
}

pub(crate) struct CsvFile {
    file: Box<dyn ferrite_io::DiskFile>,
    position: u64,
    buffer: Vec<u8>,
}

impl CsvFile {
    pub(crate) fn create(disk: &dyn Disk, path: &std::path::Path) -> DiskResult<CsvFile> {
        Ok(CsvFile { file: disk.open(path, OpenMode::Create)?, position: 0, buffer: Vec::new() })
    }

    pub(crate) fn write_rows(&mut self, store: &Store, table: &Table) -> DiskResult<()> {
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

    /// How many bytes it has.
    pub(crate) fn finish(mut self) -> DiskResult<u64> {
        self.flush()?;
        self.file.sync_data()?;
        Ok(self.position)
    }
}

pub(crate) enum NotSaved {
    Snapshot(SnapshotError),
    Disk(DiskError),
    NotCommitted(String),
}

impl From<SnapshotError> for NotSaved {
    fn from(error: SnapshotError) -> NotSaved {
        NotSaved::Snapshot(error)
    }
}

impl From<DiskError> for NotSaved {
    fn from(error: DiskError) -> NotSaved {
        NotSaved::Disk(error)
    }
}

impl std::fmt::Display for NotSaved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotSaved::Snapshot(error) => error.fmt(f),
            NotSaved::Disk(error) => error.fmt(f),
            NotSaved::NotCommitted(reason) => write!(f, "{reason}, and what the backup shows may not last; try again"),
        }
    }
}

pub(crate) fn failed(error: impl std::fmt::Display) -> UserError {
    UserError::parameters(format!("the backup failed: {error}"))
}
