//! The server as a node of a cluster (docs/decisions/0057-server-of-a-cluster.md): how it becomes
//! one, the threads that it has besides those of a single server, and the messages they take.
//!
//! Owns the cluster's port and what the directory says of the cluster. A single server does not
//! come here.

mod copy_side;
mod directory;
mod discard_copy;
mod drain;
mod effects;
mod figures;
mod first_schema;
mod founding;
mod from_single_node;
mod giving_way;
mod health;
mod hosts;
mod join;
mod links;
mod loss;
mod membership_report;
mod metadata;
mod node;
mod node_status;
mod notices;
mod offline;
mod open;
mod orders;
mod pausing;
mod peer_dispatcher;
mod place;
mod procedures;
mod reachability;
mod remove;
mod rounds;
mod running;
mod status;
mod status_tables;
mod supply;
#[cfg(test)]
pub(crate) mod testing;
mod tolerance;
mod transfer;
mod waits;
mod witness;

pub use copy_side::CopySide;
pub use directory::Unsynced;
pub use discard_copy::{damage, leads_without};
pub use drain::Drain;
pub use figures::{Figures, OwnFigures};
pub use first_schema::{FirstSchema, Place};
pub use from_single_node::{has_database, look};
pub use hosts::{host_id, hosts, name};
pub use join::{About, join};
pub use links::Links;
pub use loss::AcceptLoss;
pub use node_status::{NodeStatus, StatusSnapshot};
pub use notices::Notices;
pub use offline::{accept_loss, leave_cluster};
pub use open::{Member, open};
pub use orders::{HandOver, Order};
pub use pausing::{Pause, Pauses};
pub use peer_dispatcher::Calls;
pub use remove::RemoveNode;
pub use running::{DataUses, Running, Uses, start};
pub use status::Handle;
pub use waits::Waits;
pub use witness::{Witness, WitnessOptions};
