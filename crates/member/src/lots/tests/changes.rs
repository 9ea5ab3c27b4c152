//! Schema changes on their way through the sequencer.

use super::*;

impl World {
    fn change(&mut self, program: LotProgram, version: u64) -> i64 {
        self.handles += 1;
        let handle = self.handles;
        let mailbox = Arc::<Callers>::clone(&self.callers);
        let again = Arc::clone(&self.again);
        let is_read = matches!(program, LotProgram::Check(_));
        let call = GroupsCall {
            program,
            catalog_version: CatalogVersion(version),
            parameters: Vec::new(),
            stores: StoreSet::All,
            merges: if is_read { [].into() } else { [MergeRule::First, MergeRule::Sum].into() },
            is_read,
            time_max_millis: 1,
            reply: Reply { mailbox, connection: 1, handle, sent_micros: self.now.micros },
            again: Box::new(move || again.lock().unwrap().push(handle)),
            behind: Vec::new(),
        };
        self.sequencing.call(call, self.now);
        handle
    }

    fn versions(&self) -> Vec<u64> {
        self.groups.iter().map(|group| group.version.0).collect()
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn a_change_is_a_lot_of_its_own_and_answered_when_all_groups_have_it() {
    let mut world = World::new(3);
    // Its outcome is in no stream yet.
    world.groups[2].commits_decided = false;
    let add = world.call("Add", 4, &[0, 1], 1);
    let change = world.change(LotProgram::Change(text("a table")), 1);
    let stale = world.call("Add", 5, &[1, 2], 1);
    world.settle();
    assert_eq!(world.versions(), [2, 2, 2]);
    assert_eq!(world.statuses(), [(add, Status::Success)], "it was not in the change's lot");
    assert!(!world.sequencing.rests());
    world.groups[2].commits_decided = true;
    world.groups[2].commit();
    world.settle();
    assert_eq!(world.heard(), [(change, Heard::Numbers(vec![7, 3]))], "of one group, and of all");
    world.pass(1);
    assert_eq!(*world.again.lock().unwrap(), [stale]);
    assert!(world.sequencing.rests());
}

#[test]
fn a_group_without_a_leader_is_not_waited_for() {
    let mut world = World::new(3);
    world.groups[1].commits_decided = false;
    let change = world.change(LotProgram::Change(text("a table")), 1);
    world.settle();
    assert_eq!(world.statuses(), []);
    world.lost(1);
    world.settle();
    assert_eq!(world.statuses(), [(change, Status::Success)]);
}

#[test]
fn what_counts_is_success_even_where_this_node_orders_lots_no_longer() {
    let mut world = World::new(3);
    world.groups[1].commits_decided = false;
    let change = world.change(LotProgram::Change(text("a table")), 1);
    world.settle();
    world.lost(0);
    assert_eq!(world.statuses(), [(change, Status::Success)]);
}

#[test]
fn the_group_is_named_that_refuses_a_change_which_others_could_make() {
    let mut world = World::new(3);
    for (refusing, named) in [(vec![1], true), (vec![0, 1, 2], false)] {
        world.groups.iter_mut().for_each(|group| group.refuses_change = refusing.contains(&group.id.0));
        for program in [LotProgram::Check(text("a table")), LotProgram::Change(text("a table"))] {
            let handle = world.change(program, 1);
            world.settle();
            let heard = world.heard();
            let [(who, Heard::Error(Status::GracefulFailure, said))] = &heard[..] else { panic!("{heard:?}") };
            assert_eq!(*who, handle);
            assert_eq!(said.contains("group 1 (node 2) cannot make the change: "), named, "{said}");
            assert!(said.contains("there is no JVM"), "{said}");
        }
    }
    assert_eq!(world.versions(), [1, 1, 1]);
    world.groups.iter_mut().for_each(|group| group.refuses_change = false);
    let check = world.change(LotProgram::Check(text("a table")), 1);
    world.settle();
    assert_eq!(world.statuses(), [(check, Status::Success)]);
    assert_eq!(world.versions(), [1, 1, 1], "nobody has made it");
}
