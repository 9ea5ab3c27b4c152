//! What stands around the node of a process: what it wants done becomes wishes, files, and flags
//! that others read.

use crate::clients::Doors;
use crate::cluster::copying::{Copying, Wanted};
use crate::cluster::invariants::promises;
use crate::cluster::ledger::Ledger;
use crate::cluster::metadata::{Asks, Seat};
use crate::cluster::wishes::{Wish, Wishes};
use crate::node::DIRECTORY;
use crossbeam_channel::Sender;
use ferrite_base::{Epoch, GroupId, NodeId};
use ferrite_cluster::{NodeEffects, NotHandedOver};
use ferrite_group::{FromLog, Identity, IdentityError, IdentityFile};
use ferrite_io::simulated::SimulatedDisk;
use ferrite_meta::Ask;
use ferrite_node::Mode;
use ferrite_notice::Notice;
use ferrite_partition::Compiled;
use ferrite_partition::applier::Applier;
use ferrite_partition::cancel::Cancellations;
use ferrite_partition::contents::ContentCut;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How long it takes to send everything to a node that has nothing, as a leader is told.
const TRANSFER_NANOS: u64 = 300_000_000;

/// What stands around the node.
pub(super) struct Outside {
    disk: SimulatedDisk,
    file: IdentityFile,
    wishes: Wishes,
    asks: Asks,
    groups: BTreeMap<GroupId, OfGroup>,
    mode: Arc<Mode>,
    ledger: Ledger,
}

/// What stands around one of its groups.
pub(super) struct OfGroup {
    wanted: Wanted,
    cuts: Sender<ContentCut>,
    current: Arc<Mutex<Arc<Compiled>>>,
    held: Arc<Held>,
    cancellations: Arc<Cancellations>,
}

impl OfGroup {
    pub(super) fn new(
        copying: &Copying,
        doors: &Doors,
        held: &Arc<Held>,
        cancellations: &Arc<Cancellations>,
    ) -> OfGroup {
        let cancellations = Arc::clone(cancellations);
        OfGroup {
            cancellations,
            wanted: copying.wanted.clone(),
            cuts: copying.hasher(),
            current: Arc::clone(&doors.compiled),
            held: Arc::clone(held),
        }
    }
}

/// Calls while a leader hands over.
#[derive(Default)]
pub struct Held {
    /// Those that come wait.
    pub holds: AtomicBool,
    /// Those that were taken and have no answer.
    pub waiting: AtomicUsize,
}

impl Outside {
    pub(super) fn new(
        disk: &SimulatedDisk,
        wishes: &Wishes,
        seat: &Seat,
        groups: BTreeMap<GroupId, OfGroup>,
        mode: &Arc<Mode>,
        ledger: &Ledger,
    ) -> Outside {
        Outside {
            disk: disk.clone(),
            file: IdentityFile::default(),
            wishes: wishes.clone(),
            asks: seat.asks().clone(),
            groups,
            mode: Arc::clone(mode),
            ledger: ledger.clone(),
        }
    }

    fn of(&self, group: GroupId) -> &OfGroup {
        &self.groups[&group]
    }
}

impl NodeEffects for Outside {
    fn keep(&mut self, identity: &Identity) -> Result<(), IdentityError> {
        self.file.write(identity, &self.disk, Path::new(DIRECTORY))?;
        self.ledger.with(|book| promises::note(book, identity));
        Ok(())
    }

    fn ask(&mut self, ask: Ask) {
        self.asks.push(ask);
    }

    fn run(&mut self, group: GroupId, applier: Applier) {
        self.wishes.push(Wish::Run(group, Box::new(applier)));
    }

    fn publisher(&mut self, group: GroupId) -> Box<dyn Fn(Arc<Compiled>) + Send> {
        let current = Arc::clone(&self.of(group).current);
        Box::new(move |compiled| *current.lock().unwrap_or_else(PoisonError::into_inner) = compiled)
    }

    fn needs_snapshot(&mut self, group: GroupId, node: NodeId) {
        self.of(group).wanted.push(node);
    }

    fn needs_no_snapshot(&mut self, group: GroupId, node: NodeId) {
        self.of(group).wanted.forget(node);
    }

    fn transfer_nanos(&self, _: GroupId) -> u64 {
        TRANSFER_NANOS
    }

    fn hasher(&mut self, group: GroupId) -> Box<dyn Fn(ContentCut) + Send> {
        let cuts = self.of(group).cuts.clone();
        Box::new(move |cut| drop(cuts.send(cut)))
    }

    fn send_from_log(&mut self, group: GroupId, wanted: FromLog) {
        self.wishes.push(Wish::FromLog(group, wanted));
    }

    fn serves(&mut self, group: GroupId, epoch: Option<Epoch>) {
        self.wishes.push(Wish::Serves(group, epoch));
    }

    fn paused(&mut self, paused: bool) {
        self.mode.pause(paused);
    }

    fn unequal(&mut self, group: GroupId, unequal: bool) {
        if let Some(of) = self.groups.get(&group) {
            of.cancellations.unequal(group, unequal);
        }
    }

    fn gave_up(&mut self, _: GroupId, _: Epoch) {}

    fn hold(&mut self, group: GroupId, holds: bool) {
        self.of(group).held.holds.store(holds, Ordering::Relaxed);
    }

    fn is_drained(&mut self, group: GroupId) -> bool {
        self.of(group).held.waiting.load(Ordering::Relaxed) == 0
    }

    fn handed_over(&mut self, group: GroupId, outcome: Result<NodeId, NotHandedOver>) {
        self.wishes.push(Wish::HandedOver(group, outcome));
    }

    fn make_anew(&mut self, group: GroupId, reason: &str, alone: Option<GroupId>) {
        self.wishes.push(Wish::MakeAnew(group, reason.to_owned(), alone));
    }

    fn end(&mut self, reason: &str) {
        self.wishes.push(Wish::End(reason.to_owned()));
    }

    fn notice(&mut self, notice: Notice) {
        self.wishes.push(Wish::Notice(notice));
    }
}
