//! The state of one running statement, as its expressions see it: the rows bound to slots,
//! parameters, registers, subqueries.
//!
//! An evaluator lives for one execution of one statement and borrows the stores unchanged, so
//! values are borrowed from their pages without a copy.
//!
//! An expression may hold a subquery, and a query's conditions are expressions: so the files with
//! an `impl Evaluator` (queries, joins, grouping, windows) call each other. They share this type
//! and [`crate::rows`], and import nothing else in circles.

use crate::call::Call;
use crate::measure::Measures;
use crate::meter::Meter;
use crate::rows::{Cached, JoinTable, Kept, Prepared, RowSlot, Rows};
use bumpalo::Bump;
use ferrite_base::UserResult;
use ferrite_expr::{Context, Expr, SortedArray};
use ferrite_plan::Program;
use ferrite_table::Store;
use ferrite_value::Value;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// Rows that are looked for in an array parameter element by element before it is put in order.
const ROWS_BEFORE_SORTING: u32 = 32;
/// What an element takes that is put in order among many, in units of work.
const SORTED: usize = 64;
/// Slots that need no arena memory.
const SLOTS_INLINE: usize = 8;

/// Room for an evaluator's slots: on the stack for the usual few. Many are given back with the
/// statement: a batch has a slot for each of its thousands of statements.
pub(crate) struct Slots<'s> {
    inline: [Cell<RowSlot<'s>>; SLOTS_INLINE],
    many: Vec<Cell<RowSlot<'s>>>,
    kept: Option<&'s [Cell<RowSlot<'s>>]>,
}

impl<'s> Slots<'s> {
    #[inline]
    pub(crate) fn new(call: &'s Call<'s>) -> Slots<'s> {
        let count = call.program.slots as usize;
        let many = if count > SLOTS_INLINE { vec![Cell::new(RowSlot::Unbound); count] } else { Vec::new() };
        Slots { inline: std::array::from_fn(|_| Cell::new(RowSlot::Unbound)), many, kept: None }
    }

    /// For slots that are in the arena themselves.
    pub(crate) fn kept(call: &'s Call<'s>) -> Slots<'s> {
        let kept = call.arena.alloc_slice_fill_with(call.program.slots as usize, |_| Cell::new(RowSlot::Unbound));
        Slots { inline: std::array::from_fn(|_| Cell::new(RowSlot::Unbound)), many: Vec::new(), kept: Some(kept) }
    }

    #[inline]
    fn all(&self) -> &[Cell<RowSlot<'s>>] {
        match self.kept {
            Some(kept) => kept,
            None if self.many.is_empty() => &self.inline,
            None => &self.many,
        }
    }
}

pub(crate) struct Evaluator<'s> {
    pub(crate) stores: &'s [Store],
    pub(crate) program: &'s Program,
    call: &'s Call<'s>,
    registers: &'s [Value<'s>],
    slots: &'s [Cell<RowSlot<'s>>],
    /// What only statements with more than a lookup need; made when it is.
    rare: OnceCell<Box<Rare<'s>>>,
    /// The statement may evaluate one expression many times, so results of subqueries are worth
    /// keeping.
    repeats: Cell<bool>,
    /// What it uses. A statement that computes much is told so: what is computed for one row only
    /// then goes to `Rare::passing`.
    pub(crate) meter: Meter<'s>,
    pub(crate) measures: &'s Measures,
    /// What was done in parts before the statement began.
    pub(crate) prepared: &'s [Prepared<'s>],
}

struct Rare<'s> {
    /// Results of subqueries that do not depend on outer rows, by number.
    subqueries: RefCell<Vec<Option<Rc<Cached<'s>>>>>,
    /// Rows of derived tables that do not depend on outer rows, by slot.
    derived: Vec<Cell<Option<Rows<'s>>>>,
    /// Rows of the tables of WITH, by number.
    common: Vec<Cell<Option<Rows<'s>>>>,
    /// Hash tables of joins, by slot.
    joins: RefCell<Vec<(u16, Kept<'s>)>>,
    /// Array parameters that rows were looked for in.
    arrays: RefCell<Vec<AskedArray<'s>>>,
    /// Memory for what is computed for one row.
    passing: RefCell<Bump>,
}

struct AskedArray<'s> {
    parameter: u16,
    rows: u32,
    sorted: Option<SortedArray<'s>>,
}

impl<'s> Evaluator<'s> {
    #[inline]
    pub(crate) fn new(
        stores: &'s [Store],
        call: &'s Call<'s>,
        registers: &'s [Value<'s>],
        slots: &'s Slots<'s>,
        measures: &'s Measures,
        meter: Meter<'s>,
    ) -> Evaluator<'s> {
        Evaluator {
            stores,
            program: call.program,
            call,
            registers,
            slots: slots.all(),
            rare: OnceCell::new(),
            repeats: Cell::new(false),
            meter,
            measures,
            prepared: &[],
        }
    }

    #[inline]
    pub(crate) fn evaluate(&self, expression: &'s Expr) -> UserResult<Value<'s>> {
        match expression {
            // Straight to it, past the general evaluation's many cases.
            Expr::Subquery { subquery, operand: None } => self.run_subquery(*subquery, Value::Null),
            _ => expression.eval(self),
        }
    }

    /// As a condition: NULL counts as false.
    #[inline]
    pub(crate) fn holds(&self, condition: &'s Expr) -> UserResult<bool> {
        if self.meter.is_thrifty() {
            return self.holds_thriftily(condition);
        }
        match condition {
            // What procedures ask most; the rest is the general evaluation's.
            Expr::Compare { operator, left, right } => {
                let left = self.evaluate(left)?;
                let right = self.evaluate(right)?;
                Ok(operator.compare(&left, &right) == Some(true))
            }
            Expr::Subquery { operand: None, .. } => Ok(matches!(self.evaluate(condition)?, Value::Boolean(true))),
            Expr::Not(operand) if matches!(**operand, Expr::Subquery { operand: None, .. }) => {
                Ok(matches!(self.evaluate(operand)?, Value::Boolean(false)))
            }
            _ => condition.is_true(self),
        }
    }

    #[cold]
    fn holds_thriftily(&self, condition: &'s Expr) -> UserResult<bool> {
        match self.rare().passing.try_borrow_mut() {
            Ok(mut arena) => {
                arena.reset();
                condition.is_true(&Passing { evaluator: self, arena: &arena })
            }
            // A condition inside a subquery of a condition: the outer one resets the memory.
            Err(_) => condition.is_true(self),
        }
    }

    /// Gives the expression's value to `take`, which does not keep it.
    #[inline]
    pub(crate) fn with_value<R>(
        &self,
        expression: &'s Expr,
        take: impl FnOnce(Value<'_>) -> UserResult<R>,
    ) -> UserResult<R> {
        if self.meter.is_thrifty()
            && let Ok(mut arena) = self.rare().passing.try_borrow_mut()
        {
            arena.reset();
            return take(expression.eval(&Passing { evaluator: self, arena: &arena })?);
        }
        take(self.evaluate(expression)?)
    }

    /// The array in order, once many rows have been looked for in it: for few that would take
    /// longer.
    fn sort_array(&self, parameter: u16) -> UserResult<Option<SortedArray<'s>>> {
        let Value::Array(elements) = self.parameter(parameter) else { return Ok(None) };
        let mut arrays = self.rare().arrays.borrow_mut();
        let position = arrays.iter().position(|array| array.parameter == parameter).unwrap_or_else(|| {
            arrays.push(AskedArray { parameter, rows: 0, sorted: None });
            arrays.len() - 1
        });
        let array = &mut arrays[position];
        if array.sorted.is_none() {
            array.rows += 1;
            if array.rows > ROWS_BEFORE_SORTING {
                self.count_work(elements.len() * SORTED)?;
                array.sorted = Some(SortedArray::new(elements, self.call.arena));
            }
        }
        Ok(array.sorted)
    }

    /// No condition holds always.
    #[inline]
    pub(crate) fn passes(&self, condition: &'s Option<Expr>) -> UserResult<bool> {
        match condition {
            None => Ok(true),
            Some(condition) => self.holds(condition),
        }
    }

    #[inline]
    pub(crate) fn bind(&self, slot: u16, row: RowSlot<'s>) {
        self.slots[slot as usize].set(row);
    }

    #[inline]
    pub(crate) fn bound(&self, slot: u16) -> RowSlot<'s> {
        self.slots[slot as usize].get()
    }

    /// None: its hash table was never asked. Some(None): once, and it was not built for that.
    pub(crate) fn kept_join(&self, slot: u16) -> Option<Option<Rc<JoinTable<'s>>>> {
        let joins = self.rare().joins.borrow();
        joins.iter().find(|(other, _)| *other == slot).map(|(_, kept)| match kept {
            Kept::Asked => None,
            Kept::Built(table) => Some(Rc::clone(table)),
        })
    }

    pub(crate) fn keep_join(&self, slot: u16, kept: Kept<'s>) {
        let mut joins = self.rare().joins.borrow_mut();
        joins.retain(|(other, _)| *other != slot);
        joins.push((slot, kept));
    }

    /// Time that EXPLAIN ANALYZE counts with; it stands still where the caller gave no clock.
    pub(crate) fn nanoseconds(&self) -> u64 {
        self.call.clock.map_or(0, |clock| clock())
    }

    /// Binds a computed row that is wanted only until the next one comes.
    pub(crate) fn bind_computed(&self, slot: u16, row: &[Value<'s>]) {
        let values = match self.slots[slot as usize].get() {
            RowSlot::Reused(values) => values,
            _ => &*self.call.arena.alloc_slice_fill_with(row.len(), |_| Cell::new(Value::Null)),
        };
        for (place, value) in values.iter().zip(row) {
            place.set(*value);
        }
        self.bind(slot, RowSlot::Reused(values));
    }

    /// [`Meter::tick`]: called per row met and per loop round.
    #[inline]
    pub(crate) fn tick(&self) -> UserResult<()> {
        self.meter.tick()
    }

    /// [`Meter::count_work`]: counts work that is not a row's usual.
    #[inline]
    pub(crate) fn count_work(&self, units: usize) -> UserResult<()> {
        self.meter.count_work(units)
    }

    /// [`Meter::charge`]: accounts for memory that the statement holds until its end.
    #[inline]
    pub(crate) fn charge(&self, bytes: usize) -> UserResult<()> {
        self.meter.charge(bytes)
    }

    /// [`Meter::release`]: the memory went back before the statement's end.
    #[inline]
    pub(crate) fn release(&self, bytes: usize) {
        self.meter.release(bytes);
    }

    /// A row that stays until the transaction's end, fit to be bound to a slot.
    pub(crate) fn keep(&self, row: &[Value<'s>]) -> UserResult<&'s [Value<'s>]> {
        self.charge(size_of_val(row))?;
        Ok(self.call.arena.alloc_slice_copy(row))
    }

    /// Said by whatever evaluates expressions once per row.
    #[inline]
    pub(crate) fn set_repeats(&self) {
        self.repeats.set(true);
    }

    #[inline]
    pub(crate) fn repeats(&self) -> bool {
        self.repeats.get()
    }

    #[inline]
    pub(crate) fn cached_subquery(&self, number: u16) -> Option<Rc<Cached<'s>>> {
        self.rare.get()?.subqueries.borrow()[number as usize].clone()
    }

    pub(crate) fn cache_subquery(&self, number: u16, result: Rc<Cached<'s>>) {
        self.rare().subqueries.borrow_mut()[number as usize] = Some(result);
    }

    pub(crate) fn derived_cache(&self, slot: u16) -> &Cell<Option<Rows<'s>>> {
        &self.rare().derived[slot as usize]
    }

    pub(crate) fn common_cache(&self, table: u16) -> &Cell<Option<Rows<'s>>> {
        &self.rare().common[table as usize]
    }

    /// The row that the slot is at, fit to be bound again when others have been.
    pub(crate) fn kept_slot(&self, slot: u16) -> UserResult<RowSlot<'s>> {
        Ok(match self.slots[slot as usize].get() {
            RowSlot::Reused(values) => {
                self.charge(size_of_val(values))?;
                RowSlot::Computed(self.call.arena.alloc_slice_fill_iter(values.iter().map(Cell::get)))
            }
            other => other,
        })
    }

    #[cold]
    fn rare(&self) -> &Rare<'s> {
        self.rare.get_or_init(|| {
            Box::new(Rare {
                subqueries: RefCell::new(vec![None; self.program.subqueries.len()]),
                derived: vec![Cell::new(None); self.program.slots as usize],
                common: vec![Cell::new(None); self.program.common_tables.len()],
                joins: RefCell::default(),
                arrays: RefCell::default(),
                passing: RefCell::new(Bump::new()),
            })
        })
    }
}

impl<'s> Context<'s> for Evaluator<'s> {
    #[inline]
    fn column(&self, slot: u16, column: u16) -> Value<'s> {
        match self.slots[slot as usize].get() {
            RowSlot::Stored(row) => row.column(column),
            RowSlot::Computed(values) => values[column as usize],
            RowSlot::Reused(values) => values[column as usize].get(),
            RowSlot::Null => Value::Null,
            RowSlot::Unbound => unreachable!("the plan reads slot {slot} before its source is at a row"),
        }
    }

    #[inline]
    fn parameter(&self, index: u16) -> Value<'s> {
        self.call.parameters[index as usize]
    }

    #[inline]
    fn register(&self, index: u16) -> Value<'s> {
        self.registers[index as usize]
    }

    #[inline]
    fn arena(&self) -> &'s Bump {
        self.call.arena
    }

    #[inline]
    fn transaction_time(&self) -> i64 {
        self.call.transaction_time
    }

    fn cost(&self, units: usize) -> UserResult<()> {
        self.count_work(units)
    }

    fn sorted_array(&self, parameter: u16) -> UserResult<Option<SortedArray<'s>>> {
        self.sort_array(parameter)
    }

    #[inline]
    fn subquery(&self, subquery: u16, operand: Value<'s>) -> UserResult<Value<'s>> {
        self.run_subquery(subquery, operand)
    }
}

/// An evaluator whose computed values last for one evaluation.
struct Passing<'f, 's> {
    evaluator: &'f Evaluator<'s>,
    arena: &'f Bump,
}

impl<'f, 's: 'f> Context<'f> for Passing<'f, 's> {
    fn column(&self, slot: u16, column: u16) -> Value<'f> {
        self.evaluator.column(slot, column)
    }

    fn parameter(&self, index: u16) -> Value<'f> {
        self.evaluator.parameter(index)
    }

    fn register(&self, index: u16) -> Value<'f> {
        self.evaluator.register(index)
    }

    fn arena(&self) -> &'f Bump {
        self.arena
    }

    fn transaction_time(&self) -> i64 {
        self.evaluator.transaction_time()
    }

    fn cost(&self, units: usize) -> UserResult<()> {
        self.evaluator.meter.count_work_beside(units, self.arena.allocated_bytes())
    }

    fn sorted_array(&self, parameter: u16) -> UserResult<Option<SortedArray<'f>>> {
        self.evaluator.sort_array(parameter)
    }

    fn subquery(&self, subquery: u16, operand: Value<'f>) -> UserResult<Value<'f>> {
        self.evaluator.run_subquery(subquery, operand)
    }
}
