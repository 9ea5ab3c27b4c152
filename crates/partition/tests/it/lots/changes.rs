//! A schema change is a lot of all groups: all have it or none, whatever is lost at whichever step.

use super::world::{GROUPS, Heard, Led, World, reopened};
use super::{Bank, keys_of_groups};
use crate::hosting::map;
use ferrite_base::{CatalogVersion, Epoch, GroupId, PartitionId, SqlLimits};
use ferrite_io::simulated::{CrashPoint, Restart};
use ferrite_multi::{LotId, LotPart, Outcome};
use ferrite_partition::lots::{
    FailureVerdict, LotAnswer, LotCall, LotFailure, LotProgram, LotWork, change_name, limits_bytes,
};
use ferrite_partition::thread::Partition;
use ferrite_replica::group::GroupConfiguration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const ADD: &str = "ALTER TABLE t ADD COLUMN m BIGINT DEFAULT 4; CREATE UNIQUE INDEX u ON t (a, m)";

impl World {
    /// Begins a lot of all groups that makes a change of this version of the schema, which they
    /// check before.
    pub fn begin_checked(&mut self, text: &str, version: u64) -> LotId {
        let check = self.begin_change(&LotProgram::Check(text.to_owned()), version);
        assert!(self.until(|world| world.sequencer.has_run(check)), "{text}");
        self.sequencer.release(check);
        self.carry_out();
        self.settle();
        self.begin_change(&LotProgram::Change(change_name(text)), version)
    }

    /// Begins a lot of all groups that checks a change of this version of the schema, or makes what
    /// was checked.
    pub fn begin_change(&mut self, program: &LotProgram, version: u64) -> LotId {
        let holds = matches!(program, LotProgram::Change(_) | LotProgram::Cut(_));
        let part = |group: GroupId| {
            let call = LotCall {
                program: program.clone(),
                catalog_version: CatalogVersion(version),
                parameters: limits_bytes(&SqlLimits::CEILING),
                is_first: group == GroupId(0),
                time_max_millis: 1_000_000,
            };
            let is_held = |partition: &PartitionId| holds && map().group_of(*partition) == Some(group);
            let partitions = (0..map().partitions()).map(PartitionId).filter(is_held).collect();
            let work = LotWork { time_micros: 5_000, answers_max: 1_000, calls: vec![call] }.encode();
            LotPart { group, partitions, work }
        };
        let lot = self.sequencer.begin((0..GROUPS).map(|group| part(GroupId(group))).collect(), false);
        self.carry_out();
        lot.expect("all are led")
    }

    /// The version of each group's schema, once nothing is under way, and how many columns table
    /// `t` has there.
    pub fn schemas(&mut self) -> Vec<(u64, usize)> {
        self.settle();
        let of_group = |led: &Led| {
            let partitions = led.partitions.lock().unwrap();
            let of_store = |partition: &Partition| {
                let store = partition.store().expect("nothing is held");
                store.verify().unwrap_or_else(|problem| panic!("{problem}"));
                let table = store.tables().find(|table| table.definition().name == "T").expect("it was made");
                (store.catalog().version.0, table.definition().columns.len())
            };
            let mut all: Vec<(u64, usize)> = partitions.iter().map(of_store).collect();
            all.dedup();
            assert_eq!(all.len(), 1, "the stores of a group have one schema");
            all[0]
        };
        self.groups.values().map(of_group).collect()
    }
}

impl Bank {
    /// Begins a change of the first version of the schema.
    fn change(&mut self, text: &str) -> LotId {
        self.world.begin_checked(text, 1)
    }

    /// All groups have made it; it is prepared.
    fn prepare(&mut self, lot: LotId) {
        assert!(self.world.until(|world| world.sequencer.has_run(lot)), "{:?}", self.world.results);
        assert!(self.world.sequencer.prepare(lot));
        self.world.carry_out();
    }

    fn failure(&self, lot: LotId, group: u32) -> &LotFailure {
        match &self.world.results[&(lot, GroupId(group))].1.0[0] {
            LotAnswer::Failed(failure) => failure,
            LotAnswer::Ran(_) => panic!("group {group} has made it"),
        }
    }
}

#[test]
fn a_change_is_made_by_all_groups_and_awaited() {
    let mut bank = Bank::open(1);
    // Calls are executed while groups check a change.
    let check = bank.world.begin_change(&LotProgram::Check(ADD.to_owned()), 1);
    assert!(bank.world.until(|world| world.sequencer.has_run(check)));
    assert!(bank.world.groups.values().all(|led| !led.has_lent_all()));
    bank.world.sequencer.release(check);
    bank.world.carry_out();
    bank.world.settle();
    assert_eq!(bank.world.reads.get(&check), Some(&true));
    let lot = bank.change(ADD);
    bank.prepare(lot);
    assert!(bank.world.until(|world| world.outcomes.contains_key(&lot)));
    assert_eq!(bank.world.outcomes[&lot], Outcome::Committed);
    assert!(bank.world.sequencer.awaits(lot), "groups have yet to hear of it");
    assert_eq!(bank.world.schemas(), [(2, 3); 3]);
    assert_eq!(bank.world.settled, [lot]);
    assert!(!bank.world.sequencer.awaits(lot));
    let tables = |group| match &bank.world.results[&(lot, GroupId(group))].1.0[0] {
        LotAnswer::Ran(tables) => tables.iter().map(Option::is_some).collect::<Vec<_>>(),
        LotAnswer::Failed(failure) => panic!("{}", failure.text),
    };
    assert_eq!(tables(1), [true, false, false]);
    let stale = bank.transfer(0, 1, 5, true);
    bank.world.settle();
    assert_eq!(bank.failure(stale, 0).verdict, FailureVerdict::LookUp, "it was of the schema before");
    let disk = bank.disk.clone();
    drop(bank);
    assert_eq!(World::open(&disk, 5).schemas(), [(2, 3); 3], "replay has it");
}

#[test]
fn rows_that_change_places_are_counted_in_all_groups() {
    let mut bank = Bank::open(12);
    let other = "CREATE TABLE o (a BIGINT NOT NULL, n BIGINT, PRIMARY KEY (a)); PARTITION TABLE o ON COLUMN a";
    let lot = bank.change(other);
    bank.prepare(lot);
    bank.world.settle();
    let lot = bank.world.begin_checked("SWAP TABLE t WITH o", 2);
    bank.prepare(lot);
    bank.world.settle();
    assert_eq!(bank.world.outcomes[&lot], Outcome::Committed);
    for group in 0..3 {
        let LotAnswer::Ran(tables) = &bank.world.results[&(lot, GroupId(group))].1.0[0] else { panic!() };
        let table = tables[1].as_ref().expect("a number of rows");
        assert_eq!(table.last(), Some(&1), "each group has a row of T");
    }
    // One of them is dropped by the same text.
    let lot = bank.world.begin_checked("SWAP TABLE t WITH o; DROP TABLE o", 3);
    bank.prepare(lot);
    bank.world.settle();
    assert_eq!(bank.world.outcomes[&lot], Outcome::Committed);
    assert_eq!(bank.numbers(), [100, 100, 100]);
}

#[test]
fn a_change_that_one_group_cannot_make_is_made_by_none() {
    let mut bank = Bank::open(2);
    let key = bank.keys[1];
    let others = format!("UPDATE t SET n = NULL WHERE a = {key}; UPDATE t SET n = 5 WHERE a = {}", bank.keys[0]);
    let keys = bank.keys.clone();
    bank.world.begin(&[(&others, &keys[..2])], true);
    bank.world.settle();
    for (text, refused) in [
        ("ALTER TABLE t ALTER COLUMN n SET NOT NULL", vec![1]),
        ("ALTER TABLE t ALTER COLUMN a VARCHAR(30) NOT NULL", vec![0, 1, 2]),
    ] {
        let lot = bank.change(text);
        let has_run = |world: &World| (0..3).all(|group| world.results.contains_key(&(lot, GroupId(group))));
        assert!(bank.world.until(has_run), "{text}");
        for group in 0..3 {
            assert_eq!(bank.world.results[&(lot, GroupId(group))].0, !refused.contains(&group), "{text}");
        }
        assert_eq!(bank.failure(lot, 1).verdict, FailureVerdict::Fails);
        assert!(bank.world.sequencer.abandon(lot));
        bank.world.carry_out();
        assert_eq!(bank.world.schemas(), [(1, 2); 3], "{text}");
        assert_eq!(bank.world.outcomes[&lot], Outcome::Aborted);
    }
    let check = bank.world.begin_change(&LotProgram::Check("DROP TABLE nowhere".to_owned()), 1);
    bank.world.settle();
    assert!(bank.failure(check, 2).text.contains("NOWHERE"), "{}", bank.failure(check, 2).text);
    bank.world.sequencer.abandon(check);
    bank.world.carry_out();
    let lot = bank.transfer(0, 2, 5, true);
    bank.world.settle();
    assert_eq!(bank.world.outcomes[&lot], Outcome::Committed, "and all continue");
}

/// The text travels with the check alone: what a group has not checked last, it does not make.
#[test]
fn a_change_that_a_group_has_not_checked_last_is_to_be_checked_again() {
    let mut bank = Bank::open(3);
    let unknown = bank.world.begin_change(&LotProgram::Change(change_name(ADD)), 1);
    bank.world.settle();
    assert!((0..3).all(|group| bank.failure(unknown, group).verdict == FailureVerdict::LookUp));
    assert!(bank.world.sequencer.abandon(unknown));
    bank.world.carry_out();
    assert_eq!(bank.world.schemas(), [(1, 2); 3]);
    let made = bank.change(ADD);
    bank.prepare(made);
    bank.world.settle();
    assert_eq!(bank.world.outcomes[&made], Outcome::Committed);
    // It is made once, and the next one is of another version.
    let twice = bank.world.begin_change(&LotProgram::Change(change_name(ADD)), 2);
    bank.world.settle();
    assert_eq!(bank.failure(twice, 1).verdict, FailureVerdict::LookUp);
    assert!(bank.world.sequencer.abandon(twice));
    bank.world.carry_out();
    assert_eq!(bank.world.schemas(), [(2, 3); 3]);
}

/// A leader falls at every step of a change, and leads again; the sequencer's word may be lost.
#[test]
fn all_groups_have_a_change_or_none_when_a_leader_falls() {
    let mut made = 0;
    for seed in 0..60 {
        let mut bank = Bank::open(100 + seed);
        let lot = bank.change(ADD);
        let heard = Arc::new(Heard::default());
        for _ in 0..seed * 2 {
            bank.world.step();
            if bank.world.sequencer.prepare(lot) {
                bank.world.carry_out();
                bank.world.groups[&GroupId(1)].quiesce(Arc::<Heard>::clone(&heard));
            }
        }
        let told = bank.world.outcomes.get(&lot).copied();
        bank.depose();
        bank.world.deaf.clear();
        let first = &bank.world.groups[&GroupId(0)];
        let epoch = Epoch(first.stream.end().epoch.0 + 2);
        first.stream.configured(GroupConfiguration::alone(epoch, first.member));
        bank.world.settle();
        // What was said to the others is lost, with the way.
        bank.world.order(20);
        let schemas = bank.world.schemas();
        assert!(schemas == [(1, 2); 3] || schemas == [(2, 3); 3], "seed {seed}: {schemas:?}");
        if let Some(outcome) = told {
            assert_eq!(schemas[0].0 == 2, outcome == Outcome::Committed, "seed {seed}");
        }
        made += usize::from(schemas[0].0 == 2);
        assert!(heard.0.load(Ordering::SeqCst) <= 1);
        assert_eq!(bank.numbers(), [100, 100, 100]);
    }
    assert!((5..55).contains(&made), "{made} of 60 were made");
}

#[test]
fn a_snapshot_has_a_change_that_is_in_doubt() {
    let mut bank = Bank::open(3);
    let lot = bank.change(ADD);
    assert!(bank.world.until(|world| world.sequencer.has_run(lot)));
    assert!(bank.world.sequencer.prepare(lot));
    bank.world.carry_out();
    assert!(bank.world.until(|world| world.outcomes.contains_key(&lot)));
    // It does not hear how the lot has ended.
    bank.world.deaf = vec![GroupId(0)];
    bank.world.settle();
    bank.depose();
    bank.save_copy(lot);
    let disk = bank.disk.clone();
    drop(bank);
    assert!(reopened(&disk)[0].in_doubt().contains_key(&lot));
    for seed in [8, 9] {
        assert_eq!(World::open(&disk, seed).schemas(), [(2, 3); 3], "it is decided once");
    }
}

/// A change and transfers before it and after it, until the power is lost; what was told of the
/// change.
fn work(bank: &mut Bank, told: &mut Option<Outcome>) {
    let transfer = |bank: &mut Bank| {
        bank.world.until(|world| world.sequencer.can_begin());
        bank.transfer(0, 1, 3, true)
    };
    transfer(bank);
    bank.world.until(|world| world.sequencer.can_begin());
    let lot = bank.change(ADD);
    bank.world.until(|world| world.sequencer.has_run(lot) || world.outcomes.contains_key(&lot));
    if bank.world.sequencer.prepare(lot) {
        bank.world.carry_out();
    }
    bank.world.until(|world| world.outcomes.contains_key(&lot));
    *told = bank.world.outcomes.get(&lot).copied();
    // It is stale, and changes nothing.
    transfer(bank);
    bank.world.settle();
}

#[test]
fn a_change_is_everywhere_or_nowhere_wherever_the_power_is_lost() {
    let mut crashes = 0;
    let mut in_doubt = 0;
    let mut made = 0;
    for boundary in 1.. {
        let mut bank = Bank::open(2_000 + boundary);
        let before = bank.disk.boundaries();
        bank.disk.crash_at(Some(CrashPoint { boundary: before + boundary, after: boundary % 2 == 0 }));
        let mut told = None;
        let ended = catch_unwind(AssertUnwindSafe(|| work(&mut bank, &mut told)));
        let disk = bank.disk.clone();
        let reached = disk.boundaries() >= before + boundary;
        drop(bank);
        if ended.is_ok() && !reached {
            break;
        }
        crashes += 1;
        disk.restart(Restart::Power);
        in_doubt += reopened(&disk).iter().map(|ledger| ledger.in_doubt().len()).sum::<usize>();
        let mut world = World::open(&disk, boundary);
        let schemas = world.schemas();
        assert!(schemas == [(1, 2); 3] || schemas == [(2, 3); 3], "boundary {boundary}: {schemas:?}");
        made += usize::from(schemas[0].0 == 2);
        if told == Some(Outcome::Committed) {
            assert_eq!(schemas[0].0, 2, "boundary {boundary}");
        }
        let rows = world.rows();
        let keys = keys_of_groups(&map());
        assert_eq!(keys.iter().map(|key| rows[key]).sum::<i64>(), 300, "boundary {boundary}: {rows:?}");
    }
    assert!(crashes > 10, "only {crashes} crashes");
    assert!(in_doubt > 3, "only {in_doubt} parts were in doubt");
    assert!((1..crashes).contains(&made), "{made} of {crashes} changes were made");
}
