//! Until when reads may leave without asking the other members (docs/replication.md, sections 6 and
//! 8): written by the node, read by the code that releases answers.

use ferrite_io::Clock;
use ferrite_meta::CUT_OFF_NANOS;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// While it holds, no other process leads what this one leads in the metadata that the node has
/// applied. Clones are the same.
#[derive(Clone)]
pub struct Lease(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    /// By the boot-time clock; 0: there is none.
    until: AtomicU64,
    /// Until when a leader may commit what the others could do without (section 8).
    leads_until: AtomicU64,
}

impl Lease {
    /// A lease that does not hold. `clock`: the one whose boot time goes to the metadata.
    pub fn new(clock: Arc<dyn Clock>) -> Lease {
        Lease(Arc::new(Shared { clock, until: AtomicU64::new(0), leads_until: AtomicU64::new(0) }))
    }

    /// To be called after a read has run.
    pub fn holds(&self) -> bool {
        // In this order: a thread that stands still in between sees a later clock.
        let until = self.0.until.load(Ordering::Acquire);
        self.0.clock.boottime_nanos() < until
    }

    /// Whether no operator can have accepted the loss of what this node leads: to be called when
    /// what is to be committed is durable.
    pub fn may_lead(&self) -> bool {
        let until = self.0.leads_until.load(Ordering::Acquire);
        self.0.clock.boottime_nanos() < until
    }

    /// By the boot-time clock; 0: it has never held, or never will again.
    pub(crate) fn until(&self) -> u64 {
        self.0.until.load(Ordering::Acquire)
    }

    /// Until then, of the boot-time clock in nanoseconds: what it was granted for is applied.
    pub fn extend(&self, until: u64) {
        self.0.until.fetch_max(until, Ordering::AcqRel);
        self.0.leads_until.fetch_max(until.saturating_add(CUT_OFF_NANOS), Ordering::AcqRel);
    }

    /// No read relies on it any more. The node keeps its lead until the others know.
    pub(crate) fn end(&self) {
        self.0.until.store(0, Ordering::Release);
    }
}
