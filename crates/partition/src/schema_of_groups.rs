//! Which schema changes a database of several groups cannot make: those by which rows would be of
//! other groups.
//!
//! Whatever else depends on rows depends on those of one partition at a time, since an index is
//! unique within a partition: every group makes such a change on its own rows, or says why it
//! cannot, and then none makes it (docs/decisions/0127).

use crate::schema::Planned;
use ferrite_base::{TableId, UserError, UserResult};
use ferrite_catalog::{Catalog, Effect, RebuiltColumn, Table};
use std::sync::Arc;

/// `is_empty`: whether the group has no rows of a table.
pub fn check_rows_stay(before: &Catalog, planned: &Planned, is_empty: impl Fn(TableId) -> bool) -> UserResult<()> {
    let moving = planned.effects.iter().filter_map(|effect| moves(before, &planned.catalog, effect));
    match moving.into_iter().find(|table| !is_empty(table.id)) {
        None => Ok(()),
        Some(table) => Err(rows_move(table)),
    }
}

/// The table whose rows have other places after the effect. Those of a replicated table are
/// everywhere, and each partition keeps its own.
fn moves<'b>(before: &'b Catalog, after: &Catalog, effect: &Effect) -> Option<&'b Arc<Table>> {
    let (id, columns) = match effect {
        Effect::Repartition(id) => (*id, None),
        Effect::Rebuild(rebuild) => (rebuild.table, Some(&rebuild.columns)),
        _ => return None,
    };
    let table = before.table(id).filter(|table| table.is_partitioned())?;
    let source = |column: u16| match columns {
        None => RebuiltColumn::same(column),
        Some(columns) => columns[usize::from(column)].clone(),
    };
    let stays = table.partition_column.map(RebuiltColumn::same) == after.table(id)?.partition_column.map(source);
    (!stays).then_some(table)
}

#[cold]
fn rows_move(table: &Table) -> UserError {
    let name = &table.name;
    let text = format!("rows of table {name} would move between groups of partitions, which is not supported");
    UserError::ddl("0A000", text)
        .with_hint("make the change while the table has no rows, or create a new table and insert the rows there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;
    use ferrite_base::SqlLimits;

    const BEFORE: &str =
        "CREATE TABLE t (a INTEGER NOT NULL, v INTEGER NOT NULL); PARTITION TABLE t ON COLUMN a; CREATE INDEX i ON t (v);
        CREATE TABLE s (a INTEGER NOT NULL, v INTEGER); CREATE PROCEDURE p AS SELECT v FROM s WHERE a = ?;";

    /// What the change fails on, with these rows.
    fn moving(text: &str, is_empty: bool) -> Option<String> {
        let plan = |catalog: &Catalog, text: &str| match schema::plan_within(catalog, text, &SqlLimits::CEILING) {
            Ok(planned) => planned,
            Err(error) => panic!("{text}: {error}"),
        };
        let before = plan(&Catalog::default(), BEFORE).catalog;
        check_rows_stay(&before, &plan(&before, text), |_| is_empty).err().map(|error| error.message().to_owned())
    }

    #[test]
    fn rows_of_a_partitioned_table_stay_where_they_are() {
        for text in ["PARTITION TABLE t ON COLUMN v", "ALTER TABLE t ALTER COLUMN a VARCHAR(20) NOT NULL"] {
            assert!(moving(text, false).is_some_and(|error| error.contains("table T")), "{text}");
            assert_eq!(moving(text, true), None, "{text}");
        }
        for text in [
            "PARTITION TABLE s ON COLUMN a",
            "CREATE UNIQUE INDEX u ON t (a, v)",
            "ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 1",
            "ALTER TABLE t ADD COLUMN c INTEGER BEFORE a",
            "ALTER TABLE t ALTER COLUMN v VARCHAR(20)",
            "CREATE VIEW w (a, c) AS SELECT a, COUNT(*) FROM t GROUP BY a",
            "DROP TABLE t",
        ] {
            assert_eq!(moving(text, false), None, "{text}");
        }
    }
}
