//! A node: its hub, its sequencer, and the agents of groups that it leads, or thinks so.

use super::super::super::hub::{AgentInboxes, LotHub, LotTransport, SequencerNotice};
use super::leading::Leading;
use super::*;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_partition::coordinator::Job;
use ferrite_partition::lots::LotLinks;

/// Messages in their order.
type Wire = VecDeque<Vec<u8>>;

/// What is under way on each open connection, by its direction.
#[derive(Default)]
pub struct Wires(Mutex<BTreeMap<(u32, u32), Wire>>);

impl Wires {
    pub fn open(&self, one: u32, other: u32) {
        let mut wires = self.0.lock().unwrap();
        wires.extend([((one, other), Wire::new()), ((other, one), Wire::new())]);
    }

    /// Whether it was open.
    pub fn close(&self, one: u32, other: u32) -> bool {
        let mut wires = self.0.lock().unwrap();
        wires.remove(&(one, other));
        wires.remove(&(other, one)).is_some()
    }

    pub fn is_open(&self, one: u32, other: u32) -> bool {
        self.0.lock().unwrap().contains_key(&(one, other))
    }

    pub fn next(&self, from: u32, to: u32) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get_mut(&(from, to))?.pop_front()
    }
}

struct End {
    node: u32,
    wires: Arc<Wires>,
}

impl LotTransport for End {
    fn send(&self, to: NodeId, message: Vec<u8>) {
        if let Some(wire) = self.wires.0.lock().unwrap().get_mut(&(self.node, to.0)) {
            wire.push_back(message);
        }
    }

    fn resume(&self, _: NodeId) {}
}

pub enum ForAgents {
    Message(GroupId, ToAgent),
    SequencerLost(Epoch),
}

struct Inbox(Sender<ForAgents>);

impl AgentInboxes for Inbox {
    fn send(&self, group: GroupId, job: Job) {
        let Job::Lot(message) = job else { panic!("hubs bring messages about lots") };
        self.0.send(ForAgents::Message(group, message)).unwrap();
    }

    fn sequencer_lost(&self, epoch: Epoch) {
        self.0.send(ForAgents::SequencerLost(epoch)).unwrap();
    }
}

pub struct Node {
    pub hub: Arc<LotHub>,
    pub sequencing: Sequencing,
    pub leading: BTreeMap<u32, Leading>,
    notices: Receiver<SequencerNotice>,
    agents: Receiver<ForAgents>,
}

impl Node {
    pub fn new(node: u32, wires: &Arc<Wires>) -> Node {
        let (sequencer, notices) = unbounded();
        let (to_agents, agents) = unbounded();
        let end = Box::new(End { node, wires: Arc::clone(wires) });
        let hub = Arc::new(LotHub::new(NodeId(node), end, Box::new(Inbox(to_agents)), sequencer));
        let map = GroupMap::new((0..GROUPS).map(GroupId).collect()).expect("a map");
        let sequencing = Sequencing::new(NodeId(node), map, Arc::default());
        Node { hub, sequencing, leading: BTreeMap::new(), notices, agents }
    }

    /// Each of its threads does something, or nothing.
    pub fn step(&mut self, now: Moment, numbers: &mut Numbers) {
        while numbers.percent(80) {
            let Ok(notice) = self.notices.try_recv() else { break };
            match notice {
                SequencerNotice::Change(change) => self.sequencing.change(change, now),
                SequencerNotice::FromAgent { group, epoch, message, bytes } => {
                    self.hub.has_read(bytes);
                    self.sequencing.receive(group, epoch, message);
                }
                SequencerNotice::Call(_) | SequencerNotice::Behind(_) | SequencerNotice::Stop => {
                    unreachable!("calls are given directly")
                }
            }
        }
        if numbers.percent(10) {
            self.sequencing.tick(now);
        }
        if numbers.percent(80) {
            self.sequencing.advance(now);
            self.sequencing.sends().into_iter().for_each(|send| self.hub.to_agent_of(send));
        }
        while numbers.percent(80) {
            let Ok(job) = self.agents.try_recv() else { break };
            match job {
                ForAgents::Message(group, message) => {
                    if let Some(leading) = self.leading.get_mut(&group.0) {
                        leading.agent.receive(message, now.nanos);
                    }
                }
                ForAgents::SequencerLost(epoch) => {
                    self.leading.values_mut().for_each(|leading| leading.agent.sequencer_lost(epoch, now.nanos));
                }
            }
        }
        for (group, leading) in &mut self.leading {
            let group = GroupId(*group);
            leading.agent.tick(now.nanos);
            let said = leading.carry_out(now);
            let epoch = leading.epoch;
            said.to_sequencer.into_iter().for_each(|message| self.hub.to_sequencer(group, epoch, message));
            said.to_agents.into_iter().for_each(|(to, message)| self.hub.to_agent(group, to, message));
        }
    }
}
