//! The system tables: what `@Statistics`, `@QueryStats`, `@SystemCatalog`, `@SystemInformation`,
//! `@Explain` and the topology pushes answer, in the layouts that existing tools read.
//!
//! Functions from what a node has counted ([`Sources`], and reports that its threads give) to
//! tables. Promises the columns of the original server; what this one does not have is answered
//! with no rows. Owns the types of the figures, so that whoever counts needs to know only those.
//! Does not know threads, channels, sockets, nor how a call came here.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod compound_figures;
pub mod expired;
pub mod explain;
pub mod forwarding;
pub mod hosts;
mod identity;
pub mod latency;
pub mod lots;
pub mod plans;
pub mod processor;
mod query_statistics;
pub mod result;
pub mod saved;
mod sources;
pub mod statistics;
pub mod system_catalog;
pub mod system_information;
pub mod task_figures;
#[cfg(test)]
mod testing;
pub mod topology;
pub mod traffic;

pub use identity::Identity;
pub use query_statistics::query_statistics;
pub use sources::{Collect, Collected, Sources};
