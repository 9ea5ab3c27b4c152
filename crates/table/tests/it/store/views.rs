//! Views follow their tables and streams.

use super::*;

#[test]
fn views_count_sum_and_know_extremes() {
    let mut schema = Schema::default();
    schema.table(
        "T",
        vec![
            column("G", SqlType::Varchar, 100, true),
            column("N", SqlType::Integer, 0, true),
            column("S", SqlType::Varchar, 200, true),
        ],
        Vec::new(),
    );
    let all = || {
        vec![
            aggregate(AggregateKind::Sum, Some((1, SqlType::Integer))),
            aggregate(AggregateKind::Count, Some((1, SqlType::Integer))),
            aggregate(AggregateKind::Min, Some((1, SqlType::Integer))),
            aggregate(AggregateKind::Max, Some((2, SqlType::Varchar))),
        ]
    };
    let positive = Expr::Compare {
        operator: CompareOperator::Greater,
        left: Box::new(Expr::column(0, 1)),
        right: Box::new(Expr::integer(0)),
    };
    let with_count = |mut list: Vec<_>| {
        list.push(aggregate(AggregateKind::CountRows, None));
        list
    };
    schema.view("V", "T", &[0], with_count(all()));
    schema.filtered_view("POSITIVE", "T", &[0], with_count(all()), Some(positive));
    schema.view("WHOLE", "T", &[], with_count(all()));
    let (v, positive, whole) = (schema.id("V"), schema.id("POSITIVE"), schema.id("WHOLE"));
    let mut store = schema.store();
    assert_eq!(sorted_contents(&store, whole), ["Null, Integer(0), Null, Null, Integer(0)"]);
    let long = "a text that is so long that it does not stay in its row but goes to a page of its own";
    let row = |g, n: Option<i64>, s| [g, n.map_or(Value::Null, Value::Integer), Value::Text(s)];
    store.insert(T, &row(Value::Text("x"), Some(5), "b")).unwrap();
    let longest = store.insert(T, &row(Value::Text("x"), None, long)).unwrap();
    let least = store.insert(T, &row(Value::Text("x"), Some(-3), "c")).unwrap();
    let lonely = store.insert(T, &row(Value::Null, None, "n")).unwrap();
    store.commit();
    store.verify().unwrap();
    assert_eq!(
        sorted_contents(&store, v),
        [
            "Null, Null, Integer(0), Null, Text(\"n\"), Integer(1)",
            "Text(\"x\"), Integer(2), Integer(2), Integer(-3), Text(\"c\"), Integer(3)",
        ]
    );
    assert_eq!(
        sorted_contents(&store, positive),
        ["Text(\"x\"), Integer(5), Integer(1), Integer(5), Text(\"b\"), Integer(1)"]
    );
    assert_eq!(sorted_contents(&store, whole), ["Integer(2), Integer(2), Integer(-3), Text(\"n\"), Integer(4)"]);

    let mark = store.mark();
    store.delete(T, least).unwrap();
    store
        .update(
            T,
            longest,
            &[2],
            &[Value::Text("zz: now the longest of all texts in here, and the greatest one as well")],
        )
        .unwrap();
    store.delete(T, lonely).unwrap();
    assert_eq!(
        sorted_contents(&store, v),
        [
            "Text(\"x\"), Integer(5), Integer(1), Integer(5), Text(\"zz: now the longest of all texts in here, and the greatest one as well\"), Integer(2)",
        ]
    );
    store.verify_uncommitted();
    store.rollback_to(mark);
    store.verify().unwrap();
    assert_eq!(sorted_contents(&store, v).len(), 2);

    let mark = store.mark();
    assert_eq!(store.truncate(T).unwrap(), 4);
    assert_eq!(sorted_contents(&store, v).len(), 0);
    assert_eq!(sorted_contents(&store, whole), ["Null, Integer(0), Null, Null, Integer(0)"]);
    store.insert(T, &row(Value::Text("y"), Some(1), "b")).unwrap();
    store.verify().unwrap();
    store.rollback_to(mark);
    store.verify().unwrap();
    assert_eq!(store.table(T).row_count(), 4);
    store.truncate(T).unwrap();
    store.commit();
    store.verify().unwrap();
}

trait VerifyUncommitted {
    fn verify_uncommitted(&self);
}

impl VerifyUncommitted for Store {
    /// Long values that commit would free are still there, and are all that may be wrong.
    fn verify_uncommitted(&self) {
        if let Err(problem) = self.verify() {
            assert!(problem.contains("long values in rows"), "{problem}");
        }
    }
}

#[test]
fn a_view_of_a_join_follows_all_its_tables() {
    let mut schema = Schema::default();
    schema.table(
        "ORDERS",
        vec![column("ITEM", SqlType::Integer, 0, false), column("COUNT", SqlType::Integer, 0, false)],
        vec![],
    );
    schema.table(
        "ITEMS",
        vec![column("ID", SqlType::Integer, 0, false), column("KIND", SqlType::Varchar, 10, false)],
        vec![],
    );
    let (orders, items) = (schema.id("ORDERS"), schema.id("ITEMS"));
    let condition = Expr::Compare {
        operator: CompareOperator::Equal,
        left: Box::new(Expr::column(0, 0)),
        right: Box::new(Expr::column(1, 0)),
    };
    let aggregates = vec![
        aggregate(AggregateKind::CountRows, None),
        aggregate(AggregateKind::Sum, Some((1, SqlType::Integer))),
        aggregate(AggregateKind::Max, Some((1, SqlType::Integer))),
    ];
    schema.change(Change::CreateView {
        name: "V".into(),
        columns: vec![
            column("KIND", SqlType::Varchar, 10, true),
            column("C", SqlType::Bigint, 0, true),
            column("S", SqlType::Bigint, 0, true),
            column("M", SqlType::Integer, 0, true),
        ],
        view: ferrite_catalog::View {
            source: orders,
            joins: vec![(items, Some(condition))],
            filter: None,
            group_by: vec![Expr::column(1, 1)],
            aggregates,
            outputs: vec![
                ferrite_catalog::ViewOutput::Group(0),
                ferrite_catalog::ViewOutput::Aggregate(0),
                ferrite_catalog::ViewOutput::Aggregate(1),
                ferrite_catalog::ViewOutput::Aggregate(2),
            ],
            text: String::new(),
        },
    });
    let v = schema.id("V");
    let mut store = schema.store();
    let int = Value::Integer;
    let first = store.insert(orders, &[int(1), int(10)]).unwrap();
    store.insert(orders, &[int(1), int(20)]).unwrap();
    store.insert(orders, &[int(2), int(5)]).unwrap();
    assert_eq!(sorted_contents(&store, v).len(), 0);
    let nut = store.insert(items, &[int(1), Value::Text("nut")]).unwrap();
    store.insert(items, &[int(2), Value::Text("bolt")]).unwrap();
    store.commit();
    store.verify().unwrap();
    assert_eq!(
        sorted_contents(&store, v),
        ["Text(\"bolt\"), Integer(1), Integer(5), Integer(5)", "Text(\"nut\"), Integer(2), Integer(30), Integer(20)",]
    );
    let mark = store.mark();
    store.update(items, nut, &[1], &[Value::Text("bolt")]).unwrap();
    store.verify().unwrap();
    assert_eq!(sorted_contents(&store, v), ["Text(\"bolt\"), Integer(3), Integer(35), Integer(20)"]);
    store.delete(orders, first).unwrap();
    store.delete(items, nut).unwrap();
    store.verify().unwrap();
    store.truncate(items).unwrap();
    store.verify().unwrap();
    assert_eq!(sorted_contents(&store, v).len(), 0);
    store.rollback_to(mark);
    store.verify().unwrap();
    assert_eq!(sorted_contents(&store, v).len(), 2);
}

#[test]
fn streams_keep_no_rows_but_feed_views() {
    let mut schema = Schema::default();
    schema.change(Change::CreateTable {
        name: "S".into(),
        columns: vec![column("K", SqlType::Integer, 0, false)],
        indexes: Vec::new(),
        primary_key: None,
        checks: Vec::new(),
        stream: true,
        partition_column: None,
    });
    let mut store = schema.store();
    let effects = schema.view("V", "S", &[0], vec![aggregate(AggregateKind::CountRows, None)]);
    store.apply_effects(Arc::new(schema.catalog.clone()), &effects).unwrap();
    let v = schema.id("V");
    for i in 0..10 {
        store.insert(T, &[Value::Integer(i % 2)]).unwrap();
    }
    assert_eq!(store.table(T).row_count(), 0);
    assert_eq!(sorted_contents(&store, v), ["Integer(0), Integer(5)", "Integer(1), Integer(5)"]);
    let redo = store.redo().to_vec();
    let mut copy = schema.store();
    copy.apply_redo(&redo).unwrap();
    assert_eq!(contents(&copy, v), contents(&store, v));
}
