//! The thread of a group's transfers: a leader's snapshot on its way to nodes that need it, and
//! another node's on its way to this one (docs/replication.md, section 9).
//!
//! The steps are `ferrite_snapshot::transfer` and `ferrite_partition::install`; the snapshot thread
//! takes the snapshots, and takes them in.

use crate::copy_side::CopySide;
use crate::links::Links;
use crate::notices::Notices;
use crate::orders::{CopyNow, Order};
use crate::peer_dispatcher::{Installed, Message, TransferNotice};
use crate::snapshot_request::{SnapshotRequest, SnapshotRequests};
use crate::transfer_message;
use crossbeam_channel::{Receiver, Select, Sender, bounded};
use ferrite_base::{GroupId, NodeId, Position};
use ferrite_cluster::{GroupHandle, MessageKind};
use ferrite_io::{Clock, Yielding, lower_priority};
use ferrite_notice::Notice;
use ferrite_partition::GroupInboxes;
use ferrite_partition::install::{Install, InstallError, InstallStep, Learner};
use ferrite_partition::snapshots::Snapshots;
use ferrite_partition::waker::WakingSender;
use ferrite_peer::Lane;
use ferrite_plan::external::RuntimeHandle;
use ferrite_snapshot::transfer::{Sending, SendingStep, Sink, SinkProgress, TransferMessage, decode};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that may wait for a node before more is sent.
const OUTBOX_BYTES: usize = 4 << 20;
/// Until the outbox is looked at again.
const HELD: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_secs(1);
/// Between two looks whether the log, or the copy's applier, is ready.
const NOT_READY: Duration = Duration::from_millis(2);
/// After this many nanoseconds the operator hears why no snapshot is taken for another node.
const SAY_AFTER: u64 = 3_000_000_000;
/// Steps of work on received messages, before more are taken.
const STEPS_PER_TURN: usize = 64;
/// Messages that are taken before work continues.
const MESSAGES_PER_TURN: usize = 16;

/// What a snapshot is taken into.
pub struct Into {
    pub here: NodeId,
    pub group: GroupHandle,
    pub partitions: GroupInboxes,
    pub runtime: RuntimeHandle,
    pub transaction_bytes_max: usize,
}

pub struct TransferThread {
    pub inbox: Receiver<TransferNotice>,
    pub messages: Receiver<Message>,
    /// The way to this thread, for its answers.
    pub own: Sender<TransferNotice>,
    pub sending: Sending,
    pub sink: Sink,
    pub into: Into,
    pub snapshots: SnapshotRequests,
    pub orders: WakingSender<Order>,
    pub links: Links,
    /// Where it reports whether a snapshot comes.
    pub copy: Arc<CopySide>,
    pub clock: Arc<dyn Clock>,
    /// Ends the node, with the reason.
    pub fail: Box<dyn Fn(&str) + Send>,
    pub notices: Notices,
    /// Since when no snapshot could be taken for others, of the monotonic clock.
    pub not_taken: Option<u64>,
}

impl TransferThread {
    pub fn group(&self) -> GroupId {
        self.into.group.id()
    }

    fn snapshots(&self, request: SnapshotRequest) {
        (self.snapshots)(self.group(), request);
    }

    pub fn run(mut self) {
        lower_priority(Yielding::Some);
        let mut held = Vec::new();
        let mut wait = Duration::ZERO;
        loop {
            self.wait(wait);
            for notice in self.inbox.try_iter().collect::<Vec<_>>() {
                match notice {
                    TransferNotice::Stop => return,
                    TransferNotice::Installed(installed) => {
                        if !self.installed(installed) {
                            return;
                        }
                    }
                    other => self.handle(other),
                }
            }
            for (from, message) in self.messages.try_iter().take(MESSAGES_PER_TURN).collect::<Vec<_>>() {
                if let Err(error) = self.handle_message(from, &message) {
                    self.notices.say(Notice::SnapshotMessageUnusable { node: from, reason: error });
                }
            }
            wait = self.send().min(self.sink_step());
            self.copy.set_comes(self.sink.progress() != SinkProgress::Idle);
            if let SinkProgress::Installed(id) = self.sink.progress() {
                self.install(id.snapshot);
            }
            // A node that has come there by itself needs none.
            for node in self.sending.nodes() {
                if self.into.group.has_member(node) {
                    self.sending.forget(node);
                }
            }
            let holds = self.sending.holds();
            if holds != held {
                held.clone_from(&holds);
                self.snapshots(SnapshotRequest::Hold(holds));
            }
        }
    }

    fn wait(&self, time_max: Duration) {
        // Not even that long: a select yields the processor before it gives up.
        if time_max.is_zero() {
            return;
        }
        let mut select = Select::new();
        select.recv(&self.inbox);
        select.recv(&self.messages);
        let _ = select.ready_timeout(time_max);
    }

    fn handle(&mut self, notice: TransferNotice) {
        match notice {
            TransferNotice::Wanted(node) => self.sending.want(node),
            TransferNotice::Unwanted(node) => self.sending.forget(node),
            TransferNotice::Deposed => {
                self.not_taken = None;
                self.sending.stop();
            }
            TransferNotice::Taken(Ok(snapshot)) => {
                self.not_taken = None;
                if let Err(error) = self.sending.snapshot_taken(snapshot, self.clock.monotonic_nanos()) {
                    self.notices.say(Notice::SnapshotNotSendable { snapshot, reason: error.to_string() });
                }
            }
            TransferNotice::Taken(Err(reason)) => {
                let now = self.clock.monotonic_nanos();
                // Where the lead has just changed, the next attempt, or another node, takes it.
                if now.saturating_sub(*self.not_taken.get_or_insert(now)) >= SAY_AFTER {
                    self.notices.say(Notice::NoSnapshotForOthers { reason });
                }
                self.sending.not_taken();
            }
            TransferNotice::Installed(_) | TransferNotice::Stop => {}
        }
    }

    fn handle_message(&mut self, from: NodeId, bytes: &[u8]) -> Result<(), String> {
        let (id, message) = decode(bytes).map_err(|error| error.0.to_owned())?;
        let mut out = Vec::new();
        match message {
            TransferMessage::Install { .. } | TransferMessage::Chunk { .. } => {
                self.sink.receive(&id, &message, &mut out).map_err(|error| error.to_string())?;
                self.answer(from, out);
            }
            _ => self.sending.receive(from, &id, &message, self.clock.monotonic_nanos()),
        }
        Ok(())
    }

    fn answer(&self, to: NodeId, message: Vec<u8>) {
        if !message.is_empty() {
            let message = transfer_message::tag(self.group(), message);
            self.links.send_on(to, Lane::Transfer, MessageKind::Transfer, message);
        }
    }

    /// Works on what has come; until when there is nothing to do.
    fn sink_step(&mut self) -> Duration {
        for _ in 0..STEPS_PER_TURN {
            if self.sink.progress() != SinkProgress::Working {
                return IDLE;
            }
            let mut out = Vec::new();
            if let Err(error) = self.sink.step(&mut out) {
                self.notices.say(Notice::SnapshotNotReceived { reason: error.to_string() });
                return IDLE;
            }
            // The sender is part of its name.
            if let Ok((id, _)) = decode(&out) {
                self.answer(id.node, out);
            }
        }
        Duration::ZERO
    }

    /// Sends what is due; until when there is nothing to do.
    fn send(&mut self) -> Duration {
        for _ in 0..STEPS_PER_TURN {
            let full =
                |node| self.links.peers().waiting(node, Lane::Transfer).is_some_and(|bytes| bytes > OUTBOX_BYTES);
            if self.sending.progress().is_some_and(|(node, ..)| full(node)) {
                return HELD;
            }
            let mut out = Vec::new();
            match self.sending.step(self.clock.monotonic_nanos(), &mut out) {
                SendingStep::Message(node) => self.answer(node, out),
                SendingStep::Idle => return IDLE,
                SendingStep::Wait(wait) => return wait.min(IDLE),
                SendingStep::Take { above } => {
                    let own = self.own.clone();
                    let told = Box::new(move |outcome| drop(own.send(TransferNotice::Taken(outcome))));
                    self.snapshots(SnapshotRequest::SaveFor(above, told));
                }
                SendingStep::Done(node) => ferrite_io::notify(Notice::SnapshotSent { node }),
                SendingStep::Silent(node) => self.notices.say(Notice::SnapshotUnanswered { node }),
                SendingStep::Refused(node, refusal) => {
                    self.notices.say(Notice::SnapshotRefused { node, reason: refusal.to_string() });
                }
                SendingStep::Failed(node, error) => {
                    self.notices.say(Notice::SnapshotNotSent { node, reason: error.to_string() });
                }
            }
        }
        Duration::ZERO
    }

    /// The snapshot thread takes it in, unless that cannot be now.
    fn install(&mut self, snapshot: u64) {
        // Where an earlier process of this node is a member yet, what is here may be asked for. It
        // is looked at again.
        if self.into.group.stands_in() {
            return;
        }
        let id = self.group();
        let (to, intake) = bounded(1);
        if self.orders.send(Order::Intake(id, to)).is_err() {
            return;
        }
        let Ok(CopyNow { intake, appliers, .. }) = intake.recv() else { return };
        // A node that leads, or whose partitions are stepping back, is not a copy yet.
        if intake.is_none() {
            return;
        }
        let Into { here, group, partitions, runtime, transaction_bytes_max } = &self.into;
        let learner = Learner {
            here: *here,
            group: Arc::clone(group),
            partitions: partitions.clone(),
            intake,
            runtime: runtime.clone(),
            transaction_bytes_max: Some(*transaction_bytes_max),
        };
        let install = match Install::begin(self.sink.files().clone(), snapshot, learner) {
            Ok(install) => install,
            Err(error) => return self.given_up(&error.to_string()),
        };
        self.sink.taking_in();
        ferrite_io::notify(Notice::SnapshotReceived { snapshot, begins: group.end().position == Position(0) });
        let own = self.own.clone();
        let orders = self.orders.clone();
        let mut install = Some(install);
        let mut begun = false;
        // What the loading replaces must not change under it. None: the node ends, and the next
        // start continues.
        let is_same = move || {
            let (to, now) = bounded(1);
            orders.send(Order::Intake(id, to)).ok()?;
            now.recv().ok().map(|now| now.is_copy && now.appliers == appliers)
        };
        let piece = Box::new(move |snapshots: &mut Snapshots| {
            let over = |installed| {
                let _ = own.send(TransferNotice::Installed(installed));
                None
            };
            let Some(under_way) = &mut install else { return None };
            if !is_same()? {
                install = None;
                let reason = "the node's part changed while it took a snapshot".to_owned();
                // It may lead by now, with entries that made the snapshot needless.
                return over(if begun { Installed::Failed(reason) } else { Installed::GivenUp(reason) });
            }
            begun = true;
            match under_way.step(snapshots) {
                Ok(InstallStep::Working) => Some(Duration::ZERO),
                Ok(InstallStep::Waiting) => Some(NOT_READY),
                Ok(InstallStep::Done(start)) => over(Installed::Done(start)),
                Err(error @ (InstallError::Log(_) | InstallError::Save(_))) => {
                    over(Installed::Failed(error.to_string()))
                }
                Err(InstallError::Number(highest)) => over(Installed::Number(highest)),
                Err(error) => over(Installed::GivenUp(error.to_string())),
            }
        });
        self.snapshots(SnapshotRequest::TakeIn(piece));
    }

    /// False: the node ends.
    fn installed(&mut self, installed: Installed) -> bool {
        match installed {
            Installed::Done(start) => {
                let _ = self.orders.send(Order::Replaced(self.group(), start));
                if let Err(error) = self.sink.taken_in() {
                    self.notices.say(Notice::SnapshotFilesLeft { reason: error.to_string() });
                }
                true
            }
            Installed::GivenUp(reason) => {
                self.given_up(&reason);
                true
            }
            Installed::Number(highest) => {
                self.given_up(&InstallError::Number(highest).to_string());
                self.sink.raise(highest);
                true
            }
            Installed::Failed(reason) => {
                (self.fail)(&reason);
                false
            }
        }
    }

    fn given_up(&mut self, reason: &str) {
        self.notices.say(Notice::SnapshotNotInstalled { reason: reason.to_owned() });
        if let Err(error) = self.sink.abandon() {
            self.notices.say(Notice::SnapshotFilesLeft { reason: error.to_string() });
        }
    }
}
