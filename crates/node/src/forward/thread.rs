//! The thread that passes calls on, and takes those of other nodes.

use crate::cluster::Notices;
use crate::forward::early::{Early, Message};
use crate::forward::execute::Executor;
use crate::forward::inbox::{Inbox, Notice};
use crate::forward::link::{Leadership, Link};
use crate::forward::received::Received;
use crate::forward::window::Window;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What waits for the way to another node looks again so soon.
const RETRY: Duration = Duration::from_millis(2);
/// What waits for somebody to lead.
const LOOK: Duration = Duration::from_millis(100);
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
    closed: bool,
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
            closed: false,
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
            self.executor.send_batches();
            self.window.send(&*self.link, now);
            self.window.tick(now);
            let waits = self.received.send(&*self.link) || self.window.has_waiting();
            timeout = if waits { RETRY } else { LOOK };
        }
        self.window.end();
    }

    fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Calls(batch) if self.leadership == Leadership::Here => self.executor.own(&batch),
            Notice::Calls(batch) => self.window.take(batch, Instant::now()),
            Notice::Cancel(connection, cancel) => {
                let error = self.executor.cancelling().list.error();
                self.window.cancel(connection, cancel, &error);
            }
            Notice::Leadership(_) if self.closed => {}
            Notice::Leadership(leadership) => self.lead(leadership),
            Notice::CallsFrom(message) if self.leadership == Leadership::Unknown && !self.closed => {
                self.early.wait(message, Instant::now());
            }
            Notice::CallsFrom(message) => self.read(&message),
            Notice::AnswersFrom { node, message } => {
                if let Err(error) = self.window.answers(node, &message) {
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
                self.lead(Leadership::Unknown);
                self.closed = true;
                while let Some(message) = self.early.next() {
                    self.read(&message);
                }
            }
            Notice::Stop => {}
        }
    }

    /// Reads calls of another node, and executes them if this one leads.
    fn read(&mut self, message: &Message) {
        let leads = self.leadership == Leadership::Here;
        let from = (message.node, message.incarnation);
        if let Err(error) = self.received.calls(from, &message.bytes, leads, &mut self.executor) {
            self.notices.say(&format!("node {}: {error}", message.node));
        }
        self.done_with(message.bytes.len());
    }

    fn lead(&mut self, leadership: Leadership) {
        self.leadership = leadership;
        if leadership != Leadership::Unknown {
            while let Some(message) = self.early.next() {
                self.read(&message);
            }
        }
        let destination = match leadership {
            Leadership::At(destination) => Some(destination),
            Leadership::Here | Leadership::Unknown => None,
        };
        self.window.lead(destination, &*self.link);
        if leadership == Leadership::Here {
            for batch in self.window.take_back() {
                self.executor.own(&batch);
            }
        }
    }

    fn done_with(&self, bytes: usize) {
        self.inbox.done_with(bytes).into_iter().for_each(|node| self.link.resume(node));
    }
}
