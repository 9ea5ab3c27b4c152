//! The hand-overs that were asked of this node and are under way, by group. A leaf.
//!
//! One request may be about all groups that the node leads. Its caller hears the outcome once, when
//! the last of them is over: that another node leads, or the first reason why this one still does.

use crate::orders::HandOver;
use ferrite_base::{GroupId, NodeId};
use ferrite_cluster::NotHandedOver;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type LeadOutcome = Result<NodeId, NotHandedOver>;

#[derive(Default)]
pub struct HandOvers(Mutex<BTreeMap<GroupId, Arc<Request>>>);

/// Of one caller.
struct Request {
    by_call: bool,
    left: Mutex<Left>,
}

struct Left {
    /// How many groups are still under way.
    groups: usize,
    failed: Option<NotHandedOver>,
    told: Option<Box<dyn FnOnce(LeadOutcome) + Send>>,
}

const NO_PANIC: &str = "no panic with the requests";

impl HandOvers {
    /// These groups are to be handed over, each of which comes to [`HandOvers::over`]. False: one
    /// of them already is, and the caller was told.
    pub fn begin(&self, groups: &[GroupId], asks: HandOver) -> bool {
        assert!(!groups.is_empty(), "a request is about a group");
        let mut under_way = self.0.lock().expect(NO_PANIC);
        if groups.iter().any(|group| under_way.contains_key(group)) {
            drop(under_way);
            (asks.told)(Err(NotHandedOver::UnderWay));
            return false;
        }
        let left = Left { groups: groups.len(), failed: None, told: Some(asks.told) };
        let request = Arc::new(Request { by_call: asks.by_call, left: Mutex::new(left) });
        under_way.extend(groups.iter().map(|group| (*group, Arc::clone(&request))));
        true
    }

    /// How many calls wait for the outcome of one: each is itself a call that is not answered.
    pub fn calls(&self) -> usize {
        let under_way = self.0.lock().expect(NO_PANIC);
        let mut by_calls: Vec<_> = under_way.values().filter(|request| request.by_call).map(Arc::as_ptr).collect();
        by_calls.sort_unstable();
        by_calls.dedup();
        by_calls.len()
    }

    /// The group's hand-over is over, if one was under way.
    pub fn over(&self, group: GroupId, outcome: LeadOutcome) {
        let Some(request) = self.0.lock().expect(NO_PANIC).remove(&group) else { return };
        let mut left = request.left.lock().expect(NO_PANIC);
        left.groups -= 1;
        left.failed = left.failed.or(outcome.err());
        if left.groups > 0 {
            return;
        }
        let told = left.told.take().expect("the last group is over once");
        let outcome = left.failed.map_or(outcome, Err);
        drop(left);
        told(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: GroupId = GroupId(0);
    const SECOND: GroupId = GroupId(1);

    type Heard = Arc<Mutex<Vec<LeadOutcome>>>;

    fn asks(by_call: bool, heard: &Heard) -> HandOver {
        let heard = Arc::clone(heard);
        let told = Box::new(move |outcome| heard.lock().unwrap().push(outcome));
        HandOver { group: None, to: None, by_call, patience: None, told }
    }

    fn outcomes(heard: &Heard) -> Vec<LeadOutcome> {
        std::mem::take(&mut *heard.lock().unwrap())
    }

    #[test]
    fn a_caller_hears_once_when_all_groups_are_over() {
        let (all, heard) = (HandOvers::default(), Heard::default());
        assert!(all.begin(&[FIRST, SECOND], asks(true, &heard)));
        assert_eq!(all.calls(), 1, "one call waits for both");
        all.over(SECOND, Ok(NodeId(2)));
        assert!(outcomes(&heard).is_empty(), "the first one still drains");
        all.over(FIRST, Ok(NodeId(3)));
        assert_eq!((outcomes(&heard), all.calls()), (vec![Ok(NodeId(3))], 0));
        all.over(FIRST, Ok(NodeId(3)));
        assert!(outcomes(&heard).is_empty());
    }

    #[test]
    fn one_group_that_stays_is_the_outcome() {
        let (all, heard) = (HandOvers::default(), Heard::default());
        all.begin(&[FIRST, SECOND], asks(false, &heard));
        all.over(FIRST, Err(NotHandedOver::Busy));
        all.over(SECOND, Ok(NodeId(2)));
        assert_eq!(outcomes(&heard), [Err(NotHandedOver::Busy)]);
    }

    #[test]
    fn two_groups_may_be_asked_for_by_two_callers_and_none_twice() {
        let (all, [one, other]) = (HandOvers::default(), [Heard::default(), Heard::default()]);
        assert!(all.begin(&[FIRST], asks(true, &one)) && all.begin(&[SECOND], asks(true, &other)));
        assert_eq!(all.calls(), 2);
        let third = Heard::default();
        assert!(!all.begin(&[SECOND], asks(true, &third)));
        assert_eq!(outcomes(&third), [Err(NotHandedOver::UnderWay)]);
        all.over(SECOND, Ok(NodeId(2)));
        assert_eq!((outcomes(&one), outcomes(&other)), (vec![], vec![Ok(NodeId(2))]));
    }
}
