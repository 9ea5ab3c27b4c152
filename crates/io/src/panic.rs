//! Threads that stand or fall together: state after a panic of one cannot be trusted by the others.

use crate::notify::notify;
use crate::stdio;
use ferrite_notice::Notice;

/// Held by a thread of a server for as long as it runs: a panic of that thread ends the process.
/// The log has all that was promised.
#[derive(Default)]
pub struct AbortOnPanic(());

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            notify(Notice::ProcessAborts);
            stdio::flush(stdio::LAST_LINES_TIME);
            std::process::abort();
        }
    }
}
