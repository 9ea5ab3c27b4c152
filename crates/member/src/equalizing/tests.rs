use super::*;
use ferrite_partition::equalize::{BucketDigest, CountedRow, bucket_of, encode_rows, row_hash};

const SECOND: u64 = 1_000_000_000;
const TABLE: TableId = TableId(4);

/// Groups with one table each, as bags of rows, and the metadata.
struct World {
    groups: BTreeMap<GroupId, Vec<String>>,
    unequal: UnequalGroups,
    equalizing: Equalizing,
    now: u64,
    calls: Vec<EqualizeStep>,
    notices: Vec<String>,
    /// Which call fails, counted from here.
    fails: Option<usize>,
    /// Its leader does not know of the loss.
    deaf: Option<GroupId>,
    /// No group changes a row any more after so many replacements.
    stuck_after: usize,
}

fn rows(rows: &[&str]) -> Vec<String> {
    rows.iter().map(|row| (*row).to_owned()).collect()
}

impl World {
    fn new(groups: &[&[&str]], unequal: &[u32]) -> World {
        let groups: BTreeMap<GroupId, Vec<String>> = (0..).map(GroupId).zip(groups.iter().map(|of| rows(of))).collect();
        World {
            equalizing: Equalizing::new(groups.keys().copied(), 4 << 20),
            groups,
            unequal: unequal.iter().map(|group| (GroupId(*group), Epoch(7))).collect(),
            now: SECOND,
            calls: Vec::new(),
            notices: Vec::new(),
            fails: None,
            deaf: None,
            stuck_after: usize::MAX,
        }
    }

    fn answer(&mut self, step: &EqualizeStep) -> GroupsSaid {
        match &mut self.fails {
            Some(0) => {
                self.fails = None;
                return Err("group 1 has no leader".to_owned());
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let mut is_stuck = false;
        if matches!(step, EqualizeStep::Replace { .. }) {
            is_stuck = self.stuck_after == 0;
            self.stuck_after = self.stuck_after.saturating_sub(1);
        }
        let mut said = BTreeMap::new();
        for (group, rows) in &mut self.groups {
            let is_in = |row: &String, buckets: u32, wanted: &[u32]| {
                wanted.contains(&bucket_of(row_hash(row.as_bytes()), buckets))
            };
            match step {
                EqualizeStep::Digest(asked) => {
                    let buckets = asked.first().map_or(1, |(_, buckets)| *buckets);
                    let mut known = BTreeMap::<u32, BucketDigest>::new();
                    for row in rows {
                        let hash = row_hash(row.as_bytes());
                        known.entry(bucket_of(hash, buckets)).or_default().add(row.as_bytes(), hash);
                    }
                    let is_unequal = self.unequal.contains_key(group) && self.deaf != Some(*group);
                    let digest = GroupDigest { stores: 1, is_unequal, tables: [(TABLE, known)].into() };
                    said.insert(*group, digest.encode());
                }
                EqualizeStep::Rows { source, buckets, wanted, .. } if source == group => {
                    let found = rows.iter().filter(|row| is_in(row, *buckets, wanted));
                    let counted: Vec<CountedRow> =
                        found.map(|row| CountedRow { count: 1, row: row.as_bytes().to_vec() }).collect();
                    said.insert(*group, encode_rows(&counted));
                }
                EqualizeStep::Rows { .. } => {}
                EqualizeStep::Replace { .. } if is_stuck => {
                    said.insert(*group, 0_u64.to_le_bytes().to_vec());
                }
                EqualizeStep::Replace { buckets, wanted, rows: given, .. } => {
                    let before = rows.len() as u64;
                    rows.retain(|row| !is_in(row, *buckets, wanted));
                    rows.extend(given.iter().map(|row| String::from_utf8(row.row.clone()).expect("a text")));
                    said.insert(*group, before.to_le_bytes().to_vec());
                }
            }
        }
        Ok(said)
    }

    /// Until nothing is to be done before time passes.
    fn run(&mut self) {
        let mut wishes = Vec::new();
        self.equalizing.advance(&self.unequal, self.now, &mut wishes);
        self.carry_out(wishes);
    }

    fn carry_out(&mut self, mut wishes: Vec<EqualizingWish>) {
        while !wishes.is_empty() {
            let mut next = Vec::new();
            for wish in wishes {
                match wish {
                    EqualizingWish::Call { number, step, .. } => {
                        let said = self.answer(&step);
                        self.calls.push(step);
                        self.equalizing.answered(number, said, self.now, &mut next);
                    }
                    EqualizingWish::Equal { group, loss } => {
                        assert_eq!(loss, Epoch(7));
                        self.unequal.remove(&group);
                    }
                    EqualizingWish::Say(notice) => self.notices.push(notice.to_string()),
                }
            }
            self.equalizing.advance(&self.unequal, self.now, &mut next);
            wishes = next;
        }
    }

    fn assert_equal(&self, expected: &[&str]) {
        for of in self.groups.values() {
            let mut sorted = of.clone();
            sorted.sort();
            assert_eq!(sorted, rows(expected));
        }
    }
}

#[test]
fn equal_copies_are_found_equal_by_one_comparison() {
    let mut world = World::new(&[&["a", "b"], &["b", "a"]], &[1]);
    world.run();
    assert!(world.unequal.is_empty() && world.notices.is_empty());
    assert_eq!(world.calls, [EqualizeStep::Digest(Vec::new())]);
    world.now += 10 * SECOND;
    world.run();
    assert_eq!(world.calls.len(), 1, "nothing is to be done");
}

#[test]
fn the_source_is_the_first_group_that_has_lost_nothing() {
    for (unequal, expected) in [(&[0][..], "b"), (&[1], "a"), (&[0, 1], "c"), (&[0, 1, 2], "a")] {
        let mut world = World::new(&[&["a"], &["b"], &["c"]], unequal);
        world.run();
        world.assert_equal(&[expected]);
        assert!(world.unequal.is_empty(), "{unequal:?}");
        assert!(world.notices[0].contains("rows were deleted or inserted"), "{:?}", world.notices);
    }
}

#[test]
fn what_fails_is_reported_once_and_begins_again() {
    for fails in 0..5 {
        let mut world = World::new(&[&["a"], &["b"]], &[1]);
        // The fifth is the comparison after the rows were replaced: the next round begins with it.
        for fails in [fails, fails % 4] {
            world.fails = Some(fails);
            world.run();
            assert!(!world.unequal.is_empty(), "call {fails} has failed");
            world.now += SECOND;
        }
        let said = world.notices.iter().filter(|said| said.contains("group 1 has no leader")).count();
        assert_eq!(said, 1, "{:?}", world.notices);
        world.run();
        world.assert_equal(&["a"]);
        assert!(world.unequal.is_empty());
    }
}

#[test]
fn another_loss_begins_it_again_with_another_source() {
    let mut world = World::new(&[&["a"], &["b"], &["c"]], &[1]);
    let mut wishes = Vec::new();
    world.equalizing.advance(&world.unequal, world.now, &mut wishes);
    let Some(EqualizingWish::Call { number, step, .. }) = wishes.pop() else { panic!("it compares") };
    let said = world.answer(&step);
    world.unequal.insert(GroupId(0), Epoch(7));
    world.equalizing.advance(&world.unequal, world.now, &mut wishes);
    assert_eq!(wishes.len(), 1, "it compares again");
    world.equalizing.answered(number, said, world.now, &mut wishes);
    assert_eq!(wishes.len(), 1, "the answer is about an earlier state");
    world.carry_out(wishes);
    world.assert_equal(&["c"]);
}

#[test]
fn large_tables_are_replaced_in_pieces() {
    let many: Vec<String> = (0..3_000).map(|number| format!("{number:01000}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut world = World::new(&[&many, &many[..10]], &[1]);
    world.run();
    world.assert_equal(&many);
    let pieces = world.calls.iter().filter(|step| matches!(step, EqualizeStep::Replace { .. })).count();
    assert!((3..10).contains(&pieces), "{pieces} of a mebibyte");
}

#[test]
fn rows_that_no_group_can_change_are_reported_and_tried_again_after_a_pause() {
    let many: Vec<String> = (0..3_000).map(|number| format!("{number:01000}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut world = World::new(&[&many, &[]], &[1]);
    world.stuck_after = 1;
    world.run();
    assert!(world.notices[0].contains("no group has changed a row"), "{:?}", world.notices);
    let calls = world.calls.len();
    world.run();
    assert_eq!(world.calls.len(), calls, "not before a second has passed");
    (world.stuck_after, world.now) = (usize::MAX, world.now + SECOND);
    world.run();
    world.assert_equal(&many);
}

#[test]
fn a_leader_of_before_the_loss_is_not_believed() {
    let mut world = World::new(&[&["a"], &["a"]], &[1]);
    world.deaf = Some(GroupId(1));
    world.run();
    assert_eq!(world.unequal.len(), 1);
    assert!(world.notices[0].contains("group 1 does not know"), "{:?}", world.notices);
    (world.deaf, world.now) = (None, world.now + SECOND);
    world.run();
    assert!(world.unequal.is_empty());
}
