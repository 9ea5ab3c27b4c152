//! The thread that touches page memory before it is needed.

use crossbeam_channel::{Receiver, TryRecvError, bounded};
use ferrite_base::{limits, memory};
use ferrite_io::threads::{ThreadError, spawn};
use ferrite_io::{ThreadNumber, Yielding, lower_priority};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub struct PagePreallocator {
    stop: Arc<AtomicBool>,
    thread: ThreadNumber,
    /// Disconnected when the thread has ended.
    ended: Receiver<ThreadNumber>,
}

impl PagePreallocator {
    pub fn start(extents: usize) -> Result<PagePreallocator, ThreadError> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let (tell, ended) = bounded(1);
        spawn("memory", move || {
            let _ = tell.send(ThreadNumber::here());
            lower_priority(Yielding::Most);
            memory::keep_ahead(extents, limits::EXTENTS_AHEAD, &told);
        })?;
        let thread = ended.recv().expect("a thread tells its number first");
        Ok(PagePreallocator { stop, thread, ended })
    }

    /// It is to end. Nothing waits for what it does.
    pub fn ends(&self) {
        self.stop.store(true, Ordering::Release);
        memory::wake_preallocator();
        if matches!(self.ended.try_recv(), Err(TryRecvError::Empty)) {
            self.thread.restore_priority();
        }
    }
}

/// So that a start that fails leaves no thread behind; but where others take all processors, its
/// end may take longer than anything should wait for.
impl Drop for PagePreallocator {
    fn drop(&mut self) {
        self.ends();
        let _ = self.ended.recv_timeout(limits::STOP_GRACE);
    }
}
