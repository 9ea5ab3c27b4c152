//! The floor everything stands on: identifiers, named limits, user errors, checksums, page memory.
//!
//! Owns no state but the page pool, counts of faults, what tests plant, who watches a thread, and
//! whether it computes as an old database does. Promises that nothing here knows SQL, bytes on a
//! wire, files or threads.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// A line to a stream that nobody reads would hold up the thread that says it; `ferrite_io::stdio`
// does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

// Counts and positions of 64 bits index memory with `as usize`: docs/decisions/0054.
const _: () = assert!(usize::BITS == 64, "FerriteDB is built for machines of 64 bits");

pub mod bytes;
pub mod checksum;
pub mod earlier;
pub mod error;
pub mod fault;
pub mod group_map;
pub mod ids;
pub mod leader_change;
pub mod limits;
pub mod memory;
pub mod planted_fault;
pub mod settings;
pub mod watch;

pub use error::{ErrorKind, TextPosition, UserError, UserResult};
pub use group_map::{GroupMap, GroupPartitions};
pub use ids::{
    CatalogVersion, Epoch, GroupId, Incarnation, IndexId, NodeId, PartitionId, Position, ProcedureId, RowId, Sequence,
    TableId,
};
pub use settings::{CallLimits, Settings, SqlLimits};
pub use watch::Watcher;
