//! Every rule of a schema change: a list of changes, and what the last of them does or says.

mod procedures;
mod views;

use ferrite_base::{IndexId, TableId};
use ferrite_catalog::{
    Catalog, Change, Check, Column, Effect, IndexKind, NewIndex, Procedure, ProcedurePartitioning, TableKind, View,
    ViewOutput,
};
use ferrite_expr::{Aggregate, AggregateKind, CompareOperator, Expr, Function};
use ferrite_value::{ColumnType, SqlType};

fn column(name: &str, sql_type: SqlType) -> Column {
    let column_type = if sql_type.is_variable_length() {
        ColumnType { sql_type, length: 40, in_bytes: false }
    } else {
        ColumnType::fixed(sql_type)
    };
    Column { name: name.into(), column_type, nullable: true, default: None, default_text: None }
}

fn required(name: &str, sql_type: SqlType) -> Column {
    Column { nullable: false, ..column(name, sql_type) }
}

/// ID BIGINT NOT NULL, NAME VARCHAR NOT NULL, NUM INTEGER, RATE FLOAT NOT NULL.
fn columns() -> Vec<Column> {
    vec![
        required("ID", SqlType::Bigint),
        required("NAME", SqlType::Varchar),
        column("NUM", SqlType::Integer),
        required("RATE", SqlType::Float),
    ]
}

fn key(columns: &[u16]) -> NewIndex {
    NewIndex {
        name: None,
        keys: columns.iter().map(|column| Expr::column(0, *column)).collect(),
        unique: true,
        assume_unique: false,
        kind: IndexKind::Ordered,
        predicate: None,
        constraint: None,
        text: Default::default(),
    }
}

fn index(name: &str, columns: &[u16]) -> NewIndex {
    NewIndex { name: Some(name.into()), unique: false, ..key(columns) }
}

fn unique(name: &str, columns: &[u16]) -> NewIndex {
    NewIndex { unique: true, ..index(name, columns) }
}

fn table_of(name: &str, columns: Vec<Column>, indexes: Vec<NewIndex>, primary_key: Option<usize>) -> Change {
    Change::CreateTable {
        name: name.into(),
        columns,
        indexes,
        primary_key,
        checks: Vec::new(),
        stream: false,
        partition_column: None,
    }
}

/// With its primary key on ID.
fn table(name: &str) -> Change {
    table_of(name, columns(), vec![key(&[0])], Some(0))
}

fn stream(name: &str, partition_column: Option<u16>) -> Change {
    Change::CreateTable {
        name: name.into(),
        columns: columns(),
        indexes: Vec::new(),
        primary_key: None,
        checks: Vec::new(),
        stream: true,
        partition_column,
    }
}

fn partition(table: &str, column: &str) -> Change {
    Change::PartitionTable { table: table.into(), column: column.into() }
}

fn replicate(table: &str) -> Change {
    Change::ReplicateTable { table: table.into() }
}

fn create_index(table: &str, index: NewIndex) -> Change {
    Change::CreateIndex { table: table.into(), index }
}

fn drop_index(name: &str, if_exists: bool) -> Change {
    Change::DropIndex { name: name.into(), if_exists }
}

fn drop_kind(name: &str, kind: TableKind, if_exists: bool, cascade: bool) -> Change {
    Change::DropTable { name: name.into(), if_exists, cascade, kind }
}

fn drop_table(name: &str) -> Change {
    drop_kind(name, TableKind::Table, false, false)
}

fn count() -> Aggregate {
    Aggregate {
        kind: AggregateKind::CountRows,
        distinct: false,
        argument: None,
        argument_type: SqlType::Bigint,
        result_type: SqlType::Bigint,
        user: None,
    }
}

/// SELECT group..., COUNT(*) FROM source GROUP BY group...
fn view_of(source: u32, group_by: &[u16]) -> View {
    let groups = (0..group_by.len()).map(|group| ViewOutput::Group(group as u16));
    View {
        source: TableId(source),
        joins: Vec::new(),
        filter: None,
        group_by: group_by.iter().map(|column| Expr::column(0, *column)).collect(),
        aggregates: vec![count()],
        outputs: groups.chain([ViewOutput::Aggregate(0)]).collect(),
        text: String::new(),
    }
}

fn create_view(name: &str, view: View) -> Change {
    let columns = (0..view.outputs.len()).map(|output| column(&format!("C{output}"), SqlType::Bigint)).collect();
    Change::CreateView { name: name.into(), columns, view }
}

fn view(name: &str, source: u32, group_by: &[u16]) -> Change {
    create_view(name, view_of(source, group_by))
}

fn procedure(name: &str, partitioning: Option<(u32, u16, u16)>) -> Procedure {
    Procedure {
        name: name.into(),
        parameters: None,
        partitioning: partitioning.map(|(table, column, parameter)| ProcedurePartitioning {
            table: TableId(table),
            column,
            parameter,
        }),
        directed: false,
        compound: false,
        body: "SELECT 1 FROM T".into(),
        class: None,
        allow_roles: Vec::new(),
    }
}

fn create_procedure(procedure: Procedure) -> Change {
    Change::CreateProcedure { procedure }
}

fn role(name: &str, permissions: &[&str]) -> Change {
    Change::CreateRole { name: name.into(), permissions: permissions.iter().map(|name| (*name).into()).collect() }
}

/// The catalog after `changes`, each of which must be accepted, and the effects of the last.
#[track_caller]
fn applied(changes: &[Change]) -> (Catalog, Vec<Effect>) {
    let mut catalog = Catalog::default();
    let mut effects = Vec::new();
    for change in changes {
        let before = format!("{catalog:?}");
        let (next, next_effects) = catalog.apply(change).unwrap_or_else(|error| panic!("{change:?}: {error}"));
        assert_eq!(format!("{catalog:?}"), before, "apply leaves the old version alone");
        assert_eq!(next.version.0, catalog.version.0 + 1);
        for table in next.tables.values() {
            let by_id = next.table(table.id).expect("every table is found by id");
            assert!(std::sync::Arc::ptr_eq(by_id, table));
        }
        for effect in &next_effects {
            let is_there = |table: &TableId| next.table(*table).is_some();
            assert!(match effect {
                Effect::CreateTable(table) | Effect::Repartition(table) | Effect::Refresh(table) => is_there(table),
                Effect::Refill(table) | Effect::Validate(table) => is_there(table),
                Effect::Rebuild(rebuild) => is_there(&rebuild.table),
                Effect::Fill(table, from) => is_there(table) && is_there(from),
                Effect::CreateIndex(table, _) | Effect::DropIndex(table, _) => is_there(table),
                Effect::DropTable(table) => !is_there(table),
            });
        }
        (catalog, effects) = (next, next_effects);
    }
    (catalog, effects)
}

/// The message with which the last of `changes` is refused.
#[track_caller]
fn refusal(changes: &[Change]) -> String {
    let (last, before) = changes.split_last().expect("there is a change");
    match applied(before).0.apply(last) {
        Ok(_) => panic!("accepted: {last:?}"),
        Err(error) => error.message().to_owned(),
    }
}

#[track_caller]
fn refused(changes: &[Change], message: &str) {
    assert_eq!(refusal(changes), message);
}

#[test]
fn a_table_gets_ids_and_made_up_names() {
    let named = NewIndex { constraint: Some("PK_U".into()), ..key(&[0, 1]) };
    let (catalog, effects) = applied(&[
        table_of("T", columns(), vec![key(&[2]), key(&[0]), key(&[0]), index("T_NAME", &[1])], Some(1)),
        table_of("U", columns(), vec![named], Some(0)),
    ]);
    assert_eq!(effects, [Effect::CreateTable(TableId(1))]);
    let table = catalog.table_named("T").unwrap();
    let names: Vec<_> = table.indexes.iter().map(|index| (&*index.name, index.constraint.as_deref())).collect();
    assert_eq!(
        names,
        [
            ("VOLTDB_AUTOGEN_IDX_CT_T_NUM", Some("VOLTDB_AUTOGEN_CT__CT_T_NUM")),
            ("VOLTDB_AUTOGEN_IDX_PK_T_ID", Some("VOLTDB_AUTOGEN_CT__PK_T_ID")),
            ("VOLTDB_AUTOGEN_IDX_CT_T_ID", Some("VOLTDB_AUTOGEN_CT__CT_T_ID")),
            ("T_NAME", None),
        ]
    );
    assert_eq!(table.primary_key, Some(IndexId(1)));
    let primary_key = catalog.table_named("U").unwrap().primary_key_index().unwrap();
    assert_eq!(primary_key.name, "VOLTDB_AUTOGEN_CONSTRAINT_IDX_PK_U");
    assert_eq!(primary_key.constraint.as_deref(), Some("PK_U"));
}

#[test]
fn two_unnamed_constraints_on_the_same_columns_are_numbered() {
    let (catalog, _) = applied(&[table_of("T", columns(), vec![key(&[0]), key(&[0])], None)]);
    assert!(catalog.index_named("VOLTDB_AUTOGEN_IDX_CT_T_ID").is_some());
    assert!(catalog.index_named("VOLTDB_AUTOGEN_IDX_CT_T_ID_2").is_some());
}

#[test]
fn primary_key_columns_are_not_null() {
    let (catalog, _) = applied(&[table_of("T", columns(), vec![key(&[2])], Some(0))]);
    assert!(!catalog.table_named("T").unwrap().columns[2].nullable);
}

#[test]
fn names_are_unique() {
    refused(&[table("CUSTOMERS"), table("CUSTOMERS")], "object name already exists: CUSTOMERS");
    refused(&[table("T"), view("T", 0, &[2])], "object name already exists: T");
    refused(&[table("T"), view("V", 0, &[2]), stream("V", None)], "object name already exists: V");
    refused(
        &[table("T"), table("U"), create_index("T", index("I", &[1])), create_index("U", index("I", &[1]))],
        "object name already exists: I",
    );
    let constrained = NewIndex { constraint: Some("K".into()), ..key(&[0]) };
    refused(
        &[
            table_of("T", columns(), vec![constrained.clone()], Some(0)),
            table_of("U", columns(), vec![constrained], Some(0)),
        ],
        "object name already exists: VOLTDB_AUTOGEN_CONSTRAINT_IDX_K",
    );
    // Tables and indexes do not share one space.
    applied(&[table("T"), create_index("T", index("T", &[1]))]);
    let twice = vec![column("A", SqlType::Bigint), column("A", SqlType::Float)];
    refused(&[table_of("T", twice, vec![], None)], "object name already exists: A");
    refused(
        &[create_procedure(procedure("p", None)), create_procedure(procedure("P", None))],
        "object name already exists: P",
    );
}

#[test]
fn names_and_columns_have_limits() {
    let longest = "N".repeat(255);
    applied(&[table_of(&longest, columns(), vec![], None)]);
    assert!(refusal(&[table_of(&"N".repeat(256), columns(), vec![], None)]).ends_with("is longer than 255 bytes"));
    refused(&[table_of("T", vec![], vec![], None)], "T has no columns");

    let many = |count| (0..count).map(|number| column(&format!("C{number}"), SqlType::Tinyint)).collect();
    applied(&[table_of("T", many(1_024), vec![], None)]);
    refused(
        &[table_of("T", many(1_025), vec![], None)],
        "T has 1025 columns, more than the 1024 that a table may have",
    );

    let sized = |name: &str, length| {
        let column_type = ColumnType { sql_type: SqlType::Varbinary, length, in_bytes: false };
        Column { column_type, ..column(name, SqlType::Varbinary) }
    };
    // What clients may ask for is less; this is what a row can be whatever is set.
    let largest = || (0..32).map(|number| sized(&format!("C{number}"), 1_048_576)).collect::<Vec<_>>();
    applied(&[table_of("T", largest(), vec![], None)]);
    let mut larger = largest();
    larger.push(column("ONE", SqlType::Tinyint));
    refused(
        &[table_of("T", larger, vec![], None)],
        "a row of T could have 33554433 bytes, more than the 33554432 that a row may have",
    );
    refused(
        &[table_of("T", vec![sized("A", 1_048_577)], vec![], None)],
        "the size of T.A, VARBINARY(1048577), is not between 1 and 1048576",
    );
    assert!(refusal(&[table_of("T", vec![sized("A", 0)], vec![], None)]).contains("is not between"));
}

#[test]
fn a_partitioning_column_is_not_null_and_of_a_kind_that_hashes() {
    let (catalog, effects) = applied(&[table("T"), partition("T", "ID")]);
    assert_eq!(effects, [Effect::Repartition(TableId(0))]);
    assert_eq!(catalog.table_named("T").unwrap().partition_column, Some(0));
    let (_, effects) = applied(&[table("T"), partition("T", "ID"), partition("T", "ID")]);
    assert_eq!(effects, []);

    let plain = || table_of("T", columns(), vec![], None);
    refused(&[plain(), partition("T", "NUM")], "the partitioning column T.NUM must be declared NOT NULL");
    refused(&[plain(), partition("T", "RATE")], "T.RATE is of type FLOAT, by which a table cannot be partitioned");
    refused(&[plain(), partition("T", "NOSUCH")], "object not found: NOSUCH");
    refused(&[partition("NOSUCH", "ID")], "object not found: NOSUCH");
    applied(&[plain(), partition("T", "NAME")]);
    applied(&[stream("S", Some(0))]);
    refused(&[stream("S", Some(2))], "the partitioning column S.NUM must be declared NOT NULL");
}

#[test]
fn unique_keys_of_partitioned_tables_contain_the_partitioning_column() {
    refused(
        &[table("T"), partition("T", "NAME")],
        "the primary key of the partitioned table T must include the partitioning column NAME",
    );
    applied(&[table_of("T", columns(), vec![key(&[0, 1])], Some(0)), partition("T", "NAME")]);
    let message = "the unique index I on the partitioned table T must include the partitioning column ID";
    refused(&[table("T"), partition("T", "ID"), create_index("T", unique("I", &[1]))], message);
    refused(&[table("T"), create_index("T", unique("I", &[1])), partition("T", "ID")], message);
    // An expression over the column does not tell the partition.
    let over_expression = NewIndex {
        keys: vec![Expr::Call { function: Function::Abs, arguments: Box::new([Expr::column(0, 0)]) }],
        ..unique("I", &[0])
    };
    refused(&[table("T"), partition("T", "ID"), create_index("T", over_expression)], message);
    applied(&[table("T"), partition("T", "ID"), create_index("T", unique("I", &[1, 0]))]);
    let assumed = NewIndex { assume_unique: true, ..unique("I", &[1]) };
    applied(&[table("T"), partition("T", "ID"), create_index("T", assumed)]);
    applied(&[table("T"), create_index("T", unique("I", &[1]))]);
}

#[test]
fn indexes_come_and_go() {
    let (catalog, effects) = applied(&[table("T"), create_index("T", index("I", &[1, 2]))]);
    assert_eq!(effects, [Effect::CreateIndex(TableId(0), IndexId(1))]);
    assert_eq!(catalog.index_named("I").unwrap().1.key_columns(), Some(vec![1, 2]));
    let (catalog, effects) = applied(&[table("T"), create_index("T", index("I", &[1])), drop_index("I", false)]);
    assert_eq!(effects, [Effect::DropIndex(TableId(0), IndexId(1))]);
    assert!(catalog.index_named("I").is_none());
    // Ids are not used again.
    let (_, effects) = applied(&[
        table("T"),
        create_index("T", index("I", &[1])),
        drop_index("I", false),
        create_index("T", index("I", &[1])),
    ]);
    assert_eq!(effects, [Effect::CreateIndex(TableId(0), IndexId(2))]);

    refused(&[drop_index("I", false)], "object not found: I");
    assert_eq!(applied(&[drop_index("I", true)]).1, []);
    refused(&[create_index("NOSUCH", index("I", &[0]))], "object not found: NOSUCH");
    refused(
        &[table("T"), drop_index("VOLTDB_AUTOGEN_IDX_PK_T_ID", false)],
        "the index VOLTDB_AUTOGEN_IDX_PK_T_ID belongs to the constraint VOLTDB_AUTOGEN_CT__PK_T_ID of T",
    );
    refused(
        &[stream("S", None), create_index("S", index("I", &[0]))],
        "the stream S keeps no rows and cannot have an index",
    );
    refused(&[table("T"), create_index("T", index("I", &[]))], "the index I must have from 1 to 64 keys");
}

#[test]
fn index_keys_and_checks_depend_on_their_row_only() {
    let with_key = |key| [table("T"), create_index("T", NewIndex { keys: vec![key], ..index("I", &[]) })];
    let outside = "a key of the index I depends on a parameter, a subquery or another table; \
                   it may depend on the columns of its row only";
    refused(&with_key(Expr::Parameter(0)), outside);
    refused(&with_key(Expr::column(1, 0)), outside);
    refused(&with_key(Expr::column(0, 4)), outside);
    let now = || Expr::Call { function: Function::Now, arguments: Box::new([]) };
    refused(&with_key(now()), "a key of the index I depends on NOW; it may depend on the columns of its row only");

    let partial = |predicate| NewIndex { predicate: Some(predicate), ..index("I", &[1]) };
    let positive = Expr::Compare {
        operator: CompareOperator::Greater,
        left: Box::new(Expr::column(0, 2)),
        right: Box::new(Expr::integer(10)),
    };
    applied(&[table("T"), create_index("T", partial(positive.clone()))]);
    assert!(refusal(&[table("T"), create_index("T", partial(now()))]).starts_with("the condition of the index I"));

    let checked = |condition| Change::CreateTable {
        name: "T".into(),
        columns: columns(),
        indexes: Vec::new(),
        primary_key: None,
        checks: vec![Check { name: "POSITIVE".into(), condition, text: "(ID > 0)".into() }],
        stream: false,
        partition_column: None,
    };
    applied(&[checked(positive)]);
    assert!(refusal(&[checked(now())]).starts_with("the constraint POSITIVE depends on NOW"));
}
