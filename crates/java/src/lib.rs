//! The JVM bridge: the only crate that knows Java.
//!
//! Owns the process's JVM, which is started when the first Java procedure is loaded, the buffers
//! that threads and Java hand each other, and the classes of each catalog version. Promises that
//! nothing a procedure throws gets out of it but as an error of its call. Knows no partitions: it
//! implements the traits of `ferrite_plan::external`, and whoever runs a program calls through
//! them.
//!
//! The rooms: [`locate`] finds a JDK, `sources` compiles the Java side of the bridge with it,
//! `machine` starts the JVM, `exchange` is a thread's crossing, `library` loads classes and
//! describes procedures, `procedure` calls them, `compound` calls those that run outside of
//! transactions, `waker_registry` lets Java ask for such a call's next stage, `function` calls
//! user-defined functions, `output` takes what code in Java prints.
//!
//! Words of the `SAFETY:` comments: *the exchange* of a thread is made once when the thread first
//! calls Java, is never freed, and is used by that thread alone; *the host* is the transaction of
//! the call that is going on, set before Java is entered and taken away when it is left.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// A line to a stream that nobody reads would hold up the thread that says it; `ferrite_io::stdio`
// does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod bridge_jar;
mod compound;
mod exchange;
mod failure;
mod function;
mod library;
mod loader;
pub mod locate;
mod machine;
mod output;
mod procedure;
mod signal_stack;
mod sources;
mod trial;
mod waker_registry;

use ferrite_plan::external::RuntimeHandle;
use std::time::Duration;

/// Who runs Java. There is at most one JVM in a process. `options` go to the JVM, after our own.
/// A call that runs longer than `time_max` is an event, which shows where it is. `stop` ends the
/// server, as code that calls `System.exit` wants it.
pub fn runtime(options: Vec<String>, time_max: Duration, stop: fn()) -> RuntimeHandle {
    output::on_exit(stop);
    let limit = format!("-Dferrite.procedure.time.max.ms={}", time_max.as_millis());
    RuntimeHandle::new(library::JavaRuntime::new([vec![limit], options].concat()))
}
