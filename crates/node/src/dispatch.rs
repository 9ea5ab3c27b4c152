//! From frames to work: login, the calls that a network thread answers itself, and batches for the
//! partitions.

use crate::batch::Batch;
use crate::call_time::CallTime;
use crate::cancelling::Cancelling;
use crate::connection::{self, Connection, is_admin};
use crate::connection_calls::{subscription, target};
use crate::connections::Connections;
use crate::forward::{self, Forward, Passage, Way};
use crate::mailbox::{Mail, NetworkMailbox};
use crate::message::SystemJob;
use crate::mode::Mode;
use crate::plan_cache::PlanCache;
use crate::privilege;
use crate::route::{self, Route};
use crate::routes::Routes;
use crate::submit::Submit;
use crate::system_procedures::{self, Thread};
use crate::topology::Topology;
use crate::work::{Room, Work};
use arc_swap::ArcSwap;
use bumpalo::Bump;
use ferrite_base::{PartitionId, ProcedureId, Settings, UserError, limits, memory};
use ferrite_partition::cancel::Cancel;
use ferrite_partition::coordinator::Job;
use ferrite_partition::{
    AnswerBatch, CachedCall, CachedCalls, CallBatch, CallHeader, Compiled, Event, MailboxHandle, ProgramCall,
    Recompile, Reply, Spent, StoreSet,
};
use ferrite_sql::Parameterizer;
use ferrite_system::Identity;
use ferrite_value::Value;
use ferrite_wire::invocation::Invocation;
use ferrite_wire::login::{self, LoginAccepted, LoginRequest, Service};
use ferrite_wire::response::{self, ResponseWriter};
use ferrite_wire::{Extensions, Parameters, failure, frame, login::LoginFailure};
use std::sync::Arc;

/// Buffers kept for reuse, and the largest that is kept.
const SPARES_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 1024 * 1024;

/// What a network thread uses of its node.
#[derive(Clone)]
pub struct Handles {
    pub submit: Arc<Submit>,
    pub plan_cache: Arc<PlanCache>,
    pub work: Arc<Work>,
    pub connections: Arc<Connections>,
    pub cancelling: Arc<Cancelling>,
    pub identity: Arc<Identity>,
    pub topology: Arc<Topology>,
    /// Of all network threads, in their order.
    pub mailboxes: Arc<[Arc<NetworkMailbox>]>,
    /// None: a node without others.
    pub forward: Option<Forward>,
    pub settings: Settings,
}

pub struct Dispatcher {
    node: Handles,
    /// These three of [`Submit`] are on every call's path.
    in_force: Arc<ArcSwap<Compiled>>,
    mode: Arc<Mode>,
    routes: Arc<Routes>,
    mailbox: MailboxHandle,
    compiled: Arc<Compiled>,
    batches: Vec<Batch>,
    /// Calls on their way to the coordinator.
    multi: Vec<ProgramCall>,
    /// None: a node without others.
    passage: Option<Passage>,
    /// The calls of this turn go to the thread that forwards.
    away: bool,
    /// Calls on their way there, by place in the bytes.
    passed_on: Vec<forward::Call>,
    passed_bytes: Vec<u8>,
    /// Calls of the frames at hand that go there.
    passed: usize,
    /// Buffers that have come back with answers.
    spare_batches: Vec<Batch>,
    spare_answers: Vec<Vec<u8>>,
    /// Spreads calls that any partition can answer.
    spread: u32,
    /// For ad hoc texts: what takes them apart, and their parameters.
    parameterizer: Parameterizer,
    arena: Bump,
    parameters: Vec<u8>,
    recompile: Recompile,
    time: CallTime,
}

impl Dispatcher {
    pub fn new(node: Handles, mailbox: MailboxHandle) -> Dispatcher {
        let in_force = Arc::clone(&node.submit.compiled);
        let mode = Arc::clone(&node.submit.mode);
        let routes = Arc::clone(&node.submit.routes);
        let compiled = in_force.load_full();
        let batches = routes.partitions().map(|_| Batch::default()).collect();
        let system = node.submit.system.clone();
        let recompile: Recompile = Arc::new(move |reply, body| {
            // The system thread has ended only when the server stops.
            let _ = system.send(SystemJob::AsWritten { body: body.to_vec(), reply });
        });
        let passage = node.forward.clone().map(Passage::new);
        Dispatcher {
            node,
            in_force,
            mode,
            routes,
            mailbox,
            compiled,
            batches,
            multi: Vec::new(),
            passage,
            away: false,
            passed_on: Vec::new(),
            passed_bytes: Vec::new(),
            passed: 0,
            spare_batches: Vec::new(),
            spare_answers: Vec::new(),
            spread: 0,
            parameterizer: Parameterizer::default(),
            arena: Bump::new(),
            parameters: Vec::new(),
            recompile,
            time: CallTime::default(),
        }
    }

    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.compiled
    }

    /// Adopts a new catalog version. Batches never mix versions.
    pub fn look_at_catalog(&mut self) {
        if !std::ptr::eq(&**self.in_force.load(), &*self.compiled) {
            self.send_batches();
            self.compiled = self.in_force.load_full();
        }
    }

    /// Where the calls of this turn go. False: nothing may be read until those that were handed to
    /// the thread that forwards are on their way.
    #[inline]
    pub fn look_at_leadership(&mut self) -> bool {
        let way = self.passage.as_ref().map_or(Way::Here, Passage::way);
        self.away = way == Way::Elsewhere;
        way != Way::Wait
    }

    /// Handles the complete frames of `bytes`, as many as the connection and the node may have
    /// outstanding, and returns how many bytes they took. After the login each goes to
    /// [`Self::call`].
    pub fn frames(&mut self, connection: &mut Connection, bytes: &[u8]) -> usize {
        let mut consumed = 0;
        connection.has_frames = false;
        self.passed = 0;
        let before = connection.work();
        let room = if is_admin(connection.id) { Room::ENDLESS } else { self.node.work.room() };
        while !connection.closing {
            let held = connection.logged_in && !room.has_more_than(connection.work() - before);
            if held || !connection.wants_reading() {
                connection.has_frames = true;
                connection.held = held;
                if !held && connection.lacks_room() {
                    connection.wait_for_memory();
                }
                break;
            }
            match frame::split(&bytes[consumed..]) {
                Ok(Some((length, body))) => {
                    consumed += length;
                    if connection.logged_in {
                        self.call(connection, body);
                    } else {
                        self.login(connection, body);
                    }
                }
                Ok(None) => {
                    // A client that has not logged in has nothing large to send.
                    let size = frame::size(&bytes[consumed..]);
                    let most = frame::LENGTH_BYTES + limits::LOGIN_BYTES_MAX;
                    connection.closing |= !connection.logged_in && size.is_ok_and(|size| size > Some(most));
                    break;
                }
                Err(_) => {
                    // The stream cannot be trusted any more (wire-protocol 1.2): answers still go
                    // out, then it is closed.
                    connection.closing = true;
                }
            }
        }
        if consumed > 0 {
            connection.frame_came();
        }
        self.node.work.take(connection.work() - before);
        if self.away
            && let Some(passage) = &self.passage
        {
            passage.passed(self.passed);
        }
        if connection.closing { bytes.len() } else { consumed }
    }

    /// A call that is larger than the server takes, or than it has memory for, is refused as soon
    /// as its beginning is there; what it has sent and what is still to come of it is dropped.
    /// Calls that come in one read are smaller.
    #[cold]
    pub fn refuse_if_too_large(&self, connection: &mut Connection) {
        let most = self.node.settings.frame_bytes;
        let Some(bytes) = incomplete_call(connection) else { return };
        if bytes > most {
            let error = UserError::limit(format!("the call has {bytes} bytes, more than the {most} that one may have"))
                .with_detail("the limit is --limit frame-bytes")
                .with_hint("send it in several calls");
            self.refuse(connection, bytes, &error);
        } else if bytes > memory::clients_bytes_max() / 2 && !is_admin(connection.id) {
            self.refuse(connection, bytes, &memory::refused_call(bytes));
        }
    }

    /// A call that does not come whole while others wait for memory is refused, and dropped in the
    /// same way.
    #[cold]
    pub fn refuse_for_memory(&self, connection: &mut Connection) {
        if let Some(bytes) = incomplete_call(connection) {
            self.refuse(connection, bytes, &memory::refused_call(bytes));
        }
    }

    fn refuse(&self, connection: &mut Connection, bytes: usize, error: &UserError) {
        connection.skip = bytes + frame::LENGTH_BYTES - connection.partial.len();
        let beginning = std::mem::take(&mut connection.partial);
        let handle = match Invocation::parse(&beginning[frame::LENGTH_BYTES..]) {
            Ok(invocation) => Some(invocation.handle),
            Err(error) => error.handle,
        };
        match handle.filter(|_| connection.logged_in) {
            Some(handle) => response::write_error(connection.out(), handle, error),
            None => connection.closing = true,
        }
    }

    #[cold]
    fn login(&mut self, connection: &mut Connection, body: &[u8]) {
        let refused = match LoginRequest::parse(body) {
            Ok(request) if request.service == Service::Kerberos => Some(LoginFailure::ServiceNotAvailable),
            Ok(_) if !self.node.connections.takes_logins(is_admin(connection.id)) => {
                let reason = "this node is shutting down: log in to another node, or try again later";
                login::write_failure_because(connection.out(), LoginFailure::Rejoining, reason);
                connection.closing = true;
                return;
            }
            Ok(request) => {
                self.node.connections.user(request.user);
                None
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = refused {
            login::write_failure(connection.out(), failure);
            connection.closing = true;
            return;
        }
        let identity = &self.node.identity;
        let accepted = LoginAccepted {
            host_id: identity.host_id,
            connection_id: connection::public_id(identity.host_id, connection.id),
            cluster_start_ms: identity.cluster_start_ms,
            leader_address: identity.leader_address,
            build: &identity.build,
        };
        accepted.write(connection.out());
        connection.logged_in = true;
    }

    /// One invocation: the door of the main path. A call of one partition is in its batch
    /// afterwards, and continues in `Partition::run_calls` (`crates/partition/src/thread.rs`) when
    /// the turn sends the batches.
    #[inline]
    fn call(&mut self, connection: &mut Connection, body: &[u8]) {
        let invocation = match Invocation::parse(body) {
            Ok(invocation) => invocation,
            Err(error) => {
                match error.handle {
                    Some(handle) => {
                        let error = UserError::parameters(format!("the call is malformed: {}", error.reason));
                        response::write_error(connection.out(), handle, &error);
                    }
                    None => connection.closing = true,
                }
                return;
            }
        };
        if self.away {
            return self.elsewhere(connection, &invocation, body);
        }
        if invocation.procedure.starts_with('@') {
            if invocation.procedure == "@AdHoc"
                && !self.has_own_time(connection, &invocation)
                && self.ad_hoc(connection, &invocation, body).is_some()
            {
                return;
            }
            return self.system_call(connection, &invocation, body);
        }
        let Some(id) = connection.find_procedure(&self.compiled, invocation.procedure) else {
            let error = failure::unknown_procedure(invocation.procedure);
            return self.refuse_by_schema(connection, &invocation, body, &error);
        };
        let program = self.compiled.program(id);
        if let Err(error) = self.mode.admit(program.read_only, is_admin(connection.id)) {
            return response::write_error(connection.out(), invocation.handle, &error);
        }
        if self.has_own_time(connection, &invocation) {
            return self.timed(connection, &invocation, body);
        }
        self.spread = self.spread.wrapping_add(1);
        let parameters = &invocation.parameters;
        match route::route(program, &invocation.extensions, parameters, &self.routes.ring, self.spread) {
            Ok(Route::Partition { partition, drop_first_parameter }) => {
                let batch = &mut self.batches[partition.index()];
                let parameters_start = batch.bytes.len() as u32;
                parameters.copy_to(&mut batch.bytes);
                batch.calls.push(CallHeader {
                    connection: connection.id,
                    handle: invocation.handle,
                    procedure: id,
                    parameters_start,
                    parameters_end: batch.bytes.len() as u32,
                    drop_first_parameter,
                });
                connection.taken(body.len());
                if batch.bytes.len() > limits::FRAME_BYTES_MAX {
                    // Offsets are 32 bits, and one batch should not hold everything up.
                    self.send_batches();
                }
            }
            Ok(Route::Multi(stores)) => {
                let mut bytes = Vec::new();
                parameters.copy_to(&mut bytes);
                connection.taken(body.len());
                let call = ProgramCall {
                    program: Arc::clone(program),
                    compiled: Arc::clone(&self.compiled),
                    parameters: bytes,
                    reply: self.reply(connection, invocation.handle),
                    stores,
                    turn: None,
                    time_max: None,
                    retry: Some(self.resend(connection, invocation.handle, body)),
                    load: false,
                    recompile: None,
                };
                self.multi.push(call);
            }
            Ok(Route::Compound) => self.compound(connection, id, &invocation, body),
            Err(error) => self.refuse_by_schema(connection, &invocation, body, &error),
        }
    }

    /// A call that does not fit the schema gets this error; in a cluster, once it is known that
    /// this node still led.
    #[cold]
    fn refuse_by_schema(
        &mut self,
        connection: &mut Connection,
        invocation: &Invocation<'_>,
        body: &[u8],
        error: &UserError,
    ) {
        if self.node.forward.is_none() {
            return response::write_error(connection.out(), invocation.handle, error);
        }
        connection.taken(body.len());
        self.node.submit.refuse(&self.reply(connection, invocation.handle), error);
    }

    /// A call that comes while another node leads: there, unless it is about this one.
    #[cold]
    fn elsewhere(&mut self, connection: &mut Connection, invocation: &Invocation<'_>, body: &[u8]) {
        let name = invocation.procedure;
        let admin = is_admin(connection.id);
        if !system_procedures::is_for_leader(name) {
            return self.system_call(connection, invocation, body);
        }
        if name.starts_with('@') {
            connection.system_called(name);
            // By this node's doors: the other one knows only that it was let in.
            let given = invocation.parameters.count();
            if let Err(error) = privilege::permit(&self.node.identity, name, given, admin) {
                return response::write_error(connection.out(), invocation.handle, &error);
            }
        } else {
            // So that it is counted; the other node's catalog may know what this one's does not.
            let _ = connection.find_procedure(&self.compiled, name);
        }
        connection.taken(body.len());
        self.passed += 1;
        let start = self.passed_bytes.len() as u32;
        self.passed_bytes.extend_from_slice(body);
        self.passed_on.push(forward::Call {
            connection: connection.id,
            handle: invocation.handle,
            trusted: privilege::is_trusted(&self.node.identity, connection.id),
            start,
            end: self.passed_bytes.len() as u32,
        });
        if self.passed_bytes.len() > limits::FORWARD_MESSAGE_BYTES {
            self.send_passed_on();
        }
    }

    fn send_passed_on(&mut self) {
        if let Some(passage) = self.passage.as_mut().filter(|_| !self.passed_on.is_empty()) {
            passage.take(forward::Batch {
                mailbox: Arc::clone(&self.mailbox),
                calls: std::mem::take(&mut self.passed_on),
                bytes: std::mem::take(&mut self.passed_bytes),
                sent_micros: self.time.stamp(),
            });
        }
    }

    /// Whether the call says how long it may execute. Calls of a batch cannot: they have the
    /// server's time.
    #[inline]
    fn has_own_time(&self, connection: &Connection, invocation: &Invocation<'_>) -> bool {
        invocation.extensions.batch_timeout_ms.is_some()
            && self.node.submit.time_asked(&invocation.extensions, is_admin(connection.id)).is_some()
    }

    /// A procedure's call that goes by itself.
    #[cold]
    fn timed(&mut self, connection: &mut Connection, invocation: &Invocation<'_>, body: &[u8]) {
        connection.taken(body.len());
        let reply = self.reply(connection, invocation.handle);
        // What was sent earlier goes first.
        self.send_batches();
        if let Err(error) = self.node.submit.procedure(invocation, &self.compiled, body, &reply) {
            self.node.submit.refuse(&reply, &error);
        }
    }

    #[cold]
    fn compound(&mut self, connection: &mut Connection, id: ProcedureId, invocation: &Invocation<'_>, body: &[u8]) {
        let mut parameters = Vec::new();
        invocation.parameters.copy_to(&mut parameters);
        connection.taken(body.len());
        let reply = self.reply(connection, invocation.handle);
        // What was sent earlier goes first.
        self.send_batches();
        self.node.submit.compounds.begin(self.compiled.program(id), parameters, reply);
    }

    /// An ad hoc statement whose plan is at hand takes the way of a procedure call. None: it has to
    /// be compiled.
    fn ad_hoc(&mut self, connection: &mut Connection, invocation: &Invocation<'_>, body: &[u8]) -> Option<()> {
        let Ok(Some(Value::Text(text))) = invocation.parameters.nth(0) else { return None };
        let given = invocation.parameters.without_first().ok()?;
        let plan = self.node.plan_cache.find(&self.compiled, &mut self.parameterizer, text, given.count())?;
        // The system thread answers one that is refused.
        self.mode.admit(plan.program.read_only, is_admin(connection.id)).ok()?;
        self.arena.reset();
        self.parameters.clear();
        plan.write_parameters(&self.parameterizer, text, &given, &self.arena, &mut self.parameters)?;
        let parameters = Parameters::parse(&self.parameters).ok()?;
        self.spread = self.spread.wrapping_add(1);
        match route::route(&plan.program, &Extensions::default(), &parameters, &self.routes.ring, self.spread).ok()? {
            Route::Partition { partition, .. } if !plan.program.may_take_long() => {
                connection.taken(body.len());
                connection.ad_hoc_calls += 1;
                let batch = &mut self.batches[partition.index()];
                let parameters_start = batch.bytes.len() as u32;
                batch.bytes.extend_from_slice(&self.parameters);
                let parameters_end = batch.bytes.len() as u32;
                batch.bytes.extend_from_slice(body);
                batch.calls.push(CallHeader {
                    connection: connection.id,
                    handle: invocation.handle,
                    procedure: CallHeader::cached_procedure(batch.cached.len()),
                    parameters_start,
                    parameters_end,
                    drop_first_parameter: false,
                });
                batch.cached.push(CachedCall {
                    program: Arc::clone(&plan.program),
                    is_short: plan.is_short,
                    body_start: parameters_end,
                    body_end: batch.bytes.len() as u32,
                });
                if batch.bytes.len() > limits::FRAME_BYTES_MAX {
                    self.send_batches();
                }
            }
            route => {
                connection.taken(body.len());
                connection.ad_hoc_calls += 1;
                let reply = self.reply(connection, invocation.handle);
                let again = reply.clone();
                let recompile = Arc::clone(&self.recompile);
                let body = body.to_vec();
                let call = ProgramCall {
                    program: Arc::clone(&plan.program),
                    compiled: Arc::clone(&self.compiled),
                    parameters: self.parameters.clone(),
                    stores: StoreSet::All,
                    turn: None,
                    time_max: None,
                    retry: Some(self.resend(connection, invocation.handle, &body)),
                    load: false,
                    recompile: Some(Box::new(move || recompile(again, &body))),
                    reply,
                };
                match route {
                    Route::Partition { partition, .. } => {
                        self.send_batches();
                        let sent = self.routes.to_partition(partition, Event::Program(Box::new(call)));
                        sent.expect("partitions outlive the network");
                    }
                    Route::Multi(stores) => self.multi.push(ProgramCall { stores, ..call }),
                    Route::Compound => unreachable!("a statement is not a compound procedure"),
                }
            }
        }
        Some(())
    }

    fn reply(&self, connection: &Connection, handle: i64) -> Reply {
        let sent_micros = self.stamp();
        Reply { mailbox: Arc::clone(&self.mailbox), connection: connection.id, handle, sent_micros }
    }

    fn stamp(&self) -> i64 {
        self.time.stamp()
    }

    /// What to do with a call that was compiled against a catalog that is no longer in force: look
    /// it up again.
    fn resend(&self, connection: &Connection, handle: i64, body: &[u8]) -> ferrite_partition::Retry {
        let job = SystemJob::Call { body: body.to_vec(), reply: self.reply(connection, handle) };
        let system = self.node.submit.system.clone();
        Box::new(move |_| {
            let _ = system.send(job);
        })
    }

    /// Pings and subscriptions are answered here and at once; other system procedures have a thread
    /// of their own.
    #[cold]
    fn system_call(&mut self, connection: &mut Connection, invocation: &Invocation<'_>, body: &[u8]) {
        connection.system_called(invocation.procedure);
        if system_procedures::find(invocation.procedure).is_some_and(|known| known.thread == Thread::Network) {
            return self.answer_here(connection, invocation);
        }
        connection.taken(body.len());
        let reply = self.reply(connection, invocation.handle);
        self.send_batches();
        self.node
            .submit
            .system
            .send(SystemJob::Call { body: body.to_vec(), reply })
            .expect("the system thread outlives the network");
    }

    #[cold]
    fn answer_here(&mut self, connection: &mut Connection, invocation: &Invocation<'_>) {
        match invocation.procedure {
            "@Ping" => response::write_pong(connection.out(), invocation.handle),
            "@Cancel" => match target(invocation, self.node.identity.host_id) {
                Ok((target, handle)) => {
                    let own = connection::public_id(self.node.identity.host_id, connection.id);
                    match target.filter(|target| *target != own) {
                        None => self.cancel(connection, handle),
                        Some(target) => {
                            for mailbox in self.node.mailboxes.iter() {
                                mailbox.send(Mail::Cancel { connection: target, handle });
                            }
                        }
                    }
                    let mut writer = ResponseWriter::begin(connection.out(), invocation.handle);
                    writer.status_table(0);
                    writer.finish();
                }
                Err(error) => response::write_error(connection.out(), invocation.handle, &error),
            },
            "@Subscribe" => match subscription(invocation) {
                Ok(()) => {
                    connection.subscribed = true;
                    ResponseWriter::begin(connection.out(), invocation.handle).finish();
                }
                Err(error) => response::write_error(connection.out(), invocation.handle, &error),
            },
            other => unreachable!("{other} is answered on the system procedures' thread"),
        }
    }

    /// The calls that were taken from a connection up to now are no longer wanted; with a handle,
    /// those of it.
    pub fn cancel(&mut self, connection: &mut Connection, handle: Option<i64>) {
        // They are on their way, so that later ones have a later time.
        self.send_batches();
        let until_micros = self.time.cut();
        if connection.outstanding() > 0 {
            connection.listed = true;
            self.node.cancelling.cancel(connection.id, Cancel::Calls { handle, until_micros });
        }
    }

    /// Keeps the buffers of a batch that is done, so that the next ones need no fresh memory: that
    /// would have to be cleared and mapped first, at a price per call that shows.
    pub fn recycle(&mut self, answers: AnswerBatch) {
        let AnswerBatch { bytes, spent: Spent { mut calls, bytes: mut parameters }, .. } = answers;
        self.keep_buffer(bytes);
        if self.spare_batches.len() < SPARES_MAX && (1..=SPARE_BYTES_MAX).contains(&parameters.capacity()) {
            calls.clear();
            parameters.clear();
            self.spare_batches.push(Batch { calls, bytes: parameters, cached: Vec::new() });
        }
    }

    /// Keeps buffers of batches whose connections have written them.
    #[inline]
    pub fn keep_answers(&mut self, spent: &mut Vec<Vec<u8>>) {
        spent.drain(..).for_each(|bytes| self.keep_buffer(bytes));
    }

    fn keep_buffer(&mut self, mut bytes: Vec<u8>) {
        if self.spare_answers.len() < SPARES_MAX && (1..=SPARE_BYTES_MAX).contains(&bytes.capacity()) {
            bytes.clear();
            self.spare_answers.push(bytes);
        }
    }

    /// Hands every partition its calls, and then the coordinator those of several partitions.
    pub fn send_batches(&mut self) {
        self.send_to_partitions();
        self.send_passed_on();
        if !self.multi.is_empty() {
            let calls = std::mem::take(&mut self.multi);
            self.routes.to_coordinator(Job::Calls(calls)).expect("the coordinator outlives the network");
        }
    }

    /// A batch is an `Event::Calls` in its partition's inbox; a small one is run here if the
    /// partition is idle.
    fn send_to_partitions(&mut self) {
        let mut sent_micros = 0;
        for (partition, batch) in self.batches.iter_mut().enumerate() {
            if batch.calls.is_empty() {
                continue;
            }
            if sent_micros == 0 {
                sent_micros = self.time.stamp();
            }
            let partition = PartitionId(partition as u32);
            let runs_here = self.routes.seat(partition).rests() && batch.is_short(&self.compiled);
            let full = std::mem::replace(batch, self.spare_batches.pop().unwrap_or_default());
            let mut batch = CallBatch {
                compiled: Arc::clone(&self.compiled),
                mailbox: Arc::clone(&self.mailbox),
                calls: full.calls,
                bytes: full.bytes,
                answers: self.spare_answers.pop().unwrap_or_default(),
                cached: (!full.cached.is_empty())
                    .then(|| Box::new(CachedCalls { calls: full.cached, recompile: Arc::clone(&self.recompile) })),
                sent_micros,
            };
            if runs_here {
                match self.routes.run_here(partition, batch) {
                    Ok(()) => continue,
                    Err(declined) => batch = declined,
                }
            }
            self.routes.to_partition(partition, Event::Calls(batch)).expect("partitions outlive the network");
        }
    }
}

/// Bytes that a call whose frame is not complete yet will have.
fn incomplete_call(connection: &Connection) -> Option<usize> {
    let size = frame::size(&connection.partial).ok()??;
    (connection.partial.len() < size).then_some(size - frame::LENGTH_BYTES)
}
