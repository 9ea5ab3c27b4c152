//! A server process to test against, and short ways to call it.
#![allow(dead_code, reason = "each test file uses its part of this room")]

use ferrite_client::{Client, ClientError, ClientOptions, OwnedResponse, ParameterSet, Status};
use ferrite_value::OwnedValue;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Only what hangs takes so long, however busy the machine is.
const START_TIME_MAX: Duration = Duration::from_secs(300);

/// Something that a server has begun there.
fn has_database(dir: &Path) -> bool {
    let names = std::fs::read_dir(dir).into_iter().flatten().map_while(Result::ok).map(|entry| entry.file_name());
    let is_ours = |name: &str| name.starts_with("redo-") || ["node", "founding"].contains(&name);
    names.into_iter().any(|name| name.to_str().is_some_and(is_ours))
}

pub const VOTER: &str = include_str!("voter.sql");

/// A running `ferrite server`; killed when dropped.
pub struct Server {
    child: Child,
    pub address: String,
    pub ready_line: String,
}

impl Server {
    /// Starts a server on a free port and waits for its ready line. A directory without a
    /// database gets one.
    pub fn start(dir: &Path, options: &[&str]) -> Server {
        Self::try_start(dir, options).unwrap_or_else(|error| panic!("the server did not start: {error}"))
    }

    /// The same, with a working directory of its own.
    pub fn start_in(folder: &Path, dir: &Path, options: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrite"));
        command.current_dir(folder);
        Self::try_start_by(command, dir, options).unwrap_or_else(|error| panic!("the server did not start: {error}"))
    }

    /// The same, with so many files that it may have open.
    pub fn start_with_descriptors(descriptors: usize, dir: &Path, options: &[&str]) -> Server {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_ferrite")]);
        Self::try_start_by(shell, dir, options).unwrap_or_else(|error| panic!("the server did not start: {error}"))
    }

    /// The error text, if the server ends instead of getting ready.
    pub fn try_start(dir: &Path, options: &[&str]) -> Result<Server, String> {
        Self::try_start_by(Command::new(env!("CARGO_BIN_EXE_ferrite")), dir, options)
    }

    /// The same by a command that runs the program with what comes behind.
    pub fn try_start_by(mut command: Command, dir: &Path, options: &[&str]) -> Result<Server, String> {
        let wants_new = !has_database(dir) && !options.iter().any(|option| ["--new", "--cluster"].contains(option));
        let mut child = command
            .arg("server")
            .arg("--dir")
            .arg(dir)
            .args(["--listen", "127.0.0.1:0"])
            .args(wants_new.then_some("--new"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test can be started");
        let mut ready_line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let (ready, waits) = std::sync::mpsc::channel::<()>();
        let pid = child.id().to_string();
        // Whoever waits for a server that waits for others would not fail.
        let watch = std::thread::spawn(move || {
            if waits.recv_timeout(START_TIME_MAX) == Err(RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        out.read_line(&mut ready_line).expect("stdout can be read");
        drop(ready);
        watch.join().expect("it only waits");
        if ready_line.is_empty() {
            let mut text = String::new();
            child.stderr.take().expect("stderr is a pipe").read_to_string(&mut text).expect("stderr is text");
            let status = child.wait().expect("the server has ended");
            return Err(format!("{status}: {text}"));
        }
        // Nobody reads stderr any more; a few lines fit the pipe.
        // A line of words, or an object that has them.
        let address = ready_line
            .split_once("ferrite ready on ")
            .and_then(|(_, rest)| rest.split_whitespace().next())
            .unwrap_or_else(|| panic!("not a ready line: {ready_line}"))
            .to_owned();
        Ok(Server { child, address, ready_line })
    }

    /// What the server's log comes out of.
    pub fn take_stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("nobody has taken it yet")
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where administrators connect, if the server was told to listen for them.
    pub fn admin_address(&self) -> &str {
        let found = self.ready_line.split("administration on ").nth(1);
        found.expect("there is an administration port").trim_end().trim_end_matches(')')
    }

    pub fn connect(&self) -> Db {
        Db(Client::connect(ClientOptions::new([&self.address])).expect("the server that is ready takes connections"))
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server has ended");
    }

    /// A signal by its short name.
    pub fn signal(&self, name: &str) {
        let (name, pid) = (format!("-{name}"), self.child.id().to_string());
        assert!(Command::new("kill").args([&name, &pid]).status().expect("kill is installed").success());
    }

    /// SIGTERM, and a clean end.
    pub fn stop(self) {
        self.signal("TERM");
        self.ends();
    }

    /// A clean end, whoever has asked for it.
    pub fn ends(mut self) {
        let status = self.child.wait().expect("the server has ended");
        assert!(status.success(), "the server ended with {status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with shorter words.
pub struct Db(pub Client);

impl Db {
    pub fn call(&self, procedure: &str, parameters: impl ParameterSet) -> OwnedResponse {
        self.0.call_blocking(procedure, parameters).unwrap_or_else(|error| panic!("{procedure} failed: {error}"))
    }

    /// The failed answer of a call that must fail.
    pub fn fail(&self, procedure: &str, parameters: impl ParameterSet) -> OwnedResponse {
        match self.0.call_blocking(procedure, parameters) {
            Err(ClientError::Failed(response)) => *response,
            other => panic!("{procedure} should have failed: {other:?}"),
        }
    }

    pub fn sql(&self, text: &str) -> OwnedResponse {
        self.call("@AdHoc", (text,))
    }

    /// Runs SQL that must fail and checks status and words.
    pub fn sql_fails(&self, text: &str, status: Status, words: &str) {
        let response = self.fail("@AdHoc", (text,));
        let said = response.status_text.clone().unwrap_or_default();
        assert_eq!(response.status(), Some(status), "{text}: {said}");
        assert!(said.contains(words), "{text}: expected {words:?} in {said:?}");
    }

    pub fn scalar(&self, text: &str) -> i64 {
        self.sql(text).scalar().unwrap_or_else(|| panic!("{text} is not a number"))
    }

    /// The rows of the first result table.
    pub fn rows(&self, text: &str) -> Vec<Vec<OwnedValue>> {
        self.sql(text).tables.swap_remove(0).rows
    }
}

/// A server with Voter's schema in a directory of its own.
pub fn voter(options: &[&str]) -> (tempfile::TempDir, Server, Db) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(&dir.path().join("data"), options);
    let db = server.connect();
    db.sql(VOTER);
    db.sql(
        "INSERT INTO contestants VALUES (1, 'Edwina'); INSERT INTO contestants VALUES (2, 'Tabatha');
            INSERT INTO area_code_state VALUES (555, 'CA'); INSERT INTO area_code_state VALUES (212, 'NY')",
    );
    (dir, server, db)
}

/// Votes, and votes as each of the views counts them.
pub fn votes(db: &Db) -> [i64; 3] {
    [
        db.scalar("SELECT COUNT(*) FROM votes"),
        db.scalar("SELECT COALESCE(SUM(num_votes), 0) FROM v_votes_by_phone_number"),
        db.scalar("SELECT COALESCE(SUM(num_votes), 0) FROM v_votes_by_contestant_number_state"),
    ]
}
