//! A call on its way to a partition, without its parameters: what an answer needs to find its way
//! back.

use crate::cancel::CallId;
use ferrite_base::ProcedureId;

#[derive(Clone, Copy, Debug)]
pub struct CallHeader {
    pub connection: u64,
    pub handle: i64,
    pub procedure: ProcedureId,
    /// Where the call's parameter set begins in the batch's bytes.
    pub parameters_start: u32,
    pub parameters_end: u32,
    /// The caller put the partition key in front of the declared parameters (a directed call): drop
    /// the first.
    pub drop_first_parameter: bool,
}

/// Procedure numbers from this one on are positions in [`crate::CachedCalls::calls`].
const CACHED_FROM: u32 = 1 << 31;

impl CallHeader {
    /// The call, which was sent with its batch at this time.
    #[inline]
    pub fn id(&self, sent_micros: i64) -> CallId {
        CallId { connection: self.connection, handle: self.handle, sent_micros }
    }

    /// The procedure number for the cached call at `position` of its batch.
    pub fn cached_procedure(position: usize) -> ProcedureId {
        ProcedureId(CACHED_FROM + position as u32)
    }

    /// The position among the batch's cached calls, if it is one.
    #[inline]
    pub fn cached(&self) -> Option<usize> {
        self.procedure.0.checked_sub(CACHED_FROM).map(|position| position as usize)
    }
}
