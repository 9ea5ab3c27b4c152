//! Which index, if any, finds a source's rows.

use super::Reached;
use super::estimate::{NoStatistics, access_rows};
use super::implied::predicate_holds;
use ferrite_catalog::{Index, IndexKind, Table};
use ferrite_expr::like::{literal_prefix, text_after};
use ferrite_expr::{CompareOperator, Expr, Function};
use ferrite_plan::walk::{move_slot, split_conjunction};
use ferrite_plan::{Access, Bound, KeyList, Source, Subquery, SubqueryKind};
use ferrite_value::{OwnedValue, SqlType};

/// Cost of reading everything. Costs only rank choices; the numbers mean nothing else.
pub(crate) const SCAN_COST: u32 = 1_000;
const UNIQUE_LOOKUP_COST: u32 = 1;
const LOOKUP_COST: u32 = 10;
/// Several lookups: above any single one, below every range.
const LOOKUPS_COST: u32 = 20;
const RANGE_COST: u32 = 200;
/// Look-ups of what a subquery answers, which may be much: above ranges with equalities, below the
/// others.
const SUBQUERY_COST: u32 = 185;

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
    choices(table, slot, conjuncts, reached)
        .into_iter()
        .fold(Choice::scan(), |best, choice| if choice.cost < best.cost { choice } else { best })
}

/// The conditions that an access path has fulfilled, for another to be chosen. None for paths that
/// say more than conditions.
pub(crate) fn conditions_of(table: &Table, slot: u16, access: &Access) -> Option<Vec<Expr>> {
    let compare = |key: &Expr, operator, value: &Expr| Expr::Compare {
        operator,
        left: Box::new(move_slot(key, 0, slot)),
        right: Box::new(value.clone()),
    };
    let equal = |keys: &[Expr], values: &[Expr]| -> Vec<Expr> {
        keys.iter().zip(values).map(|(key, value)| compare(key, CompareOperator::Equal, value)).collect()
    };
    match access {
        Access::Scan => Some(Vec::new()),
        Access::Lookup { index, keys } => Some(equal(&table.index(*index)?.keys, keys)),
        Access::Range { index, equal: values, lower, upper, .. } => {
            let keys = &table.index(*index)?.keys;
            let mut conditions = equal(keys, values);
            let bounds = [
                (lower, CompareOperator::GreaterOrEqual, CompareOperator::Greater),
                (upper, CompareOperator::LessOrEqual, CompareOperator::Less),
            ];
            for (bound, inclusive, exclusive) in bounds {
                // Where NULL is not a bound, the condition is tested besides.
                if let (Some(bound), Some(key)) =
                    (bound.as_ref().filter(|bound| !bound.open_if_null), keys.get(values.len()))
                {
                    conditions.push(compare(key, if bound.inclusive { inclusive } else { exclusive }, &bound.value));
                }
            }
            Some(conditions)
        }
        Access::Lookups { .. } | Access::Extreme { .. } => None,
    }
}

/// Every index that the conditions can use.
fn choices(table: &Table, slot: u16, conjuncts: &[Expr], reached: &Reached<'_>) -> Vec<Choice> {
    if conjuncts.is_empty() {
        return Vec::new();
    }
    let usable = table.indexes.iter().filter(|index| predicate_holds(index, slot, conjuncts));
    usable.filter_map(|index| with_index(table, index, slot, conjuncts, reached)).collect()
}

/// A key of an index, as conditions name it.
struct Key {
    expr: Expr,
    /// Of a plain column: an index finds what equals or bounds a value of another kind of number,
    /// or a time beside a DATE. Of an expression it finds values of the expression's kind only.
    column: Option<SqlType>,
}

impl Key {
    fn of(table: &Table, expr: &Expr, slot: u16) -> Key {
        let column = match expr {
            Expr::Column { column, .. } => table.columns.get(usize::from(*column)),
            _ => None,
        };
        let column = column.map(|column| column.column_type.sql_type);
        Key { expr: move_slot(expr, 0, slot), column }
    }

    /// Whether an operand of a comparison is this key, or this key in a type that has all its
    /// values: kinds of numbers compare exactly, and a DATE compares as its midnight.
    fn is(&self, operand: &Expr) -> bool {
        match (operand, self.column) {
            (operand, _) if *operand == self.expr => true,
            (Expr::Cast { operand, to }, Some(column)) => **operand == self.expr && to.has_all_of(column),
            _ => false,
        }
    }
}

/// What a condition says about a key.
enum Said<'e> {
    Equal(&'e Expr),
    Listed(KeyList),
}

fn with_index(table: &Table, index: &Index, slot: u16, conjuncts: &[Expr], reached: &Reached<'_>) -> Option<Choice> {
    let keys: Vec<Key> = index.keys.iter().map(|key| Key::of(table, key, slot)).collect();
    let mut consumed: Vec<usize> = Vec::new();
    let mut before: Vec<Expr> = Vec::new();
    let mut list: Option<KeyList> = None;
    let mut after: Vec<Expr> = Vec::new();
    for key in &keys {
        let said = conjuncts.iter().enumerate();
        let equal = said.clone().find_map(|(position, conjunct)| match compared(conjunct, key, reached) {
            Some((CompareOperator::Equal, value)) => Some((position, Said::Equal(value))),
            _ => None,
        });
        let found = match (&equal, &list) {
            (None, None) => {
                let mut lists = said.filter_map(|(at, conjunct)| Some((at, listed(conjunct, key, reached)?)));
                // A subquery may answer more than there are rows with the values before.
                let usable = |list: &KeyList| before.is_empty() || !matches!(list, KeyList::Subquery(_));
                lists.find(|(_, list)| usable(list)).map(|(at, list)| (at, Said::Listed(list)))
            }
            _ => equal,
        };
        let Some((position, said)) = found else { break };
        consumed.push(position);
        match said {
            Said::Equal(value) if list.is_none() => before.push(value.clone()),
            Said::Equal(value) => after.push(value.clone()),
            Said::Listed(values) => list = Some(values),
        }
    }
    let count = consumed.len();
    let whole = count == keys.len();
    // An ordered index takes a few steps more; more keys find fewer rows.
    let ordered = u32::from(index.kind == IndexKind::Ordered);
    if let Some(list) = list {
        if !whole && index.kind == IndexKind::Hash {
            return None;
        }
        if let KeyList::Subquery(_) = list {
            let cost = SUBQUERY_COST + ordered - u32::from(index.unique && whole);
            let access = Access::Lookups { index: index.id, before, list, after };
            return Some(Choice { access, consumed: Vec::new(), cost, unique: false });
        }
        let access = Access::Lookups { index: index.id, before, list, after };
        let cost = LOOKUPS_COST + ordered + if index.unique && whole { 0 } else { 20 - count.min(8) as u32 };
        return Some(Choice { access, consumed, cost, unique: false });
    }
    if whole {
        let cost = ordered + if index.unique { UNIQUE_LOOKUP_COST } else { LOOKUP_COST - count.min(8) as u32 };
        let access = Access::Lookup { index: index.id, keys: before };
        return Some(Choice { access, consumed, cost, unique: index.unique });
    }
    if index.kind == IndexKind::Hash {
        return None;
    }
    let (lower, upper) = bounds(&keys[count], conjuncts, reached, &mut consumed);
    if before.is_empty() && lower.is_none() && upper.is_none() {
        return None;
    }
    let bounds = u32::from(lower.is_some()) + u32::from(upper.is_some());
    let cost = RANGE_COST - (count.min(8) as u32) * 20 - bounds * 5;
    let access = Access::Range { index: index.id, equal: before, lower, upper, descending: false };
    Some(Choice { access, consumed, cost, unique: false })
}

/// The bounds that the conditions set for `key`.
fn bounds(
    key: &Key,
    conjuncts: &[Expr],
    reached: &Reached<'_>,
    consumed: &mut Vec<usize>,
) -> (Option<Bound>, Option<Bound>) {
    let mut lower = None;
    let mut upper = None;
    for (position, conjunct) in conjuncts.iter().enumerate() {
        let Some((operator, value)) = compared(conjunct, key, reached) else { continue };
        let (side, inclusive) = match operator {
            CompareOperator::Greater => (&mut lower, false),
            CompareOperator::GreaterOrEqual => (&mut lower, true),
            CompareOperator::Less => (&mut upper, false),
            CompareOperator::LessOrEqual => (&mut upper, true),
            _ => continue,
        };
        // A second bound on the same side stays a condition.
        if side.is_none() {
            *side = Some(Bound { value: value.clone(), inclusive, open_if_null: false });
            consumed.push(position);
        }
    }
    if lower.is_none() && upper.is_none() {
        // The condition itself is still tested: the stretch has all that match, and may have more.
        let key = &key.expr;
        if let Some((first, after)) = conjuncts.iter().find_map(|conjunct| prefix_of(conjunct, key)) {
            lower = Some(Bound { value: text(first), inclusive: true, open_if_null: false });
            upper = after.map(|after| Bound { value: text(after), inclusive: false, open_if_null: false });
        } else if let Some(start) = conjuncts.iter().find_map(|conjunct| start_of(conjunct, key, reached)) {
            let after = Expr::Call { function: Function::TextAfter, arguments: [start.clone()].into() };
            lower = Some(Bound { value: start.clone(), inclusive: true, open_if_null: false });
            upper = Some(Bound { value: after, inclusive: false, open_if_null: true });
        } else if let Some(prefix) = conjuncts.iter().find_map(|conjunct| prefix_when_run(conjunct, key, reached)) {
            let after = Expr::Call { function: Function::TextAfter, arguments: [prefix.clone()].into() };
            lower = Some(Bound { value: prefix, inclusive: true, open_if_null: true });
            upper = Some(Bound { value: after, inclusive: false, open_if_null: true });
        }
    }
    (lower, upper)
}

fn text(text: String) -> Expr {
    Expr::Constant(OwnedValue::Text(text.into()))
}

/// For `key LIKE 'abc%'` and `key STARTS WITH 'abc'`: the least text that matches, and the least
/// above all that do.
fn prefix_of(conjunct: &Expr, key: &Expr) -> Option<(String, Option<String>)> {
    let Expr::Like { operand, pattern, escape, prefix_only, negated: false } = conjunct else { return None };
    let (true, Expr::Constant(OwnedValue::Text(pattern))) = (operand.as_ref() == key, pattern.as_ref()) else {
        return None;
    };
    let prefix = if *prefix_only { pattern.as_ref() } else { literal_prefix(pattern, *escape)?.0 };
    (!prefix.is_empty()).then(|| (prefix.to_owned(), text_after(prefix)))
}

/// The start of `key STARTS WITH start`, known when the statement runs.
fn start_of<'e>(conjunct: &'e Expr, key: &Expr, reached: &Reached<'_>) -> Option<&'e Expr> {
    match conjunct {
        Expr::Like { operand, pattern, prefix_only: true, negated: false, .. }
            if operand.as_ref() == key && reached.reaches(pattern) =>
        {
            Some(pattern)
        }
        _ => None,
    }
}

/// The literal text that a pattern begins with, when the pattern is known only when the statement
/// runs. It is NULL where the pattern begins with a wildcard: then all rows are read.
fn prefix_when_run(conjunct: &Expr, key: &Expr, reached: &Reached<'_>) -> Option<Expr> {
    let Expr::Like { operand, pattern, escape, prefix_only: false, negated: false } = conjunct else { return None };
    if operand.as_ref() != key || matches!(pattern.as_ref(), Expr::Constant(_)) || !reached.reaches(pattern) {
        return None;
    }
    let escape = escape.map(|escape| text(escape.to_string()));
    let arguments = [pattern.as_ref().clone()].into_iter().chain(escape).collect();
    Some(Expr::Call { function: Function::LiteralPrefix, arguments })
}

/// `key operator value` or the same turned round, where `value` can be evaluated before the row is
/// there.
fn compared<'e>(conjunct: &'e Expr, key: &Key, reached: &Reached<'_>) -> Option<(CompareOperator, &'e Expr)> {
    let Expr::Compare { operator, left, right } = conjunct else { return None };
    if key.is(left) && reached.reaches(right) {
        Some((*operator, right))
    } else if key.is(right) && reached.reaches(left) {
        Some((operator.turned(), left))
    } else {
        None
    }
}

/// `key IN (...)`, and what is the same: `key = 1 OR key = 2`.
fn listed(conjunct: &Expr, key: &Key, reached: &Reached<'_>) -> Option<KeyList> {
    match conjunct {
        Expr::InList { operand, list, negated: false } if key.is(operand) => {
            list.iter().all(|value| reached.reaches(value)).then(|| KeyList::Values(list.to_vec()))
        }
        Expr::InArray { operand, array, negated: false } if key.is(operand) && reached.reaches(array) => {
            Some(KeyList::Array(array.as_ref().clone()))
        }
        Expr::Subquery { subquery, operand: Some(operand) } if key.is(operand) => {
            let asked = reached.subqueries.get(usize::from(*subquery))?;
            let equals = matches!(asked.kind, SubqueryKind::Any(CompareOperator::Equal) | SubqueryKind::Among { .. });
            (equals && !asked.correlated).then_some(KeyList::Subquery(*subquery))
        }
        Expr::Or(parts) => {
            let mut values = Vec::new();
            for part in parts {
                match (compared(part, key, reached), part) {
                    (Some((CompareOperator::Equal, value)), _) => values.push(value.clone()),
                    (_, Expr::InList { .. }) => match listed(part, key, reached)? {
                        KeyList::Values(more) => values.extend(more),
                        KeyList::Array(_) | KeyList::Subquery(_) => return None,
                    },
                    _ => return None,
                }
            }
            Some(KeyList::Values(values))
        }
        _ => None,
    }
}

/// Makes the choice deliver rows in the wanted order, if an ordered index can; says whether it
/// does. Another index is taken for the order only if it finds no more rows.
pub(crate) fn order_as(
    table: &Table,
    slot: u16,
    wanted: &[(Expr, bool)],
    conjuncts: &[Expr],
    reached: &Reached<'_>,
    rows: f64,
    choice: &mut Choice,
) -> bool {
    let descending_wanted = wanted[0].1;
    if wanted.iter().any(|(_, descending)| *descending != descending_wanted) {
        return false;
    }
    if in_order(table, slot, wanted, choice, descending_wanted) {
        return true;
    }
    if choice.unique {
        return false;
    }
    // Not by the values of the bounds, with which the order would change.
    let estimated = |access: &Access| access_rows(&NoStatistics, table, access, rows);
    let found = estimated(&choice.access);
    for mut other in choices(table, slot, conjuncts, reached) {
        if estimated(&other.access) <= found && in_order(table, slot, wanted, &mut other, descending_wanted) {
            *choice = other;
            return true;
        }
    }
    if !matches!(choice.access, Access::Scan) {
        return false;
    }
    let index = table.indexes.iter().find(|index| {
        index.kind == IndexKind::Ordered && predicate_holds(index, slot, conjuncts) && delivers(index, slot, wanted, 0)
    });
    let Some(index) = index else { return false };
    choice.access =
        Access::Range { index: index.id, equal: Vec::new(), lower: None, upper: None, descending: descending_wanted };
    true
}

/// Whether the choice's stretch of an index is in the wanted order, in the wanted direction from
/// now on.
fn in_order(table: &Table, slot: u16, wanted: &[(Expr, bool)], choice: &mut Choice, descending_wanted: bool) -> bool {
    let Access::Range { index, equal, lower, descending, .. } = &mut choice.access else { return false };
    // Without its bounds it may turn out to be a scan.
    if lower.as_ref().is_some_and(|bound| bound.open_if_null) {
        return false;
    }
    let fits = table.index(*index).is_some_and(|definition| delivers(definition, slot, wanted, equal.len()));
    if fits {
        *descending = descending_wanted;
    }
    fits
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

/// The same by another index than that of `access`: one that fulfils all of its conditions and
/// those of the source's filter as well, and has the value at an end. It reads one row of each
/// store, so it is better than any path to several.
pub(crate) fn extreme_by_other(
    table: &Table,
    source: &Source,
    access: &Access,
    value: &Expr,
    greatest: bool,
    subqueries: &[Subquery],
) -> Option<Access> {
    if let Access::Lookup { index, .. } = access
        && table.index(*index)?.unique
    {
        return None;
    }
    let slot = source.slot;
    let mut conjuncts = conditions_of(table, slot, access)?;
    if let Some(filter) = &source.filter {
        split_conjunction(filter.clone(), &mut conjuncts);
    }
    let reached = Reached { local: &[slot], bound: &[], subqueries };
    let mut whole = choices(table, slot, &conjuncts, &reached);
    whole.retain(|choice| choice.consumed.len() == conjuncts.len());
    whole.sort_by_key(|choice| choice.cost);
    whole.iter().find_map(|choice| extreme(table, slot, &choice.access, value, greatest))
}

/// The way to the least or greatest `value` alone, if `access` can become it.
pub(crate) fn extreme(table: &Table, slot: u16, access: &Access, value: &Expr, greatest: bool) -> Option<Access> {
    let fits = |index: &Index, fixed: usize| index.keys.get(fixed).is_some_and(|key| move_slot(key, 0, slot) == *value);
    match access {
        Access::Scan => {
            let mut indexes = table.indexes.iter();
            let index = indexes
                .find(|index| index.kind == IndexKind::Ordered && index.predicate.is_none() && fits(index, 0))?;
            Some(Access::Extreme { index: index.id, equal: Vec::new(), lower: None, upper: None, greatest })
        }
        Access::Range { index, equal, lower, upper, .. } if fits(table.index(*index)?, equal.len()) => {
            let equal = equal.clone();
            let lower = lower.clone();
            let upper = upper.clone();
            Some(Access::Extreme { index: *index, equal, lower, upper, greatest })
        }
        _ => None,
    }
}
