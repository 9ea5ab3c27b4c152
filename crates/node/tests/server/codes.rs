//! The code of every kind of failure reaches the client: of procedures, of ad hoc statements, on
//! one partition and on all.

use crate::common::{self, connect, options};
use ferrite_client::{ClientError, OwnedValue};

#[path = "../../../client/examples/accounts.rs"]
mod accounts;

const SCHEMA: &str = "
    CREATE TABLE t (id BIGINT NOT NULL, small TINYINT, name VARCHAR(3), PRIMARY KEY (id));
    PARTITION TABLE t ON COLUMN id;
    CREATE PROCEDURE signals (id BIGINT) AS BEGIN SIGNAL SQLSTATE '45007'; END;
    CREATE PROCEDURE signals_everywhere AS BEGIN SIGNAL SQLSTATE '57014'; END;
    CREATE PROCEDURE divide AS SELECT 1 / (COUNT(*) - ?) FROM t;";

#[test]
fn every_kind_of_failure_has_its_code() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = common::start(options(dir.path(), 2));
    let client = connect(&server).0;
    client.execute(SCHEMA, ()).wait().expect("a schema");
    client.execute("INSERT INTO t VALUES (1, 1, 'a')", ()).wait().expect("a row");
    let sql = [
        ("SELEC 1", "42601"),
        ("SELECT * FROM nothing", "42P01"),
        ("SELECT nothing FROM t", "42703"),
        ("SELECT NOTHING(id) FROM t", "42883"),
        ("DROP TABLE nothing", "42P01"),
        ("DROP PROCEDURE nothing", "42883"),
        ("ALTER TABLE t DROP COLUMN nothing", "42703"),
        ("CREATE TABLE t (id BIGINT)", "42710"),
        ("INSERT INTO t VALUES (1, 1, 'a')", "23505"),
        ("INSERT INTO t VALUES (NULL, 1, 'a')", "23502"),
        ("INSERT INTO t VALUES (2, 1000, 'a')", "22003"),
        ("INSERT INTO t VALUES (2, 1, 'abcd')", "22001"),
        ("INSERT INTO t VALUES (2, 1, 'b'); INSERT INTO t VALUES (2, 1, 'b')", "23505"),
        ("UPDATE t SET id = id + 1", "0A000"),
        ("SELECT 1 / (COUNT(*) - 1) FROM t", "22012"),
        ("SELECT (SELECT id FROM t UNION ALL SELECT id FROM t) FROM t", "21000"),
    ];
    for (text, code) in sql {
        let error = client.execute(text, ()).wait().expect_err(text);
        assert_eq!(error.code(), code, "{text}: {error}");
        assert!(!error.is_not_sent() && !error.is_outcome_unknown() && error.response().is_some(), "{text}: {error:?}");
    }
    let none: [OwnedValue; 0] = [];
    let one: [OwnedValue; 1] = [OwnedValue::Integer(1)];
    let calls = [
        ("nothing", &one[..], "42883"),
        ("divide", &one, "22012"),
        ("divide", &none, "07001"),
        ("T.insert", &[OwnedValue::Text("x".into()), OwnedValue::Null, OwnedValue::Null], "07006"),
        ("signals", &one, "45007"),
        // A code of the server's own does not make it one of its errors.
        ("signals_everywhere", &none, "57014"),
        ("@Statistics", &none, "07001"),
        ("@AdHoc", &[OwnedValue::Text("SELECT 1 FROM t".into()), OwnedValue::Integer(5)], "07001"),
        ("@AdHoc", &[OwnedValue::Text("SELECT ? FROM t".into())], "07001"),
        ("@SystemCatalog", &[OwnedValue::Text("nothing".into())], "22023"),
    ];
    for (procedure, parameters, code) in calls {
        let error = client.call(procedure, parameters).wait().expect_err(procedure);
        assert_eq!(error.code(), code, "{procedure}: {error}");
    }
    assert!(matches!(client.call("signals", one).wait(), Err(ClientError::Failed(answer)) if answer.status_code == -1));
    // What is wrong with the parameters of a query shows before anything is sent.
    let query = client.query("SELECT id, name FROM t WHERE id = ? OR name = ?", (1, "b")).wait().expect("rows");
    assert_eq!(query.first().map(|row| row.get::<&str>("name")), Some(Ok("a")));
    assert_eq!(client.query("SELECT 1 FROM t", vec![0i8; 40_000]).wait().expect_err("too many").code(), "54000");
    drop(client);
}

#[test]
fn the_example_of_the_rust_driver() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = common::start(options(dir.path(), 2));
    let report = accounts::run(&server.address().to_string()).expect("the example runs");
    let accounts = [("Cid", 70), ("Bob", 50), ("Ann", 30)].map(|(name, balance)| (name.to_owned(), balance)).to_vec();
    assert_eq!(report, accounts::AccountsReport { accounts, refused: "45001".to_owned(), twice: "23505".to_owned() });
}
