//! Which schema changes a database of several groups can make (docs/decisions/0123): those to which
//! no group can have an objection of its own.
//!
//! The first group makes a change, and the others follow. Rows of a partitioned table may be in the
//! others, and may forbid what the first one has done. All rows of a replicated table are in the
//! first group, too: where it has none, none has any.

use crate::schema::Planned;
use ferrite_base::{TableId, UserError, UserResult};
use ferrite_catalog::{Catalog, Effect, Index, Table, TableKind};
use std::sync::Arc;

/// `is_empty`: whether the first group has no rows of a table.
pub fn check_for_all(before: &Catalog, planned: &Planned, is_empty: impl Fn(TableId) -> bool) -> UserResult<()> {
    let is_free = |id: &TableId| match table(before, *id) {
        None => true,
        Some(table) => !table.is_partitioned() && is_empty(*id),
    };
    let needed = planned.effects.iter().flat_map(|effect| needs(&planned.catalog, effect));
    match needed.chain(planned.swapped.iter().copied()).all(|id| is_free(&id)) {
        true => Ok(()),
        false => Err(depends_on_rows()),
    }
}

fn table(catalog: &Catalog, id: TableId) -> Option<&Arc<Table>> {
    catalog.tables.values().find(|table| table.id == id)
}

/// The tables on whose rows it depends whether the effect is possible, and what it does.
fn needs(after: &Catalog, effect: &Effect) -> Vec<TableId> {
    match effect {
        Effect::CreateTable(id) => {
            let view =
                table(after, *id).filter(|table| table.kind == TableKind::View).and_then(|table| table.view.as_ref());
            view.map_or_else(Vec::new, |view| view.joins.iter().map(|(id, _)| *id).chain([view.source]).collect())
        }
        Effect::CreateIndex(id, index) => {
            let index = table(after, *id).and_then(|table| table.index(*index));
            if index.is_some_and(is_plain) { Vec::new() } else { vec![*id] }
        }
        Effect::Fill(id, from) => vec![*id, *from],
        Effect::Repartition(id) | Effect::Refill(id) | Effect::Validate(id) => vec![*id],
        Effect::Rebuild(rebuild) => vec![rebuild.table],
        Effect::DropTable(_) | Effect::DropIndex(..) | Effect::Refresh(_) => Vec::new(),
    }
}

/// An index of columns, which rows of any values can have.
fn is_plain(index: &Index) -> bool {
    !index.unique && index.predicate.is_none() && index.text.keys.is_empty()
}

#[cold]
fn depends_on_rows() -> UserError {
    let text = "in a cluster with several groups of partitions, a change cannot depend on the rows of a table";
    UserError::ddl("0A000", text).with_hint(
        "possible are tables, procedures, tasks and plain indexes, and other changes of replicated tables without rows; for \
         all else create a new table",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;
    use ferrite_base::SqlLimits;

    const BEFORE: &str =
        "CREATE TABLE t (a INTEGER NOT NULL, v INTEGER); PARTITION TABLE t ON COLUMN a; CREATE INDEX i ON t (v);
        CREATE TABLE s (a INTEGER NOT NULL, v INTEGER); CREATE PROCEDURE p AS SELECT v FROM s WHERE a = ?;";

    fn is_for_all(text: &str, is_empty: bool) -> bool {
        let plan = |catalog: &Catalog, text: &str| match schema::plan_within(catalog, text, &SqlLimits::CEILING) {
            Ok(planned) => planned,
            Err(error) => panic!("{text}: {error}"),
        };
        let before = plan(&Catalog::default(), BEFORE).catalog;
        check_for_all(&before, &plan(&before, text), |_| is_empty).is_ok()
    }

    #[test]
    fn what_depends_on_no_row_is_for_all_groups() {
        for text in [
            "CREATE TABLE n (a INTEGER NOT NULL, PRIMARY KEY (a)); PARTITION TABLE n ON COLUMN a",
            "CREATE TABLE n (a INTEGER NOT NULL, v INTEGER); CREATE UNIQUE INDEX u ON n (a); CREATE INDEX x ON n (a + v)",
            "CREATE TABLE n (a INTEGER); CREATE VIEW w (a, c) AS SELECT a, COUNT(*) FROM n GROUP BY a",
            "CREATE INDEX j ON t (v, a)",
            "DROP INDEX i",
            "DROP TABLE t",
            "CREATE PROCEDURE q AS SELECT a FROM t WHERE v = ?",
            "DROP PROCEDURE p",
        ] {
            assert!(is_for_all(text, false), "{text}");
        }
    }

    #[test]
    fn rows_of_a_replicated_table_are_known_and_others_may_be_anywhere() {
        for text in [
            "PARTITION TABLE s ON COLUMN a",
            "CREATE UNIQUE INDEX u ON s (v)",
            "CREATE TABLE n (a INTEGER); ALTER TABLE s ADD COLUMN c INTEGER DEFAULT 1",
            "CREATE VIEW w (a, c) AS SELECT a, COUNT(*) FROM s GROUP BY a",
        ] {
            assert_eq!((is_for_all(text, true), is_for_all(text, false)), (true, false), "{text}");
        }
        for text in [
            "CREATE UNIQUE INDEX u ON t (a, v)",
            "CREATE INDEX j ON t (a / v)",
            "CREATE INDEX j ON t (a) WHERE v > 1",
            "ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 1",
            "CREATE VIEW w (a, c) AS SELECT a, COUNT(*) FROM t GROUP BY a",
        ] {
            assert!(!is_for_all(text, true), "{text}");
        }
    }
}
