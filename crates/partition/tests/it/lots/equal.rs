//! Copies of replicated tables that differ between groups are made equal by lots.

use super::new_disk;
use super::world::{GROUPS, World, found};
use crate::hosting::map;
use ferrite_base::{CatalogVersion, GroupId, PartitionId, SqlLimits, TableId};
use ferrite_multi::{LotId, LotPart, Outcome};
use ferrite_partition::equalize::{CountedRow, EqualizeStep, GroupDigest, decode_rows, of_table};
use ferrite_partition::lots::{LotAnswer, LotCall, LotFailure, LotProgram, LotWork, limits_bytes};
use ferrite_value::Value;
use ferrite_wire::{Status, Table};
use std::collections::BTreeMap;

const SCHEMA: &str = "
    CREATE TABLE t (a BIGINT NOT NULL, n BIGINT, PRIMARY KEY (a)); PARTITION TABLE t ON COLUMN a;
    CREATE TABLE p (k INTEGER NOT NULL, n BIGINT, note VARCHAR(3000), d DECIMAL(12, 4), f FLOAT, b VARBINARY(9),
      PRIMARY KEY (k), UNIQUE (n));
    CREATE VIEW p_by_d AS SELECT d, COUNT(*) AS entries, MAX(n) AS most FROM p GROUP BY d;
    CREATE VIEW t_by_p AS SELECT t.a, COUNT(*) AS entries FROM t JOIN p ON t.n = p.k GROUP BY t.a;
    CREATE TABLE q (v VARCHAR(40));";

const BUCKETS: u32 = 4;

fn all_of(group: GroupId) -> Vec<PartitionId> {
    (0..map().partitions()).map(PartitionId).filter(|id| map().group_of(*id) == Some(group)).collect()
}

struct Groups(World);

impl Groups {
    fn open(seed: u64) -> Groups {
        let disk = new_disk(seed);
        found(&disk, SCHEMA);
        let mut world = World::open(&disk, seed);
        world.settle();
        world.order(10);
        Groups(world)
    }

    /// Begins a lot of these groups, with all of their partitions.
    fn begin(&mut self, groups: &[u32], program: &LotProgram, parameters: &[u8], rides: bool) -> LotId {
        let part = |group: &u32| {
            let group = GroupId(*group);
            let call = LotCall {
                program: program.clone(),
                catalog_version: CatalogVersion(1),
                parameters: parameters.to_vec(),
                is_first: group == GroupId(0),
                time_max_millis: 0,
            };
            let work = LotWork { time_micros: 5_000, answers_max: 1 << 24, calls: vec![call] }.encode();
            LotPart { group, partitions: all_of(group), work }
        };
        let lot = self.0.sequencer.begin(groups.iter().map(part).collect(), rides).expect("all are led");
        self.0.carry_out();
        lot
    }

    /// A lot of these groups, with all of their partitions, once it is over.
    fn run(&mut self, groups: &[u32], program: &LotProgram, parameters: &[u8], is_read: bool) -> LotId {
        let lot = self.begin(groups, program, parameters, !is_read);
        if is_read {
            assert!(self.0.until(|world| world.sequencer.has_run(lot)), "{:?}", self.0.results);
            self.0.sequencer.release(lot);
            self.0.carry_out();
        }
        self.0.settle();
        match is_read {
            true => assert_eq!(self.0.reads.get(&lot), Some(&true)),
            false => assert_eq!(self.0.outcomes.get(&lot), Some(&Outcome::Committed), "{:?}", self.0.results),
        }
        lot
    }

    fn text(&mut self, groups: &[u32], text: &str) {
        self.run(groups, &LotProgram::Text(text.to_owned()), &[0, 0], false);
    }

    /// Why the second group does not do its part of a lot of these groups, which is aborted.
    fn refusal(&mut self, groups: &[u32], program: &LotProgram, parameters: &[u8]) -> LotFailure {
        let lot = self.begin(groups, program, parameters, true);
        self.0.settle();
        assert_eq!(self.0.outcomes.get(&lot), Some(&Outcome::Aborted), "{program:?}: {:?}", self.0.results);
        match &self.0.results[&(lot, GroupId(1))].1.0[..] {
            [LotAnswer::Failed(failure)] => failure.clone(),
            other => panic!("{program:?}: {other:?}"),
        }
    }

    /// The second group is listed as unequal, or no longer.
    fn list(&self, unequal: bool) {
        self.0.groups[&GroupId(1)].cancellations.unequal(GroupId(1), unequal);
    }

    /// By group, what it says.
    fn step(&mut self, step: &EqualizeStep) -> BTreeMap<GroupId, Vec<u8>> {
        let is_read = !matches!(step, EqualizeStep::Replace { .. });
        let all: Vec<u32> = (0..GROUPS).collect();
        let lot = self.run(&all, &LotProgram::Equalize("step".to_owned()), &step.encode(), is_read);
        let mut said = BTreeMap::new();
        for group in 0..GROUPS {
            let (_, result) = &self.0.results[&(lot, GroupId(group))];
            let [LotAnswer::Ran(tables)] = &result.0[..] else { panic!("{result:?}") };
            if let [Some(table)] = &tables[..] {
                said.extend(of_table(&Table::parse(&table[4..]).expect("a table")).expect("of a group"));
            }
        }
        said
    }

    /// The tables of which a group has other rows than the source.
    fn different(&mut self, source: GroupId) -> Vec<TableId> {
        let said = self.step(&EqualizeStep::Digest(Vec::new()));
        let digests: BTreeMap<GroupId, GroupDigest> =
            said.iter().map(|(group, bytes)| (*group, GroupDigest::decode(bytes).expect("a digest"))).collect();
        let mut tables: Vec<TableId> =
            digests.values().flat_map(|digest| digests[&source].differences(digest).into_keys()).collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    fn rows_of(&mut self, source: GroupId, table: TableId) -> Vec<CountedRow> {
        let wanted = (0..BUCKETS).collect();
        let said = self.step(&EqualizeStep::Rows { source, table, buckets: BUCKETS, wanted });
        assert_eq!(said.keys().collect::<Vec<_>>(), [&source], "no other group is asked");
        decode_rows(&said[&source]).expect("rows")
    }

    /// Makes all equal to the source, in how many steps.
    fn equalize(&mut self, source: GroupId, bytes_max: u64) -> usize {
        for steps in 0.. {
            assert!(steps < 400, "it comes to an end");
            let tables = self.different(source);
            if tables.is_empty() {
                return steps;
            }
            for table in tables {
                let rows = self.rows_of(source, table);
                let wanted = (0..BUCKETS).collect();
                let unequal = Vec::new();
                self.step(&EqualizeStep::Replace { unequal, table, buckets: BUCKETS, wanted, bytes_max, rows });
            }
        }
        unreachable!("the loop ends by itself")
    }

    /// By group, of each store the rows of all tables and views that are not partitioned.
    fn tables(&mut self) -> Vec<Vec<Vec<String>>> {
        self.0.settle();
        let of_group = |led: &super::world::Led| {
            let partitions = led.partitions.lock().unwrap();
            let of_store = |partition: &ferrite_partition::thread::Partition| {
                let store = partition.store().expect("nothing is held");
                store.verify().unwrap_or_else(|problem| panic!("{problem}"));
                let mut rows = Vec::new();
                for table in store.tables().filter(|table| !table.definition().is_partitioned()) {
                    let columns = table.definition().columns.len() as u16;
                    for id in table.scan() {
                        let values: Vec<Value<'_>> = (0..columns).map(|column| table.row(id).column(column)).collect();
                        rows.push(format!("{} {values:?}", table.definition().name));
                    }
                }
                rows.sort();
                rows
            };
            partitions.iter().map(of_store).collect()
        };
        self.0.groups.values().map(of_group).collect()
    }
}

/// Groups 0 and 2 have what group 1 has lost.
fn torn(seed: u64) -> Groups {
    let mut groups = Groups::open(seed);
    for row in 0..12 {
        let text = format!("INSERT INTO p VALUES ({row}, {row}, 'kept', {row}.5, 0.1, '0{row:x}')");
        groups.text(&[0, 1, 2], &text);
    }
    for (number, text) in ["a", "a", "b"].iter().enumerate() {
        groups.text(&[0, 1, 2], &format!("INSERT INTO q VALUES ('{text}')"));
        if number == 1 {
            groups.text(&[0, 1, 2], "INSERT INTO q VALUES (NULL)");
        }
    }
    // Keys change places, so that rows of the two copies exclude each other.
    groups.text(&[0, 2], "UPDATE p SET n = n + 100 WHERE k < 6");
    groups.text(&[0, 2], "UPDATE p SET n = n - 1 WHERE k >= 6");
    groups.text(&[0, 2], "DELETE FROM p WHERE k = 3");
    groups.text(&[0, 2], &format!("INSERT INTO p VALUES (40, NULL, '{}', NULL, NULL, NULL)", "x".repeat(2_500)));
    groups.text(&[0, 2], "INSERT INTO q VALUES ('a')");
    groups.text(&[0, 2], "DELETE FROM q WHERE v IS NULL");
    groups.text(&[1], "INSERT INTO p VALUES (41, 105, 'its own', 0, 0, '00')");
    groups
}

#[test]
fn a_group_that_has_lost_something_gets_the_rows_of_another() {
    for seed in 0..4 {
        let mut groups = torn(seed);
        assert_eq!(groups.different(GroupId(0)).len(), 2, "tables, and no view");
        let before = groups.tables();
        assert_ne!(before[0][0], before[1][0]);
        let steps = groups.equalize(GroupId(0), 1 << 20);
        assert!(steps <= 2, "{steps}: what excludes each other takes a second one");
        let after = groups.tables();
        assert!(after.iter().flatten().all(|rows| *rows == before[0][0]), "{after:?}");
        assert_eq!(after[0], before[0], "the source's rows stay");
    }
}

#[test]
fn the_first_group_can_be_the_one_that_has_lost_something_and_large_tables_take_several_steps() {
    let mut groups = torn(7);
    let before = groups.tables();
    let steps = groups.equalize(GroupId(1), 1);
    assert!(steps > 5, "{steps}: each step changes little");
    let after = groups.tables();
    assert!(after.iter().flatten().all(|rows| *rows == before[1][0]), "{after:?}");
}

#[test]
fn rows_are_not_replaced_where_a_group_uses_its_copies_again() {
    let mut groups = torn(9);
    let table = groups.different(GroupId(0))[0];
    let rows = groups.rows_of(GroupId(0), table);
    let before = groups.tables();
    let wanted = (0..BUCKETS).collect();
    let unequal = vec![GroupId(1)];
    let step = EqualizeStep::Replace { unequal, table, buckets: BUCKETS, wanted, bytes_max: 1 << 20, rows };
    let program = LotProgram::Equalize("replace".to_owned());
    let refused = groups.refusal(&[0, 1, 2], &program, &step.encode());
    assert!(refused.text.contains("in use again"), "{refused:?}");
    assert_eq!(groups.tables(), before);
    groups.list(true);
    groups.step(&step);
    assert_ne!(groups.tables(), before);
}

#[test]
fn a_group_that_is_unequal_does_nothing_that_uses_a_replicated_table() {
    let mut groups = torn(11);
    groups.list(true);
    let said = groups.step(&EqualizeStep::Digest(Vec::new()));
    let is_unequal = |bytes: &Vec<u8>| GroupDigest::decode(bytes).expect("a digest").is_unequal;
    assert_eq!(said.values().map(is_unequal).collect::<Vec<_>>(), [false, true, false]);
    let text = |text: &str| (LotProgram::Text(text.to_owned()), vec![0, 0]);
    let limits = limits_bytes(&SqlLimits::CEILING);
    let all = [
        text("SELECT k FROM p"),
        text("SELECT entries FROM p_by_d"),
        text("SELECT entries FROM t_by_p"),
        text("DELETE FROM q"),
        text("UPDATE t SET n = 0 WHERE n IN (SELECT n FROM p)"),
        (LotProgram::Procedure("Q.insert".to_owned()), vec![0, 1, 9, 0, 0, 0, 1, b'c']),
        (LotProgram::Load("Q.insert".to_owned()), Vec::new()),
        (LotProgram::Check("CREATE TABLE r (a BIGINT)".to_owned()), limits),
        (LotProgram::Cut("moment".to_owned()), Vec::new()),
    ];
    let before = groups.tables();
    for (program, parameters) in &all {
        let refused = groups.refusal(&[1], program, parameters);
        assert!(refused.text.contains("are of before an accepted loss"), "{program:?}: {refused:?}");
        assert_eq!(refused.status, Status::ServerUnavailable, "{program:?}");
    }
    assert_eq!(groups.tables(), before);
    groups.text(&[0, 1, 2], "UPDATE t SET n = 1");
    groups.list(false);
    groups.text(&[1], "DELETE FROM q");
    assert_ne!(groups.tables(), before, "it uses them again");
}
