//! Keeps a connection's calls of one group in their order where this node begins to lead that
//! group, or takes a hand-over back. Calls of two groups have no order among each other: their
//! partitions differ.
//!
//! The invariant, for each group: a network thread gives calls to the group's partitions itself
//! only while this node leads the group and nothing of the group that it has handed to the thread
//! that forwards waits there. It decides that once per turn, so that what one turn reads of a group
//! goes one way. Two steps lead there:
//!
//! 1. The switch stays *away* when this node begins to lead. The thread that forwards opens it when
//!    its window is empty and settled.
//! 2. What a network thread handed over before it saw that is on its way to partitions shortly:
//!    until then the network thread reads nothing. It must not hand over more meanwhile, or callers
//!    who never pause would keep it there for ever.

use crate::forward::link::Leadership;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const AWAY: u64 = 1;

/// The way of one group's calls.
pub struct Switch {
    /// Whether calls go to the thread that forwards, in the lowest bit; above it, how often the
    /// lead was lost. So the thread cannot open what was closed since it heard of its lead.
    away: AtomicU64,
    /// Of this node: whether it leads, one of the values below.
    leads: AtomicU8,
}

const LEADS_NOT: u8 = 0;
const HANDS_OVER: u8 = 1;
const LEADS: u8 = 2;

impl Default for Switch {
    fn default() -> Switch {
        Switch { away: AtomicU64::new(AWAY), leads: AtomicU8::new(LEADS_NOT) }
    }
}

impl Switch {
    #[inline]
    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::Acquire) & AWAY != 0
    }

    pub fn losses(&self) -> u64 {
        self.away.load(Ordering::Acquire) >> 1
    }

    pub fn follows(&self, leadership: Leadership) {
        let leads = match leadership {
            Leadership::Here => LEADS,
            Leadership::HandingOver => HANDS_OVER,
            Leadership::Coming | Leadership::At(_) | Leadership::Unknown => LEADS_NOT,
        };
        self.leads.store(leads, Ordering::Release);
    }

    /// Whether this node leads the group; `handing_over`: or leads it still.
    pub fn leads(&self, handing_over: bool) -> bool {
        let least = if handing_over { HANDS_OVER } else { LEADS };
        self.leads.load(Ordering::Acquire) >= least
    }

    /// This node does not lead, or hands over. Returns how often that has happened.
    pub fn lose(&self) -> u64 {
        let next = |before: u64| ((before >> 1) + 1) << 1 | AWAY;
        let updated = self.away.fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| Some(next(before)));
        next(updated.unwrap_or_else(|before| before)) >> 1
    }

    /// Returns whether it was opened just now.
    pub fn open(&self, losses: u64) -> bool {
        self.away.compare_exchange(losses << 1 | AWAY, losses << 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// How many calls of a group one network thread has handed to the thread that forwards, and how
/// many of these no longer wait there.
#[derive(Clone, Default)]
pub struct Handed {
    calls: u64,
    /// Exact where nothing waits; behind where something does.
    done: Arc<AtomicU64>,
}

impl Handed {
    pub fn add(&mut self, calls: usize) {
        self.calls += calls as u64;
    }

    #[inline]
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.calls
    }
}

/// What all network threads have handed over of a group, as the thread that forwards has heard.
#[derive(Default)]
pub struct HandedByAll(Vec<Handed>);

impl HandedByAll {
    pub fn heard(&mut self, handed: Handed) {
        // There are as many as network threads.
        match self.0.iter_mut().find(|known| Arc::ptr_eq(&known.done, &handed.done)) {
            Some(known) => *known = handed,
            None => self.0.push(handed),
        }
    }

    /// Nothing of it waits any more. Returns whether that is new.
    pub fn done(&self) -> bool {
        let mut news = false;
        for handed in &self.0 {
            news |= handed.done.swap(handed.calls, Ordering::AcqRel) != handed.calls;
        }
        news
    }
}
