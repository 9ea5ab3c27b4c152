//! Sequencing beside agents in memory: what callers hear, and what the groups have then.

mod calls;
mod changes;
mod failures;
mod limits;
mod overdue;
mod world;

use super::call::GroupsCall;
use super::directory::{Leader, LeaderChange};
use super::merge::MergeRule;
use super::sequencing::{Moment, Sequencing};
use ferrite_base::{CatalogVersion, Epoch, GroupId, GroupMap, NodeId, PartitionId, UserError};
use ferrite_multi::{Agent, AgentEffect, Ledger, LotId, Record, ToAgent, ToSequencer};
use ferrite_partition::lots::{FailureVerdict, LotAnswer, LotCall, LotFailure, LotProgram, LotResult, LotWork};
use ferrite_partition::{AnswerBatch, Mailbox, Reply, StoreSet};
use ferrite_value::{SqlType, Value};
use ferrite_wire::{Response, Status, Table, TableHeader, TableWriter, frame, table};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

const HERE: NodeId = NodeId(1);
const MILLI: u64 = 1_000_000;

/// What callers have heard, by handle: the status, and the numbers of their tables or the text.
#[derive(Default)]
struct Callers(Mutex<Vec<(i64, Heard)>>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Heard {
    Numbers(Vec<i64>),
    /// So many, of the first statement.
    Rows(usize),
    Error(Status, String),
}

impl Mailbox for Callers {
    fn deliver(&self, answers: AnswerBatch) {
        let (_, body) = frame::split(&answers.bytes).expect("a frame").expect("a whole one");
        let response = Response::parse(body).expect("a response");
        let heard = match response.status().expect("a status") {
            Status::Success => {
                let tables: Vec<Table<'_>> = response.tables().map(|table| table.expect("a table")).collect();
                match tables.iter().map(Table::scalar).collect() {
                    Some(numbers) => Heard::Numbers(numbers),
                    None => Heard::Rows(tables[0].row_count()),
                }
            }
            status => Heard::Error(status, response.status_text.unwrap_or_default().to_owned()),
        };
        self.0.lock().unwrap().push((response.handle, heard));
    }
}

/// A group with one number, which calls change.
struct TestGroup {
    id: GroupId,
    epoch: Epoch,
    agent: Agent,
    ledger: Ledger<i64>,
    version: CatalogVersion,
    value: i64,
    undo: Option<i64>,
    /// It has to commit what it appends; these wait.
    commits: bool,
    appended: Vec<Record<()>>,
    /// It hears nothing and says nothing.
    silent: bool,
    /// What it has shown is not committed yet.
    confirms_late: bool,
    /// Outcomes are committed as they are appended.
    commits_decided: bool,
    refuses_change: bool,
    /// It has made a schema change, which does not count yet.
    changes: bool,
    /// Lots of which it has run a part.
    ran: Vec<LotId>,
    /// How long the calls that it has run might execute by their own wish, in milliseconds.
    own_times: Vec<u32>,
}

impl TestGroup {
    fn new(id: u32) -> TestGroup {
        let ledger = Ledger::default();
        let (id, epoch) = (GroupId(id), Epoch(7));
        TestGroup {
            id,
            epoch,
            agent: Agent::new(id, epoch, &ledger),
            ledger,
            version: CatalogVersion(1),
            value: 0,
            undo: None,
            commits: true,
            appended: Vec::new(),
            silent: false,
            confirms_late: false,
            commits_decided: true,
            refuses_change: false,
            changes: false,
            ran: Vec::new(),
            own_times: Vec::new(),
        }
    }

    fn answer(&mut self, call: &LotCall) -> LotAnswer {
        self.own_times.push(call.time_max_millis);
        let failed = |verdict, text: &str| {
            let failure = LotFailure::of(&UserError::constraint("23505", text.to_owned()));
            LotAnswer::Failed(LotFailure { verdict, ..failure })
        };
        if call.catalog_version != self.version {
            return failed(FailureVerdict::LookUp, "stale");
        }
        let name = match &call.program {
            LotProgram::Procedure(name) => name,
            LotProgram::Change(_) | LotProgram::Check(_) if self.refuses_change => {
                return failed(FailureVerdict::Fails, "there is no JVM");
            }
            LotProgram::Change(_) => {
                self.changes = true;
                return LotAnswer::Ran(vec![Some(counted(7)), Some(counted(1)), None]);
            }
            LotProgram::Check(_) => return LotAnswer::Ran(Vec::new()),
            LotProgram::Text(_) | LotProgram::Load(_) | LotProgram::Cut(_) | LotProgram::Equalize(_) => {
                panic!("tests call procedures")
            }
        };
        let number = match name.as_str() {
            "Add" => {
                self.value += i64::from(call.parameters[0]);
                1
            }
            // Fails in the group of that number.
            "Fail" if u32::from(call.parameters[0]) == self.id.0 => {
                return failed(FailureVerdict::Fails, "the key is there");
            }
            "Fail" => {
                self.value += 1;
                1
            }
            "Once" if self.value == 0 => {
                self.value = 1;
                1
            }
            "Once" if self.undo == Some(self.value) => return failed(FailureVerdict::Fails, "it is there"),
            "Once" => return failed(FailureVerdict::First, "it was made just now"),
            "Many" => {
                self.value += 1;
                return LotAnswer::Ran(vec![
                    Some(many_rows(10 * call.parameters[0])),
                    call.is_first.then(|| counted(77)),
                ]);
            }
            "Read" => self.value,
            other => panic!("{other}"),
        };
        LotAnswer::Ran(vec![Some(counted(number)), call.is_first.then(|| counted(77))])
    }

    fn run(&mut self, work: &[u8]) -> LotResult {
        let work = LotWork::decode(work).expect("the sequencer's");
        let mut answers = Vec::new();
        let mut bytes = 0;
        for call in &work.calls {
            let answer = self.answer(call);
            if let LotAnswer::Ran(tables) = &answer {
                bytes += tables.iter().flatten().map(Vec::len).sum::<usize>();
            }
            let too_large = LotFailure {
                verdict: FailureVerdict::Alone,
                ..LotFailure::of(&UserError::limit("too large beside others"))
            };
            answers.push(if bytes > work.answers_max as usize { LotAnswer::Failed(too_large) } else { answer });
            if matches!(answers.last(), Some(LotAnswer::Failed(_))) {
                break;
            }
        }
        LotResult(answers)
    }

    /// Does what the agent wants; returns what it says to the sequencer and to others.
    fn carry_out(&mut self) -> (Vec<ToSequencer>, Vec<(GroupId, ToAgent)>) {
        let (mut said, mut asked) = (Vec::new(), Vec::new());
        loop {
            let effects = self.agent.effects();
            if effects.is_empty() {
                return (said, asked);
            }
            for effect in effects {
                match effect {
                    AgentEffect::Hold { lot, .. } => {
                        self.undo = Some(self.value);
                        assert!(self.agent.held(lot));
                    }
                    AgentEffect::Run { lot, work } => {
                        self.ran.push(lot);
                        let result = self.run(&work);
                        self.agent.ran(lot, result.is_success(), result.encode(), 0);
                    }
                    AgentEffect::Prepare { lot, settled, participants } => {
                        self.append(Record::Prepared { lot, settled, participants, redo: () });
                    }
                    AgentEffect::Append(record) => self.append(record),
                    AgentEffect::Commit { .. } => {
                        self.undo = None;
                        self.version.0 += u64::from(std::mem::take(&mut self.changes));
                    }
                    AgentEffect::StepBack { .. } => {
                        self.changes = false;
                        self.value = self.undo.take().expect("it is held");
                    }
                    AgentEffect::Release { lot } => {
                        self.value = self.undo.take().expect("it is held");
                        if !self.confirms_late {
                            self.agent.confirmed(lot);
                        }
                    }
                    AgentEffect::ToSequencer(message) => said.push(message),
                    AgentEffect::ToAgent { group, message } => asked.push((group, message)),
                }
            }
        }
    }

    fn append(&mut self, record: Record<()>) {
        self.appended.push(record);
        let is_decided = matches!(self.appended.last(), Some(Record::Decided { .. }));
        if self.commits && (self.commits_decided || !is_decided) {
            self.commit();
        }
    }

    fn commit(&mut self) {
        for record in std::mem::take(&mut self.appended) {
            let value = self.value - self.undo.unwrap_or(self.value);
            self.ledger.apply(record.clone().map(|()| value)).expect("a stream");
            match record {
                Record::Prepared { lot, .. } => self.agent.prepared(lot),
                Record::Decided { lot, .. } => self.agent.decided(lot),
                Record::Refused { lot, .. } => self.agent.refused(lot),
                Record::Ordered { epoch, .. } => self.agent.ordered(epoch),
                Record::Settled { .. } => {}
            }
        }
    }
}

/// Of 1 MB each.
fn many_rows(rows: u8) -> Vec<u8> {
    let header = TableHeader::new([("V", SqlType::Varchar)]);
    let mut bytes = Vec::new();
    let mut writer = TableWriter::begin(&mut bytes, &header);
    let text = "x".repeat(1_000_000);
    (0..rows).for_each(|_| writer.row(&[Value::Text(&text)]).expect("there is room"));
    writer.finish();
    bytes
}

/// The answer of a statement that has changed so many rows; 77: of that which one group runs,
/// whichever.
fn counted(rows: i64) -> Vec<u8> {
    let mut table = Vec::new();
    table::write_modified_tuples(&mut table, rows);
    table
}

struct World {
    sequencing: Sequencing,
    groups: Vec<TestGroup>,
    callers: Arc<Callers>,
    now: Moment,
    handles: i64,
    /// Handles of calls that were to be looked up again.
    again: Arc<Mutex<Vec<i64>>>,
    under_way: VecDeque<(GroupId, ToSequencer)>,
}

fn leader(node: u32, link: u64) -> Leader {
    Leader { node: NodeId(node), link, epoch: Epoch(7) }
}

impl World {
    /// Groups of one partition each; the first is led here.
    fn new(groups: u32) -> World {
        let map = GroupMap::new((0..groups).map(GroupId).collect()).expect("a map");
        let mut world = World {
            sequencing: Sequencing::new(HERE, map, Arc::default()),
            groups: (0..groups).map(TestGroup::new).collect(),
            callers: Arc::default(),
            now: Moment { nanos: 1_000 * MILLI, micros: 1_000_000, shown: 1_000_000 },
            handles: 0,
            again: Arc::default(),
            under_way: VecDeque::new(),
        };
        for group in 0..groups {
            world.led(group);
        }
        world.settle();
        world
    }

    fn led(&mut self, group: u32) {
        let way = if group == 0 { leader(HERE.0, 0) } else { leader(group + 1, 1) };
        self.sequencing.change(LeaderChange::Led(GroupId(group), way), self.now);
    }

    fn lost(&mut self, group: u32) {
        let way = if group == 0 { leader(HERE.0, 0) } else { leader(group + 1, 1) };
        self.sequencing.change(LeaderChange::Lost(GroupId(group), way), self.now);
        match group {
            0 => self.groups.iter_mut().for_each(|group| group.agent.sequencer_lost(Epoch(7), 0)),
            _ => self.groups[group as usize].agent.sequencer_lost(Epoch(7), 0),
        }
    }

    /// So many groups, and a call of the first two that has begun, where the second is like this.
    fn with_one_begun(groups: u32, parameter: u8, second: impl FnOnce(&mut TestGroup)) -> (World, i64) {
        let mut world = World::new(groups);
        second(&mut world.groups[1]);
        let call = world.call("Add", parameter, &[0, 1], 1);
        world.settle();
        (world, call)
    }

    /// A call on these groups' partitions; its handle.
    fn call(&mut self, name: &str, parameter: u8, groups: &[u32], version: u64) -> i64 {
        self.call_within(0, name, parameter, groups, version)
    }

    /// The same of a call that may execute for so many milliseconds; 0: as long as any.
    fn call_within(&mut self, millis: u32, name: &str, parameter: u8, groups: &[u32], version: u64) -> i64 {
        self.handles += 1;
        let handle = self.handles;
        let mailbox = Arc::<Callers>::clone(&self.callers);
        let again = Arc::clone(&self.again);
        let call = GroupsCall {
            program: LotProgram::Procedure(name.to_owned()),
            catalog_version: CatalogVersion(version),
            parameters: vec![parameter],
            stores: StoreSet::Only(groups.iter().copied().map(PartitionId).collect()),
            merges: [if name == "Many" { MergeRule::Append } else { MergeRule::Sum }, MergeRule::First].into(),
            is_read: name == "Read",
            time_max_millis: millis,
            reply: Reply { mailbox, connection: 1, handle, sent_micros: self.now.micros },
            again: Box::new(move || again.lock().unwrap().push(handle)),
            behind: Vec::new(),
        };
        self.sequencing.call(call, self.now);
        handle
    }

    /// Until nothing more happens by itself.
    fn settle(&mut self) {
        loop {
            self.sequencing.advance(self.now);
            let sends = self.sequencing.sends();
            for send in &sends {
                let group = &mut self.groups[send.group.0 as usize];
                if !group.silent {
                    group.agent.receive(send.message.clone(), self.now.nanos);
                }
            }
            let mut asked_all = Vec::new();
            for group in &mut self.groups {
                let (said, asked) = group.carry_out();
                if !group.silent {
                    self.under_way.extend(said.into_iter().map(|message| (group.id, message)));
                    asked_all.extend(asked);
                }
            }
            for (to, message) in &asked_all {
                self.groups[to.0 as usize].agent.receive(message.clone(), self.now.nanos);
            }
            if sends.is_empty() && self.under_way.is_empty() && asked_all.is_empty() {
                return;
            }
            for (group, message) in self.under_way.drain(..) {
                self.sequencing.receive(group, self.groups[group.0 as usize].epoch, message);
            }
        }
    }

    /// Time passes, with a look at what waits.
    fn pass(&mut self, millis: u64) {
        self.now.nanos += millis * MILLI;
        self.now.micros += millis as i64 * 1_000;
        self.sequencing.tick(self.now);
        self.groups.iter_mut().for_each(|group| group.agent.tick(self.now.nanos));
        self.settle();
    }

    fn values(&self) -> Vec<i64> {
        self.groups.iter().map(|group| group.value).collect()
    }

    /// What callers have heard since this was asked.
    fn heard(&self) -> Vec<(i64, Heard)> {
        std::mem::take(&mut *self.callers.0.lock().unwrap())
    }

    /// The statuses of what callers have heard.
    fn statuses(&self) -> Vec<(i64, Status)> {
        let status = |heard| match heard {
            Heard::Numbers(_) | Heard::Rows(_) => Status::Success,
            Heard::Error(status, _) => status,
        };
        self.heard().into_iter().map(|(handle, heard)| (handle, status(heard))).collect()
    }
}
