//! The thread that passes calls on, and takes those of other nodes.

use crate::forward::batch;
use crate::forward::early::{Early, Message};
use crate::forward::execute::Executor;
use crate::forward::inbox::{ForwardNotice, Inbox};
use crate::forward::link::{Leadership, Link};
use crate::forward::order::HandedByAll;
use crate::forward::received::{Received, Taking};
use crate::forward::window::Window;
use crate::notices::Notices;
use ferrite_base::Epoch;
use ferrite_notice::Notice;
use ferrite_system::forwarding::{Figures, Forwarded};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What waits for the way to another node checks again after this time.
const RETRY: Duration = Duration::from_millis(2);
/// What waits for a leader.
const LOOK: Duration = Duration::from_millis(100);
/// Where no client has a call here.
const REST: Duration = Duration::from_secs(1);
/// Taken in one turn before batches leave.
const NOTICES_PER_TURN: usize = 256;

pub struct ForwardThread<E> {
    inbox: Inbox,
    link: Arc<dyn Link>,
    executor: E,
    window: Window,
    received: Received,
    early: Early,
    leadership: Leadership,
    /// The epoch of the configuration that is known.
    epoch: Epoch,
    /// The epoch in which this node was chosen to lead, if it was.
    since: Epoch,
    /// How often this node had not led, or had stopped leading, when that was set.
    losses: u64,
    /// Calls of clients here that came, in all.
    taken: u64,
    /// The same, for the network threads that they came from.
    handed: HandedByAll,
    /// This process ends: nothing here waits for a leader.
    ends: bool,
    /// Nothing of other nodes is executed any more: what comes goes back, for a leadership from
    /// this epoch on.
    closed: Option<Epoch>,
    notices: Notices,
    figures: Arc<Figures>,
}

impl<E: Executor> ForwardThread<E> {
    pub fn new(inbox: Inbox, link: Arc<dyn Link>, executor: E, figures: Arc<Figures>) -> ForwardThread<E> {
        ForwardThread {
            inbox,
            link,
            executor,
            window: Window::default(),
            received: Received::default(),
            early: Early::default(),
            leadership: Leadership::Unknown,
            epoch: Epoch(0),
            since: Epoch(0),
            losses: 0,
            taken: 0,
            handed: HandedByAll::default(),
            ends: false,
            closed: None,
            notices: Notices::default(),
            figures,
        }
    }

    /// Runs until it is told to stop. All threads that make calls have ended by then.
    pub fn run(mut self) {
        let mut timeout = LOOK;
        let mut ended = false;
        while !ended {
            let first = self.inbox.wait(timeout);
            (timeout, ended) = self.turn(first, Instant::now);
        }
        self.window.end();
    }

    /// Takes what has come, and sends what may be sent. Returns how long there is nothing to do
    /// unless something comes, and whether all has ended.
    fn turn(&mut self, first: Option<ForwardNotice>, now: impl FnOnce() -> Instant) -> (Duration, bool) {
        let mut next = first;
        let mut ended = false;
        self.executor.refresh_catalog();
        for _ in 0..NOTICES_PER_TURN {
            let Some(notice) = next.take() else { break };
            ended |= matches!(notice, ForwardNotice::Stop);
            self.handle(notice);
            next = self.inbox.next();
        }
        if let Some(notice) = next {
            ended |= matches!(notice, ForwardNotice::Stop);
            self.handle(notice);
        }
        let now = now();
        while let Some(message) = self.early.overdue(now) {
            self.read(&message);
        }
        self.window.send(&*self.link, now);
        self.window.tick(now);
        self.execute_own();
        self.executor.send_batches();
        self.open_way();
        let counts = self.window.counts();
        self.inbox.say_waiting(counts.waiting);
        self.figures.set(Forwarded { taken: self.received.taken, given_back: self.received.given_back, ..counts });
        let waits = self.received.send(&*self.link) || self.window.has_waiting();
        let rests = self.early.is_empty() && self.window.held() == 0 && self.executor.outstanding() == 0;
        let timeout = match waits {
            true => RETRY,
            false if rests => REST,
            false => LOOK,
        };
        (timeout, ended)
    }

    /// One turn at that moment, of a caller that takes them step by step in place of
    /// [`ForwardThread::run`].
    pub fn turn_at(&mut self, now: Instant) {
        let first = self.inbox.next();
        self.turn(first, || now);
    }

    fn handle(&mut self, notice: ForwardNotice) {
        match notice {
            ForwardNotice::Calls(batch, handed) => {
                self.taken += batch.calls.len() as u64;
                self.handed.heard(handed);
                if self.leadership == Leadership::Here && !self.window.has_waiting() {
                    self.executor.own(&batch);
                } else {
                    self.window.push(batch, Instant::now());
                }
            }
            ForwardNotice::Cancel(connection, cancel) => {
                let error = self.executor.cancelled();
                self.window.cancel(connection, cancel, &error);
            }
            ForwardNotice::Leadership(..) if self.closed.is_some() => {}
            ForwardNotice::Leadership(leadership, epoch, losses) => {
                self.losses = losses;
                self.lead(leadership, epoch);
                // A thread that waits until what it has handed over is executed here no longer does
                // so.
                self.executor.wake_network();
            }
            ForwardNotice::Drained(but_for, to) => {
                // In this order: what is passed on counts as taken before it counts as passed on.
                let passed = self.inbox.passed_in_all();
                let held = self.window.held() as u64;
                // Of a large batch the first calls may be here before all are counted.
                let elsewhere = (passed + held).saturating_sub(self.taken) as usize;
                // The caller may have given up waiting.
                let _ = to.send(self.executor.outstanding() <= elsewhere + but_for);
            }
            ForwardNotice::Behind(behind) => {
                self.executor.send_batches();
                drop(behind);
            }
            ForwardNotice::CallsFrom(message) => {
                // It waits apart from what is to be read, which others' answers are among.
                self.done_with(message.bytes.len());
                self.early.wait(message, Instant::now());
                self.read_early();
            }
            ForwardNotice::AnswersFrom { node, message } => {
                if let Err(error) = self.window.answers(node, &message, Instant::now()) {
                    self.notices.say(Notice::PeerMessageUnusable { node, reason: error.to_string() });
                }
                self.done_with(message.len());
            }
            ForwardNotice::Lost(node) => {
                self.window.lost(node);
                self.early.lost(node);
                self.received.lost(node, &mut self.executor);
            }
            ForwardNotice::Answered(answers) => self.received.answered(&answers, &mut self.executor),
            ForwardNotice::Ends => {
                self.ends = true;
                self.window.ends();
                self.read_early();
            }
            ForwardNotice::Close => {
                self.executor.send_batches();
                self.closed = Some(next_epoch(self.leadership, self.epoch));
                self.lead(Leadership::Unknown, self.epoch);
            }
            ForwardNotice::Stop => {}
        }
    }

    /// Each node's messages in their order, as far as their owner is known.
    fn read_early(&mut self) {
        let leadership = self.leadership;
        let epoch = self.epoch;
        let waits = self.closed.is_none() && !(self.ends && is_unsettled(leadership));
        let is_early = |message: &Message| waits && is_early(leadership, epoch, batch::epoch_of_calls(&message.bytes));
        while let Some(message) = self.early.next_if(|message| !is_early(message)) {
            self.read(&message);
        }
    }

    /// Reads calls of another node, and executes them if this one leads.
    fn read(&mut self, message: &Message) {
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
        if let Err(error) = self.received.calls(from, &message.bytes, taking, &mut self.executor) {
            self.notices.say(Notice::PeerMessageUnusable { node: message.node, reason: error.to_string() });
        }
    }

    fn lead(&mut self, leadership: Leadership, epoch: Epoch) {
        if !is_chosen(self.leadership) && is_chosen(leadership) {
            self.since = epoch;
        }
        (self.leadership, self.epoch) = (leadership, epoch);
        self.read_early();
        let destination = match leadership {
            Leadership::At(destination) => Some(destination),
            Leadership::Here | Leadership::HandingOver | Leadership::Coming | Leadership::Unknown => None,
        };
        let here = matches!(leadership, Leadership::Here | Leadership::HandingOver);
        self.window.lead(destination, here, epoch, Instant::now());
    }

    /// Calls that waited to be executed elsewhere are for this node, if it leads now.
    fn execute_own(&mut self) {
        if self.leadership == Leadership::Here && self.window.is_settled() && self.window.has_waiting() {
            for batch in self.window.take_back() {
                self.executor.own(&batch);
            }
        }
    }

    /// Network threads need not hand over calls any more: this node leads, and nothing that they
    /// have handed over waits (see [`crate::forward::order`]).
    fn open_way(&mut self) {
        if self.leadership == Leadership::Here && !self.window.has_waiting() {
            let done = self.handed.done();
            if self.inbox.open(self.losses) || done {
                self.executor.wake_network();
            }
        }
    }

    fn done_with(&self, bytes: usize) {
        self.inbox.done_with(bytes).into_iter().for_each(|node| self.link.resume(node));
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
    use ferrite_base::{Incarnation, NodeId};

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
