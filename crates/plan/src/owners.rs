//! Which partitions a call needs: what its program's routing says of the values that the call
//! brings.
//!
//! The rule is that the value that routes is the one that the program compares or stores. Values of
//! the key's own kind are both. A number that is compared with an integer column, and is of another
//! kind, equals one integer or none: it routes as that integer, and none is found on any partition.
//! Others are converted as the program converts them; where that takes another program
//! ([`crate::Variants`]), in which the parameter stands inside a conversion, its value says
//! nothing, and all partitions are asked.

use crate::program::{Program, Routing};
use ferrite_base::{PartitionId, UserError, UserResult};
use ferrite_expr::Expr;
use ferrite_value::ring::Ring;
use ferrite_value::{SqlType, Value, convert, hash};

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
                if !is_of_kind(&key, *sql_type)
                    && let Some(owners) = self.owners_by_variant(*index, key, ring)
                {
                    return Ok(owners);
                }
                owner(&key, *sql_type, ring).map(Owners::One).map_err(|error| unroutable(self, error.message()))
            }
            Routing::Constant { value, sql_type } => {
                let Expr::Constant(value) = value else {
                    return Err(UserError::internal("a constant routing key is not a constant"));
                };
                let value = value.as_value();
                match number_beside_integers(&value, *sql_type) {
                    Some(integer) => Ok(Owners::One(owner_of_integer(integer, ring))),
                    None => owner(&value, *sql_type, ring).map(Owners::One),
                }
            }
            Routing::Any => Ok(Owners::Any),
            Routing::All => Ok(Owners::All),
            Routing::Compound => Ok(Owners::None),
            Routing::Several { keys } => Ok(self.several(keys, &given, ring)),
            Routing::Directed => Ok(Owners::Named),
        }
    }

    /// Where a call goes that is run by a program of its own, for this value of the routing
    /// parameter.
    #[cold]
    fn owners_by_variant(&self, index: u16, key: Value<'_>, ring: &Ring) -> Option<Owners> {
        let variants = self.variants.as_ref().filter(|variants| variants.may_reach_all())?;
        match variants.equal_integer(self, index, key) {
            Some(integer) => Some(Owners::One(owner_of_integer(integer, ring))),
            None => variants.reaches_all(self, index, key).then_some(Owners::All),
        }
    }

    /// The partitions that own the keys. Where that cannot be told, all of them: what is wrong is
    /// then said by the execution.
    fn several<'v>(
        &self,
        keys: &[(Expr, SqlType)],
        given: &impl Fn(u16) -> UserResult<Value<'v>>,
        ring: &Ring,
    ) -> Owners {
        let mut owners: Vec<PartitionId> = Vec::with_capacity(keys.len());
        for (key, sql_type) in keys {
            let (value, number) = match key {
                Expr::Constant(value) => {
                    let value = value.as_value();
                    (Some(value), number_beside_integers(&value, *sql_type))
                }
                Expr::Parameter(index) => {
                    let value = given(*index).ok();
                    let of = |value| self.variants.as_ref()?.equal_integer(self, *index, value);
                    (value, value.filter(|value| !is_of_kind(value, *sql_type)).and_then(of))
                }
                _ => (None, None),
            };
            let owner = match (value, number) {
                // No row has it.
                (_, Some(None)) => continue,
                (_, Some(integer)) => Some(owner_of_integer(integer, ring)),
                // Others are converted before they are compared, and hashed as what they become.
                (Some(value), None) if is_of_kind(&value, *sql_type) && self.keeps_kind(key, *sql_type) => {
                    owner(&value, *sql_type, ring).ok()
                }
                _ => None,
            };
            let Some(partition) = owner else { return Owners::All };
            if !owners.contains(&partition) {
                owners.push(partition);
            }
        }
        match owners[..] {
            [] => Owners::One(owner_of_integer(None, ring)),
            [partition] => Owners::One(partition),
            _ if owners.len() == ring.partition_count() as usize => Owners::All,
            _ => {
                owners.sort_unstable();
                Owners::Several(owners)
            }
        }
    }

    /// Whether a key is compared as what is given: a parameter that is declared as another kind is
    /// converted before, and a large integer is another one as a FLOAT.
    fn keeps_kind(&self, key: &Expr, sql_type: SqlType) -> bool {
        match key {
            Expr::Parameter(index) => {
                let parameter = self.parameters.get(usize::from(*index));
                parameter.is_some_and(|parameter| parameter.column_type.sql_type.same_kind(sql_type))
            }
            _ => true,
        }
    }
}

/// The integer that a constant equals beside an integer column, if it is a number of another kind.
fn number_beside_integers(value: &Value<'_>, sql_type: SqlType) -> Option<Option<i64>> {
    if sql_type.is_integer() { convert::equal_integer(value) } else { None }
}

/// The partition of the rows with this integer. No row equals a number that is not whole: any
/// partition finds that.
fn owner_of_integer(integer: Option<i64>, ring: &Ring) -> PartitionId {
    ring.partition_of_optional(integer.map(hash::partition_token_i64))
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

/// The partition of the rows that a statement touches which one key fixes. `values`: the call's, as
/// its program has them.
pub fn owner_of_key(key: &Expr, sql_type: SqlType, values: &[Value<'_>], ring: &Ring) -> UserResult<PartitionId> {
    let constant = match key {
        Expr::Constant(value) => Some(value.as_value()),
        Expr::Parameter(index) => values.get(usize::from(*index)).copied(),
        _ => None,
    };
    let value = constant.ok_or_else(|| UserError::internal("a routing key is neither constant nor parameter"))?;
    match number_beside_integers(&value, sql_type).filter(|_| !is_of_kind(&value, sql_type)) {
        Some(integer) => Ok(owner_of_integer(integer, ring)),
        None => owner(&value, sql_type, ring),
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
