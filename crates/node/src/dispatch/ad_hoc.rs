//! Ad hoc statements of which the plan is known.

use super::Dispatcher;
use crate::admission::{self, Request};
use crate::connection::{Connection, is_admin};
use crate::route::Route;
use ferrite_partition::{Event, ProgramCall, StoreSet};
use ferrite_plan::Program;
use ferrite_value::Value;
use ferrite_wire::invocation::Invocation;
use ferrite_wire::{Extensions, Parameters};
use std::sync::Arc;

impl Dispatcher {
    /// An ad hoc statement whose plan is at hand takes the way of a procedure call. None: it has to
    /// be compiled.
    pub(super) fn ad_hoc(
        &mut self,
        connection: &mut Connection,
        invocation: &Invocation<'_>,
        body: &[u8],
    ) -> Option<()> {
        let Ok(Some(Value::Text(text))) = invocation.parameters.nth(0) else { return None };
        let given = invocation.parameters.without_first().ok()?;
        let plan = self.node.plan_cache.find(&self.compiled, &mut self.parameterizer, text, given.count())?;
        self.arena.reset();
        self.parameters.clear();
        plan.write_parameters(&self.parameterizer, text, &given, &self.arena, &mut self.parameters)?;
        let parameters = Parameters::parse(&self.parameters).ok()?;
        self.spread = self.spread.wrapping_add(1);
        let request = Request {
            extensions: &Extensions::default(),
            parameters: &parameters,
            admin: is_admin(connection.id),
            any: self.ways.any(self.spread),
        };
        // The system thread answers one that is refused.
        let route = admission::admit(&self.mode, &self.routes.ring, &plan.program, &request).ok()?;
        if let Some(group) = self.ways.elsewhere(&route) {
            self.elsewhere(connection, invocation, body, group);
            return Some(());
        }
        connection.count_call(body.len());
        connection.ad_hoc_calls += 1;
        match route {
            Route::Partition { partition, .. } if !plan.program.may_take_long() => {
                let batch = &mut self.batches[partition.index()];
                batch.push_ad_hoc(connection.id, invocation.handle, &self.parameters, body, &plan);
                if batch.is_full() {
                    self.send_batches();
                }
            }
            route => {
                let call = self.ad_hoc_alone(connection, invocation.handle, &plan.program, body);
                match route {
                    Route::Partition { partition, .. } => {
                        self.send_batches();
                        // Where it has ended meanwhile, the call has got its answer.
                        let _ = self.ways.table().to_partition(partition, Event::Program(Box::new(call)));
                    }
                    Route::Multi(stores) => self.several_in_turn(ProgramCall { stores, ..call }, body),
                    Route::Compound => unreachable!("a statement is not a compound procedure"),
                }
            }
        }
        Some(())
    }

    /// A statement that is not part of a batch.
    fn ad_hoc_alone(&self, connection: &Connection, handle: i64, program: &Arc<Program>, body: &[u8]) -> ProgramCall {
        let reply = self.reply(connection, handle);
        let again = reply.clone();
        let recompile = Arc::clone(&self.recompile);
        let text = body.to_vec();
        ProgramCall {
            program: Arc::clone(program),
            compiled: Arc::clone(&self.compiled),
            parameters: self.parameters.clone(),
            stores: StoreSet::All,
            turn: None,
            time_max: None,
            retry: Some(self.resend(connection, handle, body)),
            load: false,
            recompile: Some(Box::new(move || recompile(again, &text))),
            reply,
        }
    }
}
