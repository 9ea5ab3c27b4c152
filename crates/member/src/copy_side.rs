//! What the snapshot thread has to know about a group of which the node may have a copy. The node's
//! thread and the group's transfer thread write it.

use ferrite_cluster::GroupHandle;
use ferrite_partition::applier::Intake;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub struct CopySide {
    pub group: GroupHandle,
    /// That of the last applier that has begun.
    intake: Mutex<Option<Intake>>,
    /// Another node's snapshot is on its way here.
    comes: AtomicBool,
}

impl CopySide {
    pub fn new(group: GroupHandle) -> Arc<CopySide> {
        let intake = Mutex::default();
        let comes = AtomicBool::new(false);
        Arc::new(CopySide { group, intake, comes })
    }

    /// The way to the copy's applier. None: the node is not a copy, or its data is about to be
    /// replaced. A member's data is not: what remains of a snapshot that it does not need is
    /// nothing.
    pub fn intake(&self) -> Option<Intake> {
        if self.comes.load(Ordering::Relaxed) && !self.group.is_member() {
            return None;
        }
        let intake = self.intake.lock().expect("no panic with the intake").clone();
        intake.filter(|intake| !intake.has_ended())
    }

    pub(super) fn begun(&self, intake: &Intake) {
        *self.intake.lock().expect("no panic with the intake") = Some(intake.clone());
    }

    pub(super) fn set_comes(&self, comes: bool) {
        self.comes.store(comes, Ordering::Relaxed);
    }
}
