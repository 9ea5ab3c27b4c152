//! Snapshots that are made and looked at.

use ferrite_base::{Epoch, GroupMap, NodeId, PartitionId, Sequence, TableId};
use ferrite_catalog::Catalog;
use ferrite_io::Disk;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk};
use ferrite_snapshot::transfer::Source;
use ferrite_snapshot::{
    FileIdentity, Files, Head, LogPlace, Manifest, RowsFile, SchemaBase, SnapshotError, StoreWriter, Verified,
    Verifier, own_name, write_store,
};
use ferrite_table::{Loading, Shape, Store, StoredColumn};
use ferrite_value::Value;
use ferrite_value::ring::Ring;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const DATABASE: [u8; 16] = *b"0123456789abcdef";
pub const FROM: &str = "/from";
pub const TO: &str = "/to";
pub const NODE: NodeId = NodeId(3);
pub const CHUNK: usize = 10_000;

pub fn disk(seed: u64) -> SimulatedDisk {
    SimulatedDisk::new(seed, SimulatedClock::default())
}

pub fn files(disk: &SimulatedDisk, dir: &str) -> Files {
    Files::new(Arc::new(disk.clone()), Path::new(dir))
}

/// Tables with rows of some size, so that a file has several blocks.
pub fn store(partition: u32, rows: i64) -> Store {
    let mut catalog = Catalog::default();
    for table in 0..4 {
        let text = format!("CREATE TABLE t{table} (a BIGINT NOT NULL, b VARCHAR(5000 BYTES))");
        let statements = ferrite_sql::parse_batch(&text).expect("it parses");
        let (change, _) = ferrite_sql::bind_ddl(&catalog, &statements[0]).expect("it binds");
        catalog = catalog.apply(&change).expect("it applies").0;
    }
    let ring = Arc::new(Ring::new_default(3));
    let catalog = Arc::new(catalog);
    let mut loading = Loading::begin(PartitionId(partition), ring, &catalog).expect("the schema can be made");
    for table in 0..4 {
        let columns = [(4, false, 8), (14, true, 8)]
            .map(|(storage, nullable, bytes)| StoredColumn { storage, nullable, bytes })
            .to_vec();
        let name = format!("T{table}");
        let shape = Shape { is_view: false, row_bytes: 17, pages: 0, rows: 0, columns, name };
        loading.table(TableId(table), &shape).expect("it is the table's");
    }
    let mut store = loading.finish().expect("an empty store");
    for row in 0..rows {
        let text = format!("{row} of {partition} ").repeat(150);
        let values = [Value::Integer(row), Value::Text(&text)];
        store.insert(TableId((row % 4) as u32), &values).expect("a row that fits");
    }
    store.commit();
    store
}

/// Makes a snapshot of three partitions.
pub fn make(disk: &SimulatedDisk, dir: &str, snapshot: u64, rows: i64) -> Manifest {
    let files = files(disk, dir);
    files.create_dir().expect("a healthy disk");
    let name = own_name(snapshot);
    let head = Head { database: DATABASE, partitions: 3, taken: 77 };
    let written: Vec<RowsFile> = (0..3)
        .map(|partition| {
            let shown = store(partition, rows + i64::from(partition)).snapshot(|_| true);
            let identity = FileIdentity { database: DATABASE, snapshot, partition };
            let path = files.rows_path(&name, partition);
            let place = (Epoch(1), Sequence(5));
            let writer = StoreWriter::create(disk, &path, identity, head, shown, place).expect("a healthy disk");
            write_store::<SnapshotError>(writer, |_| Ok(())).expect("a healthy disk")
        })
        .collect();
    let manifest = Manifest {
        database: DATABASE,
        snapshot,
        taken: 77,
        map: GroupMap::single(3),
        created_ms: 1,
        genesis_id: DATABASE,
        log: LogPlace { segment: 1, position: 4_096, block: 1, previous_checksum: 0 },
        catalog_version: 4,
        base: Some(SchemaBase {
            version: 4,
            next_table_id: 4,
            next_index_id: 0,
            text: "CREATE TABLE t (a BIGINT); ".repeat(900),
            tables: Vec::new(),
            indexes: Vec::new(),
        }),
        changes: Vec::new(),
        files: written,
        groups: Vec::new(),
        lots: Vec::new(),
    };
    files.sync().expect("a healthy disk");
    files.commit(&name, &manifest).expect("a healthy disk");
    manifest
}

/// The snapshot is whole, if it counts.
pub fn check_if_it_counts(disk: &SimulatedDisk, manifest: &Manifest) -> bool {
    let there = files(disk, TO);
    let counts =
        disk.list(Path::new(TO)).is_ok_and(|_| there.find().expect("a healthy disk").snapshots == [manifest.snapshot]);
    if counts {
        let name = own_name(manifest.snapshot);
        assert_eq!(there.manifest(&name).expect("it counts"), *manifest);
        for (partition, file) in (0..).zip(&manifest.files) {
            let identity = there.identity(manifest, partition as usize);
            let path = there.rows_path(&name, partition);
            let mut verifier = Verifier::open(disk, &path, identity, *file).expect("it counts");
            while verifier.step().expect("it counts") != Verified::All {}
        }
    }
    counts
}

pub fn begun(disk: &SimulatedDisk, manifest: &Manifest, rate: u64, now: u64) -> Source {
    let source = Source::new(files(disk, FROM), NODE, manifest.snapshot, false, rate, now).expect("it is whole");
    source.with_chunk_bytes(CHUNK)
}

/// The files of a snapshot, by their names.
pub fn contents(disk: &SimulatedDisk, dir: &str) -> BTreeMap<String, Vec<u8>> {
    let path = |path: &PathBuf| path.parent() == Some(Path::new(dir));
    let name = |path: PathBuf| (path.file_name().unwrap().to_str().unwrap().to_owned(), disk.bytes_of(&path).unwrap());
    disk.files().into_iter().filter(path).map(name).filter(|(name, _)| name.starts_with("snapshot-")).collect()
}
