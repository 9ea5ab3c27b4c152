//! The server as a node of a cluster (docs/decisions/0057-server-of-a-cluster.md): how it becomes
//! one, the threads that it has besides those of a server alone, and what they are told.
//!
//! Owns the cluster's port and what the directory says of the cluster. A server without others does
//! not come here.

mod around;
mod begun_alone;
mod copy_side;
mod directory;
mod door;
mod drain;
mod figures;
mod first_schema;
mod forming;
mod giving_way;
mod health;
mod hosts;
mod join;
mod keepers;
mod links;
mod loss;
mod metadata;
mod node;
mod notices;
mod offline;
mod open;
mod orders;
mod pausing;
mod place;
mod procedures;
mod remove;
mod rounds;
mod running;
mod standing;
mod status;
mod status_tables;
mod supply;
#[cfg(test)]
pub(crate) mod testing;
mod transfer;
mod unusable;
mod waits;
mod witness;

pub use begun_alone::{has_database, look};
pub use copy_side::CopySide;
pub use directory::Unsynced;
pub use door::Calls;
pub use drain::Drain;
pub use figures::{Figures, OwnFigures};
pub use first_schema::{FirstSchema, Place};
pub use hosts::{host_id, hosts, name};
pub use join::{About, join};
pub use links::Links;
pub use loss::AcceptLoss;
pub use notices::Notices;
pub use offline::{accept_loss, leave_cluster};
pub use open::{Member, open};
pub use orders::{HandOver, Order};
pub use pausing::{Pause, Pauses};
pub use remove::RemoveNode;
pub use running::{DataUses, Running, Uses, start};
pub use standing::{Seen, Standing};
pub use status::Handle;
pub use unusable::{damage, leads_without};
pub use waits::Waits;
pub use witness::{Witness, WitnessOptions};
