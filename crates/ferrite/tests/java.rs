//! A server process with a JVM in it, where there is a JDK.

mod common;

use common::Server;
use ferrite_client::Status;
use ferrite_value::OwnedValue;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A jar with one function. None: there is no JDK.
fn function(folder: &Path) -> Option<Vec<u8>> {
    let source = folder.join("Twice.java");
    fs::write(&source, "public class Twice { public long of(long number) { return 2 * number; } }").expect("a file");
    let javac = Command::new("javac").args(["--release", "17", "-d"]).arg(folder).arg(&source).status().ok()?;
    assert!(javac.success());
    let (jar, mut pack) = (folder.join("twice.jar"), Command::new("jar"));
    pack.args(["--create", "--file"]).arg(&jar).arg("-C").arg(folder).arg("Twice.class");
    assert!(pack.status().expect("a JDK has jar").success());
    Some(fs::read(jar).expect("a jar"))
}

#[test]
fn a_jvm_starts_though_the_working_directory_is_gone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(jar) = function(dir.path()) else { return };
    let folder = dir.path().join("working");
    fs::create_dir(&folder).expect("a folder");
    let server = Server::start_in(&folder, &dir.path().join("data"), &[]);
    fs::remove_dir(&folder).expect("it is empty");
    let db = server.connect();
    db.call("@UpdateClasses", (OwnedValue::Bytes(jar.into()), OwnedValue::Null));
    db.sql("CREATE FUNCTION twice FROM METHOD Twice.of");
    db.sql("CREATE TABLE t (a BIGINT)");
    db.sql("INSERT INTO t VALUES (21)");
    assert_eq!(db.scalar("SELECT twice(a) FROM t"), 42);
    server.stop();
}

#[test]
fn classes_and_schema_of_a_new_database_come_together() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(_) = function(dir.path()) else { return };
    let path = |name: &str| dir.path().join(name).to_str().expect("a plain path").to_owned();
    fs::write(path("ddl.sql"), "CREATE TABLE t (a BIGINT);\nCREATE FUNCTION twice FROM METHOD Twice.of;")
        .expect("a file");
    let options = ["--classes", &path("twice.jar"), "--schema", &path("ddl.sql")];
    let server = Server::start(&dir.path().join("data"), &options);
    let db = server.connect();
    db.sql("INSERT INTO t VALUES (4)");
    assert_eq!(db.scalar("SELECT twice(a) FROM t"), 8);
    db.sql_fails("SELECT thrice(a) FROM t", Status::GracefulFailure, "THRICE");
    server.stop();
    let server = Server::start(&dir.path().join("data"), &[]);
    assert_eq!(server.connect().scalar("SELECT twice(a) FROM t"), 8);
    server.stop();
    for (jar, words) in [("none.jar", "cannot read the jar file"), ("ddl.sql", "not a jar file")] {
        let refused = Server::try_start(&dir.path().join("other"), &["--classes", &path(jar)]).err().expect(words);
        assert!(refused.contains(words) && refused.contains(jar), "{refused}");
    }
}
