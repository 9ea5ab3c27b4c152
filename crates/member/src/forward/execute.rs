//! What forwarding uses of the node that executes calls.

use crate::forward::link::Batch;
use crate::forward::outstanding::Outstanding;
use ferrite_base::{GroupId, UserError};
use ferrite_partition::cancel::Cancel;

/// Executes calls here. Each gets one answer, under its connection's number.
pub trait Execute {
    /// Another node's connection has that number here. `connection`: its number there.
    fn admit(&mut self, connection: u64, trusted: bool) -> u64;
    /// A call whose sender takes it for one of this group, which this node leads. It is executed
    /// there or refused: it must not come to another group's partitions on this way, since its
    /// order among that group's calls, and the epoch of that, were not looked at.
    fn call(&mut self, group: GroupId, connection: u64, body: &[u8]);
    /// The connection's calls up to now are no longer wanted.
    fn cancel(&mut self, connection: u64, cancel: Cancel);
    /// None of the connection's calls is left.
    fn forget(&mut self, connection: u64);
    fn begun(&mut self, work: Outstanding);
    fn answered(&mut self, work: Outstanding);
}

/// The node's side of the thread that forwards: calls of other nodes' clients, and of its own that
/// this node is to execute after all.
pub trait Executor: Execute + Send + 'static {
    /// Adopts a new version of the catalog, if there is one.
    fn refresh_catalog(&mut self);
    /// Calls of this node's own clients that waited to be sent elsewhere, and are for this node
    /// now, which leads their group.
    fn own(&mut self, group: GroupId, batch: &Batch);
    /// Calls up to now are on their way to where they are executed.
    fn send_batches(&mut self);
    /// Calls that this node has taken and not answered.
    fn outstanding(&self) -> usize;
    /// The answer to calls that are no longer wanted.
    fn cancelled(&self) -> UserError;
    /// The threads that take clients' calls check again where these go, and whether there is room
    /// for more.
    fn wake_network(&self);
}
