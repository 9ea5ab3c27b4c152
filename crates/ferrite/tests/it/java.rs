//! A server process with a JVM in it, where there is a JDK.

use crate::common::Server;
use crate::events::events;
use ferrite_client::Status;
use ferrite_value::OwnedValue;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

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
    for (jar, words) in [("none.jar", "--classes: cannot read "), ("ddl.sql", "not a jar file")] {
        let refused = Server::try_start(&dir.path().join("other"), &["--classes", &path(jar)]).err().expect(words);
        assert!(refused.contains(words) && refused.contains(jar), "{refused}");
    }
}

/// A jar with a procedure that does what it should not. None: there is no JDK.
fn abuse(folder: &Path) -> Option<Vec<u8>> {
    procedure(folder, "Abuse", include_str!("../common/Abuse.java"))
}

/// A jar with the procedure of that name. None: there is no JDK.
pub(crate) fn procedure(folder: &Path, name: &str, text: &str) -> Option<Vec<u8>> {
    let source = folder.join(format!("{name}.java"));
    fs::write(&source, text).expect("a file");
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/java/procedure-api/src/main/java");
    let mut compile = Command::new("javac");
    compile.args(["--release", "17", "-implicit:none", "-proc:none", "-sourcepath"]).arg(api).arg("-d").arg(folder);
    assert!(compile.arg(&source).status().ok()?.success());
    let (jar, mut pack) = (folder.join("procedure.jar"), Command::new("jar"));
    pack.args(["--create", "--file"]).arg(&jar);
    for entry in fs::read_dir(folder).expect("a folder") {
        let file = entry.expect("a file").file_name().into_string().expect("a plain name");
        if file.starts_with(name) && file.ends_with(".class") {
            pack.arg("-C").arg(folder).arg(file);
        }
    }
    assert!(pack.status().expect("a JDK has jar").success());
    Some(fs::read(jar).expect("a jar"))
}

/// A server with that procedure, and a table for it.
fn abused(dir: &Path, jar: Vec<u8>, options: &[&str]) -> (Server, crate::common::Db) {
    let server = Server::start(&dir.join("data"), options);
    let db = server.connect();
    db.sql("CREATE TABLE t (a BIGINT)");
    db.call("@UpdateClasses", (OwnedValue::Bytes(jar.into()), OwnedValue::Null));
    db.sql("CREATE PROCEDURE FROM CLASS Abuse");
    (server, db)
}

#[test]
fn what_exceptions_say_of_themselves_holds_nobody_up() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(jar) = abuse(dir.path()) else { return };
    let (server, db) = abused(dir.path(), jar, &[]);
    for (what, words) in [
        ("circle", "circle-b"),
        ("thrown by getMessage", "Abuse$Evil"),
        ("endless causes", "endless"),
        ("long chain", "c99999"),
        ("null for a stack", "without a stack"),
        ("abort without words", "rolled back"),
    ] {
        let response = db.fail("Abuse", (what,));
        let said = response.status_text.clone().unwrap_or_default();
        assert!(said.contains(words), "{what}: {said}");
        assert_eq!(db.scalar("SELECT COUNT(*) FROM t"), 0);
    }
    server.stop();
}

#[test]
fn a_call_that_ends_as_another_has_its_code() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = "import java.util.concurrent.CompletableFuture; import org.voltdb.client.ClientResponse;
        public class Passes extends org.voltdb.VoltNonTransactionalProcedure {
            public CompletableFuture<ClientResponse> run(String name, long key) { return callProcedure(name, key); }
        }";
    let Some(jar) = procedure(dir.path(), "Passes", text) else { return };
    let server = Server::start(&dir.path().join("data"), &[]);
    let db = server.connect();
    db.sql("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)");
    db.sql("CREATE PROCEDURE Refuse (a BIGINT) AS BEGIN SIGNAL SQLSTATE '45007' SET MESSAGE_TEXT = 'no'; END");
    db.call("@UpdateClasses", (OwnedValue::Bytes(jar.into()), OwnedValue::Null));
    db.sql("CREATE PROCEDURE FROM CLASS Passes");
    assert_eq!(db.call("Passes", ("T.insert", 1)).code, None);
    for (name, code) in [("T.insert", "23505"), ("Refuse", "45007"), ("Nothing", "42883")] {
        let response = db.fail("Passes", (name, 1));
        assert_eq!(response.code.as_deref(), Some(code), "{response:?}");
    }
    server.stop();
}

#[test]
fn statements_of_another_thread_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(jar) = abuse(dir.path()) else { return };
    let (server, db) = abused(dir.path(), jar, &[]);
    // It fails where any of the other thread's calls is taken, or one of its own goes wrong.
    db.call("Abuse", ("another thread",));
    assert_eq!(db.scalar("SELECT COUNT(*) FROM t"), 2_000);
    server.stop();
}

#[test]
fn what_java_prints_is_not_waited_for() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(jar) = abuse(dir.path()) else { return };
    let (mut server, db) = abused(dir.path(), jar, &[]);
    db.call("Abuse", ("print",));
    let mut stderr = server.take_stderr();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stderr, &mut text).expect("stderr is text");
        text
    });
    server.stop();
    let text = reader.join().expect("the server's log ends");
    assert!(text.lines().any(|line| line.starts_with("printed x")), "lines of Java's stand in the log");
}

#[test]
fn an_exit_of_java_is_an_end_in_good_order() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(jar) = abuse(dir.path()) else { return };
    let options = ["--limit", "stop-seconds=1"];
    let (mut server, _) = abused(dir.path(), jar, &options);
    let log_of = |server: &mut Server, what: Option<&str>| {
        let mut stderr = server.take_stderr();
        let client = server.connect();
        // A log to which nothing came since the last end is as it was then.
        client.sql("INSERT INTO t VALUES (1)");
        let _call = what.map(|what| client.0.call("Abuse", (what,)));
        if what.is_none() {
            server.signal("TERM");
        }
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stderr, &mut text).expect("stderr is text");
        text
    };
    let unclean = "the previous server did not shut down cleanly";
    for (rows, what, words, before) in [
        (1, Some("exit"), "called System.exit: the server stops [java-exit]\n    at Abuse.run(Abuse.java:", false),
        (2, Some("halt"), "Java code, or the JVM, has ended the process", false),
        (3, None, unclean, true),
    ] {
        let text = log_of(&mut server, what);
        assert!(text.contains(words), "{what:?}: {text}");
        assert_eq!(text.contains(unclean), before, "{what:?}: {text}");
        drop(server);
        server = Server::start(&dir.path().join("data"), &options);
        assert_eq!(server.connect().scalar("SELECT COUNT(*) FROM t"), rows);
    }
    server.stop();
}

#[test]
fn code_that_does_not_end_is_an_event() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = ["--query-timeout", "1", "--limit", "compound-seconds=1"];
    let server = Server::start(&dir.path().join("data"), &options);
    let db = server.connect();
    for (name, base, code, words) in [
        ("Spins", "VoltProcedure", "java-call-long", "procedure Spins has run for "),
        ("Stays", "VoltNonTransactionalProcedure", "java-code-remains", "a call of procedure Stays was ended, and"),
    ] {
        let text = format!(
            "public class {name} extends org.voltdb.{base} {{ public long run(String end) {{
                while (!new java.io.File(end).exists()) Thread.onSpinWait();
                return 1; }} }}"
        );
        let folder = dir.path().join(name);
        fs::create_dir(&folder).expect("a folder");
        let Some(jar) = procedure(&folder, name, &text) else { return };
        db.call("@UpdateClasses", (OwnedValue::Bytes(jar.into()), OwnedValue::Null));
        db.sql(&format!("CREATE PROCEDURE FROM CLASS {name}"));
        let end = folder.join("end");
        let _call = db.0.call(name, (end.to_str().expect("a plain path"),));
        let deadline = Instant::now() + Duration::from_secs(120);
        let [_, level, _, message, fields] = loop {
            if let Some(event) = events(&db).into_iter().find(|[_, _, found, ..]| found == code) {
                break event;
            }
            assert!(Instant::now() < deadline, "no event {code}");
            std::thread::yield_now();
        };
        assert!(level == "WARN" && message.starts_with(words), "{level} {message}");
        assert!(fields.contains(&format!("at {name}.run({name}.java:")), "{fields}");
        fs::write(&end, "").expect("a file");
    }
    server.stop();
}

#[test]
fn a_jvm_that_cannot_begin_does_not_end_the_server() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(jar) = abuse(dir.path()) else { return };
    for options in ["-Xmx1m", "-agentlib:nope", "-Xmx99999999g"] {
        let data = dir.path().join(options);
        let server = Server::start(&data, &["--java-options", options]);
        let db = server.connect();
        db.call("@UpdateClasses", (OwnedValue::Bytes(jar.clone().into()), OwnedValue::Null));
        db.sql_fails("CREATE PROCEDURE FROM CLASS Abuse", Status::GracefulFailure, "the JVM cannot be used");
        server.stop();
    }
    // A small heap will do, also for a database that has procedures already.
    let (server, _) = abused(dir.path(), jar, &["--java-options", "-Xmx64m"]);
    server.stop();
    let server = Server::start(&dir.path().join("data"), &["--java-options", "-Xmx48m"]);
    server.connect().call("Abuse", ("nothing",));
    server.stop();
    let server = Server::start(&dir.path().join("data"), &["--java-options", "-Xmx1m"]);
    server.connect().fail("Abuse", ("nothing",));
    server.stop();
}

#[test]
fn procedures_that_cannot_run_here_are_reported_at_the_start() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(jar) = abuse(dir.path()) else { return };
    let (server, _) = abused(dir.path(), jar, &[]);
    server.stop();
    let mut server = Server::start(&dir.path().join("data"), &["--java-options", "-XX:+NoSuchOption"]);
    let said = server.take_stderr();
    server.stop();
    let said = std::io::read_to_string(said).expect("stderr is text");
    assert!(said.contains("ferrite: procedure Abuse cannot run on this node: "), "{said}");
}
