//! One node: listeners, sessions, routing of calls to partitions, system procedures, start and
//! stop.
//!
//! Owns sockets and sessions. Promises that a slow reader, a hostile frame or a lost connection
//! harms no other client, and that every call that was taken gets exactly one answer while its
//! connection lives. Does not run SQL and does not know rows.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// A line to a stream that no process reads would hold up the thread that prints it;
// `ferrite_io::stdio` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod adhoc;
mod administration;
mod admission;
mod backup;
mod batch;
mod call_time;
mod calls_elsewhere;
mod cancelling;
mod collect;
mod compiling;
mod compound;
mod connection;
mod connection_calls;
mod connections;
mod dispatch;
mod drain;
mod equalize;
mod expiry;
mod first_schema;
mod forward_executor;
mod group_schemas;
pub mod groups_calls;
pub mod groups_change;
mod last_snapshot;
mod listen;
mod load;
mod mailbox;
mod message;
mod mode;
mod network;
mod options;
mod page_preallocator;
mod plan_cache;
pub mod privilege;
mod publish;
pub mod route;
mod routes;
mod schema_errors;
mod schema_follow;
mod server;
mod snapshots;
mod space;
mod start;
mod status_listener;
mod stop;
mod submit;
mod system;
mod system_procedures;
mod tasks;
#[cfg(test)]
mod testing;
mod work;

pub use connections::ConnectionLimits;
pub use ferrite_catalog::DecimalScale;
pub use ferrite_log::Durability;
pub use ferrite_system::plans::PlanCacheStatistics;
pub use mode::Mode;
pub use options::{MEMORY_INTERVAL, ServerError, ServerOptions, SnapshotSettings};
pub use server::Server;
pub use stop::{Insist, Stopped};
