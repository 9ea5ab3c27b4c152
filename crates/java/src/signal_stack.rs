//! Where a thread that runs Java takes signals.

use std::ptr::null_mut;

/// The runtime of Rust gives threads a small stack for signals, on which the JVM's handlers would
/// not have room: Java's way of finding null pointers and full stacks is a signal. Without it they
/// use the thread's own stack, as on threads of Java's.
pub(crate) fn own_stack_for_signals() {
    let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: a plain system call on a valid structure; this thread is not in a signal handler.
    unsafe { libc::sigaltstack(&none, null_mut()) };
}
