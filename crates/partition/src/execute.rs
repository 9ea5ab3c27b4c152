//! One call: parameters from the wire, the program on the stores, the answer back to the wire.

mod answer;
mod external;
mod load;
mod parameters;
mod shares;

use crate::cancel::{CallId, GroupCancellations};
use crate::contain::{Outside, contained};
use crate::counters::CallOutcome;
use crate::event::ProgramCall;
use crate::predictor::CallProfile;
use crate::worker_pool::Helpers;
use answer::{CACHED_HEADERS_MAX, HeaderCache, WireSink};
use bumpalo::Bump;
use ferrite_base::{CallLimits, ErrorKind, PartitionId, UserError, UserResult};
use ferrite_catalog::Catalog;
use ferrite_exec::{Call, Scratch, WorkerPool};
use ferrite_io::coarse_monotonic;
use ferrite_plan::{Fitted, Program};
use ferrite_table::Store;
use ferrite_wire::{ResponseWriter, response};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use load::STAGING;
pub(crate) use parameters::check_parameters;
pub use parameters::decode_parameters;
pub(crate) use shares::GroupShares;

/// One call as it came: what is to be run, and what for.
#[derive(Clone, Copy)]
pub struct Request<'c> {
    pub program: &'c Arc<Program>,
    /// The parameter set as it is on the wire.
    pub parameters: &'c [u8],
    /// The partition key was put in front of the declared parameters: leave the first out.
    pub drop_first_parameter: bool,
    /// The client's word for the call, which its answer repeats.
    pub handle: i64,
    /// NOW: microseconds since 1970.
    pub transaction_time: i64,
}

/// Called once when a call turns out not to be short, while it runs: others need not wait for it.
pub type Slow<'s> = &'s mut dyn FnMut();

/// What a thread that executes keeps from call to call.
pub struct Executor {
    limits: CallLimits,
    /// The time in `limits` is this call's own.
    time_is_asked: bool,
    cancellations: GroupCancellations,
    /// The threads that help with queries over several stores.
    helpers: Option<Arc<Helpers>>,
    /// The call that is executed, for the threads that cancel it.
    current: CallId,
    arena: Bump,
    scratch: Scratch,
    headers: HeaderCache,
    /// Of ad hoc programs that are called again and again.
    cached_headers: HeaderCache,
    /// The programs that `cached_headers` speaks of, so that their columns stay where they are.
    cached_programs: Vec<Arc<Program>>,
    /// What bodies in other languages need.
    external: external::Kept,
}

/// Memory for values that is kept from call to call.
const ARENA_BYTES_KEPT: usize = 4 * 1024 * 1024;
impl Executor {
    /// For calls that take no more than these.
    pub fn new(limits: impl Into<CallLimits>) -> Executor {
        Executor {
            limits: limits.into(),
            time_is_asked: false,
            cancellations: GroupCancellations::default(),
            helpers: None,
            current: CallId::default(),
            arena: Bump::new(),
            scratch: Scratch::default(),
            headers: HeaderCache::default(),
            cached_headers: HeaderCache::default(),
            cached_programs: Vec::new(),
            external: external::Kept::default(),
        }
    }

    /// The partition on whose behalf it executes; without this, it executes on behalf of all.
    #[must_use]
    pub fn of_partition(mut self, partition: PartitionId) -> Executor {
        self.external.partition = Some(partition);
        self
    }

    /// With these to help.
    #[must_use]
    pub fn with_helpers(mut self, helpers: Arc<Helpers>) -> Executor {
        self.helpers = Some(helpers);
        self
    }

    /// From now on stops calls that this list names.
    pub fn watch(&mut self, cancellations: &GroupCancellations) {
        self.cancellations = cancellations.clone();
        self.external.watched = cancellations.clone();
    }

    /// The next call is this one; or it is not to be executed.
    #[inline]
    pub fn begin(&mut self, call: CallId) -> UserResult<()> {
        self.current = call;
        if self.cancellations.covers(call) { Err(self.cancellations.error()) } else { Ok(()) }
    }

    /// From now on watches bodies in other languages for this; what they were watched for until
    /// now.
    pub(crate) fn profile_external(&mut self, profile: Option<Box<CallProfile>>) -> Option<Box<CallProfile>> {
        std::mem::replace(&mut self.external.profile, profile)
    }

    /// The numbers that it gives to transactions are above those of others, up to `micros` since
    /// 1970.
    pub(crate) fn unique_ids_above(&mut self, micros: i64) {
        self.external.unique_ids_above(micros);
    }

    /// The time of the last such number where it is later than its transaction's, once: the entry
    /// that comes next must not be of an earlier one.
    #[inline]
    pub(crate) fn take_unique_ids_ahead(&mut self) -> Option<i64> {
        self.external.take_unique_ids_ahead()
    }

    /// Forgets what belongs to the programs of the previous catalog version.
    pub fn catalog_changed(&mut self) {
        self.headers.clear();
        self.forget_cached();
    }

    /// Gives memory back that a large statement has taken. To be called between calls.
    pub fn trim(&mut self) {
        if self.arena.allocated_bytes() > ARENA_BYTES_KEPT {
            self.arena = Bump::new();
        }
    }

    fn forget_cached(&mut self) {
        self.cached_headers.clear();
        self.cached_programs.clear();
    }

    /// Runs the program and appends the answer's frame to `out`. On failure the stores are as
    /// before and the answer has the reason; on success the changes are in the stores' redo and
    /// undo, for the caller to take and commit.
    #[inline]
    pub fn call(&mut self, stores: &mut [Store], request: &Request<'_>, out: &mut Vec<u8>) -> CallOutcome {
        let (result, writer) = self.execute(stores, request, None, None, out);
        finish(result, writer)
    }

    /// Runs the program; the answer is written but for its end. What fails is rolled back by
    /// [`ferrite_exec::run_transaction`] or [`external::run`]; what panics, by `contained` around
    /// both. `shares`: not all of the program is run here.
    #[inline(always)]
    fn execute<'o>(
        &mut self,
        stores: &mut [Store],
        request: &Request<'_>,
        shares: Option<&GroupShares<'_>>,
        slow: Option<Slow<'_>>,
        out: &'o mut Vec<u8>,
    ) -> (UserResult<()>, ResponseWriter<'o>) {
        let Request { program, parameters, drop_first_parameter, handle, transaction_time } = *request;
        assert!(stores.iter().all(Store::is_committed), "between calls stores have nothing to undo");
        self.arena.reset();
        let Executor {
            limits, time_is_asked, cancellations, helpers, current, arena, scratch, headers, external, ..
        } = self;
        let slow = Cell::new(slow);
        let cancelled = Cell::new(false);
        let ran = Cell::new(None);
        let additions = headers.additions;
        let outside = Outside::default();
        let mut sink = WireSink::new(ResponseWriter::begin(out, handle).within(limits.result_bytes), headers);
        let marks = |stores: &[Store]| stores.iter().map(Store::beginning).collect();
        let result = contained(stores, marks, &outside, &program.name, |stores| {
            let catalog = stores.first().map(Store::catalog).expect("a call has a store");
            let fitted = decode_parameters(program, catalog, parameters, drop_first_parameter, arena)?;
            let Fitted { program: variant, values: parameters } = fitted;
            ran.set(variant.clone());
            let program = variant.as_deref().unwrap_or(&**program);
            check_tables(program, catalog, cancellations)?;
            // The clock is first read when a call turns out to be long. With helpers it is.
            let started = Cell::new(helpers.is_some().then(coarse_monotonic));
            let interrupted = || {
                let now = coarse_monotonic();
                let begin = started.get().unwrap_or(now);
                started.set(Some(begin));
                if let Some(slow) = slow.take() {
                    outside.run(slow);
                }
                let executed = now.saturating_sub(begin);
                cancelled.set(cancellations.stops(*current, executed));
                cancelled.get() || executed > limits.time_max
            };
            let measured = Cell::new(None);
            let clock = || nanos_since_first(&measured);
            let workers = helpers.as_deref().map(|helpers| helpers.for_call(*current, limits.time_max, cancellations));
            let call = Call {
                program,
                parameters,
                transaction_time,
                arena,
                interrupted: Some(&interrupted),
                clock: Some(&clock),
                workers: workers.as_ref().map(|workers| workers as &dyn WorkerPool),
                temporary_bytes_max: limits.temporary_bytes,
            };
            match (shares, &program.external) {
                (None, None) => ferrite_exec::run_transaction(stores, &call, scratch, &mut sink),
                (Some(shares), _) => shares.run(stores, &call, scratch, &mut sink),
                (None, Some(body)) => external::run(body, stores, &call, scratch, &mut sink, external, &outside),
            }
        });
        let result = result.map_err(|error| {
            assert!(stores.iter().all(Store::is_committed), "a call that failed has changed nothing");
            ended(error, cancelled.get().then_some(cancellations), (*time_is_asked).then_some(limits.time_max))
        });
        if let Some(variant) = ran.take() {
            sink.headers.keep(variant, additions);
        }
        (result, sink.writer)
    }

    /// [`Executor::call`] for a program that represents many ad hoc texts. None when the text must
    /// be compiled as it is written, to fail in its own words: nothing was changed, and nothing
    /// answered.
    pub fn call_cached(
        &mut self,
        stores: &mut [Store],
        request: &Request<'_>,
        slow: Option<Slow<'_>>,
        out: &mut Vec<u8>,
    ) -> Option<CallOutcome> {
        std::mem::swap(&mut self.headers, &mut self.cached_headers);
        let known = self.headers.additions;
        let (result, writer) = self.execute(stores, request, None, slow, out);
        let outcome = match result {
            Err(error) if is_about_values(&error) => {
                // Takes back what it has written.
                drop(writer);
                None
            }
            result => Some(finish(result, writer)),
        };
        std::mem::swap(&mut self.headers, &mut self.cached_headers);
        if self.cached_headers.additions != known {
            if self.cached_programs.len() == CACHED_HEADERS_MAX {
                self.forget_cached();
            } else {
                self.cached_programs.push(Arc::clone(request.program));
            }
        }
        outcome
    }

    /// A call that brings its program. None, as with [`Executor::call_cached`], only where it says
    /// how it is recompiled.
    pub fn call_program(
        &mut self,
        stores: &mut [Store],
        call: &ProgramCall,
        transaction_time: i64,
        slow: Option<Slow<'_>>,
        out: &mut Vec<u8>,
    ) -> Option<CallOutcome> {
        self.within_time(call.time_max, |executor| executor.call_within(stores, call, transaction_time, slow, out))
    }

    /// `own`: how long it may take by the caller's wish.
    #[inline(always)]
    fn within_time<T>(&mut self, own: Option<Duration>, run: impl FnOnce(&mut Executor) -> T) -> T {
        let usual = self.limits.time_max;
        self.limits.time_max = own.unwrap_or(usual);
        self.time_is_asked = own.is_some();
        let outcome = run(self);
        (self.limits.time_max, self.time_is_asked) = (usual, false);
        outcome
    }

    /// [`Executor::call_program`], once it is known how long that may take.
    fn call_within(
        &mut self,
        stores: &mut [Store],
        call: &ProgramCall,
        transaction_time: i64,
        slow: Option<Slow<'_>>,
        out: &mut Vec<u8>,
    ) -> Option<CallOutcome> {
        let handle = call.reply.handle;
        if let Err(error) = self.begin(call.reply.call()) {
            response::write_error(out, handle, &error);
            return Some(CallOutcome::RolledBack);
        }
        let program = &call.program;
        let parameters = &call.parameters[..];
        let request = Request { program, parameters, drop_first_parameter: false, handle, transaction_time };
        if call.load {
            return Some(self.load(stores, &request, slow, out));
        }
        if call.recompile.is_some() {
            self.call_cached(stores, &request, slow, out)
        } else {
            Some(self.call_once(stores, &request, slow, out))
        }
    }

    /// [`Executor::call`] for a program that does not belong to the catalog.
    fn call_once(
        &mut self,
        stores: &mut [Store],
        request: &Request<'_>,
        slow: Option<Slow<'_>>,
        out: &mut Vec<u8>,
    ) -> CallOutcome {
        let kept = std::mem::take(&mut self.headers);
        let (result, writer) = self.execute(stores, request, None, slow, out);
        self.headers = kept;
        finish(result, writer)
    }
}

/// Whether the group's copies of the tables are ones that may be used.
#[inline(always)]
fn check_tables(program: &Program, catalog: &Catalog, list: &GroupCancellations) -> UserResult<()> {
    if list.is_unequal() { require_partitioned(program, catalog, list) } else { Ok(()) }
}

/// Copies of replicated tables that may differ from those of other groups are neither read nor
/// changed (docs/decisions/0129).
#[cold]
fn require_partitioned(program: &Program, catalog: &Catalog, list: &GroupCancellations) -> UserResult<()> {
    let is_replicated = |id| catalog.table(id).is_some_and(|table| !table.is_partitioned());
    // Or a view of one, joined to a partitioned table.
    let joins_one = |id| {
        let view = catalog.table(id).and_then(|table| table.view.as_ref());
        view.is_some_and(|view| view.joins.iter().any(|(joined, _)| is_replicated(*joined)))
    };
    if ferrite_plan::touches(program, &|id| is_replicated(id) || joins_one(id)) { Err(list.unequal()) } else { Ok(()) }
}

/// Nanoseconds since this was called first.
fn nanos_since_first(first: &Cell<Option<Instant>>) -> u64 {
    let begin = first.get().unwrap_or_else(Instant::now);
    first.set(Some(begin));
    begin.elapsed().as_nanos() as u64
}

/// The answer to a call that has failed. `asked`: the time that its caller gave it.
#[cold]
fn ended(error: UserError, cancelled: Option<&GroupCancellations>, asked: Option<Duration>) -> UserError {
    if let Some(cancelled) = cancelled {
        // Whatever it was interrupted in, this is why.
        return cancelled.error();
    }
    match asked {
        Some(time) if error.code() == "57014" && error.kind() == ErrorKind::Sql => {
            UserError::data("57014", "Transaction Interrupted")
                .with_detail(format!("it ran longer than the {} ms that the call was given", time.as_millis()))
                .with_hint("give the call a longer query timeout, narrow the query, or add an index")
        }
        _ => error,
    }
}

#[inline(always)]
fn finish(result: UserResult<()>, writer: ResponseWriter<'_>) -> CallOutcome {
    match result {
        Ok(()) => {
            writer.finish();
            CallOutcome::Committed
        }
        Err(error) => {
            writer.fail(&error);
            if error.kind() == ErrorKind::UserAbort { CallOutcome::Aborted } else { CallOutcome::RolledBack }
        }
    }
}

/// Errors that a text with constants may have when it is compiled: values out of range, conversions
/// that fail, parameters that are counted otherwise.
fn is_about_values(error: &UserError) -> bool {
    error.code().starts_with("22") && error.kind() != ErrorKind::UserAbort || error.kind() == ErrorKind::Parameters
}
