//! The JVM bridge: the only crate that knows Java.
//!
//! Owns the process's JVM, which is started when the first Java procedure is loaded, the buffers that threads and Java hand each other,
//! and the classes of each catalog version. Promises that nothing a procedure throws gets out of it but as an error of its call. Knows
//! no partitions: it implements the traits of `ferrite_sql::foreign`, and whoever runs a program calls through them.
//!
//! The rooms: [`locate`] finds a JDK, `sources` compiles the Java side of the bridge with it, `machine` starts the JVM, `exchange` is
//! a thread's crossing, `library` loads classes and describes procedures, `procedure` calls them.
//!
//! Words of the `SAFETY:` comments: *the exchange* of a thread is made once when the thread first calls Java, is never freed, and is used by
//! that thread alone; *the host* is the transaction of the call that is going on, set before Java is entered and taken away when it is
//! left.

mod exchange;
mod library;
pub mod locate;
mod machine;
mod procedure;
mod sources;

use ferrite_sql::foreign::Runtime;

/// The runtime for `ferrite_sql::foreign::install`. `options` go to the JVM, after our own.
pub fn runtime(options: Vec<String>) -> Box<dyn Runtime> {
    Box::new(library::JavaRuntime::new(options))
}
