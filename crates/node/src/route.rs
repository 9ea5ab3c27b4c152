//! Which partition a call belongs to.

use ferrite_base::{PartitionId, UserError, UserResult};
use ferrite_partition::StoreSet;
use ferrite_plan::{Owners, owner};
use ferrite_plan::{Program, Routing};
use ferrite_value::ring::Ring;
use ferrite_value::{SqlType, Value};
use ferrite_wire::{Extensions, Parameters};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    Partition {
        partition: PartitionId,
        drop_first_parameter: bool,
    },
    /// These or all partitions, through the coordinator.
    Multi(StoreSet),
    /// None: a procedure outside of transactions.
    Compound,
}

impl Route {
    fn to(partition: PartitionId) -> Route {
        Route::Partition { partition, drop_first_parameter: false }
    }
}

/// The partitions that can answer a call which any can, and a number that picks one of them.
#[derive(Clone, Copy)]
pub enum AnyOf<'a> {
    All(u32),
    These(&'a [PartitionId], u32),
}

impl AnyOf<'_> {
    #[inline]
    fn one(self, ring: &Ring) -> PartitionId {
        match self {
            AnyOf::All(spread) => PartitionId(spread % ring.partition_count()),
            AnyOf::These(partitions, spread) => partitions[spread as usize % partitions.len()],
        }
    }
}

/// Decides where a call runs.
#[inline]
pub fn route(
    program: &Program,
    extensions: &Extensions,
    parameters: &Parameters<'_>,
    ring: &Ring,
    any: AnyOf<'_>,
) -> UserResult<Route> {
    if extensions.destination.is_some() {
        return destination(program, extensions, ring);
    }
    let given = |index: u16| {
        let key = parameters.nth(usize::from(index)).map_err(|error| unroutable(program, &error.to_string()))?;
        key.ok_or_else(|| parameter_count(program, parameters.count()))
    };
    Ok(match program.owners(given, ring)? {
        Owners::One(partition) => Route::to(partition),
        Owners::Any => Route::to(any.one(ring)),
        // All data is on the one partition.
        Owners::All if ring.partition_count() == 1 => Route::to(PartitionId(0)),
        Owners::All => Route::Multi(StoreSet::All),
        Owners::Several(partitions) => Route::Multi(StoreSet::Only(partitions.into())),
        Owners::None => Route::Compound,
        Owners::Named => return Err(no_destination(program)),
    })
}

#[cold]
fn no_destination(program: &Program) -> UserError {
    UserError::parameters(format!(
        "procedure {} is directed: it must be called with a partition destination",
        program.name
    ))
    .with_hint("use the client's call for all partitions")
}

/// The partition of a key whose column is not known: by the kind of the value itself.
pub fn partition_of_value(key: &Value<'_>, ring: &Ring) -> UserResult<PartitionId> {
    let column = match key {
        Value::Text(_) => SqlType::Varchar,
        Value::Bytes(_) => SqlType::Varbinary,
        _ => SqlType::Bigint,
    };
    owner(key, column, ring)
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
        .with_code("07006")
}
