//! An array parameter in order, for searching it by halves. Whoever executes the call keeps it.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use ferrite_value::{Value, compare};

/// With this many elements and more, searching an array parameter by halves pays, once many rows
/// are looked for in it.
pub(crate) const ARRAY_SORTED_FROM: usize = 16;

/// An array's elements, put in order.
#[derive(Clone, Copy)]
pub struct SortedArray<'a> {
    /// Those that are not NULL, ascending.
    elements: &'a [Value<'a>],
    /// One of them is NULL.
    pub(crate) null: bool,
}

impl<'a> SortedArray<'a> {
    pub fn new(elements: &[Value<'a>], arena: &'a Bump) -> SortedArray<'a> {
        let mut sorted = ArenaVec::with_capacity_in(elements.len(), arena);
        sorted.extend(elements.iter().copied().filter(|element| !element.is_null()));
        sorted.sort_unstable_by(compare::order);
        SortedArray { null: sorted.len() < elements.len(), elements: sorted.into_bump_slice() }
    }

    /// Whether one of them equals `operand`, which is not NULL.
    pub(crate) fn has(&self, operand: &Value<'_>) -> bool {
        self.elements.binary_search_by(|element| compare::order(element, operand)).is_ok()
    }
}
