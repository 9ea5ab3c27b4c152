//! Other programs that a run starts beside the server: Node.js processes, other databases. They end
//! with the run, however it ends.

use crate::error::{BenchError, BenchResult, Doing};
use crate::process::{Signal, forget, remember, send_signal};
use rustix::process::set_parent_process_death_signal;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time to end when told to; then it is killed.
const STOP_SECONDS_MAX: u64 = 30;

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Companion {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Companion {
    /// Starts it with pipes to write lines to and read lines from. What it says on standard error
    /// goes wherever `command` sends it.
    pub fn start(name: &str, command: &mut Command, directory: Option<&Path>) -> BenchResult<Companion> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C in the terminal is for this process, which then ends the others in good order.
        command.process_group(0);
        // SAFETY: between fork and exec only a system call is made, which neither allocates nor
        // takes a lock.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let mut child = command.spawn().doing(format_args!("starting {name}"))?;
        remember(child.id(), directory.map(Path::to_path_buf));
        let input = child.stdin.take();
        let output = child.stdout.take().expect("the child's output was asked for");
        let (sender, lines) = channel();
        // Reads on to the end, so that the program never meets a full pipe.
        let read = move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        };
        thread::Builder::new().name("companion-output".to_string()).spawn(read).doing("starting a thread")?;
        Ok(Companion { name: name.to_string(), child, input, lines })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn send(&mut self, line: &str) -> BenchResult<()> {
        let input = self.input.as_mut().expect("the child's input was asked for");
        writeln!(input, "{line}").doing(format_args!("writing to {}", self.name))
    }

    /// The next line that it prints. An error when none comes in time, or it ends.
    pub fn line(&mut self, patience: Duration) -> BenchResult<String> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                Err(BenchError::Load(format!("{} said nothing for {} s", self.name, patience.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let ended = self.wait_until(Instant::now() + Duration::from_secs(STOP_SECONDS_MAX))?;
                let how = ended.map_or("closed its output".to_string(), |status| format!("ended ({status})"));
                Err(BenchError::Load(format!("{} {how} before it was done; what it said stands above", self.name)))
            }
        }
    }

    pub fn has_ended(&mut self) -> BenchResult<Option<ExitStatus>> {
        self.child.try_wait().doing(format_args!("looking after {}", self.name))
    }

    /// Waits for it to end by itself.
    pub fn finish(mut self) -> BenchResult<()> {
        self.input.take();
        match self.wait_until(Instant::now() + Duration::from_secs(STOP_SECONDS_MAX))? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(BenchError::Load(format!("{} ended with an error ({status})", self.name))),
            None => Err(BenchError::Load(format!("{} did not end within {STOP_SECONDS_MAX} s", self.name))),
        }
    }

    /// Tells it to end, and waits.
    pub fn stop(mut self, signal: Signal) -> BenchResult<()> {
        if let Some(status) = self.has_ended()? {
            return Err(BenchError::Load(format!("{} ended during the run ({status})", self.name)));
        }
        send_signal(self.child.id(), signal);
        match self.wait_until(Instant::now() + Duration::from_secs(STOP_SECONDS_MAX))? {
            Some(_) => Ok(()),
            None => Err(BenchError::Load(format!("{} did not stop within {STOP_SECONDS_MAX} s", self.name))),
        }
    }

    fn wait_until(&mut self, give_up: Instant) -> BenchResult<Option<ExitStatus>> {
        loop {
            let status = self.has_ended()?;
            if status.is_some() || Instant::now() >= give_up {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        forget(self.child.id());
    }
}

/// A program by its path, or by its name in the folders of PATH and those given.
pub fn find_program(name: &str, more_folders: &[PathBuf]) -> Option<PathBuf> {
    let executable = |path: PathBuf| path.is_file().then_some(path);
    if name.contains('/') {
        return executable(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(more_folders.iter().cloned()).find_map(|folder| executable(folder.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Companion {
        Companion::start("a shell", Command::new("/bin/sh").arg("-c").arg(script), None).unwrap()
    }

    #[test]
    fn lines_go_both_ways() {
        let mut companion = shell("echo ready; read word; echo \"heard $word\"");
        assert_eq!(companion.line(Duration::from_secs(20)).unwrap(), "ready");
        companion.send("this").unwrap();
        assert_eq!(companion.line(Duration::from_secs(20)).unwrap(), "heard this");
        companion.finish().unwrap();
    }

    #[test]
    fn ends_that_were_not_asked_for_are_errors() {
        let error = shell("exit 3").line(Duration::from_secs(20)).unwrap_err().to_string();
        assert!(error.contains("a shell ended") && error.contains('3'), "{error}");
        assert!(shell("exit 3").finish().unwrap_err().to_string().contains("with an error"));
        let error = shell("exec sleep 100").line(Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.contains("said nothing"), "{error}");
        shell("exec sleep 100").stop(Signal::TERM).unwrap();
        assert!(Companion::start("nothing", &mut Command::new("/absent/program"), None).is_err());
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(find_program("sh", &[]).is_some());
        assert_eq!(find_program("/bin/sh", &[]), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find_program("a-program-that-nobody-has", &[PathBuf::from("/bin")]), None);
    }
}
