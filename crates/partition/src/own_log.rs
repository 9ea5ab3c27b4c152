//! Committed entries that a copy was not given, because it had as many as it may hold: they are
//! read again from its node's own log, when their turn has come.

use crate::commit::Completion;
use ferrite_base::Position;
use ferrite_base::limits::CATCH_UP_READ_BYTES;
use ferrite_group::{CatchUp, CatchUpError, Missed, Replication, Wanted};
use ferrite_log::SegmentIndex;
use ferrite_replica::group::Mark;
use std::sync::Arc;

pub struct OwnLog {
    group: Arc<Replication<Completion>>,
    index: Arc<SegmentIndex>,
    /// Where it has come to; while it is here, the log is not removed from there on.
    reader: Option<CatchUp>,
}

/// The outcome of one piece of work.
pub(crate) enum Found {
    /// Entries as they are in the log, after the earlier ones.
    Entries(Vec<u8>),
    Working,
    /// The log does not have the next one yet.
    Nothing,
}

impl OwnLog {
    /// `index`: of the log that has the group's entries.
    pub fn new(group: Arc<Replication<Completion>>, index: Arc<SegmentIndex>) -> OwnLog {
        OwnLog { group, index, reader: None }
    }

    /// The same for another applier.
    pub fn again(&self) -> OwnLog {
        OwnLog::new(Arc::clone(&self.group), Arc::clone(&self.index))
    }

    /// Whether the log has an entry after this one.
    pub(crate) fn reaches_beyond(&self, position: Position) -> bool {
        self.group.durable() > position
    }

    /// Reads on after the entry `behind`; what is up to `up_to` is committed. One read of the disk
    /// at most.
    pub(crate) fn read(&mut self, behind: Mark, up_to: Position) -> Result<Found, CatchUpError> {
        let (history, durable) = self.group.durable_stream();
        let reader = self.reader.get_or_insert_with(|| CatchUp::behind(&self.index, self.group.id(), behind));
        assert_eq!(reader.position(), behind.position, "what was read was dealt out");
        match reader.step(&history, Wanted { up_to, bytes: CATCH_UP_READ_BYTES, durable })? {
            Missed::Entries { entries, .. } => Ok(Found::Entries(entries.to_vec())),
            Missed::Working => Ok(Found::Working),
            Missed::End => Ok(Found::Nothing),
        }
    }

    /// What follows is given.
    pub(crate) fn end(&mut self) {
        self.reader = None;
    }
}
