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
use ferrite_partition::contents::ContentCut;
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
    wanted: Wanted,
    cuts: Sender<ContentCut>,
    current: Arc<Mutex<Arc<Compiled>>>,
    held: Arc<Held>,
    mode: Arc<Mode>,
    ledger: Ledger,
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
        copying: &Copying,
        doors: &Doors,
        ledger: &Ledger,
    ) -> Outside {
        Outside {
            disk: disk.clone(),
            file: IdentityFile::default(),
            wishes: wishes.clone(),
            asks: seat.asks().clone(),
            wanted: copying.wanted.clone(),
            cuts: copying.hasher(),
            current: Arc::clone(&doors.compiled),
            held: Arc::default(),
            mode: Arc::clone(&doors.mode),
            ledger: ledger.clone(),
        }
    }

    pub(super) fn held(&self) -> Arc<Held> {
        Arc::clone(&self.held)
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

    fn run(&mut self, _: GroupId, applier: Applier) {
        self.wishes.push(Wish::Run(Box::new(applier)));
    }

    fn publisher(&mut self, _: GroupId) -> Box<dyn Fn(Arc<Compiled>) + Send> {
        let current = Arc::clone(&self.current);
        Box::new(move |compiled| *current.lock().unwrap_or_else(PoisonError::into_inner) = compiled)
    }

    fn needs_snapshot(&mut self, _: GroupId, node: NodeId) {
        self.wanted.push(node);
    }

    fn needs_no_snapshot(&mut self, _: GroupId, node: NodeId) {
        self.wanted.forget(node);
    }

    fn transfer_nanos(&self, _: GroupId) -> u64 {
        TRANSFER_NANOS
    }

    fn hasher(&mut self, _: GroupId) -> Box<dyn Fn(ContentCut) + Send> {
        let cuts = self.cuts.clone();
        Box::new(move |cut| drop(cuts.send(cut)))
    }

    fn send_from_log(&mut self, _: GroupId, wanted: FromLog) {
        self.wishes.push(Wish::FromLog(wanted));
    }

    fn serves(&mut self, _: GroupId, epoch: Option<Epoch>) {
        self.wishes.push(Wish::Serves(epoch));
    }

    fn paused(&mut self, paused: bool) {
        self.mode.pause(paused);
    }

    fn gave_up(&mut self, _: GroupId, _: Epoch) {}

    fn hold(&mut self, _: GroupId, holds: bool) {
        self.held.holds.store(holds, Ordering::Relaxed);
    }

    fn is_drained(&mut self, _: GroupId) -> bool {
        self.held.waiting.load(Ordering::Relaxed) == 0
    }

    fn handed_over(&mut self, _: GroupId, outcome: Result<NodeId, NotHandedOver>) {
        self.wishes.push(Wish::HandedOver(outcome));
    }

    fn make_anew(&mut self, _: GroupId, reason: &str) {
        self.wishes.push(Wish::MakeAnew(reason.to_owned()));
    }

    fn end(&mut self, reason: &str) {
        self.wishes.push(Wish::End(reason.to_owned()));
    }

    fn notice(&mut self, notice: Notice) {
        self.wishes.push(Wish::Notice(notice));
    }
}
