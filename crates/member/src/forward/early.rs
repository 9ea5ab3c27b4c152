//! Messages of one group's calls that come before this node knows whether it leads the group, since
//! other nodes may have heard of it first, or while it hands over. Each node's messages wait
//! separately, in their order: one node that has heard more than this one does not hold up the
//! calls of others.
//!
//! Promises that they are bounded: no more of one node's messages wait than it may have under way.

use ferrite_base::limits::{FORWARD_EARLY_BYTES_MAX, FORWARD_WAIT};
use ferrite_base::{GroupId, Incarnation, NodeId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Calls of one group.
pub struct Message {
    pub group: GroupId,
    pub node: NodeId,
    pub incarnation: Incarnation,
    pub bytes: Vec<u8>,
}

/// Of one node; never empty.
#[derive(Default)]
struct Queue {
    messages: VecDeque<(Instant, Message)>,
    bytes: usize,
}

#[derive(Default)]
pub struct Early(BTreeMap<NodeId, Queue>);

impl Early {
    pub fn wait(&mut self, message: Message, now: Instant) {
        let queue = self.0.entry(message.node).or_default();
        queue.bytes += message.bytes.len();
        queue.messages.push_back((now, message));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next message of any node that has waited too long, or behind which too much waits.
    pub fn overdue(&mut self, now: Instant) -> Option<Message> {
        self.next_of(|queue, came, _| now.duration_since(came) >= FORWARD_WAIT || queue.bytes > FORWARD_EARLY_BYTES_MAX)
    }

    /// The next message of any node of which that is true.
    pub fn next_if(&mut self, may_be_read: impl Fn(&Message) -> bool) -> Option<Message> {
        self.next_of(|_, _, message| may_be_read(message))
    }

    fn next_of(&mut self, is_wanted: impl Fn(&Queue, Instant, &Message) -> bool) -> Option<Message> {
        let first =
            |queue: &Queue| queue.messages.front().is_some_and(|(came, message)| is_wanted(queue, *came, message));
        let node = self.0.iter().find(|(_, queue)| first(queue)).map(|(node, _)| *node)?;
        let queue = self.0.get_mut(&node).expect("found just now");
        let (_, message) = queue.messages.pop_front().expect("found just now");
        queue.bytes -= message.bytes.len();
        if queue.messages.is_empty() {
            self.0.remove(&node);
        }
        Some(message)
    }

    /// No client waits for the node's calls any more.
    pub fn lost(&mut self, node: NodeId) {
        self.0.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(node: u32, length: usize) -> Message {
        Message { group: GroupId(0), node: NodeId(node), incarnation: Incarnation(1), bytes: vec![0; length] }
    }

    fn length(message: Option<Message>) -> Option<usize> {
        message.map(|message| message.bytes.len())
    }

    #[test]
    fn messages_wait_in_their_order_for_a_while() {
        let (mut early, now) = (Early::default(), Instant::now());
        early.wait(message(1, 10), now);
        early.wait(message(2, 20), now);
        early.wait(message(1, 30), now + FORWARD_WAIT);
        assert!(early.overdue(now + FORWARD_WAIT / 2).is_none());
        assert_eq!(length(early.overdue(now + FORWARD_WAIT)), Some(10));
        early.lost(NodeId(2));
        assert!(early.overdue(now + FORWARD_WAIT).is_none());
        assert_eq!(length(early.next_if(|_| true)), Some(30));
        assert!(early.is_empty() && early.next_if(|_| true).is_none());
    }

    #[test]
    fn one_nodes_messages_hold_up_no_others() {
        let (mut early, now) = (Early::default(), Instant::now());
        early.wait(message(1, 10), now);
        early.wait(message(2, 20), now);
        early.wait(message(2, 30), now);
        let of_two = |message: &Message| message.node == NodeId(2);
        assert_eq!([length(early.next_if(of_two)), length(early.next_if(of_two))], [Some(20), Some(30)]);
        assert!(early.next_if(of_two).is_none() && !early.is_empty());
    }

    #[test]
    fn of_one_node_so_many_bytes_wait_and_no_more() {
        let (mut early, now) = (Early::default(), Instant::now());
        early.wait(message(1, FORWARD_EARLY_BYTES_MAX - 1), now);
        early.wait(message(1, 1), now);
        assert!(early.overdue(now).is_none(), "at the limit");
        early.wait(message(2, 1), now);
        assert!(early.overdue(now).is_none(), "another node's");
        early.wait(message(1, 1), now);
        assert_eq!(length(early.overdue(now)), Some(FORWARD_EARLY_BYTES_MAX - 1));
        assert!(early.overdue(now).is_none());
    }
}
