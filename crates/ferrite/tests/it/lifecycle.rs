//! Start, stop, and what is refused.

use crate::common::{Server, voter, votes};
use ferrite_io::notices::message_of;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

#[test]
fn starts_fast_says_so_and_stops_cleanly() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let begin = Instant::now();
    let server = Server::start(&dir.path().join("made/if/missing"), &["--partitions", "2"]);
    let took = begin.elapsed();
    assert!(took.as_secs_f64() < 30.0, "took {took:?}: some hundred milliseconds, and more on a busy machine");
    assert!(server.ready_line.contains("(2 partitions, durability sync)"), "{}", server.ready_line);
    server.stop();
}

/// `ferrite server` by its bare name: the helper says `--new` by itself.
fn server_without_help(dir: &Path, options: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite"));
    command.args(["server", "--listen", "127.0.0.1:0", "--dir"]).arg(dir).args(options);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
    // A server that starts says one line, and one that does not says nothing.
    let is_ready = BufReader::new(child.stdout.take().expect("a pipe")).lines().next().is_some();
    let _ = child.kill();
    let output = child.wait_with_output().expect("it ends");
    (is_ready, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_database_is_created_only_where_that_is_wanted() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let (missing, mount_point) = (root.path().join("missing"), root.path().join("mount-point"));
    std::fs::create_dir_all(mount_point.join("lost+found")).expect("it can be made");
    for dir in [&missing, &mount_point] {
        let (done, said) = server_without_help(dir, &["--partitions", "2"]);
        let words = "has no database. If it had one, check --dir, and that its volume is mounted";
        assert!(!done && said.contains(words) && said.contains("add --new"), "{said}");
    }
    assert!(!missing.exists(), "nothing is left of that");
    assert_eq!(std::fs::read_dir(&mount_point).expect("a directory").count(), 1);
    let schema = root.path().join("schema.sql");
    std::fs::write(&schema, "CREATE TABLE t (a INTEGER)").expect("it can be written");
    for (dir, how) in [(&missing, &["--new"][..]), (&mount_point, &["--schema", schema.to_str().expect("text")])] {
        let mut server = Server::start(dir, how);
        let mut lines = BufReader::new(server.take_stderr()).lines();
        let first = lines.next().expect("it says something").expect("it is text");
        let created = format!("{} had no database: created a new one", dir.display());
        assert_eq!(message_of(&first), Some(&*created));
        server.stop();
        Server::start(dir, &[]).stop();
    }
    let mut server = Server::start(&missing, &["--new"]);
    let mut lines = BufReader::new(server.take_stderr()).lines();
    let first = lines.next().expect("it says something").expect("it is text");
    assert!(first.contains("already holds a database, so --new was not needed"), "{first}");
    server.stop();
    let (done, said) = server_without_help(&missing, &["--new", "--cluster", "127.0.0.1:1"]);
    assert!(!done && said.contains("cannot be used with"), "{said}");
}

#[test]
fn an_unknown_durability_is_refused_with_those_that_there_are() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for wrong in ["ram", "Memory", "memory=5", "interval", "interval=0", ""] {
        let (done, said) = server_without_help(dir.path(), &["--new", "--durability", wrong]);
        let words = "expected sync, none, memory or interval=MS (1 to 60000 milliseconds)";
        assert!(!done && said.contains(words), "{wrong}: {said}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

/// With durability memory an orderly stop keeps everything, and a kill is reported by the next
/// start.
#[test]
fn without_a_log_a_stop_loses_nothing_and_a_kill_is_reported() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let memory = ["--durability", "memory"];
    let server = Server::start(dir.path(), &memory);
    assert!(server.ready_line.contains("durability memory"), "{}", server.ready_line);
    let db = server.connect();
    db.sql("CREATE TABLE kept (id BIGINT NOT NULL PRIMARY KEY)");
    db.call("KEPT.insert", (1i64,));
    drop(db);
    server.stop();
    let server = Server::start(dir.path(), &memory);
    server.connect().call("KEPT.insert", (2i64,));
    server.kill();
    let mut server = Server::start(dir.path(), &[]);
    assert_eq!(server.connect().scalar("SELECT COUNT(*) FROM kept"), 1);
    let lines = BufReader::new(server.take_stderr());
    server.stop();
    let said: Vec<_> = lines.lines().map(|line| line.expect("it is text")).collect();
    let loss = "the server that ran here before, with --durability memory, did not stop in an orderly way";
    assert!(said.iter().any(|line| line.contains(loss)), "{said:?}");
}

#[test]
fn a_directory_has_one_server() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(dir.path(), &[]);
    let refused = Server::try_start(dir.path(), &[]).err().expect("the second server is refused");
    assert!(refused.contains("held by process"), "{refused}");
    assert!(refused.contains(&server.id().to_string()), "{refused}");
    server.stop();
    Server::start(dir.path(), &[]).stop();
}

#[test]
fn who_removes_the_lock_file_does_not_get_a_second_server() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(dir.path(), &[]);
    std::fs::remove_file(dir.path().join("LOCK")).expect("it is there");
    let refused = Server::try_start(dir.path(), &[]).err().expect("the second server is refused");
    assert!(refused.contains("held by another process"), "{refused}");
    server.stop();
    Server::start(dir.path(), &[]).stop();
}

#[test]
fn a_second_signal_insists() {
    let (dir, server, db) = voter(&["--limit", "stop-seconds=86400", "--query-timeout", "86400"]);
    db.sql("CREATE PROCEDURE Spin AS BEGIN DECLARE n BIGINT DEFAULT 0; WHILE n >= 0 DO SET n = n + 1; END WHILE; END");
    assert_eq!(db.call("Vote", (5_550_000_000i64, 1i32, 2i64)).scalar(), Some(0));
    let spinning = db.0.call("Spin", ());
    // Taken when what was sent behind it is answered.
    db.call("@Ping", ());
    server.signal("TERM");
    server.signal("INT");
    server.ends();
    let error = spinning.wait().expect_err("it does not end");
    assert!(error.to_string().contains("stopping"), "{error}");
    let server = Server::start(&dir.path().join("data"), &[]);
    assert_eq!(votes(&server.connect()), [1; 3]);
    server.stop();
}

#[test]
fn the_end_of_a_session_is_an_orderly_end_unless_it_is_ignored() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Whoever started the tests may have ignored the signal, which shells cannot take back.
    let mut session = Command::new("env");
    session.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_ferrite")]);
    let server = Server::try_start_by(session, dir.path(), &[]).expect("it starts");
    server.signal("HUP");
    server.ends();
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_ferrite")]);
    let server = Server::try_start_by(nohup, dir.path(), &[]).expect("it starts");
    server.signal("HUP");
    server.connect().sql("CREATE TABLE t (a INTEGER)");
    server.stop();
}

#[test]
fn signals_that_ask_for_nothing_do_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(dir.path(), &[]);
    for signal in ["XFSZ", "USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "PIPE"] {
        server.signal(signal);
    }
    server.connect().sql("CREATE TABLE t (a INTEGER)");
    server.signal("XCPU");
    server.ends();
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 1000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_ferrite")]);
    let refused = Server::try_start_by(shell, dir.path(), &[]).err().expect("the log has no room");
    assert!(refused.contains("exit status: 1") && refused.contains("File too large"), "{refused}");
}

#[test]
fn too_few_addresses_are_an_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let start = |limit: &str| {
        let mut shell = Command::new("sh");
        let script = format!("ulimit {limit}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_ferrite")]);
        Server::try_start_by(shell, dir.path(), &["--partitions", "2"])
    };
    for few in ["-v 262144", "-v 3200000", "-d 262144"] {
        let refused = start(few).err().expect("that is too little");
        assert!(
            refused.contains("exit status: 1") && refused.contains("bytes of addresses (ulimit -v or -d)"),
            "{refused}"
        );
    }
    // Where it starts it keeps room: rows are refused before an allocation fails.
    let server = start("-v 3300000").expect("it is enough for little data");
    let db = server.connect();
    db.sql("CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, bytes VARBINARY(1000000) NOT NULL); PARTITION TABLE t ON COLUMN id");
    let large = vec![1u8; 900_000];
    let refused = (0..2_000i64).find_map(|id| db.0.call_blocking("T.insert", (id, &large[..])).err());
    let refused = refused.expect("not all find room").to_string();
    assert!(refused.contains("no memory for more rows"), "{refused}");
    assert!(db.scalar("SELECT COUNT(*) FROM t") > 50);
    server.stop();
}

#[test]
fn administrators_ask_what_recovery_found() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (dir, options) = (dir.path(), ["--admin-listen", "127.0.0.1:0"]);
    Server::start(dir, &options).stop();
    let server = Server::start(dir, &options);
    let address = server.ready_line.split_once("administration on ").expect("it says where").1.trim_end();
    let asked = std::process::Command::new(env!("CARGO_BIN_EXE_ferrite"))
        .args(["admin", "recovery", "--server", address.trim_end_matches(')')])
        .output()
        .expect("the program under test can be started");
    let text = String::from_utf8_lossy(&asked.stdout);
    assert!(asked.status.success(), "{asked:?}");
    assert!(text.starts_with("state") && text.contains("DONE") && text.contains("row changes per second"), "{text}");
    server.stop();
}

#[test]
fn the_number_of_partitions_stays() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    Server::start(dir.path(), &["--partitions", "3"]).stop();
    let refused = Server::try_start(dir.path(), &["--partitions", "2"]).err().expect("another number is refused");
    assert!(refused.contains("created with 3 partitions"), "{refused}");
    let server = Server::start(dir.path(), &[]);
    assert!(server.ready_line.contains("3 partitions"), "{}", server.ready_line);
}

#[test]
fn the_schema_file_runs_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let schema = dir.path().join("schema.sql");
    std::fs::write(&schema, crate::common::VOTER).expect("the file can be written");
    let data = dir.path().join("data");
    let options = ["--schema", schema.to_str().expect("a plain path")];
    let server = Server::start(&data, &options);
    server.connect().call("VOTES.insert", (5_551_234_567i64, "CA", 1i32));
    server.stop();
    let server = Server::start(&data, &options);
    assert_eq!(votes(&server.connect()), [1; 3]);
    server.stop();
    std::fs::write(&schema, "CREATE TABLE broken (a NOSUCHTYPE)").expect("the file can be written");
    let refused = Server::try_start(&dir.path().join("other"), &options).err().expect("a bad schema is refused");
    assert!(refused.contains("could not be given its schema"), "{refused}");
}

#[test]
fn a_directory_that_cannot_be_used_says_why() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "not a directory").expect("the file can be written");
    for wrong in [file.clone(), file.join("below")] {
        let refused = Server::try_start(&wrong, &[]).err().expect("it is refused");
        assert!(refused.contains("a file is where a directory must be"), "{refused}");
        assert!(refused.contains(file.to_str().expect("a plain path")), "{refused}");
    }
    let refused = Server::try_start(&dir.path().join("data"), &["--schema", "nosuch.sql"]).err().expect("no such file");
    assert!(
        refused.contains("--schema: cannot read nosuch.sql") && refused.contains("the current directory is /"),
        "{refused}"
    );
}

#[test]
fn a_schema_that_an_old_database_does_not_get_is_noticed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let schema = dir.path().join("schema.sql");
    std::fs::write(&schema, crate::common::VOTER).expect("the file can be written");
    let data = dir.path().join("data");
    let options = ["--schema", schema.to_str().expect("a plain path")];
    let lines_of_a_start = || {
        let mut server = Server::start(&data, &options);
        let mut stderr = server.take_stderr();
        server.stop();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stderr, &mut text).expect("stderr is text");
        text
    };
    // One that has no schema yet, as after a start that was refused for its schema, gets it.
    Server::start(&data, &["--new"]).stop();
    let text = lines_of_a_start();
    assert!(!text.contains("not used"), "{text}");
    let text = lines_of_a_start();
    assert!(text.contains("already holds a database, so --schema was not used"), "{text}");
}

#[test]
fn everything_is_there_after_a_restart() {
    let (dir, server, db) = voter(&["--partitions", "2"]);
    for phone in 0..100i64 {
        assert_eq!(db.call("Vote", (5_550_000_000 + phone, 1i32, 2i64)).scalar(), Some(0));
    }
    assert_eq!(db.call("Vote", (5_550_000_000i64, 99i32, 2i64)).scalar(), Some(1));
    assert_eq!(db.call("Vote", (5_550_000_000i64, 2i32, 1i64)).scalar(), Some(2));
    db.sql("DELETE FROM votes WHERE phone_number < 5550000010");
    db.sql("UPDATE votes SET contestant_number = 2 WHERE phone_number >= 5550000090");
    db.sql("CREATE INDEX by_contestant ON votes (contestant_number)");
    server.stop();
    let server = Server::start(&dir.path().join("data"), &[]);
    let db = server.connect();
    assert_eq!(votes(&db), [90; 3]);
    assert_eq!(db.scalar("SELECT COUNT(*) FROM votes WHERE contestant_number = 2"), 10);
    assert_eq!(db.call("Vote", (5_550_000_000i64, 2i32, 1i64)).scalar(), Some(0));
}

#[test]
fn bad_options_are_explained() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (options, words) in [
        (["--durability", "often"], "sync, none, memory or interval=MS"),
        (["--partitions", "0"], "0 is not in 1..=1024"),
        (["--partitions", "1025"], "1025 is not in 1..=1024"),
        (["--memory-limit", "67108863"], "expected at least 67108864 bytes"),
        (["--limit", "login-seconds=0"], "login-seconds must be from 1 to 86400"),
        (["--network-threads", "many"], "invalid digit"),
    ] {
        let refused = Server::try_start(dir.path(), &options).err().expect("refused");
        assert!(refused.contains(words), "{options:?}: {refused}");
    }
}
