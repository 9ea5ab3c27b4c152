//! The format, byte by byte: files that another program made after the format page alone are what
//! is written and what is read, and no byte of them can change unseen.

use ferrite_base::{Epoch, GroupMap, PartitionId, Sequence, TableId};
use ferrite_catalog::Catalog;
use ferrite_io::RealDisk;
use ferrite_snapshot::{
    FileIdentity, Files, Head, LogPlace, Manifest, RowsFile, SchemaBase, SchemaChange, SnapshotError, StoreWriter,
    Verified, Verifier, load, own_name, write_store,
};
use ferrite_table::{Loading, Store};
use ferrite_value::Value;
use ferrite_value::ring::Ring;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const ROWS: &[u8] = include_bytes!("../data/partition.rows");
const MANIFEST: &[u8] = include_bytes!("../data/snapshot.manifest");
const IDENTITY: FileIdentity = FileIdentity { database: *b"0123456789abcdef", snapshot: 7, partition: 1 };
const HEAD: Head = Head { database: IDENTITY.database, partitions: 2, taken: 1_234_567 };
const PLACE: (Epoch, Sequence) = (Epoch(1), Sequence(20));

fn catalog() -> Arc<Catalog> {
    let text = "CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR(3 BYTES), c VARCHAR(100 BYTES))";
    let statements = ferrite_sql::parse_batch(text).expect("it parses");
    let (change, _) = ferrite_sql::bind_ddl(&Catalog::default(), &statements[0]).expect("it binds");
    Arc::new(Catalog::default().apply(&change).expect("it applies").0)
}

fn ring() -> Arc<Ring> {
    Arc::new(Ring::new_default(2))
}

fn store() -> Store {
    let catalog = catalog();
    let mut loading = Loading::begin(PartitionId(1), ring(), &catalog).expect("the schema can be made");
    let shape = ferrite_table::Shape {
        is_view: false,
        row_bytes: 21,
        pages: 0,
        rows: 0,
        columns: [(4, false, 8), (11, true, 4), (14, true, 8)]
            .map(|(storage, nullable, bytes)| ferrite_table::StoredColumn { storage, nullable, bytes })
            .to_vec(),
        name: "T".to_owned(),
    };
    loading.table(TableId(0), &shape).expect("it is the table's");
    let mut store = loading.finish().expect("an empty store");
    let rows = [
        [Value::Integer(10), Value::Text("one"), Value::Text("a value behind a handle")],
        [Value::Integer(-1), Value::Null, Value::Text("")],
        [Value::Integer(20), Value::Text("two"), Value::Text("gone before the snapshot")],
        [Value::Integer(30), Value::Text("x"), Value::Null],
    ];
    let ids = rows.map(|row| store.insert(TableId(0), &row).expect("a row that fits"));
    store.delete(TableId(0), ids[2]).expect("it is there");
    store.commit();
    store
}

fn written(dir: &Path) -> RowsFile {
    let snapshot = store().snapshot(|_| true);
    let path = dir.join("written");
    let writer = StoreWriter::create(&RealDisk, &path, IDENTITY, HEAD, snapshot, PLACE).expect("a healthy disk");
    write_store::<SnapshotError>(writer, |_| Ok(())).expect("a healthy disk")
}

fn verify(path: &Path, expected: RowsFile) -> Result<(), SnapshotError> {
    let mut verifier = Verifier::open(&RealDisk, path, IDENTITY, expected)?;
    while let Verified::Some(_) = verifier.step()? {}
    Ok(())
}

fn load_from(path: &Path, expected: RowsFile) -> Result<Store, SnapshotError> {
    let loading = Loading::begin(PartitionId(1), ring(), &catalog()).expect("the schema can be made");
    load(&RealDisk, path, IDENTITY, expected, loading, |_, _| {})
}

#[test]
fn rows_are_written_and_read_as_the_page_says() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = written(dir.path());
    let path = dir.path().join("written");
    assert!(fs::read(&path).expect("it is there") == ROWS);
    verify(&path, file).expect("it is whole");
    let mut loaded = load_from(&path, file).expect("it is whole");
    loaded.verify().expect("it is consistent");
    let table = loaded.table(TableId(0));
    let ids: Vec<u32> = table.scan().map(|id| id.0).collect();
    assert_eq!((ids, file.rows), (vec![0, 1, 3], 3));
    let long = table.row(ferrite_base::RowId(0)).column(2);
    assert_eq!(long.to_owned_value(), Value::Text("a value behind a handle").to_owned_value());
    // The next row goes where it would have gone.
    let next = loaded.insert(TableId(0), &[Value::Integer(1), Value::Null, Value::Null]).expect("a row that fits");
    assert_eq!(next.0, 2);
}

#[test]
fn every_changed_byte_and_every_missing_one_is_seen() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = written(dir.path());
    let path = dir.path().join("written");
    let mut bytes = ROWS.to_vec();
    for position in 0..bytes.len() {
        // All of what is not padding, and some of that.
        if bytes[position] == 0 && position % 4_096 > 300 && position % 97 > 0 {
            continue;
        }
        bytes[position] ^= 1 << (position % 8);
        fs::write(&path, &bytes).expect("it is ours");
        assert!(verify(&path, file).is_err(), "byte {position}");
        assert!(load_from(&path, file).is_err(), "byte {position}");
        bytes[position] ^= 1 << (position % 8);
    }
    for length in [0, 1, 63, 64, 4_096, 8_192, bytes.len() - 4_096, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).expect("it is ours");
        assert!(verify(&path, file).is_err(), "cut to {length}");
        // Even if the manifest had it so.
        assert!(verify(&path, RowsFile { bytes: length as u64, ..file }).is_err(), "cut to {length}");
    }
    fs::write(&path, [&bytes[..], &[0; 4_096]].concat()).expect("it is ours");
    assert!(verify(&path, RowsFile { bytes: bytes.len() as u64 + 4_096, ..file }).is_err());
    // Another database's, another snapshot's, another partition's.
    fs::write(&path, &bytes).expect("it is ours");
    for other in [
        FileIdentity { database: [1; 16], ..IDENTITY },
        FileIdentity { snapshot: 8, ..IDENTITY },
        FileIdentity { partition: 0, ..IDENTITY },
    ] {
        let mut verifier = Verifier::open(&RealDisk, &path, other, file).expect("it opens");
        assert!(verifier.step().is_err(), "{other:?}");
    }
}

fn manifest() -> Manifest {
    let file = |sequence| RowsFile {
        epoch: Epoch(1),
        sequence: Sequence(sequence),
        bytes: ROWS.len() as u64,
        blocks: 4,
        checksum: u32::from_le_bytes(ROWS[ROWS.len() - 4_092..][..4].try_into().expect("four bytes")),
        rows: 3,
    };
    Manifest {
        database: IDENTITY.database,
        snapshot: 7,
        taken: 1_234_567,
        map: GroupMap::single(2),
        created_ms: 99,
        genesis_id: *b"fedcba9876543210",
        log: LogPlace { segment: 4, position: 8_192, block: 55, previous_checksum: 0xdead_beef },
        catalog_version: 3,
        base: Some(SchemaBase {
            version: 2,
            next_table_id: 5,
            next_index_id: 6,
            text: "CREATE ROLE r;".to_owned(),
            tables: vec![(0, "T".to_owned())],
            indexes: vec![(4, "T\0I".to_owned())],
        }),
        changes: vec![SchemaChange { version: 3, time: -5, text: "DROP ROLE r".to_owned() }],
        files: vec![file(10), file(20)],
        groups: Vec::new(),
        lots: Vec::new(),
    }
}

#[test]
fn the_manifest_is_written_and_read_as_the_page_says() {
    assert!(manifest().encode() == MANIFEST);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = Files::new(Arc::new(RealDisk), dir.path());
    files.commit(&own_name(7), &manifest()).expect("a healthy disk");
    assert_eq!(files.manifest(&own_name(7)).expect("it is whole"), manifest());
    let path = files.manifest_path(&own_name(7));
    let mut bytes = MANIFEST.to_vec();
    for position in 0..bytes.len() {
        bytes[position] ^= 1 << (position % 8);
        fs::write(&path, &bytes).expect("it is ours");
        assert!(files.manifest(&own_name(7)).is_err(), "byte {position}");
        bytes[position] ^= 1 << (position % 8);
        fs::write(&path, &bytes[..position]).expect("it is ours");
        assert!(files.manifest(&own_name(7)).is_err(), "cut to {position}");
    }
    // Under another number it is not what its name says.
    fs::write(files.manifest_path(&own_name(8)), MANIFEST).expect("it is ours");
    assert!(files.manifest(&own_name(8)).is_err());
}

/// Blocks with a right checksum around hostile bytes, as an attacker would make them.
#[test]
fn hostile_rows_are_refused_without_panic() {
    let catalog = catalog();
    let shape = store().table(TableId(0)).shape().expect("a table");
    bolero::check!().with_iterations(20_000).with_type::<(u32, u8, Vec<u8>)>().for_each(|(first, count, bytes)| {
        let mut loading = Loading::begin(PartitionId(1), ring(), &catalog).expect("the schema can be made");
        loading.table(TableId(0), &shape).expect("it is the table's");
        let _ = loading.rows(TableId(0), bytes);
        // A run that fits, so that its values are looked at.
        let mut run = (first % 8).to_le_bytes().to_vec();
        let count = u32::from(*count) % 4 + 1;
        run.extend_from_slice(&count.to_le_bytes());
        run.extend((0..count as usize * 21).map(|position| bytes.get(position).copied().unwrap_or(0)));
        run.extend_from_slice(bytes);
        let _ = loading.rows(TableId(0), &run);
        if let Ok(store) = loading.finish() {
            store.verify().expect("what was taken is consistent");
        }
    });
}
