//! Whoever reads the server's standard output and error, or does not: the server goes on, and ends
//! when it is told to.

use crate::common::Server;
use ferrite_io::notices::message_of;
use std::io::Read;
use std::process::Command;

/// Another connection is served, and a snapshot, which the log is told of, is taken.
fn others_are_served(server: &Server, rows: i64) {
    let db = server.connect();
    db.sql(&format!("INSERT INTO t VALUES ({rows})"));
    assert_eq!(db.scalar("SELECT COUNT(*) FROM t"), rows);
    db.call("@SnapshotSave", ());
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = Server::start(dir.path(), &[]);
    let db = server.connect();
    db.sql("CREATE TABLE t (a BIGINT)");
    // The pipe has room for 64 KiB or so, the server for a megabyte.
    let note = "n".repeat(4_000);
    for _ in 0..600 {
        db.call("@Note", (note.as_str(),));
    }
    others_are_served(&server, 1);
    let mut stderr = server.take_stderr();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).expect("stderr is text");
        text
    });
    server.stop();
    let text = reader.join().expect("the server's log ends");
    let kept = text.lines().filter(|line| message_of(line).is_some_and(|message| message.ends_with(&note))).count();
    assert!((200..600).contains(&kept), "{kept} of 600 lines");
    let lost = text.lines().find(|line| line.contains("lines of this log are lost")).expect("the log says so");
    let lost: usize = message_of(lost)
        .and_then(|message| message.split(' ').next())
        .and_then(|number| number.parse().ok())
        .expect("a number");
    assert!(lost >= 600 - kept, "{lost} are lost, {kept} kept");
}

#[test]
fn a_server_whose_log_nobody_reads_stops() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(dir.path(), &[]);
    let db = server.connect();
    for _ in 0..50 {
        db.call("@Note", ("n".repeat(4_000).as_str(),));
    }
    server.stop();
}

#[test]
fn the_reader_of_the_log_may_die() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = Server::start(dir.path(), &[]);
    server.connect().sql("CREATE TABLE t (a BIGINT)");
    drop(server.take_stderr());
    for rows in 1..4 {
        server.connect().call("@Note", ("is anybody there?",));
        others_are_served(&server, rows);
    }
    server.stop();
}

#[test]
fn the_disk_of_the_log_may_be_full() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" 2>/dev/full", env!("CARGO_BIN_EXE_ferrite")]);
    // Once more for the lines that tell of a recovery.
    Server::start(dir.path(), &[]).kill();
    let server = Server::try_start_by(shell, dir.path(), &[]).expect("it starts");
    server.connect().sql("CREATE TABLE t (a BIGINT)");
    server.connect().call("@Note", ("is there room?",));
    others_are_served(&server, 1);
    server.stop();
}

/// What the program does whose output nothing reads: its exit code, and what it says to standard
/// error.
fn with_closed_output(arguments: &[&str]) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_ferrite")).args(arguments).stdout(writer).output();
    let output = output.expect("the program under test can be started");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn no_command_panics_where_nothing_reads_what_it_says() {
    let (dir, folder) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let server = Server::start(dir.path(), &[]);
    server.connect().sql("CREATE TABLE t (a BIGINT)");
    server.connect().sql("INSERT INTO t VALUES (1)");
    let (address, schema) = (&server.address[..], folder.path().join("schema.sql"));
    std::fs::write(&schema, "CREATE TABLE u (a BIGINT);").expect("the file can be written");
    let schema = schema.to_str().expect("a path of ASCII");
    let backups = folder.path().join("backups");
    let project = folder.path().join("project");
    std::fs::create_dir(&project).expect("a folder can be made");
    for arguments in [
        &["sql", "-s", address, "-c", "SELECT * FROM t"][..],
        &["dump", "-s", address],
        &["check", schema],
        &["admin", "snapshot", "--server", address],
        &["admin", "recovery", "--server", address],
        &["admin", "backup", backups.to_str().expect("a path of ASCII"), "--server", address],
        &["bench", "kv", "--server", address, "--duration", "1", "--warmup", "0", "--pool-size", "1000"],
        &["demo", "--duration", "1"],
        &["init-procedure", "P", "--into", project.to_str().expect("a path of ASCII")],
        &["--help"],
        &["admin", "--help"],
    ] {
        let (code, said) = with_closed_output(arguments);
        assert!(!said.contains("panicked") && code != Some(101), "{arguments:?}: {code:?}, {said}");
        assert!(code.is_some(), "{arguments:?} was ended by a signal");
    }
    server.stop();
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(dir.path(), &[]);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite"));
    let output = command.args(["admin", "recovery", "--server", &server.address]).stdout(full).output();
    let output = output.expect("the program under test can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("cannot write to standard output"), "{said}");
    server.stop();
}
