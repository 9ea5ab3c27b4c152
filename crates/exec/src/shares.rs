//! A program of which several groups run their shares, each on its own stores
//! (`ferrite_plan::divide`).
//!
//! Invariant: what all groups change together is what one node would change that had all stores.
//! Each row is stored by exactly one group, since each skips the rows of partitions that others
//! have; the results of a statement without a share here are another group's.

use crate::call::{Call, ResultSink, Scratch};
use crate::marks::{roll_back, set_marks};
use crate::run::Run;
use ferrite_base::{PartitionId, UserError, UserResult};
use ferrite_expr::Expr;
use ferrite_plan::{Insert, InsertSource, Plan, Step, owner};
use ferrite_table::Store;
use ferrite_value::Value;
use smallvec::SmallVec;

/// What this group does of one statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnShare {
    /// Nothing, and there is no result.
    None,
    /// All of it.
    Whole,
    /// What concerns the rows of its stores.
    OwnRows,
}

/// Runs this group's shares of a call's program, all or nothing: after an error the stores are as
/// before. `shares`: of each statement. `is_elsewhere`: whether another group has the partition.
///
/// # Panics
/// If the program is not a list of statements, which is all that can be divided.
pub fn run_shares(
    stores: &mut [Store],
    call: &Call<'_>,
    shares: &[OwnShare],
    is_elsewhere: &dyn Fn(PartitionId) -> bool,
    scratch: &mut Scratch,
    sink: &mut impl ResultSink,
) -> UserResult<()> {
    let marks = set_marks(stores);
    let result = in_turn(stores, call, shares, is_elsewhere, scratch, sink);
    if result.is_err() {
        roll_back(stores, marks);
    }
    result
}

fn in_turn(
    stores: &mut [Store],
    call: &Call<'_>,
    shares: &[OwnShare],
    is_elsewhere: &dyn Fn(PartitionId) -> bool,
    scratch: &mut Scratch,
    sink: &mut impl ResultSink,
) -> UserResult<()> {
    let program = call.program;
    assert_eq!(program.body.len(), shares.len(), "each statement has its share");
    let registers = call.arena.alloc_slice_fill_copy(program.registers.len(), Value::Null);
    let mut run = Run::new(stores, call, registers, scratch);
    for (step, share) in program.body.iter().zip(shares) {
        let Step::Execute { plan, emit, .. } = step else { panic!("a divided program is a list of statements") };
        match (share, plan) {
            (OwnShare::None, _) => {}
            (OwnShare::OwnRows, Plan::Insert(insert)) => {
                let rows = run.insert_own_rows(insert, is_elsewhere)?;
                run.report_change(plan, rows, *emit, sink)?;
            }
            (OwnShare::Whole | OwnShare::OwnRows, _) => run.execute(plan, *emit, sink)?,
        }
    }
    Ok(())
}

impl<'x> Run<'_, 'x> {
    /// Of the rows that are given, those that belong to these stores; how many they are. An UPSERT
    /// may be made together here and row by row in another group: what rows may meet in is a
    /// partition's, so each group comes to what one node would.
    fn insert_own_rows(&mut self, insert: &'x Insert, is_elsewhere: &dyn Fn(PartitionId) -> bool) -> UserResult<u64> {
        let InsertSource::Values { more } = &insert.source else { panic!("the rows of a query are not divided") };
        let in_turn = |run: &mut Self| {
            let mut rows = 0;
            run.each_own_row(insert, more, is_elsewhere, |run, values| {
                rows += 1;
                run.insert_row(insert, values)
            })?;
            Ok(rows)
        };
        if !insert.upsert || more.is_empty() {
            return in_turn(self);
        }
        self.in_turn_or_together(insert, in_turn, |run| {
            let mut given = Vec::new();
            let mut rows = 0;
            run.each_own_row(insert, more, is_elsewhere, |run, values| {
                run.meter_given(values)?;
                rows += 1;
                given.extend_from_slice(values);
                Ok(())
            })?;
            Ok((given, rows))
        })
    }

    fn each_own_row(
        &mut self,
        insert: &'x Insert,
        more: &'x [Vec<Expr>],
        is_elsewhere: &dyn Fn(PartitionId) -> bool,
        mut with: impl FnMut(&mut Self, &[Value<'x>]) -> UserResult<()>,
    ) -> UserResult<()> {
        for row in std::iter::once(&insert.row).chain(more) {
            self.tick()?;
            let values = self.row_given(row)?;
            if self.is_own(insert, &values, is_elsewhere)? {
                with(self, &values)?;
            }
        }
        Ok(())
    }

    /// What is kept of them counts as memory of the call.
    fn meter_given(&self, values: &[Value<'_>]) -> UserResult<()> {
        let slots = crate::evaluator::Slots::new(self.call);
        self.evaluator(&slots).charge(size_of_val(values))
    }

    fn is_own(
        &self,
        insert: &Insert,
        row: &[Value<'_>],
        is_elsewhere: &dyn Fn(PartitionId) -> bool,
    ) -> UserResult<bool> {
        let definition = self.stores[0].table(insert.table).definition();
        let column = definition.partition_column.expect("rows of partitioned tables are divided");
        let column_type = definition.columns[usize::from(column)].column_type.sql_type;
        let owner = owner(&row[usize::from(column)], column_type, self.stores[0].ring())?;
        if self.stores.iter().any(|store| store.partition() == owner) {
            return Ok(true);
        }
        if is_elsewhere(owner) {
            return Ok(false);
        }
        Err(UserError::internal(format!("partition {owner} is needed and was not held")))
    }

    fn row_given(&self, row: &'x [Expr]) -> UserResult<SmallVec<[Value<'x>; 16]>> {
        let slots = crate::evaluator::Slots::new(self.call);
        let evaluator = self.evaluator(&slots);
        row.iter().map(|expression| self.value_to_store(&evaluator, expression)).collect()
    }
}
