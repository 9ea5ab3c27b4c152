//! A node whose copy is given up begins again by itself, as the same process: with the same
//! arguments, and so with an empty copy (docs/decisions/0062-content-hashes.md).
//!
//! Promises that it does so once in [`AGAIN_AFTER`]: a machine whose memory or disk makes every
//! copy differ does not fill its disk with those that were put aside.

use ferrite_io::{Clock, SystemClock};
use ferrite_notice::Notice;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// When the process began again last, in seconds of the boot-time clock; for its successor.
const BEGUN: &str = "FERRITE_BEGUN_ANEW_SECONDS";
const AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// The value for the successor, unless that would be one too many.
fn next(last: Option<&str>, now: u64) -> Option<String> {
    let last: Option<u64> = last.and_then(|last| last.parse().ok());
    let is_soon = last.is_some_and(|last| now.saturating_sub(last) < AGAIN_AFTER.as_secs());
    (!is_soon).then(|| now.to_string())
}

/// Replaces this process by another one of the same program with the same arguments. Returns where
/// that cannot be, or should not.
pub fn begin() -> ExitCode {
    let now = SystemClock.boottime_nanos() / 1_000_000_000;
    let last = std::env::var(BEGUN).ok();
    let Some(begun) = next(last.as_deref(), now) else {
        ferrite_io::notify(Notice::CopyGivenUpTwice);
        return ExitCode::FAILURE;
    };
    ferrite_io::notify(Notice::Restarts);
    ferrite_io::stdio::flush(ferrite_io::stdio::LAST_LINES_TIME);
    let program = std::env::current_exe();
    let error = match program {
        Ok(program) => Command::new(program).args(std::env::args_os().skip(1)).env(BEGUN, begun).exec(),
        Err(error) => error,
    };
    ferrite_io::notify(Notice::RestartFailed { reason: error.to_string() });
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_an_hour() {
        assert_eq!(next(None, 50).as_deref(), Some("50"));
        assert_eq!(next(Some("50"), 3_649), None);
        assert_eq!(next(Some("50"), 3_650).as_deref(), Some("3650"));
        assert_eq!(next(Some("nonsense"), 7).as_deref(), Some("7"));
    }
}
