//! The clients: what they ask for next, how it goes to the node, and what the answers mean.

use crate::calls::{call_of, over_body};
use crate::history::{History, Outstanding};
use crate::operation::{Action, Answer, Cut, Looked, Told};
use crate::plan::Plan;
use crate::restore_history::Change;
use crate::trace::Trace;
use crossbeam_channel::Sender;
use ferrite_base::{GroupPartitions, PartitionId, SqlLimits};
use ferrite_catalog::Catalog;
use ferrite_io::Clock;
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk, SimulatedRandom};
use ferrite_node::Mode;
use ferrite_node::groups_calls::GroupsCalls;
use ferrite_node::groups_change::{ChangeQueue, ChangeRequest};
use ferrite_node::route::{AnyOf, Route, partition_of_value, route};
use ferrite_partition::coordinator::Job;
use ferrite_partition::{AnswerBatch, CallBatch, CallHeader, Compiled, Event, Mailbox, ProgramCall, Reply, StoreSet};
use ferrite_value::Value;
use ferrite_value::ring::Ring;
use ferrite_wire::{Parameters, Response, Status, frame};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const ITEMS: u64 = 12;
pub const CONNECTION: u64 = 1;

/// Where answers arrive, and calls that must be sent again.
pub struct Letterbox {
    disk: SimulatedDisk,
    state: Mutex<Arrived>,
}

#[derive(Default)]
pub struct Arrived {
    pub answers: Vec<AnswerBatch>,
    /// With the version of the schema by which they are to be sent again.
    pub again: Vec<(usize, u64)>,
}

impl Letterbox {
    pub fn new(disk: SimulatedDisk) -> Arc<Letterbox> {
        Arc::new(Letterbox { disk, state: Mutex::default() })
    }

    fn sent_back(&self, number: usize, version: u64) {
        let mut arrived = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.again.push((number, version));
    }

    pub fn drain(&self) -> Arrived {
        std::mem::take(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Mailbox for Letterbox {
    fn deliver(&self, answers: AnswerBatch) {
        // What is left of a process that has ended tells nobody anything.
        if !self.disk.has_halted() {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).answers.push(answers);
        }
    }
}

/// The ways into a group of a node.
pub struct Doors {
    /// The partitions of the group.
    pub of: GroupPartitions,
    pub partitions: Vec<Sender<Event>>,
    pub coordinator: Sender<Job>,
    pub ring: Arc<Ring>,
    pub compiled: Arc<Mutex<Arc<Compiled>>>,
    pub letterbox: Arc<Letterbox>,
    /// Which calls its network threads let in.
    pub mode: Arc<Mode>,
    pub clock: SimulatedClock,
    /// The way of calls of several groups.
    pub groups: GroupsCalls,
}

impl Doors {
    /// The way to a partition of the group.
    pub fn to(&self, partition: PartitionId) -> &Sender<Event> {
        let place = self.of.place_of(partition).expect("a call goes to the group of its partition");
        &self.partitions[place]
    }

    /// Whether the group does not have all of them.
    fn are_elsewhere(&self, stores: &StoreSet) -> bool {
        match stores {
            StoreSet::All => self.of.len() < self.ring.partition_count() as usize,
            StoreSet::Only(list) => list.iter().any(|partition| self.of.place_of(*partition).is_none()),
        }
    }

    /// Homes whose rows are in the group, of so many.
    pub fn homes(&self, homes: i64) -> Vec<i64> {
        let partition =
            |home: &i64| partition_of_value(&Value::Integer(*home), &self.ring).expect("homes are integers");
        (0..homes).filter(|home| self.of.place_of(partition(home)).is_some()).collect()
    }
}

pub struct Clients {
    pub random: SimulatedRandom,
    pub history: History,
    pub trace: Trace,
    pub homes: i64,
    pub window: usize,
    waiting: usize,
    /// Without new calls, so that those on the way are answered.
    pub quiet: bool,
    /// A read that ran before the log failed may be answered later: other nodes confirm it.
    pub reads_are_confirmed: bool,
    /// The homes that the next call may concern; None: all of them, and what concerns everything.
    pub within: Option<Vec<i64>>,
    /// It goes to the leader of the first group, where calls of several may go.
    pub may_be_over: bool,
    /// Calls that went to the sequencer.
    pub over: BTreeSet<usize>,
}

impl Clients {
    /// Those of a database that begins with this schema.
    pub fn new(random: SimulatedRandom, plan: &Plan, first: &str, trace: Trace) -> Clients {
        let mut history = History::default();
        if !first.is_empty() {
            let outstanding = Outstanding { variant: Default::default(), text: first.to_owned(), told: None };
            history.schema.outstanding = Some(outstanding);
        }
        let homes = plan.homes;
        let window = plan.turns.window;
        Clients {
            random,
            history,
            trace,
            homes,
            window,
            waiting: 0,
            quiet: false,
            reads_are_confirmed: false,
            within: None,
            may_be_over: false,
            over: BTreeSet::new(),
        }
    }

    /// For a node that is only its own client, and has its first schema.
    pub fn quiet(random: SimulatedRandom, plan: &Plan, catalog: Arc<Catalog>, trace: Trace) -> Clients {
        let mut clients = Clients { quiet: true, ..Clients::new(random, plan, "", trace) };
        clients.history.schema.catalog = catalog;
        clients
    }

    pub fn can_submit(&self) -> bool {
        !self.quiet && self.waiting < self.window
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    pub fn server_ended(&mut self) {
        self.waiting = 0;
        self.history.server_ended();
    }

    /// Notes something that is about to be sent.
    pub fn begin(&mut self, action: Action, now: i64) -> usize {
        let text = format!("{action:?}");
        let number = self.history.begin(action, now);
        self.trace.line(&format!("submit {number} {text}"));
        self.waiting += 1;
        number
    }

    /// Sends what is next.
    pub fn submit(&mut self, doors: &Doors) {
        let action = self.next_action();
        self.send(doors, action);
    }

    /// Makes the rows of a home.
    pub fn touch(&mut self, doors: &Doors, home: i64) {
        self.send(doors, Action::Touch { home });
    }

    /// Looks at some home.
    pub fn query_home(&mut self, doors: &Doors) {
        let home = self.some_home();
        let item = self.random.below(ITEMS) as i64;
        self.send(doors, Action::Look { home, item });
    }

    fn send(&mut self, doors: &Doors, action: Action) {
        let now = doors.clock.wall_micros();
        let number = self.begin(action.clone(), now);
        if action == Action::Discard {
            self.history.restored.outstanding = Some(Change { number, full: false, seen: false });
        }
        match &action {
            Action::Schema { .. } if !self.is_admitted(doors, number, false) => {}
            Action::Schema { text } if doors.are_elsewhere(&StoreSet::All) => {
                self.over.insert(number);
                let compiled = Arc::clone(&doors.compiled);
                let version = move || compiled.lock().unwrap_or_else(PoisonError::into_inner).catalog.version;
                let request = ChangeRequest {
                    calls: doors.groups.clone(),
                    version: Box::new(version),
                    text: text.clone(),
                    limits: SqlLimits::CEILING,
                    time_max: Duration::from_secs(600),
                    reply: reply(doors, number, now),
                };
                // At most one is under way.
                Arc::new(ChangeQueue::default()).submit(request);
            }
            Action::Schema { text } => {
                let reply = reply(doors, number, now);
                doors
                    .coordinator
                    .send(Job::Schema { text: text.clone(), limits: SqlLimits::CEILING, time_max: None, reply })
                    .expect("the node is there");
            }
            Action::Expire => self.expire(doors, number, now),
            _ => self.call(doors, number, &action, now),
        }
    }

    fn some_home(&mut self) -> i64 {
        let drawn = self.random.below(self.homes as u64) as i64;
        self.within.as_ref().map_or(drawn, |within| within[drawn as usize % within.len()])
    }

    /// Something else where the call may not concern all of what it would.
    fn next_action(&mut self) -> Action {
        if self.may_be_over
            && self.random.percent(40)
            && let Some(action) = self.over_groups()
        {
            return action;
        }
        let action = self.any_action();
        let Some(within) = &self.within else { return action };
        match &action {
            Action::Transfer { from, to, .. } if !within.contains(to) => Action::Bump { home: *from, delta: 1 },
            Action::Clear { .. } | Action::Rate { .. } | Action::Cut | Action::Peek { .. } | Action::Discard => {
                Action::Look { home: within[0], item: 0 }
            }
            _ => action,
        }
    }

    /// What concerns a home of the group and one of another.
    fn over_groups(&mut self) -> Option<Action> {
        let within = self.within.as_ref()?;
        let others: Vec<i64> = (0..self.homes).filter(|home| !within.contains(home)).collect();
        let one = *self.random.pick(within);
        let other = *(!others.is_empty()).then(|| self.random.pick(&others))?;
        let [from, to] = if self.random.percent(50) { [one, other] } else { [other, one] };
        if self.history.schema.outstanding.is_none() && self.random.percent(10) {
            return Some(self.change_of_schema());
        }
        Some(match self.random.percent(65) {
            true => Action::Transfer { from, to, amount: self.random.below(600) as i64 },
            false => Action::Both { homes: [from, to] },
        })
    }

    fn change_of_schema(&mut self) -> Action {
        let (text, variant) = self.history.schema.variant.change(&mut self.random);
        let outstanding = Outstanding { variant, text: text.clone(), told: None };
        self.history.schema.outstanding = Some(outstanding);
        Action::Schema { text }
    }

    fn any_action(&mut self) -> Action {
        let home = self.some_home();
        let item = self.random.below(ITEMS) as i64;
        let random = &mut self.random;
        match random.below(100) {
            0..35 => {
                let body = match random.below(20) {
                    0 => 20_000 + random.below(90_000) as usize,
                    1..4 => random.below(5_000) as usize,
                    _ => random.below(60) as usize,
                };
                let value = (!random.percent(20)).then(|| random.below(10) as i64);
                let name = (!random.percent(20)).then(|| random.below(ITEMS * 2) as i64);
                Action::Put { home, item, value, name, body }
            }
            35..41 => Action::Remove { home, item },
            41..47 => Action::Bump { home, delta: random.below(5) as i64 - 2 },
            47..51 => Action::Touch { home },
            51..56 => Action::Spoil { home, item, overdraw: random.percent(50) },
            56..68 => {
                let to = (home + 1 + random.below(self.homes as u64 - 1) as i64) % self.homes;
                Action::Transfer { from: home, to, amount: random.below(600) as i64 }
            }
            68..70 => Action::Clear { homes: self.known_homes() },
            70..74 => Action::Rate { item, value: random.below(100) as i64 },
            74..88 => Action::Look { home, item },
            88..92 => Action::Cut,
            92..94 => Action::Peek { since: self.history.restored.full.len() },
            94..96 => Action::Expire,
            96 if self.history.restored.outstanding.is_none() => Action::Discard,
            96 => Action::Peek { since: self.history.restored.full.len() },
            _ if self.history.schema.outstanding.is_none() && self.within.is_none() => self.change_of_schema(),
            _ => Action::Look { home, item },
        }
    }

    /// Whether the node lets a call in. Otherwise its client hears that at once.
    fn is_admitted(&mut self, doors: &Doors, number: usize, read_only: bool) -> bool {
        let refused = doors.mode.admit(read_only, false).err();
        let is_admitted = refused.is_none();
        if let Some(error) = refused {
            self.answered(number, Told::Refused(error.message().to_owned()));
        }
        is_admitted
    }

    /// Homes that have been changed for certain.
    fn known_homes(&self) -> Vec<i64> {
        let mut known: BTreeSet<i64> = self.history.recovered.keys().copied().filter(|home| *home >= 0).collect();
        for operation in &self.history.operations {
            if let Told::Done(Answer::Steps(steps)) = &operation.told {
                known.extend(steps.iter().map(|(home, _)| *home).filter(|home| *home >= 0));
            }
        }
        known.into_iter().collect()
    }

    fn call(&mut self, doors: &Doors, number: usize, action: &Action, now: i64) {
        let (procedure, parameters) = call_of(action, number, self.within.is_some());
        let compiled = Arc::clone(&doors.compiled.lock().unwrap_or_else(PoisonError::into_inner));
        self.history.schema.seen = self.history.schema.seen.max(compiled.catalog.version.0);
        let procedure = compiled.find(procedure).expect("the first schema has it");
        let program = Arc::clone(compiled.program(procedure));
        if !self.is_admitted(doors, number, program.read_only) {
            return;
        }
        let parsed = Parameters::parse(&parameters).expect("just written");
        let routed = route(&program, &Default::default(), &parsed, &doors.ring, AnyOf::All(number as u32))
            .expect("keys are integers");
        match routed {
            Route::Partition { partition, drop_first_parameter } => {
                let header = CallHeader {
                    connection: CONNECTION,
                    handle: number as i64,
                    procedure,
                    parameters_start: 0,
                    parameters_end: parameters.len() as u32,
                    drop_first_parameter,
                };
                let batch = CallBatch {
                    compiled,
                    mailbox: doors.letterbox.clone(),
                    calls: vec![header],
                    bytes: parameters,
                    answers: Vec::new(),
                    cached: None,
                    sent_micros: now,
                };
                doors.to(partition).send(Event::Calls(batch)).expect("the node is there");
            }
            Route::Multi(stores) if doors.are_elsewhere(&stores) => {
                let body = over_body(action, number);
                let reply = reply(doors, number, now);
                let letterbox = Arc::clone(&doors.letterbox);
                let version = compiled.catalog.version.0;
                let again = Box::new(move || letterbox.sent_back(number, version));
                self.over.insert(number);
                let taken = doors.groups.submit(&program, &compiled, stores, &body, None, reply, again);
                taken.unwrap_or_else(|error| panic!("groups run {procedure:?} together: {}", error.message()));
            }
            Route::Multi(stores) => {
                let letterbox = Arc::clone(&doors.letterbox);
                let call = ProgramCall {
                    program,
                    compiled,
                    parameters,
                    reply: reply(doors, number, now),
                    stores,
                    load: false,
                    retry: Some(again(letterbox, number)),
                    recompile: None,
                    turn: None,
                    time_max: None,
                };
                doors.coordinator.send(Job::Calls(vec![call])).expect("the node is there");
            }
            Route::Compound => unreachable!("the schema has no compound procedures"),
        }
    }

    /// Deletes rows whose time to live has passed, on one partition, as the expiry thread does.
    fn expire(&mut self, doors: &Doors, number: usize, now: i64) {
        let compiled = Arc::clone(&doors.compiled.lock().unwrap_or_else(PoisonError::into_inner));
        let table = compiled.catalog.table_named("SESSIONS").expect("the first schema has it");
        let time = table.time_to_live.as_ref().expect("it has one");
        let cutoff = time.cutoff(now, true);
        self.history.cutoffs.insert(number, cutoff);
        let partition = doors.of.id(self.random.below(doors.partitions.len() as u64) as usize);
        let call = ProgramCall {
            program: Arc::new(ferrite_sql::expire_program(table, time, cutoff)),
            compiled: Arc::clone(&compiled),
            parameters: vec![0; 2],
            reply: reply(doors, number, now),
            stores: StoreSet::All,
            load: false,
            retry: Some(again(Arc::clone(&doors.letterbox), number)),
            recompile: None,
            turn: None,
            time_max: None,
        };
        doors.to(partition).send(Event::Program(Box::new(call))).expect("the node is there");
    }

    /// Opens what has arrived.
    pub fn read_letters(&mut self, letterbox: &Letterbox) {
        let Arrived { answers, again } = letterbox.drain();
        for (number, version) in again {
            // Whoever sends it again does so by this schema.
            if !self.history.failed {
                self.history.schema.seen = self.history.schema.seen.max(version);
            }
            self.answered(number, Told::Refused("sent back".to_owned()));
        }
        for batch in answers {
            let mut bytes = &batch.bytes[..];
            while let Some((length, body)) = frame::split(bytes).expect("answers are whole frames") {
                let response = Response::parse(body).expect("answers are well-formed");
                let number = response.handle as usize;
                let told = self.understand(number, &response);
                self.answered(number, told);
                bytes = &bytes[length..];
            }
            assert!(bytes.is_empty(), "answers are whole frames");
        }
    }

    pub fn answered(&mut self, number: usize, told: Told) {
        self.trace.line(&format!("told {number} {}", summary(&told)));
        let before = self.history.note_answer(number, told);
        let History { operations, schema, restored, failed, .. } = &mut self.history;
        let operation = &operations[number];
        self.waiting -= 1;
        let told = &operation.told;
        let mut problem = None;
        if before != Told::Nothing {
            problem = Some(("one answer", format!("operation {number} was answered twice: {before:?}, {told:?}")));
        } else if *failed
            && matches!(told, Told::Done(_))
            && !matches!(operation.action, Action::Restore { .. })
            && !(self.reads_are_confirmed && operation.action.homes().is_some_and(|homes| homes.is_empty()))
            && !self.over.contains(&number)
        {
            // A restore ends with an answer that was looked at when it came. What several groups
            // have done is answered when all have it, whatever became of a log behind that.
            let detail = format!("operation {number} was acknowledged after the log had failed");
            problem = Some(("the first failure is final", detail));
        }
        if matches!(operation.action, Action::Schema { .. })
            && let Some(outstanding) = &mut schema.outstanding
        {
            match told {
                Told::Done(_) => outstanding.told = Some(true),
                Told::Failed(_) | Told::Refused(_) => outstanding.told = Some(false),
                Told::Nothing | Told::Unknown => {}
            }
            if let Some(done) = outstanding.told {
                let outstanding = schema.outstanding.take().expect("seen above");
                if done {
                    schema.variant = outstanding.variant;
                    schema.catalog = crate::invariants::schema::after(&schema.catalog, &outstanding.text);
                }
            }
        }
        if problem.is_none() {
            let said = restored.record(number, &operation.action, told);
            problem = said.err().map(|detail| ("a restore is there wholly or not at all", detail));
        }
        if let Some((invariant, detail)) = problem {
            self.history.violated(invariant, detail);
        }
    }

    fn understand(&self, number: usize, response: &Response<'_>) -> Told {
        let text = response.status_text.unwrap_or_default().to_owned();
        match response.status() {
            Some(Status::Success) => Told::Done(answer(&self.history.operations[number].action, response)),
            Some(Status::ResponseUnknown) => Told::Unknown,
            Some(Status::ServerUnavailable) => Told::Refused(text),
            _ => Told::Failed(text),
        }
    }
}

pub(crate) fn reply(doors: &Doors, number: usize, now: i64) -> Reply {
    Reply { mailbox: doors.letterbox.clone(), connection: CONNECTION, handle: number as i64, sent_micros: now }
}

pub(crate) fn again(letterbox: Arc<Letterbox>, number: usize) -> Box<dyn FnOnce(Arc<Compiled>) + Send> {
    Box::new(move |compiled| letterbox.sent_back(number, compiled.catalog.version.0))
}

fn summary(told: &Told) -> String {
    let mut text = format!("{told:?}");
    let end = (0..=200.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    text
}

fn answer(action: &Action, response: &Response<'_>) -> Answer {
    let tables: Vec<Vec<Vec<Cell>>> = response.tables().map(|table| cells(&table.expect("well-formed"))).collect();
    match action {
        Action::Put { home, .. } | Action::Remove { home, .. } | Action::Bump { home, .. } | Action::Touch { home } => {
            Answer::Steps(vec![(*home, response.scalar().expect("the step"))])
        }
        Action::Rate { .. } => Answer::Steps(vec![(crate::operation::RATES, response.scalar().expect("the step"))]),
        Action::Transfer { .. } | Action::Clear { .. } => {
            // Numbers of changed rows stand beside what was selected.
            let rows = tables.iter().flatten().filter(|row| row.len() == 2);
            Answer::Steps(rows.map(|row| (row[0].number(), row[1].number())).collect())
        }
        Action::Both { .. } => {
            let number = |table: usize, column: usize| tables[table][0][column].number();
            Answer::Both([0, 1].map(|home| (number(home, 0), number(home, 1), number(home + 2, 0))))
        }
        Action::Look { .. } => Answer::Looked(Looked {
            step: tables[0].first().map_or(0, |row| row[0].number()),
            item: tables[1].first().map(|row| (row[0].integer(), row[1].text(), row[2].text())),
            totals: tables[2]
                .first()
                .map(|row| (row[0].number(), row[1].integer(), row[2].integer(), row[3].integer())),
            balance: tables[3].first().map(|row| row[0].number()),
        }),
        Action::Cut => Answer::Cut(Cut {
            steps: tables[0].iter().map(|row| (row[0].number(), row[1].number())).collect(),
            balances: tables[1].iter().map(|row| (row[0].number(), row[1].number())).collect(),
            rates: tables[2].first().map_or(0, |row| row[0].number()),
            by_value: grouped(&tables[3]),
            items: tables[4].iter().map(|row| ((row[0].number(), row[1].number()), row[2].integer())).collect(),
        }),
        Action::Peek { .. } => {
            let sum = |table: usize, column: usize| tables[table].iter().map(|row| row[column].number()).sum();
            Answer::Peeked([sum(0, 0), sum(1, 1), sum(2, 0), sum(3, 1)])
        }
        _ => Answer::Other,
    }
}

fn grouped(rows: &[Vec<Cell>]) -> BTreeMap<Option<i64>, i64> {
    let mut groups = BTreeMap::new();
    for row in rows {
        *groups.entry(row[0].integer()).or_default() += row[1].number();
    }
    groups
}

/// A value of an answer.
#[derive(Clone, Debug)]
enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Other,
}

impl Cell {
    fn integer(&self) -> Option<i64> {
        if let Cell::Integer(value) = self { Some(*value) } else { None }
    }

    fn number(&self) -> i64 {
        self.integer().unwrap_or_else(|| panic!("{self:?} is not a number"))
    }

    fn text(&self) -> Option<String> {
        if let Cell::Text(text) = self { Some(text.clone()) } else { None }
    }
}

fn cells(table: &ferrite_wire::Table<'_>) -> Vec<Vec<Cell>> {
    let cell = |value: Value<'_>| match value {
        Value::Null => Cell::Null,
        Value::Integer(value) => Cell::Integer(value),
        Value::Text(text) => Cell::Text(text.to_owned()),
        _ => Cell::Other,
    };
    let rows = table.rows().map(|row| row.expect("well-formed"));
    rows.map(|row| row.cells().map(|value| cell(value.expect("well-formed"))).collect()).collect()
}
