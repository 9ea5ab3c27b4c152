//! How many objects there may be: at each limit, and one past it.

use ferrite_base::limits::{FUNCTIONS_MAX, PROCEDURES_MAX, ROLES_MAX, TABLE_INDEXES_MAX, TABLES_MAX, TASKS_MAX};
use ferrite_base::{ErrorKind, UserError};
use ferrite_catalog::{
    Catalog, Change, Column, IndexKind, Interval, IntervalUnit, NewIndex, OnError, Procedure, RunOn, Schedule, Task,
    View, ViewOutput,
};
use ferrite_expr::{Expr, UserFunction};
use ferrite_value::{ColumnType, SqlType};

fn table(name: &str) -> Change {
    let column_type = ColumnType::fixed(SqlType::Bigint);
    let column = Column { name: "ID".into(), column_type, nullable: false, default: None, default_text: None };
    Change::CreateTable {
        name: name.into(),
        columns: vec![column],
        indexes: Vec::new(),
        primary_key: None,
        checks: Vec::new(),
        stream: false,
        partition_column: None,
    }
}

fn apply(catalog: &Catalog, change: &Change) -> Result<Catalog, UserError> {
    catalog.apply(change).map(|(catalog, _)| catalog)
}

fn refused(catalog: &Catalog, change: &Change, words: &str) {
    let error = apply(catalog, change).expect_err("one past the limit");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.message().contains(words), "{error}");
}

#[test]
fn tables_and_views_are_counted_together() {
    let mut catalog = apply(&Catalog::default(), &table("T")).expect("the first");
    let first = catalog.tables.values().next().expect("it is there").clone();
    for number in 2..TABLES_MAX {
        catalog.tables.insert(format!("T{number}"), first.clone());
    }
    let full = apply(&catalog, &table("LAST")).expect("at the limit");
    assert_eq!(full.tables.len(), TABLES_MAX);
    refused(&full, &table("MORE"), "limit of 10000 tables and views reached");
    let view = View {
        source: first.id,
        joins: Vec::new(),
        filter: None,
        group_by: vec![Expr::column(0, 0)],
        aggregates: Vec::new(),
        outputs: vec![ViewOutput::Group(0)],
        text: String::new(),
    };
    let view = Change::CreateView { name: "V".into(), columns: first.columns.clone(), view };
    refused(&full, &view, "limit of 10000 tables and views reached");
}

#[test]
fn a_table_has_so_many_indexes() {
    let index = |number: usize| Change::CreateIndex {
        table: "T".into(),
        index: NewIndex {
            name: Some(format!("I{number}")),
            keys: vec![Expr::column(0, 0)],
            unique: false,
            assume_unique: false,
            kind: IndexKind::Ordered,
            predicate: None,
            constraint: None,
            text: Default::default(),
        },
    };
    let mut catalog = apply(&Catalog::default(), &table("T")).expect("a table");
    for number in 0..TABLE_INDEXES_MAX {
        catalog = apply(&catalog, &index(number)).expect("up to the limit");
    }
    refused(&catalog, &index(TABLE_INDEXES_MAX), "T has 64 indexes");
}

#[test]
fn there_are_so_many_procedures() {
    let procedure = |name: String| Procedure {
        name,
        parameters: None,
        partitioning: None,
        directed: false,
        compound: false,
        body: "SELECT 1 FROM T".into(),
        class: None,
        allow_roles: Vec::new(),
    };
    let create = |name: &str| Change::CreateProcedure { procedure: procedure(name.into()) };
    let mut catalog = apply(&Catalog::default(), &create("FIRST")).expect("the first");
    let first = catalog.procedures.values().next().expect("it is there").clone();
    for number in 2..PROCEDURES_MAX {
        catalog.procedures.insert(format!("P{number}"), first.clone());
    }
    let full = apply(&catalog, &create("LAST")).expect("at the limit");
    refused(&full, &create("MORE"), "limit of 10000 procedures reached");
}

#[test]
fn there_are_so_many_functions_and_tasks() {
    let task = |name: String| Task {
        name,
        schedule: Schedule::Every(Interval { count: 1, unit: IntervalUnit::Seconds }),
        procedure: "@Ping".into(),
        parameters: Vec::new(),
        on_error: OnError::Stop,
        run_on: RunOn::Database,
        enabled: true,
    };
    let create = |name: &str| Change::CreateTask { task: task(name.into()) };
    let mut catalog = Catalog::default();
    catalog.tasks.extend((1..TASKS_MAX).map(|number| (format!("T{number}"), task(format!("T{number}")).into())));
    let full = apply(&catalog, &create("LAST")).expect("at the limit");
    refused(&full, &create("MORE"), "limit of 10000 tasks reached");

    let create = |name: &str| Change::CreateFunction { name: name.into(), class: "C".into(), method: Some("m".into()) };
    let function = |name: &str| {
        UserFunction::new(name.into(), "C".into(), Some("m".into()), vec![SqlType::Bigint], SqlType::Bigint)
    };
    let mut catalog = Catalog::default();
    for number in 1..FUNCTIONS_MAX {
        let name = format!("F{number}");
        catalog.functions.insert(name.clone(), function(&name).into());
    }
    // There is no class: below the limit that is what is wrong.
    let error = apply(&catalog, &create("LAST")).expect_err("no class");
    assert_ne!(error.kind(), ErrorKind::Limit, "{error}");
    catalog.functions.insert("LAST".into(), function("LAST").into());
    refused(&catalog, &create("MORE"), "limit of 10000 functions reached");
}

#[test]
fn there_are_so_many_roles() {
    let create = |name: &str| Change::CreateRole { name: name.into(), permissions: Vec::new() };
    let mut catalog = Catalog::default();
    catalog.roles.extend((1..ROLES_MAX).map(|number| (format!("r{number}"), Vec::new())));
    let full = apply(&catalog, &create("last")).expect("at the limit");
    refused(&full, &create("more"), "limit of 10000 roles reached");
}
