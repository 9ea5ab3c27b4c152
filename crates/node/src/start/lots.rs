//! The threads and connections of transactions over groups, where a cluster has several.

use crate::routes::Routes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{Epoch, GroupId};
use ferrite_io::Clock;
use ferrite_io::threads::{ThreadError, Threads};
use ferrite_member::Member;
use ferrite_member::lots::{AgentInboxes, LotHub, SequencerNotice, SequencerThread, Sequencing, lot_time};
use ferrite_partition::cancel::Cancellations;
use ferrite_partition::coordinator::Job;
use ferrite_system::lots::LotFigures;
use std::sync::Arc;

/// The ways between the sequencer's thread, agents and other nodes.
#[derive(Clone)]
pub(super) struct LotWays {
    pub(super) hub: Arc<LotHub>,
    pub(super) sequencer: Sender<SequencerNotice>,
}

struct Agents(Arc<Routes>);

impl AgentInboxes for Agents {
    fn send(&self, group: GroupId, job: Job) {
        if let Some(ways) = self.0.table().ways_of(group) {
            // It has ended only when the server stops.
            let _ = ways.coordinator.send(job);
        }
    }

    fn sequencer_lost(&self, epoch: Epoch) {
        let table = self.0.table();
        for ways in table.hosted_groups().filter_map(|group| table.ways_of(group)) {
            let _ = ways.coordinator.send(Job::SequencerLost(epoch));
        }
    }
}

/// None: there is one group, and no such transactions.
pub(super) fn connect_lots(
    member: Option<&Member>,
    routes: &Arc<Routes>,
) -> Option<(LotWays, Receiver<SequencerNotice>)> {
    let joined = &member?.joined;
    if joined.state.groups().len() < 2 {
        return None;
    }
    let (sequencer, inbox) = unbounded();
    let transport = Box::new(joined.links.clone());
    let agents = Box::new(Agents(Arc::clone(routes)));
    let hub = Arc::new(LotHub::new(joined.node, transport, agents, sequencer.clone()));
    Some((LotWays { hub, sequencer }, inbox))
}

/// Begins the sequencer's thread. It orders nothing until this node leads the first group.
pub(super) fn start_sequencer(
    threads: &mut Threads,
    member: &Member,
    (ways, inbox): (LotWays, Receiver<SequencerNotice>),
    cancellations: &Arc<Cancellations>,
    figures: &Arc<LotFigures>,
    clock: &Arc<dyn Clock>,
) -> Result<(), ThreadError> {
    let LotWays { hub, sequencer } = ways;
    let map = member.joined.state.group_map();
    let sequencing = Sequencing::new(member.joined.node, map, Arc::clone(cancellations));
    let time = lot_time(&member.streams);
    let thread =
        SequencerThread::new(inbox, Arc::clone(&hub), sequencing, Arc::clone(clock), time, Arc::clone(figures));
    threads.ended_by(move || drop(sequencer.send(SequencerNotice::Stop)));
    threads.spawn("sequencer", move || thread.run())
}
