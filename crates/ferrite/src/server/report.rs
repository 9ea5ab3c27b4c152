//! What a server prints when it has started: what it found, what it lacks, where it listens.

use super::options::Options;
use ferrite_node::{Durability, Server, privilege};
use ferrite_notice::Notice;
use std::path::PathBuf;

/// What the options say that the report needs: the node takes the others.
pub(super) struct Report {
    dir: PathBuf,
    unused: Option<Notice>,
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
            ferrite_io::notify(Notice::DataFillMemory { bytes: ferrite_base::memory::used() });
        }
        privilege::notices(server.address(), server.admin_address(), self.trust_clients)
            .into_iter()
            .for_each(ferrite_io::notify);
        ferrite_io::announce(Notice::Ready {
            address: server.address(),
            partitions: server.partition_count(),
            durability: self.durability.to_string(),
            node: server.node(),
            admin: server.admin_address(),
        });
    }

    fn recovery(&self, server: &Server) {
        let recovery = server.recovery();
        if recovery.created && server.node().is_none() {
            ferrite_io::notify(Notice::Created { dir: self.dir.clone() });
        }
        if !recovery.created {
            if let Some(unused) = self.unused.clone().filter(|_| !recovery.begun) {
                ferrite_io::notify(unused);
            }
            recovered(server);
        }
        if let Some(reason) = recovery.loss_without_redo() {
            ferrite_io::notify(Notice::LossWithoutRedo { reason });
        }
        if recovery.torn_bytes > 0 {
            ferrite_io::notify(Notice::IncompleteWriteCut { bytes: recovery.torn_bytes });
        } else if !recovery.clean && recovery.without_redo.is_none() {
            ferrite_io::notify(Notice::UncleanShutdown);
        }
    }
}

/// What a database that was there took to come back.
fn recovered(server: &Server) {
    let recovery = server.recovery();
    if let Some(loaded) = &recovery.snapshot {
        ferrite_io::notify(Notice::SnapshotLoaded {
            snapshot: loaded.snapshot,
            rows: loaded.rows,
            bytes: loaded.bytes,
            duration: loaded.duration,
        });
    }
    let (first_segment, last_segment) = recovery.log_segments;
    ferrite_io::notify(Notice::Recovered {
        transactions: recovery.transactions,
        row_changes: recovery.row_changes,
        schema_changes: recovery.schema_changes,
        log_bytes: recovery.log_bytes,
        first_segment,
        last_segment,
        replay: recovery.replay_duration,
        threads: recovery.threads.clamp(1, server.partition_count()),
        total: recovery.duration,
    });
    for (snapshot, reason) in &recovery.damaged {
        ferrite_io::notify(Notice::OlderSnapshotUsed { snapshot: *snapshot, reason: reason.clone() });
    }
}

/// What is for a new database, where there was one.
fn unused_when_old(options: &Options) -> Option<Notice> {
    let dir = options.dir.clone();
    let schema = options.schema.as_ref().map(|_| "--schema");
    let classes = (!options.classes.is_empty()).then_some("--classes");
    let given: Vec<&str> = schema.into_iter().chain(classes).collect();
    if given.is_empty() {
        return options.new.then_some(Notice::NewNotNeeded { dir });
    }
    Some(Notice::NotForOldDatabase { dir, options: given })
}
