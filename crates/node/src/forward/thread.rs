//! The thread that passes calls on, and takes those of other nodes.

use crate::cluster::Notices;
use crate::forward::batch;
use crate::forward::early::{Early, Message};
use crate::forward::execute::Executor;
use crate::forward::inbox::{Inbox, Notice};
use crate::forward::link::{Leadership, Link};
use crate::forward::received::{Received, Taking};
use crate::forward::window::Window;
use ferrite_base::Epoch;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What waits for the way to another node looks again so soon.
const RETRY: Duration = Duration::from_millis(2);
/// What waits for somebody to lead.
const LOOK: Duration = Duration::from_millis(100);
/// Where nobody has any call here.
const REST: Duration = Duration::from_secs(1);
/// Taken in one turn before batches leave.
const NOTICES_PER_TURN: usize = 256;

pub struct ForwardThread {
    inbox: Inbox,
    link: Arc<dyn Link>,
    executor: Executor,
    window: Window,
    received: Received,
    early: Early,
    leadership: Leadership,
    /// Of the configuration that is known.
    epoch: Epoch,
    /// Calls of clients here that came, in all.
    taken: u64,
    /// Nothing of other nodes is executed any more: what comes goes back, for a leadership from
    /// this epoch on.
    closed: Option<Epoch>,
    notices: Notices,
}

impl ForwardThread {
    pub fn new(inbox: Inbox, link: Arc<dyn Link>, executor: Executor) -> ForwardThread {
        ForwardThread {
            inbox,
            link,
            executor,
            window: Window::default(),
            received: Received::default(),
            early: Early::default(),
            leadership: Leadership::Unknown,
            epoch: Epoch(0),
            taken: 0,
            closed: None,
            notices: Notices::default(),
        }
    }

    /// Until it is told to stop. Whoever makes calls has ended by then.
    pub fn run(mut self) {
        let mut timeout = LOOK;
        let mut ended = false;
        while !ended {
            let mut next = self.inbox.wait(timeout);
            self.executor.look_at_catalog();
            for _ in 0..NOTICES_PER_TURN {
                let Some(notice) = next.take() else { break };
                ended |= matches!(notice, Notice::Stop);
                self.take(notice);
                next = self.inbox.next();
            }
            if let Some(notice) = next {
                ended |= matches!(notice, Notice::Stop);
                self.take(notice);
            }
            let now = Instant::now();
            while let Some(message) = self.early.overdue(now) {
                self.read(&message);
            }
            self.window.send(&*self.link, now);
            self.window.tick(now);
            self.execute_own();
            self.executor.send_batches();
            let waits = self.received.send(&*self.link) || self.window.has_waiting();
            let rests = self.early.first().is_none() && self.window.held() == 0 && self.executor.outstanding() == 0;
            timeout = match waits {
                true => RETRY,
                false if rests => REST,
                false => LOOK,
            };
        }
        self.window.end();
    }

    fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Calls(batch) => {
                self.taken += batch.calls.len() as u64;
                if self.leadership == Leadership::Here && !self.window.has_waiting() {
                    self.executor.own(&batch);
                } else {
                    self.window.take(batch, Instant::now());
                }
            }
            Notice::Cancel(connection, cancel) => {
                let error = self.executor.cancelling().list.error();
                self.window.cancel(connection, cancel, &error);
            }
            Notice::Leadership(..) if self.closed.is_some() => {}
            Notice::Leadership(leadership, epoch) => self.lead(leadership, epoch),
            Notice::Drained(but_for, to) => {
                // In this order: what is passed on counts as taken before it counts as passed on.
                let (passed, held) = (self.inbox.passed_in_all(), self.window.held() as u64);
                // Of a large batch the first calls may be here before all are counted.
                let elsewhere = (passed + held).saturating_sub(self.taken) as usize;
                // Whoever asked may have given up waiting.
                let _ = to.send(self.executor.outstanding() <= elsewhere + but_for);
            }
            Notice::Behind(behind) => {
                self.executor.send_batches();
                drop(behind);
            }
            Notice::CallsFrom(message) => {
                self.early.wait(message, Instant::now());
                self.read_early();
            }
            Notice::AnswersFrom { node, message } => {
                if let Err(error) = self.window.answers(node, &message, Instant::now()) {
                    self.notices.say(&format!("node {node}: {error}"));
                }
                self.done_with(message.len());
            }
            Notice::Lost(node) => {
                self.window.lost(node);
                let forgotten = self.early.lost(node);
                self.done_with(forgotten);
                self.received.lost(node, &mut self.executor);
            }
            Notice::Answered(answers) => self.received.answered(&answers, &mut self.executor),
            Notice::Close => {
                self.executor.send_batches();
                self.closed = Some(next_epoch(self.leadership, self.epoch));
                self.lead(Leadership::Unknown, self.epoch);
            }
            Notice::Stop => {}
        }
    }

    /// Whether this node will soon know what is to become of the calls.
    fn is_early(&self, message: &Message) -> bool {
        let knows = matches!(self.leadership, Leadership::Here | Leadership::At(_));
        self.closed.is_none() && (!knows || batch::epoch_of_calls(&message.bytes) > self.epoch)
    }

    /// In their order, as far as it is known whose they are.
    fn read_early(&mut self) {
        while self.early.first().is_some_and(|message| !self.is_early(message)) {
            let message = self.early.next().expect("seen just now");
            self.read(&message);
        }
    }

    /// Reads calls of another node, and executes them if this one leads.
    fn read(&mut self, message: &Message) {
        let taking = taking(self.closed, self.leadership, self.epoch);
        let from = (message.node, message.incarnation);
        if let Err(error) = self.received.calls(from, &message.bytes, taking, &mut self.executor) {
            self.notices.say(&format!("node {}: {error}", message.node));
        }
        self.done_with(message.bytes.len());
    }

    fn lead(&mut self, leadership: Leadership, epoch: Epoch) {
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

    fn done_with(&self, bytes: usize) {
        self.inbox.done_with(bytes).into_iter().for_each(|node| self.link.resume(node));
    }
}

/// Of the leadership that calls are for which come to this node and are not executed here.
fn next_epoch(leadership: Leadership, epoch: Epoch) -> Epoch {
    match leadership {
        Leadership::At(_) => epoch,
        _ => Epoch(epoch.0 + 1),
    }
}

/// What becomes of calls of another node that wait no longer. A node that may lead in this epoch
/// yet sends nobody to the next one, which may be far away.
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
