//! The process of a server: its signals, and the ways in which it may end.

use ferrite_base::fault::PanicReport;
use ferrite_base::limits::{ADDRESS_SPACE_BYTES_MIN, MEMORY_BYTES_MIN};
use ferrite_io::stdio;
use ferrite_notice::Notice;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXCPU};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Whatever ends the server, its last lines get out, if somebody takes them.
pub(super) struct LastLines;

/// The process ends because the server wants to.
static ENDS: AtomicBool = AtomicBool::new(false);
/// A signal is waited for.
static READY: AtomicBool = AtomicBool::new(false);
/// It was code in Java that asked for the end.
static JAVA_EXITS: AtomicBool = AtomicBool::new(false);

/// Somebody has called `exit` who is not us: `Runtime.halt`, a library of Java code's, a JVM that
/// cannot continue.
extern "C" fn exited() {
    if !ENDS.load(Ordering::Relaxed) {
        ferrite_io::notify(Notice::JavaEndedProcess);
        stdio::flush(stdio::LAST_LINES_TIME);
    }
}

/// What `System.exit` does.
pub(super) fn java_exits() {
    JAVA_EXITS.store(true, Ordering::Relaxed);
    if READY.load(Ordering::Acquire) {
        let _ = signal_hook::low_level::raise(SIGTERM);
        return;
    }
    // The thread that starts the server may be the one that waits for the exit.
    stdio::flush(stdio::LAST_LINES_TIME);
    signal_hook::low_level::exit(1);
}

impl Drop for LastLines {
    fn drop(&mut self) {
        ENDS.store(true, Ordering::Relaxed);
        stdio::flush(stdio::LAST_LINES_TIME);
    }
}

/// A panic may be the last that is heard of the process, so it is waited for, but not long: the
/// call in which it came may continue.
fn report_panic(fault: PanicReport<'_>) {
    let backtrace = fault.backtrace.map_or_else(String::new, |backtrace| backtrace.to_string());
    // The place, a colon, and then the message on a line of its own.
    let panic = fault.panic.to_string().replace(":\n", ": ");
    ferrite_io::notify(Notice::InternalFault {
        number: fault.number,
        thread: fault.thread.to_owned(),
        panic,
        backtrace,
    });
    stdio::flush(stdio::LAST_LINES_TIME / 10);
}

/// What every server's process needs before anything else: its lines get out, panics are reported.
/// With the error, which is a line too: there is no thread to be had, or too little room for
/// addresses.
pub(super) fn begin() -> (LastLines, Result<(), String>) {
    let started = stdio::start();
    let last_lines = LastLines;
    ferrite_base::fault::report_panics(report_panic);
    let started = started.map_err(|error| format!("cannot start a thread: {error}"));
    let checked = started.and_then(|()| match ferrite_io::address_space_bytes().and_then(too_few_addresses) {
        Some(problem) => Err(problem),
        None => Ok(()),
    });
    (last_lines, checked)
}

/// Signals are blocked from here on in every thread, and taken by one of their own, which sets
/// `ends` and passes them on.
pub(super) fn watch_signals(ends: &Arc<AtomicBool>) -> Result<Receiver<()>, String> {
    // At its limit of time on the processor the process has a second left.
    let mut watched = vec![SIGTERM, SIGINT, SIGXCPU];
    // The end of a terminal session is an orderly end too; an operator that has it ignored (nohup)
    // wants the server to outlive the session.
    if !is_ignored(SIGHUP) {
        watched.push(SIGHUP);
    }
    let mut signals = Signals::new(watched).map_err(|error| format!("cannot watch for signals: {error}"))?;
    let (told, signalled) = channel();
    let ends = Arc::clone(ends);
    let watch = move || {
        for _ in signals.forever() {
            // A start may wait for other nodes for ever.
            ends.store(true, Ordering::Release);
            let _ = told.send(());
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
    thread.map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(signalled)
}

/// Sets up what else holds for the whole process.
pub(super) fn set_up() -> Result<(), String> {
    ferrite_io::ignore_harmless_signals();
    ferrite_io::at_exit(exited);
    ferrite_io::raise_descriptors();
    crate::allocator::give_back().map_err(|error| format!("cannot start a thread: {error}"))
}

/// From here on an end that Java asks for is an orderly one.
pub(super) fn is_ready() {
    READY.store(true, Ordering::Release);
}

pub(super) fn java_has_ended_it() -> bool {
    JAVA_EXITS.load(Ordering::Relaxed)
}

/// Without addresses an allocation fails, which nobody can answer: the process would end, now or
/// under load.
fn too_few_addresses(bytes: usize) -> Option<String> {
    let least = ADDRESS_SPACE_BYTES_MIN + MEMORY_BYTES_MIN;
    (bytes < least).then(|| {
        format!(
            "the process may use {bytes} bytes of addresses (ulimit -v or -d), and needs {least} for little data: \
             raise that limit, and bound the memory by --memory-limit or a control group"
        )
    })
}

/// Whether this process was started with the signal ignored.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}
