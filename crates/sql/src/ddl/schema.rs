//! Schema statements to changes: expressions bound, names of other objects looked up. Whether the
//! change can be made is the catalog's to say.

use super::parts::{
    check_of, column, ignored_declaration, index_keys, index_text, key_of, row_condition, warn_of_parts,
};
use crate::bind::literal::declared;
use crate::parse::statement::{
    AlterAction, Body, ConstraintKind, CreateProcedure, CreateTable, CreateView, Ddl, IndexDefinition, PartitionClause,
    Statement,
};
use ferrite_base::{UserError, UserResult};
use ferrite_catalog::change::NewIndex;
use ferrite_catalog::{Catalog, Change, Check, IndexKind, Procedure, ProcedurePartitioning, TableAction, TableKind};
use ferrite_expr::Expr;

/// A schema statement, bound: the change, and what the user should be told about it.
pub fn bind_ddl(catalog: &Catalog, statement: &Statement) -> UserResult<(Change, Vec<String>)> {
    let Body::Ddl(ddl) = &statement.body else {
        return Err(UserError::ddl("42601", "the statement is not a schema change"));
    };
    super::names::check(catalog, ddl)?;
    let mut warnings = Vec::new();
    let change = match ddl.as_ref() {
        Ddl::CreateTable(table) if table.if_not_exists && catalog.is_taken(&table.name) => {
            there_already(&table.name, &mut warnings)
        }
        Ddl::CreateTable(table) => create_table(catalog, table, &mut warnings)?,
        Ddl::AlterTable { table, stream, if_exists, actions } => {
            let change = super::alter::alter_table(catalog, table, *stream, *if_exists, actions, &mut warnings)?;
            let cascade = actions
                .iter()
                .any(|action| matches!(action, AlterAction::Action(TableAction::DropColumn { cascade: true, .. })));
            if cascade { crate::bind::plain_view::without_misfits(catalog, change)? } else { change }
        }
        Ddl::Replication { table } => {
            if let Some(table) = table
                && catalog.table_named(table).is_none()
            {
                return Err(catalog.no_table(table));
            }
            warnings.push("DR TABLE: nothing is replicated to other databases".to_owned());
            Change::Several(Vec::new())
        }
        Ddl::CreateIndex { index, if_not_exists: true, .. } if catalog.index_named(&index.name).is_some() => {
            there_already(&index.name, &mut warnings)
        }
        Ddl::CreateIndex { table, index, .. } => create_index(catalog, table, index)?,
        Ddl::CreateView(view) if view.if_not_exists && catalog.is_taken(&view.name) => {
            there_already(&view.name, &mut warnings)
        }
        Ddl::CreateView(view) => create_view(catalog, view, &mut warnings)?,
        Ddl::CreateProcedure(procedure) => create_procedure(catalog, procedure, &mut warnings)?,
        Ddl::PartitionProcedure { name, partitioning } => {
            let clause = partitioning;
            let name = &super::names::procedure(catalog, name);
            let partitioning = partitioned_on(catalog, clause)?;
            let existing = catalog.procedure_named(name).ok_or_else(|| UserError::unknown_routine(name).in_ddl())?;
            let changed = Procedure { partitioning: Some(partitioning.clone()), ..existing.as_ref().clone() };
            if changed.class.is_none() {
                crate::compile::procedure::compile_procedure(catalog, &changed)?;
            }
            Change::PartitionProcedure { name: name.clone(), partitioning }
        }
        Ddl::CreateTask { task, user } => {
            if let Some(user) = user {
                warnings.push(format!("task {}: AS USER {user} is not kept, since there are no users", task.name));
            }
            let procedure = super::names::procedure(catalog, &task.procedure);
            Change::CreateTask { task: ferrite_catalog::Task { procedure, ..task.clone() } }
        }
        Ddl::Change(change) => completed(catalog, change.clone(), &mut warnings)?,
    };
    Ok((change, warnings))
}

/// A change as its statement has it, with the names that procedures have.
fn completed(catalog: &Catalog, mut change: Change, warnings: &mut Vec<String>) -> UserResult<Change> {
    match &mut change {
        Change::RenameProcedure { name, .. } | Change::DropProcedure { name, .. } => {
            *name = super::names::procedure(catalog, name);
        }
        Change::CreateFunction { name, .. } => warnings.extend(crate::bind::user::check_name(name)?),
        Change::CreateRole { name, permissions } => {
            check_permissions(permissions)?;
            warnings.push(format!(
                "role {name} is kept in the schema, but there are no users yet: every client may do everything"
            ));
        }
        _ => {}
    }
    Ok(change)
}

fn there_already(name: &str, warnings: &mut Vec<String>) -> Change {
    warnings.push(format!("{name} already exists and stays as it is"));
    Change::Several(Vec::new())
}

fn create_view(catalog: &Catalog, view: &CreateView, warnings: &mut Vec<String>) -> UserResult<Change> {
    let CreateView { name, columns, query, text, export, time_to_live, .. } = view;
    let kept_up = super::view::bind_view(catalog, name, columns.as_deref(), query, text)
        .and_then(|create| catalog.apply(&create).map(|_| create));
    let create = match kept_up {
        Ok(create) => create,
        Err(reason) if export.is_some() || time_to_live.is_some() => return Err(reason),
        Err(reason) => return crate::bind::plain_view::instead(catalog, view, reason, warnings),
    };
    let mut actions = Vec::new();
    if let Some(export) = export {
        warnings.push(super::alter::not_exported(name, export));
        actions.push(TableAction::SetExport(Some(export.clone())));
    }
    if let (Some(clause), Change::CreateView { columns, .. }) = (time_to_live, &create) {
        let column = columns.iter().position(|column| column.name == clause.column);
        let column = column.ok_or_else(|| UserError::unknown_column(&clause.column).in_ddl())? as u16;
        if export.as_ref().is_some_and(|export| export.migrate) {
            warnings.push(format!(
                "view {name}: rows that are to be migrated are kept, and do not expire, unless the server runs with \
                 --migrating-rows drop"
            ));
        }
        actions.push(TableAction::SetTimeToLive(Some(super::alter::time_of(clause, column))));
    }
    if actions.is_empty() {
        return Ok(create);
    }
    let alter = |action| Change::AlterTable { table: name.clone(), action };
    Ok(Change::Several(std::iter::once(create).chain(actions.into_iter().map(alter)).collect()))
}

fn check_permissions(permissions: &[String]) -> UserResult<()> {
    const KNOWN: [&str; 9] =
        ["adhoc", "admin", "allproc", "compoundproc", "defaultproc", "defaultprocread", "sql", "sqlread", "sysproc"];
    match permissions.iter().find(|permission| !KNOWN.contains(&permission.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(UserError::ddl("42601", format!("Invalid permission \"{unknown}\""))
            .about(unknown.as_str())
            .with_hint("permissions are DEFAULTPROCREAD, DEFAULTPROC, SQLREAD, SQL, ALLPROC and ADMIN")),
    }
}

fn create_table(catalog: &Catalog, table: &CreateTable, warnings: &mut Vec<String>) -> UserResult<Change> {
    let mut columns = Vec::with_capacity(table.columns.len());
    for definition in &table.columns {
        columns.push(column(catalog, definition, &table.name)?);
        warnings.extend(ignored_declaration(catalog, &definition.name, &definition.column_type, &table.name));
    }
    if columns.is_empty() {
        return Err(UserError::ddl("42601", format!("table {} has no columns", table.name)));
    }
    let mut indexes = Vec::with_capacity(table.constraints.len());
    let mut primary_key = None;
    for constraint in &table.constraints {
        let index = key_of(catalog, &table.name, &columns, constraint)?;
        if constraint.kind == ConstraintKind::PrimaryKey {
            if primary_key.replace(indexes.len()).is_some() {
                return Err(UserError::ddl("42P16", format!("table {} has two primary keys", table.name)));
            }
            for key in &index.keys {
                if let Expr::Column { column, .. } = key {
                    columns[usize::from(*column)].nullable = false;
                }
            }
        }
        indexes.push(index);
    }
    if table.stream && !indexes.is_empty() {
        return Err(UserError::ddl("42P16", format!("stream {} must not have keys", table.name)));
    }
    let mut checks: Vec<Check> = Vec::with_capacity(table.checks.len());
    for (name, written) in &table.checks {
        let taken: Vec<String> = checks.iter().map(|check| check.name.clone()).collect();
        checks.push(check_of(catalog, &table.name, &columns, name.as_deref(), written, &taken)?);
    }
    warn_of_parts(&table.name, table, warnings);
    let partition_column = match &table.partition_column {
        None => None,
        Some(name) => {
            let position = columns.iter().position(|column| column.name == *name);
            Some(position.ok_or_else(|| UserError::unknown_column(name).in_ddl())? as u16)
        }
    };
    let create = Change::CreateTable {
        name: table.name.clone(),
        columns,
        indexes,
        primary_key,
        checks,
        stream: table.stream,
        partition_column,
    };
    let mut actions = Vec::new();
    actions.extend(table.export.clone().map(|export| AlterAction::Action(TableAction::SetExport(Some(export)))));
    actions.extend(table.time_to_live.clone().map(|clause| AlterAction::SetTimeToLive(Some(clause))));
    if actions.is_empty() {
        return Ok(create);
    }
    let created = catalog.apply(&create)?.0;
    let rest = super::alter::alter_table(&created, &table.name, table.stream, false, &actions, warnings)?;
    Ok(Change::Several(vec![create, rest]))
}

fn create_index(catalog: &Catalog, table_name: &str, index: &IndexDefinition) -> UserResult<Change> {
    let table = catalog.table_named(table_name).ok_or_else(|| catalog.no_table(table_name))?;
    if table.kind == TableKind::Stream {
        return Err(UserError::ddl("42809", format!("stream {table_name} cannot have an index")));
    }
    let keys = index_keys(catalog, table_name, &table.columns, &index.keys)?;
    let predicate = match &index.predicate {
        Some(written) => Some(row_condition(catalog, table_name, &table.columns, written)?),
        None => None,
    };
    Ok(Change::CreateIndex {
        table: table_name.to_owned(),
        index: NewIndex {
            name: Some(index.name.clone()),
            text: index_text(&keys, &index.keys, index.predicate.as_ref()),
            keys,
            unique: index.unique || index.assume_unique,
            assume_unique: index.assume_unique,
            kind: if index.hash { IndexKind::Hash } else { IndexKind::Ordered },
            predicate,
            constraint: None,
        },
    })
}

fn partitioned_on(catalog: &Catalog, clause: &PartitionClause) -> UserResult<ProcedurePartitioning> {
    let table = catalog.table_named(&clause.table).ok_or_else(|| catalog.no_table(&clause.table))?;
    let column =
        table.column_named(&clause.column).ok_or_else(|| UserError::unknown_column(&clause.column).in_ddl())?;
    if table.partition_column != Some(column) {
        return Err(UserError::ddl(
            "42601",
            format!("table {} is not partitioned on column {}", clause.table, clause.column),
        )
        .about(clause.column.as_str())
        .with_hint(match table.partition_column {
            None => format!("PARTITION TABLE {} ON COLUMN {};", clause.table, clause.column),
            Some(column) => format!(
                "it is partitioned on {0}: PARTITION ON TABLE {1} COLUMN {0}",
                table.columns[usize::from(column)].name,
                clause.table
            ),
        }));
    }
    Ok(ProcedurePartitioning { table: table.id, column, parameter: clause.parameter })
}

fn create_procedure(catalog: &Catalog, definition: &CreateProcedure, warnings: &mut Vec<String>) -> UserResult<Change> {
    let partitioning = match &definition.partitioning {
        Some(clause) => Some(partitioned_on(catalog, clause)?),
        None => None,
    };
    let mut parameters = definition.parameters.clone();
    for (_, column_type) in parameters.iter_mut().flatten() {
        *column_type = declared(catalog, *column_type)?;
    }
    let mut procedure = Procedure {
        name: definition.name.clone(),
        parameters,
        partitioning,
        directed: definition.directed,
        compound: definition.compound,
        body: definition.body.clone(),
        class: definition.class.clone(),
        allow_roles: definition.allow_roles.clone(),
    };
    if let Some(clause) = &definition.second_partitioning {
        on_two_keys(catalog, &mut procedure, clause, warnings)?;
    }
    match &procedure.class {
        None => {
            // Places are those in the body.
            let start = crate::errors::place(definition.body_start);
            let compiled = crate::compile::procedure::compile_procedure(catalog, &procedure);
            drop(compiled.map_err(|error| error.moved(|place| start.map(|start| place.after(start))))?);
        }
        // Whether it is a procedure, and what SQL it has, is seen when it is loaded.
        Some(class) if !catalog.classes.has_class(class) => {
            return Err(UserError::ddl("42704", format!("class {class} has not been loaded"))
                .about(class.as_str())
                .with_hint("load the jar with the class first: load classes FILE.jar, or @UpdateClasses"));
        }
        Some(_) => {}
    }
    if !procedure.allow_roles.is_empty() {
        warnings.push(format!(
            "procedure {}: ALLOW {} is kept in the schema, but there are no users yet: every client may call it",
            procedure.name,
            procedure.allow_roles.join(", ")
        ));
    }
    let create = Change::CreateProcedure { procedure };
    if definition.or_replace {
        let drop = Change::DropProcedure { name: definition.name.clone(), if_exists: true };
        return Ok(Change::Several(vec![drop, create]));
    }
    Ok(create)
}

/// PARTITION ON two tables: the procedure may then use two partitions. Here any procedure without
/// PARTITION ON may, and holds only those of its keys; so both clauses are checked, and that is all
/// that they do.
fn on_two_keys(
    catalog: &Catalog,
    procedure: &mut Procedure,
    second: &PartitionClause,
    warnings: &mut Vec<String>,
) -> UserResult<()> {
    let second = partitioned_on(catalog, second)?;
    let first = procedure.partitioning.take();
    if procedure.class.is_none() {
        let program = crate::compile::procedure::compile(catalog, procedure)?;
        for partitioning in first.iter().chain([&second]) {
            crate::compile::procedure::route_by(catalog, procedure, partitioning, &program.parameters)?;
        }
    }
    warnings.push(format!(
        "procedure {}: PARTITION ON two tables is not kept; without it the procedure holds just the partitions of the keys in its statements",
        procedure.name
    ));
    Ok(())
}
