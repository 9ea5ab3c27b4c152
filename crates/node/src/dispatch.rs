//! From frames to work: login, the calls that a network thread answers itself, and batches for the
//! partitions.

mod ad_hoc;
mod login;
mod refusals;
mod spares;
mod system_calls;
mod ways;

use crate::admission::{self, Request};
use crate::batch::Batch;
use crate::call_time::CallTime;
use crate::cancelling::Cancelling;
use crate::connection::{Connection, is_admin};
use crate::connections::Connections;
use crate::mailbox::NetworkMailbox;
use crate::message::{SystemJob, look_up_again};
use crate::mode::Mode;
use crate::plan_cache::PlanCache;
use crate::privilege;
use crate::route::Route;
use crate::routes::Routes;
use crate::submit::Submit;
use crate::system_procedures;
use crate::work::{Room, Work};
use arc_swap::ArcSwap;
use bumpalo::Bump;
use ferrite_base::{ErrorKind, PartitionId, ProcedureId, Settings, UserError, limits};
use ferrite_member::Topology;
use ferrite_member::forward::{self, Forward};
use ferrite_partition::coordinator::Job;
use ferrite_partition::{
    AnswerBatch, CachedCalls, CallBatch, Compiled, Event, MailboxHandle, ProgramCall, Recompile, Reply, StoreSet,
};
use ferrite_sql::Parameterizer;
use ferrite_system::Identity;
use ferrite_wire::invocation::Invocation;
use ferrite_wire::{failure, frame, response};
use spares::Spares;
use std::sync::Arc;
use ways::Ways;

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
    /// Calls on their way to the coordinators, by their groups' places.
    multi: Box<[Vec<ProgramCall>]>,
    ways: Ways,
    /// Calls of the frames at hand that go to the thread that forwards.
    passed: usize,
    spares: Spares,
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
        let ways = Ways::new(&routes, node.forward.clone());
        let multi = ways.table().groups().map(|_| Vec::new()).collect();
        Dispatcher {
            node,
            in_force,
            mode,
            routes,
            mailbox,
            compiled,
            batches,
            multi,
            ways,
            passed: 0,
            spares: Spares::default(),
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
    pub fn refresh_catalog(&mut self) {
        if !std::ptr::eq(&**self.in_force.load(), &*self.compiled) {
            self.send_batches();
            self.compiled = self.in_force.load_full();
        }
    }

    /// Where the calls of this turn go. False: nothing may be read until those that were handed to
    /// the thread that forwards are on their way.
    #[inline]
    pub fn refresh_way(&mut self) -> bool {
        self.ways.refresh(&self.routes)
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
        self.node.work.add(connection.work() - before);
        self.ways.passed(self.passed);
        if connection.closing { bytes.len() } else { consumed }
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
        if self.ways.are_all_away() {
            return self.elsewhere(connection, &invocation, body, 0);
        }
        if invocation.procedure.starts_with('@') {
            return self.of_the_system(connection, &invocation, body);
        }
        let Some(id) = connection.find_procedure(&self.compiled, invocation.procedure) else {
            let error = failure::unknown_procedure(invocation.procedure);
            return self.not_admitted(connection, &invocation, body, None, &error);
        };
        let program = self.compiled.program(id);
        self.spread = self.spread.wrapping_add(1);
        let parameters = &invocation.parameters;
        let request = Request {
            extensions: &invocation.extensions,
            parameters,
            admin: is_admin(connection.id),
            any: self.ways.any(self.spread),
        };
        let route = match admission::admit(&self.mode, &self.routes.ring, program, &request) {
            Ok(route) => route,
            Err(error) => {
                let route = admission::route(&self.routes.ring, program, &request).ok();
                return self.not_admitted(connection, &invocation, body, route.as_ref(), &error);
            }
        };
        if let Some(group) = self.ways.elsewhere(&route) {
            return self.elsewhere(connection, &invocation, body, group);
        }
        if self.has_own_time(connection, &invocation) {
            return self.timed(connection, &invocation, body);
        }
        match route {
            Route::Partition { partition, drop_first_parameter } => {
                let batch = &mut self.batches[partition.index()];
                batch.push(connection.id, invocation.handle, id, parameters, drop_first_parameter);
                connection.count_call(body.len());
                if batch.is_full() {
                    self.send_batches();
                }
            }
            Route::Multi(stores) => self.several(connection, id, stores, &invocation, body),
            Route::Compound => self.compound(connection, id, &invocation, body),
        }
    }

    /// A call of these partitions.
    fn several(
        &mut self,
        connection: &mut Connection,
        id: ProcedureId,
        stores: StoreSet,
        invocation: &Invocation<'_>,
        body: &[u8],
    ) {
        let mut parameters = Vec::new();
        invocation.parameters.copy_to(&mut parameters);
        connection.count_call(body.len());
        let call = ProgramCall {
            program: Arc::clone(self.compiled.program(id)),
            compiled: Arc::clone(&self.compiled),
            parameters,
            reply: self.reply(connection, invocation.handle),
            stores,
            turn: None,
            time_max: None,
            retry: Some(self.resend(connection, invocation.handle, body)),
            load: false,
            recompile: None,
        };
        self.several_in_turn(call, body);
    }

    fn several_in_turn(&mut self, call: ProgramCall, body: &[u8]) {
        match self.ways.table().group_of_all(&call.stores) {
            Some(group) => self.multi[group].push(call),
            None => self.in_groups(call, body),
        }
    }

    /// A call of partitions of several groups, which this node orders.
    #[cold]
    fn in_groups(&mut self, call: ProgramCall, body: &[u8]) {
        // What was sent earlier goes first.
        self.send_batches();
        let ProgramCall { program, compiled, stores, reply, .. } = call;
        if let Err(error) = self.node.submit.in_groups(&program, &compiled, stores, body, reply.clone()) {
            self.node.submit.refuse_call(&compiled, body, &reply, &error);
        }
    }

    /// A call of a system procedure, where this node leads what such calls are about, or has
    /// several groups: then what belongs to no partition is the first group's.
    fn of_the_system(&mut self, connection: &mut Connection, invocation: &Invocation<'_>, body: &[u8]) {
        let name = invocation.procedure;
        if name == "@AdHoc"
            && !self.has_own_time(connection, invocation)
            && self.ad_hoc(connection, invocation, body).is_some()
        {
            return;
        }
        match self.ways.first_if_away().filter(|_| !system_procedures::finds_its_partition(name)) {
            Some(group) => self.elsewhere(connection, invocation, body, group),
            None => self.system_call(connection, invocation, body),
        }
    }

    /// What this node does not admit may be for another one, which decides by itself: its disk has
    /// room, or its catalog knows more. `route`: where the call goes as far as is known.
    #[cold]
    fn not_admitted(
        &mut self,
        connection: &mut Connection,
        invocation: &Invocation<'_>,
        body: &[u8],
        route: Option<&Route>,
        error: &UserError,
    ) {
        let group = match route {
            Some(route) => self.ways.elsewhere(route),
            None => self.ways.first_if_away(),
        };
        match group {
            Some(group) => self.elsewhere(connection, invocation, body, group),
            None => self.refuse_call(connection, invocation, body, error),
        }
    }

    /// A call that this node does not take now is refused at once. One that does not fit the schema
    /// gets its error, in a cluster, once it is known that this node still led.
    #[cold]
    fn refuse_call(
        &mut self,
        connection: &mut Connection,
        invocation: &Invocation<'_>,
        body: &[u8],
        error: &UserError,
    ) {
        let is_looked_up_in_force = std::ptr::eq(&**self.in_force.load(), &*self.compiled);
        if self.node.forward.is_none() && is_looked_up_in_force || error.kind() == ErrorKind::Unavailable {
            return response::write_error(connection.out(), invocation.handle, error);
        }
        connection.count_call(body.len());
        let reply = self.reply(connection, invocation.handle);
        self.node.submit.refuse_call(&self.compiled, body, &reply, error);
    }

    /// A call that comes while another node leads its group: there, unless it is about this one.
    /// `group`: its place.
    #[cold]
    fn elsewhere(&mut self, connection: &mut Connection, invocation: &Invocation<'_>, body: &[u8], group: usize) {
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
        connection.count_call(body.len());
        self.passed += 1;
        let call = forward::Call {
            connection: connection.id,
            handle: invocation.handle,
            trusted: privilege::is_trusted(&self.node.identity, connection.id),
            start: 0,
            end: 0,
        };
        if self.ways.pass_on(group, call, body) > limits::FORWARD_MESSAGE_BYTES {
            self.send_passed_on();
        }
    }

    fn send_passed_on(&mut self) {
        self.ways.send(&self.mailbox, || self.time.stamp());
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
        connection.count_call(body.len());
        let reply = self.reply(connection, invocation.handle);
        // What was sent earlier goes first.
        self.send_batches();
        if let Err(error) = self.node.submit.procedure(invocation, &self.compiled, body, &reply) {
            self.node.submit.refuse_call(&self.compiled, body, &reply, &error);
        }
    }

    #[cold]
    fn compound(&mut self, connection: &mut Connection, id: ProcedureId, invocation: &Invocation<'_>, body: &[u8]) {
        let mut parameters = Vec::new();
        invocation.parameters.copy_to(&mut parameters);
        connection.count_call(body.len());
        let reply = self.reply(connection, invocation.handle);
        // What was sent earlier goes first.
        self.send_batches();
        self.node.submit.compounds.begin(self.compiled.program(id), parameters, reply);
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
        look_up_again(&self.node.submit.system, &self.compiled, body, &self.reply(connection, handle))
    }

    /// Keeps the buffers of a batch that is done.
    pub fn recycle(&mut self, answers: AnswerBatch) {
        self.spares.keep_batch(answers);
    }

    /// Keeps buffers of batches whose connections have written them.
    #[inline]
    pub fn keep_answers(&mut self, spent: &mut Vec<Vec<u8>>) {
        spent.drain(..).for_each(|bytes| self.spares.keep_answers(bytes));
    }

    /// Hands every partition its calls, and then the coordinator those of several partitions.
    pub fn send_batches(&mut self) {
        self.send_to_partitions();
        self.send_passed_on();
        for (group, calls) in self.multi.iter_mut().enumerate().filter(|(_, calls)| !calls.is_empty()) {
            // Where it has ended meanwhile, the calls have got their answers.
            let _ = self.ways.table().to_coordinator(group, Job::Calls(std::mem::take(calls)));
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
            let runs_here = self.ways.table().rests(partition) && batch.is_short(&self.compiled);
            let full = std::mem::replace(batch, self.spares.batch());
            let mut batch = CallBatch {
                compiled: Arc::clone(&self.compiled),
                mailbox: Arc::clone(&self.mailbox),
                calls: full.calls,
                bytes: full.bytes,
                answers: self.spares.answers(),
                cached: (!full.cached.is_empty())
                    .then(|| Box::new(CachedCalls { calls: full.cached, recompile: Arc::clone(&self.recompile) })),
                sent_micros,
            };
            if runs_here {
                match self.ways.table().run_here(partition, batch) {
                    Ok(()) => continue,
                    Err(declined) => batch = declined,
                }
            }
            // Where the partition has ended meanwhile, its calls have got their answers.
            let _ = self.ways.table().to_partition(partition, Event::Calls(batch));
        }
    }
}
