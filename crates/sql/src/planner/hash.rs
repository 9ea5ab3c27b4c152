//! Hash joins: equalities between sources that no index serves.

use super::access::{Choice, SCAN_COST, choose};
use super::{Reached, remove_all};
use ferrite_catalog::Table;
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::walk::{conjunction, for_each_access_expr, for_each_slot};
use ferrite_plan::{Access, Hashed, Input};

/// An equality that a hash table over `slot` can answer.
pub(super) struct HashKey<'e> {
    pub position: usize,
    pub built: &'e Expr,
    pub probed: &'e Expr,
}

/// The equalities of `conditions` between columns of `slot` and of rows that are there before.
pub(super) fn keys<'e>(slot: u16, conditions: &'e [Expr], reached: &Reached<'_>) -> Vec<HashKey<'e>> {
    let of_slot = |expr: &Expr| Slots::of(expr, slot, reached) == Slots { own: true, others: false };
    let of_others =
        |expr: &Expr| Slots::of(expr, slot, reached) == Slots { own: false, others: true } && reached.reaches(expr);
    let mut found = Vec::new();
    for (position, condition) in conditions.iter().enumerate() {
        let Expr::Compare { operator: CompareOperator::Equal, left, right } = condition else { continue };
        if has_subquery(condition) {
            continue;
        }
        if of_slot(left) && of_others(right) {
            found.push(HashKey { position, built: left, probed: right });
        } else if of_slot(right) && of_others(left) {
            found.push(HashKey { position, built: right, probed: left });
        }
    }
    found
}

/// Whether a hash table finds the rows better than `choice`: there are keys for it, and no index
/// finds them by equality.
pub(super) fn is_better(slot: u16, choice: &Choice, conditions: &[Expr], reached: &Reached<'_>) -> bool {
    let by_index = match &choice.access {
        Access::Scan => false,
        _ if choice.unique => true,
        Access::Range { equal, .. } if equal.is_empty() => false,
        access => depends_on_rows(access, reached),
    };
    !by_index && !keys(slot, conditions, reached).is_empty()
}

/// The best access path that needs no other rows, so that the hash table is built once.
pub(super) fn independent(table: &Table, slot: u16, conditions: &[Expr], reached: &Reached<'_>, full: bool) -> Choice {
    if full {
        return Choice::scan();
    }
    let own: Vec<(usize, &Expr)> = conditions.iter().enumerate().filter(|(_, expr)| own(expr, slot, reached)).collect();
    let exprs: Vec<Expr> = own.iter().map(|(_, expr)| (*expr).clone()).collect();
    let mut choice =
        choose(table, slot, &exprs, &Reached { local: &[slot], bound: &[], subqueries: reached.subqueries });
    debug_assert!(choice.cost == SCAN_COST || !depends_on_rows(&choice.access, reached));
    choice.consumed.iter_mut().for_each(|position| *position = own[*position].0);
    choice
}

/// The input behind a hash table. What concerns only its own rows is tested when the table is
/// built.
pub(super) fn hashed(slot: u16, input: Input, conditions: &mut Vec<Expr>, reached: &Reached<'_>, full: bool) -> Input {
    let found = keys(slot, conditions, reached);
    let mut consumed: Vec<usize> = found.iter().map(|key| key.position).collect();
    let (built, probed) = found.iter().map(|key| (key.built.clone(), key.probed.clone())).unzip();
    let mut filter = Vec::new();
    if !full {
        for (position, condition) in conditions.iter().enumerate() {
            if own(condition, slot, reached) {
                filter.push(condition.clone());
                consumed.push(position);
            }
        }
    }
    remove_all(conditions, &consumed);
    Input::Hashed(Box::new(Hashed { input, filter: conjunction(filter), built, probed }))
}

/// Whether the condition is about `slot` alone.
fn own(expr: &Expr, slot: u16, reached: &Reached<'_>) -> bool {
    !has_subquery(expr) && Slots::of(expr, slot, reached) == Slots { own: true, others: false }
}

fn has_subquery(expr: &Expr) -> bool {
    expr.any(&mut |inner| matches!(inner, Expr::Subquery { .. }))
}

fn depends_on_rows(access: &Access, reached: &Reached<'_>) -> bool {
    let mut depends = false;
    for_each_access_expr(access, &mut |expr| for_each_slot(expr, reached.subqueries, &mut |_| depends = true));
    depends
}

/// Which slots an expression reads.
#[derive(PartialEq, Eq)]
struct Slots {
    own: bool,
    others: bool,
}

impl Slots {
    fn of(expr: &Expr, slot: u16, reached: &Reached<'_>) -> Slots {
        let mut slots = Slots { own: false, others: false };
        for_each_slot(expr, reached.subqueries, &mut |read| match read == slot {
            true => slots.own = true,
            false => slots.others = true,
        });
        slots
    }
}
