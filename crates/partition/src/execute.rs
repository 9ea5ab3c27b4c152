//! One call: parameters from the wire, the program on the stores, the answer back to the wire.

mod external;
mod load;

use crate::cancel::{CallId, Cancellations};
use crate::contain::{Outside, contained};
use crate::counters::CallOutcome;
use crate::event::ProgramCall;
use crate::predictor::CallProfile;
use crate::worker_pool::{CallWorkers, Helpers};
use bumpalo::Bump;
use ferrite_base::limits::VALUE_BYTES_MAX;
use ferrite_base::{CallLimits, ErrorKind, PartitionId, UserError, UserResult, fault};
use ferrite_catalog::Catalog;
use ferrite_exec::{Call, ResultSink, Scratch, WorkerPool};
use ferrite_io::coarse_monotonic;
use ferrite_plan::Fitted;
use ferrite_plan::{OutputColumn, Parameter, Program};
use ferrite_table::Store;
use ferrite_value::{SqlType, Value, convert};
use ferrite_wire::{OpenTable, Parameters, ResponseWriter, TableHeader, failure, response};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    cancellations: Arc<Cancellations>,
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

/// The tables' headers as bytes, by where a program keeps the columns. Valid while those programs
/// live: emptied when the catalog changes, and not used for ad hoc programs.
#[derive(Default)]
struct HeaderCache {
    entries: Vec<(*const OutputColumn, TableHeader)>,
    /// Programs that may be dropped elsewhere while `entries` has columns of theirs: variants, and
    /// statements that a procedure makes up. At most one for each addition since both were emptied.
    programs: Vec<Arc<Program>>,
    /// How many were ever added.
    additions: u64,
}

// SAFETY: the pointers are compared, never followed.
unsafe impl Send for HeaderCache {}

/// Memory for values that is kept from call to call.
const ARENA_BYTES_KEPT: usize = 4 * 1024 * 1024;
/// More result shapes than this share the cache by replacing it.
const CACHED_HEADERS_MAX: usize = 256;

impl HeaderCache {
    /// Position of the header for `columns`.
    #[inline]
    fn position(&mut self, columns: &[OutputColumn]) -> usize {
        let key = columns.as_ptr();
        match self.entries.iter().position(|(known, _)| *known == key) {
            Some(position) => position,
            None => {
                if self.entries.len() == CACHED_HEADERS_MAX {
                    self.clear();
                }
                self.entries.push((key, header_of(columns)));
                self.additions += 1;
                self.entries.len() - 1
            }
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.programs.clear();
    }

    /// The program has run, and there were `additions` before: its columns stay where they are.
    fn keep(&mut self, program: Arc<Program>, additions: u64) {
        if self.additions != additions {
            self.programs.push(program);
        }
    }
}

#[cold]
fn header_of(columns: &[OutputColumn]) -> TableHeader {
    TableHeader::new(columns.iter().map(|column| (column.name.as_str(), column.sql_type)))
}

impl Executor {
    /// For calls that take no more than these.
    pub fn new(limits: impl Into<CallLimits>) -> Executor {
        Executor {
            limits: limits.into(),
            time_is_asked: false,
            cancellations: Arc::default(),
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
    pub fn watch(&mut self, cancellations: &Arc<Cancellations>) {
        self.cancellations = Arc::clone(cancellations);
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
        let (result, writer) = self.execute(stores, request, None, out);
        finish(result, writer)
    }

    /// Runs the program; the answer is written but for its end. What fails is rolled back by
    /// [`ferrite_exec::run_transaction`] or [`external::run`]; what panics, by `contained` around
    /// both.
    #[inline(always)]
    fn execute<'o>(
        &mut self,
        stores: &mut [Store],
        request: &Request<'_>,
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
        let mut sink =
            WireSink { writer: ResponseWriter::begin(out, handle).within(limits.result_bytes), headers, open: None };
        let marks = |stores: &[Store]| stores.iter().map(Store::beginning).collect();
        let result = contained(stores, marks, &outside, &program.name, |stores| {
            let catalog = stores.first().map(Store::catalog).expect("a call has a store");
            let fitted = decode_parameters(program, catalog, parameters, drop_first_parameter, arena)?;
            let Fitted { program: variant, values: parameters } = fitted;
            if variant.is_some() {
                ran.set(variant.clone());
            }
            let program = variant.as_deref().unwrap_or(&**program);
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
            let clock = || {
                let begin = measured.get().unwrap_or_else(Instant::now);
                measured.set(Some(begin));
                begin.elapsed().as_nanos() as u64
            };
            let workers = helpers.as_deref().map(|helpers| CallWorkers {
                helpers,
                begun: Instant::now(),
                time_max: limits.time_max,
                cancellations,
                call: *current,
            });
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
            match &program.external {
                None => ferrite_exec::run_transaction(stores, &call, scratch, &mut sink),
                Some(body) => external::run(body, stores, &call, scratch, &mut sink, external, &outside),
            }
        });
        let result = match result {
            Err(error) => {
                assert!(stores.iter().all(Store::is_committed), "a call that failed has changed nothing");
                Err(ended(error, cancelled.get().then_some(cancellations), (*time_is_asked).then_some(limits.time_max)))
            }
            done => done,
        };
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
        let (result, writer) = self.execute(stores, request, slow, out);
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
        let usual = self.limits.time_max;
        self.limits.time_max = call.time_max.unwrap_or(usual);
        self.time_is_asked = call.time_max.is_some();
        let outcome = self.call_within(stores, call, transaction_time, slow, out);
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
        let (result, writer) = self.execute(stores, request, slow, out);
        self.headers = kept;
        finish(result, writer)
    }
}

/// The answer to a call that has failed. `asked`: the time that its caller gave it.
#[cold]
fn ended(error: UserError, cancelled: Option<&Arc<Cancellations>>, asked: Option<Duration>) -> UserError {
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

/// Decodes and converts the call's parameters to the declared types, or to those of the program
/// that takes their types.
#[inline]
pub fn decode_parameters<'x>(
    program: &'x Program,
    catalog: &Catalog,
    bytes: &'x [u8],
    drop_first: bool,
    arena: &'x Bump,
) -> UserResult<Fitted<'x>> {
    let mut given = Parameters::parse(bytes).map_err(|error| malformed(program, &error))?;
    if drop_first {
        given = given.without_first().map_err(|error| malformed(program, &error))?;
    }
    let declared = &program.parameters;
    if given.count() != declared.len() {
        if let Some(broken) = program.external.as_ref().and_then(|external| external.broken.clone()) {
            return Err(broken);
        }
        return Err(failure::parameter_count(&program.name, declared.len(), given.count()));
    }
    let values = given.decode(arena).map_err(|error| malformed(program, &error))?;
    as_declared(program, catalog, values, arena)
}

/// Values as a call of the program would have them; their number is the declared one.
#[inline]
fn as_declared<'x>(
    program: &'x Program,
    catalog: &Catalog,
    values: &'x [Value<'x>],
    arena: &'x Bump,
) -> UserResult<Fitted<'x>> {
    // Most calls carry exactly the declared kinds; integers of any width are one kind.
    for (value, parameter) in values.iter().zip(&program.parameters) {
        if !is_as_declared(value, parameter) {
            return fit(program, catalog, values, arena);
        }
    }
    Ok(Fitted { program: None, values })
}

fn fit<'x>(program: &Program, catalog: &Catalog, given: &'x [Value<'x>], arena: &'x Bump) -> UserResult<Fitted<'x>> {
    let Some(variants) = &program.variants else {
        return Ok(Fitted { program: None, values: convert_all(program, given, arena)? });
    };
    let Fitted { program: variant, values } = variants.fit(program, catalog, given, arena);
    let values = convert_all(variant.as_deref().unwrap_or(program), values, arena)?;
    Ok(Fitted { program: variant, values })
}

/// Whether a call with these values would get as far as the program.
pub(crate) fn check_parameters(program: &Program, catalog: &Catalog, values: &[Value<'_>]) -> UserResult<()> {
    if values.len() != program.parameters.len() {
        return Err(failure::parameter_count(&program.name, program.parameters.len(), values.len()));
    }
    as_declared(program, catalog, values, &Bump::new()).map(drop)
}

#[inline]
fn is_as_declared(value: &Value<'_>, parameter: &Parameter) -> bool {
    match (value, parameter.column_type.sql_type) {
        (Value::Integer(_), SqlType::Bigint) => !parameter.array,
        (Value::Bytes(bytes), SqlType::Varbinary) => {
            bytes.len() <= VALUE_BYTES_MAX && !parameter.array && !parameter.table
        }
        (Value::Integer(value), SqlType::Integer) => {
            i32::try_from(*value).is_ok_and(|v| v != i32::MIN) && !parameter.array
        }
        (Value::Integer(value), SqlType::Smallint) => {
            i16::try_from(*value).is_ok_and(|v| v != i16::MIN) && !parameter.array
        }
        _ => false,
    }
}

fn convert_all<'x>(program: &Program, given: &[Value<'x>], arena: &'x Bump) -> UserResult<&'x [Value<'x>]> {
    let values = arena.alloc_slice_fill_copy(given.len(), Value::Null);
    for (index, ((slot, value), parameter)) in values.iter_mut().zip(given).zip(&program.parameters).enumerate() {
        let converted = if parameter.array && matches!(value, Value::Null) && program.external.is_some() {
            // Other languages have arrays that are null; lists of SQL are not.
            Ok(Value::Null)
        } else if parameter.table {
            to_table(*value, parameter.array)
        } else if parameter.array {
            convert::to_declared_array(*value, &parameter.column_type, arena)
        } else {
            convert::to_declared(*value, &parameter.column_type, arena)
        };
        *slot = converted.map_err(|error| failure::parameter_type(&program.name, index, error.message()))?;
        check_size(program, index, slot)?;
    }
    Ok(values)
}

/// What a statement is given may come back as a value, and clients refuse larger ones. A body in
/// another language may take more: what it passes on to its statements is checked there.
#[inline]
fn check_size(program: &Program, index: usize, value: &Value<'_>) -> UserResult<()> {
    let bytes = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) | Value::Geography(bytes) => bytes.len(),
        _ => 0,
    };
    if bytes > VALUE_BYTES_MAX && program.external.is_none() { Err(too_long(program, index, bytes)) } else { Ok(()) }
}

/// `index` counts from 0, as for types.
#[cold]
fn too_long(program: &Program, index: usize, bytes: usize) -> UserError {
    UserError::limit(format!("limit of {VALUE_BYTES_MAX} bytes of a value exceeded"))
        .with_detail(format!("parameter {index} of {} has {bytes}", program.name))
        .with_hint("store it in several values, or compress it")
}

/// A table parameter: whole and readable to its last cell, so that a body need not distrust it.
fn to_table(value: Value<'_>, array: bool) -> UserResult<Value<'_>> {
    match value {
        Value::Array(elements) if array => {
            elements.iter().try_for_each(|element| to_table(*element, false).map(drop))?;
            Ok(value)
        }
        Value::Null => Ok(value),
        Value::Table(bytes) if !array => {
            let table = ferrite_wire::Table::parse(bytes).and_then(|table| table.check());
            table.map_err(|error| UserError::parameters(format!("the table is malformed: {error}")))?;
            Ok(value)
        }
        other => {
            let declared = if array { "an array of tables" } else { "a table" };
            Err(UserError::parameters(format!("{} given where {declared} is declared", other.kind_name())))
        }
    }
}

#[cold]
fn malformed(program: &Program, detail: &dyn std::fmt::Display) -> UserError {
    UserError::parameters(format!("the parameters of {} are malformed: {detail}", program.name))
        .with_hint("the client and the server disagree about the protocol; use a current client")
}

/// Writes results as the protocol's tables.
struct WireSink<'o, 'c> {
    writer: ResponseWriter<'o>,
    headers: &'c mut HeaderCache,
    open: Option<(OpenTable, usize)>,
}

impl ResultSink for WireSink<'_, '_> {
    #[inline]
    fn begin_table(&mut self, columns: &[OutputColumn]) {
        let position = self.headers.position(columns);
        let table = self.writer.table(&self.headers.entries[position].1).suspend();
        self.open = Some((table, position));
    }

    #[inline]
    fn row(&mut self, values: &[Value<'_>]) -> UserResult<()> {
        fault::point(fault::Point::Answer);
        let (table, position) = self.open.take().expect("rows come after their table was begun");
        let mut table = self.writer.resume_table(table, &self.headers.entries[position].1);
        table.row(values)?;
        self.open = Some((table.suspend(), position));
        Ok(())
    }

    #[inline]
    fn end_table(&mut self) {
        let (table, position) = self.open.take().expect("a table is ended once");
        self.writer.resume_table(table, &self.headers.entries[position].1).finish();
    }

    fn modified(&mut self, rows: u64) {
        self.writer.modified_tuples(rows as i64);
    }

    #[inline]
    fn status(&mut self, value: Option<i64>) {
        // NULL is the smallest integer on the wire.
        self.writer.scalar_table(value.unwrap_or(i64::MIN));
    }
}
