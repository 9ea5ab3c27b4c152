//! The system thread: system procedures, and the compiling of ad hoc statements. Slow or hostile
//! SQL text holds up other system calls here, never a partition or a socket.

mod ad_hoc;
mod all_groups;
mod group_snapshots;
mod orders;
mod pausing;
mod schema_changes;
mod stale;

use crate::administration::Administration;
use crate::backup::Backups;
use crate::collect::Collector;
use crate::connection::{is_admin, public_id, trusted_elsewhere};
use crate::groups_change::ChangeQueue;
use crate::load::{self, Load};
use crate::message::{SnapshotJob, SystemJob, look_up_again};
use crate::plan_cache::PlanCache;
use crate::route::Route;
use crate::submit::{RunsAt, Submit};
use crate::{administration, backup, privilege, system_procedures};
use bumpalo::Bump;
use crossbeam_channel::{Receiver, Sender};
use ferrite_backup::request::is_own_snapshot;
use ferrite_base::{ErrorKind, Settings, UserError, UserResult, fault};
use ferrite_member::Handle;
use ferrite_member::forward::Forward;
use ferrite_partition::cancel::GroupCancellations;
use ferrite_partition::coordinator::Job;
use ferrite_partition::{AnswerBatch, Compiled, Event, Reply, RowCounts, StoreSet};
use ferrite_plan::Program;
use ferrite_sql::Parameterizer;
use ferrite_system::result::{SystemResult, SystemTable};
use ferrite_system::statistics::{self, Asker};
use ferrite_system::{Identity, Sources, explain, system_catalog, system_information, topology};
use ferrite_value::{Value, hash};
use ferrite_wire::invocation::Invocation;
use ferrite_wire::response::ResponseWriter;
use stale::StaleCalls;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What became of a call.
enum Handled {
    /// Another thread answers it.
    PassedOn,
    Tables(Vec<SystemTable>),
    /// With words beside them, as the status text.
    TablesWithText(Vec<SystemTable>, String),
}

/// What the thread uses of its node.
pub struct System {
    pub inbox: Receiver<SystemJob>,
    pub submit: Arc<Submit>,
    /// Of the group that leads what no key names.
    pub cancellations: GroupCancellations,
    pub plan_cache: Arc<PlanCache>,
    /// How many rows the tables had not long ago, for the planner.
    pub row_counts: Arc<RowCounts>,
    pub collector: Collector,
    pub snapshots: Sender<SnapshotJob>,
    pub backups: Arc<Backups>,
    pub administration: Administration,
    pub identity: Arc<Identity>,
    pub settings: Settings,
    /// Schema changes of several groups.
    pub changes: Arc<ChangeQueue>,
    /// None: a server without others.
    pub forward: Option<Forward>,
    /// Likewise.
    pub cluster: Option<Handle>,
}

impl System {
    pub fn run(self) {
        let mut parameterizer = Parameterizer::default();
        let mut stale = StaleCalls::default();
        loop {
            let (body, reply, mut parameterizer) = match stale.next(&self.inbox) {
                Ok(SystemJob::Call { body, reply }) => (body, reply, Some(&mut parameterizer)),
                Ok(SystemJob::AsWritten { body, reply }) => (body, reply, None),
                // Another schema is in use here by now.
                Ok(SystemJob::Stale { body, reply, versions })
                    if !versions.is_group_behind() && self.submit.compiled.load().catalog.version != versions.used =>
                {
                    (body, reply, Some(&mut parameterizer))
                }
                Ok(SystemJob::Stale { body, reply, versions }) => {
                    stale.add(body, reply, versions);
                    continue;
                }
                Ok(SystemJob::Paused(group, reply)) => {
                    self.settle_pause(group, reply);
                    continue;
                }
                Ok(SystemJob::Passed(to)) => {
                    // The caller may have given up waiting.
                    let _ = to.send(());
                    continue;
                }
                Ok(SystemJob::Stop) | Err(_) => break,
            };
            if self.cancellations.covers(reply.call()) {
                reply.refuse(&self.cancellations.error());
                continue;
            }
            // A fault in the compiler must not take the server down: nothing has been executed yet.
            let compiled = self.submit.compiled.load_full();
            let handle = || self.handle(&compiled, &body, &reply, parameterizer.take());
            let outcome = catch_unwind(AssertUnwindSafe(handle));
            let outcome = outcome.unwrap_or_else(|_| {
                fault::contain();
                Err(UserError::internal("internal error while compiling the statement; nothing was executed")
                    .with_hint("please report it, with the statement and the messages in the server's log"))
            });
            match outcome {
                Ok(Handled::PassedOn) => {}
                Ok(Handled::Tables(tables)) => self.send_tables(&body, &reply, &tables, ""),
                Ok(Handled::TablesWithText(tables, words)) => self.send_tables(&body, &reply, &tables, &words),
                Err(error) if is_of_schema(&body) => self.submit.refuse_call(&compiled, &body, &reply, &error),
                Err(error) => reply.refuse(&error),
            }
        }
    }

    fn send_tables(&self, body: &[u8], reply: &Reply, tables: &[SystemTable], words: &str) {
        let mut answers = AnswerBatch::default();
        write_tables(self.response(&mut answers.bytes, reply), tables, words);
        answers.finish_answer(reply.connection);
        match is_of_schema(body) {
            true => self.submit.answer(reply, answers),
            false => reply.mailbox.deliver(answers),
        }
    }

    /// With a `parameterizer`, plans are looked up and kept.
    fn handle(
        &self,
        compiled: &Arc<Compiled>,
        body: &[u8],
        reply: &Reply,
        parameterizer: Option<&mut Parameterizer>,
    ) -> UserResult<Handled> {
        let arena = Bump::new();
        let malformed =
            |error: &dyn std::fmt::Display| UserError::parameters(format!("the call is malformed: {error}"));
        let invocation = Invocation::parse(body).map_err(|error| malformed(&error.reason))?;
        if !invocation.procedure.starts_with('@') {
            // It met a schema change on its way, or comes from a task.
            return self.submit.procedure(&invocation, compiled, body, reply).map(|()| Handled::PassedOn);
        }
        let parameters = invocation.parameters.decode(&arena).map_err(|error| malformed(&error))?;
        let name = invocation.procedure;
        // Another node has let its clients' calls in by its own doors.
        if trusted_elsewhere(reply.connection).is_none() {
            privilege::permit(&self.identity, name, parameters.len(), is_admin(reply.connection))?;
        }
        match name {
            "@AdHoc" | "@AdHocLarge" => self.ad_hoc(&invocation, parameters, compiled, body, reply, parameterizer),
            "@AdHocSpForTest" => self.ad_hoc_on_partition(&invocation, parameters, compiled, body, reply),
            _ => match self.submit.first_elsewhere().filter(|_| is_of_first_group(name, reply)) {
                // It came before this node ceased to lead the first group, or from a compound
                // procedure.
                Some(group) => {
                    let trusted = privilege::is_trusted(&self.identity, reply.connection);
                    self.submit.pass_on(group, body, trusted, reply).map(|()| Handled::PassedOn)
                }
                None => self.call(name, parameters, compiled, body, reply),
            },
        }
    }

    /// A system procedure that is no statement.
    fn call(
        &self,
        name: &str,
        parameters: &[Value<'_>],
        compiled: &Arc<Compiled>,
        body: &[u8],
        reply: &Reply,
    ) -> UserResult<Handled> {
        let asker = Asker { connection: public_id(self.identity.host_id, reply.connection), bytes: body.len() };
        let tables: SystemResult = match name {
            "@SystemCatalog" => system_catalog::system_catalog(compiled, one_text(name, parameters)?),
            "@SystemInformation" => {
                let selector = if parameters.is_empty() { None } else { Some(one_text(name, parameters)?) };
                let safe = self.cluster.as_ref().is_none_or(Handle::has_all_copies);
                let sources = Sources { safe, ..self.collector.sources() };
                system_information::system_information(&sources, selector)
            }
            "@Statistics" => {
                let (selector, interval) = statistics_parameters(parameters)?;
                let tables = self.statistics(selector, interval, asker)?;
                return Ok(Handled::TablesWithText(tables, self.words_of_figures()));
            }
            "@QueryStats" => return self.query_statistics(one_text(name, parameters)?, asker, compiled, body, reply),
            "@UpdateLogging" => return update_logging(parameters),
            "@LoadSinglepartitionTable" => return self.load(load::single(parameters)?, compiled, body, reply),
            "@LoadMultipartitionTable" => return self.load(load::multi(parameters)?, compiled, body, reply),
            "@SwapTables" => return self.swap_tables(parameters, compiled, reply),
            "@UpdateClasses" => return self.update_classes(parameters, reply),
            "@FollowSchema" => return self.follow_schema(parameters, reply),
            "@QuiesceGroup" => return self.quiesce_group(parameters, reply),
            "@Quiesce" => return self.quiesce(reply),
            // What it asks is whether transactions run, on all partitions; while the server is
            // paused they do not.
            "@PingPartitions" => return self.ping_partitions(name, parameters, reply),
            "@SnapshotSave" if is_own_snapshot(parameters) => return self.save_snapshot(reply),
            "@SnapshotSave" | "@SnapshotRestore" | "@SnapshotScan" | "@SnapshotDelete" => {
                return self.backup(name, parameters, reply);
            }
            "@BackupFiles" | "@BackupGroup" | "@BackupsOfNode" | "@RestoreGroup" => {
                return self.part_of_backup(name, parameters, body, reply);
            }
            "@Pause" | "@Resume" if self.cluster.is_some() => {
                administration::none(name, parameters)?;
                return self.pause_cluster(name, name == "@Pause", reply);
            }
            "@Pause" => {
                administration::none(name, parameters)?;
                return Ok(self.pause(reply.clone()));
            }
            "@AcceptLoss" => return self.accept_loss(parameters, reply),
            "@ClusterStatus" => {
                administration::none(name, parameters)?;
                Ok(self.of_cluster(name)?.status())
            }
            "@RemoveNode" => return self.remove_node(parameters, reply),
            "@TransferLead" => return self.transfer_lead(parameters, reply),
            "@GetPartitionKeys" => topology::partition_keys(&self.submit.routes.ring, one_text(name, parameters)?),
            "@Explain" | "@ExplainView" | "@ExplainJSON" | "@ExplainCatalog" | "@ExplainProc" => {
                self.explain(name, parameters, compiled, reply)
            }
            // Reached only when it was routed here by a network thread that does not know it: same
            // answer as there.
            "@Ping" => Ok(Vec::new()),
            "@SnapshotGroup" => return self.snapshot_group(parameters, reply),
            "@SnapshotStatus" if self.submit.has_several_groups() => return Ok(self.status_of_all_groups(reply)),
            "@SnapshotStatus" => self.statistics("SNAPSHOTSTATUS", false, asker),
            _ => administration::call(&self.administration, name, parameters),
        };
        tables.map(Handled::Tables)
    }

    /// How a statement, a view, a procedure or the schema looks to the server.
    fn explain(&self, name: &str, parameters: &[Value<'_>], compiled: &Arc<Compiled>, reply: &Reply) -> SystemResult {
        match name {
            // Types of parameters come from the statement, so their values say nothing more.
            "@Explain" => {
                let text = one_text(name, &parameters[..parameters.len().min(1)])?;
                let counts = &*self.row_counts;
                let limits = &self.settings.sql;
                self.within(reply, || explain::explain(compiled, counts, limits, text))
            }
            "@ExplainView" => explain::explain_view(compiled, one_text(name, parameters)?),
            "@ExplainJSON" => {
                let text = one_text(name, parameters)?;
                let limits = &self.settings.sql;
                self.within(reply, || explain::explain_json(compiled, limits, text))
            }
            // The original's is the schema in a form of its own; ours is the statements that make
            // it.
            "@ExplainCatalog" => explain::explain_catalog(compiled, parameters.len()),
            _ => explain::explain_procedure(compiled, one_text(name, parameters)?),
        }
    }

    fn statistics(&self, selector: &str, interval: bool, asker: Asker) -> SystemResult {
        statistics::statistics(&self.collector.sources(), &self.collector, selector, interval, asker)
    }

    /// What to report about the figures that were just collected.
    fn words_of_figures(&self) -> String {
        self.collector.take_words()
    }

    /// One that holds as much as a call may be answered.
    fn response<'o>(&self, out: &'o mut Vec<u8>, reply: &Reply) -> ResponseWriter<'o> {
        ResponseWriter::begin(out, reply.handle).within(self.settings.result_bytes)
    }

    fn ping_partitions(&self, name: &str, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        administration::one_or_no_number(name, parameters)?;
        self.submit.mode.admit(false, is_admin(reply.connection))?;
        self.quiesce(reply)
    }

    /// The answer comes when all that was taken before is executed and durable.
    fn quiesce(&self, reply: &Reply) -> UserResult<Handled> {
        if self.submit.has_several_groups() {
            all_groups::quiesce(&self.submit, 0, reply);
            return Ok(Handled::PassedOn);
        }
        // One that is not here has answered.
        let _ = self.submit.routes.to_coordinator(Job::Quiesce(reply.clone()));
        Ok(Handled::PassedOn)
    }

    /// Backups in directories that callers name.
    fn backup(&self, name: &str, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        let several = self.submit.has_several_groups();
        match name {
            "@SnapshotRestore" if several => {
                backup::restore_in_groups::restore(&self.backups, &self.submit, &self.changes, parameters, reply)?;
            }
            "@SnapshotSave" if several => backup::in_groups::save(&self.backups, &self.submit, parameters, reply)?,
            "@SnapshotScan" if several => {
                let hosts = self.collector.topology.hosts();
                backup::on_all_nodes::scan(&self.backups, &self.submit, &hosts, parameters, reply)?;
            }
            "@SnapshotDelete" if several => {
                let hosts = self.collector.topology.hosts();
                backup::on_all_nodes::delete(&self.backups, &self.submit, &hosts, parameters, reply)?;
            }
            _ => backup::call(&self.backups, name, parameters, reply)?,
        }
        Ok(Handled::PassedOn)
    }

    /// What nodes ask each other for backups of several groups.
    fn part_of_backup(&self, name: &str, parameters: &[Value<'_>], body: &[u8], reply: &Reply) -> UserResult<Handled> {
        all_groups::check_is_of_node(name, reply)?;
        match name {
            backup::in_groups::OF_GROUP => backup::in_groups::part(&self.backups, &self.submit, parameters, reply)?,
            backup::on_all_nodes::OF_NODE => backup::on_all_nodes::serve(&self.backups, parameters, reply)?,
            backup::files_of_nodes::OF_FILES => backup::files_of_nodes::serve(&self.backups, parameters, reply)?,
            _ => backup::partition_loads::load(&self.submit, parameters, body, reply)?,
        }
        Ok(Handled::PassedOn)
    }

    /// Rows for one partition, or for a replicated table.
    fn load(&self, load: Load<'_>, compiled: &Arc<Compiled>, body: &[u8], reply: &Reply) -> UserResult<Handled> {
        let program = load.program(compiled)?;
        let of_key = |key: Option<&[u8]>| {
            let partition = self.submit.routes.ring.partition_of_optional(key.map(hash::partition_token_bytes));
            Route::Partition { partition, drop_first_parameter: false }
        };
        let route = load.key.map_or(Route::Multi(StoreSet::All), of_key);
        let route = match self.submit.place(route, reply) {
            RunsAt::Here(route) => route,
            RunsAt::At(group) => {
                let trusted = privilege::is_trusted(&self.identity, reply.connection);
                return self.submit.pass_on(group, body, trusted, reply).map(|()| Handled::PassedOn);
            }
            RunsAt::InGroups(_) => return self.load_in_groups(&program, load.rows, compiled, body, reply),
        };
        self.submit.mode.admit(false, is_admin(reply.connection))?;
        let time_max = self.submit.time_of(body, reply);
        let retry = look_up_again(&self.submit.system, compiled, body, reply);
        let call =
            load::program_call(program, Arc::clone(compiled), load.rows.to_vec(), time_max, reply.clone(), retry);
        // One that is not here has answered.
        let _ = match route {
            Route::Partition { partition, .. } => {
                self.submit.routes.to_partition(partition, Event::Program(Box::new(call)))
            }
            Route::Multi(_) | Route::Compound => self.submit.routes.to_coordinator(Job::Calls(vec![call])),
        };
        Ok(Handled::PassedOn)
    }

    /// Into a table that all groups have, in one transaction.
    fn load_in_groups(
        &self,
        program: &Program,
        rows: &[u8],
        compiled: &Compiled,
        body: &[u8],
        reply: &Reply,
    ) -> UserResult<Handled> {
        self.submit.mode.admit(false, is_admin(reply.connection))?;
        let job = SystemJob::Call { body: body.to_vec(), reply: reply.clone() };
        let system = self.submit.system.clone();
        let time_max = self.submit.time_of(body, reply);
        // The system thread has ended only when the server stops.
        let again = Box::new(move || drop(system.send(job)));
        self.submit.groups_calls.load(program, compiled, rows, time_max, reply.clone(), again);
        Ok(Handled::PassedOn)
    }
}

fn update_logging(parameters: &[Value<'_>]) -> UserResult<Handled> {
    let (tables, words) = administration::update_logging(parameters)?;
    tables.map(|tables| Handled::TablesWithText(tables, words))
}

/// `words`: the status text; empty for none.
fn write_tables(mut writer: ResponseWriter<'_>, tables: &[SystemTable], words: &str) {
    if !words.is_empty() {
        writer.status_text(words);
    }
    for table in tables {
        if let Err(error) = table.write(&mut writer) {
            return writer.fail(&error);
        }
    }
    writer.finish();
}

/// Whether the answer to a call follows from the schema, so that the leader has to give it.
fn is_of_schema(body: &[u8]) -> bool {
    Invocation::parse(body).is_ok_and(|invocation| system_procedures::is_for_leader(invocation.procedure))
}

/// Whether the node that leads the first group answers a call of this node's clients.
fn is_of_first_group(name: &str, reply: &Reply) -> bool {
    let is_own = trusted_elsewhere(reply.connection).is_none();
    is_own && system_procedures::is_for_leader(name) && !system_procedures::finds_its_partition(name)
}

fn answer(reply: &Reply, write: impl FnOnce(&mut Vec<u8>)) {
    let mut answers = AnswerBatch::default();
    write(&mut answers.bytes);
    answers.finish_answer(reply.connection);
    reply.mailbox.deliver(answers);
}

fn one_text<'v>(procedure: &str, parameters: &[Value<'v>]) -> UserResult<&'v str> {
    match parameters {
        [Value::Text(text)] => Ok(text),
        [_] => Err(UserError::parameters(format!("{procedure} takes a string"))),
        _ => Err(ferrite_wire::failure::parameter_count(procedure, 1, parameters.len())),
    }
}

fn statistics_parameters<'v>(parameters: &[Value<'v>]) -> UserResult<(&'v str, bool)> {
    match parameters {
        [Value::Text(selector)] => Ok((selector, false)),
        [Value::Text(selector), Value::Integer(interval)] => Ok((selector, *interval == 1)),
        [] => Err(UserError::new(
            ErrorKind::Parameters,
            "07001",
            "@Statistics takes a selector and, if wanted, 1 for the time since the last such call",
        )),
        _ => Err(UserError::parameters("@Statistics takes a string and an integer")),
    }
}
