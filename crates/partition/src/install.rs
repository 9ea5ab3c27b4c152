//! Another node's snapshot takes the place of what a copy has, while the node runs
//! (docs/replication.md, section 9).
//!
//! | step | what a crash leaves |
//! |---|---|
//! | the files are loaded into stores of their own, partition by partition | the old state |
//! | a record in the log notes the snapshot, and the group continues after it; it takes nothing yet | the old state: the record does not count |
//! | the files become the node's own, the manifest last | the new state, from then on |
//! | what was previously here is removed from the disk | the new state |
//! | the partitions get the new stores, the group takes entries | the new state |
//!
//! The files stay where they arrived until the third step. So a node that starts with the old state
//! begins again here, and asks no other node. Each wait is a state; a step does no more than load
//! one partition. Promises that partitions show the old state or the new, and nothing is
//! acknowledged after the new one before it is durable.

use crate::applier::{CopyStart, Intake};
use crate::commit::{Completion, Parties};
use crate::compiled::Compiled;
use crate::delivery::Delivery;
use crate::event::{Event, Loan};
use crate::inboxes::GroupInboxes;
use crate::record;
use crate::snapshot_image::SnapshotImage;
use crate::snapshots::{SaveError, Snapshots, place_of};
use crossbeam_channel::{Receiver, TryRecvError, bounded};
use ferrite_base::{NodeId, Sequence, UserError};
use ferrite_group::{GroupPlace, NotCommitted, Replication};
use ferrite_log::LogPosition;
use ferrite_plan::external::RuntimeHandle;
use ferrite_snapshot::{Files, SnapshotError};
use ferrite_table::Store;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The outcome of a step.
pub enum InstallStep {
    /// There is more to do: call again.
    Working,
    /// It waits for the log, or for the copy's applier to end: call again later.
    Waiting,
    /// It is done: the partitions have, or will have, what is shown, and a new applier begins
    /// there. What the group sends from now on continues after it.
    Done(Box<CopyStart>),
}

/// Why it cannot be.
#[derive(Debug)]
pub enum InstallError {
    /// The files cannot be used: they are given up, and asked for again. Nothing has changed.
    Files(SnapshotError),
    /// The numbers of partitions of the cluster's database, and of this node. Nothing has changed.
    Partitions { there: u32, here: u32 },
    /// The schema cannot be had here. Nothing has changed.
    Compile(UserError),
    /// This node has given numbers up to there to snapshots of its own, and the newest must have
    /// the highest: it asks for one above it. Nothing has changed.
    Number(u64),
    /// Others rely on what this node has: it is a member, or leads. Nothing has changed.
    Needed,
    /// The log has failed: the node ends. The next start has the old state.
    Log(NotCommitted),
    /// The disk has failed: the node ends. The next start has the old state or the new.
    Save(SaveError),
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstallError::Files(error) => error.fmt(f),
            InstallError::Partitions { there, here } => write!(
                f,
                "the cluster's database has {there} partitions and this node {here}: remove its directory, and let it join again"
            ),
            InstallError::Compile(error) => {
                write!(f, "a stored procedure of the cluster's database cannot be had here: {error}")
            }
            InstallError::Number(highest) => {
                write!(f, "this node has taken snapshots of its own up to number {highest} meanwhile")
            }
            InstallError::Needed => f.write_str("other nodes rely on what this node has"),
            InstallError::Log(error) => error.fmt(f),
            InstallError::Save(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InstallError {}

impl From<SnapshotError> for InstallError {
    fn from(error: SnapshotError) -> InstallError {
        InstallError::Files(error)
    }
}

/// The node that gets it.
pub struct Learner {
    pub here: NodeId,
    pub group: Arc<Replication<Completion>>,
    /// Of the group. They are copies.
    pub partitions: GroupInboxes,
    /// The way to the copy's applier, if there is one. It ends.
    pub intake: Option<Intake>,
    pub runtime: RuntimeHandle,
    /// Of a transaction: bytes of changes, as for the stores that are there.
    pub transaction_bytes_max: Option<usize>,
}

/// A snapshot on its way from its files into the node. Dropped before [`InstallStep::Done`], the
/// node is to be ended, unless an error says that nothing has changed.
pub struct Install {
    into: Learner,
    files: Files,
    image: SnapshotImage,
    place: GroupPlace,
    stores: Vec<Store>,
    compiled: Option<Arc<Compiled>>,
    noted: Option<Noted>,
    counts: bool,
}

/// The log has the record, or will.
struct Noted {
    told: Receiver<Result<(), NotCommitted>>,
    place: Arc<OnceLock<LogPosition>>,
    durable: bool,
}

impl Install {
    /// `files`: where a [`Sink`](ferrite_snapshot::transfer::Sink) has put the snapshot of this
    /// number.
    pub fn begin(files: Files, snapshot: u64, into: Learner) -> Result<Install, InstallError> {
        let image = SnapshotImage::open(&files, snapshot)?;
        let of = into.partitions.of();
        assert_eq!(into.group.id(), of.group(), "a group's partitions get its snapshot");
        if image.manifest.shown().as_ref() != Some(of) {
            let there = image.manifest.files.len() as u32;
            return Err(InstallError::Partitions { there, here: of.len() as u32 });
        }
        let end = image.manifest.groups.first().cloned();
        let place = end.and_then(place_of).ok_or_else(|| {
            let path = files.manifest_path(&ferrite_snapshot::own_name(snapshot));
            let detail = "it does not say where the group's stream had come to".to_owned();
            SnapshotError::Damaged { path, position: 0, detail }
        })?;
        Ok(Install { into, files, image, place, stores: Vec::new(), compiled: None, noted: None, counts: false })
    }

    /// What it shows.
    pub fn place(&self) -> &GroupPlace {
        &self.place
    }

    fn sequences(&self) -> Vec<Sequence> {
        self.image.manifest.files.iter().map(|file| file.sequence).collect()
    }

    /// The next piece of work. `snapshots`: the node's own; none is taken for any caller while
    /// this runs.
    pub fn step(&mut self, snapshots: &mut Snapshots) -> Result<InstallStep, InstallError> {
        assert_eq!(snapshots.group(), self.into.group.id(), "a group's snapshot is taken in among its own");
        // Recovery begins with the highest number. None is given while this runs.
        if self.noted.is_none() && self.image.manifest.snapshot <= snapshots.highest() {
            return Err(InstallError::Number(snapshots.highest()));
        }
        if self.stores.len() < self.into.partitions.of().len() && !self.counts {
            let store = self.image.load(&self.files, self.stores.len(), |_, _| {})?;
            self.stores.push(store);
            return Ok(InstallStep::Working);
        }
        let Some(compiled) = self.compiled.clone() else {
            let compiled = Compiled::recovered(Arc::clone(&self.image.catalog), &self.into.runtime);
            self.compiled = Some(Arc::new(compiled.map_err(InstallError::Compile)?));
            return Ok(InstallStep::Working);
        };
        let Some(noted) = &mut self.noted else {
            self.noted = Some(self.note()?);
            if let Some(intake) = &self.into.intake {
                intake.send(Delivery::Stop);
            }
            return Ok(InstallStep::Working);
        };
        if !noted.durable {
            match noted.told.try_recv() {
                Err(TryRecvError::Empty) => return Ok(InstallStep::Waiting),
                Ok(Ok(())) => noted.durable = true,
                Ok(Err(reason)) => return Err(InstallError::Log(reason)),
                Err(TryRecvError::Disconnected) => panic!("the log completes every append"),
            }
        }
        if !self.counts {
            let place = noted.place.get().expect("told before the append completes");
            let manifest = self.image.manifest.clone();
            snapshots.take_in(&self.files, manifest, place).map_err(InstallError::Save)?;
            self.counts = true;
            return Ok(InstallStep::Working);
        }
        // It might still borrow stores.
        if self.into.intake.as_ref().is_some_and(|intake| !intake.has_ended()) {
            return Ok(InstallStep::Waiting);
        }
        self.replace(&compiled);
        self.into.group.installed();
        Ok(InstallStep::Done(Box::new(CopyStart {
            here: self.into.here,
            place: self.place.clone(),
            sequences: self.sequences(),
            compiled,
            history: self.image.history.clone(),
            lots: self.image.lots.clone(),
        })))
    }

    /// Afterwards the group continues after the snapshot.
    fn note(&self) -> Result<Noted, InstallError> {
        let manifest = &self.image.manifest;
        let places: Vec<_> = manifest.files.iter().map(|file| (file.epoch, file.sequence)).collect();
        let groups = [(self.into.group.id(), self.place.end)];
        let mut payload = Vec::new();
        record::write_installed(&mut payload, manifest.snapshot, manifest.catalog_version, &places, &groups);
        let (tell, told) = bounded(1);
        let place = Arc::new(OnceLock::new());
        let completion = Completion { parties: Parties::Asking(tell), buffers: None };
        let noted = self.into.group.install(self.place.clone(), payload, Arc::clone(&place), completion);
        noted.map_err(|_| InstallError::Needed)?;
        Ok(Noted { told, place, durable: false })
    }

    fn replace(&mut self, compiled: &Arc<Compiled>) {
        let stores = std::mem::take(&mut self.stores).into_iter();
        let parts = stores.zip(self.sequences()).zip(self.into.partitions.senders());
        for ((mut store, sequence), partition) in parts {
            store.set_catalog(Arc::clone(&compiled.catalog));
            if let Some(bytes) = self.into.transaction_bytes_max {
                store.set_transaction_bytes_max(bytes);
            }
            let loan = Loan { partition: store.partition(), store, sequence, compiled: Arc::clone(compiled) };
            partition.send(Event::Replace(Box::new(loan))).expect("partitions outlive their role");
        }
    }
}
