//! What a caller is told whose call a change of leader has met. Applications written for VoltDB
//! recognize a failover by these words, so the texts begin with them; ours follow.

use crate::{ErrorKind, UserError};

/// Of a call whose outcome is not known.
pub const MAYBE_COMMITTED: &str =
    "Transaction dropped due to change in mastership. It is possible the transaction was committed";
/// Of a call that was not executed, and that any node may be sent again.
pub const NOT_STARTED: &str = "it should be safe to resend the work, as the work was never started";

impl UserError {
    /// Status -7. `reason`: why the outcome is not known here.
    #[cold]
    pub fn maybe_committed(reason: &str) -> UserError {
        UserError::new(ErrorKind::OutcomeUnknown, "08007", format!("{MAYBE_COMMITTED}: {reason}"))
            .with_hint("look whether the transaction took place before calling again")
    }

    /// Status -5. `reason`: why it was not executed.
    #[cold]
    pub fn not_started(reason: &str) -> UserError {
        UserError::new(ErrorKind::Unavailable, "57P03", format!("{NOT_STARTED}: {reason}"))
    }
}
