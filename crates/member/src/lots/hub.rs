//! The way of messages about lots: between the sequencer's thread, the agents of groups that are
//! here, and other nodes. Runs on the threads of those who call it, so nothing here waits.
//!
//! Invariants: what a receiver hears is in the order in which it was said, and the loss of a leader
//! or of the sequencer is heard before anything that comes from the next one. What was decided by
//! what one connection said is not sent on another. A message that cannot be sent breaks its
//! connection: both sides then know that it is lost. One lock is held from what is looked up to
//! what is sent, so that all of this is one order.

use crate::forward::Behind;
use crate::lots::call::GroupsCall;
use crate::lots::directory::{Leader, LeaderChange, LeaderDirectory};
use crate::lots::frame::{Led, LotFrame};
use crate::lots::sequencing::LotSend;
use crate::node_status::{Standing, StatusSnapshot};
use crossbeam_channel::Sender;
use ferrite_base::bytes::ReadFault;
use ferrite_base::limits::LOT_MESSAGE_BYTES_MAX;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_group::FIRST_GROUP;
use ferrite_multi::{ToAgent, ToSequencer};
use ferrite_partition::coordinator::Job;
use ferrite_partition::lots::LotLinks;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections for lots.
pub trait LotTransport: Send + Sync {
    /// Takes the message whole, or ends the connection.
    fn send(&self, to: NodeId, message: Vec<u8>);
    /// There is room again for what the node sends.
    fn resume(&self, from: NodeId);
}

/// The agents of groups that are here.
pub trait AgentInboxes: Send + Sync {
    /// Where the group is not here any more, the message is dropped.
    fn send(&self, group: GroupId, job: Job);
    /// To all of them: what the sequencer of that epoch said last does not come.
    fn sequencer_lost(&self, epoch: Epoch);
}

/// For the sequencer's thread.
pub enum SequencerNotice {
    Change(LeaderChange),
    /// From the agent of a group that leads in that epoch. `bytes`: of another node's message.
    FromAgent {
        group: GroupId,
        epoch: Epoch,
        message: ToSequencer,
        bytes: usize,
    },
    /// Calls of several groups.
    Call(Box<GroupsCall>),
    /// Done when the calls that came before are answered.
    Behind(Arc<Behind>),
    Stop,
}

struct HubState {
    directory: LeaderDirectory,
    /// By group, the node that is chosen to lead it, whether it does yet or not.
    chosen: BTreeMap<GroupId, NodeId>,
    /// Of other nodes' messages, bytes that the sequencer's thread has not read yet.
    unread_bytes: usize,
    /// From these nothing more is read until it has.
    full: BTreeSet<NodeId>,
}

pub struct LotHub {
    shared: Mutex<HubState>,
    transport: Box<dyn LotTransport>,
    agents: Box<dyn AgentInboxes>,
    sequencer: Sender<SequencerNotice>,
}

impl LotHub {
    pub fn new(
        here: NodeId,
        transport: Box<dyn LotTransport>,
        agents: Box<dyn AgentInboxes>,
        sequencer: Sender<SequencerNotice>,
    ) -> LotHub {
        let directory = LeaderDirectory::new(here);
        let shared = HubState { directory, chosen: BTreeMap::new(), unread_bytes: 0, full: BTreeSet::new() };
        LotHub { shared: Mutex::new(shared), transport, agents, sequencer }
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, notice: SequencerNotice) {
        // It has ended only when the server stops.
        let _ = self.sequencer.send(notice);
    }

    fn spread(&self, changes: Vec<LeaderChange>) {
        for change in changes {
            if let LeaderChange::Lost(FIRST_GROUP, leader) = change {
                self.agents.sequencer_lost(leader.epoch);
            }
            self.notify(SequencerNotice::Change(change));
        }
    }

    /// What this node leads, and which nodes are chosen to lead all groups, as its status says.
    pub fn learn(&self, seen: &StatusSnapshot) {
        let led = |(group, standing): (&GroupId, &Standing)| {
            Some(Led { group: *group, epoch: standing.serves?, holds: standing.holds })
        };
        let chosen = |group: &GroupId| Some((*group, seen.chosen_for(*group)?.node));
        let leads = seen.standings.iter().filter_map(led).collect();
        self.lead(leads, seen.state.groups().keys().filter_map(chosen).collect());
    }

    /// The same in its parts.
    pub fn lead(&self, leads: Vec<Led>, chosen: BTreeMap<GroupId, NodeId>) {
        let mut shared = self.lock();
        shared.chosen = chosen;
        if shared.directory.own() == leads {
            return;
        }
        let message = LotFrame::Leads(leads.clone()).encode();
        let here = shared.directory.here();
        // Others hear it before anything that follows from it.
        shared.directory.others().for_each(|node| self.transport.send(node, message.clone()));
        let changes = shared.directory.say(here, leads);
        self.spread(changes);
    }

    /// A node is connected.
    pub fn opened(&self, node: NodeId) {
        let mut shared = self.lock();
        let changes = shared.directory.opened(node);
        self.spread(changes);
        self.transport.send(node, LotFrame::Leads(shared.directory.own().to_vec()).encode());
    }

    /// What was sent to the node, or came from it, may be lost.
    pub fn lost(&self, node: NodeId) {
        let mut shared = self.lock();
        shared.full.remove(&node);
        let changes = shared.directory.closed(node);
        self.spread(changes);
    }

    /// A message of another node. False: nothing more is to be read from it until there is room.
    ///
    /// # Errors
    /// No node writes this.
    pub fn deliver(&self, node: NodeId, bytes: &[u8]) -> Result<bool, ReadFault> {
        let frame = LotFrame::decode(bytes)?;
        let mut shared = self.lock();
        match frame {
            LotFrame::Leads(leads) => {
                let changes = shared.directory.say(node, leads);
                self.spread(changes);
            }
            LotFrame::ToAgent { group, epoch, message } => {
                // One that was meant for an earlier leader is lost.
                if epoch.is_none_or(|epoch| shared.directory.is_led_here(group, epoch)) {
                    self.agents.send(group, Job::Lot(message));
                }
            }
            LotFrame::ToSequencer { group, epoch, message } => {
                let leader = shared.directory.leader(group);
                if leader.is_some_and(|leader| leader.node == node && leader.epoch == epoch) {
                    let bytes = bytes.len();
                    shared.unread_bytes += bytes;
                    self.notify(SequencerNotice::FromAgent { group, epoch, message, bytes });
                }
                if shared.unread_bytes > LOT_MESSAGE_BYTES_MAX {
                    shared.full.insert(node);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The sequencer's thread has read this many bytes of other nodes' messages.
    pub fn has_read(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut shared = self.lock();
        shared.unread_bytes -= bytes;
        if shared.unread_bytes <= LOT_MESSAGE_BYTES_MAX / 2 {
            std::mem::take(&mut shared.full).into_iter().for_each(|node| self.transport.resume(node));
        }
    }

    /// From the sequencer here. It is lost where this node, or the group, is led in another way by
    /// now: the sequencer is about to hear that.
    pub fn to_agent_of(&self, send: LotSend) {
        let LotSend { group, leader, order, message } = send;
        let shared = self.lock();
        if !shared.directory.is_led_here(FIRST_GROUP, order) || shared.directory.leader(group) != Some(leader) {
            return;
        }
        match leader.node == shared.directory.here() {
            true => self.agents.send(group, Job::Lot(message)),
            false => {
                let frame = LotFrame::ToAgent { group, epoch: Some(leader.epoch), message };
                self.transport.send(leader.node, frame.encode());
            }
        }
    }

    /// The ways of all leaders at this moment.
    pub fn leader(&self, group: GroupId) -> Option<Leader> {
        self.lock().directory.leader(group)
    }
}

impl LotLinks for LotHub {
    fn to_sequencer(&self, from: GroupId, epoch: Epoch, message: ToSequencer) {
        let shared = self.lock();
        if !shared.directory.is_led_here(from, epoch) {
            return;
        }
        match shared.directory.sequencer() {
            None => {}
            Some(leader) if leader.node == shared.directory.here() => {
                self.notify(SequencerNotice::FromAgent { group: from, epoch, message, bytes: 0 });
            }
            Some(leader) => {
                self.transport.send(leader.node, LotFrame::ToSequencer { group: from, epoch, message }.encode());
            }
        }
    }

    /// An agent asks again where no answer comes.
    fn to_agent(&self, _: GroupId, to: GroupId, message: ToAgent) {
        let shared = self.lock();
        match shared.chosen.get(&to) {
            Some(node) if *node == shared.directory.here() => self.agents.send(to, Job::Lot(message)),
            Some(node) if shared.directory.is_open(*node) => {
                self.transport.send(*node, LotFrame::ToAgent { group: to, epoch: None, message }.encode());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Receiver, unbounded};
    use ferrite_multi::LotId;
    use std::sync::Arc;

    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);

    impl Log {
        fn note(&self, text: String) {
            self.0.lock().unwrap().push(text);
        }

        fn noted(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    struct Outside(Arc<Log>);

    impl LotTransport for Outside {
        fn send(&self, to: NodeId, message: Vec<u8>) {
            let what = match LotFrame::decode(&message).expect("it was written here") {
                LotFrame::Leads(leads) => {
                    format!("leads {:?}", leads.iter().map(|led| led.group.0).collect::<Vec<_>>())
                }
                LotFrame::ToAgent { group, epoch, .. } => format!("to agent {group} {epoch:?}"),
                LotFrame::ToSequencer { group, epoch, .. } => format!("to sequencer of {group} {}", epoch.0),
            };
            self.0.note(format!("node {to}: {what}"));
        }

        fn resume(&self, from: NodeId) {
            self.0.note(format!("resume {from}"));
        }
    }

    impl AgentInboxes for Outside {
        fn send(&self, group: GroupId, _: Job) {
            self.0.note(format!("agent {group}"));
        }

        fn sequencer_lost(&self, epoch: Epoch) {
            self.0.note(format!("sequencer {} lost", epoch.0));
        }
    }

    struct World {
        hub: LotHub,
        log: Arc<Log>,
        notices: Receiver<SequencerNotice>,
    }

    /// Of node 1.
    fn world() -> World {
        let log = Arc::<Log>::default();
        let (sequencer, notices) = unbounded();
        let outside = || Outside(Arc::clone(&log));
        let hub = LotHub::new(NodeId(1), Box::new(outside()), Box::new(outside()), sequencer);
        World { hub, log, notices }
    }

    fn led(group: u32, epoch: u64) -> Led {
        Led { group: GroupId(group), epoch: Epoch(epoch), holds: false }
    }

    fn says(hub: &LotHub, node: u32, leads: Vec<Led>) {
        hub.deliver(NodeId(node), &LotFrame::Leads(leads).encode()).expect("it is a message");
    }

    const LOT: LotId = LotId { epoch: Epoch(5), number: 1 };

    #[test]
    fn a_new_connection_begins_with_what_the_node_leads_and_changes_are_said_first() {
        let World { hub, log, .. } = world();
        hub.lead(vec![led(0, 5)], BTreeMap::new());
        hub.opened(NodeId(2));
        hub.lead(vec![led(0, 5)], BTreeMap::new());
        assert_eq!(log.noted(), ["node 2: leads [0]"], "nothing is news in the second one");
        hub.lead(Vec::new(), BTreeMap::new());
        assert_eq!(log.noted(), ["node 2: leads []", "sequencer 5 lost"]);
    }

    /// A node that starts has connections of before it took part: they are broken, and opened anew.
    #[test]
    fn what_comes_on_a_connection_that_was_not_heard_of_is_not_believed() {
        let World { hub, log, notices } = world();
        hub.lead(vec![led(0, 5)], BTreeMap::new());
        notices.try_iter().for_each(drop);
        says(&hub, 2, vec![led(1, 7)]);
        hub.deliver(
            NodeId(2),
            &LotFrame::ToSequencer {
                group: GroupId(1),
                epoch: Epoch(7),
                message: ToSequencer::Vote { lot: LOT, yes: true },
            }
            .encode(),
        )
        .expect("it is a message");
        assert_eq!((notices.try_iter().count(), hub.leader(GroupId(1))), (0, None));
        hub.lost(NodeId(2));
        hub.opened(NodeId(2));
        assert_eq!(log.noted(), ["node 2: leads [0]"], "the new one begins as any does");
        says(&hub, 2, vec![led(1, 7)]);
        assert!(notices.try_iter().any(|notice| matches!(notice, SequencerNotice::Change(LeaderChange::Led(..)))));
    }

    #[test]
    fn agents_hear_that_the_sequencer_is_lost_before_they_hear_the_next() {
        let World { hub, log, .. } = world();
        hub.lead(vec![led(1, 7)], BTreeMap::new());
        hub.opened(NodeId(2));
        says(&hub, 2, vec![led(0, 5)]);
        log.noted();
        let vote = || ToSequencer::Vote { lot: LOT, yes: true };
        hub.to_sequencer(GroupId(1), Epoch(7), vote());
        hub.to_sequencer(GroupId(1), Epoch(6), vote());
        assert_eq!(log.noted(), ["node 2: to sequencer of 1 7"], "an earlier leader's is not sent");
        hub.opened(NodeId(2));
        hub.to_sequencer(GroupId(1), Epoch(7), vote());
        assert_eq!(log.noted(), ["sequencer 5 lost", "node 2: leads [1]"], "the node has said nothing yet");
        let begin =
            LotFrame::ToAgent { group: GroupId(1), epoch: Some(Epoch(7)), message: ToAgent::Release { lot: LOT } };
        hub.deliver(NodeId(2), &begin.encode()).expect("it is a message");
        let late =
            LotFrame::ToAgent { group: GroupId(1), epoch: Some(Epoch(6)), message: ToAgent::Release { lot: LOT } };
        hub.deliver(NodeId(2), &late.encode()).expect("it is a message");
        assert_eq!(log.noted(), ["agent 1"]);
    }

    #[test]
    fn what_the_sequencer_says_goes_only_the_way_that_it_knew() {
        let World { hub, log, notices } = world();
        hub.lead(vec![led(0, 5), led(2, 6)], BTreeMap::new());
        hub.opened(NodeId(2));
        says(&hub, 2, vec![led(1, 7)]);
        let leader = hub.leader(GroupId(1)).expect("it has said so");
        let own = hub.leader(GroupId(2)).expect("it is here");
        log.noted();
        let send = |group, leader, order| LotSend {
            group: GroupId(group),
            leader,
            order: Epoch(order),
            message: ToAgent::Release { lot: LOT },
        };
        hub.to_agent_of(send(1, leader, 5));
        hub.to_agent_of(send(2, own, 5));
        hub.to_agent_of(send(1, leader, 4));
        assert_eq!(log.noted(), [&format!("node 2: to agent 1 {:?}", Some(Epoch(7))), "agent 2"]);
        // Another connection, on which the same node says the same.
        hub.opened(NodeId(2));
        says(&hub, 2, vec![led(1, 7)]);
        log.noted();
        hub.to_agent_of(send(1, leader, 5));
        assert!(log.noted().is_empty(), "it was decided before that");
        let is_lost = |notice: SequencerNotice| matches!(notice, SequencerNotice::Change(LeaderChange::Lost(GroupId(1), lost)) if lost == leader);
        assert!(notices.try_iter().any(is_lost));
    }

    #[test]
    fn only_the_leader_of_a_group_speaks_for_it() {
        let World { hub, notices, .. } = world();
        hub.opened(NodeId(2));
        hub.opened(NodeId(3));
        says(&hub, 2, vec![led(1, 7)]);
        notices.try_iter().for_each(drop);
        let vote = |epoch| {
            let message = ToSequencer::Vote { lot: LOT, yes: true };
            LotFrame::ToSequencer { group: GroupId(1), epoch: Epoch(epoch), message }.encode()
        };
        hub.deliver(NodeId(3), &vote(7)).expect("it is a message");
        hub.deliver(NodeId(2), &vote(6)).expect("it is a message");
        assert_eq!(notices.try_iter().count(), 0);
        hub.deliver(NodeId(2), &vote(7)).expect("it is a message");
        assert_eq!(notices.try_iter().count(), 1);
        assert!(hub.deliver(NodeId(2), &[77]).is_err());
    }

    #[test]
    fn so_many_bytes_wait_for_the_sequencer_and_then_nothing_is_read_until_half_is() {
        let World { hub, log, notices } = world();
        hub.opened(NodeId(2));
        says(&hub, 2, vec![led(1, 7)]);
        log.noted();
        let message = ToSequencer::Done { lot: LOT, ok: true, result: vec![0; LOT_MESSAGE_BYTES_MAX / 4] };
        let message = LotFrame::ToSequencer { group: GroupId(1), epoch: Epoch(7), message }.encode();
        let room: Vec<bool> = (0..4).map(|_| hub.deliver(NodeId(2), &message).expect("it is a message")).collect();
        assert_eq!(room, [true, true, true, false]);
        let mut resumed = Vec::new();
        for notice in notices.try_iter() {
            let SequencerNotice::FromAgent { bytes, .. } = notice else { continue };
            hub.has_read(bytes);
            resumed.push(log.noted() == ["resume 2"]);
        }
        assert_eq!(resumed, [false, false, true, false]);
    }

    #[test]
    fn agents_ask_each_other_where_a_group_is_to_be_led() {
        let World { hub, log, .. } = world();
        let chosen = [(0, 1), (1, 2), (2, 3)].map(|(group, node)| (GroupId(group), NodeId(node)));
        hub.lead(Vec::new(), chosen.into());
        hub.opened(NodeId(2));
        log.noted();
        for group in 0..4 {
            let message = ToAgent::Resolve { lot: LOT, asks: Some(GroupId(9)) };
            hub.to_agent(GroupId(9), GroupId(group), message);
        }
        assert_eq!(log.noted(), ["agent 0", "node 2: to agent 1 None"], "node 3 is not connected");
    }
}
