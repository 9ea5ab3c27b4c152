//! What conditions imply: whether a partial index holds every row that a statement wants.

use ferrite_catalog::Index;
use ferrite_expr::{CompareOperator, Expr, Function};
use ferrite_plan::walk::{move_slot, rewrite, split_conjunction};
use ferrite_value::{OwnedValue, compare};
use std::cmp::Ordering;

/// A partial index has all wanted rows when the conditions imply its predicate.
pub(crate) fn predicate_holds(index: &Index, slot: u16, conjuncts: &[Expr]) -> bool {
    let Some(predicate) = &index.predicate else { return true };
    let mut parts = Vec::new();
    split_conjunction(of_whole_row(&move_slot(predicate, 0, slot)), &mut parts);
    parts.iter().all(|part| {
        conjuncts.iter().any(|conjunct| {
            implies(conjunct, part) || asks_whole_row(conjunct) && implies(&of_whole_row(conjunct), part)
        })
    })
}

fn asks_whole_row(expr: &Expr) -> bool {
    expr.any(&mut |part| matches!(part, Expr::Call { function: Function::Migrating, .. }))
}

/// MIGRATING is about a row, whichever of its columns stands for it: a column that is added before
/// the first one moves them all.
fn of_whole_row(expr: &Expr) -> Expr {
    let mut same = expr.clone();
    rewrite(&mut same, &mut |part| match part {
        Expr::Call { function: Function::Migrating, arguments } => {
            let arguments = arguments.iter().map(|argument| match argument {
                Expr::Column { slot, .. } => Expr::column(*slot, 0),
                other => other.clone(),
            });
            Some(Expr::Call { function: Function::Migrating, arguments: arguments.collect() })
        }
        _ => None,
    });
    same
}

/// Whether rows for which `known` is true all have `wanted` true. False when that does not show.
fn implies(known: &Expr, wanted: &Expr) -> bool {
    if known == wanted {
        return true;
    }
    match (known, wanted) {
        (_, Expr::Or(parts)) => parts.iter().any(|part| implies(known, part)),
        (Expr::Or(parts), _) => parts.iter().all(|part| implies(part, wanted)),
        // A comparison with NULL is never true.
        (Expr::Compare { left, right, .. }, Expr::IsNull { operand, negated: true }) => {
            left == operand || right == operand
        }
        (Expr::InList { operand: listed, negated: false, .. }, Expr::IsNull { operand, negated: true }) => {
            listed == operand
        }
        (Expr::Like { operand: matched, negated: false, .. }, Expr::IsNull { operand, negated: true }) => {
            matched == operand
        }
        (Expr::InList { operand, list, negated: false }, Expr::Compare { .. }) => list.iter().all(|value| {
            let equality = Expr::Compare {
                operator: CompareOperator::Equal,
                left: operand.clone(),
                right: Box::new(value.clone()),
            };
            implies(&equality, wanted)
        }),
        _ => match (constant_comparison(known), constant_comparison(wanted)) {
            (Some(known), Some(wanted)) => known.0 == wanted.0 && narrower(known, wanted),
            _ => false,
        },
    }
}

type Comparison<'e> = (&'e Expr, CompareOperator, &'e OwnedValue);

/// `expression operator constant`, or the same turned round.
fn constant_comparison(expr: &Expr) -> Option<Comparison<'_>> {
    let Expr::Compare { operator, left, right } = expr else { return None };
    match (left.as_ref(), right.as_ref()) {
        (_, Expr::Constant(OwnedValue::Null)) | (Expr::Constant(OwnedValue::Null), _) => None,
        (left, Expr::Constant(value)) => Some((left, *operator, value)),
        (Expr::Constant(value), right) => Some((right, operator.turned(), value)),
        _ => None,
    }
}

/// Whether every value that compares so with `known`'s constant compares so with `wanted`'s.
fn narrower(known: Comparison<'_>, wanted: Comparison<'_>) -> bool {
    use CompareOperator as C;
    let Some(order) = compare::compare(&known.2.as_value(), &wanted.2.as_value()) else { return false };
    match (known.1, wanted.1) {
        (C::Equal, C::Equal) => order == Ordering::Equal,
        (C::Equal, C::NotEqual) => order != Ordering::Equal,
        (C::Equal, C::Greater) | (C::GreaterOrEqual, C::Greater) => order == Ordering::Greater,
        (C::Equal, C::Less) | (C::LessOrEqual, C::Less) => order == Ordering::Less,
        (C::Equal | C::Greater | C::GreaterOrEqual, C::GreaterOrEqual) | (C::Greater, C::Greater) => {
            order != Ordering::Less
        }
        (C::Equal | C::Less | C::LessOrEqual, C::LessOrEqual) | (C::Less, C::Less) => order != Ordering::Greater,
        (C::Greater, C::NotEqual) => order != Ordering::Less,
        (C::Less, C::NotEqual) => order != Ordering::Greater,
        (C::GreaterOrEqual, C::NotEqual) => order == Ordering::Greater,
        (C::LessOrEqual, C::NotEqual) => order == Ordering::Less,
        (C::NotEqual, C::NotEqual) => order == Ordering::Equal,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with brute force over small integers: an implication that is claimed must hold.
    #[test]
    fn claimed_implications_hold() {
        use CompareOperator as C;
        let operators = [C::Equal, C::NotEqual, C::Less, C::LessOrEqual, C::Greater, C::GreaterOrEqual];
        let holds = |operator: CompareOperator, left: i64, right: i64| {
            operator.compare(&ferrite_value::Value::Integer(left), &ferrite_value::Value::Integer(right)) == Some(true)
        };
        let condition = |operator, constant| Expr::Compare {
            operator,
            left: Box::new(Expr::column(0, 0)),
            right: Box::new(Expr::integer(constant)),
        };
        let mut claimed = 0;
        for known in operators {
            for wanted in operators {
                for (a, b) in (0..5).flat_map(|a| (0..5).map(move |b| (a, b))) {
                    if implies(&condition(known, a), &condition(wanted, b)) {
                        claimed += 1;
                        assert!(
                            (-2..8).all(|x| !holds(known, x, a) || holds(wanted, x, b)),
                            "{known:?} {a} {wanted:?} {b}"
                        );
                    }
                }
            }
        }
        assert!(claimed > 100, "{claimed}");
    }
}
