//! The system thread: system procedures, and the compiling of ad hoc statements. Slow or hostile
//! SQL text holds up other system calls here, never a partition or a socket.

use crate::administration::Administration;
use crate::backup::Backups;
use crate::behind::Behind;
use crate::collect::Collector;
use crate::connection::{is_admin, public_id, trusted_elsewhere};
use crate::forward::Forward;
use crate::load::{self, Load};
use crate::mailbox::Mail;
use crate::message::{SnapshotJob, SystemJob, Told};
use crate::plan_cache::PlanCache;
use crate::route::{self, Route};
use crate::submit::Submit;
use crate::{adhoc, administration, backup, cluster, compiling, privilege, system_procedures};
use bumpalo::Bump;
use crossbeam_channel::{Receiver, Sender};
use ferrite_backup::request::is_own_snapshot;
use ferrite_base::{ErrorKind, NodeId, Settings, SqlLimits, UserError, UserResult, fault};
use ferrite_cluster::NotHandedOver;
use ferrite_notice::Notice;
use ferrite_partition::cancel::Cancellations;
use ferrite_partition::coordinator::Job;
use ferrite_partition::{AnswerBatch, Compiled, Event, ProgramCall, Reply, RowCounts, StoreSet};
use ferrite_sql::Parameterizer;
use ferrite_system::result::{SystemResult, SystemTable};
use ferrite_system::statistics::{self, Asker};
use ferrite_system::{Identity, Sources, explain, system_catalog, system_information, topology};
use ferrite_value::{Value, hash};
use ferrite_wire::Parameters;
use ferrite_wire::invocation::Invocation;
use ferrite_wire::response::{self, ResponseWriter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A parameter set on the wire: the count, 0.
const NO_PARAMETERS: &[u8] = &[0, 0];

/// What became of a call.
enum Handled {
    /// Another thread answers it.
    PassedOn,
    Tables(Vec<SystemTable>),
    /// With words beside them, as the status text.
    Told(Vec<SystemTable>, String),
}

/// What the thread uses of its node.
pub struct System {
    pub inbox: Receiver<SystemJob>,
    pub submit: Arc<Submit>,
    pub cancellations: Arc<Cancellations>,
    pub plan_cache: Arc<PlanCache>,
    /// How many rows the tables had not long ago, for the planner.
    pub row_counts: Arc<RowCounts>,
    pub collector: Collector,
    pub snapshots: Sender<SnapshotJob>,
    pub backups: Arc<Backups>,
    pub administration: Administration,
    pub identity: Arc<Identity>,
    pub settings: Settings,
    /// None: a server without others.
    pub forward: Option<Forward>,
    /// Likewise.
    pub cluster: Option<cluster::Handle>,
}

impl System {
    pub fn run(self) {
        let mut parameterizer = Parameterizer::default();
        loop {
            let (body, reply, mut parameterizer) = match self.inbox.recv() {
                Ok(SystemJob::Call { body, reply }) => (body, reply, Some(&mut parameterizer)),
                Ok(SystemJob::AsWritten { body, reply }) => (body, reply, None),
                Ok(SystemJob::Paused(reply)) => {
                    self.settle_pause(reply);
                    continue;
                }
                Ok(SystemJob::Stop) | Err(_) => break,
            };
            if self.cancellations.covers(reply.call()) {
                reply.refuse(&self.cancellations.error());
                continue;
            }
            // A fault in the compiler must not take the server down: nothing has been executed yet.
            let outcome = catch_unwind(AssertUnwindSafe(|| self.handle(&body, &reply, parameterizer.take())));
            let outcome = outcome.unwrap_or_else(|_| {
                fault::contain();
                Err(UserError::internal("internal error while compiling the statement; nothing was executed")
                    .with_hint("please report it, with the statement and the messages in the server's log"))
            });
            match outcome {
                Ok(Handled::PassedOn) => {}
                Ok(Handled::Tables(tables)) => self.tell(&body, &reply, &tables, ""),
                Ok(Handled::Told(tables, words)) => self.tell(&body, &reply, &tables, &words),
                Err(error) if is_of_schema(&body) => self.submit.refuse(&reply, &error),
                Err(error) => reply.refuse(&error),
            }
        }
    }

    fn tell(&self, body: &[u8], reply: &Reply, tables: &[SystemTable], words: &str) {
        let mut answers = AnswerBatch::default();
        write_tables(self.response(&mut answers.bytes, reply), tables, words);
        answers.finish_answer(reply.connection);
        match is_of_schema(body) {
            true => self.submit.tell(&reply.mailbox, answers),
            false => reply.mailbox.deliver(answers),
        }
    }

    /// With a `parameterizer`, plans are looked up and kept.
    fn handle(&self, body: &[u8], reply: &Reply, parameterizer: Option<&mut Parameterizer>) -> UserResult<Handled> {
        let arena = Bump::new();
        let malformed =
            |error: &dyn std::fmt::Display| UserError::parameters(format!("the call is malformed: {error}"));
        let invocation = Invocation::parse(body).map_err(|error| malformed(&error.reason))?;
        let compiled = self.submit.compiled.load_full();
        if !invocation.procedure.starts_with('@') {
            // It met a schema change on its way, or comes from a task.
            return self.submit.procedure(&invocation, &compiled, body, reply).map(|()| Handled::PassedOn);
        }
        let parameters = invocation.parameters.decode(&arena).map_err(|error| malformed(&error))?;
        let name = invocation.procedure;
        // Another node has let its clients' calls in by its own doors.
        if trusted_elsewhere(reply.connection).is_none() {
            privilege::permit(&self.identity, name, parameters.len(), is_admin(reply.connection))?;
        }
        let asker = Asker { connection: public_id(self.identity.host_id, reply.connection), bytes: body.len() };
        let tables: SystemResult = match name {
            "@AdHoc" | "@AdHocLarge" => {
                return self.ad_hoc(&invocation, parameters, &compiled, body, reply, parameterizer);
            }
            "@SystemCatalog" => system_catalog::system_catalog(&compiled, one_text(name, parameters)?),
            "@SystemInformation" => {
                let selector = if parameters.is_empty() { None } else { Some(one_text(name, parameters)?) };
                let safe = self.cluster.as_ref().is_none_or(cluster::Handle::has_all_copies);
                let sources = Sources { safe, ..self.collector.sources() };
                system_information::system_information(&sources, selector)
            }
            "@Statistics" => {
                let (selector, interval) = statistics_parameters(parameters)?;
                let tables = self.statistics(selector, interval, asker)?;
                return Ok(Handled::Told(tables, self.words_of_figures()));
            }
            "@QueryStats" => return self.query_statistics(one_text(name, parameters)?, asker, &compiled, body, reply),
            "@UpdateLogging" => {
                let (tables, words) = administration::update_logging(parameters)?;
                return tables.map(|tables| Handled::Told(tables, words));
            }
            "@LoadSinglepartitionTable" => return self.load(load::single(parameters)?, &compiled, body, reply),
            "@LoadMultipartitionTable" => return self.load(load::multi(parameters)?, &compiled, body, reply),
            "@AdHocSpForTest" => return self.ad_hoc_on_partition(&invocation, parameters, &compiled, body, reply),
            "@SwapTables" => return self.swap_tables(parameters, &compiled, reply),
            "@UpdateClasses" => return self.update_classes(parameters, reply),
            "@Quiesce" => return self.quiesce(reply),
            // What it asks is whether transactions run, on all partitions; while the server is
            // paused they do not.
            "@PingPartitions" => {
                administration::one_or_no_number(name, parameters)?;
                self.submit.mode.admit(false, is_admin(reply.connection))?;
                return self.quiesce(reply);
            }
            "@SnapshotSave" if is_own_snapshot(parameters) => return self.save_snapshot(reply),
            "@SnapshotSave" | "@SnapshotRestore" | "@SnapshotScan" | "@SnapshotDelete" => {
                return self.backup(name, parameters, reply);
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
            // Types of parameters come from the statement, so their values say nothing more.
            "@Explain" => {
                let text = one_text(name, &parameters[..parameters.len().min(1)])?;
                let counts = &*self.row_counts;
                let limits = &self.settings.sql;
                self.within(reply, || explain::explain(&compiled, counts, limits, text))
            }
            "@ExplainView" => explain::explain_view(&compiled, one_text(name, parameters)?),
            "@ExplainJSON" => {
                let text = one_text(name, parameters)?;
                let limits = &self.settings.sql;
                self.within(reply, || explain::explain_json(&compiled, limits, text))
            }
            // The original's is the schema in a form of its own; ours is the statements that make
            // it.
            "@ExplainCatalog" => explain::explain_catalog(&compiled, parameters.len()),
            "@ExplainProc" => explain::explain_procedure(&compiled, one_text(name, parameters)?),
            // Reached only when it was routed here by a network thread that does not know it: same
            // answer as there.
            "@Ping" => Ok(Vec::new()),
            "@SnapshotStatus" => self.statistics("SNAPSHOTSTATUS", false, asker),
            _ => administration::call(&self.administration, name, parameters),
        };
        tables.map(Handled::Tables)
    }

    fn ad_hoc(
        &self,
        invocation: &Invocation<'_>,
        parameters: &[Value<'_>],
        compiled: &Arc<Compiled>,
        body: &[u8],
        reply: &Reply,
        mut parameterizer: Option<&mut Parameterizer>,
    ) -> UserResult<Handled> {
        let Some(Value::Text(text)) = parameters.first() else {
            return Err(UserError::parameters("@AdHoc takes the SQL text as its first parameter"));
        };
        let rest = invocation.parameters.without_first().map_err(UserError::from)?;
        if let Some(parameterizer) = parameterizer.as_deref_mut()
            && self.with_cached_plan(parameterizer, text, &rest, compiled, body, reply).is_some()
        {
            return Ok(Handled::PassedOn);
        }
        let began = Instant::now();
        let limits = &self.settings.sql;
        let compilation =
            self.within(reply, || adhoc::compile(compiled, &*self.row_counts, limits, text, parameters.len() - 1));
        self.plan_cache.compiled_in(began.elapsed(), compilation.is_err());
        match compilation? {
            adhoc::Compilation::Schema { classes } => {
                if classes {
                    privilege::permit_classes(&self.identity, reply.connection)?;
                }
                self.submit.mode.admit(false, is_admin(reply.connection))?;
                self.change_schema((*text).to_owned(), self.settings.sql, reply);
            }
            adhoc::Compilation::Program(program) => {
                if let Some(parameterizer) = parameterizer {
                    self.plan_cache.met(compiled, &*self.row_counts, parameterizer, text, &program);
                }
                let route = self.submit.admit(&program, &Default::default(), &rest, reply)?;
                let mut bytes = Vec::new();
                rest.copy_to(&mut bytes);
                self.submit.program(program, bytes, compiled, route, body, reply, false)?;
            }
        }
        Ok(Handled::PassedOn)
    }

    /// `@AdHocSpForTest(sql, key, parameters...)`: a statement that sees one partition only, that
    /// of the key.
    fn ad_hoc_on_partition(
        &self,
        invocation: &Invocation<'_>,
        parameters: &[Value<'_>],
        compiled: &Arc<Compiled>,
        body: &[u8],
        reply: &Reply,
    ) -> UserResult<Handled> {
        let [Value::Text(text), key, rest @ ..] = parameters else {
            return Err(UserError::parameters(
                "@AdHocSpForTest takes the SQL text, a partitioning key, and parameters",
            ));
        };
        let limits = &self.settings.sql;
        let compilation = self.within(reply, || adhoc::compile(compiled, &*self.row_counts, limits, text, rest.len()));
        let adhoc::Compilation::Program(program) = compilation? else {
            return Err(UserError::syntax("schema changes cannot be made on one partition"));
        };
        self.submit.mode.admit(program.read_only, is_admin(reply.connection))?;
        let partition = route::partition_of_value(key, &self.submit.routes.ring)?;
        let given = invocation.parameters.without_first().and_then(|rest| rest.without_first())?;
        let mut bytes = Vec::new();
        given.copy_to(&mut bytes);
        let route = Route::Partition { partition, drop_first_parameter: false };
        self.submit.program(program, bytes, compiled, route, body, reply, false)?;
        Ok(Handled::PassedOn)
    }

    /// `@QueryStats(sql)`: a query over the tables that @Statistics answers, at this moment.
    fn query_statistics(
        &self,
        text: &str,
        asker: Asker,
        compiled: &Arc<Compiled>,
        body: &[u8],
        reply: &Reply,
    ) -> UserResult<Handled> {
        let program = self.within(reply, || {
            ferrite_system::query_statistics(&compiled.catalog, &self.settings.sql, text, |selector, interval| {
                self.statistics(selector, interval, asker)
            })
        })?;
        // The query's answer has no place for them.
        self.words_of_figures();
        let nothing = Parameters::parse(NO_PARAMETERS).expect("a count of none is well-formed");
        let route = self.submit.admit(&program, &Default::default(), &nothing, reply)?;
        self.submit.program(program, NO_PARAMETERS.to_vec(), compiled, route, body, reply, false)?;
        Ok(Handled::PassedOn)
    }

    fn statistics(&self, selector: &str, interval: bool, asker: Asker) -> SystemResult {
        statistics::statistics(&self.collector.sources(), &self.collector, selector, interval, asker)
    }

    /// What to report about the figures that were just collected.
    fn words_of_figures(&self) -> String {
        self.collector.take_words()
    }

    /// Compiles for a call.
    fn within<T>(&self, reply: &Reply, compile: impl FnOnce() -> UserResult<T>) -> UserResult<T> {
        compiling::within(&self.cancellations, self.submit.query_time_max, reply.call(), compile)
    }

    /// One that a client asks for, so within the time that is set.
    fn change_schema(&self, text: String, limits: SqlLimits, reply: &Reply) {
        let time_max = Some(Duration::from_secs(self.settings.schema_seconds));
        let job = Job::Schema { text, limits, time_max, reply: reply.clone() };
        self.submit.routes.to_coordinator(job).expect("the coordinator outlives the system thread");
    }

    /// The contents of two tables change places: a schema change, since it is the names that move.
    fn swap_tables(&self, parameters: &[Value<'_>], compiled: &Compiled, reply: &Reply) -> UserResult<Handled> {
        let [Value::Text(one), Value::Text(other)] = parameters else {
            return Err(UserError::parameters("@SwapTables takes the names of two tables"));
        };
        self.submit.mode.admit(false, is_admin(reply.connection))?;
        let name = |name: &str| {
            let tables = &compiled.catalog.tables;
            let found = tables.get(name).or_else(|| tables.get(&name.to_uppercase()));
            found.map(|table| table.name.replace('"', "\"\"")).ok_or_else(|| UserError::unknown_table(name))
        };
        let text = format!("SWAP TABLE \"{}\" WITH \"{}\"", name(one)?, name(other)?);
        self.change_schema(text, SqlLimits::CEILING, reply);
        Ok(Handled::PassedOn)
    }

    /// `@UpdateClasses(jar, patterns)`: what the patterns mean goes, then the jar's classes come.
    /// One schema change, refused as a whole when a procedure does not fit its class any more.
    fn update_classes(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        let (jar, patterns) = match parameters {
            [jar @ (Value::Bytes(_) | Value::Null)] => (jar, ""),
            [jar @ (Value::Bytes(_) | Value::Null), Value::Null] => (jar, ""),
            [jar @ (Value::Bytes(_) | Value::Null), Value::Text(patterns)] => (jar, *patterns),
            _ => {
                return Err(UserError::parameters(
                    "@UpdateClasses takes the bytes of a jar, or NULL, and patterns of class names to remove, or NULL",
                ));
            }
        };
        if patterns.contains(['\'', ';']) {
            return Err(UserError::parameters("a pattern of class names consists of names, dots, * and **"));
        }
        self.submit.mode.admit(false, is_admin(reply.connection))?;
        let mut text = String::new();
        if !patterns.trim().is_empty() {
            text.push_str(&format!("REMOVE CLASSES '{}';\n", patterns.trim()));
        }
        if let Value::Bytes(jar) = jar {
            text.push_str(&format!("LOAD CLASSES '{}';\n", ferrite_catalog::base64::encode(jar)));
        }
        if text.is_empty() {
            return Err(UserError::parameters("@UpdateClasses was given neither a jar nor patterns of class names"));
        }
        self.change_schema(text, SqlLimits::CEILING, reply);
        Ok(Handled::PassedOn)
    }

    /// One that holds as much as a call may be answered.
    fn response<'o>(&self, out: &'o mut Vec<u8>, reply: &Reply) -> ResponseWriter<'o> {
        ResponseWriter::begin(out, reply.handle).within(self.settings.result_bytes)
    }

    /// The answer comes when all that was taken before is executed and durable.
    fn quiesce(&self, reply: &Reply) -> UserResult<Handled> {
        self.submit
            .routes
            .to_coordinator(Job::Quiesce(reply.clone()))
            .expect("the coordinator outlives the system thread");
        Ok(Handled::PassedOn)
    }

    /// `@Pause` of a single server.
    fn pause(&self, reply: Reply) -> Handled {
        if self.submit.mode.pause(true) {
            ferrite_io::notify(Notice::Paused);
        }
        self.settle_pause(reply);
        Handled::PassedOn
    }

    /// The answer comes when all that was admitted before the pause is executed and durable: no
    /// client's write is acknowledged after it.
    fn settle_pause(&self, reply: Reply) {
        self.submit.mode.handed_over();
        let submit = Arc::clone(&self.submit);
        let behind = Behind::new(move || {
            // It has ended only when the server stops.
            let _ = submit.routes.to_coordinator(Job::Quiesce(reply));
        });
        self.collector.network.iter().for_each(|mailbox| mailbox.send(Mail::Behind(Arc::clone(&behind))));
        if let Some(forward) = &self.forward {
            forward.behind(behind);
        }
    }

    /// `@Pause`, `@Resume`: decided by the voters. The remaining work is done when this node leads
    /// by a state of the metadata that shows it.
    fn pause_cluster(&self, procedure: &str, paused: bool, reply: &Reply) -> UserResult<Handled> {
        let back = reply.clone();
        let submit = Arc::clone(&self.submit);
        let told = Box::new(move |outcome: UserResult<()>| match outcome {
            Ok(()) if paused => drop(submit.system.send(SystemJob::Paused(back))),
            Ok(()) => {
                submit.mode.cancel_stop();
                // This node's state of the metadata may be an old one: the answer comes when the
                // group has confirmed that it leads. It has ended only when the server stops.
                let _ = submit.routes.to_coordinator(Job::Quiesce(back));
            }
            Err(error) => back.refuse(&error),
        });
        self.order(procedure, cluster::Order::Pause(cluster::Pause { paused, told }))
    }

    /// The database's own snapshot; the answer comes when it is whole.
    fn save_snapshot(&self, reply: &Reply) -> UserResult<Handled> {
        let identity = Arc::clone(&self.identity);
        let to = reply.clone();
        let partitions = self.submit.routes.partition_count();
        let result_bytes = self.settings.result_bytes;
        let told: Told = Box::new(move |outcome| {
            let table = administration::snapshot_saved(&identity, partitions, outcome);
            answer(&to, |out| {
                let mut writer = ResponseWriter::begin(out, to.handle).within(result_bytes);
                if let Ok(saved) = outcome {
                    writer.status_text(&saved.notice().to_string());
                }
                match table.write(&mut writer) {
                    Ok(()) => writer.finish(),
                    Err(error) => writer.fail(&error),
                }
            });
        });
        let job = SnapshotJob::Save(Some(told));
        self.snapshots.send(job).expect("the snapshot thread outlives the system thread");
        Ok(Handled::PassedOn)
    }

    fn of_cluster(&self, name: &str) -> UserResult<&cluster::Handle> {
        let alone = || {
            let error = UserError::parameters(format!("{name}: this server is not part of a cluster"));
            error.with_hint("it has no other nodes; a restart with --cluster makes it one of several")
        };
        self.cluster.as_ref().ok_or_else(alone)
    }

    /// `@AcceptLoss(node)`: the node leads with what it has, since all nodes that have more are
    /// lost for good. The answer comes when it leads.
    fn accept_loss(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        let [Value::Integer(node)] = parameters else {
            return Err(UserError::parameters("@AcceptLoss takes the number of a node"));
        };
        let node = NodeId(u32::try_from(*node).unwrap_or(0));
        let told = answers(reply);
        self.order("@AcceptLoss", cluster::Order::AcceptLoss(cluster::AcceptLoss { node, told }))
    }

    /// `@RemoveNode(node)`: a lost node no longer belongs to the cluster. The answer comes when
    /// that is so.
    fn remove_node(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        let [Value::Integer(node)] = parameters else {
            return Err(UserError::parameters("@RemoveNode takes the number of a node"));
        };
        let node = NodeId(u32::try_from(*node).unwrap_or(0));
        let told = answers(reply);
        self.order("@RemoveNode", cluster::Order::RemoveNode(cluster::RemoveNode { node, told }))
    }

    fn order(&self, procedure: &str, order: cluster::Order) -> UserResult<Handled> {
        let gone = |_| UserError::new(ErrorKind::Unavailable, "57P03", "this node is shutting down");
        self.of_cluster(procedure)?.orders.send(order).map_err(gone)?;
        Ok(Handled::PassedOn)
    }

    /// `@TransferLead(node)`: another node leads from then on, this one or any. The answer comes
    /// when it does.
    fn transfer_lead(&self, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        let to = match parameters {
            [] | [Value::Null] => None,
            [Value::Integer(node)] => Some(NodeId(u32::try_from(*node).unwrap_or(0))),
            _ => return Err(UserError::parameters("@TransferLead takes the number of a node, or nothing")),
        };
        let cluster = self.of_cluster("@TransferLead")?;
        if let Some(reason) = to.and_then(|to| cluster.keeps_no_data(to)) {
            return Err(UserError::parameters(reason));
        }
        let tell = answers(reply);
        let told = Box::new(move |outcome: Result<NodeId, NotHandedOver>| {
            tell(outcome.map(|node| format!("node {node} leads")).map_err(|reason| reason.to_string()));
        });
        let order = cluster::HandOver { to, by_call: true, patience: None, told };
        self.order("@TransferLead", cluster::Order::HandOver(order))
    }

    /// Backups in directories that callers name.
    fn backup(&self, name: &str, parameters: &[Value<'_>], reply: &Reply) -> UserResult<Handled> {
        backup::call(&self.backups, name, parameters, reply)?;
        Ok(Handled::PassedOn)
    }

    /// Rows for one partition, or for a replicated table.
    fn load(&self, load: Load<'_>, compiled: &Arc<Compiled>, body: &[u8], reply: &Reply) -> UserResult<Handled> {
        self.submit.mode.admit(false, is_admin(reply.connection))?;
        let program = load.program(compiled)?;
        let job = SystemJob::Call { body: body.to_vec(), reply: reply.clone() };
        let system = self.submit.system.clone();
        let call = ProgramCall {
            turn: None,
            time_max: self.submit.time_of(body, reply),
            program,
            compiled: Arc::clone(compiled),
            parameters: load.rows.to_vec(),
            stores: StoreSet::All,
            reply: reply.clone(),
            retry: Some(Box::new(move |_| {
                let _ = system.send(job);
            })),
            load: true,
            recompile: None,
        };
        match load.key {
            Some(key) => {
                let partition = self.submit.routes.ring.partition_of_optional(key.map(hash::partition_token_bytes));
                let sent = self.submit.routes.to_partition(partition, Event::Program(Box::new(call)));
                sent.expect("partitions outlive the system thread");
            }
            None => {
                self.submit
                    .routes
                    .to_coordinator(Job::Calls(vec![call]))
                    .expect("the coordinator outlives the system thread");
            }
        }
        Ok(Handled::PassedOn)
    }

    /// Many texts of one shape may have come here before the first was compiled.
    fn with_cached_plan(
        &self,
        parameterizer: &mut Parameterizer,
        text: &str,
        given: &Parameters<'_>,
        compiled: &Arc<Compiled>,
        body: &[u8],
        reply: &Reply,
    ) -> Option<()> {
        let plan = self.plan_cache.find(compiled, parameterizer, text, given.count())?;
        let arena = Bump::new();
        let mut bytes = Vec::new();
        plan.write_parameters(parameterizer, text, given, &arena, &mut bytes)?;
        let parameters = Parameters::parse(&bytes).ok()?;
        // One that is refused gets its error when it is compiled.
        let route = self.submit.admit(&plan.program, &Default::default(), &parameters, reply).ok()?;
        self.submit.program(Arc::clone(&plan.program), bytes, compiled, route, body, reply, true).ok()
    }
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

/// For what an order to the node comes to.
fn answers(reply: &Reply) -> Box<dyn FnOnce(Result<String, String>) + Send> {
    let back = reply.clone();
    Box::new(move |outcome| {
        answer(&back, |out| match outcome {
            Ok(text) => {
                let mut writer = ResponseWriter::begin(out, back.handle);
                writer.status_text(&text);
                writer.status_table(0);
                writer.finish();
            }
            Err(text) => {
                response::write_error(out, back.handle, &UserError::new(ErrorKind::Unavailable, "57P03", text));
            }
        });
    })
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
