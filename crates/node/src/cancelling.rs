//! Calls that are no longer wanted: those that execute, and those that wait for a long read.

use ferrite_partition::cancel::{Cancel, Cancellations};
use ferrite_partition::long_read::LongReadLine;
use std::sync::Arc;

/// Tells another node, where calls may have been passed on to it.
pub type Elsewhere = Box<dyn Fn(u64, Cancel) + Send + Sync>;

pub struct Cancelling {
    pub list: Arc<Cancellations>,
    pub long_reads: LongReadLine,
    /// None: a node without others.
    pub elsewhere: Option<Elsewhere>,
}

impl Cancelling {
    /// Calls of a connection are no longer wanted.
    pub fn cancel(&self, connection: u64, cancel: Cancel) {
        self.list.add(connection, cancel);
        self.long_reads.drop_cancelled();
        self.cancel_elsewhere(connection, cancel);
    }

    /// A connection without outstanding calls is gone.
    pub fn gone(&self, connection: u64) {
        self.cancel_elsewhere(connection, Cancel::Gone);
    }

    fn cancel_elsewhere(&self, connection: u64, cancel: Cancel) {
        if let Some(tell) = &self.elsewhere {
            tell(connection, cancel);
        }
    }
}
