//! The order of a block's sources, how each finds its rows, and where each condition is tested.

pub(crate) mod access;
pub(crate) mod context;
pub(crate) mod estimate;
mod extremes;
mod hash;
mod implied;
mod order;
mod pending;
mod push;
pub(crate) mod routing;
mod semi;
mod statement;

use access::{Choice, choose};
use context::{PlanContext, Reach};
use ferrite_base::UserResult;
use ferrite_catalog::{Table, ViewOutput};
use ferrite_expr::{Aggregate, AggregateKind, Expr};
use ferrite_plan::walk::{conjunction, for_each_expr, for_each_slot, move_slot};
use ferrite_plan::{Access, Aggregation, Input, JoinKind, OutputColumn, Query, QueryBody, Select, Source};
use pending::{PendingInput, PendingSource};
use std::sync::Arc;

/// A planned FROM and WHERE.
struct Arranged {
    pub sources: Vec<Source>,
    /// Conditions when there is no source to hang them on.
    pub filter: Option<Expr>,
    /// Rows come in the order that was wanted.
    pub presorted: bool,
}

/// Which of the block's slots have their row, and which are still to come.
pub(crate) struct Reached<'a> {
    pub local: &'a [u16],
    pub bound: &'a [u16],
    pub subqueries: &'a [ferrite_plan::Subquery],
}

impl Reached<'_> {
    /// Whether `expr` can be evaluated: it needs no slot of this block that has no row yet.
    pub fn reaches(&self, expr: &Expr) -> bool {
        let mut reached = true;
        for_each_slot(expr, self.subqueries, &mut |slot| {
            reached &= !self.local.contains(&slot) || self.bound.contains(&slot);
        });
        reached
    }

    fn reads(&self, expr: &Expr, wanted: u16) -> bool {
        let mut found = false;
        for_each_slot(expr, self.subqueries, &mut |slot| found |= slot == wanted);
        found
    }
}

/// A source whose turn has come in the order of its block.
struct Placing<'a> {
    slot: u16,
    join: JoinKind,
    /// No source is before it, or there is no other.
    first: bool,
    alone: bool,
    /// The block has a FULL JOIN. WHERE is about the rows after it, and it must first see all of
    /// both sides.
    full: bool,
    /// The order in which rows should come.
    wanted: &'a [(Expr, bool)],
    reached: Reached<'a>,
}

impl Placing<'_> {
    /// The conditions by which its rows are found.
    fn conditions<'c>(&self, conjuncts: &'c mut Vec<Expr>, on: &'c mut Vec<Expr>) -> &'c mut Vec<Expr> {
        if self.join == JoinKind::Inner { conjuncts } else { on }
    }

    fn table(
        &self,
        context: &PlanContext<'_>,
        table: &Arc<Table>,
        conjuncts: &mut Vec<Expr>,
        on: &mut Vec<Expr>,
        presorted: &mut bool,
    ) -> Input {
        let mut choice = match self.join {
            _ if self.full => Choice::scan(),
            JoinKind::Inner => choose(table, self.slot, conjuncts, &self.reached),
            JoinKind::Left => choose(table, self.slot, on, &self.reached),
            JoinKind::Full => Choice::scan(),
        };
        if self.first && !self.full && !self.wanted.is_empty() {
            let rows = context.rows(table);
            *presorted = access::order_as(table, self.slot, self.wanted, conjuncts, &self.reached, rows, &mut choice);
            let one_store = context.reach == Reach::Local || !table.is_partitioned();
            *presorted |= self.alone && choice.unique && one_store;
        }
        let conditions = self.conditions(conjuncts, on);
        let hashable = !(*presorted || self.full && self.first);
        if hashable && hash::is_better(self.slot, &choice, conditions, &self.reached) {
            choice = hash::independent(table, self.slot, conditions, &self.reached, self.full);
            remove_all(conditions, &choice.consumed);
            let input = Input::Table { table: table.id, access: choice.access };
            return hash::hashed(self.slot, input, conditions, &self.reached, self.full);
        }
        remove_all(conditions, &choice.consumed);
        Input::Table { table: table.id, access: choice.access }
    }

    /// A view of which every partition holds a part of each group; whether that reads other
    /// sources.
    fn partial_view(
        &self,
        context: &PlanContext<'_>,
        table: &Arc<Table>,
        (raw_slot, group_slot): (u16, u16),
        conjuncts: &mut Vec<Expr>,
    ) -> (Input, bool) {
        let pushed = if self.join == JoinKind::Inner && !self.full {
            take_for_groups(table, self.slot, conjuncts, self.reached.local, context)
        } else {
            Vec::new()
        };
        let mut correlated = false;
        for expr in &pushed {
            for_each_slot(expr, &context.subqueries, &mut |read| correlated |= read != self.slot);
        }
        let query = added_up(table, self.slot, raw_slot, group_slot, pushed, context);
        (Input::Derived { query: Box::new(query), correlated }, correlated)
    }

    /// What is computed: once, and hashed, where that is better than for each row before it.
    fn once(&self, input: Input, correlated: bool, conjuncts: &mut Vec<Expr>, on: &mut Vec<Expr>) -> Input {
        let conditions = self.conditions(conjuncts, on);
        let hashable = !(correlated || self.full && self.first);
        if hashable && hash::is_better(self.slot, &Choice::scan(), conditions, &self.reached) {
            hash::hashed(self.slot, input, conditions, &self.reached, self.full)
        } else {
            input
        }
    }
}

/// Orders the sources, gives each its access path, and hands every condition to the earliest source
/// that can decide it.
fn arrange(
    context: &mut PlanContext<'_>,
    mut pending: Vec<PendingSource>,
    mut conjuncts: Vec<Expr>,
    wanted: &[(Expr, bool)],
) -> UserResult<Arranged> {
    let local: Vec<u16> = pending.iter().map(|source| source.slot).collect();
    strengthen_joins(&mut pending, &mut conjuncts);
    semi::membership_as_existence(context, &pending, &mut conjuncts);
    note_facts(context, &pending, &conjuncts);
    let mut sources: Vec<Source> = Vec::with_capacity(pending.len());
    let mut bound: Vec<u16> = Vec::with_capacity(pending.len());
    let mut presorted = false;
    let alone = pending.len() == 1;
    let full = pending.iter().any(|source| source.join == JoinKind::Full);
    if !full {
        push_into_derived_tables(context, &mut pending, &mut conjuncts);
    }
    if !full {
        pending = inner_first(context, pending, &local, &conjuncts);
    }
    let mut left = pending.into_iter();
    while let Some(source) = left.next() {
        let slot = source.slot;
        let mut on = source.on;
        let placing = Placing {
            slot,
            join: source.join,
            first: sources.is_empty(),
            alone,
            full,
            wanted,
            reached: Reached { local: &local, bound: &bound, subqueries: &context.subqueries },
        };
        let input = match source.input {
            PendingInput::Table(table) => placing.table(context, &table, &mut conjuncts, &mut on, &mut presorted),
            PendingInput::PartialView { table, raw_slot, group_slot } => {
                let slots = (raw_slot, group_slot);
                let (input, correlated) = placing.partial_view(context, &table, slots, &mut conjuncts);
                placing.once(input, correlated, &mut conjuncts, &mut on)
            }
            PendingInput::Working { slot } => Input::Working { slot },
            PendingInput::Derived { query, correlated } => {
                placing.once(Input::Derived { query, correlated }, correlated, &mut conjuncts, &mut on)
            }
            PendingInput::Common { table } => placing.once(Input::Common { table }, false, &mut conjuncts, &mut on),
        };
        bound.push(slot);
        let reached = Reached { local: &local, bound: &bound, subqueries: &context.subqueries };
        let mut here = Vec::new();
        if !full || left.len() == 0 {
            let (decided, later): (Vec<Expr>, Vec<Expr>) = conjuncts.drain(..).partition(|expr| reached.reaches(expr));
            here = decided;
            conjuncts = later;
        }
        sources.push(Source { slot, input, join: source.join, on: conjunction(on), filter: conjunction(here) });
    }
    Ok(Arranged { sources, filter: conjunction(conjuncts), presorted })
}

/// The inner joins in the best order, then the outer ones in theirs. An outer join keeps the rows
/// before it and adds columns to them, so inner joins that stand after it may go before it: their
/// conditions see the same rows of the same tables.
fn inner_first(
    context: &PlanContext<'_>,
    pending: Vec<PendingSource>,
    local: &[u16],
    conjuncts: &[Expr],
) -> Vec<PendingSource> {
    let outer: Vec<u16> =
        pending.iter().filter(|source| source.join != JoinKind::Inner).map(|source| source.slot).collect();
    if pending.len() - outer.len() < 2 || pending.iter().any(|source| is_computed_from(context, source, &outer)) {
        return pending;
    }
    let (inner, outer): (Vec<_>, Vec<_>) = pending.into_iter().partition(|source| source.join == JoinKind::Inner);
    let mut arranged = order::arranged(context, inner, local, conjuncts);
    arranged.extend(outer);
    arranged
}

/// Whether it is LATERAL, and refers to one of these slots.
fn is_computed_from(context: &PlanContext<'_>, source: &PendingSource, slots: &[u16]) -> bool {
    let PendingInput::Derived { query, correlated: true } = &source.input else { return false };
    let mut found = false;
    for_each_expr(query, &mut |expr| {
        for_each_slot(expr, &context.subqueries, &mut |slot| found |= slots.contains(&slot));
    });
    found
}

fn remove_all(list: &mut Vec<Expr>, positions: &[usize]) {
    if positions.is_empty() {
        return;
    }
    let mut goes = vec![false; list.len()];
    positions.iter().for_each(|position| goes[*position] = true);
    let mut goes = goes.into_iter();
    list.retain(|_| goes.next() != Some(true));
}

/// A LEFT JOIN whose right side is compared in WHERE is an inner join: NULL passes no comparison.
fn strengthen_joins(pending: &mut [PendingSource], conjuncts: &mut Vec<Expr>) {
    for source in pending.iter_mut().filter(|source| source.join == JoinKind::Left) {
        let slot = source.slot;
        let rejects_null = conjuncts.iter().any(|conjunct| match conjunct {
            Expr::Compare { left, right, .. } => [left, right].into_iter().any(|side| is_strict(side, slot)),
            _ => false,
        });
        if rejects_null {
            source.join = JoinKind::Inner;
            conjuncts.append(&mut source.on);
        }
    }
}

/// NULL when `slot` has the null row.
fn is_strict(expr: &Expr, slot: u16) -> bool {
    match expr {
        Expr::Column { slot: found, .. } => *found == slot,
        Expr::Negate { operand, .. } | Expr::Cast { operand, .. } => is_strict(operand, slot),
        Expr::Arithmetic { left, right, .. } => is_strict(left, slot) || is_strict(right, slot),
        _ => false,
    }
}

fn note_facts(context: &mut PlanContext<'_>, pending: &[PendingSource], conjuncts: &[Expr]) {
    context.facts.add_equalities(conjuncts);
    for source in pending {
        if source.join == JoinKind::Inner {
            context.facts.add_equalities(&source.on);
        }
    }
    for source in pending {
        let table = match &source.input {
            PendingInput::Table(table) | PendingInput::PartialView { table, .. } => table,
            PendingInput::Derived { .. } | PendingInput::Common { .. } | PendingInput::Working { .. } => continue,
        };
        let on: &[Expr] = if source.join == JoinKind::Left { &source.on } else { &[] };
        context.facts.add_read(table, source.slot, on);
    }
}

/// Conditions on one derived table are tested inside it, where an index may serve them and fewer
/// rows are kept.
fn push_into_derived_tables(context: &PlanContext<'_>, pending: &mut [PendingSource], conjuncts: &mut Vec<Expr>) {
    for source in pending.iter_mut().filter(|source| source.join == JoinKind::Inner) {
        let PendingInput::Derived { query, .. } = &mut source.input else { continue };
        conjuncts.retain(|conjunct| !push::push(context.catalog, &context.subqueries, query, source.slot, conjunct));
    }
}

/// Conditions that concern only group columns of a partial view may be tested on its parts.
fn take_for_groups(
    table: &Arc<Table>,
    slot: u16,
    conjuncts: &mut Vec<Expr>,
    local: &[u16],
    context: &PlanContext<'_>,
) -> Vec<Expr> {
    let Some(view) = &table.view else { return Vec::new() };
    let reached = Reached { local, bound: &[slot], subqueries: &context.subqueries };
    let is_group = |column: u16| matches!(view.outputs.get(usize::from(column)), Some(ViewOutput::Group(_)));
    let (pushed, kept): (Vec<Expr>, Vec<Expr>) = conjuncts.drain(..).partition(|expr| {
        let has_subquery = expr.any(&mut |inner| matches!(inner, Expr::Subquery { .. }));
        let only_groups = !expr.any(
            &mut |inner| matches!(inner, Expr::Column { slot: found, column } if *found == slot && !is_group(*column)),
        );
        !has_subquery && only_groups && reached.reads(expr, slot) && reached.reaches(expr)
    });
    *conjuncts = kept;
    pushed
}

/// What adds up the partitions' parts of a view.
struct Sums {
    group_by: Vec<Expr>,
    aggregates: Vec<Aggregate>,
    /// Where each of the view's columns stands in a group's row.
    places: Vec<usize>,
}

fn sums(table: &Table, raw_slot: u16) -> Sums {
    let view = table.view.as_ref();
    let mut group_by = Vec::new();
    let mut aggregates = Vec::new();
    // Whether each column is among the keys or the aggregates, and where.
    let mut columns = Vec::with_capacity(table.columns.len());
    for (position, column) in table.columns.iter().enumerate() {
        let raw = Expr::column(raw_slot, position as u16);
        let aggregate = view.and_then(|view| match view.outputs.get(position) {
            Some(ViewOutput::Aggregate(aggregate)) => view.aggregates.get(usize::from(*aggregate)),
            _ => None,
        });
        match aggregate {
            None => {
                columns.push((true, group_by.len()));
                group_by.push(raw);
            }
            Some(aggregate) => {
                let sql_type = column.column_type.sql_type;
                let kind = match aggregate.kind {
                    AggregateKind::Min => AggregateKind::Min,
                    AggregateKind::Max => AggregateKind::Max,
                    _ => AggregateKind::Sum,
                };
                columns.push((false, aggregates.len()));
                aggregates.push(Aggregate {
                    kind,
                    distinct: false,
                    argument: Some(raw),
                    argument_type: sql_type,
                    result_type: sql_type,
                    user: None,
                });
            }
        }
    }
    let keys = group_by.len();
    let places = columns.into_iter().map(|(key, place)| if key { place } else { keys + place }).collect();
    Sums { group_by, aggregates, places }
}

/// The query that adds up the partitions' parts of each group of a view.
fn added_up(
    table: &Arc<Table>,
    slot: u16,
    raw_slot: u16,
    group_slot: u16,
    pushed: Vec<Expr>,
    context: &PlanContext<'_>,
) -> Query {
    let mut conditions: Vec<Expr> = pushed.iter().map(|expr| move_slot(expr, slot, raw_slot)).collect();
    let reached = Reached { local: &[raw_slot], bound: &[], subqueries: &context.subqueries };
    let choice = choose(table, raw_slot, &conditions, &reached);
    remove_all(&mut conditions, &choice.consumed);
    let Sums { group_by, aggregates, places } = sums(table, raw_slot);
    let output = places.into_iter().map(|place| Expr::column(group_slot, place as u16)).collect();
    let columns = table
        .columns
        .iter()
        .map(|column| OutputColumn { name: column.name.clone(), sql_type: column.column_type.sql_type })
        .collect();
    let source = Source {
        slot: raw_slot,
        input: Input::Table { table: table.id, access: choice.access },
        join: JoinKind::Inner,
        on: None,
        filter: conjunction(conditions),
    };
    let select = Select {
        sources: vec![source],
        filter: None,
        aggregation: Some(Aggregation { slot: group_slot, group_by, sets: Vec::new(), aggregates, having: None }),
        windowing: None,
        distinct: false,
        output,
    };
    Query {
        body: QueryBody::Select(Box::new(select)),
        columns,
        order_by: Vec::new(),
        presorted: false,
        limit: None,
        offset: None,
        view: None,
    }
}

/// How UPDATE and DELETE find their rows.
struct Changed {
    pub access: Access,
    /// What the access path leaves of the conditions on the table alone.
    pub filter: Option<Expr>,
    /// FROM and USING with the other conditions: asked for each row of the table, which is bound
    /// then.
    pub joined: Option<Box<Select>>,
}

/// The access path for UPDATE and DELETE, and the order of what they join with.
fn arrange_change(
    context: &mut PlanContext<'_>,
    table: &Arc<Table>,
    slot: u16,
    pending: Vec<PendingSource>,
    mut conjuncts: Vec<Expr>,
) -> UserResult<Changed> {
    context.facts.add_equalities(&conjuncts);
    context.facts.add_write(table, Expr::column(slot, table.partition_column.unwrap_or_default()));
    let joined = if pending.is_empty() {
        None
    } else {
        let others: Vec<u16> = pending.iter().map(|source| source.slot).collect();
        let reached = Reached { local: &others, bound: &[], subqueries: &context.subqueries };
        let (own, shared): (Vec<Expr>, Vec<Expr>) = conjuncts.into_iter().partition(|expr| reached.reaches(expr));
        conjuncts = own;
        let Arranged { sources, filter, .. } = arrange(context, pending, shared, &[])?;
        let aggregation = None;
        let windowing = None;
        let distinct = false;
        let output = Vec::new();
        Some(Box::new(Select { sources, filter, aggregation, windowing, distinct, output }))
    };
    semi::membership_as_existence(context, &[], &mut conjuncts);
    let reached = Reached { local: &[slot], bound: &[], subqueries: &context.subqueries };
    let choice = choose(table, slot, &conjuncts, &reached);
    remove_all(&mut conjuncts, &choice.consumed);
    Ok(Changed { access: choice.access, filter: conjunction(conjuncts), joined })
}
