//! What network threads, the cluster and partitions tell the thread that forwards.
//!
//! Promises that what other nodes send is bounded: beyond that nothing more is read from them.

use crate::forward::behind::Behind;
use crate::forward::early::Message;
use crate::forward::link::{Batch, Leadership};
use crate::forward::order::{Handed, Switch};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use ferrite_base::limits::FORWARD_INBOX_BYTES_MAX;
use ferrite_base::{Epoch, Incarnation, NodeId};
use ferrite_partition::cancel::Cancel;
use ferrite_partition::{AnswerBatch, Mailbox};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub enum ForwardNotice {
    /// Calls of clients here.
    Calls(Batch, Handed),
    /// Calls of a connection here are no longer wanted.
    Cancel(u64, Cancel),
    /// The leader and its epoch, as far as this node knows; and how often the lead was lost before
    /// that.
    Leadership(Leadership, Epoch, u64),
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
    /// Calls of other nodes' clients.
    Answered(AnswerBatch),
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

/// The way into the thread. Clones are the same.
#[derive(Clone)]
pub struct Forward {
    notices: Sender<ForwardNotice>,
    held: Arc<Mutex<Held>>,
    switch: Arc<Switch>,
    passed: Arc<AtomicU64>,
    /// Calls that the thread has and that are not answered.
    waiting: Arc<AtomicU64>,
}

/// The thread's end.
pub struct Inbox {
    notices: Receiver<ForwardNotice>,
    held: Arc<Mutex<Held>>,
    switch: Arc<Switch>,
    passed: Arc<AtomicU64>,
    /// Calls that the thread has and that are not answered.
    waiting: Arc<AtomicU64>,
}

/// A way into a thread that has yet to begin. Until a leader is set, none is known.
pub fn connect() -> (Forward, Inbox) {
    let (sender, notices) = unbounded();
    let held = Arc::new(Mutex::default());
    let switch = Arc::new(Switch::default());
    let passed = Arc::new(AtomicU64::new(0));
    let waiting = Arc::new(AtomicU64::new(0));
    let forward = Forward {
        notices: sender,
        held: Arc::clone(&held),
        switch: Arc::clone(&switch),
        passed: Arc::clone(&passed),
        waiting: Arc::clone(&waiting),
    };
    (forward, Inbox { notices, held, switch, passed, waiting })
}

impl Forward {
    fn send(&self, notice: ForwardNotice) {
        // The thread has ended only when no thread makes calls any more.
        let _ = self.notices.send(notice);
    }

    /// Whether calls go to the thread that forwards: another node leads, or none, or earlier calls
    /// are not settled.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.switch.is_away()
    }

    /// Calls that a network thread does not execute itself. Each gets one answer. `handed`: the
    /// number that the thread has handed over up to now.
    pub fn submit(&self, batch: Batch, handed: Handed) {
        self.send(ForwardNotice::Calls(batch, handed));
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

    /// The leader from now on.
    pub fn lead(&self, leadership: Leadership, epoch: Epoch) {
        let losses = match leadership {
            Leadership::Here => self.switch.losses(),
            _ => self.switch.lose(),
        };
        self.send(ForwardNotice::Leadership(leadership, epoch, losses));
    }

    /// A message of calls from another node's process. False: nothing more may be read from it
    /// until [`Link::resume`](crate::forward::link::Link::resume).
    pub fn calls(&self, node: NodeId, incarnation: Incarnation, message: &[u8]) -> bool {
        let room = self.hold(node, message.len());
        self.send(ForwardNotice::CallsFrom(Message { node, incarnation, bytes: message.to_vec() }));
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

/// Where partitions send the answers of other nodes' calls.
impl Mailbox for Forward {
    fn deliver(&self, mut answers: AnswerBatch) {
        answers.count();
        self.send(ForwardNotice::Answered(answers));
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

    /// This node leads, and nothing waits here: calls need not come here any more, unless the lead
    /// was lost since. Returns whether that is new.
    pub fn open(&self, losses: u64) -> bool {
        self.switch.open(losses)
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
    fn a_node_is_away_until_it_leads_and_nothing_waits() {
        let (forward, inbox) = connect();
        assert!(forward.is_away());
        forward.lead(Leadership::Here, Epoch(1));
        assert!(forward.is_away(), "something may wait");
        let losses = || match inbox.next() {
            Some(ForwardNotice::Leadership(.., losses)) => losses,
            _ => panic!("it was told who leads"),
        };
        let before = losses();
        assert!(inbox.open(before) && !forward.is_away() && !inbox.open(before));
        for other in [Leadership::Unknown, Leadership::HandingOver] {
            forward.lead(other, Epoch(1));
            assert!(forward.is_away() && !inbox.open(before) && forward.is_away(), "an earlier lead opens nothing");
        }
    }
}
