//! Queries over several stores in parts: the rows of each store are grouped, or sorted and cut to a
//! limit, by themselves, and what comes of it is merged, in the order of the stores.
//!
//! The parts are for a [`WorkerPool`] to do, perhaps at the same time. What they answer does not
//! depend on how many do them. Where a part is interrupted, so is the query: its time is over. A
//! part that fails for another reason ends nothing: then the query runs as it otherwise would, and
//! its errors and limits are those of one thread.

use crate::call::{Call, WorkerPool};
use crate::evaluator::{Evaluator, Slots};
use crate::measure::Measures;
use crate::meter::{Meter, interrupted};
use crate::rows::{Flow, Groups, OutputRow, PartResult, Prepared};
use crate::run::Run;
use crate::sorting::Sorter;
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_plan::InParts;
use ferrite_plan::{Program, Query};
use ferrite_table::Store;
use ferrite_value::Value;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// More first rows than this are not sorted in parts.
const FIRST_ROWS_MAX: usize = 10_000;

/// What every part of a query sees.
#[derive(Clone, Copy)]
struct Seen<'p> {
    program: &'p Program,
    parameters: &'p [Value<'p>],
    registers: &'p [Value<'p>],
    transaction_time: i64,
    workers: &'p dyn WorkerPool,
    temporary_bytes_max: usize,
    /// Of how many stores.
    stores: usize,
    /// For [`InParts::First`], how many rows.
    wanted: usize,
}

impl<'x> Run<'_, 'x> {
    /// Does in parts what can be done so of a query that is about to run.
    #[cold]
    pub(crate) fn prepare(&mut self, query: &'x Query, workers: &'x dyn WorkerPool) -> UserResult<()> {
        self.prepared.clear();
        if self.stores.len() < 2 {
            return Ok(());
        }
        let definition = |table| self.stores[0].table(table).definition();
        let blocks = ferrite_plan::in_parts(query, self.call.program, &|table| definition(table).is_partitioned());
        for block in blocks {
            let rows = self.stores.iter().map(|store| store.table(block.table).row_count()).sum();
            let beside: u64 = block.beside.iter().map(|table| self.stores[0].table(*table).row_count()).sum();
            if workers.pays(rows, beside * self.stores.len() as u64) {
                match self.prepare_block(block.work, workers) {
                    Some(prepared) => self.prepared.push(prepared),
                    None => self.in_time(workers)?,
                }
            }
        }
        Ok(())
    }

    /// An error if the parts may not take longer: the query may not, either.
    fn in_time(&self, workers: &dyn WorkerPool) -> UserResult<()> {
        if !workers.interrupted() {
            return Ok(());
        }
        // The caller notes why.
        if let Some(asked) = self.call.interrupted {
            asked();
        }
        Err(interrupted())
    }

    fn prepare_block(&mut self, block: InParts<'x>, workers: &'x dyn WorkerPool) -> Option<Prepared<'x>> {
        let wanted = match block {
            InParts::Groups(_) => 0,
            InParts::First(query, _) => self.first_rows(query).filter(|wanted| *wanted <= FIRST_ROWS_MAX)?,
        };
        let (InParts::Groups(select) | InParts::First(_, select)) = block;
        let mut arenas: Vec<Bump> = self.stores.iter().map(|_| Bump::new()).collect();
        let seen = Seen {
            program: self.call.program,
            parameters: self.call.parameters,
            registers: self.registers,
            transaction_time: self.call.transaction_time,
            workers,
            temporary_bytes_max: self.call.temporary_bytes_max,
            stores: self.stores.len(),
            wanted,
        };
        let tasks: Vec<_> = self.stores.iter_mut().zip(&mut arenas).map(|task| Mutex::new(Some(task))).collect();
        let results: Vec<Mutex<Option<PartResult<'_>>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
        let failed = AtomicBool::new(false);
        workers.each(tasks.len(), &|number| {
            if failed.load(Ordering::Relaxed) {
                return;
            }
            let Some((store, arena)) = lock(&tasks[number]).take() else { return };
            match part(block, store, arena, seen) {
                Ok(result) => *lock(&results[number]) = Some(result),
                Err(_) => failed.store(true, Ordering::Relaxed),
            }
        });
        let mut parts = Vec::with_capacity(results.len());
        for result in &results {
            parts.push(lock(result).take()?);
        }
        Some(Prepared { select, result: merged(parts, self.call.arena) })
    }

    fn first_rows(&self, query: &'x Query) -> Option<usize> {
        let slots = Slots::new(self.call);
        let evaluator = self.evaluator(&slots);
        let limit = evaluator.row_count(&query.limit, "LIMIT").ok()??;
        let offset = evaluator.row_count(&query.offset, "OFFSET").ok()?.unwrap_or(0);
        Some(limit.saturating_add(offset))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One store's part.
fn part<'p>(
    block: InParts<'p>,
    store: &'p mut Store,
    arena: &'p mut Bump,
    seen: Seen<'p>,
) -> UserResult<PartResult<'p>> {
    let arena: &'p Bump = arena;
    let workers = seen.workers;
    let interrupted: &'p dyn Fn() -> bool = arena.alloc(move || workers.interrupted());
    let call: &'p Call<'p> = arena.alloc(Call {
        interrupted: Some(interrupted),
        temporary_bytes_max: seen.temporary_bytes_max,
        ..Call::new(seen.program, seen.parameters, seen.transaction_time, arena)
    });
    let slots: &'p Slots<'p> = arena.alloc(Slots::kept(call));
    let measures: &'p Measures = arena.alloc(Measures::default());
    let work: &'p Cell<usize> = arena.alloc(Cell::new(0));
    let stores: &'p [Store] = std::slice::from_ref(store);
    let meter = Meter::of_part(call, work, seen.stores);
    let evaluator = Evaluator::new(stores, call, seen.registers, slots, measures, meter);
    evaluator.set_repeats();
    match block {
        InParts::Groups(select) => {
            let Some(aggregation) = &select.aggregation else {
                return Err(UserError::internal("groups are of an aggregation"));
            };
            Ok(PartResult::Groups(evaluator.groups(select, aggregation)?))
        }
        InParts::First(query, select) => {
            let mut sorter = Sorter::new(&query.order_by, Some(seen.wanted));
            evaluator.run_select(select, query.columns.len(), &[], &mut |row| {
                sorter.push(&evaluator.meter, row)?;
                Ok(Flow::More)
            })?;
            let mut values = Vec::new();
            for position in sorter.sorted(&evaluator.meter)? {
                values.extend_from_slice(sorter.row(position));
            }
            Ok(PartResult::Rows { width: select.output.len(), values })
        }
    }
}

/// What the parts answer together; it keeps nothing of theirs.
fn merged<'x>(parts: Vec<PartResult<'_>>, arena: &'x Bump) -> PartResult<'x> {
    let mut rows: Vec<Value<'x>> = Vec::new();
    let mut groups: Option<Groups<'x>> = None;
    let mut row_width = 0;
    for part in parts {
        match part {
            PartResult::Rows { width, values } => {
                row_width = width;
                rows.extend(values.iter().map(|value| value.copied_to(arena)));
            }
            PartResult::Groups(part) => {
                let groups = groups.get_or_insert_with(|| Groups::new(part.keys.width(), part.states_each));
                take_in(groups, part, arena);
            }
        }
    }
    match groups {
        Some(groups) => PartResult::Groups(groups),
        None => PartResult::Rows { width: row_width, values: rows },
    }
}

fn take_in<'x>(groups: &mut Groups<'x>, part: Groups<'_>, arena: &'x Bump) {
    let Groups { keys, states, states_each } = part;
    let mut states = states.into_iter();
    let mut key = OutputRow::new();
    let first = groups.keys.len() == 0;
    for group in 0..keys.len() {
        let found = if first { None } else { groups.keys.find(keys.row(group)) };
        match found {
            Some(place) => {
                let known = &mut groups.states[place * states_each..(place + 1) * states_each];
                for (state, more) in known.iter_mut().zip(states.by_ref().take(states_each)) {
                    state.merge(&more);
                }
            }
            None => {
                key.clear();
                key.extend(keys.row(group).iter().map(|value| value.copied_to(arena)));
                groups.keys.insert(&key);
                groups.states.extend(states.by_ref().take(states_each));
            }
        }
    }
}
