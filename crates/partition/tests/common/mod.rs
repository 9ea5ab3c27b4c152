//! A node without clients and threads: stores, log and snapshots moved on by the test itself.
#![allow(dead_code, reason = "each test file uses its part of this room")]

pub mod crashing_disk;

use crossbeam_channel::bounded;
use ferrite_base::{Epoch, GroupId, GroupMap, NodeId, PartitionId, RowId, Sequence, TableId};
use ferrite_group::{Checkpointed, EntryBuffer, GroupEvent, GroupHost, NotCommitted, SharedEntry, Urgency};
use ferrite_io::{Clock, Disk, RealDisk, SystemClock, SystemRandom};
use ferrite_log::{Durability, LogOptions};
use ferrite_partition::RecoveryProgress;
use ferrite_partition::commit::{self, Completion, Parties};
use ferrite_partition::compiled::Compiled;
use ferrite_partition::coordinator::TakenSnapshot;
use ferrite_partition::record::{self, BatchWriter};
use ferrite_partition::recovery::{self, AsMember, Options, Recovered, RecoveredMember, RecoveredMembers, StartError};
use ferrite_partition::schema;
use ferrite_partition::snapshots::{SaveError, Saved};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::Timing;
use ferrite_table::Store;
use ferrite_value::Value;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Segments of 16 pages, so that a test has many.
pub fn log_options() -> LogOptions {
    LogOptions {
        durability: Durability::Sync,
        segment_bytes: 65_536,
        block_bytes_max: 32_768,
        own_threads: false,
        prepare_ahead: false,
        ..LogOptions::default()
    }
}

/// What is there of a cluster's node, as far as it is known to be committed, while no other node is
/// there.
pub fn open_member(dir: &Path, partitions: u32) -> Result<RecoveredMember, StartError> {
    open_member_on(Arc::new(RealDisk), dir, partitions)
}

pub fn open_member_on(disk: Arc<dyn Disk>, dir: &Path, partitions: u32) -> Result<RecoveredMember, StartError> {
    let options = Options {
        log: log_options(),
        groups: Some(GroupMap::single(partitions)),
        partitions_default: 1,
        threads: 0,
        report: &|_| {},
        progress: &RecoveryProgress::default(),
        runtime: &RuntimeHandle::default(),
    };
    let as_member = AsMember { host: Arc::new(NoOthers), timing: Timing::DEFAULT, intact: true, snapshots: true };
    let opened = recovery::open_member(disk, Arc::new(SystemClock), &mut SystemRandom, dir, options, as_member);
    opened.map(RecoveredMembers::only_group)
}

pub struct NoOthers;

impl GroupHost for NoOthers {
    fn send(&self, _: NodeId, _: Urgency, _: Vec<u8>) {}
    fn committed(&self, _: GroupId, _: Vec<SharedEntry>) {}
    fn event(&self, _: GroupId, _: GroupEvent) {}
    fn has_lease(&self) -> bool {
        false
    }
}

pub struct Node(pub Recovered);

impl Node {
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, partitions: u32) -> Result<Node, StartError> {
        Node::open_as(Durability::Sync, disk, dir, partitions)
    }

    pub fn open_as(
        durability: Durability,
        disk: Arc<dyn Disk>,
        dir: &Path,
        partitions: u32,
    ) -> Result<Node, StartError> {
        let (clock, log) = (Arc::new(SystemClock), LogOptions { durability, ..log_options() });
        recovery::open(disk, clock, &mut SystemRandom, dir, log, Some(partitions), 1).map(Node)
    }

    pub fn table(&self, name: &str) -> TableId {
        self.0.compiled.catalog.table_named(name).unwrap_or_else(|| panic!("table {name} is there")).id
    }

    /// A transaction on one partition.
    pub fn change(&mut self, partition: usize, change: impl FnOnce(&mut Store)) {
        let store = &mut self.0.stores[partition];
        change(store);
        if let Some(unlogged) = &self.0.unlogged {
            assert!(!store.redo().is_empty(), "something has changed");
            store.discard_redo();
            unlogged.note();
            return store.commit();
        }
        let sequence = Sequence(self.0.sequences[partition].0 + 1);
        let mut entry = EntryBuffer::default();
        let mut writer = BatchWriter::begin(entry.records(), PartitionId(partition as u32), Epoch(1), sequence);
        writer.transaction(entry.records(), |out| store.take_redo_into(out));
        writer.finish(entry.records());
        store.commit();
        self.0.sequences[partition] = sequence;
        commit::append_and_wait(&self.0.log, &self.0.group, entry).expect("a healthy log takes it");
    }

    /// Inserts a row where its first column says that it belongs; into a replicated table,
    /// everywhere.
    pub fn insert(&mut self, table: TableId, row: &[Value<'_>]) {
        self.insert_watched(table, row, &mut |_| {});
    }

    /// The same; `after` sees the node after each transaction.
    pub fn insert_watched(&mut self, table: TableId, row: &[Value<'_>], after: &mut dyn FnMut(&Node)) {
        for partition in 0..self.0.stores.len() {
            let store = &self.0.stores[partition];
            let definition = Arc::clone(store.table(table).definition());
            if store.owns(&definition, &row[0]).expect("a key") {
                self.change(partition, |store| {
                    store.insert(table, row).expect("a row that fits");
                });
                after(self);
            }
        }
    }

    /// Deletes the rows at these places among the table's rows of each partition.
    pub fn delete(&mut self, table: TableId, which: impl Fn(usize) -> bool) {
        for partition in 0..self.0.stores.len() {
            let ids: Vec<RowId> = self.0.stores[partition].table(table).scan().collect();
            let gone: Vec<RowId> = (0..).zip(ids).filter(|(place, _)| which(*place)).map(|(_, id)| id).collect();
            if !gone.is_empty() {
                self.change(partition, |store| {
                    gone.iter().for_each(|id| store.delete(table, *id).expect("a row that is there"));
                });
            }
        }
    }

    pub fn ddl(&mut self, text: &str) {
        self.try_ddl(text).expect("a healthy log takes it");
    }

    /// Err: nobody knows whether the change is in the log.
    pub fn try_ddl(&mut self, text: &str) -> Result<(), NotCommitted> {
        let planned = schema::plan(&self.0.compiled.catalog, text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        let time = SystemClock.wall_micros();
        schema::apply(&mut self.0.stores, &planned, time).expect("the stores follow");
        let mut entry = EntryBuffer::default();
        let version = planned.catalog.version.0;
        let text = schema::logged_text(&self.0.compiled.catalog, text);
        record::write_schema(entry.records(), version, time, &text);
        commit::append_and_wait(&self.0.log, &self.0.group, entry)?;
        self.0.history.add(version, time, &text);
        self.0.compiled = Arc::new(Compiled::new(planned.catalog, &Default::default()).expect("it compiles"));
        Ok(())
    }

    /// What the coordinator does for a snapshot.
    pub fn take_snapshot(&mut self) -> TakenSnapshot {
        let snapshot = self.0.snapshots.next_number();
        let stores = self.0.stores.iter_mut().map(|store| store.snapshot(|_| true)).collect();
        let places: Vec<_> = self.0.sequences.iter().map(|sequence| (Epoch(1), *sequence)).collect();
        let (mark, (tell, logged)) = (Arc::new(OnceLock::new()), bounded(1));
        let completion = Completion { parties: Parties::Asking(tell), buffers: None };
        let version = self.0.compiled.catalog.version.0;
        let write = |reached: &Checkpointed| {
            let mut payload = Vec::new();
            let groups = [(reached.group, reached.place.end)];
            match self.0.unlogged {
                None => record::write_checkpoint(&mut payload, snapshot, version, &places, &groups),
                Some(_) => record::write_installed(&mut payload, snapshot, version, &places, &groups),
            }
            payload
        };
        self.0.unlogged.iter().for_each(|unlogged| unlogged.snapshot_taken());
        let groups = vec![self.0.group.append_checkpoint(write, Arc::clone(&mark), completion)];
        while self.0.log.step() {}
        let catalog = Arc::clone(&self.0.compiled.catalog);
        TakenSnapshot {
            snapshot,
            stores,
            places,
            groups,
            contents: None,
            catalog,
            history: self.0.history.clone(),
            lots: self.0.lots.clone(),
            time: 77,
            mark,
            logged,
        }
    }

    pub fn save(&mut self) -> Result<Saved, SaveError> {
        let taken = self.take_snapshot();
        self.0.snapshots.save(taken, 0, &|_| Ok(()))
    }

    /// Everything that can be seen of it: sequence numbers, schema with ids, each row with its id.
    pub fn contents(&self) -> Vec<String> {
        let mut out = vec![format!("{:?} {:?}", self.0.sequences, self.0.compiled.catalog)];
        for store in &self.0.stores {
            store.verify().unwrap_or_else(|problem| panic!("partition {}: {problem}", store.partition()));
            for table in store.tables() {
                let columns = table.definition().columns.len() as u16;
                out.push(format!("{} {}: {}", store.partition(), table.definition().name, table.row_count()));
                for id in table.scan() {
                    let row: Vec<Value<'_>> = (0..columns).map(|column| table.row(id).column(column)).collect();
                    out.push(format!("{id} {row:?}"));
                }
            }
        }
        out
    }

    pub fn close(self) {
        self.0.log.close().expect("a healthy log closes");
    }
}

/// Tables of all kinds: partitioned and replicated, with long values, holes and indexes of all
/// kinds, a stream, views of all of them.
pub const SCHEMA: &str = "
    CREATE TABLE events (id BIGINT NOT NULL, grp INTEGER, note VARCHAR(20), body VARCHAR(5000), amount DECIMAL, ratio FLOAT,
        at TIMESTAMP DEFAULT NOW, ok TINYINT, raw VARBINARY(300), PRIMARY KEY (id));
    PARTITION TABLE events ON COLUMN id;
    CREATE INDEX by_group ON events (grp, note);
    CREATE UNIQUE INDEX by_id_hash ON events USING HASH (id, grp);
    CREATE INDEX some ON events (amount) WHERE grp > 2;
    CREATE TABLE kinds (k INTEGER NOT NULL, label VARCHAR(100) NOT NULL, CONSTRAINT named PRIMARY KEY (k));
    CREATE STREAM visits PARTITION ON COLUMN who (who BIGINT NOT NULL, page INTEGER);
    CREATE VIEW visits_by_page AS SELECT page, COUNT(*) AS n FROM visits GROUP BY page;
    CREATE VIEW totals AS SELECT grp, COUNT(*) AS n, SUM(ratio) AS s, MIN(note) AS low FROM events GROUP BY grp;
    CREATE VIEW everything AS SELECT COUNT(*) AS n FROM events;
    CREATE PROCEDURE one PARTITION ON TABLE events COLUMN id AS SELECT * FROM events WHERE id = ?;";

/// Rows of all kinds, numbers from `from` to `to`.
pub fn fill(node: &mut Node, from: i64, to: i64) {
    fill_watched(node, from, to, &mut |_| {});
}

/// The same; `after` sees the node after each transaction.
pub fn fill_watched(node: &mut Node, from: i64, to: i64, after: &mut dyn FnMut(&Node)) {
    let (events, kinds, visits) = (node.table("EVENTS"), node.table("KINDS"), node.table("VISITS"));
    let columns = node.0.compiled.catalog.table(events).expect("it is there").columns.len();
    for id in from..to {
        let body = "x".repeat((id as usize * 37) % 4_000);
        let note = format!("nöte {}", id % 13);
        let mut row = vec![
            Value::Integer(id),
            if id % 5 == 0 { Value::Null } else { Value::Integer(id % 7) },
            Value::Text(&note),
            if id % 4 == 0 { Value::Null } else { Value::Text(&body) },
            Value::Null,
            Value::Float(1.0 / (id as f64 + 1.0)),
            Value::Timestamp(id * 1_000),
            Value::Integer(id % 100),
            Value::Bytes(&body.as_bytes()[..body.len().min(290)]),
        ];
        row.resize(columns, Value::Null);
        node.insert_watched(events, &row, after);
        node.insert_watched(visits, &[Value::Integer(id), Value::Integer(id % 3)], after);
        if id % 10 == 0 {
            node.insert_watched(kinds, &[Value::Integer(id), Value::Text(&note)], after);
        }
    }
}
