//! The end of a node, in good time. What was taken is answered; what takes too long is interrupted,
//! and what was not begun is refused, with a status by which drivers know that it did not happen. A
//! thread that does not end even then is abandoned.
//!
//! Promises that the log is closed in good order whatever hangs: it has a thread of its own, and an
//! answer leaves only when the log has what it says. Does not know signals.

use crate::cancelling::Cancelling;
use crate::connections::Connections;
use crate::last_snapshot::LastSnapshot;
use crate::mailbox::{Mail, NetworkMailbox};
use crate::page_preallocator::PagePreallocator;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select, unbounded};
use ferrite_base::NodeId;
use ferrite_cluster::NotHandedOver;
use ferrite_io::threads::{Threads, spawn};
use ferrite_log::LogFailed;
use ferrite_member::forward::Forward;
use ferrite_member::{HandOver, Order, Running};
use ferrite_notice::Notice;
use ferrite_partition::commit::DatabaseLog;
use ferrite_partition::waker::WakingSender;
use ferrite_system::saved::SnapshotStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How a node came to its end. The log was closed in good order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// All its threads have ended.
    Wholly,
    /// Some did not end, and run on: the process should end without them.
    LeavingThreads,
    /// With durability memory, there is no snapshot of what was acknowledged last: it is lost. The
    /// process should end at once, as threads may be left.
    Unsaved,
}

/// Requests that the end shall not wait for calls any more. Any thread may call it, at any time,
/// repeatedly.
#[derive(Clone)]
pub struct Insist(Sender<()>);

impl Insist {
    pub fn insist(&self) {
        // No thread listens when the end is over.
        let _ = self.0.send(());
    }
}

/// What the end of a node needs.
pub(crate) struct Ending {
    pub threads: Threads,
    pub memory: PagePreallocator,
    pub cancelling: Arc<Cancelling>,
    pub connections: Arc<Connections>,
    pub network: Arc<[Arc<NetworkMailbox>]>,
    /// How long calls are waited for.
    pub time_max: Duration,
    /// How long the end is waited for after that.
    pub grace: Duration,
    /// Waited for as long as it takes, unless an operator insists.
    pub last_snapshot: Arc<LastSnapshot>,
    pub snapshots: Arc<SnapshotStatus>,
}

/// The senders that insist, and the receiver.
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

/// No call has come, and none has waited, for this long: clients that were connected here call
/// elsewhere by now.
const QUIET: Duration = Duration::from_millis(100);
/// How long a node that has handed over still passes on what comes.
const LINGER: Duration = Duration::from_secs(1);

/// Between two questions whether a hand-over in progress is over.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// Another node is to lead before this one ends, if one can: calls that come wait for it and are
/// passed on, so that none fails. Clients that follow the leader are gone when this ends. While no
/// node could lead yet, calls are executed here, for half the available time.
pub(crate) fn hand_over(cluster: &Running, forward: &Forward, time_max: Duration, insistence: &Insistence) {
    let began = Instant::now();
    let Insistence(again, insisted) = insistence;
    if !cluster.node_status().seen().serves_any() {
        return;
    }
    let leads = || cluster.node_status().seen().serves_any();
    let done = ask_to_hand_over(cluster.orders(), leads, time_max, insisted);
    let mut waits = done.is_some();
    let done = done == Some(true);
    let mut passed = forward.passed_in_all();
    let mut since = Instant::now();
    let most = (began.elapsed() + LINGER).min(time_max);
    while done && waits && since.elapsed() < QUIET && began.elapsed() < most {
        waits = insisted.recv_timeout(QUIET / 10) == Err(RecvTimeoutError::Timeout);
        let now = forward.passed_in_all();
        // Clients that wait for an answer may call again when they have it.
        if now != passed || forward.has_waiting() {
            (passed, since) = (now, Instant::now());
        }
    }
    if !waits {
        // The next waiter hears it, too.
        let _ = again.send(());
    }
}

/// Whether another node leads now; None: the caller no longer waits for that. A hand-over in
/// progress may come to nothing, so this is asked again when it is over.
fn ask_to_hand_over(
    orders: &WakingSender<Order>,
    leads: impl Fn() -> bool,
    time_max: Duration,
    insisted: &Receiver<()>,
) -> Option<bool> {
    let until = Instant::now() + time_max;
    let mut is_another = false;
    loop {
        let (tell, heard) = bounded(1);
        let told = Box::new(move |outcome: Result<NodeId, NotHandedOver>| {
            // The caller may no longer wait for it.
            let _ = tell.send(outcome);
        });
        let patience = Some(time_max / 2);
        let _ = orders.send(Order::HandOver(HandOver { group: None, to: None, by_call: false, patience, told }));
        let outcome = select! {
            recv(heard) -> outcome => outcome.ok(),
            recv(insisted) -> _ => return None,
            default(until.saturating_duration_since(Instant::now())) => None,
        };
        match outcome {
            Some(Err(NotHandedOver::UnderWay)) if Instant::now() < until => is_another = true,
            Some(outcome) => return Some(outcome.is_ok() || is_another && !leads()),
            None => return Some(false),
        }
        if insisted.recv_timeout(ASK_AGAIN) != Err(RecvTimeoutError::Timeout) {
            return None;
        }
    }
}

/// Ends the node: in good order as long as time allows and no caller insists, then without waiting
/// for calls.
pub(crate) fn stop(log: DatabaseLog, ending: Ending, insistence: Insistence) -> Result<Stopped, LogFailed> {
    let Ending { mut threads, memory, cancelling, network, time_max, grace, last_snapshot, snapshots, .. } = ending;
    let (tell, ended) = bounded::<()>(1);
    memory.ends();
    // Where no thread can be had for it, `ended` is disconnected, and the log is closed at once.
    let _ = spawn("stop", move || {
        threads.end();
        let _ = tell.send(());
    });
    let Insistence(_kept, insisted) = insistence;
    let has_ended = |time| ends_within(time, &ended, &insisted, &last_snapshot, &snapshots);
    let mut stopped = Stopped::Wholly;
    if !has_ended(time_max) {
        ferrite_io::notify(Notice::StopInterrupts);
        cancelling.list.end_all();
        cancelling.long_reads.drop_cancelled();
        network.iter().for_each(|mailbox| mailbox.send(Mail::Hurry));
        if !has_ended(grace) {
            ferrite_io::notify(Notice::StopAbandons);
            stopped = Stopped::LeavingThreads;
        }
    }
    if last_snapshot.is_missing() {
        ferrite_io::notify(Notice::LastSnapshotMissing);
        stopped = Stopped::Unsaved;
    }
    let closed = log.close();
    drop(memory);
    closed.map(|()| stopped)
}

/// Whether the threads end within this time, or later where it is the last snapshot that takes
/// longer. An operator that insists ends the wait, and the snapshot.
fn ends_within(
    mut time: Duration,
    ended: &Receiver<()>,
    insisted: &Receiver<()>,
    last_snapshot: &LastSnapshot,
    snapshots: &SnapshotStatus,
) -> bool {
    let mut said = false;
    loop {
        let insists = select! {
            recv(ended) -> told => return told.is_ok(),
            recv(insisted) -> _ => true,
            default(time) => false,
        };
        if insists || !last_snapshot.is_being_written() {
            if last_snapshot.is_being_written() {
                snapshots.stop.store(true, Relaxed);
            }
            return false;
        }
        if !std::mem::replace(&mut said, true) {
            ferrite_io::notify(Notice::LastSnapshotAwaited);
        }
        time = ASK_AGAIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrite_group::CannotHandOver;
    use ferrite_partition::waker::waking_channel;

    #[test]
    fn a_node_that_ends_while_it_hands_over_waits_for_what_comes_of_that() {
        let not_leading = Err(NotHandedOver::Cannot(CannotHandOver::NotLeading));
        for (last, leads, done) in
            [(Ok(NodeId(2)), false, true), (not_leading, false, true), (Err(NotHandedOver::Undecided), true, false)]
        {
            let (orders, inbox) = waking_channel();
            let node = std::thread::spawn(move || {
                for outcome in [Err(NotHandedOver::UnderWay), Err(NotHandedOver::UnderWay), last] {
                    let Ok(Order::HandOver(asks)) = inbox.recv() else { panic!("it asks again") };
                    (asks.told)(outcome);
                }
            });
            let Insistence(_say, insisted) = &Insistence::default();
            assert_eq!(ask_to_hand_over(&orders, || leads, Duration::from_secs(60), insisted), Some(done));
            node.join().expect("it was asked");
        }
        // One that is insisted on waits for nothing, and a thread that has ended does not answer.
        let (orders, inbox) = waking_channel();
        let Insistence(say, insisted) = &Insistence::default();
        say.send(()).expect("it is heard");
        assert_eq!(ask_to_hand_over(&orders, || false, Duration::from_secs(60), insisted), None);
        drop(inbox);
        assert_eq!(ask_to_hand_over(&orders, || false, Duration::from_secs(60), insisted), Some(false));
    }
}
