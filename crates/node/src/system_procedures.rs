//! The system procedures, once each: which node answers a call, what a caller needs for it, and
//! which thread answers. What a procedure does is in `dispatch.rs`, `system.rs` and
//! `administration.rs`.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// It is about this node, or the client's connection to it: the node that the client is
    /// connected to answers.
    Node,
    /// It is about the database: the node that leads answers.
    Database,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    Anyone,
    /// Where clients are not trusted, the administration port: it runs code, touches files that
    /// callers name, or stops the server.
    Trusted,
    /// The administration port wherever there is one.
    Administrator,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thread {
    /// The connection's network thread, at once.
    Network,
    System,
}

#[derive(Debug)]
pub struct SystemProcedure {
    pub name: &'static str,
    pub scope: Scope,
    pub right: Right,
    pub thread: Thread,
}

/// In the order of their names.
const ALL: &[SystemProcedure] = {
    use Right::{Administrator, Anyone, Trusted};
    use Scope::{Database, Node};
    use Thread::{Network, System};
    &[
        procedure("@AcceptLoss", Node, Administrator, System),
        procedure("@AdHoc", Database, Anyone, System),
        procedure("@AdHocLarge", Database, Anyone, System),
        procedure("@AdHocSpForTest", Database, Anyone, System),
        procedure("@BackupFiles", Node, Anyone, System),
        procedure("@BackupGroup", Node, Anyone, System),
        procedure("@BackupsOfNode", Node, Anyone, System),
        procedure("@Cancel", Node, Anyone, Network),
        procedure("@CancelShutdown", Database, Administrator, System),
        procedure("@ClusterStatus", Node, Anyone, System),
        procedure("@Explain", Database, Anyone, System),
        procedure("@ExplainCatalog", Database, Anyone, System),
        procedure("@ExplainJSON", Database, Anyone, System),
        procedure("@ExplainProc", Database, Anyone, System),
        procedure("@ExplainView", Database, Anyone, System),
        procedure("@FollowSchema", Node, Anyone, System),
        procedure("@GC", Node, Anyone, System),
        procedure("@GetPartitionKeys", Node, Anyone, System),
        procedure("@LoadMultipartitionTable", Database, Anyone, System),
        procedure("@LoadSinglepartitionTable", Database, Anyone, System),
        procedure("@Note", Node, Anyone, System),
        procedure("@Pause", Database, Administrator, System),
        procedure("@Ping", Node, Anyone, Network),
        procedure("@PingPartitions", Database, Anyone, System),
        procedure("@PrepareShutdown", Database, Administrator, System),
        procedure("@PrepareStopNode", Node, Anyone, System),
        procedure("@Promote", Node, Anyone, System),
        procedure("@QueryStats", Database, Anyone, System),
        procedure("@Quiesce", Database, Anyone, System),
        procedure("@QuiesceGroup", Node, Anyone, System),
        procedure("@RemoveNode", Node, Administrator, System),
        procedure("@RestoreGroup", Node, Anyone, System),
        procedure("@Resume", Database, Administrator, System),
        procedure("@Shutdown", Node, Trusted, System),
        procedure("@SnapshotDelete", Database, Trusted, System),
        procedure("@SnapshotGroup", Node, Anyone, System),
        procedure("@SnapshotRestore", Database, Trusted, System),
        procedure("@SnapshotSave", Database, Trusted, System),
        procedure("@SnapshotScan", Database, Trusted, System),
        procedure("@SnapshotStatus", Database, Anyone, System),
        procedure("@Statistics", Node, Anyone, System),
        procedure("@StopNode", Node, Anyone, System),
        procedure("@Subscribe", Node, Anyone, Network),
        procedure("@SwapTables", Database, Anyone, System),
        procedure("@SystemCatalog", Database, Anyone, System),
        procedure("@SystemInformation", Node, Anyone, System),
        procedure("@TransferLead", Database, Administrator, System),
        procedure("@UpdateClasses", Database, Trusted, System),
        procedure("@UpdateLogging", Node, Anyone, System),
    ]
};

const fn procedure(name: &'static str, scope: Scope, right: Right, thread: Thread) -> SystemProcedure {
    SystemProcedure { name, scope, right, thread }
}

/// None: no system procedure has that name, or one that is refused with advice.
pub fn find(name: &str) -> Option<&'static SystemProcedure> {
    ALL.binary_search_by(|known| known.name.cmp(name)).ok().map(|index| &ALL[index])
}

/// Whether the node that leads answers a call of that procedure: one of the database's, or one that
/// is about the database.
pub fn is_for_leader(procedure: &str) -> bool {
    find(procedure).is_none_or(|known| known.scope == Scope::Database)
}

/// Whether the node that takes such a call finds the partition that it is for: where groups are led
/// by several nodes, the call does not go to the first group's leader for that.
pub fn finds_its_partition(procedure: &str) -> bool {
    ["@AdHoc", "@AdHocLarge", "@AdHocSpForTest", "@LoadSinglepartitionTable"].contains(&procedure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_has_its_place_in_the_table_and_on_the_page() {
        assert!(ALL.is_sorted_by(|one, next| one.name < next.name));
        let page = include_str!("../../../docs/system-procedures.md");
        for known in ALL {
            assert_eq!(find(known.name).map(|found| found.name), Some(known.name));
            let is_end = |after: &str| !after.starts_with(|c: char| c.is_alphanumeric());
            let mut found = page.match_indices(known.name).map(|(at, name)| &page[at + name.len()..]);
            assert!(found.any(is_end), "docs/system-procedures.md lacks {}", known.name);
        }
    }

    /// Where calls of system procedures are answered.
    const ANSWERING: [&str; 3] =
        [include_str!("system.rs"), include_str!("dispatch/system_calls.rs"), include_str!("administration.rs")];

    /// Names that begin an arm of a `match` where calls are answered.
    #[test]
    fn what_is_answered_is_in_the_table() {
        let answering = ANSWERING.map(|code| {
            let code = code.split("#[cfg(test)]").next().unwrap_or_default();
            let arms = code.lines().map(str::trim).filter(|line| line.starts_with("\"@") && line.contains("=>"));
            let named = |arm: &str| {
                let pattern = arm.split("=>").next().unwrap_or_default().split(" if ").next().unwrap_or_default();
                pattern.split('"').filter(|part| part.starts_with('@')).map(str::to_owned).collect::<Vec<_>>()
            };
            arms.flat_map(named).collect::<BTreeSet<String>>()
        });
        let answered: BTreeSet<String> = answering.into_iter().flatten().collect();
        let known: BTreeSet<String> = ALL.iter().map(|known| known.name.to_owned()).collect();
        assert_eq!(answered, known);
    }

    #[test]
    fn what_is_about_this_node_stays_here_and_the_rest_goes_to_the_leader() {
        for here in ["@Ping", "@Statistics", "@SystemInformation", "@Subscribe", "@Shutdown"] {
            assert!(!is_for_leader(here), "{here}");
        }
        for there in ["P", "@AdHoc", "@Pause", "@UpdateClasses", "@SnapshotSave", "@SystemCatalog", "@Explain", "@no"] {
            assert!(is_for_leader(there), "{there}");
        }
    }
}
