//! What a caller is told whose call a change of leader has met. Applications written for VoltDB
//! recognize a failover by these words, so the texts begin with them; ours follow. Many compare the
//! whole text with a pattern of one line (`.*words.*`), so a text of status -7 has no second line,
//! not even for a hint.

use crate::{ErrorKind, UserError};

/// Of a call whose outcome is not known.
pub const MAYBE_COMMITTED: &str =
    "Transaction dropped due to change in mastership. It is possible the transaction was committed";
/// Of a call that was not executed, and that any node may be sent again.
pub const NOT_STARTED: &str = "VoltDB failed to create the transaction internally: \
     it should be safe to resend the work, as the work was never started";

const ADVICE: &str = "; look whether the transaction took place before calling again";

/// Why the outcome is not known of which [`UserError::maybe_committed`] speaks. None for other
/// texts.
pub fn reason_of_unknown(text: &str) -> Option<&str> {
    let (_, reason) = text.split_once(MAYBE_COMMITTED)?;
    reason.strip_prefix(": ")?.strip_suffix(ADVICE)
}

impl UserError {
    /// Status -7. `reason`: why the outcome is not known here, in one line.
    #[cold]
    pub fn maybe_committed(reason: &str) -> UserError {
        UserError::new(ErrorKind::OutcomeUnknown, "08007", format!("{MAYBE_COMMITTED}: {reason}{ADVICE}"))
    }

    /// Status -5. `reason`: why it was not executed.
    #[cold]
    pub fn not_started(reason: &str) -> UserError {
        UserError::new(ErrorKind::Unavailable, "57P03", format!("{NOT_STARTED}: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `String.matches` of Java compares: `.*` is anything but a line's end.
    fn matches_in_one_line(text: &str, words: &str) -> bool {
        text.contains(words) && !text.contains('\n')
    }

    #[test]
    fn patterns_of_applications_match() {
        let unknown = UserError::maybe_committed("the connection was lost").to_string();
        let words = "Transaction dropped due to change in mastership. It is possible the transaction was committed";
        assert!(matches_in_one_line(&unknown, words), "{unknown}");
        // Of this one they take any number of lines, and both parts in this order.
        let refused = UserError::not_started("no node leads").with_hint("try again").to_string();
        let rest = refused.split_once("VoltDB failed to create the transaction internally").expect("the first part").1;
        assert!(rest.contains("it should be safe to resend the work, as the work was never started"), "{refused}");
    }
}
