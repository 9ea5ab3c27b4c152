//! Changes made again, from redo: by recovery and by copies. Nothing of it is trusted.

use super::Store;
use crate::pages::PlaceError;
use crate::redo::{self, Reader, RedoError};
use crate::table::InsertError;
use crate::tags::Known;
use crate::upcoming::{Read, Upcoming};
use ferrite_base::{RowId, TableId};
use ferrite_catalog::TableKind;
use ferrite_value::Value;

impl Store {
    /// Makes the changes of one transaction again and commits them. On an error none is made. Must
    /// not be called within a transaction.
    pub fn apply_redo(&mut self, bytes: &[u8]) -> Result<(), RedoError> {
        self.replay(|store| store.apply_changes(bytes))
    }

    /// The same of the transaction of that number of those that were read ahead here.
    pub fn apply_upcoming(&mut self, upcoming: &Upcoming<'_>, number: usize) -> Result<(), RedoError> {
        self.replay(|store| {
            for (table, row, read) in upcoming.changes(number) {
                store.replayed += 1;
                match read {
                    Read::Insert { values, tags } => store.insert_again(table, values, row, tags)?,
                    Read::Update { columns, values } => store.update_again(table, row, columns, values)?,
                    Read::Delete => store.delete_again(table, row)?,
                }
            }
            store.apply_changes(upcoming.rest(number))
        })
    }

    /// Row changes that replay has made since the store was made.
    pub fn replayed(&self) -> u64 {
        self.replayed
    }

    #[inline]
    fn replay(&mut self, changes: impl FnOnce(&mut Store) -> Result<(), RedoError>) -> Result<(), RedoError> {
        assert!(self.undo.is_empty(), "replay is a transaction of its own");
        let mark = self.mark();
        self.undo.set_limited(false);
        let result = changes(self);
        self.undo.set_limited(true);
        match result {
            Ok(()) => self.commit(),
            Err(_) => self.rollback_to(mark),
        }
        result
    }

    fn apply_changes(&mut self, bytes: &[u8]) -> Result<(), RedoError> {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            self.replayed += 1;
            let kind = reader.byte()?;
            if !(redo::INSERT..=redo::DELETE_GROUP).contains(&kind) {
                return Err(RedoError::UnknownKind(kind));
            }
            let number = reader.varint()?;
            let table = TableId(number);
            let data = self.find_table(table).ok_or(RedoError::UnknownTable(number))?;
            if matches!(kind, redo::UPDATE_GROUP | redo::DELETE_GROUP) {
                self.apply_group(&mut reader, table, kind)?;
                continue;
            }
            if data.definition().kind == TableKind::View {
                return Err(RedoError::NotABaseTable(table));
            }
            if kind == redo::TRUNCATE {
                self.truncate_all(table).map_err(RedoError::refused(table))?;
                continue;
            }
            let row = RowId(reader.varint()?);
            match kind {
                redo::INSERT => self.apply_insert(&mut reader, table, row)?,
                redo::UPDATE => {
                    let set = reader.columns(table, data.layout())?;
                    self.update_again(table, row, set.columns(), set.values())?;
                }
                redo::MOVE => self.apply_move(&mut reader, table, row)?,
                _ => self.delete_again(table, row)?,
            }
        }
        Ok(())
    }

    fn apply_group(&mut self, reader: &mut Reader<'_>, table: TableId, kind: u8) -> Result<(), RedoError> {
        let data = self.table(table);
        let plan = self.plans[table.index()].as_deref().filter(|plan| self.table(plan.tables[0]).is_stream());
        let Some(plan) = plan else { return Err(RedoError::NotABaseTable(table)) };
        let groups = reader.columns(table, data.layout())?;
        let columns = groups.columns();
        let values = groups.values();
        if columns != plan.group_columns_of_view() {
            return Err(RedoError::GroupMissing(table));
        }
        let value = |column: u16| values[columns.iter().position(|other| *other == column).expect("compared above")];
        let row =
            plan.find_group(data, |part| value(plan.groups[part].column)).ok_or(RedoError::GroupMissing(table))?;
        if kind == redo::DELETE_GROUP {
            return self.delete_at(table, row).map_err(RedoError::refused(table));
        }
        let set = reader.columns(table, data.layout())?;
        self.update_at(table, row, set.columns(), set.values()).map_err(RedoError::refused(table))?;
        Ok(())
    }

    fn apply_insert(&mut self, reader: &mut Reader<'_>, table: TableId, row: RowId) -> Result<(), RedoError> {
        let layout = self.table(table).layout();
        let mut few = [Value::Null; 16];
        let mut many = Vec::new();
        let values = if layout.columns.len() <= few.len() {
            &mut few[..layout.columns.len()]
        } else {
            many.resize(layout.columns.len(), Value::Null);
            &mut many[..]
        };
        reader.row(table, layout, values)?;
        self.insert_again(table, values, row, Known::default())
    }

    #[inline]
    fn insert_again(
        &mut self,
        table: TableId,
        values: &[Value<'_>],
        row: RowId,
        tags: Known<'_>,
    ) -> Result<(), RedoError> {
        match self.insert_at(table, values, Some(row), tags) {
            Ok(_) => Ok(()),
            Err(InsertError::User(error)) => Err(RedoError::Refused { table, error }),
            Err(InsertError::Place(PlaceError::Taken)) => Err(RedoError::RowTaken { table, row }),
            Err(InsertError::Place(PlaceError::Beyond)) => Err(RedoError::RowBeyond { table, row }),
        }
    }

    fn apply_move(&mut self, reader: &mut Reader<'_>, table: TableId, row: RowId) -> Result<(), RedoError> {
        let to = RowId(reader.varint()?);
        self.arena.reset();
        let Some(Some(data)) = self.tables.get_mut(table.index()) else { panic!("no table {table}") };
        if !data.is_live(row) {
            return Err(RedoError::RowMissing { table, row });
        }
        data.move_row(row, to, &self.arena, &mut self.undo).map_err(|error| match error {
            PlaceError::Taken => RedoError::RowTaken { table, row: to },
            PlaceError::Beyond => RedoError::RowBeyond { table, row: to },
        })
    }

    fn update_again(
        &mut self,
        table: TableId,
        row: RowId,
        columns: &[u16],
        values: &[Value<'_>],
    ) -> Result<(), RedoError> {
        if !self.table(table).is_live(row) {
            return Err(RedoError::RowMissing { table, row });
        }
        self.update_at(table, row, columns, values).map_err(RedoError::refused(table))?;
        Ok(())
    }

    fn delete_again(&mut self, table: TableId, row: RowId) -> Result<(), RedoError> {
        if !self.table(table).is_live(row) {
            return Err(RedoError::RowMissing { table, row });
        }
        self.delete_at(table, row).map_err(RedoError::refused(table))
    }
}
