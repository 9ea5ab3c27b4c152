//! Tasks on a whole node: called on their schedules, changed, stopped by errors, listed, kept over
//! a restart.

use crate::common::{Db, connect, options, start, wait_for};
use ferrite_client::{OwnedTable, Status};
use ferrite_value::OwnedValue;

const SCHEMA: &str = "CREATE TABLE ticks (task VARCHAR(16) NOT NULL, at TIMESTAMP NOT NULL, number INTEGER);
    PARTITION TABLE ticks ON COLUMN task;
    CREATE TABLE counted (id INTEGER NOT NULL PRIMARY KEY);
    CREATE PROCEDURE Tick PARTITION ON TABLE ticks COLUMN task AS INSERT INTO ticks VALUES (?, NOW, ?);
    CREATE DIRECTED PROCEDURE TickHere AS INSERT INTO counted_here VALUES (?, NOW);
    CREATE PROCEDURE Fail AS INSERT INTO counted VALUES (1);";

fn ticks(db: &Db, task: &str) -> i64 {
    db.scalar(&format!("SELECT COUNT(*) FROM ticks WHERE task = '{task}'"))
}

fn statistics(db: &Db, selector: &str) -> OwnedTable {
    db.call("@Statistics", (selector, 0)).tables.swap_remove(0)
}

fn cells(table: &OwnedTable, task: &str, column: &str) -> Vec<OwnedValue> {
    let at = |name: &str| table.column_index(name).unwrap_or_else(|| panic!("there is no column {name}"));
    let of_task = |row: &&Vec<OwnedValue>| row[at("TASK_NAME")] == OwnedValue::Text(task.into());
    table.rows.iter().filter(of_task).map(|row| row[at(column)].clone()).collect()
}

fn text(words: &str) -> OwnedValue {
    OwnedValue::Text(words.into())
}

#[test]
fn procedures_are_called_on_their_schedules() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), 2));
    let db = connect(&server);
    db.sql(&SCHEMA.replace("counted_here VALUES (?, NOW)", "ticks (task, at) VALUES (?, NOW)"));
    db.sql("CREATE TASK every ON SCHEDULE EVERY 20 MILLISECONDS PROCEDURE Tick WITH ('every', 1) ON ERROR LOG RUN ON DATABASE ENABLE");
    db.sql("CREATE TASK delay ON SCHEDULE DELAY 20 MILLISECONDS PROCEDURE Tick WITH ('delay', NULL)");
    db.sql("CREATE TASK cron ON SCHEDULE CRON * * * * * * PROCEDURE Tick WITH ('cron', -3)");
    db.sql("CREATE TASK off ON SCHEDULE EVERY 1 MILLISECOND PROCEDURE Tick WITH ('off', 1) DISABLE");
    db.sql("CREATE TASK parts ON SCHEDULE EVERY 20 MILLISECONDS PROCEDURE TickHere WITH ('nowhere') ON ERROR IGNORE RUN ON PARTITIONS");
    db.sql("CREATE TASK system ON SCHEDULE EVERY 10 MILLISECONDS PROCEDURE @Ping");
    db.sql("CREATE TASK defaults ON SCHEDULE EVERY 10 MILLISECONDS PROCEDURE TICKS.insert WITH ('default', '2020-01-01 00:00:00', 5)");
    for task in ["every", "delay", "cron", "default"] {
        wait_for(task, || ticks(&db, task) >= 3);
    }
    assert_eq!(ticks(&db, "off"), 0);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM ticks WHERE task = 'cron' AND COALESCE(number, 0) <> -3"), 0);
    let figures = statistics(&db, "TASK");
    assert_eq!(cells(&figures, "OFF", "STATE"), [text("DISABLED")]);
    assert_eq!(cells(&figures, "EVERY", "STATE"), [text("RUNNING")]);
    assert_eq!(cells(&figures, "PARTS", "SCOPE"), [text("PARTITION"), text("PARTITION")]);
    wait_for("calls on both partitions", || {
        let calls = cells(&statistics(&db, "TASK_PROCEDURE"), "PARTS", "PROCEDURE_INVOCATIONS");
        calls.len() == 2 && calls.iter().all(|calls| matches!(calls, OwnedValue::Integer(3..)))
    });
    assert_eq!(cells(&statistics(&db, "TASK_SCHEDULER"), "SYSTEM", "SCHEDULER_STATUS"), [OwnedValue::Null]);

    // While the server is paused nothing is written, and afterwards it goes on.
    db.call("@Pause", ());
    // Then no call of it goes on.
    wait_for("the pause to show", || cells(&statistics(&db, "TASK"), "EVERY", "STATE") == [text("PAUSED")]);
    let before = ticks(&db, "every");
    let scheduled = || match cells(&statistics(&db, "TASK"), "EVERY", "SCHEDULER_INVOCATIONS")[..] {
        [OwnedValue::Integer(count)] => count,
        _ => panic!("a task has one row"),
    };
    let first = scheduled();
    wait_for("times that are passed over", || scheduled() >= first + 3);
    assert_eq!(ticks(&db, "every"), before);
    db.call("@Resume", ());
    wait_for("the task to go on", || ticks(&db, "every") > before);

    db.sql("ALTER TASK every DISABLE");
    wait_for("the disabled task", || cells(&statistics(&db, "TASK"), "EVERY", "STATE") == [text("DISABLED")]);
    db.sql("DROP TASK delay; DROP TASK cron; DROP TASK parts; DROP TASK system; DROP TASK defaults; DROP TASK none IF EXISTS");
    server.stop().expect("the log is whole");

    // They are part of the schema.
    let server = start(options(dir.path(), 2));
    let db = connect(&server);
    let tasks = db.call("@SystemCatalog", ("TASKS",)).tables.swap_remove(0);
    assert_eq!(tasks.rows.len(), 2);
    assert_eq!(cells(&tasks, "EVERY", "ON_ERROR"), [text("LOG")]);
    assert_eq!(cells(&tasks, "EVERY", "SCHEDULE_PARAMETERS"), [text("20 MILLISECONDS")]);
    assert_eq!(cells(&tasks, "EVERY", "ENABLED"), [text("false")]);
    let disabled = ticks(&db, "every");
    db.sql("ALTER TASK off ENABLE");
    wait_for("the enabled task", || ticks(&db, "off") >= 3);
    assert_eq!(ticks(&db, "every"), disabled);
    server.stop().expect("the log is whole");
}

/// On one partition and on two: what is right for one need not be for the other.
#[test]
fn a_task_calls_every_kind_of_procedure_with_its_parameters() {
    for partitions in [1, 2] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let server = start(options(dir.path(), partitions));
        let db = connect(&server);
        db.sql(
            "CREATE TABLE taskp (id INTEGER NOT NULL, ts TIMESTAMP NOT NULL); PARTITION TABLE taskp ON COLUMN id;
             CREATE TABLE taske (id INTEGER NOT NULL); PARTITION TABLE taske ON COLUMN id;
             CREATE TABLE whole (id INTEGER NOT NULL PRIMARY KEY, n INTEGER);
             CREATE PROCEDURE d DIRECTED AS DELETE FROM taskp WHERE ts < DATEADD(SECOND, ?, NOW);
             CREATE PROCEDURE e DIRECTED AS DELETE FROM taske;
             CREATE PROCEDURE all_of_them AS UPDATE taskp SET ts = DATEADD(SECOND, ?, ts) WHERE id > ?;
             CREATE PROCEDURE one PARTITION ON TABLE taskp COLUMN id PARAMETER 1
               AS UPDATE taskp SET ts = DATEADD(SECOND, ?, ts) WHERE id = ?;
             CREATE PROCEDURE replicated AS UPSERT INTO whole VALUES (?, ?)",
        );
        let rows: Vec<String> = (0..40).map(|id| format!("INSERT INTO taskp VALUES ({id}, NOW)")).collect();
        db.sql(&rows.join(";"));
        let rows: Vec<String> = (0..40).map(|id| format!("INSERT INTO taske VALUES ({id})")).collect();
        db.sql(&rows.join(";"));
        // A row each is made old by one task, the others by another; the third sweeps them away on
        // each partition.
        db.sql("CREATE TASK ages ON SCHEDULE DELAY 2 MILLISECONDS PROCEDURE one WITH (-50, 0) ON ERROR LOG");
        db.sql(
            "CREATE TASK ages_all ON SCHEDULE DELAY 2 MILLISECONDS PROCEDURE all_of_them WITH (-50, 0) ON ERROR LOG",
        );
        db.sql("CREATE TASK sweeps ON SCHEDULE DELAY 1 MILLISECONDS PROCEDURE d WITH (-100) ON ERROR LOG RUN ON PARTITIONS");
        db.sql("CREATE TASK empties ON SCHEDULE DELAY 1 MILLISECONDS PROCEDURE e ON ERROR STOP RUN ON PARTITIONS");
        db.sql("CREATE TASK puts ON SCHEDULE DELAY 1 MILLISECONDS PROCEDURE replicated WITH (7, NULL) ON ERROR IGNORE");
        db.sql(
            "CREATE TASK puts_too ON SCHEDULE DELAY 1 MILLISECONDS PROCEDURE whole.upsert WITH (8, -1) ON ERROR STOP",
        );
        db.sql("CREATE TASK asks ON SCHEDULE DELAY 1 MILLISECONDS PROCEDURE @Statistics WITH ('TTL', 0) ON ERROR STOP");
        for (what, query) in [
            ("the old rows to go", "SELECT COUNT(*) FROM taskp"),
            ("all rows to go", "SELECT COUNT(*) FROM taske"),
            ("a row to come", "SELECT 1 - COUNT(*) FROM whole WHERE id = 7 AND n IS NULL"),
            ("another row to come", "SELECT 1 - COUNT(*) FROM whole WHERE id = 8 AND n = -1"),
        ] {
            wait_for(what, || db.scalar(query) == 0);
        }
        for task in ["AGES", "AGES_ALL", "SWEEPS", "EMPTIES", "PUTS", "PUTS_TOO", "ASKS"] {
            let on = if matches!(task, "SWEEPS" | "EMPTIES") { partitions as usize } else { 1 };
            wait_for(task, || {
                let calls = cells(&statistics(&db, "TASK"), task, "PROCEDURE_INVOCATIONS");
                calls.len() == on && calls.iter().all(|calls| matches!(calls, OwnedValue::Integer(3..)))
            });
            let figures = statistics(&db, "TASK");
            assert_eq!(cells(&figures, task, "PROCEDURE_FAILURES"), vec![OwnedValue::Integer(0); on], "{task}");
            assert_eq!(cells(&figures, task, "STATE"), vec![text("RUNNING"); on], "{task}");
        }
        server.stop().expect("the log is whole");
    }
}

#[test]
fn a_task_gives_its_procedure_what_that_takes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), 2));
    let db = connect(&server);
    db.sql(&SCHEMA.replace("counted_here VALUES (?, NOW)", "ticks (task, at) VALUES (?, NOW)"));
    for (statement, words) in [
        ("PROCEDURE TickHere RUN ON PARTITIONS", "PROCEDURE TickHere EXPECTS 1 PARAMS, BUT RECEIVED 0"),
        ("PROCEDURE TickHere WITH ('a', 'b') RUN ON PARTITIONS", "EXPECTS 1 PARAMS, BUT RECEIVED 2"),
        ("PROCEDURE Tick WITH ('a')", "PROCEDURE Tick EXPECTS 2 PARAMS, BUT RECEIVED 1"),
        ("PROCEDURE Tick WITH ('a', 'many')", "TYPE ERROR FOR PARAMETER 1"),
        ("PROCEDURE Fail WITH (1)", "PROCEDURE Fail EXPECTS 0 PARAMS, BUT RECEIVED 1"),
        ("PROCEDURE ticks.insert WITH ('a', NULL)", "EXPECTS 3 PARAMS, BUT RECEIVED 2"),
    ] {
        let statement = format!("CREATE TASK x ON SCHEDULE EVERY 1 HOUR {statement}");
        db.fails("@AdHoc", (statement.as_str(),), Status::GracefulFailure, words);
    }
    // Nor does a change of the schema make one that does not fit.
    db.sql(
        "CREATE TABLE log (line VARCHAR(40)); CREATE TASK x ON SCHEDULE EVERY 1 HOUR PROCEDURE LOG.insert WITH ('a')",
    );
    let widened = "ALTER TABLE log ADD COLUMN more INTEGER";
    db.fails("@AdHoc", (widened,), Status::GracefulFailure, "task X: PROCEDURE LOG.insert EXPECTS 2 PARAMS");
    db.sql(&format!("DROP TASK x; {widened}"));
    server.stop().expect("the log is whole");
}

#[test]
fn constants_of_a_task_keep_all_their_digits() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), 2));
    let db = connect(&server);
    db.sql("CREATE TABLE exact (id INTEGER NOT NULL PRIMARY KEY, f FLOAT, d DECIMAL, r DECIMAL, v VARCHAR(40))");
    let values = "0.9952398693354088, 12345678901234567890.1234567890123, 0.1234567890125, 0.00000000000001230";
    db.sql(&format!(
        "CREATE TASK puts ON SCHEDULE EVERY 5 MILLISECONDS PROCEDURE EXACT.upsert WITH (1, {values}) ON ERROR LOG"
    ));
    db.sql(&format!("INSERT INTO exact VALUES (2, {values})"));
    wait_for("the task's row", || db.scalar("SELECT COUNT(*) FROM exact") == 2);
    let same = "SELECT COUNT(*) FROM exact AS a JOIN exact AS b ON a.f = b.f AND a.d = b.d AND a.r = b.r AND a.v = b.v";
    assert_eq!(db.scalar(same), 4);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM exact WHERE d = 12345678901234567890.123456789012 AND id = 1"), 1);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM exact WHERE r = 0.123456789013 AND f = 0.9952398693354088"), 2);
    server.stop().expect("the log is whole");

    // They are part of the schema.
    let server = start(options(dir.path(), 2));
    let db = connect(&server);
    db.sql("DELETE FROM exact WHERE id = 1");
    wait_for("the task's row", || db.scalar("SELECT COUNT(*) FROM exact") == 2);
    assert_eq!(db.scalar(same), 4);
    server.stop().expect("the log is whole");
}

#[test]
fn errors_stop_a_task_or_do_not() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(options(dir.path(), 1));
    let db = connect(&server);
    db.sql(&SCHEMA.replace("counted_here VALUES (?, NOW)", "ticks (task, at) VALUES (?, NOW)"));
    db.sql("CREATE TASK stops ON SCHEDULE EVERY 5 MILLISECONDS PROCEDURE Fail");
    db.sql("CREATE TASK goes_on ON SCHEDULE DELAY 5 MILLISECONDS PROCEDURE Tick WITH ('a name that is longer than it may be', 1) ON ERROR IGNORE");
    wait_for("the error", || cells(&statistics(&db, "TASK"), "STOPS", "STATE") == [text("ERROR")]);
    let figures = statistics(&db, "TASK");
    let [OwnedValue::Text(why)] = &cells(&figures, "STOPS", "SCHEDULER_STATUS")[..] else { panic!("no reason") };
    assert!(why.contains("CONSTRAINT VIOLATION"), "{why}");
    assert_eq!(cells(&figures, "STOPS", "PROCEDURE_FAILURES"), [OwnedValue::Integer(1)]);
    wait_for("more failures", || {
        matches!(cells(&statistics(&db, "TASK"), "GOES_ON", "PROCEDURE_FAILURES")[..], [OwnedValue::Integer(3..)])
    });
    // What was in the way is gone; the task begins anew.
    db.sql("DELETE FROM counted");
    db.sql("ALTER TASK stops ENABLE");
    wait_for("the task to run again", || db.scalar("SELECT COUNT(*) FROM counted") == 1);

    for (statement, words) in [
        ("CREATE TASK stops ON SCHEDULE EVERY 1 SECOND PROCEDURE Fail", "already exists"),
        ("CREATE TASK x ON SCHEDULE EVERY 1 SECOND PROCEDURE None", "not found: procedure None"),
        ("CREATE TASK x ON SCHEDULE EVERY 1 SECOND PROCEDURE TickHere", "is DIRECTED"),
        ("CREATE TASK x ON SCHEDULE EVERY 1 SECOND PROCEDURE Fail RUN ON PARTITIONS", "is not DIRECTED"),
        ("CREATE TASK x ON SCHEDULE EVERY 0 SECONDS PROCEDURE Fail", "an interval is"),
        ("CREATE TASK x ON SCHEDULE EVERY 1 WEEK PROCEDURE Fail", "MILLISECONDS, SECONDS"),
        ("CREATE TASK x ON SCHEDULE CRON 0 0 PROCEDURE Fail", "six fields"),
        ("CREATE TASK x ON SCHEDULE FROM CLASS a.B PROCEDURE Fail", "not supported"),
        ("CREATE TASK x FROM CLASS a.B", "not supported"),
        ("CREATE TASK x ON SCHEDULE EVERY 1 SECOND PROCEDURE FROM CLASS a.B", "not supported"),
        ("CREATE TASK x PROCEDURE Fail", "ON SCHEDULE"),
        ("ALTER TASK none ENABLE", "not found"),
        ("DROP TASK none", "not found"),
        ("DROP PROCEDURE Fail", "the task STOPS calls Fail"),
    ] {
        db.fails("@AdHoc", (statement,), Status::GracefulFailure, words);
    }
    db.sql("DROP TASK stops; DROP PROCEDURE Fail");
    server.stop().expect("the log is whole");
}
