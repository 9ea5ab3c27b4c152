//! Window functions: a block's rows are collected, each window sorts them by its keys, and each
//! function walks the sorted rows partition by partition. The rows go on in the order in which they
//! came.

use crate::evaluator::Evaluator;
use crate::rows::{Flow, RowSlot};
use crate::sorting::sort;
use crate::window_frame::{Sorted, WindowFrames};
use ferrite_base::{UserError, UserResult};
use ferrite_expr::aggregate::{AggregateState, Removal};
use ferrite_expr::{Aggregate, AggregateKind, Context};
use ferrite_plan::{Select, Window, WindowFunction, WindowKind, Windowing};
use ferrite_value::{SqlType, Value, compare};
use std::cmp::Ordering;
use std::ops::Range;

/// The rows of a block, with what its windows need of each.
struct Collected<'s> {
    rows: usize,
    /// The kept slots of each row.
    slots: Vec<RowSlot<'s>>,
    /// Per row: each window's partition keys, order keys, and its functions' arguments.
    inputs: Vec<Value<'s>>,
    width: usize,
    results: Vec<Value<'s>>,
    /// Results per row.
    functions: usize,
}

impl<'s> Collected<'s> {
    fn input(&self, row: u32, place: usize) -> &Value<'s> {
        &self.inputs[row as usize * self.width + place]
    }

    fn inputs(&self, row: u32, places: Range<usize>) -> &[Value<'s>] {
        let start = row as usize * self.width;
        &self.inputs[start + places.start..start + places.end]
    }
}

impl<'s> Evaluator<'s> {
    /// Calls `visit` for each of the block's rows with the results of the window functions bound.
    pub(crate) fn windowed_rows(
        &self,
        select: &'s Select,
        windowing: &'s Windowing,
        visit: &mut dyn FnMut() -> UserResult<Flow>,
    ) -> UserResult<Flow> {
        let mut collected = self.collect(select, windowing)?;
        let mut start = 0;
        for window in &windowing.windows {
            start = self.run_window(window, start, &mut collected)?;
        }
        let kept = windowing.kept.len();
        for row in 0..collected.rows {
            self.tick()?;
            for (slot, kept) in windowing.kept.iter().zip(&collected.slots[row * kept..]) {
                self.bind(*slot, *kept);
            }
            let functions = collected.functions;
            self.bind_computed(windowing.slot, &collected.results[row * functions..(row + 1) * functions]);
            if visit()? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        self.release(collected.rows * row_bytes(&collected, kept));
        Ok(Flow::More)
    }

    fn collect(&self, select: &'s Select, windowing: &'s Windowing) -> UserResult<Collected<'s>> {
        let width = windowing.windows.iter().map(width_of).sum();
        let functions = windowing.windows.iter().map(|window| window.functions.len()).sum();
        let mut collected =
            Collected { rows: 0, slots: Vec::new(), inputs: Vec::new(), width, results: Vec::new(), functions };
        let kept = windowing.kept.len();
        let bytes = row_bytes(&collected, kept);
        self.block_rows(select, &mut || {
            self.charge(bytes)?;
            for slot in &windowing.kept {
                collected.slots.push(self.kept_slot(*slot)?);
            }
            for window in &windowing.windows {
                let order_by = window.order_by.iter().map(|(expression, _)| expression);
                let arguments = window.functions.iter().flat_map(|function| &function.arguments);
                for expression in window.partition_by.iter().chain(order_by).chain(arguments) {
                    collected.inputs.push(self.evaluate(expression)?);
                }
            }
            collected.rows += 1;
            Ok(Flow::More)
        })?;
        collected.results = vec![Value::Null; collected.rows * functions];
        Ok(collected)
    }

    /// Computes the functions of one window, whose inputs begin at `start`; answers where the next
    /// one's begin.
    fn run_window(&self, window: &'s Window, start: usize, collected: &mut Collected<'s>) -> UserResult<usize> {
        let keys = window.partition_by.len();
        let partition = start..start + keys;
        let ordering = partition.end..partition.end + window.order_by.len();
        let mut order: Vec<u32> = (0..collected.rows as u32).collect();
        if !partition.is_empty() || !ordering.is_empty() {
            order = sort(&self.meter, order, |left, right| {
                compare_rows(
                    window,
                    collected.inputs(left, partition.start..ordering.end),
                    collected.inputs(right, partition.start..ordering.end),
                )
            })?;
        }
        let same = |left: u32, right: u32, places: Range<usize>| {
            let left = collected.inputs(left, places.clone());
            let right = collected.inputs(right, places);
            left.iter().zip(right).all(|(left, right)| compare::equal_grouping(left, right))
        };
        let mut partitions: Vec<Range<usize>> = Vec::new();
        let mut peers: Vec<Range<usize>> = Vec::with_capacity(order.len());
        let mut partition_start = 0;
        let mut peer_start = 0;
        for place in 1..=order.len() {
            let ends = place == order.len();
            let new_partition = ends || !same(order[place - 1], order[place], partition.clone());
            if new_partition || !same(order[place - 1], order[place], ordering.clone()) {
                peers.extend(std::iter::repeat_n(peer_start..place, place - peer_start));
                peer_start = place;
            }
            if new_partition {
                partitions.push(partition_start..place);
                partition_start = place;
            }
        }
        let descending = window.order_by.last().is_some_and(|(_, descending)| *descending);
        let sorted = Sorted { order, peers, key: ordering.end.saturating_sub(1), descending };
        let mut arguments = ordering.end;
        for function in &window.functions {
            for partition in &partitions {
                self.run_function(function, arguments, &sorted, partition.clone(), collected)?;
            }
            arguments += function.arguments.len();
        }
        Ok(arguments)
    }

    fn run_function(
        &self,
        function: &'s WindowFunction,
        arguments: usize,
        sorted: &Sorted,
        partition: Range<usize>,
        collected: &mut Collected<'s>,
    ) -> UserResult<()> {
        if let WindowKind::Aggregate(aggregate) = &function.kind {
            return self.run_aggregate(function, aggregate, arguments, sorted, partition, collected);
        }
        let key = |place: usize| *collected.input(sorted.order[place], sorted.key);
        let frames = WindowFrames::new(self, function, sorted, partition.clone(), key)?;
        let size = partition.len() as i64;
        let mut dense = 0;
        for place in partition.clone() {
            self.tick()?;
            let row = sorted.order[place];
            let peers = &sorted.peers[place];
            let before = (place - partition.start) as i64;
            dense += i64::from(peers.start == place);
            let value = match &function.kind {
                WindowKind::RowNumber => Value::Integer(before + 1),
                WindowKind::Rank => Value::Integer((peers.start - partition.start) as i64 + 1),
                WindowKind::DenseRank => Value::Integer(dense),
                WindowKind::PercentRank if size == 1 => Value::Float(0.0),
                WindowKind::PercentRank => Value::Float((peers.start - partition.start) as f64 / (size - 1) as f64),
                WindowKind::CumeDist => Value::Float((peers.end - partition.start) as f64 / size as f64),
                WindowKind::Ntile => ntile(collected.input(row, arguments), before, size)?,
                WindowKind::Lag | WindowKind::Lead => {
                    let ahead = function.kind == WindowKind::Lead;
                    neighbour(function, arguments, sorted, &partition, place, ahead, collected)
                }
                WindowKind::FirstValue | WindowKind::LastValue | WindowKind::NthValue => {
                    let frame = frames.of(place);
                    let found = match &function.kind {
                        WindowKind::FirstValue => Some(frame.start),
                        WindowKind::LastValue => frame.end.checked_sub(1),
                        _ => nth(collected.input(row, arguments + 1), &frame)?,
                    };
                    match found.filter(|place| frame.contains(place)) {
                        Some(place) => *collected.input(sorted.order[place], arguments),
                        None => Value::Null,
                    }
                }
                WindowKind::Aggregate(_) => unreachable!("aggregates were sorted out above"),
            };
            collected.results[row as usize * collected.functions + function.output as usize] = value;
        }
        Ok(())
    }

    /// Frames only move forward, so each row comes in once, and goes out once where the aggregate
    /// can take it back.
    fn run_aggregate(
        &self,
        function: &'s WindowFunction,
        aggregate: &'s Aggregate,
        argument: usize,
        sorted: &Sorted,
        partition: Range<usize>,
        collected: &mut Collected<'s>,
    ) -> UserResult<()> {
        let key = |place: usize| *collected.input(sorted.order[place], sorted.key);
        let frames = WindowFrames::new(self, function, sorted, partition.clone(), key)?;
        let value_at = |collected: &Collected<'s>, place: usize| {
            if function.arguments.is_empty() { Value::Null } else { *collected.input(sorted.order[place], argument) }
        };
        // What is added to and taken from a sum of floats leaves its rounding behind; others cannot
        // be taken back.
        let exact = match aggregate.kind {
            AggregateKind::CountRows | AggregateKind::Count => true,
            AggregateKind::Sum | AggregateKind::Average => aggregate.argument_type != SqlType::Float,
            _ => false,
        };
        let mut state = AggregateState::new(aggregate);
        let mut covered = partition.start..partition.start;
        let mut last: Option<(Range<usize>, Value<'s>)> = None;
        for place in partition {
            self.tick()?;
            let frame = frames.of(place);
            let value = match &last {
                Some((range, value)) if *range == frame => *value,
                _ if frame.is_empty() => AggregateState::new(aggregate).finish(self.arena())?,
                _ => {
                    let mut rebuild = frame.start >= covered.end || (frame.start > covered.start && !exact);
                    if !rebuild {
                        for gone in covered.start..frame.start {
                            self.tick()?;
                            rebuild |= state.remove(value_at(collected, gone))? == Removal::Rebuild;
                        }
                    }
                    if rebuild {
                        state = AggregateState::new(aggregate);
                        covered = frame.start..frame.start;
                    }
                    for new in covered.end..frame.end {
                        self.tick()?;
                        state.add(value_at(collected, new))?;
                    }
                    covered = frame.clone();
                    let value = state.finish(self.arena())?;
                    self.count_work(value.bytes_apart())?;
                    last = Some((frame, value));
                    value
                }
            };
            let row = sorted.order[place] as usize;
            collected.results[row * collected.functions + function.output as usize] = value;
        }
        Ok(())
    }
}

fn width_of(window: &Window) -> usize {
    let arguments: usize = window.functions.iter().map(|function| function.arguments.len()).sum();
    window.partition_by.len() + window.order_by.len() + arguments
}

/// What one collected row takes, its places in two orders included.
fn row_bytes(collected: &Collected<'_>, kept: usize) -> usize {
    (collected.width + collected.functions) * size_of::<Value<'_>>()
        + kept * size_of::<RowSlot<'_>>()
        + size_of::<u32>()
        + size_of::<Range<usize>>()
}

/// By the partition keys, then by the order keys.
fn compare_rows(window: &Window, left: &[Value<'_>], right: &[Value<'_>]) -> Ordering {
    let keys = window.partition_by.len();
    for (place, (left, right)) in left.iter().zip(right).enumerate() {
        let ordering = compare::order(left, right);
        if ordering != Ordering::Equal {
            let descending = place >= keys && window.order_by[place - keys].1;
            return if descending { ordering.reverse() } else { ordering };
        }
    }
    Ordering::Equal
}

fn ntile<'s>(tiles: &Value<'s>, before: i64, size: i64) -> UserResult<Value<'s>> {
    let tiles = match tiles {
        Value::Null => return Ok(Value::Null),
        Value::Integer(tiles) if *tiles > 0 => *tiles,
        _ => return Err(UserError::data("22014", "NTILE takes a number greater than 0")),
    };
    // The first `larger` tiles have one row more than the others.
    let least = size / tiles;
    let larger = size % tiles;
    let in_larger = larger * (least + 1);
    Ok(Value::Integer(if before < in_larger {
        before / (least + 1) + 1
    } else {
        larger + (before - in_larger) / least + 1
    }))
}

/// LAG and LEAD.
fn neighbour<'s>(
    function: &WindowFunction,
    arguments: usize,
    sorted: &Sorted,
    partition: &Range<usize>,
    place: usize,
    ahead: bool,
    collected: &Collected<'s>,
) -> Value<'s> {
    let row = sorted.order[place];
    let offset = match function.arguments.len() {
        1 => 1,
        _ => match collected.input(row, arguments + 1) {
            Value::Integer(offset) => *offset,
            _ => return Value::Null,
        },
    };
    let offset = if ahead { offset } else { offset.saturating_neg() };
    let wanted = (place as i64).saturating_add(offset);
    if wanted >= partition.start as i64 && wanted < partition.end as i64 {
        return *collected.input(sorted.order[wanted as usize], arguments);
    }
    if function.arguments.len() > 2 { *collected.input(row, arguments + 2) } else { Value::Null }
}

/// The place of NTH_VALUE's row, which may be outside the frame.
fn nth(number: &Value<'_>, frame: &Range<usize>) -> UserResult<Option<usize>> {
    match number {
        Value::Null => Ok(None),
        Value::Integer(number) if *number > 0 => {
            Ok(usize::try_from(*number - 1).ok().and_then(|ahead| frame.start.checked_add(ahead)))
        }
        _ => Err(UserError::data("22016", "NTH_VALUE takes a number greater than 0")),
    }
}
