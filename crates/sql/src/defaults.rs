//! The default procedures of each table: TABLE.insert, update, upsert, delete, select
//! (wire-protocol 12.9).

use ferrite_catalog::{Catalog, Index, Table, TableKind};
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::{
    Access, Delete, Input, Insert, InsertSource, JoinKind, OutputColumn, Parameter, Plan, Program, Query, QueryBody,
    Routing, Select, Source, StatementText, Step, Touches, Update,
};
use ferrite_value::OwnedValue;

/// All default procedures of the catalog's tables. Built as plans, without a detour over text.
pub fn default_procedures(catalog: &Catalog) -> Vec<Program> {
    let mut programs = Vec::new();
    for table in catalog.tables.values() {
        if table.kind == TableKind::View {
            continue;
        }
        programs.push(insert(table, false));
        let Some(key) = table.primary_key_index() else { continue };
        let Some(columns) = key.key_columns() else { continue };
        if table.partition_column.is_some_and(|partitioning| !columns.contains(&partitioning)) {
            continue;
        }
        programs.push(insert(table, true));
        programs.push(update(table, key, &columns));
        programs.push(delete(table, key, &columns));
        if table.partition_column.is_some() {
            programs.push(select(table, key, &columns));
        }
    }
    programs
}

fn parameters(table: &Table, columns: impl Iterator<Item = u16>) -> Vec<Parameter> {
    columns
        .map(|column| {
            let column = &table.columns[usize::from(column)];
            // The table rounds what it stores; a key that is looked for is taken as it is.
            let column_type = column.column_type.without_declaration();
            Parameter { name: Some(column.name.clone()), column_type, array: false, table: false }
        })
        .collect()
}

fn all_columns(table: &Table) -> impl Iterator<Item = u16> + use<> {
    0..table.columns.len() as u16
}

fn program(
    table: &Table,
    verb: &str,
    text: String,
    parameters: Vec<Parameter>,
    body: Vec<Step>,
    routed_by: u16,
) -> Program {
    let routing = match table.partition_column {
        Some(column) => {
            Routing::Parameter { index: routed_by, sql_type: table.columns[usize::from(column)].column_type.sql_type }
        }
        None => Routing::All,
    };
    let touches = match &routing {
        Routing::Parameter { index, sql_type } => Touches::OneKey { key: Expr::Parameter(*index), sql_type: *sql_type },
        _ if verb == "select" => Touches::Replicated,
        _ => Touches::Several,
    };
    let multi_partition_reason = (routing == Routing::All)
        .then(|| format!("table {} is replicated, and is changed on every partition", table.name));
    Program {
        name: format!("{}.{verb}", table.name),
        parameters,
        registers: Vec::new(),
        slots: 1,
        subqueries: Vec::new(),
        common_tables: Vec::new(),
        body,
        read_only: verb == "select",
        snapshot_plan: Default::default(),
        routing,
        statements: vec![StatementText { text, multi_partition_reason, touches }],
        external: None,
        variants: None,
    }
}

fn execute(plan: Plan) -> Step {
    Step::Execute { statement: 0, plan, emit: true }
}

/// Where the partitioning column stands among `columns`.
fn position_of_partitioning(table: &Table, columns: &[u16]) -> u16 {
    let position =
        table.partition_column.and_then(|partitioning| columns.iter().position(|column| *column == partitioning));
    position.unwrap_or(0) as u16
}

fn insert(table: &Table, upsert: bool) -> Program {
    let verb = if upsert { "upsert" } else { "insert" };
    let marks = vec!["?"; table.columns.len()].join(", ");
    let text = format!("{} INTO {} VALUES ({marks})", verb.to_uppercase(), table.name);
    let plan = Plan::Insert(Insert {
        table: table.id,
        source: InsertSource::Values { more: Vec::new() },
        row: all_columns(table).map(Expr::Parameter).collect(),
        upsert,
        assigned: all_columns(table).collect(),
        slot: 0,
        returning: None,
    });
    let routed_by = table.partition_column.unwrap_or(0);
    program(table, verb, text, parameters(table, all_columns(table)), vec![execute(plan)], routed_by)
}

/// Lookup by the primary key, whose values are the parameters from `first` on.
fn by_key(key: &Index, first: u16) -> Access {
    Access::Lookup {
        index: key.id,
        keys: (0..key.keys.len() as u16).map(|number| Expr::Parameter(first + number)).collect(),
    }
}

fn key_condition(table: &Table, columns: &[u16]) -> String {
    let conditions: Vec<String> =
        columns.iter().map(|column| format!("{} = ?", table.columns[usize::from(*column)].name)).collect();
    conditions.join(" AND ")
}

fn update(table: &Table, key: &Index, columns: &[u16]) -> Program {
    let count = table.columns.len() as u16;
    let assignments: Vec<String> = table.columns.iter().map(|column| format!("{} = ?", column.name)).collect();
    let text = format!("UPDATE {} SET {} WHERE {}", table.name, assignments.join(", "), key_condition(table, columns));
    let routed_by = count + position_of_partitioning(table, columns);
    let mut body = Vec::new();
    if let Some(partitioning) = table.partition_column {
        // Another value would belong to another partition: the row would have to move.
        let same = Expr::Compare {
            operator: CompareOperator::Equal,
            left: Box::new(Expr::Parameter(partitioning)),
            right: Box::new(Expr::Parameter(routed_by)),
        };
        let message = format!(
            "partitioning column {} of table {} cannot be updated",
            table.columns[usize::from(partitioning)].name,
            table.name
        );
        let signal =
            Step::Signal { state: "22000".to_owned(), message: Expr::Constant(OwnedValue::Text(message.into())) };
        body.push(Step::If { branches: vec![(same, Vec::new())], otherwise: vec![signal] });
    }
    body.push(execute(Plan::Update(Update {
        table: table.id,
        slot: 0,
        access: by_key(key, count),
        filter: None,
        assignments: all_columns(table)
            .filter(|column| table.partition_column != Some(*column))
            .map(|column| (column, Expr::Parameter(column)))
            .collect(),
        joined: None,
        returning: None,
    })));
    let parameters = parameters(table, all_columns(table).chain(columns.iter().copied()));
    program(table, "update", text, parameters, body, routed_by)
}

fn delete(table: &Table, key: &Index, columns: &[u16]) -> Program {
    let text = format!("DELETE FROM {} WHERE {}", table.name, key_condition(table, columns));
    let plan = Plan::Delete(Delete {
        table: table.id,
        slot: 0,
        access: by_key(key, 0),
        filter: None,
        order_by: Vec::new(),
        limit: None,
        offset: None,
        joined: None,
        returning: None,
        migrate: false,
    });
    let parameters = parameters(table, columns.iter().copied());
    program(table, "delete", text, parameters, vec![execute(plan)], position_of_partitioning(table, columns))
}

fn select(table: &Table, key: &Index, columns: &[u16]) -> Program {
    let text = format!("SELECT * FROM {} WHERE {}", table.name, key_condition(table, columns));
    let source = Source {
        slot: 0,
        input: Input::Table { table: table.id, access: by_key(key, 0) },
        join: JoinKind::Inner,
        on: None,
        filter: None,
    };
    let output = all_columns(table).map(|column| Expr::column(0, column)).collect();
    let select =
        Select { sources: vec![source], filter: None, aggregation: None, windowing: None, distinct: false, output };
    let query = Query {
        body: QueryBody::Select(Box::new(select)),
        columns: table
            .columns
            .iter()
            .map(|column| OutputColumn { name: column.name.clone(), sql_type: column.column_type.sql_type })
            .collect(),
        order_by: Vec::new(),
        presorted: false,
        limit: None,
        offset: None,
        view: None,
    };
    let parameters = parameters(table, columns.iter().copied());
    program(
        table,
        "select",
        text,
        parameters,
        vec![execute(Plan::Query(query))],
        position_of_partitioning(table, columns),
    )
}
