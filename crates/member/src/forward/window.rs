//! The side where the clients are, for one group: calls that wait to be sent to the node that leads
//! it, and those that were sent and are not answered.
//!
//! Promises one answer to each call that it takes. Those that were sent when the way is lost are
//! answered *unknown*: they may have been executed. When another node leads, the former one answers
//! what it has taken, or gives it back, before anything goes to the next; what it has not within a
//! time is unknown, too. Those that were not sent, or came back, are sent to the next leader, in
//! their order, or refused after a while.

use crate::forward::batch::{self, AnswerItem, CALL_BYTES, Header, Malformed};
use crate::forward::link::{Batch, Call, Destination, Kind, Link};
use crate::forward::outstanding::Outstanding;
use ferrite_base::limits::{
    FORWARD_AHEAD_BYTES, FORWARD_BYTES_MAX, FORWARD_CALLS_MAX, FORWARD_MESSAGE_BYTES, FORWARD_SETTLE, FORWARD_WAIT,
    FORWARD_WAIT_LATER,
};
use ferrite_base::{Epoch, GroupId, NodeId, UserError};
use ferrite_partition::cancel::Cancel;
use ferrite_partition::{AnswerBatch, MailboxHandle};
use ferrite_system::forwarding::Forwarded;
use ferrite_wire::{Invocation, frame, response};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

/// Calls of one handle of one connection that were sent: mostly one, but a client may use a handle
/// again.
struct Sent {
    mailbox: usize,
    work: Outstanding,
    sent_micros: i64,
}

struct Queued {
    batch: Batch,
    /// The first call that still waits.
    next: usize,
    came: Instant,
    /// It was sent, and came back: older than what was not.
    returned: bool,
}

/// Another node leads, or none, or calls have come back; the former one still has calls.
struct Next {
    destination: Option<Destination>,
    until: Instant,
}

/// Answers on their way to one mailbox.
type Ready = Vec<AnswerBatch>;

#[derive(Default)]
pub struct Window {
    group: GroupId,
    destination: Option<Destination>,
    next: Option<Next>,
    /// The epoch of the leadership that is known.
    epoch: Epoch,
    /// What came back is for a leadership of this epoch or a later one.
    not_before: Epoch,
    /// Calls are executed here, or wait until this node has handed over.
    here: bool,
    /// This process ends: what cannot be sent is refused at once.
    ends: bool,
    /// Since when calls can neither be executed here nor sent.
    stranded: Option<Instant>,
    session: u64,
    /// The number of the next message, there and back.
    number: u32,
    answers_number: u32,
    sent: HashMap<(u64, i64), Sent>,
    /// Of those, what is answered if they come back: they are no longer wanted.
    cancelled: HashMap<(u64, i64), UserError>,
    outstanding: Outstanding,
    /// Connections of which the other node has heard in this session.
    told: HashSet<u64>,
    /// Those of them that are gone.
    gone: HashSet<u64>,
    cancels: Vec<u8>,
    queue: VecDeque<Queued>,
    /// Calls in it that are to be sent.
    queued: usize,
    mailboxes: Vec<MailboxHandle>,
    counts: Forwarded,
}

#[cold]
fn unknown(reason: &str) -> UserError {
    UserError::maybe_committed(&format!("{reason} before the answer came"))
}

#[cold]
pub(super) fn unreachable() -> UserError {
    UserError::not_started("no node that leads can be reached").with_hint("try again")
}

impl Window {
    pub fn of(group: GroupId) -> Window {
        Window { group, ..Window::default() }
    }

    pub fn push(&mut self, batch: Batch, now: Instant) {
        self.queued += batch.calls.len();
        self.queue.push_back(Queued { batch, next: 0, came: now, returned: false });
    }

    /// Calls that were taken and are not answered.
    pub fn held(&self) -> usize {
        #[cfg(test)]
        assert_eq!(self.queued, self.queue.iter().map(|queued| queued.batch.calls.len() - queued.next).sum::<usize>());
        self.outstanding.calls + self.queued
    }

    /// The outcome of the calls up to now.
    pub fn counts(&self) -> Forwarded {
        Forwarded { waiting: self.held() as u64, ..self.counts }
    }

    /// Calls that were sent and are not answered.
    #[cfg(test)]
    pub fn outstanding(&self) -> Outstanding {
        self.outstanding
    }

    /// Whether something waits to be sent.
    pub fn has_waiting(&self) -> bool {
        !self.queue.is_empty() || !self.cancels.is_empty() || self.next.is_some()
    }

    /// The former leader has nothing of this node any more.
    pub fn is_settled(&self) -> bool {
        self.next.is_none()
    }

    /// The node to which calls go from now on, and the epoch in which it leads; or no leader is
    /// known. `here`: this one leads, though it may be handing over.
    pub fn lead(&mut self, destination: Option<Destination>, here: bool, epoch: Epoch, now: Instant) {
        (self.epoch, self.here) = (epoch, here);
        if destination == self.destination && !self.queue.front().is_some_and(|first| first.returned) {
            self.next = None;
        } else {
            self.go_over(destination, now);
        }
    }

    /// Sends nothing until what was sent is answered or has come back.
    fn go_over(&mut self, destination: Option<Destination>, now: Instant) {
        let until = self.next.as_ref().map_or(now + FORWARD_SETTLE, |next| next.until);
        self.next = Some(Next { destination, until });
    }

    /// Moves on to the next node, when the former one has nothing any more, or has had its time.
    fn settle(&mut self, link: &dyn Link, now: Instant) {
        let Some(next) = self.next.take_if(|next| self.sent.is_empty() || now >= next.until) else { return };
        if let Some(former) = self.destination {
            if !self.told.is_empty() {
                let mut message = self.begin();
                batch::put_end(&mut message);
                // Where it does not arrive, the way is lost, which has the same effect.
                link.send(former.node, Kind::Calls, message);
            }
            self.end_session("another node leads, or none,");
        }
        self.destination = next.destination;
    }

    /// What was sent to the node, or came from it, may be lost.
    pub fn lost(&mut self, node: NodeId) {
        if self.destination.is_some_and(|destination| destination.node == node) {
            self.end_session("the connection to the node that leads was lost");
        }
    }

    /// Takes out the batches that wait, without the calls that were already sent.
    pub fn take_back(&mut self) -> impl Iterator<Item = Batch> {
        self.queued = 0;
        std::mem::take(&mut self.queue).into_iter().map(|mut queued| {
            queued.batch.calls.drain(..queued.next);
            queued.batch
        })
    }

    fn begin(&self) -> Vec<u8> {
        let mut message = Vec::new();
        batch::begin_calls(
            &mut message,
            Header { group: self.group, session: self.session, number: self.number },
            self.epoch,
        );
        message
    }

    fn end_session(&mut self, reason: &str) {
        self.session += 1;
        (self.number, self.answers_number) = (0, 0);
        self.told.clear();
        self.gone.clear();
        self.cancels.clear();
        self.cancelled.clear();
        self.outstanding = Outstanding::default();
        if self.sent.is_empty() {
            return;
        }
        self.counts.unknown += self.sent.values().map(|sent| sent.work.calls as u64).sum::<u64>();
        let (mut ready, error) = (self.ready(), unknown(reason));
        for ((connection, handle), sent) in self.sent.drain() {
            let answers = &mut ready[sent.mailbox];
            for _ in 0..sent.work.calls {
                response::write_error(&mut answers.bytes, handle, &error);
                answers.finish_answer(connection);
            }
        }
        self.deliver(ready);
    }

    fn ready(&self) -> Ready {
        self.mailboxes.iter().map(|_| AnswerBatch::default()).collect()
    }

    fn deliver(&self, ready: Ready) {
        for (mailbox, answers) in self.mailboxes.iter().zip(ready) {
            if !answers.runs.is_empty() {
                mailbox.deliver(answers);
            }
        }
    }

    /// Hands on a message of answers. Answers to calls that no client made here, or that were
    /// answered already, are dropped.
    pub fn answers(&mut self, from: NodeId, message: &[u8], now: Instant) -> Result<(), Malformed> {
        if self.destination.is_none_or(|destination| destination.node != from) {
            return Ok(());
        }
        let taken = self.take_answers(message, now);
        if taken.is_err() {
            self.end_session("the node that leads has sent what cannot be read");
        }
        taken
    }

    fn take_answers(&mut self, message: &[u8], now: Instant) -> Result<(), Malformed> {
        let (header, items) = batch::answers(message)?;
        if header.session != self.session {
            // Late: these calls were answered.
            return Ok(());
        }
        if header.number != self.answers_number {
            return Err(Malformed("a message of answers is missing"));
        }
        self.answers_number = self.answers_number.wrapping_add(1);
        let (mut ready, mut outcome, mut refused) = (self.ready(), Ok(()), false);
        for item in items {
            match item {
                AnswerItem::Answers { connection, frames } => {
                    outcome = outcome.and(self.take_frames(connection, frames, &mut ready));
                }
                AnswerItem::Returned { epoch, connection, trusted, body } => {
                    self.not_before = self.not_before.max(epoch);
                    outcome = outcome.and(self.take_returned(connection, trusted, body, now));
                }
                AnswerItem::Refused => refused = true,
            }
        }
        self.deliver(ready);
        if refused {
            self.end_session("the node that leads has given up what came from here");
        }
        outcome
    }

    fn take_frames(&mut self, connection: u64, mut frames: &[u8], ready: &mut Ready) -> Result<(), Malformed> {
        while !frames.is_empty() {
            let whole = frame::split(frames).ok().flatten();
            let (length, body) = whole.ok_or(Malformed("an answer is not a whole frame"))?;
            let handle = body.get(1..9).ok_or(Malformed("an answer has no handle"))?;
            let handle = i64::from_be_bytes(handle.try_into().expect("eight bytes"));
            if let Some((mailbox, sent_micros)) = self.answered(connection, handle) {
                let answers = &mut ready[mailbox];
                if answers.runs.is_empty() {
                    answers.sent_micros = sent_micros;
                }
                answers.bytes.extend_from_slice(&frames[..length]);
                answers.finish_answer(connection);
            }
            frames = &frames[length..];
        }
        Ok(())
    }

    /// A call that was not executed waits again, after those that came back earlier and before all
    /// that were not sent.
    #[cold]
    fn take_returned(&mut self, connection: u64, trusted: bool, body: &[u8], now: Instant) -> Result<(), Malformed> {
        // It may be executed here next, and is not what was sent where it cannot be read.
        let invocation = Invocation::parse(body).map_err(|_| Malformed("a call that came back cannot be read"))?;
        let handle = invocation.handle;
        let cancelled = self.cancelled.get(&(connection, handle)).cloned();
        let Some((mailbox, sent_micros)) = self.answered(connection, handle) else { return Ok(()) };
        self.counts.came_back += 1;
        let mailbox = self.mailboxes[mailbox].clone();
        let end = body.len() as u32;
        let call = Call { connection, handle, trusted, start: 0, end };
        if self.gone.contains(&connection) {
            // No client waits for it.
            refuse(&mailbox, &call, &unreachable());
            return Ok(());
        }
        if let Some(error) = cancelled {
            refuse(&mailbox, &call, &error);
            return Ok(());
        }
        let batch = Batch { mailbox, calls: vec![call], bytes: body.to_vec(), sent_micros };
        // What was sent after it may be on its way back, too.
        let destination = self.next.as_ref().map_or(self.destination, |next| next.destination);
        self.go_over(destination, now);
        let place = self.queue.iter().take_while(|queued| queued.returned).count();
        self.queued += 1;
        self.queue.insert(place, Queued { batch, next: 0, came: now, returned: true });
        Ok(())
    }

    /// Takes one call out. None: there is none.
    fn answered(&mut self, connection: u64, handle: i64) -> Option<(usize, i64)> {
        let sent = self.sent.get_mut(&(connection, handle))?;
        let (found, before) = ((sent.mailbox, sent.sent_micros), sent.work);
        sent.work.answered(1);
        let less = before - sent.work;
        if sent.work.calls == 0 {
            self.sent.remove(&(connection, handle));
            if !self.cancelled.is_empty() {
                self.cancelled.remove(&(connection, handle));
            }
        }
        self.outstanding = self.outstanding - less;
        Some(found)
    }

    /// Calls of a connection are no longer wanted. Those that wait here are answered with `error`;
    /// the leader hears of the others.
    pub fn cancel(&mut self, connection: u64, cancel: Cancel, error: &UserError) {
        let meant = |call: &Call| {
            call.connection == connection
                && match cancel {
                    Cancel::Gone => true,
                    // Short operations are still answered.
                    Cancel::Ended => false,
                    Cancel::Calls { handle, .. } => handle.is_none_or(|handle| handle == call.handle),
                }
        };
        for queued in &mut self.queue {
            let mut position = 0;
            let (next, mailbox) = (queued.next, &queued.batch.mailbox);
            let before = queued.batch.calls.len();
            queued.batch.calls.retain(|call| {
                position += 1;
                let stays = position <= next || !meant(call);
                if !stays {
                    refuse(mailbox, call, error);
                }
                stays
            });
            self.queued -= before - queued.batch.calls.len();
        }
        self.queue.retain(|queued| queued.next < queued.batch.calls.len());
        match cancel {
            Cancel::Calls { handle: Some(handle), .. } => {
                let known = self.sent.get_key_value(&(connection, handle));
                self.cancelled.extend(known.map(|(key, _)| (*key, error.clone())));
            }
            Cancel::Calls { handle: None, .. } => {
                let of_it = self.sent.keys().filter(|(of, _)| *of == connection);
                self.cancelled.extend(of_it.map(|key| (*key, error.clone())));
            }
            Cancel::Ended | Cancel::Gone => {}
        }
        // More of them than fit in one message help no client; that a connection is gone is always
        // sent, and once.
        let told = match cancel {
            Cancel::Gone => self.told.remove(&connection) && self.gone.insert(connection),
            _ => self.told.contains(&connection) && self.cancels.len() < FORWARD_MESSAGE_BYTES,
        };
        if told {
            batch::put_cancel(&mut self.cancels, connection, cancel);
        }
    }

    fn has_room(&self) -> bool {
        self.outstanding.calls < FORWARD_CALLS_MAX && self.outstanding.bytes < FORWARD_BYTES_MAX
    }

    /// Where what waits can be sent, as far as is known, and how many bytes are on their way there.
    fn way(&self, link: &dyn Link) -> Option<(Destination, usize)> {
        let to = self.destination.filter(|_| self.epoch >= self.not_before)?;
        Some((to, link.waiting(to.node)?))
    }

    /// Sends what may be sent.
    pub fn send(&mut self, link: &dyn Link, now: Instant) {
        self.settle(link, now);
        if self.here || self.way(link).is_some() {
            self.stranded = None;
        } else {
            self.stranded.get_or_insert(now);
        }
        if self.next.is_some() {
            return;
        }
        while !self.cancels.is_empty() || (!self.queue.is_empty() && self.has_room()) {
            let Some((to, waiting)) = self.way(link) else { return };
            if waiting >= FORWARD_AHEAD_BYTES {
                return;
            }
            let mut message = self.begin();
            message.extend_from_slice(&self.cancels);
            let count = self.fill(&mut message);
            if !link.send(to.node, Kind::Calls, message) {
                // Nothing of it was written: it still waits, and the loss will be reported.
                return;
            }
            self.number = self.number.wrapping_add(1);
            self.cancels.clear();
            self.note_sent(count);
        }
    }

    /// Appends calls in their order, at least one if there is room for any; returns how many.
    fn fill(&self, message: &mut Vec<u8>) -> usize {
        let mut sum = self.outstanding;
        let mut count = 0;
        for queued in &self.queue {
            for call in &queued.batch.calls[queued.next..] {
                let body = queued.batch.body(call);
                let fits = message.len() + CALL_BYTES + body.len() <= FORWARD_MESSAGE_BYTES || count == 0;
                if !fits || sum.calls >= FORWARD_CALLS_MAX || sum.bytes >= FORWARD_BYTES_MAX {
                    return count;
                }
                batch::put_call(message, call.connection, call.trusted, body);
                sum += Outstanding { calls: 1, bytes: body.len() };
                count += 1;
            }
        }
        count
    }

    /// The first `count` that waited were sent.
    fn note_sent(&mut self, mut count: usize) {
        self.counts.passed_on += count as u64;
        while count > 0 {
            let queued = self.queue.front_mut().expect("what was sent has waited");
            let mailbox = number_of(&mut self.mailboxes, &queued.batch.mailbox);
            let most = count.min(queued.batch.calls.len() - queued.next);
            for call in &queued.batch.calls[queued.next..queued.next + most] {
                let work = Outstanding { calls: 1, bytes: (call.end - call.start) as usize };
                self.outstanding += work;
                self.told.insert(call.connection);
                let anew = || Sent { mailbox, work: Outstanding::default(), sent_micros: queued.batch.sent_micros };
                // A client may use a handle again.
                if !self.cancelled.is_empty() {
                    self.cancelled.remove(&(call.connection, call.handle));
                }
                self.sent.entry((call.connection, call.handle)).or_insert_with(anew).work += work;
            }
            queued.next += most;
            self.queued -= most;
            count -= most;
            if queued.next == queued.batch.calls.len() {
                self.queue.pop_front();
            }
        }
    }

    /// This process ends: nothing waits for a node to lead any more.
    pub fn ends(&mut self) {
        self.ends = true;
    }

    /// Refuses what waits when no node has led, or could be reached, for a while; and soon
    /// afterwards what comes then. Where this process ends, at once.
    pub fn tick(&mut self, now: Instant) {
        let Some(since) = self.stranded else { return };
        while let Some(first) = self.queue.front()
            && (self.ends || now >= (since + FORWARD_WAIT).max(first.came + FORWARD_WAIT_LATER))
        {
            let queued = self.queue.pop_front().expect("it was looked at");
            let error = unreachable();
            let refused = queued.batch.calls.len() - queued.next;
            self.queued -= refused;
            self.counts.refused += refused as u64;
            queued.batch.calls[queued.next..].iter().for_each(|call| refuse(&queued.batch.mailbox, call, &error));
        }
    }

    /// Nothing is sent any more: what waits is refused, and what was sent stays unknown.
    pub fn end(&mut self) {
        for batch in self.take_back() {
            batch.calls.iter().for_each(|call| refuse(&batch.mailbox, call, &unreachable()));
        }
        self.end_session("this node stopped");
    }
}

fn number_of(mailboxes: &mut Vec<MailboxHandle>, mailbox: &MailboxHandle) -> usize {
    // There are as many as network threads.
    let same = |known: &MailboxHandle| std::ptr::addr_eq(&raw const **known, &raw const **mailbox);
    mailboxes.iter().position(same).unwrap_or_else(|| {
        mailboxes.push(mailbox.clone());
        mailboxes.len() - 1
    })
}

fn refuse(mailbox: &MailboxHandle, call: &Call, error: &UserError) {
    let mut answers = AnswerBatch::default();
    response::write_error(&mut answers.bytes, call.handle, error);
    answers.finish_answer(call.connection);
    mailbox.deliver(answers);
}
