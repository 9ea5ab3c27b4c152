//! The operators of expressions, and what comparing two values answers.

use ferrite_value::{Value, compare};

/// `left operator right` on numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// In which domain an operation computes. The binder inserts casts, so that both operands already
/// are of the domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ArithmeticDomain {
    /// 64-bit, overflow is an error, the smallest 64-bit integer too.
    Integer,
    Float,
    Decimal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CompareOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl CompareOperator {
    /// The operator that holds with its sides changed.
    pub fn turned(self) -> CompareOperator {
        match self {
            CompareOperator::Less => CompareOperator::Greater,
            CompareOperator::LessOrEqual => CompareOperator::GreaterOrEqual,
            CompareOperator::Greater => CompareOperator::Less,
            CompareOperator::GreaterOrEqual => CompareOperator::LessOrEqual,
            other => other,
        }
    }

    /// The operator on two values of one ordered type.
    #[inline(always)]
    pub(crate) fn holds<T: Ord>(self, left: T, right: T) -> bool {
        match self {
            CompareOperator::Equal => left == right,
            CompareOperator::NotEqual => left != right,
            CompareOperator::Less => left < right,
            CompareOperator::LessOrEqual => left <= right,
            CompareOperator::Greater => left > right,
            CompareOperator::GreaterOrEqual => left >= right,
        }
    }

    /// SQL comparison; None (unknown) when either side is NULL.
    #[inline]
    pub fn compare(self, left: &Value<'_>, right: &Value<'_>) -> Option<bool> {
        match (left, right) {
            (Value::Integer(a), Value::Integer(b)) => Some(self.holds(*a, *b)),
            _ => self.compare_other(left, right),
        }
    }

    #[inline(never)]
    pub(crate) fn compare_other(self, left: &Value<'_>, right: &Value<'_>) -> Option<bool> {
        match (self, left, right) {
            // Lengths decide most inequalities without a look at the bytes.
            (CompareOperator::Equal, Value::Text(a), Value::Text(b)) => Some(a == b),
            (CompareOperator::NotEqual, Value::Text(a), Value::Text(b)) => Some(a != b),
            _ => Some(self.holds(compare::compare(left, right)?, std::cmp::Ordering::Equal)),
        }
    }
}
