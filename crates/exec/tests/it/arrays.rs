//! IN with an array parameter: whether elements are looked at one after the other or searched by
//! halves, the answer is that of the same values written out.

use crate::support::{Collected, Database, Lending};
use bumpalo::Bump;
use ferrite_exec::{Call, Scratch};
use ferrite_value::Value;

/// Rows of each query: more than are looked for before an array is put in order.
const ROWS: usize = 400;

fn database() -> Database {
    let mut database = Database::new(1, Lending::All);
    database
        .run("CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, n BIGINT, s VARCHAR(20), f FLOAT, d DECIMAL)")
        .expect("a table");
    let insert = format!(
        "INSERT INTO t SELECT g.n, CASE WHEN MOD(g.n, 7) <> 0 THEN MOD(g.n, 60) END, CASE WHEN MOD(g.n, 9) <> 0 THEN 's' || CAST(MOD(g.n, 50) AS VARCHAR(9)) END, \
         MOD(g.n, 40) / 4.0, MOD(g.n, 40) / 8.0 FROM GENERATE_SERIES(1, {ROWS}) AS g (n)"
    );
    database.run(&insert).expect("rows");
    database
}

fn with_array(database: &mut Database, text: &str, elements: &[Value<'_>]) -> Vec<Vec<String>> {
    let statements = ferrite_sql::parse_batch(text).expect("it parses");
    let program = ferrite_sql::compile_adhoc(&database.catalog, &statements, 1).expect("it compiles");
    let (arena, mut collected) = (Bump::new(), Collected::default());
    let parameters = [Value::Array(elements)];
    let call = Call::new(&program, &parameters, 0, &arena);
    ferrite_exec::run_transaction(&mut database.stores, &call, &mut Scratch::default(), &mut collected).expect(text);
    collected.rows
}

#[test]
fn it_is_what_the_same_values_written_out_are() {
    let mut database = database();
    // Of each column's own type, ascending or not, some twice, with and without NULL.
    let integers = |count: i64| (0..count).map(|n| Value::Integer(n * 37 % 101)).collect::<Vec<_>>();
    let texts: Vec<String> = (0..60).map(|n| format!("s{}", n * 37 % 45)).collect();
    let texts: Vec<Value<'_>> = texts.iter().map(|text| Value::Text(text)).collect();
    let floats: Vec<Value<'_>> = (0..50).map(|n| Value::Float(f64::from(n * 13 % 29) / 4.0)).collect();
    let mut arrays = vec![("s", texts), ("f", floats)];
    // On both sides of the number from which on an array is put in order.
    arrays.extend([0, 1, 15, 16, 17, 100].map(|count| ("n", integers(count))));
    for (column, elements) in arrays {
        for with_null in [false, true] {
            let mut elements = elements.clone();
            if with_null {
                elements.insert(elements.len() / 2, Value::Null);
            }
            for form in ["IN", "NOT IN"] {
                let query = |list: &str| format!("SELECT id FROM t WHERE ({column} {form} {list}) ORDER BY id");
                let list: Vec<String> = elements
                    .iter()
                    .map(|element| match element {
                        Value::Null => "NULL".to_owned(),
                        Value::Text(text) => format!("'{text}'"),
                        other => crate::support::text_of(other),
                    })
                    .collect();
                let what = format!("{column} {form} with {} elements, NULL: {with_null}", elements.len());
                if list.is_empty() {
                    let all = with_array(&mut database, &query("?"), &elements).len();
                    assert_eq!(all, if form == "IN" { 0 } else { ROWS }, "{what}");
                    continue;
                }
                let list = format!("({})", list.join(", "));
                let expected = database.run(&query(&list)).expect("the list").rows;
                assert_eq!(with_array(&mut database, &query("?"), &elements), expected, "{what}");
            }
        }
    }
}
