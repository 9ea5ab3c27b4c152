//! Programs built by hand: the executor without the binder. Shapes that SQL text may not produce,
//! or not yet.

use crate::support::{Collected, Database, Lending};
use bumpalo::Bump;
use ferrite_base::{ErrorKind, IndexId, PartitionId, TableId, UserResult};
use ferrite_catalog::{Catalog, Change, Column, IndexKind, NewIndex};
use ferrite_exec::{Call, Scratch};
use ferrite_expr::{CompareOperator, Expr};
use ferrite_plan::*;
use ferrite_table::Store;
use ferrite_value::geography::Polygon;
use ferrite_value::ring::Ring;
use ferrite_value::{ColumnType, Point, SqlType, Value};
use std::sync::Arc;

const A: TableId = TableId(1);

/// Stores with the table a(k BIGINT NOT NULL PRIMARY KEY (ordered), v BIGINT), partitioned by k
/// where `partitioned` says so.
fn stores(partitions: u32, partitioned: bool) -> (Vec<Store>, TableId, IndexId) {
    let ring = Arc::new(Ring::new_default(partitions));
    let column = |name: &str, nullable| Column {
        name: name.into(),
        column_type: ColumnType::fixed(SqlType::Bigint),
        nullable,
        default: None,
        default_text: None,
    };
    let create = Change::CreateTable {
        name: "A".into(),
        columns: vec![column("K", false), column("V", true)],
        indexes: vec![NewIndex {
            name: None,
            keys: vec![Expr::column(0, 0)],
            unique: true,
            assume_unique: false,
            kind: IndexKind::Ordered,
            predicate: None,
            constraint: Some("PK".into()),
            text: Default::default(),
        }],
        primary_key: Some(0),
        checks: vec![],
        stream: false,
        partition_column: None,
    };
    let mut stores: Vec<Store> = (0..partitions).map(|number| Store::new(PartitionId(number), ring.clone())).collect();
    let mut catalog = Catalog::default();
    catalog.next_table_id = A.0;
    let partition = Change::PartitionTable { table: "A".into(), column: "K".into() };
    let changes = if partitioned { vec![create, partition] } else { vec![create] };
    for change in changes {
        let (next, effects) = catalog.apply(&change).expect("a legal schema");
        catalog = next;
        let shared = Arc::new(catalog.clone());
        for store in &mut stores {
            store.apply_effects(shared.clone(), &effects).expect("a schema that can be built");
        }
    }
    let table = catalog.table_named("A").expect("just made");
    (stores, table.id, table.indexes[0].id)
}

fn program(body: Vec<Step>, slots: u16, subqueries: Vec<Subquery>) -> Program {
    Program {
        name: "test".into(),
        parameters: vec![],
        registers: vec![],
        slots,
        subqueries,
        common_tables: Vec::new(),
        body,
        read_only: false,
        snapshot_plan: Default::default(),
        routing: Routing::All,
        statements: vec![],
        external: None,
        variants: None,
    }
}

fn run(stores: &mut [Store], program: &Program) -> UserResult<Vec<Vec<String>>> {
    let arena = Bump::new();
    let call = Call::new(program, &[], 0, &arena);
    let mut sink = Collected::default();
    ferrite_exec::run_transaction(stores, &call, &mut Scratch::default(), &mut sink)?;
    stores.iter_mut().for_each(|store| store.commit());
    Ok(sink.rows)
}

fn execute(plan: Plan) -> Step {
    Step::Execute { statement: 0, plan, emit: true }
}

fn values(table: TableId, rows: &[(i64, i64)]) -> Step {
    let row = |(k, v): &(i64, i64)| vec![Expr::integer(*k), Expr::integer(*v)];
    let mut rows = rows.iter().map(row);
    execute(Plan::Insert(Insert {
        table,
        row: rows.next().expect("a row"),
        source: InsertSource::Values { more: rows.collect() },
        upsert: false,
        assigned: vec![0, 1],
        slot: 0,
        returning: None,
    }))
}

fn query(sources: Vec<Source>, filter: Option<Expr>, output: Vec<Expr>) -> Query {
    let columns = (0..output.len())
        .map(|number| OutputColumn { name: format!("C{number}"), sql_type: SqlType::Bigint })
        .collect();
    Query {
        body: QueryBody::Select(Box::new(Select {
            sources,
            filter,
            aggregation: None,
            windowing: None,
            distinct: false,
            output,
        })),
        columns,
        order_by: vec![],
        presorted: false,
        limit: None,
        offset: None,
        view: None,
    }
}

fn source(slot: u16, table: TableId, access: Access) -> Source {
    Source { slot, input: Input::Table { table, access }, join: JoinKind::Inner, on: None, filter: None }
}

fn compare(operator: CompareOperator, left: Expr, right: Expr) -> Expr {
    Expr::Compare { operator, left: Box::new(left), right: Box::new(right) }
}

fn sorted(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort();
    rows
}

#[test]
fn insert_lookup_range_and_scan_over_one_and_three_stores() {
    for partitions in [1, 3] {
        let (mut stores, table, index) = stores(partitions, true);
        let rows: Vec<(i64, i64)> = (1..=20).map(|k| (k, k * 10)).collect();
        run(&mut stores, &program(vec![values(table, &rows)], 1, vec![])).expect("rows");
        let lookup = Access::Lookup { index, keys: vec![Expr::integer(7)] };
        let found = query(vec![source(0, table, lookup)], None, vec![Expr::column(0, 1)]);
        assert_eq!(run(&mut stores, &program(vec![execute(Plan::Query(found))], 1, vec![])).expect("a row"), [["70"]]);

        // The access path is in order in each store; together they must be, too.
        let range = Access::Range {
            index,
            equal: vec![],
            lower: Some(Bound { value: Expr::integer(3), inclusive: false, open_if_null: false }),
            upper: Some(Bound { value: Expr::integer(8), inclusive: true, open_if_null: false }),
            descending: true,
        };
        let mut ordered = query(vec![source(0, table, range)], None, vec![Expr::column(0, 0)]);
        ordered.order_by = vec![SortKey { column: 0, descending: true }];
        ordered.presorted = true;
        ordered.limit = Some(Expr::integer(3));
        ordered.offset = Some(Expr::integer(1));
        let result = run(&mut stores, &program(vec![execute(Plan::Query(ordered))], 1, vec![])).expect("rows");
        assert_eq!(result, [["7"], ["6"], ["5"]]);
    }
}

#[test]
fn a_replicated_row_is_written_everywhere_and_read_once() {
    let (mut stores, table, _) = stores(3, false);
    let body = vec![values(table, &[(1, 1), (2, 2)])];
    assert_eq!(run(&mut stores, &program(body, 1, vec![])).expect("rows"), [["2"]]);
    assert!(stores.iter().all(|store| store.table(table).row_count() == 2));
    let all = query(vec![source(0, table, Access::Scan)], None, vec![Expr::column(0, 0)]);
    let update = Plan::Update(Update {
        table,
        slot: 0,
        access: Access::Scan,
        filter: None,
        joined: None,
        assignments: vec![(1, Expr::integer(9))],
        returning: None,
    });
    let result = run(&mut stores, &program(vec![execute(Plan::Query(all)), execute(update)], 1, vec![])).expect("rows");
    assert_eq!(sorted(result), [["1"], ["2"], ["2"]]);
}

#[test]
fn a_row_that_another_partition_owns_is_refused() {
    let (mut stores, table, _) = stores(3, true);
    let body = vec![values(table, &(1..=50).map(|k| (k, k)).collect::<Vec<_>>())];
    let error = run(&mut stores[..1], &program(body, 1, vec![])).expect_err("one store does not own all keys");
    assert_eq!(error.kind(), ErrorKind::Mispartitioned);
    assert_eq!(stores[0].table(table).row_count(), 0, "nothing is left behind");
}

#[test]
fn a_full_join_applies_conditions_after_the_join() {
    for partitions in [1, 3] {
        let (mut stores, table, index) = stores(partitions, true);
        run(&mut stores, &program(vec![values(table, &[(1, 2), (2, 3), (3, 9)])], 1, vec![])).expect("rows");
        // a FULL JOIN a AS b ON a.v = b.k WHERE a.k < 2 (hung on the first source) OR unknown
        // partners
        let condition = Expr::Or(
            vec![
                compare(CompareOperator::Less, Expr::column(0, 0), Expr::integer(2)),
                Expr::IsNull { operand: Box::new(Expr::column(0, 0)), negated: false },
            ]
            .into(),
        );
        let mut first = source(0, table, Access::Scan);
        first.filter = Some(condition);
        let mut second = source(1, table, Access::Lookup { index, keys: vec![Expr::column(0, 1)] });
        second.join = JoinKind::Full;
        second.on = Some(compare(CompareOperator::Equal, Expr::column(0, 1), Expr::column(1, 0)));
        let joined = query(vec![first, second], None, vec![Expr::column(0, 0), Expr::column(1, 0)]);
        let result = run(&mut stores, &program(vec![execute(Plan::Query(joined))], 2, vec![])).expect("rows");
        // (2, 3) matched and was dropped by WHERE; so 3 does not come back as unmatched, 1 does.
        assert_eq!(sorted(result), [["1", "2"], ["NULL", "1"]]);
    }
}

#[test]
fn programs_with_many_slots_run_from_the_arena() {
    let (mut stores, table, _) = stores(1, true);
    run(&mut stores, &program(vec![values(table, &[(1, 1)])], 1, vec![])).expect("a row");
    let sources: Vec<Source> = (0..40).map(|slot| source(slot, table, Access::Scan)).collect();
    let joined = query(sources, None, vec![Expr::column(39, 0)]);
    assert_eq!(run(&mut stores, &program(vec![execute(Plan::Query(joined))], 40, vec![])).expect("a row"), [["1"]]);
}

#[test]
fn an_error_in_a_later_step_undoes_the_earlier_ones() {
    let (mut stores, table, _) = stores(3, true);
    run(&mut stores, &program(vec![values(table, &[(1, 1)])], 1, vec![])).expect("a row");
    let body = vec![
        values(table, &[(2, 2), (3, 3)]),
        execute(Plan::Truncate { table }),
        values(table, &[(4, 4)]),
        Step::Signal { state: "45000".into(), message: Expr::Constant(Value::Text("stop").to_owned_value()) },
    ];
    let error = run(&mut stores, &program(body, 1, vec![])).expect_err("it signals");
    assert_eq!((error.kind(), error.message(), error.detail()), (ErrorKind::UserAbort, "stop", Some("SQLSTATE 45000")));
    let all = query(vec![source(0, table, Access::Scan)], None, vec![Expr::column(0, 0)]);
    assert_eq!(run(&mut stores, &program(vec![execute(Plan::Query(all))], 1, vec![])).expect("a row"), [["1"]]);
}

/// One client cannot use up the combinations of a statement: others' calls, and its own, answer as
/// they did before.
#[test]
fn any_number_of_combinations_of_parameter_types_is_served() {
    let mut database = Database::new(1, Lending::All);
    let factors = ["a * ?"; 7].join(", ");
    database.run(&format!("CREATE TABLE wd (a INTEGER); CREATE PROCEDURE many AS SELECT {factors} FROM wd")).unwrap();
    let program = database.programs["MANY"].clone();
    database.run("INSERT INTO wd VALUES (3)").unwrap();
    const { assert!(1 << 7 > ferrite_base::limits::STATEMENT_VARIANTS_MAX + 1) };
    for number in (0..1 << 7).chain(0..1 << 7) {
        let is_float = |place: usize| number >> place & 1 == 1;
        let value = |place| if is_float(place) { Value::Float(1.5) } else { Value::Integer(1) };
        let values: Vec<Value<'_>> = (0..7).map(value).collect();
        let expected: Vec<&str> = (0..7).map(|place| if is_float(place) { "4.500" } else { "3" }).collect();
        assert_eq!(database.call(&program, &values).expect("it is served").rows, [expected], "{number}");
    }
}

#[test]
fn a_polygon_is_taken_where_a_point_is_described() {
    let mut database = Database::new(1, Lending::All);
    let texts = "CREATE TABLE place (p GEOGRAPHY_POINT); \
                 CREATE PROCEDURE near AS SELECT ASTEXT(?), DISTANCE(p, ?) FROM place WHERE DWITHIN(?, p, 1000)";
    database.run(texts).unwrap();
    let program = database.programs["NEAR"].clone();
    let polygon = Polygon::parse("POLYGON((0 0, 5 0, 5 5, 0 0))").unwrap().encode();
    let point = Value::Point(Point { longitude: 1.0, latitude: 1.0 });
    for value in [Value::Geography(&polygon), point] {
        database.call(&program, &[value; 3]).unwrap_or_else(|error| panic!("{value:?}: {error}"));
    }
}
