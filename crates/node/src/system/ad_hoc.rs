//! Ad hoc statements: compiled here, unless a plan is at hand, and passed on to the thread that
//! executes them.

use super::{Handled, System};
use crate::connection::is_admin;
use crate::route::{self, Route};
use crate::submit::RunsAt;
use crate::{adhoc, compiling, privilege};
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_partition::{Compiled, Reply};
use ferrite_sql::Parameterizer;
use ferrite_system::statistics::Asker;
use ferrite_value::Value;
use ferrite_wire::Parameters;
use ferrite_wire::invocation::Invocation;
use std::sync::Arc;
use std::time::Instant;

/// A parameter set on the wire: the count, 0.
const NO_PARAMETERS: &[u8] = &[0, 0];

impl System {
    pub(super) fn ad_hoc(
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
                if let Some(group) = self.submit.first_elsewhere() {
                    return self.submit.pass_on(group, body, true, reply).map(|()| Handled::PassedOn);
                }
                self.submit.mode.admit(false, is_admin(reply.connection))?;
                self.change_schema((*text).to_owned(), self.settings.sql, reply);
            }
            adhoc::Compilation::Program(program) => {
                if let Some(parameterizer) = parameterizer {
                    self.plan_cache.met(compiled, &*self.row_counts, parameterizer, text, &program);
                }
                let place = self.submit.admit(&program, &Default::default(), &rest, reply)?;
                let mut bytes = Vec::new();
                rest.copy_to(&mut bytes);
                self.submit.program(program, bytes, compiled, place, body, reply, false)?;
            }
        }
        Ok(Handled::PassedOn)
    }

    /// `@AdHocSpForTest(sql, key, parameters...)`: a statement that sees one partition only, that
    /// of the key.
    pub(super) fn ad_hoc_on_partition(
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
        let partition = route::partition_of_value(key, &self.submit.routes.ring)?;
        let place = self.submit.place(Route::Partition { partition, drop_first_parameter: false }, reply);
        if let RunsAt::Here(_) = place {
            self.submit.mode.admit(program.read_only, is_admin(reply.connection))?;
        }
        let given = invocation.parameters.without_first().and_then(|rest| rest.without_first())?;
        let mut bytes = Vec::new();
        given.copy_to(&mut bytes);
        self.submit.program(program, bytes, compiled, place, body, reply, false)?;
        Ok(Handled::PassedOn)
    }

    /// `@QueryStats(sql)`: a query over the tables that @Statistics answers, at this moment.
    pub(super) fn query_statistics(
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
        let place = self.submit.admit(&program, &Default::default(), &nothing, reply)?;
        self.submit.program(program, NO_PARAMETERS.to_vec(), compiled, place, body, reply, false)?;
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
        let place = self.submit.admit(&plan.program, &Default::default(), &parameters, reply).ok()?;
        self.submit.program(Arc::clone(&plan.program), bytes, compiled, place, body, reply, true).ok()
    }

    /// Compiles for a call.
    pub(super) fn within<T>(&self, reply: &Reply, compile: impl FnOnce() -> UserResult<T>) -> UserResult<T> {
        compiling::within(&self.cancellations, self.submit.query_time_max, reply.call(), compile)
    }
}
