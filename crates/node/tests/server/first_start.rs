//! What a new database is given when it starts: jars and a schema, all or nothing; and which jars
//! are taken at all.

use crate::common::{connect, options, start};
use crate::jar;
use ferrite_base::limits::CLASS_UNPACKED_BYTES_MAX;
use ferrite_client::Status;
use ferrite_node::{Server, ServerOptions};
use ferrite_value::OwnedValue;
use std::io::{Read, repeat};
use std::path::Path;

fn with(dir: &Path, jars: &[Vec<u8>], schema: Option<&str>) -> ServerOptions {
    ServerOptions { classes: jars.to_vec(), schema: schema.map(str::to_owned), ..options(dir, 2) }
}

fn classes(server: &Server) -> Vec<String> {
    let listed = connect(server).call("@SystemCatalog", ("CLASSES",)).tables.swap_remove(0);
    let column = listed.column_index("CLASS_NAME").expect("a column of the answer");
    let text = |row: &Vec<OwnedValue>| match &row[column] {
        OwnedValue::Text(name) => name.to_string(),
        other => panic!("{other:?}"),
    };
    listed.rows.iter().map(text).collect()
}

#[test]
fn classes_come_before_the_schema_and_come_back() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let jars = [jar::jar(&["a/One.class"]), jar::jar(&["a/Two.class", "a/One.class"])];
    let server = start(with(dir.path(), &jars, Some("CREATE TABLE t (a INTEGER);")));
    assert_eq!(classes(&server), ["a.One", "a.Two"]);
    connect(&server).sql("INSERT INTO t VALUES (1)");
    server.stop().expect("the log is closed");
    // They are the new database's only.
    let server = start(with(dir.path(), &[jar::jar(&["b/Other.class"])], None));
    assert_eq!(classes(&server), ["a.One", "a.Two"]);
    assert_eq!(connect(&server).scalar("SELECT COUNT(*) FROM t"), 1);
    server.stop().expect("the log is closed");
}

#[test]
fn all_of_it_or_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let jars = [jar::jar(&["a/One.class"])];
    for (jars, schema, words) in [
        (
            &jars[..],
            "CREATE TABLE t (a INTEGER);\nCREATE VIEW v AS SELECT b, COUNT(*) FROM t GROUP BY b;",
            "line 2, column",
        ),
        (&jars[..], "CREATE PROCEDURE FROM CLASS a.Missing;", "a.Missing"),
        (&[b"no jar".to_vec()][..], "CREATE TABLE t (a INTEGER);", "not a jar"),
        (&[bomb(CLASS_UNPACKED_BYTES_MAX + 1)][..], "CREATE TABLE t (a INTEGER);", "33554433 bytes unpacked"),
    ] {
        let error = Server::start(with(dir.path(), jars, Some(schema))).err().expect(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    let server = start(with(dir.path(), &jars, Some("CREATE TABLE t (a INTEGER);")));
    assert_eq!(classes(&server), ["a.One"]);
    server.stop().expect("the log is closed");
}

/// A jar with one file of so many zeros.
fn bomb(bytes: usize) -> Vec<u8> {
    let mut packed = flate2::read::DeflateEncoder::new(repeat(0).take(bytes as u64), flate2::Compression::fast());
    let mut data = Vec::new();
    packed.read_to_end(&mut data).expect("memory can be written");
    let name = b"big.bin";
    let mut fixed = vec![20, 0, 0, 0, 8, 0, 0, 0, 0, 0];
    for word in [0, data.len() as u32, bytes as u32] {
        fixed.extend_from_slice(&word.to_le_bytes());
    }
    fixed.extend_from_slice(&[name.len() as u8, 0, 0, 0]);
    let mut out = [&b"PK\x03\x04"[..], &fixed, name, &data].concat();
    let at = out.len() as u32;
    let directory = [&b"PK\x01\x02\x14\x00"[..], &fixed, &[0; 10], &[0; 4], name].concat();
    out.extend_from_slice(&directory);
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    out.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    out.extend_from_slice(&at.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out
}

#[test]
fn a_jar_that_unpacks_to_more_than_it_may_is_refused_before_it_is_logged() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), 1));
    let db = connect(&server);
    let load = |jar: Vec<u8>| (OwnedValue::Bytes(jar.into()), OwnedValue::Null);
    let large = bomb(1_500_000_000);
    assert!(large.len() < 10_000_000);
    db.fails(
        "@UpdateClasses",
        load(large),
        Status::GracefulFailure,
        "big.bin has 1500000000 bytes unpacked; the most is",
    );
    db.call("@UpdateClasses", load(bomb(CLASS_UNPACKED_BYTES_MAX)));
    server.stop().expect("the log is closed");
}
