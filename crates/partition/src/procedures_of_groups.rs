//! Procedures that a database of several groups has and cannot run: who creates one hears of it at
//! once, and not from the first call.

use crate::compiled::Compiled;
use ferrite_base::TableId;
use ferrite_plan::{Program, Routing, divide};
use std::sync::Arc;

/// What is said of procedures that `before` does not have as they are.
pub fn warnings(before: &Compiled, after: &Compiled) -> Vec<String> {
    let known = &before.catalog.procedures;
    let all = after.catalog.procedures.iter();
    let new = all.filter(|(name, now)| known.get(*name).is_none_or(|then| !Arc::ptr_eq(then, now)));
    let programs = new.filter_map(|(_, procedure)| Some(after.program(after.find(&procedure.name)?)));
    programs.filter_map(|program| warning(program, after)).collect()
}

fn warning(program: &Program, compiled: &Compiled) -> Option<String> {
    if !matches!(program.routing, Routing::All | Routing::Several { .. }) {
        return None;
    }
    let partitioned = |id: TableId| compiled.catalog.table(id).is_some_and(|table| table.is_partitioned());
    let reason = divide(program, &partitioned).err()?.reason;
    let name = &program.name;
    Some(format!(
        "procedure {name} was created, but a cluster with several groups of partitions cannot run it: {reason}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;
    use ferrite_base::SqlLimits;
    use ferrite_plan::external::RuntimeHandle;

    fn after(before: &Compiled, text: &str) -> Compiled {
        let planned = schema::plan_within(&before.catalog, text, &SqlLimits::CEILING);
        let planned = planned.unwrap_or_else(|error| panic!("{text}: {error}"));
        before.next(Arc::clone(&planned.catalog)).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_procedure_that_groups_cannot_run_together_is_named_once() {
        let tables = after(
            &Compiled::new(Arc::default(), &RuntimeHandle::default()).expect("an empty catalog"),
            "CREATE TABLE t (a BIGINT NOT NULL, v BIGINT); PARTITION TABLE t ON COLUMN a;
             CREATE TABLE r (k BIGINT NOT NULL, v BIGINT);",
        );
        let created = after(
            &tables,
            "CREATE PROCEDURE counts AS SELECT COUNT(*) FROM t;
             CREATE PROCEDURE loops AS BEGIN DECLARE i BIGINT DEFAULT 0; WHILE i < 3 DO SET i = i + 1; UPDATE t SET v = i; END WHILE; END;
             CREATE PROCEDURE adds AS UPDATE t SET v = v + 1;
             CREATE PROCEDURE reads AS SELECT v FROM r;
             CREATE PROCEDURE one PARTITION ON TABLE t COLUMN a AS SELECT COUNT(*) FROM t WHERE a = ?;",
        );
        let said = warnings(&tables, &created);
        let named: Vec<bool> = ["COUNTS", "LOOPS"]
            .iter()
            .map(|name| said.iter().any(|words| words.to_uppercase().contains(&format!("PROCEDURE {name} "))))
            .collect();
        assert_eq!((said.len(), named), (2, vec![true, true]), "{said:?}");
        let later = after(&created, "CREATE INDEX i ON t (v)");
        assert!(warnings(&created, &later).is_empty(), "it was said before");
    }
}
