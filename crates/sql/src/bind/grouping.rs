//! GROUP BY: expressions, names and numbers of the SELECT list, and the grouping sets that ROLLUP,
//! CUBE and GROUPING SETS make of them.

use super::Binder;
use super::ordering::ordinal;
use super::scope::{Groups, ScopeSource, fold_name};
use super::size::check_count;
use super::types::Typed;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_catalog::{Catalog, Table};
use ferrite_expr::{ArithmeticDomain, ArithmeticOperator, Expr};
use ferrite_plan::walk::rewrite;
use ferrite_value::{OwnedValue, SqlType};
use sqlparser::ast;
use std::sync::Arc;

/// Keys that a set has bits for.
const SET_KEYS_MAX: usize = 63;

impl Binder<'_> {
    pub fn group_by(&mut self, select: &ast::Select) -> UserResult<Groups> {
        let exprs = match &select.group_by {
            ast::GroupByExpr::Expressions(exprs, modifiers) if modifiers.is_empty() => exprs,
            ast::GroupByExpr::All(_) => {
                return Err(UserError::not_supported("GROUP BY ALL").with_hint("name the columns to group by"));
            }
            ast::GroupByExpr::Expressions(..) => {
                return Err(UserError::not_supported("WITH after GROUP BY")
                    .with_hint("write GROUP BY ROLLUP (a, b) or GROUP BY CUBE (a, b)"));
            }
        };
        let mut groups = Groups { grouped: !exprs.is_empty(), ..Groups::default() };
        // The sets of all elements so far, each with each.
        let mut sets: Vec<u64> = vec![0];
        let mut several = false;
        for expr in exprs {
            let alternatives: Vec<u64> = match expr {
                ast::Expr::GroupingSets(lists) => self.key_sets(lists, select, &mut groups.keys)?,
                ast::Expr::Rollup(lists) => {
                    let parts = self.key_sets(lists, select, &mut groups.keys)?;
                    (0..=parts.len())
                        .rev()
                        .map(|length| parts[..length].iter().fold(0, |set, part| set | part))
                        .collect()
                }
                ast::Expr::Cube(lists) => {
                    let parts = self.key_sets(lists, select, &mut groups.keys)?;
                    if parts.len() > limits::GROUPING_SETS_MAX.ilog2() as usize {
                        return Err(too_many_sets());
                    }
                    let chosen = |choice: usize| {
                        parts
                            .iter()
                            .enumerate()
                            .filter(|(place, _)| choice >> place & 1 == 1)
                            .fold(0, |set, (_, part)| set | part)
                    };
                    (0..1_usize << parts.len()).rev().map(chosen).collect()
                }
                ast::Expr::Tuple(exprs) => self.key_sets(std::slice::from_ref(exprs), select, &mut groups.keys)?,
                expr => vec![self.group_key(expr, select, &mut groups.keys)?],
            };
            several |= alternatives.len() != 1;
            if sets.len() * alternatives.len() > limits::GROUPING_SETS_MAX {
                return Err(too_many_sets());
            }
            sets = sets.iter().flat_map(|set| alternatives.iter().map(move |alternative| set | alternative)).collect();
        }
        if several {
            if groups.keys.len() > SET_KEYS_MAX {
                return Err(UserError::limit(format!("GROUP BY with sets has more than {SET_KEYS_MAX} keys")));
            }
            groups.sets = sets;
        }
        Ok(groups)
    }

    fn key_sets(
        &mut self,
        lists: &[Vec<ast::Expr>],
        select: &ast::Select,
        keys: &mut Vec<Expr>,
    ) -> UserResult<Vec<u64>> {
        let mut sets = Vec::with_capacity(lists.len());
        for list in lists {
            let mut set = 0;
            for expr in list {
                set |= self.group_key(expr, select, keys)?;
            }
            sets.push(set);
        }
        Ok(sets)
    }

    /// The bit of a key, which joins `keys` if it is new.
    fn group_key(&mut self, expr: &ast::Expr, select: &ast::Select, keys: &mut Vec<Expr>) -> UserResult<u64> {
        let bound = match ordinal(expr, select.projection.len())? {
            Some(position) => match &select.projection[position] {
                ast::SelectItem::UnnamedExpr(item) | ast::SelectItem::ExprWithAlias { expr: item, .. } => {
                    self.grouped_item(position, item)?
                }
                _ => return Err(UserError::not_supported("GROUP BY the number of a *").with_hint("name the column")),
            },
            None => match self.expression(expr) {
                Err(error) if error.code() == "42703" => match aliased(expr, &select.projection) {
                    Some((position, item)) => self.grouped_item(position, item)?,
                    None => return Err(error),
                },
                result => result?,
            },
        };
        let position = match keys.iter().position(|key| *key == bound.expr) {
            Some(position) => position,
            None => {
                check_count(keys.len() + 1, limits::GROUP_KEYS_MAX, "keys in GROUP BY")?;
                keys.push(bound.expr);
                keys.len() - 1
            }
        };
        // Without sets nobody reads the bits, and there may be more keys.
        Ok(1_u64.checked_shl(position as u32).unwrap_or(0))
    }

    /// An item of the SELECT list that is grouped by. What has a subquery in it is bound once: the
    /// list shows the key itself.
    fn grouped_item(&mut self, position: usize, item: &ast::Expr) -> UserResult<Typed> {
        let typed = self.expression(item)?;
        if typed.expr.any(&mut |inner| matches!(inner, Expr::Subquery { .. }))
            && let Some(scope) = self.scope()
        {
            scope.grouped_items.push((position, typed.clone()));
        }
        Ok(typed)
    }

    /// GROUPING(a, b): a binary number, with a 1 for each argument that the row is not grouped by.
    pub fn grouping(&mut self, arguments: &[&ast::Expr]) -> UserResult<Typed> {
        if arguments.is_empty() || arguments.len() > SET_KEYS_MAX {
            return Err(UserError::compile("42883", "GROUPING takes one or more expressions of GROUP BY"));
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for argument in arguments {
            bound.push(self.expression(argument)?.expr);
        }
        let Some(scope) = self.scope() else { return Err(UserError::internal("GROUPING outside a query")) };
        let allowed = scope.aggregates.allowed;
        let slot = scope.aggregates.slot;
        let groups = scope.aggregates.groups.clone();
        let mut number: Option<Expr> = None;
        for argument in &bound {
            let Some(position) = groups.keys.iter().position(|key| key == argument).filter(|_| allowed) else {
                return Err(UserError::compile("42803", "GROUPING takes expressions that GROUP BY names"));
            };
            let without = (0..).zip(&groups.sets).filter(|(_, set)| **set >> position & 1 == 0);
            let list: ferrite_expr::List = without.map(|(number, _)| Expr::integer(number)).collect();
            let bit = match (slot, list.is_empty()) {
                (Some(slot), false) => {
                    let operand = Box::new(Expr::column(slot, groups.keys.len() as u16));
                    let left_out = Expr::InList { operand, list, negated: false };
                    Expr::Case {
                        branches: [(left_out, Expr::integer(1))].into(),
                        otherwise: Box::new(Expr::integer(0)),
                    }
                }
                _ => Expr::integer(0),
            };
            let integer = |operator, left, right| Expr::Arithmetic {
                operator,
                domain: ArithmeticDomain::Integer,
                left: Box::new(left),
                right: Box::new(right),
            };
            number = Some(match number {
                None => bit,
                Some(number) => {
                    let shifted = integer(ArithmeticOperator::Multiply, number, Expr::integer(2));
                    integer(ArithmeticOperator::Add, shifted, bit)
                }
            });
        }
        Ok(Typed::new(number.unwrap_or(Expr::Constant(OwnedValue::Integer(0))), SqlType::Integer))
    }
}

fn too_many_sets() -> UserError {
    UserError::limit(format!("GROUP BY makes more than {} grouping sets", limits::GROUPING_SETS_MAX))
        .with_hint("name the sets that are wanted: GROUP BY GROUPING SETS ((a, b), (a), ())")
}

/// The item of the SELECT list that has this name as alias.
fn aliased<'a>(expr: &ast::Expr, items: &'a [ast::SelectItem]) -> Option<(usize, &'a ast::Expr)> {
    let ast::Expr::Identifier(ident) = expr else { return None };
    let name = fold_name(ident);
    items.iter().enumerate().find_map(|(position, item)| match item {
        ast::SelectItem::ExprWithAlias { expr, alias } if fold_name(alias) == name => Some((position, expr)),
        _ => None,
    })
}

/// The slots of tables of which each group has one row at most: the block is grouped by a key of
/// theirs, so that their other columns depend on it. The NULLs of an outer join depend on it, too.
pub(crate) fn keyed_slots(groups: &Groups, tables: &[(u16, Arc<Table>)], catalog: &Catalog) -> Vec<u16> {
    if groups.keys.is_empty() || !groups.sets.is_empty() {
        return Vec::new();
    }
    let grouped = |slot: u16, column: u16| groups.keys.contains(&Expr::column(slot, column));
    let is_keyed = |slot: u16, table: &Table| {
        catalog.keys_of(table).iter().any(|key| key.iter().all(|column| grouped(slot, *column)))
    };
    tables.iter().filter(|(slot, table)| is_keyed(*slot, table)).map(|(slot, _)| *slot).collect()
}

/// The columns in `expr` that depend on what the block is grouped by, without being it: they are
/// grouped by as well, which makes no other groups.
pub(crate) fn gather_dependents(expr: &Expr, keyed: &[u16], keys: &mut Vec<Expr>) -> UserResult<()> {
    let mut rest = expr.clone();
    rewrite(&mut rest, &mut |inner| keys.contains(inner).then(Expr::null));
    let mut found = Vec::new();
    rest.any(&mut |inner| {
        if matches!(inner, Expr::Column { slot, .. } if keyed.contains(slot)) && !found.contains(inner) {
            found.push(inner.clone());
        }
        false
    });
    check_count(keys.len() + found.len(), limits::GROUP_KEYS_MAX, "keys in GROUP BY")?;
    keys.append(&mut found);
    Ok(())
}

/// Brings expressions over rows to expressions over their group's row.
pub(crate) struct Grouping<'g> {
    pub group_by: &'g [Expr],
    /// How many of them only depend on the others; they were found when the aggregates had their
    /// places already.
    pub dependent: u16,
    /// The first place of an aggregate then.
    pub aggregates: u16,
    pub slot: u16,
    pub local_slots: &'g [u16],
    /// What the columns of those slots are called.
    pub names: &'g [ScopeSource],
}

impl Grouping<'_> {
    pub fn apply(&self, expr: &mut Expr) -> UserResult<()> {
        rewrite(expr, &mut |inner| match inner {
            // An aggregate, numbered before it was known how many keys there are.
            Expr::Column { slot, column } if *slot == self.slot && *column >= self.aggregates => {
                Some(Expr::column(*slot, column + self.dependent))
            }
            inner => {
                let position = self.group_by.iter().position(|key| key == inner)?;
                Some(Expr::column(self.slot, position as u16))
            }
        });
        let mut ungrouped = None;
        expr.any(&mut |inner| match inner {
            Expr::Column { slot, column } if self.local_slots.contains(slot) => {
                ungrouped = Some((*slot, *column));
                true
            }
            _ => false,
        });
        let Some((slot, column)) = ungrouped else { return Ok(()) };
        let name =
            self.name(slot, column).unwrap_or_else(|| "a column of the SELECT list, HAVING or ORDER BY".to_owned());
        Err(UserError::compile(
            "42803",
            format!(
                "expression not in aggregate or GROUP BY columns: {name} is neither grouped by nor inside an aggregate"
            ),
        )
        .about(name)
        .with_hint("add it to GROUP BY or wrap it in MIN() or MAX()"))
    }

    fn name(&self, slot: u16, column: u16) -> Option<String> {
        let source = self.names.iter().find(|source| {
            let columns = source.first_column..source.first_column + source.columns.len() as u16;
            source.slot == slot && columns.contains(&column)
        })?;
        let column = &source.columns[usize::from(column - source.first_column)].name;
        Some(if source.name.is_empty() { column.clone() } else { format!("{}.{column}", source.name) })
    }
}
