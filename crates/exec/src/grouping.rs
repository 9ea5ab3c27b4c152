//! GROUP BY and aggregates: joined rows are folded into groups, which come out in the order of
//! their first row.

use crate::evaluator::Evaluator;
use crate::join::unmeasured;
use crate::rows::{Flow, Groups, OutputRow, PartResult};
use ferrite_base::{UserError, UserResult};
use ferrite_expr::aggregate::AggregateState;
use ferrite_expr::{Aggregate, AggregateKind, Context};
use ferrite_plan::{Access, Aggregation, Input, JoinKind, Select};
use ferrite_value::{OwnedValue, Value};

/// With how many groups of a part it is looked whether parts pay: merging costs as much as
/// grouping, for each group.
const PART_GROUPS_LOOK: usize = 8_192;
/// What putting out a group is, in units of work.
const GROUP_WORK: usize = 64;
/// This many rows for each group they need.
const PART_ROWS_EACH: usize = 4;

impl<'s> Evaluator<'s> {
    /// Calls `visit` with the aggregation's slot bound, once for each group that passes HAVING.
    pub(crate) fn grouped_rows(
        &self,
        select: &'s Select,
        aggregation: &'s Aggregation,
        visit: &mut dyn FnMut() -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        if let Some(count) = self.count_of_all_rows(select, aggregation) {
            let row = vec![Value::Integer(count); aggregation.aggregates.len()];
            return self.visit_group(aggregation, &row, visit);
        }
        if let Some(groups) = self.prepared_groups(select) {
            self.charge(groups.keys.len() * groups.bytes_each(aggregation))?;
            return self.visit_groups(aggregation, groups, visit);
        }
        if aggregation.group_by.is_empty() && aggregation.sets.is_empty() {
            let states = self.only_group(select, aggregation)?;
            let mut row = OutputRow::new();
            for state in &states {
                row.push(state.finish(self.arena())?);
            }
            return self.visit_group(aggregation, &row, visit);
        }
        let groups = self.hashed_groups(select, aggregation)?;
        self.visit_groups(aggregation, &groups, visit)
    }

    /// The groups of a block, for a merge with others.
    pub(crate) fn groups(&self, select: &'s Select, aggregation: &'s Aggregation) -> UserResult<Groups<'s>> {
        if !aggregation.group_by.is_empty() || !aggregation.sets.is_empty() {
            return self.hashed_groups(select, aggregation);
        }
        let mut groups = Groups::new(0, aggregation.aggregates.len());
        groups.states = self.only_group(select, aggregation)?;
        groups.keys.insert(&[]);
        Ok(groups)
    }

    fn prepared_groups(&self, select: &Select) -> Option<&'s Groups<'s>> {
        self.prepared.iter().find_map(|prepared| match &prepared.result {
            PartResult::Groups(groups) if std::ptr::eq(prepared.select, select) => Some(groups),
            _ => None,
        })
    }

    fn only_group(&self, select: &'s Select, aggregation: &'s Aggregation) -> UserResult<Vec<AggregateState>> {
        let mut states: Vec<AggregateState> = aggregation.aggregates.iter().map(AggregateState::new).collect();
        self.joined_rows(select, &mut || self.add_row(aggregation, &mut states))?;
        Ok(states)
    }

    fn hashed_groups(&self, select: &'s Select, aggregation: &'s Aggregation) -> UserResult<Groups<'s>> {
        let state_count = aggregation.aggregates.len();
        let sets = &aggregation.sets;
        let mut groups = Groups::new(aggregation.group_by.len() + usize::from(!sets.is_empty()), state_count);
        let bytes_each = groups.bytes_each(aggregation);
        let mut key = OutputRow::new();
        let group_of = |key: &[Value<'s>], groups: &mut Groups<'s>| -> UserResult<usize> {
            let (group, new) = groups.keys.insert(key);
            if new {
                self.charge(bytes_each)?;
                groups.states.extend(aggregation.aggregates.iter().map(AggregateState::new));
                if group == PART_GROUPS_LOOK
                    && self.meter.is_part()
                    && self.meter.rows_met() < PART_GROUPS_LOOK * PART_ROWS_EACH
                {
                    return Err(UserError::internal("grouping in parts does not pay"));
                }
            }
            Ok(group)
        };
        // A set without keys is one group, there even if no row came.
        for (number, _) in (0..).zip(sets).filter(|(_, set)| **set == 0) {
            key.clear();
            key.resize(aggregation.group_by.len(), Value::Null);
            key.push(Value::Integer(number));
            group_of(&key, &mut groups)?;
        }
        let mut key_in_set = OutputRow::new();
        self.joined_rows(select, &mut || {
            key.clear();
            for expression in &aggregation.group_by {
                key.push(self.evaluate(expression)?);
            }
            if sets.is_empty() {
                let group = group_of(&key, &mut groups)?;
                return self.add_row(aggregation, &mut groups.states[group * state_count..(group + 1) * state_count]);
            }
            for (number, set) in (0..).zip(sets) {
                key_in_set.clear();
                let in_set = |place: usize| set >> place & 1 == 1;
                key_in_set.extend(key.iter().enumerate().map(
                    |(place, value)| {
                        if in_set(place) { *value } else { Value::Null }
                    },
                ));
                key_in_set.push(Value::Integer(number));
                let group = group_of(&key_in_set, &mut groups)?;
                self.add_row(aggregation, &mut groups.states[group * state_count..(group + 1) * state_count])?;
            }
            Ok(Flow::More)
        })?;
        Ok(groups)
    }

    fn visit_groups(
        &self,
        aggregation: &'s Aggregation,
        groups: &Groups<'s>,
        visit: &mut dyn FnMut() -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let mut row = OutputRow::new();
        for group in 0..groups.keys.len() {
            row.clear();
            row.extend_from_slice(groups.keys.row(group));
            for state in &groups.states[group * groups.states_each..(group + 1) * groups.states_each] {
                let value = state.finish(self.arena())?;
                self.count_work(GROUP_WORK + value.bytes_apart())?;
                row.push(value);
            }
            if self.visit_group(aggregation, &row, visit)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    #[inline]
    fn add_row(&self, aggregation: &'s Aggregation, states: &mut [AggregateState]) -> UserResult<Flow> {
        for (aggregate, state) in aggregation.aggregates.iter().zip(states) {
            let Some(argument) = &aggregate.argument else {
                state.add(Value::Null)?;
                continue;
            };
            self.with_value(argument, |value| {
                let held = held_values(state);
                state.add(value)?;
                if held_values(state) == held { Ok(()) } else { self.charge(held_bytes(state, &value)) }
            })?;
        }
        Ok(Flow::More)
    }

    fn visit_group(
        &self,
        aggregation: &'s Aggregation,
        row: &[Value<'s>],
        visit: &mut dyn FnMut() -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        self.bind_computed(aggregation.slot, row);
        if self.passes(&aggregation.having)? { visit() } else { Ok(Flow::More) }
    }

    /// COUNT(*) of a whole table is known without a scan.
    fn count_of_all_rows(&self, select: &Select, aggregation: &Aggregation) -> Option<i64> {
        let [source] = &select.sources[..] else { return None };
        let Input::Table { table, access: Access::Scan } = unmeasured(&source.input) else { return None };
        let counts_rows = |aggregate: &Aggregate| aggregate.kind == AggregateKind::CountRows;
        let whole = aggregation.group_by.is_empty()
            && aggregation.sets.is_empty()
            && aggregation.aggregates.iter().all(counts_rows)
            && source.join == JoinKind::Inner
            && source.on.is_none()
            && source.filter.is_none()
            && select.filter.is_none();
        whole
            .then(|| self.stores_to_read(*table).map(|store| self.stores[store].table(*table).row_count() as i64).sum())
    }
}

/// Values that the state holds.
fn held_values(state: &AggregateState) -> usize {
    match state {
        AggregateState::Distinct { values, .. } => values.len(),
        AggregateState::Texts(texts) => texts.len(),
        AggregateState::Percentile(percentile) => percentile.len(),
        AggregateState::User(rows) => rows.len(),
        _ => 0,
    }
}

/// What the state took for a value that it holds now.
fn held_bytes(state: &AggregateState, value: &Value<'_>) -> usize {
    match state {
        AggregateState::Texts(texts) => texts.entry_bytes() + text_bytes(value),
        AggregateState::User(_) => {
            let values = if let Value::Array(values) = value { values.len() } else { 0 };
            values * size_of::<OwnedValue>() + text_bytes(value)
        }
        _ => 2 * size_of::<Value<'_>>() + text_bytes(value),
    }
}

fn text_bytes(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Array(values) => values.iter().map(text_bytes).sum(),
        _ => 0,
    }
}
