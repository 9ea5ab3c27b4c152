//! A leader and its other member, moved on turn by turn.

use super::node::{Bounds, Node, Out, Writer};
use ferrite_base::{Epoch, NodeId};
use ferrite_group::{EntryBuffer, Urgency, message};
use ferrite_io::simulated::SimulatedClock;
use ferrite_replica::group::{GroupConfiguration, Member, Timing};
use std::time::Duration;

/// A leader, node 1, and its other member.
pub struct Pair {
    pub nodes: [Node; 2],
    clock: SimulatedClock,
}

impl Pair {
    pub fn new(bounds: Bounds) -> Pair {
        let clock = SimulatedClock::default();
        let nodes = [1, 2].map(|id| Node::new(id, u64::from(id), &clock, Timing::DEFAULT, bounds));
        let members: Vec<Member> = nodes.iter().map(|node| node.member).collect();
        let configuration = GroupConfiguration::new(Epoch(1), members[0], members, Vec::new());
        nodes.iter().for_each(|node| node.replication().configured(configuration.clone()));
        Pair { nodes, clock }
    }

    /// Time passes, and both do what they have to; whether the leader hears the member. Bytes of
    /// the entries in each of its messages.
    pub fn turn(&mut self, hears: bool) -> Vec<usize> {
        self.clock.advance(Duration::from_millis(200));
        let mut sizes = Vec::new();
        for at in [0, 1] {
            self.nodes[at].replication().tick();
            let running = self.nodes[at].running.as_ref().expect("it runs");
            running.log.step();
            while let Some(out) = running.outs.pop() {
                let Out::Sent(_, lane, bytes) = out else { continue };
                let (_, envelope, entries) = message::decode(&bytes).expect("a message");
                sizes.extend((lane == Urgency::Entries).then_some(entries.len()));
                if at == 0 || hears {
                    self.nodes[1 - at].replication().handle_message(envelope, entries);
                }
            }
        }
        sizes
    }

    /// A leader that has such entries, and has not heard yet where the other stands, which lacks
    /// them.
    fn doubting(entries: &[usize]) -> Pair {
        let mut pair = Pair::new(Bounds::default());
        for _ in 0..10 {
            pair.turn(true);
        }
        pair.nodes[0].replication().disconnected(NodeId(2));
        entries.iter().for_each(|bytes| pair.appender()(*bytes));
        pair
    }

    /// Bytes of the messages in which entries with so many bytes leave.
    pub fn sizes_of_messages(entries: &[usize]) -> Vec<usize> {
        let mut pair = Pair::doubting(entries);
        (0..10).flat_map(|_| pair.turn(true)).collect()
    }

    /// How many messages with entries leave because of what the other says, before another tick.
    pub fn messages_for_an_answer(entries: &[usize]) -> usize {
        let mut pair = Pair::doubting(entries);
        assert!(pair.turn(true).is_empty(), "the other is asked");
        let outs = &pair.nodes[0].running.as_ref().expect("it runs").outs;
        let sent = std::iter::from_fn(|| outs.pop());
        sent.filter(|out| matches!(out, Out::Sent(_, Urgency::Entries, _))).count()
    }

    /// Appends an entry of that size at the leader; on any thread.
    pub fn appender(&self) -> impl Fn(usize) + Send + 'static {
        let (replication, outs) =
            (self.nodes[0].replication(), self.nodes[0].running.as_ref().expect("it runs").outs.clone());
        move |bytes| {
            let mut records = EntryBuffer::default();
            records.records().extend_from_slice(&vec![7; bytes]);
            replication.append(records, Writer { what: Ok(7), outs: outs.clone() });
        }
    }
}
