//! Snapshots on disk: written, verified, loaded. The format is docs/format/snapshot.md.
//!
//! Owns the files of one directory. Promises that what is read back is what was written, or an
//! error that names file and position, and that a snapshot with a manifest was whole and durable
//! when it got it. Does not know the log, the schema's text, or when a snapshot is wanted; threads
//! are its callers' business: everything here goes in steps.
//!
//! To write one: a [`StoreWriter`] per partition, [`Verifier`] over each file, then
//! [`Files::commit`]. To read one: [`Files::manifest`], then [`load`] per partition, or [`Reader`]
//! for its blocks. To send one to another node: [`transfer`].

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// A line to a stream that nobody reads would hold up the thread that says it; `ferrite_io::stdio`
// does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod error;
mod files;
mod format;
mod load;
mod manifest;
mod reader;
pub mod transfer;
mod writer;

pub use error::SnapshotError;
pub use files::{Files, Found, own_name};
pub use format::{FileIdentity, Head};
pub use load::{Verified, Verifier, load};
pub use manifest::{GroupEnd, LogPlace, Manifest, RowsFile, SchemaBase, SchemaChange};
pub use reader::{Content, Reader};
pub use writer::{StoreWriter, Written, write_store};
