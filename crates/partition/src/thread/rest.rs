//! A partition that has nothing to do: it gives memory back, waits, and lets network threads run
//! the few calls that come.

use super::{Partition, Ran, Seat};
use crate::compiled::is_same_schema;
use crate::event::{CallBatch, Event};
use crossbeam_channel::{Receiver, Select, TryRecvError};
use ferrite_base::memory;
use ferrite_table::Store;
use std::time::{Duration, Instant};

const IDLE_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks after which nothing is expected any more, if no memory was given back between them.
const IDLE_LOOKS_IN_VAIN_MAX: u32 = 2;

impl Partition {
    /// Runs a batch of short calls while it rests, on another thread than its own; or gives it
    /// back.
    pub(crate) fn run_elsewhere(&mut self, batch: CallBatch) -> Result<Ran, CallBatch> {
        if self.seat_backoff.declines() {
            return Err(batch);
        }
        // Of another version a program may have become a long one.
        let is_here = self.inbox.is_empty() && is_same_schema(&batch.compiled, &self.compiled);
        // With a full log it would wait, which a network thread must not.
        if !is_here || !(self.only_reads(&batch) || self.log.has_room()) {
            return Err(batch);
        }
        let began = Instant::now();
        self.begin_event();
        self.run_calls(batch);
        self.end_event();
        let took = began.elapsed();
        self.worked_at_rest += took;
        self.seat_backoff.ran(took);
        let has_work = self.sleeps && (self.waits_for_memory() || self.can_compact(true));
        Ok(match has_work || self.is_due() {
            true => Ran::ThreadIsWanted,
            false => Ran::Whole,
        })
    }

    fn only_reads(&self, batch: &CallBatch) -> bool {
        batch.calls.iter().all(|call| match (call.cached(), &batch.cached) {
            (Some(position), Some(cached)) => cached.calls[position].program.read_only,
            _ => self.compiled.program(call.procedure).read_only,
        })
    }

    /// Memory could be given back but for a snapshot or another partition, whose end is not
    /// announced.
    fn waits_for_memory(&self) -> bool {
        let waits = |store: &Store| store.has_held_compaction_work() || store.first_retained().is_some();
        self.store.as_ref().is_some_and(waits) && self.gate.failure().is_none()
    }
}

/// Waits for what is next to do; that counts as idle. At first it looks now and then whether memory
/// can be given back: the end of what was in the way, a snapshot or what other partitions had not
/// yet given back, is not announced to this thread. When nothing of the kind moves any more it
/// sleeps until there is something to do. None: every sender is gone.
#[cold]
#[inline(never)]
pub(super) fn idle(
    mut partition: Box<Partition>,
    seat: &Seat,
    inbox: &Receiver<Event>,
) -> Option<(Box<Partition>, Event)> {
    let mut select = Select::new();
    select.recv(inbox);
    let mut began = None;
    let mut returned = memory::pages_returned();
    let mut looks_in_vain = 0;
    loop {
        if partition.steps_back {
            partition.settle();
        }
        while partition.compact(true) {
            if let Ok(event) = inbox.try_recv() {
                return Some((partition, event));
            }
        }
        let began = *began.get_or_insert_with(Instant::now);
        partition.sleeps = looks_in_vain >= IDLE_LOOKS_IN_VAIN_MAX && !partition.waits_for_memory();
        let time_max = (!partition.sleeps).then_some(IDLE_LOOK_EVERY);
        let (awake, came) = seat.rest(partition, &mut select, time_max);
        partition = awake;
        if !came {
            let before = std::mem::replace(&mut returned, memory::pages_returned());
            looks_in_vain = if before == returned { looks_in_vain + 1 } else { 0 };
            continue;
        }
        match inbox.try_recv() {
            Ok(event) => {
                let worked = std::mem::take(&mut partition.worked_at_rest);
                partition.counters.idle.add(began.elapsed().saturating_sub(worked));
                return Some((partition, event));
            }
            // Woken by what another has taken.
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return None,
        }
    }
}
