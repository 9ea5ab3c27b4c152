//! UPDATE and UPSERT of several rows whose keys change places among themselves:
//! `UPDATE t SET k = k + 1`.
//!
//! Constraints hold at the end of a statement. Row by row, a key may meet one that its own row has
//! yet to leave, so a statement that is refused for a duplicate is undone and made again in two
//! steps: all its rows are taken out, then put in as they will be. What is refused then is refused
//! for good. Other statements pay nothing for it.

use crate::evaluator::Slots;
use crate::rows::RowSlot;
use crate::run::Run;
use ferrite_base::{RowId, TableId, UserError, UserResult};
use ferrite_plan::{Insert, Update};
use ferrite_table::UNIQUE_VIOLATION;
use ferrite_value::{Value, compare};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Whether making the statement in two steps may help.
pub(crate) fn may_be_made_together(error: &UserError) -> bool {
    error.code() == UNIQUE_VIOLATION
}

/// The key of a row in the store at a position, ordered as the index orders it.
struct StoredKey<'x> {
    store: usize,
    values: SmallVec<[Value<'x>; 4]>,
}

impl Ord for StoredKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let values = || self.values.iter().zip(&other.values).map(|(one, other)| compare::order(one, other));
        self.store.cmp(&other.store).then_with(|| values().find(|order| order.is_ne()).unwrap_or(Ordering::Equal))
    }
}

impl PartialOrd for StoredKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for StoredKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for StoredKey<'_> {}

impl<'x> Run<'_, 'x> {
    /// The rows of `targets` updated; `computed` are their new values where these were computed
    /// before.
    #[cold]
    pub(crate) fn update_together(
        &mut self,
        update: &'x Update,
        columns: &[u16],
        targets: &[(u32, RowId)],
        computed: &[Value<'x>],
    ) -> UserResult<()> {
        let width = self.stores[0].table(update.table).definition().columns.len();
        let mut rows: Vec<Value<'x>> = Vec::new();
        let mut values: Vec<Value<'x>> = Vec::with_capacity(columns.len());
        for (number, (store, id)) in targets.iter().enumerate() {
            self.tick()?;
            values.clear();
            match computed.get(number * columns.len()..(number + 1) * columns.len()) {
                Some(computed) => values.extend_from_slice(computed),
                None => {
                    let slots = Slots::new(self.call);
                    let evaluator = self.evaluator(&slots);
                    let row = evaluator.stores[*store as usize].table(update.table).row(*id);
                    evaluator.bind(update.slot, RowSlot::Stored(row));
                    for (_, value) in &update.assignments {
                        values.push(self.value_to_store(&evaluator, value)?);
                    }
                }
            }
            self.refuse_moving(update.table, *store, *id, columns, &values)?;
            let first = rows.len();
            self.copy_row(*store as usize, update.table, *id, width, &mut rows)?;
            for (column, value) in columns.iter().zip(&values) {
                rows[first + usize::from(*column)] = *value;
            }
        }
        for (store, id) in targets {
            self.tick()?;
            self.stores[*store as usize].delete(update.table, *id)?;
        }
        for ((store, _), row) in targets.iter().zip(rows.chunks_exact(width)) {
            self.tick()?;
            let id = self.stores[*store as usize].insert(update.table, row)?;
            self.return_stored(update.returning.as_deref(), update.table, *store, id)?;
        }
        Ok(())
    }

    /// The `count` rows `given` of an UPSERT, of which later ones change what earlier ones with the
    /// same key have left.
    #[cold]
    pub(crate) fn upsert_together(&mut self, upsert: &'x Insert, given: &[Value<'x>], count: usize) -> UserResult<u64> {
        let width = upsert.row.len();
        let definition = self.stores[0].table(upsert.table).definition().clone();
        let Some(primary_key) = definition.primary_key_index() else {
            return Err(UserError::internal("an UPSERT without a primary key was compiled"));
        };
        let key_columns = primary_key.key_columns().unwrap_or_default();
        let assigned: Vec<usize> = upsert
            .assigned
            .iter()
            .filter(|column| !key_columns.contains(column))
            .map(|column| usize::from(*column))
            .collect();
        let mut places: BTreeMap<StoredKey<'x>, usize> = BTreeMap::new();
        // The rows as they will be, and where.
        let mut rows: Vec<Value<'x>> = Vec::new();
        let mut stores: Vec<usize> = Vec::new();
        // For RETURNING: the place of each given row.
        let mut of_given: Vec<usize> = Vec::with_capacity(count);
        for row in given.chunks_exact(width) {
            self.tick()?;
            let owners = self.stores_of_row(upsert.table, row)?;
            let first = owners.start;
            for store in owners {
                let values = key_columns.iter().map(|column| row[usize::from(*column)]).collect();
                let key = StoredKey { store, values };
                let place = match places.get(&key) {
                    Some(place) => *place,
                    None => {
                        let place = stores.len();
                        let present = self.stores[store].table(upsert.table).lookup(primary_key.id, &key.values).next();
                        match present {
                            None => rows.extend_from_slice(row),
                            Some(id) => {
                                self.copy_row(store, upsert.table, id, width, &mut rows)?;
                                self.stores[store].delete(upsert.table, id)?;
                            }
                        }
                        stores.push(store);
                        places.insert(key, place);
                        place
                    }
                };
                for column in &assigned {
                    rows[place * width + column] = row[*column];
                }
                if store == first {
                    of_given.push(place);
                }
            }
        }
        let mut ids = Vec::with_capacity(stores.len());
        for (store, row) in stores.iter().zip(rows.chunks_exact(width)) {
            self.tick()?;
            ids.push(self.stores[*store].insert(upsert.table, row)?);
        }
        if upsert.returning.is_some() {
            for place in of_given {
                self.return_stored_from(upsert.returning.as_deref(), upsert.table, stores[place], ids[place])?;
            }
        }
        Ok(count as u64)
    }

    /// Appends a copy of the row.
    fn copy_row(
        &self,
        store: usize,
        table: TableId,
        id: RowId,
        width: usize,
        rows: &mut Vec<Value<'x>>,
    ) -> UserResult<()> {
        let slots = Slots::new(self.call);
        let evaluator = self.evaluator(&slots);
        evaluator.charge(width * size_of::<Value<'_>>())?;
        let row = evaluator.stores[store].table(table).row(id);
        for column in 0..width {
            let value = row.column(column as u16);
            evaluator.count_work(value.bytes_apart())?;
            rows.push(value.copied_to(self.call.arena));
        }
        Ok(())
    }
}
