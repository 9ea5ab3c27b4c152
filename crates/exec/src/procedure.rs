//! The steps of a program: statements, variables, control flow.

use crate::call::ResultSink;
use crate::evaluator::Slots;
use crate::measure::{Measure, counted, milliseconds};
use crate::rows::Flow;
use crate::run::Run;
use ferrite_base::{ErrorKind, UserError, UserResult, fault};
use ferrite_expr::Expr;
use ferrite_plan::{OutputColumn, Plan, PlanLine, Query, ReturnValue, Returning, Step};
use ferrite_table::Store;
use ferrite_value::{Value, convert};

/// What putting out the head of a result is for each column, in units of work.
const COLUMN_WORK: usize = 64;
/// Variables of a SELECT INTO that need no memory.
const VARIABLES_INLINE: usize = 4;

/// How a step ended. Whole words, which are read as they were written.
#[repr(u64)]
pub(crate) enum Next {
    Step,
    /// Out of the block or loop with this label.
    Leave(u64),
    /// To the next round of the loop with this label.
    Iterate(u64),
    /// The program has returned.
    End,
}

impl<'x> Run<'_, 'x> {
    /// Runs the steps in turn: the program's, or those of a block in it.
    pub(crate) fn steps(&mut self, steps: &'x [Step], sink: &mut impl ResultSink) -> UserResult<Next> {
        for step in steps {
            match self.step(step, sink)? {
                Next::Step => {}
                other => return Ok(other),
            }
        }
        Ok(Next::Step)
    }

    fn step(&mut self, step: &'x Step, sink: &mut impl ResultSink) -> UserResult<Next> {
        fault::point(fault::Point::Statement);
        match step {
            Step::Execute { plan, emit, .. } => self.execute(plan, *emit, sink)?,
            Step::Analyze { plan, columns, lines, .. } => self.analyze(plan, columns, lines, sink)?,
            Step::Fetch { query, into, .. } => self.fetch(query, into)?,
            Step::Assign { register, value } => {
                let value = self.value(value)?;
                self.assign(*register, value)?;
            }
            Step::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.holds(condition)? {
                        return self.steps(body, sink);
                    }
                }
                return self.steps(otherwise, sink);
            }
            Step::While { label, condition, body } => {
                while self.holds(condition)? {
                    self.tick()?;
                    match self.steps(body, sink)? {
                        Next::Step => {}
                        Next::Iterate(target) if target == u64::from(*label) => {}
                        Next::Leave(target) if target == u64::from(*label) => break,
                        other => return Ok(other),
                    }
                }
            }
            Step::For { label, query, into, body, .. } => {
                let width = into.len();
                let rows = self.rows_of(query)?;
                for row in rows.chunks_exact(width) {
                    self.tick()?;
                    for (register, value) in into.iter().zip(row) {
                        self.assign(*register, *value)?;
                    }
                    match self.steps(body, sink)? {
                        Next::Step => {}
                        Next::Iterate(target) if target == u64::from(*label) => {}
                        Next::Leave(target) if target == u64::from(*label) => break,
                        other => return Ok(other),
                    }
                }
            }
            Step::Block { label, body } => match self.steps(body, sink)? {
                Next::Leave(target) if target == u64::from(*label) => {}
                other => return Ok(other),
            },
            Step::Leave { label } => return Ok(Next::Leave(u64::from(*label))),
            Step::Iterate { label } => return Ok(Next::Iterate(u64::from(*label))),
            Step::Return(value) => {
                self.return_value(value, sink)?;
                return Ok(Next::End);
            }
            Step::Signal { state, message } => return Err(self.signal(state, message)?),
        }
        Ok(Next::Step)
    }

    /// One statement: a query's rows go to the sink, by `Evaluator::run_query` in `query.rs`; a
    /// change goes on in `write.rs`, and from there to the store.
    #[inline]
    pub(crate) fn execute(&mut self, plan: &'x Plan, emit: bool, sink: &mut impl ResultSink) -> UserResult<()> {
        let modified = match plan {
            Plan::Query(query) => return self.query(query, emit, sink),
            change => self.change(change)?,
        };
        self.report_change(plan, modified, emit, sink)
    }

    /// The result of a change of so many rows.
    #[inline(always)]
    pub(crate) fn report_change(
        &mut self,
        plan: &'x Plan,
        modified: u64,
        emit: bool,
        sink: &mut impl ResultSink,
    ) -> UserResult<()> {
        match returning(plan) {
            None if emit => sink.modified(modified),
            None => {}
            Some(returning) => self.emit_returned(returning, emit, sink)?,
        }
        Ok(())
    }

    #[cold]
    fn emit_returned(&mut self, returning: &'x Returning, emit: bool, sink: &mut impl ResultSink) -> UserResult<()> {
        let rows = std::mem::take(&mut self.returned);
        if !emit {
            return Ok(());
        }
        sink.begin_table(&returning.columns);
        for row in rows {
            sink.row(row)?;
        }
        sink.end_table();
        Ok(())
    }

    #[inline(always)]
    fn change(&mut self, plan: &'x Plan) -> UserResult<u64> {
        let modified = match plan {
            Plan::Query(_) => unreachable!("a query changes nothing"),
            Plan::Insert(insert) => self.insert(insert),
            Plan::Update(update) => self.update(update),
            Plan::Delete(delete) => self.delete(delete),
            Plan::Truncate { table } => self.truncate(*table),
        }?;
        // Each store has looked after its own part.
        if self.stores.len() > 1 {
            Store::check_size_together(self.stores)?;
        }
        Ok(modified)
    }

    /// EXPLAIN ANALYZE: runs the plan and answers its lines with what was measured.
    #[cold]
    fn analyze(
        &mut self,
        plan: &'x Plan,
        columns: &[OutputColumn],
        lines: &[PlanLine],
        sink: &mut impl ResultSink,
    ) -> UserResult<()> {
        let nanoseconds = || self.call.clock.map_or(0, |clock| clock());
        let before = nanoseconds();
        *self.measures.borrow_mut() = vec![Measure::default(); self.call.program.slots as usize];
        let summary = match plan {
            Plan::Query(query) => {
                let mut rows = 0;
                let slots = Slots::new(self.call);
                self.evaluator(&slots).run_query(query, &mut |_| {
                    rows += 1;
                    Ok(Flow::More)
                })?;
                format!("{} in all", counted(rows))
            }
            change => {
                let changed = counted(self.change(change)?);
                self.returned.clear();
                format!("{changed} changed")
            }
        };
        let took = self.call.clock.map_or(0, |clock| clock()) - before;
        let measures = self.measures.take();
        sink.begin_table(columns);
        for line in lines {
            let measure = line.slot.and_then(|slot| measures.get(usize::from(slot)));
            let measured = measure.map(Measure::in_words).unwrap_or_default();
            sink.row(&[Value::Text(&format!("{}{measured}", line.text))])?;
        }
        sink.row(&[Value::Text(&format!("{summary}, {}", milliseconds(took)))])?;
        sink.end_table();
        Ok(())
    }

    #[inline]
    fn query(&mut self, query: &'x Query, emit: bool, sink: &mut impl ResultSink) -> UserResult<()> {
        if let Some(workers) = self.call.workers {
            self.prepare(query, workers)?;
        }
        let result = self.query_prepared(query, emit, sink);
        self.prepared.clear();
        result
    }

    #[inline]
    fn query_prepared(&self, query: &'x Query, emit: bool, sink: &mut impl ResultSink) -> UserResult<()> {
        let slots = Slots::new(self.call);
        let evaluator = self.evaluator(&slots);
        if !emit {
            evaluator.run_query(query, &mut |_| Ok(Flow::More))?;
            return Ok(());
        }
        evaluator.count_work(query.columns.len() * COLUMN_WORK)?;
        sink.begin_table(&query.columns);
        evaluator.run_query(query, &mut |row| {
            sink.row(row)?;
            Ok(Flow::More)
        })?;
        sink.end_table();
        Ok(())
    }

    /// SELECT ... INTO.
    fn fetch(&mut self, query: &'x Query, into: &'x [u16]) -> UserResult<()> {
        let arena = self.call.arena;
        let mut few = [Value::Null; VARIABLES_INLINE];
        let mut many = Vec::new();
        let row = if into.len() <= VARIABLES_INLINE {
            &mut few[..into.len()]
        } else {
            many.resize(into.len(), Value::Null);
            &mut many[..]
        };
        let mut places = row.iter_mut();
        {
            let slots = Slots::new(self.call);
            let evaluator = self.evaluator(&slots);
            evaluator.single_row(
                query,
                |value| {
                    if let Some(place) = places.next() {
                        *place = value.copied_to(arena);
                    }
                },
                || {
                    UserError::data("21000", "SELECT INTO found more than one row")
                        .with_hint("narrow it with WHERE or LIMIT 1, or use FOR to take all rows")
                },
            )?;
        }
        // Without a row all places are left.
        let count = into.len() - places.len();
        for (register, value) in into.iter().zip(&row[..count]) {
            self.assign(*register, *value)?;
        }
        Ok(())
    }

    /// The rows of a FOR as they stand now, one after the other.
    fn rows_of(&self, query: &'x Query) -> UserResult<Vec<Value<'x>>> {
        let slots = Slots::new(self.call);
        let evaluator = self.evaluator(&slots);
        let mut rows = Vec::new();
        evaluator.run_query(query, &mut |row| {
            evaluator.charge(size_of_val(row))?;
            for value in row {
                evaluator.count_work(value.bytes_apart())?;
                rows.push(value.copied_to(self.call.arena));
            }
            Ok(Flow::More)
        })?;
        Ok(rows)
    }

    fn holds(&self, condition: &'x Expr) -> UserResult<bool> {
        let slots = Slots::new(self.call);
        self.evaluator(&slots).holds(condition)
    }

    /// A value that outlives the statement.
    #[inline]
    fn value(&self, expression: &'x Expr) -> UserResult<Value<'x>> {
        match expression {
            Expr::Constant(value) => Ok(value.as_value()),
            Expr::Parameter(index) => Ok(self.call.parameters[*index as usize]),
            Expr::Register(index) => Ok(self.registers[*index as usize]),
            _ => {
                let slots = Slots::new(self.call);
                let evaluator = self.evaluator(&slots);
                Ok(evaluator.evaluate(expression)?.copied_to(self.call.arena))
            }
        }
    }

    #[inline]
    fn assign(&mut self, register: u16, value: Value<'x>) -> UserResult<()> {
        let declared = &self.call.program.registers[register as usize];
        self.registers[register as usize] = convert::as_kept(value, &declared.column_type, &declared.name)?;
        Ok(())
    }

    fn return_value(&mut self, value: &'x ReturnValue, sink: &mut impl ResultSink) -> UserResult<()> {
        match value {
            ReturnValue::Nothing => {}
            ReturnValue::Status(expression) => sink.status(match self.value(expression)? {
                Value::Null => None,
                Value::Integer(status) => Some(status),
                other => {
                    return Err(UserError::data("42804", format!("RETURN needs a number, not {}", other.kind_name())));
                }
            }),
            ReturnValue::Tables(queries) => {
                for (_, query) in queries {
                    self.query(query, true, sink)?;
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn signal(&self, state: &str, message: &'x Expr) -> UserResult<UserError> {
        let message = match self.value(message)? {
            Value::Null => String::new(),
            value => convert::to_text_string(&value),
        };
        Ok(UserError::new(ErrorKind::UserAbort, "45000", message)
            .with_code(state.to_owned())
            .with_detail(format!("SQLSTATE {state}")))
    }
}

fn returning(plan: &Plan) -> Option<&Returning> {
    match plan {
        Plan::Insert(insert) => insert.returning.as_deref(),
        Plan::Update(update) => update.returning.as_deref(),
        Plan::Delete(delete) => delete.returning.as_deref(),
        Plan::Query(_) | Plan::Truncate { .. } => None,
    }
}
