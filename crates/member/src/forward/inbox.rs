//! What network threads, the cluster and partitions tell the thread that forwards.
//!
//! Promises that what other nodes send is bounded: beyond that nothing more is read from them.

use crate::forward::batch;
use crate::forward::behind::Behind;
use crate::forward::early::Message;
use crate::forward::link::{Batch, Leadership};
use crate::forward::order::{Handed, Switch};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use ferrite_base::limits::FORWARD_INBOX_BYTES_MAX;
use ferrite_base::{Epoch, GroupId, Incarnation, NodeId};
use ferrite_group::FIRST_GROUP;
use ferrite_partition::cancel::Cancel;
use ferrite_partition::{AnswerBatch, Mailbox, MailboxHandle};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub enum ForwardNotice {
    /// Calls of clients here, to partitions of that group. None: not by a network thread.
    Calls(GroupId, Batch, Option<Handed>),
    /// Calls of a connection here are no longer wanted.
    Cancel(u64, Cancel),
    /// A group's leader and its epoch, as far as this node knows; and how often the lead was lost
    /// before that.
    Leadership(GroupId, Leadership, Epoch, u64),
    /// Whether all that was taken is answered, except for this number of calls and for those that
    /// wait to be executed elsewhere.
    Drained(usize, Sender<bool>),
    /// Dropped once the calls that were admitted earlier are on their way.
    Behind(Arc<Behind>),
    CallsFrom(Message),
    AnswersFrom {
        node: NodeId,
        message: Vec<u8>,
    },
    Lost(NodeId),
    /// Calls of other nodes' clients, to partitions of that group.
    Answered(GroupId, AnswerBatch),
    /// This process ends: nothing waits for a leader any more.
    Ends,
    /// Nothing of other nodes is executed any more: partitions are about to end.
    Close,
    Stop,
}

/// Messages of other nodes that wait.
#[derive(Default)]
struct Held {
    bytes: usize,
    /// Nothing more is read from these until there is room.
    waiting: BTreeSet<NodeId>,
}

/// Of each group that was heard of.
type Switches = Mutex<BTreeMap<GroupId, Arc<Switch>>>;

fn switch_of(switches: &Switches, group: GroupId) -> Arc<Switch> {
    Arc::clone(switches.lock().expect("nobody panics with it").entry(group).or_default())
}

/// The way into the thread. Clones are the same.
#[derive(Clone)]
pub struct Forward {
    notices: Sender<ForwardNotice>,
    held: Arc<Mutex<Held>>,
    switches: Arc<Switches>,
    passed: Arc<AtomicU64>,
    /// Calls that the thread has and that are not answered.
    waiting: Arc<AtomicU64>,
}

/// The thread's end.
pub struct Inbox {
    notices: Receiver<ForwardNotice>,
    held: Arc<Mutex<Held>>,
    switches: Arc<Switches>,
    passed: Arc<AtomicU64>,
    /// Calls that the thread has and that are not answered.
    waiting: Arc<AtomicU64>,
}

/// A way into a thread that has yet to begin. Until a leader is set, none is known.
pub fn connect() -> (Forward, Inbox) {
    let (sender, notices) = unbounded();
    let held = Arc::new(Mutex::default());
    let switches = Arc::<Switches>::default();
    let passed = Arc::new(AtomicU64::new(0));
    let waiting = Arc::new(AtomicU64::new(0));
    let forward = Forward {
        notices: sender,
        held: Arc::clone(&held),
        switches: Arc::clone(&switches),
        passed: Arc::clone(&passed),
        waiting: Arc::clone(&waiting),
    };
    (forward, Inbox { notices, held, switches, passed, waiting })
}

impl Forward {
    fn send(&self, notice: ForwardNotice) {
        // The thread has ended only when no thread makes calls any more.
        let _ = self.notices.send(notice);
    }

    /// Whether calls to the group's partitions go to the thread that forwards: another node leads
    /// the group, or none, or earlier calls are not settled.
    pub fn is_away(&self, group: GroupId) -> bool {
        self.switch(group).is_away()
    }

    /// Whether this node leads the group, and hands it over to no other: also while calls of
    /// network threads still take the long way. With `handing_over` until another leads it.
    pub fn leads(&self, group: GroupId, handing_over: bool) -> bool {
        self.switch(group).leads(handing_over)
    }

    pub(super) fn switch(&self, group: GroupId) -> Arc<Switch> {
        switch_of(&self.switches, group)
    }

    /// Calls that a network thread does not execute itself. Each gets one answer. `handed`: the
    /// number that the thread has handed over of the group up to now.
    pub(super) fn submit(&self, group: GroupId, batch: Batch, handed: Handed) {
        self.send(ForwardNotice::Calls(group, batch, Some(handed)));
    }

    /// The same of a call that another thread does not execute; it counts as passed.
    pub fn submit_one(&self, group: GroupId, batch: Batch) {
        self.passed(batch.calls.len());
        self.send(ForwardNotice::Calls(group, batch, None));
    }

    /// This number of calls will come by [`Forward::submit`]. Sent after they are counted as taken.
    pub fn passed(&self, calls: usize) {
        self.passed.fetch_add(calls as u64, Ordering::SeqCst);
    }

    /// How many were, since the start.
    pub fn passed_in_all(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    /// Whether some of them wait to be sent, or for their answers.
    pub fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Asks whether all that was taken is answered, except for this number of calls. Those that
    /// wait to be executed elsewhere do not count.
    pub fn is_drained(&self, but_for: usize) -> Receiver<bool> {
        let (to, answer) = bounded(1);
        self.send(ForwardNotice::Drained(but_for, to));
        answer
    }

    /// Drops it after the calls that came previously.
    pub fn behind(&self, behind: Arc<Behind>) {
        self.send(ForwardNotice::Behind(behind));
    }

    /// Calls of a connection here that were taken earlier are no longer wanted.
    pub fn cancel(&self, connection: u64, cancel: Cancel) {
        self.send(ForwardNotice::Cancel(connection, cancel));
    }

    /// The group's leader from now on.
    pub fn lead(&self, group: GroupId, leadership: Leadership, epoch: Epoch) {
        let switch = self.switch(group);
        switch.follows(leadership);
        let losses = match leadership {
            Leadership::Here => switch.losses(),
            _ => switch.lose(),
        };
        self.send(ForwardNotice::Leadership(group, leadership, epoch, losses));
    }

    /// Where the group's partitions send the answers of other nodes' calls.
    pub fn mailbox(&self, group: GroupId) -> MailboxHandle {
        Arc::new(GroupMailbox { forward: self.clone(), group })
    }

    /// A message of calls from another node's process. False: nothing more may be read from it
    /// until [`Link::resume`](crate::forward::link::Link::resume).
    pub fn calls(&self, node: NodeId, incarnation: Incarnation, message: &[u8]) -> bool {
        let room = self.hold(node, message.len());
        // What cannot be read is reported where it is read.
        let group = batch::group_of(message).unwrap_or(FIRST_GROUP);
        self.send(ForwardNotice::CallsFrom(Message { group, node, incarnation, bytes: message.to_vec() }));
        room
    }

    /// The same of answers.
    pub fn answers(&self, node: NodeId, message: &[u8]) -> bool {
        let room = self.hold(node, message.len());
        self.send(ForwardNotice::AnswersFrom { node, message: message.to_vec() });
        room
    }

    /// What was sent to the node, or came from it, may be lost.
    pub fn lost(&self, node: NodeId) {
        self.send(ForwardNotice::Lost(node));
    }

    /// What waits for a node to lead is refused from now on, and calls of other nodes go back to
    /// them while this one does not lead.
    pub fn ends(&self) {
        self.send(ForwardNotice::Ends);
    }

    /// Calls of other nodes are refused from now on. Those that were taken are answered.
    pub fn close(&self) {
        self.send(ForwardNotice::Close);
    }

    pub fn stop(&self) {
        self.send(ForwardNotice::Stop);
    }

    fn hold(&self, node: NodeId, bytes: usize) -> bool {
        let mut held = self.held.lock().expect("nobody panics with it");
        held.bytes += bytes;
        let room = held.bytes < FORWARD_INBOX_BYTES_MAX;
        if !room {
            held.waiting.insert(node);
        }
        room
    }
}

struct GroupMailbox {
    forward: Forward,
    group: GroupId,
}

impl Mailbox for GroupMailbox {
    fn deliver(&self, mut answers: AnswerBatch) {
        answers.count();
        self.forward.send(ForwardNotice::Answered(self.group, answers));
    }
}

impl Inbox {
    pub fn wait(&self, timeout: Duration) -> Option<ForwardNotice> {
        self.notices.recv_timeout(timeout).ok()
    }

    pub fn next(&self) -> Option<ForwardNotice> {
        self.notices.try_recv().ok()
    }

    /// How many calls were passed on since the start.
    pub fn passed_in_all(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    pub fn say_waiting(&self, calls: u64) {
        self.waiting.store(calls, Ordering::Release);
    }

    /// This node leads the group, and nothing of it waits here: calls need not come here any more,
    /// unless the lead was lost since. Returns whether that is new.
    pub fn open(&self, group: GroupId, losses: u64) -> bool {
        switch_of(&self.switches, group).open(losses)
    }

    /// A message of that many bytes was read; the nodes that may send again.
    pub fn done_with(&self, bytes: usize) -> BTreeSet<NodeId> {
        let mut held = self.held.lock().expect("nobody panics with it");
        held.bytes -= bytes;
        if held.bytes < FORWARD_INBOX_BYTES_MAX / 2 { std::mem::take(&mut held.waiting) } else { BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_filled_the_inbox_waits_until_half_of_it_is_read() {
        let (forward, inbox) = connect();
        let message = vec![0; FORWARD_INBOX_BYTES_MAX / 4];
        for _ in 0..3 {
            assert!(forward.answers(NodeId(2), &message));
        }
        assert!(!forward.calls(NodeId(2), Incarnation(1), &message), "at the limit");
        assert!(!forward.answers(NodeId(3), &[]));
        assert!(inbox.done_with(message.len()).is_empty() && inbox.done_with(message.len()).is_empty());
        assert_eq!(inbox.done_with(message.len()), BTreeSet::from([NodeId(2), NodeId(3)]));
        assert!(inbox.done_with(message.len()).is_empty() && forward.answers(NodeId(2), &message));
    }

    #[test]
    fn a_node_is_away_from_a_group_until_it_leads_that_and_nothing_waits() {
        let (forward, inbox) = connect();
        let [group, other] = [FIRST_GROUP, GroupId(1)];
        assert!(forward.is_away(group));
        forward.lead(group, Leadership::Here, Epoch(1));
        assert!(forward.is_away(group) && forward.leads(group, false), "something may wait");
        assert!(!forward.leads(other, true));
        let losses = || match inbox.next() {
            Some(ForwardNotice::Leadership(.., losses)) => losses,
            _ => panic!("it was told who leads"),
        };
        let before = losses();
        assert!(inbox.open(group, before) && !forward.is_away(group) && !inbox.open(group, before));
        forward.lead(other, Leadership::Unknown, Epoch(7));
        assert!(forward.is_away(other) && !forward.is_away(group), "the lead of another group was lost");
        for leadership in [Leadership::Unknown, Leadership::HandingOver] {
            forward.lead(group, leadership, Epoch(1));
            let is_away = || forward.is_away(group);
            assert!(is_away() && !inbox.open(group, before) && is_away(), "an earlier lead opens nothing");
            let hands_over = leadership == Leadership::HandingOver;
            assert_eq!([forward.leads(group, false), forward.leads(group, true)], [false, hands_over]);
        }
    }
}
