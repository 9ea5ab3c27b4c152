//! System procedures that run the server: resuming, stopping, notes; and those of the original
//! server that have nothing to do here, answered truthfully or refused with a hint.

use crate::mode::Mode;
use ferrite_base::{ErrorKind, PartitionId, UserError, UserResult, limits};
use ferrite_io::{Clock, SystemClock};
use ferrite_notice::Notice;
use ferrite_system::Identity;
use ferrite_system::result::{SystemResult, SystemTable, cells};
use ferrite_value::{SqlType, Value};
use std::sync::{Arc, Mutex, MutexGuard};

type Stop = Arc<dyn Fn() + Send + Sync>;

/// Stops the server in the way that its owner has set; a request that comes earlier takes effect as
/// soon as that is set.
#[derive(Default)]
pub struct Shutdown(Mutex<(bool, Option<Stop>)>);

impl Shutdown {
    fn lock(&self) -> MutexGuard<'_, (bool, Option<Stop>)> {
        self.0.lock().expect("no panic with who stops")
    }

    pub fn set(&self, stop: impl Fn() + Send + Sync + 'static) {
        let mut known = self.lock();
        let stop = Arc::clone(known.1.get_or_insert(Arc::new(stop)));
        let asked = known.0;
        drop(known);
        if asked {
            stop();
        }
    }

    pub fn is_known(&self) -> bool {
        self.lock().1.is_some()
    }

    pub fn ask(&self) {
        let mut known = self.lock();
        known.0 = true;
        let stop = known.1.clone();
        drop(known);
        if let Some(stop) = stop {
            stop();
        }
    }
}

/// What these procedures use of their node.
pub struct Administration {
    pub mode: Arc<Mode>,
    pub shutdown: Arc<Shutdown>,
    /// Of a cluster, which pauses and resumes as a whole.
    pub is_member: bool,
}

pub fn call(node: &Administration, name: &str, parameters: &[Value<'_>]) -> SystemResult {
    match name {
        "@Resume" | "@CancelShutdown" => {
            none(name, parameters)?;
            node.mode.cancel_stop();
            if !node.is_member && node.mode.pause(false) {
                ferrite_io::notify(Notice::Resumed);
            }
            status(0)
        }
        "@PrepareShutdown" => {
            none(name, parameters)?;
            node.mode.prepare_stop();
            // Clients hand it back to @Shutdown; it means nothing.
            status(SystemClock.wall_micros())
        }
        "@Shutdown" => shut_down(node),
        "@Note" => note(parameters),
        "@GC" => {
            none(name, parameters)?;
            let mut table = SystemTable::new(&[("SYSTEM_GC_DURATION_NANOS", SqlType::Bigint)]);
            table.row([0]);
            Ok(vec![table])
        }
        "@Promote" => Err(UserError::parameters("@Promote: this server is not a replica")),
        "@StopNode" | "@PrepareStopNode" if node.is_member => {
            Err(UserError::parameters(format!("{name}: a node is not stopped through another one"))
                .with_hint("SIGTERM stops a node's process, as @Shutdown does on the node itself: it hands over first"))
        }
        "@StopNode" | "@PrepareStopNode" => Err(UserError::parameters(format!("{name}: the only node cannot leave"))
            .with_hint("@Shutdown stops the server")),
        _ => match REFUSED.iter().find(|(refused, _)| *refused == name) {
            Some((_, hint)) => Err(UserError::not_supported(name).with_hint(*hint)),
            None => Err(ferrite_wire::failure::unknown_procedure(name)),
        },
    }
}

/// Procedures that existing tools know, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("@UpdateApplicationCatalog", "change the schema with DDL statements, settings on the command line"),
    ("@UpdateLicense", "no license is needed"),
    ("@ValidatePartitioning", "rows are checked against their partition when they are written"),
    (
        "@JStack",
        "a Java procedure that runs too long is reported with its stack; for the rest use a debugger, or jstack of the JDK",
    ),
    ("@ProfCtl", "use a profiler of the system"),
    ("@Trace", "use a profiler of the system"),
    ("@ExportControl", "there are no export targets"),
    ("@ElasticRemoveNT", "every node has all partitions; ferrite admin remove-node takes a lost node out of a cluster"),
    ("@ResetDR", "there is no replication to other clusters"),
];

/// A row per partition, as for any snapshot that was waited for.
pub fn snapshot_saved(
    identity: &Identity,
    partitions: impl IntoIterator<Item = PartitionId>,
    outcome: Result<(), &str>,
) -> SystemTable {
    let mut table = SystemTable::new(&[
        ("HOST_ID", SqlType::Integer),
        ("HOSTNAME", SqlType::Varchar),
        ("SITE_ID", SqlType::Integer),
        ("RESULT", SqlType::Varchar),
        ("ERR_MSG", SqlType::Varchar),
    ]);
    let (result, message) = match outcome {
        Ok(()) => ("SUCCESS", ""),
        Err(error) => ("FAILURE", error),
    };
    for partition in partitions {
        let site = i64::from(partition.0);
        table.row(cells![i64::from(identity.host_id), identity.host_name.clone(), site, result, message]);
    }
    table
}

/// The answer that says no more than that it is done.
fn status(value: i64) -> SystemResult {
    let mut table = SystemTable::new(&[("STATUS", SqlType::Bigint)]);
    table.row(cells![value]);
    Ok(vec![table])
}

pub fn none(name: &str, parameters: &[Value<'_>]) -> UserResult<()> {
    if parameters.is_empty() {
        return Ok(());
    }
    Err(ferrite_wire::failure::parameter_count(name, 0, parameters.len()))
}

/// A parameter that means nothing here.
pub fn one_or_no_number(name: &str, parameters: &[Value<'_>]) -> UserResult<()> {
    match parameters {
        [] | [Value::Integer(_)] => Ok(()),
        [_] => Err(UserError::parameters(format!("{name} takes a number, or nothing"))),
        _ => Err(ferrite_wire::failure::parameter_count(name, 1, parameters.len())),
    }
}

/// The answer comes before the end: all that was taken is answered first.
fn shut_down(node: &Administration) -> SystemResult {
    if !node.shutdown.is_known() {
        return Err(UserError::new(ErrorKind::Permission, "42501", "this server cannot be stopped by a call")
            .with_hint("stop its process"));
    }
    node.mode.stop();
    node.shutdown.ask();
    status(0)
}

/// `@UpdateLogging(text)`: accepted, so that scripts continue; it has no loggers to set. Returns
/// the message for the caller.
pub fn update_logging(parameters: &[Value<'_>]) -> UserResult<(SystemResult, String)> {
    let [Value::Text(_)] = parameters else {
        return Err(UserError::parameters("@UpdateLogging takes a string"));
    };
    let words = "@UpdateLogging changes nothing: the server has no loggers to set; @Statistics EVENTS and its standard \
                 error have all that it reports";
    Ok((status(0), words.to_owned()))
}

/// A line in the server's own output, for its later readers.
fn note(parameters: &[Value<'_>]) -> SystemResult {
    let [Value::Text(text)] = parameters else {
        return Err(UserError::parameters("@Note takes a string"));
    };
    if text.len() > limits::NOTE_BYTES_MAX {
        return Err(UserError::limit(format!("a note has at most {} bytes", limits::NOTE_BYTES_MAX)));
    }
    ferrite_io::notify(Notice::Note { text: (*text).to_owned() });
    status(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn whoever_asks_before_it_is_known_how_to_stop_is_heard() {
        let (shutdown, stopped) = (Shutdown::default(), Arc::new(AtomicUsize::new(0)));
        shutdown.ask();
        assert!(!shutdown.is_known());
        let told = Arc::clone(&stopped);
        shutdown.set(move || {
            told.fetch_add(1, Relaxed);
        });
        assert_eq!(stopped.load(Relaxed), 1);
        shutdown.ask();
        assert_eq!(stopped.load(Relaxed), 2);
    }
}
