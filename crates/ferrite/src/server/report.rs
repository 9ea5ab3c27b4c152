//! What a server prints when it has started: what it found, what it lacks, where it listens.

use super::options::Options;
use ferrite_node::{Durability, Server, privilege};
use std::path::PathBuf;

/// What the options say that the report needs: the node takes the others.
pub(super) struct Report {
    dir: PathBuf,
    unused: Option<String>,
    trust_clients: bool,
    durability: Durability,
}

impl Report {
    pub(super) fn of(options: &Options) -> Report {
        Report {
            dir: options.dir.clone(),
            unused: unused_when_old(options),
            trust_clients: options.trust_clients,
            durability: options.durability,
        }
    }

    /// The last line tells that calls are taken.
    pub(super) fn print(&self, server: &Server) {
        self.recovery(server);
        if !ferrite_base::memory::takes_rows() {
            ferrite_io::errln!(
                "ferrite: the data take {} bytes, all that --memory-limit allows: new rows are refused until some are deleted",
                ferrite_base::memory::used()
            );
        }
        for line in privilege::notices(server.address(), server.admin_address(), self.trust_clients) {
            ferrite_io::errln!("ferrite: {line}");
        }
        let partitions = server.partition_count();
        let plural = if partitions == 1 { "" } else { "s" };
        let node = server.node().map_or_else(String::new, |node| format!(", node {node}"));
        let admin = server.admin_address().map_or_else(String::new, |address| format!(", administration on {address}"));
        let durability = self.durability;
        ferrite_io::outln!(
            "ferrite ready on {} ({partitions} partition{plural}, durability {durability}{node}{admin})",
            server.address()
        );
    }

    fn recovery(&self, server: &Server) {
        let recovery = server.recovery();
        if recovery.created && server.node().is_none() {
            ferrite_io::errln!("ferrite: {} had no database: created a new one", self.dir.display());
        }
        if !recovery.created {
            if let Some(unused) = self.unused.as_ref().filter(|_| !recovery.begun) {
                ferrite_io::errln!("ferrite: {} holds a database already, so {unused}", self.dir.display());
            }
            recovered(server);
        }
        if recovery.torn_bytes > 0 {
            ferrite_io::errln!(
                "ferrite: cut off {} bytes of an incomplete write at the end of the redo log. A crash leaves such a write. It was not \
                 acknowledged, unless the server ran with durability interval or none; everything known to be durable was recovered",
                recovery.torn_bytes
            );
        } else if !recovery.clean {
            ferrite_io::errln!(
                "ferrite: the previous server did not shut down cleanly; everything known to be durable was recovered"
            );
        }
    }
}

/// What a database that was there took to come back.
fn recovered(server: &Server) {
    let recovery = server.recovery();
    if let Some(loaded) = &recovery.snapshot {
        let seconds = loaded.duration.as_secs_f64();
        ferrite_io::errln!(
            "ferrite: snapshot {}: {} rows and {:.1} MB loaded in {seconds:.3} s ({:.0} MB/s)",
            loaded.snapshot,
            loaded.rows,
            loaded.bytes as f64 / 1e6,
            loaded.bytes as f64 / 1e6 / seconds.max(1e-9)
        );
    }
    let seconds = recovery.replay_duration.as_secs_f64();
    let (first, last) = recovery.log_segments;
    ferrite_io::errln!(
        "ferrite: recovered {} transactions ({} row changes) and {} schema changes from {:.1} MB of log, segments {first} to {last}, \
         in {seconds:.3} s ({:.0} row changes/s per thread, {} threads); {:.3} s in all",
        recovery.transactions,
        recovery.row_changes,
        recovery.schema_changes,
        recovery.log_bytes as f64 / 1e6,
        recovery.row_changes as f64 / seconds.max(1e-9) / recovery.threads.clamp(1, server.partition_count()) as f64,
        recovery.threads.clamp(1, server.partition_count()),
        recovery.duration.as_secs_f64()
    );
    for (snapshot, why) in &recovery.damaged {
        ferrite_io::errln!(
            "ferrite: snapshot {snapshot} is damaged and was left as it is; used an older snapshot and more of the log: {why}"
        );
    }
}

/// What is for a new database, where there was one.
fn unused_when_old(options: &Options) -> Option<String> {
    let schema = options.schema.as_ref().map(|_| "--schema");
    let classes = (!options.classes.is_empty()).then_some("--classes");
    let given: Vec<&str> = schema.into_iter().chain(classes).collect();
    let verb = if given.len() == 1 { "was" } else { "were" };
    if given.is_empty() {
        let leave = "--new was not needed: leave it out of scripts and unit files, or a volume that is not mounted \
                     becomes a new database";
        return options.new.then(|| leave.to_owned());
    }
    Some(format!(
        "{} {verb} not used. For a new database give another --dir; to change this one use `ferrite sql -f FILE`",
        given.join(" and ")
    ))
}
