//! What is to be done after all that several threads have taken so far: each drops it when it comes
//! to it. A leaf.

use std::sync::{Arc, Mutex, PoisonError};

type Then = Box<dyn FnOnce() + Send>;

/// Done when the last thread that has it drops it.
pub struct Behind(Mutex<Option<Then>>);

impl Behind {
    pub fn new(then: impl FnOnce() + Send + 'static) -> Arc<Behind> {
        Arc::new(Behind(Mutex::new(Some(Box::new(then)))))
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        if let Some(then) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            then();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn it_is_done_once_by_the_last_that_lets_go() {
        let done = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&done);
        let one = Behind::new(move || {
            counted.fetch_add(1, Relaxed);
        });
        let forward = crate::forward::connect().0;
        let other = Arc::clone(&one);
        drop(one);
        assert_eq!(done.load(Relaxed), 0, "the other has it yet");
        // The thread has ended: what is sent to it is dropped.
        forward.behind(other);
        assert_eq!(done.load(Relaxed), 1);
    }
}
