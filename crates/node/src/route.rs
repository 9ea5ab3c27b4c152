//! Which partition a call belongs to.

use ferrite_base::{PartitionId, UserError, UserResult};
use ferrite_expr::Expr;
use ferrite_sql::plan::{Program, Routing};
use ferrite_value::ring::Ring;
use ferrite_value::{SqlType, Value, hash};
use ferrite_wire::{Extensions, Parameters};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    Partition {
        partition: PartitionId,
        drop_first_parameter: bool,
    },
    /// All partitions, through the coordinator.
    Everywhere,
}

impl Route {
    fn to(partition: PartitionId) -> Route {
        Route::Partition { partition, drop_first_parameter: false }
    }
}

/// Decides where a call runs. `spread` picks the partition of calls that any can answer.
#[inline]
pub fn route(
    program: &Program,
    extensions: &Extensions,
    parameters: &Parameters<'_>,
    ring: &Ring,
    spread: u32,
) -> UserResult<Route> {
    if extensions.destination.is_some() {
        return destination(program, extensions, ring);
    }
    match &program.routing {
        Routing::Parameter { index, sql_type } => {
            // With one partition there is nothing to decide, and a bad key is found when it is converted.
            if ring.partition_count() == 1 {
                return Ok(Route::to(PartitionId(0)));
            }
            let key = parameters.nth(usize::from(*index)).map_err(|error| unroutable(program, &error.to_string()))?;
            let key = key.ok_or_else(|| parameter_count(program, parameters.count()))?;
            owner(&key, *sql_type, ring).map(Route::to).map_err(|error| unroutable(program, error.message()))
        }
        Routing::Constant { value, sql_type } => {
            let Expr::Constant(value) = value else {
                return Err(UserError::internal("a constant routing key is not a constant"));
            };
            owner(&value.as_value(), *sql_type, ring).map(Route::to)
        }
        Routing::Any => Ok(Route::to(PartitionId(spread % ring.partition_count()))),
        Routing::All => Ok(Route::Everywhere),
        Routing::Directed => Err(UserError::parameters(format!(
            "procedure {} is directed: it must be called with a partition destination",
            program.name
        ))
        .with_hint("use the client's call for all partitions")),
    }
}

fn owner(key: &Value<'_>, sql_type: SqlType, ring: &Ring) -> UserResult<PartitionId> {
    Ok(ring.partition_of_optional(hash::partition_token(key, sql_type)?))
}

/// A call that names its partition (wire-protocol 3.4).
#[cold]
fn destination(program: &Program, extensions: &Extensions, ring: &Ring) -> UserResult<Route> {
    let wanted = extensions.destination.expect("only called with a destination");
    let partition =
        u32::try_from(wanted).ok().filter(|wanted| *wanted < ring.partition_count()).map(PartitionId).ok_or_else(
            || {
                UserError::parameters(format!(
                    "there is no partition {wanted}: partitions are numbered from 0 to {}",
                    ring.partition_count() - 1
                ))
            },
        )?;
    match &program.routing {
        Routing::Directed => Ok(Route::Partition { partition, drop_first_parameter: true }),
        Routing::Parameter { index: 0, .. } => Ok(Route::to(partition)),
        Routing::Parameter { .. } if extensions.batch_call => Ok(Route::to(partition)),
        _ => Err(UserError::parameters(format!(
            "procedure {} cannot be sent to a partition: its first parameter is not its partitioning parameter",
            program.name
        ))),
    }
}

#[cold]
fn parameter_count(program: &Program, received: usize) -> UserError {
    ferrite_wire::failure::parameter_count(&program.name, program.parameters.len(), received)
}

#[cold]
fn unroutable(program: &Program, reason: &str) -> UserError {
    UserError::parameters(format!("the partitioning parameter of procedure {} is wrong: {reason}", program.name))
}
