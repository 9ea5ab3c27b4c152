//! What DECIMAL(p, s) means belongs to the database: it is chosen for a new one, and neither
//! forgotten nor changed by a later start.

use crate::common::{Db, connect, options, start};
use ferrite_node::{DecimalScale, Server, ServerError, ServerOptions};
use ferrite_value::{OwnedValue, text};
use std::path::Path;

fn opened(dir: &Path, decimal_scale: Option<DecimalScale>) -> (Server, Db) {
    let server = start(ServerOptions { decimal_scale, ..options(dir, 2) });
    let db = connect(&server);
    (server, db)
}

fn texts(db: &Db, query: &str) -> Vec<String> {
    db.sql(query).tables[0].rows.iter().flatten().map(|value| text::to_text_string(&value.as_value())).collect()
}

/// Size and digits of the column D, as JDBC's metadata have them.
fn described(db: &Db) -> (OwnedValue, OwnedValue) {
    let table = &db.call("@SystemCatalog", ("COLUMNS",)).tables[0];
    let place = |name: &str| table.column_index(name).expect("a column of JDBC's");
    let is_d = |row: &&Vec<OwnedValue>| row[place("COLUMN_NAME")] == OwnedValue::Text("D".into());
    let row = table.rows.iter().find(is_d).expect("the column D");
    (row[place("COLUMN_SIZE")].clone(), row[place("DECIMAL_DIGITS")].clone())
}

const TABLE: &str = "CREATE TABLE q (id INTEGER NOT NULL PRIMARY KEY, d NUMERIC(10,2))";
const CAST: &str = "SELECT CAST(1.239 AS DECIMAL(10,2)) FROM q LIMIT 1";

#[test]
fn a_new_database_rounds_and_goes_on_so() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = opened(dir.path(), None);
    db.sql(TABLE);
    db.sql("INSERT INTO q VALUES (1, 1.23456)");
    server.stop().expect("the log is closed");
    let refused = Server::start(ServerOptions { decimal_scale: Some(DecimalScale::Ignored), ..options(dir.path(), 2) });
    match refused {
        Err(ServerError::DecimalScale(text)) => assert!(text.contains("are declared in this database"), "{text}"),
        other => panic!("{:?}", other.map(|_| ()).map_err(|error| error.to_string())),
    }
    let (_server, db) = opened(dir.path(), Some(DecimalScale::Declared));
    db.sql("INSERT INTO q VALUES (2, 2.345)");
    assert_eq!(texts(&db, "SELECT d FROM q ORDER BY id"), ["1.230000000000", "2.350000000000"]);
    assert_eq!(texts(&db, CAST), ["1.240000000000"]);
    assert_eq!(described(&db), (OwnedValue::Integer(10), OwnedValue::Integer(2)));
}

#[test]
fn one_that_ignores_declarations_goes_on_so_without_being_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (server, db) = opened(dir.path(), Some(DecimalScale::Ignored));
    let warned = db.sql(TABLE);
    assert!(
        warned.status_text.as_deref().is_some_and(|text| text.contains("DECIMAL(10,2) does not round")),
        "{warned:?}"
    );
    db.sql("INSERT INTO q VALUES (1, 1.23456)");
    server.stop().expect("the log is closed");
    let (_server, db) = opened(dir.path(), None);
    db.sql("INSERT INTO q VALUES (2, 2.345)");
    assert_eq!(texts(&db, "SELECT d FROM q ORDER BY id"), ["1.234560000000", "2.345000000000"]);
    assert_eq!(texts(&db, CAST), ["1.239000000000"]);
    assert_eq!(described(&db), (OwnedValue::Integer(38), OwnedValue::Integer(12)));
    // A dump of it says so.
    let schema = db.call("@ExplainCatalog", ());
    assert!(format!("{:?}", schema.tables[0].rows).contains("SET DECIMAL_SCALE IGNORED"));
}
