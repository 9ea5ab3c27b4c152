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

/// A thread of this process, by its number.
#[derive(Clone, Copy, Debug)]
pub struct ThreadNumber(i32);

impl ThreadNumber {
    /// The calling thread's.
    pub fn here() -> ThreadNumber {
        ThreadNumber(rustix::thread::gettid().as_raw_nonzero().get())
    }

    /// Takes [`Yielding::Most`] back, so that the thread can end while others take all processors:
    /// the process outlives its exit until it has. Only a privileged process may do that; where the
    /// system refuses, the thread stays as it is.
    pub fn restore_priority(self) {
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the call reads one structure, which lives until it returns. The number of a
        // thread that has ended is refused; a thread that has just been given that number would get
        // the usual policy.
        unsafe { libc::sched_setscheduler(self.0, libc::SCHED_OTHER, &parameters) };
    }
}

/// Lowers the calling thread's priority for good. Where the system refuses, it stays as it was.
pub fn lower_priority(yielding: Yielding) {
    match yielding {
        // On Linux this is the calling thread's, not the whole process's.
        Yielding::Some => drop(setpriority_process(None, 10)),
        Yielding::Most => {
            // Niceness alone is not enough: a nice thread keeps its core to the end of its slice,
            // some milliseconds, while one of this class makes way as soon as another wakes up.
            let parameters = libc::sched_param { sched_priority: 0 };
            // SAFETY: the call reads one structure, which lives until it returns, and concerns this
            // thread only.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) };
        }
    }
}
