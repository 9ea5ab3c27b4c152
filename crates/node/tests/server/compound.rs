//! Procedures outside of transactions on a whole node, with classes in Rust in the place of a JVM:
//! what a call may rely on, and how it ends.

use crate::common::raw::Raw;
use crate::common::{Db, connect, connect_admin, options, start, synced_on, wait_for};
use crate::script::{begun, open};
use ferrite_base::Settings;
use ferrite_client::{OwnedResponse, OwnedTable, Status};
use ferrite_io::simulated::SimulatedDisk;
use ferrite_node::{Server, ServerOptions};
use ferrite_value::OwnedValue;
use tempfile::TempDir;

const SCHEMA: &str = "CREATE TABLE t (id BIGINT NOT NULL, PRIMARY KEY (id)); PARTITION TABLE t ON COLUMN id;
    CREATE PROCEDURE Put PARTITION ON TABLE t COLUMN id AS INSERT INTO t VALUES (?);
    CREATE PROCEDURE Has PARTITION ON TABLE t COLUMN id AS SELECT COUNT(*) FROM t WHERE id = ?;
    CREATE PROCEDURE Below AS SELECT COUNT(*) FROM t WHERE id < ?;";

fn server(change: impl FnOnce(&mut ServerOptions)) -> (TempDir, Server, Db) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut options = options(dir.path(), 2);
    options.admin_listen = Some("127.0.0.1:0".parse().expect("an address"));
    options.runtime = crate::script::runtime();
    change(&mut options);
    let server = start(options);
    let db = connect(&server);
    db.sql(SCHEMA);
    crate::script::schema().iter().for_each(|statement| drop(db.sql(statement)));
    (dir, server, db)
}

fn run(db: &Db, script: &str) -> OwnedResponse {
    db.call("Script", (script,))
}

/// The statuses of the answers that the script was given, and the numbers among them.
fn statuses(response: &OwnedResponse) -> &str {
    response.application_status_text.as_deref().unwrap_or_default()
}

fn statistics(db: &Db, selector: &str) -> OwnedTable {
    db.call("@Statistics", (selector, 0)).tables.swap_remove(0)
}

fn number(table: &OwnedTable, row: usize, column: &str) -> i64 {
    match table.rows[row][table.column_index(column).expect("the column is there")] {
        OwnedValue::Integer(number) => number,
        ref other => panic!("not a number: {other:?}"),
    }
}

#[test]
fn stages_come_one_after_the_other_and_get_the_answers_in_order() {
    let (_dir, server, db) = server(|_| {});
    let response = run(&db, "Put 1;Put 2;Has 3 | Has 1;Has 2;Has 3;Below 100 ||| end 5");
    assert_eq!((response.scalar(), response.application_status), (Some(5), 7));
    assert_eq!(statuses(&response), "1:1 1:1 1:0 1:1 1:1 1:0 1:2");
    // What fails is the next stage's business: another procedure's failure, an unknown one, one
    // that is compound itself, no parameter that fits.
    let response = run(
        &db,
        "Put 1;Nothing 1;Script end 1;Put word | Put 3;@Ping 1;T.delete 2;@AdHoc SELECT 42 FROM t WHERE id = 77 | end 0",
    );
    assert_eq!(statuses(&response), "-2 -3 -2 -2 1:1 1 1:1 1");
    assert_eq!(
        run(&db, "Has 3|@AdHoc INSERT INTO t VALUES (9)|Has 9 | end 1").application_status_text.unwrap(),
        "1:1 1:1 1:1"
    );
    db.fails("Script", ("Put 4 | abort as it wished",), Status::CompoundUserAbort, "as it wished");
    db.fails("Script", ("Put 5 | fail badly",), Status::UnexpectedFailure, "badly");
    db.fails("Script", (), Status::GracefulFailure, "EXPECTS 1 PARAMS, BUT RECEIVED 0");
    assert_eq!(db.scalar("SELECT COUNT(*) FROM t WHERE id IN (4, 5)"), 2, "what was called stays");

    let table = statistics(&db, "COMPOUNDPROC");
    assert_eq!(table.rows.len(), 1);
    let figures = ["INVOCATIONS", "ABORTS", "FAILURES"].map(|column| number(&table, 0, column));
    assert_eq!(figures, [6, 1, 2]);
    assert!(
        number(&table, 0, "MIN_ELAPSED") > 0 && number(&table, 0, "MAX_ELAPSED") >= number(&table, 0, "AVG_ELAPSED")
    );
    assert_eq!(number(&statistics(&db, "COMPOUNDPROCSUMMARY"), 0, "INVOCATIONS"), 6);
    let calls = statistics(&db, "COMPOUNDPROCCALLS");
    let called = calls.column_index("CALLED_PROCEDURE").expect("the column is there");
    let puts = calls.rows.iter().position(|row| row[called] == OwnedValue::Text("Put".into())).expect("it was called");
    assert_eq!(number(&calls, puts, "INVOCATIONS"), 7);
    let procedures = statistics(&db, "PROCEDURE");
    let compound = (0..procedures.rows.len()).find(|row| number(&procedures, *row, "COMPOUND") == 1).expect("a row");
    assert_eq!((number(&procedures, compound, "INVOCATIONS"), number(&procedures, compound, "TRANSACTIONAL")), (6, 0));

    let listed = db.call("@SystemCatalog", ("PROCEDURES",)).tables.swap_remove(0);
    let remarks = listed.column_index("REMARKS").expect("the column is there");
    let compounds = listed
        .rows
        .iter()
        .filter(|row| matches!(&row[remarks], OwnedValue::Text(words) if words.contains(r#""compound":true"#)));
    assert_eq!(compounds.count(), 1);
    server.stop().expect("the log is whole");
}

#[test]
fn a_call_that_ends_as_another_has_its_code() {
    let (_dir, server, db) = server(|_| {});
    db.call("Put", (1,));
    for class in ["Script", "Rests"] {
        assert_eq!(db.call(class, ("Put 1 | end 1",)).code, None);
        assert_eq!(db.fail(class, ("Put 1 | pass",)).code.as_deref(), Some("23505"));
        assert_eq!(db.fail(class, ("Nothing 1 | pass",)).code.as_deref(), Some("42883"));
    }
    server.stop().expect("the log did not fail");
}

#[test]
fn statements_about_compound_procedures_are_checked() {
    let (dir, server, db) = server(|_| {});
    for (statement, words) in [
        ("CREATE PROCEDURE again FROM CLASS a.Script", "say CREATE COMPOUND PROCEDURE"),
        ("CREATE COMPOUND PROCEDURE FROM CLASS a.Plain", "does not extend org.voltdb.VoltCompoundProcedure"),
        ("CREATE COMPOUND PROCEDURE Script FROM CLASS a.Script", "already exists"),
        ("CREATE COMPOUND PROCEDURE again FROM CLASS a.Rests", "does not extend org.voltdb.VoltCompoundProcedure"),
        (
            "CREATE PROCEDURE again PARTITION ON TABLE t COLUMN id FROM CLASS a.Rests",
            "on no partition: it cannot be PARTITION ON",
        ),
        ("CREATE DIRECTED PROCEDURE again FROM CLASS a.Rests", "on no partition: it cannot be DIRECTED"),
        ("PARTITION PROCEDURE Rests ON TABLE t COLUMN id", "on no partition: it cannot be PARTITION ON"),
        ("PARTITION PROCEDURE Script ON TABLE t COLUMN id", "is COMPOUND and cannot be partitioned"),
        (
            "CREATE TASK x ON SCHEDULE EVERY 1 SECOND PROCEDURE Script WITH ('end 1') RUN ON PARTITIONS",
            "is not DIRECTED",
        ),
    ] {
        db.fails("@AdHoc", (statement,), Status::GracefulFailure, words);
    }
    db.sql("CREATE ROLE r WITH compoundproc; CREATE COMPOUND PROCEDURE other ALLOW r FROM CLASS a.Script");
    assert_eq!(db.call("other", ("end 3",)).scalar(), Some(3));
    let text = db.call("@ExplainCatalog", ()).tables.swap_remove(0);
    let said = format!("{:?}", text.rows);
    assert!(said.contains("CREATE COMPOUND PROCEDURE Script"), "{said}");
    server.stop().expect("the log is whole");
    // It is part of the schema.
    let server = start(ServerOptions { runtime: crate::script::runtime(), ..options(dir.path(), 2) });
    let db = connect(&server);
    assert_eq!(statuses(&run(&db, "Put 1|Has 1|end 1")), "1:1 1:1");
    server.stop().expect("the log is whole");
}

/// A server whose fsyncs can be held back.
fn on_a_disk() -> (TempDir, Server, Db, SimulatedDisk) {
    let disk = SimulatedDisk::healthy();
    let (dir, server, db) = server(|options| synced_on(&disk, options));
    (dir, server, db, disk)
}

/// Calls the procedure with a script whose first stage writes: the stage has run, and what it wrote
/// is not durable.
fn begun_and_held(server: &Server, disk: &SimulatedDisk, procedure: &str, script: &str) -> Raw {
    let mut raw = Raw::connect(server.address());
    raw.call(procedure, 5, &(script,));
    disk.wait_for_held_sync();
    wait_for("the first stage", || begun(script, 0) == 1);
    raw
}

#[test]
fn a_stage_runs_only_when_what_it_is_told_of_is_durable() {
    let script = "Put 1 | Has 1 | end 1";
    let (_dir, server, db, disk) = on_a_disk();
    let held_syncs = disk.hold_syncs();
    let mut raw = begun_and_held(&server, &disk, "Script", script);
    // The insert has been executed and is not durable: nobody may know of it, a stage no more than
    // a client.
    let mut reader = Raw::connect(server.address());
    reader.call("Has", 6, &(1i64,));
    (0..100).for_each(|_| assert_eq!(db.call("@Ping", ()).scalar(), Some(0)));
    assert_eq!(begun(script, 1), 0);
    drop(held_syncs);
    assert_eq!(raw.answer().map(|(handle, status, _)| (handle, status)), Some((5, Status::Success.code())));
    assert_eq!(reader.answer().map(|(handle, ..)| handle), Some(6));
    assert_eq!((begun(script, 1), begun(script, 2)), (1, 1));
    server.stop().expect("the log is closed");
}

#[test]
fn a_call_that_rests_hears_of_its_waker_at_once_and_of_answers_when_they_are_durable() {
    let script = "Put 1;ring rests | | end 1";
    let (_dir, server, db, disk) = on_a_disk();
    let held_syncs = disk.hold_syncs();
    let mut raw = begun_and_held(&server, &disk, "Rests", script);
    (0..100).for_each(|_| assert_eq!(db.call("@Ping", ()).scalar(), Some(0)));
    assert_eq!(begun(script, 1), 0, "it rests");
    open("rests");
    wait_for("the second stage", || begun(script, 1) == 1);
    // It rests again, and of the insert, which is not durable, it has heard nothing.
    (0..100).for_each(|_| assert_eq!(db.call("@Ping", ()).scalar(), Some(0)));
    assert_eq!(begun(script, 2), 0);
    drop(held_syncs);
    assert_eq!(raw.answer().map(|(handle, status, _)| (handle, status)), Some((5, Status::Success.code())));
    assert_eq!((begun(script, 1), begun(script, 2)), (1, 1));
    server.stop().expect("the log is closed");
}

#[test]
fn calls_that_rest_miss_no_answer_and_no_ring() {
    let (_dir, server, db) = server(|_| {});
    for _ in 0..100 {
        assert_eq!(db.call("Rests", ("rung | rung | Has 1 | rung | end 4",)).scalar(), Some(4));
    }
    let response = db.call("Rests", ("Put 1 | Nothing | Script end 1 | Rests end 1 | @Ping 1 | end 5",));
    assert_eq!((response.scalar(), statuses(&response)), (Some(5), "1:1 -3 -2 -2 1"));
    assert_eq!(statuses(&run(&db, "Rests end 1 | end 1")), "-2", "neither calls the other");
    db.fails("Rests", ("Put 4 | fail badly",), Status::UnexpectedFailure, "badly");
    assert_eq!(db.scalar("SELECT COUNT(*) FROM t WHERE id = 4"), 1, "what was called stays");

    let procedures = statistics(&db, "PROCEDURE");
    let name = procedures.column_index("PROCEDURE").expect("the column is there");
    let row = procedures.rows.iter().position(|row| row[name] == OwnedValue::Text("Rests".into())).expect("a row");
    let figures =
        ["INVOCATIONS", "FAILURES", "TRANSACTIONAL", "COMPOUND"].map(|column| number(&procedures, row, column));
    assert_eq!(figures, [102, 1, 0, 0]);
    server.stop().expect("the log is whole");
}

#[test]
fn a_call_that_rests_for_ever_holds_nobody_up_and_ends() {
    let (_dir, server, db) = server(|options| {
        options.settings = Settings { compound_seconds: 1, ..Settings::default() };
    });
    // More than there are threads.
    let mut raw = Raw::connect(server.address());
    (0..200).for_each(|handle| raw.call("Rests", handle, &(" | end 1",)));
    wait_for("their first stages", || begun(" | end 1", 0) == 200);
    assert_eq!(db.call("Rests", ("Put 1 | end 2",)).scalar(), Some(2));
    for _ in 0..200 {
        let (_, status, text) = raw.answer().expect("an answer");
        assert_eq!(status, Status::CompoundTimeout.code(), "{text}");
        assert!(text.contains("the procedure Rests took longer than 1 s"), "{text}");
    }
    assert_eq!(begun(" | end 1", 1), 0);
    server.stop().expect("the log is whole");
}

#[test]
fn a_stage_queues_as_many_calls_as_the_limit_and_no_more() {
    let set = Settings { compound_stage_calls: 2, ..Settings::default() };
    for (settings, most) in [(Settings::default(), 10), (set, 2)] {
        let (_dir, server, db) = server(|options| options.settings = settings);
        let script = |calls: usize| format!("{} | end 1", vec!["Has 1"; calls].join(";"));
        assert_eq!(statuses(&run(&db, &script(most))), vec!["1:0"; most].join(" "));
        let refused = format!("a stage may queue {most} calls");
        db.fails("Script", (script(most + 1).as_str(),), Status::GracefulFailure, &refused);
        server.stop().expect("the log is whole");
    }
}

#[test]
fn as_many_calls_as_the_limit_and_one_more() {
    let (_dir, server, db) = server(|options| {
        options.settings = Settings { compound_calls: 3, ..Settings::default() };
    });
    let script = "wait room | end 1";
    let mut raw = Raw::connect(server.address());
    (0..3).for_each(|handle| raw.call("Script", handle, &(script,)));
    wait_for("a first stage", || begun(script, 0) > 0);
    // Behind the others on their connection.
    raw.call("Script", 3, &("end 1",));
    let (handle, status, text) = raw.answer().expect("an answer");
    assert_eq!((handle, status), (3, Status::GracefulFailure.code()));
    assert!(text.contains("limit of 3 concurrent compound procedure calls reached"), "{text}");
    open("room");
    let mut answered: Vec<i64> = (0..3).map(|_| raw.answer().expect("an answer").0).collect();
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2]);
    assert_eq!(run(&db, "end 4").scalar(), Some(4), "there is room again");
    server.stop().expect("the log is whole");
}

#[test]
fn a_call_that_takes_too_long_is_answered_and_ends() {
    let disk = SimulatedDisk::healthy();
    let (_dir, server, db) = server(|options| {
        synced_on(&disk, options);
        options.settings = Settings { compound_seconds: 1, ..Settings::default() };
    });
    // In the middle of a stage.
    let script = "wait late | Put 1 | end 1";
    db.fails("Script", (script,), Status::CompoundTimeout, "took longer than 1 s");
    open("late");
    // Between two stages: the call that it waits for is carried out all the same.
    let held_syncs = disk.hold_syncs();
    let waits = "Put 2 | end 1";
    db.fails("Script", (waits,), Status::CompoundTimeout, "its calls may have been carried out");
    drop(held_syncs);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM t WHERE id = 2"), 1);
    // As many as there may be threads: what was left behind by the late ones is over by the time
    // that these are answered.
    (0..64).for_each(|_| assert_eq!(run(&db, "Has 2 | end 7").scalar(), Some(7)));
    assert_eq!((begun(script, 1), begun(waits, 1)), (0, 0));
    assert_eq!(number(&statistics(&db, "COMPOUNDPROC"), 0, "FAILURES"), 2);
    server.stop().expect("the log is closed");
}

#[test]
fn a_call_that_nobody_wants_ends_between_two_stages() {
    let (_dir, server, db) = server(|_| {});
    let lost = "wait lost | Put 1 | end 1";
    let cancelled = "wait cancelled | Put 2 | end 1";
    // A connection that is closed before all was read of it is reset, so that the server knows that
    // nobody reads.
    let mut gone = Raw::connect(server.address());
    gone.call("@Ping", 0, &());
    assert_eq!(gone.0.peek(&mut [0]).expect("the connection is there"), 1);
    gone.call("Script", 1, &(lost,));
    wait_for("its first stage", || begun(lost, 0) == 1);
    drop(gone);
    wait_for("the connection to be closed", || statistics(&db, "LIVECLIENTS").rows.len() == 1);
    open("lost");
    wait_for("its end", || {
        let figures = statistics(&db, "COMPOUNDPROC");
        !figures.rows.is_empty() && number(&figures, 0, "FAILURES") == 1
    });

    let mut raw = Raw::connect(server.address());
    raw.call("Script", 1, &(cancelled,));
    wait_for("its first stage", || begun(cancelled, 0) == 1);
    raw.call("@Cancel", 2, &(1i64,));
    assert_eq!(raw.answer().map(|(handle, status, _)| (handle, status)), Some((2, Status::Success.code())));
    open("cancelled");
    let (handle, status, text) = raw.answer().expect("an answer");
    assert_eq!((handle, status), (1, Status::GracefulFailure.code()));
    assert!(text.contains("was cancelled"), "{text}");
    assert_eq!((begun(lost, 1), begun(cancelled, 1), db.scalar("SELECT COUNT(*) FROM t")), (0, 0, 0));
    server.stop().expect("the log is whole");
}

#[test]
fn a_paused_server_refuses_what_it_refuses_clients() {
    let (_dir, server, db) = server(|_| {});
    let admin = connect_admin(&server);
    admin.call("@Pause", ());
    let script = "Put 1;Has 7;@AdHoc INSERT INTO t VALUES (2) | end 1";
    assert_eq!(statuses(&run(&db, script)), "-5 1:0 -5");
    assert_eq!(statuses(&run(&admin, script)), "1:1 1:0 1:1", "with the rights of its caller");
    admin.call("@Resume", ());
    server.stop().expect("the log is whole");
}

#[test]
fn a_call_outlives_its_procedure() {
    let (_dir, server, db) = server(|_| {});
    let script = "wait dropped | Put 1 | end 8";
    let mut raw = Raw::connect(server.address());
    raw.call("Script", 1, &(script,));
    wait_for("its first stage", || begun(script, 0) == 1);
    db.sql("DROP PROCEDURE Script; DROP PROCEDURE Rests; REMOVE CLASSES 'a.*'");
    open("dropped");
    assert_eq!(raw.answer().map(|(handle, status, _)| (handle, status)), Some((1, Status::Success.code())));
    assert_eq!(db.scalar("SELECT COUNT(*) FROM t"), 1);
    db.fails("Script", ("end 1",), Status::UnexpectedFailure, "was not found");
    server.stop().expect("the log is whole");
}

#[test]
fn a_stop_ends_what_goes_on() {
    let (_dir, server, _db) = server(|_| {});
    let script = "wait stop | Put 1 | end 1";
    let mut raw = Raw::connect(server.address());
    raw.call("Script", 1, &(script,));
    wait_for("its first stage", || begun(script, 0) == 1);
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| server.stop());
        let (_, status, text) = raw.answer().expect("it is answered before the connection is closed");
        assert_eq!(status, Status::ServerUnavailable.code(), "{text}");
        assert!(text.contains("the server was stopped before the compound procedure Script was through"), "{text}");
        open("stop");
        stopped.join().expect("the server stops").expect("the log is whole");
    });
    assert_eq!(begun(script, 1), 0);
}

#[test]
fn a_task_that_is_changed_waits_for_the_call_that_it_has_outstanding() {
    let (_dir, server, db) = server(|_| {});
    let script = "wait task | end 1";
    db.sql("CREATE TABLE ticks (at TIMESTAMP); CREATE PROCEDURE Tick AS INSERT INTO ticks VALUES (NOW)");
    db.sql(&format!("CREATE TASK held ON SCHEDULE EVERY 5 MILLISECONDS PROCEDURE Script WITH ('{script}')"));
    wait_for("its first call", || begun(script, 0) == 1);
    db.sql("ALTER TASK held DISABLE");
    db.sql("ALTER TASK held ENABLE");
    // Its next is due many times while this one is called.
    db.sql("CREATE TASK other ON SCHEDULE EVERY 5 MILLISECONDS PROCEDURE Tick");
    wait_for("rounds of the task thread", || db.scalar("SELECT COUNT(*) FROM ticks") >= 10);
    assert_eq!(begun(script, 0), 1, "the first call still goes on");
    open("task");
    wait_for("its next call", || begun(script, 0) >= 3);
    let figures = statistics(&db, "TASK");
    assert_eq!(figures.rows.len(), 2);
    db.sql("DROP TASK held; DROP TASK other");
    server.stop().expect("the log is whole");
}

/// Statements may name a procedure by its class, as scripts of other servers do.
#[test]
fn a_procedure_is_known_by_the_name_of_its_class() {
    let (_dir, server, db) = server(|_| {});
    db.sql("CREATE PROCEDURE FROM CLASS a.Plain");
    db.sql("CREATE TASK x ON SCHEDULE EVERY 1 HOUR PROCEDURE a.Plain WITH ('words')");
    for wrong in ["b.Plain", "a.plain", "a.b.Plain"] {
        let statement = format!("DROP PROCEDURE {wrong}");
        db.fails("@AdHoc", (statement.as_str(),), Status::GracefulFailure, "object not found");
        db.sql(&format!("DROP PROCEDURE {wrong} IF EXISTS"));
    }
    db.call("Plain", ("words",));
    db.sql("DROP TASK x");
    db.sql("ALTER PROCEDURE a.Plain RENAME TO Renamed");
    db.call("Renamed", ("words",));
    db.sql("DROP PROCEDURE a.Plain; DROP PROCEDURE a.Plain IF EXISTS");
    server.stop().expect("the log closes");
}
