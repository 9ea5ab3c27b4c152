//! The elements of an IN list or array, and how a long one is searched.
//!
//! Owns: the order of a list's constants, made when the list is first asked and kept with it.
//! Promises the answer that looking at the elements one after the other has, with one difference:
//! an element that is not a constant is not evaluated where a constant decides, so its error is not
//! met then. Whoever changes the elements drops the order with it. The order of an array, which
//! comes with a call, is kept by whoever executes the call ([`crate::SortedArray`]).

use crate::tree::Expr;
use ferrite_value::{OwnedValue, Value, compare};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

/// With this many elements and more their constants are searched by halves: below, looking at one
/// after the other is as fast.
const ORDERED_FROM: usize = 6;

/// The elements of an IN list.
#[derive(Default)]
pub struct List {
    elements: Box<[Expr]>,
    order: OnceLock<Box<Order>>,
}

/// A list's elements, sorted out.
pub(crate) struct Order {
    constants: Constants,
    /// One of the constants is NULL.
    pub(crate) null: bool,
    /// Positions of the elements that are not constants.
    pub(crate) others: Box<[u32]>,
}

/// The constants that are not NULL, ascending, equal ones once.
enum Constants {
    /// All of them are integers, which is how the list comes from most programs.
    Integers(Box<[i64]>),
    /// Their positions.
    Any(Box<[u32]>),
}

impl List {
    /// None for a short list.
    #[inline]
    pub(crate) fn order(&self) -> Option<&Order> {
        (self.elements.len() >= ORDERED_FROM).then(|| &**self.order.get_or_init(|| Box::new(Order::of(&self.elements))))
    }

    /// Whether one of the constants equals `operand`, which is not NULL.
    pub(crate) fn has_constant(&self, order: &Order, operand: &Value<'_>) -> bool {
        match (&order.constants, operand) {
            (Constants::Integers(integers), Value::Integer(wanted)) => integers.binary_search(wanted).is_ok(),
            (Constants::Integers(integers), wanted) => {
                integers.binary_search_by(|integer| compare::order(&Value::Integer(*integer), wanted)).is_ok()
            }
            (Constants::Any(positions), wanted) => positions
                .binary_search_by(|position| compare::order(&constant(&self.elements, *position), wanted))
                .is_ok(),
        }
    }
}

impl Order {
    fn of(elements: &[Expr]) -> Order {
        let mut null = false;
        let mut constants = Vec::with_capacity(elements.len());
        let mut others = Vec::new();
        for (position, element) in (0..).zip(elements) {
            match element {
                Expr::Constant(OwnedValue::Null) => null = true,
                Expr::Constant(_) => constants.push(position),
                _ => others.push(position),
            }
        }
        let integer = |position: &u32| match &elements[*position as usize] {
            Expr::Constant(OwnedValue::Integer(value)) => Some(*value),
            _ => None,
        };
        let constants = match constants.iter().map(integer).collect::<Option<Vec<i64>>>() {
            Some(mut integers) => {
                integers.sort_unstable();
                integers.dedup();
                Constants::Integers(integers.into())
            }
            None => {
                let value = |position: u32| constant(elements, position);
                constants.sort_unstable_by(|left, right| compare::order(&value(*left), &value(*right)));
                constants.dedup_by(|left, right| compare::equal_grouping(&value(*left), &value(*right)));
                Constants::Any(constants.into())
            }
        };
        Order { constants, null, others: others.into() }
    }
}

fn constant(elements: &[Expr], position: u32) -> Value<'_> {
    match &elements[position as usize] {
        Expr::Constant(value) => value.as_value(),
        _ => unreachable!("only constants are put in order"),
    }
}

impl Deref for List {
    type Target = [Expr];

    fn deref(&self) -> &[Expr] {
        &self.elements
    }
}

impl DerefMut for List {
    fn deref_mut(&mut self) -> &mut [Expr] {
        self.order.take();
        &mut self.elements
    }
}

impl From<Vec<Expr>> for List {
    fn from(elements: Vec<Expr>) -> List {
        List { elements: elements.into(), order: OnceLock::new() }
    }
}

impl FromIterator<Expr> for List {
    fn from_iter<I: IntoIterator<Item = Expr>>(elements: I) -> List {
        Vec::from_iter(elements).into()
    }
}

impl Clone for List {
    /// A copy is most often made to be changed, so it makes its own order.
    fn clone(&self) -> List {
        List { elements: self.elements.clone(), order: OnceLock::new() }
    }
}

impl PartialEq for List {
    fn eq(&self, other: &List) -> bool {
        self.elements == other.elements
    }
}

impl fmt::Debug for List {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.elements.fmt(formatter)
    }
}
