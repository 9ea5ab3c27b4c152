//! The end of a node, in good time. What was taken is answered; what takes too long is interrupted,
//! and what was not begun is refused, with a status by which drivers know that it did not happen.
//! Whoever does not end even then is left behind.
//!
//! Promises that the log is closed in good order whoever hangs: it has a thread of its own, and an
//! answer leaves only when the log has what it says. Does not know signals.

use crate::mailbox::Mail;
use crate::message::{ExpiryNotice, SnapshotJob, SystemJob, TaskNotice};
use crate::server::{CompoundThreads, PagePreallocator, join, spawn};
use crate::shared::Shared;
use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use ferrite_log::LogFailed;
use ferrite_partition::Event;
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::coordinator::Job;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// How a node came to its end. The log was closed in good order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// All its threads have ended.
    Wholly,
    /// Some did not end, and run on: the process should end without them.
    LeavingThreads,
}

/// Says that the end shall not wait for calls any more. May be said at any time, by anybody, again
/// and again.
#[derive(Clone)]
pub struct Insist(Sender<()>);

impl Insist {
    pub fn insist(&self) {
        // Nobody listens when the end is over.
        let _ = self.0.send(());
    }
}

/// A node's threads, but for the log's own.
pub(crate) struct Threads {
    pub network: Vec<JoinHandle<()>>,
    pub system: JoinHandle<()>,
    pub expiry: JoinHandle<()>,
    pub tasks: JoinHandle<()>,
    pub compounds: CompoundThreads,
    pub snapshots: JoinHandle<()>,
    pub coordinator: JoinHandle<()>,
    pub partitions: Vec<JoinHandle<()>>,
    pub reports: Vec<JoinHandle<()>>,
    pub memory: PagePreallocator,
    /// The watch over the disk ends when this is dropped.
    pub space: (Sender<()>, JoinHandle<()>),
}

impl Threads {
    /// Answers what was taken, and ends. Work goes downwards, so threads end from the top.
    fn end(self, shared: &Shared) {
        shared.compounds.stop_soon();
        shared.cancellations.stop();
        tell_network(shared, || Mail::Stop);
        join(self.network);
        let _ = shared.task_thread.send(TaskNotice::Stop);
        join([self.tasks]);
        self.compounds.stop(shared);
        let _ = shared.system.send(SystemJob::Stop);
        join([self.system]);
        let _ = shared.expiry.send(ExpiryNotice::Stop);
        join([self.expiry]);
        shared.snapshot_status.stop.store(true, Ordering::Relaxed);
        let _ = shared.snapshots.send(SnapshotJob::Stop);
        join([self.snapshots]);
        let _ = shared.routes.to_coordinator(Job::Stop);
        join([self.coordinator]);
        for partition in shared.routes.partitions() {
            let _ = shared.routes.to_partition(partition, Event::Stop);
        }
        join(self.partitions);
        join(self.reports);
        drop(self.space.0);
        join([self.space.1]);
        drop(self.memory);
    }
}

/// Whoever insists, and who hears it.
pub(crate) struct Insistence(Sender<()>, Receiver<()>);

impl Default for Insistence {
    fn default() -> Self {
        let (say, heard) = unbounded();
        Insistence(say, heard)
    }
}

impl Insistence {
    pub fn handle(&self) -> Insist {
        Insist(self.0.clone())
    }
}

/// Ends the node: in good order as long as `settings.stop_seconds` allow and nobody insists, then
/// without waiting for calls.
pub(crate) fn stop(
    shared: Arc<Shared>,
    log: DatabaseLog,
    threads: Threads,
    insistence: Insistence,
) -> Result<Stopped, LogFailed> {
    let (tell, ended) = bounded::<()>(1);
    let ending = Arc::clone(&shared);
    // Where there is no thread to be had for it, `ended` is disconnected, and the log is closed at
    // once.
    let _ = spawn("stop", move || {
        threads.end(&ending);
        let _ = tell.send(());
    });
    let Insistence(_kept, insisted) = insistence;
    let wait = |time: Duration| {
        select! {
            recv(ended) -> told => told.is_ok(),
            recv(insisted) -> _ => false,
            default(time) => false,
        }
    };
    let mut stopped = Stopped::Wholly;
    if !wait(Duration::from_secs(shared.settings.stop_seconds)) {
        ferrite_io::errln!(
            "ferrite: the end is not waited for any longer: running calls are interrupted, others are not executed"
        );
        shared.cancellations.end_all();
        shared.long_reads.drop_cancelled();
        tell_network(&shared, || Mail::Hurry);
        if !wait(shared.settings.stop_grace) {
            ferrite_io::errln!(
                "ferrite: some calls cannot be interrupted, and are left behind; nothing of them is kept"
            );
            stopped = Stopped::LeavingThreads;
        }
    }
    log.close().map(|()| stopped)
}

fn tell_network(shared: &Shared, mail: impl Fn() -> Mail) {
    for mailbox in shared.network.iter() {
        mailbox.send(mail());
    }
}
