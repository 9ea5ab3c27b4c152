//! The server under test as a child process, and what `/proc` says about it.

use crate::error::{BenchError, BenchResult, Doing};
use crate::network::begin_in;
pub use ferrite_io::notices::message_of;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process, set_parent_process_death_signal};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time for a server to say that it is ready. Recovery of a large log counts.
const READY_SECONDS_MAX: u64 = 300;
/// Time for a server to stop when told to; then it is killed.
const STOP_SECONDS_MAX: u64 = 60;
/// What stands before the address in the line that a server prints when it is ready.
const READY_MARK: &str = "ready on ";

/// A server process that ends when this is dropped, and its data directory with it if it is a
/// temporary one. Should this process be killed, or the thread end that started it, the kernel ends
/// the server.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    address: String,
    ready_line: String,
    directory: Option<TempDir>,
}

/// The servers that run now, with their temporary directories: for [`end_all_now`] alone.
static RUNNING: Mutex<Vec<(u32, Option<PathBuf>)>> = Mutex::new(Vec::new());

/// Adds a process that [`end_all_now`] is to end.
pub(crate) fn remember(process: u32, directory: Option<PathBuf>) {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).push((process, directory));
}

/// Takes out a process that has been waited for.
pub(crate) fn forget(process: u32) {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).retain(|(running, _)| *running != process);
}

/// Kills all servers and removes their temporary directories, for a program that is about to exit
/// without unwinding.
pub fn end_all_now() {
    for (process, directory) in RUNNING.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        if let Some(process) = Pid::from_raw(process as i32) {
            // It fails only when the process has ended already.
            let _ = kill_process(process, Signal::KILL);
        }
        if let Some(directory) = directory {
            // The server may finish a write while it dies; a few attempts see its end.
            (0..50).find(|_| {
                let removed = fs::remove_dir_all(&directory).is_ok();
                thread::sleep(Duration::from_millis(if removed { 0 } else { 10 }));
                removed
            });
        }
    }
}

/// Whether that program's server has the option: one of an earlier release is compared with, too.
fn knows(executable: &Path, option: &str) -> bool {
    let help = Command::new(executable).args(["server", "--help"]).stdin(Stdio::null()).output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).split_whitespace().any(|word| word == option))
}

/// How to start `ferrite server`.
#[derive(Clone, Debug)]
pub struct ServerCommand {
    pub executable: PathBuf,
    /// None: a temporary one, removed afterwards.
    pub directory: Option<PathBuf>,
    pub durability: Option<String>,
    pub partitions: Option<usize>,
}

impl ServerProcess {
    /// Starts a server on a port that the system chooses, and waits until it is ready.
    pub fn start(command: &ServerCommand) -> BenchResult<ServerProcess> {
        let temporary = match &command.directory {
            Some(_) => None,
            None => {
                let directory = tempfile::Builder::new().prefix("ferrite-").tempdir();
                Some(directory.doing("making a temporary directory")?)
            }
        };
        let directory = match (&command.directory, &temporary) {
            (Some(directory), _) => directory.as_path(),
            (None, Some(temporary)) => temporary.path(),
            (None, None) => unreachable!("a temporary directory was made"),
        };
        let mut arguments: Vec<OsString> = ["server", "--listen", "127.0.0.1:0", "--dir"].map(OsString::from).to_vec();
        arguments.push(directory.into());
        if knows(&command.executable, "--new") {
            arguments.push("--new".into());
        }
        if let Some(durability) = &command.durability {
            arguments.extend(["--durability".into(), durability.into()]);
        }
        if let Some(partitions) = command.partitions {
            arguments.extend(["--partitions".into(), partitions.to_string().into()]);
        }
        Self::spawn(&command.executable, &arguments, temporary)
    }

    /// Starts the yardstick's server.
    pub fn start_limit(executable: &Path, rows: usize) -> BenchResult<ServerProcess> {
        let rows = rows.to_string();
        let arguments = ["bench", "limit-server", "--listen", "127.0.0.1:0", "--rows", &rows].map(OsString::from);
        Self::spawn(executable, &arguments, None)
    }

    /// Starts `executable`, which prints one line with `ready on HOST:PORT` when it takes
    /// connections.
    pub fn spawn(executable: &Path, arguments: &[OsString], directory: Option<TempDir>) -> BenchResult<ServerProcess> {
        Self::launch(executable, arguments, directory, None)?.until_ready()
    }

    /// Starts `executable` and does not wait for it. What it says on standard error goes to
    /// `messages`, if that is given.
    pub fn launch(
        executable: &Path,
        arguments: &[OsString],
        directory: Option<TempDir>,
        messages: Option<fs::File>,
    ) -> BenchResult<Launched> {
        Self::launch_in(None, executable, arguments, directory, messages)
    }

    /// As [`ServerProcess::launch`], in a network namespace.
    pub fn launch_in(
        namespace: Option<&fs::File>,
        executable: &Path,
        arguments: &[OsString],
        directory: Option<TempDir>,
        messages: Option<fs::File>,
    ) -> BenchResult<Launched> {
        let mut command = Command::new(executable);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        if let Some(messages) = messages {
            command.stderr(messages);
        }
        // Ctrl-C in the terminal is for this process, which then stops the server in good order.
        command.process_group(0);
        // The system takes the thread for the parent: a server ends with the thread that started
        // it.
        // SAFETY: between fork and exec only a system call is made, which neither allocates nor
        // takes a lock.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        if let Some(namespace) = namespace {
            begin_in(&mut command, namespace).doing("keeping a network namespace")?;
        }
        let mut child = command.spawn().doing(format!("starting {}", executable.display()))?;
        let path = directory.as_ref().map(|directory| directory.path().to_path_buf());
        remember(child.id(), path);
        let stdout = child.stdout.take().expect("the child's output was asked for");
        let process = ServerProcess { child, address: String::new(), ready_line: String::new(), directory };
        let (sender, output) = channel();
        // Reads on to the end, so that the server never meets a closed or full pipe.
        let reader = move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        };
        thread::Builder::new().name("server-output".to_string()).spawn(reader).doing("starting a thread")?;
        Ok(Launched { process, output })
    }

    /// `host:port` for clients.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What the server said when it was ready: partitions, durability.
    pub fn ready_line(&self) -> &str {
        &self.ready_line
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The temporary data directory, if it has one.
    pub fn temporary_directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(TempDir::path)
    }

    /// Tells the server to stop and waits for it. Fails when it does not, or ends with an error.
    pub fn stop(mut self) -> BenchResult<()> {
        self.end()
    }

    /// As [`ServerProcess::stop`], with its files kept until this is dropped.
    pub fn end(&mut self) -> BenchResult<()> {
        if let Some(status) = self.child.try_wait().doing("looking after the server")? {
            return Err(BenchError::Server(format!("the server ended during the run ({status})")));
        }
        self.signal(Signal::TERM);
        self.await_stop()
    }

    /// Waits for the orderly end of a server that was sent SIGTERM.
    pub fn await_end(mut self) -> BenchResult<()> {
        self.await_stop()
    }

    fn await_stop(&mut self) -> BenchResult<()> {
        let Some(status) = self.wait_until(Instant::now() + Duration::from_secs(STOP_SECONDS_MAX))? else {
            let seconds = STOP_SECONDS_MAX;
            return Err(BenchError::Server(format!("the server did not stop within {seconds} s of being told to")));
        };
        // One without a handler for the signal ends by it.
        if status.success() || status.signal() == Some(Signal::TERM.as_raw()) {
            Ok(())
        } else {
            Err(BenchError::Server(format!("the server stopped with an error ({status})")))
        }
    }

    /// SIGKILL, and its end.
    pub fn kill(mut self) -> BenchResult<()> {
        self.signal(Signal::KILL);
        self.await_kill()
    }

    /// Waits for the end of a server that somebody has sent SIGKILL to. An error if it ended in any
    /// other way.
    pub fn await_kill(&mut self) -> BenchResult<()> {
        match self.wait_until(Instant::now() + Duration::from_secs(STOP_SECONDS_MAX))? {
            Some(status) if status.signal() == Some(Signal::KILL.as_raw()) => Ok(()),
            Some(status) => Err(BenchError::Server(format!("the server ended by itself ({status})"))),
            None => Err(BenchError::Server("the server outlived SIGKILL".to_string())),
        }
    }

    /// Whether it has ended, however.
    pub fn has_ended(&mut self) -> BenchResult<bool> {
        Ok(self.child.try_wait().doing("looking after the server")?.is_some())
    }

    /// How it ended; None when it has not by then.
    fn wait_until(&mut self, give_up: Instant) -> BenchResult<Option<ExitStatus>> {
        loop {
            let status = self.child.try_wait().doing("waiting for the server")?;
            if status.is_some() || Instant::now() >= give_up {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn signal(&self, signal: Signal) {
        send_signal(self.child.id(), signal);
    }
}

/// To a process that has not been waited for yet: nobody else can have its id.
pub fn send_signal(process: u32, signal: Signal) {
    if let Some(process) = Pid::from_raw(process as i32) {
        // It fails only when the process has ended already.
        let _ = kill_process(process, signal);
    }
}

/// A server that was started and may not be ready yet.
#[derive(Debug)]
pub struct Launched {
    pub process: ServerProcess,
    output: Receiver<String>,
}

impl Launched {
    /// Waits until it takes connections.
    pub fn until_ready(self) -> BenchResult<ServerProcess> {
        let Launched { mut process, output } = self;
        let give_up = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        loop {
            let line = match output.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(BenchError::Server(format!("the server was not ready within {READY_SECONDS_MAX} s")));
                }
                // Its output ends when it ends, a moment before the kernel says so.
                Err(RecvTimeoutError::Disconnected) => {
                    let ended = process.wait_until(Instant::now() + Duration::from_secs(STOP_SECONDS_MAX))?;
                    return Err(BenchError::Server(match ended {
                        Some(status) => format!("the server ended before it was ready ({status})"),
                        None => "the server closed its output before it was ready".to_string(),
                    }));
                }
            };
            if let Some(address) = ready_address(&line) {
                process.address = address.to_string();
                process.ready_line = line;
                return Ok(process);
            }
        }
    }
}

impl Drop for ServerProcess {
    /// On the way out of an error: no data here are worth a slow stop.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        forget(self.child.id());
    }
}

/// `host:port` in a line like `ferrite ready on 127.0.0.1:21212 (2 partitions, durability sync)`.
fn ready_address(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(READY_MARK)?;
    let address = rest.split([' ', ',']).next()?;
    address.contains(':').then_some(address)
}

/// What a process has used and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub cpu: Duration,
    pub resident_bytes: u64,
}

/// Reads `/proc` for a process. None when it has ended or there is no such file system.
pub fn usage(process: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let statm = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    parse_usage(&stat, &statm, rustix::param::clock_ticks_per_second(), rustix::param::page_size() as u64)
}

fn parse_usage(stat: &str, statm: &str, ticks_per_second: u64, page_bytes: u64) -> Option<Usage> {
    // The name, second, may hold anything; its closing parenthesis is the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let resident_pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let cpu = Duration::from_nanos((user + system) * 1_000_000_000 / ticks_per_second);
    Some(Usage { cpu, resident_bytes: resident_pages * page_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_address_in_the_ready_line() {
        let line = "ferrite ready on 127.0.0.1:40123 (2 partitions, durability sync)";
        assert_eq!(ready_address(line), Some("127.0.0.1:40123"));
        assert_eq!(ready_address("ferrite ready on [::1]:5, as you wished"), Some("[::1]:5"));
        assert_eq!(ready_address("recovering"), None);
        assert_eq!(ready_address("ready on it"), None);
    }

    #[test]
    fn reads_proc() {
        let stat = "17 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 3 0 100 200";
        let usage = parse_usage(stat, "900 25 3 4 5 6 7", 100, 4096);
        assert_eq!(usage, Some(Usage { cpu: Duration::from_secs(3), resident_bytes: 25 * 4096 }));
        assert_eq!(parse_usage("17 (x", "1", 100, 4096), None);
        let own = super::usage(std::process::id()).expect("the process that asks exists");
        assert!(own.resident_bytes > 0);
    }

    #[test]
    fn a_server_that_ends_early_is_an_error() {
        let error = ServerProcess::spawn(Path::new("/bin/false"), &[], None).unwrap_err();
        assert!(error.to_string().contains("before it was ready"), "{error}");
    }

    #[test]
    fn starts_and_stops_what_says_it_is_ready() {
        let script = "echo loading; echo ready on 127.0.0.1:1; exec sleep 1000";
        let process = ServerProcess::spawn(Path::new("/bin/sh"), &["-c".into(), script.into()], None).unwrap();
        assert_eq!(process.address(), "127.0.0.1:1");
        process.stop().unwrap();
    }
}
