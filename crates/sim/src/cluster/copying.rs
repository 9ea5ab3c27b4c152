//! Snapshots of a node: those that a leader takes, those on their way to another node, and the one
//! that takes the place of what is here. The server's own parts, moved on step by step.

use crate::cluster::invariants::snapshots::OnDisk;
use crate::node::DIRECTORY;
use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use ferrite_base::{GroupId, NodeId};
use ferrite_cluster::{MessageKind, Node};
use ferrite_group::{EntryBuffer, FIRST_GROUP, Replication};
use ferrite_io::simulated::{SimulatedClock, SimulatedDisk};
use ferrite_io::{Clock, Disk};
use ferrite_partition::GroupInboxes;
use ferrite_partition::commit::{Completion, Parties};
use ferrite_partition::contents::ContentCut;
use ferrite_partition::coordinator::Job;
use ferrite_partition::copy_cut::{CopyCut, CutStep};
use ferrite_partition::event::TakenSnapshot;
use ferrite_partition::install::{Install, InstallError, InstallStep, Learner};
use ferrite_partition::record;
use ferrite_partition::snapshots::{SaveError, Snapshots};
use ferrite_plan::external::RuntimeHandle;
use ferrite_snapshot::transfer::{Sending, SendingStep, Sink, SinkProgress, TransferMessage, decode};
use ferrite_snapshot::{Files, SnapshotError, own_name};
use std::convert::Infallible;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes a second, and in a message: a few messages for each snapshot.
const RATE: u64 = 4 << 20;
const CHUNK_BYTES: usize = 20_000;
/// Messages of a transfer that are sent at once.
const MESSAGES_AT_ONCE: usize = 4;

/// Who needs a snapshot, or none any more, as the group says. Clones are the same.
#[derive(Clone, Default)]
pub struct Wanted(Arc<Mutex<Vec<Want>>>);

enum Want {
    Snapshot(NodeId),
    Nothing(NodeId),
}

impl Wanted {
    pub fn push(&self, node: NodeId) {
        self.all().push(Want::Snapshot(node));
    }

    pub fn forget(&self, node: NodeId) {
        self.all().push(Want::Nothing(node));
    }

    fn drain(&self) -> Vec<Want> {
        std::mem::take(&mut self.all())
    }

    fn all(&self) -> MutexGuard<'_, Vec<Want>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a node with data has for its snapshots.
pub struct Parts {
    pub here: NodeId,
    pub database: [u8; 16],
    pub snapshots: Snapshots,
    pub group: Arc<Replication<Completion>>,
    pub partitions: GroupInboxes,
    pub coordinator: Sender<Job>,
}

#[derive(Clone, Copy, Default, Debug)]
pub struct Done {
    pub taken: u64,
    /// By copies.
    pub copied: u64,
    /// Of copies: what was hashed where a leader marked the stream.
    pub hashed: u64,
    pub installed: u64,
    /// Snapshots that came, and that others needed the node too much to take.
    pub needed: u64,
}

/// Where snapshots of a group are kept that come from other nodes.
fn incoming(group: GroupId) -> PathBuf {
    let first = Path::new(DIRECTORY).join("incoming");
    if group == FIRST_GROUP { first } else { first.join(format!("group-{group}")) }
}

/// A message of a transfer, with the group whose snapshot it is about.
fn message_of(group: GroupId, message: Vec<u8>) -> Vec<u8> {
    MessageKind::Transfer.encode([&group.0.to_le_bytes()[..], &message].concat())
}

/// The group, and the message.
pub fn group_of(body: &[u8]) -> Result<(GroupId, &[u8]), String> {
    let (group, message) = body.split_first_chunk().ok_or("a message of a transfer without its group")?;
    Ok((GroupId(u32::from_le_bytes(*group)), message))
}

/// Of one group in a process.
pub struct Copying {
    parts: Parts,
    pub wanted: Wanted,
    sending: Sending,
    sink: Sink,
    /// One that the coordinator takes, and one that waits for its record in the log.
    asked: Option<(u64, Receiver<TakenSnapshot>)>,
    taken: Option<(u64, TakenSnapshot)>,
    install: Option<Install>,
    /// An earlier process has received the snapshot that is here. It may have ended while it made
    /// the files its own, so that some have gone.
    found: bool,
    /// One that a copy is about to take.
    cut: Option<CopyCut>,
    /// What a copy is to hash.
    cuts: (Sender<ContentCut>, Receiver<ContentCut>),
    /// It takes one for itself, as a leader or a copy.
    pub due: bool,
    pub done: Done,
    /// The disk or the log has failed in the middle of a step that cannot be tried again.
    pub ends: bool,
}

impl Copying {
    pub fn open(disk: &SimulatedDisk, parts: Parts) -> Result<Copying, SnapshotError> {
        let newest = parts.snapshots.files().find()?.snapshots.last().copied();
        let files = Files::new(Arc::new(disk.clone()), &incoming(parts.group.id()));
        let sink = Sink::open(files, parts.database)?.above(newest.unwrap_or(0))?;
        let sending = Sending::new(parts.snapshots.files().clone(), parts.here, RATE).with_chunk_bytes(CHUNK_BYTES);
        let wanted = Wanted::default();
        let done = Done::default();
        let found = sink.progress() != SinkProgress::Idle;
        Ok(Copying {
            parts,
            found,
            wanted,
            sending,
            sink,
            asked: None,
            taken: None,
            install: None,
            cut: None,
            cuts: unbounded(),
            due: false,
            done,
            ends: false,
        })
    }

    /// Where what is to be hashed comes from.
    pub fn hasher(&self) -> Sender<ContentCut> {
        self.cuts.0.clone()
    }

    /// Whether a step would do something.
    pub fn can_step(&self) -> bool {
        let comes = matches!(self.sink.progress(), SinkProgress::Working | SinkProgress::Installed(_));
        !self.ends && (comes || self.install.is_some() || !self.cuts.1.is_empty())
    }

    /// What this node's disk has of its own snapshots, and of its log behind them.
    pub fn on_disk(&self, disk: &SimulatedDisk) -> Result<OnDisk<'_>, SnapshotError> {
        let kept = self.parts.snapshots.kept();
        let names = disk.list(Path::new(DIRECTORY))?;
        let number = |name: &String| name.strip_prefix("redo-")?.strip_suffix(".log")?.parse().ok();
        let mut segments: Vec<u64> = names.iter().filter_map(number).collect();
        segments.sort_unstable();
        let newest = kept.last().map(|kept| self.parts.snapshots.files().manifest(&own_name(kept.snapshot)));
        let shows = newest.transpose()?.and_then(|manifest| Some(manifest.groups.first()?.position));
        Ok(OnDisk { node: self.parts.here, kept, segments, shows, commit: self.parts.group.commit() })
    }

    /// A copy takes a snapshot of its own.
    pub fn is_cutting(&self) -> bool {
        self.cut.is_some()
    }

    /// A snapshot is noted, and does not count yet.
    pub fn is_installing(&self) -> bool {
        self.install.is_some()
    }

    /// What it does, for a report.
    pub fn work(&self) -> String {
        let Copying { asked, taken, install, cut, sink, .. } = self;
        let asked = asked.is_some();
        let taken = taken.is_some();
        let install = install.is_some();
        let cut = cut.as_ref().map(CopyCut::waits_for);
        format!("asked {asked}, taken {taken}, installs {install}, cut {cut:?}, {:?}", sink.progress())
    }

    /// For what is at rest.
    pub fn is_idle(&self) -> bool {
        let cuts = self.cut.as_ref().is_some_and(|cut| !cut.waits_for_commit());
        self.asked.is_none() && self.taken.is_none() && !cuts && !self.can_step()
    }

    /// The node leads no more.
    pub fn deposed(&mut self) {
        self.sending.stop();
        self.due = false;
    }

    pub fn handle_message(
        &mut self,
        from: NodeId,
        body: &[u8],
        now: u64,
        send: &mut impl FnMut(NodeId, Vec<u8>),
    ) -> Result<(), String> {
        let (id, message) = decode(body).map_err(|error| error.to_string())?;
        match message {
            TransferMessage::Install { .. } | TransferMessage::Chunk { .. } => {
                let mut out = Vec::new();
                // What is there is looked at again after an error of the disk.
                let _ = self.sink.receive(&id, &message, &mut out);
                if !out.is_empty() {
                    send(from, message_of(self.parts.group.id(), out));
                }
            }
            TransferMessage::Acked { .. }
            | TransferMessage::Installed
            | TransferMessage::Loaded
            | TransferMessage::Refused(_) => {
                self.sending.receive(from, &id, &message, now);
            }
        }
        Ok(())
    }

    /// What a copy does: takes one of its own, unless another's is on its way. What it has taken as
    /// a leader may be committed all the same.
    pub fn follow(&mut self, node: &Node, clock: &SimulatedClock) {
        self.save(clock.monotonic_nanos());
        let comes = self.sink.progress() != SinkProgress::Idle && !self.parts.group.is_member();
        let intake = node.intake(self.parts.group.id()).filter(|intake| !comes && !intake.has_ended());
        let Some(intake) = intake else {
            (self.cut, self.due) = (None, false);
            return;
        };
        if std::mem::take(&mut self.due) && self.cut.is_none() {
            self.cut = CopyCut::begin(self.parts.snapshots.next_number(), &self.parts.group, intake);
        }
        let Some(mut cut) = self.cut.take() else { return };
        match cut.step(clock) {
            CutStep::Waiting => self.cut = Some(cut),
            CutStep::Ended => {}
            // A disk that has failed leaves what was there.
            CutStep::Done(taken) => {
                self.done.copied += u64::from(self.parts.snapshots.save(*taken, 0, &|_| Ok(())).is_ok());
            }
        }
    }

    /// What a leader does: takes snapshots, and sends them.
    pub fn lead(&mut self, node: &Node, now: u64, send: &mut impl FnMut(NodeId, Vec<u8>)) {
        self.wanted.drain().into_iter().for_each(|want| match want {
            Want::Snapshot(node) => self.sending.want(node),
            Want::Nothing(node) => self.sending.forget(node),
        });
        if let Some(group) = node.state().groups().get(&self.parts.group.id()) {
            // Whoever has come there by itself needs none.
            group.configuration.members().iter().for_each(|member| self.sending.forget(member.node));
        }
        self.cut = None;
        self.save(now);
        if std::mem::take(&mut self.due) {
            self.request_snapshot(0);
        }
        for _ in 0..MESSAGES_AT_ONCE {
            let mut out = Vec::new();
            match self.sending.step(now, &mut out) {
                SendingStep::Message(to) => send(to, message_of(self.parts.group.id(), out)),
                SendingStep::Take { above } => self.request_snapshot(above),
                SendingStep::Idle | SendingStep::Wait(_) => break,
                SendingStep::Done(_) | SendingStep::Silent(_) | SendingStep::Refused(..) | SendingStep::Failed(..) => {}
            }
        }
        self.parts.snapshots.hold(self.sending.holds());
    }

    fn request_snapshot(&mut self, above: u64) {
        if self.asked.is_some() || self.taken.is_some() {
            // The one that is taken already may do.
            return;
        }
        let (to, taken) = unbounded();
        let snapshot = self.parts.snapshots.next_number_above(above);
        self.parts.coordinator.send(Job::Checkpoint { snapshot, to }).expect("the coordinator lives as long");
        self.asked = Some((snapshot, taken));
    }

    /// What was taken becomes files, once its record is committed.
    fn save(&mut self, now: u64) {
        if let Some((snapshot, asked)) = &self.asked {
            match asked.try_recv() {
                Ok(taken) => (self.taken, self.asked) = (Some((*snapshot, taken)), None),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    self.asked = None;
                    self.sending.not_taken();
                }
            }
        }
        let Some((snapshot, taken)) = self.taken.take_if(|(_, taken)| !taken.logged.is_empty()) else { return };
        match self.parts.snapshots.save(taken, 0, &|_| Ok(())) {
            Ok(saved) => {
                self.done.taken += 1;
                if let Some(hashes) = &saved.contents {
                    let mut records = EntryBuffer::default();
                    record::write_content_hashes(records.records(), hashes);
                    let completion = Completion { parties: Parties::Several(Vec::new()), buffers: None };
                    self.parts.group.append(records, completion);
                }
                if self.sending.snapshot_taken(snapshot, now).is_err() {
                    self.sending.not_taken();
                }
            }
            Err(_) => self.sending.not_taken(),
        }
    }

    /// One piece of work for a snapshot that comes. `node`: whose copy it becomes.
    pub fn step(&mut self, node: &mut Node, send: &mut impl FnMut(NodeId, Vec<u8>)) {
        if let Ok(cut) = self.cuts.1.try_recv() {
            self.done.hashed += 1;
            return cut.hash(|_| Ok::<(), Infallible>(())).unwrap_or_else(|never| match never {});
        }
        if self.sink.progress() == SinkProgress::Working {
            let mut out = Vec::new();
            let _ = self.sink.step(&mut out);
            if let Ok((id, _)) = decode(&out) {
                send(id.node, message_of(self.parts.group.id(), out));
            }
            return;
        }
        let outcome = match &mut self.install {
            Some(install) => install.step(&mut self.parts.snapshots),
            None => match self.begin(node) {
                Ok(None) => return,
                Ok(install) => {
                    self.sink.taking_in();
                    self.install = install;
                    return;
                }
                Err(error) => Err(error),
            },
        };
        match outcome {
            Ok(InstallStep::Working | InstallStep::Waiting) => {}
            Ok(InstallStep::Done(start)) => {
                (self.install, self.found) = (None, false);
                self.done.installed += 1;
                node.replaced(self.parts.group.id(), *start);
                self.ends |= self.sink.taken_in().is_err();
            }
            Err(InstallError::Needed) => {
                self.done.needed += 1;
                self.give_up();
            }
            Err(InstallError::Number(highest)) => {
                self.sink.raise(highest);
                self.give_up();
            }
            Err(InstallError::Files(error)) => {
                assert!(self.found || !is_missing(&error), "what is taken in is gone: {error}");
                self.give_up();
            }
            Err(InstallError::Save(SaveError::Snapshot(error))) => {
                assert!(!is_missing(&error), "what is taken in is gone: {error}");
                self.ends = true;
            }
            Err(InstallError::Log(_) | InstallError::Save(_)) => self.ends = true,
            Err(error) => panic!("{error}"),
        }
    }

    fn give_up(&mut self) {
        (self.install, self.found) = (None, false);
        self.ends |= self.sink.abandon().is_err();
    }

    /// None: nothing has come. A node that is no copy at the moment has what others need.
    fn begin(&self, node: &Node) -> Result<Option<Install>, InstallError> {
        let SinkProgress::Installed(id) = self.sink.progress() else { return Ok(None) };
        let intake = node.intake(self.parts.group.id()).ok_or(InstallError::Needed)?.clone();
        let learner = Learner {
            here: self.parts.here,
            group: Arc::clone(&self.parts.group),
            partitions: self.parts.partitions.clone(),
            intake: Some(intake),
            runtime: RuntimeHandle::default(),
            transaction_bytes_max: None,
        };
        Install::begin(self.sink.files().clone(), id.snapshot, learner).map(Some)
    }
}

/// Disks that fail say something else.
fn is_missing(error: &SnapshotError) -> bool {
    matches!(error, SnapshotError::Disk(error) if error.source.kind() == ErrorKind::NotFound)
}
