//! Views that are computed when they are read: names, and what stands in the way of what they read.
//! Whether a view's query fits the schema is for whoever knows SQL.

use super::rename::refuse_rename;
use super::{Draft, already_exists, check, depended_on, invalid};
use crate::objects::{PlainView, TableKind};
use ferrite_base::limits::TABLE_COLUMNS_MAX;
use ferrite_base::{UserError, UserResult};
use std::sync::Arc;

impl Draft {
    pub(super) fn create_plain_view(&mut self, view: &PlainView) -> UserResult<()> {
        check::identifier(&view.name)?;
        self.check_room_for_table()?;
        if self.catalog.is_taken(&view.name) {
            return Err(already_exists(&view.name));
        }
        if view.columns.len() > TABLE_COLUMNS_MAX {
            return Err(UserError::limit(format!("view {} has more than {TABLE_COLUMNS_MAX} columns", view.name)));
        }
        for (position, column) in view.columns.iter().enumerate() {
            check::identifier(column)?;
            if view.columns[..position].contains(column) {
                return Err(already_exists(column));
            }
        }
        self.catalog.plain_views.insert(view.name.clone(), Arc::new(view.clone()));
        Ok(())
    }

    pub(super) fn drop_plain_view(&mut self, name: &str, cascade: bool, kind: TableKind) -> UserResult<()> {
        if kind != TableKind::View {
            return Err(invalid(format!("{name} is a view")).with_hint("use DROP VIEW"));
        }
        let readers: Vec<String> = self.readers_of(&[name]).iter().map(|view| format!("view {}", view.name)).collect();
        if !cascade && !readers.is_empty() {
            return Err(depended_on(format!("dependent objects exist: {}", readers.join(", ")))
                .with_hint("drop them first, or add CASCADE to drop them too"));
        }
        self.remove_readers_of(&[name]);
        self.catalog.plain_views.remove(name);
        Ok(())
    }

    pub(super) fn rename_plain_view(&mut self, name: &str, to: &str) -> UserResult<()> {
        if self.catalog.is_taken(to) {
            return Err(already_exists(to));
        }
        let readers: Vec<String> = self.readers_of(&[name]).iter().map(|view| format!("view {}", view.name)).collect();
        refuse_rename(name, &readers)?;
        if let Some(view) = self.catalog.plain_views.remove(name) {
            let view = PlainView { name: to.to_owned(), ..PlainView::clone(&view) };
            self.catalog.plain_views.insert(to.to_owned(), Arc::new(view));
        }
        Ok(())
    }

    /// The plain views that read one of these tables and views, also through others.
    pub(super) fn readers_of(&self, names: &[impl AsRef<str>]) -> Vec<&Arc<PlainView>> {
        let reads = |view: &&Arc<PlainView>| names.iter().any(|name| view.reads.contains(name.as_ref()));
        self.catalog.plain_views.values().filter(reads).collect()
    }

    pub(super) fn remove_readers_of(&mut self, names: &[impl AsRef<str>]) {
        self.catalog.plain_views.retain(|_, view| !names.iter().any(|name| view.reads.contains(name.as_ref())));
    }
}
