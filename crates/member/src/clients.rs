//! What a cluster's threads do for the clients of their node.

use ferrite_base::GroupId;
use ferrite_partition::Compiled;
use std::sync::Arc;

/// The node's clients. Which there are, and how messages reach them, is known to the node alone.
pub trait Clients: Send + Sync {
    /// The group has this version of the catalog from now on.
    fn publish(&self, group: GroupId, compiled: Arc<Compiled>);

    /// Calls of the group are executed here from now on, or no longer.
    fn leads(&self, group: GroupId, leads: bool);

    /// The catalog in force.
    fn compiled(&self) -> Arc<Compiled>;

    /// Subscribers are to be told which hosts there are and which of them leads.
    fn topology_changed(&self);

    /// Subscribers are to be told of the procedures.
    fn procedures_changed(&self);
}
