//! Which partitions a call needs: what its program's routing says of the values that the call
//! brings.
//!
//! The rule is that the value that routes is the one that the program compares or stores. Values of
//! the key's own kind are both. Others are converted as the program converts them; where that takes
//! another program ([`crate::Variants`]), in which the parameter stands inside a conversion, its
//! value says nothing, and all partitions are asked.

use crate::program::{Program, Routing};
use ferrite_base::{PartitionId, UserError, UserResult};
use ferrite_expr::Expr;
use ferrite_value::ring::Ring;
use ferrite_value::{SqlType, Value, hash};

/// Where a call runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Owners {
    One(PartitionId),
    /// On any one.
    Any,
    /// On these, as one transaction; ascending.
    Several(Vec<PartitionId>),
    /// On all, as one transaction.
    All,
    /// On the one that the caller names.
    Named,
    /// On none: a procedure outside of transactions.
    None,
}

impl Program {
    /// Who owns what a call touches; `given` answers the caller's parameters as they came.
    #[inline]
    pub fn owners<'v>(&self, given: impl Fn(u16) -> UserResult<Value<'v>>, ring: &Ring) -> UserResult<Owners> {
        match &self.routing {
            Routing::Parameter { index, sql_type } => {
                // With one partition there is nothing to decide, and a bad key is found when it is
                // converted.
                if ring.partition_count() == 1 {
                    return Ok(Owners::One(PartitionId(0)));
                }
                let key = given(*index)?;
                if !is_of_kind(&key, *sql_type) && self.is_compiled_for(*index, &key) {
                    return Ok(Owners::All);
                }
                owner(&key, *sql_type, ring).map(Owners::One).map_err(|error| unroutable(self, error.message()))
            }
            Routing::Constant { value, sql_type } => {
                let Expr::Constant(value) = value else {
                    return Err(UserError::internal("a constant routing key is not a constant"));
                };
                owner(&value.as_value(), *sql_type, ring).map(Owners::One)
            }
            Routing::Any => Ok(Owners::Any),
            Routing::All => Ok(Owners::All),
            Routing::Compound => Ok(Owners::None),
            Routing::Several { keys } => Ok(several(keys, &given, ring)),
            Routing::Directed => Ok(Owners::Named),
        }
    }

    /// Whether the value of the routing parameter is run by a program of its own. That is compiled
    /// for all partitions.
    #[cold]
    fn is_compiled_for(&self, index: u16, key: &Value<'_>) -> bool {
        self.variants.as_ref().is_some_and(|variants| variants.reaches_all(self, index, *key))
    }
}

/// The key's own kind: what comes is what is hashed, compared and stored.
#[inline]
fn is_of_kind(key: &Value<'_>, sql_type: SqlType) -> bool {
    match key {
        Value::Integer(_) => sql_type.is_integer(),
        Value::Text(_) => sql_type == SqlType::Varchar,
        Value::Bytes(_) => sql_type == SqlType::Varbinary,
        _ => false,
    }
}

/// The partitions that own the keys. Where that cannot be told, all of them: what is wrong is then
/// said by the execution.
fn several<'v>(keys: &[(Expr, SqlType)], given: &impl Fn(u16) -> UserResult<Value<'v>>, ring: &Ring) -> Owners {
    let mut owners: Vec<PartitionId> = Vec::with_capacity(keys.len());
    for (key, sql_type) in keys {
        let value = match key {
            Expr::Constant(value) => Some(value.as_value()),
            Expr::Parameter(index) => given(*index).ok(),
            _ => None,
        };
        // Others are converted before they are compared, and hashed as what they become.
        let as_stored = value.filter(|value| is_of_kind(value, *sql_type));
        let Some(Ok(partition)) = as_stored.map(|value| owner(&value, *sql_type, ring)) else {
            return Owners::All;
        };
        if !owners.contains(&partition) {
            owners.push(partition);
        }
    }
    match owners[..] {
        [partition] => Owners::One(partition),
        _ if owners.len() == ring.partition_count() as usize => Owners::All,
        _ => {
            owners.sort_unstable();
            Owners::Several(owners)
        }
    }
}

/// The partition that owns a key of a column of this type.
#[inline]
pub fn owner(key: &Value<'_>, sql_type: SqlType, ring: &Ring) -> UserResult<PartitionId> {
    Ok(ring.partition_of_optional(hash::partition_token(key, sql_type)?))
}

#[cold]
fn unroutable(program: &Program, reason: &str) -> UserError {
    UserError::parameters(format!("the partitioning parameter of procedure {} is wrong: {reason}", program.name))
        .with_code("07006")
}
