//! Schema changes: bound and compiled, carried out on all stores, logged, and published when they
//! are committed.
//!
//! The wait for the commit is a state and not a pause: in a cluster it is a round trip to other
//! nodes, and may end with this one not being the leader any more.

use super::Coordinator;
use super::lending::{Borrowed, with_stores};
use crate::answer::AnswerBatch;
use crate::commit::{Completion, Parties};
use crate::compiled::Compiled;
use crate::contain::{Outside, contained};
use crate::event::Reply;
use crate::procedures_of_groups;
use crate::record;
use crate::schema::{self, Planned};
use crate::schema_of_groups::check_rows_stay;
use crate::schema_time::SchemaTime;
use crate::task_check;
use crossbeam_channel::{Receiver, bounded};
use ferrite_base::{ErrorKind, Sequence, SqlLimits, TableId, UserError, UserResult, planted};
use ferrite_exec::Marks;
use ferrite_group::{EntryBuffer, NotCommitted};
use ferrite_notice::Notice;
use ferrite_table::{SchemaUndo, Store};
use ferrite_wire::response;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A schema change that waits.
pub(super) enum Changing {
    /// In a cluster, until all that was executed earlier is committed: a later step back would have
    /// to step back over the change.
    Settling(Box<Settling>),
    /// Until it is committed itself.
    Made(Box<Made>),
}

/// One that is bound and compiled: possible, as far as it does not depend on rows.
pub(super) struct Checked {
    pub planned: Planned,
    /// What the operator is to know of its classes and procedures.
    pub remarks: Vec<String>,
    pub compiled: Arc<Compiled>,
    /// As it will be logged.
    pub text: String,
}

/// The same with the stores, of which none has followed yet.
struct Prepared {
    /// All of them.
    borrowed: Borrowed,
    checked: Checked,
}

pub(super) struct Settling {
    prepared: Prepared,
    time_max: Option<Duration>,
    /// Nanoseconds that it has taken so far.
    taken: u64,
    reply: Reply,
    told: CommitReceiver,
}

/// One that the stores have followed and the log was given.
pub(super) struct Made {
    /// All of them, as they are after the change.
    borrowed: Borrowed,
    compiled: Arc<Compiled>,
    time: i64,
    /// As it was logged.
    text: String,
    warnings: Vec<String>,
    /// Rows of tables that were swapped.
    rows: Option<i64>,
    reply: Reply,
    undo: SchemaUndo,
    told: CommitReceiver,
}

/// What becomes of an append.
type CommitReceiver = Receiver<Result<(), NotCommitted>>;

impl Changing {
    pub fn is_known(&self) -> bool {
        match self {
            Changing::Settling(settling) => !settling.told.is_empty(),
            Changing::Made(made) => !made.told.is_empty() || planted!(SchemaAnsweredEarly),
        }
    }
}

fn outcome(told: &CommitReceiver) -> Result<(), NotCommitted> {
    if planted!(SchemaAnsweredEarly) {
        return told.try_recv().unwrap_or(Ok(()));
    }
    told.recv().expect("the log completes every append")
}

impl Coordinator {
    pub(super) fn run_schema(&mut self, text: &str, limits: &SqlLimits, time_max: Option<Duration>, reply: Reply) {
        if self.is_refused(&reply) {
            return;
        }
        if let Err(error) = self.require_equal() {
            return reply.refuse(&error);
        }
        let time = SchemaTime::begin(&self.clock, time_max, self.long_reads.cancellations(), reply.call());
        let prepared = self.prepare(text, limits, &time, time_max.is_some());
        self.begin_change(prepared, time_max, &time, reply);
    }

    /// Makes a change that another group of the database has made, if it is the next one here. All
    /// groups make the same changes, in the same order.
    pub(super) fn follow_schema(&mut self, version: u64, text: &str, reply: Reply) {
        if self.is_refused(&reply) {
            return;
        }
        let own = self.compiled.catalog.version.0;
        if version != own + 1 {
            return self.gate.hold(Arc::clone(&reply.mailbox), has_version(&reply, own, None));
        }
        let time = SchemaTime::begin(&self.clock, None, self.long_reads.cancellations(), reply.call());
        let prepared = self.prepare_logged(text, &time);
        self.begin_change(prepared, None, &time, reply);
    }

    /// Says which version the group has, and the change to another one, for a group that lacks it.
    pub(super) fn tell_change(&mut self, version: u64, reply: &Reply) {
        if self.is_refused(reply) {
            return;
        }
        let change = self.history.change(version);
        let text = change.as_ref().map(|change| change.text.as_str());
        let answer = has_version(reply, self.compiled.catalog.version.0, text);
        self.gate.hold(Arc::clone(&reply.mailbox), answer);
    }

    fn is_refused(&self, reply: &Reply) -> bool {
        let cancellations = self.long_reads.cancellations();
        let cancelled = || cancellations.covers(reply.call()).then(|| cancellations.error());
        let error = self.refusal().or_else(cancelled);
        error.iter().for_each(|error| reply.refuse(error));
        error.is_some()
    }

    fn begin_change(
        &mut self,
        prepared: UserResult<Prepared>,
        time_max: Option<Duration>,
        time: &Rc<SchemaTime>,
        reply: Reply,
    ) {
        match prepared {
            Err(error) => self.refuse_change(reply, &error),
            Ok(prepared) if self.steps_back => {
                let (tell, told) = bounded(1);
                let parties = Parties::Asking(tell);
                self.log.append(EntryBuffer::default(), Completion { parties, buffers: None });
                let settling = Settling { prepared, time_max, taken: time.elapsed(), reply, told };
                self.changing = Some(Changing::Settling(Box::new(settling)));
            }
            Ok(prepared) => self.change_schema(prepared, time, reply),
        }
    }

    fn refuse_change(&self, reply: Reply, error: &UserError) {
        let mut answers = AnswerBatch::default();
        response::write_error(&mut answers.bytes, reply.handle, error);
        answers.finish_answer(reply.connection);
        self.gate.hold(reply.mailbox, answers);
    }

    /// Waits for what it waits for, and does what comes then.
    pub(super) fn go_on_changing(&mut self, changing: Changing) {
        match changing {
            Changing::Settling(settling) => self.settled(*settling),
            Changing::Made(made) => self.schema_changed(*made),
        }
    }

    /// What was executed before it is committed, or nothing will be known of that: then the change
    /// has not begun.
    fn settled(&mut self, settling: Settling) {
        let Settling { mut prepared, time_max, taken, reply, told } = settling;
        let outcome = outcome(&told);
        let is_at_rest = self.are_committed(&mut prepared.borrowed);
        // Another leader may have committed what this one only wrote.
        let reason = outcome.err().or((!is_at_rest).then_some(NotCommitted::Deposed));
        if let Some(reason) = reason {
            self.give_back(prepared.borrowed);
            return reply.refuse(&reason.unavailable());
        }
        let cancellations = self.long_reads.cancellations();
        let time = SchemaTime::resume(&self.clock, time_max, cancellations, reply.call(), taken);
        self.change_schema(prepared, &time, reply);
    }

    /// Whether all that these stores show is committed. They are all stores, and no undo crosses a
    /// change of the schema.
    pub(super) fn are_committed(&self, borrowed: &mut Borrowed) -> bool {
        let gates = self.partitions.iter().map(|partition| partition.gate.commit());
        borrowed.iter_mut().flatten().zip(gates).all(|((store, position), commit)| {
            store.committed(commit);
            commit == position.sequence
        })
    }

    /// The new schema is bound and compiled before any store is touched.
    ///
    /// `schema_time` may end it up to the moment when all stores have followed; then stores and
    /// catalog are as before, and the log has nothing of it.
    fn prepare(
        &mut self,
        text: &str,
        limits: &SqlLimits,
        schema_time: &Rc<SchemaTime>,
        of_client: bool,
    ) -> UserResult<Prepared> {
        let checked = self.check(text, limits, schema_time, of_client)?;
        let borrowed = schema_time.waiting(|| self.borrow(&vec![true; self.partitions.len()]));
        if self.lots.is_some()
            && let Err(error) = self.check_rows(&borrowed, &checked)
        {
            self.give_back(borrowed);
            return Err(error);
        }
        Ok(Prepared { borrowed, checked })
    }

    /// Of a group of several: its rows would be rows of other groups after the change.
    pub(super) fn check_rows(&self, borrowed: &Borrowed, checked: &Checked) -> UserResult<()> {
        let is_empty = |id| borrowed.iter().flatten().all(|(store, _)| store.table(id).row_count() == 0);
        check_rows_stay(&self.compiled.catalog, &checked.planned, is_empty)
    }

    pub(super) fn check(
        &self,
        text: &str,
        limits: &SqlLimits,
        schema_time: &Rc<SchemaTime>,
        of_client: bool,
    ) -> UserResult<Checked> {
        let watcher = schema_time.watcher();
        // Nothing is changed yet: a fault of the compiler ends the statement and not the server.
        let (planned, remarks, compiled) = contained(
            &mut [],
            |_| Marks::new(),
            &Outside::default(),
            "a schema change",
            |_| {
                let planned = watcher.watch(|| schema::plan_within(&self.compiled.catalog, text, limits))?;
                watcher.watch(|| ferrite_sql::check_views(&self.compiled.catalog, &planned.catalog))?;
                let mut remarks = schema::judge_classes(&self.compiled.catalog, &planned.catalog)?;
                let compiled = Arc::new(watcher.watch(|| self.compiled.next(Arc::clone(&planned.catalog)))?);
                if self.lots.is_some() {
                    remarks.extend(procedures_of_groups::warnings(&self.compiled, &compiled));
                }
                if of_client {
                    task_check::check(&self.compiled, &compiled)?;
                }
                Ok((planned, remarks, compiled))
            },
        )?;
        schema_time.ask()?;
        let text = schema::logged_text(&self.compiled.catalog, text);
        Ok(Checked { planned, remarks, compiled, text })
    }

    /// The same of a change that was accepted elsewhere, by its logged text.
    fn prepare_logged(&mut self, text: &str, schema_time: &Rc<SchemaTime>) -> UserResult<Prepared> {
        let checked = self.check_logged(text)?;
        let borrowed = schema_time.waiting(|| self.borrow(&vec![true; self.partitions.len()]));
        Ok(Prepared { borrowed, checked })
    }

    pub(super) fn check_logged(&self, text: &str) -> UserResult<Checked> {
        let (planned, compiled) = contained(
            &mut [],
            |_| Marks::new(),
            &Outside::default(),
            "a schema change",
            |_| {
                let planned = schema::plan(&self.compiled.catalog, text)?;
                let compiled = Arc::new(self.compiled.accepted(Arc::clone(&planned.catalog))?);
                Ok((planned, compiled))
            },
        )?;
        Ok(Checked { planned, remarks: Vec::new(), compiled, text: text.to_owned() })
    }

    /// The stores follow, then the log, and then the world. The stores stay here until the change
    /// is committed: answers that a partition gives under the new schema wait for the partition's
    /// own records only, and must not reveal a schema that a crash takes back.
    fn change_schema(&mut self, prepared: Prepared, schema_time: &Rc<SchemaTime>, reply: Reply) {
        let Prepared { mut borrowed, checked: Checked { planned, remarks, compiled, text } } = prepared;
        let time = self.log.transaction_time(self.clock.wall_micros());
        let applied = with_stores(&mut borrowed, |stores| {
            let rows = swapped_rows(stores, &planned, true);
            let undo = schema::apply_watched(stores, &planned, time, &schema_time.watcher())?;
            Ok((undo, rows))
        });
        let (undo, rows) = match applied {
            Ok(made) => made,
            Err(error) => {
                self.give_back(borrowed);
                return self.refuse_change(reply, &error);
            }
        };
        remarks.iter().cloned().for_each(|warning| ferrite_io::notify(Notice::SchemaWarning { warning }));
        let warnings: Vec<String> = planned.warnings.into_iter().chain(remarks).collect();
        if self.unlogged.as_ref().is_some_and(|without| without.unlogged.is_behind()) {
            let answers = changed(&reply, &warnings, rows);
            return self.change_without_log(borrowed, compiled, time, &text, (reply, answers));
        }
        self.ticket = Sequence(self.ticket.0 + 1);
        self.gate.appended(self.ticket);
        let mut records = EntryBuffer::default();
        record::write_schema(records.records(), compiled.catalog.version.0, time, &text);
        let (tell, told) = bounded(1);
        let parties = Parties::Waiting(Arc::clone(&self.gate), self.ticket, tell);
        self.log.append(records, Completion { parties, buffers: None });
        if planted!(SchemaPublishedEarly) {
            (self.publish)(Arc::clone(&compiled));
        }
        let made = Made { borrowed, compiled, time, text, warnings, rows, reply, undo, told };
        self.changing = Some(Changing::Made(Box::new(made)));
    }

    /// Its outcome is known: committed, or the log has failed and nothing more is executed, or this
    /// node was deposed, and what follows it is for another leader to say.
    fn schema_changed(&mut self, made: Made) {
        let Made { mut borrowed, compiled, time, text, warnings, rows, reply, undo, told } = made;
        match outcome(&told) {
            Ok(()) | Err(NotCommitted::Log(_)) => self.adopt(compiled, time, &text),
            Err(NotCommitted::Deposed) => with_stores(&mut borrowed, |stores| undo.take_back(stores)),
        }
        self.give_back(borrowed);
        let answers = changed(&reply, &warnings, rows);
        if planted!(SchemaAnsweredEarly) {
            return reply.mailbox.deliver(answers);
        }
        self.gate.hold_appended(reply.mailbox, answers);
    }

    /// Adds the change to the history and publishes the new schema.
    pub(super) fn adopt(&mut self, compiled: Arc<Compiled>, time: i64, text: &str) {
        self.history.add(compiled.catalog.version.0, time, text);
        self.counters.catalog_changes(&self.compiled);
        self.lot_texts.clear();
        self.checked = None;
        self.compiled = Arc::clone(&compiled);
        if self.gate.failure().is_none() {
            (self.publish)(compiled);
        }
    }

    /// Durability memory, and the log does not lead to what the stores hold: a record of the change
    /// would follow changes that are missing. It is answered when a snapshot shows it. Calls
    /// use the new schema meanwhile: what they do is not durable either.
    fn change_without_log(
        &mut self,
        borrowed: Borrowed,
        compiled: Arc<Compiled>,
        time: i64,
        text: &str,
        (reply, answers): (Reply, AnswerBatch),
    ) {
        self.adopt(compiled, time, text);
        self.give_back(borrowed);
        let without = self.unlogged.as_ref().expect("it has no log");
        without.unlogged.note();
        let gate = Arc::clone(&self.gate);
        (without.save)(Box::new(move |outcome| match outcome {
            Ok(()) => {
                if let Some(failure) = gate.failure() {
                    gate.given_up(&NotCommitted::Log(failure.clone()));
                }
                gate.hold(reply.mailbox, answers);
            }
            Err(reason) => reply.refuse(&not_durable(reason)),
        }));
    }
}

/// The answer to a schema change that was made.
fn changed(reply: &Reply, warnings: &[String], rows: Option<i64>) -> AnswerBatch {
    let mut answers = AnswerBatch::default();
    let mut writer = response::ResponseWriter::begin(&mut answers.bytes, reply.handle);
    if !warnings.is_empty() {
        writer.status_text(&warnings.join("\n"));
    }
    match rows {
        Some(rows) => writer.modified_tuples(rows),
        None => writer.status_table(0),
    }
    writer.finish();
    answers.finish_answer(reply.connection);
    answers
}

/// The answer of a group to which a change is not the next one, or that is asked for one.
fn has_version(reply: &Reply, version: u64, text: Option<&str>) -> AnswerBatch {
    let mut answers = AnswerBatch::default();
    let mut writer = response::ResponseWriter::begin(&mut answers.bytes, reply.handle);
    text.into_iter().for_each(|text| writer.status_text(text));
    writer.status_table(-1 - version as i64);
    writer.finish();
    answers.finish_answer(reply.connection);
    answers
}

/// What version a group has that was told to follow to `version`, by the number that it answers.
pub fn followed(version: u64, answer: i64) -> u64 {
    if answer < 0 { (-1 - answer) as u64 } else { version }
}

/// The schema was changed in memory, and no snapshot shows it.
#[cold]
fn not_durable(reason: &str) -> UserError {
    let text = format!("the schema was changed, but the snapshot that would keep the change was not taken: {reason}");
    UserError::new(ErrorKind::OutcomeUnknown, "08007", text).with_hint(
        "the change is in force until the server stops; @SnapshotSave without parameters tries again to keep it",
    )
}

/// Rows of the tables that a change swaps, before it is made: it may drop one of them, too. Those
/// of a replicated table count once, where this is the first of the groups. None: it swaps none.
pub(super) fn swapped_rows(stores: &[Store], planned: &Planned, is_first: bool) -> Option<i64> {
    let rows = |table: &TableId| {
        let parts = stores.iter().filter_map(|store| store.find_table(*table));
        let replicated = parts.clone().next().is_some_and(|part| !part.definition().is_partitioned());
        let counted = if replicated { usize::from(is_first) } else { stores.len() };
        parts.take(counted).map(|part| part.row_count()).sum::<u64>()
    };
    let is_swap = !planned.swapped.is_empty();
    is_swap.then(|| planned.swapped.iter().map(rows).sum::<u64>() as i64)
}
