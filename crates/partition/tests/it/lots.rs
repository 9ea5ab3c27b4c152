//! A group's part of transactions over groups, on stores and streams: what a lot changes counts in
//! all of its groups or in none, whatever is lost at whichever step.

mod changes;
mod cuts;
mod equal;
mod world;

use crate::hosting::map;
use ferrite_base::{Epoch, GroupId, NodeId, limits};
use ferrite_io::simulated::{CrashPoint, Restart, SimulatedClock, SimulatedDisk};
use ferrite_multi::{LotId, Outcome};
use ferrite_partition::copy_cut::CutStep;
use ferrite_partition::lots::{FailureVerdict, LotAnswer};
use ferrite_replica::group::{GroupConfiguration, Member};
use ferrite_value::ring::Ring;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use world::{Heard, World, found, keys_of_groups, partition_of, reopened};

const SCHEMA: &str = "
    CREATE TABLE t (a BIGINT NOT NULL, n BIGINT, PRIMARY KEY (a)); PARTITION TABLE t ON COLUMN a;
    CREATE TABLE r (k INTEGER NOT NULL, PRIMARY KEY (k));";

fn new_disk(seed: u64) -> SimulatedDisk {
    SimulatedDisk::new(seed, SimulatedClock::default())
}

/// Of three groups, each of which has a row of 100, with a sequencer that all obey.
struct Bank {
    disk: SimulatedDisk,
    world: World,
    keys: Vec<i64>,
}

impl Bank {
    fn open(seed: u64) -> Bank {
        Bank::open_with(seed, limits::TRANSACTION_BYTES_MAX)
    }

    /// Of which a transaction may change so much.
    fn open_with(seed: u64, transaction_bytes_max: usize) -> Bank {
        let disk = new_disk(seed);
        found(&disk, SCHEMA);
        let mut world = World::open_with(&disk, seed, transaction_bytes_max);
        world.settle();
        world.order(10);
        let keys = keys_of_groups(&crate::hosting::map());
        let mut bank = Bank { disk, world, keys };
        let values: Vec<String> = bank.keys.iter().map(|key| format!("({key}, 100)")).collect();
        let lot =
            bank.world.begin(&[(&format!("INSERT INTO t VALUES {}", values.join(", ")), &bank.keys.clone())], true);
        bank.world.settle();
        assert_eq!(bank.world.outcomes.get(&lot), Some(&Outcome::Committed), "{:?}", bank.world.results);
        bank
    }

    /// From the first to the second group's row.
    fn transfer(&mut self, from: usize, to: usize, amount: i64, rides: bool) -> LotId {
        let keys = [self.keys[from], self.keys[to]];
        let text = format!(
            "UPDATE t SET n = n - {amount} WHERE a = {}; UPDATE t SET n = n + {amount} WHERE a = {}",
            keys[0], keys[1]
        );
        self.world.begin(&[(&text, &keys)], rides)
    }

    fn numbers(&mut self) -> Vec<i64> {
        let rows = self.world.rows();
        self.keys.iter().map(|key| rows[key]).collect()
    }
}

fn ran(answer: &LotAnswer) -> Vec<bool> {
    match answer {
        LotAnswer::Ran(tables) => tables.iter().map(Option::is_some).collect(),
        LotAnswer::Failed(failure) => panic!("{}", failure.text),
    }
}

#[test]
fn what_a_lot_changes_counts_in_all_its_groups() {
    let mut bank = Bank::open(1);
    assert_eq!(bank.numbers(), [100, 100, 100]);
    for rides in [true, false] {
        let lot = bank.transfer(0, 2, 7, rides);
        assert!(bank.world.until(|world| !rides && world.sequencer.has_run(lot) || world.outcomes.contains_key(&lot)));
        if !rides {
            assert!(bank.world.sequencer.prepare(lot));
            bank.world.carry_out();
        }
        bank.world.settle();
        assert_eq!(bank.world.outcomes[&lot], Outcome::Committed);
        assert_eq!(ran(&bank.world.results[&(lot, GroupId(0))].1.0[0]), [true, false]);
        assert_eq!(ran(&bank.world.results[&(lot, GroupId(2))].1.0[0]), [false, true]);
    }
    assert_eq!(bank.numbers(), [86, 100, 114]);
    // On all partitions of all groups, counted once.
    let lot = bank.world.begin(&[("INSERT INTO r VALUES (5); UPDATE t SET n = n + 1", &[])], true);
    bank.world.settle();
    assert_eq!(bank.world.outcomes[&lot], Outcome::Committed);
    assert_eq!(bank.numbers(), [87, 101, 115]);
    let disk = bank.disk.clone();
    let keys = bank.keys.clone();
    drop(bank);
    let mut world = World::open(&disk, 5);
    let rows = world.rows();
    assert_eq!(keys.iter().map(|key| rows[key]).collect::<Vec<_>>(), [87, 101, 115], "replay has them");
}

#[test]
fn a_call_that_fails_in_one_group_changes_nothing_in_any() {
    let mut bank = Bank::open(2);
    let keys = bank.keys.clone();
    for rides in [true, false] {
        let text = format!("UPDATE t SET n = 0 WHERE a = {}; INSERT INTO t VALUES ({}, 1)", keys[0], keys[1]);
        let good = format!("UPDATE t SET n = 1 WHERE a = {}", keys[1]);
        let lot = bank.world.begin(&[(&good, &keys[1..2]), (&text, &keys[..2])], rides);
        bank.world.until(|world| world.results.len() % 2 == 1 && world.sequencer.has_run(lot));
        if !rides {
            assert!(bank.world.sequencer.abandon(lot));
            bank.world.carry_out();
        }
        bank.world.settle();
        assert_eq!(bank.world.outcomes[&lot], Outcome::Aborted);
        let (ok, result) = &bank.world.results[&(lot, GroupId(1))];
        assert!(!ok && result.0.len() == 2);
        let LotAnswer::Failed(failure) = &result.0[1] else { panic!("{result:?}") };
        assert_eq!((&failure.code[..], failure.verdict), ("23505", FailureVerdict::Fails), "{}", failure.text);
        assert_eq!(bank.numbers(), [100, 100, 100]);
    }
    // By what another call of the lot did: that is no fact.
    let twice = format!("INSERT INTO r VALUES (3); UPDATE t SET n = 5 WHERE a = {}", keys[1]);
    let lot = bank.world.begin(&[(&twice, &[]), (&twice, &[])], true);
    bank.world.settle();
    assert_eq!(bank.world.outcomes[&lot], Outcome::Aborted);
    for group in 0..3 {
        let result = &bank.world.results[&(lot, GroupId(group))].1;
        let LotAnswer::Failed(failure) = &result.0[1] else { panic!("{result:?}") };
        assert_eq!(failure.verdict, FailureVerdict::First, "{}", failure.text);
    }
    assert_eq!(bank.numbers(), [100, 100, 100]);
    // The partitions are free, and their histories continue.
    let lot = bank.transfer(1, 0, 3, true);
    bank.world.settle();
    assert_eq!(bank.world.outcomes[&lot], Outcome::Committed);
    assert_eq!(bank.numbers(), [103, 97, 100]);
}

/// The world's lots have room for answers of 1,000 bytes.
#[test]
fn a_call_whose_answer_is_too_large_beside_others_is_run_alone_and_nothing_is_left_of_it() {
    let mut bank = Bank::open(5);
    let keys = bank.keys.clone();
    for key in &keys {
        let small = format!("UPDATE t SET n = n + 1 WHERE a = {key}");
        let many = vec!["UPDATE t SET n = n + 5 RETURNING a, n, n, n, n, n"; 16].join(";");
        let lot = bank.world.begin(&[(&small, &keys), (&many, &[])], true);
        bank.world.settle();
        assert_eq!(bank.world.outcomes[&lot], Outcome::Aborted);
        for group in 0..3 {
            let result = &bank.world.results[&(lot, GroupId(group))].1;
            let LotAnswer::Failed(failure) = &result.0[1] else { panic!("{result:?}") };
            assert_eq!(failure.verdict, FailureVerdict::Alone, "{}", failure.text);
        }
    }
    assert_eq!(bank.numbers(), [100, 100, 100]);
    // It was run, and was not to count.
    let lot = bank.transfer(1, 0, 3, false);
    assert!(bank.world.until(|world| world.sequencer.has_run(lot)));
    assert!(bank.world.sequencer.release(lot));
    bank.world.carry_out();
    bank.world.settle();
    assert!(bank.world.reads[&lot]);
    assert_eq!(bank.numbers(), [100, 100, 100]);
    let lot = bank.transfer(1, 0, 3, true);
    bank.world.settle();
    assert_eq!((bank.world.outcomes[&lot], bank.numbers()), (Outcome::Committed, vec![103, 97, 100]));
}

/// Each call changes less than a transaction may, and two of them more.
#[test]
fn what_a_lot_changes_has_a_limit_and_a_call_that_exceeds_it_is_run_as_the_first_of_another() {
    let mut bank = Bank::open_with(6, 1_000);
    let first_group = |keys: &mut dyn Iterator<Item = i64>, count| -> Vec<i64> {
        let ring = Ring::new_default(map().partitions());
        keys.filter(|key| map().group_of(partition_of(*key, &ring)) == Some(GroupId(0))).take(count).collect()
    };
    let other = bank.keys[1];
    let insert = |keys: &[i64]| {
        let rows: Vec<String> = keys.iter().map(|key| format!("({key}, 1)")).collect();
        format!("INSERT INTO t VALUES {}; UPDATE t SET n = n + 1 WHERE a = {other}", rows.join(", "))
    };
    let mut keys = 1_000_i64..;
    let calls: Vec<Vec<i64>> = (0..2).map(|_| first_group(&mut keys, 33)).collect();
    let texts: Vec<String> = calls.iter().map(|keys| insert(keys)).collect();
    let concerned: Vec<Vec<i64>> = calls.iter().map(|keys| [&keys[..], &[other]].concat()).collect();
    let lot = bank.world.begin(&[(&texts[0], &concerned[0]), (&texts[1], &concerned[1])], true);
    bank.world.settle();
    assert_eq!(bank.world.outcomes[&lot], Outcome::Aborted);
    let answers = &bank.world.results[&(lot, GroupId(0))].1.0;
    let LotAnswer::Failed(failure) = &answers[1] else { panic!("{answers:?}") };
    assert_eq!((ran(&answers[0]), failure.verdict), (vec![true, false], FailureVerdict::First), "{}", failure.text);
    assert_eq!(bank.world.rows().len(), 3, "nothing of it took place");
    for round in 0..2 {
        let lot = bank.world.begin(&[(&texts[round], &concerned[round])], true);
        bank.world.settle();
        assert_eq!(bank.world.outcomes[&lot], Outcome::Committed, "{:?}", bank.world.results);
    }
    assert_eq!((bank.world.rows().len(), bank.world.rows()[&other]), (69, 102));
    // More than any transaction may change is the failure of the call.
    let many = first_group(&mut keys, 100);
    let lot = bank.world.begin(&[(&insert(&many), &[&many[..], &[other]].concat())], true);
    bank.world.settle();
    assert_eq!(bank.world.outcomes[&lot], Outcome::Aborted);
    let answers = &bank.world.results[&(lot, GroupId(0))].1.0;
    let LotAnswer::Failed(failure) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!(failure.verdict, FailureVerdict::Fails);
    assert!(failure.text.contains("the limit is 1000 bytes of changes"), "{}", failure.text);
    assert_eq!(bank.world.rows().len(), 69);
}

#[test]
fn a_lot_that_reads_lets_go_and_is_answered_when_it_is_fresh() {
    let mut bank = Bank::open(3);
    let keys = bank.keys.clone();
    let texts: Vec<String> = keys.iter().map(|key| format!("SELECT n FROM t WHERE a = {key}")).collect();
    let lot = bank.world.begin(&[(&texts.join(";"), &keys)], false);
    assert!(bank.world.until(|world| world.sequencer.has_run(lot)));
    assert!(bank.world.sequencer.release(lot));
    bank.world.carry_out();
    bank.world.settle();
    assert!(bank.world.reads[&lot]);
    for group in 0..3 {
        let shares = ran(&bank.world.results[&(lot, GroupId(group))].1.0[0]);
        assert_eq!(shares, (0..3).map(|other| other == group).collect::<Vec<_>>());
    }
}

#[test]
fn another_schema_is_stale_and_no_failure_of_the_call() {
    let mut bank = Bank::open(4);
    let job = |text: &str| bank.world.groups[&GroupId(1)].change_schema(text);
    job("CREATE TABLE other (a BIGINT)");
    bank.world.settle();
    let lot = bank.transfer(0, 1, 5, true);
    bank.world.settle();
    assert_eq!(bank.world.outcomes[&lot], Outcome::Aborted);
    let LotAnswer::Failed(failure) = &bank.world.results[&(lot, GroupId(1))].1.0[0] else { panic!() };
    assert_eq!(failure.verdict, FailureVerdict::LookUp);
    assert_eq!(bank.numbers(), [100, 100, 100]);
}

/// The sequencer's decision does not come; the leader ends, and leads again.
#[test]
fn a_leader_that_falls_with_a_part_in_doubt_has_it_when_it_rises() {
    for seed in 0..20 {
        let mut bank = Bank::open(100 + seed);
        // The second group has no part if its leader never hears of the lot.
        let is_lost = seed % 2 == 0;
        let lot = bank.transfer(0, 1, 9, true);
        if is_lost {
            bank.world.deaf = vec![GroupId(1)];
        }
        let votes = |world: &World| world.results.contains_key(&(lot, GroupId(0)));
        assert!(bank.world.until(votes));
        for _ in 0..seed {
            bank.world.step();
        }
        bank.depose();
        bank.world.deaf.clear();
        let stream = bank.world.groups[&GroupId(0)].stream.clone();
        let here = bank.world.groups[&GroupId(0)].member;
        // It has promised the epoch in which it was deposed.
        stream.configured(GroupConfiguration::alone(Epoch(stream.end().epoch.0 + 2), here));
        bank.world.settle();
        let numbers = bank.numbers();
        assert!(numbers == [100, 100, 100] || numbers == [91, 109, 100], "seed {seed}: {numbers:?}");
        if is_lost {
            assert_eq!(numbers, [100, 100, 100], "seed {seed}");
        }
    }
}

impl Bank {
    /// The first group's part of the lot is committed, and its leader falls before it has heard
    /// what became of the lot.
    fn in_doubt(seed: u64) -> (Bank, LotId) {
        let mut bank = Bank::open(seed);
        let lot = bank.transfer(0, 1, 9, true);
        let is_committed = |world: &World| {
            let stream = &world.groups[&GroupId(0)].stream;
            stream.commit() >= stream.end().position
        };
        assert!(bank.world.until(|world| world.results.contains_key(&(lot, GroupId(0)))));
        bank.world.deaf = vec![GroupId(0)];
        assert!(bank.world.until(is_committed));
        bank.depose();
        (bank, lot)
    }

    /// Takes a snapshot of the first group's copy, in which the lot is in doubt.
    fn save_copy(&mut self, lot: LotId) {
        let mut cut = self.world.groups.get_mut(&GroupId(0)).expect("it is here").begin_cut();
        let taken = loop {
            match cut.step(&self.world.clock) {
                CutStep::Waiting => assert!(self.world.step(), "it waits for ever"),
                CutStep::Done(taken) => break taken,
                CutStep::Ended => panic!("it is still a copy"),
            }
        };
        assert!(taken.lots.in_doubt().contains_key(&lot), "{:?}", taken.lots);
        let snapshots = &mut self.world.groups.get_mut(&GroupId(0)).expect("it is here").snapshots;
        snapshots.save(*taken, 0, &|_| Ok(())).expect("a healthy disk");
    }

    /// The first group's leader falls, and nobody hears of lots.
    fn depose(&mut self) {
        self.world.deaf = vec![GroupId(0), GroupId(1), GroupId(2)];
        let stream = self.world.groups[&GroupId(0)].stream.clone();
        let other = Member { node: NodeId(3), ..self.world.groups[&GroupId(0)].member };
        let epoch = Epoch(stream.end().epoch.0 + 1);
        stream.seal(epoch);
        stream.configured(GroupConfiguration::new(epoch, other, vec![other], Vec::new()));
        self.world.settle();
        assert!(self.world.groups[&GroupId(0)].epoch.is_none(), "it has stepped back");
    }
}

#[test]
fn nothing_is_executed_while_a_part_is_in_doubt_and_the_operator_hears_of_it() {
    let (mut bank, _) = Bank::in_doubt(11);
    // It leads again, and its questions are not answered.
    let first = &bank.world.groups[&GroupId(0)];
    let epoch = Epoch(first.stream.end().epoch.0 + 2);
    first.stream.configured(GroupConfiguration::alone(epoch, first.member));
    let heard = Arc::new(Heard::default());
    bank.world.settle();
    bank.world.groups[&GroupId(0)].quiesce(Arc::<Heard>::clone(&heard));
    let is_noted = |code: &str| ferrite_io::notices::recent().iter().any(|notice| notice.code == code);
    (0..4).for_each(|_| bank.world.settle());
    let first = &bank.world.groups[&GroupId(0)];
    assert!(first.epoch.is_some() && first.has_lent_all(), "calls wait in the inboxes of its partitions");
    assert_eq!(heard.0.load(Ordering::SeqCst), 0, "and others in that of its coordinator");
    assert!(is_noted("lot-undecided"));
    bank.world.deaf.clear();
    bank.world.settle();
    assert!(!bank.world.groups[&GroupId(0)].has_lent_all());
    assert_eq!(heard.0.load(Ordering::SeqCst), 1);
    assert!(is_noted("lot-decided"));
    let numbers = bank.numbers();
    assert!(numbers == [100, 100, 100] || numbers == [91, 109, 100], "{numbers:?}");
}

/// What partitions executed without the part would take the numbers that it has.
#[test]
fn a_leader_that_stops_with_a_part_in_doubt_keeps_the_stores_and_has_it_at_the_next_start() {
    let mut bank = Bank::open(12);
    let lot = bank.transfer(0, 1, 9, true);
    assert!(bank.world.until(|world| world.results.contains_key(&(lot, GroupId(0)))));
    bank.world.deaf = vec![GroupId(0)];
    let heard = Arc::new(Heard::default());
    bank.world.groups[&GroupId(0)].quiesce(Arc::<Heard>::clone(&heard));
    bank.world.settle();
    bank.world.groups[&GroupId(0)].stop();
    bank.world.settle();
    let first = &bank.world.groups[&GroupId(0)];
    assert!(first.has_lent_some(), "its part has the store");
    assert_eq!(heard.0.load(Ordering::SeqCst), 0, "what came after it is not executed");
    assert!(first.stream.commit() >= first.stream.end().position, "all that it has appended is committed");
    assert_eq!(bank.world.outcomes.get(&lot), None);
    let disk = bank.disk.clone();
    let keys = bank.keys.clone();
    drop(bank);
    let rows = World::open(&disk, 13).rows();
    assert_eq!(keys.iter().map(|key| rows[key]).collect::<Vec<_>>(), [91, 109, 100], "all its groups have prepared");
    assert_eq!(World::open(&disk, 14).rows(), rows, "it is decided once");
}

/// The part is in the snapshot of a copy, and the log before the snapshot is not read.
#[test]
fn a_snapshot_has_the_parts_that_are_in_doubt() {
    let (mut bank, lot) = Bank::in_doubt(7);
    bank.save_copy(lot);
    let disk = bank.disk.clone();
    let keys = bank.keys.clone();
    drop(bank);
    assert!(reopened(&disk)[0].in_doubt().contains_key(&lot));
    let mut world = World::open(&disk, 8);
    let rows = world.rows();
    let numbers: Vec<i64> = keys.iter().map(|key| rows[key]).collect();
    assert!(numbers == [100, 100, 100] || numbers == [91, 109, 100], "{numbers:?}");
    drop(world);
    assert_eq!(World::open(&disk, 9).rows(), rows, "it is decided once");
}

/// Transfers of which callers hear, until the power is lost.
fn work(bank: &mut Bank, told: &mut BTreeMap<usize, Outcome>, begun: &mut usize) {
    for round in 0..6 {
        if !bank.world.until(|world| world.sequencer.can_begin()) {
            return;
        }
        *begun = round + 1;
        let lot = bank.transfer(round % 3, (round + 1) % 3, 1 << round, round % 2 == 0);
        bank.world.until(|world| world.outcomes.contains_key(&lot) || world.sequencer.has_run(lot));
        if bank.world.sequencer.prepare(lot) {
            bank.world.carry_out();
        }
        bank.world.until(|world| world.outcomes.contains_key(&lot));
        if let Some(outcome) = bank.world.outcomes.get(&lot) {
            told.insert(round, *outcome);
        }
    }
}

#[test]
fn a_lot_is_whole_or_not_there_wherever_the_power_is_lost() {
    let mut crashes = 0;
    let mut in_doubt = 0;
    for boundary in (1..).step_by(1) {
        let mut bank = Bank::open(1_000 + boundary);
        let before = bank.disk.boundaries();
        bank.disk.crash_at(Some(CrashPoint { boundary: before + boundary, after: boundary % 2 == 0 }));
        let mut told = BTreeMap::new();
        let mut begun = 0;
        // A log that has failed ends the process.
        let ended = catch_unwind(AssertUnwindSafe(|| work(&mut bank, &mut told, &mut begun)));
        if ended.is_ok() && told.len() == 6 {
            break;
        }
        crashes += 1;
        let disk = bank.disk.clone();
        let keys = bank.keys.clone();
        drop(bank);
        disk.restart(Restart::Power);
        in_doubt += reopened(&disk).iter().map(|ledger| ledger.in_doubt().len()).sum::<usize>();
        let mut world = World::open(&disk, boundary);
        let rows = world.rows();
        let numbers: Vec<i64> = keys.iter().map(|key| rows[key]).collect();
        assert_eq!(numbers.iter().sum::<i64>(), 300, "boundary {boundary}: {numbers:?}");
        // What was not told may have happened, the last one only.
        let after = |committed: &dyn Fn(usize) -> bool| {
            let mut numbers = vec![100; 3];
            for round in (0..6).filter(|round| committed(*round)) {
                numbers[round % 3] -= 1 << round;
                numbers[(round + 1) % 3] += 1 << round;
            }
            numbers
        };
        let is_told = |round: usize| told.get(&round) == Some(&Outcome::Committed);
        let with_last = |round: usize| is_told(round) || round + 1 == begun;
        assert!(
            numbers == after(&is_told) || numbers == after(&with_last),
            "boundary {boundary}: {numbers:?}, of {begun} these were told: {told:?}"
        );
        // It continues from there, under another sequencer.
        world.order(20);
        let text = format!("UPDATE t SET n = 0 WHERE a = {}; UPDATE t SET n = 0 WHERE a = {}", keys[0], keys[1]);
        let lot = world.begin(&[(&text, &keys[..2])], true);
        let rows = world.rows();
        assert_eq!(world.outcomes[&lot], Outcome::Committed);
        assert_eq!((rows[&keys[0]], rows[&keys[1]]), (0, 0));
    }
    assert!(crashes > 20, "only {crashes} crashes");
    assert!(in_doubt > 3, "only {in_doubt} parts were in doubt");
}
