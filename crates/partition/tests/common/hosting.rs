//! A node without threads that hosts several groups of one database, moved on by the test itself.

use crate::common::log_options;
use crossbeam_channel::bounded;
use ferrite_base::{Epoch, GroupId, GroupMap, GroupPartitions, Sequence};
use ferrite_group::{Checkpointed, EntryBuffer, Replication};
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_log::LogOptions;
use ferrite_partition::commit::{self, Completion, Parties};
use ferrite_partition::coordinator::TakenSnapshot;
use ferrite_partition::record::{self, BatchWriter, Part};
use ferrite_partition::recovery::{
    self, AsMember, Options, RecoveredGroup, RecoveredMembers, RecoveredNode, StartError,
};
use ferrite_partition::snapshots::Saved;
use ferrite_partition::{Compiled, RecoveryProgress, schema};
use ferrite_plan::external::RuntimeHandle;
use ferrite_replica::group::Timing;
use ferrite_table::Store;
use ferrite_value::Value;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub const SCHEMA: &str = "
    CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR(3000 BYTES), PRIMARY KEY (a));
    PARTITION TABLE t ON COLUMN a;
    CREATE TABLE r (k INTEGER NOT NULL, PRIMARY KEY (k));";

/// Three groups, the partitions of which are not side by side.
pub fn map() -> GroupMap {
    GroupMap::new([0, 1, 0, 2, 1].map(GroupId).to_vec()).expect("groups without a gap")
}

pub fn partitions_of(group: u32) -> GroupPartitions {
    map().partitions_of(GroupId(group)).expect("it is there")
}

/// What did not come to its end, as the disk failed.
#[derive(Debug)]
pub struct Failed;

fn options<'r>(log: LogOptions, progress: &'r RecoveryProgress, runtime: &'r RuntimeHandle) -> Options<'r> {
    let groups = Some(map());
    Options { log, groups, partitions_default: 1, threads: 0, report: &|_| {}, progress, runtime }
}

/// A server without others that has all groups.
pub struct Groups(pub RecoveredNode);

impl Groups {
    pub fn open(disk: &SimulatedDisk, dir: &str) -> Result<Groups, StartError> {
        let progress = RecoveryProgress::default();
        let runtime = RuntimeHandle::default();
        let options = options(log_options(), &progress, &runtime);
        let clock = Arc::new(SimulatedClock::default());
        let random = &mut SimulatedRandom::new(1);
        recovery::open_with(Arc::new(disk.clone()), clock, random, Path::new(dir), options).map(Groups)
    }

    pub fn group(&self, group: u32) -> &RecoveredGroup {
        let found = self.0.groups.iter().find(|own| own.partitions.group().0 == group);
        found.expect("it is hosted")
    }

    fn group_mut(&mut self, group: u32) -> &mut RecoveredGroup {
        let found = self.0.groups.iter_mut().find(|own| own.partitions.group().0 == group);
        found.expect("it is hosted")
    }

    /// `change` adds to the stores, and to the entry what it has changed. `seen` is called between
    /// the change and the log.
    fn commit(
        &mut self,
        group: u32,
        change: impl FnOnce(&mut RecoveredGroup, &mut EntryBuffer),
        seen: &mut dyn FnMut(u32, Vec<String>),
    ) -> Result<(), Failed> {
        let mut entry = EntryBuffer::default();
        change(self.group_mut(group), &mut entry);
        seen(group, contents(self.group(group)));
        commit::append_and_wait(&self.0.log, &self.group(group).group, entry).map_err(|_| Failed)
    }

    pub fn ddl(&mut self, group: u32, text: &str, seen: &mut dyn FnMut(u32, Vec<String>)) -> Result<(), Failed> {
        let change = |own: &mut RecoveredGroup, entry: &mut EntryBuffer| {
            let planned = schema::plan(&own.compiled.catalog, text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            schema::apply(&mut own.stores, &planned, 5).expect("the stores follow");
            let version = planned.catalog.version.0;
            let text = schema::logged_text(&own.compiled.catalog, text);
            record::write_schema(entry.records(), version, 5, &text);
            own.history.add(version, 5, &text);
            own.compiled = Arc::new(Compiled::new(planned.catalog, &Default::default()).expect("it compiles"));
        };
        self.commit(group, change, seen)
    }

    /// A row in one partition of the group, if the key belongs to one: whether it does.
    pub fn insert(&mut self, group: u32, key: i64, seen: &mut dyn FnMut(u32, Vec<String>)) -> Result<bool, Failed> {
        let own = self.group(group);
        let table = own.compiled.catalog.table_named("T").expect("it was made").id;
        let definition = Arc::clone(own.stores[0].table(table).definition());
        let owns = |store: &Store| store.owns(&definition, &Value::Integer(key)).expect("a key");
        let Some(place) = own.stores.iter().position(owns) else { return Ok(false) };
        let text = "x".repeat(2_500);
        let change = |own: &mut RecoveredGroup, entry: &mut EntryBuffer| {
            let sequence = Sequence(own.sequences[place].0 + 1);
            let store = &mut own.stores[place];
            store.insert(table, &[Value::Integer(key), Value::Text(&text)]).expect("a row that fits");
            let mut writer = BatchWriter::begin(entry.records(), own.partitions.id(place), Epoch(1), sequence);
            writer.transaction(entry.records(), |out| store.take_redo_into(out));
            writer.finish(entry.records());
            store.commit();
            own.sequences[place] = sequence;
        };
        self.commit(group, change, seen).map(|()| true)
    }

    /// A row in all partitions of the group, in one record.
    pub fn insert_everywhere(
        &mut self,
        group: u32,
        key: i64,
        seen: &mut dyn FnMut(u32, Vec<String>),
    ) -> Result<(), Failed> {
        let change = |own: &mut RecoveredGroup, entry: &mut EntryBuffer| {
            let table = own.compiled.catalog.table_named("R").expect("it was made").id;
            for (store, sequence) in own.stores.iter_mut().zip(&mut own.sequences) {
                store.insert(table, &[Value::Integer(key)]).expect("a row that fits");
                sequence.0 += 1;
            }
            let parts = own.stores.iter().zip(&own.sequences).map(|(store, sequence)| Part {
                partition: store.partition(),
                epoch: Epoch(1),
                sequence: *sequence,
                changes: store.redo(),
            });
            record::write_multi(entry.records(), 1, &parts.collect::<Vec<_>>());
            own.stores.iter_mut().for_each(Store::discard_redo);
            own.stores.iter_mut().for_each(Store::commit);
        };
        self.commit(group, change, seen)
    }

    /// What a group's coordinator does for a snapshot, and what follows.
    pub fn save(&mut self, group: u32) -> Result<Saved, Failed> {
        let own = self.group_mut(group);
        let snapshot = own.snapshots.next_number();
        let stores = own.stores.iter_mut().map(|store| store.snapshot(|_| true)).collect();
        let places: Vec<_> = own.sequences.iter().map(|sequence| (Epoch(1), *sequence)).collect();
        let mark = Arc::new(OnceLock::new());
        let (tell, logged) = bounded(1);
        let completion = Completion { parties: Parties::Asking(tell), buffers: None };
        let version = own.compiled.catalog.version.0;
        let write = |reached: &Checkpointed| {
            let mut payload = Vec::new();
            let groups = [(reached.group, reached.place.end)];
            record::write_checkpoint(&mut payload, snapshot, version, &places, &groups);
            payload
        };
        let groups = vec![own.group.append_checkpoint(write, Arc::clone(&mark), completion)];
        while self.0.log.step() {}
        let own = self.group_mut(group);
        let taken = TakenSnapshot {
            snapshot,
            stores,
            places,
            groups,
            contents: None,
            catalog: Arc::clone(&own.compiled.catalog),
            history: own.history.clone(),
            lots: own.lots.clone(),
            time: 77,
            mark,
            logged,
        };
        own.snapshots.save(taken, 0, &|_| Ok(())).map_err(|_| Failed)
    }

    pub fn close(self) {
        self.0.log.close().expect("a healthy log closes");
    }
}

/// Everything that can be seen of a group.
pub fn contents(group: &RecoveredGroup) -> Vec<String> {
    let mut out = vec![format!("{:?} {:?}", group.sequences, group.compiled.catalog)];
    for store in &group.stores {
        store.verify().unwrap_or_else(|problem| panic!("partition {}: {problem}", store.partition()));
        for table in store.tables() {
            let columns = table.definition().columns.len() as u16;
            for id in table.scan() {
                let row: Vec<Value<'_>> = (0..columns).map(|column| table.row(id).column(column)).collect();
                out.push(format!("{} {} {id} {row:?}", store.partition(), table.definition().name));
            }
        }
    }
    out
}

/// The same directory as a cluster's node opens it.
pub fn open_members(disk: &SimulatedDisk, dir: &str, log: LogOptions) -> Result<RecoveredMembers, StartError> {
    let progress = RecoveryProgress::default();
    let runtime = RuntimeHandle::default();
    let options = options(log, &progress, &runtime);
    let host = Arc::new(crate::common::NoOthers);
    let as_member = AsMember { host, timing: Timing::DEFAULT, intact: true, snapshots: true };
    let clock = Arc::new(SimulatedClock::default());
    let random = &mut SimulatedRandom::new(1);
    recovery::open_member(Arc::new(disk.clone()), clock, random, Path::new(dir), options, as_member)
}

/// The stream of a group.
pub fn stream(members: &RecoveredMembers, group: u32) -> Arc<Replication<Completion>> {
    let found = members.streams.iter().find(|stream| stream.replication.id().0 == group);
    Arc::clone(&found.expect("it is hosted").replication)
}
