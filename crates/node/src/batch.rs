//! Calls on their way to one partition, and whether a network thread may run them itself
//! (docs/decisions/0108-lone-calls.md).

use crate::plan_cache::CachedPlan;
use ferrite_base::{ProcedureId, limits};
use ferrite_partition::{CachedCall, CallHeader, Compiled};
use ferrite_wire::Parameters;
use std::sync::Arc;

/// What is run at once if its partition is idle: less than it takes to wake that.
const CALLS_RUN_HERE_MAX: usize = 8;
const BYTES_RUN_HERE_MAX: usize = 65_536;

/// Calls on their way to one partition.
#[derive(Default)]
pub struct Batch {
    pub calls: Vec<CallHeader>,
    pub bytes: Vec<u8>,
    /// Of the ad hoc statements among the calls.
    pub cached: Vec<CachedCall>,
}

impl Batch {
    /// Adds a procedure's call.
    #[inline]
    pub fn push(
        &mut self,
        connection: u64,
        handle: i64,
        procedure: ProcedureId,
        parameters: &Parameters<'_>,
        drop_first_parameter: bool,
    ) {
        let parameters_start = self.bytes.len() as u32;
        parameters.copy_to(&mut self.bytes);
        self.calls.push(CallHeader {
            connection,
            handle,
            procedure,
            parameters_start,
            parameters_end: self.bytes.len() as u32,
            drop_first_parameter,
        });
    }

    /// Adds an ad hoc statement with its parameters. `body`: as the client sent it, for the case
    /// that the plan turns out not to fit.
    pub fn push_ad_hoc(&mut self, connection: u64, handle: i64, parameters: &[u8], body: &[u8], plan: &CachedPlan) {
        let parameters_start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(parameters);
        let parameters_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(body);
        self.calls.push(CallHeader {
            connection,
            handle,
            procedure: CallHeader::cached_procedure(self.cached.len()),
            parameters_start,
            parameters_end,
            drop_first_parameter: false,
        });
        self.cached.push(CachedCall {
            program: Arc::clone(&plan.program),
            is_short: plan.is_short,
            body_start: parameters_end,
            body_end: self.bytes.len() as u32,
        });
    }

    /// It is to be sent: offsets are 32 bits, and one batch should not hold everything up.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes.len() > limits::FRAME_BYTES_MAX
    }

    /// Few calls, each of which is certainly short.
    pub fn is_short(&self, compiled: &Compiled) -> bool {
        self.calls.len() <= CALLS_RUN_HERE_MAX
            && self.bytes.len() <= BYTES_RUN_HERE_MAX
            && self.calls.iter().all(|call| self.is_short_call(call, compiled))
    }

    fn is_short_call(&self, call: &CallHeader, compiled: &Compiled) -> bool {
        let (program, is_short) = match call.cached() {
            None => (compiled.program(call.procedure), compiled.is_short(call.procedure)),
            Some(place) => (&self.cached[place].program, self.cached[place].is_short),
        };
        is_short
            && program.variants.as_ref().is_none_or(|variants| {
                let bytes = &self.bytes[call.parameters_start as usize..call.parameters_end as usize];
                Parameters::parse(bytes).is_ok_and(|given| {
                    // The destination of a directed call is none of its program's.
                    let first = usize::from(call.drop_first_parameter);
                    let values = (first..given.count()).map_while(|place| given.nth(place).ok().flatten());
                    variants.none_for(program, values)
                })
            })
    }
}
