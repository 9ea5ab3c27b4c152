//! A leader that hands over in good order (docs/replication.md, section 7): calls that come wait,
//! those that were taken are answered, and then another member leads.
//!
//! ```text
//! holding --(drained)--> proposing --(deposed: another leads)--> over
//! ```
//!
//! Each step ends with a time, and then this node leads on. Promises that a group is asked to hand
//! over only when nothing is executed any more, so that no call has an unknown outcome.

use crate::cause::Around;
use crate::handing::{HandingOver, NotHandedOver, Step};
use crate::kept::Kept;
use ferrite_base::NodeId;
use ferrite_group::CannotHandOver;

/// For so long calls that were taken are waited for, while others wait.
const DRAIN_NANOS: u64 = 1_000_000_000;
/// For so long the metadata is waited for.
const DECIDE_NANOS: u64 = 3_000_000_000;
/// And by a node that ends. Another is chosen then, when it has said goodbye.
const LEAVE_NANOS: u64 = 500_000_000;

impl Kept {
    /// Begins to hand over.
    pub fn hand_over(&mut self, to: Option<NodeId>, around: &mut dyn Around) -> Result<(), NotHandedOver> {
        if self.handing.is_some() {
            return Err(NotHandedOver::UnderWay);
        }
        if !self.leads() {
            return Err(NotHandedOver::Cannot(CannotHandOver::NotLeading));
        }
        // Nobody waits for what cannot be.
        self.group.may_hand_over(to).map_err(NotHandedOver::Cannot)?;
        around.hold(self.group.id(), true);
        self.handing = Some(HandingOver { to, step: Step::Holding, since: None, leaves: false });
        Ok(())
    }

    /// The same for a node that ends, of which nobody wants anything any more.
    pub fn leave(&mut self, around: &mut dyn Around) {
        if self.handing.take().is_some() {
            self.end_hand_over(Err(NotHandedOver::UnderWay), around);
        }
        if self.leads() && self.group.hand_over(None).is_ok() {
            self.handing = Some(HandingOver { to: None, step: Step::Proposing, since: None, leaves: true });
        }
    }

    pub fn is_handing_over(&self) -> bool {
        self.handing.is_some()
    }

    /// Goes on, if it can; whether it did. `next`: who leads another configuration, as far as it is
    /// known.
    pub fn hand_on(&mut self, next: Option<NodeId>, around: &mut dyn Around) -> bool {
        let Some(handing) = self.handing else { return false };
        if !self.leads() {
            self.handing = None;
            if !handing.leaves {
                let leader = next.filter(|next| *next != self.here);
                self.end_hand_over(leader.ok_or(NotHandedOver::Replaced), around);
            }
            return true;
        }
        if handing.step != Step::Holding || !around.is_drained(self.group.id()) {
            return false;
        }
        match self.group.hand_over(handing.to) {
            Ok(()) => self.handing = Some(HandingOver { step: Step::Proposing, since: None, ..handing }),
            Err(reason) => {
                self.handing = None;
                self.end_hand_over(Err(NotHandedOver::Cannot(reason)), around);
            }
        }
        true
    }

    /// Ends what takes too long.
    pub fn look_at_hand_over(&mut self, now: u64, around: &mut dyn Around) {
        let Some(handing) = &mut self.handing else { return };
        let waited = now.saturating_sub(*handing.since.get_or_insert(now));
        let (most, reason) = match handing.step {
            Step::Holding => (DRAIN_NANOS, NotHandedOver::Busy),
            Step::Proposing if handing.leaves => (LEAVE_NANOS, NotHandedOver::Undecided),
            Step::Proposing => (DECIDE_NANOS, NotHandedOver::Undecided),
        };
        if waited < most {
            return;
        }
        let leaves = handing.leaves;
        self.handing = None;
        if !leaves {
            self.group.keep_lead();
            self.end_hand_over(Err(reason), around);
        }
    }

    fn end_hand_over(&mut self, outcome: Result<NodeId, NotHandedOver>, around: &mut dyn Around) {
        around.hold(self.group.id(), false);
        around.handed_over(self.group.id(), outcome);
    }
}
