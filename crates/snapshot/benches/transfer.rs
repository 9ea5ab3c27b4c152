//! What a snapshot's way to another node costs in one process on one thread: reading and encoding
//! at the source, decoding, writing and fsync at the sink, reading back there. Bytes per second,
//! without a network.
//!
//! `cargo bench -p ferrite-snapshot --bench transfer [-- megabytes]`

use ferrite_base::{Epoch, GroupMap, NodeId, PartitionId, Sequence, TableId};
use ferrite_catalog::Catalog;
use ferrite_io::{Disk, RealDisk};
use ferrite_snapshot::transfer::{Sink, SinkProgress, Source, SourceStep, decode};
use ferrite_snapshot::{
    FileIdentity, Files, Head, LogPlace, Manifest, SchemaBase, SnapshotError, StoreWriter, own_name, write_store,
};
use ferrite_table::{Loading, Shape, StoredColumn};
use ferrite_value::Value;
use ferrite_value::ring::Ring;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DATABASE: [u8; 16] = *b"0123456789abcdef";
/// Of a row's text.
const TEXT_BYTES: usize = 1_000;

fn make(files: &Files, rows: i64) -> u64 {
    files.create_dir().expect("a healthy disk");
    let statements = ferrite_sql::parse_batch("CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR(2000 BYTES))");
    let (change, _) = ferrite_sql::bind_ddl(&Catalog::default(), &statements.expect("it parses")[0]).expect("it binds");
    let catalog = Arc::new(Catalog::default().apply(&change).expect("it applies").0);
    let ring = Arc::new(Ring::new_default(1));
    let mut loading = Loading::begin(PartitionId(0), ring, &catalog).expect("the schema can be made");
    let columns = [(4, false, 8), (14, true, 8)]
        .map(|(storage, nullable, bytes)| StoredColumn { storage, nullable, bytes })
        .to_vec();
    let shape = Shape { is_view: false, row_bytes: 17, pages: 0, rows: 0, columns, name: "T".to_owned() };
    loading.table(TableId(0), &shape).expect("it is the table's");
    let mut store = loading.finish().expect("an empty store");
    for row in 0..rows {
        let text = format!("{row:>TEXT_BYTES$}");
        store.insert(TableId(0), &[Value::Integer(row), Value::Text(&text)]).expect("a row that fits");
        store.commit();
    }
    let identity = FileIdentity { database: DATABASE, snapshot: 1, partition: 0 };
    let head = Head { database: DATABASE, partitions: 1, taken: 77 };
    let (name, place) = (own_name(1), (Epoch(1), Sequence(5)));
    let path = files.rows_path(&name, 0);
    let writer = StoreWriter::create(&**files.disk(), &path, identity, head, store.snapshot(|_| true), place);
    let file = write_store::<SnapshotError>(writer.expect("a healthy disk"), |_| Ok(())).expect("a healthy disk");
    let base = SchemaBase {
        version: 1,
        next_table_id: 1,
        next_index_id: 0,
        text: "CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR(2000 BYTES))".to_owned(),
        tables: Vec::new(),
        indexes: Vec::new(),
    };
    let manifest = Manifest {
        database: DATABASE,
        snapshot: 1,
        taken: 77,
        map: GroupMap::single(1),
        created_ms: 1,
        genesis_id: DATABASE,
        log: LogPlace { segment: 1, position: 4_096, block: 1, previous_checksum: 0 },
        catalog_version: 1,
        base: Some(base),
        changes: Vec::new(),
        files: vec![file],
        groups: Vec::new(),
        lots: Vec::new(),
    };
    files.commit(&name, &manifest).expect("a healthy disk");
    file.bytes
}

#[derive(Default)]
struct Times {
    source: Duration,
    decode: Duration,
    receive: Duration,
    verify: Duration,
}

fn transfer(from: &Files, to: Files) -> Times {
    let mut times = Times::default();
    let mut source = Source::new(from.clone(), NodeId(1), 1, false, u64::MAX, 0).expect("it is there");
    let mut sink = Sink::open(to, DATABASE).expect("a healthy disk");
    let (mut out, mut answers) = (Vec::new(), Vec::new());
    loop {
        out.clear();
        let begun = Instant::now();
        let step = source.step(0, &mut out).expect("a healthy disk");
        times.source += begun.elapsed();
        match step {
            SourceStep::Message => {
                let begun = Instant::now();
                let (id, message) = decode(&out).expect("a message");
                times.decode += begun.elapsed();
                let begun = Instant::now();
                sink.receive(&id, &message, &mut answers).expect("a healthy disk");
                times.receive += begun.elapsed();
            }
            SourceStep::Installed => return times,
            other => panic!("{other:?}"),
        }
        let begun = Instant::now();
        while sink.progress() == SinkProgress::Working && answers.is_empty() {
            sink.step(&mut answers).expect("a healthy disk");
        }
        times.verify += begun.elapsed();
        let (id, message) = decode(&answers).expect("one answer at a time");
        source.receive(&id, &message, 0);
        answers.clear();
    }
}

fn main() {
    let megabytes: i64 = std::env::args()
        .nth(1)
        .filter(|text| !text.starts_with('-'))
        .map_or(512, |text| text.parse().expect("a number"));
    let root = tempfile::tempdir().expect("a temporary directory");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let files = |name: &str| Files::new(Arc::clone(&disk), &Path::new(root.path()).join(name));
    let from = files("from");
    let bytes = make(&from, megabytes * 1_000_000 / TEXT_BYTES as i64);
    let rate = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    for round in 0..3 {
        let name = format!("to-{round}");
        let begun = Instant::now();
        let Times { source, decode, receive, verify } = transfer(&from, files(&name));
        println!(
            "{:.0} MB: {:.0} MB/s; source {:.0}, decoding {:.0}, writing {:.0}, reading back {:.0}",
            bytes as f64 / 1e6,
            rate(begun.elapsed()),
            rate(source),
            rate(decode),
            rate(receive),
            rate(verify)
        );
        std::fs::remove_dir_all(root.path().join(name)).expect("it is there");
    }
}
