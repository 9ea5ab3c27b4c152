//! The shell's prompt as a user meets it, through a pseudo-terminal: lines that go on, completion,
//! history, Ctrl-C.

use crate::common::Server;
use rexpect::session::{PtySession, spawn_command};
use std::path::Path;
use std::process::Command;

/// Milliseconds that an answer may take.
const WAIT: u64 = 30_000;

fn prompt(server: &Server, state: &Path) -> PtySession {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite"));
    command
        .args(["sql", "--server", &server.address])
        .env("XDG_STATE_HOME", state)
        .env("NO_COLOR", "1")
        .env("TERM", "xterm");
    let mut session = spawn_command(command, Some(WAIT)).expect("a pseudo-terminal");
    session.exp_string("for help.").expect("a greeting");
    session.exp_string("ferrite> ").expect("a prompt");
    session
}

fn type_keys(session: &mut PtySession, keys: &str) {
    session.send(keys).expect("keys are taken");
    session.flush().expect("keys are taken");
}

fn ask(session: &mut PtySession, keys: &str, expected: &str) {
    type_keys(session, keys);
    session.exp_string(expected).unwrap_or_else(|error| panic!("{keys:?} should show {expected:?}: {error}"));
}

fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(&directory.path().join("data"), &["--partitions", "1", "--query-timeout", "3"]);
    let db = server.connect();
    db.sql("CREATE TABLE tally (number BIGINT NOT NULL, word VARCHAR(10), PRIMARY KEY (number))");
    let rows = ferrite_client::Prepared::new("TALLY.insert").expect("a name");
    for number in 0..3_000i64 {
        db.0.call_with_callback(&rows, (number, "word"), |_| {}).expect("the call is made");
    }
    db.0.drain();
    (directory, server)
}

#[test]
fn a_user_types_completes_cancels_and_leaves() {
    let (directory, server) = server();
    let state = directory.path().join("state");
    let mut session = prompt(&server, &state);

    // A statement goes on until its semicolon.
    ask(&mut session, "select number\r from tally\r where number = 17;\r", "(1 row, ");
    session.exp_string("single-partition)").expect("where it ran");
    session.exp_string("ferrite> ").expect("a prompt");

    // A keyword, a table and a column of that table, each with Tab.
    ask(&mut session, "sel\t * from tal\t where wo\t = 'word' and number < 5;\r", "(5 rows, ");
    session.exp_string("ferrite> ").expect("a prompt");

    // Ctrl-C at the prompt drops what stands there.
    type_keys(&mut session, "select nonsense");
    session.send_control('c').expect("Ctrl-C");
    session.exp_string("ferrite> ").expect("a prompt");

    // Ctrl-C in a query gives up the query; the shell and its next statement go on. The first
    // statement's answer shows that the query is being run and the terminal is no longer the line
    // editor's.
    let endless = "select count(*) as c from tally a, tally b, tally c where a.word < b.word || c.word || 'x'";
    ask(&mut session, &format!("select 'begun' as b from tally limit 1; {endless};\r"), "(1 row, ");
    session.send_control('c').expect("Ctrl-C");
    // Nothing more is said: the server has confirmed it.
    session.exp_string("error: cancelled\r\n").expect("the query is given up");
    session.exp_string("ferrite> ").expect("a prompt");
    let running = server.connect().call("@Statistics", ("LONGREADS", 0i32));
    assert_eq!(running.tables[0].rows[0][4], ferrite_value::OwnedValue::Integer(0), "the server works on it still");
    // What changes rows is rolled back, and Ctrl-C leaves the transaction settings of the shell as
    // they are.
    let change = "update tally set word = word || '' where (select count(*) from tally a, tally b, tally c where a.word < b.word || c.word || 'x') > 0";
    ask(&mut session, &format!("select 'begun' as b from tally limit 1; {change};\r"), "(1 row, ");
    session.send_control('c').expect("Ctrl-C");
    session.exp_string("error: cancelled\r\n").expect("the update is given up");
    session.exp_string("ferrite> ").expect("a prompt");
    ask(&mut session, "\\timing off\r", "timing is off");
    session.exp_string("ferrite> ").expect("a prompt");

    // History: the fourth from the end.
    type_keys(&mut session, "\x1b[A\x1b[A\x1b[A\x1b[A\r");
    session.exp_string("(5 rows)").expect("the statement of before runs again");
    session.exp_string("ferrite> ").expect("a prompt");

    // An error does not end the session.
    ask(&mut session, "select * from taly;\r", "did you mean");
    session.exp_string("ferrite> ").expect("a prompt");
    type_keys(&mut session, "quit\r");
    session.exp_eof().expect("the shell has ended");

    let history = std::fs::read_to_string(state.join("ferrite/sql_history")).expect("a history file");
    assert!(history.contains("where number = 17;") && history.contains("\\\\timing off"), "{history}");

    // The next session knows it.
    let mut session = prompt(&server, &state);
    type_keys(&mut session, "\x1b[A\x1b[A\r");
    session.exp_string("did you mean").expect("the last statement but one runs again");
    session.exp_string("ferrite> ").expect("a prompt");
    session.send_control('d').expect("Ctrl-D");
    session.exp_eof().expect("the shell has ended");
}
