//! Channels whose receiver goes to sleep at once.
//!
//! Who waits in a channel of `crossbeam` looks again for a while first, and yields its processor in
//! between: some microseconds each time, and behind a yield the scheduler lets every other thread
//! go first that can run. A thread that is given something thousands of times a second, each time
//! after a disk or a network, never finds it within that while. It waits for a [`Bell`], which
//! those who send ring.

use crossbeam_channel::{Receiver, RecvTimeoutError, SendError, Sender, TryRecvError, unbounded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Of one thread that waits.
#[derive(Default)]
pub struct Bell {
    sleeps: AtomicBool,
    /// Held by who waits, but while it sleeps; and by who wakes it.
    lock: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    /// To be called behind what there is to do then.
    #[inline]
    pub fn ring(&self) {
        if self.sleeps.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst) {
            // It looks whether it is to sleep under the lock: now it sleeps, or will not.
            drop(self.lock.lock().expect("nobody panics under the lock of a bell"));
            self.rung.notify_one();
        }
    }

    /// Sleeps until the bell rings, or for so long, unless there is something to do.
    pub fn wait(&self, time_max: Option<Duration>, has_work: impl Fn() -> bool) {
        let until = time_max.and_then(|time| Instant::now().checked_add(time));
        // Whoever sends puts, then looks at this; here it is the other way round, so that one of
        // the two sees the other.
        self.sleeps.store(true, Ordering::SeqCst);
        if has_work() {
            self.sleeps.store(false, Ordering::SeqCst);
            return;
        }
        let mut guard = self.lock.lock().expect("nobody panics under the lock of a bell");
        while self.sleeps.load(Ordering::SeqCst) {
            let Some(until) = until else {
                guard = self.rung.wait(guard).expect("nobody panics under the lock of a bell");
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.sleeps.store(false, Ordering::SeqCst);
                break;
            }
            guard = self.rung.wait_timeout(guard, left).expect("nobody panics under the lock of a bell").0;
        }
    }
}

/// A way into a channel that rings the bell of its receiver. Clones are the same.
pub struct Ringing<T> {
    sender: Sender<T>,
    bell: Arc<Bell>,
}

impl<T> Clone for Ringing<T> {
    fn clone(&self) -> Ringing<T> {
        Ringing { sender: self.sender.clone(), bell: Arc::clone(&self.bell) }
    }
}

/// A channel with a bell of its own.
pub fn ringing<T>() -> (Ringing<T>, Receiver<T>) {
    ringing_at(&Arc::default())
}

/// A channel to a thread that waits for others, too.
pub fn ringing_at<T>(bell: &Arc<Bell>) -> (Ringing<T>, Receiver<T>) {
    let (sender, receiver) = unbounded();
    (Ringing { sender, bell: Arc::clone(bell) }, receiver)
}

impl<T> Ringing<T> {
    pub fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// # Errors
    /// Nobody receives any more.
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        self.sender.send(item)?;
        self.bell.ring();
        Ok(())
    }
}

/// The next item within `time_max`. Where that is zero the channel is asked once: its own
/// `recv_timeout` yields the processor several times before it gives up, and a thread of low
/// priority that has more to do gets it back after a tenth of a second on a busy machine.
///
/// # Errors
/// As those of `recv_timeout`.
pub fn receive<T>(inbox: &Receiver<T>, time_max: Duration) -> Result<T, RecvTimeoutError> {
    if !time_max.is_zero() {
        return inbox.recv_timeout(time_max);
    }
    inbox.try_recv().map_err(|error| match error {
        TryRecvError::Empty => RecvTimeoutError::Timeout,
        TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_sent_is_slept_through() {
        const EACH: u64 = if cfg!(miri) { 50 } else { 100_000 };
        let (first, from_first) = ringing::<u64>();
        let (second, from_second) = ringing_at::<u64>(first.bell());
        let bell = Arc::clone(first.bell());
        let senders = [first, second].map(|way| {
            std::thread::spawn(move || (0..EACH).for_each(|number| way.send(number).expect("the test receives")))
        });
        let mut sum = 0;
        let mut count = 0;
        while count < 2 * EACH {
            bell.wait(None, || !from_first.is_empty() || !from_second.is_empty());
            for number in from_first.try_iter().chain(from_second.try_iter()) {
                (sum, count) = (sum + number, count + 1);
            }
        }
        senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
        assert_eq!(sum, EACH * (EACH - 1));
    }

    #[test]
    fn who_waits_does_not_wait_for_longer_than_asked_and_sending_to_nobody_fails() {
        let (way, received) = ringing::<u8>();
        way.bell().wait(Some(Duration::from_millis(1)), || !received.is_empty());
        drop(received);
        assert_eq!(way.send(7), Err(SendError(7)));
    }
}
