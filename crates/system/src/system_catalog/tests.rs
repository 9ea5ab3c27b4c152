//! Rows against those that an original server gave for the same schema.

use super::procedures::procedure_remarks;
use super::*;
use crate::testing::{self, check_columns, check_error, json_row, tables_of};
use ferrite_catalog::change::NewIndex;
use ferrite_catalog::{Change, Column, View, ViewOutput};
use ferrite_expr::function::Function;
use ferrite_expr::{Aggregate, AggregateKind};
use ferrite_plan::{Parameter, Program, Routing};
use serde_json::Value as Json;
use std::sync::Arc;

/// Selector, and the rows about the objects of [`schema`] and the procedures of [`programs`].
const CAPTURED_ROWS: &str = include_str!("../../tests/data/system-catalog-rows.json");

fn captured_rows(selector: &str) -> Vec<Json> {
    let all: Vec<Json> = serde_json::from_str(CAPTURED_ROWS).expect("the captures are JSON");
    let answer = all.into_iter().find(|answer| answer["selector"] == selector).expect("the selector was captured");
    answer["rows"].as_array().expect("rows").clone()
}

fn our_rows(table: SystemTable) -> Vec<Json> {
    tables_of(&Ok(vec![table]))[0].rows.iter().map(|row| json_row(row)).collect()
}

fn column(name: &str, sql_type: SqlType, length: u32, nullable: bool) -> Column {
    let column_type = ColumnType { sql_type, length, in_bytes: name == "NICK" };
    Column { name: name.to_owned(), column_type, nullable, default: None, default_text: None }
}

fn index(name: Option<&str>, keys: Vec<Expr>) -> NewIndex {
    NewIndex {
        name: name.map(str::to_owned),
        keys,
        unique: name.is_none(),
        assume_unique: false,
        kind: IndexKind::Ordered,
        predicate: None,
        constraint: None,
        text: Default::default(),
    }
}

fn table(name: &str, columns: Vec<Column>, has_key: bool) -> Change {
    Change::CreateTable {
        name: name.to_owned(),
        columns,
        indexes: if has_key { vec![index(None, vec![Expr::column(0, 0)])] } else { Vec::new() },
        primary_key: has_key.then_some(0),
        checks: Vec::new(),
        stream: !has_key,
        partition_column: (!has_key).then_some(0),
    }
}

/// The schema that the original server had, without Voter.
fn schema() -> Catalog {
    let mut balance = column("BALANCE", SqlType::Decimal, 0, false);
    balance.default = Some(Expr::null());
    balance.default_text = Some("0.000000000000".to_owned());
    let customers = vec![
        column("ID", SqlType::Bigint, 0, false),
        column("NAME", SqlType::Varchar, 40, false),
        column("NICK", SqlType::Varchar, 20, true),
        balance,
        column("RATE", SqlType::Float, 0, true),
        column("TINY", SqlType::Tinyint, 0, true),
        column("SMALL", SqlType::Smallint, 0, true),
        column("NUM", SqlType::Integer, 0, true),
        column("BLOB", SqlType::Varbinary, 100, true),
        column("TS", SqlType::Timestamp, 0, true),
        column("PT", SqlType::Point, 0, true),
        column("POLY", SqlType::Geography, 2048, true),
    ];
    let countries = vec![column("CODE", SqlType::Varchar, 2, false), column("LABEL", SqlType::Varchar, 60, true)];
    let events = vec![column("ID", SqlType::Bigint, 0, false), column("WHAT", SqlType::Varchar, 20, true)];
    let (name, num) = (Expr::column(0, 1), Expr::column(0, 7));
    let absolute = Expr::Call { function: Function::Abs, arguments: Box::new([num.clone()]) };
    let on_customers = |index| Change::CreateIndex { table: "CUSTOMERS".to_owned(), index };
    let mut catalog = Catalog::default();
    let mut apply = |change| {
        catalog = catalog.apply(&change).expect("the change is legal").0;
        catalog.table_named("CUSTOMERS").map(|table| table.id)
    };
    let source = apply(table("CUSTOMERS", customers, true)).expect("was just made");
    apply(Change::PartitionTable { table: "CUSTOMERS".to_owned(), column: "ID".to_owned() });
    apply(on_customers(index(Some("CUSTOMERS_NAME"), vec![name.clone(), num.clone()])));
    apply(on_customers(index(Some("CUSTOMERS_PART"), vec![num.clone()])));
    apply(on_customers(index(Some("CUSTOMERS_EXPR"), vec![absolute, name])));
    apply(table("COUNTRIES", countries, true));
    apply(table("EVENTS", events, false));
    let aggregate = |kind, argument, argument_type, result_type| Aggregate {
        kind,
        distinct: false,
        argument,
        argument_type,
        result_type,
        user: None,
    };
    apply(Change::CreateView {
        name: "BY_NUM".to_owned(),
        columns: vec![
            column("NUM", SqlType::Integer, 0, true),
            column("CNT", SqlType::Bigint, 0, true),
            column("TOTAL", SqlType::Decimal, 0, true),
        ],
        view: View {
            source,
            joins: Vec::new(),
            filter: None,
            group_by: vec![num],
            aggregates: vec![
                aggregate(AggregateKind::CountRows, None, SqlType::Bigint, SqlType::Bigint),
                aggregate(AggregateKind::Sum, Some(Expr::column(0, 3)), SqlType::Decimal, SqlType::Decimal),
            ],
            outputs: vec![ViewOutput::Group(0), ViewOutput::Aggregate(0), ViewOutput::Aggregate(1)],
            text: String::new(),
        },
    });
    apply(Change::CreateRole {
        name: "clerk".to_owned(),
        permissions: vec!["sqlread".to_owned(), "defaultproc".to_owned()],
    });
    catalog
}

/// Name, parameters, partitioning parameter, read-only.
fn program(name: &str, types: &[SqlType], key: Option<u16>, read_only: bool) -> Program {
    let parameter = |sql_type: &SqlType| Parameter {
        name: None,
        // What the parameter is compared with may be shorter than what it may be.
        column_type: ColumnType { length: 5, ..ColumnType::unbounded(*sql_type) },
        array: false,
        table: false,
    };
    Program {
        name: name.to_owned(),
        parameters: types.iter().map(parameter).collect(),
        registers: Vec::new(),
        slots: 0,
        subqueries: Vec::new(),
        common_tables: Vec::new(),
        body: Vec::new(),
        read_only,
        snapshot_plan: Default::default(),
        routing: key.map_or(Routing::All, |index| Routing::Parameter { index, sql_type: SqlType::Bigint }),
        statements: Vec::new(),
        external: None,
        variants: None,
    }
}

fn programs() -> Vec<Arc<Program>> {
    use SqlType::{
        Bigint, Decimal, Float, Geography, Integer, Point, Smallint, Timestamp, Tinyint, Varbinary, Varchar,
    };
    let customer = [
        Bigint, Varchar, Varchar, Decimal, Float, Tinyint, Smallint, Integer, Varbinary, Timestamp, Point, Geography,
        Bigint,
    ];
    let programs = [
        program("CUSTOMERS.delete", &[Bigint], Some(0), false),
        program("CUSTOMERS.select", &[Bigint], Some(0), true),
        program("CUSTOMERS.update", &customer, Some(12), false),
        program("count_all", &[], None, true),
        program("get_customer", &[Bigint], Some(0), true),
        program("rename", &[Varchar, Bigint], Some(1), false),
    ];
    programs.into_iter().map(Arc::new).collect()
}

#[test]
fn columns_and_errors_are_those_of_the_original_server() {
    let node = testing::node(1);
    let compiled = Arc::clone(&node.compiled);
    for (selector, answered) in testing::captured_selectors("@SystemCatalog") {
        if answered {
            check_columns("@SystemCatalog", &selector, &system_catalog(&compiled, &selector.to_lowercase()));
        } else {
            check_error("@SystemCatalog", &selector, &system_catalog(&compiled, &selector));
        }
    }
    assert_eq!(tables_of(&system_catalog(&compiled, "Topics"))[0].columns.len(), 5);
}

#[test]
fn schema_objects_are_shown_as_by_the_original_server() {
    let catalog = schema();
    assert_eq!(our_rows(tables(&catalog)), captured_rows("TABLES"));
    assert_eq!(our_rows(primary_keys(&catalog)), captured_rows("PRIMARYKEYS"));
    assert_eq!(our_rows(roles(&catalog)), captured_rows("ROLES"));
    // The capture ends after some columns of CUSTOMERS.
    let expected = captured_rows("COLUMNS");
    assert!(expected.len() >= 10);
    assert_eq!(our_rows(columns(&catalog))[..expected.len()], expected);
    // The original keeps a view's groups in a tree, we do not.
    let but_views = |rows: Vec<Json>| -> Vec<Json> { rows.into_iter().filter(|row| row[2] != "BY_NUM").collect() };
    let ours = our_rows(index_info(&catalog));
    let of_view: Vec<Json> = ours.iter().filter(|row| row[2] == "BY_NUM").cloned().collect();
    assert_eq!(of_view.len(), 1);
    assert_eq!((&of_view[0][5], &of_view[0][6], &of_view[0][8]), (&"MATVIEW_PK_INDEX".into(), &2.into(), &"0".into()));
    assert_eq!(but_views(ours), but_views(captured_rows("INDEXINFO")));
}

#[test]
fn types_are_shown_as_by_the_original_server_and_dates_too() {
    let mut ours = our_rows(type_info());
    let date = ours.iter().position(|row| row[0] == "DATE").expect("there are dates");
    ours.remove(date);
    assert_eq!(ours, captured_rows("TYPEINFO"));
}

#[test]
fn procedures_are_shown_as_by_the_original_server() {
    let programs = programs();
    let programs: Vec<&Arc<Program>> = programs.iter().collect();
    assert_eq!(our_rows(procedures(&programs)), captured_rows("PROCEDURES"));

    // The original counts the parameters of default procedures by their columns' names, so that
    // `param0` need not be the first; and it sorts by these names.
    let mut expected = captured_rows("PROCEDURECOLUMNS");
    for row in &mut expected {
        row[3] = format!("param{}", row[17].as_i64().unwrap() - 1).into();
    }
    expected.sort_by_key(|row| (row[2].to_string(), row[17].as_i64()));
    let captured: Vec<&Json> = expected.iter().map(|row| &row[2]).collect();
    let mut ours = our_rows(procedure_columns(&programs));
    // The capture ends before the procedures with lower-case names.
    ours.retain(|row| captured.contains(&&row[2]));
    assert!(ours.len() >= 15);
    assert_eq!(ours, expected);
}

#[test]
fn other_partitionings_and_parameters() {
    let mut directed = program("d", &[SqlType::Bigint, SqlType::Varchar], None, false);
    directed.routing = Routing::Directed;
    directed.parameters[0].array = true;
    directed.parameters[1].name = Some("label".to_owned());
    assert_eq!(
        procedure_remarks(&directed),
        r#"{"compound":false,"partitionParameter":-1,"partitionParameterType":-1,"readOnly":false,"singlePartition":true}"#
    );
    let rows = our_rows(procedure_columns(&[&Arc::new(directed)]));
    assert_eq!((&rows[0][3], &rows[0][12]), (&"param0".into(), &"ARRAY_PARAMETER".into()));
    // A declared parameter keeps its name and size.
    assert_eq!((&rows[1][3], &rows[1][7], &rows[1][12]), (&"label".into(), &5.into(), &Json::Null));
}

#[test]
fn remarks_are_json_whatever_the_names() {
    for name in ["ID", "a \"quoted\" \\ name", "line\nend\u{1}", "größe"] {
        assert_eq!(serde_json::from_str::<String>(&json_string(name)).unwrap(), name);
    }
}

#[test]
fn the_push_is_a_response_with_the_procedures() {
    let node = testing::node(1);
    let mut out = Vec::new();
    write_procedures_push(&mut out, ferrite_wire::handles::PROCEDURES_PUSH, &node.compiled);
    assert_eq!(ferrite_wire::Response::parse(&out[4..]).unwrap().handle, 0x7fff_ffff_ffff_fffd);
    assert_eq!(testing::tables(&out)[0].columns[2].0, "PROCEDURE_NAME");
}
