//! Which calls of programs are taken, and where each runs: the one place that decides it, for the
//! calls of this node's clients, for those that other nodes pass on, and for the node's own.

use crate::mode::Mode;
use crate::route::{self, AnyOf, Route};
use ferrite_base::{ProcedureId, UserResult};
use ferrite_partition::Compiled;
use ferrite_plan::Program;
use ferrite_value::ring::Ring;
use ferrite_wire::{Extensions, Parameters, failure};

/// Of one call, what decides beside its program.
pub struct Request<'a> {
    pub extensions: &'a Extensions,
    pub parameters: &'a Parameters<'a>,
    /// It comes from an administrator's connection.
    pub admin: bool,
    /// For a call that any partition can answer.
    pub any: AnyOf<'a>,
}

/// Where the call runs. An error is its answer: unavailable where this node takes no such call at
/// present, any other follows from the schema.
#[inline]
pub fn admit(mode: &Mode, ring: &Ring, program: &Program, request: &Request<'_>) -> UserResult<Route> {
    mode.admit(program.read_only, request.admin)?;
    route(ring, program, request)
}

/// The same, whether this node takes it or not: where another node leads the group.
#[inline]
pub fn route(ring: &Ring, program: &Program, request: &Request<'_>) -> UserResult<Route> {
    route::route(program, request.extensions, request.parameters, ring, request.any)
}

/// The procedure that a call names.
pub fn find(compiled: &Compiled, name: &str) -> UserResult<ProcedureId> {
    compiled.find(name).ok_or_else(|| failure::unknown_procedure(name))
}
