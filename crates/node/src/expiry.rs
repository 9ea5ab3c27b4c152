//! The expiry thread: deletes rows whose time to live has passed, by batches that are transactions
//! of their own and queue up with all others.
//!
//! It sleeps while no table has a time to live. It waits for a batch's answer before it sends the
//! next one, so that of one table there is never more than one batch in a partition's inbox. A
//! partition that answers late, since its store is lent, holds up neither the others nor other
//! tables' rounds. In a cluster it begins nothing in groups that its node does not lead, or
//! hands over. A table that several groups have is the business of the first group's leader.

mod in_groups;

use crate::message::ExpiryNotice;
use crate::mode::Mode;
use crate::routes::{RouteTable, Routes};
use crate::submit::Submit;
use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use ferrite_base::{PartitionId, TableId};
use ferrite_catalog::Table;
use ferrite_io::Clock;
use ferrite_member::forward::Forward;
use ferrite_partition::coordinator::Job;
use ferrite_partition::{AnswerBatch, Compiled, Event, Mailbox, ProgramCall, Reply, StoreSet};
use ferrite_plan::Program;
use ferrite_system::expired::{Figures, expiring};
use ferrite_value::{OwnedValue, SqlType};
use ferrite_wire::{Response, Status, frame};
use in_groups::{ALL_GROUPS, GroupsBatches};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What the thread uses of its node.
pub struct Handles {
    pub submit: Arc<Submit>,
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub routes: Arc<Routes>,
    pub mode: Arc<Mode>,
    /// None: a node without others.
    pub forward: Option<Forward>,
    pub figures: Arc<Figures>,
    pub clock: Arc<dyn Clock>,
    /// Rows that are to be migrated are dropped when their time is up; otherwise they are kept.
    pub drop_migrating: bool,
}

pub struct Expiry {
    node: Handles,
    inbox: Receiver<ExpiryNotice>,
    notices: Sender<ExpiryNotice>,
    /// When each table's next round begins.
    due: BTreeMap<TableId, u64>,
    rounds: BTreeMap<TableId, Round>,
    stopping: bool,
}

/// Takes the answers of a table's batches; the connection of each is its partition.
struct Answers {
    table: TableId,
    to: Sender<ExpiryNotice>,
}

/// What has expired at some time is being deleted.
struct Round {
    program: Arc<Program>,
    compiled: Arc<Compiled>,
    /// A batch with this many rows is followed by another.
    batch_size: u64,
    partitioned: bool,
    /// Of a table that several groups have.
    in_groups: Option<GroupsBatches>,
    answers: Arc<Answers>,
    /// Partitions with a batch.
    waiting: usize,
    failed: bool,
}

impl Mailbox for Answers {
    fn deliver(&self, answers: AnswerBatch) {
        let mut start = 0;
        for run in &answers.runs {
            let deleted = deleted_rows(&answers.bytes[start..run.end as usize]);
            start = run.end as usize;
            // The thread has ended only when the server stops.
            let _ = self.to.send(ExpiryNotice::Answered { table: self.table, partition: run.connection, deleted });
        }
    }
}

/// The count that a DELETE answers: one table of one row, a BIGINT, which the frame ends with.
fn deleted_rows(bytes: &[u8]) -> Option<u64> {
    let (_, body) = frame::split(bytes).ok()??;
    let response = Response::parse(body).ok()?;
    let count = body.last_chunk::<8>().map(|count| u64::from_be_bytes(*count));
    count.filter(|_| response.status_code == Status::Success.code())
}

impl Expiry {
    pub fn new(node: Handles, notices: (Sender<ExpiryNotice>, Receiver<ExpiryNotice>)) -> Expiry {
        let due = BTreeMap::new();
        let rounds = BTreeMap::new();
        Expiry { node, inbox: notices.1, notices: notices.0, due, rounds, stopping: false }
    }

    pub fn run(mut self) {
        while !self.stopping {
            let now = self.node.clock.monotonic_nanos();
            self.begin_rounds(now);
            // A table in its round is looked at when that has ended.
            let rests = self.due.iter().filter(|(table, _)| !self.rounds.contains_key(table));
            let told = match rests.map(|(_, at)| *at).min() {
                None => self.inbox.recv().map_err(RecvTimeoutError::from),
                Some(at) => self.inbox.recv_timeout(Duration::from_nanos(at.saturating_sub(now))),
            };
            match told {
                Ok(ExpiryNotice::Answered { table, partition, deleted }) => self.answered(table, partition, deleted),
                Ok(ExpiryNotice::Bounded { table, newest }) => self.bounded(table, newest),
                Ok(ExpiryNotice::CatalogChanged) | Err(RecvTimeoutError::Timeout) => {}
                Ok(ExpiryNotice::Stop) | Err(RecvTimeoutError::Disconnected) => self.stopping = true,
            }
        }
    }

    fn begin_rounds(&mut self, now: u64) {
        let compiled = self.node.compiled.load_full();
        let drop_migrating = self.node.drop_migrating;
        let tables: BTreeMap<TableId, &Arc<Table>> =
            expiring(&compiled.catalog, drop_migrating).map(|table| (table.id, table)).collect();
        self.due.retain(|table, _| tables.contains_key(table));
        self.node.figures.retain(|table| tables.contains_key(&table));
        for (id, table) in tables {
            let at = self.due.entry(id).or_insert(now);
            if *at > now || self.rounds.contains_key(&id) {
                continue;
            }
            let frequency = table.time_to_live.map_or(1, |time| time.max_frequency);
            *at = now + 1_000_000_000 / u64::from(frequency);
            self.begin(&compiled, table);
        }
    }

    /// Where the disk has no room for deletions, rows expire when it has; a copy's go with the
    /// leader's. `place`: of the group.
    fn may_begin(&self, table: &RouteTable, place: usize) -> bool {
        let is_away = |forward: &Forward| forward.is_away(table.id_of(place));
        !self.node.mode.is_disk_low() && !self.node.forward.as_ref().is_some_and(is_away)
    }

    /// The partitions of which this node deletes what has expired. A table that all partitions have
    /// is one for this purpose, the first group's leader's: its coordinator deletes from it, or,
    /// where there are several groups, all of them together.
    fn partitions(&self, partitioned: bool) -> Vec<u64> {
        let table = self.node.routes.table();
        let led = |partition: &PartitionId| self.may_begin(&table, table.group_of(*partition));
        match partitioned {
            true => table.hosted().filter(led).map(|partition| u64::from(partition.0)).collect(),
            false if self.may_begin(&table, 0) => vec![ALL_GROUPS],
            false => Vec::new(),
        }
    }

    /// Deletes what has expired by now: on every partition batch after batch, until one is not
    /// full.
    fn begin(&mut self, compiled: &Arc<Compiled>, table: &Table) {
        let Some(time) = table.time_to_live else { return };
        let is_timestamp = table.columns[usize::from(time.column)].column_type.sql_type == SqlType::Timestamp;
        let cutoff = time.cutoff(self.node.clock.wall_micros(), is_timestamp);
        let partitions = self.partitions(table.is_partitioned());
        if partitions.is_empty() {
            return;
        }
        self.node.figures.change(table.id, |expired| (expired.rows_last_round, expired.remaining) = (0, None));
        let in_groups = (!table.is_partitioned() && self.node.submit.has_several_groups()).then(|| {
            let cutoff = if is_timestamp { OwnedValue::Timestamp(cutoff) } else { OwnedValue::Integer(cutoff) };
            GroupsBatches::new(table, &time, cutoff)
        });
        let round = Round {
            in_groups,
            program: Arc::new(ferrite_sql::expire_program(table, &time, cutoff)),
            compiled: Arc::clone(compiled),
            batch_size: u64::from(time.batch_size),
            partitioned: table.is_partitioned(),
            answers: Arc::new(Answers { table: table.id, to: self.notices.clone() }),
            waiting: partitions.len(),
            failed: false,
        };
        partitions.into_iter().for_each(|partition| self.send_batch(&round, partition));
        self.rounds.insert(table.id, round);
    }

    fn send_batch(&self, round: &Round, partition: u64) {
        let answers = Arc::clone(&round.answers);
        let sent_micros = self.node.clock.wall_micros();
        if let Some(batches) = &round.in_groups {
            return batches.begin(&self.node.submit, &answers, sent_micros);
        }
        let reply = Reply { mailbox: answers.clone(), connection: partition, handle: 0, sent_micros };
        let call = Box::new(ProgramCall {
            turn: None,
            time_max: None,
            program: Arc::clone(&round.program),
            compiled: Arc::clone(&round.compiled),
            // None: a count of 0.
            parameters: vec![0; 2],
            reply,
            stores: StoreSet::All,
            load: false,
            // The next round goes by the schema then in force.
            retry: Some(Box::new(move |_| {
                let _ = answers.to.send(ExpiryNotice::Answered { table: answers.table, partition, deleted: None });
            })),
            recompile: None,
        });
        // Where it is not here any more, the round hears that as a batch that has failed.
        let _ = match round.partitioned {
            true => self.node.routes.to_partition(PartitionId(partition as u32), Event::Program(call)),
            false => self.node.routes.to_coordinator(Job::Calls(vec![*call])),
        };
    }

    /// A batch of a table that several groups have ends there.
    fn bounded(&mut self, table: TableId, newest: Option<Option<OwnedValue>>) {
        let newest = match newest {
            None => return self.answered(table, ALL_GROUPS, None),
            Some(None) => return self.answered(table, ALL_GROUPS, Some(0)),
            Some(Some(newest)) => newest,
        };
        let round = self.rounds.get(&table).expect("only batches of a round are bounded");
        let batches = round.in_groups.as_ref().expect("the table is in several groups");
        let version = round.compiled.catalog.version;
        batches.delete(&self.node.submit, version, &newest, &round.answers, self.node.clock.wall_micros());
    }

    fn answered(&mut self, table: TableId, partition: u64, deleted: Option<u64>) {
        let mut round = self.rounds.remove(&table).expect("only batches of a round are answered");
        round.failed |= deleted.is_none();
        if let Some(rows @ 1..) = deleted {
            let now = self.node.clock.wall_micros();
            self.node.figures.change(table, |expired| {
                expired.rows += rows;
                expired.rows_last_round += rows;
                expired.last_micros = Some(now);
            });
        }
        let is_full = deleted.is_some_and(|deleted| deleted >= round.batch_size);
        if is_full && self.partitions(round.partitioned).contains(&partition) {
            self.send_batch(&round, partition);
            self.rounds.insert(table, round);
            return;
        }
        // What is left of a partition is left to the next round.
        round.failed |= is_full;
        round.waiting -= 1;
        if round.waiting > 0 {
            self.rounds.insert(table, round);
        } else if !round.failed {
            self.node.figures.change(table, |expired| expired.remaining = Some(0));
        }
    }
}

#[cfg(test)]
mod tests;
