//! How a node that is deposed makes its leaders copies again (docs/replication.md, section 5).

use crate::compiled::Compiled;
use crate::event::{CommittedState, Job};
use crate::lots::LotLedger;
use crate::schema::SchemaHistory;
use crossbeam_channel::{Receiver, Sender, unbounded};
use ferrite_base::{PartitionId, Sequence};
use std::sync::Arc;

/// A leader on its way back to a copy: the coordinator and its partitions stop, report an unknown
/// outcome for all answers that they hold, and take back what is not committed.
pub struct SteppingBack {
    partitions: usize,
    from_partitions: Receiver<(PartitionId, Sequence)>,
    from_coordinator: Receiver<CommittedState>,
    sequences: Vec<(PartitionId, Sequence)>,
}

/// What they have come to: an applier begins there, at the place that the group has given as the
/// committed one.
pub struct SteppedBack {
    /// By partition.
    pub sequences: Vec<Sequence>,
    pub compiled: Arc<Compiled>,
    pub history: SchemaHistory,
    pub lots: LotLedger,
}

impl SteppingBack {
    /// To be called when the group has reported that this node was deposed, which is after all its
    /// reports of what is committed; once for each [`Promoted::lead`]. `partitions`: how many.
    pub fn begin(jobs: &Sender<Job>, partitions: usize) -> SteppingBack {
        let (to, from_coordinator) = unbounded();
        let (tell, from_partitions) = unbounded();
        // The partitions hear of it from the coordinator, when it lends no store any more.
        let job = Job::Follow { to, partitions: tell };
        jobs.send(job).unwrap_or_else(|_| panic!("the coordinator outlives its role"));
        SteppingBack { partitions, from_partitions, from_coordinator, sequences: Vec::new() }
    }

    /// None: some of them are still on their way.
    pub fn try_end(&mut self) -> Option<SteppedBack> {
        self.sequences.extend(self.from_partitions.try_iter());
        if self.sequences.len() < self.partitions {
            return None;
        }
        // Sent before the partitions heard of it.
        let CommittedState { compiled, history, lots } = self.from_coordinator.try_recv().ok()?;
        self.sequences.sort_unstable();
        let sequences = self.sequences.drain(..).map(|(_, sequence)| sequence).collect();
        Some(SteppedBack { sequences, compiled, history, lots })
    }
}
