//! Calls that do not come in a network thread's batch: looked up, admitted, routed and handed over
//! one by one.

use crate::admission::{self, Request};
use crate::compound::Compounds;
use crate::connection::{is_admin, is_of_compound};
use crate::message::SystemJob;
use crate::mode::Mode;
use crate::route::Route;
use crate::routes::Routes;
use arc_swap::ArcSwap;
use crossbeam_channel::Sender;
use ferrite_base::{ErrorKind, UserError, UserResult};
use ferrite_partition::coordinator::Job;
use ferrite_partition::gate::Gate;
use ferrite_partition::{AnswerBatch, Compiled, Event, MailboxHandle, ProgramCall, Reply, StoreSet};
use ferrite_plan::Program;
use ferrite_wire::frame as wire_frame;
use ferrite_wire::invocation::Invocation;
use ferrite_wire::response;
use ferrite_wire::{Extensions, Parameters};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The way that such calls take.
pub struct Submit {
    pub compiled: Arc<ArcSwap<Compiled>>,
    pub mode: Arc<Mode>,
    pub routes: Arc<Routes>,
    pub system: Sender<SystemJob>,
    pub compounds: Arc<Compounds>,
    /// How long one call may execute.
    pub query_time_max: Duration,
    /// The coordinator's gate, of a node of a cluster: answers about the schema wait there until it
    /// is known that this node led when they were made.
    pub gate: OnceLock<Arc<Gate>>,
}

impl Submit {
    /// Answers with what the schema in force says.
    pub fn answer(&self, mailbox: &MailboxHandle, answers: AnswerBatch) {
        match self.gate.get() {
            Some(gate) => gate.hold(Arc::clone(mailbox), answers),
            None => mailbox.deliver(answers),
        }
    }

    /// The same of a call that the schema does not admit. One that was not executed for another
    /// reason gets its error at once.
    pub fn refuse(&self, reply: &Reply, error: &UserError) {
        if error.kind() == ErrorKind::Unavailable {
            return reply.refuse(error);
        }
        let mut answers = AnswerBatch::default();
        response::write_error(&mut answers.bytes, reply.handle, error);
        answers.finish_answer(reply.connection);
        self.answer(&reply.mailbox, answers);
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
        self.procedure(&invocation, &self.compiled.load_full(), body, reply)
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

    /// Where a call of that program runs: [`admission::admit`].
    pub fn admit(
        &self,
        program: &Program,
        extensions: &Extensions,
        parameters: &Parameters<'_>,
        reply: &Reply,
    ) -> UserResult<Route> {
        let admin = is_admin(reply.connection);
        let request = Request { extensions, parameters, admin, spread: reply.handle as u32 };
        admission::admit(&self.mode, &self.routes.ring, program, &request)
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
        let route = self.admit(called, &invocation.extensions, parameters, reply)?;
        let mut bytes = Vec::new();
        match route {
            // The partition's key, which a directed procedure does not take.
            Route::Partition { drop_first_parameter: true, .. } => parameters
                .without_first()
                .map_err(|_| ferrite_wire::failure::parameter_count(&called.name, called.parameters.len(), 0))?
                .copy_to(&mut bytes),
            _ => parameters.copy_to(&mut bytes),
        }
        self.program(Arc::clone(called), bytes, compiled, route, body, reply, false)
    }

    /// `cached`: the program is one for many texts.
    #[allow(clippy::too_many_arguments, reason = "what a call is, once for each way in")]
    pub fn program(
        &self,
        program: Arc<Program>,
        parameters: Vec<u8>,
        compiled: &Arc<Compiled>,
        route: Route,
        body: &[u8],
        reply: &Reply,
        cached: bool,
    ) -> UserResult<()> {
        if route == Route::Compound {
            if is_of_compound(reply.connection) {
                let words =
                    format!("{} runs outside of transactions, and was called by a procedure that does", program.name);
                return Err(UserError::parameters(words)
                    .with_hint("such a procedure calls procedures that are transactions, and system procedures"));
            }
            self.compounds.begin(&program, parameters, reply.clone());
            return Ok(());
        }
        let job = SystemJob::Call { body: body.to_vec(), reply: reply.clone() };
        let system = self.system.clone();
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
            retry: Some(Box::new(move |_| {
                // The system thread has ended only when the server stops.
                let _ = system.send(job);
            })),
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
                call.stores = stores;
                let _ = self.routes.to_coordinator(Job::Calls(vec![*call]));
            }
            Route::Compound => unreachable!("begun above"),
        }
        Ok(())
    }
}
