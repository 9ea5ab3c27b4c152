//! PostgreSQL as the other opinion: a cluster of its own in a temporary directory, reached by a
//! unix socket, and one `psql` that stays.
//!
//! `psql` over pipes instead of a client library: it comes with the server, and a library would
//! bring an asynchronous runtime for what is one statement at a time. The cluster never keeps
//! anything: fsync is off, and it goes with this process.

use crate::answer::{Answer, Cell, EngineResult, Failure, canonical_theirs};
use ferrite_value::SqlType;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// No text of ours has these bytes.
const FIELD: char = '\u{1f}';
const NULL: &str = "\u{1}";
const END: &str = "\u{2}";
const VERSION_MIN: u32 = 150_000;
/// Milliseconds that a statement may take.
const TIME_MAX: u32 = 10_000;

pub struct Postgres {
    directory: PathBuf,
    server: Child,
    psql: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Postgres {
    /// Makes a cluster and starts it. Err says what is missing, and how to get it.
    pub fn start() -> Result<Postgres, String> {
        let programs = programs()?;
        let directory = std::env::temp_dir().join(format!("ferrite-pg-{}", std::process::id()));
        std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let user = User::for_server()?;
        user.give(&directory)?;
        let data = directory.join("data");
        let made = user
            .command(&programs.join("initdb"), &directory)
            .arg("--pgdata")
            .arg(&data)
            .args(["--username=ferrite", "--auth=trust", "--locale=C", "--encoding=UTF8", "--no-sync"])
            .stdout(Stdio::null())
            .output()
            .map_err(|error| format!("initdb does not run: {error}"))?;
        if !made.status.success() {
            return Err(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr)));
        }
        let log = std::fs::File::create(directory.join("log")).map_err(|error| error.to_string())?;
        let server = user
            .command(&programs.join("postgres"), &directory)
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&directory)
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "synchronous_commit=off"])
            .args(["-c", "full_page_writes=off", "-c", "jit=off", "-c", "shared_buffers=32MB", "-c", "autovacuum=off"])
            .args(["-c", &format!("statement_timeout={TIME_MAX}"), "-c", "max_connections=5"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("postgres does not run: {error}"))?;
        let mut server = server;
        await_ready(&programs, &directory, &mut server)?;
        let (psql, input, output) = connect(&programs, &directory)?;
        let mut postgres = Postgres { directory, server, psql, input, output };
        postgres
            .run("SET client_min_messages = error", &[])
            .map_err(|failure| format!("the new PostgreSQL does not answer: {failure}"))?;
        let version = postgres.run("SHOW server_version_num", &[]).map_err(|failure| failure.to_string())?;
        match version.rows.first().and_then(|row| row[0].as_ref()?.parse::<u32>().ok()) {
            Some(version) if version >= VERSION_MIN => Ok(postgres),
            _ => {
                Err("PostgreSQL is too old: version 15 or newer is needed (UNIQUE with NULLS NOT DISTINCT)".to_owned())
            }
        }
    }

    /// Everything gone.
    pub fn start_over(&mut self) {
        for text in ["DROP SCHEMA IF EXISTS public CASCADE", "CREATE SCHEMA public", "SET search_path = public"] {
            self.run(text, &[]).expect("an empty schema can always be made");
        }
    }

    /// Runs one statement. `types` are those of our answer's columns: values are read as of them.
    pub fn run(&mut self, text: &str, types: &[SqlType]) -> EngineResult {
        // A statement without an answer would make psql wait for the rest of it.
        assert!(!text.contains(';') && !text.contains('\n'), "one statement on one line: {text}");
        let script = format!("{text};\n\\echo {END} :ERROR :LAST_ERROR_SQLSTATE :ROW_COUNT :LAST_ERROR_MESSAGE\n");
        self.input.write_all(script.as_bytes()).and_then(|()| self.input.flush()).expect("psql reads");
        let mut answer = Answer { types: types.to_vec(), ..Answer::default() };
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("psql writes UTF-8");
            assert!(length > 0, "psql ended");
            let line = line.trim_end_matches('\n');
            let Some(at) = line.find(END) else {
                answer
                    .rows
                    .push(line.split(FIELD).enumerate().map(|(number, text)| cell(text, number, types)).collect());
                continue;
            };
            let mut words = line[at + END.len()..].trim_start().splitn(4, ' ');
            let mut word = || words.next().unwrap_or_default().to_owned();
            let failed = word();
            let code = word();
            let count = word();
            let message = word();
            if failed == "true" {
                return Err(Failure { code, message });
            }
            let is_change = ["INSERT", "UPDATE", "DELETE", "MERGE"].iter().any(|verb| text.starts_with(verb));
            answer.modified = is_change.then(|| count.parse().unwrap_or(0));
            return Ok(answer);
        }
    }
}

fn cell(text: &str, column: usize, types: &[SqlType]) -> Cell {
    let sql_type = types.get(column).copied().unwrap_or(SqlType::Varchar);
    (text != NULL).then(|| canonical_theirs(text, sql_type))
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Nothing of the cluster is kept, so that it need not end in good order; but its processes
        // must be gone before its files.
        let _ = self.psql.kill();
        let _ = self.psql.wait();
        let _ = Command::new("kill").args(["-INT", &self.server.id().to_string()]).status();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn connect(programs: &Path, directory: &Path) -> Result<(Child, ChildStdin, BufReader<ChildStdout>), String> {
    let program = programs.join("psql");
    let program = if program.is_file() { program } else { PathBuf::from("psql") };
    let mut psql = Command::new(program)
        .args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--username=ferrite", "--dbname=postgres"])
        .arg(format!("--field-separator={FIELD}"))
        .arg(format!("--pset=null={NULL}"))
        .arg("--host")
        .arg(directory)
        .env("PGCLIENTENCODING", "UTF8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("psql does not run: {error}"))?;
    let input = psql.stdin.take().expect("it was asked for");
    let output = BufReader::new(psql.stdout.take().expect("it was asked for"));
    Ok((psql, input, output))
}

/// Waits until the server takes connections.
fn await_ready(programs: &Path, directory: &Path, server: &mut Child) -> Result<(), String> {
    let program = programs.join("pg_isready");
    for _ in 0..600 {
        let asked = Command::new(&program).arg("--host").arg(directory).stdout(Stdio::null()).status();
        if asked.map_err(|error| format!("pg_isready does not run: {error}"))?.success() {
            return Ok(());
        }
        if let Ok(Some(status)) = server.try_wait() {
            let log = std::fs::read_to_string(directory.join("log")).unwrap_or_default();
            return Err(format!("postgres ended with {status}: {log}"));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err("postgres does not become ready".to_owned())
}

/// The directory of the server's programs: the newest of Debian's packages, or wherever PATH finds
/// them.
fn programs() -> Result<PathBuf, String> {
    let has_all = |directory: &PathBuf| directory.join("initdb").is_file() && directory.join("postgres").is_file();
    let mut versions: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        let version = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        versions.push((version, entry.path().join("bin")));
    }
    versions.sort();
    let packaged = versions.into_iter().rev().map(|(_, directory)| directory);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = packaged.chain(std::env::split_paths(&path)).find(has_all);
    found.ok_or_else(|| {
        "PostgreSQL is not installed (no initdb beside a postgres on PATH or in /usr/lib/postgresql); on Debian: apt-get install \
         postgresql"
            .to_owned()
    })
}

/// Who runs the server: PostgreSQL refuses to be root.
struct User(Option<(&'static str, u32)>);

impl User {
    fn for_server() -> Result<User, String> {
        let id = |arguments: &[&str]| -> Option<u32> {
            let output = Command::new("id").args(arguments).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().parse().ok())?
        };
        if id(&["-u"]) != Some(0) {
            return Ok(User(None));
        }
        for name in ["postgres", "nobody"] {
            if let Some(number) = id(&["-u", name]) {
                return Ok(User(Some((name, number))));
            }
        }
        Err("PostgreSQL does not run as root, and there is no user postgres or nobody".to_owned())
    }

    fn give(&self, directory: &Path) -> Result<(), String> {
        let Some((_, number)) = self.0 else { return Ok(()) };
        std::os::unix::fs::chown(directory, Some(number), None)
            .map_err(|error| format!("{}: {error}", directory.display()))
    }

    /// Its process is told when this one ends, however it ends.
    fn command(&self, program: &Path, directory: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "INT"]);
        if let Some((name, _)) = self.0 {
            command.arg(format!("--reuid={name}")).args(["--clear-groups", "--"]);
        } else {
            command.arg("--");
        }
        command.arg(program).current_dir(directory).env("LC_ALL", "C");
        command
    }
}
