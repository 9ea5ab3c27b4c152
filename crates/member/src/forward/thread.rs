//! The thread that passes calls on, and takes those of other nodes.

use crate::forward::batch;
use crate::forward::early::Message;
use crate::forward::execute::Executor;
use crate::forward::inbox::{ForwardNotice, Inbox};
use crate::forward::link::Link;
use crate::forward::passing::GroupPassing;
use crate::forward::received::{Received, Taking};
use crate::notices::Notices;
use ferrite_base::{Epoch, GroupId};
use ferrite_notice::Notice;
use ferrite_system::forwarding::{Figures, Forwarded};
use std::collections::BTreeMap;
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
    groups: BTreeMap<GroupId, GroupPassing>,
    /// Calls of clients here that came, in all.
    taken: u64,
    /// This process ends; nothing of other nodes is executed any more.
    ends: bool,
    closed: bool,
    notices: Notices,
    figures: Arc<Figures>,
}

impl<E: Executor> ForwardThread<E> {
    /// `hosted`: the groups of which calls may come from other nodes before this one has heard of
    /// any leader.
    pub fn new(
        inbox: Inbox,
        link: Arc<dyn Link>,
        executor: E,
        figures: Arc<Figures>,
        hosted: impl IntoIterator<Item = GroupId>,
    ) -> ForwardThread<E> {
        let groups = hosted.into_iter().map(|group| (group, GroupPassing::new(group))).collect();
        ForwardThread {
            inbox,
            link,
            executor,
            groups,
            taken: 0,
            ends: false,
            closed: false,
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
        self.groups.values_mut().for_each(|group| group.window.end());
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
        for group in self.groups.values_mut() {
            group.read_overdue(now, &mut self.executor, &mut self.notices);
            group.window.send(&*self.link, now);
            group.window.tick(now);
            group.execute_own(&mut self.executor);
        }
        self.executor.send_batches();
        let mut sum = Forwarded::default();
        let mut waits = false;
        let mut rests = self.executor.outstanding() == 0;
        for group in self.groups.values_mut() {
            group.open_way(&self.inbox, &self.executor);
            sum += group.counts();
            waits |= group.received.send(&*self.link) || group.window.has_waiting();
            rests &= group.early.is_empty() && group.window.held() == 0;
        }
        self.inbox.say_waiting(sum.waiting);
        self.figures.set(sum);
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

    /// Does it with what there is of the group, which begins here if this node had not heard of it.
    fn of_group<T>(&mut self, group: GroupId, act: impl FnOnce(&mut GroupPassing, &mut E, &mut Notices) -> T) -> T {
        let anew = || GroupPassing::begun_at_the_end(group, self.ends, self.closed);
        act(self.groups.entry(group).or_insert_with(anew), &mut self.executor, &mut self.notices)
    }

    /// The same with all groups.
    fn of_all(&mut self, act: impl Fn(&mut GroupPassing, &mut E, &mut Notices)) {
        self.groups.values_mut().for_each(|group| act(group, &mut self.executor, &mut self.notices));
    }

    fn handle(&mut self, notice: ForwardNotice) {
        match notice {
            ForwardNotice::Calls(group, batch, handed) => {
                self.taken += batch.calls.len() as u64;
                self.of_group(group, |group, executor, _| group.own_calls(batch, handed, executor));
            }
            ForwardNotice::Cancel(connection, cancel) => {
                let error = self.executor.cancelled();
                self.groups.values_mut().for_each(|group| group.window.cancel(connection, cancel, &error));
            }
            ForwardNotice::Leadership(group, leadership, epoch, losses) => {
                let heard = (leadership, epoch, losses);
                if self.of_group(group, |group, executor, notices| group.lead(heard, executor, notices)) {
                    // A thread that waits until what it has handed over is executed here no longer
                    // does so.
                    self.executor.wake_network();
                }
            }
            ForwardNotice::Drained(but_for, to) => {
                // In this order: what is passed on counts as taken before it counts as passed on.
                let passed = self.inbox.passed_in_all();
                let held: usize = self.groups.values().map(|group| group.window.held()).sum();
                // Of a large batch the first calls may be here before all are counted.
                let elsewhere = (passed + held as u64).saturating_sub(self.taken) as usize;
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
                match self.groups.get_mut(&message.group) {
                    Some(group) => group.calls_from(message, &mut self.executor, &mut self.notices),
                    None => self.give_back_unknown(&message),
                }
            }
            ForwardNotice::AnswersFrom { node, message } => {
                let read = batch::group_of(&message).and_then(|group| match self.groups.get_mut(&group) {
                    Some(group) => group.window.answers(node, &message, Instant::now()),
                    // Nothing was sent for it.
                    None => Ok(()),
                });
                if let Err(error) = read {
                    self.notices.say(Notice::PeerMessageUnusable { node, reason: error.to_string() });
                }
                self.done_with(message.len());
            }
            ForwardNotice::Lost(node) => {
                self.of_all(|group, executor, _| group.lost(node, executor));
            }
            ForwardNotice::Answered(group, answers) => {
                let known = self.groups.get_mut(&group).expect("what is answered was taken");
                known.received.answered(&answers, &mut self.executor);
            }
            ForwardNotice::Ends => {
                self.ends = true;
                self.of_all(GroupPassing::ends);
            }
            ForwardNotice::Close => {
                self.executor.send_batches();
                self.closed = true;
                self.of_all(GroupPassing::close);
            }
            ForwardNotice::Stop => {}
        }
    }

    /// Calls for a group that this node neither hosts nor has heard of: their sender is mistaken.
    fn give_back_unknown(&mut self, message: &Message) {
        let mut received = Received::of(message.group);
        let from = (message.node, message.incarnation);
        // Not before it has heard of another leader.
        let next = Epoch(batch::epoch_of_calls(&message.bytes).0.saturating_add(1));
        let outcome = received.calls(from, &message.bytes, Taking::GiveBack(next), &mut self.executor);
        received.send(&*self.link);
        let reason = outcome.err().map_or_else(
            || format!("calls are for group {}, which this node does not keep", message.group),
            |error| error.to_string(),
        );
        self.notices.say(Notice::PeerMessageUnusable { node: message.node, reason });
    }

    fn done_with(&self, bytes: usize) {
        self.inbox.done_with(bytes).into_iter().for_each(|node| self.link.resume(node));
    }
}
