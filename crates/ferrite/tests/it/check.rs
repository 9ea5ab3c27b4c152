//! `ferrite check`: everything that is wrong, in one go.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn check(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite"));
    command.current_dir(dir).arg("check").args(arguments).output().expect("the program under test can be started")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is text")
}

/// Each finding: its line, what it is, and whether its message has these words.
fn findings(output: &Output) -> Vec<(u64, String, String)> {
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let of = |finding: &Value| {
        let word = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        (finding["line"].as_u64().unwrap_or_default(), word("severity"), word("message"))
    };
    found["findings"].as_array().expect("a list").iter().map(of).collect()
}

const SCHEMA: &str = "CREATE TABLE good (id INTEGER NOT NULL, name VARCHAR(10), PRIMARY KEY (id));
PARTITION TABLE good ON COLUMN id;
CREATE TABLE bad (id INTEGER NOT NULL,
  shape POLYGON);
CREATE INDEX on_bad ON bad (id);
CREATE VIEW of_bad AS SELECT id, COUNT(*) FROM bad GROUP BY id;
CREATE PROCEDURE reads_bad AS SELECT * FROM bad WHERE id = ?;
CREATE PROCEDURE wrong AS
  SELECT nme FROM good WHERE id = ?;
CREATE STREAM clicks EXPORT TO TARGET somewhere (id INTEGER);
CREATE TABEL typo (id INTEGER);
CREATE PROCEDURE fine PARTITION ON TABLE good COLUMN id AS BEGIN
  DELETE FROM good WHERE id = ?;
  SELECT COUNT(*) FROM good;
END;
CREATE PROCEDURE of_class FROM CLASS app.Missing;
ALTER TABLE good ADD COLUMN late CIRCLE;
CREATE INDEX on_late ON good (late);
CREATE TASK t FROM CLASS app.Scheduler;
CREATE TASK short ON SCHEDULE EVERY 1 SECONDS PROCEDURE fine;
CREATE TASK right ON SCHEDULE EVERY 1 SECONDS PROCEDURE fine WITH (1);
CREATE ROLE ops WITH ADMIN;
CREATE PROCEDURE guarded ALLOW ops AS SELECT COUNT(*) FROM good;
CREATE TABLE kept (id BIGINT NOT NULL PRIMARY KEY, d TIMESTAMP NOT NULL) USING TTL 1 HOURS ON COLUMN d;
CREATE TABLE slow (id BIGINT NOT NULL PRIMARY KEY, d TIMESTAMP NOT NULL) USING TTL 1 HOURS ON COLUMN d;
CREATE INDEX on_kept ON kept (d);
";

#[test]
fn all_problems_are_told_at_once_and_consequences_are_no_problems() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("ddl.sql"), SCHEMA).expect("a file");
    let output = check(dir.path(), &["ddl.sql", "--json", "--no-java"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = [
        (4, "refused", "POLYGON"),
        (5, "not judged", "it needs BAD, which was refused (ddl.sql:3)"),
        (6, "not judged", "it needs BAD"),
        (7, "not judged", "it needs BAD"),
        (9, "refused", "NME"),
        (10, "warning", "CLICKS"),
        (11, "refused", "TABEL"),
        (16, "refused", "class app.Missing has not been loaded"),
        (17, "refused", "CIRCLE"),
        (18, "not judged", "it needs LATE, which was refused (ddl.sql:17)"),
        (19, "refused", "a task FROM CLASS is not supported"),
        (22, "warning", "role OPS"),
        (23, "warning", "procedure guarded: ALLOW OPS"),
        (20, "refused", "task SHORT:"),
        (25, "warning", "table SLOW"),
    ];
    let found = findings(&output);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((line, severity, message), (at, what, words)) in found.iter().zip(expected) {
        assert_eq!((*line, severity.as_str()), (at, what), "{message}");
        assert!(message.to_uppercase().contains(&words.to_uppercase()), "{message}: {words}");
    }
    let said = text(&check(dir.path(), &["ddl.sql", "--no-java"]));
    assert!(said.contains("ddl.sql:5:1: not judged: it needs BAD"), "{said}");
    assert!(said.ends_with("21 statements and 0 classes: 7 refused, 4 not judged, 4 warnings\n"), "{said}");
}

/// Scripts of the original's shell are schemas, too.
#[test]
fn scripts_with_batches_files_and_commands_are_followed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("more.sql"), "CREATE TABLE inner (id INTEGER);\nCREATE TABLE wrong (id NUMBR);\n")
        .expect("a file");
    let script = "-- a script
load classes app.jar;
file -inlinebatch END_OF_BATCH
CREATE TABLE t (id INTEGER NOT NULL);
CREATE TABLE u (id INTEGR);
END_OF_BATCH
echo done
file more.sql;
exec T.insert 1;
INSERT INTO t VALUES (1);
SELECT nothing FROM t;
";
    fs::write(dir.path().join("all.sql"), script).expect("a file");
    let output = check(dir.path(), &["all.sql", "--no-java"]);
    let said = text(&output);
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with(' ')).collect();
    for (line, begins) in lines.iter().zip([
        "all.sql:2:1: warning: there is no file app.jar",
        "all.sql:5:20: refused:",
        "more.sql:2:24: refused:",
        "all.sql:11:8: refused:",
        "all.sql:10:1: warning: --schema accepts DDL only",
        "6 statements and 0 classes: 3 refused, 0 not judged, 2 warnings",
    ]) {
        assert!(line.starts_with(begins), "{begins}: {said}");
    }
    assert_eq!(lines.len(), 6, "{said}");
    fs::write(dir.path().join("good.sql"), "CREATE TABLE t (id INTEGER);").expect("a file");
    assert_eq!(check(dir.path(), &["good.sql"]).status.code(), Some(0));
    assert_eq!(check(dir.path(), &["none.sql"]).status.code(), Some(2));
    assert_eq!(check(dir.path(), &["good.sql", "none.jar"]).status.code(), Some(2));
    fs::write(dir.path().join("no.jar"), "no jar").expect("a file");
    let output = check(dir.path(), &["good.sql", "no.jar"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).starts_with("no.jar: refused: the classes are not a jar file"), "{}", text(&output));
}

const PROCEDURES: [(&str, &str); 7] = [
    (
        "Vote",
        "public class Vote extends org.voltdb.VoltProcedure {
            public final org.voltdb.SQLStmt good = new org.voltdb.SQLStmt(\"SELECT id FROM t WHERE id = ?\");
            public final org.voltdb.SQLStmt first = new org.voltdb.SQLStmt(\"SELECT idd FROM t\");
            public final org.voltdb.SQLStmt second = new org.voltdb.SQLStmt(\"SELECT * FROM lost\");
            public final org.voltdb.SQLStmt third = new org.voltdb.SQLStmt(\"SELEC 1\");
            public long run(long id) { return org.voltdb.utils.Inner.now(); }
        }",
    ),
    ("Fine", "public class Fine extends org.voltdb.VoltProcedure { public long run() { return 1; } }"),
    (
        "Calls",
        "public class Calls extends org.voltdb.VoltProcedure {
            public final org.voltdb.SQLStmt it = new org.voltdb.SQLStmt(\"SELECT twice(id) FROM t\");
            public long run() { return 1; }
        }",
    ),
    ("Sums", "public class Sums { public long twice(long a) { return a + a; } }"),
    // What it calls is in its superclass, as a later version of the API has it.
    (
        "Pay",
        "public class Pay extends org.voltdb.VoltCompoundProcedure implements java.io.Serializable {
            public long run() {
                completeProcedure(1L);
                completeProcedure(1.5);
                completeProcedure((Long) null);
                return 0;
            }
        }",
    ),
    (
        "org/voltdb/VoltCompoundProcedure",
        "package org.voltdb; public abstract class VoltCompoundProcedure extends VoltNonTransactionalProcedure {
            public void completeProcedure(long result) {}
            public void completeProcedure(double result) {}
            public void completeProcedure(Long result) {}
        }",
    ),
    // Not in the jar.
    (
        "org/voltdb/utils/Inner",
        "package org.voltdb.utils; public class Inner { public static long now() { return 1; } }",
    ),
];

/// Where there is a JDK, the SQL in classes is looked at, too. They are compiled against the API's
/// sources.
#[test]
fn the_sql_in_classes_and_what_they_lack_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| dir.path().join(name);
    let api = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/java/procedure-api/src/main/java");
    let mut javac = Command::new("javac");
    javac.args(["--release", "17", "-nowarn", "-sourcepath", api, "-d"]).arg(path("classes"));
    for (name, source) in PROCEDURES {
        let file = path("sources").join(format!("{name}.java"));
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(&file, source).expect("a file");
        javac.arg(file);
    }
    let Ok(compiled) = javac.output() else { return };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let classes = path("classes");
    let mut jar = Command::new("jar");
    jar.args(["--create", "--file"]).arg(path("app.jar")).arg("-C").arg(classes).args(["Vote.class"]);
    for class in ["Fine.class", "Calls.class", "Sums.class", "Pay.class"] {
        jar.arg("-C").arg(path("classes")).arg(class);
    }
    assert!(jar.status().expect("a JDK has jar").success());
    let schema = "CREATE TABLE t (id INTEGER NOT NULL, PRIMARY KEY (id));
        CREATE TABLE lost (id INTEGR);
        CREATE PROCEDURE FROM CLASS Vote;
        CREATE PROCEDURE FROM CLASS Fine;
        CREATE FUNCTION reverse FROM METHOD Sums.twice;";
    fs::write(path("ddl.sql"), schema).expect("a file");
    let output = check(dir.path(), &["ddl.sql", "app.jar", "--json"]);
    let found = findings(&output);
    let expected = [
        (2, "refused", "INTEGR"),
        (3, "refused", "field first of class Vote"),
        (3, "not judged", "it needs LOST"),
        (3, "refused", "field third of class Vote"),
        (5, "warning", "function REVERSE hides SQL's function of that name"),
        (
            0,
            "warning",
            "class Pay refers to org.voltdb.VoltCompoundProcedure.completeProcedure(double), which is not here",
        ),
        (0, "warning", "class Vote refers to org.voltdb.utils.Inner, which is not here: put a class of that name"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((line, severity, message), (at, what, words)) in found.iter().zip(expected) {
        assert_eq!((*line, severity.as_str()), (at, what), "{message}");
        assert!(message.contains(words), "{message}: {words}");
    }
    let without = findings(&check(dir.path(), &["ddl.sql", "app.jar", "--json", "--no-java"]));
    assert_eq!(without.len(), 4, "{without:#?}");

    // In a batch the function may come after the procedure whose statement calls it, as on a
    // server.
    let (table, function) = ("CREATE TABLE t (id INTEGER NOT NULL);", "CREATE FUNCTION twice FROM METHOD Sums.twice;");
    let procedures = "CREATE PROCEDURE FROM CLASS Calls;\nCREATE PROCEDURE FROM CLASS Vote;";
    fs::write(path("parts.sql"), format!("{procedures}\n{function}\n")).expect("a file");
    let inline = format!("{table}\nfile -inlinebatch END\n{procedures}\n{function}\nEND\n");
    let of_file = format!("{table}\nfile -batch parts.sql\n");
    for (script, vote) in [(inline, 4), (of_file, 2)] {
        fs::write(path("batch.sql"), script).expect("a file");
        let found = findings(&check(dir.path(), &["batch.sql", "app.jar", "--json"]));
        let refused: Vec<u64> = found.iter().filter(|found| found.1 == "refused").map(|found| found.0).collect();
        assert_eq!(refused, [vote; 3], "{found:#?}");
    }
    fs::write(path("alone.sql"), format!("{table}\n{procedures}\n{function}\n")).expect("a file");
    let found = findings(&check(dir.path(), &["alone.sql", "app.jar", "--json"]));
    assert!(found[0].2.contains("field it of class Calls"), "{found:#?}");
}

#[test]
fn views_that_are_computed_when_read_are_warned_of_and_judged_at_the_end() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let schema = "CREATE TABLE good (id INTEGER NOT NULL, name VARCHAR(10), PRIMARY KEY (id));
CREATE VIEW names AS SELECT DISTINCT name FROM good;
CREATE VIEW ids AS SELECT id FROM good;
CREATE MATERIALIZED VIEW kept AS SELECT id FROM good;
ALTER TABLE good DROP COLUMN name;
";
    fs::write(dir.path().join("ddl.sql"), schema).expect("a file");
    let output = check(dir.path(), &["ddl.sql", "--json", "--no-java"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = [
        (2, "warning", "view NAMES is computed when it is read: a materialized view must not have DISTINCT"),
        (2, "refused", "view NAMES does not fit what comes after it: object not found: NAME"),
        (3, "warning", "view IDS is computed when it is read"),
        (4, "refused", "must have non-group by columns"),
    ];
    let found = findings(&output);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (line, severity, words) in expected {
        let is_it = |found: &(u64, String, String)| found.0 == line && found.1 == severity && found.2.contains(words);
        assert!(found.iter().any(is_it), "{line} {words}: {found:#?}");
    }
}
