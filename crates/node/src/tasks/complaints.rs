//! What the log hears of tasks that fail: each reason at once, and then once a minute how often it
//! came again.

use ferrite_base::limits::TASK_REASONS_MAX;
use ferrite_notice::Notice;
use std::collections::BTreeMap;

/// How long a reason that was reported is only counted, in nanoseconds.
const QUIET: u64 = 60_000_000_000;

/// By task.
#[derive(Default)]
pub struct Complaints(BTreeMap<String, Told>);

struct Told {
    /// When the count is reported, in nanoseconds of the monotonic clock.
    until: u64,
    reasons: Vec<Reason>,
    /// Failures for further reasons.
    others: u64,
}

struct Reason {
    words: String,
    again: u64,
}

impl Complaints {
    /// A call of the task has failed: what to report of it now, if anything.
    pub fn failed(&mut self, task: &str, why: &str, now: u64) -> Option<Notice> {
        if !self.0.contains_key(task) {
            self.0.insert(task.to_owned(), Told { until: now.saturating_add(QUIET), reasons: Vec::new(), others: 0 });
        }
        let told = self.0.get_mut(task)?;
        if let Some(reason) = told.reasons.iter_mut().find(|reason| reason.words == why) {
            reason.again += 1;
            return None;
        }
        if told.reasons.len() == TASK_REASONS_MAX {
            told.others += 1;
            return None;
        }
        told.reasons.push(Reason { words: why.to_owned(), again: 0 });
        Some(Notice::TaskFailed { task: task.to_owned(), reason: why.to_owned() })
    }

    /// When there is something to tell next.
    pub fn nearest(&self) -> Option<u64> {
        self.0.values().map(|told| told.until).min()
    }

    /// What was counted and is to be reported now. A task that did not fail meanwhile is forgotten.
    pub fn due(&mut self, now: u64) -> Vec<Notice> {
        let mut notices = Vec::new();
        self.0.retain(|task, told| {
            if told.until > now {
                return true;
            }
            told.reasons.retain_mut(|reason| {
                let again = std::mem::take(&mut reason.again);
                if again > 0 {
                    let reason = reason.words.clone();
                    notices.push(Notice::TaskFailsAgain { task: task.clone(), reason, times: again });
                }
                again > 0
            });
            let others = std::mem::take(&mut told.others);
            if others > 0 {
                notices.push(Notice::TaskFailsOtherwise { task: task.clone(), calls: others });
            }
            told.until = now.saturating_add(QUIET);
            !told.reasons.is_empty() || others > 0
        });
        notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_at_once_and_then_counted() {
        let mut complaints = Complaints::default();
        let failed = |task: &str| Notice::TaskFailed { task: task.to_owned(), reason: "no\nroom".to_owned() };
        let again = |times| Notice::TaskFailsAgain { task: "T".to_owned(), reason: "no\nroom".to_owned(), times };
        assert_eq!(complaints.failed("T", "no\nroom", 5), Some(failed("T")));
        assert!((0..10_653).all(|number| complaints.failed("T", "no\nroom", 6 + number).is_none()));
        assert_eq!(complaints.failed("U", "no\nroom", 7), Some(failed("U")));
        assert_eq!(complaints.nearest(), Some(5 + QUIET));
        assert!(complaints.due(4 + QUIET).is_empty());
        assert_eq!(complaints.due(5 + QUIET), [again(10_653)]);
        // It continues, so it is only counted still; U has failed once and is forgotten.
        assert!(complaints.failed("T", "no\nroom", 8 + QUIET).is_none());
        assert_eq!(complaints.due(9 + 2 * QUIET), [again(1)]);
        assert!(complaints.due(9 + 3 * QUIET).is_empty() && complaints.nearest().is_none());
        assert!(complaints.failed("T", "no\nroom", 10 + 3 * QUIET).is_some(), "it is news again");
    }

    #[test]
    fn so_many_reasons_of_a_task_are_told_and_the_others_counted() {
        let mut complaints = Complaints::default();
        let mut say = |number: usize| complaints.failed("T", &format!("row {number}"), 1);
        assert!((0..TASK_REASONS_MAX).all(|number| say(number).is_some()));
        assert!((TASK_REASONS_MAX..TASK_REASONS_MAX + 3).all(|number| say(number).is_none()));
        assert_eq!(complaints.due(1 + QUIET), [Notice::TaskFailsOtherwise { task: "T".to_owned(), calls: 3 }]);
        assert!(complaints.failed("T", "row 0", 2 + QUIET).is_some());
    }
}
