//! Calls that are not wanted any more: those that execute, and those that wait for a long read.

use ferrite_partition::cancel::{Cancel, Cancellations};
use ferrite_partition::long_read::LongReadLine;
use std::sync::Arc;

pub struct Cancelling {
    pub list: Arc<Cancellations>,
    pub long_reads: LongReadLine,
}

impl Cancelling {
    /// Calls of a connection are not wanted any more.
    pub fn cancel(&self, connection: u64, cancel: Cancel) {
        self.list.add(connection, cancel);
        self.long_reads.drop_cancelled();
    }
}
