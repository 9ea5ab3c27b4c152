//! Which index, if any, finds a source's rows.

use super::Reached;
use crate::plan::{Access, Bound};
use crate::walk::{move_slot, split_conjunction};
use ferrite_catalog::{Index, IndexKind, Table};
use ferrite_expr::{CompareOperator, Expr};

/// Cost of reading everything. Costs only rank choices; the numbers mean nothing else.
pub(crate) const SCAN_COST: u32 = 1_000;
const UNIQUE_LOOKUP_COST: u32 = 1;
const LOOKUP_COST: u32 = 10;
const RANGE_COST: u32 = 200;

pub(crate) struct Choice {
    pub access: Access,
    /// Positions of the conditions that the access path has fulfilled.
    pub consumed: Vec<usize>,
    pub cost: u32,
    /// At most one row per evaluation.
    pub unique: bool,
}

impl Choice {
    pub fn scan() -> Choice {
        Choice { access: Access::Scan, consumed: Vec::new(), cost: SCAN_COST, unique: false }
    }
}

/// The cheapest access path for `slot` under `conjuncts`.
pub(crate) fn choose(table: &Table, slot: u16, conjuncts: &[Expr], reached: &Reached<'_>) -> Choice {
    let mut best = Choice::scan();
    if conjuncts.is_empty() {
        return best;
    }
    for index in &table.indexes {
        if !predicate_holds(index, slot, conjuncts) {
            continue;
        }
        if let Some(choice) = with_index(index, slot, conjuncts, reached)
            && choice.cost < best.cost
        {
            best = choice;
        }
    }
    best
}

/// A partial index has all wanted rows when its predicate is among the conditions.
fn predicate_holds(index: &Index, slot: u16, conjuncts: &[Expr]) -> bool {
    let Some(predicate) = &index.predicate else { return true };
    let mut parts = Vec::new();
    split_conjunction(move_slot(predicate, 0, slot), &mut parts);
    parts.iter().all(|part| conjuncts.contains(part))
}

fn with_index(index: &Index, slot: u16, conjuncts: &[Expr], reached: &Reached<'_>) -> Option<Choice> {
    let keys: Vec<Expr> = index.keys.iter().map(|key| move_slot(key, 0, slot)).collect();
    let mut equal: Vec<(usize, &Expr)> = Vec::new();
    for key in &keys {
        let Some(found) = conjuncts.iter().enumerate().find_map(|(position, conjunct)| {
            compared(conjunct, key, reached)
                .filter(|(operator, _)| *operator == CompareOperator::Equal)
                .map(|(_, value)| (position, value))
        }) else {
            break;
        };
        equal.push(found);
    }
    if equal.len() == keys.len() {
        return Some(Choice {
            access: Access::Lookup { index: index.id, keys: equal.iter().map(|(_, value)| (*value).clone()).collect() },
            consumed: equal.iter().map(|(position, _)| *position).collect(),
            // An ordered index takes a few steps more; more keys find fewer rows.
            cost: if index.unique { UNIQUE_LOOKUP_COST } else { LOOKUP_COST - keys.len().min(8) as u32 }
                + u32::from(index.kind == IndexKind::Ordered),
            unique: index.unique,
        });
    }
    if index.kind == IndexKind::Hash {
        return None;
    }
    let next = &keys[equal.len()];
    let mut consumed: Vec<usize> = equal.iter().map(|(position, _)| *position).collect();
    let (mut lower, mut upper) = (None, None);
    for (position, conjunct) in conjuncts.iter().enumerate() {
        let Some((operator, value)) = compared(conjunct, next, reached) else { continue };
        let (side, inclusive) = match operator {
            CompareOperator::Greater => (&mut lower, false),
            CompareOperator::GreaterOrEqual => (&mut lower, true),
            CompareOperator::Less => (&mut upper, false),
            CompareOperator::LessOrEqual => (&mut upper, true),
            _ => continue,
        };
        // A second bound on the same side stays a condition.
        if side.is_none() {
            *side = Some(Bound { value: value.clone(), inclusive });
            consumed.push(position);
        }
    }
    if equal.is_empty() && lower.is_none() && upper.is_none() {
        return None;
    }
    let bounds = u32::from(lower.is_some()) + u32::from(upper.is_some());
    Some(Choice {
        access: Access::Range {
            index: index.id,
            equal: equal.iter().map(|(_, value)| (*value).clone()).collect(),
            lower,
            upper,
            descending: false,
        },
        consumed,
        cost: RANGE_COST - (equal.len().min(8) as u32) * 20 - bounds * 5,
        unique: false,
    })
}

/// `key operator value` or the same turned round, where `value` can be evaluated before the row is there.
fn compared<'e>(conjunct: &'e Expr, key: &Expr, reached: &Reached<'_>) -> Option<(CompareOperator, &'e Expr)> {
    let Expr::Compare { operator, left, right } = conjunct else { return None };
    if left.as_ref() == key && reached.reaches(right) {
        Some((*operator, right))
    } else if right.as_ref() == key && reached.reaches(left) {
        Some((turned(*operator), left))
    } else {
        None
    }
}

fn turned(operator: CompareOperator) -> CompareOperator {
    match operator {
        CompareOperator::Less => CompareOperator::Greater,
        CompareOperator::LessOrEqual => CompareOperator::GreaterOrEqual,
        CompareOperator::Greater => CompareOperator::Less,
        CompareOperator::GreaterOrEqual => CompareOperator::LessOrEqual,
        other => other,
    }
}

/// Makes the choice deliver rows in the wanted order, if an ordered index can; says whether it does.
pub(crate) fn order_as(table: &Table, slot: u16, wanted: &[(Expr, bool)], choice: &mut Choice) -> bool {
    let descending_wanted = wanted[0].1;
    if wanted.iter().any(|(_, descending)| *descending != descending_wanted) {
        return false;
    }
    match &mut choice.access {
        Access::Lookup { .. } => false,
        Access::Range { index, equal, descending, .. } => {
            let Some(definition) = table.index(*index) else { return false };
            let fits = delivers(definition, slot, wanted, equal.len());
            if fits {
                *descending = descending_wanted;
            }
            fits
        }
        Access::Scan => {
            let index = table.indexes.iter().find(|index| {
                index.kind == IndexKind::Ordered && index.predicate.is_none() && delivers(index, slot, wanted, 0)
            });
            let Some(index) = index else { return false };
            choice.access = Access::Range {
                index: index.id,
                equal: Vec::new(),
                lower: None,
                upper: None,
                descending: descending_wanted,
            };
            true
        }
    }
}

/// Whether the index's order, its first `fixed` keys being one value each, is the wanted one.
fn delivers(index: &Index, slot: u16, wanted: &[(Expr, bool)], fixed: usize) -> bool {
    let keys: Vec<Expr> = index.keys.iter().map(|key| move_slot(key, 0, slot)).collect();
    let (fixed, mut free) = keys.split_at(fixed.min(keys.len()));
    for (expr, _) in wanted {
        if fixed.contains(expr) {
            continue;
        }
        match free.split_first() {
            Some((key, rest)) if key == expr => free = rest,
            _ => return false,
        }
    }
    true
}
