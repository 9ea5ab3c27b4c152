//! Whether this node reaches a majority of the voters, as its operator hears it: without one no
//! leader can be chosen, and a node that did not lead would otherwise report nothing.
//!
//! Promises one notice when the majority is missing for longer than a choice of a leader takes, and
//! one when it is back.

use ferrite_notice::Notice;
use ferrite_replica::group::Timing;

/// For longer than this a majority is missing before that is reported: others may just have ended,
/// and are started again.
const MISSING_NANOS: u64 = 2 * Timing::DEFAULT.failure;

#[derive(Default)]
pub struct QuorumReport {
    missing_since: Option<u64>,
    is_reported: bool,
}

impl QuorumReport {
    /// `missing`: why there is no majority, as far as this node hears.
    pub fn report(&mut self, missing: Option<String>, now: u64) -> Option<Notice> {
        let Some(missing) = missing else {
            self.missing_since = None;
            return std::mem::take(&mut self.is_reported).then_some(Notice::MajorityReached);
        };
        let since = *self.missing_since.get_or_insert(now);
        if self.is_reported || now.saturating_sub(since) < MISSING_NANOS {
            return None;
        }
        self.is_reported = true;
        Some(Notice::NoMajority { missing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_majority_is_reported_once_and_its_return_too() {
        let mut report = QuorumReport::default();
        let missing = || Some("node 1 is not reached".to_owned());
        let reported = || Some(Notice::NoMajority { missing: "node 1 is not reached".to_owned() });
        assert_eq!(report.report(None, 0), None);
        assert_eq!(report.report(missing(), 1), None);
        assert_eq!(report.report(None, 2), None, "it was short");
        assert_eq!(report.report(missing(), 3), None);
        assert_eq!(report.report(missing(), 2 + MISSING_NANOS), None);
        assert_eq!(report.report(missing(), 3 + MISSING_NANOS), reported());
        assert_eq!(report.report(missing(), 4 + MISSING_NANOS), None, "once");
        assert_eq!(report.report(None, 5 + MISSING_NANOS), Some(Notice::MajorityReached));
        assert_eq!(report.report(None, 6 + MISSING_NANOS), None);
    }
}
