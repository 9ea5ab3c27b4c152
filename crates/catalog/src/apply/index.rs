//! Indexes: names, keys, creation and removal.

use super::{Draft, already_exists, check, depended_on, invalid};
use crate::change::{Effect, NewIndex};
use crate::objects::{Index, Table, TableKind};
use ferrite_base::limits::{INDEX_KEYS_MAX, TABLE_INDEXES_MAX};
use ferrite_base::{UserError, UserResult};
use ferrite_expr::Expr;

impl Draft {
    pub(super) fn create_index(&mut self, table: &str, new: &NewIndex) -> UserResult<()> {
        let mut table = Table::clone(self.table_named(table)?);
        match table.kind {
            TableKind::Stream => {
                return Err(invalid(format!("the stream {} keeps no rows and cannot have an index", table.name)));
            }
            TableKind::View if new.unique => {
                return Err(invalid(format!("an index on the view {} cannot be unique", table.name)));
            }
            TableKind::View | TableKind::Table => {}
        }
        let index = self.build_index(&table, new, false)?;
        let effect = Effect::CreateIndex(table.id, index.id);
        table.indexes.push(index);
        check::unique_keys(&table)?;
        self.catalog.put_table(table);
        self.effects.push(effect);
        Ok(())
    }

    pub(super) fn drop_index(&mut self, name: &str, if_exists: bool) -> UserResult<()> {
        let Some((table, index)) = self.catalog.index_named(name) else {
            return if if_exists { Ok(()) } else { Err(UserError::ddl_not_found(name)) };
        };
        if let Some(constraint) = &index.constraint {
            return Err(depended_on(format!(
                "the index {name} belongs to the constraint {constraint} of {}",
                table.name
            )));
        }
        let id = index.id;
        let mut table = Table::clone(table);
        table.indexes.retain(|index| index.id != id);
        self.effects.push(Effect::DropIndex(table.id, id));
        self.catalog.put_table(table);
        Ok(())
    }

    /// The index object for `new`, which is not yet in `table`. Names that the statement leaves out
    /// are made up as the original does, since tools show them.
    pub(super) fn build_index(&mut self, table: &Table, new: &NewIndex, primary_key: bool) -> UserResult<Index> {
        let (name, constraint) = match (&new.name, &new.constraint) {
            (Some(name), constraint) => (name.clone(), constraint.clone()),
            (None, Some(constraint)) => {
                (format!("VOLTDB_AUTOGEN_CONSTRAINT_IDX_{constraint}"), Some(constraint.clone()))
            }
            (None, None) => {
                let subject = self.free_subject(&default_subject(table, new, primary_key), table);
                (format!("VOLTDB_AUTOGEN_IDX_{subject}"), Some(format!("VOLTDB_AUTOGEN_CT__{subject}")))
            }
        };
        check::identifier(&name)?;
        if self.is_index_name_taken(&name, table) {
            return Err(already_exists(&name));
        }
        if constraint.as_ref().is_some_and(|constraint| self.is_constraint_name_taken(constraint, table)) {
            return Err(already_exists(constraint.as_ref().expect("just looked at")));
        }
        if table.indexes.len() >= TABLE_INDEXES_MAX {
            return Err(UserError::limit(format!(
                "{} has {TABLE_INDEXES_MAX} indexes, those of its constraints included, and may not have more",
                table.name
            )));
        }
        if new.keys.is_empty() || new.keys.len() > INDEX_KEYS_MAX {
            return Err(UserError::limit(format!("the index {name} must have from 1 to {INDEX_KEYS_MAX} keys")));
        }
        for key in &new.keys {
            check::row_expression(&format!("a key of the index {name}"), key, &[table])?;
        }
        if let Some(predicate) = &new.predicate {
            check::row_expression(&format!("the condition of the index {name}"), predicate, &[table])?;
        }
        Ok(Index {
            id: self.new_index_id(),
            name,
            keys: new.keys.iter().map(|key| check::kept(self.catalog.values, key, &[table])).collect(),
            unique: new.unique,
            assume_unique: new.assume_unique,
            kind: new.kind,
            predicate: new.predicate.as_ref().map(|predicate| check::kept(self.catalog.values, predicate, &[table])),
            constraint,
            text: new.text.clone(),
        })
    }

    fn is_index_name_taken(&self, name: &str, table: &Table) -> bool {
        // That of a view's groups has no name to speak of: the original's own tests give it to
        // another index of the same view.
        let of_table = table.indexes.iter().any(|index| index.name == name && !index.is_view_key());
        of_table || self.catalog.index_named(name).is_some()
    }

    fn is_constraint_name_taken(&self, name: &str, table: &Table) -> bool {
        let has = |table: &Table| {
            table.indexes.iter().any(|index| !index.is_view_key() && index.constraint.as_deref() == Some(name))
        };
        has(table) || self.catalog.tables.values().any(|table| has(table))
    }

    /// `subject`, with a number behind it where two unnamed constraints are on the same columns.
    fn free_subject(&self, subject: &str, table: &Table) -> String {
        let numbered = (2..).map(|number| format!("{subject}_{number}"));
        std::iter::once(subject.to_owned())
            .chain(numbered)
            .find(|subject| {
                !self.is_index_name_taken(&format!("VOLTDB_AUTOGEN_IDX_{subject}"), table)
                    && !self.is_constraint_name_taken(&format!("VOLTDB_AUTOGEN_CT__{subject}"), table)
            })
            .expect("the numbers do not end")
    }
}

/// `PK_CUSTOMERS_ID`, `CT_CUSTOMERS_NAME_NUM`.
fn default_subject(table: &Table, new: &NewIndex, primary_key: bool) -> String {
    let mut subject = format!("{}_{}", if primary_key { "PK" } else { "CT" }, table.name);
    for key in &new.keys {
        subject.push('_');
        match key {
            Expr::Column { column, .. } if (*column as usize) < table.columns.len() => {
                subject.push_str(&table.columns[*column as usize].name);
            }
            _ => subject.push_str("EXPRESSION"),
        }
    }
    // Long lists of long names are cut: the name must fit with its prefix, and a number behind it
    // keeps it apart.
    let end = subject.floor_char_boundary(200);
    subject.truncate(end);
    subject
}
