//! Runs a program for a limited time and keeps the beginning of what it says.
//!
//! It waits for the program's end and for its output at once. All output is read, so that the
//! program never waits for a full pipe.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Bytes of a program's output that are kept.
const OUTPUT_BYTES_MAX: usize = 8 << 10;

/// How the program ended, and what it said on standard output and standard error. None: it was
/// ended after `time_max`.
pub(crate) fn run(mut command: Command, time_max: Duration) -> io::Result<Option<(ExitStatus, Vec<u8>)>> {
    let (mut output, end) = io::pipe()?;
    ioctl_fionbio(&output, true)?;
    command.stdin(Stdio::null()).stdout(end.try_clone()?).stderr(end);
    let mut child = command.spawn()?;
    // It holds this process's ends for writing, without which the output has an end.
    drop(command);
    let said = watch(&child, &mut output, time_max);
    if !matches!(said, Ok(Some(_))) {
        let _ = child.kill();
    }
    let status = child.wait()?;
    Ok(said?.map(|said| (status, said)))
}

/// What it said until its end. None: it goes on after `time_max`.
fn watch(child: &Child, output: &mut PipeReader, time_max: Duration) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now().checked_add(time_max);
    // Old kernels and some sandboxes lack it: there the end of the output stands for the end of the
    // program.
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok();
    let mut said = Vec::new();
    let mut is_open = true;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut awaited: Vec<PollFd<'_>> = process.iter().map(|process| PollFd::new(process, PollFlags::IN)).collect();
        if is_open {
            awaited.push(PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN));
        }
        match poll(&mut awaited, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_ended = process.is_some() && !awaited[0].revents().is_empty();
        is_open = is_open && hear(output, &mut said)? != Heard::End;
        if has_ended || process.is_none() && !is_open {
            // What is in the pipe still. Others that hold it may go on writing.
            while is_open && said.len() < OUTPUT_BYTES_MAX && hear(output, &mut said)? == Heard::Words {}
            return Ok(Some(said));
        }
    }
}

#[derive(PartialEq, Eq)]
enum Heard {
    Words,
    Nothing,
    End,
}

/// One piece of the output, if there is one: no writer is so fast that the deadline is not looked
/// at.
fn hear(output: &mut PipeReader, said: &mut Vec<u8>) -> io::Result<Heard> {
    let mut piece = [0; 4 << 10];
    match output.read(&mut piece) {
        Ok(0) => Ok(Heard::End),
        Ok(bytes) => {
            let room = OUTPUT_BYTES_MAX - said.len();
            said.extend_from_slice(&piece[..bytes.min(room)]);
            Ok(Heard::Words)
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(Heard::Nothing),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_program_says_is_told_with_its_end() {
        let (status, said) =
            run(shell("echo first; echo second >&2; exit 3"), LONG).expect("it runs").expect("it ends");
        assert_eq!((status.code(), &*said), (Some(3), &b"first\nsecond\n"[..]));
    }

    /// More than any pipe holds.
    #[test]
    fn a_program_that_says_much_ends() {
        let (status, said) = run(shell("head -c 3000000 /dev/zero; exit 4"), LONG).expect("it runs").expect("it ends");
        assert_eq!((status.code(), said), (Some(4), vec![0; OUTPUT_BYTES_MAX]));
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        for script in ["exec sleep 3600", "exec >&- 2>&-; exec sleep 3600", "exec cat /dev/zero"] {
            let time_max = Duration::from_millis(20);
            assert_eq!(run(shell(script), time_max).expect("it runs"), None, "{script}");
        }
    }

    /// The pipe has no end while another process holds it.
    #[test]
    fn the_end_of_a_program_is_seen_though_its_output_goes_on() {
        let (status, said) = run(shell("sleep 3600 & echo $!; exit 5"), LONG).expect("it runs").expect("it ends");
        let other = String::from_utf8(said).expect("a number");
        let ended = Command::new("kill").arg(other.trim()).status().expect("it is ended");
        assert_eq!((status.code(), ended.success()), (Some(5), true));
    }

    #[test]
    fn a_program_that_is_missing_is_an_error() {
        assert!(run(Command::new("/nowhere/java"), LONG).is_err());
    }
}
