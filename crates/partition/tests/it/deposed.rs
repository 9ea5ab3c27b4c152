//! A leader that is deposed while it lives: what it had executed beyond the commit position is
//! taken back, with row ids, whatever was under way; as a copy it has what the next leader has; and
//! nobody is told more than is true.
//!
//! Two nodes in one group, each with all its parties on one thread, and the messages between them
//! in the test's hands. `DEPOSED_SEEDS=200` runs more seeds; `DEPOSED_SEED=17` runs one.

mod one_by_one;

use crate::stepped::{Database, entries};
use crate::work::{CHANGES, SCHEMA};
use crossbeam_channel::{Receiver, unbounded};
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_group::{GroupAppender, GroupEvent, GroupHost, GroupPlace, Replication, SharedEntry, Urgency, message};
use ferrite_io::simulated::{SimulatedClock, SimulatedRandom};
use ferrite_partition::commit::Completion;
use ferrite_partition::event::CommittedState;
use ferrite_partition::{Delivery, Promoted, SteppedBack, SteppingBack};
use ferrite_replica::group::{GroupConfiguration, Member};
use ferrite_wire::Status;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MARKS: &str = "CREATE TABLE marks (n BIGINT NOT NULL, PRIMARY KEY (n)); PARTITION TABLE marks ON COLUMN n;";

#[derive(Default)]
struct Outs {
    sent: Mutex<VecDeque<Vec<u8>>>,
    told: Mutex<VecDeque<Told>>,
}

enum Told {
    Committed(Vec<SharedEntry>),
    Event(GroupEvent),
}

impl GroupHost for Outs {
    fn send(&self, _: NodeId, _: Urgency, message: Vec<u8>) {
        self.sent.lock().unwrap().push_back(message);
    }

    fn committed(&self, _: GroupId, entries: Vec<SharedEntry>) {
        self.told.lock().unwrap().push_back(Told::Committed(entries));
    }

    fn event(&self, _: GroupId, event: GroupEvent) {
        self.told.lock().unwrap().push_back(Told::Event(event));
    }
}

enum Todo {
    Apply(Vec<u8>),
    Lead,
    Follow(Box<GroupPlace>),
}

enum Role {
    Copy,
    Rising(Receiver<Promoted>),
    Leader,
    Falling(Box<GroupPlace>, SteppingBack),
}

/// What a node of a cluster does for the only group it has.
struct Node {
    member: Member,
    database: Database,
    group: Arc<Replication<Completion>>,
    outs: Arc<Outs>,
    todo: VecDeque<Todo>,
    role: Role,
    /// Bytes of undo that was kept when it was deposed.
    undone: usize,
}

impl Node {
    fn new(dir: &Path, partitions: u32, id: u32, clock: &SimulatedClock, seed: u64) -> Node {
        let member = Member { node: NodeId(id), incarnation: Incarnation(7) };
        let (database, outs) = (Database::copy(dir, partitions, seed), Arc::new(Outs::default()));
        let host: Arc<dyn GroupHost> = Arc::<Outs>::clone(&outs);
        let group = database.in_a_cluster(member, Arc::new(clock.clone()), host);
        Node { member, database, group, outs, todo: VecDeque::new(), role: Role::Copy, undone: 0 }
    }

    fn leads(&self) -> bool {
        matches!(self.role, Role::Leader)
    }

    /// Takes note of one thing that the group has said.
    fn hear(&mut self, configuration: &GroupConfiguration) -> bool {
        let Some(told) = self.outs.told.lock().unwrap().pop_front() else { return false };
        match told {
            Told::Committed(entries) => {
                self.todo.extend(entries.iter().map(|entry| Todo::Apply(entry.bytes.to_vec())));
            }
            Told::Event(GroupEvent::Opened) => self.todo.push_back(Todo::Lead),
            Told::Event(GroupEvent::Deposed(place)) => {
                let opens = self.todo.iter().any(|todo| matches!(todo, Todo::Lead));
                if opens || matches!(self.role, Role::Rising(_) | Role::Leader) {
                    self.todo.push_back(Todo::Follow(place));
                }
            }
            Told::Event(GroupEvent::Confirmed(round)) => {
                self.database.gates.iter().for_each(|gate| gate.confirmed(round));
            }
            Told::Event(GroupEvent::Promise(epoch)) => self.group.promised(epoch),
            Told::Event(GroupEvent::AskMetadata(_)) => self.group.configured(configuration.clone()),
            Told::Event(GroupEvent::Sealed(_) | GroupEvent::Propose(_)) => {}
            Told::Event(other) => panic!("{other:?}"),
        }
        true
    }

    /// Does the next of what the group has asked for, if it can be done. `check`: is given where a
    /// node stands that has stepped back.
    fn move_on(&mut self, check: impl FnOnce(&mut Database, &GroupPlace)) -> bool {
        match &mut self.role {
            Role::Copy => match self.todo.pop_front() {
                Some(Todo::Apply(bytes)) => self.database.intake().entries(bytes).expect("there is room"),
                Some(Todo::Lead) => {
                    let (to, promoted) = unbounded();
                    self.database.intake().send(Delivery::Promote(to));
                    self.role = Role::Rising(promoted);
                }
                Some(Todo::Follow(_)) => panic!("a copy is not deposed"),
                None => return false,
            },
            Role::Rising(promoted) => {
                let Ok(promoted) = promoted.try_recv() else { return false };
                self.database.lead(promoted, &GroupAppender::new(Arc::clone(&self.group)));
                self.role = Role::Leader;
            }
            Role::Leader => match self.todo.pop_front() {
                Some(Todo::Follow(place)) => {
                    self.undone += self.database.retained_bytes();
                    let stepping = self.database.begin_to_step_back();
                    self.role = Role::Falling(place, stepping);
                }
                Some(_) => panic!("a leader is deposed before it is told of others"),
                None => return false,
            },
            Role::Falling(place, stepping) => {
                let Some(SteppedBack { sequences, compiled, history, lots }) = stepping.try_end() else { return false };
                check(&mut self.database, place);
                let inboxes = self.database.inboxes.clone();
                let state = CommittedState { compiled, history, lots };
                self.database.follow_from((**place).clone(), sequences, state, inboxes);
                self.role = Role::Copy;
            }
        }
        true
    }
}

/// What a caller asked for.
enum Asked {
    /// Rows of the table of marks, all or none.
    Marks(Vec<i64>),
    /// A table of this name.
    Schema(String),
    /// The number of rows with this mark, which was there before.
    Mark,
    /// All marks, when there were so many.
    Count(usize),
    Else,
}

#[derive(Default, Debug)]
struct Outcome {
    acknowledged: usize,
    unknown: usize,
    refused: usize,
    reads: usize,
    deposed: usize,
    /// Changes of the schema among the unknown ones.
    schema_unknown: usize,
    /// Bytes of undo that was kept then.
    undone: usize,
}

struct World {
    home: tempfile::TempDir,
    partitions: u32,
    nodes: [Node; 2],
    clock: SimulatedClock,
    random: SimulatedRandom,
    /// Messages to this node are on their way for ever.
    cut: [bool; 2],
    /// This node does not hear what its group says.
    deaf: Option<usize>,
    wires: [VecDeque<Vec<u8>>; 2],
    configuration: GroupConfiguration,
    asked: BTreeMap<i64, Asked>,
    handle: i64,
    /// Callers were told so.
    kept: BTreeSet<i64>,
    lost: BTreeSet<i64>,
    tables: BTreeSet<String>,
    outcome: Outcome,
}

impl World {
    fn new(seed: u64) -> World {
        let home = tempfile::tempdir().expect("a temporary directory");
        let partitions = 1 + (seed % 3) as u32;
        let dir = |name: &str| home.path().join(name);
        let mut first = Database::leader(&dir("1"), partitions, seed);
        assert_eq!(first.change_schema(&format!("{SCHEMA}{MARKS}")).0, Status::Success.code());
        first.settle();
        first.close();
        crate::stepped::copy_files(&dir("1"), &dir("2"));
        let clock = SimulatedClock::default();
        let nodes = [1, 2].map(|id| Node::new(&dir(&id.to_string()), partitions, id, &clock, seed + u64::from(id)));
        let members = nodes.each_ref().map(|node| node.member).to_vec();
        let epoch = Epoch(nodes[0].group.end().epoch.0 + 1);
        let configuration = GroupConfiguration::new(epoch, members[0], members, Vec::new());
        nodes.iter().for_each(|node| node.group.configured(configuration.clone()));
        World {
            home,
            partitions,
            nodes,
            clock,
            random: SimulatedRandom::new(seed ^ 0x55),
            cut: [false; 2],
            deaf: None,
            wires: Default::default(),
            configuration,
            asked: BTreeMap::new(),
            handle: 0,
            kept: BTreeSet::new(),
            lost: BTreeSet::new(),
            tables: BTreeSet::new(),
            outcome: Outcome::default(),
        }
    }

    /// Something happens; false: it was only time that passed.
    fn step(&mut self) -> bool {
        let order = self.random.below(8) as usize;
        for turn in 0..8 {
            let (what, node) = ((order + turn) % 8 / 2, (order + turn) % 2);
            let happened = match what {
                0 => self.nodes[node].database.step(),
                1 => self.deaf != Some(node) && self.nodes[node].hear(&self.configuration),
                2 => self.deaf != Some(node) && self.move_on(node),
                _ => self.deliver(node),
            };
            self.take_answers(node);
            if happened {
                return true;
            }
        }
        self.clock.advance(Duration::from_millis(20));
        self.nodes.iter().for_each(|node| node.group.tick());
        false
    }

    fn move_on(&mut self, node: usize) -> bool {
        let (home, partitions, outcome) = (self.home.path(), self.partitions, &mut self.outcome);
        self.nodes[node].move_on(|database, place| {
            outcome.deposed += 1;
            database.settle();
            let (all, dir) = (entries(&database.dir), home.join(format!("replay {}", outcome.deposed)));
            // Of entries that stand at one position the last counts.
            let up_to: BTreeMap<_, _> = all.into_iter().filter(|(at, _)| *at <= place.end.position).collect();
            let up_to: Vec<_> = up_to.into_iter().collect();
            assert_eq!(up_to.last().expect("there are some").0, place.end.position);
            let mut replay = Database::empty_copy(&dir, partitions, 1);
            replay.feed(&up_to);
            same(&replay.contents(), &database.contents(), "what was taken back leaves a trace");
        })
    }

    fn deliver(&mut self, to: usize) -> bool {
        self.wires[to].extend(self.nodes[1 - to].outs.sent.lock().unwrap().drain(..));
        if self.cut[to] {
            return false;
        }
        let Some(bytes) = self.wires[to].pop_front() else { return false };
        let (_, envelope, entries) = message::decode(&bytes).expect("well-formed");
        self.nodes[to].group.handle_message(envelope, entries);
        true
    }

    fn take_answers(&mut self, node: usize) {
        for (handle, status, number) in self.nodes[node].database.answered() {
            let asked = self.asked.remove(&handle).expect("one answer for each call");
            let ok = status == Status::Success.code();
            let unknown = status == Status::ResponseUnknown.code();
            match status {
                _ if ok => self.outcome.acknowledged += 1,
                _ if unknown => self.outcome.unknown += 1,
                _ => self.outcome.refused += 1,
            }
            match asked {
                Asked::Marks(marks) if ok => self.kept.extend(marks),
                Asked::Marks(marks) if !unknown => self.lost.extend(marks),
                Asked::Schema(_) if unknown => self.outcome.schema_unknown += 1,
                Asked::Schema(table) if ok => drop(self.tables.insert(table)),
                Asked::Mark if ok => {
                    self.outcome.reads += 1;
                    assert_eq!(number, Some(1), "a read does not see what was acknowledged before it");
                }
                Asked::Count(before) if ok => {
                    self.outcome.reads += 1;
                    let number = number.expect("a number") as usize;
                    assert!(number >= before, "a read sees {number} of {before} that were acknowledged before it");
                }
                _ => {}
            }
        }
    }

    fn steps(&mut self, count: u64) {
        for _ in 0..count {
            self.step();
        }
    }

    /// Until nothing happens but that time passes.
    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..400_000 {
            quiet = if self.step() { quiet } else { quiet + 1 };
            if quiet > 40 {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    fn submit(&mut self, node: usize) {
        self.handle += 1;
        let handle = self.handle;
        let kinds = match self.nodes[node].database.compiled().catalog.table_named("KINDS") {
            Some(_) => "kinds",
            None => "sorts",
        };
        let (text, asked) = match self.random.below(12) {
            0 => {
                let row = CHANGES[self.random.below(CHANGES.len() as u64) as usize];
                let text = row[self.random.below(2) as usize].trim_end_matches("; INSERT");
                let text = format!("{text}; CREATE TABLE mark_{handle} (a INTEGER)");
                self.nodes[node].database.submit_change(handle, &text);
                self.asked.insert(handle, Asked::Schema(format!("MARK_{handle}")));
                return;
            }
            1..4 => {
                let marks: Vec<i64> = (0..1 + self.random.below(3) as i64).map(|more| handle * 10 + more).collect();
                let insert = |mark: &i64| format!("INSERT INTO marks VALUES ({mark})");
                (marks.iter().map(insert).collect::<Vec<_>>().join("; "), Asked::Marks(marks))
            }
            4 => ("SELECT COUNT(*) FROM marks".to_owned(), Asked::Count(self.kept.len())),
            5 | 6 => match self.kept.iter().nth(self.random.below(self.kept.len().max(1) as u64) as usize) {
                Some(mark) => (format!("SELECT COUNT(*) FROM marks WHERE n = {mark}"), Asked::Mark),
                None => return,
            },
            _ => (crate::work::statement(&mut self.random, kinds), Asked::Else),
        };
        if self.nodes[node].database.submit(handle, &text).is_some() {
            self.asked.insert(handle, asked);
        }
    }

    /// Another node leads from here on; the one that did hears of it when it does.
    fn depose(&mut self) {
        let leader = self.configuration.leader;
        let next = self.nodes.iter().position(|node| node.member != leader).expect("there are two");
        // What the old leader sent last may be lost with it.
        if self.random.below(2) == 0 {
            let _ = self.deliver(next);
            self.wires[next].clear();
        }
        let all = self.nodes.each_ref().map(|node| node.member).to_vec();
        let epoch = Epoch(self.configuration.epoch.0 + 1 + self.random.below(2));
        let leader = self.nodes[next].member;
        // Alone, it opens without a word of the old leader's, which hears nothing of it.
        let alone = self.random.below(2) == 0;
        let members = if alone { vec![leader] } else { all };
        self.configuration = GroupConfiguration::new(epoch, leader, members, Vec::new());
        self.nodes[next].group.configured(self.configuration.clone());
        self.cut = [alone; 2];
        if !alone && self.random.below(2) == 0 {
            self.nodes[1 - next].group.configured(self.configuration.clone());
        }
    }

    /// Both are members, and know it.
    fn rejoin(&mut self) {
        let all = self.nodes.each_ref().map(|node| node.member).to_vec();
        let leader = self.configuration.leader;
        if self.configuration.members().len() < all.len() {
            let added = all.iter().filter(|member| **member != leader).map(|member| member.node).collect();
            let epoch = Epoch(self.configuration.epoch.0 + 1);
            self.configuration = GroupConfiguration::new(epoch, leader, all, added);
        }
        self.nodes.iter().for_each(|node| node.group.configured(self.configuration.clone()));
    }

    fn check(&mut self) {
        self.cut = [false; 2];
        self.rejoin();
        self.settle();
        assert!(self.asked.is_empty(), "every call is answered");
        assert_eq!(self.nodes.each_ref().map(|node| node.group.commit()), [self.nodes[0].group.end().position; 2]);
        assert_eq!(self.nodes.iter().filter(|node| node.leads()).count(), 1);
        let [first, second] = &mut self.nodes;
        same(&first.database.contents(), &second.database.contents(), "leader and copy differ");
        assert_eq!(first.database.retained_bytes() + second.database.retained_bytes(), 0);
        let there: BTreeSet<i64> = first.database.numbers("MARKS").into_iter().collect();
        let missing: Vec<_> = self.kept.difference(&there).collect();
        assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
        let executed: Vec<_> = self.lost.intersection(&there).collect();
        assert!(executed.is_empty(), "refused and there: {executed:?}");
        let catalog = first.database.compiled();
        let missing: Vec<_> = self.tables.iter().filter(|table| catalog.catalog.table_named(table).is_none()).collect();
        assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
    }
}

fn same(found: &[String], expected: &[String], note: &str) {
    let differ = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert!(found == expected, "{note}: {differ:?}, {} and {} lines", found.len(), expected.len());
}

fn run(seed: u64) -> Outcome {
    let mut world = World::new(seed);
    world.settle();
    for _ in 0..3 {
        for _ in 0..6 {
            for _ in 0..world.random.below(8) {
                // Callers may not know yet who leads.
                let node = world.nodes.iter().position(Node::leads).unwrap_or(0);
                let node = if world.random.below(8) == 0 { 1 - node } else { node };
                world.submit(node);
                let some = world.random.below(12);
                world.steps(some);
            }
            let leader = usize::from(world.configuration.leader != world.nodes[0].member);
            // The other one's acknowledgements are held back for a while.
            world.cut[leader] = world.random.below(2) == 0;
            let some = world.random.below(120);
            world.steps(some);
        }
        world.depose();
        for _ in 0..world.random.below(8) {
            world.submit(0);
            world.submit(1);
            let some = world.random.below(60);
            world.steps(some);
        }
        world.check();
    }
    world.outcome.undone = world.nodes.iter().map(|node| node.undone).sum();
    world.outcome
}

#[test]
fn a_deposed_leader_has_what_is_committed_and_nobody_is_told_more() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("DEPOSED_SEED") {
        eprintln!("{:?}", run(seed));
        return;
    }
    for seed in 1..=number("DEPOSED_SEEDS").unwrap_or(12) {
        let outcome = catch_unwind(|| run(seed)).unwrap_or_else(|panic| {
            eprintln!("with DEPOSED_SEED={seed}");
            std::panic::resume_unwind(panic)
        });
        eprintln!("{seed}: {outcome:?}");
    }
}
