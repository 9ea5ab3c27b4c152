//! Why a call has waited for too long: what its caller is told, and by that its operator.
//!
//! Invariants: the reason names what holds the call up at that moment, with the group, its node and
//! the time where there are such; a call that nothing holds up is begun, not refused, also where
//! this process stood still.

use super::{Moment, Sequencing};
use crate::lots::live::WaitingCall;
use ferrite_base::limits::{LOT_WAIT, LOTS_OPEN_MAX};
use ferrite_base::{GroupId, UserError};
use ferrite_multi::{LotId, PartWaits, Sequencer};
use std::collections::VecDeque;

impl Sequencing {
    /// Calls that have waited for too long are refused: first those that wait for a group of their
    /// own, then those that no lot has taken although nothing waits in front of them.
    pub(super) fn refuse_overdue(&mut self, now: Moment) {
        let overdue = now.nanos.saturating_sub(LOT_WAIT.as_nanos() as u64);
        // Those that came first are in front.
        if self.waiting.front().is_none_or(|front| front.came >= overdue) {
            return;
        }
        let mut kept = VecDeque::new();
        while let Some(late) = self.waiting.pop_front_if(|front| front.came < overdue) {
            match self.what_its_groups_lack(&late) {
                Some(reason) => self.refuse_late(&late, &reason),
                None => kept.push_back(late),
            }
        }
        kept.append(&mut self.waiting);
        self.waiting = kept;
        self.advance(now);
        while let Some(late) = self.waiting.pop_front_if(|front| front.came < overdue) {
            let reason = self.what_its_groups_lack(&late).unwrap_or_else(|| self.what_holds_all_up(&late, now));
            self.refuse_late(&late, &reason);
        }
    }

    fn refuse_late(&mut self, late: &WaitingCall, reason: &str) {
        self.waiting_bytes -= late.call.bytes();
        late.call.refuse(&UserError::not_started(reason).with_hint("try again"));
    }

    #[cold]
    fn what_its_groups_lack(&self, late: &WaitingCall) -> Option<String> {
        if let Some(group) = late.parts.keys().find(|group| !self.leaders.contains_key(group)) {
            return Some(format!("no node that leads group {group} can be reached"));
        }
        let handed = late.parts.keys().find(|group| !self.may_begin(**group))?;
        Some(format!("group {} is being handed over to another node", self.with_node(*handed)))
    }

    #[cold]
    fn what_holds_all_up(&self, late: &WaitingCall, now: Moment) -> String {
        let Some(reign) = &self.reign else { return "this node orders no transactions over several groups".to_owned() };
        let sequencer = &reign.sequencer;
        if let Some(group) = sequencer.unordered().first() {
            let group = self.with_node(*group);
            return format!("group {group} has not answered the node that orders transactions over several groups");
        }
        let reason = match sequencer.held() {
            Some((lot, parts)) => self.what_a_lot_awaits(lot, &parts, now),
            None => self.why_none_begins(late, sequencer),
        };
        format!("earlier transactions over several groups are not decided yet: {reason}")
    }

    fn why_none_begins(&self, late: &WaitingCall, sequencer: &Sequencer) -> String {
        let behind = sequencer.behind();
        if let Some(group) = late.parts.keys().find(|group| behind.contains(group)) {
            let group = self.with_node(*group);
            return format!("group {group} has not yet run its parts of earlier lots, which other groups ended");
        }
        if !sequencer.can_begin() {
            let groups: Vec<String> = sequencer.unsettled().into_iter().map(|group| self.with_node(group)).collect();
            return format!("{LOTS_OPEN_MAX} lots have yet to be settled in groups {}", groups.join(", "));
        }
        let begun = late.begun;
        format!("transactions were restarted because groups lost their leaders (restarts of this one: {begun})")
    }

    fn what_a_lot_awaits(&self, lot: LotId, parts: &[(GroupId, PartWaits)], now: Moment) -> String {
        let began = self.reign.as_ref().and_then(|reign| reign.lots.get(&lot)).map_or(now.nanos, |live| live.began);
        let millis = now.nanos.saturating_sub(began) / 1_000_000;
        let awaited = parts.iter().map(|(group, waits)| {
            let what = match waits {
                PartWaits::Runs => "run its part",
                PartWaits::Prepares => "commit its part",
                PartWaits::Answers => "say whether it has its part",
            };
            format!("group {} is to {what}", self.with_node(*group))
        });
        let awaited: Vec<String> = awaited.collect();
        let awaited = if awaited.is_empty() { "this node is to decide it".to_owned() } else { awaited.join(", ") };
        format!("lot {lot} was begun {millis} ms ago, and {awaited}")
    }

    /// The group, and the node that leads it.
    fn with_node(&self, group: GroupId) -> String {
        match self.leaders.get(&group) {
            Some(leader) => format!("{group} (node {})", leader.node),
            None => format!("{group} (led by no node)"),
        }
    }
}
