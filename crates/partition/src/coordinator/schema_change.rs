//! Schema changes: bound and compiled, carried out on all stores, logged, and published when they
//! are committed.
//!
//! The wait for the commit is a state and not a pause: in a cluster it is a round trip to other
//! nodes, and may end with this one not being the leader any more.

use super::{Borrowed, Coordinator, StorePosition, put_back, take};
use crate::answer::AnswerBatch;
use crate::commit::{Completion, Parties};
use crate::compiled::Compiled;
use crate::contain::{Outside, contained};
use crate::event::{Reply, StoreSet};
use crate::record;
use crate::schema;
use crate::schema_time::SchemaTime;
use crate::task_check;
use crossbeam_channel::{Receiver, bounded};
use ferrite_base::{Sequence, SqlLimits, TableId, UserResult};
use ferrite_exec::Marks;
use ferrite_group::{EntryBuffer, NotCommitted};
use ferrite_table::{SchemaUndo, Store};
use ferrite_wire::response;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A schema change that the stores have followed and the log was given.
pub(super) struct Changing {
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
    told: Receiver<Result<(), NotCommitted>>,
}

impl Changing {
    /// What became of it.
    fn outcome(&self) -> Result<(), NotCommitted> {
        self.told.recv().expect("the log completes every append")
    }

    pub fn is_known(&self) -> bool {
        !self.told.is_empty()
    }
}

impl Coordinator {
    pub(super) fn run_schema(&mut self, text: &str, limits: &SqlLimits, time_max: Option<Duration>, reply: Reply) {
        if let Some(error) = self.refusal() {
            return reply.refuse(&error);
        }
        if self.long_reads.cancellations().covers(reply.call()) {
            return reply.refuse(&self.long_reads.cancellations().error());
        }
        let time = SchemaTime::begin(&self.clock, time_max, self.long_reads.cancellations(), reply.call());
        match self.change_schema(text, limits, &time, time_max.is_some(), &reply) {
            Ok(changing) => self.changing = Some(changing),
            Err(error) => {
                let mut answers = AnswerBatch::default();
                response::write_error(&mut answers.bytes, reply.handle, &error);
                answers.finish_answer(reply.connection);
                self.gate.hold(reply.mailbox, answers);
            }
        }
    }

    /// The new schema is bound and compiled before any store is touched; then the stores follow,
    /// then the log, and then the world. The stores stay here until the change is durable: answers
    /// that a partition gives under the new schema wait for the partition's own records only, and
    /// must not tell of a schema that a crash takes back.
    ///
    /// `schema_time` may end it up to the moment when all stores have followed; then stores and
    /// catalog are as before, and the log has nothing of it.
    fn change_schema(
        &mut self,
        text: &str,
        limits: &SqlLimits,
        schema_time: &Rc<SchemaTime>,
        of_client: bool,
        reply: &Reply,
    ) -> UserResult<Changing> {
        let watcher = schema_time.watcher();
        // Nothing is changed yet: a fault of the compiler ends the statement and not the server.
        let (planned, classes, compiled) = contained(
            &mut [],
            |_| Marks::new(),
            &Outside::default(),
            "a schema change",
            |_| {
                let planned = watcher.watch(|| schema::plan_within(&self.compiled.catalog, text, limits))?;
                watcher.watch(|| ferrite_sql::check_views(&self.compiled.catalog, &planned.catalog))?;
                let classes = schema::judge_classes(&self.compiled.catalog, &planned.catalog)?;
                let compiled = Arc::new(watcher.watch(|| self.compiled.next(Arc::clone(&planned.catalog)))?);
                if of_client {
                    task_check::check(&self.compiled, &compiled)?;
                }
                Ok((planned, classes, compiled))
            },
        )?;
        schema_time.ask()?;
        let mut borrowed = schema_time.waiting(|| self.borrow(&vec![true; self.partitions.len()]));
        let mut stores: Vec<Store> = Vec::with_capacity(borrowed.len());
        let mut positions: Vec<StorePosition> = Vec::with_capacity(borrowed.len());
        take(&mut borrowed, &StoreSet::All, &mut stores, &mut positions);
        let time = self.clock.wall_micros();
        let applied = schema::apply_watched(&mut stores, &planned, time, &watcher);
        let rows = (!planned.swapped.is_empty()).then(|| rows_of(&stores, &planned.swapped));
        put_back(&mut borrowed, &mut stores, &mut positions);
        let undo = match applied {
            Ok(undo) => undo,
            Err(error) => {
                self.give_back(borrowed);
                return Err(error);
            }
        };
        self.ticket = Sequence(self.ticket.0 + 1);
        self.gate.appended(self.ticket);
        let mut records = EntryBuffer::default();
        let text = schema::logged_text(&self.compiled.catalog, text);
        record::write_schema(records.records(), compiled.catalog.version.0, time, &text);
        let (tell, told) = bounded(1);
        let parties = Parties::Waiting(Arc::clone(&self.gate), self.ticket, tell);
        self.log.append(records, Completion { parties, buffers: None });
        classes.iter().for_each(|warning| ferrite_io::errln!("ferrite: warning: {warning}"));
        let warnings = planned.warnings.into_iter().chain(classes).collect();
        Ok(Changing { borrowed, compiled, time, text, warnings, rows, reply: reply.clone(), undo, told })
    }

    /// Its outcome is known: committed, or the log has failed and nothing more is executed, or this
    /// node was deposed, and what follows it is for another leader to say.
    pub(super) fn schema_changed(&mut self, changing: Changing) {
        let outcome = changing.outcome();
        let Changing { mut borrowed, compiled, time, text, warnings, rows, reply, undo, .. } = changing;
        match outcome {
            Ok(()) | Err(NotCommitted::Log(_)) => {
                self.history.add(compiled.catalog.version.0, time, &text);
                self.counters.catalog_changes(&self.compiled);
                self.compiled = Arc::clone(&compiled);
                if self.gate.failure().is_none() {
                    (self.publish)(compiled);
                }
            }
            Err(NotCommitted::Deposed) => {
                let (mut stores, mut positions) = (Vec::new(), Vec::new());
                take(&mut borrowed, &StoreSet::All, &mut stores, &mut positions);
                undo.take_back(&mut stores);
                put_back(&mut borrowed, &mut stores, &mut positions);
            }
        }
        self.give_back(borrowed);
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
        self.gate.hold(reply.mailbox, answers);
    }
}

/// Rows of the tables; those of a replicated one count once.
fn rows_of(stores: &[Store], tables: &[TableId]) -> i64 {
    let rows = |table: &TableId| {
        let parts = stores.iter().map(|store| store.table(*table));
        let replicated = parts.clone().next().is_some_and(|part| !part.definition().is_partitioned());
        parts.take(if replicated { 1 } else { stores.len() }).map(|part| part.row_count()).sum::<u64>()
    };
    tables.iter().map(rows).sum::<u64>() as i64
}
