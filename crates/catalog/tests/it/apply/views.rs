//! Views and streams, and what depends on what.

use super::*;

#[test]
fn a_view_has_an_index_over_its_groups() {
    let (catalog, effects) = applied(&[table("T"), view("V", 0, &[2, 1])]);
    assert_eq!(effects, [Effect::CreateTable(TableId(1)), Effect::Refresh(TableId(0))]);
    let key = catalog.table_named("V").unwrap().primary_key_index().unwrap();
    assert_eq!((&*key.name, key.constraint.as_deref()), ("MATVIEW_PK_INDEX", Some("MATVIEW_PK_CONSTRAINT")));
    assert_eq!((key.key_columns(), key.kind), (Some(vec![0, 1]), IndexKind::Hash));
    assert!(key.unique && !key.assume_unique);
    assert_eq!(catalog.table_named("T").unwrap().dependent_views, [TableId(1)]);

    // The keys are in GROUP BY order wherever the SELECT list shows them.
    let mut reordered = view_of(0, &[2, 1]);
    reordered.outputs = vec![ViewOutput::Aggregate(0), ViewOutput::Group(1), ViewOutput::Group(0)];
    let (catalog, _) = applied(&[table("T"), create_view("V", reordered)]);
    assert_eq!(catalog.table_named("V").unwrap().primary_key_index().unwrap().key_columns(), Some(vec![2, 1]));

    // All the views' indexes have one name, which DROP INDEX does not find.
    let changes = [table("T"), view("V", 0, &[2]), view("W", 0, &[2])];
    applied(&changes);
    refused(
        &[table("T"), view("V", 0, &[2]), drop_index("MATVIEW_PK_INDEX", false)],
        "object not found: MATVIEW_PK_INDEX",
    );

    // One of that name may be declared beside it, and is found and dropped by it.
    let declared = [table("T"), view("V", 0, &[2]), create_index("V", index("MATVIEW_PK_INDEX", &[0]))];
    let (catalog, _) = applied(&declared);
    let names = |catalog: &Catalog| -> Vec<String> {
        let view = catalog.table_named("V").unwrap();
        view.indexes.iter().map(|index| index.distinct_name().to_owned()).collect()
    };
    assert_eq!(names(&catalog), ["MATVIEW_PK_INDEX", "MATVIEW_PK_INDEX, declared"]);
    assert_eq!(
        names(&applied(&[&declared[..], &[drop_index("MATVIEW_PK_INDEX", false)]].concat()).0),
        ["MATVIEW_PK_INDEX"]
    );
    refused(
        &[&declared[..], &[create_index("V", index("MATVIEW_PK_INDEX", &[0]))]].concat(),
        "object name already exists: MATVIEW_PK_INDEX",
    );

    let (catalog, _) = applied(&[table("T"), view("V", 0, &[])]);
    assert!(catalog.table_named("V").unwrap().indexes.is_empty());
    applied(&[table("T"), view("V", 0, &[2]), create_index("V", index("I", &[1]))]);
    refused(
        &[table("T"), view("V", 0, &[2]), create_index("V", unique("I", &[1]))],
        "an index on the view V cannot be unique",
    );
}

#[test]
fn a_view_is_partitioned_as_its_groups_allow() {
    let partitioning = |changes: &[Change]| {
        let (catalog, _) = applied(changes);
        let view = catalog.table_named("V").unwrap();
        let assumed = view.indexes.iter().any(|index| index.assume_unique);
        assert_eq!(assumed, view.partitioned_without_column, "unique within each partition only");
        (view.partition_column, view.partitioned_without_column)
    };
    let groups = |group_by: &'static [u16]| view("V", 0, group_by);
    assert_eq!(partitioning(&[table("T"), groups(&[2])]), (None, false));
    assert_eq!(partitioning(&[table("T"), partition("T", "ID"), groups(&[2])]), (None, true));
    assert_eq!(partitioning(&[table("T"), partition("T", "ID"), groups(&[2, 0])]), (Some(1), false));
    assert_eq!(partitioning(&[stream("S", Some(0)), groups(&[0])]), (Some(0), false));
    // Repartitioning the table repartitions its views.
    assert_eq!(partitioning(&[table("T"), groups(&[2, 0]), partition("T", "ID")]), (Some(1), false));
    assert_eq!(partitioning(&[table("T"), groups(&[2]), partition("T", "ID")]), (None, true));
    assert_eq!(partitioning(&[table("T"), groups(&[2]), partition("T", "ID"), replicate("T")]), (None, false));
    let (_, effects) = applied(&[table("T"), view("V", 0, &[2]), partition("T", "ID")]);
    assert_eq!(effects, [Effect::Repartition(TableId(0)), Effect::Refill(TableId(1)), Effect::Refresh(TableId(1))]);
    assert_eq!(
        refusal(&[table("T"), view("V", 0, &[2]), partition("V", "C0")]),
        "V is a view, which is partitioned as its table is"
    );
}

#[test]
fn a_view_aggregates_and_shows_its_groups() {
    let message = "Materialized view \"BAD\" must have non-group by columns aggregated by sum, count, min or max.";
    let with_aggregates = |aggregates: Vec<Aggregate>| {
        let definition = View { aggregates, ..view_of(0, &[2]) };
        [table("T"), create_view("BAD", definition)]
    };
    let of_num = |kind, distinct| Aggregate { kind, distinct, argument: Some(Expr::column(0, 2)), ..count() };
    refused(&with_aggregates(vec![]), message);
    refused(&with_aggregates(vec![of_num(AggregateKind::Average, false)]), message);
    refused(&with_aggregates(vec![of_num(AggregateKind::Count, true)]), message);
    applied(&with_aggregates(vec![of_num(AggregateKind::Max, false)]));

    let hidden = View { outputs: vec![ViewOutput::Aggregate(0)], ..view_of(0, &[2]) };
    refused(
        &[table("T"), create_view("V", hidden)],
        "Materialized view \"V\" must have all its GROUP BY expressions in the SELECT list",
    );
    let missing = View { outputs: vec![ViewOutput::Group(0), ViewOutput::Aggregate(1)], ..view_of(0, &[2]) };
    assert!(refusal(&[table("T"), create_view("V", missing)]).contains("names 2 columns for 2 results"));
    let now = Expr::Call { function: Function::Now, arguments: Box::new([]) };
    let timed = View { filter: Some(now), ..view_of(0, &[2]) };
    assert!(refusal(&[table("T"), create_view("V", timed)]).starts_with("the definition of the view V depends on NOW"));
    refused(&[create_view("V", view_of(7, &[2]))], "object not found: table 7");
    refused(
        &[table("T"), view("V", 0, &[2]), view("W", 1, &[0])],
        "Materialized view \"W\" cannot be defined over the view V",
    );
}

#[test]
fn a_view_joins_replicated_tables() {
    let joined = |tables: &[u32]| View {
        joins: tables.iter().map(|table| (TableId(*table), None)).collect(),
        ..view_of(0, &[2])
    };
    let (catalog, effects) = applied(&[table("T"), table("U"), partition("T", "ID"), create_view("V", joined(&[1]))]);
    assert_eq!(effects, [Effect::CreateTable(TableId(2)), Effect::Refresh(TableId(0)), Effect::Refresh(TableId(1))]);
    assert_eq!(catalog.table_named("U").unwrap().dependent_views, [TableId(2)]);
    let refused_for = |changes: &[Change], reason: &str| {
        refused(
            changes,
            &format!(
                "Materialized view \"V\" can join replicated tables, and partitioned ones on their partitioning columns, each once: {reason}"
            ),
        );
    };
    refused_for(
        &[table("T"), table("U"), partition("U", "ID"), create_view("V", joined(&[1]))],
        "U is partitioned, and not joined on its partitioning column",
    );
    refused_for(&[table("T"), stream("S", None), create_view("V", joined(&[1]))], "S is a stream");
    refused_for(&[table("T"), view("W", 0, &[2]), create_view("V", joined(&[1]))], "W is a view");
    refused_for(&[table("T"), create_view("V", joined(&[0]))], "T is there twice");
    refused(
        &[table("T"), table("U"), create_view("V", joined(&[1])), partition("U", "ID")],
        "U is joined in the view V, which was made for it as it is",
    );
}

#[test]
fn what_others_depend_on_is_dropped_with_cascade_only() {
    let (catalog, effects) = applied(&[table("T"), drop_table("T")]);
    assert_eq!(effects, [Effect::DropTable(TableId(0))]);
    assert!(catalog.tables.is_empty() && catalog.table(TableId(0)).is_none());
    refused(&[drop_table("NOSUCH")], "object not found: NOSUCH");
    assert_eq!(applied(&[drop_kind("NOSUCH", TableKind::Table, true, false)]).1, []);

    let dependents = || {
        vec![
            table("T"),
            partition("T", "ID"),
            view("V", 0, &[2]),
            view("W", 0, &[0]),
            create_procedure(procedure("Get", Some((0, 0, 0)))),
            create_procedure(procedure("Other", None)),
        ]
    };
    let and_then = |change: Change| [dependents(), vec![change]].concat();
    refused(&and_then(drop_table("T")), "dependent objects exist: view V, view W, procedure Get");
    let (catalog, effects) = applied(&and_then(drop_kind("T", TableKind::Table, false, true)));
    assert_eq!(effects, [1, 2, 0].map(|table| Effect::DropTable(TableId(table))));
    assert!(catalog.tables.is_empty());
    assert!(catalog.procedure_named("GET").is_none() && catalog.procedure_named("other").is_some());

    let (catalog, effects) = applied(&and_then(drop_kind("V", TableKind::View, false, false)));
    assert_eq!(effects, [Effect::DropTable(TableId(1)), Effect::Refresh(TableId(0))]);
    assert_eq!(catalog.table_named("T").unwrap().dependent_views, [TableId(2)]);
    refused(&and_then(drop_table("V")), "V is a view");
    refused(&[table("T"), drop_kind("T", TableKind::View, false, false)], "T is a table");
    refused(&[stream("S", None), drop_table("S")], "S is a stream");
    applied(&[stream("S", None), drop_kind("S", TableKind::Stream, false, false)]);
}

#[test]
fn streams_keep_no_rows() {
    let Change::CreateTable { name, columns, .. } = stream("S", None) else { unreachable!() };
    let keyed = Change::CreateTable {
        name,
        columns,
        indexes: vec![key(&[0])],
        primary_key: Some(0),
        checks: Vec::new(),
        stream: true,
        partition_column: None,
    };
    refused(&[keyed], "the stream S keeps no rows and cannot have keys or other constraints");
}
