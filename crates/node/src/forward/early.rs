//! Messages of calls that come before this node knows whether it leads, since other nodes may have
//! heard of it first, or while it hands over. They count as unread in the inbox, which bounds them.

use ferrite_base::limits::FORWARD_WAIT;
use ferrite_base::{Incarnation, NodeId};
use std::collections::VecDeque;
use std::time::Instant;

pub struct Message {
    pub node: NodeId,
    pub incarnation: Incarnation,
    pub bytes: Vec<u8>,
}

#[derive(Default)]
pub struct Early(VecDeque<(Instant, Message)>);

impl Early {
    pub fn wait(&mut self, message: Message, now: Instant) {
        self.0.push_back((now, message));
    }

    /// The next that has waited too long.
    pub fn overdue(&mut self, now: Instant) -> Option<Message> {
        let (came, _) = self.0.front()?;
        if now.duration_since(*came) >= FORWARD_WAIT { self.next() } else { None }
    }

    pub fn first(&self) -> Option<&Message> {
        self.0.front().map(|(_, message)| message)
    }

    pub fn next(&mut self) -> Option<Message> {
        self.0.pop_front().map(|(_, message)| message)
    }

    /// Nobody waits for the node's calls any more; bytes of these.
    pub fn lost(&mut self, node: NodeId) -> usize {
        let bytes = |messages: &VecDeque<(Instant, Message)>| -> usize {
            messages.iter().map(|(_, message)| message.bytes.len()).sum()
        };
        let before = bytes(&self.0);
        self.0.retain(|(_, message)| message.node != node);
        before - bytes(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_in_their_order_for_a_while() {
        let (mut early, now) = (Early::default(), Instant::now());
        let message =
            |node, length| Message { node: NodeId(node), incarnation: Incarnation(1), bytes: vec![0; length] };
        early.wait(message(1, 10), now);
        early.wait(message(2, 20), now);
        early.wait(message(1, 30), now + FORWARD_WAIT);
        assert!(early.overdue(now + FORWARD_WAIT / 2).is_none());
        assert_eq!(early.overdue(now + FORWARD_WAIT).map(|message| message.bytes.len()), Some(10));
        assert_eq!((early.lost(NodeId(2)), early.lost(NodeId(2))), (20, 0));
        assert!(early.overdue(now + FORWARD_WAIT).is_none());
        assert_eq!(early.next().map(|message| message.bytes.len()), Some(30));
        assert!(early.next().is_none());
    }
}
