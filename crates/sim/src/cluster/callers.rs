//! The clients of a cluster: those of a node, who know several doors, and what was acknowledged
//! when they sent a read.

use crate::clients::Clients;
use crate::cluster::invariants::time;
use crate::cluster::ledger::Ledger;
use crate::cluster::pauses::Pauses;
use crate::cluster::process::Process;
use crate::history::{Operation, Outstanding, SchemaHistory};
use crate::invariants::schema as schema_rule;
use crate::operation::{Action, Answer, Told};
use crate::schema::{self, Variant};
use crate::state::State;
use ferrite_base::{GroupId, SqlLimits};
use ferrite_catalog::Catalog;
use ferrite_group::FIRST_GROUP;
use ferrite_io::Clock;
use ferrite_partition::coordinator::Job;
use ferrite_replica::group::Member;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// By home, the last step that was acknowledged.
pub type Steps = BTreeMap<i64, i64>;

pub struct Callers {
    pub clients: Clients,
    /// Whom each operation was sent to that has no answer yet, and for which group.
    sent: BTreeMap<usize, (Member, GroupId)>,
    acknowledged: Steps,
    ledger: Ledger,
    /// For each read: what was acknowledged when it was sent.
    pub known: BTreeMap<usize, Steps>,
    /// All schemas that were there, by version.
    schemas: BTreeMap<u64, (Variant, Arc<Catalog>)>,
    pub pauses: Pauses,
    /// Each home has rows: what concerns several groups may be asked.
    pub all_homes_are_there: bool,
}

impl Callers {
    pub fn new(mut clients: Clients, ledger: Ledger) -> Callers {
        clients.reads_are_confirmed = true;
        Callers {
            clients,
            sent: BTreeMap::new(),
            acknowledged: Steps::new(),
            ledger,
            known: BTreeMap::new(),
            schemas: BTreeMap::new(),
            pauses: Pauses::default(),
            all_homes_are_there: false,
        }
    }

    pub fn can_submit(&self) -> bool {
        self.clients.can_submit()
    }

    pub fn waiting(&self) -> usize {
        self.sent.len()
    }

    /// Calls of one process for one group, by their numbers.
    pub fn asked(&self, member: Member, group: GroupId) -> Vec<usize> {
        self.sent.iter().filter(|(_, asked)| **asked == (member, group)).map(|(number, _)| *number).collect()
    }

    /// Calls of one process for one group.
    pub fn waiting_for(&self, member: Member, group: GroupId) -> usize {
        self.sent.values().filter(|asked| **asked == (member, group)).count()
    }

    /// Calls of programs that a schema has; there is none yet.
    pub fn is_ready(process: &Process) -> bool {
        process.all_hosted().any(|of| of.version() > 0)
    }

    /// `looks`: it changes nothing. False: there is nothing that the group could be asked.
    pub fn submit(&mut self, process: &Process, group: GroupId, looks: bool) -> bool {
        let doors = &process.of(group).doors;
        if process.all_groups > 1 {
            self.clients.within = Some(doors.homes(self.clients.homes)).filter(|homes| !homes.is_empty());
            if self.clients.within.is_none() {
                return false;
            }
            self.clients.may_be_over = group == FIRST_GROUP && self.all_homes_are_there;
        }
        let number = self.clients.history.operations.len();
        if looks {
            self.clients.query_home(doors);
        } else {
            self.clients.submit(doors);
        }
        self.was_sent(number, process, group);
        let action = &self.clients.history.operations[number].action;
        if matches!(action, Action::Look { .. } | Action::Both { .. } | Action::Cut) {
            self.known.insert(number, self.acknowledged.clone());
        }
        true
    }

    /// Rows of that home are made.
    pub fn touch(&mut self, process: &Process, group: GroupId, home: i64) {
        let number = self.clients.history.operations.len();
        self.clients.touch(&process.of(group).doors, home);
        self.was_sent(number, process, group);
    }

    fn was_sent(&mut self, number: usize, process: &Process, group: GroupId) {
        // Not its clock: a leader shows what its members know of that.
        let now_min = self.ledger.with(|book| time::least(book, group, process.member));
        self.clients.history.operations[number].now_min = now_min;
        if self.clients.history.operations[number].told == Told::Nothing {
            self.sent.insert(number, (process.member, group));
        } else {
            self.heard(number);
        }
    }

    /// An administrator's call, whose number it is.
    pub fn pause(&mut self, to: Member, paused: bool, now: i64) -> usize {
        let number = self.clients.begin(Action::Pause { paused }, now);
        self.sent.insert(number, (to, FIRST_GROUP));
        self.pauses.asks(number, paused);
        number
    }

    /// The schema without which nothing can be asked.
    pub fn submit_first_schema(&mut self, process: &Process, group: GroupId) {
        let doors = &process.of(group).doors;
        let text = match process.all_groups > 1 {
            true => format!("{}{}", schema::first(), schema::OVER_GROUPS),
            false => schema::first(),
        };
        // The same in each group.
        if group == FIRST_GROUP {
            let outstanding = Outstanding { variant: Default::default(), text: text.clone(), told: None };
            self.clients.history.schema.outstanding = Some(outstanding);
        }
        let now = process.clock.wall_micros();
        let number = self.clients.begin(Action::Schema { text: text.clone() }, now);
        self.sent.insert(number, (process.member, group));
        let reply = crate::clients::reply(doors, number, now);
        let job = Job::Schema { text, limits: SqlLimits::CEILING, time_max: None, reply };
        doors.coordinator.send(job).expect("the node is there");
    }

    /// Opens what has arrived from a process.
    pub fn read_letters(&mut self, process: &mut Process) {
        // A node whose log has failed acknowledges nothing, and nobody goes by its schema.
        self.clients.history.failed = process.failed;
        self.clients.read_letters(&process.letterbox);
        self.clients.history.failed = false;
        self.note_schema();
        process.failed = process.all_groups_have_failed();
        let operations = &self.clients.history.operations;
        let answered: Vec<usize> =
            self.sent.keys().copied().filter(|number| operations[*number].told != Told::Nothing).collect();
        for number in answered {
            self.sent.remove(&number);
            self.heard(number);
            let operations = &self.clients.history.operations;
            if let Told::Done(Answer::Steps(steps)) = &operations[number].told {
                for (home, step) in steps {
                    let known = self.acknowledged.entry(*home).or_default();
                    *known = (*known).max(*step);
                }
            }
        }
    }

    /// What a process has not said it will not say.
    pub fn ended(&mut self, member: Member) {
        let lost: Vec<usize> =
            self.sent.iter().filter(|(_, (asked, _))| *asked == member).map(|(number, _)| *number).collect();
        for number in lost {
            self.sent.remove(&number);
            self.clients.answered(number, Told::Unknown);
            self.heard(number);
        }
    }

    fn heard(&mut self, number: usize) {
        let history = &mut self.clients.history;
        let next = history.operations.len();
        if let Some(detail) = self.pauses.heard(number, &mut history.operations[number], next) {
            history.violated("no write is executed while the database is paused", detail);
        }
    }

    /// Writes that were acknowledged.
    pub fn writes(&self) -> usize {
        let operations = &self.clients.history.operations;
        operations.iter().filter(|operation| matches!(operation.told, Told::Done(Answer::Steps(_)))).count()
    }

    /// Calls of several groups that were executed.
    pub fn over_groups(&self) -> u64 {
        let operations = &self.clients.history.operations;
        self.clients.over.iter().filter(|number| matches!(operations[**number].told, Told::Done(_))).count() as u64
    }

    /// Calls of which nothing is known, and those that no node took.
    pub fn not_executed(&self) -> usize {
        let operations = &self.clients.history.operations;
        let wanted = |told: &Told| match told {
            Told::Unknown => true,
            // What met a schema change is sent again.
            Told::Refused(words) => words != "sent back",
            _ => false,
        };
        operations.iter().filter(|operation| wanted(&operation.told)).count()
    }

    /// To be called whenever it may be another one.
    pub fn note_schema(&mut self) {
        let schema = &self.clients.history.schema;
        let version = schema.catalog.version.0;
        self.schemas.entry(version).or_insert_with(|| (schema.variant.clone(), Arc::clone(&schema.catalog)));
    }

    /// Nothing is left, the schema neither.
    pub fn begin_again(&mut self) {
        self.clients.history.schema = SchemaHistory::default();
        self.schemas.clear();
    }

    /// Where the end of the history is lost: its schema is the one that is there, if there was one.
    pub fn go_back_to(&mut self, state: &State) -> Result<(), String> {
        let version = state.version;
        let (variant, catalog) =
            self.schemas.get(&version).cloned().ok_or(format!("there was no version {version}"))?;
        self.schemas.retain(|known, _| *known <= version);
        self.clients.history.schema = SchemaHistory { seen: version, catalog, variant, outstanding: None };
        schema_rule::check(&self.clients.history, state)
    }

    /// What was replaced before the loss is at the end of what is left: nobody knew of it, and it
    /// was not there at an earlier check.
    pub fn may_come_back(&mut self) {
        let unknown = |operation: &&mut Operation| operation.told == Told::Unknown;
        self.clients.history.operations.iter_mut().filter(unknown).for_each(|operation| operation.absent = false);
    }

    /// One group has lost the end of its history, and others have not: of what concerned both, a
    /// part may be left. No rule expects the rest.
    pub fn note_what_is_torn(&mut self, state: &State) {
        let mut found: BTreeMap<usize, BTreeSet<i64>> = BTreeMap::new();
        for (home, marks) in &state.marks {
            for number in marks.values().filter(|number| self.clients.over.contains(number)) {
                found.entry(*number).or_default().insert(*home);
            }
        }
        for (number, homes) in found {
            let operation = &mut self.clients.history.operations[number];
            let all = operation.action.homes().unwrap_or_default().into_iter().collect::<BTreeSet<i64>>();
            // Its outcome may be lost, too, with all who knew that it was aborted.
            let is_aborted = matches!(operation.told, Told::Failed(_) | Told::Refused(_));
            if homes != all || is_aborted {
                (operation.torn, operation.told) = (homes != all, Told::Unknown);
            }
        }
    }

    /// What is not there any more was not acknowledged, as far as later rules are concerned; nor
    /// was anything read of it.
    pub fn forget_what_is_lost(&mut self) {
        (self.acknowledged, self.known) = (Steps::new(), BTreeMap::new());
        for operation in &mut self.clients.history.operations {
            let is_read = matches!(operation.action, Action::Look { .. } | Action::Both { .. } | Action::Cut);
            if matches!(operation.told, Told::Done(_)) && (is_read || operation.absent) {
                operation.told = Told::Unknown;
            }
        }
    }

    /// No schema changes until the next check.
    pub fn keep_the_schema(&mut self) {
        let schema = &mut self.clients.history.schema;
        if schema.outstanding.is_none() {
            let variant = schema.variant.clone();
            schema.outstanding = Some(Outstanding { variant, text: String::new(), told: None });
        }
    }
}
