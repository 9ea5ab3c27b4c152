//! The snapshot that a server with durability memory takes when it ends, as the thread sees it that
//! waits for that end.

use std::sync::atomic::{AtomicU8, Ordering};

/// Whether what was acknowledged is on the disk when the server has ended.
#[derive(Debug, Default)]
pub struct LastSnapshot(AtomicU8);

/// 0: the log has everything, and there is no such snapshot.
const TO_COME: u8 = 1;
const BEING_WRITTEN: u8 = 2;
/// Or nothing has changed since the one before.
const COMPLETE: u8 = 3;

impl LastSnapshot {
    /// Of a server whose changes no log has.
    pub fn wanted() -> LastSnapshot {
        LastSnapshot(AtomicU8::new(TO_COME))
    }

    pub fn begin(&self) {
        self.0.store(BEING_WRITTEN, Ordering::SeqCst);
    }

    pub fn end(&self, complete: bool) {
        self.0.store(if complete { COMPLETE } else { TO_COME }, Ordering::SeqCst);
    }

    pub fn is_being_written(&self) -> bool {
        self.0.load(Ordering::SeqCst) == BEING_WRITTEN
    }

    /// Something that was acknowledged is in memory only.
    pub fn is_missing(&self) -> bool {
        matches!(self.0.load(Ordering::SeqCst), TO_COME | BEING_WRITTEN)
    }
}
