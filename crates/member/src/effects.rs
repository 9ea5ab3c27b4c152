//! What surrounds the node's steps on a server: its disk, its threads, its terminal.

use crate::clients::Clients;
use crate::copy_side::CopySide;
use crate::directory::Unsynced;
use crate::drain::Drain;
use crate::hand_overs::HandOvers;
use crate::node_status::NodeStatus;
use crate::peer_dispatcher::{DataInboxes, MetadataNotice, SupplierNotice, TransferNotice};
use crate::snapshot_request::{SnapshotRequest, SnapshotRequests};
use crossbeam_channel::Sender;
use ferrite_base::{Epoch, GroupId, NodeId, memory};
use ferrite_cluster::{NodeEffects, NotHandedOver};
use ferrite_group::{CannotHandOver, FromLog, Identity, IdentityError, IdentityFile};
use ferrite_io::Disk;
use ferrite_io::threads::spawn;
use ferrite_meta::Ask;
use ferrite_notice::Notice;
use ferrite_partition::applier::{Applier, Intake};
use ferrite_partition::cancel::Cancellations;
use ferrite_partition::contents::ContentCut;
use ferrite_partition::{Compiled, Delivery};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The appliers that run, or have run.
#[derive(Default)]
pub struct Appliers {
    begun: Mutex<BTreeMap<GroupId, u64>>,
    threads: Mutex<Vec<(Intake, JoinHandle<()>)>>,
}

impl Appliers {
    fn run(&self, group: GroupId, applier: Applier) {
        let mut threads = self.threads.lock().expect("no panic with the threads");
        threads.retain(|(_, thread)| !thread.is_finished());
        *self.begun.lock().expect("no panic with the numbers").entry(group).or_default() += 1;
        let intake = applier.intake().clone();
        let thread = spawn("applier", move || applier.run()).expect("a copy needs a thread to be applied by");
        threads.push((intake, thread));
    }

    /// How many of the group have begun.
    pub fn count(&self, group: GroupId) -> u64 {
        self.begun.lock().expect("no panic with the numbers").get(&group).copied().unwrap_or(0)
    }

    /// Ends them.
    pub fn end(&self) {
        for (intake, thread) in self.threads.lock().expect("no panic with the threads").drain(..) {
            intake.send(Delivery::Stop);
            thread.join().expect("a thread that panics ends the process");
        }
    }
}

/// Asks the owner of this process to end it.
pub type StopProcess = Arc<dyn Fn() + Send + Sync>;

pub struct ServerEffects {
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub identity: IdentityFile,
    pub metadata: Sender<MetadataNotice>,
    /// None: a witness.
    pub data: Option<DataEffects>,
    pub node_status: Arc<NodeStatus>,
    pub unsynced: Arc<Unsynced>,
    pub hand_overs: Arc<HandOvers>,
    pub stop: StopProcess,
}

/// The effects of a node that keeps data.
pub struct DataEffects {
    pub inboxes: DataInboxes,
    pub clients: Arc<dyn Clients>,
    pub appliers: Arc<Appliers>,
    /// Of each group that the node hosts.
    pub copies: BTreeMap<GroupId, Arc<CopySide>>,
    pub snapshots: SnapshotRequests,
    /// Bytes a second at which another node is sent everything.
    pub transfer_rate: u64,
    pub drain: Box<dyn Drain>,
    /// Stops what is being executed.
    pub cancellations: Arc<Cancellations>,
}

impl DataEffects {
    fn copy(&self, group: GroupId) -> &CopySide {
        self.copies.get(&group).expect("a group that is kept may have a copy")
    }
}

impl ServerEffects {
    fn data(&self) -> &DataEffects {
        self.data.as_ref().expect("only a node with data has groups")
    }
}

impl NodeEffects for ServerEffects {
    fn keep(&mut self, identity: &Identity) -> Result<(), IdentityError> {
        self.identity.write(identity, &*self.disk, &self.dir)
    }

    fn ask(&mut self, ask: Ask) {
        let _ = self.metadata.send(MetadataNotice::Ask(ask));
    }

    fn run(&mut self, group: GroupId, applier: Applier) {
        self.data().cancellations.depose(group, false);
        self.data().copy(group).begun(applier.intake());
        self.data().appliers.run(group, applier);
    }

    fn publisher(&mut self, group: GroupId) -> Box<dyn Fn(Arc<Compiled>) + Send> {
        let clients = Arc::clone(&self.data().clients);
        Box::new(move |compiled| clients.publish(group, compiled))
    }

    fn hasher(&mut self, group: GroupId) -> Box<dyn Fn(ContentCut) + Send> {
        let snapshots = Arc::clone(&self.data().snapshots);
        Box::new(move |cut| snapshots(group, SnapshotRequest::Hash(Box::new(cut))))
    }

    fn send_from_log(&mut self, group: GroupId, wanted: FromLog) {
        let _ = self.data().inboxes.supplier.send(SupplierNotice::Wanted(group, wanted));
    }

    fn needs_snapshot(&mut self, group: GroupId, node: NodeId) {
        self.data().inboxes.transfers.send(group, TransferNotice::Wanted(node));
    }

    fn needs_no_snapshot(&mut self, group: GroupId, node: NodeId) {
        self.data().inboxes.transfers.send(group, TransferNotice::Unwanted(node));
    }

    fn transfer_nanos(&self, _: GroupId) -> u64 {
        // The groups are thought to be of one size.
        let bytes = memory::bytes_used() as u128 / self.data().copies.len().max(1) as u128;
        let nanos = bytes * 1_000_000_000 / u128::from(self.data().transfer_rate.max(1));
        nanos.try_into().unwrap_or(u64::MAX)
    }

    fn serves(&mut self, group: GroupId, epoch: Option<Epoch>) {
        match epoch {
            Some(epoch) => ferrite_io::notify(Notice::Leads { group, epoch }),
            None => {
                ferrite_io::notify(Notice::LeadEnded { group });
                // Partitions step back after what they execute.
                self.data().cancellations.depose(group, true);
                self.data().inboxes.transfers.send(group, TransferNotice::Deposed);
            }
        }
        self.data().clients.leads(group, epoch.is_some());
        self.node_status.change(|seen| seen.standing_mut(group).serves = epoch);
    }

    fn paused(&mut self, paused: bool) {
        ferrite_io::notify(if paused { Notice::Paused } else { Notice::Resumed });
        self.node_status.change(|seen| seen.paused = paused);
    }

    fn unequal(&mut self, group: GroupId, unequal: bool) {
        if let Some(data) = &self.data {
            data.cancellations.unequal(group, unequal);
        }
    }

    fn gave_up(&mut self, group: GroupId, epoch: Epoch) {
        self.node_status.change(|seen| {
            seen.given_up.insert(group, epoch);
        });
    }

    fn hold(&mut self, group: GroupId, holds: bool) {
        self.node_status.change(|seen| seen.standing_mut(group).holds = holds);
        if holds {
            self.data.as_mut().expect("only a node with data has groups").drain.begin(group);
        }
    }

    fn is_drained(&mut self, group: GroupId) -> bool {
        let but_for = self.hand_overs.calls();
        self.data.as_mut().expect("only a node with data has groups").drain.is_done(group, but_for)
    }

    fn handed_over(&mut self, group: GroupId, outcome: Result<NodeId, NotHandedOver>) {
        match &outcome {
            Ok(node) => ferrite_io::notify(Notice::HandedOver { group, node: *node }),
            // A node that is alone ends as a single server does.
            Err(NotHandedOver::Cannot(CannotHandOver::Alone)) => {}
            Err(reason) => ferrite_io::notify(Notice::NotHandedOver { group, reason: reason.to_string() }),
        }
        self.hand_overs.over(group, outcome);
    }

    fn make_anew(&mut self, group: GroupId, reason: &str, alone: Option<GroupId>) {
        if let Some(alone) = alone {
            if alone != group {
                return self.end(&format!(
                    "the copy of group {group} cannot be used ({reason}), and no other node has everything of group {alone}, which \
                     is in the same directory, so all is left as it is. Start the node again: it reads what it has from its \
                     disk. If that fails, wait until another node has a copy of group {alone}"
                ));
            }
            return self.end(&format!(
                "the copy of group {group} cannot be used ({reason}), and no other node has everything, so it is left as it is. \
                 Start the node again: it reads what it has from its disk. If that fails, restore a backup"
            ));
        }
        // The next start begins with nothing, and no node relies on what it said it had.
        match self.unsynced.throw_away() {
            Ok(()) => {
                self.node_status.change(|seen| seen.begins_anew = true);
                self.end(&format!(
                    "the copy of group {group} is unusable: {reason}. The next start puts it aside and gets everything from the \
                     leader"
                ));
            }
            Err(error) => self.end(&format!(
                "the copy of group {group} cannot be used ({reason}) and could not be given up: {error}"
            )),
        }
    }

    fn end(&mut self, reason: &str) {
        let mut is_news = false;
        self.node_status.change(|seen| {
            seen.standings.values_mut().for_each(|standing| standing.serves = None);
            is_news = seen.ended.is_none();
            seen.ended.get_or_insert_with(|| reason.to_owned());
        });
        // A second request has nothing left to wait for.
        if is_news {
            ferrite_io::notify(Notice::NodeEnds { reason: reason.to_owned() });
            (self.stop)();
        }
    }

    fn notice(&mut self, notice: Notice) {
        ferrite_io::notify(notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use ferrite_cluster::kept_here_alone;

    #[test]
    fn a_directory_is_put_aside_only_where_others_have_all_groups_that_are_in_it() {
        let groups: &[&[u32]] = &[&[1, 2], &[2], &[1], &[3, 2]];
        let state = testing::of_groups((1..=3).map(testing::node).collect(), groups, &[1, 2, 3]);
        let begun = |_, _| false;
        let alone = |here, broken| kept_here_alone(&state, NodeId(here), GroupId(broken), begun).map(|group| group.0);
        assert_eq!(alone(2, 0), Some(1), "its only member is here");
        assert_eq!(alone(1, 0), Some(2));
        assert_eq!(alone(1, 2), Some(2));
        assert_eq!(alone(3, 3), None);
        assert_eq!(alone(3, 9), Some(9), "nothing is known of it");
    }
}
