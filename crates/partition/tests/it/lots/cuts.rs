//! The moment of a backup is a lot: what its groups take shows every transaction over groups wholly
//! or not at all.

use super::Bank;
use super::world::Led;
use crossbeam_channel::{Receiver, unbounded};
use ferrite_multi::LotId;
use ferrite_partition::coordinator::{GroupCut, Job};
use ferrite_partition::lots::LotProgram;
use ferrite_value::Value;

impl Led {
    /// Where what the group has taken comes, if it has.
    fn ask_for_cut(&self, name: &str) -> Receiver<GroupCut> {
        let (to, cut) = unbounded();
        self.send(Job::GiveCut { name: name.to_owned(), to });
        cut
    }
}

impl Bank {
    fn cut(&mut self, name: &str) -> LotId {
        self.world.begin_change(&LotProgram::Cut(name.to_owned()), 1)
    }

    /// What the groups have taken under that name.
    fn cuts(&mut self, name: &str) -> Vec<Option<GroupCut>> {
        let asked: Vec<Receiver<GroupCut>> = self.world.groups.values().map(|led| led.ask_for_cut(name)).collect();
        self.world.settle();
        asked.into_iter().map(|cut| cut.try_recv().ok()).collect()
    }
}

/// The numbers that a group's rows have there.
fn numbers(cut: &GroupCut) -> Vec<i64> {
    assert_eq!(cut.partitions.len(), cut.stores.len());
    let tables = cut.stores.iter().flat_map(|store| store.tables().filter(|table| table.definition().name == "T"));
    let of_table = tables.flat_map(|table| {
        let number = |id| match table.row(id).column(1) {
            Value::Integer(number) => number,
            other => panic!("{other:?} is no number"),
        };
        table.scan().map(number).collect::<Vec<_>>()
    });
    of_table.collect()
}

#[test]
fn a_cut_shows_no_transfer_in_part() {
    for seed in 0..30 {
        let mut bank = Bank::open(seed);
        let transfer = |bank: &mut Bank, round: usize| {
            bank.transfer(round % 3, (round + 1) % 3, 7, true);
            // One lot at a time is held.
            bank.world.settle();
        };
        (0..seed as usize % 4).for_each(|round| transfer(&mut bank, round));
        let lot = bank.cut("moment");
        assert!(bank.world.until(|world| world.sequencer.has_run(lot)), "seed {seed}: {:?}", bank.world.results);
        bank.world.sequencer.release(lot);
        bank.world.carry_out();
        bank.world.settle();
        assert_eq!(bank.world.reads.get(&lot), Some(&true), "seed {seed}: what it shows is committed");
        transfer(&mut bank, 1);
        bank.world.settle();
        assert!(bank.cuts("another").iter().all(Option::is_none), "there is none of that name");
        let cuts: Vec<GroupCut> = bank.cuts("moment").into_iter().flatten().collect();
        let shown: Vec<i64> = cuts.iter().flat_map(numbers).collect();
        assert_eq!((cuts.len(), shown.len(), shown.iter().sum::<i64>()), (3, 3, 300), "seed {seed}: {shown:?}");
        let times: Vec<i64> = cuts.iter().map(|cut| cut.time).collect();
        assert_eq!(times, [5_000; 3], "it is one moment");
        assert!(bank.cuts("moment").iter().all(Option::is_none), "it is given once");
    }
}

/// Who leads then may have had the lot run once more.
#[test]
fn what_was_taken_is_gone_when_another_node_leads_the_group() {
    let mut bank = Bank::open(3);
    let lot = bank.cut("moment");
    assert!(bank.world.until(|world| world.sequencer.has_run(lot)), "{:?}", bank.world.results);
    bank.world.sequencer.release(lot);
    bank.world.carry_out();
    bank.world.settle();
    bank.depose();
    let there: Vec<bool> = bank.cuts("moment").iter().map(Option::is_some).collect();
    assert_eq!(there, [false, true, true]);
}
