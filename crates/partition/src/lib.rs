//! The partitions' threads and the multi-partition coordinator: what ties executor, redo log and
//! commit rule together.
//!
//! Owns every store. Promises that no answer leaves before everything that it could have seen is
//! durable, and that a transaction over several partitions is one record in the log. Knows no
//! sockets and no sessions: calls come in batches with opaque connection numbers and answers go out
//! the same way.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
// A line to a stream that no process reads would hold up the thread that prints it;
// `ferrite_io::stdio` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod answer;
pub mod applier;
mod apply;
pub mod assemble;
mod call_header;
pub mod cancel;
pub mod commit;
pub mod compiled;
mod contain;
mod content_hashes;
pub mod contents;
pub mod coordinator;
pub mod copy_cut;
pub mod counters;
mod damage;
mod delivery;
pub mod equalize;
pub mod event;
pub mod execute;
pub mod first_start;
pub mod gate;
pub mod hosting;
mod inboxes;
pub mod install;
mod judge;
mod log_needs;
pub mod long_read;
pub mod loss;
pub mod lots;
mod own_log;
mod predictor;
mod prefetch;
mod procedures_of_groups;
mod progress;
pub mod record;
pub mod recovery;
mod replay;
pub mod role;
mod row_counts;
pub mod schema;
mod schema_limits;
mod schema_of_groups;
mod schema_time;
mod snapshot_base;
mod snapshot_image;
pub mod snapshots;
mod start_error;
mod stepping_back;
pub mod task_check;
pub mod thread;
pub mod unlogged;
pub mod waker;
pub mod worker_pool;

pub use answer::{AnswerBatch, Mailbox, MailboxHandle, Run, Spent};
pub use call_header::CallHeader;
pub use compiled::{Compiled, is_same_schema};
pub use delivery::{Arrival, CopyFault, CopySnapshot, Delivery, Parcel, Promoted};
pub use event::{CachedCall, CachedCalls, CallBatch, Event, ProgramCall, Recompile, Reply, Retry, StoreSet};
pub use inboxes::GroupInboxes;
pub use judge::ReplayError;
pub use log_needs::LogNeeds;
pub use own_log::OwnLog;
pub use progress::{ProgressListener, RecoveryProgress, Seen};
pub use row_counts::RowCounts;
pub use stepping_back::{SteppedBack, SteppingBack};
pub use thread::{Ran, Seat};
pub use unlogged::Unlogged;
