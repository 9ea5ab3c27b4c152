//! The expiry thread: deletes rows whose time to live has passed, by batches that are transactions
//! of their own and queue up with all others.
//!
//! It sleeps while no table has a time to live. It waits for a batch's answer before it sends the
//! next one, so that it never has more than one batch in a partition's inbox.

use crate::message::ExpiryNotice;
use crate::mode::Mode;
use crate::routes::Routes;
use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use ferrite_base::{PartitionId, TableId};
use ferrite_catalog::Table;
use ferrite_io::Clock;
use ferrite_partition::coordinator::Job;
use ferrite_partition::{AnswerBatch, Compiled, Event, Mailbox, ProgramCall, Reply, StoreSet};
use ferrite_system::expired::{Figures, expiring};
use ferrite_value::SqlType;
use ferrite_wire::{Response, Status, frame};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What the thread uses of its node.
pub struct Handles {
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub routes: Arc<Routes>,
    pub mode: Arc<Mode>,
    pub figures: Arc<Figures>,
    pub clock: Arc<dyn Clock>,
    /// Rows that are to be migrated are dropped when their time is up; otherwise they are kept.
    pub drop_migrating: bool,
}

pub struct Expiry {
    node: Handles,
    inbox: Receiver<ExpiryNotice>,
    answers: Arc<Answers>,
    stopping: bool,
}

/// Takes the answers of batches; the connection of each is its partition.
struct Answers(Sender<ExpiryNotice>);

impl Mailbox for Answers {
    fn deliver(&self, answers: AnswerBatch) {
        let mut start = 0;
        for run in &answers.runs {
            let deleted = deleted_rows(&answers.bytes[start..run.end as usize]);
            start = run.end as usize;
            // The thread has ended only when the server stops.
            let _ = self.0.send(ExpiryNotice::Answered { partition: run.connection, deleted });
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
        Expiry { node, inbox: notices.1, answers: Arc::new(Answers(notices.0)), stopping: false }
    }

    pub fn run(mut self) {
        // When each table's next round begins.
        let mut due: BTreeMap<TableId, u64> = BTreeMap::new();
        let drop_migrating = self.node.drop_migrating;
        while !self.stopping {
            let compiled = self.node.compiled.load_full();
            let now = self.node.clock.monotonic_nanos();
            let expires =
                |table: &TableId| expiring(&compiled.catalog, drop_migrating).any(|expiring| expiring.id == *table);
            due.retain(|table, _| expires(table));
            self.node.figures.retain(|table| expires(&table));
            for table in expiring(&compiled.catalog, drop_migrating) {
                due.entry(table.id).or_insert(now);
            }
            let Some((table, moment)) = due.iter().min_by_key(|(_, moment)| **moment).map(|(id, at)| (*id, *at)) else {
                let told = self.inbox.recv();
                self.stopping |= !matches!(told, Ok(ExpiryNotice::CatalogChanged | ExpiryNotice::Answered { .. }));
                continue;
            };
            if moment > now {
                match self.inbox.recv_timeout(Duration::from_nanos(moment - now)) {
                    Ok(ExpiryNotice::Stop) | Err(RecvTimeoutError::Disconnected) => self.stopping = true,
                    Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                }
                continue;
            }
            let definition = compiled.catalog.table(table).expect("kept only if it is there");
            let frequency = definition.time_to_live.map_or(1, |time| time.max_frequency);
            // Where the disk has no room for deletions, rows expire when it has.
            if !self.node.mode.is_disk_low() {
                self.round(&compiled, definition);
            }
            due.insert(table, now + 1_000_000_000 / u64::from(frequency));
        }
    }

    /// Deletes what has expired by now: on every partition batch after batch, until one is not
    /// full.
    fn round(&mut self, compiled: &Arc<Compiled>, table: &Table) {
        let Some(time) = table.time_to_live else { return };
        let is_timestamp = table.columns[usize::from(time.column)].column_type.sql_type == SqlType::Timestamp;
        let cutoff = time.cutoff(self.node.clock.wall_micros(), is_timestamp);
        let program = Arc::new(ferrite_sql::expire_program(table, &time, cutoff));
        let partitions = if table.is_partitioned() { self.node.routes.partition_count() as u64 } else { 1 };
        let mut unfinished: Vec<u64> = (0..partitions).collect();
        let figures = &self.node.figures;
        figures.change(table.id, |expired| (expired.rows_last_round, expired.remaining) = (0, None));
        let mut failed = false;
        while !unfinished.is_empty() && !self.stopping {
            for partition in &unfinished {
                let answers: Arc<Answers> = Arc::clone(&self.answers);
                let sent_micros = self.node.clock.wall_micros();
                let reply = Reply { mailbox: answers.clone(), connection: *partition, handle: 0, sent_micros };
                let number = *partition;
                let call = Box::new(ProgramCall {
                    turn: None,
                    time_max: None,
                    program: Arc::clone(&program),
                    compiled: Arc::clone(compiled),
                    // None: a count of 0.
                    parameters: vec![0; 2],
                    reply,
                    stores: StoreSet::All,
                    load: false,
                    // The next round goes by the schema then in force.
                    retry: Some(Box::new(move |_| {
                        let _ = answers.0.send(ExpiryNotice::Answered { partition: number, deleted: None });
                    })),
                    recompile: None,
                });
                if table.is_partitioned() {
                    let id = PartitionId(*partition as u32);
                    let sent = self.node.routes.to_partition(id, Event::Program(call));
                    sent.expect("partitions outlive the expiry thread");
                } else {
                    let sent = self.node.routes.to_coordinator(Job::Calls(vec![*call]));
                    sent.expect("the coordinator outlives the expiry thread");
                }
            }
            let mut waiting = unfinished.len();
            unfinished.clear();
            while waiting > 0 {
                match self.inbox.recv() {
                    Ok(ExpiryNotice::Answered { partition, deleted }) => {
                        waiting -= 1;
                        failed |= deleted.is_none();
                        if let Some(rows @ 1..) = deleted {
                            let now = self.node.clock.wall_micros();
                            figures.change(table.id, |expired| {
                                expired.rows += rows;
                                expired.rows_last_round += rows;
                                expired.last_micros = Some(now);
                            });
                        }
                        if deleted.is_some_and(|deleted| deleted >= u64::from(time.batch_size)) {
                            unfinished.push(partition);
                        }
                    }
                    Ok(ExpiryNotice::CatalogChanged) => {}
                    Ok(ExpiryNotice::Stop) | Err(_) => self.stopping = true,
                }
            }
        }
        if !failed && !self.stopping {
            figures.change(table.id, |expired| expired.remaining = Some(0));
        }
    }
}
