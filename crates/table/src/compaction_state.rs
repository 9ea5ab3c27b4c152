//! What a store knows of its compaction between steps, and when work is worth its cost.

use ferrite_base::TableId;
use ferrite_base::limits::PAGE_BYTES;
use std::collections::VecDeque;

/// Unused bytes of a table that are worth moving rows for.
pub(crate) const WASTE_BYTES_MIN: usize = 1_048_576;
/// Deletions between two looks for such tables.
const DELETIONS_PER_LOOK: u64 = 256;
/// Scattered free pages that are worth moving others for, in bytes.
pub(crate) const SCATTERED_BYTES_MIN: usize = 16 * 1024 * 1024;
/// Pages that came back, from this store or from others, between two looks whether they left others
/// scattered.
pub(crate) const RETURNS_PER_LOOK: u64 = (SCATTERED_BYTES_MIN / PAGE_BYTES) as u64;

/// What is known between steps.
pub(crate) struct Compaction {
    pub(crate) waste_min: usize,
    /// Rows and long values that went, ever.
    pub(crate) deletions: u64,
    pub(crate) looked_at: u64,
    /// What [`memory::pages_returned`] said then.
    pub(crate) returned_at: u64,
    pub(crate) work: VecDeque<Work>,
    /// A copy's tables have their rows where the leader's have them.
    pub(crate) keeps_rows: bool,
}

impl Default for Compaction {
    fn default() -> Compaction {
        let work = VecDeque::new();
        Compaction { waste_min: WASTE_BYTES_MIN, deletions: 0, looked_at: 0, returned_at: 0, work, keeps_rows: false }
    }
}

impl Compaction {
    /// Whether work is begun, or enough was deleted here for a look.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        !self.work.is_empty() || self.deletions - self.looked_at >= DELETIONS_PER_LOOK
    }
}

/// One kind of work on one table. Tables, pages and indexes may go between steps: each step looks
/// anew at what is there.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Pages from `high` on are done; none below `low` has a free slot.
    Rows {
        table: TableId,
        low: usize,
        high: usize,
    },
    /// Values in pages from the threshold of their class on move; the rows before `page` were
    /// looked at.
    LongValues {
        table: TableId,
        thresholds: Vec<usize>,
        page: usize,
    },
    /// The segments at directory places before this one were looked at.
    Segments {
        table: TableId,
        index: usize,
        place: usize,
    },
    Ordered {
        table: TableId,
        index: usize,
    },
    /// Blocks that lie in extents that others have left.
    Places {
        table: TableId,
        part: usize,
        number: usize,
    },
}
