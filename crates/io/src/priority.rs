//! Threads that work ahead step back for those that are waited for.

use rustix::process::setpriority_process;

/// How much a thread yields to others when cores are short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Yielding {
    /// A tenth of a usual thread's share at least: somebody will wait for its work soon.
    Some,
    /// Next to nothing: its work can be done by others when it comes too late.
    Most,
}

/// Lowers the calling thread's priority for good. Where the system refuses, it stays as it was.
pub fn lower_priority(yielding: Yielding) {
    let nice = match yielding {
        Yielding::Some => 10,
        Yielding::Most => 19,
    };
    // On Linux this is the calling thread's, not the whole process's.
    let _ = setpriority_process(None, nice);
}
