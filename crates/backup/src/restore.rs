//! `@SnapshotRestore`: a backup's rows into this database, whatever its number of partitions. All
//! or nothing.
//!
//! How (docs/decisions/0012-restore.md): every file is read and judged before anything is touched.
//! Rows then go into staging tables, by ordinary transactions, each row to the partition that owns
//! it here. One schema change at the end makes the schema, if the database has none, fills every
//! table from its staging table, with all constraints checked and views made, and drops the staging
//! tables. That change is one transaction like any other of its kind: carried out on all partitions
//! or on none, one record in the log. Whatever fails before leaves nothing but staging tables,
//! which are dropped then, or at the next start.

use crate::request::Restore;
use crate::save::schema_name;
use crate::server::{STAGING, Server, is_staging};
use ferrite_base::{ErrorKind, PartitionId, UserError, UserResult, planted};
use ferrite_catalog::{Catalog, Table, TableKind};
use ferrite_partition::schema::SchemaHistory;
use ferrite_snapshot::{Content, FileIdentity, Files, Manifest, Reader, SnapshotError, Verified, Verifier};
use ferrite_table::{ImageError, RunReader};
use ferrite_value::{ColumnType, Value};
use ferrite_wire::table::{OpenTable, TableHeader, TableWriter};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of rows gathered for all tables and partitions before some are sent.
const GATHERED_MAX: usize = 64 << 20;

/// What a restore has done: rows by table.
pub type Restored = BTreeMap<String, u64>;

/// One table on its way.
struct Target {
    /// As this database has it, or will have.
    definition: Arc<Table>,
    staging: String,
    reader: Arc<RunReader>,
    /// It is replicated in the backup.
    in_every_file: bool,
    header: TableHeader,
    /// By partition; a replicated table has one.
    batches: Vec<Batch>,
    rows: u64,
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    open: Option<OpenTable>,
}

/// The schema that a backup has, whose checksums are right.
pub(crate) fn schema_of(manifest: &Manifest) -> UserResult<Catalog> {
    SchemaHistory::of(manifest).catalog().map_err(|error| {
        error.with_hint("the backup is not damaged: where a later release has written it, restore it with that one")
    })
}

pub fn restore(server: &dyn Server, files: &Files, request: &Restore) -> UserResult<Restored> {
    let manifest = files.manifest(&request.nonce).map_err(|error| no_manifest(files, &request.nonce, error))?;
    let mut backup = schema_of(&manifest)?;
    // What another restore had left there is none of the backup's business.
    backup.tables.retain(|name, _| !is_staging(name));
    verify(files, &request.nonce, &manifest)?;
    server.drop_tables(STAGING)?;
    let here = server.catalog();
    let with_schema = here.tables.is_empty();
    if with_schema && !request.tables.is_all() {
        return Err(UserError::parameters("a choice of tables needs a database that has them")
            .with_hint("make the schema first, or restore all tables"));
    }
    let mut targets = targets(&backup, if with_schema { &backup } else { &here }, request, server)?;
    let mut staged: String = targets.values().map(Target::staging_text).collect();
    if !staged.is_empty() && with_schema {
        staged.insert_str(0, &ferrite_catalog::decimal_scale_text(backup.decimals));
    }
    if staged.is_empty() && backup.tables.is_empty() && backup.plain_views.is_empty() {
        return Ok(Restored::new());
    }
    let stage = if staged.is_empty() { Ok(()) } else { server.change_schema(&staged) };
    let loaded = stage.and_then(|()| load(server, files, &request.nonce, &manifest, &mut targets));
    let result = loaded.map_err(not_done).and_then(|()| {
        let mut text = if with_schema { ferrite_catalog::schema_text(&backup) } else { String::new() };
        for target in targets.values() {
            text.push_str(&format!("FILL TABLE {} FROM {};\n", quoted(&target.definition.name), target.staging));
            if planted!(RestoreTableByTable) {
                server.change_schema(&std::mem::take(&mut text))?;
            }
        }
        for target in targets.values() {
            text.push_str(&format!("DROP TABLE {};\n", target.staging));
        }
        if text.is_empty() { Ok(()) } else { server.change_schema(&text) }
    });
    let result = if planted!(UnknownIsFailed) { result.map_err(not_done) } else { result };
    if let Err(error) = result {
        // What cannot be dropped now is dropped at the next start.
        if !planted!(StagingKept) {
            let _ = server.drop_tables(server.staging());
        }
        return Err(error);
    }
    Ok(targets.into_values().map(|target| (target.definition.name.clone(), target.rows)).collect())
}

/// At a start: drops what a restore left that a crash has ended.
pub fn drop_leftovers(server: &dyn Server) -> UserResult<()> {
    let left = server.catalog().tables.keys().any(|name| is_staging(name));
    if left && !planted!(StagingKept) { server.drop_tables(STAGING) } else { Ok(()) }
}

/// Whatever has become of the staging tables: before the last step nothing of the restore has taken
/// place.
fn not_done(error: UserError) -> UserError {
    if error.kind() != ErrorKind::OutcomeUnknown {
        return error;
    }
    UserError::new(ErrorKind::Unavailable, "58030", error.message().to_owned())
}

/// Reads all files once, to their last block.
fn verify(files: &Files, nonce: &str, manifest: &Manifest) -> UserResult<()> {
    for (partition, expected) in manifest.files.iter().enumerate() {
        let path = files.rows_path(nonce, partition as u32);
        let identity = identity(manifest, partition);
        let mut verifier = Verifier::open(&**files.disk(), &path, identity, *expected).map_err(unreadable)?;
        while let Verified::Some(_) = verifier.step().map_err(unreadable)? {}
    }
    Ok(())
}

fn identity(manifest: &Manifest, partition: usize) -> FileIdentity {
    FileIdentity { database: manifest.database, snapshot: manifest.snapshot, partition: partition as u32 }
}

/// The tables to be restored, by their ids in the backup.
fn targets(
    backup: &Catalog,
    here: &Catalog,
    request: &Restore,
    server: &dyn Server,
) -> UserResult<BTreeMap<u32, Target>> {
    let tables = || backup.tables.values().filter(|table| table.kind == TableKind::Table);
    if let Some(name) = request.tables.unknown(tables().map(|table| table.name.as_str())) {
        return Err(UserError::parameters(format!("the backup has no table {name}")));
    }
    let mut targets = BTreeMap::new();
    for table in tables().filter(|table| request.tables.includes(&table.name)) {
        let definition = here.tables.get(&table.name).ok_or_else(|| {
            UserError::parameters(format!("the backup's table {} is not in this database", table.name))
                .with_hint("make it first, or leave it out with skiptables")
        })?;
        let columns = |table: &Table| -> Vec<(String, ColumnType)> {
            table.columns.iter().map(|column| (column.name.clone(), column.column_type)).collect()
        };
        if definition.kind != TableKind::Table || columns(definition) != columns(table) {
            return Err(UserError::parameters(format!(
                "the table {} has other columns than in the backup",
                table.name
            ))
            .with_hint("make it as it was, restore it, and alter it then"));
        }
        let names = definition.columns.iter().map(|column| (column.name.as_str(), column.column_type.sql_type));
        let batches = if definition.is_partitioned() { server.partitions() } else { 1 };
        targets.insert(
            table.id.0,
            Target {
                staging: format!("{}{}", server.staging(), table.id.0),
                reader: Arc::new(RunReader::new(table)),
                in_every_file: !table.is_partitioned(),
                header: TableHeader::new(names),
                batches: (0..batches).map(|_| Batch::default()).collect(),
                rows: 0,
                definition: Arc::clone(definition),
            },
        );
    }
    Ok(targets)
}

impl Target {
    /// A table of the same columns, without anything that could refuse a row: that is judged when
    /// all rows are there.
    fn staging_text(&self) -> String {
        let partition_column = self.definition.partition_column;
        let columns: Vec<String> = (self.definition.columns.iter().enumerate())
            .map(|(number, column)| {
                let not_null = if partition_column == Some(number as u16) { " NOT NULL" } else { "" };
                format!("{} {}{not_null}", quoted(&column.name), column.column_type)
            })
            .collect();
        let mut text = format!("CREATE TABLE {} ({});\n", self.staging, columns.join(", "));
        if let Some(column) = partition_column {
            let column = quoted(&self.definition.columns[usize::from(column)].name);
            text.push_str(&format!("PARTITION TABLE {} ON COLUMN {column};\n", self.staging));
        }
        text
    }

    fn add(&mut self, server: &dyn Server, values: &[Value<'_>]) -> UserResult<()> {
        let partition = match self.definition.partition_column {
            Some(column) => server.partition_of(&values[usize::from(column)])?,
            None => PartitionId(0),
        };
        let batch = &mut self.batches[partition.index()];
        let mut writer = match batch.open.take() {
            Some(open) => open.resume(&mut batch.bytes, &self.header),
            None => TableWriter::begin(&mut batch.bytes, &self.header),
        };
        writer.row(values)?;
        batch.open = Some(writer.suspend());
        self.rows += 1;
        if batch.bytes.len() >= server.batch_bytes() { self.send(server, partition) } else { Ok(()) }
    }

    fn send(&mut self, server: &dyn Server, partition: PartitionId) -> UserResult<()> {
        let batch = &mut self.batches[partition.index()];
        let Some(open) = batch.open.take() else { return Ok(()) };
        open.resume(&mut batch.bytes, &self.header).finish();
        let mut rows = std::mem::take(&mut batch.bytes);
        // A load takes a table without its length.
        rows.drain(..size_of::<i32>());
        let to = self.definition.is_partitioned().then_some(partition);
        server.load(&self.staging, to, rows)
    }
}

/// Reads all files again, and sends their rows to where they belong.
fn load(
    server: &dyn Server,
    files: &Files,
    nonce: &str,
    manifest: &Manifest,
    targets: &mut BTreeMap<u32, Target>,
) -> UserResult<()> {
    for (partition, expected) in manifest.files.iter().enumerate() {
        let path = files.rows_path(nonce, partition as u32);
        let mut reader =
            Reader::open(&**files.disk(), &path, identity(manifest, partition), Some(*expected)).map_err(unreadable)?;
        while let Some(content) = reader.next_block().map_err(unreadable)? {
            match content {
                Content::Head(_) => {}
                Content::Table(id, shape) => {
                    if targets.get(&id.0).is_some_and(|target| !target.reader.reads(&shape)) {
                        return Err(UserError::parameters(format!("table {id} of the backup has another layout")));
                    }
                }
                Content::Rows(id, _, bytes) => {
                    let Some(target) = targets.get_mut(&id.0) else { continue };
                    if target.in_every_file && partition > 0 {
                        continue;
                    }
                    let reader = Arc::clone(&target.reader);
                    reader.read(bytes, |_, values| target.add(server, values).map_err(Fault::User)).map_err(
                        |fault| match fault {
                            Fault::User(error) => error,
                            Fault::Image(error) => UserError::parameters(format!("the backup cannot be used: {error}")),
                        },
                    )?;
                    send_largest(server, targets, GATHERED_MAX)?;
                }
            }
        }
    }
    for target in targets.values_mut() {
        for partition in 0..target.batches.len() {
            target.send(server, PartitionId(partition as u32))?;
        }
    }
    let loaded = server.wait_for_loads();
    if planted!(LoadsNotAsked) { Ok(()) } else { loaded }
}

/// Where more than these bytes are gathered, sends the largest batches until half of them are left.
fn send_largest(server: &dyn Server, targets: &mut BTreeMap<u32, Target>, bytes_max: usize) -> UserResult<()> {
    let batches = |target: &Target| target.batches.iter().map(|batch| batch.bytes.len()).collect::<Vec<_>>();
    let all = targets.values().flat_map(|target| &target.batches);
    let mut left: usize = all.map(|batch| batch.bytes.len()).sum();
    if left <= bytes_max {
        return Ok(());
    }
    let of_target = |(id, target): (&u32, &Target)| {
        let id = *id;
        (0..).zip(batches(target)).map(move |(partition, bytes)| (bytes, id, PartitionId(partition)))
    };
    let mut gathered: Vec<_> = targets.iter().flat_map(of_target).collect();
    gathered.sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
    for (bytes, id, partition) in gathered {
        if left <= bytes_max / 2 {
            break;
        }
        targets.get_mut(&id).map_or(Ok(()), |target| target.send(server, partition))?;
        left -= bytes;
    }
    Ok(())
}

/// Why a block's rows could not be taken over.
enum Fault {
    User(UserError),
    Image(ImageError),
}

impl From<ImageError> for Fault {
    fn from(error: ImageError) -> Fault {
        Fault::Image(error)
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Why there is none, as far as it is not a fault.
fn no_manifest(files: &Files, nonce: &str, error: SnapshotError) -> UserError {
    let schema = schema_name(nonce);
    let names = files.disk().list(files.dir()).unwrap_or_default();
    if names.contains(&schema) {
        return UserError::parameters(format!(
            "the backup {nonce} has the CSV format, and only native ones can be restored"
        ))
        .with_hint(format!("run the statements of {schema}, and bring the rows in with ferrite load"));
    }
    unreadable(error)
}

fn unreadable(error: SnapshotError) -> UserError {
    UserError::parameters(format!("the backup cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_catalog::{Change, Column};
    use ferrite_partition::coordinator::TakenSnapshot;
    use ferrite_value::SqlType;
    use std::cell::RefCell;

    /// To which tables and partitions rows were sent.
    #[derive(Default)]
    struct Sent(RefCell<Vec<(String, Option<PartitionId>)>>);

    impl Server for Sent {
        fn catalog(&self) -> Arc<Catalog> {
            unreachable!("rows are sent only")
        }

        fn partitions(&self) -> usize {
            3
        }

        fn partition_of(&self, value: &Value<'_>) -> UserResult<PartitionId> {
            let Value::Integer(number) = value else { panic!("{value:?}") };
            Ok(PartitionId(*number as u32))
        }

        fn change_schema(&self, _: &str) -> UserResult<()> {
            unreachable!("rows are sent only")
        }

        fn drop_tables(&self, _: &str) -> UserResult<()> {
            unreachable!("rows are sent only")
        }

        fn load(&self, table: &str, partition: Option<PartitionId>, _: Vec<u8>) -> UserResult<()> {
            self.0.borrow_mut().push((table.to_owned(), partition));
            Ok(())
        }

        fn wait_for_loads(&self) -> UserResult<()> {
            Ok(())
        }

        fn take_snapshot(&self) -> UserResult<TakenSnapshot> {
            unreachable!("rows are sent only")
        }
    }

    fn catalog() -> Catalog {
        let column_type = ColumnType::fixed(SqlType::Bigint);
        let column = Column { name: "K".into(), column_type, nullable: false, default: None, default_text: None };
        let created = |name: &str| Change::CreateTable {
            name: name.into(),
            columns: vec![column.clone()],
            indexes: Vec::new(),
            primary_key: None,
            checks: Vec::new(),
            stream: false,
            partition_column: None,
        };
        let partitioned = Change::PartitionTable { table: "P".into(), column: "K".into() };
        let changes = [created("P"), partitioned, created("R")];
        changes.iter().fold(Catalog::default(), |catalog, change| catalog.apply(change).expect("it is valid").0)
    }

    #[test]
    fn the_largest_batches_of_all_tables_are_sent_until_half_of_the_memory_is_left() {
        let server = Sent::default();
        let catalog = catalog();
        let request = Restore { dir: "/".into(), nonce: "x".into(), tables: Default::default() };
        let mut targets = targets(&catalog, &catalog, &request, &server).expect("the tables are there");
        let ids = ["P", "R"].map(|name| catalog.tables[name].id.0);
        // By partition 10, 20 and 30 rows, and 25 of the replicated table.
        let rows = [(0, 0, 10), (0, 1, 20), (0, 2, 30), (1, 0, 25)];
        for (table, key, count) in rows {
            let target = targets.get_mut(&ids[table]).expect("it is there");
            (0..count).for_each(|_| target.add(&server, &[Value::Integer(key)]).expect("a small row"));
        }
        let gathered = |targets: &BTreeMap<u32, Target>| -> usize {
            targets.values().flat_map(|target| &target.batches).map(|batch| batch.bytes.len()).sum()
        };
        let all = gathered(&targets);
        send_largest(&server, &mut targets, all).expect("nothing fails");
        assert!(server.0.borrow().is_empty(), "as much is allowed");
        send_largest(&server, &mut targets, all - 1).expect("nothing fails");
        let [partitioned, replicated] = ids.map(|id| format!("{STAGING}{id}"));
        assert_eq!(*server.0.borrow(), [(partitioned, Some(PartitionId(2))), (replicated, None)]);
        assert!(gathered(&targets) <= (all - 1) / 2);
    }
}
