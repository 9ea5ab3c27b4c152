//! Which system procedures the node answers that a client is connected to.

/// Those that are about this node, or about the client's connection to it. All others are about the
/// database, and are for the node that leads.
const HERE: [&str; 16] = [
    "@AcceptLoss",
    "@Cancel",
    "@ClusterStatus",
    "@GC",
    "@GetPartitionKeys",
    "@Note",
    "@Ping",
    "@PrepareStopNode",
    "@Promote",
    "@RemoveNode",
    "@Shutdown",
    "@Statistics",
    "@StopNode",
    "@Subscribe",
    "@SystemInformation",
    "@UpdateLogging",
];

/// Whether the node that leads answers a call of that procedure.
pub fn is_for_leader(procedure: &str) -> bool {
    !HERE.contains(&procedure)
}

#[cfg(test)]
mod tests {
    use super::*;

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
