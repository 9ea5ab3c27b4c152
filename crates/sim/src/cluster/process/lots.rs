//! What a process has for transactions over groups: the server's sequencer and hub, and its ends of
//! the connections for lots.

use super::equalizing::EqualizingParty;
use super::hosted::HostedGroup;
use crate::cluster::wishes::{Wish, Wishes};
use crossbeam_channel::{Sender, unbounded};
use ferrite_base::{Epoch, GroupId, GroupMap, NodeId};
use ferrite_io::simulated::SimulatedClock;
use ferrite_member::lots::{
    AgentInboxes, Led, LotHub, LotTransport, SequencerNotice, SequencerThread, Sequencing, lot_time,
};
use ferrite_meta::{Phase, State};
use ferrite_partition::cancel::Cancellations;
use ferrite_partition::coordinator::Job;
use ferrite_partition::recovery::MemberStream;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The coordinators of the process, which are made later than the ways to them.
#[derive(Clone, Default)]
pub(super) struct Agents(Arc<OnceLock<BTreeMap<GroupId, Sender<Job>>>>);

impl Agents {
    pub(super) fn are(&self, coordinators: BTreeMap<GroupId, Sender<Job>>) {
        assert!(self.0.set(coordinators).is_ok(), "a process has its groups once");
    }

    fn all(&self) -> &BTreeMap<GroupId, Sender<Job>> {
        self.0.get().expect("nothing comes before the process has begun")
    }
}

impl AgentInboxes for Agents {
    fn send(&self, group: GroupId, job: Job) {
        // What is left of a process that has ended hears nothing.
        if let Some(coordinator) = self.all().get(&group) {
            let _ = coordinator.send(job);
        }
    }

    fn sequencer_lost(&self, epoch: Epoch) {
        for coordinator in self.all().values() {
            let _ = coordinator.send(Job::SequencerLost(epoch));
        }
    }
}

impl LotTransport for Wishes {
    fn send(&self, to: NodeId, message: Vec<u8>) {
        self.push(Wish::Lot(to, message));
    }

    /// Nothing is held back here.
    fn resume(&self, _: NodeId) {}
}

pub struct LotParty {
    pub hub: Arc<LotHub>,
    pub sequencer: Sender<SequencerNotice>,
    pub(super) equalizing: EqualizingParty,
    thread: SequencerThread,
}

impl LotParty {
    /// None: there is one group.
    pub(super) fn new(
        here: NodeId,
        map: &GroupMap,
        agents: &Agents,
        wishes: &Wishes,
        clock: &SimulatedClock,
        streams: &[MemberStream],
    ) -> Option<LotParty> {
        if map.is_single() {
            return None;
        }
        let (sequencer, inbox) = unbounded();
        let hub = LotHub::new(here, Box::new(wishes.clone()), Box::new(agents.clone()), sequencer.clone());
        let hub = Arc::new(hub);
        let sequencing = Sequencing::new(here, map.clone(), Arc::<Cancellations>::default());
        let clock = Arc::new(clock.clone());
        let time = lot_time(streams);
        let thread = SequencerThread::new(inbox, Arc::clone(&hub), sequencing, clock, time, Arc::default());
        Some(LotParty { hub, sequencer, equalizing: EqualizingParty::new(map), thread })
    }

    pub fn can_step(&self) -> bool {
        self.thread.can_step()
    }

    pub fn step(&mut self) {
        self.thread.step();
    }

    pub fn rests(&self) -> bool {
        self.thread.rests()
    }

    /// What the node leads, and who is to lead, as its status says in the server.
    pub(super) fn learn(&self, hosted: &BTreeMap<GroupId, HostedGroup>, known: &State) {
        let led = |(group, of): (&GroupId, &HostedGroup)| {
            Some(Led { group: *group, epoch: of.serves?, holds: of.held.holds.load(Ordering::Relaxed) })
        };
        let active = known.groups().iter().filter(|(_, group)| group.phase == Phase::Active);
        let chosen = active.map(|(id, group)| (*id, group.configuration.leader.node));
        self.hub.lead(hosted.iter().filter_map(led).collect(), chosen.collect());
    }
}
