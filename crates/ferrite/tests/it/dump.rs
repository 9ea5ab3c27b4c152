//! What `ferrite dump` writes, `ferrite sql -f` makes again: the same schema and the same values,
//! whatever they hold.

use crate::common::Server;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SCHEMA: &str = "
CREATE TABLE orders (
  id BIGINT NOT NULL, customer VARCHAR(30) DEFAULT 'nobody' NOT NULL, note VARCHAR(200), price DECIMAL, ratio FLOAT,
  at TIMESTAMP DEFAULT NOW, small TINYINT, bin VARBINARY(20), PRIMARY KEY (customer, id)
);
PARTITION TABLE orders ON COLUMN customer;
CREATE INDEX by_price ON orders (price);
CREATE TABLE words (n INTEGER, word VARCHAR(100));
CREATE VIEW per_customer (customer, n, total) AS SELECT customer, COUNT(*), SUM(price) FROM orders GROUP BY customer;
CREATE PROCEDURE one_order PARTITION ON TABLE orders COLUMN customer PARAMETER 0
  AS SELECT * FROM orders WHERE customer = ? AND id = ?;
CREATE PROCEDURE add_word (n INTEGER, word VARCHAR(100)) AS BEGIN
  IF n < 0 THEN RETURN 1; END IF;
  INSERT INTO words VALUES (n, word);
  RETURN 0;
END;
";

/// Values that a careless format would change.
const ROWS: &[&str] = &[
    "INSERT INTO orders VALUES (1, 'a', 'plain', 1.000000000001, 0.1, '2026-01-02 03:04:05.678901', -127, x'00FF')",
    "INSERT INTO orders VALUES (2, 'b''\"', '', -99999999999999999999999999.999999999999, 1e-300, '1583-01-01 00:00:00', NULL, x'')",
    "INSERT INTO orders VALUES (-9223372036854775807, 'c', NULL, NULL, NULL, NULL, 127, NULL)",
    "INSERT INTO orders (id, customer, note) VALUES (3, ' blank ', 'two\nlines, \"quoted\", and \\')",
    "INSERT INTO words VALUES (NULL, NULL)",
    "INSERT INTO words VALUES (1, '\\N')",
    "INSERT INTO words VALUES (2, '# line 1: no comment')",
    "INSERT INTO words VALUES (3, '\\copy words from inline X')",
    "INSERT INTO words VALUES (4, '日本語 NULL')",
];

fn ferrite(server: &Server, words: &[&str], input: Option<&Path>) -> Output {
    let input = input.map_or(Stdio::null(), |path| std::fs::File::open(path).expect("the input").into());
    Command::new(env!("CARGO_BIN_EXE_ferrite"))
        .args(words)
        .env("FERRITE_SERVER", &server.address)
        .stdin(input)
        .output()
        .expect("the program under test can be started")
}

fn text(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("output is text")
}

/// The mark behind the rows is made up anew each time.
fn without_marks(dump: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in dump.lines() {
        match line.find("END_") {
            Some(at) => lines.push(format!("{}END{}", &line[..at], &line[at + 36..])),
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

fn sorted(dump: &str) -> Vec<String> {
    let mut lines: Vec<String> = without_marks(dump).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_dump_makes_the_same_database_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let options = |partitions| ["--partitions", partitions, "--durability", "none"];
    let first = Server::start(&path("first"), &options("1"));
    let db = first.connect();
    db.sql(SCHEMA);
    for row in ROWS {
        db.sql(row);
    }
    let whole = text(ferrite(&first, &["dump"], None));
    // Once as blocks for \copy, once as statements, which other partitions must not change.
    for (name, words, partitions) in [("blocks", vec!["dump"], "1"), ("statements", vec!["dump", "--inserts"], "3")] {
        let file = path(&format!("{name}.sql.gz"));
        let file_name = file.to_str().expect("a plain path").to_owned();
        text(ferrite(&first, &[words, vec!["-o", &file_name]].concat(), None));
        let second = Server::start(&path(name), &options(partitions));
        text(ferrite(&second, &["sql", "-f", &file_name], None));
        let again = text(ferrite(&second, &["dump"], None));
        assert_eq!(sorted(&again), sorted(&whole), "{name}");
        let views = second.connect().scalar("SELECT COUNT(*) FROM per_customer");
        assert_eq!(views, 4, "views fill themselves");
        second.stop();
    }
    let schema = text(ferrite(&first, &["dump", "--schema-only"], None));
    assert!(schema.contains("CREATE TABLE") && !schema.contains("inline"), "{schema}");
    let one = text(ferrite(&first, &["dump", "--data-only", "words"], None));
    assert!(one.contains("\\copy WORDS") && !one.contains("CREATE") && !one.contains("ORDERS"), "{one}");
    let wrong = ferrite(&first, &["dump", "wrods"], None);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean WORDS?"));
    first.stop();
}

#[test]
fn a_table_larger_than_one_answer_is_read_page_by_page() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(&directory.path().join("data"), &["--partitions", "2", "--durability", "none"]);
    let db = server.connect();
    db.sql("CREATE TABLE large (a BIGINT NOT NULL, b INTEGER NOT NULL, text VARCHAR(1000000 BYTES), PRIMARY KEY (a, b)); PARTITION TABLE large ON COLUMN a");
    let long = "x".repeat(900_000);
    for row in 0..70i64 {
        db.call("LARGE.insert", (row / 7, row % 7, long.as_str()));
    }
    let file = directory.path().join("large.sql");
    let file_name = file.to_str().expect("a plain path");
    let output = ferrite(&server, &["dump", "-o", file_name], None);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("page by page"));
    let count = |text: &str| text.lines().filter(|line| line.ends_with(&long)).count();
    assert_eq!(count(&std::fs::read_to_string(&file).expect("the dump")), 70);
    db.sql("DELETE FROM large");
    text(ferrite(&server, &["dump", "--schema-only"], None));
    let data = std::fs::read_to_string(&file).expect("the dump");
    let blocks = data.find("\\copy").expect("rows");
    std::fs::write(&file, &data[blocks..]).expect("the rows alone");
    text(ferrite(&server, &["sql", "-f", "-"], Some(&file)));
    assert_eq!(db.scalar("SELECT COUNT(*) FROM large"), 70);
    server.stop();
}
