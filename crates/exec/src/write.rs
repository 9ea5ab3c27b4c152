//! Data changes: INSERT, UPSERT, UPDATE, DELETE, TRUNCATE.
//!
//! First everything is read that decides what to change (the rows' ids, the rows of a source
//! query), then it is changed, so a statement never meets its own changes. Rows of a partitioned
//! table go to the store that owns their key; a change of a replicated table is made in every store
//! and counted once.

use crate::evaluator::{Evaluator, Slots};
use crate::marks::{roll_back, set_marks};
use crate::rows::{Flow, RowSlot};
use crate::run::Run;
use crate::targets::{each_target, limited_targets};
use crate::together::may_be_made_together;
use ferrite_base::{ErrorKind, RowId, TableId, UserError, UserResult};
use ferrite_catalog::{Table, ViewOutput};
use ferrite_expr::Expr;
use ferrite_plan::{Delete, Insert, InsertSource, Query, Returning, Update};
use ferrite_value::{Value, compare};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::ops::Range;

/// A row to be stored, or part of one; nothing in it is borrowed from the stores.
type StoredValues<'x> = SmallVec<[Value<'x>; 16]>;

impl<'r, 'x> Run<'r, 'x> {
    pub(crate) fn insert(&mut self, insert: &'x Insert) -> UserResult<u64> {
        let several = match &insert.source {
            InsertSource::Values { more } => !more.is_empty(),
            InsertSource::Query(_) => true,
        };
        if !(insert.upsert && several) {
            return self.insert_in_turn(insert);
        }
        self.in_turn_or_together(insert, |run| run.insert_in_turn(insert), |run| run.rows_given(insert))
    }

    /// An UPSERT of several rows: one after the other, and if one of them meets what another has
    /// yet to change, all that are `given` at once.
    pub(crate) fn in_turn_or_together(
        &mut self,
        upsert: &'x Insert,
        in_turn: impl FnOnce(&mut Self) -> UserResult<u64>,
        given: impl FnOnce(&mut Self) -> UserResult<(Vec<Value<'x>>, usize)>,
    ) -> UserResult<u64> {
        let marks = set_marks(self.stores);
        let returned = self.returned.len();
        match in_turn(self) {
            Err(error) if may_be_made_together(&error) => {
                roll_back(self.stores, marks);
                self.returned.truncate(returned);
                let (rows, count) = given(self)?;
                self.upsert_together(upsert, &rows, count)
            }
            result => result,
        }
    }

    fn insert_in_turn(&mut self, insert: &'x Insert) -> UserResult<u64> {
        match &insert.source {
            InsertSource::Values { more } => {
                self.insert_values(insert, &insert.row)?;
                for row in more {
                    self.tick()?;
                    self.insert_values(insert, row)?;
                }
                Ok(1 + more.len() as u64)
            }
            InsertSource::Query(query) => self.insert_rows_of(insert, query),
        }
    }

    /// All rows of an INSERT, one after the other, and how many they are.
    pub(crate) fn rows_given(&self, insert: &'x Insert) -> UserResult<(Vec<Value<'x>>, usize)> {
        let InsertSource::Values { more } = &insert.source else {
            let InsertSource::Query(query) = &insert.source else { return Ok((Vec::new(), 0)) };
            return self.rows_queried(insert, query);
        };
        let mut values = Vec::new();
        let slots = Slots::new(self.call);
        let evaluator = self.evaluator(&slots);
        for row in std::iter::once(&insert.row).chain(more) {
            evaluator.charge(row.len() * size_of::<Value<'_>>())?;
            for expression in row {
                values.push(self.value_to_store(&evaluator, expression)?);
            }
        }
        Ok((values, 1 + more.len()))
    }

    #[inline]
    fn insert_values(&mut self, insert: &'x Insert, row: &'x [Expr]) -> UserResult<()> {
        let mut values = StoredValues::with_capacity(row.len());
        {
            let slots = Slots::new(self.call);
            let evaluator = self.evaluator(&slots);
            for expression in row {
                values.push(self.value_to_store(&evaluator, expression)?);
            }
        }
        self.insert_row(insert, &values)
    }

    fn rows_queried(&self, insert: &'x Insert, query: &'x Query) -> UserResult<(Vec<Value<'x>>, usize)> {
        let width = insert.row.len();
        let mut values: Vec<Value<'x>> = Vec::new();
        let mut rows = 0;
        let slots = Slots::new(self.call);
        let evaluator = self.evaluator(&slots);
        evaluator.run_query(query, &mut |row| {
            evaluator.bind_computed(insert.slot, row);
            evaluator.charge(width * size_of::<Value<'_>>())?;
            for expression in &insert.row {
                values.push(self.value_to_store(&evaluator, expression)?);
            }
            rows += 1;
            Ok(Flow::More)
        })?;
        Ok((values, rows))
    }

    fn insert_rows_of(&mut self, insert: &'x Insert, query: &'x Query) -> UserResult<u64> {
        let width = insert.row.len();
        let (values, rows) = self.rows_queried(insert, query)?;
        for position in 0..rows {
            self.tick()?;
            self.insert_row(insert, &values[position * width..(position + 1) * width])?;
        }
        Ok(rows as u64)
    }

    /// The expression's value, free of borrows from the stores. What comes from outside them is not
    /// copied.
    #[inline]
    pub(crate) fn value_to_store<'s>(&self, evaluator: &Evaluator<'s>, expression: &'x Expr) -> UserResult<Value<'x>>
    where
        'x: 's,
    {
        Ok(match expression {
            Expr::Constant(value) => value.as_value(),
            Expr::Parameter(index) => self.call.parameters[*index as usize],
            Expr::Register(index) => self.registers[*index as usize],
            _ => {
                let value = evaluator.evaluate(expression)?;
                evaluator.count_work(value.bytes_apart())?;
                value.copied_to(self.call.arena)
            }
        })
    }

    #[inline]
    pub(crate) fn insert_row(&mut self, insert: &'x Insert, row: &[Value<'x>]) -> UserResult<()> {
        let stores = self.stores_of_row(insert.table, row)?;
        let first = stores.start;
        let mut room = Vec::new();
        // UPSERT looks for the key, and RETURNING shows the row, as they are stored.
        let row = match insert.upsert || insert.returning.is_some() {
            true => self.stores[first].table(insert.table).as_kept(None, row, &mut room)?,
            false => row,
        };
        for position in stores {
            let stored = if insert.upsert {
                Some(self.upsert_in(position, insert, row)?)
            } else {
                self.stores[position].insert(insert.table, row)?;
                None
            };
            if let Some(returning) = insert.returning.as_deref()
                && position == first
            {
                let returned = match stored {
                    Some(id) => self.returned(returning, Changed::Stored(position, insert.table, id))?,
                    // Of a stream there is no other row.
                    None => self.returned(returning, Changed::Given(row))?,
                };
                self.returned.push(returned);
            }
        }
        Ok(())
    }

    /// What RETURNING answers for a changed row.
    #[cold]
    fn returned(&self, returning: &'x Returning, changed: Changed<'_, 'x>) -> UserResult<&'x [Value<'x>]> {
        let slots = Slots::new(self.call);
        let evaluator = self.evaluator(&slots);
        let row = match changed {
            Changed::Stored(store, table, id) => RowSlot::Stored(evaluator.stores[store].table(table).row(id)),
            Changed::Given(row) => RowSlot::Computed(self.call.arena.alloc_slice_copy(row)),
        };
        evaluator.bind(returning.slot, row);
        let mut values: SmallVec<[Value<'x>; 8]> = SmallVec::with_capacity(returning.output.len());
        for expression in &returning.output {
            values.push(self.value_to_store(&evaluator, expression)?);
        }
        Ok(self.call.arena.alloc_slice_copy(&values))
    }

    /// The id of the row that it inserted or updated.
    fn upsert_in(&mut self, position: usize, insert: &'x Insert, row: &[Value<'x>]) -> UserResult<RowId> {
        let store = &mut self.stores[position];
        let rows = store.table(insert.table);
        let Some(primary_key) = rows.definition().primary_key_index() else {
            return Err(UserError::compile("42P10", "UPSERT needs a table with a primary key"));
        };
        let mut key_columns: SmallVec<[u16; 4]> = SmallVec::new();
        let mut key: SmallVec<[Value<'x>; 4]> = SmallVec::new();
        for expression in &primary_key.keys {
            let Expr::Column { column, .. } = expression else { unreachable!("primary keys consist of columns") };
            key_columns.push(*column);
            key.push(row[*column as usize]);
        }
        let present = match rows.lookup_one(primary_key.id, &key) {
            Some(found) => found,
            None => rows.lookup(primary_key.id, &key).next(),
        };
        let Some(id) = present else { return store.insert(insert.table, row) };
        let columns: SmallVec<[u16; 16]> =
            insert.assigned.iter().copied().filter(|column| !key_columns.contains(column)).collect();
        if !columns.is_empty() {
            let values: StoredValues<'x> = columns.iter().map(|column| row[*column as usize]).collect();
            store.update(insert.table, id, &columns, &values)?;
        }
        Ok(id)
    }

    /// Positions of the stores where a new row belongs: its owner, or all for a replicated table.
    #[inline]
    pub(crate) fn stores_of_row(&self, table: TableId, row: &[Value<'_>]) -> UserResult<Range<usize>> {
        let definition = self.stores[0].table(table).definition();
        let Some(column) = definition.partition_column else { return Ok(0..self.stores.len()) };
        let key = &row[column as usize];
        for (position, store) in self.stores.iter().enumerate() {
            if store.owns(definition, key)? {
                return Ok(position..position + 1);
            }
        }
        Err(not_owned(definition))
    }

    pub(crate) fn update(&mut self, update: &'x Update) -> UserResult<u64> {
        let with_subquery = update.joined.is_some()
            || !self.call.program.subqueries.is_empty()
                && update.assignments.iter().any(|(_, value)| has_subquery(value));
        let columns: SmallVec<[u16; 16]> = update.assignments.iter().map(|(column, _)| *column).collect();
        let mut targets = std::mem::take(&mut self.scratch.targets);
        targets.clear();
        // New values that depend on other rows are computed before the first row changes; the
        // others when it is their turn.
        let mut computed: Vec<Value<'x>> = Vec::new();
        {
            let slots = Slots::new(self.call);
            let evaluator = self.evaluator(&slots);
            each_target(&evaluator, update.table, update.slot, &update.access, &update.filter, |store, id| {
                evaluator.charge(size_of::<(u32, RowId)>())?;
                if !with_subquery {
                    targets.push((store, id));
                    return Ok(());
                }
                let mut take = || {
                    targets.push((store, id));
                    evaluator.charge(columns.len() * size_of::<Value<'_>>())?;
                    for (_, value) in &update.assignments {
                        computed.push(self.value_to_store(&evaluator, value)?);
                    }
                    Ok(Flow::Enough)
                };
                match &update.joined {
                    None => take()?,
                    Some(joined) => evaluator.joined_rows(joined, &mut take)?,
                };
                Ok(())
            })?;
        }
        // One row's keys can only meet those of rows that stay as they are.
        let marks = (targets.len() > 1).then(|| (set_marks(self.stores), self.returned.len()));
        match (self.update_in_turn(update, &columns, &targets, &computed), marks) {
            (Err(error), Some((marks, returned))) if may_be_made_together(&error) => {
                roll_back(self.stores, marks);
                self.returned.truncate(returned);
                self.update_together(update, &columns, &targets, &computed)?;
            }
            (result, _) => result?,
        }
        let modified = self.count_once(update.table, &targets);
        self.scratch.keep(targets);
        Ok(modified)
    }

    #[inline]
    fn update_in_turn(
        &mut self,
        update: &'x Update,
        columns: &[u16],
        targets: &[(u32, RowId)],
        computed: &[Value<'x>],
    ) -> UserResult<()> {
        let mut values = StoredValues::new();
        for (number, (store, id)) in targets.iter().enumerate() {
            self.tick()?;
            values.clear();
            if !computed.is_empty() {
                values.extend_from_slice(&computed[number * columns.len()..(number + 1) * columns.len()]);
            } else {
                let slots = Slots::new(self.call);
                let evaluator = self.evaluator(&slots);
                let row = evaluator.stores[*store as usize].table(update.table).row(*id);
                evaluator.bind(update.slot, RowSlot::Stored(row));
                for (_, value) in &update.assignments {
                    values.push(self.value_to_store(&evaluator, value)?);
                }
            }
            self.refuse_moving(update.table, *store, *id, columns, &values)?;
            self.stores[*store as usize].update(update.table, *id, columns, &values)?;
            self.return_stored(update.returning.as_deref(), update.table, *store, *id)?;
        }
        Ok(())
    }

    /// What RETURNING answers for a stored row, if it is one that the user sees.
    #[inline]
    pub(crate) fn return_stored(
        &mut self,
        returning: Option<&'x Returning>,
        table: TableId,
        store: u32,
        id: RowId,
    ) -> UserResult<()> {
        if returning.is_some() && self.counts(table, store) {
            self.return_stored_from(returning, table, store as usize, id)?;
        }
        Ok(())
    }

    /// The same for this store's copy.
    pub(crate) fn return_stored_from(
        &mut self,
        returning: Option<&'x Returning>,
        table: TableId,
        store: usize,
        id: RowId,
    ) -> UserResult<()> {
        if let Some(returning) = returning {
            let returned = self.returned(returning, Changed::Stored(store, table, id))?;
            self.returned.push(returned);
        }
        Ok(())
    }

    /// A row stays in its partition: the partitioning column keeps its value.
    #[inline]
    pub(crate) fn refuse_moving(
        &self,
        table: TableId,
        store: u32,
        id: RowId,
        columns: &[u16],
        values: &[Value<'_>],
    ) -> UserResult<()> {
        let rows = self.stores[store as usize].table(table);
        let Some(partition_column) = rows.definition().partition_column else { return Ok(()) };
        let Some(place) = columns.iter().position(|column| *column == partition_column) else { return Ok(()) };
        if compare::equal_grouping(&rows.row(id).column(partition_column), &values[place]) {
            return Ok(());
        }
        Err(moves_row(rows.definition(), partition_column))
    }

    pub(crate) fn delete(&mut self, delete: &'x Delete) -> UserResult<u64> {
        let mut targets = std::mem::take(&mut self.scratch.targets);
        targets.clear();
        {
            let slots = Slots::new(self.call);
            let evaluator = self.evaluator(&slots);
            if delete.limit.is_none() && delete.offset.is_none() {
                each_target(&evaluator, delete.table, delete.slot, &delete.access, &delete.filter, |store, id| {
                    evaluator.charge(size_of::<(u32, RowId)>())?;
                    let mut take = || {
                        targets.push((store, id));
                        Ok(Flow::Enough)
                    };
                    match &delete.joined {
                        None => take()?,
                        Some(joined) => evaluator.joined_rows(joined, &mut take)?,
                    };
                    Ok(())
                })?;
            } else {
                limited_targets(&evaluator, delete, &mut targets)?;
            }
        }
        if delete.migrate && !targets.is_empty() {
            return Err(cannot_migrate(self.stores[0].table(delete.table).definition()));
        }
        let groups = self.whole_groups(delete.table, &targets)?;
        for (store, id) in &targets {
            self.tick()?;
            if let Some(returning) = delete.returning.as_deref()
                && self.counts(delete.table, *store)
            {
                let returned = self.returned(returning, Changed::Stored(*store as usize, delete.table, *id))?;
                self.returned.push(returned);
            }
            self.stores[*store as usize].delete(delete.table, *id)?;
        }
        let modified = groups.unwrap_or_else(|| self.count_once(delete.table, &targets));
        self.scratch.keep(targets);
        Ok(modified)
    }

    /// Rows of a view of which each partition has a part, as the user sees them.
    fn whole_groups(&self, table: TableId, targets: &[(u32, RowId)]) -> UserResult<Option<u64>> {
        let definition = self.stores[0].table(table).definition();
        if !definition.partitioned_without_column {
            return Ok(None);
        }
        let view = definition.view.as_ref().ok_or_else(|| UserError::internal("parts are of views"))?;
        let of_group = |column: &usize| matches!(view.outputs[*column], ViewOutput::Group(_));
        let columns: Vec<usize> = (0..view.outputs.len()).filter(of_group).collect();
        let mut groups = BTreeSet::new();
        for (store, id) in targets {
            let row = self.stores[*store as usize].table(table).row(*id);
            groups.insert(columns.iter().map(|column| format!("{:?}", row.column(*column as u16))).collect::<Vec<_>>());
        }
        Ok(Some(groups.len() as u64))
    }

    pub(crate) fn truncate(&mut self, table: TableId) -> UserResult<u64> {
        let partitioned = self.stores[0].table(table).definition().is_partitioned();
        let mut rows = 0;
        for (position, store) in self.stores.iter_mut().enumerate() {
            let removed = store.truncate(table)?;
            if partitioned || position == 0 {
                rows += removed;
            }
        }
        Ok(rows)
    }

    /// Rows changed as the user sees them: the copies of a replicated row are one.
    fn count_once(&self, table: TableId, targets: &[(u32, RowId)]) -> u64 {
        if self.stores.len() == 1 || self.stores[0].table(table).definition().is_partitioned() {
            targets.len() as u64
        } else {
            targets.iter().filter(|(store, _)| *store == 0).count() as u64
        }
    }

    /// Whether a row of this store is one that the user sees, and no further copy.
    fn counts(&self, table: TableId, store: u32) -> bool {
        store == 0 || self.stores[0].table(table).definition().is_partitioned()
    }
}

/// A row that RETURNING is about.
enum Changed<'r, 'x> {
    /// Store, table and row.
    Stored(usize, TableId, RowId),
    /// As it was given.
    Given(&'r [Value<'x>]),
}

fn has_subquery(expression: &Expr) -> bool {
    expression.any(&mut |part| matches!(part, Expr::Subquery { .. }))
}

#[cold]
fn cannot_migrate(table: &Table) -> UserError {
    let to = table.export.as_ref().map(|export| export.to.as_str()).unwrap_or_default();
    UserError::constraint("0A000", format!("rows of table {} cannot migrate: nothing takes them to {to}", table.name))
        .with_hint("this server has no connectors to export targets; DELETE removes rows, and NOT MIGRATING holds for all of them")
}

#[cold]
fn not_owned(table: &Table) -> UserError {
    let error = UserError::new(
        ErrorKind::Mispartitioned,
        "FE002",
        format!("the row for table {} belongs to another partition", table.name),
    );
    error.with_hint("call the procedure with the row's partitioning value as its partitioning parameter")
}

#[cold]
fn moves_row(table: &Table, column: u16) -> UserError {
    let name = &table.columns[column as usize].name;
    let message = format!("UPDATE may not change {name}, the partitioning column of table {}", table.name);
    UserError::constraint("0A000", message).with_hint("delete the row and insert it with the new value")
}
