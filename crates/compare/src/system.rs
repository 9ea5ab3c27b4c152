//! What all databases that are started for a comparison need: a directory, a free port, a log to
//! quote when they do not start, and the CPU time of all their processes.

use ferrite_bench::companion::Companion;
use ferrite_bench::error::{BenchError, BenchResult, Doing};
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a fresh database may take until it can be reached.
const READY_SECONDS_MAX: u64 = 60;

/// Directories that go with the run.
#[derive(Debug)]
pub struct RunDirectory {
    directory: TempDir,
}

impl RunDirectory {
    /// Under `parent`, or where temporary files are.
    pub fn new(name: &str, parent: Option<&Path>) -> BenchResult<RunDirectory> {
        let mut builder = tempfile::Builder::new();
        let prefix = format!("ferrite-{name}-");
        builder.prefix(&prefix);
        let made = match parent {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        };
        Ok(RunDirectory { directory: made.doing("making a directory")? })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A port that nobody listens on now. Somebody may take it before it is used; then the database
/// says so.
pub fn free_port() -> BenchResult<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("looking for a free port")?;
    Ok(listener.local_addr().doing("looking for a free port")?.port())
}

pub fn log_file(path: &Path) -> BenchResult<Stdio> {
    Ok(File::create(path).doing(format_args!("making {}", path.display()))?.into())
}

/// Waits until something takes connections on the port.
pub fn await_port(process: &mut Companion, port: u16) -> BenchResult<()> {
    let give_up = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if let Some(status) = process.has_ended()? {
            return Err(BenchError::Load(format!("the database ended before it was ready ({status})")));
        }
        if Instant::now() >= give_up {
            return Err(BenchError::Load(format!("the database was not ready within {READY_SECONDS_MAX} s")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The error with the last lines of the database's own log.
pub fn fail_with_log(error: BenchError, log: &Path) -> BenchError {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
    BenchError::Load(format!("{error}; its log ends with:\n  {last}"))
}

/// CPU time of a process and its children, those that have ended included.
pub fn cpu_of_tree(process: u32) -> Option<Duration> {
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    let own = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut ticks = Stat::parse(&own)?.with_ended_children;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            && let Ok(text) = fs::read_to_string(entry.path().join("stat"))
            && let Some(stat) = Stat::parse(&text)
            && stat.parent == process
        {
            ticks += stat.with_ended_children;
        }
    }
    Some(Duration::from_nanos(ticks * 1_000_000_000 / ticks_per_second))
}

struct Stat {
    parent: u32,
    /// User and system time in ticks, of children that were waited for too.
    with_ended_children: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The name, second, may hold anything; its closing parenthesis is the last one.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let parent = fields.get(1)?.parse().ok()?;
        let times: Option<Vec<u64>> = fields.get(11..15)?.iter().map(|field| field.parse().ok()).collect();
        Some(Stat { parent, with_ended_children: times?.iter().sum() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn times_of_a_process_and_its_children() {
        let stat = Stat::parse("17 (a ) b) S 3 2 3 4 5 6 7 8 9 10 250 50 20 10 20 0 3").unwrap();
        assert_eq!((stat.parent, stat.with_ended_children), (3, 330));
        assert!(Stat::parse("17 (x) S 3").is_none());
        assert!(cpu_of_tree(std::process::id()).is_some());
    }

    #[test]
    fn a_database_that_does_not_start_is_quoted() {
        let place = RunDirectory::new("test", None).unwrap();
        let log = place.path().join("log");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo no room >&2; exit 1"]).stderr(log_file(&log).unwrap());
        let mut process = Companion::start("a database", &mut command, None).unwrap();
        let error =
            await_port(&mut process, free_port().unwrap()).map_err(|error| fail_with_log(error, &log)).unwrap_err();
        assert!(error.to_string().contains("no room"), "{error}");
    }
}
