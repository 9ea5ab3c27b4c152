//! PostgreSQL: a cluster of its own, spoken to in its own protocol (version 3, extended queries),
//! pipelined: each call is bound, executed and synchronised by itself, so that each is a
//! transaction of its own. A vote is a PL/pgSQL function.

use super::load::{Job, JobNote};
use super::peer::Peer;
use super::pipeline::{self, Dialect, Driven, Moment, Plan};
use super::system::{RunDirectory, await_port, cpu_of_tree, fail_with_log, free_port, log_file};
use ferrite_bench::companion::{Companion, find_program};
use ferrite_bench::error::{BenchError, BenchResult, Doing};
use ferrite_bench::generator::LoadOutcome;
use ferrite_bench::process::Signal;
use ferrite_bench::progress::with_progress;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The tables of both workloads, and Voter's function. What the views show is counted in the votes
/// when it is asked for: by an index for the phone, as the function needs it; PostgreSQL has no
/// views that follow each row, and counters in rows would make calls wait for each other.
const SCHEMA: &str = "
CREATE TABLE contestants (contestant_number integer PRIMARY KEY, contestant_name varchar(50) NOT NULL);
CREATE TABLE area_code_state (area_code smallint PRIMARY KEY, state varchar(2) NOT NULL);
CREATE TABLE votes (phone_number bigint NOT NULL, state varchar(2) NOT NULL, contestant_number integer NOT NULL);
CREATE INDEX votes_phone ON votes (phone_number);
CREATE TABLE store (key varchar(250) PRIMARY KEY, value bytea NOT NULL);
CREATE FUNCTION vote(phone bigint, contestant integer, max_votes bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE voter_state varchar(2) := 'XX';
BEGIN
  IF NOT EXISTS (SELECT 1 FROM contestants WHERE contestant_number = contestant) THEN RETURN 1; END IF;
  IF (SELECT count(*) FROM votes WHERE phone_number = phone) >= max_votes THEN RETURN 2; END IF;
  SELECT COALESCE((SELECT state FROM area_code_state WHERE area_code = phone / 10000000), 'XX') INTO voter_state;
  INSERT INTO votes (phone_number, state, contestant_number) VALUES (phone, voter_state, contestant);
  RETURN 0;
END $$;
";

const VOTE: (&str, &str) = ("vote", "SELECT vote($1::int8, $2::int4, $3::int8)");
const GET: (&str, &str) = ("get", "SELECT value FROM store WHERE key = $1::varchar");
const PUT: (&str, &str) =
    ("put", "INSERT INTO store VALUES ($1::varchar, $2::bytea) ON CONFLICT (key) DO UPDATE SET value = excluded.value");

/// The same for every run, beside what the run is about.
pub const SETTINGS: &[(&str, &str)] = &[
    ("shared_buffers", "1GB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "30min"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("jit", "off"),
    ("max_connections", "200"),
];

pub struct Postgres {
    process: Companion,
    port: u16,
    version: String,
    /// Data, and the log if it is elsewhere. Gone after the process.
    places: Vec<RunDirectory>,
}

impl Postgres {
    pub fn missing() -> Option<&'static str> {
        let there = programs().is_some() && find_program("setpriv", &[]).is_some();
        (!there).then_some("postgresql util-linux")
    }

    /// A new cluster in `place`, its log in `log_place` if there is one. `unlogged`: the log has no
    /// rows of the tables, which are empty after a crash.
    pub fn start(
        place: RunDirectory,
        log_place: Option<RunDirectory>,
        settings: &[(&str, &str)],
        unlogged: bool,
    ) -> BenchResult<Postgres> {
        let programs = programs().ok_or_else(|| BenchError::Load("there is no PostgreSQL".to_string()))?;
        let user = User::for_server()?;
        let data = place.path().join("data");
        let log = place.path().join("log");
        user.give(place.path())?;
        let mut initdb = user.command(&programs.join("initdb"), place.path());
        initdb.arg("--pgdata").arg(&data).args(["--username=ferrite", "--auth=trust", "--locale=C", "--encoding=UTF8"]);
        if let Some(log_place) = &log_place {
            user.give(log_place.path())?;
            initdb.arg("--waldir").arg(log_place.path().join("wal"));
        }
        let made = with_progress("making a PostgreSQL cluster", || initdb.stdin(Stdio::null()).output());
        let made = made.doing("running initdb")?;
        if !made.status.success() {
            return Err(BenchError::Load(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr).trim())));
        }
        let port = free_port()?;
        let mut command = user.command(&programs.join("postgres"), place.path());
        command.arg("-D").arg(&data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        command.args(["-c", "unix_socket_directories="]).stderr(log_file(&log)?);
        for (name, value) in SETTINGS.iter().chain(settings) {
            command.args(["-c", &format!("{name}={value}")]);
        }
        let mut process = Companion::start("PostgreSQL", &mut command, Some(place.path()))?;
        await_port(&mut process, port).map_err(|error| fail_with_log(error, &log))?;
        let places = std::iter::once(place).chain(log_place).collect();
        let mut postgres = Postgres { process, port, version: String::new(), places };
        // It takes connections a moment before it answers them.
        let give_up = std::time::Instant::now() + Duration::from_secs(60);
        let mut talk = loop {
            match postgres.connect() {
                Ok(talk) => break talk,
                Err(error) if std::time::Instant::now() > give_up => return Err(fail_with_log(error, &log)),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        let version = talk.query("SHOW server_version")?;
        postgres.version = format!("PostgreSQL {}", version.split(' ').next().unwrap_or("unknown"));
        let schema =
            if unlogged { SCHEMA.replace("CREATE TABLE", "CREATE UNLOGGED TABLE") } else { SCHEMA.to_string() };
        talk.query(&schema)?;
        Ok(postgres)
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    fn connect(&self) -> BenchResult<Wire> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).doing("connecting to PostgreSQL")?;
        stream.set_nodelay(true).doing("connecting to PostgreSQL")?;
        let mut wire = Wire { stream };
        let mut start = vec![0, 0, 0, 0, 0, 3, 0, 0];
        start.extend_from_slice(b"user\0ferrite\0database\0postgres\0\0");
        let length = (start.len() as u32).to_be_bytes();
        start[..4].copy_from_slice(&length);
        wire.stream.write_all(&start).doing("connecting to PostgreSQL")?;
        wire.until_ready()?;
        Ok(wire)
    }

    pub fn stop(self) -> BenchResult<()> {
        // Fast shutdown: connections are closed.
        let stopped = self.process.stop(Signal::INT);
        drop(self.places);
        stopped
    }
}

impl Peer for Postgres {
    fn prepare(&mut self, job: &mut Job) -> BenchResult<()> {
        let mut wire = self.connect()?;
        if job.votes() {
            wire.query("TRUNCATE votes, contestants, area_code_state")?;
            for (number, name) in job.contestants() {
                wire.query(&format!("INSERT INTO contestants VALUES ({number}, '{name}')"))?;
            }
            let areas: Vec<String> = job.areas().iter().map(|(code, state)| format!("({code}, '{state}')")).collect();
            wire.query(&format!("INSERT INTO area_code_state VALUES {}", areas.join(", ")))?;
        } else {
            wire.query("TRUNCATE store")?;
            wire.prepare(PUT)?;
            let keys = job.keys();
            // In transactions of a thousand: filling is not what is measured.
            for first in (0..keys).step_by(1_000) {
                let mut calls = Vec::new();
                for key in first..keys.min(first + 1_000) {
                    job.with_pair(key, |key, value| bind_and_execute(&mut calls, PUT.0, &[key, value]));
                }
                sync(&mut calls);
                wire.stream.write_all(&calls).doing("filling PostgreSQL")?;
                wire.until_ready()?;
            }
        }
        // What a server that runs for long has done by itself.
        wire.query("VACUUM ANALYZE")?;
        wire.query("CHECKPOINT")?;
        Ok(())
    }

    fn drive(
        &self,
        job: &mut Job,
        plan: Plan,
        stop: &AtomicBool,
        mut watch: impl FnMut(Moment, Option<Duration>),
    ) -> BenchResult<Driven> {
        pipeline::drive(&mut PostgresTalk { postgres: self, job }, plan, stop, |moment| {
            watch(moment, cpu_of_tree(self.process.id()))
        })
    }

    fn count(&self, job: &Job) -> BenchResult<i64> {
        let table = if job.votes() { "votes" } else { "store" };
        let text = self.connect()?.query(&format!("SELECT count(*) FROM {table}"))?;
        text.parse().map_err(|_| BenchError::Load(format!("PostgreSQL counts {text:?}")))
    }
}

/// PostgreSQL as a [`Dialect`].
struct PostgresTalk<'s> {
    postgres: &'s Postgres,
    job: &'s mut Job,
}

impl Dialect for PostgresTalk<'_> {
    type Note = JobNote;

    fn open(&self) -> BenchResult<TcpStream> {
        let mut wire = self.postgres.connect()?;
        let statements: &[_] = if self.job.votes() { &[VOTE] } else { &[GET, PUT] };
        statements.iter().try_for_each(|statement| wire.prepare(*statement))?;
        Ok(wire.stream)
    }

    fn call(&mut self, out: &mut Vec<u8>) -> JobNote {
        if self.job.votes() {
            let (phone, contestant, limit) = self.job.next_vote();
            let parameters: [&[u8]; 3] = [&phone.to_be_bytes(), &contestant.to_be_bytes(), &limit.to_be_bytes()];
            bind_and_execute(out, VOTE.0, &parameters);
            sync(out);
            return JobNote::Vote;
        }
        let (note, key) = self.job.next_key();
        self.job.with_pair(key, |key, value| match note {
            JobNote::Read => bind_and_execute(out, GET.0, &[key]),
            _ => bind_and_execute(out, PUT.0, &[key, value]),
        });
        sync(out);
        note
    }

    fn length(&self, bytes: &[u8]) -> BenchResult<Option<usize>> {
        answer_length(bytes)
    }

    fn completed(&mut self, note: JobNote, answer: &[u8]) -> LoadOutcome {
        let found = Messages(answer).find(|(kind, _)| matches!(kind, b'D' | b'E' | b'C'));
        match (note, found) {
            (_, Some((b'E', body))) => self.job.failed(|| error_text(body)),
            (JobNote::Vote, Some((b'D', body))) => {
                let answer = field(body).and_then(|field| field.try_into().ok()).map_or(-1, i64::from_be_bytes);
                self.job.voted(answer)
            }
            (JobNote::Read, Some((b'D', body))) => self.job.was_read(field(body).map_or(0, <[u8]>::len)),
            (JobNote::Write, Some((b'C', b"INSERT 0 1\0"))) => self.job.was_written(),
            _ => self.job.failed(|| "an answer without a row".to_string()),
        }
    }
}

/// A connection, used one question at a time.
struct Wire {
    stream: TcpStream,
}

impl Wire {
    /// Runs statements by the simple protocol. The first field of the last row, or nothing.
    fn query(&mut self, sql: &str) -> BenchResult<String> {
        let mut out = Vec::new();
        message(&mut out, b'Q', |body| {
            body.extend_from_slice(sql.as_bytes());
            body.push(0);
        });
        self.stream.write_all(&out).doing("asking PostgreSQL")?;
        let answer = self.until_ready()?;
        let row = Messages(&answer).filter(|(kind, _)| *kind == b'D').last();
        Ok(row
            .and_then(|(_, body)| field(body))
            .map_or(String::new(), |field| String::from_utf8_lossy(field).into_owned()))
    }

    /// A statement with parameters and results in binary.
    fn prepare(&mut self, (name, sql): (&str, &str)) -> BenchResult<()> {
        let mut out = Vec::new();
        message(&mut out, b'P', |body| {
            for text in [name, sql] {
                body.extend_from_slice(text.as_bytes());
                body.push(0);
            }
            body.extend_from_slice(&0u16.to_be_bytes());
        });
        sync(&mut out);
        self.stream.write_all(&out).doing("preparing a statement")?;
        self.until_ready().map(drop)
    }

    /// Everything up to the server's word that it is ready; an error if there was one.
    fn until_ready(&mut self) -> BenchResult<Vec<u8>> {
        let mut answer = Vec::new();
        let mut buffer = [0; 65_536];
        loop {
            if let Some(length) = answer_length(&answer)? {
                answer.truncate(length);
                return match Messages(&answer).find(|(kind, _)| *kind == b'E') {
                    Some((_, body)) => Err(BenchError::Load(format!("PostgreSQL: {}", error_text(body)))),
                    None => Ok(answer),
                };
            }
            match self.stream.read(&mut buffer).doing("reading from PostgreSQL")? {
                0 => {
                    let said = Messages(&answer).find(|(kind, _)| *kind == b'E');
                    let why = said.map_or("it closed the connection".to_string(), |(_, body)| error_text(body));
                    return Err(BenchError::Load(format!("PostgreSQL: {why}")));
                }
                bytes => answer.extend_from_slice(&buffer[..bytes]),
            }
        }
    }
}

/// A message: its kind, its length, its body.
fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = ((out.len() - start) as u32).to_be_bytes();
    out[start..start + 4].copy_from_slice(&length);
}

fn bind_and_execute(out: &mut Vec<u8>, statement: &str, parameters: &[&[u8]]) {
    message(out, b'B', |body| {
        body.push(0);
        body.extend_from_slice(statement.as_bytes());
        body.push(0);
        // All parameters in binary.
        body.extend_from_slice(&[0, 1, 0, 1]);
        body.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            body.extend_from_slice(&(parameter.len() as u32).to_be_bytes());
            body.extend_from_slice(parameter);
        }
        // All results in binary.
        body.extend_from_slice(&[0, 1, 0, 1]);
    });
    message(out, b'E', |body| body.extend_from_slice(&[0, 0, 0, 0, 0]));
}

fn sync(out: &mut Vec<u8>) {
    message(out, b'S', |_| ());
}

/// The whole messages at the start of some bytes: kind and body.
struct Messages<'b>(&'b [u8]);

impl<'b> Iterator for Messages<'b> {
    type Item = (u8, &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = u32::from_be_bytes(self.0.get(1..5)?.try_into().ok()?) as usize;
        let body = self.0.get(5..length.checked_add(1)?)?;
        let kind = self.0[0];
        self.0 = &self.0[length + 1..];
        Some((kind, body))
    }
}

/// An answer ends where the server says that it is ready for the next query.
fn answer_length(bytes: &[u8]) -> BenchResult<Option<usize>> {
    let mut messages = Messages(bytes);
    while let Some((kind, _)) = messages.next() {
        if kind == b'Z' {
            return Ok(Some(bytes.len() - messages.0.len()));
        }
    }
    Ok(None)
}

/// The first field of a row; None for NULL.
fn field(row: &[u8]) -> Option<&[u8]> {
    let length = i32::from_be_bytes(row.get(2..6)?.try_into().ok()?);
    row.get(6..6 + usize::try_from(length).ok()?)
}

/// The message among an error's fields.
fn error_text(body: &[u8]) -> String {
    let fields = body.split(|byte| *byte == 0);
    let text = fields.filter_map(|field| field.strip_prefix(b"M")).map(String::from_utf8_lossy).next();
    text.map_or("an error without a text".to_string(), |text| text.into_owned())
}

/// The folder of the server's programs: the newest of Debian's packages, or wherever PATH finds
/// them.
fn programs() -> Option<PathBuf> {
    let has_all = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().parse().unwrap_or(0), entry.path().join("bin")))
        .collect();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let packaged = versions.into_iter().rev().map(|(_, folder)| folder);
    packaged.chain(std::env::split_paths(&path)).find(has_all)
}

/// Who runs the server: PostgreSQL refuses to be root.
struct User(Option<(&'static str, u32)>);

impl User {
    fn for_server() -> BenchResult<User> {
        if !rustix::process::getuid().is_root() {
            return Ok(User(None));
        }
        let users = std::fs::read_to_string("/etc/passwd").doing("looking for a user to run PostgreSQL")?;
        let number = |name: &str| {
            let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
            line.split(':').nth(2)?.parse().ok()
        };
        let found = ["postgres", "nobody"].into_iter().find_map(|name| number(name).map(|number| (name, number)));
        let found = found.ok_or_else(|| {
            BenchError::Load("PostgreSQL does not run as root, and there is no user postgres or nobody".to_string())
        })?;
        Ok(User(Some(found)))
    }

    fn give(&self, directory: &Path) -> BenchResult<()> {
        let Some((_, number)) = self.0 else { return Ok(()) };
        chown(directory, Some(number), None).doing(format_args!("giving {} to another user", directory.display()))
    }

    /// Its process is told when this one ends, however it ends.
    fn command(&self, program: &Path, directory: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "INT"]);
        if let Some((name, _)) = self.0 {
            command.arg(format!("--reuid={name}")).arg("--clear-groups");
        }
        command.arg("--").arg(program).current_dir(directory).env("LC_ALL", "C");
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_lengths() {
        let mut out = Vec::new();
        bind_and_execute(&mut out, "vote", &[&[1, 2]]);
        sync(&mut out);
        let kinds: Vec<(u8, usize)> = Messages(&out).map(|(kind, body)| (kind, body.len())).collect();
        assert_eq!(kinds, [(b'B', 1 + 5 + 4 + 2 + 6 + 4), (b'E', 5), (b'S', 0)]);
    }

    #[test]
    fn answers_end_with_ready() {
        let mut bytes = Vec::new();
        message(&mut bytes, b'2', |_| ());
        message(&mut bytes, b'D', |body| body.extend_from_slice(&[0, 1, 0, 0, 0, 2, 7, 8]));
        message(&mut bytes, b'Z', |body| body.push(b'I'));
        let whole = bytes.len();
        message(&mut bytes, b'2', |_| ());
        assert_eq!(answer_length(&bytes).unwrap(), Some(whole));
        assert!((0..whole).all(|length| answer_length(&bytes[..length]).unwrap().is_none()));
        let (_, row) = Messages(&bytes).find(|(kind, _)| *kind == b'D').unwrap();
        assert_eq!(field(row), Some(&[7, 8][..]));
        assert_eq!(field(&[0, 1, 255, 255, 255, 255]), None);
        assert_eq!(error_text(b"SERROR\0Mno such thing\0\0"), "no such thing");
    }
}
