//! Which partition a call belongs to.

use ferrite_base::{PartitionId, UserError, UserResult};
use ferrite_expr::Expr;
use ferrite_partition::Hold;
use ferrite_sql::plan::{Program, Routing};
use ferrite_value::ring::Ring;
use ferrite_value::{SqlType, Value, hash};
use ferrite_wire::{Extensions, Parameters};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    Partition {
        partition: PartitionId,
        drop_first_parameter: bool,
    },
    /// These or all partitions, through the coordinator.
    Multi(Hold),
    /// None: a procedure outside of transactions.
    Compound,
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
            owner(&key, *sql_type, ring).map(Route::to).or_else(|error| {
                equal_to_none(program, *index, &key, ring, spread).ok_or_else(|| unroutable(program, error.message()))
            })
        }
        Routing::Constant { value, sql_type } => {
            let Expr::Constant(value) = value else {
                return Err(UserError::internal("a constant routing key is not a constant"));
            };
            owner(&value.as_value(), *sql_type, ring).map(Route::to)
        }
        Routing::Any => Ok(Route::to(PartitionId(spread % ring.partition_count()))),
        // All data is on the one partition.
        Routing::All if ring.partition_count() == 1 => Ok(Route::to(PartitionId(0))),
        Routing::All => Ok(Route::Multi(Hold::All)),
        Routing::Compound => Ok(Route::Compound),
        Routing::Several { keys } => Ok(several(keys, parameters, ring)),
        Routing::Directed => Err(UserError::parameters(format!(
            "procedure {} is directed: it must be called with a partition destination",
            program.name
        ))
        .with_hint("use the client's call for all partitions")),
    }
}

/// A key that is compared and no integer: no row has it, on whichever partition.
#[cold]
fn equal_to_none(program: &Program, index: u16, key: &Value<'_>, ring: &Ring, spread: u32) -> Option<Route> {
    let number = matches!(key, Value::Float(_) | Value::Decimal(_));
    let compared = number && program.variants.as_ref().is_some_and(|variants| variants.takes_others(index));
    compared.then(|| Route::to(PartitionId(spread % ring.partition_count())))
}

/// The partitions that own the keys. Where that cannot be told, all of them: what is wrong is then said by the execution.
fn several(keys: &[(Expr, SqlType)], parameters: &Parameters<'_>, ring: &Ring) -> Route {
    let mut owners: Vec<PartitionId> = Vec::with_capacity(keys.len());
    for (key, sql_type) in keys {
        let value = match key {
            Expr::Constant(value) => Some(value.as_value()),
            Expr::Parameter(index) => parameters.nth(usize::from(*index)).ok().flatten(),
            _ => None,
        };
        // Others are converted before they are compared, and hashed as what they become.
        let as_stored = value.filter(|value| match value {
            Value::Integer(_) => sql_type.is_integer(),
            Value::Text(_) => *sql_type == SqlType::Varchar,
            Value::Bytes(_) => *sql_type == SqlType::Varbinary,
            _ => false,
        });
        let Some(Ok(partition)) = as_stored.map(|value| owner(&value, *sql_type, ring)) else {
            return Route::Multi(Hold::All);
        };
        if !owners.contains(&partition) {
            owners.push(partition);
        }
    }
    match owners[..] {
        [partition] => Route::to(partition),
        _ if owners.len() == ring.partition_count() as usize => Route::Multi(Hold::All),
        _ => {
            owners.sort_unstable();
            Route::Multi(Hold::Only(owners.into()))
        }
    }
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
