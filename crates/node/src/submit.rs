//! Calls that do not come in a network thread's batch: looked up, admitted, routed and handed over
//! one by one.

use crate::admission::{self, Request};
use crate::calls_elsewhere::CallsElsewhere;
use crate::compound::Compounds;
use crate::connection::{is_admin, is_of_compound, of_compound, trusted_elsewhere};
use crate::group_schemas::GroupSchemas;
use crate::groups_calls::GroupsCalls;
use crate::message::{SystemJob, look_up_again};
use crate::mode::Mode;
use crate::route::{AnyOf, Route};
use crate::routes::Routes;
use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use ferrite_base::{GroupId, PartitionId, UserError, UserResult};
use ferrite_group::FIRST_GROUP;
use ferrite_member::forward::{self, Forward};
use ferrite_partition::coordinator::Job;
use ferrite_partition::gate::Gate;
use ferrite_partition::{AnswerBatch, Compiled, Event, MailboxHandle, ProgramCall, Reply, StoreSet};
use ferrite_plan::Program;
use ferrite_value::Value;
use ferrite_wire::frame as wire_frame;
use ferrite_wire::invocation::Invocation;
use ferrite_wire::{Extensions, Parameters, RequestWriter};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The way that such calls take.
pub struct Submit {
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub schemas: Arc<GroupSchemas>,
    pub mode: Arc<Mode>,
    pub routes: Arc<Routes>,
    pub system: Sender<SystemJob>,
    pub compounds: Arc<Compounds>,
    /// How long one call may execute.
    pub query_time_max: Duration,
    /// The coordinator's gate, of a node of a cluster: answers about the schema wait there until it
    /// is known that this node led when they were made.
    pub gates: OnceLock<Vec<(GroupId, Arc<Gate>)>>,
    /// None: a node without others.
    pub forward: Option<Forward>,
    pub elsewhere: Arc<CallsElsewhere>,
    pub groups_calls: GroupsCalls,
}

/// Where a call runs that is not part of a batch.
#[derive(Debug)]
pub enum RunsAt {
    Here(Route),
    /// At the node that leads this group.
    At(GroupId),
    /// In partitions of several groups, which this node's sequencer orders.
    InGroups(StoreSet),
}

impl Submit {
    /// Answers with what the schema in force says, once it is known that this node led the first
    /// group then.
    pub fn answer(&self, reply: &Reply, answers: AnswerBatch) {
        if self.has_several_groups() && !self.leads_first(true) {
            return reply.refuse(&leads_first_no_longer());
        }
        let of_first = |gates: &'_ Vec<(GroupId, Arc<Gate>)>| {
            let found = gates.iter().find(|(group, _)| *group == FIRST_GROUP);
            found.map(|(_, gate)| Arc::clone(gate))
        };
        match self.gates.get().and_then(of_first) {
            Some(gate) => gate.hold(Arc::clone(&reply.mailbox), answers),
            None => reply.mailbox.deliver(answers),
        }
    }

    pub fn has_several_groups(&self) -> bool {
        self.routes.table().group_count() > 1
    }

    /// Whether this node leads the first group, and hands it over to no other; with `handing_over`
    /// until another leads it.
    pub fn leads_first(&self, handing_over: bool) -> bool {
        self.forward.as_ref().is_none_or(|forward| forward.leads(FIRST_GROUP, handing_over))
    }

    /// A call as a client would send it. After an error it was not handed over.
    pub fn frame(&self, frame: &[u8], reply: &Reply) -> UserResult<()> {
        let malformed = || UserError::parameters("the call is malformed");
        let (_, body) = wire_frame::split(frame).ok().flatten().ok_or_else(malformed)?;
        let invocation = Invocation::parse(body).map_err(|_| malformed())?;
        if invocation.procedure.starts_with('@') {
            // The system thread has ended only when the server stops; then no client waits for the
            // answer.
            let _ = self.system.send(SystemJob::Call { body: body.to_vec(), reply: reply.clone() });
            return Ok(());
        }
        let compiled = self.compiled.load_full();
        if let Err(error) = self.procedure(&invocation, &compiled, body, reply) {
            self.refuse_call(&compiled, body, reply, &error);
        }
        Ok(())
    }

    /// How long a call may execute by its own wish (wire-protocol 3.3). None: as long as any. Only
    /// administrators may have a call take longer than the server's limit.
    #[cold]
    pub fn time_asked(&self, extensions: &Extensions, admin: bool) -> Option<Duration> {
        let asked = u64::try_from(extensions.batch_timeout_ms?).ok().filter(|asked| *asked > 0)?;
        let asked = Duration::from_millis(asked);
        (admin || asked < self.query_time_max).then_some(asked)
    }

    /// The same of a call by its frame's body.
    pub fn time_of(&self, body: &[u8], reply: &Reply) -> Option<Duration> {
        let invocation = Invocation::parse(body).ok()?;
        self.time_asked(&invocation.extensions, is_admin(reply.connection))
    }

    /// Where a call of that program runs: [`admission::admit`], or another node's, where that leads
    /// the partition's group.
    pub fn admit(
        &self,
        program: &Program,
        extensions: &Extensions,
        parameters: &Parameters<'_>,
        reply: &Reply,
    ) -> UserResult<RunsAt> {
        let admin = is_admin(reply.connection);
        let spread = reply.handle as u32;
        let table = self.routes.table();
        let request = |any| Request { extensions, parameters, admin, any };
        let forward = self.forward.as_ref().filter(|_| table.group_count() > 1);
        let Some(forward) = forward else {
            let admitted = admission::admit(&self.mode, &self.routes.ring, program, &request(AnyOf::All(spread)));
            return admitted.map(RunsAt::Here);
        };
        let is_here = |partition: &PartitionId| forward.leads(table.id_of(table.group_of(*partition)), false);
        let local: Vec<PartitionId> = table.hosted().filter(is_here).collect();
        let any = if local.is_empty() { AnyOf::All(spread) } else { AnyOf::These(&local, spread) };
        let route = admission::route(&self.routes.ring, program, &request(any))?;
        let place = self.place(route, reply);
        if !matches!(place, RunsAt::At(_)) {
            self.mode.admit(program.read_only, admin)?;
        }
        Ok(place)
    }

    /// Where that route leads. A call that has come from another node is executed until a hand-over
    /// is done, as those of batches are: it cannot wait here for the next leader.
    pub fn place(&self, route: Route, reply: &Reply) -> RunsAt {
        let table = self.routes.table();
        let is_of_other_node = trusted_elsewhere(reply.connection).is_some();
        let leads = |forward: &Forward, group| forward.leads(group, is_of_other_node);
        let is_away = |group: &GroupId| self.forward.as_ref().is_some_and(|forward| !leads(forward, *group));
        let group = match &route {
            _ if table.group_count() == 1 => None,
            Route::Partition { partition, .. } => Some(table.group_of(*partition)),
            Route::Multi(stores) => match table.group_of_all(stores) {
                Some(group) => Some(group),
                // The leader of the first group has the sequencer.
                None if is_away(&FIRST_GROUP) => return RunsAt::At(FIRST_GROUP),
                None => return RunsAt::InGroups(stores.clone()),
            },
            Route::Compound => None,
        };
        group.map(|group| table.id_of(group)).filter(is_away).map_or(RunsAt::Here(route), RunsAt::At)
    }

    /// Where there are several groups: the first one, if another node leads it.
    pub fn first_elsewhere(&self) -> Option<GroupId> {
        (self.has_several_groups() && !self.leads_first(false)).then_some(FIRST_GROUP)
    }

    /// Passes a call on to the node that leads the group, which answers it. `trusted`: the caller
    /// may run code and touch files.
    ///
    /// # Errors
    /// It has come from another node: no call goes further than to one.
    pub fn pass_on(&self, group: GroupId, body: &[u8], trusted: bool, reply: &Reply) -> UserResult<()> {
        let forward = self.forward.as_ref().expect("a node without others has all groups");
        if trusted_elsewhere(reply.connection).is_some() {
            return Err(UserError::not_started("another node leads the partition").with_hint("call again"));
        }
        let Reply { connection, sent_micros, .. } = *reply;
        let (mailbox, handle, bytes): (MailboxHandle, _, _) = if is_of_compound(connection) {
            let (handle, bytes) = self.elsewhere.begin(body, reply);
            (Arc::<CallsElsewhere>::clone(&self.elsewhere), handle, bytes)
        } else {
            (Arc::clone(&reply.mailbox), reply.handle, body.to_vec())
        };
        let call = forward::Call { connection, handle, trusted, start: 0, end: bytes.len() as u32 };
        forward.submit_one(group, forward::Batch { mailbox, calls: vec![call], bytes, sent_micros });
        Ok(())
    }

    /// Calls the node that leads the group by a procedure that only nodes call, with the group and
    /// these parameters. One answer comes into the mailbox.
    pub fn call_leader(
        &self,
        procedure: &str,
        group: GroupId,
        parameters: &[Value<'_>],
        mailbox: MailboxHandle,
        sent_micros: i64,
    ) {
        let handle = i64::from(group.0);
        let part = Reply { mailbox, connection: of_compound(true), handle, sent_micros };
        let mut bytes = Vec::new();
        let mut call = RequestWriter::begin(&mut bytes, procedure, handle);
        call.parameter(&handle);
        for parameter in parameters {
            call.parameter(parameter);
        }
        let sent = match call.finish() {
            Ok(()) => self.pass_on(group, &bytes[wire_frame::LENGTH_BYTES..], true, &part),
            Err(error) => Err(UserError::parameters(format!("{procedure}: {error}"))),
        };
        if let Err(error) = sent {
            part.refuse(&error);
        }
    }

    /// A procedure's call, `body` being its frame without the length.
    pub fn procedure(
        &self,
        invocation: &Invocation<'_>,
        compiled: &Arc<Compiled>,
        body: &[u8],
        reply: &Reply,
    ) -> UserResult<()> {
        let called = compiled.program(admission::find(compiled, invocation.procedure)?);
        // Until it is handed over.
        let _hands_on = self.mode.hands_on();
        let parameters = &invocation.parameters;
        let place = self.admit(called, &invocation.extensions, parameters, reply)?;
        let mut bytes = Vec::new();
        match place {
            // The partition's key, which a directed procedure does not take.
            RunsAt::Here(Route::Partition { drop_first_parameter: true, .. }) => parameters
                .without_first()
                .map_err(|_| ferrite_wire::failure::parameter_count(&called.name, called.parameters.len(), 0))?
                .copy_to(&mut bytes),
            _ => parameters.copy_to(&mut bytes),
        }
        self.program(Arc::clone(called), bytes, compiled, place, body, reply, false)
    }

    /// A call of partitions of several groups, which this node orders.
    #[cold]
    pub fn in_groups(
        &self,
        program: &Program,
        compiled: &Arc<Compiled>,
        stores: StoreSet,
        body: &[u8],
        reply: Reply,
    ) -> UserResult<()> {
        let job = SystemJob::Call { body: body.to_vec(), reply: reply.clone() };
        let system = self.system.clone();
        // The system thread has ended only when the server stops.
        let again = Box::new(move || drop(system.send(job)));
        let time_max = self.time_of(body, &reply);
        self.groups_calls.submit(program, compiled, stores, body, time_max, reply, again)
    }

    /// `cached`: the program is one for many texts.
    #[allow(clippy::too_many_arguments, reason = "what a call is, once for each way in")]
    pub fn program(
        &self,
        program: Arc<Program>,
        parameters: Vec<u8>,
        compiled: &Arc<Compiled>,
        place: RunsAt,
        body: &[u8],
        reply: &Reply,
        cached: bool,
    ) -> UserResult<()> {
        let route = match place {
            RunsAt::Here(route) => route,
            RunsAt::At(group) => return self.pass_on(group, body, false, reply),
            RunsAt::InGroups(stores) => return self.in_groups(&program, compiled, stores, body, reply.clone()),
        };
        if route == Route::Compound {
            if is_of_compound(reply.connection) {
                // It is about the caller, which only this node knows: another one would begin it.
                reply.refuse(&called_by_compound(&program));
                return Ok(());
            }
            self.compounds.begin(&program, parameters, reply.clone());
            return Ok(());
        }
        let as_written = cached.then(|| {
            let job = SystemJob::AsWritten { body: body.to_vec(), reply: reply.clone() };
            let system = self.system.clone();
            let recompile: Box<dyn FnOnce() + Send> = Box::new(move || {
                let _ = system.send(job);
            });
            recompile
        });
        let mut call = Box::new(ProgramCall {
            program,
            compiled: Arc::clone(compiled),
            parameters,
            reply: reply.clone(),
            stores: StoreSet::All,
            retry: Some(look_up_again(&self.system, compiled, body, reply)),
            load: false,
            recompile: as_written,
            time_max: self.time_of(body, reply),
            turn: None,
        });
        // A worker of compound procedures that is stuck may outlive them all; no client waits for
        // its answers then.
        match route {
            Route::Partition { partition, .. } => {
                let _ = self.routes.to_partition(partition, Event::Program(call));
            }
            Route::Multi(stores) => {
                let table = self.routes.table();
                let group = table.group_of_all(&stores).expect("a call of several groups is not here alone");
                call.stores = stores;
                let _ = table.to_coordinator(group, Job::Calls(vec![*call]));
            }
            Route::Compound => unreachable!("begun above"),
        }
        Ok(())
    }
}

#[cold]
fn leads_first_no_longer() -> UserError {
    UserError::not_started("another node leads the first group").with_hint("call again")
}

#[cold]
fn called_by_compound(program: &Program) -> UserError {
    let name = &program.name;
    UserError::parameters(format!("{name} runs outside of transactions, and was called by a procedure that does"))
        .with_hint("such a procedure calls procedures that are transactions, and system procedures")
}
