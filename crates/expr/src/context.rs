//! What an expression needs from the place where it is evaluated.

use crate::sorted_array::SortedArray;
use bumpalo::Bump;
use ferrite_base::UserResult;
use ferrite_value::Value;

/// Where an expression finds its inputs. `'a` outlives one evaluation: rows, parameters and the
/// arena are all borrowed for it, and results may point into any of them.
pub trait Context<'a> {
    /// A column of the row bound to `slot`; NULL when the slot holds the null row of an outer join.
    fn column(&self, slot: u16, column: u16) -> Value<'a>;
    fn parameter(&self, index: u16) -> Value<'a>;
    fn register(&self, index: u16) -> Value<'a>;
    /// Memory for results that are computed; freed when the transaction ends.
    fn arena(&self) -> &'a Bump;
    /// NOW and CURRENT_TIMESTAMP: microseconds since 1970, one value per transaction.
    fn transaction_time(&self) -> i64;
    /// Told of the cost of what is done next, in units of about a byte that is copied, where one
    /// evaluation may be much. An error ends it.
    fn cost(&self, _units: usize) -> UserResult<()> {
        Ok(())
    }
    /// An array parameter in order, for whom many rows are looked for in it; None while looking at
    /// its elements is as fast.
    fn sorted_array(&self, _parameter: u16) -> UserResult<Option<SortedArray<'a>>> {
        Ok(None)
    }
    /// The result of a subquery for the rows bound now. `operand` is NULL for scalar subqueries and
    /// EXISTS.
    fn subquery(&self, subquery: u16, operand: Value<'a>) -> UserResult<Value<'a>>;
}
