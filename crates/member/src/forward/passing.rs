//! What the thread that forwards has of one group: where the group is led, calls that wait for that
//! or are under way there, and those of other nodes.
//!
//! A group's leadership, epoch, window and early messages are its own. So one group's failover
//! holds up no calls of another, and what is proven for one group, that a connection's calls stay
//! in their order and that no call is executed in an epoch that its sender did not mean, holds for
//! each of several. The price is a message for each group where one node leads several
//! (docs/decisions/0120-forwarding-by-group.md).

use crate::forward::batch;
use crate::forward::early::{Early, Message};
use crate::forward::execute::Executor;
use crate::forward::inbox::Inbox;
use crate::forward::link::{Batch, Leadership};
use crate::forward::order::{Handed, HandedByAll};
use crate::forward::received::{Received, Taking};
use crate::forward::window::Window;
use crate::notices::Notices;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_notice::Notice;
use ferrite_system::forwarding::Forwarded;
use std::time::Instant;

pub struct GroupPassing {
    group: GroupId,
    pub window: Window,
    pub received: Received,
    pub early: Early,
    leadership: Leadership,
    /// The epoch of the configuration that is known.
    epoch: Epoch,
    /// The epoch in which this node was chosen to lead, if it was.
    since: Epoch,
    /// How often this node had not led, or had stopped leading, when that was set.
    losses: u64,
    /// What the network threads have handed over.
    handed: HandedByAll,
    /// This process ends: nothing here waits for a leader.
    ends: bool,
    /// Nothing of other nodes is executed any more: what comes goes back, for a leadership from
    /// this epoch on.
    closed: Option<Epoch>,
}

impl GroupPassing {
    /// Of a group whose leader is not known yet.
    pub fn new(group: GroupId) -> GroupPassing {
        GroupPassing {
            group,
            window: Window::of(group),
            received: Received::of(group),
            early: Early::default(),
            leadership: Leadership::Unknown,
            epoch: Epoch(0),
            since: Epoch(0),
            losses: 0,
            handed: HandedByAll::default(),
            ends: false,
            closed: None,
        }
    }

    /// The same of a group that this node hears of when it ends, or has closed.
    pub fn begun_at_the_end(group: GroupId, ends: bool, is_closed: bool) -> GroupPassing {
        let mut passing = GroupPassing { ends, closed: is_closed.then_some(Epoch(1)), ..GroupPassing::new(group) };
        if ends {
            passing.window.ends();
        }
        passing
    }

    /// The outcome of the calls up to now.
    pub fn counts(&self) -> Forwarded {
        let Received { taken, given_back, .. } = self.received;
        Forwarded { taken, given_back, ..self.window.counts() }
    }

    /// Calls of clients here.
    pub fn own_calls(&mut self, batch: Batch, handed: Option<Handed>, executor: &mut impl Executor) {
        handed.into_iter().for_each(|handed| self.handed.heard(handed));
        if self.leadership == Leadership::Here && !self.window.has_waiting() {
            executor.own(self.group, &batch);
        } else {
            self.window.push(batch, Instant::now());
        }
    }

    /// The group's leader, unless this node takes no part in that any more. True: it was heard.
    pub fn lead(
        &mut self,
        (leadership, epoch, losses): (Leadership, Epoch, u64),
        executor: &mut impl Executor,
        notices: &mut Notices,
    ) -> bool {
        if self.closed.is_some() {
            return false;
        }
        self.losses = losses;
        self.set_leader(leadership, epoch, executor, notices);
        true
    }

    fn set_leader(
        &mut self,
        leadership: Leadership,
        epoch: Epoch,
        executor: &mut impl Executor,
        notices: &mut Notices,
    ) {
        if !is_chosen(self.leadership) && is_chosen(leadership) {
            self.since = epoch;
        }
        (self.leadership, self.epoch) = (leadership, epoch);
        self.read_early(executor, notices);
        let destination = match leadership {
            Leadership::At(destination) => Some(destination),
            Leadership::Here | Leadership::HandingOver | Leadership::Coming | Leadership::Unknown => None,
        };
        let here = matches!(leadership, Leadership::Here | Leadership::HandingOver);
        self.window.lead(destination, here, epoch, Instant::now());
    }

    /// This process ends: nothing waits for a leader any more.
    pub fn ends(&mut self, executor: &mut impl Executor, notices: &mut Notices) {
        self.ends = true;
        self.window.ends();
        self.read_early(executor, notices);
    }

    /// Nothing of other nodes is executed any more.
    pub fn close(&mut self, executor: &mut impl Executor, notices: &mut Notices) {
        self.closed = Some(next_epoch(self.leadership, self.epoch));
        self.set_leader(Leadership::Unknown, self.epoch, executor, notices);
    }

    /// A message of another node's calls.
    pub fn calls_from(&mut self, message: Message, executor: &mut impl Executor, notices: &mut Notices) {
        self.early.wait(message, Instant::now());
        self.read_early(executor, notices);
    }

    /// What was sent to the node, or came from it, may be lost.
    pub fn lost(&mut self, node: NodeId, executor: &mut impl Executor) {
        self.window.lost(node);
        self.early.lost(node);
        self.received.lost(node, executor);
    }

    /// Each node's messages in their order, as far as their owner is known.
    fn read_early(&mut self, executor: &mut impl Executor, notices: &mut Notices) {
        let leadership = self.leadership;
        let epoch = self.epoch;
        let waits = self.closed.is_none() && !(self.ends && is_unsettled(leadership));
        let is_early = |message: &Message| waits && is_early(leadership, epoch, batch::epoch_of_calls(&message.bytes));
        while let Some(message) = self.early.next_if(|message| !is_early(message)) {
            self.read(&message, executor, notices);
        }
    }

    /// Messages that have waited too long.
    pub fn read_overdue(&mut self, now: Instant, executor: &mut impl Executor, notices: &mut Notices) {
        while let Some(message) = self.early.overdue(now) {
            self.read(&message, executor, notices);
        }
    }

    /// Reads calls of another node, and executes them if this one leads the group.
    fn read(&mut self, message: &Message, executor: &mut impl Executor, notices: &mut Notices) {
        let sent_in = batch::epoch_of_calls(&message.bytes);
        let taking = match taking(self.closed, self.leadership, self.epoch) {
            // It may no longer come to lead.
            Taking::Refuse if self.ends && self.leadership == Leadership::Coming => {
                Taking::GiveBack(next_epoch(self.leadership, self.epoch))
            }
            // From an earlier leadership of this node: its client heard that the outcome is
            // unknown, and may have continued.
            Taking::Execute if sent_in < self.since => Taking::GiveBack(self.epoch),
            taking => taking,
        };
        let from = (message.node, message.incarnation);
        if let Err(error) = self.received.calls(from, &message.bytes, taking, executor) {
            notices.say(Notice::PeerMessageUnusable { node: message.node, reason: error.to_string() });
        }
    }

    /// Calls that waited to be executed elsewhere are for this node, if it leads the group now.
    pub fn execute_own(&mut self, executor: &mut impl Executor) {
        if self.leadership == Leadership::Here && self.window.is_settled() && self.window.has_waiting() {
            for batch in self.window.take_back() {
                executor.own(self.group, &batch);
            }
        }
    }

    /// Network threads need not hand over calls of the group any more: this node leads it, and
    /// nothing that they have handed over waits (see [`crate::forward::order`]).
    pub fn open_way(&self, inbox: &Inbox, executor: &impl Executor) {
        if self.leadership == Leadership::Here && !self.window.has_waiting() {
            let done = self.handed.done();
            if inbox.open(self.group, self.losses) || done {
                executor.wake_network();
            }
        }
    }
}

/// This node leads, or is about to, or still does.
fn is_chosen(leadership: Leadership) -> bool {
    matches!(leadership, Leadership::Here | Leadership::HandingOver | Leadership::Coming)
}

/// No node leads, as far as this node knows, or this one is about to.
fn is_unsettled(leadership: Leadership) -> bool {
    matches!(leadership, Leadership::Unknown | Leadership::Coming)
}

/// The leadership that calls are for which come to this node and are not executed here.
fn next_epoch(leadership: Leadership, epoch: Epoch) -> Epoch {
    match leadership {
        Leadership::At(_) => epoch,
        _ => Epoch(epoch.0 + 1),
    }
}

/// Whether this node will soon know what is to become of calls that were sent in that epoch. Those
/// of the next one are for this node, as its sender knows: it leads both, and no other node leads
/// between them.
fn is_early(leadership: Leadership, epoch: Epoch, sent_in: Epoch) -> bool {
    match leadership {
        Leadership::Here => sent_in.0 > epoch.0 + 1,
        Leadership::At(_) => sent_in > epoch,
        _ => true,
    }
}

/// What becomes of another node's calls that no longer wait. A node that may still lead in this
/// epoch sends none of them to the next one, which may be far away.
fn taking(closed: Option<Epoch>, leadership: Leadership, epoch: Epoch) -> Taking {
    match (closed, leadership) {
        (Some(epoch), _) => Taking::GiveBack(epoch),
        (None, Leadership::Here) => Taking::Execute,
        (None, Leadership::HandingOver | Leadership::Coming) => Taking::Refuse,
        (None, Leadership::At(_) | Leadership::Unknown) => Taking::GiveBack(next_epoch(leadership, epoch)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::link::Destination;
    use ferrite_base::Incarnation;

    #[test]
    fn calls_wait_until_it_is_known_whose_they_are() {
        let elsewhere = Leadership::At(Destination { node: NodeId(2), incarnation: Incarnation(1) });
        let early = |leadership| [3, 4, 5, 6].map(|sent_in| is_early(leadership, Epoch(4), Epoch(sent_in)));
        assert_eq!(early(Leadership::Here), [false, false, false, true]);
        assert_eq!(early(elsewhere), [false, false, true, true]);
        for unknown in [Leadership::Unknown, Leadership::Coming, Leadership::HandingOver] {
            assert_eq!(early(unknown), [true; 4]);
        }
    }

    #[test]
    fn calls_go_back_for_a_leadership_that_comes() {
        let elsewhere = Leadership::At(Destination { node: NodeId(2), incarnation: Incarnation(1) });
        let taken = |leadership| taking(None, leadership, Epoch(4));
        assert_eq!(taken(Leadership::Here), Taking::Execute);
        assert_eq!(taken(elsewhere), Taking::GiveBack(Epoch(4)));
        assert_eq!(taken(Leadership::Unknown), Taking::GiveBack(Epoch(5)));
        assert_eq!([taken(Leadership::Coming), taken(Leadership::HandingOver)], [Taking::Refuse; 2]);
        assert_eq!(taking(Some(Epoch(5)), Leadership::Unknown, Epoch(6)), Taking::GiveBack(Epoch(5)));
    }
}
